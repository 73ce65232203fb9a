"""The counts of each pair: visits N, the sum R of rewards, and the number P of each successor.

These are N_k, R_k and P_k of the SW-UCRL paper (Figure 1, steps 2 and 3).

**Exact sums.** Adding and subtracting doubles accumulates rounding errors. So a reward r in [0, 1]
is stored as two integers, r = h·2⁻³¹ + l·2⁻⁶² (with an error of at most 2⁻⁶³), which are added and
subtracted exactly. In any order and after any number of steps, an empty window sums to 0, and 0/1
rewards sum to whole numbers. The sums have room for 2³² visits to a pair.

**Successor counts.** Each pair owns a block of slots (successor, count). With few states the block
is the full row, slot = state. Otherwise it starts empty and doubles as new successors occur, so
that memory is O(pairs + observed transitions). A slot whose count fell to 0 is reused for the next
new successor.
"""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from switchmdp.compiled import Equals, Range, Shape, compiled, index, inlined, jit, require
from switchmdp.mdp.model import FULL_ROWS_UP_TO
from switchmdp.mdp.pairs import Pairs

HIGH = 2.0**31
MOST_VISITS = 2**32 - 1  # to a pair: what the sums of rewards hold
BOTH, REWARDS, ROWS = 1, 2, 3  # what has changed of a pair; True stands for both


@jit
def high_part(reward: float) -> int:
    """h of r = h·2⁻³¹ + l·2⁻⁶².

    Parameters
    ----------
    reward
        The reward r, in [0, 1].

    Returns
    -------
    int
        h.

    Examples
    --------
    >>> high_part(0.5) == 2**30
    True
    """
    return int(reward * HIGH)


@jit
def low_part(reward: float) -> int:
    """l of r = h·2⁻³¹ + l·2⁻⁶², to the nearest.

    Parameters
    ----------
    reward
        The reward r, in [0, 1].

    Returns
    -------
    int
        l.

    Examples
    --------
    >>> low_part(0.5), high_part(0.1) / 2**31 + low_part(0.1) / 2**62
    (0, 0.1)
    """
    scaled = reward * HIGH
    return int((scaled - int(scaled)) * HIGH + 0.5)


@inlined
def add_reward(high: Any, low: Any, pair: int, reward: float, sign: int) -> None:
    """Add a reward to the sums of its pair, or subtract it (sign = -1)."""
    scaled = reward * HIGH
    whole = int(scaled)
    high[pair] += sign * whole
    if scaled != whole:  # skipped for rewards of 0 and 1, whose low part is 0
        low[pair] += sign * low_part(reward)


@inlined
def copy_steps(
    pairs: Any, nexts: Any, rewards: Any, first: int,
    ring_pairs: Any, ring_nexts: Any, ring_rewards: Any, at: int, n: int,
) -> None:  # fmt: skip
    """Copy n steps of a log, from position `first` on, into a ring, from position `at` on."""
    for i in range(n):
        ring_pairs[index(at + i)] = pairs[index(first + i)]
        ring_nexts[index(at + i)] = nexts[index(first + i)]
        ring_rewards[index(at + i)] = rewards[index(first + i)]


@jit
def all_marked(mask: Any) -> bool:
    """Whether all are marked. (NumPy's `all` takes half a second to compile.)"""
    n_marked = 0
    for i in range(mask.size):
        n_marked += mask[i] != 0
    return bool(n_marked == mask.size)


