"""UCRL3, restarted by a calibrated detector, with diminishing exploration.

    UCRL3 on all steps since the last restart       EverythingWithVariance, BernsteinLaplace
    every few steps: the e-values of all pairs together             restarts.Calibrated
    if they raise an alarm: forget everything, t := 1                        RestartAll
    g k² steps after the last restart, k = 1, 2, …: a round of exploration      Squares
      each state has a turn for its next action                   DiminishingExploration
      the agent takes that action once, at its next visit to the state

An optimistic agent stops visiting pairs that it believes to be bad, and would not notice that one
of them has become good. Li, Hsieh and Huang (2024, "diminishing exploration", arXiv:2410.05734)
explore piecewise stationary bandits in rounds that become rarer, without knowing the number of
changes: after n steps √(n/g) rounds cost about as much regret as learning does. This file applies
their idea to MDPs: a round has one visit per state, and A rounds have one per pair.

docs/agents.md states the guarantee (a bound on false alarms, and on regret given the delays) with
its assumptions and proof, and what is not proved: how long a change takes to be detected.
"""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from switchmdp.agents.episodic import Episodic, Squares, check_gap
from switchmdp.agents.exploration import NO_STATE
from switchmdp.compiled import Range, Shape, compiled, require
from switchmdp.errors import InvalidParameter
from switchmdp.mdp.pairs import Pairs
from switchmdp.memory import EverythingWithVariance
from switchmdp.plausible import BernsteinLaplace
from switchmdp.restarts import Calibrated
from switchmdp.restarts.schedules import mark_all


@compiled
class RestartAll(Calibrated):
    """The calibrated detector; an alarm makes the agent forget everything.

    Forgetting only the pairs that seem to have changed is cheaper. But if a changed pair were not
    suspected, the confidence set would no longer contain the true MDP.
    """

    def suspect(self, suspects: Any) -> int:
        """Mark all pairs; no step from before the alarm is kept."""
        mark_all(suspects)
        return 0


@compiled
class DiminishingExploration:
    """Rounds of exploration, gap·k² steps after the last restart: one visit per state and round.

    In a round each state takes its next action in turn, once.

    Parameters
    ----------
    gap
        The number of steps until the first round, at least 1.

    Raises
    ------
    InvalidParameter
        `gap` is not a number from 1 to 10⁹.

    Examples
    --------
    >>> DiminishingExploration(10).gap
    10.0
    """

    gap: Annotated[float, Range(1.0, 1e9)]
    next_round: Annotated[int, Range(1, below=2**31)]
    owes: Annotated[NDArray[np.bool_], Shape("states")]
    turn: Annotated[NDArray[np.int64], Shape("states"), Range(0, below=2**53)]
    before: Annotated[NDArray[np.int64], Shape("states"), Range(0)]  # visits to the pair in turn

    def __init__(self, gap: float) -> None:
        self.gap, self.next_round = check_gap(gap), 1

    def check_partners(self, memory: Any, episodes: Any) -> None:
        """An episode must end when a round begins."""
        if getattr(episodes, "gap", None) != self.gap:
            raise InvalidParameter("episodes", episodes, f"Squares({self.gap:g}), like the rounds")

    def allocate(self, pairs: Pairs) -> None:
        """Make room for these pairs."""
        self.owes = np.zeros(pairs.n_states, np.bool_)
        self.turn = np.zeros(pairs.n_states, np.int64)
        self.before = np.zeros(pairs.n_states, np.int64)

    def grow(self, pairs: Pairs, place: Any) -> None:
        """Make room for more pairs; what is owed is cancelled."""
        self.allocate(pairs)

    def adjust(self, starts: Any, counts: Any, t: int, choice: Any, quota: Any) -> None:
        """Change the policy of the episode so that it visits the pairs of this round."""
        owes, turn, before, visits = self.owes, self.turn, self.before, counts.visits
        due = t - 1 >= self.gap * self.next_round * self.next_round
        while t - 1 >= self.gap * self.next_round * self.next_round:
            self.next_round += 1
        for s in range(owes.size):
            first, n_actions = starts[s], starts[s + 1] - starts[s]
            pair = first + turn[s] % n_actions
            if owes[s] and visits[pair] > before[s]:
                owes[s] = False
                turn[s] += 1
                pair = first + turn[s] % n_actions
            if due and not owes[s]:
                owes[s], before[s] = True, visits[pair]
            if owes[s]:
                choice[s], quota[s] = pair, 1

    def alarmed(self) -> bool:
        """Exploration itself finds no changes."""
        return False

    def suspect(self, suspects: Any, t: int) -> int:
        """Never called, as it raises no alarm."""
        return 0

    def start_over(self, suspects: Any) -> None:
        """Start the rounds again; the agent forgets everything."""
        self.next_round = 1
        for s in range(self.owes.size):
            self.turn[s] += self.owes[s]
            self.owes[s] = False

    def destination(self) -> int:
        """NO_STATE: the agent does not travel, but waits for the next visit to a state."""
        return NO_STATE


@compiled
class CalibratedUCRL3(Episodic):
    """UCRL3, restarted by the calibrated detector. Needs neither horizon nor number of changes.

    Parameters
    ----------
    n_states, n_actions
        The numbers of states and actions.
    delta
        The probability of any false alarm, ever; and that of the confidence set, per restart.
    width
        A factor on the confidence radii; the guarantee needs 1.
    gap
        Round k of exploration starts gap·k² steps after the last restart. With a larger gap the
        agent explores less, and takes longer to find changes that its policy does not visit.
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

    K.-T. Li, P.-C. Hsieh and Y.-C. Huang (2024). Diminishing exploration: a minimalist approach to
    piecewise stationary multi-armed bandits. arXiv:2410.05734.

    Examples
    --------
    >>> agent = CalibratedUCRL3(5, 3)
    >>> agent.observe(0, agent.act(0), 1.0, 4)
    >>> agent.t
    2
    """

    def __init__(
        self, n_states: Any, n_actions: Any, *,
        delta: float = 0.05, width: float = 1.0, gap: float = 10.0, available: Any = None,
    ) -> None:  # fmt: skip
        Episodic.__init__(
            self, n_states, n_actions, available=available,
            memory=EverythingWithVariance(), plausible=BernsteinLaplace(delta, width=width),
            restarts=RestartAll(delta), episodes=Squares(gap),
            exploration=DiminishingExploration(gap),
        )  # fmt: skip

    def check_invariants(self) -> None:
        """The episode rule and the exploration have one gap."""
        Episodic.check_invariants(self)
        require(self.episodes.gap == self.exploration.gap, "the gaps must be equal")
