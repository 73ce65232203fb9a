"""What notebooks show: HTML that is small and escaped, and `dir` without internals."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

import switchmdp as sm
from switchmdp.display import MOST_POINTS, few, html_table, sparkline

PROBLEM = sm.problems.random_switching(4, 2, changes=2, horizon=60, seed=0)


def record() -> sm.Record:
    return sm.simulate(sm.agents.Random(4, 2), PROBLEM, 60, seed=0, episodes=True, trajectory=True)


SHOWN: dict[str, Callable[[], Any]] = {
    "MDP": lambda: PROBLEM.at(1),
    "Switching MDP": lambda: PROBLEM,
    "Plan": lambda: sm.optimal_gain(PROBLEM.at(1)),
    "Record": record,
    "UCRL2": lambda: sm.agents.UCRL2(4, 2),
    "QLearning": lambda: sm.agents.QLearning(4, 2),
}


@pytest.mark.parametrize("title", SHOWN)
def test_an_object_is_a_small_well_formed_table_without_colours(title: str) -> None:
    made: Any = SHOWN[title]()
    text = made._repr_html_()
    assert len(text) < 6000
    assert not re.search(r"color:|background|<script", text)
    table = ElementTree.fromstring(f"<div>{text}</div>").find("table")
    assert table is not None
    assert table.findtext("caption/b") == title
    assert len(table.findall("tbody/tr")) >= 3


def test_names_are_escaped() -> None:
    labels = ["<script>alert(1)</script>", "b"]
    mdp = sm.MDP([[[1, 0], [0, 1]], [[0, 1], [1, 0]]], [[0, 1], [1, 0]], action_labels=labels)
    assert "<script>" not in mdp._repr_html_()
    assert "&lt;b&gt;" in html_table("<b>", {})


def test_a_sparkline_has_few_points_and_ends_with_the_last_value() -> None:
    drawn = sparkline(np.arange(100_000.0), "a <curve>")
    points = re.findall(r"[\d.]+,[\d.]+", drawn)
    assert len(points) <= MOST_POINTS
    assert points[-1].endswith(",2.0")
    assert "a &lt;curve&gt;" in drawn


def test_a_sparkline_leaves_out_what_is_not_finite() -> None:
    assert sparkline([np.nan, 1.0, np.inf], "x") == ""
    assert len(re.findall(r"[\d.]+,[\d.]+", sparkline([1.0, np.nan, 1.0], "x"))) == 2


def test_long_lists_are_cut() -> None:
    assert few([]) == ""
    assert len(few(range(10**5))) < 80
    assert few(["a" * 1000, "b"]) == "a" * 40 + "…, b"


def public(thing: Any) -> set[str]:
    return {name for name in dir(thing) if not name.startswith("_")}


def test_dir_of_an_agent_lists_what_a_user_needs() -> None:
    names = public(sm.agents.UCRL2(4, 2))
    assert {"act", "observe", "policy", "gain", "visits", "save", "plot", "t"} <= names
    assert not {"quota", "clock", "log_pair", "starts", "choice", "prepare", "know"} & names


def test_dir_of_an_agent_lists_what_the_class_of_a_user_adds() -> None:
    class Mine(sm.agents.Random):
        def mood(self) -> str:
            return "calm"

    assert "mood" in public(Mine(4, 2))
    assert "words" not in public(Mine(4, 2))


def test_every_listed_member_exists() -> None:
    for thing in (record(), PROBLEM, PROBLEM.at(1), sm.agents.UCRL2(4, 2), sm.agents.Random(4, 2)):
        names = public(thing)
        assert len(names) > 5
        assert {name for name in names if hasattr(thing, name)} == names


def test_dir_hides_what_only_machine_code_uses() -> None:
    assert not {"position", "words", "agent_t"} & public(record())
    assert not {"model", "patches", "label_like"} & (public(PROBLEM) | public(PROBLEM.at(1)))
