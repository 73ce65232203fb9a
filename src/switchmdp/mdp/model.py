"""The arrays of a configuration that machine code works on, and which states can reach each other.

    row y:   successors[start[y]:stop[y]] with probabilities, cumulative probabilities, mean[y]
    pair x:  currently has row[x]

Successors are unsigned, so machine code need not check for negative indices. An MDP has one row per
pair. A switching MDP has a pool: a change gives some pairs other rows.

An MDP is communicating (its diameter is finite) exactly when the graph with an edge s → s' for
every action that can lead there is strongly connected: state 0 reaches every state, and every state
reaches state 0.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from switchmdp.compiled import index, inlined, jit, patient
from switchmdp.display import counted
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
        states, pairs = counted(len(self.starts) - 1, "state"), counted(len(self.row), "pair")
        rows, transitions = len(self.mean), len(self.successors)
        return (
            f"Model({states}, {pairs}, {counted(rows, 'row')}, "
            f"{counted(transitions, 'transition')})"
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


# The graph of an MDP.


class Predecessors(NamedTuple):
    """State s can be reached by pairs[offsets[s]:offsets[s+1]]; `states` are those of all pairs."""

    offsets: NDArray[np.int64]
    pairs: NDArray[np.uint32]  # one for each transition: half of what 64 bits would take
    states: NDArray[np.int64]


@jit
def predecessors(model: Any) -> Any:
    """For each state the pairs that may lead to it."""
    starts, row, start, stop, successors = (
        model.starts, model.row, model.start, model.stop, model.successors,
    )  # fmt: skip
    n_states = starts.size - 1
    states = np.empty(row.size, np.int64)
    for s in range(n_states):
        states[starts[s] : starts[s + 1]] = s
    offsets = np.zeros(n_states + 1, np.int64)
    for pair in range(row.size):
        for k in range(start[row[pair]], stop[row[pair]]):
            offsets[successors[k] + 1] += 1
    for s in range(n_states):
        offsets[s + 1] += offsets[s]
    pairs = np.empty(offsets[n_states], np.uint32)
    fill = offsets[:n_states].copy()
    for pair in range(row.size):
        for k in range(start[row[pair]], stop[row[pair]]):
            target = successors[k]
            pairs[fill[target]] = pair
            fill[target] += 1
    return Predecessors(offsets, pairs, states)


@patient
def reachable_from(model: Any, origin: int) -> Any:
    """Mask of the states that some policy reaches from `origin`."""
    starts, row, start, stop, successors = (
        model.starts, model.row, model.start, model.stop, model.successors,
    )  # fmt: skip
    n_states = starts.size - 1
    seen = np.zeros(n_states, np.bool_)
    queue = np.empty(n_states, np.int64)
    queue[0] = origin
    seen[origin] = True
    filled = 1
    read = 0
    while read < filled:
        s = queue[read]
        read += 1
        for pair in range(starts[s], starts[s + 1]):
            for k in range(start[row[pair]], stop[row[pair]]):
                target = successors[k]
                if not seen[target]:
                    seen[target] = True
                    queue[filled] = target
                    filled += 1
    return seen


@jit
def extend_backwards(order: Any, filled: int, seen: Any, choice: Any, before: Any) -> None:
    """Give every state that can reach the seen states an action that may lead towards them.

    Breadth first from the states order[:filled], which are seen; `before` has the predecessors.
    """
    read = 0
    while read < filled:
        s = order[read]
        read += 1
        for k in range(before.offsets[s], before.offsets[s + 1]):
            source = before.states[before.pairs[k]]
            if not seen[source]:
                seen[source] = True
                choice[source] = before.pairs[k]
                order[filled] = source
                filled += 1


@jit
def lead_to(goal: int, choice: Any, before: Any) -> Any:
    """Give every state an action that may bring it nearer to the goal.

    Returns the mask of the states that can reach it.
    """
    seen, order = np.zeros(choice.size, np.bool_), np.empty(choice.size, np.int64)
    order[0] = goal
    seen[goal] = True
    extend_backwards(order, 1, seen, choice, before)
    return seen


@patient
def reaching(model: Any, goal: int) -> Any:
    """Mask of the states from which some policy reaches `goal`."""
    return lead_to(goal, np.empty(model.starts.size - 1, np.int64), predecessors(model))


@jit
def is_connected(model: Any) -> bool:
    """Whether every state can be reached from every other."""
    return bool(reachable_from(model, 0).all() and reaching(model, 0).all())


def unconnected_states(model: Model) -> str | None:
    """A text that names the states that cannot be connected, or None if all can."""
    lost = np.nonzero(~reachable_from(model, 0))[0]
    if len(lost):
        return f"no policy leads from state 0 to {_few(lost)}"
    lost = np.nonzero(~reaching(model, 0))[0]
    return f"no policy leads from {_few(lost)} to state 0" if len(lost) else None


def _few(states: Any, shown: int = 8) -> str:
    named = ", ".join(str(int(s)) for s in states[:shown])
    more = f" and {len(states) - shown} more" if len(states) > shown else ""
    return f"{'state' if len(states) == 1 else 'states'} {named}{more}"
