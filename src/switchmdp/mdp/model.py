"""The arrays of a configuration that machine code works on: a pool of rows, and each pair's row.

    row y:   successors[start[y]:stop[y]] with probabilities, cumulative probabilities, mean[y]
    pair x:  currently has row[x]

Successors are unsigned, so machine code need not check for negative indices. An MDP has one row per
pair. A switching MDP has a pool: a change gives some pairs other rows.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from switchmdp.compiled import index, inlined, patient
from switchmdp.randomness import uniform

FULL_ROWS_UP_TO = 64  # states; with more, estimated rows are stored as lists of successors


class Model(NamedTuple):
    """State-action pairs, rows, and the current row of each pair."""

    starts: NDArray[np.int64]
    row: NDArray[np.int64]
    start: NDArray[np.int64]
    stop: NDArray[np.int64]
    mean: NDArray[np.float64]
    successors: NDArray[np.uint32]
    probabilities: NDArray[np.float64]
    cumulative: NDArray[np.float64]

    @classmethod
    def of(cls, **arrays: NDArray[Any]) -> Model:
        """A model of all arrays but `cumulative`, which follows from them."""
        cumulative = np.empty_like(arrays["probabilities"])
        _cumulate(arrays["start"], arrays["stop"], arrays["probabilities"], cumulative)
        return cls(cumulative=cumulative, **arrays)

    def has_full_rows(self) -> bool:
        """Whether every row lists all states in order; False if there are many states."""
        n_states = len(self.starts) - 1
        if n_states > FULL_ROWS_UP_TO or not (self.stop - self.start == n_states).all():
            return False
        states = np.arange(n_states)
        return bool((self.successors[self.start[:, None] + states] == states).all())

    def __repr__(self) -> str:
        return (
            f"Model({len(self.starts) - 1} states, {len(self.row)} pairs, {len(self.mean)} rows, "
            f"{len(self.successors)} transitions)"
        )


@patient
def _cumulate(start: Any, stop: Any, probabilities: Any, result: Any) -> None:
    """Cumulative probabilities row by row; the last of a row is exactly 1."""
    for y in range(start.size):
        total = 0.0
        for k in range(start[y], stop[y]):
            total += probabilities[k]
            result[k] = total
        result[stop[y] - 1] = 1.0


@patient
def row_sums(start: Any, stop: Any, probabilities: Any) -> Any:
    """The sum of each row, rounded once: what the additions lose is added at the end."""
    sums = np.zeros(start.size)
    for y in range(start.size):
        lost = 0.0
        for k in range(start[y], stop[y]):
            larger, smaller = max(sums[y], probabilities[k]), min(sums[y], probabilities[k])
            sums[y] = larger + smaller
            lost += smaller - (sums[y] - larger)
        sums[y] += lost
    return sums


@inlined
def draw_successor(
    start: int, stop: int, full_rows: bool, successors: Any, cumulative: Any, words: Any
) -> Any:
    """The next state of a row: the first whose cumulative probability exceeds a uniform draw.

    With `full_rows` it is the position in the row. Reading it from `successors` would add a load to
    the way from one state to the next.
    """
    u = uniform(words)
    if stop - start > 16:
        low, high = start, stop - 1
        while low < high:
            middle = (low + high) // 2
            if u < cumulative[index(middle)]:
                high = middle
            else:
                low = middle + 1
        return np.int64(low - start) if full_rows else np.int64(successors[index(low)])
    # Counting has no branch that a processor could mispredict. Four at a time: otherwise LLVM makes
    # vectors of these few numbers, and adding up a vector takes longer than all the rest.
    position: Any = start
    k = start
    while k + 4 < stop:
        position += (
            np.int64(u >= cumulative[index(k)])
            + np.int64(u >= cumulative[index(k + 1)])
            + np.int64(u >= cumulative[index(k + 2)])
            + np.int64(u >= cumulative[index(k + 3)])
        )
        k += 4
    while k + 1 < stop:
        position += np.int64(u >= cumulative[index(k)])
        k += 1
    if full_rows:
        return np.int64(position - start)
    return np.int64(successors[index(position)])
