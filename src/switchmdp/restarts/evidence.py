"""Restarts when the data speak for a change: a Bayes factor over all pairs at once.

Did the world change m steps ago? `factors` says how much the data before and since speak for it,

    Λ(m) = Σ over {rewards, successors} of  log mean over q of  Π over pairs of (1 - q + q b),

with b the Bayes factor of one pair and q the share of pairs that have changed. An alarm is raised
when  Λ(m) > log(1/δ) + 1.5 log n  with n the steps since all was forgotten. (For one m, Λ exceeds
log(1/δ) with probability at most δ under no change, by Markov's inequality, where the priors are
right; the last term pays for looking again and again. It is a heuristic in so far as the prior is
ours.)

Then the likeliest moment is taken for the change, and a pair is *suspected* if its rewards or
successors have changed with probability above 1/5, given its own data and, through q, those of all
others: a pair that was not met since is suspected where many others have changed, and spared where
few have. The likeliest pair of all is a suspect in any case. What came before the change is
forgotten of suspects, and of no other pair.

The moments are those of `snapshots`: for b = max(32, pairs) evidence is looked for b, 2b, 4b, …
steps ago, and the likeliest moment may be b/2 steps ago.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from switchmdp.compiled import compiled
from switchmdp.mdp.pairs import Pairs
from switchmdp.restarts.factors import (
    SHARES,
    log_mean,
    log_moves,
    log_rewards,
    multiply,
    settle,
    share,
    unchanged,
)  # fmt: skip
from switchmdp.restarts.schedules import NEVER
from switchmdp.restarts.snapshots import AGES, KEPT, KINDS, Snapshots, lies_between
from switchmdp.validation import check_probability

DOUBT = 0.2


@compiled
class Evidence(Snapshots):
    """Alarms by Bayes factors over all pairs."""

    delta: float
    seen: int
    clock: int
    keeps: int
    factors: NDArray[np.float64]
    products: NDArray[np.float64]
    sums: NDArray[np.float64]
    accused: NDArray[np.bool_]
    past: NDArray[np.float64]
    heard: bool

    def __init__(self, delta: float = 0.01) -> None:
        self.delta = check_probability("delta", delta)

    def allocate(self, pairs: Pairs) -> None:
        """Make room for these pairs."""
        self.make_room(pairs)
        self.factors = np.zeros((pairs.n_pairs, KINDS))  # log b of the last weighing, 0: unknown
        self.products = np.ones((KINDS, len(SHARES)))
        self.sums = np.zeros((KINDS, len(SHARES)))
        self.accused = np.zeros(pairs.n_pairs, np.bool_)
        self.past = np.zeros_like(self.counts)  # as it was when the likeliest change came
        self.seen, self.clock, self.keeps, self.heard = 0, 1, -1, False

    def grow(self, pairs: Pairs, place: Any) -> None:
        """Make room for more pairs; the evidence is gathered anew."""
        clock = self.clock
        self.allocate(pairs)
        self.clock = clock

    def check_sizes(self, n_states: int, n_pairs: int) -> None:
        """Raise a ValueError where the arrays are not what machine code relies on."""
        self.check_room(n_states, n_pairs)
        sizes = {
            "factors": (n_pairs, KINDS), "accused": (n_pairs,), "past": self.counts.shape,
            "products": (KINDS, len(SHARES)), "sums": (KINDS, len(SHARES)),
        }  # fmt: skip
        for name, shape in sizes.items():
            if getattr(self, name).shape != shape:
                raise ValueError(f"Evidence.{name} is not consistent")
        if not (0.0 < self.delta < 1.0 and 0 <= self.seen < 2**31 and 0 <= self.clock < 2**53):
            raise ValueError("Evidence.delta, seen or clock is not consistent")
        if not (-1 <= self.keeps <= self.steps and (self.products == 1.0).all()):
            raise ValueError("Evidence.keeps or products is not consistent")
        old = self.old_counts[self.held()]
        later = np.where(old[..., :1] > self.past[:, :1], old - self.past, 0.0)
        if not (lies_between(self.past, self.counts) and lies_between(later, self.counts)):
            raise ValueError("Evidence.past is not consistent")

    def after(self, t: int) -> int:
        """No restart is known beforehand."""
        return NEVER

    def look_at(self) -> int:
        """The step at which the agent should let it look at what was logged."""
        stretch = self.base // KEPT
        return self.clock + stretch - self.steps % stretch

    def watch(self, pairs: Any, nexts: Any, rewards: Any, n: int) -> None:
        """Take in the steps of a log that were not seen yet."""
        stretch = self.base // KEPT
        for i in range(self.seen, n):
            self.count(pairs[i], nexts[i], rewards[i])
            if self.keeps >= 0:
                self.keeps += 1  # what follows an alarm is kept
            elif self.steps % stretch == 0:
                self.look()
        self.clock += n - self.seen
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
            oldest, complete = self.shots[age] % KEPT, self.shots[age] >= KEPT
            if self.keeps < 0 and complete and self.weigh(age, oldest) > threshold:
                self.accuse()
            self.take(age)

    def weigh(self, age: int, at: int) -> float:
        """Λ of a change at that snapshot; `factors` and `sums` are left as they were for it."""
        counts, logs, factors = self.counts, self.logs, self.factors
        old, old_logs = self.old_counts[age, at], self.old_logs[age, at]
        rewards, moves = self.products[0], self.products[1]
        of_rewards, of_moves = self.sums[0], self.sums[1]
        for i in range(len(SHARES)):
            of_rewards[i], of_moves[i] = 0.0, 0.0
        met = 0
        for pair in range(counts.shape[0]):
            before = old[pair, 0]
            since = counts[pair, 0] - before
            if since == 0.0 or before == 0.0:
                factors[pair, 0], factors[pair, 1] = 0.0, 0.0
                continue
            log_b = log_rewards(since, counts[pair, 1] - old[pair, 1])
            factors[pair, 0] = log_b + old_logs[pair, 0] - logs[pair, 0]
            multiply(rewards, of_rewards, factors[pair, 0])
            log_b = log_moves(since, counts[pair, 2:], old[pair, 2:])
            factors[pair, 1] = log_b + old_logs[pair, 1] - logs[pair, 1]
            multiply(moves, of_moves, factors[pair, 1])
            met += 1
            if met % 16 == 0:
                settle(rewards, of_rewards)
                settle(moves, of_moves)
        settle(rewards, of_rewards)
        settle(moves, of_moves)
        return log_mean(of_rewards) + log_mean(of_moves)

    def accuse(self) -> None:
        """Take the likeliest of all snapshots for the change, and say who is suspected."""
        best, best_age, best_at = -np.inf, 0, 0
        for age in range(AGES):
            for at in range(min(self.shots[age], KEPT)):
                if self.old_steps[age, at] < self.steps:
                    found = self.weigh(age, at)
                    if found > best:
                        best, best_age, best_at = found, age, at
        self.weigh(best_age, best_at)
        self.keeps = self.steps - self.old_steps[best_age, best_at]
        self.past[:, :] = self.old_counts[best_age, best_at]
        of_rewards, of_moves = share(self.sums[0]), share(self.sums[1])
        least, likeliest = 1.0, 0
        for pair in range(self.accused.size):
            same = unchanged(of_rewards, self.factors[pair, 0])
            same *= unchanged(of_moves, self.factors[pair, 1])
            self.accused[pair] = 1.0 - same > DOUBT
            if self.past[pair, 0] > 0.0 and same < least:
                least, likeliest = same, pair
        self.accused[likeliest] = True

    def alarmed(self) -> bool:
        """Whether to forget something now."""
        return self.keeps >= 0

    def suspect(self, suspects: Any) -> int:
        """Mark the pairs that seem to have changed; how many steps ago that was."""
        for pair in range(suspects.size):
            suspects[pair] = self.accused[pair]
        self.heard = True
        return max(0, self.keeps)

    def start_over(self, suspects: Any) -> None:
        """The agent forgets these pairs: their past, if this alarm was heard, and otherwise all."""
        if suspects.all():
            self.steps = self.keeps if self.heard else 0
            self.shots[:] = 0
        for pair in range(suspects.size):
            if suspects[pair]:
                self.forget(pair, self.past[pair] if self.heard else self.counts[pair].copy())
        self.past[:, :] = 0.0
        self.keeps, self.heard = -1, False
