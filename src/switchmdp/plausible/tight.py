"""Plausible sets tighter than an L1 ball: those of UCRL2B, UCRL3 and KL-UCRL, and their base.

A set computes the largest plausible reward of each pair and the bounds of its transition row
(`measure`), and the row with the largest value within the bounds (`highest`).
`planning.optimism.Sweeps` does the value iteration. Each set works with every memory and every
restart rule.

**Windows.** The bounds hold for all numbers of visits at once, if the data start with the agent or
at a restart. A window may start at any step. With `windowed=True`, δ is shared among all possible
starts: a window that starts at step τ gets δ / (τ (τ+1)), and these sum to at most δ. Use it if the
memory is a `Window`.

**Width.** `width` multiplies the radii (the logarithms in them by its square). The proofs need
width 1. A smaller width usually has less regret, without a guarantee.

**UCRL2B** (`Bernstein`). Empirical Bernstein bounds for each entry of p̂ and for r̂. With n visits,

    |p̃(s') - p̂(s')| <= sqrt( 2 p̂(s') (1 - p̂(s')) b / n ) + 3 b / n,
    |r̃ - r̂| <= sqrt( 2 V̂ b / n ) + 3 b / n,                     b = log( 3 S A (S+1) n (n+1) / δ ),

where V̂ is the empirical variance of the rewards (`memory.window`). A memory that does not store
V̂ returns r̂ (1 - r̂), which is at least as large. The variance of an entry is p̂ (1 - p̂).

Proof. Let x_1, …, x_n in [0, 1] be independent with the same mean, and let V be their empirical
variance. With probability 1 - δ', their average differs from the mean by at most
sqrt(2 V log(3/δ') / n) + 3 log(3/δ') / n (Audibert, Munos and Szepesvári 2009). Here
δ' = δ / (S A (S+1) n (n+1)): there are S A pairs, each with S entries and one reward, and the sum
of 1 / (n (n+1)) over n is 1.

Fruit, Pirotta and Lazaric (2020) print 2 sqrt(V x / n) + 6 x / n with x = log(6 S A n / δ). This
set has the same form and is smaller: 2x >= b, because 36 S² A² n² >= 3 S A (S+1) n (n+1).

**UCRL3** (`BernsteinLaplace`). The confidence set of Bourel, Maillard and Talebi (2020, Section
3.1), on a reduced support. With n visits, δ₀ = δ / (3 + 3S), d = δ₀ / (S A) and η = 1.12, let

    ℓ = η log( log(n) log(ηn) / (log²(η) d) ),          β² = 2 (1 + 1/n) log( sqrt(n+1) / d ) / n.

An entry q of a row is plausible if it satisfies *both*

    |p̂ - q| <= sqrt( 2 q (1-q) ℓ / n ) + ℓ / (3n)                        (Bernstein, peeling)
    -β sqrt(g(q)) <= p̂ - q <= β sqrt(g'(q))                              (Laplace, Corollary 1)

where g(q) = (1/2 - q) / log(1/q - 1), and g'(q) = g(q) if q < 1/2, q (1-q) otherwise (Lemma 6). The
mean reward may differ from r̂ by at most the following, with the empirical variance V̂ of the
rewards:

    max{ β/2,  sqrt( 2 V̂ ℓ / n ) + 7ℓ / (3n) }.

*Lemma 1.* With probability 1 - δ, all this holds for all pairs and at all times.

*Number of events.* The paper states the lemma without proof. Each of the following events has
probability at most d, for one pair. The Bernstein bound has two sides for each of S entries, which
makes 2S events (Lemma 7). For the Laplace bound one event per entry covers both sides if q <= 1/2,
because then g = g'. If q > 1/2 two events are needed, and at most one entry of a row exceeds 1/2:
S + 1 events. The bound |r̂ - r| <= β/2 is one more event (Lemma 5). The total is 3S + 2, which does
not exceed the 3S + 3 of the paper.

*The maximum for rewards.* The code uses the maximum, as printed. Since it is at least β/2, the
variance can only widen the interval. One would expect the minimum of the two terms, which is
narrower where rewards have little noise. But the minimum needs both bounds to hold, 3S + 5 events,
and the paper does not prove the second one for all n at once (7/3 is the constant of Maurer and
Pontil 2009 for one n). The maximum is valid because its first term is.

*One visit.* For n = 1, log(n) = 0 and ℓ is undefined, because the slices of the peeling start at
n = η. Then only the Laplace bound applies to the row, and the optimistic reward is 1.

*Intervals.* For each bound the plausible q form an interval around p̂, because the right sides are
concave in q. The ends of the Bernstein interval solve a quadratic equation. Those of the Laplace
interval are found by Newton's method, started at the Bernstein ends.

*Near-optimistic support* (NOSS, Algorithms 2 and 3). If many states have never been observed
after a pair, their upper bounds together carry much probability. So only the m best of them may
receive any, for the smallest m that satisfies, with values shifted so that min u = 0,

    F_out(m) <= min( κ, F_in(m) ),    κ = 10 |support of p̂| (max u - min u) / N_max^{2/3}   (Eq. 3)

F_in is the best value over the observed states and those m, F_out the best over the others, and
N_max is the largest number of visits to a pair. (Algorithm 3 prints N_max^{3/2}, but text and proof
have 2/3. Algorithm 2 continues while F_out >= min(κ, F_in), which does not terminate if both are
0.) The best row without the limit is the sum of two parts with values of at most F_in and F_out, so
the restriction costs at most κ (Lemma 2). Within one plan m starts at 1 and never decreases. For a
fixed m the rows form a fixed set, in which each row can give probability to the best state. Since m
changes finitely often, value iteration converges.

**KL-UCRL** (`KLBall`). Kullback-Leibler balls (Filippi, Cappé and Garivier 2010). With N visits to
a pair, at step t,

    KL(p̂, p̃) <= C_p / N,     C_p = S ( B + log(B + 1/log t) (1 + 1/(B + 1/log t)) ),
                             B = log( 2 e S² A log t / δ ),
    |r̃ - r̂| <= sqrt( log( 4 S A log t / δ ) / (1.99 N) ).

At t = 1, where log t = 0 and no pair was visited, log 2 replaces log t.

*What is proved.* The formulas are those of the authors' public code. It uses the current step t
where the paper, to our knowledge, uses the horizon T. For a fixed T the paper proves that all rows
are in the set with probability 1 - δ. With t nothing is proved: the set is smaller, as if the run
ended at step t, and the bound holds for each t but not for all t at once.
"""

