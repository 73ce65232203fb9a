"""Restarts when the data speak for a change: a Bayes factor over all pairs at once.

Did the world change m steps ago? For each pair take its rewards and its successors before and
since. Under a uniform prior on means and rows, the data D of a stretch have the probability

    m(rewards) = B(1 + R, 1 + N - R),       m(successors) = Γ(S) Π_j Γ(1 + P_j) / Γ(S + N),

and a change of this one thing is supported by the Bayes factor  b = m(before) m(since) / m(both).
Which pairs have changed is not known. Let each thing change with probability 1/2 on its own: then

    Λ(m) = Σ over pairs and over {rewards, successors} of  log( (1 + b) / 2 )

weighs "something changed m steps ago" against "nothing did". A pair that did not change, or was not
visited since, costs at most log 2; those that did add up. A change of everything is then seen after
a few steps each, a change of one pair once that pair alone gives enough.

An alarm is raised when  Λ(m) > log(1/δ) + 1.5 log n  with n the steps since the last restart. (For
one m, Λ exceeds log(1/δ) with probability at most δ under no change, by Markov's inequality, where
the priors are right; the last term pays for looking again and again. It is a heuristic in so far as
the prior is ours.) After it only the steps since the likeliest change are kept.

The ages m are b, 2b, 4b, … with b = max(16, pairs). For each, four snapshots of the counts are
kept, taken every m/4 steps, so that a look costs O(1) pairs a step, amortised, whatever n.
Successors of problems with more than 64 states are put together in 64 classes, by their number.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from switchmdp.compiled import compiled, jit
from switchmdp.mdp.pairs import Pairs, probability
from switchmdp.restarts.schedules import NEVER
from switchmdp.restarts.special import log_gamma

WIDEST = 64
AGES, KEPT = 14, 4
LARGE = 40.0  # e⁴⁰: beyond, log((1 + b)/2) is log b - log 2 to the last bit that matters
LOG_2 = math.log(2.0)


@jit
def log_mixed(log_b: float) -> float:
    """log((1 + b) / 2)."""
    if log_b > LARGE:
        return log_b - LOG_2
    return math.log1p(math.exp(log_b)) - LOG_2


@jit
def log_rewards(n: float, total: float) -> float:
    """log B(1 + R, 1 + N - R)."""
    return log_gamma(1.0 + total) + log_gamma(1.0 + n - total) - log_gamma(2.0 + n)


@compiled
class Evidence:
    """Alarms by Bayes factors over all pairs."""

    delta: float
    width: int
    base: int
    steps: int
    seen: int
    clock: int
    keeps: int
    visits: NDArray[np.float64]
    rewards: NDArray[np.float64]
    moves: NDArray[np.float64]
    old_visits: NDArray[np.float64]
    old_rewards: NDArray[np.float64]
    old_moves: NDArray[np.float64]
    old_steps: NDArray[np.int64]
    shots: NDArray[np.int64]

    def __init__(self, delta: float = 0.01) -> None:
        self.delta = probability("delta", delta)

    def allocate(self, pairs: Pairs) -> None:
        """Make room for these pairs."""
        n, self.width = pairs.n_pairs, min(pairs.n_states, WIDEST)
        self.base = max(16, n)
        self.visits, self.rewards = np.zeros(n), np.zeros(n)
        self.moves = np.zeros((n, self.width))
        self.old_visits, self.old_rewards = np.zeros((AGES, KEPT, n)), np.zeros((AGES, KEPT, n))
        self.old_moves = np.zeros((AGES, KEPT, n, self.width))
        self.old_steps = np.zeros((AGES, KEPT), np.int64)
        self.shots = np.zeros(AGES, np.int64)
        self.steps, self.seen, self.clock, self.keeps = 0, 0, 1, -1

    def after(self, t: int) -> int:
        """No restart is known beforehand."""
        return NEVER

    def look_at(self) -> int:
        """The step at which the agent should let it look at what was logged."""
        quarter = self.base // 4
        return self.clock + quarter - self.steps % quarter

    def watch(self, pairs: Any, nexts: Any, rewards: Any, n: int) -> None:
        """Take in the steps of a log that were not seen yet."""
        quarter, width = self.base // 4, self.width
        for i in range(self.seen, n):
            pair = pairs[i]
            self.visits[pair] += 1.0
            self.rewards[pair] += rewards[i]
            self.moves[pair, nexts[i] % width] += 1.0
            self.steps += 1
            self.clock += 1
            if self.steps % quarter == 0 and self.keeps < 0:
                self.look()
            elif self.keeps >= 0:
                self.keeps += 1  # it goes on until the agent asks
        self.seen = n

    def log_emptied(self) -> None:
        """The log starts again at 0."""
        self.seen = 0

    def look(self) -> None:
        """Compare with the snapshots whose turn it is, and take new ones."""
        threshold = 1.5 * math.log(self.steps) - math.log(self.delta)
        for age in range(AGES):
            if self.steps % ((self.base << age) // 4) != 0:
                break  # nor is it the turn of any older one
            at = self.shots[age] % KEPT
            if self.shots[age] >= KEPT and self.weigh(age, at) > threshold:
                self.find_change()
                return
            self.old_visits[age, at, :] = self.visits
            self.old_rewards[age, at, :] = self.rewards
            self.old_moves[age, at, :, :] = self.moves
            self.old_steps[age, at] = self.steps
            self.shots[age] += 1

    def weigh(self, age: int, at: int) -> float:
        """Λ of a change at that snapshot."""
        visits, rewards, moves = self.visits, self.rewards, self.moves
        old_visits, old_rewards = self.old_visits[age, at], self.old_rewards[age, at]
        old_moves, width = self.old_moves[age, at], float(self.width)
        total = 0.0
        for pair in range(visits.size):
            n, before = visits[pair], old_visits[pair]
            since = n - before
            if since == 0.0 or before == 0.0:
                continue
            r, q = rewards[pair], old_rewards[pair]
            total += log_mixed(
                log_rewards(before, q) + log_rewards(since, r - q) - log_rewards(n, r)
            )
            log_b = log_gamma(width) + log_gamma(width + n)
            log_b -= log_gamma(width + before) + log_gamma(width + since)
            for j in range(self.width):
                c, d = moves[pair, j], old_moves[pair, j]
                if c > d and d > 0.0:
                    log_b += log_gamma(1.0 + d) + log_gamma(1.0 + c - d) - log_gamma(1.0 + c)
            total += log_mixed(log_b)
        return total

    def find_change(self) -> None:
        """Choose the likeliest of all snapshots, and forget what was before it."""
        best, best_age, best_at = -np.inf, 0, 0
        for age in range(AGES):
            for at in range(min(self.shots[age], KEPT)):
                if self.old_steps[age, at] < self.steps:
                    found = self.weigh(age, at)
                    if found > best:
                        best, best_age, best_at = found, age, at
        self.keeps = self.steps - self.old_steps[best_age, best_at]
        for pair in range(self.visits.size):
            self.visits[pair] -= self.old_visits[best_age, best_at, pair]
            self.rewards[pair] -= self.old_rewards[best_age, best_at, pair]
            for j in range(self.width):
                self.moves[pair, j] -= self.old_moves[best_age, best_at, pair, j]

    def alarmed(self) -> bool:
        """Whether to start over now."""
        return self.keeps >= 0

    def start_over(self) -> int:
        """The agent starts over: how many of its last steps it may keep."""
        keeps = max(0, self.keeps)
        if self.keeps < 0:  # not by our alarm
            self.visits[:] = 0.0
            self.rewards[:] = 0.0
            self.moves[:, :] = 0.0
        self.steps, self.keeps = keeps, -1
        self.shots[:] = 0
        return keeps
