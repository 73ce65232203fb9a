"""The inner maximum over a divergence: max Σ p(s') u(s') over  KL(p̂, p) = Σ p̂ log(p̂ / p) <= ε.

By convex duality (Honda and Takemura 2010; Filippi, Cappé and Garivier 2010 solve for its optimum)

    max = min { φ(ν) : ν >= max u },      φ(ν) = ν - exp( Σ p̂(s') log(ν - u(s')) - ε ),

where max u is over all states, those with p̂ = 0 too. φ is convex with φ' = 1 - exp(f - ε),

    f(ν) = Σ p̂ log(ν - u) + log( Σ p̂ / (ν - u) ),

which falls. So either f(max u) <= ε, and ν = max u: the best state is one that was never seen, and
is given mass; or ν is where f(ν) = ε. It is found by Newton's method on log f as a function of
log x, where x = ν - m and m is the largest u with p̂ > 0, kept in a bracket. *Every* ν >= max u
gives an upper bound, so that what is returned is never less than the maximum but for rounding, and
its excess is of second order in the error of ν.

**Bracket.** By Kantorovich's inequality  exp(f) - 1 <= R² / (4 x (x + R)), where R is the span of u
over the states with p̂ > 0, so that an x to the right of the root is known. As x falls to 0 so does
what is gained by it: none below 1e-12 R is looked for.
"""

from __future__ import annotations

import math
from typing import Any

from switchmdp.compiled import jit

MOST_STEPS = 60
CLOSE = 1e-6  # of ε; what is returned is then right to about 1e-12 of the span of u
NEAREST = 1e-12
WIDER = 1.0 + 1e-6  # for two states of equal mass the bracket's right end is the root itself


@jit
def dual_value(masses: Any, gaps: Any, n: int, x: float, budget: float) -> float:
    """m - φ(m + x), for x > 0 and g = m - u."""
    total = 0.0
    for i in range(n):
        total += masses[i] * math.log1p(gaps[i] / x)
    return x * (math.exp(total - budget) - 1.0)


@jit
def shortfall(masses: Any, gaps: Any, n: int, above: float, budget: float) -> float:
    """How far the maximum stays below m; less than 0 where it is above.

    The n states with p̂ > 0 have these p̂ and these g = m - u, one of which is 0; max u = m + above.

    >>> import numpy as np
    >>> half, gaps = np.array([0.5, 0.5]), np.array([0.0, 1.0])
    >>> round(shortfall(half, gaps, 2, 0.0, 0.1), 6), round(shortfall(half, gaps, 2, 9.0, 0.1), 6)
    (0.287121, -0.415959)
    """
    span, mean, square = 0.0, 0.0, 0.0
    for i in range(n):
        span = max(span, gaps[i])
        mean += masses[i] * gaps[i]
        square += masses[i] * gaps[i] * gaps[i]
    if span == 0.0:
        return above * (math.exp(-budget) - 1.0)
    left = max(above, NEAREST * span)
    product = span * span / 4.0 / max(budget, math.exp(min(budget, 500.0)) - 1.0)
    right = (math.sqrt(span * span / 4.0 + product) - span / 2.0) * WIDER
    x = math.sqrt(max(0.0, square - mean * mean) / (2.0 * budget))  # right where ε is small
    for _ in range(MOST_STEPS):
        if right <= left:  # f(max u) <= ε, or as good as that
            return dual_value(masses, gaps, n, left, budget)
        if not left < x < right:
            x = 0.0 if x <= left else math.sqrt(left * right)
        x = max(x, left)
        # f and -df/dlog(x) from y = g/(x + g): where x is large, sums of small numbers.
        logs, first, second = 0.0, 0.0, 0.0
        for i in range(n):
            y = gaps[i] / (x + gaps[i])
            logs += masses[i] * math.log1p(gaps[i] / x)
            first += masses[i] * y
            second += masses[i] * y * y
        f = logs + math.log1p(-first)
        fall = (second - first * first) / (1.0 - first)
        if abs(f - budget) <= CLOSE * budget:
            break
        if f > budget:
            left = x
        else:
            right = x
        x = x * math.exp(math.log(f / budget) * f / fall) if f > 0.0 and fall > 0.0 else left
    return dual_value(masses, gaps, n, x, budget)
