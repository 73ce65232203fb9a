"""What came since the last change, and its last steps one by one."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from switchmdp.compiled import compiled
from switchmdp.mdp.pairs import Pairs, whole
from switchmdp.memory.counts import Counts


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
