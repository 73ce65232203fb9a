"""Generalised likelihood ratio (GLR) tests: a Bernoulli test for each stream that may change.

The rewards of each pair and the indicator of each successor are streams x_1 … x_n in [0, 1]. The
log-likelihood ratio of one change after the first s observations, against no change, is

    G(s) = s·kl(p̂_{1:s}, p̂_{1:n}) + (n-s)·kl(p̂_{s+1:n}, p̂_{1:n}),

and an alarm is raised when  max_s G(s) >= log(3 n^{3/2} / δ'),  with δ' = δ / (pairs · (S+1)) for
each of the streams (Besson, Kaufmann, Maillard and Seznec 2022, for bandits). Where successors are
grouped into classes, S is the number of classes. An alarm for any pair makes the agent forget all
pairs. A single statistic for a row would need a threshold that grows with S.

**False alarms.** With a slightly larger threshold the bandit paper proves that the probability of a
false alarm is at most δ' per stream; this threshold is the one that it recommends in practice.
Which pair is visited depends on the past, but given the visits the entries of a stream are
independent, so the union bound over streams holds. There is no published analysis of GLR restarts
for average reward, where pairs that are not visited show no change: with UCRL2 it is a heuristic.

Measured: of 400 stationary problems (S=5, A=3, 100 000 steps, δ = 0.1) one had a false alarm.

**Splits.** To detect a change of the rewards or successors of a pair, a detector compares the
counts before some visit with the counts since. Comparing at *every* earlier visit costs O(n) per
visit. So `Splits`, the base of `GLR` and of `bocpd.BOCPD`, stores the counts on a geometric grid:

    level k:   at the last 16 visits whose number is a multiple of 4·2ᵏ.

At visit n, each level with 4·2ᵏ | n is compared at the splits 9, 10, … and 16 times 4·2ᵏ visits ago
(level 0 also at 1, 2, … and 8 times 4 visits ago). That is 6 comparisons per visit, amortised, for
any n. Near an age m > 64 the splits are about m/12 visits apart, and are compared every m/12
visits. The resulting delay was measured for each detector. Ages go up to 16·4·2¹¹ = 131 072 visits
to a pair. A change can be detected as long as at least a sixth of the visits were before it.

An alarm is raised at the end of the current stretch of 16 steps, so that it comes at the same step
however the log is split. Then the detector restarts.

For `GLR` the grid adds one to four visits of delay, or about a fifth: from 0.5 to 0.9 after 300
visits it takes 39 visits instead of 35, from 0.2 to 0.4 after 1000 it takes 181 instead of 161.

A cheaper test comes first. Since kl(p, q) <= (p-q)²/(q(1-q)), G is at most the chi-squared
statistic, which needs no logarithms. If that is below the threshold, so is G.

**Many states.** Successors are grouped into classes by their number (modulo the classes): one class
per state up to 64 states, fewer if the arrays would exceed 2²³ entries, and at least two.
"""

from __future__ import annotations

import math
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from switchmdp.compiled import FINITE, Probability, Range, Shape, compiled, index, jit, require
from switchmdp.errors import InvalidParameter
from switchmdp.mdp.pairs import Pairs
from switchmdp.restarts.schedules import NEVER, mark_all
from switchmdp.validation import check_probability

LOWEST, KEPT, LEVELS = 2, 16, 12  # level 0 is every 2² visits
LOW_BITS = (1 << LOWEST) - 1
STRETCH = 16
LARGEST = 2.0**60  # of what is counted; sums of these do not overflow
WIDEST, ENTRIES, MOST_PAIRS = 64, 2**23, 10**5
REWARD, FIRST = 0, 1  # columns: the sum of rewards, and the first class of successors
SURELY = 1.0 - 1e-9  # a margin far above what rounding takes from the chi-squared statistic


@jit
def kept_at(block: int, tick: int, columns: int) -> int:
    """The first index of a level's counts at the visit that is `tick` times its unit."""
    return (block + (tick & (KEPT - 1))) * columns


