"""The inner maximum of extended value iteration: max Σ p(s') u(s') over plausible rows.

**L1 ball** around p̂ of radius d (`optimistic_value`, `optimistic_row`). The best state gets
probability min(1, p̂ + d/2), and the excess is removed from the worst states first (Jaksch, Ortner,
Auer 2010, Figure 2). Probability can be removed only where p̂ > 0, so the successors of the pair
suffice. They are a full row, processed in the order of the values of the states, or a list of
successors, of which a heap yields the worst ones one by one.

**Intervals** low(s') <= p(s') <= high(s') (`Ranking`). Start from the lower bounds, and assign the
remaining probability in descending order of u up to the upper bounds. Only a few states were
observed after a pair; all others have the lower bound 0 and the same upper bound, `beyond`. So the
states are sorted once for all pairs, best first, with the sums of u in that order. All unobserved
states between two observed ones are then assigned at once, and the cost of a pair depends only on
its observed successors. Of the unobserved states, the `skipped` best get no probability, and of
those after them only the `allowed` best may get some. What remains after all upper bounds goes to
the state with the least u, which is 0.

**Kullback-Leibler ball** KL(p̂, p) = Σ p̂ log(p̂ / p) <= ε (`shortfall`). By convex duality (Honda and
Takemura 2010; Filippi, Cappé and Garivier 2010 solve for its optimum)

    max = min { φ(ν) : ν >= max u },      φ(ν) = ν - exp( Σ p̂(s') log(ν - u(s')) - ε ),

where max u is over all states, also those with p̂ = 0. φ is convex with φ' = 1 - exp(f - ε),

    f(ν) = Σ p̂ log(ν - u) + log( Σ p̂ / (ν - u) ),

which is decreasing. If f(max u) <= ε, then ν = max u: the best state was never observed and gets
some probability. Otherwise ν solves f(ν) = ε. Newton's method finds it, within a bracket, for log f
as a function of log x, where x = ν - m and m is the largest u with p̂ > 0. *Every* ν >= max u gives
an upper bound. So up to rounding the result is never less than the maximum, and its excess is of
second order in the error of ν. For the bracket, Kantorovich's inequality exp(f) - 1 <= R² / (4 x (x
+ R)), where R is the span of u over the states with p̂ > 0, gives an x to the right of the root. An
x below 1e-12 R changes the result so little that it is not considered.
"""

from __future__ import annotations

import math
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from switchmdp.compiled import Permutation, Scratch, Shape, compiled, inlined, interpreted, jit
from switchmdp.errors import InvalidParameter
from switchmdp.mdp.model import FULL_ROWS_UP_TO

# L1 ball.


ZERO: Any = np.int64(0)  # a literal 0 has a type of its own: one more compilation


@inlined
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


@inlined
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
            best_mass += estimates[k]  # slots of forgotten successors hold 0
        else:
            values[n] = value[target[k]]
            masses[n] = estimates[k]
            n += 1
    return value_of_list(values, masses, n, top, best_mass, radius)


@jit
def sort_by_value(order: Any, values: Any) -> None:
    """Insertion sort, fast if nearly sorted; equal values in the order of the states."""
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

    Parameters
    ----------
    estimate
        The estimated probabilities.
    radius
        The radius of the ball.
    values
        The value of each state.

    Returns
    -------
    numpy.ndarray
        The best distribution.

    Raises
    ------
    InvalidParameter
        If a parameter has the wrong type or is out of range.

    References
    ----------
    Jaksch, Ortner, Auer (2010): Near-optimal regret bounds for reinforcement learning.

    Examples
    --------
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
        raise InvalidParameter("estimate", estimate, "a distribution, and values must be numbers")
    if row.ndim != 1 or row.shape != value.shape or not row.size:
        raise InvalidParameter("values", values, f"{row.size} numbers, one for each state")
    if not radius >= 0.0:
        raise InvalidParameter("radius", radius, "a number >= 0")
    order = np.arange(len(row))
    interpreted(sort_by_value)(order, value)
    interpreted(take_from_full_row)(row, int(order[-1]), order, float(radius))
    return row


# Intervals.


@jit
def fill(ranked: Any, sums: Any, first: int, states: int, beyond: float, left: float) -> float:
    """Σ p u over unobserved states, if the probability `left` goes to the best of them.

    It starts at place `first` of the states, best first.
    """
    if left >= states * beyond:
        return float(beyond * (sums[first + states] - sums[first]))
    whole = min(states - 1, int(left / beyond))
    total = beyond * (sums[first + whole] - sums[first])
    return float(total + min(max(0.0, left - whole * beyond), beyond) * ranked[first + whole])


