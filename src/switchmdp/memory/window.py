"""Memories of whole steps: all steps since the last restart, or the last W steps.

A window stores the (pair, slot, reward) of each step, so that forgetting a step needs no search.

Agents log steps in a small buffer and `absorb` it when they plan, which updates the counts in one
pass. The sums are exact, so the result does not depend on when that happens.

**Variance.** `EverythingWithVariance` and `WindowWithVariance` also have the empirical variance of
the rewards of each pair. For rewards in [0, 1] with mean r̂, over the N visits to a pair,

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
from switchmdp.memory.counts import MOST_VISITS, Counts, copy_steps, exact_sums, reward_parts
from switchmdp.validation import check_integer

FIRST_RING = 1024
UNIT = 2.0**30
LARGEST_TERM = 2**28  # r (1 - r) of r = 1/2


@compiled
class Everything:
    """A memory of every step since the last restart (UCRL2)."""

    counts: Counts

    def allocate(self, pairs: Pairs) -> None:
        """Make room for these pairs."""
        self.counts = Counts(pairs)

    def absorb(self, pairs: Any, nexts: Any, rewards: Any, n: int) -> None:
        """Count the n steps of a log."""
        self.counts.add(pairs, nexts, rewards, 0, n)

    def grow(self, pairs: Pairs, place: Any) -> None:
        """Make room for more pairs; pair x is now place[x]."""
        self.counts = self.counts.moved(pairs, place)

    def keep(self, steps: int, suspects: Any) -> int:
        """Forget these pairs; single steps are not stored, so that none is kept."""
        self.counts.forget_pairs(suspects)
        return 0


@compiled
class Window:
    """A memory of the last `window` steps: t - W <= τ < t (SW-UCRL, Figure 1, steps 2 and 3).

    The steps are stored in a ring that grows up to W steps. An episode may be longer than the
    window: each new step replaces the oldest one in the same pass.

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
    >>> Window(1000).window
    1000
    """

    window: Annotated[int, Range(1, 2**62)]
    counts: Counts
    pairs: Annotated[NDArray[np.uint32], Shape("room"), Range(0, below="pairs")]
    slots: Annotated[NDArray[np.uint32], Shape("room"), Range(0, below="states")]
    rewards: Annotated[NDArray[np.float64], Shape("room"), Range(0.0, 1.0)]
    head: Annotated[int, Range(0, below="room")]
    size: Annotated[int, Range(0, "room")]

    def __init__(self, window: int) -> None:
        self.window = check_integer("window", window, 1)

    def check_invariants(self) -> None:
        """The counts are those of the steps in the ring."""
        counts, room, n_pairs = self.counts, self.pairs.size, self.counts.visits.size
        require(room <= self.window, "Window.pairs has more steps than the window")
        # The ring starts at 0 until it is full: `reserve` relies on it.
        require(self.head == 0 or self.size == self.window, "Window.head must be 0 until full")
        where = (self.head + np.arange(self.size)) % room
        pairs, slots = self.pairs[where].astype(np.int64), self.slots[where].astype(np.int64)
        require((slots < counts.used[pairs]).all(), "Window.slots must be in use")
        visits = np.bincount(pairs, minlength=n_pairs)
        require(np.array_equal(visits, counts.visits), "Window.pairs differs from the visits")
        at = counts.offset[pairs] + slots
        # Each slot has as many as it should; with the visits' total right, no other has any.
        seen = np.bincount(at, minlength=counts.count.size)
        require(np.array_equal(seen[at], counts.count[at]), "Window.slots differs from the counts")
        for part, sums in zip(
            reward_parts(self.rewards[where]), (counts.high, counts.low), strict=True
        ):
            same = np.array_equal(exact_sums(pairs, part, n_pairs), sums)
            require(same, "Window.rewards differs from the sums")

    def allocate(self, pairs: Pairs) -> None:
        """Make room for these pairs."""
        self.counts = Counts(pairs)
        self.open_ring()

    def open_ring(self) -> None:
        """An empty ring, small at first."""
        room = min(self.window, FIRST_RING)
        self.pairs, self.slots = np.zeros(room, np.uint32), np.zeros(room, np.uint32)
        self.rewards = np.zeros(room)
        self.head = 0
        self.size = 0

    def absorb(self, pairs: Any, nexts: Any, rewards: Any, n: int) -> None:
        """Count the n steps of a log, and forget as many as have left the window."""
        done = max(0, n - self.window)
        if done > 0:  # the log alone is longer than the window
            self.clear()
        if self.size == self.window and self.counts.full:
            self.exchange(pairs, nexts, rewards, n)
            return
        self.forget(max(0, self.size + n - done - self.window))
        self.counts.add(pairs, nexts, rewards, done, n)
        self.reserve(self.size + n - done)
        room, at = self.pairs.size, self.head + self.size
        if at >= room:
            at -= room
        self.size += n - done
        ring_pairs, ring_slots, ring_rewards = self.pairs, self.slots, self.rewards
        while done < n:  # one contiguous part of the ring after the other
            part = min(n - done, room - at)
            copy_steps(pairs, nexts, rewards, done, ring_pairs, ring_slots, ring_rewards, at, part)
            done, at = done + part, 0

    def exchange(self, pairs: Any, nexts: Any, rewards: Any, n: int) -> None:
        """Replace the n oldest steps of a full ring by those of a log."""
        done, at, room = 0, self.head, self.pairs.size
        while done < n:  # one contiguous part of the ring after the other
            part = min(n - done, room - at)
            self.counts.exchange(
                pairs, nexts, rewards, done, self.pairs, self.slots, self.rewards, at, part
            )
            done, at = done + part, at + part
            if at == room:
                at = 0
        self.head = at

    def grow(self, pairs: Pairs, place: Any) -> None:
        """Make room for more pairs; pair x is now place[x]. The steps are counted again."""
        counts, steps = self.counts, self.size
        where = (self.head + np.arange(steps)) % self.pairs.size
        before, slots, rewards = self.pairs[where], self.slots[where], self.rewards[where]
        nexts = counts.target[counts.offset[before] + slots]
        self.allocate(pairs)
        self.absorb(place[before].astype(np.uint32), nexts, rewards, steps)

    def forget(self, n: int) -> None:
        """Remove the n oldest steps."""
        until_end = min(n, self.pairs.size - self.head)
        head = self.head
        self.counts.remove(self.pairs, self.slots, self.rewards, head, head + until_end)
        self.counts.remove(self.pairs, self.slots, self.rewards, 0, n - until_end)
        self.head = (head + n) % self.pairs.size
        self.size -= n

    def reserve(self, steps: int) -> None:
        """Grow the ring; before it has W slots nothing was removed, so that it starts at 0."""
        room = self.pairs.size
        if steps <= room:
            return
        larger = min(self.window, max(2 * room, steps))
        pairs, slots = np.zeros(larger, np.uint32), np.zeros(larger, np.uint32)
        rewards = np.zeros(larger)
        for i in range(room):
            pairs[i], slots[i], rewards[i] = self.pairs[i], self.slots[i], self.rewards[i]
        self.pairs, self.slots, self.rewards = pairs, slots, rewards

    def keep(self, steps: int, suspects: Any) -> int:
        """Forget all but the last steps, of all pairs; returns how many are left."""
        if steps < self.size:
            self.forget(self.size - steps)
            pairs, slots = np.empty(steps, np.uint32), np.empty(steps, np.uint32)
            rewards = np.empty(steps)
            for i in range(steps):
                k = (self.head + i) % self.pairs.size
                pairs[i], slots[i], rewards[i] = self.pairs[k], self.slots[k], self.rewards[k]
            for i in range(steps):
                self.pairs[i], self.slots[i], self.rewards[i] = pairs[i], slots[i], rewards[i]
            self.head = 0  # a ring with fewer than W steps starts at 0: see `reserve`
        return self.size

    def clear(self) -> None:
        """Forget all steps."""
        self.counts.clear()
        self.head = 0
        self.size = 0


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
