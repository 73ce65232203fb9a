"""UCRL3's intervals: for each entry the smaller of two bounds, on a support kept small.

With n visits, d = δ/(2SA) and β = 2 log log max(e, n) + log(3/d), an entry p̃ may be at most as far
from p̂ as the *smaller* of

    sqrt( p̂ β / n ) + β / (3n)                                        (Bernstein-like)
    sqrt( 2 g(p̃) (1 + 1/n) log( 2 sqrt(n+1) / d ) / n )                (Laplace)

where g(p) = (1/2 - p) / log(1/p - 1), and p(1-p) where p >= 1/2 and p̃ < p̂. Rewards likewise.

How sure we are. The Laplace bound is proved: a variable in [0, 1] with mean p is sub-Gaussian with
g(p) (Kearns and Saul 1998), and above its mean with p(1-p) if p >= 1/2 (Hoeffding 1963, Theorem 1;
that is the side p̂ > p̃, the other way round would be too narrow), and the method of mixtures makes
it hold for all n at once. As sqrt(g) is concave, the p̃ that meet it are an interval around p̂, whose
ends are found by Newton's method. The Bernstein-like bound, and a d without a union over the S
entries, are those of the authors' published code: bounds of this form that are proved have a
factor 2 before p̂ β. So the set as a whole is *not* proved to hold the true MDP.

**Near-optimistic support** (Bourel, Maillard and Talebi 2020). Many states that were never seen
after a pair each get a little mass from their upper bounds. Instead only the m best of them may be
given any, with the least m for which, where values count from their least,

    F_out(m) <= min( κ, F_in(m) ),      κ = 10 |support of p̂| (max u - min u) / N_max^{2/3};

F_in is the best value on the seen states and those m, F_out the best on the others alone, N_max the
visits of the pair visited most. The row that is best without the limit splits into two parts, one
worth at most F_in and one at most F_out: so at most κ is lost. Within one plan m never falls, and
starts at 1. Then for each m the rows form one fixed set, all of which may give mass to the best
state; m changes finitely often, and the sweeps converge.
"""

from __future__ import annotations

import math
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from switchmdp.compiled import Scratch, Shape, compiled, jit
from switchmdp.plausible.intervals import Intervals

LOSS = 10.0  # the factor in κ
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
def interval_end(p: float, outside: float, scale: float) -> float:
    """Where |x - p| = sqrt(scale g(x)) between p and `outside`, or `outside` if nowhere.

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
    """The intervals and the support of UCRL3."""

    extra: Annotated[NDArray[np.int64], Shape("pairs"), Scratch(1)]  # unseen states allowed
    loss: Annotated[float, Scratch(LOSS)]

    def begin(self, counts: Any, t: int) -> None:
        """The counts may have taken more room; supports start anew."""
        self.reserve(counts)
        most = 1.0
        for pair in range(self.extra.size):
            self.extra[pair] = 1
            most = max(most, 1.0 * counts.visits[pair])
        self.loss = LOSS / math.exp(math.log(most) * 2.0 / 3.0)

    def terms(self, n: float, delta: float) -> tuple[float, float]:
        """β / n, and 2 (1 + 1/n) log(2 √(n+1) / d) / n."""
        log_d = math.log(delta / (2.0 * self.n_states * self.n_actions))
        beta = 2.0 * math.log(max(1.0, math.log(n))) + math.log(3.0) - log_d
        laplace = math.log(2.0) + 0.5 * math.log(n + 1.0) - log_d
        return beta / n, 2.0 * (1.0 + 1.0 / n) * laplace / n

    def upper(self, p: float, terms: tuple[float, float]) -> float:
        """The largest plausible mean."""
        bernstein = p + (math.sqrt(p * terms[0]) + terms[0] / 3.0)
        return interval_end(p, min(1.0, bernstein), terms[1])

    def lower(self, p: float, terms: tuple[float, float]) -> float:
        """The smallest plausible mean."""
        bernstein = p - (math.sqrt(p * terms[0]) + terms[0] / 3.0)
        return interval_end(p, max(0.0, bernstein), terms[1])

    def allowed(self, pair: int, n: int, total: float) -> int:
        """m: the least from the last one on that loses no more than κ."""
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
