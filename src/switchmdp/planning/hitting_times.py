"""Least expected hitting times with a certificate: how soon each state can reach a goal.

For a goal g the least expected hitting times solve h(s) = 1 + min_a Σ p h, h(g) = 0. The diameter
is the largest of them over all states and goals.

**Few states**: policy iteration, evaluated by state reduction (`iteration`).

**More states**: value iteration, in rounds of one sweep over all actions and some sweeps over the
greedy policy. It converges slowly if all states wait for the same rare event. Then h is too small
by a common factor, and if m <= Th - h <= M, h/(1 - (m+M)/2) is close to the solution. This scaling
is switched off if it makes h worse. If value iteration does not converge, policy iteration takes
over.

**More than 2000 states**: value iteration for a batch of goals at once. The numbers of a state for
all goals are adjacent in memory, so a transition is looked up once for the whole batch, and the
processor works on several goals with one instruction. With hitting times of 10¹⁰, doubles cannot
represent the differences of neighbours, which are about 1. So this iteration stores
d(s) = C - h(s) >= 0, where C = d(g) is the largest time: far from the goal, d is small and precise.
In these terms

    v(s) = max_a Σ p (d' - d(s)) = 1    for all s but the goal .

Each sweep ends with d ← (Td - min Td) / mean(v), Td(s) = max_a Σ p d', which is h ← Th / mean(v).
If h starts equal everywhere, the first of these factors already has the right size. If the
iteration does not converge, as on a ring, it is repeated without the factor.

*Which goals matter.* A goal whose times are below the largest lower bound so far does not matter
for the diameter, however wide its bracket is. So all goals are first solved roughly, which excludes
most of them. Only the others are solved to the tolerance, those with the largest times first.

**Certificate.** Let v(s,a) = Σ p (h(s) - h'), which is 1 for h* and its best actions. For any h > 0
off the goal,

    B <= max_a v(s,a) <= A  for all s, B > 0,   implies   h/A <= h* <= h/B :

h/A is at most 1 + Σ p h'/A for every action, so it is below the hitting times of every policy, and
h/B is at least 1 + Σ p h'/B for the actions with the largest v, so that they reach the goal within
h/B steps. Rounding errors of v are added to A and subtracted from B. If they are large because h
is, they are treated as a relative error of the probabilities instead (`wide`). So the bracket holds
however h was computed. If it is too wide, the goal is solved again in numbers that cannot overflow
(`wide_iteration`).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from switchmdp.compiled import entry, index, jit
from switchmdp.mdp.model import Model, lead_to, predecessors
from switchmdp.planning.iteration import chain, reduce_chain
from switchmdp.planning.wide import UNIT
from switchmdp.planning.wide_iteration import SLACK, wide_hitting_time, widening

FEW = 128  # states
DENSE = 2000  # states
BEYOND = 1e300  # larger hitting times are left to numbers with more range


def largest_hitting_times(model: Model, tolerance: float) -> NDArray[np.float64]:
    """For each goal (estimate, lower, upper) of the largest of the least expected hitting times.

    The brackets are narrow for those goals that decide about the diameter, if that is possible.
    """
    n_states = len(model.starts) - 1
    if n_states > DENSE:
        return hitting_times_that_decide(model, tolerance)
    results: NDArray[np.float64] = solve_each_goal(model, n_states <= FEW, tolerance)
    _solve_again(model, results, tolerance)
    return results


def _solve_again(model: Model, results: NDArray[np.float64], tolerance: float) -> None:
    """Narrow the brackets that decide about the diameter and are too wide, the widest first."""
    estimate, lower, upper = results.T
    for goal in np.argsort(-upper, kind="stable").tolist():
        within = float(lower.max()) * (1.0 + tolerance / 2.0)
        if upper[goal] - lower[goal] <= tolerance * lower[goal] or upper[goal] <= within:
            continue
        again, low, high = wide_hitting_time(model, goal, tolerance)
        lower[goal], upper[goal] = max(lower[goal], low), min(upper[goal], high)
        if not lower[goal] <= estimate[goal] <= upper[goal]:
            estimate[goal] = again


# The certificate.


@jit
def certify_goals(
    model: Any, goals: Any, saved: Any, tolerance: float, lower: Any, upper: Any
) -> None:
    """The bracket of the largest of the least expected hitting times of each goal.

    Row s of `saved` has the savings of state s for each goal, those of the goal itself being C. The
    bracket is that of h = C - d in exact arithmetic.
    """
    starts, row, start, stop = model.starts, model.row, model.start, model.stop
    successors, probabilities = model.successors, model.probabilities
    n_states, batch = saved.shape
    slack = SLACK * tolerance / n_states
    sums, sizes = np.empty(batch), np.empty(batch)
    sure, sure_slack = np.empty(batch), np.empty(batch)
    least, most = np.full(batch, np.inf), np.full(batch, -np.inf)
    least_slack, most_slack = np.full(batch, np.inf), np.full(batch, -np.inf)
    smallest, largest = np.full(batch, np.inf), np.full(batch, -np.inf)
    for s in range(n_states):
        for j in range(batch):
            sure[index(j)], sure_slack[index(j)] = -np.inf, -np.inf
        for pair in range(index(starts[index(s)]), index(starts[index(s + 1)])):
            y = index(row[pair])
            for j in range(batch):
                sums[index(j)], sizes[index(j)] = 0.0, 0.0
            for k in range(index(start[y]), index(stop[y])):
                p, target = probabilities[k], index(successors[k])
                for j in range(batch):
                    term = p * (saved[target, index(j)] - saved[index(s), index(j)])
                    sums[index(j)] += term
                    sizes[index(j)] += abs(term)
            scale = (3 * (stop[y] - start[y]) + 12) * UNIT
            for j in range(batch):
                value, size = sums[index(j)], sizes[index(j)]
                error = scale * size + 1e-300
                sure[index(j)] = max(sure[index(j)], value - error)
                sure_slack[index(j)] = max(sure_slack[index(j)], value - error + slack * size)
                if goals[index(j)] != s:
                    most[index(j)] = max(most[index(j)], value + error)
                    most_slack[index(j)] = max(most_slack[index(j)], value + error - slack * size)
        for j in range(batch):
            if goals[index(j)] != s:
                least[index(j)] = min(least[index(j)], sure[index(j)])
                least_slack[index(j)] = min(least_slack[index(j)], sure_slack[index(j)])
                smallest[index(j)] = min(smallest[index(j)], saved[index(s), index(j)])
                largest[index(j)] = max(largest[index(j)], saved[index(s), index(j)])
    spread = widening(slack, n_states)
    for j in range(batch):
        lower[j], upper[j] = 1.0, np.inf
        top = saved[goals[j], j]
        if not (largest[j] < top < BEYOND and smallest[j] > -BEYOND):  # some h is not positive
            continue
        longest = top - smallest[j]
        # Bounds of v on the far side of 1 would only exclude the estimate itself.
        low = longest / max(most[j], 1.0)
        low = max(low, longest / max(most_slack[j], 1.0) * (1.0 - spread))
        lower[j] = max(1.0, low * (1.0 - 16.0 * UNIT))
        high = np.inf
        if least[j] > 0.0:
            high = longest / min(least[j], 1.0)
        if least_slack[j] > 0.0:
            high = min(high, longest / min(least_slack[j], 1.0) * (1.0 + spread))
        upper[j] = high * (1.0 + 16.0 * UNIT)


# One goal.


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
    """The value 1 + Σ p (h' - h(s)) of an action, and a bound on its error.

    The rounding error of the sum is as in `iteration.certify`; that of h(s) itself adds u h(s).
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
    """Switch to actions that are certainly quicker; returns (switched, shortfall).

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
    """Least expected hitting times, from a proper policy on; False if rounding is too large."""
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
    """Least expected hitting times by scaled value iteration; False if it converges too slowly."""
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
def are_hitting_times(times: Any, goal: int) -> bool:
    """Whether times are positive and within range, except that of the goal."""
    inside = 0
    for s in range(times.size):
        inside += s == goal or 0.0 < times[s] < BEYOND
    return bool(inside == times.size)


@entry
def solve_each_goal(model: Any, few: bool, tolerance: float) -> Any:
    """For each goal (estimate, lower, upper) of the largest of the least expected hitting times.

    With `few` states, value iteration is not tried.
    """
    n_states = model.starts.size - 1
    before = predecessors(model)
    choice = model.starts[:n_states].copy()
    times, saved = np.ones(n_states), np.empty((n_states, 1))
    goals, lower, upper = np.empty(1, np.int64), np.empty(1), np.empty(1)
    results = np.empty((n_states, 3))
    for goal in range(n_states):
        if few or not times_by_values(model, goal, choice, times, tolerance):
            lead_to(goal, choice, before)
            times_by_policies(model, goal, choice, times, tolerance)
        lower[0], upper[0], goals[0] = 1.0, np.inf, goal
        if are_hitting_times(times, goal):
            for s in range(n_states):
                saved[s, 0] = -times[s]  # savings with C = 0
            certify_goals(model, goals, saved, tolerance, lower, upper)
        results[goal, 0], results[goal, 1], results[goal, 2] = times.max(), lower[0], upper[0]
        if not upper[0] < np.inf:  # not a good start for the next goal
            for s in range(n_states):
                times[s] = 1.0
    return results


# A batch of goals.


BATCH = 8  # goals
ROUGHLY = 0.2  # relative, of the first solution of a goal
FEW_SWEEPS, MOST_SWEEPS = 100, 1000
SCALED_SWEEPS = 500  # after these the common factor is left out
SURELY = 0.99  # allows for rounding; only the certificate counts


@jit
def sweep_goals(
    model: Any, goals: Any, saved: Any, updated: Any, least: Any, most: Any, mean: Any, lowest: Any
) -> None:
    """updated = Td of every goal; the least, most and mean v, and the lowest Td.

    Row s of `saved` and `updated` belongs to state s, and has one entry for each goal. The least
    and the most v allow for rounding, in favour of an end.
    """
    starts, row, start, stop = model.starts, model.row, model.start, model.stop
    successors, probabilities = model.successors, model.probabilities
    sums, best = np.empty(BATCH), np.empty(BATCH)
    for j in range(BATCH):
        least[j], most[j], mean[j], lowest[j] = np.inf, -np.inf, 0.0, np.inf
    for s in range(saved.shape[0]):
        for j in range(BATCH):
            best[index(j)] = -np.inf
        for pair in range(index(starts[index(s)]), index(starts[index(s + 1)])):
            y = index(row[pair])
            for j in range(BATCH):
                sums[index(j)] = 0.0
            for k in range(index(start[y]), index(stop[y])):
                p, target = probabilities[k], index(successors[k])
                for j in range(BATCH):
                    sums[index(j)] += p * saved[target, index(j)]
            for j in range(BATCH):
                best[index(j)] = max(best[index(j)], sums[index(j)])
        for j in range(BATCH):
            here, there = saved[index(s), index(j)], best[index(j)]
            updated[index(s), index(j)] = there
            if goals[index(j)] != s:
                v, doubt = there - here, 32.0 * UNIT * there
                least[index(j)] = min(least[index(j)], v + doubt)
                most[index(j)] = max(most[index(j)], v - doubt)
                lowest[index(j)] = min(lowest[index(j)], there)
                mean[index(j)] += v
    for j in range(BATCH):
        mean[j] /= saved.shape[0] - 1


@jit
def iterate_goals(
    model: Any, goals: Any, saved: Any, updated: Any, tolerance: float, budget: int, reached: float
) -> None:
    """Value iteration for a batch of goals.

    To a relative tolerance, or until a goal's times are below `reached`.
    """
    n_states = saved.shape[0]
    least, most, mean = np.empty(BATCH), np.empty(BATCH), np.empty(BATCH)
    lowest, factor = np.empty(BATCH), np.ones(BATCH)
    for s in range(n_states):
        for j in range(BATCH):
            saved[index(s), index(j)] = float(n_states) if goals[index(j)] == s else 0.0
    for sweep in range(budget):
        sweep_goals(model, goals, saved, updated, least, most, mean, lowest)
        settled = 0
        for j in range(BATCH):
            precise = most[j] - least[j] <= tolerance / 4.0 * least[j]
            below = saved[goals[j], j] < SURELY * reached * least[j]
            settled += least[j] > 0.0 and (precise or below)
            factor[j] = 1.0 / mean[j] if mean[j] > 0.0 and sweep < SCALED_SWEEPS else 1.0
            updated[goals[j], j] = saved[goals[j], j] + 1.0
        if settled == BATCH:
            for j in range(BATCH):  # the same times, with v around 1
                factor[j] = 2.0 / (least[j] + most[j])
            for s in range(n_states):
                for j in range(BATCH):
                    saved[index(s), index(j)] *= factor[index(j)]
            return
        for s in range(n_states):
            for j in range(BATCH):
                left = updated[index(s), index(j)] - lowest[index(j)]
                saved[index(s), index(j)] = left * factor[index(j)]


@entry
def solve_goals(
    model: Any, wanted: Any, tolerance: float, budget: int, reached: float, results: Any
) -> None:
    """Write (estimate, lower, upper) of these goals.

    Goals are not solved further than needed to show that their times are below `reached`, or below
    the lower bound of another of them.
    """
    n_states = model.starts.size - 1
    saved, updated = np.empty((n_states, BATCH)), np.empty((n_states, BATCH))
    goals = np.empty(BATCH, np.int64)
    lower, upper = np.empty(BATCH), np.empty(BATCH)
    for first in range(0, wanted.size, BATCH):
        for j in range(BATCH):  # the last batch repeats its last goal
            goals[j] = wanted[min(first + j, wanted.size - 1)]
        iterate_goals(model, goals, saved, updated, tolerance, budget, reached)
        certify_goals(model, goals, saved, tolerance, lower, upper)
        for j in range(BATCH):
            estimate = saved[goals[j], j]
            results[goals[j], 0] = estimate if lower[j] <= estimate <= upper[j] else lower[j]
            results[goals[j], 1], results[goals[j], 2] = lower[j], upper[j]
            reached = max(reached, lower[j])


def hitting_times_that_decide(model: Model, tolerance: float) -> NDArray[np.float64]:
    """For each goal (estimate, lower, upper), precise for those that decide about the diameter.

    Stops at the first of these for which the bracket remains too wide.
    """
    n_states = len(model.starts) - 1
    results = np.tile([1.0, 1.0, np.inf], (n_states, 1))
    solve_goals(model, np.arange(n_states), max(ROUGHLY, tolerance), FEW_SWEEPS, 1.0, results)
    budget = MOST_SWEEPS + 2 * n_states
    while True:
        _, lower, upper = results.T
        reached = float(lower.max())
        wide = upper - lower > tolerance * lower
        undecided = np.nonzero(wide & (upper > reached * (1.0 + tolerance / 2.0)))[0]
        if not len(undecided):
            return results
        goals = undecided[np.argsort(-upper[undecided], kind="stable")[:BATCH]]
        solve_goals(model, goals, tolerance, budget, reached, results)
        wide = (upper - lower > tolerance * lower) & (upper > lower.max() * (1.0 + tolerance / 2.0))
        if wide[goals].any():
            return results
