"""The agent with its pending decisions and sessions, as a function of its events.

Every change is an event with a time. Events are applied in order, and nothing else changes the
learner. So the log of events determines the learner: replayed from the beginning, or
from a snapshot, it gives the same agent bit for bit. An event that is rejected (a typed error)
changes nothing.

    decide     state, session, available actions, or an action that was already taken
    feedback   decision, reward, next state
    history    steps from another source (a warm start)
    mode       who chooses: the agent, a fixed policy, or both (a shadow run)
    add_state  one more state, and its actions
    add_action one more action, and the states that have it
    arms       the arms of a split test (see `arms`)
    restart    forget everything
    settings   new limits
    plan       planning starts in the background, with the present data
    swap       ... it is complete, and its policy is followed from now on
    cancel     ... it is abandoned

Time is the sum of the events' `elapsed`: seconds during which some process had the database open.
The wall clock (`time`) is only shown, because it may jump.

Decisions are numbered. After a backup is restored, a number may be assigned a second time. So each
process that decides starts an *epoch* with a random name, stored in its first `decide`, and the ids
of decisions depend on it.

A decision expires when it has waited for feedback longer than `expiry` seconds, or when it is the
oldest of more than `most_pending`. Its feedback is then rejected. Feedback may arrive in any order,
and is learned from in order of arrival. The state of a session is that of its latest decision, or
the next state of its feedback; late feedback for an earlier decision does not change it.

States and actions are numbers here, also in events. They may have names, which callers can use
instead (`Names`). An event may have an idempotency key: the outcome of the latest such events is
remembered, so that a repeated request gets the same answer.
"""

from __future__ import annotations

import copy
import json
import zlib
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from switchmdp.agents import Episodic
from switchmdp.agents.policy_agent import Choice, PolicyAgent, follows_policy
from switchmdp.agents.protocol import check_observe
from switchmdp.display import counted
from switchmdp.errors import (
    ConflictingFeedback,
    ContractViolation,
    ForgottenDecision,
    InvalidAction,
    InvalidMDP,
    InvalidParameter,
    InvalidState,
    RepeatedKey,
    UnknownDecision,
)
from switchmdp.mdp.pairs import find_pair
from switchmdp.online.arms import MAIN, Arm, assigned, new_arms
from switchmdp.online.monitoring import THRESHOLD, ChangeSignal, RewardHistory, Signal
from switchmdp.validation import check_index, check_integer, check_positive

MODES = ("agent", "fixed", "shadow")
MOST_ALERTS = MOST_RESTARTS = 100
MOST_COMPARED = 100  # names that are compared with a wrong one
MOST_ANSWERED = 20_000  # decisions for which repeated feedback is recognised
MOST_KEYS = 20_000  # idempotency keys that are remembered
REPEATED = (False, None)  # the outcome of repeated feedback, which changes nothing
REJECTIONS = (  # errors that leave the learner unchanged
    InvalidParameter, InvalidMDP, UnknownDecision, ForgottenDecision, ConflictingFeedback,
    RepeatedKey,
)  # fmt: skip

Step = tuple[int, int, float, int]  # state, action, reward, next state


class Outcome(NamedTuple):
    """The outcome of a `decide` event."""

    decision: int
    state: int
    action: int
    would: int | None
    arm: str | None = None  # None: there is no split test
    probability: float | None = None  # of this arm


class Pending(NamedTuple):
    """A decision that waits for its feedback."""

    at: float  # in the time that expiry uses
    session: str
    state: int
    action: int
    would: int | None  # the agent's own choice, if the action was not chosen by it
    arm: str = MAIN


class Restart(NamedTuple):
    """The agent has forgotten what it had learned, or a part of it."""

    step: int  # the number of feedback events so far
    time: float  # the wall clock, which is only shown
    kept: int  # the data of so many latest steps of the agent were kept
    asked: bool  # by the operator; otherwise the agent's own rule


