"""E-values for "this stream of data has changed", valid for every law of the stream.

A *stream* is the sequence of successors of one pair, or of its rewards. It is split at some moment
into old counts a (n_a of them) and new counts b (n_b). Without a change all come from one unknown
law p. An *e-value* is a statistic E >= 0 with mean at most 1 for every p. So E >= 1/δ has
probability at most δ (Markov's inequality).

**Conditional e-value.** Given the pooled counts c = a + b and both sample sizes, the split has the
hypergeometric law, whatever p is. For any probability q of the new data,

    E = q(b) / [Π_j (c_j! / a_j!) / (n! / n_a!)]                                (`log_leave_in`)

has conditional mean at most 1: q summed over the feasible splits is at most 1. It is sharp, but the
sample sizes must not depend on the data. An agent visits what looks good, so here it is used to
find *what* has changed, and not as the proof that *something* has.

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

   The first learns the new law, which pays with many visits to each successor. The second needs no
   learning: with many states and few visits it is far sharper, because the supremum moves the whole
   uncertainty of p onto the few successors that were seen.

Rewards in [0, 1] are a stream with two cells: a reward r counts r in one and 1 - r in the other.
The proved e-values hold for every law with mean p, since (q/p)^r ((1-q)/(1-p))^(1-r) is convex in r
and so has mean at most q + (1 - q) = 1.
"""

from __future__ import annotations

import math
from typing import Any

from switchmdp.compiled import jit
from switchmdp.restarts.bayes_factors import log_factorial, log_gamma

SEARCHES = 24  # halvings of the interval of log(λ n_a)
WIDEST_LOG = 14.0
STEPS = (0.25, 0.6, 1.4, 3.5)  # the λ that are tried, in units of the one of a normal approximation


@jit
def x_log_x(x: float) -> float:
    """x log x, and 0 at 0."""
    return x * math.log(x) if x > 0.0 else 0.0


@jit
def log_gamma_ratio(count: float, mass: float) -> float:
    """log Γ(mass + count) / Γ(mass), where mass > 0 may be below 1.

    >>> abs(log_gamma_ratio(3.0, 0.2) - math.log(0.2 * 1.2 * 2.2)) < 1e-9
    True
    """
    if count <= 0.0:
        return 0.0
    # Γ(x) = Γ(x + 1) / x, because `log_gamma` needs arguments from 1 on
    above = log_gamma(mass + count + 1.0) - math.log(mass + count)
    return above - log_gamma(mass + 1.0) + math.log(mass)


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
    total, last = -log_gamma_ratio(n, alpha * n_states), now.size - 1
    for j in range(now.size):
        count = now[j] - old[j]
        if count > 0.0:
            mass = alpha * rest if rest > 0 and j == last else alpha
            total += log_gamma_ratio(count, mass)
    return total


@jit
def log_mixture(counts: Any, none: Any, n: float, n_states: int, rest: int) -> float:
    """log m(a): the mean of the priors Dirichlet(1), for dense rows, and Dirichlet(1/S), for sparse
    ones."""
    dense = log_dirichlet(counts, none, n, 1.0, n_states, rest)
    sparse = log_dirichlet(counts, none, n, 1.0 / n_states, n_states, rest)
    top = max(dense, sparse)
    return top + math.log(0.5 * (math.exp(dense - top) + math.exp(sparse - top)))


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
