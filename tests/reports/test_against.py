"""Regret against parameters and hardness."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from switchmdp.errors import InvalidParameter
from switchmdp.experiments.results import Results, Setting, as_setting
from switchmdp.reports import measures
from switchmdp.reports.against import fixed_values

NAN = float("nan")


def finals(**regret: list[float]) -> Setting:
    """Agents known by their final regret on each problem alone."""
    return as_setting([100], {name: [[value] for value in row] for name, row in regret.items()})


def swept(
    finals_by_name: dict[str, tuple[str, dict[str, Any], dict[str, Any], float]],
    base: str = "s",
    problem: dict[str, Any] | None = None,
) -> Setting:
    """Agents as (base, swept, parameters, final regret) on problems swept like this."""
    setting = finals(**{name: [value] for name, (*_, value) in finals_by_name.items()})
    agents = {
        name: replace(
            setting.agents[name], base=base_name, swept=over, parameters=over | parameters
        )
        for name, (base_name, over, parameters, _) in finals_by_name.items()
    }
    over = problem or {}
    return replace(setting, name=base, base=base, agents=agents, swept=over, parameters=over)


def test_regret_against_a_swept_parameter_of_the_agents() -> None:
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
    panels = measures.against(results, "window")
    assert list(panels) == ["s"]
    lines = panels["s"]
    assert list(lines) == ["a"]
    assert lines["a"].times.tolist() == [100, 321, 500]
    assert lines["a"].middle.tolist() == lines["a"].low.tolist() == [9, 5, 7]
    assert fixed_values(results, "window") == {"s": {"b": 50.0}}


def test_regret_against_a_swept_parameter_of_the_problems() -> None:
    settings = {
        str(changes): swept(
            {"a": ("a", {}, {}, 10.0 * changes), "b": ("b", {"law": "x"}, {}, 1.0)},
            problem={"changes": changes},
        )
        for changes in (4, 2)
    }
    lines = measures.against(Results("", 0.1, settings), "changes")["s"]
    assert fixed_values(Results("", 0.1, settings), "changes") == {}
    assert list(lines) == ["a", "b [law=x]"]
    assert lines["a"].times.tolist() == [2, 4]
    assert lines["a"].middle.tolist() == [20, 40]


def test_several_settings_are_panels_of_their_own() -> None:
    settings = {
        name: swept({"a1": ("a", {"w": 1, "δ": 0.1}, {}, 3.0)}, name) for name in ("s", "t")
    }
    results = Results("", 0.1, settings)
    for parameter, line in (("w", "a [δ=0.1]"), ("δ", "a [w=1]")):
        panels = measures.against(results, parameter)
        assert {name: list(lines) for name, lines in panels.items()} == {"s": [line], "t": [line]}


def test_only_a_parameter_swept_over_numbers_can_be_an_axis() -> None:
    setting = swept({"a1": ("a", {"law": "beta", "flag": True, "w": 2}, {}, 1.0)})
    results = Results("", 0.1, {"s": setting})
    assert measures.swept_parameters(results) == ("w",)
    with pytest.raises(InvalidParameter, match="swept over numbers: 'w', got 'law'"):
        measures.against(results, "law")


def test_regret_against_hardness_is_in_groups_of_equal_size() -> None:
    hardness = np.array([5.0, math.inf, 1.0, 3.0, NAN, 2.0, 4.0, 6.0])
    setting = replace(finals(a=list(hardness * 10)), hardness={"diameter": hardness})
    runs = setting.agents["a"]
    setting = replace(setting, agents={"a": replace(runs, failed=hardness == 6)})
    line = measures.against_hardness(setting, bins=3)["a"]
    assert line.times.tolist() == [1.5, 3.5, 5.5]
    assert line.middle.tolist() == [15, 35, 50]
    assert measures.against_hardness(setting, bins=50)["a"].times.tolist() == [1, 2, 3, 4, 5, 6]
    with pytest.raises(InvalidParameter, match="'diameter'"):
        measures.against_hardness(setting, "weight")


def test_hardness_that_was_not_computed_gives_no_line() -> None:
    setting = replace(finals(a=[1, 2]), hardness={"span": np.array([NAN, NAN])})
    assert measures.against_hardness(setting, "span") == {}
