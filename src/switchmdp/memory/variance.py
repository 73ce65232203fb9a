"""Memories that also have the empirical variance of the rewards of each pair.

For rewards in [0, 1] with mean r̂, over the N visits to a pair,

    V̂ = (1/N) Σ (r - r̂)² = r̂ (1 - r̂) - (1/N) Σ r (1 - r).

So one additional sum per pair suffices, Σ r (1 - r), to which rewards of 0 and 1 add nothing. Other
memories return r̂ (1 - r̂), which equals V̂ for such rewards and is larger for all others.

The sum is stored as an integer, in units of 2⁻³⁰. As for the sums of rewards (`counts`), adding and
subtracting is then exact in any order. A term is rounded by at most 2⁻³¹, and so is V̂.
"""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from switchmdp.compiled import Range, Shape, compiled, index, jit, require
from switchmdp.mdp.pairs import Pairs
from switchmdp.memory.counts import MOST_VISITS, Counts, exact_sums
from switchmdp.memory.window import Everything, Window

UNIT = 2.0**30
LARGEST_TERM = 2**28  # r (1 - r) of r = 1/2


@jit
def spread_of(reward: float) -> int:
    """r (1 - r), in units of 2⁻³⁰.

    >>> spread_of(1.0), spread_of(0.5) / 2**30
    (0, 0.25)
    """
    return int(reward * (1.0 - reward) * UNIT + 0.5)


@compiled
class CountsWithVariance(Counts):
    """Counts with the sum of r (1 - r) of each pair.

    Parameters
    ----------
    pairs
        The state-action pairs that are counted.

    Examples
    --------
    >>> from switchmdp.mdp import MDP
    >>> mdp = MDP([[[0.5, 0.5]], [[1.0, 0.0]]], [[0.2], [0.8]])
    >>> CountsWithVariance(mdp.pairs).variance(0)
    0.0
    """

    spread: Annotated[NDArray[np.int64], Shape("pairs"), Range(0, MOST_VISITS * LARGEST_TERM)]
    add_steps = Counts.add  # what is overridden below: machine code has no super()
    remove_steps = Counts.remove
    exchange_steps = Counts.exchange
    forget_counts = Counts.forget
    clear_counts = Counts.clear

    def __init__(self, pairs: Pairs) -> None:
        Counts.__init__(self, pairs)
        self.spread = np.zeros(pairs.n_pairs, np.int64)

    def check_invariants(self) -> None:
        """As for all counts; and no reward spreads by more than 1/4."""
        Counts.check_invariants(self)
        most = self.visits * LARGEST_TERM
        require((self.spread <= most).all(), "CountsWithVariance.spread exceeds the visits")

    def variance(self, pair: int) -> float:
        """The empirical variance of the rewards of a pair."""
        mean = self.mean(pair)
        spread = self.spread[pair] / UNIT / max(1, self.visits[pair])
        return float(max(0.0, mean * (1.0 - mean) - spread))

    def add_spread(self, pairs: Any, rewards: Any, first: int, last: int, sign: int) -> None:
        """Add or subtract r (1 - r) of the steps first..last-1."""
        spread = self.spread
        for i in range(first, last):
            spread[index(pairs[index(i)])] += sign * spread_of(rewards[index(i)])

    def add(self, pairs: Any, nexts: Any, rewards: Any, first: int, last: int) -> None:
        """Count the steps first..last-1; `nexts` then holds slots in place of states."""
        self.add_steps(pairs, nexts, rewards, first, last)
        self.add_spread(pairs, rewards, first, last, 1)

    def remove(self, pairs: Any, slots: Any, rewards: Any, first: int, last: int) -> None:
        """Subtract the steps first..last-1."""
        self.remove_steps(pairs, slots, rewards, first, last)
        self.add_spread(pairs, rewards, first, last, -1)

    def exchange(
        self, pairs: Any, nexts: Any, rewards: Any, first: int,
        ring_pairs: Any, ring_nexts: Any, ring_rewards: Any, at: int, n: int,
    ) -> None:  # fmt: skip
        """Replace n steps of a ring by those of a log; rows must be full."""
        self.add_spread(ring_pairs, ring_rewards, at, at + n, -1)
        self.add_spread(pairs, rewards, first, first + n, 1)
        self.exchange_steps(
            pairs, nexts, rewards, first, ring_pairs, ring_nexts, ring_rewards, at, n
        )

    def moved(self, pairs: Pairs, place: Any) -> CountsWithVariance:
        """The same counts among more pairs, where pair x is now place[x]."""
        new = CountsWithVariance(pairs)
        self.copy_slots(new, place)
        new.high[place], new.low[place], new.spread[place] = self.high, self.low, self.spread
        return new

    def forget(self, pair: int) -> None:
        """Delete the counts of a pair."""
        self.forget_counts(pair)
        self.spread[pair] = 0

    def clear(self) -> None:
        """Delete all counts."""
        self.clear_counts()
        for pair in range(self.spread.size):
            self.spread[pair] = 0


@compiled
class EverythingWithVariance(Everything):
    """A memory of every step since the last restart, with the variance of the rewards."""

    counts: CountsWithVariance

    def allocate(self, pairs: Pairs) -> None:
        """Make room for these pairs."""
        self.counts = CountsWithVariance(pairs)


@compiled
class WindowWithVariance(Window):
    """A memory of the last `window` steps, with the variance of their rewards.

    Parameters
    ----------
    window
        W, the number of latest steps that count.

    Raises
    ------
    InvalidParameter
        `window` is not a positive integer.

    Examples
    --------
    >>> from switchmdp.agents import Episodic
    >>> from switchmdp.plausible import Bernstein
    >>> from switchmdp.restarts import Never
    >>> components = {"plausible": Bernstein(0.05, windowed=True), "restarts": Never()}
    >>> Episodic(2, 2, memory=WindowWithVariance(100), **components).memory
    WindowWithVariance(window=100)
    """

    counts: CountsWithVariance

    def allocate(self, pairs: Pairs) -> None:
        """Make room for these pairs."""
        self.counts = CountsWithVariance(pairs)
        self.open_ring()

    def check_invariants(self) -> None:
        """The counts are those of the steps in the ring."""
        Window.check_invariants(self)
        where = (self.head + np.arange(self.size)) % self.pairs.size
        terms = [spread_of(float(reward)) for reward in self.rewards[where]]
        sums = exact_sums(self.pairs[where], np.array(terms, np.int64), self.counts.spread.size)
        same = np.array_equal(sums, self.counts.spread)
        require(same, "WindowWithVariance.rewards differs from the spread")