@compiled
class Slots:
    """Each pair's block of slots (successor, count); counts may be integers or weights."""

    n_states: Annotated[int, Equals("states")]
    full: bool
    visits: Any
    offset: Annotated[NDArray[np.int64], Shape("pairs"), Range(0, "slots")]
    used: Annotated[NDArray[np.int64], Shape("pairs"), Range(0, "states")]
    target: Annotated[NDArray[np.uint32], Shape("slots"), Range(0, below="states")]
    count: Any
    filled: Annotated[int, Range(0, "slots")]

    def reward_noise(self) -> float:
        """The variance of rewards relative to rewards of 0 and 1 with the same mean."""
        return 1.0

    def check_invariants(self) -> None:
        """Blocks lie apart within the slots in use; full rows are in order."""
        name, n_states, used, filled = type(self).__name__, self.n_states, self.used, self.filled
        require(self.full == (n_states <= FULL_ROWS_UP_TO), f"{name}.full is wrong")
        require(not self.count[filled:].any(), f"{name}.count must be 0 in free slots")
        if self.full:
            require(filled == self.count.size == used.size * n_states, f"{name}.filled is wrong")
            require((used == n_states).all(), f"{name}.used must be {n_states} everywhere")
            first = np.arange(used.size) * n_states
            require((self.offset == first).all(), f"{name}.offset must be multiples of {n_states}")
            rows = self.target.reshape(-1, n_states)
            require((rows == np.arange(n_states)).all(), f"{name}.target must be full rows")
            return
        offset, size = self.offset[used > 0], block_sizes(used[used > 0])
        order = np.argsort(offset)
        offset, size = offset[order], size[order]
        require((offset <= filled - size).all(), f"{name}.offset must lie in the slots in use")
        apart = offset[:-1] + size[:-1] <= offset[1:]
        require(apart.all(), f"{name}.offset must not make blocks overlap")

    def lay_out(self, pairs: Pairs, kind: type) -> None:
        """Allocate empty blocks and visits for these pairs; `kind` is the type of the counts."""
        n_pairs = pairs.n_pairs
        self.n_states = pairs.n_states
        self.full = pairs.n_states <= FULL_ROWS_UP_TO
        self.visits = np.zeros(n_pairs, kind)
        size = n_pairs * pairs.n_states if self.full else 4096
        self.target = np.zeros(size, np.uint32)
        if self.full:
            self.target[:] = np.arange(size) % pairs.n_states
        self.count = np.zeros(size, kind)
        width = pairs.n_states if self.full else 0
        self.offset = np.arange(n_pairs, dtype=np.int64) * width
        self.used = np.full(n_pairs, width, np.int64)
        self.filled = size if self.full else 0

    def slot_of(self, pair: int, state: int) -> int:
        """The pair's slot for a successor: its own, a free one, or a new one."""
        offset, used = self.offset[pair], self.used[pair]
        free = -1
        for slot in range(used):
            if self.count[offset + slot] == 0:
                if free < 0:
                    free = slot
            elif self.target[offset + slot] == state:
                return int(slot)
        if free < 0:
            # Blocks have 1, 2, 4, 8, … slots: full when their use is a power of two.
            if used & (used - 1) == 0:
                self.move_to_end(pair, max(1, 2 * used))
            free = used
            self.used[pair] += 1
        self.target[self.offset[pair] + free] = state
        return int(free)

    def move_to_end(self, pair: int, size: int) -> None:
        """Give a pair a block of `size` slots."""
        if self.filled + size > self.target.size:
            self.compact(size)
        old, new = self.offset[pair], self.filled
        for slot in range(self.used[pair]):
            self.target[new + slot] = self.target[old + slot]
            self.count[new + slot] = self.count[old + slot]
        self.offset[pair] = new
        self.filled += size

    def is_forgotten(self, pair: int) -> bool:
        """Whether a pair has no counts."""
        return bool(self.visits[pair] == 0)

    def compact(self, wanted: int) -> None:
        """Close the gaps that moved blocks left, and make room for `wanted` slots plus a third."""
        total = 0
        for pair in range(self.used.size):
            if self.is_forgotten(pair):  # no step uses its slots
                self.used[pair] = 0
            total += block_size(self.used[pair])
        size = (total + wanted) * 4 // 3 + 4096
        target, count = np.zeros(size, np.uint32), np.zeros(size, self.count.dtype)
        filled = 0
        for pair in range(self.used.size):
            old = self.offset[pair]
            for slot in range(self.used[pair]):
                target[filled + slot] = self.target[old + slot]
                count[filled + slot] = self.count[old + slot]
            self.offset[pair] = filled
            filled += block_size(self.used[pair])
        self.target, self.count, self.filled = target, count, filled

    def copy_slots(self, new: Any, place: Any) -> None:
        """Copy the visits and successors to other slots, where pair x is now place[x]."""
        new.visits[place] = self.visits
        for pair, into in enumerate(place):
            for k in range(self.offset[pair], self.offset[pair] + self.used[pair]):
                if self.count[k] > 0:
                    state = int(self.target[k])
                    slot = state if new.full else new.slot_of(into, state)
                    new.count[new.offset[into] + slot] = self.count[k]

    def forget(self, pair: int) -> None:
        """Delete the counts of a pair."""
        raise NotImplementedError

    def clear(self) -> None:
        """Delete all counts."""
        raise NotImplementedError

    def forget_pairs(self, suspects: Any) -> None:
        """Delete the counts of these pairs."""
        if all_marked(suspects):
            self.clear()  # also frees their slots
            return
        for pair in range(suspects.size):
            if suspects[pair]:
                self.forget(pair)

    def empty_block(self, pair: int) -> None:
        """Delete the visits and successors of a pair."""
        self.visits[pair] = 0
        for k in range(self.offset[pair], self.offset[pair] + self.used[pair]):
            self.count[k] = 0

    def empty_slots(self) -> None:
        """Delete all visits and successors."""
        for pair in range(self.visits.size):
            self.visits[pair] = 0
            if not self.full:
                self.used[pair] = 0
        for k in range(self.filled):
            self.count[k] = 0
        if not self.full:
            self.filled = 0


