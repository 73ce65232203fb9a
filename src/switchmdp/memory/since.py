"""For each pair the steps since its last change; and the last steps one by one.

After a detected change all steps since the change are kept for each affected pair. Some steps from
before are still useful, if the change is small. The delay shows how small: a change that took v
visits to a pair to detect is about as large as v visits can resolve, so that the data from before
are worth about v visits. Under drift, data lose value with their age a: data that are m steps old
are worth v visits, older data m v / a. So

    a pair's j-th last visit, a steps ago and before the change, is kept if  j a <= m v / 4

and j <= 4: enough not to start from nothing, too few to dominate the new data. The change was m
steps ago, and since then each visited pair had v = m / (visited pairs) visits on average. After a
large change, which is detected at once, nothing is kept. This is a heuristic.
"""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from switchmdp.compiled import Range, Shape, compiled
from switchmdp.mdp.pairs import Pairs
from switchmdp.memory.counts import Counts, copy_steps
from switchmdp.validation import check_integer

MOST = 4


@compiled
class Since:
    """Counts every step since the last change of its pair, and stores the last `room` one by one.

    To keep only the last steps of some pairs, it deletes their counts and counts those steps again.
    """

    room: Annotated[int, Range(1, 2**32)]
    counts: Counts
    pairs: Annotated[NDArray[np.uint32], Shape("room"), Range(0, below="pairs")]
    nexts: Annotated[NDArray[np.uint32], Shape("room"), Range(0, below="states")]
    rewards: Annotated[NDArray[np.float64], Shape("room"), Range(0.0, 1.0)]
    at: Annotated[int, Range(0, below="room")]
    size: Annotated[int, Range(0, "room")]
    total: Annotated[int, Range("size", below=2**53)]
    first: Annotated[NDArray[np.int64], Shape("pairs"), Range(0, "total")]

    def __init__(self, room: int = 2**16) -> None:
        self.room = check_integer("room", room, 1, 2**32)

    def allocate(self, pairs: Pairs) -> None:
        """Make room for these pairs."""
        self.counts = Counts(pairs)
        self.pairs, self.nexts = np.zeros(self.room, np.uint32), np.zeros(self.room, np.uint32)
        self.rewards = np.zeros(self.room)
        self.at, self.size, self.total = 0, 0, 0
        self.first = np.zeros(pairs.n_pairs, np.int64)  # which of all steps is a pair's first kept

    def absorb(self, pairs: Any, nexts: Any, rewards: Any, n: int) -> None:
        """Count the n steps of a log."""
        done = 0
        while done < n:  # one contiguous part of the ring after the other
            part = min(n - done, self.room - self.at)
            copy_steps(
                pairs, nexts, rewards, done, self.pairs, self.nexts, self.rewards, self.at, part
            )
            done += part
            self.at += part
            if self.at == self.room:
                self.at = 0
        self.size, self.total = min(self.room, self.size + n), self.total + n
        self.counts.add(pairs, nexts, rewards, 0, n)

    def keep(self, steps: int, suspects: Any) -> int:
        """Forget all but the last stored steps of these pairs; returns how many steps are kept."""
        kept = min(steps, self.size)
        oldest = self.choose(kept, suspects, self.first)
        self.counts.forget_pairs(suspects)
        pairs, nexts, rewards, n = self.stored(oldest, suspects, self.first)
        self.counts.add(pairs, nexts, rewards, 0, n)
        return kept

    def stored(self, oldest: int, suspects: Any, first: Any) -> tuple[Any, Any, Any, int]:
        """The last `oldest` steps of these pairs, each from the first kept one on, as a log."""
        pairs, nexts = np.empty(oldest, np.uint32), np.empty(oldest, np.uint32)
        rewards = np.empty(oldest)
        n = 0
        for age in range(oldest, 0, -1):
            k = (self.at - age) % self.room
            pair = self.pairs[k]
            if suspects[pair] and self.total - age >= first[pair]:
                pairs[n], nexts[n], rewards[n] = pair, self.nexts[k], self.rewards[k]
                n += 1
        return pairs, nexts, rewards, n

    def choose(self, steps: int, suspects: Any, first: Any) -> int:
        """Set each suspected pair's first kept step by the rule above; returns the oldest age."""
        before, rank = np.empty(first.size, np.int64), np.zeros(first.size, np.int64)
        for pair in range(suspects.size):
            before[pair] = first[pair]
            if suspects[pair]:
                first[pair] = self.total
        met, worth, oldest = 0, 0.0, 0
        for age in range(1, self.size + 1):
            if age == steps + 1:
                worth = steps / 4.0 * steps / max(1, met)
            if age > steps and age > worth:
                break
            pair = self.pairs[(self.at - age) % self.room]
            rank[pair] += 1
            met += rank[pair] == 1
            lasts = age <= steps or (rank[pair] <= MOST and rank[pair] * age <= worth)
            if lasts and suspects[pair] and self.total - age >= before[pair]:
                first[pair], oldest = self.total - age, age
        return oldest

    def grow(self, pairs: Pairs, place: Any) -> None:
        """Make room for more pairs; pair x is now place[x]."""
        self.counts = self.counts.moved(pairs, place)
        where = (self.at - self.size + np.arange(self.size)) % self.room
        self.pairs[where] = place[self.pairs[where]]
        first = np.zeros(pairs.n_pairs, np.int64)
        first[place] = self.first
        self.first = first