class Names:
    """The names of the states, or of the actions; not all of them need to have one."""

    def __init__(self, what: str, names: Sequence[str | None] = ()) -> None:
        self.what, self.all = what, list(names)
        self.numbers = {name: number for number, name in enumerate(names) if name is not None}

    def add(self, names: Sequence[str | None], first: int) -> None:
        """Add names for the numbers from `first` on; those before may have none."""
        self.all += [None] * (first - len(self.all))
        self.numbers |= {n: i for i, n in enumerate(names, first) if n is not None}
        self.all += names

    def of(self, number: int) -> str | None:
        """The name of a state or action."""
        return self.all[number] if number < len(self.all) else None

    def shown(self, number: int) -> str:
        """The text for a state or action in a message.

        >>> Names("state", ["new"]).shown(0), Names("state").shown(0)
        ("state 'new'", 'state 0')
        """
        name = self.of(number)
        return f"{self.what} {number if name is None else repr(name)}"

    def number(self, value: Any, field: str = "") -> Any:
        """The number of a named state or action; other values are returned as they are.

        `field`: the name of the value in an error.
        """
        if not isinstance(value, str):
            return value
        if value not in self.numbers:
            raise NAME_ERRORS[self.what](field or self.what, value, self._allowed(value))
        return self.numbers[value]

    def _allowed(self, value: str) -> str:
        if not self.numbers:
            return f"a number, because this model has no names for {self.what}s"
        names = list(self.numbers)
        close = get_close_matches(value, names, 1) if len(names) <= MOST_COMPARED else []
        if close:
            return f"one of the {self.what}s (did you mean {close[0]!r}?)"
        more = f"one of {', '.join(map(repr, names[:5]))}{', ...' if len(names) > 5 else ''}"
        if self.what == "action":
            return more
        return f"{more} ({DISCRETISE})"