@compiled
class Splits:
    """Base of the detectors that compare a pair's visits before and since.

    A subclass has the number of its own columns (`more`), fills them (`note`), and defines the
    threshold at visit n (`threshold`) and whether a split of a level exceeds it (`differ`).
    """

    width: Annotated[int, Range(1, f"min(states, {WIDEST})")]
    columns: Annotated[int, Range(1)]
    steps: Annotated[int, Range(0, below=2**53)]
    seen: Annotated[int, Range(0, below=2**31)]
    clock: Annotated[int, Range(1, below=2**53)]
    found: bool
    alarm: bool
    visits: Annotated[NDArray[np.int64], Shape("pairs"), Range(0, below=2**53)]
    now: Annotated[NDArray[np.float64], Shape("pairs * columns"), Range(-LARGEST, LARGEST)]
    past: Annotated[
        NDArray[np.float64], Shape(f"pairs * {LEVELS * KEPT} * columns"), Range(-LARGEST, LARGEST)
    ]

    def more(self) -> int:
        """The number of columns of the detector's own."""
        return 0

    def make_room(self, pairs: Pairs) -> None:
        """Make room for these pairs."""
        n, more = pairs.n_pairs, self.more()
        if n > MOST_PAIRS:
            raise InvalidParameter("n_states * n_actions", n, f"at most {MOST_PAIRS} pairs")
        most = ENTRIES // (n * LEVELS * KEPT) - FIRST - more
        self.width = min(pairs.n_states, WIDEST, max(2, most))
        self.columns = FIRST + self.width + more
        self.visits = np.zeros(n, np.int64)
        self.now = np.zeros(n * self.columns)
        self.past = np.zeros(n * LEVELS * KEPT * self.columns)
        self.steps, self.seen, self.clock = 0, 0, 1
        self.found, self.alarm = False, False

    def allocate(self, pairs: Pairs) -> None:
        """Make room for these pairs."""
        raise NotImplementedError

    def after(self, t: int) -> int:
        """No restart is known in advance."""
        return NEVER

    def threshold(self, n: int) -> float:
        """The threshold of a comparison at visit n."""
        raise NotImplementedError

    def note(self, now: Any, here: int, n: int) -> None:
        """Bring the detector's own columns of a pair, in now[here:], up to date at visit n."""
        raise NotImplementedError

    def differ(
        self, now: Any, past: Any, here: int, block: int, n: int, shift: int,
        first: int, last: int, limit: float,
    ) -> bool:  # fmt: skip
        """Whether a pair's n visits, counted in now[here:], split at one of a level's ages.

        The ages are first … last, in units of 2^shift visits; a level at once, since a call for
        each costs more than the comparison. What was counted before the last `age` units begins at
        past[kept_at(block, (n >> shift) - age, columns)].
        """
        raise NotImplementedError

    def look_at(self) -> int:
        """The step at which the agent must call `watch` next."""
        return self.clock + STRETCH - self.steps % STRETCH

    def watch(self, pairs: Any, nexts: Any, rewards: Any, n: int) -> None:
        """Read the new steps of a log."""
        now, past, visits = self.now, self.past, self.visits
        width, columns, steps, found = self.width, self.columns, self.steps, self.found
        for i in range(self.seen, n):
            if not found:
                pair: Any = np.int64(pairs[i])  # unsigned and signed make doubles
                here, m = pair * columns, visits[pair] + 1
                visits[pair] = m
                now[here + REWARD] += rewards[i]
                successor: Any = np.int64(nexts[i])
                if successor >= width:  # a division costs more than the rest of this loop
                    successor %= width
                now[here + FIRST + successor] += 1.0
                if m & LOW_BITS == 0:
                    found = self.look(now, past, pair, m)
            steps += 1
            if steps % STRETCH == 0:
                self.alarm = found
        self.steps, self.found = steps, found
        self.clock += n - self.seen
        self.seen = n

    def look(self, now: Any, past: Any, pair: int, n: int) -> bool:
        """Compare at the splits that are due, and store the counts that are needed later."""
        columns, limit, found = self.columns, self.threshold(n), False
        here = pair * columns
        self.note(now, here, n)
        for level in range(LEVELS):
            shift = LOWEST + level
            tick, block = n >> shift, (pair * LEVELS + level) * KEPT
            if tick << shift != n:
                break
            first, last = 1 if level == 0 else KEPT // 2 + 1, min(KEPT, tick - 1)
            found = found or self.differ(now, past, here, block, n, shift, first, last, limit)
            there = kept_at(block, tick, columns)
            for column in range(columns):
                past[index(there + column)] = now[index(here + column)]
        return found

    def log_emptied(self) -> None:
        """Note that the log was emptied."""
        self.seen = 0

    def alarmed(self) -> bool:
        """Whether to restart now."""
        return self.alarm

    def suspect(self, suspects: Any) -> int:
        """Mark all pairs, as in the papers; returns 0, the steps since the change."""
        return mark_all(suspects)

    def start_over(self, suspects: Any) -> None:
        """Restart the detector for all pairs."""
        visits, now, past = self.visits, self.now, self.past
        for pair in range(visits.size):
            visits[pair] = 0
        for k in range(now.size):
            now[k] = 0.0
        for k in range(past.size):
            past[k] = 0.0
        self.steps, self.found, self.alarm = 0, False, False

    def grow(self, pairs: Pairs, place: Any) -> None:
        """Make room for more pairs; the detector restarts."""
        clock, seen = self.clock, self.seen
        self.allocate(pairs)
        self.clock, self.seen = clock, seen

    def check_invariants(self) -> None:
        """Counts add up to visits, now and at each visit at which they were kept."""
        name, n_pairs, counted = type(self).__name__, self.visits.size, FIRST + self.width
        require(self.columns == counted + self.more(), f"{name}.columns is wrong")
        now = self.now.reshape(n_pairs, 1, 1, self.columns)[..., :counted]
        past = self.past.reshape(n_pairs, LEVELS, KEPT, self.columns)[..., :counted]
        # The visit at which each was kept, or 0 where there was none yet.
        units = 1 << LOWEST + np.arange(LEVELS)[:, None]
        ticks = self.visits[:, None, None] // units
        kept = np.maximum(0, units * (ticks - (ticks - np.arange(KEPT)) % KEPT))
        for field, counts, visits in (
            ("now", now, self.visits[:, None, None]), ("past", past, kept),
        ):  # fmt: skip
            adds_up = (counts[..., FIRST:].sum(axis=-1) == visits).all()
            in_order = (counts >= 0.0).all() and (counts <= now).all()
            rewards = (counts[..., REWARD] <= visits).all()
            require(adds_up and in_order and rewards, f"{name}.{field} differs from the visits")


