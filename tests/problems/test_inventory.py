"""Inventory with lost sales: rows and profits by hand."""

from __future__ import annotations

from math import exp, factorial
from typing import Any

import numpy as np
import pytest

import switchmdp as sm
from switchmdp import problems
from switchmdp.errors import InvalidParameter


def test_a_capacity_of_two_matches_the_calculation_by_hand() -> None:
    """Poisson(1): none with 1/e, one with 1/e, more with 1 - 2/e."""
    e = exp(-1.0)
    mdp = problems.inventory_mdp(2, 2, demand=1.0, price=1.0, cost=0.5, holding=0.1)
    nothing, one, two = [1, 0, 0], [1 - e, e, 0], [1 - 2 * e, e, e]
    expected = [[nothing, one, two], [one, two, two], [two, two, two]]
    assert mdp.transitions == pytest.approx(np.array(expected), abs=1e-15)

    sold = {0: 0.0, 1: e, 2: 3 * e}
    profit = [
        [(y - sold[y]) - 0.5 * (y - s) - 0.1 * sold[y] for y in (min(s + a, 2) for a in range(3))]
        for s in range(3)
    ]
    lowest, highest = -0.5 * 2 - 0.1 * 2, 2.0
    assert mdp.rewards == pytest.approx((np.array(profit) - lowest) / (highest - lowest))


@pytest.mark.parametrize("demand", [0.1, 3.0, 40.0, 500.0])
def test_rows_are_those_of_a_poisson_demand(demand: float) -> None:
    mdp = problems.inventory_mdp(5, 3, demand=demand)
    for s in range(6):
        for a in range(4):
            y = min(s + a, 5)
            mass = [exp(-demand) * demand**x / factorial(x) for x in range(y)]
            expected = np.zeros(6)
            expected[1 : y + 1] = mass[::-1]
            expected[0] = 1.0 - sum(mass)
            assert mdp.transitions[s, a] == pytest.approx(expected, abs=1e-12)
    assert 0.0 <= mdp.rewards.min() <= mdp.rewards.max() <= 1.0


def test_expensive_units_are_never_ordered_and_free_units_always() -> None:
    dear = problems.inventory_mdp(4, 2, demand=1.0, price=1.0, cost=2.0, holding=0.0)
    assert sm.optimal_gain(dear).policy[0] == 0
    cheap = problems.inventory_mdp(4, 2, demand=3.0, price=1.0, cost=0.0, holding=0.0)
    plan = sm.optimal_gain(cheap)
    assert plan.policy[:3].tolist() == [2, 2, 2]


def test_each_change_draws_a_demand_within_its_range() -> None:
    problem = problems.inventory(3, 3, demand=[1.0, 2.0], changes=6, horizon=100, seed=2)
    unsold = [m.transitions[0, 1, 1] for m in problem.configurations()]  # exp(-λ)
    assert len(set(unsold)) == 7
    assert exp(-2.0) < min(unsold) < max(unsold) < exp(-1.0)
    cycling = problems.inventory(3, 3, changes=6, cycle=2, horizon=100, seed=2)
    assert len({m.transitions[0, 1, 1] for m in cycling.configurations()}) == 2


@pytest.mark.parametrize(
    ("field", "wrong"),
    [("demand", {"demand": 3.0}), ("demand", {"demand": (2.0, 1.0)}),
     ("demand", {"demand": (0.0, 1.0)}), ("demand", {"demand": (1.0, 501.0)}),
     ("capacity", {"capacity": 0}), ("largest_order", {"largest_order": 9}),
     ("price", {"price": 0.0}), ("cost", {"cost": -1.0}), ("holding", {"holding": None})],
)  # fmt: skip
def test_invalid_parameters_are_named(field: str, wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidParameter) as caught:
        problems.inventory(**wrong)
    assert caught.value.field == field