from __future__ import annotations

import math
from typing import Annotated, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from switchmdp.compiled import (
    Equals,
    Probability,
    Range,
    Scratch,
    Shape,
    compiled,
    jit,
    make_scratch,
)
from switchmdp.errors import InvalidParameter
from switchmdp.mdp.pairs import Pairs
from switchmdp.planning.inner_maximum import ZERO, Ranking, shortfall
from switchmdp.planning.optimism import Sweeps
from switchmdp.validation import check_positive, check_probability


@compiled
class Optimistic:
    """Base of the sets tighter than an L1 ball; a subclass has `measure`, `arrange` and `highest`.

    Parameters
    ----------
    delta
        A bound on the probability that the true MDP is not in the plausible set.
    windowed
        Share delta among all steps at which a window may start.
    width
        A factor on all radii. The proofs need 1; less is usually better, but has no guarantee.

    Raises
    ------
    InvalidParameter
        A parameter has the wrong type or is out of range.
    """

    delta: Probability
    width: Annotated[float, Range(above=0.0, below=math.inf)]
    windowed: bool
    n_states: Annotated[int, Equals("states")]
    n_actions: Annotated[int, Equals("actions")]
    work: Sweeps
    reward: Annotated[NDArray[np.float64], Shape("pairs"), Scratch(1.0)]
    free: Annotated[NDArray[np.bool_], Shape("pairs"), Scratch(True)]
    confidence: Annotated[float, Scratch()]  # 1 - probability of the bounds of this plan

    added_fields: ClassVar = {"width": 1.0}

    def __init__(self, delta: float, windowed: bool = False, width: float = 1.0) -> None:
        self.delta = check_probability("delta", delta)
        self.width = check_positive("width", width)
        if not isinstance(windowed, bool):
            raise InvalidParameter("windowed", windowed, "true or false")
        self.windowed = windowed

    def allocate(self, pairs: Pairs) -> None:
        """Make room for these pairs."""
        self.n_states, self.n_actions = pairs.n_states, pairs.n_actions
        self.work = Sweeps(pairs.n_states)
        make_scratch(self, pairs)

    def begin(self, counts: Any, t: int) -> None:
        """Prepare to measure pairs with these counts, at this step."""

    def measure(self, counts: Any, t: int, pair: int) -> None:
        """Compute the bounds of a pair that was visited, and its optimistic reward."""
        raise NotImplementedError

    def arrange(self) -> None:
        """Called after the values have changed."""

    def highest(self, counts: Any, pair: int, wanted: float) -> float:
        """The largest Σ p u over the plausible rows of the pair; see `planning.optimism`."""
        raise NotImplementedError

    def share_delta(self, counts: Any, t: int) -> None:
        """Set the confidence of this plan.

        It is δ/(τ(τ+1)) if the window starts at step τ, and δ without a window.
        """
        start = 1.0 * t
        for pair in range(counts.visits.size):
            start -= counts.visits[pair]
        self.confidence = self.delta / (start * (start + 1.0)) if self.windowed else self.delta

    def plan(self, starts: Any, counts: Any, t: int, choice: Any) -> None:
        """Write the optimistic policy, as a pair for each state, into `choice`."""
        self.share_delta(counts, t)
        self.begin(counts, t)
        for pair in range(counts.visits.size):
            self.consider(counts, t, pair)
        # The best state can be reached from everywhere and nothing is periodic, so this converges.
        precision = 1.0 / math.sqrt(t)
        self.work.iterate(self, starts, counts, self.reward, self.free, precision, choice)

    def consider(self, counts: Any, t: int, pair: int) -> None:
        """Compute the bounds of a pair; everything is plausible if it was never visited."""
        self.free[pair] = counts.visits[pair] == 0
        self.reward[pair] = 1.0
        if counts.visits[pair] > 0:
            self.measure(counts, t, pair)

    def worth(self, counts: Any, t: int, pair: int) -> float:
        """r̃ + max p̃·u of a pair with these counts; u are the values of the last plan."""
        self.share_delta(counts, t)
        self.begin(counts, t)
        self.consider(counts, t, pair)
        best = self.work.top
        if not self.free[pair] and best > 0.0:
            best = self.highest(counts, pair, -math.inf)
        return float(self.reward[pair] + best)

    def gain(self) -> float:
        """The optimistic gain of the last plan."""
        return (self.work.lower + self.work.upper) / 2.0

    def sweeps(self) -> int:
        """The sweeps that the last plan took."""
        return self.work.done


