"""A change detector with a proved bound on false alarms, for rewards in [0, 1] and any rows.

At each look the detector asks whether something has changed since an earlier moment τ. For this it
compares the data of each pair before τ and since, by e-values (`e_values`). They are combined over
all pairs, for rewards and rows separately, as

    Λ = log mean over q of  Π over pairs of (1 - q + q E),      q in `SHARES`,

where E is the proved e-value of one pair, and q the share of pairs that have changed. There are
several such e-values, each with its own Λ, and the mean of their e^Λ is used:

    rows       a likelihood ratio, and a bet on the uniform law
    rewards    a likelihood ratio, and one without a confidence set; and if some rewards before τ
               were not 0 or 1, a bet for low-noise rewards

An alarm is raised when the sum of Λ for rewards and for rows exceeds a threshold.

**Theorem.** Call an alarm false if no stream has changed since the detector started counting it. If
rewards lie in [0, 1] and, given the pair, rewards and successors are independent of each other and
of the past, then the probability that a false alarm is ever raised is at most δ, however pairs are
chosen. (docs/evidence-psrl.md has the proof. With `independent=False` rewards and successors of a
step may depend on each other.)

The threshold of the i-th snapshot of age level k = 0, 1, … since the j-th start of the detector is

    log(2/δ) + log(j (j + 1)) + log((k + 1)(k + 2)) + log(10.6 i^1.1),

so that the e^-threshold of all snapshots of all starts sum to at most δ/2. The confidence sets of
the proved e-values have ε = δ / (6 n j (j + 1)) for n pairs.

**What has changed.** At an alarm, the largest of all e-values of a pair is used, including the
conditional one, which is sharper but not proved. The snapshot with the largest Λ by these is the
estimate of the change. The rewards (or the row) of a pair are *suspected* if they have changed with
probability above 1/5, given their own data and, through q, those of all other pairs. So an
unvisited pair is suspected if many others have changed, and not if few have. If one of the two is
suspected, 1/10 suffices for the other, because most changes change both. The detector starts again
for what is suspected, and keeps the counts of everything else. All snapshots are dropped at an
alarm.

**When.** A snapshot of age level k is compared when it is m = 2^k b steps old (`snapshots`). Those
of the two youngest levels are compared at every look, every b/2 steps. The theorem allows this,
because Ville's inequality holds at all later steps at once.

**On its own.** `DriftDetector` reads any stream of (state, action, reward, next state):

    detector = sm.DriftDetector(n_states, n_actions)
    alarm = detector.update(state, action, reward, next_state)      # an Alarm, or None

Actions may be chosen in any way: by an agent, by people, at random. The detector is
`restarts.Calibrated`, which EvidencePSRL uses, with the same guarantee: without a change, the
probability that it ever raises an alarm is at most `delta`, for any transition rows, any rewards in
[0, 1] and any way to choose actions. After an alarm it starts again for the rewards and rows that
have changed. The bound includes all later false alarms: those raised although nothing has changed
since the detector started counting.

It looks at the data every max(16, pairs/2) steps, and keeps at most 2²⁵ counts (268 MB), whatever
the length of the stream.
"""

from __future__ import annotations

import math
from typing import Annotated, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from switchmdp.compiled import (
    JIT,
    Probability,
    Range,
    Scratch,
    Shape,
    call_machine_code,
    compiled,
    freeze,
    index,
    jit,
    make_scratch,
    require,
    thaw,
)
from switchmdp.concurrency import OneThreadAtATime, exclusive
from switchmdp.errors import InvalidParameter
from switchmdp.mdp.pairs import Pairs
from switchmdp.memory.counts import BOTH, REWARDS, ROWS
from switchmdp.restarts.e_values import (
    PRODUCTS,
    SHARES,
    log_dirichlet,
    log_flat_bet,
    log_half_sum,
    log_likelihood_bound,
    log_low_noise_bet,
    log_mean,
    log_mixture,
    log_power,
    log_ratio,
    log_split_likelihood,
    multiply,
    settle,
    share,
    unchanged,
)
from switchmdp.restarts.schedules import NEVER
from switchmdp.restarts.snapshots import (
    AGES,
    FIRST,
    KEPT,
    KINDS,
    NOISE,
    REWARD,
    REWARDED,
    SQUARES,
    VISITS,
    Snapshots,
)
from switchmdp.special_functions import log_factorial, log_gamma, log_rewards
from switchmdp.validation import check_probability, check_reward, check_state

