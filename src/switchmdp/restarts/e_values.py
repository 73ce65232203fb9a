"""E-values for "this stream of data has changed", valid for every law of the stream.

A *stream* is the sequence of successors of one pair, or of its rewards. It is split at some moment
into old counts a (n_a of them) and new counts b (n_b). Without a change all come from one unknown
law p. An *e-value* is a statistic E >= 0 with mean at most 1 for every p. So E >= 1/δ has
probability at most δ (Markov's inequality).

**Conditional e-value.** Given the pooled counts c = a + b and both sample sizes, the split has the
hypergeometric law, whatever p is. For any probability q of the new data,

    E = q(b) / [Π_j (c_j! / a_j!) / (n! / n_a!)]                                (`log_leave_in`)

has conditional mean at most 1: q summed over the feasible splits is at most 1. It is sharp, but
requires sample sizes that do not depend on the data. An agent visits what looks good, so this
e-value is used only to find *what* has changed, not to prove that *something* has.

**Proved e-values.** They hold for any adaptive choice of pairs. Two ingredients:

1. A confidence set for p, from the old data (method of mixtures). Let m(a) be the probability of
   the old data under a mixture of Dirichlet priors (`log_mixture`). m(a)/p^a is a martingale with
   mean 1 in the number of visits. So by Ville's inequality, with probability 1 - ε at all times,

       p is in  C = { p : Σ_j a_j log p_j >= ℓ },     ℓ = log m(a) - log(1/ε).

2. A test of "p is in C" from the new data. Either q(b) / sup_C p^b, where weak duality bounds the
   supremum for every λ >= 0 (`log_likelihood_bound`):

       sup_C Σ b_j log p_j  <=  Σ_j (b_j + λ a_j) log((b_j + λ a_j) / (n_b + λ n_a)) - λ ℓ.

   Or a fixed bet on a law u, here uniform, against the law of C closest to it (`log_flat_bet`):

       Π over new data of  u_j / (Z p*_j),     p*_j = (u_j + λ a_j) / (1 + λ n_a),
       Z = 1 + λ n_a (1 - e^(-s/n_a)),         s = Σ_j a_j log p*_j - ℓ >= 0.

   Its factors have mean at most 1 under every p in C. Proof: u_j / p*_j = 1 + λ n_a - λ a_j / p*_j,
   so the mean of u/p* is 1 + λ n_a (1 - M) with M = Σ_j (a_j/n_a) p_j / p*_j, and by Jensen's
   inequality log M >= Σ_j (a_j/n_a) log(p_j / p*_j) >= -s/n_a.

   The first test learns the new law, which is an advantage after many visits to each successor. The
   second needs no learning. With many states and few visits it is far sharper, because the supremum
   moves the whole uncertainty of p onto the few observed successors.

Rewards in [0, 1] are a stream with two cells: a reward r counts r in one and 1 - r in the other.
The proved e-values hold for every law with mean p, since (q/p)^r ((1-q)/(1-p))^(1-r) is convex in r
and so has mean at most q + (1 - q) = 1.

**Low-noise rewards.** The e-values above treat a reward as if it were drawn from {0, 1}. If rewards
vary less, a bet that also uses Σ r² is sharper. For λ in [0, 1) and x >= -1 (Fan, Grama and Liu
2015)

    exp(λ x - ψ(λ) x²) <= 1 + λ x,     ψ(λ) = -log(1 - λ) - λ,

so Π exp(λ x_i - ψ(λ) x_i²) has mean at most 1 if the x_i >= -1 have mean at most 0. With
x = r - μ and x = μ - r and each λ in `BETS`, the old data give a confidence interval [l, u] for the
mean: every μ at which one of the 2k products exceeds 2k/ε is excluded. The mean of the 2k products
over the new data, with x = (r - u)/u and x = (l - r)/(1 - l), is then an e-value
(`log_low_noise_bet`). Both need only n, Σ r and Σ r².

**Without a confidence set.** Let a and b be the data since the detector last started. Then
m(a) q(b) / p^(a+b) has mean at most 1, and so has the following, which is never larger:

    m(a) q(b) / sup_p p^(a+b)                                               (`log_split_likelihood`)

(universal inference: Wasserman, Ramdas and Balakrishnan 2020). For a mean reward it loses about
(log n)/2, which is less than a confidence set loses if there are few old data. In a product over
pairs it must also be included for pairs without new data, where it is below 1.

**All pairs.** It is unknown which pairs have changed. If each has changed with probability q,
Π over pairs of (1 - q + q E) is an e-value for "some have changed". As q is unknown too, the mean
over q in `SHARES` is used. A change of all pairs is then detected after a few visits to each,
because the logarithms add up. A change of one pair is detected once its own data are clear, because
with a small q the other pairs cost almost nothing.
"""

