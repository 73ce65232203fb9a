"""The counts of all pairs, now and at earlier moments, for detectors.

**Snapshots.** Ages are m = b, 2b, 4b, … with b = max(32, pairs), made even. For each age, two
snapshots of the counts are kept, taken every m/2 steps. That costs O(1) pairs per step, amortised.

**Memory.** A pair has at most 64 cells for its successors. With more states, the first 63 observed
successors get their own cells, and all others share the last one. (Which states share it is known
before each step, so all proofs hold.) With many pairs there are fewer cells, at least two, so that
all snapshots have at most 2²⁵ entries (268 MB), up to 250,000 pairs.
"""

from __future__ import annotations

import math
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from switchmdp.compiled import Equals, Range, Shape, compiled, index, require
from switchmdp.compiled.declarations import Names
from switchmdp.mdp.pairs import Pairs
from switchmdp.restarts.e_values import log_leave_in_rewards

MOST_CELLS = 64
SHORTEST, AGES, KEPT = 32, 13, 2
KINDS = 2  # rewards and rows
# Columns: visits (rows), visits (rewards), sum of rewards and of their squares, successors.
VISITS, REWARDED, REWARD, SQUARES, FIRST = 0, 1, 2, 3, 4
TINY = 1e-100
NOISE = 1e-6  # sums of rewards are rounded
ENTRIES = 2**25  # of all snapshots