@compiled
class Intervals(Optimistic):
    """Base of the sets with an interval for each entry of a row.

    A subclass computes `terms` from n and δ, and from these the bounds `upper`, `lower` and
    `upper_reward`.

    Parameters
    ----------
    delta
        A bound on the probability that the true MDP is not in the plausible set.
    windowed
        Share delta among all steps at which a window may start.
    width
        A factor on all radii. The proofs need 1; less is usually better, but has no guarantee.
    """

    ranking: Ranking
    # Bounds for each slot of the counts (`reserve` makes room), and for all states never seen.
    low: Annotated[NDArray[np.float64], Shape(0), Scratch()]
    high: Annotated[NDArray[np.float64], Shape(0), Scratch()]
    left: Annotated[NDArray[np.float64], Shape("pairs"), Scratch()]
    beyond: Annotated[NDArray[np.float64], Shape("pairs"), Scratch()]

    def allocate(self, pairs: Pairs) -> None:
        """Make room for these pairs."""
        Optimistic.allocate(self, pairs)
        self.ranking = Ranking(pairs.n_states)

    def terms(self, n: float, delta: float) -> tuple[float, float]:
        """Two numbers that all bounds of a pair with n visits depend on."""
        raise NotImplementedError

    def upper(self, p: float, terms: tuple[float, float]) -> float:
        """The largest plausible mean of numbers in [0, 1] with average p."""
        raise NotImplementedError

    def lower(self, p: float, terms: tuple[float, float]) -> float:
        """The smallest plausible mean of numbers in [0, 1] with average p."""
        raise NotImplementedError

    def upper_reward(self, mean: float, variance: float, terms: tuple[float, float]) -> float:
        """The largest plausible mean of rewards with this average and empirical variance."""
        raise NotImplementedError

    def begin(self, counts: Any, t: int) -> None:
        """Prepare to measure pairs with these counts."""
        self.reserve(counts)

    def reserve(self, counts: Any) -> None:
        """Make room for as many slots as the counts have."""
        if self.low.size != counts.count.size:
            self.low, self.high = np.zeros(counts.count.size), np.zeros(counts.count.size)

    def widened_terms(self, n: float) -> tuple[float, float]:
        """The terms of a pair with n visits, with the confidence and the width of this plan."""
        first, second = self.terms(n, self.confidence)
        return self.width * self.width * first, self.width * self.width * second

    def measure(self, counts: Any, t: int, pair: int) -> None:
        """Compute the bounds of a pair that was visited, and its optimistic reward."""
        low, high, count, n = self.low, self.high, counts.count, 1.0 * counts.visits[pair]
        rewarded, terms = 1.0 * counts.reward_visits(pair), self.widened_terms(n)
        if rewarded > 0.0:  # a memory may hold other numbers of rewards and of successors
            of_rewards = terms if rewarded == n else self.widened_terms(rewarded)
            mean, variance = counts.mean(pair), counts.variance(pair)
            self.reward[pair] = self.upper_reward(mean, variance, of_rewards)
        self.beyond[pair] = self.upper(0.0, terms)
        left = 1.0
        for k in range(counts.offset[pair], counts.offset[pair] + counts.used[pair]):
            if count[k] > 0:
                low[k] = self.lower(count[k] / n, terms)
                high[k] = self.upper(count[k] / n, terms)
                left -= low[k]
        self.left[pair] = max(0.0, left)

    def arrange(self) -> None:
        """Sort the states again, after the values have changed."""
        self.ranking.arrange(self.work.value)

    def highest(self, counts: Any, pair: int, wanted: float) -> float:
        """The largest Σ p u within the intervals."""
        n, total = self.ranking.gather(counts, pair, self.low, self.high)
        allowed = self.allowed(pair, n, total)
        return total + self.ranking.inside(n, self.left[pair], self.beyond[pair], allowed)

    def allowed(self, pair: int, n: int, total: float) -> int:
        """How many states that were never observed after a pair may get probability: all."""
        return self.n_states


