"""Measures on curves with known answers."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from switchmdp.errors import InvalidParameter
from switchmdp.experiments.results import Setting, as_setting
from switchmdp.reports import measures
from switchmdp.reports.resampling import Interval

NAN = float("nan")


def finals(**regret: list[float]) -> Setting:
    """Agents with these final regrets on each problem."""
    return as_setting([100], {name: [[value] for value in row] for name, row in regret.items()})


@pytest.mark.parametrize(
    ("regret", "shape"),
    [
        ([[1, 2], [3, 4]], (2, 2)),  # another agent has three problems
        ([[1], [2], [3]], (3, 1)),
        ([1, 2], (2,)),
        (7, (1,)),
    ],
)
def test_curves_must_have_one_row_per_problem_and_one_column_per_step(
    regret: Any, shape: tuple[int, ...]
) -> None:
    with pytest.raises(InvalidParameter, match=r"regret\['a'\] must be of shape \(3, 2\)") as error:
        as_setting([10, 20], {"a": regret, "b": [[1, 2]] * 3})
    assert error.value.value == shape


def test_pseudo_regret_has_its_own_band() -> None:
    setting = as_setting([1, 2], {"a": [[1, 2], [3, 4]]})
    runs = replace(setting.agents["a"], pseudo_regret=np.array([[10.0, 20.0], [30.0, 40.0]]))
    setting = replace(setting, agents={"a": runs})
    assert measures.regret_band(setting, "a").middle.tolist() == [2, 3]
    assert measures.regret_band(setting, "a", pseudo=True).middle.tolist() == [20, 30]


def test_failed_runs_are_excluded_from_every_measure() -> None:
    setting = finals(a=[1, 2, 600], b=[4, 4, 4])
    runs = replace(
        setting.agents["a"],
        failed=np.array([False, False, True]),
        episodes=np.array([3, 5, 100]),
        seconds=np.array([1.0, 3.0, 100.0]),
    )
    setting = replace(setting, agents={**setting.agents, "a": runs})
    assert measures.final_regret(setting, "a").middle == 1.5
    assert measures.final_iqm(setting, "a").middle == 1.5
    assert measures.final_quantiles(setting, "a", (0.0, 1.0)) == (1.0, 2.0)
    assert measures.difference(setting, "a", "b").middle == -2.5
    assert measures.ratio(setting, "b", "a").middle == pytest.approx(8 / 3)
    assert measures.probability_of_improvement(setting, "a", "b").middle == 1.0
    assert measures.shared_problems(setting, "a", "b") == 2
    assert measures.mean_cost(setting, "a", "episodes") == 4
    assert measures.seconds_per_million_steps(setting, "a") == 2 * 1e6 / 100


def test_all_measures_are_nan_for_an_agent_whose_runs_all_failed() -> None:
    setting = finals(a=[NAN, NAN], b=[1, 2])
    for estimate in (
        measures.final_regret(setting, "a"),
        measures.final_iqm(setting, "a"),
        measures.difference(setting, "a", "b"),
        measures.ratio(setting, "b", "a"),
        measures.probability_of_improvement(setting, "b", "a"),
    ):
        assert np.isnan([estimate.middle, estimate.low, estimate.high]).all()
    assert np.isnan(measures.final_quantiles(setting, "a")).all()
    assert np.isnan(measures.regret_band(setting, "a").middle).all()


def test_means_of_counts_skip_unknown_values() -> None:
    setting = finals(a=[1, 1, 1])
    runs = replace(
        setting.agents["a"],
        episodes=np.array([-1, 4, 8]),
        sweeps=np.array([0, 0, 3]),
        bad_steps=np.array([NAN, 10.0, 20.0]),
    )
    setting = replace(setting, agents={"a": runs})
    assert measures.mean_cost(setting, "a", "episodes") == 6
    assert measures.mean_cost(setting, "a", "sweeps") == 1
    assert measures.mean_cost(setting, "a", "bad_steps") == 15
    assert math.isnan(measures.seconds_per_million_steps(setting, "a"))


def test_the_interquartile_mean_ignores_an_outlier_and_the_mean_does_not() -> None:
    setting = finals(a=[1, 2, 3, 4, 5, 6, 7, 1e6])
    assert measures.final_iqm(setting, "a").middle == 4.5
    assert measures.final_regret(setting, "a").middle > 1e5


def test_differences_are_paired_by_problem() -> None:
    hard = np.random.default_rng(1).exponential(1000.0, size=200)
    setting = finals(a=list(hard), b=list(hard + 1.0))
    change = measures.difference(setting, "a", "b")
    assert change.low == pytest.approx(-1.0)
    assert change.high == pytest.approx(-1.0)


def test_a_tie_counts_as_half_an_improvement() -> None:
    setting = finals(a=[1, 2, 3, 9], b=[1, 2, 4, 4])
    assert measures.probability_of_improvement(setting, "a", "b").middle == 0.5
    assert measures.probability_of_improvement(setting, "a", "a") == Interval(0.5, 0.5, 0.5)


def test_the_error_for_an_unknown_agent_lists_the_known_ones() -> None:
    with pytest.raises(InvalidParameter, match="agent must be one of 'a', 'b', got 'c'"):
        measures.final_regret(finals(a=[1], b=[2]), "c")