@compiled
class Counts(Slots):
    """Visits, reward sums and successor counts of every pair.

    Parameters
    ----------
    pairs
        The state-action pairs that are counted.

    Examples
    --------
    >>> counts = Counts(Pairs.of(2, 1))
    >>> counts.add(np.array([1]), np.array([0]), np.array([0.5]), 0, 1)
    >>> counts.visits.tolist(), counts.mean(1)
    ([0, 1], 0.5)
    """

    visits: Annotated[NDArray[np.int64], Shape("pairs"), Range(0, MOST_VISITS)]
    high: Annotated[NDArray[np.int64], Shape("pairs"), Range(0)]
    low: Annotated[NDArray[np.int64], Shape("pairs"), Range(0)]
    count: Annotated[NDArray[np.int64], Shape("slots"), Range(0)]

    def __init__(self, pairs: Pairs) -> None:
        self.lay_out(pairs, np.int64)
        self.high = np.zeros(pairs.n_pairs, np.int64)
        self.low = np.zeros(pairs.n_pairs, np.int64)

    def check_invariants(self) -> None:
        """A pair's successor counts add up to its visits, and no successor has two slots."""
        visits, used, count, n_pairs = self.visits, self.used, self.count, self.visits.size
        rewarded = np.array([self.reward_visits(pair) for pair in range(n_pairs)])
        for name, sums in (("high", self.high), ("low", self.low)):
            require((sums <= rewarded * int(HIGH)).all(), f"Counts.{name} exceeds the visits")
        block = used if self.full else block_sizes(used)
        pair = np.repeat(np.arange(n_pairs), block)
        slot = np.arange(pair.size) - np.repeat(np.cumsum(block) - block, block)
        at = self.offset[pair] + slot
        seen, in_use = count[at], slot < used[pair]
        require((seen <= np.where(in_use, visits[pair], 0)).all(), "Counts.count exceeds visits")
        totals = exact_sums(pair, seen, n_pairs)
        require(np.array_equal(totals, visits), "Counts.count must add up to Counts.visits")
        met = np.sort((pair * self.n_states + self.target[at])[seen > 0])
        require((met[1:] > met[:-1]).all(), "Counts.target has a successor in two slots")

    def reward_visits(self, pair: int) -> int:
        """The number of visits whose rewards are remembered."""
        return int(self.visits[pair])

    def mean(self, pair: int) -> float:
        """r̂ = R / max(1, N)."""
        total = self.high[pair] / HIGH + self.low[pair] / HIGH / HIGH
        return float(total / max(1, self.reward_visits(pair)))

    def variance(self, pair: int) -> float:
        """An upper bound of the variance of the rewards; `CountsWithVariance` has it exactly."""
        mean = self.mean(pair)
        return mean * (1.0 - mean)

    def add(self, pairs: Any, nexts: Any, rewards: Any, first: int, last: int) -> None:
        """Count the steps first..last-1; `nexts` then holds slots in place of states."""
        visits, high, low = self.visits, self.high, self.low
        if self.full:
            offset, count = self.offset, self.count
            for i in range(first, last):
                pair = index(pairs[index(i)])
                visits[pair] += 1
                add_reward(high, low, pair, rewards[index(i)], 1)
                count[index(offset[pair] + nexts[index(i)])] += 1
        else:
            for i in range(first, last):
                pair = index(pairs[index(i)])
                visits[pair] += 1
                add_reward(high, low, pair, rewards[index(i)], 1)
                slot = self.slot_of(pairs[i], nexts[i])
                nexts[i] = slot
                self.count[self.offset[pairs[i]] + slot] += 1

    def remove(self, pairs: Any, slots: Any, rewards: Any, first: int, last: int) -> None:
        """Subtract the steps first..last-1."""
        visits, high, low = self.visits, self.high, self.low
        offset, count = self.offset, self.count
        for i in range(first, last):
            pair = index(pairs[index(i)])
            visits[pair] -= 1
            add_reward(high, low, pair, rewards[index(i)], -1)
            count[index(offset[pair] + slots[index(i)])] -= 1

    def exchange(
        self, pairs: Any, nexts: Any, rewards: Any, first: int,
        ring_pairs: Any, ring_nexts: Any, ring_rewards: Any, at: int, n: int,
    ) -> None:  # fmt: skip
        """Replace n steps of a ring by those of a log; rows must be full.

        As `remove`, `add` and `copy_steps` in one pass, which takes half the time.
        """
        visits, high, low = self.visits, self.high, self.low
        offset, count = self.offset, self.count
        for i in range(n):
            here, there = index(at + i), index(first + i)
            old, new = index(ring_pairs[here]), index(pairs[there])
            visits[old] -= 1
            add_reward(high, low, old, ring_rewards[here], -1)
            count[index(offset[old] + ring_nexts[here])] -= 1
            visits[new] += 1
            add_reward(high, low, new, rewards[there], 1)
            count[index(offset[new] + nexts[there])] += 1
            ring_pairs[here] = pairs[there]
            ring_nexts[here] = nexts[there]
            ring_rewards[here] = rewards[there]

    def moved(self, pairs: Pairs, place: Any) -> Counts:
        """The same counts among more pairs, where pair x is now place[x]."""
        new = Counts(pairs)
        self.copy_slots(new, place)
        new.high[place], new.low[place] = self.high, self.low
        return new

    def forget(self, pair: int) -> None:
        """Delete the counts of a pair."""
        self.empty_block(pair)
        self.high[pair], self.low[pair] = 0, 0

    def clear(self) -> None:
        """Delete all counts."""
        self.empty_slots()
        for pair in range(self.high.size):
            self.high[pair], self.low[pair] = 0, 0