@compiled
class Bernstein(Intervals):
    """Empirical Bernstein intervals, the set of UCRL2B.

    Parameters
    ----------
    delta
        A bound on the probability that the true MDP is not in the plausible set.
    windowed
        Share delta among all steps at which a window may start.
    width
        A factor on all radii. The proofs need 1; less is usually better, but has no guarantee.

    Raises
    ------
    InvalidParameter
        A parameter has the wrong type or is out of range.

    References
    ----------
    R. Fruit, M. Pirotta and A. Lazaric (2020). Improved analysis of UCRL2 with empirical Bernstein
    inequality. arXiv:2007.05456.

    Examples
    --------
    >>> Bernstein(0.05).delta
    0.05
    """

    def terms(self, n: float, delta: float) -> tuple[float, float]:
        """The factors 2 b / n and 3 b / n of the radius."""
        among = 3.0 * self.n_states * self.n_actions * (self.n_states + 1.0)
        b = math.log(among * n * (n + 1.0) / delta)
        return 2.0 * b / n, 3.0 * b / n

    def upper(self, p: float, terms: tuple[float, float]) -> float:
        """The largest plausible mean."""
        return min(1.0, p + (math.sqrt(p * (1.0 - p) * terms[0]) + terms[1]))

    def lower(self, p: float, terms: tuple[float, float]) -> float:
        """The smallest plausible mean."""
        return max(0.0, p - (math.sqrt(p * (1.0 - p) * terms[0]) + terms[1]))

    def upper_reward(self, mean: float, variance: float, terms: tuple[float, float]) -> float:
        """The largest plausible mean reward."""
        return min(1.0, mean + (math.sqrt(variance * terms[0]) + terms[1]))


ETA = 1.12
LOG_ETA = math.log(ETA)
LOSS = 10.0  # γ, the factor in κ
EDGE = 1e-6  # an end nearer than this to 0 or 1 is not looked for
STEPS, CLOSE = 30, 1e-8  # the error left is of the order of the last step squared


@jit
def proxy(p: float) -> float:
    """g(p) for 0 < p < 1: a variable in [0, 1] with mean p is sub-Gaussian with it.

    >>> proxy(0.5), round(proxy(0.2), 6)
    (0.25, 0.216404)
    """
    y = 1.0 - 2.0 * p
    if abs(y) < 0.01:  # 0/0 at 1/2
        return 0.25 / (1.0 + y * y * (1.0 / 3.0 + y * y / 5.0))
    return y / 2.0 / math.log(1.0 / p - 1.0)


