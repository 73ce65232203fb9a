"""The agent with its pending decisions and sessions, as a function of its events.

Everything that happens is an event with a time. Events are applied in order, and nothing else
changes the learner. So the log of events determines the learner: replayed from the beginning, or
from a snapshot, it gives the same agent bit for bit. An event that is rejected (a typed error)
changes nothing.

    decide     state, session, available actions, or an action that was already taken
    feedback   decision, reward, next state
    history    steps from another source (a warm start)
    mode       who chooses: the agent, a fixed policy, or both (a shadow run)
    add_state  one more state, and its actions
    add_action one more action, and the states that have it
    restart    forget everything
    settings   new limits
    plan       planning starts in the background, from what is known now
    swap       ... and its policy is followed from now on
    cancel     ... or it is abandoned

Time is the sum of the events' `elapsed`: seconds during which some process had the database open.
The wall clock (`time`) is only shown, because it may jump.

Decisions are numbered. After a backup is restored, a number may be assigned a second time. So each
process that decides starts an *epoch* with a random name, stored in its first `decide`, and the ids
of decisions depend on it.

A decision expires when it has waited for feedback longer than `expiry` seconds, or when it is the
oldest of more than `most_pending`. Its feedback is then rejected. Feedback may arrive in any order,
and is learned from in order of arrival. The state of a session is that of its latest decision, or
the next state of its feedback; late feedback for an earlier decision does not change it.
"""

from __future__ import annotations

import copy
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from switchmdp.agents.policy_agent import Choice, PolicyAgent, follows_policy
from switchmdp.agents.protocol import check_observe
from switchmdp.errors import (
    ConflictingFeedback,
    ContractViolation,
    ForgottenDecision,
    InvalidAction,
    InvalidMDP,
    InvalidParameter,
    InvalidState,
    UnknownDecision,
)
from switchmdp.mdp.pairs import find_pair
from switchmdp.online.monitoring import THRESHOLD, ChangeSignal, RewardHistory, Signal
from switchmdp.validation import check_index, check_integer, check_positive

MODES = ("agent", "fixed", "shadow")
MOST_ALERTS = 100
MOST_ANSWERED = 20_000  # decisions for which repeated feedback is recognised
REPEATED = (False, None)  # the outcome of repeated feedback, which changes nothing
REJECTIONS = (  # errors that leave the learner unchanged
    InvalidParameter, InvalidMDP, UnknownDecision, ForgottenDecision, ConflictingFeedback,
)  # fmt: skip

Step = tuple[int, int, float, int]  # state, action, reward, next state


class Outcome(NamedTuple):
    """The outcome of a `decide` event."""

    decision: int
    state: int
    action: int
    would: int | None


class Pending(NamedTuple):
    """A decision that waits for its feedback."""

    at: float  # in the time that expiry uses
    session: str
    state: int
    action: int
    would: int | None  # the agent's own choice, if the action was not chosen by it


def choose(agent: Any, state: int, available: Sequence[int] | None, *, replan: bool) -> Choice:
    """The agent's action among the available ones (None: all). Plans first if due and `replan`."""
    if follows_policy(agent):
        return agent.decide(state, available, replan=replan)
    action = agent.act(state)
    if action not in agent.pairs.at(state):
        raise ContractViolation(f"in state {state} the agent chose {action!r}")
    if available is not None and action not in available:
        action = min(available)
    return Choice(int(action), plan_due=False, replaced=False)


def credit(agent: Any, state: int, action: int, reward: float, next_state: int) -> bool:
    """Teach the agent a step. True if it restarted: a plan in progress is then void."""
    if not follows_policy(agent):
        agent.observe(state, action, reward, next_state)
        return False
    return agent.credit(state, action, reward, next_state)


