"""The prior of transition rows, learned from the counts of all pairs (empirical Bayes).

All rows are assumed to be drawn from a symmetric law, Dirichlet(α, …, α) over S states. A large
concentration α stands for rows that are nearly uniform, α = 1 for any distribution, and a small α
for few successors. Given the counts P of all pairs, the probability of what was observed is

    L(α) = Π over pairs of  Γ(Sα) / Γ(Sα + N) · Π_j Γ(α + P_j) / Γ(α),

and α is chosen from the grid …, 0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30 by climbing from α = 1 while
log L(α) - k²/2 grows, k grid points away from 1. So without data α is 1, and a few visits that say
little do not move it. The grid ends at S α = 0.1: there, one visit outweighs the prior ten times.

α is a function of the counts alone. It is computed again when the time since the last restart has
grown by half or has fallen, which takes O(observed transitions) for each α that is tried.

Why rewards have no learned prior: where almost all rewards are 0, it would say that pairs which
were never visited earn nothing either, and the agent would stop looking for those that do.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from switchmdp.compiled import index, jit

# 1, 3, 10, … are half a power of ten apart, nearly.
GRID = np.array([float(f"{digit}e{exponent}") for exponent in range(-8, 2) for digit in (1, 3)])
AT_ONE = 16  # GRID[AT_ONE] is 1
LEAST_TOTAL = 0.1  # of S α
HALF_LOG_2PI = 0.9189385332046727
SHORT = 12.0  # up to here, a product is faster than Stirling's series


@jit
def log_gamma(x: float) -> float:
    """log Γ(x) for x > 0 by Stirling's series, from 9 on; to about 1e-11.

    >>> round(log_gamma(5.0), 9), round(log_gamma(0.5), 9)
    (3.17805383, 0.572364943)
    """
    below = 0.0
    if x < 9.0:
        product = 1.0
        while x < 9.0:
            product *= x
            x += 1.0
        below = math.log(product)
    z = 1.0 / x
    y = z * z
    series = z * (1.0 / 12.0 - y * (1.0 / 360.0 - y * (1.0 / 1260.0 - y * (1.0 / 1680.0))))
    return (x - 0.5) * math.log(x) - x + HALF_LOG_2PI + series - below


@jit
def log_rising_from(x: float, n: float, log_start: float) -> float:
    """`log_rising` if log Γ(x) is known."""
    if n <= SHORT and n == math.floor(n):
        product = 1.0
        for i in range(int(n)):
            product *= x + i
        return math.log(product)
    return log_gamma(x + n) - log_start


@jit
def log_rising(x: float, n: float) -> float:
    """log Γ(x + n) / Γ(x), the logarithm of x (x + 1) … (x + n - 1) if n is a whole number.

    >>> round(log_rising(0.5, 3.0), 9), round(math.log(0.5 * 1.5 * 2.5), 9)
    (0.628608659, 0.628608659)
    """
    return log_rising_from(x, n, log_gamma(x))


@jit
def log_evidence(offset: Any, used: Any, count: Any, n_states: int, alpha: float) -> float:
    """log L(α), up to what does not depend on α."""
    total, of_alpha, of_all = 0.0, log_gamma(alpha), log_gamma(n_states * alpha)
    for pair in range(offset.size):
        n = 0.0
        for k in range(offset[index(pair)], offset[index(pair)] + used[index(pair)]):
            seen = count[index(k)]
            if seen > 0:
                total += log_rising_from(alpha, float(seen), of_alpha)
                n += seen
        if n > 0.0:
            total -= log_rising_from(n_states * alpha, n, of_all)
    return total


@jit
def learn_concentration(offset: Any, used: Any, count: Any, n_states: int) -> float:
    """The α on the grid that climbing from 1 finds."""
    best = AT_ONE
    top = log_evidence(offset, used, count, n_states, GRID[AT_ONE])
    for step in (-1, 1):
        if best != AT_ONE:
            break
        while 0 <= best + step < GRID.size:
            near: Any = best + step
            alpha = GRID[near]
            if n_states * alpha < LEAST_TOTAL:
                break
            away = near - AT_ONE
            value = log_evidence(offset, used, count, n_states, alpha) - 0.5 * away * away
            if value <= top:
                break
            best, top = near, value
    return float(GRID[best])