from __future__ import annotations

import math
from typing import Any

from switchmdp.compiled import jit
from switchmdp.special_functions import log_factorial, log_gamma, log_rewards, log_rising

SHARES = (7 / 8, 1 / 2, 1 / 8, 1 / 32, 1 / 128)
LARGE = 40.0  # from E = e⁴⁰ on 1 - q + q E is q E
PRODUCTS = 16  # of so many factors up to e⁴⁰ fit a double
SEARCHES = 24  # halvings of the interval of log(λ n_a)
WIDEST_LOG = 14.0
STEPS = (0.25, 0.6, 1.4, 3.5)  # the λ that are tried, in units of the one of a normal approximation
BETS = (4 / 5, 1 / 2, 1 / 4, 1 / 8, 1 / 16, 1 / 32, 1 / 64, 1 / 128)  # λ
PRICES = tuple(-math.log1p(-x) - x for x in BETS)  # ψ(λ)
SIDES = 2.0 * len(BETS)
ROUNDING = 1e-9  # of sums of squares
LEAST_EDGE = 0.01


@jit
def x_log_x(x: float) -> float:
    """x log x, and 0 at 0."""
    return x * math.log(x) if x > 0.0 else 0.0


@jit
def log_power(p: float, n: float) -> float:
    """log p^n, with 0^0 = 1.

    >>> log_power(0.0, 0.0), log_power(0.0, 2.0)
    (0.0, -inf)
    """
    if n == 0.0:
        return 0.0
    return n * math.log(p) if p > 0.0 else -math.inf


@jit
def log_half_sum(x: float, y: float) -> float:
    """log of the mean of e^x and e^y.

    >>> round(math.exp(log_half_sum(math.log(2.0), math.log(6.0))), 9)
    4.0
    """
    return max(x, y) + math.log(0.5 * (1.0 + math.exp(-abs(x - y))))


@jit
def log_leave_in(n: float, counts: Any) -> float:
    """log Π_j c_j! / n!: minus the log of the number of orders in which the data can come.

    >>> import numpy as np
    >>> round(math.exp(-log_leave_in(4.0, np.array([3.0, 1.0]))), 9)
    4.0
    """
    total = -log_factorial(n)
    for j in range(counts.size):
        if counts[j] > 1.0:
            total += log_factorial(counts[j])
    return total


@jit
def log_leave_in_rewards(n: float, total: float) -> float:
    """`log_leave_in` of rewards in [0, 1] that sum to `total`."""
    failures = max(0.0, n - total)  # a sum of parts may be rounded up
    return log_gamma(1.0 + total) + log_gamma(1.0 + failures) - log_gamma(1.0 + n)


@jit
def log_dirichlet(now: Any, old: Any, n: float, alpha: float, n_states: int, rest: int) -> float:
    """log probability of the successors between `old` and `now`, with a Dirichlet(α) prior.

    The last cell stands for `rest` states together, if rest > 0.

    >>> import numpy as np
    >>> counts, none = np.array([2.0, 1.0]), np.zeros(2)
    >>> round(math.exp(-log_dirichlet(counts, none, 3.0, 1.0, 2, 0)), 9)
    12.0
    """
    total, last = -log_rising(alpha * n_states, n), now.size - 1
    for j in range(now.size):
        count = now[j] - old[j]
        if count > 0.0:
            mass = alpha * rest if rest > 0 and j == last else alpha
            total += log_rising(mass, count)
    return total


@jit
def log_mixture(counts: Any, none: Any, n: float, n_states: int, rest: int) -> float:
    """log m(a): the mean over the priors Dirichlet(1) and Dirichlet(1/S).

    The first is for dense rows, the second for sparse ones.
    """
    dense = log_dirichlet(counts, none, n, 1.0, n_states, rest)
    sparse = log_dirichlet(counts, none, n, 1.0 / n_states, n_states, rest)
    return log_half_sum(dense, sparse)


