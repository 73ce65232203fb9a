"""The diameter D = max_{s ≠ s'} min_π E[steps from s to s'], certified.

For each goal s' the least expected hitting times solve h(s) = 1 + min_a Σ p h, h(s') = 0.

**Few states**: policy iteration, evaluated by state reduction (`evaluation`).

**More states**: value iteration, an improving sweep and then some sweeps over its policy. The slow
mode is that all states wait for the same rare event: then h is too small by a common factor, and if
m <= Th - h <= M, h/(1 - (m+M)/2) is close to the solution at once. If this scaling makes it worse,
it is switched off. If value iteration still does not converge, policy iteration takes over.

**More than 2000 states**: value iteration for several goals at once, and precisely only for those
that decide (`large_diameter`).

**Certificate**. Let v(s,a) = Σ p (h(s) - h'), which is 1 for h* and its best actions. For any h > 0
off the goal,

    B <= max_a v(s,a) <= A  for all s, B > 0,   implies   h/A <= h* <= h/B :

h/A is at most 1 + Σ p h'/A for every action, so it is below the hitting times of every policy, and
h/B is at least 1 + Σ p h'/B for the actions with the largest v, so that they reach the goal within
h/B steps. Rounding errors of v are added to A and taken from B, or, where they are large because h
is, allowed for by a relative error of the probabilities (`wide`). So the bracket holds however h
was computed. Goals for which it is too wide are solved again in numbers that can't overflow
(`wide_iteration`). If it is still too wide, `PrecisionNotReached` is raised.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from switchmdp.compiled import entry, jit
from switchmdp.errors import InvalidParameter, PrecisionNotReached
from switchmdp.mdp import MDP
from switchmdp.mdp.graph import lead_to, predecessors
from switchmdp.planning.evaluation import chain, reduce_chain
from switchmdp.planning.large_diameter import BEYOND, hitting_times_that_decide
from switchmdp.planning.wide import LARGEST, UNIT
from switchmdp.planning.wide_iteration import SLACK, wide_hitting_time, widening
from switchmdp.validation import check_probability

FEW = 128
DENSE = 2000
MAX_ROUNDS = 400
POLICY_SWEEPS = 6
MAX_ITERATIONS = 1000


@jit
def hitting_times_of_policy(model: Any, choice: Any, goal: int, times: Any) -> bool:
    """E[steps to the goal] under a policy that reaches it; False where doubles can't hold them."""
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
        if not (total < BEYOND and out[n] > 0.0):
            return False
        times[order[n]] = total / out[n]
    return True


