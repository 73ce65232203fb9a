"""The inner maximum of extended value iteration, max { Σ p u : ‖p - p̂‖₁ <= d }.

10 000 random cases against linear programming (HiGHS). With p = p̂ + given - taken the program has
two rows:  Σ given = Σ taken  and  Σ given + Σ taken <= d,  0 <= taken <= p̂.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.optimize import linprog
from scipy.sparse import block_diag, csr_array

from switchmdp.compiled import interpreted, jit
from switchmdp.planning import optimistic_row
from switchmdp.planning.inner_maximum import (
    sort_by_value,
    take_from_full_row,
    value_of_list,
)

EXACT = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}
CASES, AT_ONCE = 10_000, 100

Vector = NDArray[np.float64]


class Case(NamedTuple):
    estimate: Vector
    radius: float
    values: Vector


def draw(rng: np.random.Generator) -> Case:
    """An estimate with or without zeros, values with or without ties, any radius."""
    n_states = int(rng.integers(1, 9))
    if rng.random() < 0.4:  # as counts give them
        visits = int(rng.integers(1, 20))
        estimate = rng.multinomial(visits, rng.dirichlet(np.ones(n_states))) / visits
    else:
        estimate = rng.dirichlet(np.full(n_states, 0.7))
    values = rng.random(n_states) * 10.0 ** rng.integers(-1, 2)
    if rng.random() < 0.4:
        values = rng.integers(0, 4, n_states).astype(np.float64)
    radius = rng.choice([0.0, rng.random() * 0.1, rng.random(), 2.0 * rng.random(), 2.0, 5.0])
    return Case(estimate, float(radius), values)


def best_by_linear_programming(cases: Sequence[Case]) -> Vector:
    blocks, right, balance, cost = [], [], [], []
    bounds: list[tuple[float, float | None]] = []
    for estimate, radius, values in cases:
        ones = np.ones(len(values))
        blocks.append(csr_array(np.concatenate([ones, ones])[None, :]))
        balance.append(csr_array(np.concatenate([ones, -ones])[None, :]))
        right.append(radius)
        cost.append(np.concatenate([-values, values]))
        bounds += [(0.0, None)] * len(values) + [(0.0, p) for p in estimate.tolist()]
    solve: Any = linprog  # its types know neither sparse matrices nor HiGHS's options
    solution = solve(
        np.concatenate(cost), block_diag(blocks, format="csr"), right,
        block_diag(balance, format="csr"), np.zeros(len(cases)), bounds, "highs", options=EXACT,
    )  # fmt: skip
    assert solution.status == 0, solution.message
    best, offset = [], 0
    moved = np.asarray(solution.x)
    for estimate, _, values in cases:
        added, removed = moved[offset : offset + 2 * len(values)].reshape(2, len(values))
        best.append(values @ (estimate + added - removed))
        offset += 2 * len(values)
    return np.array(best)


@jit
def from_a_list(
    values: Any, masses: Any, n: int, best_value: float, best_mass: float, radius: float
) -> float:
    """`value_of_list` as machine code calls it."""
    return value_of_list(values, masses, n, best_value, best_mass, radius)


def list_form(case: Case) -> float:
    """The value computed from a pair's own successors alone."""
    best = int(np.argmax(case.values))
    others = [s for s in np.nonzero(case.estimate)[0] if s != best]
    values, masses = np.zeros(len(case.values)), np.zeros(len(case.values))
    values[: len(others)], masses[: len(others)] = case.values[others], case.estimate[others]
    top, mass = float(case.values[best]), float(case.estimate[best])
    return from_a_list(values, masses, len(others), top, mass, case.radius)


def test_ten_thousand_inner_maxima_are_those_of_linear_programming() -> None:
    rng = np.random.default_rng(20)
    for _ in range(CASES // AT_ONCE):
        cases = [draw(rng) for _ in range(AT_ONCE)]
        for case, expected in zip(cases, best_by_linear_programming(cases), strict=True):
            row = optimistic_row(*case)
            assert abs(row @ case.values - expected) <= 1e-12, case
            assert row.min() >= 0.0, case
            assert abs(row.sum() - 1.0) <= 1e-12, case
            assert np.abs(row - case.estimate).sum() <= case.radius + 1e-12, case
            assert abs(list_form(case) - expected) <= 1e-12, case


def test_a_radius_of_zero_leaves_the_estimate() -> None:
    estimate = np.array([0.2, 0.0, 0.5, 0.3])
    assert np.array_equal(optimistic_row(estimate, 0.0, [1, 4, 2, 3]), estimate)


@pytest.mark.parametrize("radius", [2.0, 7.0, np.inf])
def test_a_radius_of_two_moves_everything_to_the_best_state(radius: float) -> None:
    assert optimistic_row([0.2, 0.0, 0.5, 0.3], radius, [1, 4, 2, 3]).tolist() == [0, 1, 0, 0]


def test_half_the_radius_is_taken_from_the_worst_states_first() -> None:
    row = optimistic_row([0.25, 0.25, 0.5, 0.0], 0.75, [3, 1, 2, 4])
    assert row.tolist() == [0.25, 0.0, 0.375, 0.375]


def test_the_best_state_gains_at_most_the_remaining_mass() -> None:
    assert optimistic_row([0.125, 0.875], 0.5, [0, 1]).tolist() == [0.0, 1.0]


def test_a_single_state_keeps_all_mass() -> None:
    assert optimistic_row([1.0], 0.3, [5.0]).tolist() == [1.0]


def test_the_estimate_is_not_modified() -> None:
    estimate = np.array([0.5, 0.5])
    optimistic_row(estimate, 1.0, [0, 1])
    assert estimate.tolist() == [0.5, 0.5]


def test_the_order_of_states_is_by_value_and_then_by_number() -> None:
    rng = np.random.default_rng(0)
    for _ in range(200):
        values = rng.integers(0, 5, int(rng.integers(1, 12))).astype(np.float64)
        order = rng.permutation(len(values))
        interpreted(sort_by_value)(order, values)
        assert np.array_equal(order, np.argsort(values, kind="stable"))


def test_a_row_never_visited_becomes_a_point_mass() -> None:
    row = np.zeros(3)
    interpreted(take_from_full_row)(row, 1, np.array([0, 2, 1]), 2.0)
    assert row.tolist() == [0.0, 1.0, 0.0]
