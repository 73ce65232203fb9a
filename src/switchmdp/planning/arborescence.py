"""The likeliest tree of a chain: one transition of each state, leading to a root without a cycle.

Of all choices of one transition per state that lead every state to the root, the one with the
largest product of probabilities (Chu and Liu 1965, Edmonds 1967). Where a chain moves on very
different time scales, hitting times are dominated by this tree: it contains, for each group of
states that a chain hardly leaves, the way by which it leaves first.

Each state follows its likeliest transition. Where that closes a cycle, the cycle becomes one node,
whose transitions are weighed by how much less likely they are than those they would replace.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from switchmdp.compiled import jit


@jit
def likeliest_tree(model: Any, choice: Any, root: int) -> Any:
    """For each state but the root the next one in the tree; -1 for the root.

    Under this policy the root can be reached from every state.
    """
    n_states = choice.size
    size = 2 * n_states  # the states, and the cycles that became nodes
    inside = np.full(size, -1)  # the node that a node became part of
    top = np.arange(n_states)  # the outermost node of each state
    replaced = np.zeros(n_states)  # log2 of the chosen transition, of all nodes around a state
    source, target, weight = np.full(size, -1), np.full(size, -1), np.full(size, -np.inf)
    settled, on_path = np.zeros(size, np.bool_), np.zeros(size, np.bool_)
    settled[root] = True
    path = np.empty(size, np.int64)
    nodes = n_states
    for state in range(n_states):
        if settled[top[state]]:
            continue
        path[0], length = top[state], 1
        on_path[path[0]] = True
        while length > 0:
            here = path[length - 1]
            for s in range(n_states):
                if top[s] != here:
                    continue
                y = model.row[choice[s]]
                for k in range(model.start[y], model.stop[y]):
                    there = np.int64(model.successors[k])
                    if top[there] != here:
                        found = math.log2(model.probabilities[k]) - replaced[s]
                        if found > weight[here]:
                            source[here], target[here], weight[here] = s, there, found
            onward = top[target[here]]
            if settled[onward]:
                for i in range(length):
                    settled[path[i]] = True
                    on_path[path[i]] = False
                length = 0
            elif on_path[onward]:
                for s in range(n_states):
                    for i in range(length - 1, -1, -1):
                        if top[s] == path[i]:
                            replaced[s] += weight[path[i]]
                            inside[path[i]] = nodes
                            top[s] = nodes
                            break
                        if path[i] == onward:
                            break
                while path[length - 1] != onward:
                    length -= 1
                path[length - 1] = nodes
                on_path[nodes] = True
                nodes += 1
            else:
                path[length] = onward
                on_path[onward] = True
                length += 1
    onward = np.full(n_states, -1)
    dropped = np.zeros(size, np.bool_)
    for node in range(nodes - 1, -1, -1):
        if node == root or dropped[node]:
            continue
        s = source[node]
        onward[s] = target[node]
        while s != node:
            dropped[s] = True
            s = inside[s]
    return onward


@jit
def from_the_root(onward: Any) -> Any:
    """The states of a tree by their distance from its root."""
    depth = np.zeros(onward.size, np.int64)
    for s in range(onward.size):
        above = onward[s]
        while above >= 0:
            above = onward[above]
            depth[s] += 1
    return np.argsort(depth, kind="mergesort")
