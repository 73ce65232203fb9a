"""The combination lock: gain and diameter by closed form, another combination at each change."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import switchmdp as sm
from switchmdp import problems
from switchmdp.errors import InvalidParameter


def wait(q: float, n: int) -> float:
    """Expected steps until n successes in a row, of probability q each."""
    return n if q == 1.0 else (q**-n - 1.0) / (1.0 - q)


@pytest.mark.parametrize("length", [1, 2, 3, 6, 12])
@pytest.mark.parametrize("slip", [0.0, 0.05, 0.5])
def test_the_gain_is_the_inverse_of_the_expected_time_to_open_the_lock(
    length: int, slip: float
) -> None:
    problem = problems.combination_lock(length, 3, slip=slip, changes=1, horizon=100, seed=1)
    result = sm.hardness(problem)
    assert result.gains == pytest.approx(1.0 / wait(1.0 - slip, length), abs=1e-9)
    if length > 1:
        assert result.diameters == pytest.approx(wait(1.0 - slip, length - 1), rel=1e-6)


def test_only_correct_actions_advance_and_only_the_last_one_earns() -> None:
    lock = problems.combination_lock(5, 4, slip=0.1, changes=0, seed=2).configuration(0)
    right = sm.optimal_gain(lock).policy
    for s in range(5):
        for a in range(4):
            on = s < 4 and a == right[s]
            assert lock.successors(s, a) == (([0, s + 1], [0.1, 0.9]) if on else ([0], [1.0]))
    assert lock.rewards[4, right[4]] == pytest.approx(0.9)
    assert np.count_nonzero(lock.rewards) == 1


def test_a_change_sets_another_combination_and_can_cycle() -> None:
    problem = problems.combination_lock(2, 2, changes=20, horizon=1000, seed=0)
    policies = sm.planning.optimal_policies(problem)
    assert (policies[1:] != policies[:-1]).any(axis=1).all()
    cycling = problems.combination_lock(6, 2, changes=5, cycle=2, horizon=1000, seed=0)
    policies = sm.planning.optimal_policies(cycling)
    assert np.array_equal(policies[::2], policies[[0, 0, 0]])
    assert np.array_equal(policies[1::2], policies[[1, 1, 1]])


@pytest.mark.parametrize(
    ("field", "wrong"),
    [("slip", {"slip": 1.0}), ("slip", {"slip": -0.1}), ("slip", {"slip": None}),
     ("length", {"length": 0}), ("length", {"length": 10**6}), ("n_actions", {"n_actions": 1}),
     ("n_states", {"length": 3000, "n_actions": 3000})],
)  # fmt: skip
def test_invalid_parameters_are_named(field: str, wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidParameter) as caught:
        problems.combination_lock(**wrong)
    assert caught.value.field == field
