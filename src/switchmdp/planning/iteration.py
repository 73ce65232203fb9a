"""The optimal gain of a communicating MDP by policy or value iteration, with a certificate.

**Policy iteration**: evaluate by state reduction, and switch to an action if it is better by more
than the rounding errors. A policy with several closed classes keeps its best one, and all other
states are routed to it; a new closed class can only arise with a higher gain, so this ends.
Periods, diameters of 10⁶ and nearly decomposable chains do not matter; O(S³) per iteration.

**Relative value iteration** h ← h + α(Th - h), α < 1 (the aperiodicity transform), with sweeps over
the current policy alone in between: O(transitions) per sweep, for MDPs that mix.

**Certificate** (`certify`). Both end with one Bellman sweep that bounds the gain. For any h, in an
MDP whose optimal gain ρ* is the same from every state,

    min_s (Th - h)(s)  <=  ρ*  <=  max_s (Th - h)(s),     (Th - h)(s) = max_a r + Σ p (h' - h(s)).

The right-hand form adds up differences of neighbours, so its rounding error is proportional to
Σ p |h' - h(s)|, which stays small where a large span is climbed in rare or small steps. With k
successors and u = 2⁻⁵³, that error is below (2k + 8) u (r + Σ p |h' - h(s)|): k + 3 roundings in
the sum, and as many in the row, whose stored probabilities sum to 1 only up to k u. The bracket is
widened by it, so it holds for the MDP with rows p / Σp in exact arithmetic.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from switchmdp.compiled import entry, index, jit, patient
from switchmdp.planning.evaluation import evaluate, route_to_class
from switchmdp.planning.wide import UNIT


@patient
def certify(model: Any, bias: Any, choice: Any, keep_unless_better: bool) -> Any:
    """(lower, upper, switched): the bracket of `bias`; `choice` becomes greedy where that is sure.

    With `keep_unless_better` an action is replaced only by one that beats it by more than both
    rounding errors, so that policy iteration can't cycle.
    """
    starts, row, start, stop, mean = model.starts, model.row, model.start, model.stop, model.mean
    successors, probabilities = model.successors, model.probabilities
    lower, upper = np.inf, -np.inf
    switched = 0
    for s in range(starts.size - 1):
        low, high, here = -np.inf, -np.inf, bias[index(s)]
        kept, best, best_value, best_error = choice[index(s)], -1, -np.inf, 0.0
        kept_high = -np.inf
        for pair in range(starts[index(s)], starts[index(s + 1)]):
            y = index(row[index(pair)])
            value, size = 0.0, mean[y]
            for k in range(index(start[y]), index(stop[y])):
                term = probabilities[k] * (bias[index(successors[k])] - here)
                value += term
                size += abs(term)
            value += mean[y]
            if not size < 1e300:  # the bias overflowed here, and bounds nothing
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
            choice[index(s)] = best
            switched += 1
    return lower, upper, switched


MAX_ITERATIONS = 1000
STEP = 0.9
POLICY_SWEEPS = 4

DONE, ROUNDING, LIMIT = 0, 1, 2


@patient
def iterate_policies(model: Any, choice: Any, bias: Any, tolerance: float) -> Any:
    """(lower, upper, status), with `choice` and `bias` brought to the optimum."""
    n_states = choice.size
    order = np.arange(n_states)
    rewards = np.empty(n_states)
    lower, upper = 0.0, 1.0
    for _ in range(MAX_ITERATIONS):
        for s in range(n_states):
            rewards[s] = model.mean[model.row[choice[s]]]
        _gain, member = evaluate(model, choice, order, rewards, bias)
        if member < 0:
            order = route_to_class(model, choice, -1 - member)
            for s in range(n_states):
                rewards[s] = model.mean[model.row[choice[s]]]
            evaluate(model, choice, order, rewards, bias)
        low, high, switched = certify(model, bias, choice, True)
        lower, upper = max(lower, low), min(upper, high)
        if high - low <= tolerance:  # of this bias, not only of all the brackets together
            return lower, upper, DONE
        if switched == 0:
            return lower, upper, ROUNDING
    return lower, upper, LIMIT


@jit
def sweep_all(model: Any, bias: Any, change: Any, choice: Any) -> float:
    """change = Th - h and its greedy policy; returns the span of the change."""
    starts, row, start, stop, mean = model.starts, model.row, model.start, model.stop, model.mean
    successors, probabilities = model.successors, model.probabilities
    smallest, largest = np.inf, -np.inf
    for s in range(bias.size):
        best_value, best = -np.inf, 0
        for pair in range(starts[s], starts[s + 1]):
            y = row[pair]
            value = mean[y]
            for k in range(start[y], stop[y]):
                value += probabilities[k] * bias[successors[k]]
            # No branch: it would often be mispredicted.
            best = pair if value > best_value else best
            best_value = value if value > best_value else best_value
        choice[s] = best
        change[s] = best_value - bias[s]
        smallest, largest = min(smallest, change[s]), max(largest, change[s])
    return largest - smallest


@jit
def sweep_policy(model: Any, bias: Any, change: Any, choice: Any) -> None:
    """change = T_π h - h."""
    row, start, stop, mean = model.row, model.start, model.stop, model.mean
    successors, probabilities = model.successors, model.probabilities
    for s in range(bias.size):
        y = row[choice[s]]
        value = mean[y]
        for k in range(start[y], stop[y]):
            value += probabilities[k] * bias[successors[k]]
        change[s] = value - bias[s]


@jit
def shift(bias: Any, change: Any) -> None:
    """h ← h + α (change - change_0): the gain itself is left out, so that h stays bounded."""
    base = change[0]
    for s in range(bias.size):
        bias[s] += STEP * (change[s] - base)


@entry
def iterate_values(model: Any, choice: Any, bias: Any, tolerance: float, budget: int) -> Any:
    """(lower, upper, status); LIMIT as soon as the observed contraction is too slow for `budget`.

    While the policy still changes, for example along a chain, the contraction is not informative.
    """
    change = np.empty(bias.size)
    lower, upper = 0.0, 1.0
    earlier = np.inf
    then = choice.copy()
    for sweep in range(1, budget + 1):
        span = sweep_all(model, bias, change, choice)
        if span <= 0.5 * tolerance or sweep == budget:
            lower, upper, _ = certify(model, bias, choice, False)
            if upper - lower <= tolerance:
                return lower, upper, DONE
            if span <= 0.1 * tolerance:
                return lower, upper, ROUNDING
        if sweep % 16 == 0:
            settled = True
            for s in range(choice.size):
                settled = settled and choice[s] == then[s]
                then[s] = choice[s]
            if settled and earlier < np.inf:  # 16 rounds shrank the span by span / earlier
                if span >= earlier * 0.999:
                    break
                rounds = 16 * math.log(span / tolerance) / math.log(earlier / span)
                if rounds > budget - sweep:
                    break
            earlier = span if settled else np.inf
        shift(bias, change)
        for _ in range(POLICY_SWEEPS):
            sweep_policy(model, bias, change, choice)
            shift(bias, change)
    lower, upper, _ = certify(model, bias, choice, False)
    return lower, upper, LIMIT


@patient
def solve_configurations(
    model: Any, patches: Any, first: int, choice: Any, bias: Any, tolerance: float,
    out: Any, choices: Any,
) -> int:  # fmt: skip
    """Policy iteration for configurations first, first + 1, …, each from the lowest actions.

    So a configuration's numbers don't depend on which others were solved with it. Writes (lower,
    upper) into `out` and, if `choices` has rows, the optimal pairs there. Returns the index in
    `out` of the first one that failed, or -1.
    """
    for i in range(out.shape[0]):
        if i > 0:
            change = first + i - 1
            for k in range(patches.offsets[change], patches.offsets[change + 1]):
                model.row[patches.pair[k]] = patches.new[k]
        for s in range(choice.size):
            choice[s], bias[s] = model.starts[s], 0.0
        lower, upper, status = iterate_policies(model, choice, bias, tolerance)
        out[i, 0], out[i, 1] = lower, upper
        if choices.shape[0] > 0:
            for s in range(choice.size):
                choices[i, s] = choice[s]
        if status != DONE:
            return i
    return -1