class Learner:
    """An agent with its pending decisions, sessions and monitoring."""

    def __init__(self, agent: Any, settings: Settings) -> None:
        self.agent, self.settings = agent, settings
        self.at = 0.0  # the wall clock at the last event
        self.now = 0.0  # the time that expiry uses
        self.epochs: list[tuple[int, str]] = []  # first decision, name
        self.decided = self.counted = self.expired = 0
        self.agreed = self.shadowed = 0
        self.pending: OrderedDict[int, Pending] = OrderedDict()
        self.answered: OrderedDict[int, tuple[float, int]] = OrderedDict()
        self.sessions: OrderedDict[str, tuple[int, int]] = OrderedDict()  # state, decision
        self.mode = "agent"
        self.policy: list[int] | None = None
        self.planning: Any = None  # the copy that plans in the background
        self.wants_plan = False
        self.signal = ChangeSignal(settings.signal_window, settings.signal_delta)
        self.alarmed = False
        self.alerts: list[Signal] = []
        self.rewards = RewardHistory()
        self.last_step = np.zeros((agent.n_states, agent.n_actions), np.int64)
        self.last_at = np.zeros((agent.n_states, agent.n_actions))

    def __repr__(self) -> str:
        agent = self.agent
        return (
            f"Learner({type(agent).__name__}, {agent.n_states} states, {agent.n_actions} actions, "
            f"mode {self.mode!r}, {self.decided} decisions, {len(self.pending)} pending)"
        )

    def apply(self, event: Mapping[str, Any]) -> Any:
        """Apply an event and return its outcome. After a typed error nothing has changed."""
        outcome = getattr(self, f"_{event['event']}")(event)
        if outcome != REPEATED:
            self._advance(event)
        return outcome

    def _time(self, event: Mapping[str, Any]) -> float:
        """The time of an event, in the time that expiry uses."""
        return round(self.now + float(event["elapsed"]), 3)

    def epoch_of(self, decision: int | None = None) -> str:
        """The epoch of a decision, or the latest; empty in events of earlier versions."""
        epochs = self.epochs
        until = len(epochs)
        if decision is not None:
            until = bisect_right(epochs, decision, key=lambda epoch: epoch[0])
        return epochs[until - 1][1] if until else ""

    def _advance(self, event: Mapping[str, Any]) -> None:
        """Advance time, and expire decisions that have waited too long."""
        self.now, self.at = self._time(event), float(event["time"])
        while self.pending:
            oldest = next(iter(self.pending.values()))
            late = self.now - oldest.at > self.settings.expiry
            if not late and len(self.pending) <= self.settings.most_pending:
                return
            self.pending.popitem(last=False)
            self.expired += 1

    def _decide(self, event: Mapping[str, Any]) -> Outcome:
        agent, session = self.agent, checked_session(event.get("session", ""))
        state = self._state(event.get("state"), session)
        available = checked_available(agent, state, event.get("available"))
        taken = event.get("taken")
        if taken is not None:
            taken = checked_action(agent, state, taken, "taken")
        elif self.mode != "agent" and self.policy is not None:
            taken = self.policy[state]
            if available is not None and taken not in available:
                taken = min(available)
        would, due = None, False
        if taken is None or self.mode == "shadow" or event.get("taken") is not None:
            inline = self.settings.replan == "inline"
            would, due, replaced = choose(agent, state, available, replan=inline)
            if replaced:
                self.planning = None
        self.wants_plan = due and self.planning is None
        self.decided += 1
        if "epoch" in event:
            self.epochs.append((self.decided, event["epoch"]))
        action = would if taken is None else taken
        would = None if taken is None else would
        assert action is not None
        if follows_policy(agent):
            agent.spend_visit(state, action)
        entry = Pending(self._time(event), session, state, action, would)
        self.pending[self.decided] = entry
        self._keep_session(session, state, self.decided)
        return Outcome(self.decided, state, action, would)

    def _state(self, state: Any, session: str) -> int:
        if state is None:
            if session not in self.sessions:
                raise InvalidState("state", None, "an integer: this session has no state yet")
            return self.sessions[session][0]
        return check_index(state, self.agent.n_states, "state", InvalidState)

    def _keep_session(self, session: str, state: int, decision: int) -> None:
        if session in self.sessions and self.sessions[session][1] > decision:
            return
        self.sessions[session] = state, decision
        self.sessions.move_to_end(session)
        while len(self.sessions) > self.settings.most_sessions:
            self.sessions.popitem(last=False)

    def _is_known(self, number: int, reward: Any, next_state: Any, now: float) -> bool:
        """Whether the same feedback was given before. Raises a typed error if it is rejected."""
        if not 1 <= number <= self.decided:
            raise UnknownDecision(f"there is no decision {number}")
        if number in self.answered:
            if self.answered[number] == (reward, next_state):
                return True
            raise ConflictingFeedback(f"decision {number} already has different feedback")
        entry = self.pending.get(number)
        if entry is None or now - entry.at > self.settings.expiry:
            raise ForgottenDecision(f"decision {number} has expired, or got its feedback long ago")
        check_observe(self.agent, entry.state, entry.action, reward, next_state)
        return False

    def _feedback(self, event: Mapping[str, Any]) -> tuple[bool, Signal | None]:
        """Whether the feedback was counted, and the alert that it raised."""
        number, reward, next_state = event["decision"], event["reward"], event["next_state"]
        if self._is_known(number, reward, next_state, self._time(event)):
            return REPEATED
        entry, reward = self.pending.pop(number), float(reward)
        alert = self._learn(entry.state, entry.action, reward, next_state, float(event["time"]))
        self.answered[number] = (reward, next_state)
        while len(self.answered) > min(self.settings.most_pending, MOST_ANSWERED):
            self.answered.popitem(last=False)
        if entry.would is not None:
            self.shadowed += 1
            self.agreed += entry.would == entry.action
        self._keep_session(entry.session, next_state, number)
        return True, alert

    def _learn(
        self, state: int, action: int, reward: float, next_state: int, at: float
    ) -> Signal | None:
        """Teach the agent a step, and update the change signal."""
        agent = self.agent
        if credit(agent, state, action, reward, next_state):
            self.planning = None
        self.counted += 1
        self.rewards.add(reward, at)
        self.last_step[state, action], self.last_at[state, action] = self.counted, at
        if not self.signal.add(state, action, reward, next_state):
            return None
        signal = self.signal.compare(agent.n_states, agent.n_actions, len(agent.actions))
        before, self.alarmed = self.alarmed, signal is not None and signal.strength >= THRESHOLD
        if signal is None or before or not self.alarmed:
            return None
        self.alerts = [*self.alerts[1 - MOST_ALERTS :], signal]
        return signal

    def _history(self, event: Mapping[str, Any]) -> int:
        """Returns the number of steps learned from."""
        rows = checked_rows(self.agent, event["rows"])
        for row in rows:
            self._learn(*row, float(event["time"]))
        return len(rows)

    def _mode(self, event: Mapping[str, Any]) -> None:
        mode = event["mode"]
        if not isinstance(mode, str) or mode not in MODES:
            raise InvalidParameter("mode", mode, f"one of {', '.join(MODES)}")
        fixed = None if mode == "agent" else checked_policy(self.agent, event.get("policy"))
        self.mode, self.policy = mode, fixed

    def _add_state(self, event: Mapping[str, Any]) -> int:
        """Returns the number of the new state."""
        agent = self.agent
        row = checked_mask("available", event.get("available"), agent.n_actions, InvalidAction)
        return self._grow(np.vstack([agent.pairs.available, row[None, :]]), agent.n_states)

    def _add_action(self, event: Mapping[str, Any]) -> int:
        """Returns the number of the new action."""
        agent = self.agent
        column = checked_mask("states", event.get("states"), agent.n_states, InvalidState)
        return self._grow(np.hstack([agent.pairs.available, column[:, None]]), agent.n_actions)

    def _grow(self, available: NDArray[np.bool_], new: int) -> int:
        agent, before = self.agent, (self.agent.n_states, self.agent.n_actions)
        if not hasattr(agent, "grow"):
            raise InvalidParameter("agent", agent, "an agent that can grow")
        agent.grow(*available.shape, available)
        self.planning = None
        for name in ("last_step", "last_at"):
            old = getattr(self, name)
            grown = np.zeros(available.shape, old.dtype)
            grown[: before[0], : before[1]] = old
            setattr(self, name, grown)
        if self.policy is not None:
            first = [agent.pairs.at(s)[0] for s in range(before[0], agent.n_states)]
            self.policy = self.policy + first
        return int(new)

    def _restart(self, event: Mapping[str, Any]) -> None:
        if not isinstance(self.agent, PolicyAgent):
            raise InvalidParameter("agent", self.agent, "an agent that learns in episodes")
        self.agent.start_over()
        self.planning = None

    def _settings(self, event: Mapping[str, Any]) -> None:
        settings, signal = Settings(**event["settings"]), self.signal
        if (settings.signal_window, settings.signal_delta) != (signal.window, signal.delta):
            self.signal = ChangeSignal(
                settings.signal_window, settings.signal_delta, since=self.counted
            )
        self.settings = settings

    def _plan(self, event: Mapping[str, Any]) -> None:
        self.planning, self.wants_plan = copy.deepcopy(self.agent), False

    def _swap(self, event: Mapping[str, Any]) -> None:
        if self.planning.episode_count == self.agent.episode_count:  # replay
            self.planning.plan()
        self.agent.adopt(self.planning)
        self.planning = None

    def _cancel(self, event: Mapping[str, Any]) -> None:
        self.planning = None


