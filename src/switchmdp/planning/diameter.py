"""The diameter D = max_{s ≠ s'} min_π E[steps from s to s'], and who can reach whom.

For each goal s' the least expected hitting times solve h(s) = 1 + min_a Σ p h, h(s') = 0.

**Few states**: policy iteration, evaluated by state reduction (`evaluation`): no subtraction, so
the relative error is of the order of rounding, whatever the diameter.

**Many states**: value iteration, an improving sweep and then some over the policy found. For any
h > 0 off the goal,

    m <= Th - h <= M < 1   implies   h/(1-m) <= h* <= h/(1-M),

which says when to stop, and how to speed up: the slow mode is that all wait for the same rare
event, so that all of h is too small by a common factor, and h/(1 - (m+M)/2) is about right at once.
Where that makes it worse it is left off, and where even that does not converge, policy iteration
takes over.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from switchmdp.compiled import entry, jit
from switchmdp.errors import InvalidParameter, PrecisionNotReached
from switchmdp.mdp import MDP
from switchmdp.mdp.graph import lead_to, predecessors, states_of_pairs
from switchmdp.mdp.pairs import probability
from switchmdp.planning.bellman import UNIT
from switchmdp.planning.evaluation import chain, reduce_chain

FEW = 128
DENSE = 2000
MAX_ROUNDS = 400
POLICY_SWEEPS = 6
MAX_ITERATIONS = 1000


@jit
def proper_policy(goal: int, choice: Any, offsets: Any, pairs: Any, states: Any) -> None:
    """Give every state an action that may bring it nearer to the goal."""
    seen, order = np.zeros(choice.size, np.bool_), np.empty(choice.size, np.int64)
    order[0] = goal
    seen[goal] = True
    lead_to(order, 1, seen, choice, offsets, pairs, states)


@jit
def hitting_times_of_policy(model: Any, choice: Any, goal: int, times: Any) -> None:
    """E[steps to the goal] under a policy that reaches it from everywhere."""
    n_states = choice.size
    order = np.arange(n_states)
    order[0], order[goal] = goal, 0
    p, r = chain(model, choice, order, times)
    wait, out = np.ones(n_states), np.empty(n_states)
    reduce_chain(p, r, wait, out)
    times[goal] = 0.0
    for n in range(1, n_states):
        total = wait[n]
        for j in range(1, n):
            total += p[n, j] * times[order[j]]
        times[order[n]] = total / out[n]


@jit
def detour(model: Any, pair: int, s: int, times: Any) -> Any:
    """(1 + Σ p (h' - h(s)), its error): what an action costs more than h(s) says.

    The sum's rounding error is as in `bellman`; that of h(s) itself adds u h(s).
    """
    y = model.row[pair]
    value, size = 1.0, 1.0
    for k in range(model.start[y], model.stop[y]):
        term = model.probabilities[k] * (times[model.successors[k]] - times[s])
        value += term
        size += abs(term)
    return value, UNIT * ((2 * (model.stop[y] - model.start[y]) + 8) * size + times[s])


@jit
def improve(model: Any, goal: int, choice: Any, times: Any) -> Any:
    """(switched, shortfall): switch to what is surely quicker; by how much others might be."""
    switched, shortfall = 0, 0.0
    for s in range(choice.size):
        if s == goal:
            continue
        kept, kept_error = detour(model, choice[s], s, times)
        pick, best, best_error = choice[s], kept, kept_error
        for pair in range(model.starts[s], model.starts[s + 1]):
            value, error = detour(model, pair, s, times)
            if pair != choice[s]:
                shortfall = max(shortfall, error - value)
            if value < best:
                pick, best, best_error = pair, value, error
        if best + best_error < kept - kept_error:
            choice[s] = pick
            switched += 1
    return switched, shortfall


@jit
def times_by_policies(model: Any, goal: int, choice: Any, times: Any, tolerance: float) -> bool:
    """Least expected hitting times from a proper policy on; False where rounding hides them."""
    for _ in range(MAX_ITERATIONS):
        hitting_times_of_policy(model, choice, goal, times)
        switched, shortfall = improve(model, goal, choice, times)
        if switched == 0:
            return bool(shortfall <= tolerance)
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
def sweep_goal_policy(model: Any, goal: int, choice: Any, times: Any, change: Any) -> None:
    """h ← T_π h."""
    row, start, stop = model.row, model.start, model.stop
    successors, probabilities = model.successors, model.probabilities
    for s in range(times.size):
        if s != goal:
            y = row[choice[s]]
            value = 1.0
            for k in range(start[y], stop[y]):
                value += probabilities[k] * times[successors[k]]
            change[s] = value
    for s in range(times.size):
        if s != goal:
            times[s] = change[s]


@jit
def times_by_values(model: Any, goal: int, choice: Any, times: Any, tolerance: float) -> bool:
    """Least expected hitting times by scaled value iteration; False where it stalls."""
    change = np.zeros(times.size)
    times[goal] = 0.0
    scaling, before = True, np.inf
    for _ in range(MAX_ROUNDS + 2 * times.size):
        smallest, largest = sweep_goal(model, goal, choice, times, change)
        worst = max(-smallest, largest)
        if worst <= tolerance / 4.0:
            return bool(times.max() * 4.0 * UNIT <= tolerance / 4.0)
        if worst > 4.0 * before:  # on a ring, say, nothing is common to all states
            scaling = False
        before = worst
        middle = (smallest + largest) / 2.0
        for s in range(times.size):
            times[s] += change[s]
        if scaling and middle < 0.9:
            for s in range(times.size):
                times[s] /= 1.0 - middle
        for _ in range(POLICY_SWEEPS):
            sweep_goal_policy(model, goal, choice, times, change)
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
            done = times_by_policies(model, goal, choice, times, tolerance)
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
    tolerance = probability("tolerance", tolerance)
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
    if not isinstance(mdp, MDP):
        raise InvalidParameter("mdp", mdp, "an MDP")
    return mdp.unconnected is None
