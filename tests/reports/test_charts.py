"""The data of the page's charts: thinned curves, views and marks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from switchmdp.experiments.results import Results
from switchmdp.reports.charts import ENOUGH_PROBLEMS, hardness_chart, regret_chart

Maker = Callable[..., Results]


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


def test_an_agent_has_the_same_style_in_every_setting(make_results: Maker) -> None:
    results = make_results(agents=("a", "b", "c"), settings=("all", "last"))
    last = results.settings["last"]
    without = replace(last, agents={name: last.agents[name] for name in ("c", "b")})
    results = replace(results, settings={"all": results.settings["all"], "last": without})
    assert regret_chart(results, without)["styles"] == [2, 1]


def test_the_hardness_chart_needs_enough_problems_with_different_diameters(
    make_results: Maker,
) -> None:
    few, name = only(make_results(n=ENOUGH_PROBLEMS - 1))
    assert hardness_chart(few, few.settings[name]) is None
    enough, name = only(make_results(n=ENOUGH_PROBLEMS))
    setting = enough.settings[name]
    chart = hardness_chart(enough, setting)
    assert chart
    assert len(chart["x"]) == 8
    alike = replace(setting, hardness={"diameter": np.full(ENOUGH_PROBLEMS, 3.0)})
    assert hardness_chart(enough, alike) is None
    assert hardness_chart(enough, replace(setting, hardness={})) is None