@jit
def slope(p: float) -> float:
    """g'(p)."""
    y = 1.0 - 2.0 * p
    if abs(y) < 0.01:
        series = 1.0 + y * y * (1.0 / 3.0 + y * y / 5.0)
        return y * (1.0 / 3.0 + 0.4 * y * y) / (series * series)
    log = math.log(1.0 / p - 1.0)
    return (y / 2.0 / (log * p * (1.0 - p)) - 1.0) / log


@jit
def bernstein_end(p: float, x: float) -> float:
    """The largest q <= 1 with q - p <= sqrt(2 q (1-q) x) + x/3.

    With a = p + x/3 it solves (q - a)² = 2 x q (1-q).

    >>> q = bernstein_end(0.2, 0.03)
    >>> round(q, 6), round(0.2 + math.sqrt(2 * q * (1 - q) * 0.03) + 0.01, 6)
    (0.324701, 0.324701)
    """
    a = p + x / 3.0
    if a >= 1.0:
        return 1.0
    return min(1.0, (a + x + math.sqrt(x * (x + 2.0 * a * (1.0 - a)))) / (1.0 + 2.0 * x))


@jit
def interval_end(p: float, outside: float, scale: float) -> float:
    """The x between p and `outside` with |x - p| = sqrt(scale g(x)); `outside` if there is none.

    F(x) = |x - p| - sqrt(scale g(x)) is convex, so Newton's method from outside, where F > 0, never
    steps over the end: stopped at any time it gives a valid, wider interval.
    """
    up = outside > p
    if p >= 1.0 - EDGE if up else p <= EDGE:
        return outside
    sign = 1.0 if up else -1.0
    x = min(max(outside, EDGE), 1.0 - EDGE)
    for _ in range(STEPS):
        half = not up and x >= 0.5
        variance = x * (1.0 - x) if half else proxy(x)
        excess = sign * (x - p) - math.sqrt(scale * variance)
        if excess <= 0.0:
            break
        change = 1.0 - 2.0 * x if half else slope(x)
        step = excess / (sign - 0.5 * math.sqrt(scale / variance) * change)
        x -= step
        if abs(step) < CLOSE:
            break
    return min(outside, x) if up else max(outside, x)


@compiled
class BernsteinLaplace(Intervals):
    """The set of UCRL3: Bernstein and Laplace intervals on the near-optimistic support.

    Parameters
    ----------
    delta
        A bound on the probability that the true MDP is not in the plausible set.
    windowed
        Share delta among all steps at which a window may start.
    width
        A factor on all radii. The proofs need 1; less is usually better, but has no guarantee.

    Raises
    ------
    InvalidParameter
        A parameter has the wrong type or is out of range.

    References
    ----------
    H. Bourel, O.-A. Maillard and M. S. Talebi (2020). Tightening exploration in upper confidence
    reinforcement learning. ICML.

    Examples
    --------
    >>> BernsteinLaplace(0.05).delta
    0.05
    """

    extra: Annotated[NDArray[np.int64], Shape("pairs"), Scratch(1)]  # unseen states allowed
    loss: Annotated[float, Scratch(LOSS)]

    def begin(self, counts: Any, t: int) -> None:
        """Prepare to measure pairs with these counts, from the smallest supports on."""
        self.reserve(counts)
        most = 1.0
        for pair in range(self.extra.size):
            self.extra[pair] = 1
            most = max(most, 1.0 * counts.visits[pair])
        self.loss = LOSS / math.exp(math.log(most) * 2.0 / 3.0)

    def terms(self, n: float, delta: float) -> tuple[float, float]:
        """The numbers ℓ / n and β²."""
        d = delta / (3.0 + 3.0 * self.n_states) / (self.n_states * self.n_actions)
        beta_squared = 2.0 * (1.0 + 1.0 / n) * math.log(math.sqrt(n + 1.0) / d) / n
        if n < ETA:  # the slices of the peeling start at n = η
            return math.inf, beta_squared
        slices = math.log(n) / LOG_ETA * (math.log(ETA * n) / LOG_ETA)
        return ETA * math.log(slices / d) / n, beta_squared

    def upper(self, p: float, terms: tuple[float, float]) -> float:
        """The largest plausible mean."""
        return interval_end(p, bernstein_end(p, terms[0]), terms[1])

    def lower(self, p: float, terms: tuple[float, float]) -> float:
        """The smallest plausible mean."""
        return interval_end(p, 1.0 - bernstein_end(1.0 - p, terms[0]), terms[1])

    def upper_reward(self, mean: float, variance: float, terms: tuple[float, float]) -> float:
        """The largest plausible mean reward."""
        if terms[0] == math.inf:
            return 1.0
        bernstein = math.sqrt(2.0 * variance * terms[0]) + 7.0 * terms[0] / 3.0
        return min(1.0, mean + max(math.sqrt(terms[1]) / 2.0, bernstein))

    def allowed(self, pair: int, n: int, total: float) -> int:
        """The smallest m, not below the last one, that costs at most κ."""
        few, many = int(self.extra[pair]), self.n_states - n
        left, beyond = self.left[pair], self.beyond[pair]
        kappa = self.loss * n * self.work.top
        while few < many:
            m = (few + many) // 2
            inside = total + self.ranking.inside(n, left, beyond, m)
            if self.ranking.outside(n, beyond, m) <= min(kappa, inside):
                many = m
            else:
                few = m + 1
        self.extra[pair] = max(few, self.extra[pair])
        return int(self.extra[pair])