NAME_ERRORS: dict[str, type[InvalidParameter]] = {"state": InvalidState, "action": InvalidAction}
DISCRETISE = (
    "map your context to a few dozen states, for example the page type times new or returning "
    "visitor; or add the state with POST .../states"
)


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
        self.keys: OrderedDict[str, tuple[int, Any]] = OrderedDict()  # checksum, outcome
        self.states, self.actions = Names("state"), Names("action")
        self.arms = {MAIN: Arm(MAIN, 1.0, agent.n_actions)}
        self.salt = ""  # of the hash that assigns sessions to arms
        self.has_totals = True  # snapshots of format 1 have no totals of arms
        self.mode = "agent"
        self.policy: list[int] | None = None
        self.planning: Any = None  # the copy that plans in the background
        self.wants_plan = False
        self.signal = ChangeSignal(settings.signal_window, settings.signal_delta)
        self.alarmed = False
        self.alerts: list[Signal] = []
        self.changes = 0  # detected so far
        self.restarts: list[Restart] = []  # the latest ones
        self.knows_restarts = True  # snapshots of earlier versions have none
        self.rewards = RewardHistory()
        self.last_step = np.zeros((agent.n_states, agent.n_actions), np.int64)
        self.last_at = np.zeros((agent.n_states, agent.n_actions))

    def __repr__(self) -> str:
        agent = self.agent
        return (
            f"Learner({type(agent).__name__}, {counted(agent.n_states, 'state')}, "
            f"{counted(agent.n_actions, 'action')}, mode {self.mode!r}, "
            f"{counted(self.decided, 'decision')}, {len(self.pending)} pending)"
        )

    def apply(self, event: Mapping[str, Any]) -> Any:
        """Apply an event and return its outcome. After a typed error nothing has changed."""
        outcome = getattr(self, f"_{event['event']}")(event)
        if outcome != REPEATED:
            self._advance(event)
            if "key" in event:
                self.keys[event["key"]] = request_checksum(event), outcome
                while len(self.keys) > MOST_KEYS:
                    self.keys.popitem(last=False)
        return outcome

    def outcome_of(self, event: Mapping[str, Any]) -> Any:
        """The outcome of an earlier event with the same key; None if there is none."""
        if event.get("key") not in self.keys:
            return None
        before, outcome = self.keys[event["key"]]
        other_state = isinstance(outcome, Outcome) and event.get("state") not in (
            None, outcome.state,
        )  # fmt: skip
        if before != request_checksum(event) or other_state:
            raise RepeatedKey(f"the idempotency key {event['key']!r} belongs to another request")
        return outcome

    def _time(self, event: Mapping[str, Any]) -> float:
        """The time of an event, in the time that expiry uses."""
        return round(self.now + float(event["elapsed"]), 3)

    def epoch_of(self, decision: int | None = None) -> str:
        """The epoch of a decision, or the latest; empty in events of earlier versions."""
        epochs = self.epochs
        until = len(epochs)
        if decision is not None and until and decision < epochs[-1][0]:
            until = bisect_right(epochs, decision, key=lambda epoch: epoch[0])
        return epochs[until - 1][1] if until else ""

    def state_of(self, decision: int) -> int:
        """The state of a decision that waits, or the next state that was reported for it."""
        if decision in self.answered:
            return self.answered[decision][1]
        entry = self.pending.get(decision)
        return 0 if entry is None else entry.state  # its feedback is rejected anyway

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
        arm = self._arm(event, session)
        if arm.name == MAIN:
            action, would = self._main_choice(state, available, taken, float(event["time"]))
        else:
            action, would = self._choice_of(arm, state, available), None
        self.decided += 1
        if "epoch" in event:
            self.epochs.append((self.decided, event["epoch"]))
        arm.add_decision(action)
        deciding = agent if arm.name == MAIN else arm.agent
        if deciding is not None and follows_policy(deciding):
            deciding.spend_visit(state, action)
        entry = Pending(self._time(event), session, state, action, would, arm.name)
        self.pending[self.decided] = entry
        self._keep_session(session, state, self.decided)
        if len(self.arms) == 1:
            return Outcome(self.decided, state, action, would)
        probability = 1.0 if event.get("taken") is not None else arm.share
        return Outcome(self.decided, state, action, would, arm.name, probability)

    def _arm(self, event: Mapping[str, Any], session: str) -> Arm:
        """The arm that decides: the stored one in a replay."""
        if len(self.arms) == 1 or event.get("taken") is not None:
            return self.arms[MAIN]
        if "arm" in event:
            return self.arms[event["arm"]]
        return assigned(self.arms.values(), self.salt, session or f"#{self.decided + 1}")

    def _choice_of(self, arm: Arm, state: int, available: list[int] | None) -> int:
        """The action of an arm other than `main`."""
        if arm.agent is not None:
            return choose(arm.agent, state, available, replan=True).action
        assert arm.policy is not None
        return _allowed(arm.policy[state], available)

    def _main_choice(
        self, state: int, available: list[int] | None, taken: int | None, at: float
    ) -> tuple[int, int | None]:
        """The action, and the agent's own choice if the action was not chosen by it."""
        elsewhere = taken is not None
        if taken is None and self.mode != "agent" and self.policy is not None:
            taken = _allowed(self.policy[state], available)
        would, due = None, False
        if taken is None or self.mode == "shadow" or elsewhere:
            inline = self.settings.replan == "inline"
            would, due, replaced = choose(self.agent, state, available, replan=inline)
            if replaced:
                self.planning = None
                self._note_restart(at)
        self.wants_plan = due and self.planning is None
        if taken is not None:
            return taken, would
        assert would is not None
        return would, None

    def _state(self, state: Any, session: str) -> int:
        if state is None:
            if session not in self.sessions:
                raise InvalidState("state", None, "set: this session has no state yet")
            return self.sessions[session][0]
        if type(state) is int and state >= self.agent.n_states:
            allowed = f"an integer from 0 to {self.agent.n_states - 1} ({DISCRETISE})"
            raise InvalidState("state", state, allowed)
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
            raise ConflictingFeedback(
                f"decision {number} already has different feedback; the first one counts"
            )
        entry = self.pending.get(number)
        if entry is None or now - entry.at > self.settings.expiry:
            raise ForgottenDecision(f"decision {number} has expired, or got its feedback long ago")
        if (  # the state and the action were checked when the decision was made
            type(reward) is not float or type(next_state) is not int
            or not (0.0 <= reward <= 1.0 and 0 <= next_state < self.agent.n_states)
        ):  # fmt: skip
            check_observe(self.agent, entry.state, entry.action, reward, next_state)
        return False

    def _feedback(self, event: Mapping[str, Any]) -> tuple[bool, Signal | None]:
        """Whether the feedback was counted, and the alert that it raised."""
        number, reward, next_state = event["decision"], event["reward"], event["next_state"]
        if self._is_known(number, reward, next_state, self._time(event)):
            return REPEATED
        entry, reward = self.pending.pop(number), float(reward)
        arm = self.arms.get(entry.arm)
        step = entry.state, entry.action, reward, next_state
        alert = self._learn(step, float(event["time"]), arm)
        if arm is not None:
            arm.add_reward(number, entry.action, reward)
        self.answered[number] = (reward, next_state)
        while len(self.answered) > min(self.settings.most_pending, MOST_ANSWERED):
            self.answered.popitem(last=False)
        if entry.would is not None:
            self.shadowed += 1
            self.agreed += entry.would == entry.action
        self._keep_session(entry.session, next_state, number)
        return True, alert

    def _learn(self, step: Step, at: float, arm: Arm | None) -> Signal | None:
        """Teach the agent of an arm a step, and update the change signal."""
        state, action, reward, next_state = step
        agent, restarted = self.agent, False
        if arm is not None and arm.name == MAIN:
            restarted = credit(agent, *step)
        elif arm is not None and arm.agent is not None:
            credit(arm.agent, *step)
        self.counted += 1
        if restarted:
            self.planning = None
            self._note_restart(at)
        self.rewards.add(reward, at)
        self.last_step[state, action], self.last_at[state, action] = self.counted, at
        if not self.signal.add(state, action, reward, next_state):
            return None
        signal = self.signal.compare(agent.n_states, agent.n_actions, len(agent.actions))
        before, self.alarmed = self.alarmed, signal is not None and signal.strength >= THRESHOLD
        if signal is None or before or not self.alarmed:
            return None
        alert = replace(signal, time=at)
        self.alerts = [*self.alerts[1 - MOST_ALERTS :], alert]
        self.changes += 1
        return alert

    def _note_restart(self, at: float, *, asked: bool = False) -> None:
        """Note that the agent has restarted. Some agents only change their policy instead."""
        agent = self.agent
        if asked or isinstance(agent, Episodic):
            kept = 0 if asked else int(agent.clock - agent.since)
            restart = Restart(self.counted, at, kept, asked)
            self.restarts = [*self.restarts[1 - MOST_RESTARTS :], restart]

    def _history(self, event: Mapping[str, Any]) -> int:
        """Returns the number of steps learned from."""
        rows = checked_rows(self.agent, event["rows"])
        for row in rows:
            self._learn(row, float(event["time"]), self.arms[MAIN])
        return len(rows)

    def _mode(self, event: Mapping[str, Any]) -> None:
        mode = event["mode"]
        if not isinstance(mode, str) or mode not in MODES:
            raise InvalidParameter("mode", mode, f"one of {', '.join(MODES)}")
        fixed = None if mode == "agent" else checked_policy(self.agent, event.get("policy"))
        self.mode, self.policy = mode, fixed

    def _add_state(self, event: Mapping[str, Any]) -> int:
        """Returns the number of the (first) new state."""
        agent, count = self.agent, self._checked_names(event, self.states)
        row = checked_mask("available", event.get("available"), agent.n_actions, InvalidAction)
        new = agent.n_states
        self._grow(np.vstack([agent.pairs.available, *[row[None, :]] * count]))
        self._add_names(self.states, event, new)
        return int(new)

    def _add_action(self, event: Mapping[str, Any]) -> int:
        """Returns the number of the (first) new action."""
        agent, count = self.agent, self._checked_names(event, self.actions)
        column = checked_mask("states", event.get("states"), agent.n_states, InvalidState)
        new = agent.n_actions
        self._grow(np.hstack([agent.pairs.available, *[column[:, None]] * count]))
        self._add_names(self.actions, event, new)
        return int(new)

    def _checked_names(self, event: Mapping[str, Any], known: Names) -> int:
        """The number of new states or actions, after their names were checked."""
        count = check_integer("count", event.get("count", 1), 1, MOST_ADDED)
        names = event.get("names")
        if names is not None:
            checked_names("names", names)
            if len(names) != count or len(set(names)) != count or known.numbers.keys() & {*names}:
                new = f"{counted(count, 'name')} that the model does not have yet"
                raise InvalidParameter("names", names, f"{new}, without duplicates")
        return count

    def _add_names(self, known: Names, event: Mapping[str, Any], new: int) -> None:
        if event.get("names") is not None:
            known.add(event["names"], new)

    def _grow(self, available: NDArray[np.bool_]) -> None:
        agent, before = self.agent, (self.agent.n_states, self.agent.n_actions)
        learning = [agent, *(arm.agent for arm in self.arms.values() if arm.agent is not None)]
        for one in learning:
            if not hasattr(one, "grow"):
                raise InvalidParameter(
                    "agent", one, "an agent that supports new states and actions"
                )
        for one in learning:
            one.grow(*available.shape, available)
        self.planning = None
        for name in ("last_step", "last_at"):
            old = getattr(self, name)
            grown = np.zeros(available.shape, old.dtype)
            grown[: before[0], : before[1]] = old
            setattr(self, name, grown)
        first = [agent.pairs.at(s)[0] for s in range(before[0], agent.n_states)]
        if self.policy is not None:
            self.policy = self.policy + first
        for arm in self.arms.values():
            arm.add_actions(agent.n_actions)
            arm.policy = None if arm.policy is None else arm.policy + first

    def _arms(self, event: Mapping[str, Any]) -> None:
        before, self.arms = self.arms, new_arms(event["arms"], self.arms, self.agent)
        self.salt = self.salt or event["salt"]
        if event.get("starts"):  # not in events of earlier versions
            for name, arm in self.arms.items():
                if len(before) == 1 or arm is not before.get(name):
                    arm.start_test(self.decided)

    def _restart(self, event: Mapping[str, Any]) -> None:
        if not isinstance(self.agent, PolicyAgent):
            raise InvalidParameter("agent", self.agent, "an agent that learns in episodes")
        self.agent.start_over()
        self.planning = None
        self._note_restart(float(event["time"]), asked=True)
        for arm in self.arms.values():
            if isinstance(arm.agent, PolicyAgent):
                arm.agent.start_over()

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
    """Limits, stored with the model. They can be changed when the model is opened."""

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


