"""The inner maximum of extended value iteration: max Σ p(s') u(s') over an L1 ball around p̂.

The best state's probability becomes min(1, p̂ + d/2), where d is the radius; what it gained is taken
from the worst states first (Jaksch, Ortner, Auer 2010, Figure 2). Only states with p̂ > 0 can give,
so a pair's own successors suffice. They come as a full row, for which one walks along the states
sorted by value, or as a list of successors, of which a heap yields the worst ones one by one.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from switchmdp.compiled import interpreted, jit
from switchmdp.errors import InvalidParameter

ZERO: Any = np.int64(0)  # a literal 0 would be compiled for apart


@jit
def take_from_full_row(row: Any, best: int, order: Any, radius: float) -> None:
    """Turn p̂, given for all states, into the optimistic row; `order` lists worst states first."""
    raised = min(1.0, row[best] + radius / 2.0)
    excess = raised - row[best]
    row[best] = raised
    for state in order:
        if excess <= 0.0:
            return
        if state != best:
            taken = min(excess, row[state])
            row[state] -= taken
            excess -= taken


@jit
def sink(values: Any, masses: Any, i: int, n: int) -> None:
    """Restore the heap (smallest value on top) below position i."""
    while True:
        child = 2 * i + 1
        if child >= n:
            return
        if child + 1 < n and values[child + 1] < values[child]:
            child += 1
        if values[i] <= values[child]:
            return
        values[i], values[child] = values[child], values[i]
        masses[i], masses[child] = masses[child], masses[i]
        i = child


@jit
def value_of_list(
    values: Any, masses: Any, n: int, best_value: float, best_mass: float, radius: float
) -> float:
    """Σ p u of the optimistic row; p̂ is given by `best_mass` and its n other successors.

    A heap yields the worst successors one by one: seldom more than a few are needed.
    """
    raised = min(1.0, best_mass + radius / 2.0)
    excess = raised - best_mass
    total = raised * best_value
    for i in range(n):
        total += values[i] * masses[i]
    for i in range(n // 2 - 1, -1, -1):
        sink(values, masses, i, n)
    while excess > 0.0 and n > 0:
        taken = min(excess, masses[0])
        total -= taken * values[0]
        excess -= taken
        n -= 1
        values[0], masses[0] = values[n], masses[n]
        sink(values, masses, ZERO, n)
    return total


@jit
def optimistic_value(
    estimates: Any, target: Any, first: int, used: int, full: bool, value: Any, order: Any,
    best: int, top: float, radius: float, values: Any, masses: Any,
) -> float:  # fmt: skip
    """max over the ball of Σ p u, for the pair whose p̂ starts at `first`; radius < 2."""
    if full:
        for k in range(used):
            masses[k] = estimates[first + k]
        take_from_full_row(masses, best, order, radius)
        total = 0.0
        for k in range(used):
            total += masses[k] * value[k]
        return total
    n = ZERO
    best_mass = 0.0
    for k in range(first, first + used):
        if target[k] == best:
            best_mass = estimates[k]
        else:
            values[n] = value[target[k]]
            masses[n] = estimates[k]
            n += 1
    return value_of_list(values, masses, n, top, best_mass, radius)


@jit
def sort_by_value(order: Any, values: Any) -> None:
    """Insertion sort, quick on what is nearly sorted; equal values in the order of the states."""
    for i in range(1, order.size):
        state = order[i]
        j = i - 1
        while j >= 0 and (
            values[order[j]] > values[state]
            or (values[order[j]] == values[state] and order[j] > state)
        ):
            order[j + 1] = order[j]
            j -= 1
        order[j + 1] = state


def optimistic_row(estimate: Any, radius: float, values: Any) -> NDArray[np.float64]:
    """The distribution in the L1 ball around `estimate` that maximises Σ p(s) values(s).

    >>> optimistic_row([0.5, 0.5], 0.2, [0.0, 1.0]).tolist()
    [0.4, 0.6]
    """
    try:
        row, value = np.array(estimate, np.float64), np.asarray(values, np.float64)
        radius = float(radius)
    except (TypeError, ValueError) as error:
        raise InvalidParameter("estimate, radius, values", (estimate, radius, values),
                               "numbers") from error  # fmt: skip
    if not (row >= 0.0).all() or not abs(row.sum() - 1.0) <= 1e-6 or np.isnan(value).any():
        raise InvalidParameter("estimate", estimate, "a distribution, and values numbers")
    if row.ndim != 1 or row.shape != value.shape or not row.size:
        raise InvalidParameter("values", values, f"as many numbers as there are states, {row.size}")
    if not radius >= 0.0:
        raise InvalidParameter("radius", radius, "a number >= 0")
    order = np.arange(len(row))
    interpreted(sort_by_value)(order, value)
    interpreted(take_from_full_row)(row, int(order[-1]), order, float(radius))
    return row
