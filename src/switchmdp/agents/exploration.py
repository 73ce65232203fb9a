"""What is tried beyond the plan: nothing, or now and then what the plan no longer tries.

An agent that has settled on a policy never sees that another action has become better: nothing that
it does would show it. `Probes` look for that, at a price.

From time to time every pair that was visited once, but not since the last time (at the first time,
none), is *opened*. An open pair is tried once when its state is next passed, and then weighed: the
data since against the data before, by the Bayes factor b of its rewards and successors together (in
`restarts.bayes_factors` they are weighed apart). Wald's sequential test (1945) says when to stop:

    b < 1                          it is as it was: closed, as a rule after one visit
    b > n k (k + 1) / δ            it has changed: its past is forgotten (n pairs, k-th time)
    otherwise                      tried again, up to 2 + 4 log b visits

Without a change b > n k (k+1)/δ has at most probability δ over all pairs and times until a restart,
where the priors are right (Ville's inequality, summed). Where the memory fades, what is open is
closed as soon as it has faded: probes want a memory that counts whole visits.

The k-th time is step gap·√n·k² after the last change that was noticed. So after t steps about √t
rounds were made, and the last was about √t steps ago: the price and the delay grow alike. More
pairs make a round dearer, hence √n; the gap is the only thing to choose. As nothing but the one
pair is forgotten, a false alarm costs little.
"""

from __future__ import annotations

import math
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from switchmdp.compiled import (
    Equals,
    Probability,
    Range,
    Scratch,
    Shape,
    compiled,
    make_scratch,
    require,
)
from switchmdp.errors import InvalidParameter
from switchmdp.mdp.pairs import Pairs
from switchmdp.restarts.bayes_factors import log_moves, log_rewards
from switchmdp.restarts.evidence import NOISE, WIDEST
from switchmdp.validation import check_positive, check_probability

NO_PAIR = -1


def period_of(gap: float, n_pairs: int) -> float:
    """The steps until the first time; until the k-th it takes k² times as many.

    >>> period_of(350, 16)
    1400.0
    """
    return gap * math.sqrt(n_pairs)


@compiled
class AsPlanned:
    """Nothing beyond the plan."""

    def adjust(self, starts: Any, counts: Any, t: int, choice: Any, quota: Any) -> None:
        """An episode was planned at time t."""

    def alarmed(self) -> bool:
        """Whether to forget something now."""
        return False

    def suspect(self, suspects: Any, t: int) -> int:
        """Mark the pairs that seem to have changed; how many steps ago that was."""
        return 0

    def start_over(self, suspects: Any) -> None:
        """What was known of these pairs is forgotten."""


