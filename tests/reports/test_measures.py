"""Measures on curves with known answers, and regret against a parameter or hardness."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from switchmdp.errors import InvalidParameter
from switchmdp.experiments.results import Results, Setting, as_setting
from switchmdp.reports import measures
from switchmdp.reports.resampling import Interval

NAN = float("nan")


def finals(**regret: list[float]) -> Setting:
    """Agents with these final regrets on each problem."""
    return as_setting([100], {name: [[value] for value in row] for name, row in regret.items()})


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
    assert measures.episodes(setting, "a").middle == 4
    assert measures.seconds_per_million_steps(setting, "a").middle == 2 * 1e6 / 100


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
    assert measures.episodes(setting, "a").middle == 6
    assert measures.sweeps(setting, "a").middle == 1
    assert measures.bad_steps(setting, "a").middle == 15
    assert math.isnan(measures.seconds_per_million_steps(setting, "a").middle)


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


def swept(
    finals_by_name: dict[str, tuple[str, dict[str, Any], dict[str, Any], float]],
    base: str = "s",
    problem: dict[str, Any] | None = None,
) -> Setting:
    """Agents given as (base, swept, parameters, final regret), on swept problems."""
    setting = finals(**{name: [value] for name, (*_, value) in finals_by_name.items()})
    agents = {
        name: replace(
            setting.agents[name], base=base_name, swept=over, parameters=over | parameters
        )
        for name, (base_name, over, parameters, _) in finals_by_name.items()
    }
    over = problem or {}
    return replace(setting, name=base, base=base, agents=agents, swept=over, parameters=over)


def test_regret_by_a_swept_parameter_of_the_agents() -> None:
    formula = {"formula": "optimal-window"}
    setting = swept(
        {
            "a1": ("a", {"window": 500}, {}, 7.0),
            "a2": ("a", {"window": formula}, {"window": 321}, 5.0),
            "a3": ("a", {"window": 100}, {}, 9.0),
            "b": ("b", {}, {"window": 50}, 1.0),
        }
    )
    results = Results("", 0.1, {"s": setting})
    assert measures.swept_parameters(results) == ("window",)
    panels = measures.regret_by_parameter(results, "window")
    assert list(panels) == ["s"]
    lines = panels["s"]
    assert list(lines) == ["a"]
    assert lines["a"].times.tolist() == [100, 321, 500]
    assert lines["a"].middle.tolist() == lines["a"].low.tolist() == [9, 5, 7]
    assert measures.fixed_values(results, "window") == {"s": {"b": 50.0}}


def test_regret_by_a_swept_parameter_of_the_problems() -> None:
    settings = {
        str(changes): swept(
            {"a": ("a", {}, {}, 10.0 * changes), "b": ("b", {"law": "x"}, {}, 1.0)},
            problem={"changes": changes},
        )
        for changes in (4, 2)
    }
    lines = measures.regret_by_parameter(Results("", 0.1, settings), "changes")["s"]
    assert measures.fixed_values(Results("", 0.1, settings), "changes") == {}
    assert list(lines) == ["a", "b [law=x]"]
    assert lines["a"].times.tolist() == [2, 4]
    assert lines["a"].middle.tolist() == [20, 40]


def test_each_setting_has_its_own_panel() -> None:
    settings = {
        name: swept({"a1": ("a", {"w": 1, "δ": 0.1}, {}, 3.0)}, name) for name in ("s", "t")
    }
    results = Results("", 0.1, settings)
    for parameter, line in (("w", "a [δ=0.1]"), ("δ", "a [w=1]")):
        panels = measures.regret_by_parameter(results, parameter)
        assert {name: list(lines) for name, lines in panels.items()} == {"s": [line], "t": [line]}


def test_only_parameters_swept_over_numbers_are_accepted() -> None:
    setting = swept({"a1": ("a", {"law": "beta", "flag": True, "w": 2}, {}, 1.0)})
    results = Results("", 0.1, {"s": setting})
    assert measures.swept_parameters(results) == ("w",)
    with pytest.raises(InvalidParameter, match="swept over numbers: 'w', got 'law'"):
        measures.regret_by_parameter(results, "law")


def test_regret_by_hardness_uses_groups_of_equal_size() -> None:
    hardness = np.array([5.0, math.inf, 1.0, 3.0, NAN, 2.0, 4.0, 6.0])
    setting = replace(finals(a=list(hardness * 10)), hardness={"diameter": hardness})
    runs = setting.agents["a"]
    setting = replace(setting, agents={"a": replace(runs, failed=hardness == 6)})
    line = measures.regret_by_hardness(setting, bins=3)["a"]
    assert line.times.tolist() == [1.5, 3.5, 5.5]
    assert line.middle.tolist() == [15, 35, 50]
    assert measures.regret_by_hardness(setting, bins=50)["a"].times.tolist() == [1, 2, 3, 4, 5, 6]
    with pytest.raises(InvalidParameter, match="'diameter'"):
        measures.regret_by_hardness(setting, "weight")


def test_unknown_hardness_gives_no_curve() -> None:
    setting = replace(finals(a=[1, 2]), hardness={"span": np.array([NAN, NAN])})
    assert measures.regret_by_hardness(setting, "span") == {}