def request_checksum(event: Mapping[str, Any]) -> int:
    """The checksum of the request behind an event, without the state.

    A stored decision always has its state, whether or not the caller has sent it.
    """
    asked = {key: event[key] for key in REQUESTED if event.get(key) is not None}
    return zlib.crc32(json.dumps(asked, sort_keys=True).encode())


REQUESTED = ("event", "session", "available", "taken", "count", "names", "states")
LONGEST_SESSION = LONGEST_KEY = LONGEST_NAME = 200
MOST_ADDED = 10_000  # states or actions in one event


def _allowed(action: int, available: Collection[int] | None) -> int:
    """The action, or the lowest available one."""
    return action if available is None or action in available else min(available)


def checked_names(field: str, names: Any) -> list[str]:
    """Check names of states or actions."""
    if not isinstance(names, list):
        raise InvalidParameter(field, names, "a list of names")
    for name in names:
        if not isinstance(name, str) or not 0 < len(name) <= LONGEST_NAME:
            allowed = f"a list of strings of 1 to {LONGEST_NAME} characters"
            raise InvalidParameter(field, name, allowed)
    return names


def checked_key(key: Any) -> str:
    """Check an idempotency key."""
    if not isinstance(key, str) or not 0 < len(key) <= LONGEST_KEY:
        allowed = f"a string of 1 to {LONGEST_KEY} characters"
        raise InvalidParameter("Idempotency-Key", key, allowed)
    return key


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