@jit
def log_likelihood(successes: float, n: float) -> float:
    """n times the (negative) entropy: Σ x log p̂ + (1-x) log(1-p̂), at its maximum."""
    failures, total = n - successes, 0.0
    if successes > 0.0:
        total += successes * math.log(successes / n)
    if failures > 0.0:
        total += failures * math.log(failures / n)
    return total


@jit
def likelihood_ratio(a: float, before: float, b: float, since: float) -> float:
    """G, of a successes in `before` trials and b in the `since` that followed.

    >>> round(likelihood_ratio(0.0, 10.0, 10.0, 10.0), 6), round(20 * math.log(2), 6)
    (13.862944, 13.862944)
    """
    both = log_likelihood(a + b, before + since)
    return log_likelihood(a, before) + log_likelihood(b, since) - both


@compiled
class GLR(Splits):
    """The GLR detector: Bernoulli likelihood ratio tests for each pair's rewards and successors.

    Parameters
    ----------
    delta
        The confidence of all tests together.

    Raises
    ------
    InvalidParameter
        `delta` is not between 0 and 1.

    References
    ----------
    L. Besson, E. Kaufmann, O.-A. Maillard and J. Seznec (2022). Efficient change-point detection
    for tackling piecewise-stationary bandits. Journal of Machine Learning Research 23.

    Examples
    --------
    >>> GLR(0.05).delta
    0.05
    """

    delta: Probability
    log_share: Annotated[float, FINITE]

    def __init__(self, delta: float = 0.05) -> None:
        self.delta = check_probability("delta", delta)

    def allocate(self, pairs: Pairs) -> None:
        """Make room for these pairs."""
        self.make_room(pairs)
        self.log_share = math.log(3.0 * pairs.n_pairs * (self.width + 1) / self.delta)

    def threshold(self, n: int) -> float:
        """The threshold log(3 n^{3/2} / δ')."""
        return self.log_share + 1.5 * math.log(n)

    def note(self, now: Any, here: int, n: int) -> None:
        """Do nothing: this detector has no additional columns."""

    def differ(
        self, now: Any, past: Any, here: int, block: int, n: int, shift: int,
        first: int, last: int, limit: float,
    ) -> bool:  # fmt: skip
        """Whether a stream of the pair seems to have changed one of the ages ago."""
        both, tick, columns = float(n), n >> shift, self.columns
        suspect = False
        for age in range(first, last + 1):
            since = float(age << shift)
            before = both - since
            there, scale = (
                kept_at(block, tick - age, columns),
                SURELY * limit * before * since / both,
            )
            for column in range(columns):
                total = now[index(here + column)]
                gap = total * before - past[index(there + column)] * both
                suspect |= gap * gap > scale * total * (both - total)
        if suspect:
            for column in range(columns):
                total = now[here + column]
                for age in range(first, last + 1):
                    since = float(age << shift)
                    a = past[kept_at(block, tick - age, columns) + column]
                    if likelihood_ratio(a, both - since, total - a, since) >= limit:
                        return True
        return False