DOUBT, DOUBT_OF_OTHER = 0.2, 0.1
PROVED_REWARDS, PROVED_ROWS, FLAT_BETS, LOW_NOISE, SPLIT, ANY_REWARDS, ANY_ROWS, LAMBDAS = range(8)
MARGIN = 1e-6  # far above the rounding errors of Λ and of its bound
POWER, SERIES = 1.1, 10.6  # the series is above Σ i^-1.1, which is 10.58
EAGER = 2  # age levels of which a snapshot is compared at every look, not only at the last


@jit
def code(rewards: bool, rows: bool) -> int:
    """Which of the rewards and the row of a pair have changed."""
    if rewards and rows:
        return BOTH
    if rewards:
        return REWARDS
    return ROWS if rows else 0


@compiled
class Calibrated(Snapshots):
    """The calibrated detector: alarms by e-values over all pairs, with a bound on false alarms.

    `suspect` marks changed rewards and changed rows separately.

    Parameters
    ----------
    delta
        The probability that a false alarm is ever raised.
    independent
        Whether the reward and the next state of a step are independent.

    Raises
    ------
    InvalidParameter
        A parameter has the wrong type or is out of range.

    Examples
    --------
    >>> Calibrated(0.01).delta
    0.01
    """

    delta: Probability
    independent: bool
    seen: Annotated[int, Range(0, below=2**31)]
    clock: Annotated[int, Range(0, below=2**53)]
    keeps: Annotated[int, Range(-1, "steps")]  # steps since the change; -1: no alarm
    starts: Annotated[int, Range(1, below=2**53)]
    origin: Annotated[NDArray[np.float64], Shape("pairs", 2), Range(0, 2.0**53)]
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
        n = pairs.n_pairs
        self.make_room(pairs)
        make_scratch(self, pairs)
        self.origin = np.zeros((n, 2))  # visits and sum of rewards at the last start
        self.accused = np.zeros(n, np.uint8)
        self.seen, self.clock, self.keeps, self.starts = 0, 1, -1, 1

    def grow(self, pairs: Pairs, place: Any) -> None:
        """Make room for more pairs; the detector starts anew."""
        clock, starts = self.clock, self.starts
        self.allocate(pairs)
        self.clock, self.starts = clock, starts + 1

    def check_invariants(self) -> None:
        """The counts at the last start are a part of all later counts."""
        fits = (self.origin[:, 1] <= self.origin[:, 0] + NOISE).all()
        for later in (self.counts, self.old_counts[self.held()]):
            fits = fits and (self.origin <= later[..., (REWARDED, REWARD)] + NOISE).all()
        require(fits, "Calibrated.origin exceeds the counts")

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
        """Note that the log was emptied."""
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
        """Start again for the suspects, and without snapshots."""
        for pair in range(suspects.size):
            rewards = suspects[pair] == BOTH or suspects[pair] == REWARDS
            row = suspects[pair] == BOTH or suspects[pair] == ROWS
            self.forget(pair, rewards, row)
            self.origin[pair, 0] = self.counts[pair, REWARDED]
            self.origin[pair, 1] = self.counts[pair, REWARD]
        for age in range(AGES):
            self.shots[age] = 0
        self.keeps = -1
        self.starts += 1

    # Looking for changes.

    def threshold(self, age: int) -> float:
        """The threshold of the oldest snapshot of this age."""
        i = self.shots[age] - KEPT + 1.0
        levels, starts = (age + 1.0) * (age + 2.0), self.starts * (self.starts + 1.0)
        return math.log(2.0 / self.delta * SERIES * levels * starts) + POWER * math.log(i)

    def look(self) -> None:
        """Compare with the snapshots that are due, and take new ones."""
        self.refresh()
        for age in range(AGES):
            due = self.steps % ((self.base << age) // KEPT) == 0
            if not due and age >= EAGER:
                break  # the older ones are not due either
            oldest = self.shots[age] % KEPT
            if self.keeps < 0 and self.shots[age] >= KEPT:
                threshold = self.threshold(age)
                if (
                    self.may_exceed(age, oldest, threshold)
                    and self.bound(age, oldest) > threshold - MARGIN
                    and self.weigh(age, oldest) > threshold
                ):
                    self.accuse()
            if due:
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
        doubt = self.log_doubt()
        novelty = max(0.0, math.log(n_states / doubt)) if n_states > 8 else 0.0
        for i in range(counts.shape[0]):
            pair = index(i)
            before = old_counts[a, c, pair, index(REWARDED)]
            since = counts[pair, index(REWARDED)] - before
            if since > 0.0 and before > 0.0:
                earned = counts[pair, index(REWARD)] - old_counts[a, c, pair, index(REWARD)]
                log_e = log_rewards(since, earned)
                log_e += old_logs[a, c, pair, index(0)] - logs[pair, index(0)]
                if old_counts[a, c, pair, index(REWARD)] != old_counts[a, c, pair, index(SQUARES)]:
                    log_e = max(log_e, self.low_noise(a, c, pair, doubt))
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

    def bound(self, age: int, at: int) -> float:
        """An upper bound of Λ, which settles most looks at a fraction of the cost of `weigh`.

        The frequencies f = a / n_a of the old data are in the confidence set C, so that
        sup_C p^b >= f^b, and the likelihood ratio is at most q(b) / f^b. The log of a flat bet is
        at most Σ_j b_j (log(1 + x) - log(1 + x f_j / u_j)) for some x >= 0, which is at most 0 if
        f_j >= u_j for all new successors j. Where this says nothing, the e-value is computed.
        E-values below 1 are left out, as are split e-values without new data.
        """
        counts, old, sums, products = self.counts, self.old_counts, self.sums, self.products
        n_states, rest, doubt = self.n_states, self.rest(), self.log_doubt()
        a, c, varied, factors = index(age), index(at), False, 0
        self.clear_sums()
        for i in range(counts.shape[0]):
            pair = index(i)
            total, squares = old[a, c, pair, index(REWARD)], old[a, c, pair, index(SQUARES)]
            varied = varied or total != squares
        for i in range(counts.shape[0]):
            pair = index(i)
            before = old[a, c, pair, index(REWARDED)]
            since = counts[pair, index(REWARDED)] - before
            if since > 0.0 and before > 0.0:
                total = old[a, c, pair, index(REWARD)]
                earned = max(0.0, counts[pair, index(REWARD)] - total)
                log_q = log_rewards(since, earned)
                log_f = log_power(total / before, earned)
                log_f += log_power(1.0 - total / before, max(0.0, since - earned))
                if log_f == -np.inf:
                    log_f = self.likelihood_bound(i, old[age, at, i], doubt)
                multiply(products[PROVED_REWARDS], sums[PROVED_REWARDS], log_q - log_f)
                if before > self.origin[pair, index(0)]:
                    split = self.split_likelihood(i, old[age, at, i])
                    multiply(products[SPLIT], sums[SPLIT], split)
                if varied:
                    bet = self.low_noise(a, c, pair, doubt)
                    multiply(products[LOW_NOISE], sums[LOW_NOISE], bet)
                factors += 1
                if factors % PRODUCTS == 0:
                    self.settle_rewards()
            before = old[a, c, pair, index(VISITS)]
            since = counts[pair, index(VISITS)] - before
            if since > 0.0 and before > 0.0:
                was, is_now = old[age, at, i, FIRST:], counts[i, FIRST:]
                ratio, usual = log_ratio(is_now, was, before, since, n_states, rest)
                bet = 0.0
                if not usual:
                    floor = log_mixture(was, self.none, before, n_states, rest) - doubt
                    bet = log_flat_bet(is_now, was, before, since, floor, n_states, rest)
                    if ratio > 0.0:
                        log_q = log_dirichlet(is_now, was, since, 1.0, n_states, rest)
                        ratio = log_q - log_likelihood_bound(is_now, was, before, since, floor)
                if ratio > 0.0:
                    self.include(PROVED_ROWS, ratio)
                if bet > 0.0:
                    self.include(FLAT_BETS, bet)
        self.settle_rewards()
        return self.combined(varied)

    def settle_rewards(self) -> None:
        """Move the products of the e-values of rewards into their sums."""
        for which in (PROVED_REWARDS, SPLIT, LOW_NOISE):
            settle(self.products[which], self.sums[which])

    def combined(self, varied: bool) -> float:
        """Λ, by the sums of all kinds of e-values."""
        rewards = log_mean(self.sums[PROVED_REWARDS])
        if varied:
            rewards = log_half_sum(rewards, log_mean(self.sums[LOW_NOISE]))
        rewards = log_half_sum(rewards, log_mean(self.sums[SPLIT]))
        rows = log_half_sum(log_mean(self.sums[PROVED_ROWS]), log_mean(self.sums[FLAT_BETS]))
        return rewards + rows if self.independent else log_half_sum(rewards, rows)

    def weigh(self, age: int, at: int) -> float:
        """Compute Λ by proved e-values.

        Leaves in `factors` the largest log E of each pair, also by conditional e-values, and in the
        last two of `sums` what follows from these for rewards and for rows.
        """
        counts, logs, factors = self.counts, self.logs, self.factors
        old, old_logs = self.old_counts[age, at], self.old_logs[age, at]
        n, rest = counts.shape[0], self.rest()
        doubt, varied = self.log_doubt(), False
        self.clear_sums()
        for pair in range(n):  # known when the snapshot was taken, so that the weights may use it
            varied = varied or old[pair, REWARD] != old[pair, SQUARES]
        for pair in range(n):
            factors[pair, 0], factors[pair, 1] = 0.0, 0.0
            before = old[pair, REWARDED]
            since = counts[pair, REWARDED] - before
            if before > self.origin[pair, 0]:
                self.include(SPLIT, self.split_likelihood(pair, old[pair]))
            if since > 0.0 and before > 0.0:
                log_q = log_rewards(since, max(0.0, counts[pair, REWARD] - old[pair, REWARD]))
                bound = self.likelihood_bound(pair, old[pair], doubt)
                self.include(PROVED_REWARDS, log_q - bound)
                conditional = log_q + old_logs[pair, 0] - logs[pair, 0]
                factors[pair, 0] = max(log_q - bound, conditional)
                if varied:
                    bet = self.low_noise(age, at, pair, doubt)
                    self.include(LOW_NOISE, bet)
                    factors[pair, 0] = max(factors[pair, 0], bet)
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
        return self.combined(varied)

    def likelihood_bound(self, pair: int, old: Any, doubt: float) -> float:
        """The bound of log sup_C p^b for the rewards of a pair, in two cells."""
        now, halves = self.counts[pair], self.halves
        n_a, n_b = old[REWARDED], now[REWARDED] - old[REWARDED]
        halves[0, 0], halves[1, 0] = old[REWARD], now[REWARD]
        halves[0, 1] = max(0.0, n_a - halves[0, 0])
        halves[1, 1] = max(halves[0, 1], now[REWARDED] - halves[1, 0])
        floor = log_mixture(halves[0], halves[2], n_a, 2, 0) - doubt
        return log_likelihood_bound(halves[1], halves[0], n_a, n_b, floor)

    def split_likelihood(self, pair: int, old: Any) -> float:
        """The log e-value of the rewards of a pair since the last start, also without new ones."""
        now, origin = self.counts[pair], self.origin[pair]
        n_a, total_a = old[REWARDED] - origin[0], max(0.0, old[REWARD] - origin[1])
        n_b, total_b = now[REWARDED] - old[REWARDED], max(0.0, now[REWARD] - old[REWARD])
        return log_split_likelihood(n_a, total_a, n_b, total_b)

    def low_noise(self, age: Any, at: Any, pair: Any, doubt: float) -> float:
        """The log e-value of the rewards of a pair by their sum and squares."""
        old, now = self.old_counts, self.counts
        n = old[age, at, pair, index(REWARDED)]
        total, squares = old[age, at, pair, index(REWARD)], old[age, at, pair, index(SQUARES)]
        return log_low_noise_bet(
            n, total, squares, now[pair, index(REWARDED)] - n, now[pair, index(REWARD)] - total,
            now[pair, index(SQUARES)] - squares, doubt,
        )  # fmt: skip

    def log_doubt(self) -> float:
        """log(1/ε) of the confidence sets."""
        return math.log(6.0 * self.stale.size * self.starts * (self.starts + 1.0) / self.delta)

    def rest(self) -> int:
        """The number of states that share a cell; 0 if each has its own."""
        return self.n_states - self.width + 1 if self.width < self.n_states else 0

    def clear_sums(self) -> None:
        """Reset the sums for a new combination over pairs."""
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
            same_row = 1.0  # with one state no row can change
            if self.n_states > 1:
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


# The detector on its own.


class Alarm(NamedTuple):
    """A change that was found.

    Parameters
    ----------
    step
        The step after which the alarm was raised.
    change
        The estimate of the first step after the change, from 1.
    rewards
        The (state, action) pairs whose mean rewards have changed.
    rows
        The (state, action) pairs whose transition rows have changed.
    """

    step: int  # the alarm was raised after so many steps
    change: int  # the estimate of the first step after the change, from 1
    rewards: tuple[tuple[int, int], ...]  # the (state, action) whose mean rewards have changed
    rows: tuple[tuple[int, int], ...]  # the (state, action) whose successors have changed


def _watch(state: Any, pairs: Any, nexts: Any, rewards: Any, n: int) -> Any:
    """`watch` as machine code."""
    rule = thaw(state)
    rule.watch(pairs, nexts, rewards, n)
    rule.log_emptied()
    return freeze(rule), 0


class DriftDetector(OneThreadAtATime):
    """A detector of changed mean rewards and transition rows, with a proved bound on false alarms.

    Parameters
    ----------
    n_states, n_actions
        The numbers of states and actions.
    delta
        The probability that a false alarm is ever raised.
    independent
        Whether the reward and the next state of a step are independent. If not, it takes more steps
        to find a change of both.
    available
        Which actions each state has, a (states, actions) mask; by default all.

    Raises
    ------
    InvalidParameter
        A parameter has the wrong type or is out of range.

    Examples
    --------
    >>> detector, rng = DriftDetector(2, 1), np.random.default_rng(0)
    >>> for t in range(1, 3001):
    ...     state, mean = t % 2, 0.2 if t <= 2000 else 0.8
    ...     alarm = detector.update(state, 0, float(rng.random() < mean), (t + 1) % 2)
    >>> [(alarm.change, alarm.rewards, alarm.rows) for alarm in detector.alarms]
    [(1985, ((0, 0), (1, 0)), ())]
    """

    def __init__(
        self, n_states: int, n_actions: int, *,
        delta: float = 0.01, independent: bool = True, available: Any = None,
    ) -> None:  # fmt: skip
        self.pairs = Pairs.of(n_states, n_actions, available)
        self.rule = Calibrated(delta, independent=independent)
        self.rule.allocate(self.pairs)
        self.alarms: list[Alarm] = []
        room = self.rule.base
        self._pairs, self._nexts = np.zeros(room, np.uint32), np.zeros(room, np.uint32)
        self._rewards, self._n = np.zeros(room), 0

    def __repr__(self) -> str:
        sizes = f"{self.pairs.n_states}, {self.pairs.n_actions}"
        return f"DriftDetector({sizes}, delta={self.rule.delta}, t={self.steps})"

    @property
    def steps(self) -> int:
        """The number of steps so far."""
        return int(self.rule.clock - 1 + self._n)

    def update(self, state: int, action: int, reward: float, next_state: int) -> Alarm | None:
        """Read one step.

        Parameters
        ----------
        state
            The state before the step.
        action
            The action that was taken.
        reward
            The reward, in [0, 1].
        next_state
            The state after the step.

        Returns
        -------
        Alarm or None
            The change that was found at this step, or None.

        Raises
        ------
        InvalidState
            `state` or `next_state` is not a state.
        InvalidAction
            The action is not available in the state.
        InvalidReward
            The reward is not a number in [0, 1].
        """
        with exclusive(self):
            pair, reward = self.pairs.pair(state, action), check_reward(reward)
            next_state = check_state(next_state, self.pairs.n_states, "next_state")
            n = self._n
            self._pairs[n], self._nexts[n], self._rewards[n] = pair, next_state, reward
            self._n = n + 1
            if self.rule.clock + self._n < self.rule.look_at():
                return None
            return self._look()

    def _look(self) -> Alarm | None:
        rule, steps = self.rule, (self._pairs, self._nexts, self._rewards, self._n)
        if JIT:
            call_machine_code(_watch, rule, *steps)
        else:
            rule.watch(*steps)
            rule.log_emptied()
        self._n = 0
        if not rule.alarmed():
            return None
        suspects = np.zeros(self.pairs.n_pairs, np.uint8)
        ago = int(rule.suspect(suspects))
        rule.start_over(suspects)
        names = list(zip(self.pairs.states.tolist(), self.pairs.actions.tolist(), strict=True))
        rewards, rows = (
            tuple(names[pair] for pair in np.flatnonzero((suspects == BOTH) | (suspects == kind)))
            for kind in (REWARDS, ROWS)
        )
        alarm = Alarm(self.steps, self.steps - ago + 1, rewards, rows)
        self.alarms.append(alarm)
        return alarm
