"""Which states can reach each other under some policy.

An MDP is communicating (its diameter is finite) exactly when the graph with an edge s → s' for
every action that can lead there is strongly connected: state 0 reaches every state, and every state
reaches state 0.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from switchmdp.compiled import jit, patient
from switchmdp.mdp.model import Model


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
        return f"no policy leads from state 0 to state {_few(lost)}"
    lost = np.nonzero(~reaching(model, 0))[0]
    return f"no policy leads from state {_few(lost)} to state 0" if len(lost) else None


def _few(states: Any, shown: int = 8) -> str:
    named = ", ".join(str(int(s)) for s in states[:shown])
    return named if len(states) <= shown else f"{named} and {len(states) - shown} more"
