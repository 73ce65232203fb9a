"""A detector of changes in any stream of (state, action, reward, next state).

    detector = sm.DriftDetector(n_states, n_actions)
    alarm = detector.update(state, action, reward, next_state)      # an Alarm, or None

Actions may be chosen in any way: by an agent, by people, at random. The detector is
`restarts.Calibrated`, which EvidencePSRL uses, with the same guarantee: without a change, the
probability that it ever raises an alarm is at most `delta`, for any transition rows, any rewards in
[0, 1] and any way to choose actions. After an alarm it starts again for the rewards and rows that
have changed. The bound includes all later false alarms: those raised although nothing has changed
since the detector started counting.

It looks at the data every max(16, pairs/2) steps, and keeps at most 2²⁵ counts (268 MB), whatever
the length of the stream.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from switchmdp.compiled import JIT, call_machine_code, freeze, thaw
from switchmdp.concurrency import OneThreadAtATime, exclusive
from switchmdp.mdp.pairs import Pairs
from switchmdp.memory.counts import BOTH, REWARDS, ROWS
from switchmdp.restarts.calibrated import Calibrated
from switchmdp.validation import check_reward, check_state


class Alarm(NamedTuple):
    """A change that was found.

    Parameters
    ----------
    step
        The step after which the alarm was raised.
    change
        The estimate of the first step after the change, from 1.
    rewards
        The (state, action) pairs whose mean rewards have changed.
    rows
        The (state, action) pairs whose transition rows have changed.
    """

    step: int  # the alarm was raised after so many steps
    change: int  # the estimate of the first step after the change, from 1
    rewards: tuple[tuple[int, int], ...]  # the (state, action) whose mean rewards have changed
    rows: tuple[tuple[int, int], ...]  # the (state, action) whose successors have changed


def _watch(state: Any, pairs: Any, nexts: Any, rewards: Any, n: int) -> Any:
    """`watch` as machine code."""
    rule = thaw(state)
    rule.watch(pairs, nexts, rewards, n)
    rule.log_emptied()
    return freeze(rule), 0


class DriftDetector(OneThreadAtATime):
    """A detector of changed mean rewards and transition rows, with a proved bound on false alarms.

    Parameters
    ----------
    n_states, n_actions
        The numbers of states and actions.
    delta
        The probability that a false alarm is ever raised.
    independent
        Whether the reward and the next state of a step are independent. If not, it takes more steps
        to find a change of both.
    available
        Which actions each state has, a (states, actions) mask; by default all.

    Raises
    ------
    InvalidParameter
        A parameter has the wrong type or is out of range.

    Examples
    --------
    >>> detector, rng = DriftDetector(2, 1), np.random.default_rng(0)
    >>> for t in range(1, 3001):
    ...     state, mean = t % 2, 0.2 if t <= 2000 else 0.8
    ...     alarm = detector.update(state, 0, float(rng.random() < mean), (t + 1) % 2)
    >>> [(alarm.change, alarm.rewards, alarm.rows) for alarm in detector.alarms]
    [(1985, ((0, 0), (1, 0)), ())]
    """

    def __init__(
        self, n_states: int, n_actions: int, *,
        delta: float = 0.01, independent: bool = True, available: Any = None,
    ) -> None:  # fmt: skip
        self.pairs = Pairs.of(n_states, n_actions, available)
        self.rule = Calibrated(delta, independent=independent)
        self.rule.allocate(self.pairs)
        self.alarms: list[Alarm] = []
        room = self.rule.base
        self._pairs, self._nexts = np.zeros(room, np.uint32), np.zeros(room, np.uint32)
        self._rewards, self._n = np.zeros(room), 0

    def __repr__(self) -> str:
        sizes = f"{self.pairs.n_states}, {self.pairs.n_actions}"
        return f"DriftDetector({sizes}, delta={self.rule.delta}, t={self.steps})"

    @property
    def steps(self) -> int:
        """The number of steps so far."""
        return int(self.rule.clock - 1 + self._n)

    def update(self, state: int, action: int, reward: float, next_state: int) -> Alarm | None:
        """Read one step.

        Parameters
        ----------
        state
            The state before the step.
        action
            The action that was taken.
        reward
            The reward, in [0, 1].
        next_state
            The state after the step.

        Returns
        -------
        Alarm or None
            The change that was found at this step, or None.

        Raises
        ------
        InvalidState
            `state` or `next_state` is not a state.
        InvalidAction
            The action is not available in the state.
        InvalidReward
            The reward is not a number in [0, 1].
        """
        with exclusive(self):
            pair, reward = self.pairs.pair(state, action), check_reward(reward)
            next_state = check_state(next_state, self.pairs.n_states, "next_state")
            n = self._n
            self._pairs[n], self._nexts[n], self._rewards[n] = pair, next_state, reward
            self._n = n + 1
            if self.rule.clock + self._n < self.rule.look_at():
                return None
            return self._look()

    def _look(self) -> Alarm | None:
        rule, steps = self.rule, (self._pairs, self._nexts, self._rewards, self._n)
        if JIT:
            call_machine_code(_watch, rule, *steps)
        else:
            rule.watch(*steps)
            rule.log_emptied()
        self._n = 0
        if not rule.alarmed():
            return None
        suspects = np.zeros(self.pairs.n_pairs, np.uint8)
        ago = int(rule.suspect(suspects))
        rule.start_over(suspects)
        names = list(zip(self.pairs.states.tolist(), self.pairs.actions.tolist(), strict=True))
        rewards, rows = (
            tuple(names[pair] for pair in np.flatnonzero((suspects == BOTH) | (suspects == kind)))
            for kind in (REWARDS, ROWS)
        )
        alarm = Alarm(self.steps, self.steps - ago + 1, rewards, rows)
        self.alarms.append(alarm)
        return alarm
