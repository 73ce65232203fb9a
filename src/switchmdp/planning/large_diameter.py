"""Largest hitting times of many states, for several goals at once.

The goals of one batch are solved side by side: the numbers of a state for all of them are
neighbours in memory, so that a transition is looked up once for the whole batch, and the processor
works on several goals with one instruction.

**Savings.** With hitting times of 10¹⁰, doubles can't hold the differences of neighbours, which are
about 1. So the iteration works with the savings d(s) = C - h(s) >= 0, where C = d(goal) is the
largest time: far from the goal, d is small and precise. In these terms

    v(s) = max_a Σ p (d' - d(s)) = 1    for all s but the goal .

**Value iteration.** As `diameter` explains, the slow mode is that h is wrong by a common factor.
Each sweep ends with d ← (Td - min Td) / mean(v), Td(s) = max_a Σ p d', which is h ← Th / mean(v).
From the same h everywhere, the first of these factors is already of the right size. If that does
not converge, as on a ring, the factor is left out.

**Which goals matter.** The diameter is the largest hitting time of all goals. A goal whose times
are below the largest lower bound so far is settled, however wide its bracket is. So all goals are
first solved roughly, most of them are settled at once, and only the others are solved to the
tolerance, those with the largest times first.

**Certificate**: as in `diameter`, B <= v <= A implies h/A <= h* <= h/B, with the same allowances
for rounding.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from switchmdp.compiled import entry, index, jit
from switchmdp.mdp.model import Model
from switchmdp.planning.wide import UNIT
from switchmdp.planning.wide_iteration import SLACK, widening

BATCH = 8  # goals
ROUGHLY = 0.2  # relative, of the first solution of a goal
FEW_SWEEPS, MOST_SWEEPS = 100, 1000
SCALED_SWEEPS = 500  # after these the common factor is left out
SURELY = 0.99  # allows for rounding; only the certificate counts
BEYOND = 1e300  # larger hitting times are left to numbers with more range


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
def certify_goals(
    model: Any, goals: Any, saved: Any, tolerance: float, lower: Any, upper: Any
) -> None:
    """The bracket of the largest of the least expected hitting times of each goal.

    As `diameter.certified_times`, where h is what C - d is in exact arithmetic.
    """
    starts, row, start, stop = model.starts, model.row, model.start, model.stop
    successors, probabilities = model.successors, model.probabilities
    n_states = saved.shape[0]
    slack = SLACK * tolerance / n_states
    sums, sizes = np.empty(BATCH), np.empty(BATCH)
    sure, sure_slack = np.empty(BATCH), np.empty(BATCH)
    least, most = np.full(BATCH, np.inf), np.full(BATCH, -np.inf)
    least_slack, most_slack = np.full(BATCH, np.inf), np.full(BATCH, -np.inf)
    smallest, largest = np.full(BATCH, np.inf), np.full(BATCH, -np.inf)
    for s in range(n_states):
        for j in range(BATCH):
            sure[index(j)], sure_slack[index(j)] = -np.inf, -np.inf
        for pair in range(index(starts[index(s)]), index(starts[index(s + 1)])):
            y = index(row[pair])
            for j in range(BATCH):
                sums[index(j)], sizes[index(j)] = 0.0, 0.0
            for k in range(index(start[y]), index(stop[y])):
                p, target = probabilities[k], index(successors[k])
                for j in range(BATCH):
                    term = p * (saved[target, index(j)] - saved[index(s), index(j)])
                    sums[index(j)] += term
                    sizes[index(j)] += abs(term)
            scale = (3 * (stop[y] - start[y]) + 12) * UNIT
            for j in range(BATCH):
                value, size = sums[index(j)], sizes[index(j)]
                error = scale * size + 1e-300
                sure[index(j)] = max(sure[index(j)], value - error)
                sure_slack[index(j)] = max(sure_slack[index(j)], value - error + slack * size)
                if goals[index(j)] != s:
                    most[index(j)] = max(most[index(j)], value + error)
                    most_slack[index(j)] = max(most_slack[index(j)], value + error - slack * size)
        for j in range(BATCH):
            if goals[index(j)] != s:
                least[index(j)] = min(least[index(j)], sure[index(j)])
                least_slack[index(j)] = min(least_slack[index(j)], sure_slack[index(j)])
                smallest[index(j)] = min(smallest[index(j)], saved[index(s), index(j)])
                largest[index(j)] = max(largest[index(j)], saved[index(s), index(j)])
    spread = widening(slack, n_states)
    for j in range(BATCH):
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
