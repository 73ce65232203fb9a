"""`switchmdp export --database`: the decisions of a model as a table."""

from __future__ import annotations

import csv
import math
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import Call

from switchmdp.online.models import Models
from switchmdp.online.sqlite import SQLite

COLUMNS = [
    "time", "session", "decision", "state", "action", "arm", "probability", "reward", "next_state",
]  # fmt: skip
SESSIONS = ["ann", "Zoë", "=1+1", "a\nb", "\0", "\ud800", *[""] * 54]  # many for both arms


@pytest.fixture
def expected() -> list[dict[str, Any]]:
    """A model with a split test whose last decision still waits for feedback; its rows."""
    rows = []
    with Models(SQLite("all.sqlite", sync=False)) as models:
        models.create("shop", "random", states=["new", "old"], actions=3)
        shop = models.load("shop")
        shop.set_arms([{"name": "control", "share": 0.25, "policy": [2, 2]}])
        for i, session in enumerate(SESSIONS):
            asked = shop.decide(i % 2, session=session)
            row = {
                "session": session, "decision": asked.id, "state": asked.state,
                "action": asked.action, "arm": asked.arm, "probability": asked.probability,
                "reward": i / 100, "next_state": (i + 1) % 2,
            }  # fmt: skip
            rows.append(row)
            shop.feedback(asked.id, i / 100, (i + 1) % 2)
        asked = shop.decide(1)
        rows.append({
            "session": "", "decision": asked.id, "state": 1, "action": asked.action,
            "arm": asked.arm, "probability": asked.probability, "reward": None, "next_state": None,
        })  # fmt: skip
    assert {row["arm"] for row in rows} == {"main", "control"}
    assert {row["probability"] for row in rows} == {0.75, 0.25}
    return rows


def test_a_csv_file_has_a_row_for_each_decision(call: Call, expected: list[dict[str, Any]]) -> None:
    said = call("export", "--database", "all.sqlite", "--model", "shop")
    assert (said.code, said.out) == (0, "shop.csv\n")
    with open("shop.csv", newline="", encoding="utf-8") as file:
        found = list(csv.DictReader(file))
    assert list(found[0]) == COLUMNS
    for row, wanted in zip(found, expected, strict=True):
        assert float(row["time"]) > 0
        assert row["decision"] == wanted["decision"]
        assert row["arm"] == wanted["arm"]
        numbers = ("state", "action", "probability", "reward", "next_state")
        for name in numbers:
            assert (float(row[name]) if row[name] else None) == wanted[name]
    sessions = [row["session"] for row in found]
    assert sessions[:5] == ["ann", "Zoë", "'=1+1", "a\nb", "\0"]
    assert sessions[-1] == ""


@pytest.mark.parametrize(
    "options", [("--format", "parquet"), ("--out", "shop.parquet")], ids=["format", "out"]
)
def test_a_parquet_file_has_the_same_rows(
    call: Call, expected: list[dict[str, Any]], options: tuple[str, str]
) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    said = call("export", "--database", "all.sqlite", "--model", "shop", *options)
    assert (said.code, said.out) == (0, "shop.parquet\n")
    found = parquet.read_table("shop.parquet").to_pylist()
    assert list(found[0]) == COLUMNS
    for row, wanted in zip(found, expected, strict=True):
        if wanted["session"] == "\ud800":  # not a character: UTF-8 cannot store it
            wanted = {**wanted, "session": "\ufffd"}
        assert {name: value for name, value in row.items() if name != "time"} == wanted
        assert math.isfinite(row["time"])


def test_both_formats_are_written_if_both_are_asked_for(
    call: Call, expected: list[dict[str, Any]]
) -> None:
    pytest.importorskip("pyarrow.parquet")
    options = ("--format", "csv", "--format", "parquet")
    said = call("export", "--database", "all.sqlite", "--model", "shop", *options)
    assert said.out == "shop.csv\nshop.parquet\n"
    assert Path("shop.csv").exists()
    assert Path("shop.parquet").exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--model", "none"), "has no model 'none'"),
        (("--model", "shop", "--out", "shop.txt"), "ends in .csv or .parquet"),
        (("--model", "shop", "--out", "a.csv", "--format", "csv"), "--format must be omitted"),
    ],
)
def test_mistakes_are_reported_and_nothing_is_written(
    call: Call, expected: list[dict[str, Any]], options: tuple[str, ...], message: str
) -> None:
    said = call("export", "--database", "all.sqlite", *options)
    assert said.code == 2
    assert message in said.err
    assert not [*Path().glob("*.csv"), *Path().glob("*.txt")]