@jit
def detour(model: Any, pair: int, s: int, times: Any) -> Any:
    """(1 + Σ p (h' - h(s)), its error): what an action costs more than h(s) says.

    The sum's rounding error is as in `iteration.certify`; that of h(s) itself adds u h(s).
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
    """(switched, shortfall): switch to actions that are quicker beyond doubt.

    `shortfall` is the most by which another action might still be quicker.
    """
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
        if not hitting_times_of_policy(model, choice, goal, times):
            return False
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
        least, best = np.inf, 0
        for pair in range(starts[s], starts[s + 1]):
            y = row[pair]
            value = 1.0
            for k in range(start[y], stop[y]):
                value += probabilities[k] * times[successors[k]]
            best = pair if value < least else best
            least = value if value < least else least
        choice[s] = best
        change[s] = least - times[s]
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
        if worst > 4.0 * before:  # on a ring, for example, there is no common factor
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


@jit
def certified_times(model: Any, goal: int, times: Any, tolerance: float) -> Any:
    """(lower, upper) of the largest of the least expected hitting times, from any `times`."""
    n_states = times.size
    slack = SLACK * tolerance / n_states
    least, most, least_slack, most_slack = np.inf, -np.inf, np.inf, -np.inf
    longest = 0.0
    for s in range(n_states):
        if s == goal:
            continue
        if not 0.0 < times[s] < BEYOND:
            return 1.0, np.inf
        longest = max(longest, times[s])
        sure, sure_slack = -np.inf, -np.inf
        for pair in range(model.starts[s], model.starts[s + 1]):
            y = model.row[pair]
            value, size = 0.0, 0.0
            for k in range(model.start[y], model.stop[y]):
                term = model.probabilities[k] * (times[s] - times[model.successors[k]])
                value += term
                size += abs(term)
            error = (3 * (model.stop[y] - model.start[y]) + 12) * UNIT * size + 1e-300
            sure, most = max(sure, value - error), max(most, value + error)
            sure_slack = max(sure_slack, value - error + slack * size)
            most_slack = max(most_slack, value + error - slack * size)
        least, least_slack = min(least, sure), min(least_slack, sure_slack)
    # Bounds of v on the far side of 1 would only exclude the estimate itself.
    lower, upper = longest / max(most, 1.0), np.inf
    spread = widening(slack, n_states)
    lower = max(lower, longest / max(most_slack, 1.0) * (1.0 - spread))
    if least > 0.0:
        upper = longest / min(least, 1.0)
    if least_slack > 0.0:
        upper = min(upper, longest / min(least_slack, 1.0) * (1.0 + spread))
    return max(1.0, lower * (1.0 - 16.0 * UNIT)), upper * (1.0 + 16.0 * UNIT)


@entry
def largest_hitting_times(model: Any, few: bool, tolerance: float) -> Any:
    """For each goal (estimate, lower, upper) of the largest of the least expected hitting times.

    With `few` states, value iteration is not tried.
    """
    n_states = model.starts.size - 1
    before = predecessors(model)
    choice = model.starts[:n_states].copy()
    times = np.ones(n_states)
    results = np.empty((n_states, 3))
    for goal in range(n_states):
        if few or not times_by_values(model, goal, choice, times, tolerance):
            lead_to(goal, choice, before)
            times_by_policies(model, goal, choice, times, tolerance)
        lower, upper = certified_times(model, goal, times, tolerance)
        results[goal, 0], results[goal, 1], results[goal, 2] = times.max(), lower, upper
        if not upper < np.inf:  # not a good start for the next goal
            for s in range(n_states):
                times[s] = 1.0
    return results


class Diameter(float):
    """A diameter with its certified bracket: lower <= D <= upper.

    >>> d = Diameter(2.0, 1.5, 2.5)
    >>> d, d.lower, d.upper, d + 1
    (2.0, 1.5, 2.5, 3.0)
    """

    __slots__ = ("lower", "upper")

    lower: float
    upper: float

    def __new__(cls, value: float, lower: float, upper: float) -> Diameter:
        """The estimate and the bracket that it is in."""
        made = super().__new__(cls, value)
        made.lower, made.upper = float(lower), float(upper)
        return made

    def __getnewargs__(self) -> tuple[float, float, float]:  # type: ignore[override]
        """What copies and pickles are made from."""
        return float(self), self.lower, self.upper


def diameter(mdp: MDP, *, tolerance: float = 1e-9) -> Diameter:
    """The diameter, to this relative tolerance; `inf` if some state can't be reached.

    The result is a float that carries a bracket [lower, upper], which holds in exact arithmetic and
    is no wider than `tolerance` times lower. Where that can't be certified, for example because the
    diameter is beyond 1.8e308, raises `PrecisionNotReached` with the bracket that was reached.

    >>> diameter(MDP([[[0, 1]], [[1, 0]]], [[1], [0]]))
    1.0
    >>> d = diameter(MDP([[[0.9, 0.1]], [[0.1, 0.9]]], [[1], [0]]))
    >>> d.lower <= 10.0 <= d.upper <= d.lower * (1 + 1e-9)
    True
    >>> diameter(MDP([[[1, 0]], [[0, 1]]], [[1], [0]]))
    inf
    """
    if not isinstance(mdp, MDP):
        raise InvalidParameter("mdp", mdp, "an MDP")
    tolerance = check_probability("tolerance", tolerance)
    if mdp.n_states == 1:
        return Diameter(0.0, 0.0, 0.0)
    if not is_communicating(mdp):
        return Diameter(np.inf, np.inf, np.inf)
    if mdp.n_states > DENSE:
        results = hitting_times_that_decide(mdp.model, tolerance)
    else:
        results = largest_hitting_times(mdp.model, mdp.n_states <= FEW, tolerance)
        _solve_again(mdp, results, tolerance)
    value, lower, upper = results.max(axis=0).tolist()
    if not upper - lower <= tolerance * lower:
        reason = f"the diameter of {mdp.n_states} states "
        if lower == LARGEST:
            reason += "is larger than every double"
        else:
            reason += f"could not be certified to {tolerance} relative"
        raise PrecisionNotReached(reason, lower, upper)
    return Diameter(value, lower, upper)


def _solve_again(mdp: MDP, results: NDArray[np.float64], tolerance: float) -> None:
    """Narrow the brackets that decide about the diameter and are too wide, the widest first."""
    estimate, lower, upper = results.T
    for goal in np.argsort(-upper, kind="stable").tolist():
        within = float(lower.max()) * (1.0 + tolerance / 2.0)
        if upper[goal] - lower[goal] <= tolerance * lower[goal] or upper[goal] <= within:
            continue
        again, low, high = wide_hitting_time(mdp.model, goal, tolerance)
        lower[goal], upper[goal] = max(lower[goal], low), min(upper[goal], high)
        if not lower[goal] <= estimate[goal] <= upper[goal]:
            estimate[goal] = again


def is_communicating(mdp: MDP) -> bool:
    """Whether every state can be reached from every other under some policy.

    >>> is_communicating(MDP([[[0, 1]], [[1, 0]]], [[1], [0]]))
    True
    """
    if not isinstance(mdp, MDP):
        raise InvalidParameter("mdp", mdp, "an MDP")
    return mdp.unconnected is None