REPLAN = ("inline", "background")
MOST = 10**7


@dataclass(frozen=True)
class Settings:
    """Limits, stored with the model. They can be changed whenever it is opened."""

    expiry: float = 3600.0
    most_pending: int = 100_000
    most_sessions: int = 100_000
    replan: str = "inline"
    signal_window: int = 1000
    signal_delta: float = 0.01


def checked_settings(settings: Settings) -> Settings:
    """Validated settings, or a typed error.

    >>> checked_settings(Settings(most_pending=0))
    Traceback (most recent call last):
        ...
    switchmdp.errors.InvalidParameter: most_pending must be an integer from 1 to 10000000, got 0
    """
    replan = settings.replan
    if not isinstance(replan, str) or replan not in REPLAN:
        raise InvalidParameter("replan", replan, f"one of {', '.join(REPLAN)}")
    signal = ChangeSignal(settings.signal_window, settings.signal_delta)
    return Settings(
        expiry=check_positive("expiry", settings.expiry),
        most_pending=check_integer("most_pending", settings.most_pending, 1, MOST),
        most_sessions=check_integer("most_sessions", settings.most_sessions, 1, MOST),
        replan=replan,
        signal_window=signal.window,
        signal_delta=signal.delta,
    )


LONGEST_SESSION = 200


