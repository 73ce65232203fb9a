"""The confidence set of KL-UCRL: Kullback-Leibler balls (Filippi, Cappé, Garivier 2010).

With N visits to a pair, at step t,

    KL(p̂, p̃) <= C_p / N,     C_p = S ( B + log(B + 1/log t) (1 + 1/(B + 1/log t)) ),
                             B = log( 2 e S² A log t / δ ),
    |r̃ - r̂| <= sqrt( log( 4 S A log t / δ ) / (1.99 N) ).

At t = 1, where log t = 0 and no pair was visited, log 2 replaces log t.

**What is proved.** The formulas are those of the authors' public code. It uses the current step t
where the paper, to our knowledge, uses the horizon T. For a fixed T the paper proves that all rows
are in the set with probability 1 - δ. With t nothing is proved: the set is smaller, as if the run
ended at step t, and the bound holds for each t but not for all t at once.
"""

from __future__ import annotations

import math
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from switchmdp.compiled import Scratch, Shape, compiled
from switchmdp.planning.inner_maximum import ZERO, shortfall
from switchmdp.plausible.optimistic import Optimistic

SLACK = 1e-9


@compiled
class KLBall(Optimistic):
    """The Kullback-Leibler balls of KL-UCRL.

    Parameters
    ----------
    delta
        The probability with which the true MDP may lie outside the plausible set.
    windowed
        Share delta among all steps at which a window may start.
    width
        A factor of all radii. The proofs need 1; less is usually better, without a guarantee.

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
