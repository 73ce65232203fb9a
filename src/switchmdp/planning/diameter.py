"""The diameter D = max_{s ≠ s'} min_π E[steps from s to s'], and who can reach whom.

For each goal s' the least expected hitting times solve h(s) = 1 + min_a Σ p h, h(s') = 0.

**Few states**: policy iteration, evaluated by state reduction (`evaluation`): no subtraction, so
the relative error is of the order of rounding, whatever the diameter.

**Many states**: value iteration. Its slow mode is one direction (nearly constant: everybody waits
for the same rare event), so after some sweeps over the current policy the differences d, Qd, Q²d, …
shrink by a common factor λ, and the whole tail d λ/(1-λ) is added at once. For any h > 0 off the
goal,

    m <= Th - h <= M < 1   implies   h/(1-m) <= h* <= h/(1-M),

which says when to stop. Where λ near 1 defeats it, policy iteration takes over.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from switchmdp.compiled import entry, jit
from switchmdp.errors import InvalidParameter, PrecisionNotReached
from switchmdp.mdp import MDP
from switchmdp.mdp.graph import communicating, predecessors, states_of_pairs
from switchmdp.planning.evaluation import chain, reduce_chain

FEW = 128
DENSE = 2000
MAX_ROUNDS = 400
POLICY_SWEEPS = 6
MAX_ITERATIONS = 1000


@jit
def proper_policy(goal: int, choice: Any, offsets: Any, pairs: Any, states: Any) -> None:
    """Give every state an action that may bring it nearer to the goal (breadth first)."""
    n_states = choice.size
    seen = np.zeros(n_states, np.bool_)
    queue = np.empty(n_states, np.int64)
    queue[0] = goal
    seen[goal] = True
    read, filled = 0, 1
    while read < filled:
        s = queue[read]
        read += 1
        for k in range(offsets[s], offsets[s + 1]):
            source = states[pairs[k]]
            if not seen[source]:
                seen[source] = True
                choice[source] = pairs[k]
                queue[filled] = source
                filled += 1


@jit
def hitting_times_of_policy(model: Any, choice: Any, goal: int, times: Any) -> None:
    """E[steps to the goal] under a policy that reaches it from everywhere."""
    n_states = choice.size
    order = np.arange(n_states)
    order[0], order[goal] = goal, 0
    p, r = chain(model, choice, order, times)
    for j in range(n_states):  # the goal absorbs
        p[0, j] = 0.0
    wait, out = np.ones(n_states), np.empty(n_states)
    reduce_chain(p, r, wait, out)
    times[goal] = 0.0
    for n in range(1, n_states):
        total = wait[n]
        for j in range(1, n):
            total += p[n, j] * times[order[j]]
        times[order[n]] = total / out[n]


@jit
def improve(model: Any, goal: int, choice: Any, times: Any, margin: float) -> int:
    """Switch to actions that are quicker by more than the relative margin; how many did."""
    switched = 0
    for s in range(choice.size):
        best, kept = np.inf, choice[s]
        if s != goal:
            for pair in range(model.starts[s], model.starts[s + 1]):
                y = model.row[pair]
                value = 1.0
                for k in range(model.start[y], model.stop[y]):
                    value += model.probabilities[k] * times[model.successors[k]]
                if value < best and (pair == kept or value < times[s] * (1.0 - margin)):
                    best = value
                    choice[s] = pair
            if choice[s] != kept:
                switched += 1
    return switched


@jit
def times_by_policies(model: Any, goal: int, choice: Any, times: Any) -> bool:
    """Least expected hitting times from a proper policy on."""
    for _ in range(MAX_ITERATIONS):
        hitting_times_of_policy(model, choice, goal, times)
        if improve(model, goal, choice, times, 1e-13) == 0:
            return True
    return False


@jit
def sweep_goal(model: Any, goal: int, choice: Any, times: Any, change: Any) -> Any:
    """change = Th - h for all actions; (smallest, largest)."""
    starts, row, start, stop = model.starts, model.row, model.start, model.stop
    successors, probabilities = model.successors, model.probabilities
    smallest, largest = np.inf, -np.inf
    for s in range(times.size):
        if s == goal:
            change[s] = 0.0
            continue
        found, best = np.inf, 0
        for pair in range(starts[s], starts[s + 1]):
            y = row[pair]
            value = 1.0
            for k in range(start[y], stop[y]):
                value += probabilities[k] * times[successors[k]]
            best = pair if value < found else best
            found = value if value < found else found
        choice[s] = best
        change[s] = found - times[s]
        smallest, largest = min(smallest, change[s]), max(largest, change[s])
    return smallest, largest


@jit
def sweep_goal_policy(model: Any, goal: int, choice: Any, times: Any, change: Any) -> float:
    """change = T_π h - h, applied; returns the sum of the changes."""
    row, start, stop = model.row, model.start, model.stop
    successors, probabilities = model.successors, model.probabilities
    total = 0.0
    for s in range(times.size):
        if s != goal:
            y = row[choice[s]]
            value = 1.0
            for k in range(start[y], stop[y]):
                value += probabilities[k] * times[successors[k]]
            change[s] = value - times[s]
            total += change[s]
    for s in range(times.size):
        times[s] += change[s]
    return total


@jit
def times_by_values(model: Any, goal: int, choice: Any, times: Any, tolerance: float) -> bool:
    """Least expected hitting times by extrapolated value iteration; False where it stalls."""
    change = np.zeros(times.size)
    times[goal] = 0.0
    for _ in range(MAX_ROUNDS):
        smallest, largest = sweep_goal(model, goal, choice, times, change)
        if -tolerance / 4.0 <= smallest and largest <= tolerance / 4.0:
            return True
        before = 0.0
        for s in range(times.size):
            times[s] += change[s]
            before += change[s]
        rate = 0.0
        for _ in range(POLICY_SWEEPS):
            total = sweep_goal_policy(model, goal, choice, times, change)
            rate = total / before if before != 0.0 else 0.0
            before = total
        if 0.0 < rate < 1.0:
            for s in range(times.size):
                times[s] += change[s] * rate / (1.0 - rate)
        for s in range(times.size):  # a bad extrapolation must not leave the feasible side
            if s != goal and times[s] < 1.0:
                times[s] = 1.0
    return False


@entry
def largest_hitting_time(model: Any, few: bool, dense: bool, tolerance: float) -> float:
    """max over goals and states of the least expected hitting time; NaN where a limit was hit."""
    n_states = model.starts.size - 1
    offsets, pairs = predecessors(model)
    states = states_of_pairs(model.starts)
    choice = model.starts[:n_states].copy()
    times = np.ones(n_states)
    largest = 0.0
    for goal in range(n_states):
        done = False
        if not few:
            done = times_by_values(model, goal, choice, times, tolerance)
        if not done and dense:
            proper_policy(goal, choice, offsets, pairs, states)
            done = times_by_policies(model, goal, choice, times)
        if not done:
            return np.nan
        largest = max(largest, times.max())
    return largest


def diameter(mdp: MDP, *, tolerance: float = 1e-9) -> float:
    """The diameter, to this relative tolerance; `inf` where some state can't be reached.

    >>> diameter(MDP([[[0, 1]], [[1, 0]]], [[1], [0]]))
    1.0
    >>> diameter(MDP([[[1, 0]], [[0, 1]]], [[1], [0]]))
    inf
    """
    if not isinstance(mdp, MDP):
        raise InvalidParameter("mdp", mdp, "an MDP")
    if isinstance(tolerance, bool) or not 0.0 < tolerance < 1.0:
        raise InvalidParameter("tolerance", tolerance, "a number strictly between 0 and 1")
    if not is_communicating(mdp):
        return float("inf")
    few, dense = mdp.n_states <= FEW, mdp.n_states <= DENSE
    found = float(largest_hitting_time(mdp.model, few, dense, tolerance))
    if np.isnan(found):
        reason = f"hitting times of {mdp.n_states} states did not converge to {tolerance} relative"
        raise PrecisionNotReached(reason, 1.0, float("inf"))
    return found


def is_communicating(mdp: MDP) -> bool:
    """Whether every state can be reached from every other under some policy.

    >>> is_communicating(MDP([[[0, 1]], [[1, 0]]], [[1], [0]]))
    True
    """
    return communicating(mdp.model)
