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

**Splits.** Only the s on the grid of `splits` are tested: O(1) tests per visit instead of O(n). The
grid adds one to four visits of delay, or about a fifth: from 0.5 to 0.9 after 300 visits it takes
39 visits instead of 35, from 0.2 to 0.4 after 1000 it takes 181 instead of 161.

A cheaper test comes first. Since kl(p, q) <= (p-q)²/(q(1-q)), G is at most the chi-squared
statistic, which needs no logarithms. If that is below the threshold, so is G.
"""

from __future__ import annotations

import math
from typing import Annotated, Any

from switchmdp.compiled import FINITE, Probability, compiled, index, jit
from switchmdp.mdp.pairs import Pairs
from switchmdp.restarts.splits import Splits, kept_at
from switchmdp.validation import check_probability

SURELY = 1.0 - 1e-9  # a margin far above what rounding takes from the chi-squared statistic


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
        """Nothing: this detector has no columns of its own."""

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
