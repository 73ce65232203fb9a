"""The prior of transition rows, learned from the counts of all pairs (empirical Bayes).

All rows are assumed to come from one symmetric law, Dirichlet(α, …, α) over S states. A large
concentration α means rows that are nearly uniform, α = 1 any distribution, and a small α few
successors. Given the counts P of all pairs, the probability of the observations is

    L(α) = Π over pairs of  Γ(Sα) / Γ(Sα + N) · Π_j Γ(α + P_j) / Γ(α).

α is chosen from the grid …, 0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30: hill climbing from α = 1, as long
as log L(α) - k²/2 grows, with k the distance from 1 in grid points. So α is 1 without data, and a
few uninformative visits do not change it. The grid ends at S α = 0.1, where one visit outweighs the
prior ten times.

α is a function of the counts only. It is computed again when the time since the last restart has
grown by half or has fallen, which takes O(observed transitions) for each α on the way.

The prior of mean rewards is not learned. Where almost all rewards are 0, a learned prior would
imply that unvisited pairs earn nothing either, and the agent would stop looking for better ones.
The noise of rewards is learned (`memory.Apart`).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from switchmdp.compiled import index, jit
from switchmdp.special_functions import log_gamma, log_rising_from

# 1, 3, 10, … are half a power of ten apart, nearly.
GRID = np.array([float(f"{digit}e{exponent}") for exponent in range(-8, 2) for digit in (1, 3)])
AT_ONE = 16  # GRID[AT_ONE] is 1
LEAST_TOTAL = 0.1  # of S α


@jit
def log_evidence(offset: Any, used: Any, count: Any, n_states: int, alpha: float) -> float:
    """log L(α), up to a constant that does not depend on α."""
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
    """The α on the grid that hill climbing from 1 finds."""
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