@jit
def pour(
    places: Any, rooms: Any, n: int, left: float, ranked: Any, sums: Any, beyond: float,
    skipped: int, allowed: int,
) -> float:  # fmt: skip
    """What assigning the probability `left` to the best states adds to Σ low u.

    u is `ranked`, best first, and sums[i] = ranked[0] + … + ranked[i-1]. The n observed states are
    at the given places of it, in ascending order, and have the given room above their lower bounds.
    """
    at, total = ZERO, 0.0
    for i in range(n + 1):
        until = places[i] if i < n else ranked.size
        jump = min(until - at, skipped)
        at += jump
        skipped -= jump
        states = min(until - at, allowed)
        if states > 0 and beyond > 0.0:
            total += fill(ranked, sums, at, states, beyond, left)
            left -= states * beyond
            allowed -= states
            if left <= 0.0:
                break
        if i < n:
            taken = min(left, rooms[i])
            total += taken * ranked[until]
            left -= taken
            if left <= 0.0:
                break
            at = until + 1
    return total


@compiled
class Ranking:
    """The states sorted by value, and the inner maximum over intervals."""

    order: Annotated[NDArray[np.int64], Shape("states"), Permutation()]
    rank: Annotated[NDArray[np.int64], Shape("states"), Permutation()]
    ranked: Annotated[NDArray[np.float64], Shape("states")]
    sums: Annotated[NDArray[np.float64], Shape("states + 1")]
    places: Annotated[NDArray[np.int64], Shape("states"), Scratch()]
    rooms: Annotated[NDArray[np.float64], Shape("states"), Scratch()]
    slots: Annotated[NDArray[np.int64], Shape("states"), Scratch()]
    nothing: Annotated[NDArray[np.float64], Shape("states"), Scratch()]

    def __init__(self, n_states: int) -> None:
        self.order, self.rank = np.arange(n_states), np.arange(n_states)
        self.ranked, self.sums = np.zeros(n_states), np.zeros(n_states + 1)
        self.places, self.slots = np.zeros(n_states, np.int64), np.zeros(n_states, np.int64)
        self.rooms, self.nothing = np.zeros(n_states), np.zeros(n_states)

    def arrange(self, value: Any) -> None:
        """Sort the states: `order` has the worst first, the other arrays the best first."""
        order, rank, ranked, sums = self.order, self.rank, self.ranked, self.sums
        n_states = value.size
        if n_states <= FULL_ROWS_UP_TO:
            sort_by_value(order, value)
        else:
            order[:] = np.argsort(value, kind="mergesort")
        total = 0.0
        for place in range(n_states):
            state = order[n_states - 1 - place]
            rank[state] = place
            ranked[place] = value[state]
            total += value[state]
            sums[place + 1] = total

    def gather(self, counts: Any, pair: int, low: Any, high: Any) -> tuple[int, float]:
        """Places and rooms of the pair's visited states, best first; their number, and Σ low u."""
        ranked, places, rooms, count = self.ranked, self.places, self.rooms, counts.count
        first = counts.offset[pair]
        n, total = ZERO, 0.0
        if counts.full:
            order, n_states = self.order, ranked.size
            for place in range(n_states):
                k = first + order[n_states - 1 - place]
                if count[k] > 0:
                    places[n], rooms[n] = place, high[k] - low[k]
                    total += low[k] * ranked[place]
                    n += 1
            return n, total
        rank, slots, target = self.rank, self.slots, counts.target
        for k in range(first, first + counts.used[pair]):
            if count[k] > 0:
                places[n] = rank[target[k]]
                slots[places[n]] = k
                n += 1
        places[:n].sort()
        for i in range(n):
            k = slots[places[i]]
            rooms[i] = high[k] - low[k]
            total += low[k] * ranked[places[i]]
        return n, total

    def inside(self, n: int, left: float, beyond: float, allowed: int) -> float:
        """The value of the mass `left` on the n gathered states and the best unvisited ones."""
        return pour(self.places, self.rooms, n, left, self.ranked, self.sums, beyond, ZERO, allowed)

    def outside(self, n: int, beyond: float, skipped: int) -> float:
        """The value of a mass of 1 on the unvisited states without the `skipped` best ones."""
        return pour(
            self.places, self.nothing, n, 1.0, self.ranked, self.sums, beyond, skipped,
            self.ranked.size,
        )  # fmt: skip


# Kullback-Leibler ball.


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
    """How far the maximum is below m; negative if it is above m.

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
        if right <= left:  # f(max u) <= ε, up to rounding
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
