"""A detector that restarts on evidence: a Bayes factor over all pairs at once.

Did the world change m steps ago? `bayes_factors` weighs the data before and since,

    Λ(m) = Σ over {rewards, successors} of  log mean over q of  Π over pairs of (1 - q + q b),

with b the Bayes factor of one pair and q the share of pairs that have changed. An alarm is raised
when  Λ(m) > log(1/δ) + 1.5 log n  with n the steps since the last restart. (For one m, Λ exceeds
log(1/δ) with probability at most δ under no change, by Markov's inequality, where the priors are
right; the last term pays for looking again and again. It is a heuristic in so far as the prior is
ours.)

Then the likeliest moment is taken as the change. A pair is *suspected* if its rewards or successors
have changed with probability above 1/5, given its own data and, through q, those of all others: an
unvisited pair is suspected if many others have changed, and not if few have. The pair with the
highest probability is always suspected. The agent forgets the steps before the change of suspected
pairs only.

**Snapshots.** Counts of every pair now, and as they were at moments further and further back.

The ages are m = b, 2b, 4b, … with b = max(32, pairs), made even. For each, two snapshots of the
counts are kept, taken every m/2 steps: that costs O(1) pairs a step, amortised, whatever n.
Successors of problems with more than 64 states are put together in 64 classes, by their number.

With the counts go log m(rewards) and log m(successors) of `bayes_factors`, from which Bayes
factors are made. The second is carried from step to step by Laplace's rule, as m is a product:

    m(n + 1 successors) = m(n successors) · (1 + P_j) / (S + n)    where the next successor is j.

Evidence is looked for b, 2b, 4b, … steps ago, and the likeliest moment may be b/2 steps ago.
"""

from __future__ import annotations

