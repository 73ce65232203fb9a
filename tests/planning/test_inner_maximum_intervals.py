"""The inner maximum over intervals, max { Σ p u : low <= p <= high, Σ p = 1 }, min u = 0.

Random cases against linear programming (HiGHS); unvisited states have the bounds 0 and `beyond`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linprog

from switchmdp.mdp.pairs import Pairs
from switchmdp.memory import Counts
from switchmdp.planning.inner_maximum import Ranking

EXACT = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}

Vector = NDArray[np.float64]


class Case(NamedTuple):
    low: Vector
    high: Vector
    seen: NDArray[np.bool_]
    beyond: float
    values: Vector


def draw(rng: np.random.Generator) -> Case:
    """Intervals around a distribution that is 0 for some states."""
    n_states = int(rng.integers(1, 9))
    seen = rng.random(n_states) < rng.choice([0.4, 0.8, 1.0])
    seen[rng.integers(n_states)] = True
    estimate = np.zeros(n_states)
    estimate[seen] = rng.dirichlet(np.ones(seen.sum()))
    wide = rng.choice([0.0, 0.05, 0.5, 2.0])
    low = np.maximum(0.0, estimate - wide * rng.random(n_states)) * seen
    high = np.minimum(1.0, estimate + wide * rng.random(n_states))
    beyond = float(rng.choice([0.0, 0.01, 0.2, 1.0]))
    high[~seen] = beyond
    values = rng.random(n_states) * 10.0 ** rng.integers(-1, 2)
    if rng.random() < 0.4:
        values = rng.integers(0, 4, n_states).astype(np.float64)
    return Case(low, high, seen, beyond, values - values.min())


def by_linear_programming(case: Case) -> float:
    solve: Any = linprog
    bounds = list(zip(case.low, case.high, strict=True))
    ones = np.ones((1, len(case.values)))
    solution = solve(-case.values, A_eq=ones, b_eq=[1.0], bounds=bounds, options=EXACT)
    assert solution.status == 0, solution.message
    return float(case.values @ solution.x)


def inner_maximum(case: Case, full: bool, allowed: int | None = None) -> float:
    """The maximum by `Ranking`, with full rows or with a list of visited states."""
    n_states = len(case.values)
    counts = Counts(Pairs.of(n_states, 1))
    where = np.arange(n_states) if full else np.random.default_rng(0).permutation(n_states)
    counts.full, counts.target = full, where.astype(np.uint32)
    counts.count = case.seen[where].astype(np.int64)
    counts.offset, counts.used = np.zeros(1, np.int64), np.array([n_states])
    ranking = Ranking(n_states)
    ranking.arrange(case.values)
    n, total = ranking.gather(counts, 0, case.low[where], case.high[where])
    left = 1.0 - case.low.sum()
    allowed = n_states if allowed is None else allowed
    return total + ranking.inside(n, left, case.beyond, allowed)


def test_a_thousand_inner_maxima_are_those_of_linear_programming() -> None:
    rng = np.random.default_rng(3)
    for _ in range(1000):
        case = draw(rng)
        expected = by_linear_programming(case)
        tolerance = 1e-12 * max(1.0, case.values.max())
        for full in (True, False):
            assert abs(inner_maximum(case, full) - expected) <= tolerance, (case, full)


def test_the_remaining_mass_goes_to_the_best_states_first() -> None:
    seen = np.array([True, True, True, False])
    case = Case(
        np.array([0.25, 0.25, 0.0, 0.0]), np.array([0.5, 0.5, 0.5, 0.125]), seen, 0.125,
        np.array([0.0, 1.0, 2.0, 4.0]),
    )  # fmt: skip
    # 1/4 + 1/4 lie below; of the half that is left 1/8 fits on top, and 3/8 on the next.
    assert inner_maximum(case, True) == 0.25 * 1.0 + 0.125 * 4.0 + 0.375 * 2.0


def test_only_the_best_unvisited_states_may_get_mass() -> None:
    seen = np.array([True, False, False, False])
    high = np.array([1.0, 0.25, 0.25, 0.25])
    case = Case(np.zeros(4), high, seen, 0.25, np.array([0.0, 1.0, 2.0, 4.0]))
    maxima = [inner_maximum(case, full, m) for full in (True, False) for m in range(4)]
    assert maxima == [0.0, 1.0, 1.5, 1.75] * 2


def test_mass_beyond_the_upper_bounds_matches_linear_programming() -> None:
    rng = np.random.default_rng(4)
    for _ in range(300):
        case = draw(rng)
        ranking, n_states = Ranking(len(case.values)), len(case.values)
        ranking.arrange(case.values)
        seen = np.sort(ranking.rank[case.seen])
        ranking.places[: len(seen)] = seen
        unseen = np.sort(case.values[~case.seen])[::-1]
        for skipped in range(n_states):
            rest, capacity, expected = unseen[skipped:], 1.0, 0.0
            for value in rest:
                expected += min(case.beyond, capacity) * value
                capacity -= min(case.beyond, capacity)
            actual = ranking.outside(len(seen), case.beyond, skipped)
            assert abs(actual - expected) <= 1e-12 * max(1.0, case.values.max())


def test_many_states_are_sorted_like_few_states() -> None:
    rng = np.random.default_rng(5)
    values = rng.integers(0, 9, 200).astype(np.float64)
    ranking = Ranking(200)
    ranking.arrange(values)
    assert ranking.order.tolist() == sorted(range(200), key=lambda s: (values[s], s))
    assert np.array_equal(ranking.ranked, np.sort(values)[::-1])
    assert np.array_equal(ranking.sums, np.concatenate([[0.0], np.cumsum(ranking.ranked)]))