@jit
def block_size(used: int) -> int:
    """The number of slots in a block, a power of two.

    Parameters
    ----------
    used
        The number of slots in use.

    Returns
    -------
    int
        The least power of two that is at least `used`; 0 if none is in use.

    Examples
    --------
    >>> block_size(0), block_size(3), block_size(4)
    (0, 4, 4)
    """
    size = 1
    while size < used:
        size *= 2
    return size if used > 0 else 0


def block_sizes(used: NDArray[np.int64]) -> NDArray[np.int64]:
    """`block_size` of each.

    >>> block_sizes(np.array([0, 1, 3, 4])).tolist()
    [0, 1, 4, 4]
    """
    powers = 2 ** np.arange(33)
    return np.where(used > 0, powers[np.searchsorted(powers, used)], 0)


def exact_sums(where: Any, values: Any, n: int) -> NDArray[np.int64]:
    """Sums of integers by index; `np.bincount` would add doubles."""
    sums = np.zeros(n, np.int64)
    np.add.at(sums, where, values)
    return sums


def reward_parts(rewards: NDArray[np.float64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """`high_part` and `low_part` of each, to the bit.

    >>> reward_parts(np.array([0.5, 1.0, 2.0**-62]))
    (array([1073741824, 2147483648,          0]), array([0, 0, 1]))
    """
    scaled = rewards * HIGH
    high = scaled.astype(np.int64)
    return high, ((scaled - high) * HIGH + 0.5).astype(np.int64)
