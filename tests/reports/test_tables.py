"""Tables: their content, and that any name is safe in a cell."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from switchmdp.experiments.results import Results, Setting, as_setting
from switchmdp.experiments.spec import Claim
from switchmdp.reports.page import Table, number, percent, with_interval
from switchmdp.reports.resampling import Interval
from switchmdp.reports.tables import (
    adaptation_table,
    claims_table,
    hardness_table,
    judge_all,
    paired_table,
    segment_table,
    summary_table,
)

NAN = float("nan")


def three() -> Setting:
    """The first agent, one whose runs all failed, and a better one."""
    rows = {"first": [[10.0], [30.0]], "broken": [[NAN], [NAN]], "better": [[5.0], [5.0]]}
    return as_setting([1000], rows)


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (12_539.4, "12 539"), (-12_539.6, "-12 540"), (999.6, "1 000"), (999.4, "999"),
        (99.96, "100"), (9.996, "10.0"), (0.09996, "0.100"), (-0.0, "0"), (-3.14159, "-3.14"),
        (1e-4, "0.000100"), (9.9e-5, "9.90e-05"), (1e12, "1 000 000 000 000"),
        (-math.inf, "-∞"), (3, "3"), (-1234, "-1 234"),
    ],
)  # fmt: skip
def test_numbers_have_three_digits_or_a_whole_integer_part(value: float, shown: str) -> None:
    assert number(value) == shown


def test_unknown_numbers_are_a_dash() -> None:
    assert number(NAN) == percent(NAN) == with_interval(Interval(NAN, NAN, NAN)) == "–"
    assert with_interval(Interval(2.0, NAN, NAN)) == "2.00 (– … –)"


def test_a_tiny_negative_share_has_no_minus_sign() -> None:
    assert percent(-1e-9) == "0.0 %"


def test_the_summary_sorts_agents_by_regret_with_failed_ones_last() -> None:
    table = summary_table(three())
    assert [row[0] for row in table.rows] == ["better", "first", "broken"]
    cells = {row[0]: dict(zip(table.columns, row, strict=True)) for row in table.rows}
    assert cells["first"]["mean regret"] == "20.0 (10.0 … 30.0)"
    assert cells["first"]["median"] == "20.0"
    assert (cells["first"]["5 %"], cells["first"]["95 %"]) == ("11.0", "29.0")
    assert cells["better"]["better than first"] == "100.0 %"
    assert cells["first"]["better than first"] == "–"
    assert cells["broken"]["mean regret"] == cells["broken"]["interquartile mean"] == "–"
    assert [cells[name]["failed"] for name in ("first", "broken")] == ["0", "2"]
    assert "1 000 steps on 2 problems" in table.note


def test_the_summary_shows_episodes_sweeps_bad_steps_and_time() -> None:
    setting = three()
    runs = replace(
        setting.agents["first"],
        episodes=np.array([10, 20]),
        sweeps=np.array([1000, 3000]),
        bad_steps=np.array([100.0, 300.0]),
        seconds=np.array([0.001, 0.003]),
    )
    row = summary_table(replace(setting, agents={"first": runs})).rows[0]
    assert row[-5:] == ("15.0", "2 000", "200", "2.00", "0")


def test_every_pair_is_compared_once_with_the_better_agent_first() -> None:
    table = paired_table(three())
    assert [row[:2] for row in table.rows] == [
        ("better", "first"), ("better", "broken"), ("first", "broken"),
    ]  # fmt: skip
    first = table.rows[0]
    assert first[2] == "-15.0 (-25.0 … -5.00)"
    assert first[4:] == ("1.00", "2")
    assert table.rows[1][2:] == ("–", "–", "–", "0")


def test_more_than_ten_agents_are_compared_with_the_best_only() -> None:
    setting = as_setting([10], {f"agent {i}": [[float(20 - i)]] for i in range(11)})
    table = paired_table(setting)
    assert len(table.rows) == 10
    assert {row[0] for row in table.rows} == {"agent 10"}
    assert "best only" in table.note
    assert "best only" not in paired_table(three()).note


def test_the_segment_table_has_a_row_with_steps_for_each_segment() -> None:
    rows = [[1.0, 5.0, 6.0], [3.0, 5.0, 8.0]]
    setting = as_setting([10, 20, 30], {"a": rows, "b": [[0.0] * 3] * 2}, change_points=[11])
    table = segment_table(setting)
    assert table.columns == ("segment", "steps", "problems", "b", "a")
    assert table.rows[1] == ("1", "11 … 30", "2", "0", "5.00")
    points = (np.array([11]), np.array([11, 21]))
    table = segment_table(replace(setting, change_points=points))
    assert [row[:3] for row in table.rows] == [
        ("0", "1 … 10", "2"), ("1", "vary", "2"), ("2", "21 … 30", "1"),
    ]  # fmt: skip
    assert table.rows[2][4] == "3.00"


def test_the_adaptation_table_shows_medians_and_how_often_agents_never_adapt() -> None:
    rows = [[500.0, 500.0, 500.0], [500.0, 500.0, 500.0], [0.0, 0.0, 900.0]]
    setting = as_setting([1000, 2000, 3000], {"a": rows}, change_points=[2901])
    table = adaptation_table(setting, 0.05)
    assert table.rows[0] == ("0", "1 … 2 900", "3", "1 000 (0.0 % never)")
    assert table.rows[1] == ("1", "2 901 … 3 000", "3", "–")
    assert "ε = 0.0500" in table.note


def test_the_claims_table_shows_measurements_and_verdicts() -> None:
    claim = Claim(
        quote="it is | better", reading="paired", measure="better",
        setting="s", agent="a", than="b",
    )  # fmt: skip
    setting = as_setting([10], {"a": [[1.0]] * 8, "b": [[2.0]] * 8})
    table = claims_table(judge_all(Results("", 0.1, {"s": setting}, (claim,))))
    (row,) = table.rows
    assert row[:3] == ("it is | better", "paired", "s")
    assert row[-1] == "reproduced"
    assert "it is \\| better" in table.markdown()


def test_the_hardness_table_handles_infinite_values() -> None:
    hardness = {
        "diameter": np.array([1.0, 2.0, 3.0, math.inf, math.inf]),
        "span": np.full(5, NAN),
        "reward_variation": np.array([NAN, 4.0, NAN, NAN, NAN]),
    }
    setting = replace(as_setting([10], {"a": [[1.0]] * 5}), hardness=hardness)
    assert hardness_table(Results("", 0.1, {"s": setting})).rows == (
        ("curves", "diameter", "5", "1.00", "2.00", "3.00", "∞", "∞"),
        ("curves", "reward variation", "1", *["4.00"] * 5),
    )


def test_names_cannot_break_out_of_a_cell() -> None:
    name = "a|b\n| x |\r\x1b[31m<script>alert(1)</script> \\| `*_"
    table = Table(name, ("agent", name), ((name, "1"),), name)
    markdown, text = table.markdown(), table.text()
    for shown in (markdown, text):
        assert "\x1b" not in shown
        assert "\r" not in shown
    assert "<script" not in markdown
    lines = [line for line in markdown.splitlines() if line.startswith("|")]
    assert len(lines) == 3
    for line in lines:
        bare = line.replace("\\\\", "").replace("\\|", "")
        assert bare.count("|") == 3


def test_wide_and_combining_characters_are_aligned() -> None:
    table = Table("t", ("name", "x"), (("滑动窗口", "1"), ("e\u0301", "2"), ("plain", "3")))
    assert table.text().splitlines()[2:] == [
        "name      x",
        "-----------",
        "滑动窗口  1",
        "e\u0301         2",
        "plain     3",
    ]


def test_long_cells_are_wrapped_and_rows_separated() -> None:
    table = Table("t", ("words", "n"), (("word " * 20, "1"), ("short", "2")))
    lines = table.text().splitlines()
    assert max(map(len, lines)) < 60
    assert lines[4].endswith("1")
    assert lines[4:].count("") == 1


def test_a_table_without_rows_shows_its_columns() -> None:
    table = Table("none", ("a", "b"), (), "Nothing was run.")
    assert table.text().splitlines() == ["none", "", "a  b", "----", "", "Nothing was run."]
    assert "| a | b |\n| --- | --- |" in table.markdown()
