"""Curves over time, against a parameter and against the diameter, and the page's charts."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from switchmdp.errors import InvalidParameter
from switchmdp.experiments.results import Results, Setting, as_setting
from switchmdp.reports.curves import (
    ENOUGH_PROBLEMS,
    REGRET,
    diameter_panels,
    needs_log_axis,
    parameter_panels,
    points_chart,
    regret_by_diameter,
    regret_by_parameter,
    regret_chart,
    regret_panel,
    regret_views,
    swept_parameters,
)
from switchmdp.reports.figures import Panel
from switchmdp.reports.resampling import Band

Maker = Callable[..., Results]
NAN = float("nan")


def only(results: Results) -> tuple[Results, str]:
    (name,) = results.settings
    return results, name


def test_many_points_and_many_agents_are_thinned(make_results: Maker) -> None:
    few, name = only(make_results(points=5_000, n=3))
    assert 200 < len(regret_chart(few, few.settings[name])["x"]) <= 250
    many, name = only(make_results(agents=[f"agent {i}" for i in range(100)], points=500, n=2))
    chart = regret_chart(many, many.settings[name])
    assert len(chart["x"]) < 100
    assert chart["x"][-1] == many.settings[name].horizon
    assert len(chart["names"]) == 100


def test_a_curve_starts_at_zero_and_ends_at_the_final_mean(make_results: Maker) -> None:
    results, name = only(make_results())
    setting = results.settings[name]
    regret, pseudo, _ = regret_chart(results, setting)["views"]
    runs = setting.agents["window"]
    for view, rows in ((regret, runs.regret), (pseudo, runs.pseudo_regret)):
        middle, low, high = (np.array(line) for line in view["curves"][0])
        assert middle[0] == 0
        assert middle[-1] == pytest.approx(rows[:, -1].mean(), rel=1e-5)
        assert (low <= middle).all()
        assert (middle <= high).all()


def test_regret_within_segments_restarts_from_zero_at_each_change(make_results: Maker) -> None:
    results, name = only(make_results())
    chart = regret_chart(results, results.settings[name])
    regret, _, within = (np.array(view["curves"][0][0]) for view in chart["views"])
    x = chart["x"]
    for start, end in ((0, 2_500), (2_500, 7_500), (7_500, 10_000)):
        earned = regret[x.index(end)] - regret[x.index(start)]
        assert within[x.index(end)] == pytest.approx(earned, abs=0.1)
    for change in (2_501, 7_501):
        assert within[x.index(change)] < 0.01 * within[x.index(change - 1)]
    assert [mark["x"] for mark in chart["marks"]] == [2_501, 7_501]


def test_regret_within_segments_uses_the_changes_of_each_problem(make_results: Maker) -> None:
    results, name = only(make_results(n=2, points=10))
    line = np.arange(1.0, 11.0) * 1_000
    runs = replace(results.settings[name].agents["window"], regret=np.array([line, line]))
    changes = (np.array([4_001]), np.array([6_001]))
    setting = replace(results.settings[name], agents={"window": runs}, change_points=changes)
    chart = regret_chart(results, setting)
    within = dict(zip(chart["x"], chart["views"][2]["curves"][0][0], strict=True))
    assert [within[t] for t in (4_000, 5_000, 6_000, 7_000)] == [4_000, 3_000, 4_000, 2_000]
    assert chart["marks"] == []


def test_a_figure_shows_the_same_curves_whether_the_page_computed_them_or_not(
    make_results: Maker,
) -> None:
    for points in (50, 5_000):  # all points are on the page; only some
        results, name = only(make_results(points=points, n=4))
        setting = results.settings[name]
        known = regret_views(results, setting)[REGRET]
        panel, expected = regret_panel(setting, known), regret_panel(setting)
        assert list(panel.curves) == list(expected.curves) == ["window", "restarts"]
        for agent, curve in expected.curves.items():
            assert panel.curves[agent].times.tolist() == [0, *setting.times.tolist()]
            assert panel.curves[agent].middle[0] == 0
            for line in ("middle", "low", "high"):
                drawn = getattr(panel.curves[agent], line)
                assert drawn == pytest.approx(getattr(curve, line), rel=1e-12)


def test_an_agent_has_the_same_style_in_every_setting(make_results: Maker) -> None:
    results = make_results(agents=("a", "b", "c"), settings=("all", "last"))
    last = results.settings["last"]
    without = replace(last, agents={name: last.agents[name] for name in ("c", "b")})
    results = replace(results, settings={"all": results.settings["all"], "last": without})
    assert regret_chart(results, without)["styles"] == [2, 1]


def test_regret_by_diameter_needs_enough_problems_with_different_diameters(
    make_results: Maker,
) -> None:
    assert diameter_panels(make_results(n=ENOUGH_PROBLEMS - 1)) == []
    results, name = only(make_results(n=ENOUGH_PROBLEMS))
    (panel,) = diameter_panels(results)
    assert len(points_chart(panel, "diameter", results.agents)["x"]) == 8
    setting = results.settings[name]
    alike = {"diameter": np.full(ENOUGH_PROBLEMS, 3.0)}
    for hardness in (alike, {}):
        without = {name: replace(setting, hardness=hardness)}
        assert diameter_panels(replace(results, settings=without)) == []


def test_only_shared_change_points_are_marked(make_results: Maker) -> None:
    (setting,) = make_results().settings.values()
    assert list(regret_panel(setting).change_points) == [2_501, 7_501]
    moved = (np.array([17]), *setting.change_points[1:])
    assert list(regret_panel(replace(setting, change_points=moved)).change_points) == []


def test_an_axis_is_logarithmic_if_positive_values_spread_widely() -> None:
    def panel(*x: float) -> Panel:
        return Panel("", {"a": Band(np.array(x), *np.ones((3, len(x))))})

    assert needs_log_axis([panel(1, 100)])
    assert needs_log_axis([panel(1, 2), panel(50, 100)])
    assert not needs_log_axis([panel(0, 100)])
    assert not needs_log_axis([panel(50, 100)])


def swept(
    finals_by_name: dict[str, tuple[str, dict[str, Any], dict[str, Any], float]],
    base: str = "s",
    problem: dict[str, Any] | None = None,
) -> Setting:
    """Agents given as (base, swept, parameters, final regret), on swept problems."""
    curves = {name: [[value]] for name, (*_, value) in finals_by_name.items()}
    setting = as_setting([100], curves)
    agents = {
        name: replace(
            setting.agents[name], base=base_name, swept=over, parameters=over | parameters
        )
        for name, (base_name, over, parameters, _) in finals_by_name.items()
    }
    over = problem or {}
    return replace(setting, name=base, base=base, agents=agents, swept=over, parameters=over)


def test_a_swept_parameter_of_the_agents_becomes_a_curve_of_regret() -> None:
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
    assert swept_parameters(results) == ("window",)
    panels = regret_by_parameter(results, "window")
    assert list(panels) == ["s"]
    lines = panels["s"]
    assert list(lines) == ["a"]
    assert lines["a"].times.tolist() == [100, 321, 500]
    assert lines["a"].middle.tolist() == lines["a"].low.tolist() == [9, 5, 7]
    (panel,) = parameter_panels(results, "window")
    assert panel.marks == {"b": 50.0}


def test_a_swept_parameter_of_the_problems_becomes_a_curve_of_regret() -> None:
    settings = {
        str(changes): swept(
            {"a": ("a", {}, {}, 10.0 * changes), "b": ("b", {"law": "x"}, {}, 1.0)},
            problem={"changes": changes},
        )
        for changes in (4, 2)
    }
    (panel,) = parameter_panels(Results("", 0.1, settings), "changes")
    assert panel.marks == {}
    lines = panel.curves
    assert list(lines) == ["a", "b [law=x]"]
    assert lines["a"].times.tolist() == [2, 4]
    assert lines["a"].middle.tolist() == [20, 40]


def test_each_setting_has_its_own_panel() -> None:
    settings = {
        name: swept({"a1": ("a", {"w": 1, "δ": 0.1}, {}, 3.0)}, name) for name in ("s", "t")
    }
    results = Results("", 0.1, settings)
    for parameter, line in (("w", "a [δ=0.1]"), ("δ", "a [w=1]")):
        panels = regret_by_parameter(results, parameter)
        assert {name: list(lines) for name, lines in panels.items()} == {"s": [line], "t": [line]}


def test_only_parameters_swept_over_numbers_are_accepted() -> None:
    setting = swept({"a1": ("a", {"law": "beta", "flag": True, "w": 2}, {}, 1.0)})
    results = Results("", 0.1, {"s": setting})
    assert swept_parameters(results) == ("w",)
    with pytest.raises(InvalidParameter, match="swept over numbers: 'w', got 'law'"):
        regret_by_parameter(results, "law")


def test_regret_by_diameter_uses_groups_of_equal_size() -> None:
    diameters = np.array([5.0, math.inf, 1.0, 3.0, NAN, 2.0, 4.0, 6.0])
    setting = as_setting([100], {"a": diameters[:, None] * 10})
    runs = replace(setting.agents["a"], failed=diameters == 6)
    setting = replace(setting, hardness={"diameter": diameters}, agents={"a": runs})
    line = regret_by_diameter(setting, 3)["a"]
    assert line.times.tolist() == [1.5, 3.5, 5.5]
    assert line.middle.tolist() == [15, 35, 50]
    assert regret_by_diameter(setting, 50)["a"].times.tolist() == [1, 2, 3, 4, 5, 6]


def test_unknown_diameters_give_no_curve() -> None:
    setting = replace(as_setting([1], {"a": [[1], [2]]}), hardness={"diameter": np.full(2, NAN)})
    assert regret_by_diameter(setting) == {}