@jit
def log_ratio(
    now: Any, old: Any, n_a: float, n_b: float, n_states: int, rest: int
) -> tuple[float, bool]:
    """log q(b) / f^b, with the old frequencies f and a Dirichlet(1) prior of q.

    Also whether f_j >= 1/S for all new successors j.

    >>> import numpy as np
    >>> ratio, usual = log_ratio(np.array([5.0, 1.0]), np.array([3.0, 1.0]), 4.0, 2.0, 2, 0)
    >>> round(math.exp(ratio), 9), usual
    (0.592592593, True)
    """
    total, usual, left, last = -log_rising(float(n_states), n_b), True, n_b, now.size - 1
    for j in range(now.size):
        count = now[j] - old[j]
        if count > 0.0:
            states = rest if rest > 0 and j == last else 1
            total += log_factorial(count) if states == 1 else log_rising(float(states), count)
            total -= log_power(old[j] / n_a, count)
            usual = usual and old[j] * n_states >= states * n_a
            left -= count
            if left <= 0.0:
                break
    return total, usual


@jit
def log_likelihood_bound(now: Any, old: Any, n_a: float, n_b: float, floor: float) -> float:
    """An upper bound of log sup_C p^b, with ℓ = `floor`: the smallest for a few λ."""
    likelihood = -x_log_x(n_a)
    for j in range(old.size):
        likelihood += x_log_x(old[j])
    # λ that is best for a normal likelihood with as wide a confidence set
    unit = math.sqrt(n_a / (2.0 * max(1.0, likelihood - floor))) * n_b / n_a
    best = 0.0
    for i in range(len(STEPS)):
        weight = STEPS[i] * unit
        bound = -x_log_x(n_b + weight * n_a) - weight * floor
        for j in range(old.size):
            bound += x_log_x(max(0.0, now[j] - old[j]) + weight * old[j])
        best = min(best, bound)
    return best


@jit
def log_flat_bet(
    now: Any, old: Any, n_a: float, n_b: float, floor: float, n_states: int, rest: int
) -> float:
    """log of a bet on the uniform law against the law p* of C that is closest to it, on new data.

    0 if the uniform law itself is in C.
    """
    last, cell = old.size - 1, 1.0 / n_states
    shared = rest * cell if rest > 0 else cell  # of the last cell
    low, high, slack, spread = -WIDEST_LOG, WIDEST_LOG, -1.0, 0.0
    likelihood = 0.0
    for j in range(old.size):
        if old[j] > 0.0:
            likelihood += old[j] * math.log(shared if j == last else cell)
    if likelihood >= floor:
        return 0.0
    for _ in range(SEARCHES):
        middle = 0.5 * (low + high)
        scale = math.exp(middle)  # λ n_a
        likelihood = -n_a * math.log1p(scale)
        for j in range(old.size):
            if old[j] > 0.0:
                prior = shared if j == last else cell
                likelihood += old[j] * math.log(prior + scale * (old[j] / n_a))
        if likelihood >= floor:
            high, slack, spread = middle, likelihood - floor, scale
        else:
            low = middle
    if slack < 0.0:
        return 0.0
    excess = math.log1p(spread * (1.0 - math.exp(-slack / n_a)))  # log Z
    total = n_b * (math.log1p(spread) - excess)
    for j in range(old.size):
        count = now[j] - old[j]
        if count > 0.0:
            prior = shared if j == last else cell
            total += count * (math.log(prior) - math.log(prior + spread * (old[j] / n_a)))
    return total


@jit
def mean_interval(n: float, total: float, squares: float, doubt: float) -> tuple[float, float]:
    """The confidence interval of the mean of n rewards, with log(1/ε) = `doubt`.

    At a distance x from the observed mean, with V the sum of squared deviations from it, the log of
    a product is λ n x - ψ (V + n x²). It exceeds log(2k/ε) between two roots. For λ <= 1/2 the
    larger one is at least λ/(2ψ) > 1, so that all distances above the smaller one are excluded.

    >>> [round(end, 4) for end in mean_interval(1000.0, 500.0, 250.0, 5.0)]
    [0.4844, 0.5156]
    """
    mean, width = total / n, 1.0
    deviation = max(0.0, squares - total * mean) + ROUNDING
    evidence = doubt + math.log(SIDES)
    for i in range(1, len(BETS)):  # λ <= 1/2
        drift, price = BETS[i] * n, PRICES[i]
        root = drift * drift - 4.0 * price * n * (price * deviation + evidence)
        if root >= 0.0:
            width = min(width, (drift - math.sqrt(root)) / (2.0 * price * n))
    return max(0.0, mean - width), min(1.0, mean + width)


