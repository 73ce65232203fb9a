"""The inner maximum over intervals: max Σ p(s') u(s') with low(s') <= p(s') <= high(s'), Σ p = 1.

Start from the lower bounds, and pour the mass that is left by descending u up to the upper bounds.

A pair has been seen to go to few of the states; for all others the lower bound is 0 and the upper
one the same, `beyond`. So the states are put in one order for all pairs, best first, with the sums
of u along it, and a stretch of unseen states between two that were seen is filled at once: a pair
costs what was seen of it. Of the unseen states the `skipped` best may be given none, and of those
after them only the `allowed` best.

Where the upper bounds leave mass over, it goes where u is least, which is 0.
"""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from switchmdp.compiled import Permutation, Scratch, Shape, compiled, jit
from switchmdp.mdp.model import FULL_ROWS_UP_TO
from switchmdp.planning.inner_maximum import ZERO, sort_by_value


@jit
def fill(ranked: Any, sums: Any, first: int, states: int, beyond: float, left: float) -> float:
    """Σ p u over unseen states, best first from place `first` on, with `left` to give."""
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
    """What pouring `left` adds to Σ low u.

    u is `ranked`, best first, and sums[i] = ranked[0] + … + ranked[i-1]. The n seen states are at
    these places of it, ascending, and have this much room above their lower bounds.
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
    """The states by their value, and the inner maximum over intervals."""

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
        """Put the states in order, `order` worst first and all else best first."""
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
        """Places and rooms of the pair's seen states, best first: how many, and Σ low u."""
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
        """What `left` is worth, poured over the n states gathered and the best unseen ones."""
        return pour(self.places, self.rooms, n, left, self.ranked, self.sums, beyond, ZERO, allowed)

    def outside(self, n: int, beyond: float, skipped: int) -> float:
        """What a mass of 1 is worth at most on the unseen states, but the best of them."""
        return pour(
            self.places, self.nothing, n, 1.0, self.ranked, self.sums, beyond, skipped,
            self.ranked.size,
        )  # fmt: skip
