"""One Bellman sweep, with a certificate.

For any h, in an MDP whose optimal gain ρ* is the same from every state,

    min_s (Th - h)(s)  <=  ρ*  <=  max_s (Th - h)(s),     (Th - h)(s) = max_a r + Σ p (h' - h(s)).

The right-hand form adds up differences of neighbours, so its rounding error is proportional to
Σ p |h' - h(s)|, which stays small where a large span is climbed in rare or small steps. With k
successors and u = 2⁻⁵³, that error is below (2k + 8) u (r + Σ p |h' - h(s)|): k + 3 roundings on
the way, and as many in the row, whose stored probabilities sum to 1 only up to k u. The bracket is
widened by it, so it holds for the MDP with rows p / Σp in exact arithmetic.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from switchmdp.compiled import jit

UNIT = 2.0**-53


@jit
def certify(model: Any, bias: Any, choice: Any, keep_unless_better: bool) -> Any:
    """(lower, upper, switched): the bracket of `bias`; `choice` becomes greedy where that is sure.

    With `keep_unless_better` an action is replaced only by one that beats it by more than both
    rounding errors, so that policy iteration can't turn in circles.
    """
    starts, row, start, stop, mean = model.starts, model.row, model.start, model.stop, model.mean
    successors, probabilities = model.successors, model.probabilities
    lower, upper = np.inf, -np.inf
    switched = 0
    for s in range(starts.size - 1):
        low, high = -np.inf, -np.inf
        kept, best, best_value, best_error = choice[s], -1, -np.inf, 0.0
        kept_high = -np.inf
        for pair in range(starts[s], starts[s + 1]):
            y = row[pair]
            value, size = 0.0, mean[y]
            for k in range(start[y], stop[y]):
                term = probabilities[k] * (bias[successors[k]] - bias[s])
                value += term
                size += abs(term)
            value += mean[y]
            if not size < 1e300:  # the bias is no number here, and says nothing
                high = np.inf
                continue
            error = (2 * (stop[y] - start[y]) + 8) * UNIT * size + 1e-300
            low = max(low, value - error)
            high = max(high, value + error)
            if value > best_value:
                best, best_value, best_error = pair, value, error
            if pair == kept:
                kept_high = value + error
        lower = min(lower, low)
        upper = max(upper, high)
        if best != kept and (not keep_unless_better or best_value - best_error > kept_high):
            choice[s] = best
            switched += 1
    return lower, upper, switched
