"""Signs of change, and the reward rate over time.

**Change signal.** The last W steps are compared with the W steps before them. If nothing has
changed, the reward of a state-action pair and each of its successors (as 0 or 1) have the same mean
in both windows. With n and m visits, the difference of two such averages exceeds

    sqrt( (1/n + 1/m) / 2 · log(2 K / δ) )

with probability at most δ/K (Hoeffding), where K = pairs · (S + 1) is the number of means compared.
The *signal* is the largest ratio of a difference to that threshold. It fires at 1. If nothing has
changed, one comparison fires with probability at most δ, given the visits. Comparisons are
repeated, so an alert is a reason to investigate, not a proof. A pair that is not visited in one of
the windows is not compared. So a change of a pair that the policy never visits is not detected.

**Reward history.** The reward rate is stored in a bounded number of buckets with equal numbers of
rewards. When there are too many buckets, neighbours are merged and the bucket size doubles, so the
curve of a day and the curve of a year need the same space.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from switchmdp.storage import Arrays
from switchmdp.validation import check_integer, check_probability

THRESHOLD = 1.0  # at which the signal fires
PARTS = 20  # comparisons per window
DENSE = 2**20  # up to so many keys, counting all is faster than sorting


@dataclass(frozen=True)
class Signal:
    """The strongest sign of a change.

    Parameters
    ----------
    strength
        The difference of the means, relative to the threshold.
    step
        The number of feedback events when it was computed.
    state
        The state of the pair.
    action
        The action of the pair.
    next_state
        The successor whose frequency differs; None for the reward.
    before
        The mean in the earlier window.
    now
        The mean in the later window.
    time
        The wall clock of the event at which an alert was raised; None if it is not known.
    """

    strength: float
    step: int  # number of feedback events when it was computed
    state: int
    action: int
    next_state: int | None  # None: the reward
    before: float
    now: float
    time: float | None = None


class ChangeSignal:
    """Stores the last 2 W steps, and compares the two halves every W/20 steps.

    Parameters
    ----------
    window
        W, the number of steps in each half.
    delta
        The probability that a comparison fires without a change.
    since
        The number of feedback events before the first step.

    Raises
    ------
    InvalidParameter
        A parameter has the wrong type or is out of range.

    Examples
    --------
    >>> signal = ChangeSignal(window=100)
    >>> for reward in [0.0] * 100 + [1.0] * 100:
    ...     due = signal.add(0, 0, reward, 0)
    >>> found = signal.compare(n_states=2, n_actions=2, n_pairs=4)
    >>> found.strength > 1, found.before, found.now
    (True, 0.0, 1.0)
    """

    def __init__(self, window: int, delta: float = 0.01, *, since: int = 0) -> None:
        self.since = since
        self.window, self.delta = (
            check_integer("window", window, 1, 10**7),
            check_probability("delta", delta),
        )
        self.steps = 0
        self.latest: Signal | None = None
        self.ring = np.zeros((3, 0), np.uint32)  # state, action, next state
        self.rewards = np.zeros(0)

    def add(self, state: int, action: int, reward: float, next_state: int) -> bool:
        """Add a step.

        Parameters
        ----------
        state
            The state before the step.
        action
            The action.
        reward
            The reward.
        next_state
            The state after the step.

        Returns
        -------
        bool
            Whether it is time to compare.
        """
        size = self.rewards.size
        if self.steps == size < 2 * self.window:
            grown = min(2 * self.window, max(1024, 2 * size))
            self.ring = np.hstack([self.ring, np.zeros((3, grown - size), np.uint32)])
            self.rewards = np.concatenate([self.rewards, np.zeros(grown - size)])
            size = grown
        at = self.steps % size
        self.ring[:, at] = state, action, next_state
        self.rewards[at] = reward
        self.steps += 1
        return self.steps % max(1, self.window // PARTS) == 0

    def compare(self, n_states: int, n_actions: int, n_pairs: int) -> Signal | None:
        """The strongest sign of a change now.

        Parameters
        ----------
        n_states, n_actions
            The numbers of states and actions.
        n_pairs
            The number of state-action pairs.

        Returns
        -------
        Signal | None
            The sign; None if no pair was visited in both halves.
        """
        half = min(self.steps, self.rewards.size) // 2
        where = np.arange(self.steps - 2 * half, self.steps) % max(1, self.rewards.size)
        states, actions, nexts = self.ring[:, where].astype(np.int64)
        pairs, pair = _index(states * n_actions + actions, n_states * n_actions)
        links, link = _index(pair * n_states + nexts, len(pairs) * n_states)
        late = np.arange(2 * half) >= half
        visits = _halves(pair, late, len(pairs))
        # Means of rewards first, one for each pair, then of moves, one for each link that occurred.
        n, m = np.hstack([visits, visits[:, links // n_states]])
        earlier, later = np.hstack(
            [_halves(pair, late, len(pairs), self.rewards[where]), _halves(link, late, len(links))]
        )
        both = np.flatnonzero((n > 0) & (m > 0))
        self.latest = None
        if both.size:
            n, m = n[both], m[both]
            before, now = earlier[both] / n, later[both] / m
            log = math.log(2 * n_pairs * (n_states + 1) / self.delta)
            strength = np.abs(now - before) / np.sqrt((1 / n + 1 / m) / 2 * log)
            best = int(np.argmax(strength))
            of_move = int(both[best]) - len(pairs)
            where_to = int(links[of_move] % n_states) if of_move >= 0 else None
            x = int(pairs[links[of_move] // n_states if of_move >= 0 else both[best]])
            self.latest = Signal(
                float(strength[best]), self.since + self.steps, x // n_actions, x % n_actions,
                where_to, float(before[best]), float(now[best]),
            )  # fmt: skip
        return self.latest

    @property
    def compared(self) -> int:
        """The number of steps in each half of the latest comparison."""
        steps = 0 if self.latest is None else self.latest.step - self.since
        return min(steps // 2, self.window)

    def state(self) -> tuple[dict[str, Any], Arrays]:
        """The complete state, for a snapshot."""
        latest = None if self.latest is None else asdict(self.latest)
        fields = {"window": self.window, "delta": self.delta, "steps": self.steps,
                  "since": self.since, "latest": latest}  # fmt: skip
        return fields, {"ring": self.ring, "rewards": self.rewards}

    @classmethod
    def from_state(cls, fields: dict[str, Any], arrays: Arrays) -> ChangeSignal:
        """Restore from the result of `state`.

        Parameters
        ----------
        fields
            The plain fields.
        arrays
            The arrays.

        Returns
        -------
        ChangeSignal
            The same signal.
        """
        signal = cls(fields["window"], fields["delta"], since=fields["since"])
        signal.steps, latest = fields["steps"], fields["latest"]
        signal.latest = None if latest is None else Signal(**latest)
        signal.ring, signal.rewards = arrays["ring"], arrays["rewards"]
        return signal

    def validate(self, n_states: int, n_actions: int) -> None:
        """Raise a ValueError unless the state is consistent.

        Parameters
        ----------
        n_states, n_actions
            The numbers of states and actions.

        Raises
        ------
        ValueError
            If the state is inconsistent.
        """
        counters, size = (self.steps, self.since), self.rewards.size
        good = all(type(number) is int and 0 <= number < 2**53 for number in counters)
        good = good and self.ring.dtype == np.uint32 and self.ring.shape == (3, size)
        good = good and self.rewards.dtype == np.float64 and self.rewards.shape == (size,)
        good = good and size <= 2 * self.window and (size == 2 * self.window or self.steps <= size)
        if good:
            kept = min(self.steps, size)
            for row, end in zip(self.ring, (n_states, n_actions, n_states), strict=True):
                good = good and bool((row[:kept] < end).all())
            rewards = self.rewards[:kept]
            good = good and bool(((rewards >= 0.0) & (rewards <= 1.0)).all())
        if not good:
            raise ValueError("the steps of the change signal are inconsistent")


def _halves(index: Any, late: Any, size: int, weights: Any = None) -> NDArray[Any]:
    """Sums by index over the earlier and the later half."""
    return np.array([
        np.bincount(index[half], None if weights is None else weights[half], size)
        for half in (~late, late)
    ])  # fmt: skip


def _index(keys: NDArray[np.int64], size: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The sorted keys, and the position of each given key among them."""
    if size <= DENSE:
        return np.arange(size), keys
    return np.unique(keys, return_inverse=True)


