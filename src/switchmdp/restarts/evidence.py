"""A detector that restarts on evidence: a Bayes factor over all pairs at once.

Did the world change m steps ago? `bayes_factors` weighs the data before and since,

    Λ(m) = Σ over {rewards, successors} of  log mean over q of  Π over pairs of (1 - q + q b),

with b the Bayes factor of one pair and q the share of pairs that have changed. An alarm is raised
when  Λ(m) > log(1/δ) + 1.5 log n  with n the steps since the last restart. (For one m, Λ exceeds
log(1/δ) with probability at most δ under no change, by Markov's inequality, if the priors are
right; the last term allows for repeated tests. It is a heuristic, because we chose the prior.)

Then the likeliest moment is taken as the change. A pair is *suspected* if its rewards or successors
have changed with probability above 1/5, given its own data and, through q, those of all others: an
unvisited pair is suspected if many others have changed, and not if few have. The pair with the
highest probability is always suspected. The agent forgets the steps before the change of suspected
pairs only.

**Snapshots.** Counts of every pair now, and as they were at moments further and further back.

The ages are m = b, 2b, 4b, … with b = max(32, pairs), made even. For each, two snapshots of the
counts are kept, taken every m/2 steps: that costs O(1) pairs a step, amortised, whatever n.
Successors of problems with more than 64 states are put together in 64 classes, by their number; in
fewer, but at least two, if all snapshots would have more than 2²⁵ entries (268 MB).

With the counts go log m(rewards) and log m(successors) of `bayes_factors`, from which Bayes
factors are made. The second is carried from step to step by Laplace's rule, as m is a product:

    m(n + 1 successors) = m(n successors) · (1 + P_j) / (S + n)    where the next successor is j.

Changes b, 2b, 4b, … steps ago are tested; the likeliest moment may be b/2 steps ago.

**Bound.** Every factor 1 - q + q b is at most max(1, b), so that Λ(m) is at most the sum of the
positive log b of all pairs and both kinds. Without a change this sum is nearly always below the
threshold. Then there is no alarm, and the exponentials and logarithms of Λ are not computed.
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
    index,
    make_scratch,
    require,
)
from switchmdp.compiled.declarations import Names
from switchmdp.mdp.pairs import Pairs
from switchmdp.memory.counts import all_marked
from switchmdp.restarts.bayes_factors import (
    SHARES,
    log_factorial,
    log_gamma,
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
MARGIN = 1e-6  # far above the rounding errors of Λ and of its bound
ENTRIES = 2**25  # of all snapshots


def base_of(n_pairs: int) -> int:
    """The shortest age: a multiple of KEPT, so that snapshots of all ages are taken together.

    >>> base_of(15), base_of(45)
    (32, 46)
    """
    return max(SHORTEST, -(-n_pairs // KEPT) * KEPT)


def classes_for(pairs: Pairs) -> int:
    """The number of classes of successors.

    >>> classes_for(Pairs.of(5, 3)), classes_for(Pairs.of(200, 3)), classes_for(Pairs.of(10_000, 4))
    (5, 64, 30)
    """
    most = ENTRIES // (AGES * KEPT * pairs.n_pairs) - 2
    return min(pairs.n_states, WIDEST, max(2, most))


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

    width: Annotated[int, Range(1, f"min(states, {WIDEST})")]
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
        n, self.width = pairs.n_pairs, classes_for(pairs)
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

    def count(self, pairs: Any, nexts: Any, rewards: Any, first: int, last: int) -> None:
        """Count the steps first..last-1 of a log."""
        counts, news, stale, logs, width = self.counts, self.news, self.stale, self.logs, self.width
        for i in range(first, last):
            pair, successor = index(pairs[index(i)]), np.int64(nexts[index(i)])
            # A division costs more than the rest of this loop.
            group = successor if successor < width else successor % width
            column = index(2 + group)
            product = news[pair] * ((counts[pair, column] + 1.0) / (counts[pair, index(0)] + width))
            counts[pair, index(0)] += 1.0
            counts[pair, index(1)] += rewards[index(i)]
            counts[pair, column] += 1.0
            stale[pair] = True
            if product < TINY:
                logs[pair, index(1)] += math.log(product)
                product = 1.0
            news[pair] = product
        self.steps += last - first

    def take(self, age: int) -> None:
        """Take a snapshot, in the place of the oldest of this age."""
        counts, logs, old_counts, old_logs = self.counts, self.logs, self.old_counts, self.old_logs
        a, at, held = index(age), index(self.shots[age] % KEPT), self.shots[age] >= KEPT
        for i in range(counts.shape[0]):
            pair = index(i)
            # A pair that was not visited since is the same. (A place that was never used, or was
            # given up by a restart, may hold anything.)
            if held and old_counts[a, at, pair, index(0)] == counts[pair, index(0)]:
                continue
            for column in range(counts.shape[1]):
                old_counts[a, at, pair, index(column)] = counts[pair, index(column)]
            for kind in range(KINDS):
                old_logs[a, at, pair, index(kind)] = logs[pair, index(kind)]
        self.old_steps[age, at] = self.steps
        self.shots[age] += 1

    def refresh(self) -> None:
        """log m of the pairs visited since the last look."""
        counts, logs, stale, news = self.counts, self.logs, self.stale, self.news
        for i in range(stale.size):
            pair = index(i)
            if stale[pair]:
                logs[pair, index(0)] = log_rewards(counts[pair, index(0)], counts[pair, index(1)])
                # log m of the successors, by Laplace's rule
                logs[pair, index(1)] += math.log(news[pair])
                news[pair] = 1.0
                stale[pair] = False


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
        stretch, i = self.base // KEPT, self.seen
        while i < n:
            last = min(n, i + stretch - self.steps % stretch)
            self.count(pairs, nexts, rewards, i, last)
            if self.keeps >= 0:
                self.keeps += last - i  # steps after an alarm are kept
            elif self.steps % stretch == 0:
                self.look()
            i = last
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
            worth_weighing = self.keeps < 0 and complete and self.may_exceed(age, oldest, threshold)
            if worth_weighing and self.weigh(age, oldest) > threshold:
                self.accuse()
            self.take(age)

    def may_exceed(self, age: int, at: int, threshold: float) -> bool:
        """Whether the bound of Λ of a change at that snapshot exceeds the threshold."""
        counts, logs, old_counts, old_logs = self.counts, self.logs, self.old_counts, self.old_logs
        width, limit, bound = self.width, threshold - MARGIN, 0.0
        log_start, a, c = log_gamma(float(width)), index(age), index(at)
        for i in range(counts.shape[0]):
            pair = index(i)
            before = old_counts[a, c, pair, index(0)]
            since = counts[pair, index(0)] - before
            if since == 0.0 or before == 0.0:
                continue
            earned = counts[pair, index(1)] - old_counts[a, c, pair, index(1)]
            log_b = log_rewards(since, earned)
            log_b += old_logs[a, c, pair, index(0)] - logs[pair, index(0)]
            bound += max(0.0, log_b)
            log_b = log_start - log_gamma(width + since)
            log_b += old_logs[a, c, pair, index(1)] - logs[pair, index(1)]
            left = since
            for j in range(2, 2 + width):
                moved = counts[pair, index(j)] - old_counts[a, c, pair, index(j)]
                if moved > 0.0:
                    log_b += log_factorial(moved)
                    left -= moved
                    if left <= 0.0:
                        break
            bound += max(0.0, log_b)
            if bound > limit:
                return True
        return False

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
                    evidence = self.weigh(age, at)
                    if evidence > best:
                        best, best_age, best_at = evidence, age, at
        self.weigh(best_age, best_at)
        self.keeps = self.steps - self.old_steps[best_age, best_at]
        past, old_counts = self.past, self.old_counts
        for pair in range(past.shape[0]):
            for column in range(past.shape[1]):
                past[pair, column] = old_counts[best_age, best_at, pair, column]
        of_rewards, of_moves = share(self.sums[0]), share(self.sums[1])
        least, likeliest = 1.0, 0
        for pair in range(self.accused.size):
            same = unchanged(of_rewards, self.factors[pair, 0])
            same *= unchanged(of_moves, self.factors[pair, 1])
            self.accused[pair] = 1.0 - same > DOUBT
            if self.past[pair, 0] > 0.0 and same < least:
                least, likeliest = same, pair
        self.accused[likeliest] = True

    def forget(self, pair: int) -> None:
        """Subtract the past of a pair from the counts and from all snapshots."""
        counts, logs, past = self.counts, self.logs, self.past
        for column in range(past.shape[1]):
            counts[pair, column] -= past[pair, column]
        logs[pair, 0] = log_rewards(counts[pair, 0], counts[pair, 1])
        logs[pair, 1] = log_moves(counts[pair, 0], counts[pair, 2:], self.none)
        self.news[pair] = 1.0
        for age in range(AGES):
            for at in range(min(self.shots[age], KEPT)):
                old, old_logs = self.old_counts[age, at, pair], self.old_logs[age, at, pair]
                if old[0] <= past[pair, 0]:
                    for column in range(old.size):
                        old[column] = 0.0
                else:
                    for column in range(old.size):
                        old[column] -= past[pair, column]
                old_logs[0] = log_rewards(old[0], old[1])
                old_logs[1] = log_moves(old[0], old[2:], self.none)

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
            for age in range(AGES):
                self.shots[age] = 0
        past, counts = self.past, self.counts
        for pair in range(suspects.size):
            if suspects[pair]:
                if not self.heard:
                    for column in range(past.shape[1]):
                        past[pair, column] = counts[pair, column]
                self.forget(pair)
        for pair in range(past.shape[0]):
            for column in range(past.shape[1]):
                past[pair, column] = 0.0
        self.keeps, self.heard = -1, False