def checked_session(session: Any) -> str:
    """Check the key of a session."""
    if not isinstance(session, str) or len(session) > LONGEST_SESSION:
        allowed = f"a string of at most {LONGEST_SESSION} characters"
        raise InvalidParameter("session", session, allowed)
    return session


def checked_action(agent: Any, state: int, action: Any, field: str) -> int:
    """Check that the action exists in this state."""
    action = check_index(action, agent.n_actions, field, InvalidAction)
    if find_pair(agent.starts, agent.actions, state, action) < 0:
        raise InvalidAction(field, action, f"one of {agent.pairs.at(state)}")
    return int(action)


def checked_available(agent: Any, state: int, available: Any) -> list[int] | None:
    """Check the list of available actions; None stands for all."""
    if available is None:
        return None
    if not isinstance(available, (list, tuple)) or not available:
        raise InvalidParameter("available", available, "a list of at least one action")
    return [checked_action(agent, state, action, "available") for action in available]


def checked_policy(agent: Any, policy: Any) -> list[int]:
    """Check a policy: an action for each state."""
    if not isinstance(policy, (list, tuple)) or len(policy) != agent.n_states:
        raise InvalidParameter("policy", policy, f"a list of {agent.n_states} actions")
    return [checked_action(agent, s, a, f"policy[{s}]") for s, a in enumerate(policy)]


def checked_rows(agent: Any, rows: Any) -> list[Step]:
    """Check steps from another source."""
    for row in rows:
        if not isinstance(row, (list, tuple)) or len(row) != 4:
            raise InvalidParameter("rows", row, "a row (state, action, reward, next state)")
    return [check_observe(agent, *row) for row in rows]


def checked_mask(
    field: str, chosen: Any, size: int, error: type[InvalidParameter]
) -> NDArray[np.bool_]:
    """A mask with these indices set; None sets all.

    >>> checked_mask("available", [1], 3, InvalidAction).tolist()
    [False, True, False]
    """
    mask = np.full(size, chosen is None)
    if chosen is not None:
        if not isinstance(chosen, list):
            raise InvalidParameter(field, chosen, f"a list of integers from 0 to {size - 1}")
        for number in chosen:
            mask[check_index(number, size, field, error)] = True
    return mask