@jit
def log_low_noise_bet(
    n_a: float, total_a: float, squares_a: float,
    n_b: float, total_b: float, squares_b: float, doubt: float,
) -> float:  # fmt: skip
    """log of the mean of the bets that the new mean lies above, or below, the old one's interval.

    It reads numbers of rewards, their sums and sums of squares, old and new.
    """
    low, high = mean_interval(n_a, total_a, squares_a, doubt)
    top, total = 0.0, 0.0
    for k in range(2):
        edge, side = (high, 1.0) if k == 0 else (low, -1.0)
        scale = 1.0 / max(LEAST_EDGE, high if k == 0 else 1.0 - low)
        excess = scale * side * (total_b - n_b * edge)
        squares = squares_b - 2.0 * edge * total_b + n_b * edge * edge + ROUNDING
        squares *= scale * scale
        for i in range(len(BETS)):
            log_bet = BETS[i] * excess - PRICES[i] * squares
            if log_bet > top:
                total *= math.exp(top - log_bet)
                top = log_bet
            total += math.exp(log_bet - top)
    return top + math.log(total / SIDES)


@jit
def log_split_likelihood(n_a: float, total_a: float, n_b: float, total_b: float) -> float:
    """log m(a) q(b) / sup_p p^(a+b) of rewards; m and q have a uniform prior.

    >>> round(log_split_likelihood(50.0, 10.0, 50.0, 40.0), 3)
    15.346
    """
    n, successes = n_a + n_b, total_a + total_b
    log_largest = x_log_x(successes) + x_log_x(max(0.0, n - successes)) - x_log_x(n)
    return log_rewards(n_a, total_a) + log_rewards(n_b, total_b) - log_largest


@jit
def multiply(products: Any, sums: Any, log_e: float) -> None:
    """Multiply the product of each share q by 1 - q + q E."""
    e = math.exp(min(log_e, LARGE))
    for i in range(len(SHARES)):
        products[i] *= 1.0 - SHARES[i] + SHARES[i] * e
    if log_e > LARGE:
        for i in range(len(SHARES)):
            sums[i] += log_e - LARGE


@jit
def settle(products: Any, sums: Any) -> None:
    """Move the products, each of at most `PRODUCTS` factors, into the sums of their logarithms."""
    for i in range(len(SHARES)):
        sums[i] += math.log(products[i])
        products[i] = 1.0


@jit
def largest(sums: Any) -> float:
    """The largest of the sums."""
    top = sums[0]
    for i in range(1, len(SHARES)):
        top = max(top, sums[i])
    return float(top)


@jit
def log_mean(sums: Any) -> float:
    """log of the mean of e^Λ_q over the shares.

    >>> import numpy as np
    >>> log_mean(np.zeros(5))
    0.0
    """
    top, total = largest(sums), 0.0
    for i in range(len(SHARES)):
        total += math.exp(sums[i] - top)
    return top + math.log(total / len(SHARES))


@jit
def share(sums: Any) -> float:
    """The expected share q of what has changed, given all that is known: ∝ e^Λ_q.

    >>> import numpy as np
    >>> round(share(np.zeros(5)), 4), round(share(np.array([90.0, 0, 0, 0, 0])), 4)
    (0.3078, 0.875)
    """
    top, total, weighted = largest(sums), 0.0, 0.0
    for i in range(len(SHARES)):
        weight = math.exp(sums[i] - top)
        total += weight
        weighted += weight * SHARES[i]
    return weighted / total


@jit
def unchanged(q: float, log_e: float) -> float:
    """The probability that one thing has not changed, where a share q has.

    >>> unchanged(0.5, 0.0), unchanged(0.25, 800.0) < 1e-16
    (0.5, True)
    """
    return (1.0 - q) / (1.0 - q + q * math.exp(min(log_e, LARGE)))