def base_of(n_pairs: int) -> int:
    """The shortest age: a multiple of KEPT, so that snapshots of all ages are taken together.

    >>> base_of(15), base_of(45)
    (32, 46)
    """
    return max(SHORTEST, -(-n_pairs // KEPT) * KEPT)


def cells_for(pairs: Pairs) -> int:
    """The number of cells for the successors of a pair.

    >>> cells_for(Pairs.of(5, 3)), cells_for(Pairs.of(200, 3)), cells_for(Pairs.of(10_000, 4))
    (5, 64, 28)
    """
    most = ENTRIES // (AGES * KEPT * pairs.n_pairs) - FIRST
    return min(pairs.n_states, MOST_CELLS, max(2, most))


def _base(names: Names) -> int:
    return base_of(names["pairs"])


def fit_together(counts: NDArray[np.float64], most: NDArray[np.float64] | float) -> bool:
    """Whether visits, rewards and successors of pairs fit together, and are not above `most`.

    >>> fit_together(np.array([[2.0, 1.0, 0.5, 0.25, 1.0, 1.0]]), 3.0)
    True
    """
    if not ((counts >= 0.0) & (counts <= most + NOISE)).all():
        return False
    visits, moves = counts[..., VISITS], counts[..., FIRST:]
    whole = (moves == np.floor(moves)).all() and (moves.sum(axis=-1) == visits).all()
    rewards = (counts[..., REWARD] <= counts[..., REWARDED] + NOISE).all()
    squares = (counts[..., SQUARES] <= counts[..., REWARD] + NOISE).all()
    return bool(whole and rewards and squares)


@compiled
class Snapshots:
    """The counts of all pairs, and two snapshots of each age."""

    n_states: Annotated[int, Equals("states")]
    width: Annotated[int, Range(1, f"min(states, {MOST_CELLS})")]
    base: Annotated[int, Equals(_base)]
    steps: Annotated[int, Range(0, below=2**53)]
    counts: Annotated[NDArray[np.float64], Shape("pairs", f"{FIRST} + width"), Range(0, 2.0**53)]
    logs: Annotated[NDArray[np.float64], Shape("pairs", KINDS)]
    news: Annotated[NDArray[np.float64], Shape("pairs"), Range(TINY, 1.0)]
    stale: Annotated[NDArray[np.bool_], Shape("pairs")]
    owners: Annotated[NDArray[np.uint32], Shape("pairs", "width"), Range(0, below="states")]
    owned: Annotated[NDArray[np.int64], Shape("pairs"), Range(0, "width")]
    old_counts: Annotated[
        NDArray[np.float64], Shape(AGES, KEPT, "pairs", f"{FIRST} + width"), Range(0, 2.0**53)
    ]
    old_logs: Annotated[NDArray[np.float64], Shape(AGES, KEPT, "pairs", KINDS)]
    old_steps: Annotated[NDArray[np.int64], Shape(AGES, KEPT), Range(0, below=2**53)]
    shots: Annotated[NDArray[np.int64], Shape(AGES), Range(0, 2**53)]  # since the last start

    def make_room(self, pairs: Pairs) -> None:
        """Make room for these pairs."""
        n, self.n_states, self.width = pairs.n_pairs, pairs.n_states, cells_for(pairs)
        self.base, self.steps = base_of(n), 0
        columns = FIRST + self.width
        self.counts, self.logs = np.zeros((n, columns)), np.zeros((n, KINDS))
        self.news = np.ones(n)  # the factor of log_leave_in since `logs` was brought up to date
        self.stale = np.zeros(n, np.bool_)
        self.owners, self.owned = np.zeros((n, self.width), np.uint32), np.zeros(n, np.int64)
        self.old_counts = np.zeros((AGES, KEPT, n, columns))
        self.old_logs = np.zeros((AGES, KEPT, n, KINDS))
        self.old_steps = np.zeros((AGES, KEPT), np.int64)
        self.shots = np.zeros(AGES, np.int64)

    def held(self) -> NDArray[np.bool_]:
        """A mask of the snapshots that have been taken."""
        return np.arange(KEPT) < self.shots[:, None]

    def check_invariants(self) -> None:
        """Visits, rewards and successors fit together, and no snapshot exceeds what came later."""
        held, name = self.held(), type(self).__name__
        require((self.old_steps[held] <= self.steps).all(), f"{name}.old_steps is in the future")
        require(fit_together(self.counts, 2.0**53), f"{name}.counts do not fit together")
        fits = fit_together(self.old_counts[held], self.counts)
        require(fits, f"{name}.old_counts do not fit together")

    def cell_of(self, pair: int, successor: int) -> int:
        """The cell of a successor: its own, a new one, or the one that many share."""
        owners, owned = self.owners, self.owned[pair]
        for cell in range(owned):
            if owners[pair, cell] == successor:
                return int(cell)
        if owned < self.width - 1:
            owners[pair, owned] = successor
            self.owned[pair] += 1
        return int(owned)

    def count(self, pairs: Any, nexts: Any, rewards: Any, first: int, last: int) -> None:
        """Count the steps first..last-1 of a log."""
        counts, news, stale, logs = self.counts, self.news, self.stale, self.logs
        direct = self.width == self.n_states
        for i in range(first, last):
            pair, successor = index(pairs[index(i)]), nexts[index(i)]
            column = index(FIRST + (successor if direct else self.cell_of(pairs[i], successor)))
            counts[pair, index(VISITS)] += 1.0
            counts[pair, index(REWARDED)] += 1.0
            reward = rewards[index(i)]
            counts[pair, index(REWARD)] += reward
            counts[pair, index(SQUARES)] += reward * reward
            counts[pair, column] += 1.0
            product = news[pair] * (counts[pair, column] / counts[pair, index(VISITS)])
            stale[pair] = True
            if product < TINY:
                logs[pair, index(1)] += math.log(product)
                product = 1.0
            news[pair] = product
        self.steps += last - first

    def take(self, age: int) -> None:
        """Take a snapshot, in the place of the oldest of this age."""
        counts, logs, old_counts, old_logs = self.counts, self.logs, self.old_counts, self.old_logs
        a, at, full = index(age), index(self.shots[age] % KEPT), self.shots[age] >= KEPT
        for i in range(counts.shape[0]):
            pair = index(i)
            # A pair that was not visited since is the same.
            if full and old_counts[a, at, pair, index(VISITS)] == counts[pair, index(VISITS)]:
                continue
            for column in range(counts.shape[1]):
                old_counts[a, at, pair, index(column)] = counts[pair, index(column)]
            for kind in range(KINDS):
                old_logs[a, at, pair, index(kind)] = logs[pair, index(kind)]
        self.old_steps[age, at] = self.steps
        self.shots[age] += 1

    def refresh(self) -> None:
        """Bring `logs` up to date for the pairs visited since the last look."""
        counts, logs, stale, news = self.counts, self.logs, self.stale, self.news
        for i in range(stale.size):
            pair = index(i)
            if stale[pair]:
                logs[pair, index(0)] = log_leave_in_rewards(
                    counts[pair, index(REWARDED)], counts[pair, index(REWARD)]
                )
                logs[pair, index(1)] += math.log(news[pair])
                news[pair] = 1.0
                stale[pair] = False

    def forget(self, pair: int, rewards: bool, row: bool) -> None:
        """Delete the counts of a pair."""
        counts, logs = self.counts, self.logs
        if rewards:
            counts[pair, REWARDED], counts[pair, REWARD], counts[pair, SQUARES] = 0.0, 0.0, 0.0
            logs[pair, 0] = 0.0
        if row:
            counts[pair, VISITS] = 0.0
            for column in range(FIRST, counts.shape[1]):
                counts[pair, column] = 0.0
            logs[pair, 1], self.news[pair], self.owned[pair] = 0.0, 1.0, 0
