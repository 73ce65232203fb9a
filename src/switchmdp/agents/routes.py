"""Gaps and cheapest routes in the empirical MDP, which has the observed means and frequencies.

It contains the pairs that were visited at least once. With its optimal gain ρ and bias h, a visit
to a pair costs the gap Δ(s, a) = max_b Q(s, b) - Q(s, a), Q = r + p h. The regret of any stretch of
steps is the sum of its gaps, up to the span of h. The gap of a pair that was never visited is taken
to be `UNKNOWN`.

The cheapest route to a pair (s*, a*) minimises the expected sum of gaps on the way:

    J(s*) = Δ(s*, a*),      J(s) = min_a { Δ(s, a) + ε + Σ p J }   for s ≠ s*,

with ε > 0, so that the route arrives. If the policy visits s* anyway, J is little more than
Δ(s*, a*).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from switchmdp.compiled import index, jit

STEP = 0.002  # ε
UNKNOWN = 0.25
MOST_SWEEPS, AT_FIRST = 200, 20
PRECISE = 5e-3
FAR = 1e6  # J where no route is known


@jit
def expected(offset: Any, used: Any, target: Any, count: Any, pair: int, values: Any) -> Any:
    """The sum Σ P_j v_j over the counted successors of a pair, and its visits N."""
    total, n = 0.0, 0.0
    for k in range(offset[index(pair)], offset[index(pair)] + used[index(pair)]):
        seen = float(count[index(k)])
        total += seen * values[index(target[index(k)])]
        n += seen
    return total, n


@jit
def solve_means(
    starts: Any, offset: Any, used: Any, target: Any, count: Any, means: Any, bias: Any,
    change: Any, gaps: Any,
) -> float:  # fmt: skip
    """The optimal gain of the empirical MDP; updates `bias` and `gaps`.

    Relative value iteration from the given bias, up to `PRECISE`. The gap of a pair without visits
    is -1.
    """
    n_states, lower, upper = bias.size, 0.0, 1.0
    for _ in range(MOST_SWEEPS):
        lower, upper = np.inf, -np.inf
        for s in range(n_states):
            best = -np.inf
            for pair in range(starts[index(s)], starts[index(s + 1)]):
                gaps[index(pair)] = -1.0
                total, n = expected(offset, used, target, count, pair, bias)
                if n > 0.0:
                    value = means[index(pair)] + total / n
                    gaps[index(pair)] = value  # Q for now
                    best = max(best, value)
            change[index(s)] = best - bias[index(s)]
            if best == -np.inf:
                continue  # no action of this state is known: it keeps its value
            lower, upper = min(lower, change[index(s)]), max(upper, change[index(s)])
            for pair in range(starts[index(s)], starts[index(s + 1)]):
                if gaps[index(pair)] != -1.0:
                    gaps[index(pair)] = max(0.0, best - gaps[index(pair)])
        if not lower < np.inf:
            return 0.0  # nothing is known
        middle = 0.5 * (lower + upper)
        for s in range(n_states):
            if change[index(s)] > -np.inf:
                bias[index(s)] += 0.9 * (change[index(s)] - middle)  # the aperiodicity transform
        if upper - lower < PRECISE:
            break
    return min(1.0, max(0.0, 0.5 * (lower + upper)))


@jit
def better_way(
    starts: Any, offset: Any, used: Any, successors: Any, count: Any, gaps: Any, goal: int,
    cost: Any, s: int, way: int,
) -> Any:  # fmt: skip
    """The cost J of a state, its best pair, and the probability of moving to `goal`.

    J of the other states is given. Successors from which no route is known yet are left out, as if
    the step were repeated.
    """
    best, arrives = FAR, 0.0
    for pair in range(starts[index(s)], starts[index(s + 1)]):
        if gaps[index(pair)] < 0.0:
            continue
        away, n, leaves, there = 0.0, 0.0, 0.0, 0.0
        for k in range(offset[index(pair)], offset[index(pair)] + used[index(pair)]):
            seen, successor = float(count[index(k)]), index(successors[index(k)])
            n += seen
            if successor != index(s) and cost[successor] < FAR:
                leaves += seen
                away += seen * cost[successor]
                there += seen if successor == index(goal) else 0.0
        if leaves > 0.0:
            value = ((gaps[index(pair)] + STEP) * n + away) / leaves
            if value < best:
                best, way, arrives = value, pair, there / leaves
    return best, way, arrives


@jit
def plan_route(
    starts: Any, offset: Any, used: Any, successors: Any, count: Any, gaps: Any,
    target: int, goal: int, cost: Any, route: Any,
) -> None:  # fmt: skip
    """J of the cheapest way to a pair of state `goal`, from each state, and that way.

    Value iteration, forwards and backwards in turns. If all values change in the same direction,
    all are also moved by one number, which takes the slowest part of the error away: J is too high
    or too low by the same amount everywhere.
    """
    n_states = cost.size
    for s in range(n_states):
        cost[index(s)], route[index(s)] = FAR, starts[index(s)]
    last = gaps[index(target)]
    cost[index(goal)], route[index(goal)] = last if last >= 0.0 else UNKNOWN, target
    for sweep in range(MOST_SWEEPS):
        largest, total, arriving, fell, rose = 0.0, 0.0, 0.0, False, False
        for i in range(n_states):
            s = i if sweep % 2 == 1 else n_states - 1 - i
            if s == goal:
                continue
            value, way, arrives = better_way(
                starts, offset, used, successors, count, gaps, goal, cost, s, route[index(s)]
            )
            change = value - cost[index(s)]
            if change != 0.0:
                largest = max(largest, abs(change) / value)
                total += change
                arriving += arrives
                fell, rose = fell or change < 0.0, rose or change > 0.0
            cost[index(s)], route[index(s)] = value, way
        if largest < PRECISE:
            break
        if fell != rose and arriving > 0.0 and 0 < sweep < AT_FIRST and abs(total) < FAR:
            for s in range(n_states):
                if s != goal and cost[index(s)] < FAR:
                    moved = cost[index(s)] + total / arriving
                    cost[index(s)] = max(STEP, 0.1 * cost[index(s)], moved)
