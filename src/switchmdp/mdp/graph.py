"""Which states can be reached from which, under some policy.

An MDP is communicating (its diameter is finite) exactly when the graph with an edge s → s' for
every action that can lead there is strongly connected: state 0 reaches every state, and every state
reaches state 0.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from switchmdp.compiled import entry, jit
from switchmdp.mdp.model import Model


@jit
def predecessors(model: Any) -> Any:
    """For each state the pairs that may lead to it: (offsets, pairs)."""
    starts, row, start, stop, successors = (
        model.starts, model.row, model.start, model.stop, model.successors,
    )  # fmt: skip
    n_states = starts.size - 1
    offsets = np.zeros(n_states + 1, np.int64)
    for pair in range(row.size):
        for k in range(start[row[pair]], stop[row[pair]]):
            offsets[successors[k] + 1] += 1
    for s in range(n_states):
        offsets[s + 1] += offsets[s]
    pairs = np.empty(offsets[n_states], np.int64)
    fill = offsets[:n_states].copy()
    for pair in range(row.size):
        for k in range(start[row[pair]], stop[row[pair]]):
            target = successors[k]
            pairs[fill[target]] = pair
            fill[target] += 1
    return offsets, pairs


@jit
def states_of_pairs(starts: Any) -> Any:
    """The state of each pair."""
    states = np.empty(starts[starts.size - 1], np.int64)
    for s in range(starts.size - 1):
        for pair in range(starts[s], starts[s + 1]):
            states[pair] = s
    return states


@entry
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
def lead_to(order: Any, filled: int, seen: Any, choice: Any, offsets: Any, pairs: Any,
            states: Any) -> int:  # fmt: skip
    """Give every state that can reach the seen states an action that may lead towards them.

    Backwards and breadth first from the states order[:filled], which are seen; (offsets, pairs)
    list the predecessors of each state. Returns how many are seen in the end.
    """
    read = 0
    while read < filled:
        s = order[read]
        read += 1
        for k in range(offsets[s], offsets[s + 1]):
            source = states[pairs[k]]
            if not seen[source]:
                seen[source] = True
                choice[source] = pairs[k]
                order[filled] = source
                filled += 1
    return filled


@entry
def reaching(model: Any, goal: int) -> Any:
    """Mask of the states from which some policy reaches `goal`."""
    offsets, pairs = predecessors(model)
    n_states = model.starts.size - 1
    seen, order = np.zeros(n_states, np.bool_), np.empty(n_states, np.int64)
    order[0] = goal
    seen[goal] = True
    choice = np.empty(n_states, np.int64)
    lead_to(order, 1, seen, choice, offsets, pairs, states_of_pairs(model.starts))
    return seen


@entry
def disconnected(model: Any) -> Any:
    """(from, to) of two states that no policy connects, or (-1, -1)."""
    seen = reachable_from(model, 0)
    for s in range(seen.size):
        if not seen[s]:
            return 0, s
    seen = reaching(model, 0)
    for s in range(seen.size):
        if not seen[s]:
            return s, 0
    return -1, -1


def unconnected_states(model: Model) -> str | None:
    """A text that names the states that cannot be connected, or None if all can."""
    source, _ = disconnected(model)
    if source < 0:
        return None
    if source == 0:
        lost = np.nonzero(~reachable_from(model, 0))[0]
        return f"no policy leads from state 0 to state {_few(lost)}"
    lost = np.nonzero(~reaching(model, 0))[0]
    return f"no policy leads from state {_few(lost)} to state 0"


def _few(states: Any, shown: int = 8) -> str:
    named = ", ".join(str(int(s)) for s in states[:shown])
    return named if len(states) <= shown else f"{named} and {len(states) - shown} more"
