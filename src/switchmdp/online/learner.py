"""The state that decisions and feedback go through, as a function of its events alone.

Whatever happens is an event with its time, applied in order; nothing else changes the learner. So
the log of events is the whole truth: applied again from the beginning, or from a snapshot, it gives
the same agent bit for bit. An event that is refused (a typed error) has changed nothing.

    decide     state, session, available actions, an action already taken elsewhere
    feedback   decision, reward, next state
    history    steps known from elsewhere (a warm start)
    mode       who chooses: the agent, a fixed policy, or that with the agent in its shadow
    grow       more states or actions
    restart    forget all
    settings   other limits from here on
    plan       a plan in the background begins, from what is known here
    swap       ... and is followed from here on
    cancel     ... or is given up

Time is the sum of the events' `after`: seconds during which some process had the folder open. The
wall clock (`at`) is kept to be shown, because it may jump. Logs of earlier versions have no
`after`: until their last record, time is the wall clock.

Decisions are numbered. After a backup was restored, numbers come again that were given out before;
so each process that decides begins an *epoch* with a random name, kept in its first `decide`, and
the ids of decisions depend on it.

A decision that waits for feedback longer than `expiry` seconds, or is the oldest of more than
`most_pending`, is dropped: its feedback is then refused, and counts nowhere. Feedback may
come in any order, and is learned from in the order in which it comes. A session is where its latest
decision was made, or has led to: late feedback for an earlier one does not move it.
"""

from __future__ import annotations

import copy
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from switchmdp.agents.policy_agent import Choice, PolicyAgent, follows_policy
from switchmdp.agents.protocol import check_observe
from switchmdp.errors import (
    ConflictingFeedback,
    ContractViolation,
    ForgottenDecision,
    InvalidMDP,
    InvalidParameter,
    InvalidState,
    UnknownDecision,
)
from switchmdp.online.checks import (
    checked_action,
    checked_available,
    checked_policy,
    checked_rows,
    checked_session,
)
from switchmdp.online.rewards import RewardHistory
from switchmdp.online.settings import Settings
from switchmdp.online.signal import ChangeSignal, Signal
from switchmdp.validation import check_index

MODES = ("agent", "fixed", "shadow")
MOST_ALERTS = 100
TIMED = ("decide", "feedback", "history", "settings")  # alone let time pass in earlier versions
MOST_ANSWERED = 20_000  # decisions whose feedback is known when it comes again
REPEATED = (False, None)  # feedback that was given before: nothing happens
REFUSALS = (  # the errors after which the learner is as it was
    InvalidParameter, InvalidMDP, UnknownDecision, ForgottenDecision, ConflictingFeedback,
)  # fmt: skip

Event = dict[str, Any]


class Outcome(NamedTuple):
    """What came of a `decide`."""

    decision: int
    state: int
    action: int
    would: int | None


class Pending(NamedTuple):
    """A decision that waits for its feedback."""

    at: float  # in the time that expiry is counted in
    session: str
    state: int
    action: int
    would: int | None  # what the agent would have done, where something else chose


