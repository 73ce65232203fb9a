"""The form in which machine code sees a configuration: a pool of rows, and each pair's row.

    row y:   successors[start[y]:stop[y]] with probabilities, cumulative probabilities, mean[y]
    pair x:  is at present row[x]

Successors are unsigned, which spares machine code the check for negative indices.
An MDP has one row per pair. A switching MDP has a pool: a change gives some pairs another row.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from switchmdp.compiled import entry, jit
from switchmdp.randomness import uniform

FULL_ROWS_UP_TO = 64  # with more states, what is estimated of a row is kept as a list


class Model(NamedTuple):
    """Pairs, rows, and which row each pair has at present."""

    starts: NDArray[np.int64]
    row: NDArray[np.int64]
    start: NDArray[np.int64]
    stop: NDArray[np.int64]
    mean: NDArray[np.float64]
    successors: NDArray[np.uint32]
    probabilities: NDArray[np.float64]
    cumulative: NDArray[np.float64]


def cumulate(
    start: NDArray[np.int64], stop: NDArray[np.int64], probabilities: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Cumulative probabilities row by row; the last of a row is exactly 1."""
    result = np.empty_like(probabilities)
    _cumulate(start, stop, probabilities, result)
    return result


@entry
def _cumulate(start: Any, stop: Any, probabilities: Any, result: Any) -> None:
    for y in range(start.size):
        total = 0.0
        for k in range(start[y], stop[y]):
            total += probabilities[k]
            result[k] = total
        result[stop[y] - 1] = 1.0


@entry
def row_sums(start: Any, stop: Any, probabilities: Any) -> Any:
    """The sum of each row, added from left to right."""
    sums = np.zeros(start.size)
    for y in range(start.size):
        for k in range(start[y], stop[y]):
            sums[y] += probabilities[k]
    return sums


@jit
def draw_successor(start: int, stop: int, successors: Any, cumulative: Any, words: Any) -> Any:
    """The next state of a row: the first whose cumulative probability exceeds a uniform draw."""
    u = uniform(words)
    if stop - start > 16:
        low, high = start, stop - 1
        while low < high:
            middle = (low + high) // 2
            if u < cumulative[middle]:
                high = middle
            else:
                low = middle + 1
        return np.int64(successors[low])
    found = start  # counting has no branch that a processor could mispredict
    for k in range(start, stop - 1):
        found += u >= cumulative[k]
    return np.int64(successors[found])