SLACK = 1e-9


@compiled
class KLBall(Optimistic):
    """The Kullback-Leibler balls of KL-UCRL.

    Parameters
    ----------
    delta
        A bound on the probability that the true MDP is not in the plausible set.
    windowed
        Share delta among all steps at which a window may start.
    width
        A factor on all radii. The proofs need 1; less is usually better, but has no guarantee.

    Raises
    ------
    InvalidParameter
        A parameter has the wrong type or is out of range.

    References
    ----------
    S. Filippi, O. Cappé and A. Garivier (2010). Optimism in reinforcement learning and
    Kullback-Leibler divergence. Allerton Conference.

    Examples
    --------
    >>> KLBall(0.05).delta
    0.05
    """

    budget: Annotated[NDArray[np.float64], Shape("pairs"), Scratch()]  # ε for each pair
    masses: Annotated[NDArray[np.float64], Shape("states"), Scratch()]
    gaps: Annotated[NDArray[np.float64], Shape("states"), Scratch()]
    row_scale: Annotated[float, Scratch()]
    mean_scale: Annotated[float, Scratch()]

    def begin(self, counts: Any, t: int) -> None:
        """Compute C_p, and the factor for rewards."""
        n_states, log_t = 1.0 * self.n_states, math.log(max(2, t))
        share = n_states * self.n_actions * log_t / self.confidence
        square = self.width * self.width
        b = math.log(2.0 * math.e * n_states * share)
        c = b + 1.0 / log_t
        self.row_scale = square * (n_states * (b + math.log(c) * (1.0 + 1.0 / c)))
        self.mean_scale = square * (math.log(4.0 * share) / 1.99)

    def measure(self, counts: Any, t: int, pair: int) -> None:
        """Compute the bounds of a pair that was visited, and its optimistic reward."""
        n = counts.visits[pair]
        self.reward[pair] = min(1.0, counts.mean(pair) + math.sqrt(self.mean_scale / n))
        self.budget[pair] = self.row_scale / n

    def highest(self, counts: Any, pair: int, wanted: float) -> float:
        """The largest Σ p u over the ball."""
        masses, gaps, value, top = self.masses, self.gaps, self.work.value, self.work.top
        count, target, visits = counts.count, counts.target, counts.visits[pair]
        n, mean, best = ZERO, 0.0, 0.0
        for k in range(counts.offset[pair], counts.offset[pair] + counts.used[pair]):
            if count[k] > 0:
                masses[n], gaps[n] = count[k] / visits, value[target[k]]
                mean += masses[n] * gaps[n]
                best = max(best, gaps[n])
                n += 1
        # Pinsker: no row of the ball is further from p̂ than √(2ε) in L1 distance.
        ceiling = mean + math.sqrt(self.budget[pair] / 2.0) * top
        if ceiling + SLACK < wanted:
            return ceiling
        for i in range(n):
            gaps[i] = best - gaps[i]
        return min(top, best - shortfall(masses, gaps, n, top - best, self.budget[pair]))
