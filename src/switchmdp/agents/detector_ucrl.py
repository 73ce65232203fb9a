"""UCRL2 and UCRL3 restarted by a detector: GLR or R-BOCPD, with optional forced exploration.

**GLR-UCRL.** UCRL2 with restarts by generalised likelihood ratio tests.

    UCRL2 on all steps since the last restart                            Everything, L1Ball
    after each step: the tests of the pair's rewards and successors                     GLR
    at an alarm: forget all, t := 1                                     Episodic.start_over
    every 1/ε steps: an action in turn, instead of the policy's           ForcedExploration

The last line is off by default. Bandits restarted by GLR need it, with ε of about √(l A log T/T)
for l changes, because an arm that is never pulled could become the best unnoticed (Besson et al.
2022). Here S·A replaces A. This is a heuristic: the agent tries only actions of states that the
policy visits, in turn in each state.

A probe is one step. The policy's pair and quota in that state are stored, and restored at the next
step, so the episode continues. Probes come at fixed steps, so nothing depends on when `prepare` is
called.

`GLRUCRL3` has the set of UCRL3, and no forced exploration.

**R-BOCPD-UCRL2 (Alami, Mahfoud, Moulines 2023).** UCRL2 with restarts by change-point detection.

    UCRL2 on all steps since the last restart                              Everything, L1Ball
    after each step: the pair's detector R-BOCPD reads the next state                   BOCPD
    at an alarm: forget all, t := 1, and restart the detectors of all pairs  Episodic.start_over

The paper bounds the regret by O(D S √(A T K log(T/δ)) + K log(K/δ)/min KL) for K changes, if each
changes the transitions of all pairs. The bound holds for the prior of its theorem (not for w/n) and
for rewards that do not change. With `rewards` (the default here) the agent also finds changes of
rewards: a heuristic.
"""

from __future__ import annotations

from typing import Annotated, Any, Self

import numpy as np
from numpy.typing import NDArray

from switchmdp.agents.episodic import Episodic
from switchmdp.compiled import Range, Shape, compiled, require
from switchmdp.errors import InvalidParameter
from switchmdp.memory import Everything, EverythingWithVariance
from switchmdp.plausible import BernsteinLaplace, L1Ball
from switchmdp.restarts import BOCPD, GLR, NEVER
from switchmdp.validation import is_number


