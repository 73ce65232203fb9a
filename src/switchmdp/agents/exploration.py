"""Exploration beyond the plan: none, or from time to time pairs that the plan no longer visits.

An agent that follows one policy never notices that another action has become better. Probes look
for such changes, at a price. `DirectedProbes` (`directed_probes`) travel to the pairs that they
test. `Probes` wait until the policy comes by.

From time to time every pair that was visited before, but not since the last round (in the first
round, none), is *opened*. The agent tries an open pair once when it next visits its state, and then
compares the data since with the data before, by the Bayes factor b of rewards and successors
together (`restarts.bayes_factors` treats them separately). Wald's sequential test (1945) says when
to stop:

    b < 1                          unchanged: closed, usually after one visit
    b > n k (k + 1) / δ            changed: its past is forgotten (n pairs, round k)
    otherwise                      tried again, up to 2 + 4 log b visits

Without a change, b > n k (k+1)/δ has probability at most δ over all pairs and rounds until a
restart, if the priors are right (Ville's inequality, summed). With a fading memory an open pair is
closed as soon as its counts fade: probes need a memory that counts whole visits.

Round k comes gap·√n·k² steps after the last detected change. So after t steps there were about √t
rounds, and the last was about √t steps ago: cost and delay grow alike. More pairs make a round more
expensive, hence √n. The gap is the only parameter to choose. A false alarm costs little, because
only one pair is forgotten.
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
NO_STATE = -1


def period_of(gap: float, n_pairs: int) -> float:
    """The steps until the first round; round k comes after k² times as many.

    >>> period_of(350, 16)
    1400.0
    """
    return gap * math.sqrt(n_pairs)


@compiled
class AsPlanned:
    """No exploration beyond the plan."""

    def adjust(self, starts: Any, counts: Any, t: int, choice: Any, quota: Any) -> None:
        """An episode was planned at time t."""

    def alarmed(self) -> bool:
        """Whether a pair has been found changed."""
        return False

    def suspect(self, suspects: Any, t: int) -> int:
        """Mark the pairs that seem to have changed; returns how many steps ago."""
        return 0

    def start_over(self, suspects: Any) -> None:
        """The agent forgets these pairs."""

    def destination(self) -> int:
        """The state to which the agent travels for a probe, or NO_STATE."""
        return NO_STATE


@compiled
class Probes:
    """Tries pairs that the policy does not visit, at steps gap·√n·k² with n pairs."""

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
        """Make room for more pairs; open pairs are closed."""
        self.allocate(pairs)
        self.found = NO_PAIR

    def check_invariants(self) -> None:
        """The period follows from the gap."""
        require(self.period == period_of(self.gap, self.open.size), "Probes.period is wrong")

    def adjust(self, starts: Any, counts: Any, t: int, choice: Any, quota: Any) -> None:
        """Test the pairs that were tried, and send the new episode to the open pairs."""
        # `turn` is that of the next round, k + 1.
        looks = self.open.size * (self.turn - 1.0) * self.turn
        threshold = math.log(max(1.0, looks) / self.delta)
        open_pairs, visits, last, before = self.open, counts.visits, self.last, self.before
        any_open = False
        for pair in range(open_pairs.size):
            if open_pairs[pair]:
                any_open = True
                if visits[pair] != before[pair, 0]:
                    self.judge(counts, pair, threshold)
                    if self.found != NO_PAIR:
                        return  # the other open pairs are tried later
        if t >= self.period * self.turn * self.turn:
            while t >= self.period * self.turn * self.turn:  # a restart may keep many steps
                self.turn += 1
            self.opened = t
            for pair in range(open_pairs.size):
                # The visits may have fallen: the memory may forget.
                stale = 0 < visits[pair] <= last[pair]
                open_pairs[pair] = stale
                last[pair] = visits[pair]
                if stale:
                    any_open = True
                    self.read(counts, pair)
                    for j in range(self.now.size):
                        before[pair, j] = self.now[j]
        if any_open:
            for s in range(choice.size):
                for pair in range(starts[s], starts[s + 1]):
                    if open_pairs[pair]:
                        choice[s], quota[s] = pair, 1
                        break

    def read(self, counts: Any, pair: int) -> None:
        """Read the visits, rewards and successors of a pair."""
        now = self.now
        now[0] = counts.visits[pair]
        now[1] = counts.mean(pair) * counts.reward_visits(pair)
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
            if now[j] < before[j] - NOISE:  # the memory has forgotten a part of it
                self.open[pair] = False
                return
        # A memory may hold other numbers of rewards and of successors.
        rewarded = counts.reward_visits(pair)
        if rewarded < since:
            self.open[pair] = False
            return
        log_b = log_rewards(rewarded - since, before[1]) - log_rewards(rewarded, now[1])
        log_b += log_rewards(since, now[1] - before[1])
        log_b += log_moves(before[0], before[2:], self.none)
        log_b += log_moves(since, now[2:], before[2:]) - log_moves(now[0], now[2:], self.none)
        if log_b > threshold:
            self.found = pair
        elif log_b < 0.0 or since >= 2.0 + 4.0 * log_b:
            self.open[pair] = False

    def alarmed(self) -> bool:
        """Whether a pair has been found changed."""
        return self.found != NO_PAIR

    def suspect(self, suspects: Any, t: int) -> int:
        """Mark the changed pair; returns how many steps ago it was opened."""
        for pair in range(suspects.size):
            suspects[pair] = pair == self.found
        return max(0, t - self.opened)

    def start_over(self, suspects: Any) -> None:
        """The agent forgets these pairs."""
        self.turn, self.found, self.opened = 1, NO_PAIR, 0
        for pair in range(suspects.size):
            self.open[pair] = False
            if suspects[pair]:
                self.last[pair] = 0

    def destination(self) -> int:
        """None: these probes wait until the policy comes by."""
        return NO_STATE
