"""What an agent remembers: everything, the last W steps, or what came since the last change.

For each pair the visits N, the sum R of its rewards and the count of each successor; the paper's
N_k, R_k and P_k (Figure 1, steps 2 and 3).

**Sums that don't drift.** Adding and subtracting doubles for ever leaves rounding errors behind. A
reward r in [0, 1] is kept as two integers, r = h·2⁻³¹ + l·2⁻⁶² (off by at most 2⁻⁶³), and integers
are added and subtracted exactly: whatever the order and however long the run, an empty window sums
to 0 and 0/1 rewards to whole numbers. The sums hold 2³² visits to a pair.

**Successor counts.** Each pair owns a block of slots (successor, count). With few states the block
is the full row, slot = state. Otherwise it starts empty and doubles as successors are met, so that
memory is O(pairs + transitions met); a slot whose count fell to 0 is given to the next new
successor. A window remembers (pair, slot, reward) of each step: forgetting needs no search.

Agents log steps in a small buffer and `absorb` it when they plan: counts are brought up to date in
one pass. As the sums are exact, it makes no difference when that happens.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from switchmdp.compiled import compiled, jit
from switchmdp.mdp.model import FULL_ROWS_UP_TO
from switchmdp.mdp.pairs import Pairs, whole

HIGH = 2.0**31
FIRST_RING = 1024


@jit
def high_part(reward: float) -> int:
    """h of r = h·2⁻³¹ + l·2⁻⁶²."""
    return int(reward * HIGH)


@jit
def low_part(reward: float) -> int:
    """l of r = h·2⁻³¹ + l·2⁻⁶², to the nearest."""
    scaled = reward * HIGH
    return int((scaled - int(scaled)) * HIGH + 0.5)


@compiled
class Counts:
    """Visits, reward sums and successor counts of every pair."""

    n_states: int
    full: bool
    visits: NDArray[np.int64]
    high: NDArray[np.int64]
    low: NDArray[np.int64]
    offset: NDArray[np.int64]
    used: NDArray[np.int64]
    target: NDArray[np.uint32]
    count: NDArray[np.int64]
    filled: int

    def __init__(self, pairs: Pairs) -> None:
        n_pairs = pairs.n_pairs
        self.n_states = pairs.n_states
        self.full = pairs.n_states <= FULL_ROWS_UP_TO
        self.visits = np.zeros(n_pairs, np.int64)
        self.high = np.zeros(n_pairs, np.int64)
        self.low = np.zeros(n_pairs, np.int64)
        size = n_pairs * pairs.n_states if self.full else 4096
        self.target = np.zeros(size, np.uint32)
        if self.full:
            self.target[:] = np.arange(size) % pairs.n_states
        self.count = np.zeros(size, np.int64)
        width = pairs.n_states if self.full else 0
        self.offset = np.arange(n_pairs, dtype=np.int64) * width
        self.used = np.full(n_pairs, width, np.int64)
        self.filled = size if self.full else 0

    def mean(self, pair: int) -> float:
        """r̂ = R / max(1, N)."""
        total = self.high[pair] / HIGH + self.low[pair] / HIGH / HIGH
        return float(total / max(1, self.visits[pair]))

    def add(self, pairs: Any, nexts: Any, rewards: Any, first: int, last: int) -> None:
        """Count the steps first..last-1; `nexts` then holds slots in place of states."""
        visits, high, low = self.visits, self.high, self.low
        for i in range(first, last):
            pair = pairs[i]
            visits[pair] += 1
            high[pair] += high_part(rewards[i])
            low[pair] += low_part(rewards[i])
        if self.full:
            offset, count = self.offset, self.count
            for i in range(first, last):
                count[offset[pairs[i]] + nexts[i]] += 1
        else:
            for i in range(first, last):
                slot = self.slot_of(pairs[i], nexts[i])
                nexts[i] = slot
                self.count[self.offset[pairs[i]] + slot] += 1

    def remove(self, pairs: Any, slots: Any, rewards: Any, first: int, last: int) -> None:
        """Take the steps first..last-1 back."""
        visits, high, low = self.visits, self.high, self.low
        offset, count = self.offset, self.count
        for i in range(first, last):
            pair = pairs[i]
            visits[pair] -= 1
            high[pair] -= high_part(rewards[i])
            low[pair] -= low_part(rewards[i])
            count[offset[pair] + slots[i]] -= 1

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

    def compact(self, wanted: int) -> None:
        """Close the gaps that moved blocks left, and make room for `wanted` slots and a third."""
        total = 0
        for pair in range(self.used.size):
            if self.visits[pair] == 0:  # all of it was forgotten: no step refers to its slots
                self.used[pair] = 0
            total += block_size(self.used[pair])
        size = (total + wanted) * 4 // 3 + 4096
        target, count = np.zeros(size, np.uint32), np.zeros(size, np.int64)
        filled = 0
        for pair in range(self.used.size):
            old = self.offset[pair]
            for slot in range(self.used[pair]):
                target[filled + slot] = self.target[old + slot]
                count[filled + slot] = self.count[old + slot]
            self.offset[pair] = filled
            filled += block_size(self.used[pair])
        self.target, self.count, self.filled = target, count, filled

    def moved(self, pairs: Pairs, place: Any) -> Counts:
        """The same counts among more pairs, where pair x is now place[x]."""
        new = Counts(pairs)
        new.visits[place], new.high[place], new.low[place] = self.visits, self.high, self.low
        for pair, into in enumerate(place):
            for k in range(self.offset[pair], self.offset[pair] + self.used[pair]):
                if self.count[k] > 0:
                    state = int(self.target[k])
                    slot = state if new.full else new.slot_of(into, state)
                    new.count[new.offset[into] + slot] = self.count[k]
        return new

    def clear(self) -> None:
        """Forget all."""
        for pair in range(self.visits.size):
            self.visits[pair], self.high[pair], self.low[pair] = 0, 0, 0
            if not self.full:
                self.used[pair] = 0
        for k in range(self.filled):
            self.count[k] = 0
        if not self.full:
            self.filled = 0


@jit
def block_size(used: int) -> int:
    """The slots of a block of which this many are in use."""
    size = 1
    while size < used:
        size *= 2
    return size if used > 0 else 0


@compiled
class Everything:
    """Remembers every step since the last restart (UCRL2)."""

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

    def keep(self, steps: int) -> int:
        """Forget all but the last steps, as many as can be told apart: none."""
        self.counts.clear()
        return 0

    def clear(self) -> None:
        self.counts.clear()


@compiled
class Window:
    """Remembers the last `window` steps: t - W <= τ < t (SW-UCRL, Figure 1, steps 2 and 3).

    A ring of at most W steps, grown as it fills. The trap is that an episode may be as long as the
    window: here a step leaves the ring in the same pass in which its successor enters.
    """

    window: int
    counts: Counts
    pairs: NDArray[np.uint32]
    slots: NDArray[np.uint32]
    rewards: NDArray[np.float64]
    head: int
    size: int

    def __init__(self, window: int) -> None:
        self.window = whole("window", window, 1)

    def allocate(self, pairs: Pairs) -> None:
        """Make room for these pairs."""
        self.counts = Counts(pairs)
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
        self.forget(max(0, self.size + n - done - self.window))
        self.counts.add(pairs, nexts, rewards, done, n)
        self.reserve(self.size + n - done)
        room, at = self.pairs.size, self.head + self.size
        ring_pairs, ring_slots, ring_rewards = self.pairs, self.slots, self.rewards
        for i in range(done, n):
            if at >= room:
                at -= room
            ring_pairs[at] = pairs[i]
            ring_slots[at] = nexts[i]
            ring_rewards[at] = rewards[i]
            at += 1
        self.size += n - done

    def grow(self, pairs: Pairs, place: Any) -> None:
        """Make room for more pairs; pair x is now place[x]. The steps enter once more, in order."""
        counts, steps = self.counts, self.size
        where = (self.head + np.arange(steps)) % self.pairs.size
        before, slots, rewards = self.pairs[where], self.slots[where], self.rewards[where]
        nexts = counts.target[counts.offset[before] + slots]
        self.allocate(pairs)
        self.absorb(place[before].astype(np.uint32), nexts, rewards, steps)

    def forget(self, n: int) -> None:
        """Take the n oldest steps back."""
        until_end = min(n, self.pairs.size - self.head)
        head = self.head
        self.counts.remove(self.pairs, self.slots, self.rewards, head, head + until_end)
        self.counts.remove(self.pairs, self.slots, self.rewards, 0, n - until_end)
        self.head = (head + n) % self.pairs.size
        self.size -= n

    def reserve(self, steps: int) -> None:
        """Grow the ring; before it has W slots nothing was forgotten, so it starts at 0."""
        room = self.pairs.size
        if steps <= room:
            return
        larger = min(self.window, max(2 * room, steps))
        pairs, slots = np.zeros(larger, np.uint32), np.zeros(larger, np.uint32)
        rewards = np.zeros(larger)
        for i in range(room):
            pairs[i], slots[i], rewards[i] = self.pairs[i], self.slots[i], self.rewards[i]
        self.pairs, self.slots, self.rewards = pairs, slots, rewards

    def keep(self, steps: int) -> int:
        """Forget all but the last steps; how many those are."""
        if steps < self.size:
            self.forget(self.size - steps)
            where = (self.head + np.arange(steps)) % self.pairs.size
            self.pairs[:steps] = self.pairs[where]
            self.slots[:steps] = self.slots[where]
            self.rewards[:steps] = self.rewards[where]
            self.head = 0  # as long as there are fewer than W it starts there: see `reserve`
        return self.size

    def clear(self) -> None:
        self.counts.clear()
        self.head = 0
        self.size = 0


@compiled
class Since:
    """Remembers every step since the last change, and the last `room` of them one by one.

    When it is told to keep only the last steps, it counts those again.
    """

    room: int
    counts: Counts
    pairs: NDArray[np.uint32]
    nexts: NDArray[np.uint32]
    rewards: NDArray[np.float64]
    at: int
    size: int

    def __init__(self, room: int = 2**16) -> None:
        self.room = whole("room", room, 1, 2**32)

    def allocate(self, pairs: Pairs) -> None:
        """Make room for these pairs."""
        self.counts = Counts(pairs)
        self.pairs, self.nexts = np.zeros(self.room, np.uint32), np.zeros(self.room, np.uint32)
        self.rewards = np.zeros(self.room)
        self.at, self.size = 0, 0

    def absorb(self, pairs: Any, nexts: Any, rewards: Any, n: int) -> None:
        """Count the n steps of a log."""
        at, room = self.at, self.room
        for i in range(n):
            self.pairs[at], self.nexts[at], self.rewards[at] = pairs[i], nexts[i], rewards[i]
            at += 1
            if at == room:
                at = 0
        self.at, self.size = at, min(room, self.size + n)
        self.counts.add(pairs, nexts, rewards, 0, n)

    def keep(self, steps: int) -> int:
        """Forget all but the last steps, those that are held; how many that are."""
        kept = min(steps, self.size)
        pairs, nexts = np.empty(kept, np.uint32), np.empty(kept, np.uint32)
        rewards = np.empty(kept)
        for i in range(kept):
            k = (self.at - kept + i) % self.room
            pairs[i], nexts[i], rewards[i] = self.pairs[k], self.nexts[k], self.rewards[k]
        self.counts.clear()
        self.counts.add(pairs, nexts, rewards, 0, kept)
        self.size = kept
        return kept

    def grow(self, pairs: Pairs, place: Any) -> None:
        """Make room for more pairs; pair x is now place[x]."""
        self.counts = self.counts.moved(pairs, place)
        where = (self.at - self.size + np.arange(self.size)) % self.room
        self.pairs[where] = place[self.pairs[where]]

    def clear(self) -> None:
        self.counts.clear()
        self.size = 0

    def check_sizes(self, n_states: int, n_pairs: int) -> None:
        """Raise a ValueError where the arrays are not what machine code relies on."""
        ring = (self.pairs, self.nexts, self.rewards)
        where = (self.at - self.size + np.arange(self.size)) % self.room
        right = (
            all(array.shape == (self.room,) for array in ring)
            and 0 <= self.at < self.room and 0 <= self.size <= self.room
            and (self.pairs[where] < n_pairs).all() and (self.nexts[where] < n_states).all()
            and ((self.rewards[where] >= 0.0) & (self.rewards[where] <= 1.0)).all()
        )  # fmt: skip
        if not right:
            raise ValueError("Since is not consistent")