@compiled
class Probes:
    """Tries pairs that the policy leaves out, at steps gap·√n·k² with n pairs."""

    gap: Annotated[float, Range(1.0, below=math.inf)]
    delta: Probability
    turn: Annotated[int, Range(1, below=2**31)]
    width: Annotated[int, Equals(f"min(states, {WIDEST})")]
    found: Annotated[int, Range(NO_PAIR, below="pairs")]
    opened: Annotated[int, Range(0, below=2**53)]
    period: Annotated[float, Range(1.0, below=math.inf)]
    open: Annotated[NDArray[np.bool_], Shape("pairs")]
    last: Annotated[NDArray[np.int64], Shape("pairs"), Range(0)]
    before: Annotated[NDArray[np.float64], Shape("pairs", "2 + width"), Range(-NOISE, 2.0**53)]
    now: Annotated[NDArray[np.float64], Shape("2 + width"), Scratch()]
    none: Annotated[NDArray[np.float64], Shape("width"), Scratch()]

    def __init__(self, gap: float = 350.0, delta: float = 0.01) -> None:
        if check_positive("gap", gap) < 1.0:
            raise InvalidParameter("gap", gap, "a number >= 1")
        self.gap, self.delta = float(gap), check_probability("delta", delta)
        self.turn, self.found, self.opened = 1, NO_PAIR, 0

    def allocate(self, pairs: Pairs) -> None:
        """Make room for these pairs."""
        self.width = min(pairs.n_states, WIDEST)
        self.period = period_of(self.gap, pairs.n_pairs)
        self.open = np.zeros(pairs.n_pairs, np.bool_)
        self.last = np.zeros(pairs.n_pairs, np.int64)
        self.before = np.zeros((pairs.n_pairs, 2 + self.width))
        make_scratch(self, pairs)

    def grow(self, pairs: Pairs, place: Any) -> None:
        """Make room for more pairs; what was open is closed."""
        self.allocate(pairs)
        self.found = NO_PAIR

    def check_invariants(self) -> None:
        """The period follows from the gap."""
        require(self.period == period_of(self.gap, self.open.size), "Probes.period is wrong")

    def adjust(self, starts: Any, counts: Any, t: int, choice: Any, quota: Any) -> None:
        """Judge what was tried, and send the new episode through the pairs that are open."""
        # `turn` is that of the next time, k + 1.
        looks = self.open.size * (self.turn - 1.0) * self.turn
        threshold = math.log(max(1.0, looks) / self.delta)
        for pair in range(self.open.size):
            if self.open[pair] and counts.visits[pair] != self.before[pair, 0]:
                self.judge(counts, pair, threshold)
                if self.found != NO_PAIR:
                    return  # first things first: what else is open is tried another time
        if t >= self.period * self.turn * self.turn:
            while t >= self.period * self.turn * self.turn:  # a restart may keep many steps
                self.turn += 1
            self.opened = t
            for pair in range(self.open.size):
                # Fewer, where the memory forgets.
                stale = 0 < counts.visits[pair] <= self.last[pair]
                self.open[pair] = stale
                self.last[pair] = counts.visits[pair]
                if stale:
                    self.read(counts, pair)
                    self.before[pair, :] = self.now
        for s in range(choice.size):
            for pair in range(starts[s], starts[s + 1]):
                if self.open[pair]:
                    choice[s], quota[s] = pair, 1
                    break

    def read(self, counts: Any, pair: int) -> None:
        """Visits, rewards and successors of a pair as they are."""
        now = self.now
        now[0] = counts.visits[pair]
        now[1] = counts.mean(pair) * now[0]
        for j in range(self.width):
            now[2 + j] = 0.0
        for k in range(counts.offset[pair], counts.offset[pair] + counts.used[pair]):
            now[2 + counts.target[k] % self.width] += counts.count[k]

    def judge(self, counts: Any, pair: int, threshold: float) -> None:
        """Wald's test of an open pair."""
        self.read(counts, pair)
        now, before = self.now, self.before[pair]
        since = now[0] - before[0]
        for j in range(now.size):
            if now[j] < before[j] - NOISE:  # the memory has forgotten some of it
                self.open[pair] = False
                return
        log_b = log_rewards(before[0], before[1]) - log_rewards(now[0], now[1])
        log_b += log_rewards(since, now[1] - before[1])
        log_b += log_moves(before[0], before[2:], self.none)
        log_b += log_moves(since, now[2:], before[2:]) - log_moves(now[0], now[2:], self.none)
        if log_b > threshold:
            self.found = pair
        elif log_b < 0.0 or since >= 2.0 + 4.0 * log_b:
            self.open[pair] = False

    def alarmed(self) -> bool:
        """Whether to forget something now."""
        return self.found != NO_PAIR

    def suspect(self, suspects: Any, t: int) -> int:
        """Mark the pair that was found changed; how many steps ago it was tried first."""
        for pair in range(suspects.size):
            suspects[pair] = pair == self.found
        return max(0, t - self.opened)

    def start_over(self, suspects: Any) -> None:
        """What was known of these pairs is forgotten."""
        self.turn, self.found, self.opened = 1, NO_PAIR, 0
        for pair in range(suspects.size):
            self.open[pair] = False
            if suspects[pair]:
                self.last[pair] = 0