@compiled
class ForcedExploration(Episodic):
    """An episodic agent that tries an action in turn every 1/`explore` steps.

    Parameters
    ----------
    n_states, n_actions
        The numbers of states and actions.
    memory
        The component that counts steps.
    plausible
        The plausible set or posterior, which plans.
    restarts
        The restart rule, or a detector.
    explore
        The share of steps at which an action is tried in turn.
    episodes
        The episode rule; by default `Doubling`.
    available
        Which actions each state has, a (states, actions) mask; by default all.

    Raises
    ------
    InvalidParameter
        `explore` is not a number from 0 to 1, or a component is invalid.

    Examples
    --------
    >>> from switchmdp.restarts import Never
    >>> agent = ForcedExploration(
    ...     5, 3, memory=Everything(), plausible=L1Ball(0.1), restarts=Never(), explore=0.01)
    >>> agent.interval
    100
    """

    interval: Annotated[int, Range(1, NEVER)]
    probed: Annotated[int, Range(0, "clock")]
    place: Annotated[int, Range(0, below="states")]
    held: Annotated[int, Range(0, below="pairs")]
    held_quota: Annotated[int, Range(0)]
    turn: Annotated[NDArray[np.int64], Shape("states"), Range(0, NEVER)]

    # Machine code has no super(): under other names they are methods like any other.
    restart_if_due_episodic = Episodic.restart_if_due
    plan_is_due_episodic = Episodic.plan_is_due
    start_episode_episodic = Episodic.start_episode
    patience_in_episode = Episodic.patience
    grow_episodic = Episodic.grow
    start_over_episodic = Episodic.start_over

    def __init__(
        self, n_states: Any, n_actions: Any, *,
        memory: Any, plausible: Any, restarts: Any, explore: float = 0.0, episodes: Any = None,
        available: Any = None,
    ) -> None:  # fmt: skip
        Episodic.__init__(
            self, n_states, n_actions, memory=memory, plausible=plausible, restarts=restarts,
            episodes=episodes, available=available,
        )  # fmt: skip
        if not is_number(explore) or not 0.0 <= explore <= 1.0:
            raise InvalidParameter("explore", explore, "a number from 0 (never) to 1")
        self.interval = round(1.0 / explore) if explore > 1.0 / NEVER else NEVER
        self.probed, self.place, self.held, self.held_quota = 0, 0, 0, 0
        self.turn = np.zeros(self.n_states, np.int64)

    def restart_if_due(self) -> bool:
        """Restart as `Episodic` does, but not between a probe and its step."""
        if self.probed == self.clock:
            return False
        self.settle()
        return self.restart_if_due_episodic()

    def plan_is_due(self, state: int) -> bool:
        """Whether a plan is due, as for `Episodic`, but not between a probe and its step."""
        probing = self.probed == self.clock and self.place == state
        return not probing and self.plan_is_due_episodic(state)

    def start_episode(self) -> None:
        """End the probe, and start an episode as `Episodic` does."""
        self.settle()
        self.start_episode_episodic()

    def probe_if_due(self, state: int) -> None:
        """Replace the action of the policy by a probe, every `interval` steps."""
        if self.clock % self.interval != 0 or (self.probed == self.clock and self.place == state):
            return
        self.settle()
        first, last = self.starts[state], self.starts[state + 1]
        pair = first + self.turn[state] % (last - first)
        self.turn[state] += 1
        self.probed, self.place = self.clock, state
        self.held, self.held_quota = self.choice[state], self.quota[state]
        if pair == self.held and self.held_quota > 0:  # a visit like any other
            self.held_quota -= 1
        self.choice[state] = pair

    def settle(self) -> None:
        """Restore the policy after a probe."""
        if self.probed > 0:
            self.choice[self.place], self.quota[self.place] = self.held, self.held_quota
            self.probed = 0

    def patience(self) -> int:
        """The number of steps until `prepare` must be called again, if quotas allow."""
        if self.probed == self.clock:
            return 1
        return min(self.patience_in_episode(), self.interval - self.clock % self.interval)

    def start_over(self) -> None:
        """Forget everything, also the policy that a probe replaced."""
        self.settle()
        self.start_over_episodic()

    def adopt(self, planned: Self) -> None:
        """Follow the plan that a copy of this agent has computed."""
        self.settle()
        Episodic.adopt(self, planned)

    def grow(self, n_states: int, n_actions: int, available: Any = None) -> None:
        """Add states or actions; an episode starts at the next visit to a state.

        Parameters
        ----------
        n_states, n_actions
            The numbers of states and actions.
        available
            Which actions each state has, a mask of the new size that includes all known pairs; by
            default new states have all actions, and new actions are available in all states.
        """
        self.settle()
        self.grow_episodic(n_states, n_actions, available)
        turn = np.zeros(self.n_states, np.int64)
        turn[: len(self.turn)] = self.turn
        self.turn = turn

    def check_invariants(self) -> None:
        """The pair that a probe replaced belongs to the probe's state."""
        first, last = self.starts[self.place], self.starts[self.place + 1]
        there = self.probed == 0 or first <= self.held < last
        require(there, "held must be a pair of the probe's state")