def choose(agent: Any, state: int, available: Sequence[int] | None, *, replan: bool) -> Choice:
    """The agent's action among the available ones (None: all). Plans first if due and `replan`."""
    if follows_policy(agent):
        return agent.decide(state, available, replan=replan)
    action = agent.act(state)
    if action not in agent.pairs.at(state):
        raise ContractViolation(f"in state {state} the agent has chosen {action!r}")
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
    """An agent, its open decisions, its sessions, and what is watched beside them."""

    def __init__(self, agent: Any, settings: Settings) -> None:
        self.agent, self.settings = agent, settings
        self.at = 0.0  # the wall clock at the last event
        self.now = 0.0  # the time that expiry is counted in
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

    def apply(self, event: Mapping[str, Any]) -> Any:
        """Let an event happen; what comes of it, or a typed error and nothing has changed."""
        outcome = getattr(self, f"_{event['event']}")(event)
        if outcome != REPEATED and ("after" in event or event["event"] in TIMED):
            self._pass(event)
        return outcome

    def _time(self, event: Mapping[str, Any]) -> float:
        """When an event happens, in the time that expiry is counted in."""
        if "after" in event:
            return round(self.now + float(event["after"]), 3)
        return max(self.now, float(event["at"]))

    def _wall(self, event: Mapping[str, Any]) -> float:
        """When an event happens, as it is shown."""
        at: float = event["at"]
        return at if "after" in event else max(self.at, at)

    def epoch_of(self, decision: int | None = None) -> str:
        """The epoch of a decision, or the latest; empty in logs of earlier versions."""
        epochs = self.epochs
        until = len(epochs)
        if decision is not None:
            until = bisect_right(epochs, decision, key=lambda epoch: epoch[0])
        return epochs[until - 1][1] if until else ""

    def _pass(self, event: Mapping[str, Any]) -> None:
        """Time goes on; decisions that have waited too long are dropped."""
        self.now, self.at = self._time(event), self._wall(event)
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
                raise InvalidState("state", None, "given: this session has none yet")
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
        """Whether the same was said before; a typed error where it can't be taken."""
        if not 1 <= number <= self.decided:
            raise UnknownDecision(f"decision {number} was never made")
        if number in self.answered:
            if self.answered[number] == (reward, next_state):
                return True
            raise ConflictingFeedback(f"decision {number} was already answered, otherwise")
        entry = self.pending.get(number)
        if entry is None or now - entry.at > self.settings.expiry:
            raise ForgottenDecision(f"decision {number} has expired, or was answered long ago")
        check_observe(self.agent, entry.state, entry.action, reward, next_state)
        return False

    def _feedback(self, event: Mapping[str, Any]) -> tuple[bool, Signal | None]:
        """Whether it was counted, and the alarm that it raised."""
        number, reward, next_state = event["decision"], event["reward"], event["next_state"]
        if self._is_known(number, reward, next_state, self._time(event)):
            return REPEATED
        entry, at = self.pending.pop(number), self._wall(event)
        alert = self._learn(entry.state, entry.action, float(reward), next_state, at)
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
        """Teach the agent, and look whether the world has changed."""
        agent = self.agent
        if credit(agent, state, action, reward, next_state):
            self.planning = None
        self.counted += 1
        self.rewards.add(reward, at)
        self.last_step[state, action], self.last_at[state, action] = self.counted, at
        if not self.signal.add(state, action, reward, next_state):
            return None
        found = self.signal.compare(agent.n_states, agent.n_actions, len(agent.actions))
        before, self.alarmed = self.alarmed, found is not None and found.strength >= 1.0
        if found is None or before or not self.alarmed:
            return None
        self.alerts = [*self.alerts[1 - MOST_ALERTS :], found]
        return found

    def _history(self, event: Mapping[str, Any]) -> int:
        """How many steps were learned from."""
        rows = checked_rows(self.agent, event["rows"])
        for row in rows:
            self._learn(*row, self._wall(event))
        return len(rows)

    def _mode(self, event: Mapping[str, Any]) -> None:
        mode = event["mode"]
        if not isinstance(mode, str) or mode not in MODES:
            raise InvalidParameter("mode", mode, f"one of {', '.join(MODES)}")
        fixed = None if mode == "agent" else checked_policy(self.agent, event.get("policy"))
        self.mode, self.policy = mode, fixed

    def _grow(self, event: Mapping[str, Any]) -> None:
        agent, before = self.agent, (self.agent.n_states, self.agent.n_actions)
        if not hasattr(agent, "grow"):
            raise InvalidParameter("agent", agent, "one that can grow")
        mask = event.get("available")
        agent.grow(
            event["n_states"], event["n_actions"], None if mask is None else np.asarray(mask)
        )
        self.planning = None
        for name in ("last_step", "last_at"):
            old = getattr(self, name)
            new = np.zeros((agent.n_states, agent.n_actions), old.dtype)
            new[: before[0], : before[1]] = old
            setattr(self, name, new)
        if self.policy is not None:
            first = [agent.pairs.at(s)[0] for s in range(before[0], agent.n_states)]
            self.policy = self.policy + first

    def _restart(self, event: Mapping[str, Any]) -> None:
        if not isinstance(self.agent, PolicyAgent):
            raise InvalidParameter("agent", self.agent, "one that learns in episodes")
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
        if self.planning.episode_count == self.agent.episode_count:  # not planned yet: a replay
            self.planning.plan()
        self.agent.adopt(self.planning)
        self.planning = None

    def _cancel(self, event: Mapping[str, Any]) -> None:
        self.planning = None
