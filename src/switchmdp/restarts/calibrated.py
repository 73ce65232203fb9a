"""A detector with a proved bound on false alarms, for any unchanged rewards and rows.

Did something change at an earlier moment τ? `e_values` compares the data of each pair before τ and
since. They are combined over all pairs, for rewards and rows separately, as

    Λ = log mean over q of  Π over pairs of (1 - q + q E),      q in `SHARES`,

where E is the proved e-value of one pair, and q the share of pairs that have changed. For rows
there are two such e-values, with a Λ each, and the mean of both e^Λ counts. An alarm is raised when
the sum of Λ for rewards and for rows exceeds a threshold.

**Theorem.** Call an alarm false if no stream has changed since the detector began to count it. If
rewards lie in [0, 1] and, given the pair, rewards and successors are independent of each other and
of the past, then the probability that a false alarm is ever raised is at most δ, however pairs are
chosen. (docs/evidence-psrl.md has the proof. With `independent=False` rewards and successors of a
step may depend on each other.)

The threshold of the i-th snapshot of age level k = 0, 1, … is

    log(2/δ) + log((k + 1)(k + 2)) + log(2.2 (i + 1) log²(i + 1)),

so that the e^-threshold of all snapshots sum to at most δ/2. The confidence sets of the proved
e-values have ε = δ / (4 n j (j + 1)) for n pairs and the j-th time that the detector starts anew.

**What has changed.** At an alarm the largest of all e-values of a pair counts, also the conditional
one, which is sharper but not proved. The snapshot with the largest Λ by these is the estimate of
the change. The rewards (or the row) of a pair are *suspected* if they have changed with probability
above 1/5, given their own data and, through q, those of all other pairs: those of an unvisited pair
are suspected if many others have changed, and not if few have. If one of the two is suspected, 1/10
suffices for the other: most changes change both. The detector starts anew for what is
suspected, and keeps the counts of all else. Snapshots are dropped at an alarm.

**Snapshots.** Ages are m = b, 2b, 4b, … with b = max(32, pairs), made even. For each, two snapshots
of the counts are kept, taken every m/2 steps. That costs O(1) pairs per step, amortised.

**Memory.** A pair has at most 64 cells for its successors. With more states, the first 63 observed
successors get their own, and all others share the last. (Which states share it is known before each
step, so that all proofs hold.) With many pairs there are fewer cells, at least two, such that all
snapshots have at most 2²⁵ entries (268 MB), up to 250,000 pairs.
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
    jit,
    make_scratch,
    require,
)
from switchmdp.compiled.declarations import Names
from switchmdp.errors import InvalidParameter
from switchmdp.mdp.pairs import Pairs
from switchmdp.memory.counts import BOTH, REWARDS, ROWS
from switchmdp.restarts.bayes_factors import (
    SHARES,
    log_factorial,
    log_gamma,
    log_mean,
    log_rewards,
    multiply,
    settle,
    share,
    unchanged,
)  # fmt: skip
from switchmdp.restarts.e_values import (
    log_dirichlet,
    log_flat_bet,
    log_leave_in_rewards,
    log_likelihood_bound,
    log_mixture,
)
from switchmdp.restarts.evidence import base_of
from switchmdp.restarts.schedules import NEVER
from switchmdp.validation import check_probability

DOUBT, DOUBT_OF_OTHER = 0.2, 0.1
MOST_CELLS = 64
AGES, KEPT = 13, 2
KINDS = 2  # rewards and rows
PROVED_REWARDS, PROVED_ROWS, FLAT_BETS, ANY_REWARDS, ANY_ROWS, LAMBDAS = 0, 1, 2, 3, 4, 5
VISITS, REWARDED, REWARD, FIRST = 0, 1, 2, 3  # columns: visits of rows and rewards, sum, successors
TINY = 1e-100
NOISE = 1e-6  # sums of rewards are rounded
MARGIN = 1e-6  # far above the rounding errors of Λ and of its bound
ENTRIES = 2**25  # of all snapshots
SERIES = 2.2  # above Σ 1 / (n log² n) from n = 2 on, which is 2.11


def cells_for(pairs: Pairs) -> int:
    """The number of cells for the successors of a pair.

    >>> cells_for(Pairs.of(5, 3)), cells_for(Pairs.of(200, 3)), cells_for(Pairs.of(10_000, 4))
    (5, 64, 29)
    """
    most = ENTRIES // (AGES * KEPT * pairs.n_pairs) - FIRST
    return min(pairs.n_states, MOST_CELLS, max(2, most))


def _base(names: Names) -> int:
    return base_of(names["pairs"])


def fit_together(counts: NDArray[np.float64], most: NDArray[np.float64] | float) -> bool:
    """Whether visits, rewards and successors of pairs fit together, and are not above `most`.

    >>> fit_together(np.array([[2.0, 1.0, 0.5, 1.0, 1.0]]), 3.0)
    True
    """
    if not ((counts >= 0.0) & (counts <= most + NOISE)).all():
        return False
    visits, moves = counts[..., VISITS], counts[..., FIRST:]
    whole = (moves == np.floor(moves)).all() and (moves.sum(axis=-1) == visits).all()
    return bool(whole and (counts[..., REWARD] <= counts[..., REWARDED] + NOISE).all())


@jit
def log_half_sum(x: float, y: float) -> float:
    """log of the mean of e^x and e^y.

    >>> round(math.exp(log_half_sum(math.log(2.0), math.log(6.0))), 9)
    4.0
    """
    return max(x, y) + math.log(0.5 * (1.0 + math.exp(-abs(x - y))))


@jit
def code(rewards: bool, rows: bool) -> int:
    """Which of the rewards and the row of a pair have changed."""
    if rewards and rows:
        return BOTH
    if rewards:
        return REWARDS
    return ROWS if rows else 0


@compiled
class Calibrated:
    """Alarms by e-values over all pairs; `suspect` names changed rewards and rows separately."""

    delta: Probability
    independent: bool
    n_states: Annotated[int, Equals("states")]
    width: Annotated[int, Range(1, f"min(states, {MOST_CELLS})")]
    base: Annotated[int, Equals(_base)]
    steps: Annotated[int, Range(0, below=2**53)]
    seen: Annotated[int, Range(0, below=2**31)]
    clock: Annotated[int, Range(0, below=2**53)]
    keeps: Annotated[int, Range(-1, "steps")]  # steps since the change; -1: no alarm
    starts: Annotated[int, Range(1, below=2**53)]
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
    numbered: Annotated[NDArray[np.int64], Shape(AGES), Range(0, 2**53)]  # since the very first
    accused: Annotated[NDArray[np.uint8], Shape("pairs"), Range(0, ROWS)]
    factors: Annotated[NDArray[np.float64], Shape("pairs", KINDS), Scratch()]
    products: Annotated[NDArray[np.float64], Shape(LAMBDAS, len(SHARES)), Scratch(1.0)]
    sums: Annotated[NDArray[np.float64], Shape(LAMBDAS, len(SHARES)), Scratch()]
    none: Annotated[NDArray[np.float64], Shape("width"), Scratch()]
    halves: Annotated[NDArray[np.float64], Shape(3, 2), Scratch()]

    def __init__(self, delta: float = 0.01, *, independent: bool = True) -> None:
        self.delta = check_probability("delta", delta)
        if not isinstance(independent, bool):
            raise InvalidParameter("independent", independent, "True or False")
        self.independent = independent

    def allocate(self, pairs: Pairs) -> None:
        """Make room for these pairs."""
        n, self.n_states, self.width = pairs.n_pairs, pairs.n_states, cells_for(pairs)
        self.base = base_of(n)
        make_scratch(self, pairs)
        columns = FIRST + self.width
        self.counts, self.logs = np.zeros((n, columns)), np.zeros((n, KINDS))
        self.news = np.ones(n)  # the factor of log_leave_in since `logs` was brought up to date
        self.stale = np.zeros(n, np.bool_)
        self.owners, self.owned = np.zeros((n, self.width), np.uint32), np.zeros(n, np.int64)
        self.old_counts = np.zeros((AGES, KEPT, n, columns))
        self.old_logs = np.zeros((AGES, KEPT, n, KINDS))
        self.old_steps = np.zeros((AGES, KEPT), np.int64)
        self.shots, self.numbered = np.zeros(AGES, np.int64), np.zeros(AGES, np.int64)
        self.accused = np.zeros(n, np.uint8)
        self.steps, self.seen, self.clock, self.keeps, self.starts = 0, 0, 1, -1, 1

    def grow(self, pairs: Pairs, place: Any) -> None:
        """Make room for more pairs; the detector starts anew."""
        clock, numbered, starts = self.clock, self.numbered, self.starts
        self.allocate(pairs)
        self.clock, self.numbered, self.starts = clock, numbered, starts + 1

    def held(self) -> NDArray[np.bool_]:
        """A mask of the snapshots that have been taken."""
        return np.arange(KEPT) < self.shots[:, None]

    def check_invariants(self) -> None:
        """Visits, rewards and successors fit together, and no snapshot exceeds what came later."""
        held = self.held()
        require((self.old_steps[held] <= self.steps).all(), "Calibrated.old_steps is in the future")
        require(fit_together(self.counts, 2.0**53), "Calibrated.counts do not fit together")
        fits = fit_together(self.old_counts[held], self.counts)
        require(fits, "Calibrated.old_counts do not fit together")
        require((self.shots <= self.numbered).all(), "Calibrated.shots exceeds Calibrated.numbered")

    # Counting.

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
            counts[pair, index(REWARD)] += rewards[index(i)]
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
        self.numbered[age] += 1

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

    # What the agent calls.

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

    def alarmed(self) -> bool:
        """Whether an alarm is pending."""
        return self.keeps >= 0

    def suspect(self, suspects: Any) -> int:
        """Mark what seems to have changed; returns how many steps ago."""
        for pair in range(suspects.size):
            suspects[pair] = self.accused[pair]
        return max(0, self.keeps)

    def start_over(self, suspects: Any) -> None:
        """The agent forgets these pairs: start anew for them, and without snapshots."""
        for pair in range(suspects.size):
            if suspects[pair] == BOTH or suspects[pair] == REWARDS:
                self.counts[pair, REWARDED], self.counts[pair, REWARD] = 0.0, 0.0
                self.logs[pair, 0] = 0.0
            if suspects[pair] == BOTH or suspects[pair] == ROWS:
                self.counts[pair, VISITS] = 0.0
                for column in range(FIRST, self.counts.shape[1]):
                    self.counts[pair, column] = 0.0
                self.logs[pair, 1], self.news[pair], self.owned[pair] = 0.0, 1.0, 0
        for age in range(AGES):
            self.shots[age] = 0
        self.keeps = -1
        self.starts += 1

    # Looking for changes.

    def threshold(self, age: int) -> float:
        """The threshold of the oldest snapshot of this age."""
        i = self.numbered[age] - KEPT + 2.0
        log_i = math.log(i)
        return math.log(2.0 / self.delta * SERIES * i * log_i * log_i * (age + 1.0) * (age + 2.0))

    def look(self) -> None:
        """Compare with the snapshots that are due, and take new ones."""
        self.refresh()
        for age in range(AGES):
            if self.steps % ((self.base << age) // KEPT) != 0:
                break  # the older ones are not due either
            oldest = self.shots[age] % KEPT
            if self.keeps < 0 and self.shots[age] >= KEPT:
                threshold = self.threshold(age)
                if self.may_exceed(age, oldest, threshold) and self.weigh(age, oldest) > threshold:
                    self.accuse()
            self.take(age)

    def may_exceed(self, age: int, at: int, threshold: float) -> bool:
        """Whether a cheap estimate of the largest possible Λ exceeds the threshold.

        It is the sum of the positive log E with conditional e-values, and a bonus for successors
        that were never observed before. (After n_a visits without it, a conditional e-value gains
        about log(n_a / S) for one, and a flat bet log(n_a / log(1/ε)), because all unobserved
        states together have at most about log(1/ε) / n_a.) Nothing is proved about it: a look that
        it skips can only prevent an alarm.
        """
        counts, logs, old_counts, old_logs = self.counts, self.logs, self.old_counts, self.old_logs
        width, n_states, limit, bound = self.width, self.n_states, threshold - MARGIN, 0.0
        rest, log_rest = n_states - width + 1, 0.0
        own = width - 1 if rest > 1 else width
        if rest > 1:
            log_rest = log_gamma(float(rest))
        log_start, a, c = log_gamma(float(n_states)), index(age), index(at)
        # log(1/ε) is more than 8 by default: with few states there is no bonus.
        novelty = max(0.0, math.log(n_states / self.log_doubt())) if n_states > 8 else 0.0
        for i in range(counts.shape[0]):
            pair = index(i)
            before = old_counts[a, c, pair, index(REWARDED)]
            since = counts[pair, index(REWARDED)] - before
            if since > 0.0 and before > 0.0:
                earned = counts[pair, index(REWARD)] - old_counts[a, c, pair, index(REWARD)]
                log_e = log_rewards(since, earned)
                log_e += old_logs[a, c, pair, index(0)] - logs[pair, index(0)]
                bound += max(0.0, log_e)
            before = old_counts[a, c, pair, index(VISITS)]
            since = counts[pair, index(VISITS)] - before
            if since > 0.0 and before > 0.0:
                log_e = log_start - log_gamma(n_states + since)
                log_e += old_logs[a, c, pair, index(1)] - logs[pair, index(1)]
                left = since
                for j in range(own):
                    column = index(FIRST + j)
                    known = old_counts[a, c, pair, column]
                    moved = counts[pair, column] - known
                    if moved > 0.0:
                        log_e += log_factorial(moved)
                        if known == 0.0:
                            log_e += moved * novelty
                        left -= moved
                        if left <= 0.0:
                            break
                if left > 0.0:  # went to the states that share a cell
                    log_e += log_gamma(rest + left) - log_rest
                bound += max(0.0, log_e)
            if bound > limit:
                return True
        return False

    def weigh(self, age: int, at: int) -> float:
        """Λ by proved e-values.

        Leaves in `factors` the largest log E of each pair, also by conditional e-values, and in
        the last two of `sums` what follows from these for rewards and for rows.
        """
        counts, logs, factors = self.counts, self.logs, self.factors
        old, old_logs, halves = self.old_counts[age, at], self.old_logs[age, at], self.halves
        n, rest = counts.shape[0], self.rest()
        doubt = self.log_doubt()
        self.clear_sums()
        for pair in range(n):
            factors[pair, 0], factors[pair, 1] = 0.0, 0.0
            before = old[pair, REWARDED]
            since = counts[pair, REWARDED] - before
            if since > 0.0 and before > 0.0:
                halves[0, 0], halves[1, 0] = old[pair, REWARD], counts[pair, REWARD]
                halves[0, 1] = max(0.0, before - halves[0, 0])
                halves[1, 1] = max(halves[0, 1], counts[pair, REWARDED] - halves[1, 0])
                floor = log_mixture(halves[0], halves[2], before, 2, 0) - doubt
                log_q = log_rewards(since, max(0.0, halves[1, 0] - halves[0, 0]))
                bound = log_likelihood_bound(halves[1], halves[0], before, since, floor)
                self.include(PROVED_REWARDS, log_q - bound)
                conditional = log_q + old_logs[pair, 0] - logs[pair, 0]
                factors[pair, 0] = max(log_q - bound, conditional)
                self.include(ANY_REWARDS, factors[pair, 0])
            before = old[pair, VISITS]
            since = counts[pair, VISITS] - before
            if since > 0.0 and before > 0.0:
                was, is_now = old[pair, FIRST:], counts[pair, FIRST:]
                floor = log_mixture(was, self.none, before, self.n_states, rest) - doubt
                log_q = log_dirichlet(is_now, was, since, 1.0, self.n_states, rest)
                bound = log_likelihood_bound(is_now, was, before, since, floor)
                bet = log_flat_bet(is_now, was, before, since, floor, self.n_states, rest)
                self.include(PROVED_ROWS, log_q - bound)
                self.include(FLAT_BETS, bet)
                conditional = log_q + old_logs[pair, 1] - logs[pair, 1]
                factors[pair, 1] = max(log_q - bound, conditional)
                if bet > 0.0:  # it is 0 where there is no bet, which says nothing
                    factors[pair, 1] = max(factors[pair, 1], bet)
                self.include(ANY_ROWS, factors[pair, 1])
        rewards = log_mean(self.sums[PROVED_REWARDS])
        rows = log_half_sum(log_mean(self.sums[PROVED_ROWS]), log_mean(self.sums[FLAT_BETS]))
        return rewards + rows if self.independent else log_half_sum(rewards, rows)

    def log_doubt(self) -> float:
        """log(1/ε) of the confidence sets."""
        return math.log(4.0 * self.stale.size * self.starts * (self.starts + 1.0) / self.delta)

    def rest(self) -> int:
        """The number of states that share a cell; 0 if each has its own."""
        return self.n_states - self.width + 1 if self.width < self.n_states else 0

    def clear_sums(self) -> None:
        """Start a combination over pairs."""
        for i in range(LAMBDAS):
            for j in range(len(SHARES)):
                self.sums[i, j] = 0.0

    def include(self, which: int, log_e: float) -> None:
        """Add the log(1 - q + q E) of one pair."""
        multiply(self.products[which], self.sums[which], log_e)
        settle(self.products[which], self.sums[which])

    def accuse(self) -> None:
        """Choose the likeliest snapshot as the change, and mark what is suspected."""
        best, best_age, best_at = -np.inf, 0, 0
        for age in range(AGES):
            for at in range(min(self.shots[age], KEPT)):
                if self.old_steps[age, at] < self.steps:
                    self.weigh(age, at)
                    evidence = log_mean(self.sums[ANY_REWARDS]) + log_mean(self.sums[ANY_ROWS])
                    if evidence > best:
                        best, best_age, best_at = evidence, age, at
        self.weigh(best_age, best_at)
        self.keeps = self.steps - self.old_steps[best_age, best_at]
        of_rewards, of_rows = share(self.sums[ANY_REWARDS]), share(self.sums[ANY_ROWS])
        least, likeliest, kind = 1.0, 0, BOTH
        for pair in range(self.accused.size):
            same_rewards = unchanged(of_rewards, self.factors[pair, 0])
            same_row = unchanged(of_rows, self.factors[pair, 1])
            changed = max(1.0 - same_rewards, 1.0 - same_row)
            limit = 1.0 - (DOUBT_OF_OTHER if changed > DOUBT else DOUBT)
            self.accused[pair] = code(same_rewards < limit, same_row < limit)
            if self.old_counts[best_age, best_at, pair, VISITS] > 0.0:
                if same_rewards < least:
                    least, likeliest, kind = same_rewards, pair, REWARDS
                if same_row < least:
                    least, likeliest, kind = same_row, pair, ROWS
        if self.accused[likeliest] != kind:
            self.accused[likeliest] = BOTH if self.accused[likeliest] != 0 else kind
