"""The reward rate over time, in a bounded number of buckets.

Every bucket holds the same number of rewards. When there are too many buckets, neighbours are
joined and the number doubles: a curve of a day and one of a year take the same room.
"""

from __future__ import annotations

from typing import Any

MOST_BUCKETS = 240


class RewardHistory:
    """Buckets of (time of the first reward, of the last, how many, their sum).

    >>> history = RewardHistory()
    >>> for reward in (1.0, 0.0):
    ...     history.add(reward, at=5.0)
    >>> history.buckets
    [[5.0, 5.0, 1, 1.0], [5.0, 5.0, 1, 0.0]]
    """

    def __init__(self) -> None:
        self.size = 1
        self.buckets: list[list[Any]] = []

    def add(self, reward: float, at: float) -> None:
        """One more reward."""
        if self.buckets and self.buckets[-1][2] < self.size:
            last = self.buckets[-1]
            # A clock may be set back; a bucket does not end before it begins.
            last[1], last[2], last[3] = max(last[1], at), last[2] + 1, last[3] + reward
            return
        if len(self.buckets) == MOST_BUCKETS:
            joined = zip(self.buckets[::2], self.buckets[1::2], strict=True)
            self.buckets = [[a[0], b[1], a[2] + b[2], a[3] + b[3]] for a, b in joined]
            self.size *= 2
        self.buckets.append([at, at, 1, reward])
