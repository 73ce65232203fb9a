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

The ages m are b, 2b, 4b, … with b = max(32, pairs), made even. For each, two snapshots of the
counts are kept, taken every m/2 steps: a look costs O(1) pairs a step, amortised, whatever n.
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
from switchmdp.restarts.special import log_factorial, log_gamma

WIDEST = 64
SHORTEST, AGES, KEPT = 32, 13, 2
LARGE = 40.0  # from e⁴⁰ on 1 + b is b
LOG_2 = math.log(2.0)
TINY = 1e-100


def base_of(n_pairs: int) -> int:
    """The shortest age that is looked at: a multiple of KEPT, lest the turns of ages fall apart.

    >>> base_of(15), base_of(45)
    (32, 46)
    """
    return max(SHORTEST, -(-n_pairs // KEPT) * KEPT)


@jit
def log_rewards(n: float, total: float) -> float:
    """log B(1 + R, 1 + N - R)."""
    failures = max(0.0, n - total)  # a sum of parts may be rounded up
    return log_gamma(1.0 + total) + log_gamma(1.0 + failures) - log_gamma(2.0 + n)


@jit
def log_moves(n: float, now: Any, old: Any) -> float:
    """log Γ(S) Π Γ(1 + P_j) / Γ(S + N) of the successors counted between `old` and `now`."""
    total = log_gamma(float(now.size)) - log_gamma(now.size + n)
    for j in range(now.size):
        if now[j] > old[j]:
            total += log_factorial(now[j] - old[j])
    return total


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
    counts: NDArray[np.float64]
    logs: NDArray[np.float64]
    news: NDArray[np.float64]
    stale: NDArray[np.bool_]
    old_counts: NDArray[np.float64]
    old_logs: NDArray[np.float64]
    old_steps: NDArray[np.int64]
    none: NDArray[np.float64]
    shots: NDArray[np.int64]

    def __init__(self, delta: float = 0.01) -> None:
        self.delta = probability("delta", delta)

    def allocate(self, pairs: Pairs) -> None:
        """Make room for these pairs."""
        n, self.width = pairs.n_pairs, min(pairs.n_states, WIDEST)
        self.base = base_of(n)
        self.counts = np.zeros((n, 2 + self.width))  # visits, rewards, successors
        self.logs = np.zeros((n, 2))  # log m of all rewards, and of all successors
        self.news = np.ones(n)  # the factor by which m(successors) has changed since
        self.stale = np.zeros(n, np.bool_)
        self.old_counts = np.zeros((AGES, KEPT, n, 2 + self.width))
        self.old_logs = np.zeros((AGES, KEPT, n, 2))
        self.old_steps = np.zeros((AGES, KEPT), np.int64)
        self.none = np.zeros(self.width)
        self.shots = np.zeros(AGES, np.int64)
        self.steps, self.seen, self.clock, self.keeps = 0, 0, 1, -1

    def grow(self, pairs: Pairs, place: Any) -> None:
        """Make room for more pairs; the evidence is gathered anew."""
        clock = self.clock
        self.allocate(pairs)
        self.clock = clock

    def check_sizes(self, n_states: int, n_pairs: int) -> None:
        """Raise a ValueError where the arrays are not what machine code relies on."""
        width = min(n_states, WIDEST)
        sizes = {
            "counts": (n_pairs, 2 + width), "logs": (n_pairs, 2), "stale": (n_pairs,),
            "news": (n_pairs,),
            "old_counts": (AGES, KEPT, n_pairs, 2 + width), "old_logs": (AGES, KEPT, n_pairs, 2),
            "old_steps": (AGES, KEPT), "none": (width,), "shots": (AGES,),
        }  # fmt: skip
        for name, shape in sizes.items():
            if getattr(self, name).shape != shape:
                raise ValueError(f"Evidence.{name} is not consistent")
        if self.width != width or self.base != base_of(n_pairs):
            raise ValueError("Evidence.width or base is not consistent")
        if not (0.0 < self.delta < 1.0 and self.steps >= 0 and self.seen >= 0 <= self.clock):
            raise ValueError("Evidence is not consistent")
        if (self.shots < 0).any() or not ((self.news > 0.0) & (self.news <= 1.0)).all():
            raise ValueError("Evidence.shots or news is not consistent")

    def after(self, t: int) -> int:
        """No restart is known beforehand."""
        return NEVER

    def look_at(self) -> int:
        """The step at which the agent should let it look at what was logged."""
        stretch = self.base // KEPT
        return self.clock + stretch - self.steps % stretch

    def watch(self, pairs: Any, nexts: Any, rewards: Any, n: int) -> None:
        """Take in the steps of a log that were not seen yet."""
        stretch, width, counts, news = self.base // KEPT, self.width, self.counts, self.news
        for i in range(self.seen, n):
            pair, column = pairs[i], 2 + nexts[i] % width
            news[pair] *= (counts[pair, column] + 1.0) / (counts[pair, 0] + width)
            counts[pair, 0] += 1.0
            counts[pair, 1] += rewards[i]
            counts[pair, column] += 1.0
            self.stale[pair] = True
            if news[pair] < TINY:
                self.hear(pair)
            self.steps += 1
            self.clock += 1
            if self.keeps >= 0:
                self.keeps += 1  # what follows an alarm is kept
            elif self.steps % stretch == 0:
                self.look()
        self.seen = n

    def log_emptied(self) -> None:
        """The log starts again at 0."""
        self.seen = 0

    def look(self) -> None:
        """Compare with the snapshots whose turn it is, and take new ones."""
        self.refresh()
        threshold = 1.5 * math.log(self.steps) - math.log(self.delta)
        for age in range(AGES):
            if self.steps % ((self.base << age) // KEPT) != 0:
                break  # nor is it the turn of any older one
            at = self.shots[age] % KEPT
            if self.shots[age] >= KEPT and self.weigh(age, at) > threshold:
                self.forget_before_change()
                return
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
                self.hear(pair)
                stale[pair] = False

    def hear(self, pair: int) -> None:
        """log m of a pair's successors: by Laplace's rule from step to step, as m is a product."""
        self.logs[pair, 1] += math.log(self.news[pair])
        self.news[pair] = 1.0

    def recount(self) -> None:
        """log m of all successors, from nothing but the counts."""
        for pair in range(self.stale.size):
            counts = self.counts[pair]
            self.logs[pair, 1] = log_moves(counts[0], counts[2:], self.none)
            self.news[pair], self.stale[pair] = 1.0, True

    def weigh(self, age: int, at: int) -> float:
        """Λ of a change at that snapshot."""
        counts, logs = self.counts, self.logs
        old, old_logs = self.old_counts[age, at], self.old_logs[age, at]
        total, product = 0.0, 1.0
        for pair in range(counts.shape[0]):
            before = old[pair, 0]
            since = counts[pair, 0] - before
            if since == 0.0 or before == 0.0:
                continue
            for kind in range(2):
                if kind == 0:
                    log_b = log_rewards(since, counts[pair, 1] - old[pair, 1])
                else:
                    log_b = log_moves(since, counts[pair, 2:], old[pair, 2:])
                log_b += old_logs[pair, kind] - logs[pair, kind]
                if log_b > LARGE:
                    total += log_b - LOG_2
                else:
                    product *= 0.5 + 0.5 * math.exp(log_b)
            if not 1e-100 < product < 1e100:
                total += math.log(product)
                product = 1.0
        return total + math.log(product)

    def forget_before_change(self) -> None:
        """Choose the likeliest of all snapshots, and keep only what came since."""
        best, best_age, best_at = -np.inf, 0, 0
        for age in range(AGES):
            for at in range(min(self.shots[age], KEPT)):
                if self.old_steps[age, at] < self.steps:
                    found = self.weigh(age, at)
                    if found > best:
                        best, best_age, best_at = found, age, at
        self.keeps = self.steps - self.old_steps[best_age, best_at]
        self.counts[:, :] -= self.old_counts[best_age, best_at]
        self.recount()

    def alarmed(self) -> bool:
        """Whether to start over now."""
        return self.keeps >= 0

    def start_over(self) -> int:
        """The agent starts over: how many of its last steps it may keep.

        A memory that can't keep as many keeps fewer; the evidence still begins with the change.
        """
        keeps = max(0, self.keeps)
        if self.keeps < 0:  # another's decision
            self.counts[:, :] = 0.0
            self.recount()
        self.steps, self.keeps = keeps, -1
        self.shots[:] = 0
        return keeps
