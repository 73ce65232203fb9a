"""Counts of every pair now, and as they were at moments further and further back.

The ages are m = b, 2b, 4b, … with b = max(32, pairs), made even. For each, two snapshots of the
counts are kept, taken every m/2 steps: that costs O(1) pairs a step, amortised, whatever n.
Successors of problems with more than 64 states are put together in 64 classes, by their number.

With the counts go log m(rewards) and log m(successors) of `factors`, which Bayes factors are made
of. The second is carried from step to step by Laplace's rule, as m is a product:

    m(n + 1 successors) = m(n successors) · (1 + P_j) / (S + n)    where the next successor is j.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from switchmdp.compiled import compiled
from switchmdp.mdp.pairs import Pairs
from switchmdp.restarts.factors import log_moves, log_rewards

WIDEST = 64
SHORTEST, AGES, KEPT = 32, 13, 2
KINDS = 2  # rewards and successors
TINY = 1e-100
NOISE = 1e-6  # sums of rewards are rounded


def base_of(n_pairs: int) -> int:
    """The shortest age that is looked at: a multiple of KEPT, lest the turns of ages fall apart.

    >>> base_of(15), base_of(45)
    (32, 46)
    """
    return max(SHORTEST, -(-n_pairs // KEPT) * KEPT)


def lies_between(counts: NDArray[np.float64], most: NDArray[np.float64] | float) -> bool:
    """Whether visits, rewards and successors of pairs fit together, and are not above `most`.

    >>> lies_between(np.array([[2.0, 0.5, 1.0, 1.0]]), np.array([[3.0, 0.5, 2.0, 1.0]]))
    True
    """
    if not ((counts >= -NOISE) & (counts <= most + NOISE)).all():
        return False
    visits, rewards, moves = counts[..., 0], counts[..., 1], counts[..., 2:]
    whole = (moves == np.floor(moves)).all() and (moves.sum(axis=-1) == visits).all()
    return bool(whole and (rewards <= visits + NOISE).all())


@compiled
class Snapshots:
    """What is counted, and was."""

    width: int
    base: int
    steps: int
    counts: NDArray[np.float64]
    logs: NDArray[np.float64]
    news: NDArray[np.float64]
    stale: NDArray[np.bool_]
    old_counts: NDArray[np.float64]
    old_logs: NDArray[np.float64]
    old_steps: NDArray[np.int64]
    none: NDArray[np.float64]
    shots: NDArray[np.int64]

    def make_room(self, pairs: Pairs) -> None:
        """Make room for these pairs."""
        n, self.width = pairs.n_pairs, min(pairs.n_states, WIDEST)
        self.base = base_of(n)
        self.counts = np.zeros((n, 2 + self.width))  # visits, rewards, successors
        self.logs = np.zeros((n, KINDS))  # log m of all rewards, and of all successors
        self.news = np.ones(n)  # the factor by which m(successors) has changed since
        self.stale = np.zeros(n, np.bool_)
        self.old_counts = np.zeros((AGES, KEPT, n, 2 + self.width))
        self.old_logs = np.zeros((AGES, KEPT, n, KINDS))
        self.old_steps = np.zeros((AGES, KEPT), np.int64)
        self.none = np.zeros(self.width)
        self.shots = np.zeros(AGES, np.int64)
        self.steps = 0

    def check_room(self, n_states: int, n_pairs: int) -> None:
        """Raise a ValueError where the arrays are not what machine code relies on."""
        width = min(n_states, WIDEST)
        sizes = {
            "counts": (n_pairs, 2 + width), "logs": (n_pairs, KINDS), "stale": (n_pairs,),
            "news": (n_pairs,), "old_counts": (AGES, KEPT, n_pairs, 2 + width),
            "old_logs": (AGES, KEPT, n_pairs, KINDS), "old_steps": (AGES, KEPT),
            "none": (width,), "shots": (AGES,),
        }  # fmt: skip
        for name, shape in sizes.items():
            if getattr(self, name).shape != shape:
                raise ValueError(f"Snapshots.{name} is not consistent")
        if self.width != width or self.base != base_of(n_pairs):
            raise ValueError("Snapshots.width or base is not consistent")
        if not (0 <= self.steps < 2**53 and (self.shots >= 0).all()):
            raise ValueError("Snapshots.steps or shots is not consistent")
        if not ((self.news >= TINY) & (self.news <= 1.0)).all() or self.none.any():
            raise ValueError("Snapshots.news or none is not consistent")
        taken = self.held()
        if not ((self.old_steps >= 0) & (self.old_steps <= self.steps))[taken].all():
            raise ValueError("Snapshots.old_steps is not consistent")
        if not (np.isfinite(self.logs).all() and np.isfinite(self.old_logs).all()):
            raise ValueError("Snapshots.logs or old_logs is not consistent")
        if not lies_between(self.counts, 2.0**53):
            raise ValueError("Snapshots.counts is not consistent")
        if not lies_between(self.old_counts[taken], self.counts):
            raise ValueError("Snapshots.old_counts is not consistent")

    def held(self) -> NDArray[np.bool_]:
        """Which snapshots there are."""
        return np.arange(KEPT) < self.shots[:, None]

    def count(self, pair: int, successor: int, reward: float) -> None:
        """One step more."""
        counts, column = self.counts, 2 + successor % self.width
        self.news[pair] *= (counts[pair, column] + 1.0) / (counts[pair, 0] + self.width)
        counts[pair, 0] += 1.0
        counts[pair, 1] += reward
        counts[pair, column] += 1.0
        self.stale[pair] = True
        if self.news[pair] < TINY:
            self.carry(pair)
        self.steps += 1

    def take(self, age: int) -> None:
        """Take a snapshot, in the place of the oldest of this age."""
        at = self.shots[age] % KEPT
        self.old_counts[age, at, :, :] = self.counts
        self.old_logs[age, at, :, :] = self.logs
        self.old_steps[age, at] = self.steps
        self.shots[age] += 1

    def refresh(self) -> None:
        """log m of the pairs visited since the last look."""
        counts, logs, stale = self.counts, self.logs, self.stale
        for pair in range(stale.size):
            if stale[pair]:
                logs[pair, 0] = log_rewards(counts[pair, 0], counts[pair, 1])
                self.carry(pair)
                stale[pair] = False

    def carry(self, pair: int) -> None:
        """Bring log m of a pair's successors up to date, by Laplace's rule."""
        self.logs[pair, 1] += math.log(self.news[pair])
        self.news[pair] = 1.0

    def forget(self, pair: int, past: Any) -> None:
        """Take what was counted of a pair until some moment out of all counts."""
        self.counts[pair, :] -= past
        self.logs[pair, 0] = log_rewards(self.counts[pair, 0], self.counts[pair, 1])
        self.logs[pair, 1] = log_moves(self.counts[pair, 0], self.counts[pair, 2:], self.none)
        self.news[pair] = 1.0
        for age in range(AGES):
            for at in range(min(self.shots[age], KEPT)):
                old, logs = self.old_counts[age, at, pair], self.old_logs[age, at, pair]
                if old[0] <= past[0]:
                    old[:] = 0.0
                else:
                    old[:] -= past
                logs[0] = log_rewards(old[0], old[1])
                logs[1] = log_moves(old[0], old[2:], self.none)