import math
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from switchmdp.compiled import (
    Equals,
    Probability,
    Range,
    Scratch,
    Shape,
    compiled,
    make_scratch,
    require,
)
from switchmdp.compiled.declarations import Names
from switchmdp.mdp.pairs import Pairs
from switchmdp.memory.counts import all_marked
from switchmdp.restarts.bayes_factors import (
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
from switchmdp.validation import check_probability

DOUBT = 0.2
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


def _base(names: Names) -> int:
    return base_of(names["pairs"])


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
    """The counts of all pairs, now and in snapshots."""

    width: Annotated[int, Equals(f"min(states, {WIDEST})")]
    base: Annotated[int, Equals(_base)]
    steps: Annotated[int, Range(0, below=2**53)]
    counts: Annotated[NDArray[np.float64], Shape("pairs", "2 + width"), Range(-1.0, 2.0**53)]
    logs: Annotated[NDArray[np.float64], Shape("pairs", KINDS)]
    news: Annotated[NDArray[np.float64], Shape("pairs"), Range(TINY, 1.0)]
    stale: Annotated[NDArray[np.bool_], Shape("pairs")]
    old_counts: Annotated[
        NDArray[np.float64], Shape(AGES, KEPT, "pairs", "2 + width"), Range(-1.0, 2.0**53)
    ]
    old_logs: Annotated[NDArray[np.float64], Shape(AGES, KEPT, "pairs", KINDS)]
    old_steps: Annotated[NDArray[np.int64], Shape(AGES, KEPT), Range(0, below=2**53)]
    none: Annotated[NDArray[np.float64], Shape("width"), Scratch()]
    shots: Annotated[NDArray[np.int64], Shape(AGES), Range(0, 2**53)]

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
        self.shots = np.zeros(AGES, np.int64)
        self.steps = 0

    def check_invariants(self) -> None:
        """Visits, rewards and successors fit together, and no snapshot exceeds what came later."""
        taken, name = self.held(), type(self).__name__
        require((self.old_steps[taken] <= self.steps).all(), f"{name}.old_steps exceeds its steps")
        require(lies_between(self.counts, 2.0**53), f"{name}.counts do not fit together")
        fits = lies_between(self.old_counts[taken], self.counts)
        require(fits, f"{name}.old_counts do not fit together")

    def held(self) -> NDArray[np.bool_]:
        """A mask of the snapshots that have been taken."""
        return np.arange(KEPT) < self.shots[:, None]

    def count(self, pair: int, successor: int, reward: float) -> None:
        """Count one step."""
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
        """Subtract the past of a pair from the counts and from all snapshots."""
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


@compiled
class Evidence(Snapshots):
    """Alarms by Bayes factors over all pairs."""

    delta: Probability
    seen: Annotated[int, Range(0, below=2**31)]
    clock: Annotated[int, Range(0, below=2**53)]
    keeps: Annotated[int, Range(-1, "steps")]
    # log b of the last weighing, 0: unknown
    factors: Annotated[NDArray[np.float64], Shape("pairs", KINDS), Scratch()]
    products: Annotated[NDArray[np.float64], Shape(KINDS, len(SHARES)), Scratch(1.0)]
    sums: Annotated[NDArray[np.float64], Shape(KINDS, len(SHARES)), Scratch()]
    accused: Annotated[NDArray[np.bool_], Shape("pairs")]
    # the counts at the time of the likeliest change
    past: Annotated[NDArray[np.float64], Shape("pairs", "2 + width"), Range(-1.0, 2.0**53)]
    heard: bool

    def __init__(self, delta: float = 0.01) -> None:
        self.delta = check_probability("delta", delta)

    def allocate(self, pairs: Pairs) -> None:
        """Make room for these pairs."""
        self.make_room(pairs)
        make_scratch(self, pairs)
        self.accused = np.zeros(pairs.n_pairs, np.bool_)
        self.past = np.zeros_like(self.counts)
        self.seen, self.clock, self.keeps, self.heard = 0, 1, -1, False

    def grow(self, pairs: Pairs, place: Any) -> None:
        """Make room for more pairs; the detector restarts."""
        clock = self.clock
        self.allocate(pairs)
        self.clock = clock

    def check_invariants(self) -> None:
        """What is left after the past is taken out still fits together."""
        old = self.old_counts[self.held()]
        later = np.where(old[..., :1] > self.past[:, :1], old - self.past, 0.0)
        fits = lies_between(self.past, self.counts) and lies_between(later, self.counts)
        require(fits, "Evidence.past does not fit the counts")

    def after(self, t: int) -> int:
        """No restart is known in advance."""
        return NEVER

    def look_at(self) -> int:
        """The step at which the agent must call `watch` next."""
        stretch = self.base // KEPT
        return self.clock + stretch - self.steps % stretch

    def watch(self, pairs: Any, nexts: Any, rewards: Any, n: int) -> None:
        """Read the new steps of a log."""
        stretch = self.base // KEPT
        for i in range(self.seen, n):
            self.count(pairs[i], nexts[i], rewards[i])
            if self.keeps >= 0:
                self.keeps += 1  # steps after an alarm are kept
            elif self.steps % stretch == 0:
                self.look()
        self.clock += n - self.seen
        self.seen = n

    def log_emptied(self) -> None:
        """The log starts again at 0."""
        self.seen = 0

    def look(self) -> None:
        """Compare with the snapshots that are due, and take new ones."""
        self.refresh()
        threshold = 1.5 * math.log(self.steps) - math.log(self.delta)
        for age in range(AGES):
            if self.steps % ((self.base << age) // KEPT) != 0:
                break  # the older ones are not due either
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
        """Choose the likeliest snapshot as the change, and mark the suspected pairs."""
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
        """Whether an alarm is pending."""
        return self.keeps >= 0

    def suspect(self, suspects: Any) -> int:
        """Mark the pairs that seem to have changed; returns how many steps ago."""
        for pair in range(suspects.size):
            suspects[pair] = self.accused[pair]
        self.heard = True
        return max(0, self.keeps)

    def start_over(self, suspects: Any) -> None:
        """The agent forgets these pairs: their past after an alarm, otherwise everything."""
        if all_marked(suspects):
            self.steps = self.keeps if self.heard else 0
            self.shots[:] = 0
        for pair in range(suspects.size):
            if suspects[pair]:
                self.forget(pair, self.past[pair] if self.heard else self.counts[pair].copy())
        self.past[:, :] = 0.0
        self.keeps, self.heard = -1, False
