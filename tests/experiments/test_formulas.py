"""Parameters that depend on the problem."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from switchmdp import theory
from switchmdp.errors import InvalidParameter
from switchmdp.experiments.names import (
    FORMULAS,
    Context,
    change_points,
    changes,
    cw_widening,
    cw_window,
    horizon,
    optimal_window,
    plain,
    reward_variation,
    transition_variation,
)
from switchmdp.planning import diameter
from switchmdp.problems import random_switching


@pytest.fixture
def context() -> Context:
    return Context(random_switching(5, 3, changes=4, horizon=10**6, seed=1), 10**6, 0.1)


def test_the_optimal_window_is_equation_3_with_the_requested_diameter(context: Context) -> None:
    def by_theory(d: float) -> int:
        window = theory.optimal_window(
            horizon=10**6, diameter=d, n_states=5, n_actions=3, changes=4, delta=0.1
        )
        return min(round(window), 10**6)

    exact = max(diameter(mdp) for mdp in context.problem.configurations())
    assert optimal_window(context, diameter=2) == by_theory(2.0)
    assert optimal_window(context, diameter="exact") == by_theory(exact)
    least = theory.diameter_lower_bound(n_states=5, n_actions=3)
    assert optimal_window(context) == optimal_window(context, diameter="lower-bound")
    assert optimal_window(context) == by_theory(least)


def test_a_window_lies_between_the_pairs_and_the_horizon(context: Context) -> None:
    assert optimal_window(context, times=1e-9) == 15
    assert optimal_window(context, times=1e9) == 10**6


def test_a_window_scales_by_its_factor(context: Context) -> None:
    whole = optimal_window(context, diameter=1)
    assert abs(optimal_window(context, diameter=1, times=0.5) - whole / 2) <= 1


def test_without_a_change_the_window_is_the_horizon() -> None:
    still = Context(random_switching(3, 2, changes=0, horizon=500, seed=0), 500, 0.1)
    assert optimal_window(still) == 500


@pytest.mark.parametrize("wrong", ["largest", 0.0, -1, None])
@pytest.mark.parametrize("number_of_changes", [0, 1])
def test_a_wrong_diameter_is_an_error_even_without_a_change(
    wrong: Any, number_of_changes: int
) -> None:
    problem = random_switching(3, 2, changes=number_of_changes, horizon=500, seed=0)
    with pytest.raises(InvalidParameter, match="diameter must be"):
        optimal_window(Context(problem, 500, 0.1), diameter=wrong)


def test_changes_and_change_points_are_those_of_the_problem(context: Context) -> None:
    assert (changes(context), changes(context, plus=1)) == (4, 5)
    assert change_points(context).tolist() == [250_000, 500_000, 750_000, 1_000_000]


def test_the_horizon_formula_returns_a_part_of_the_horizon(context: Context) -> None:
    assert (horizon(context), horizon(context, times=0.25)) == (10**6, 250_000)
    assert horizon(context, times=1e-9) == 1


@pytest.mark.parametrize(
    ("formula", "arguments", "field"),
    [
        ("optimal-window", {"times": 0}, "times"),
        ("optimal-window", {"times": True}, "times"),
        ("optimal-window", {"diameter": "largest"}, "diameter"),
        ("optimal-window", {"diameter": -1.0}, "diameter"),
        ("horizon", {"times": float("nan")}, "times"),
        ("changes", {"plus": 0.5}, "plus"),
        ("changes", {"plus": "1"}, "plus"),
    ],
)
def test_wrong_values_are_rejected(
    context: Context, formula: str, arguments: dict[str, Any], field: str
) -> None:
    with pytest.raises(InvalidParameter) as caught:
        FORMULAS[formula](context, **arguments)
    assert caught.value.field == field


def test_values_are_converted_to_json_types() -> None:
    assert plain(np.arange(3)) == [0, 1, 2]
    assert plain((np.float64(0.5), np.int64(2), [True, None, "x"])) == [0.5, 2, [True, None, "x"]]
    assert plain(plain) == "plain"


def test_window_and_widening_of_swucrl2_cw_follow_from_the_problems_variations() -> None:
    configurations = list(random_switching(5, 3, changes=4, horizon=1000, seed=1).configurations())
    rewards, moves = 0.0, 0.0
    for old, new in pairwise(configurations):
        rewards += np.abs(new.rewards - old.rewards).max()
        moves += np.abs(new.transitions - old.transitions).sum(axis=-1).max()
    context = Context(random_switching(5, 3, changes=4, horizon=10**6, seed=1), 10**6, 0.1)
    assert reward_variation(context) == pytest.approx(rewards)
    assert transition_variation(context) == pytest.approx(moves)
    window = 3 * 5 ** (2 / 3) * np.sqrt(3 * 10**6 / (rewards + moves + 1))
    assert cw_window(context) == round(window)
    assert cw_window(context, times=1e9) == 10**6
    assert cw_widening(context) == pytest.approx(np.sqrt((moves + 1) * round(window) / 10**6))
    assert cw_widening(context, times=0.5) == cw_widening(context) / 2
