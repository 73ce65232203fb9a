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

A decision that waits for feedback longer than `expiry` seconds of event time, or is the oldest of
more than `most_pending`, is dropped: its feedback is then refused, and counts nowhere.
"""

from __future__ import annotations

import copy
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from switchmdp.agents import Episodic
from switchmdp.agents.machine_code import start_episode
from switchmdp.agents.protocol import check_observe
from switchmdp.errors import (
    ConflictingFeedback,
    ForgottenDecision,
    InvalidAction,
    InvalidParameter,
    InvalidState,
    UnknownDecision,
)
from switchmdp.mdp.pairs import integer, positive, whole
from switchmdp.online.asking import adopt, choose, learn
from switchmdp.online.rewards import RewardHistory
from switchmdp.online.signal import ChangeSignal, Signal

MODES = ("agent", "fixed", "shadow")
REPLAN = ("inline", "background")
MOST_ALERTS = 100
LONGEST_SESSION = 200
REPEATED = (False, None)  # feedback that was given before: nothing happens

Event = dict[str, Any]


@dataclass(frozen=True)
class Settings:
    """What is fixed when a folder is made."""

    expiry: float = 3600.0
    most_pending: int = 100_000
    most_sessions: int = 100_000
    replan: str = "inline"
    signal_window: int = 1000
    signal_delta: float = 0.01


def checked(settings: Settings) -> Settings:
    """Settings that make sense, or a typed error."""
    positive("expiry", settings.expiry)
    whole("most_pending", settings.most_pending, 1, 10**7)
    whole("most_sessions", settings.most_sessions, 1, 10**7)
    if settings.replan not in REPLAN:
        raise InvalidParameter("replan", settings.replan, f"one of {', '.join(REPLAN)}")
    ChangeSignal(settings.signal_window, settings.signal_delta)
    return settings


class Outcome(NamedTuple):
    """What came of a `decide`."""

    decision: int
    state: int
    action: int
    would: int | None


class Pending(NamedTuple):
    """A decision that waits for its feedback."""

    at: float
    session: str
    state: int
    action: int
    would: int | None  # what the agent would have done, where something else chose


class Learner:
    """An agent, its open decisions, its sessions, and what is watched beside them."""

    def __init__(self, agent: Any, settings: Settings) -> None:
        self.agent, self.settings = agent, settings
        self.at = 0.0  # the time of the last event
        self.decided = self.counted = self.expired = 0
        self.agreed = self.shadowed = 0
        self.pending: OrderedDict[int, Pending] = OrderedDict()
        self.answered: OrderedDict[int, tuple[float, int]] = OrderedDict()
        self.sessions: OrderedDict[str, int] = OrderedDict()
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
        return getattr(self, f"_{event['event']}")(event)

    def _pass(self, at: float) -> None:
        """Time goes on, never back; decisions that have waited too long are dropped."""
        self.at = max(self.at, at)
        while self.pending:
            oldest = next(iter(self.pending.values()))
            late = self.at - oldest.at > self.settings.expiry
            if not late and len(self.pending) <= self.settings.most_pending:
                return
            self.pending.popitem(last=False)
            self.expired += 1

    def _decide(self, event: Mapping[str, Any]) -> Outcome:
        agent, session = self.agent, event.get("session", "")
        state = self._state(event.get("state"), session)
        known = agent.pairs.at(state)
        available = self._available(event.get("available"), known)
        taken = event.get("taken")
        if taken is not None:
            taken = self._one_of("taken", taken, known)
        elif self.mode != "agent" and self.policy is not None:
            taken = self.policy[state]
            if available is not None and taken not in available:
                taken = min(available)
        would, due = None, False
        if taken is None or self.mode == "shadow" or event.get("taken") is not None:
            since = getattr(agent, "since", None)
            would, due = choose(agent, state, available, self.settings.replan == "inline")
            if getattr(agent, "since", None) != since:  # it has started over
                self.planning = None
        self.wants_plan = due and self.planning is None
        self.decided += 1
        action = would if taken is None else taken
        would = None if taken is None else would
        assert action is not None
        entry = Pending(max(self.at, event["at"]), session, state, action, would)
        self.pending[self.decided] = entry
        self._keep_session(session, state)
        self._pass(event["at"])
        return Outcome(self.decided, state, action, would)

    def _state(self, state: Any, session: Any) -> int:
        if not isinstance(session, str) or len(session) > LONGEST_SESSION:
            allowed = f"a text of at most {LONGEST_SESSION} characters"
            raise InvalidParameter("session", session, allowed)
        if state is None:
            if session not in self.sessions:
                raise InvalidState("state", None, "given: this session has none yet")
            return self.sessions[session]
        return integer(state, self.agent.n_states, "state", InvalidState)

    def _available(self, available: Any, known: list[int]) -> list[int] | None:
        if available is None:
            return None
        if not isinstance(available, (list, tuple)) or not available:
            raise InvalidParameter("available", available, "a list of actions, one at least")
        return [self._one_of("available", action, known) for action in available]

    def _one_of(self, field: str, action: Any, known: list[int]) -> int:
        found = integer(action, self.agent.n_actions, field, InvalidAction)
        if found not in known:
            raise InvalidAction(field, found, f"one of {known}")
        return found

    def _keep_session(self, session: str, state: int) -> None:
        self.sessions[session] = state
        self.sessions.move_to_end(session)
        if len(self.sessions) > self.settings.most_sessions:
            self.sessions.popitem(last=False)

    def _is_known(self, number: int, reward: Any, next_state: Any) -> bool:
        """Whether the same was said before; a typed error where it can't be taken."""
        if not 1 <= number <= self.decided:
            raise UnknownDecision(f"decision {number} was never made")
        if number in self.answered:
            if self.answered[number] == (reward, next_state):
                return True
            raise ConflictingFeedback(f"decision {number} was already answered, otherwise")
        if number not in self.pending:
            raise ForgottenDecision(f"decision {number} has expired, or was answered long ago")
        entry = self.pending[number]
        check_observe(self.agent, entry.state, entry.action, reward, next_state)
        return False

    def _feedback(self, event: Mapping[str, Any]) -> tuple[bool, Signal | None]:
        """Whether it was counted, and the alarm that it raised."""
        number, reward, next_state = event["decision"], event["reward"], event["next_state"]
        if self._is_known(number, reward, next_state):
            return REPEATED
        entry = self.pending.pop(number)
        alert = self._learn(entry.state, entry.action, float(reward), next_state, event["at"])
        self.answered[number] = (reward, next_state)
        if len(self.answered) > self.settings.most_pending:
            self.answered.popitem(last=False)
        if entry.would is not None:
            self.shadowed += 1
            self.agreed += entry.would == entry.action
        self._keep_session(entry.session, next_state)
        self._pass(event["at"])
        return True, alert

    def _learn(
        self, state: int, action: int, reward: float, next_state: int, at: float
    ) -> Signal | None:
        """Teach the agent, and look whether the world has changed."""
        agent = self.agent
        learn(agent, state, action, reward, next_state)
        self.counted += 1
        self.rewards.add(reward, max(self.at, at))
        self.last_step[state, action], self.last_at[state, action] = self.counted, max(self.at, at)
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
        rows = [check_observe(self.agent, *row) for row in event["rows"]]
        for row in rows:
            self._learn(*row, event["at"])
        self._pass(event["at"])
        return len(rows)

    def _mode(self, event: Mapping[str, Any]) -> None:
        mode, policy = event["mode"], event.get("policy")
        if mode not in MODES:
            raise InvalidParameter("mode", mode, f"one of {', '.join(MODES)}")
        if mode == "agent":
            policy = None
        else:
            pairs = self.agent.pairs
            if not isinstance(policy, (list, tuple)) or len(policy) != pairs.n_states:
                raise InvalidParameter("policy", policy, f"a list of {pairs.n_states} actions")
            policy = [int(pairs.actions[pairs.pair(s, a)]) for s, a in enumerate(policy)]
        self.mode, self.policy = mode, policy

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
        if not isinstance(self.agent, Episodic):
            raise InvalidParameter("agent", self.agent, "one that learns in episodes")
        self.agent.start_over()
        self.planning = None

    def _settings(self, event: Mapping[str, Any]) -> None:
        settings, signal = Settings(**event["settings"]), self.signal
        if (settings.signal_window, settings.signal_delta) != (signal.window, signal.delta):
            self.signal = ChangeSignal(settings.signal_window, settings.signal_delta)
        self.settings = settings
        self._pass(event["at"])

    def _plan(self, event: Mapping[str, Any]) -> None:
        self.planning, self.wants_plan = copy.deepcopy(self.agent), False

    def _swap(self, event: Mapping[str, Any]) -> None:
        if self.planning.episode_count == self.agent.episode_count:  # not planned yet: a replay
            start_episode(self.planning)
        adopt(self.agent, self.planning)
        self.planning = None

    def _cancel(self, event: Mapping[str, Any]) -> None:
        self.planning = None