MOST_BUCKETS = 240


class RewardHistory:
    """Buckets of (time of the first reward, time of the last, number, sum).

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
        """Add a reward."""
        if self.buckets and self.buckets[-1][2] < self.size:
            last = self.buckets[-1]
            # The clock may be set back, but a bucket must not end before it begins.
            last[1], last[2], last[3] = max(last[1], at), last[2] + 1, last[3] + reward
            return
        if len(self.buckets) == MOST_BUCKETS:
            joined = zip(self.buckets[::2], self.buckets[1::2], strict=True)
            self.buckets = [[a[0], b[1], a[2] + b[2], a[3] + b[3]] for a, b in joined]
            self.size *= 2
        self.buckets.append([at, at, 1, reward])


def merged(buckets: list[list[Any]], most: int) -> list[list[Any]]:
    """At most this many buckets: neighbours are merged.

    >>> merged([[0.0, 1.0, 2, 1.5], [2.0, 3.0, 1, 0.5], [4.0, 4.0, 1, 1.0]], 2)
    [[0.0, 3.0, 3, 2.0], [4.0, 4.0, 1, 1.0]]
    """
    size = -(-len(buckets) // most) or 1
    groups = (buckets[first : first + size] for first in range(0, len(buckets), size))
    return [
        [some[0][0], some[-1][1], sum(b[2] for b in some), math.fsum(b[3] for b in some)]
        for some in groups
    ]