@compiled
class GLRUCRL(ForcedExploration):
    """UCRL2 restarted by generalised likelihood ratio tests, with optional forced exploration.

    Parameters
    ----------
    n_states, n_actions
        The numbers of states and actions.
    delta
        A bound on the probability that the true MDP is not in the plausible set.
    detector_delta
        The confidence of the detector; by default `delta`.
    width
        A factor on all radii. The proofs need 1; less is usually better, but has no guarantee.
    explore
        The share of steps at which an action is tried in turn.
    available
        Which actions each state has, a (states, actions) mask; by default all.

    Raises
    ------
    InvalidParameter
        A parameter has the wrong type or is out of range.

    References
    ----------
    L. Besson, E. Kaufmann, O.-A. Maillard and J. Seznec (2022). Efficient change-point detection
    for tackling piecewise-stationary bandits. Journal of Machine Learning Research 23.

    Examples
    --------
    >>> GLRUCRL(5, 3, delta=0.1).act(0)
    0
    """

    def __init__(
        self, n_states: Any, n_actions: Any, *,
        delta: float = 0.05, detector_delta: float | None = None, width: float = 1.0,
        explore: float = 0.0, available: Any = None,
    ) -> None:  # fmt: skip
        ForcedExploration.__init__(
            self, n_states, n_actions, available=available, explore=explore,
            memory=Everything(), plausible=L1Ball(delta, width=width),
            restarts=GLR(delta if detector_delta is None else detector_delta),
        )  # fmt: skip


@compiled
class GLRUCRL3(Episodic):
    """UCRL3 restarted by generalised likelihood ratio tests. A heuristic.

    Parameters
    ----------
    n_states, n_actions
        The numbers of states and actions.
    delta
        A bound on the probability that the true MDP is not in the plausible set.
    detector_delta
        The confidence of the detector; by default `delta`.
    width
        A factor on all radii. The proofs need 1; less is usually better, but has no guarantee.
    available
        Which actions each state has, a (states, actions) mask; by default all.

    Raises
    ------
    InvalidParameter
        A parameter has the wrong type or is out of range.

    References
    ----------
    H. Bourel, O.-A. Maillard and M. S. Talebi (2020). Tightening exploration in upper confidence
    reinforcement learning. ICML.

    L. Besson, E. Kaufmann, O.-A. Maillard and J. Seznec (2022). Efficient change-point detection
    for tackling piecewise-stationary bandits. Journal of Machine Learning Research 23.

    Examples
    --------
    >>> GLRUCRL3(5, 3, delta=0.1).act(0)
    0
    """

    def __init__(
        self, n_states: Any, n_actions: Any, *,
        delta: float = 0.05, detector_delta: float | None = None, width: float = 1.0,
        available: Any = None,
    ) -> None:  # fmt: skip
        Episodic.__init__(
            self, n_states, n_actions, available=available,
            memory=EverythingWithVariance(), plausible=BernsteinLaplace(delta, width=width),
            restarts=GLR(delta if detector_delta is None else detector_delta),
        )  # fmt: skip


@compiled
class RBOCPDUCRL2(Episodic):
    """UCRL2 restarted by Bayesian online change-point detection.

    Parameters
    ----------
    n_states, n_actions
        The numbers of states and actions.
    delta
        A bound on the probability that the true MDP is not in the plausible set.
    detector_delta
        The confidence of the detector; by default `delta`.
    width
        A factor on all radii. The proofs need 1; less is usually better, but has no guarantee.
    weight
        w of the detector's prior w/n; by default `delta` divided by the number of streams.
    rewards
        Watch rewards too, which the paper does not.
    available
        Which actions each state has, a (states, actions) mask; by default all.

    Raises
    ------
    InvalidParameter
        A parameter has the wrong type or is out of range.

    References
    ----------
    R. Alami, M. Mahfoud and E. Moulines (2023). Restarted Bayesian online change-point detection
    for non-stationary Markov decision processes. CoLLAs.

    Examples
    --------
    >>> RBOCPDUCRL2(5, 3, delta=0.1).act(0)
    0
    """

    def __init__(
        self, n_states: Any, n_actions: Any, *,
        delta: float = 0.05, detector_delta: float | None = None, width: float = 1.0,
        weight: float | None = None, rewards: bool = True, available: Any = None,
    ) -> None:  # fmt: skip
        confidence = delta if detector_delta is None else detector_delta
        Episodic.__init__(
            self, n_states, n_actions, available=available, memory=Everything(),
            plausible=L1Ball(delta, width=width),
            restarts=BOCPD(confidence, weight=weight, rewards=rewards),
        )  # fmt: skip
