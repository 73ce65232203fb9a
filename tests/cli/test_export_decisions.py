"""`switchmdp export --database`: the decisions of a model as a table."""

from __future__ import annotations

import csv
import math
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import Call

from switchmdp.agents import Agent
from switchmdp.online import Decisions
from switchmdp.online.models import Models
from switchmdp.online.sqlite import SQLite

COLUMNS = [
    "time", "session", "decision", "state", "action", "arm", "probability", "reward", "next_state",
    "state_name", "action_name", "next_state_name",
]  # fmt: skip
STATES = ["new", "old"]
SESSIONS = ["ann", "Zoë", "=1+1", "a\nb", "\0", "\ud800", *[""] * 54]  # many for both arms


class Mine(Agent):
    """An agent that the command line does not know."""

    def act(self, state: int) -> int:
        return 0

    def observe(self, state: int, action: int, reward: float, next_state: int) -> None:
        pass


@pytest.fixture
def expected() -> list[dict[str, Any]]:
    """A model with a split test and one pending decision; returns its rows."""
    rows = []
    with Models(SQLite("all.sqlite", sync=False)) as models:
        models.create("shop", "random", states=STATES, actions=3)
        shop = models.load("shop")
        shop.set_arms([{"name": "control", "share": 0.25, "policy": [2, 2]}])
        for i, session in enumerate(SESSIONS):
            asked = shop.decide(i % 2, session=session)
            row = {
                "session": session, "decision": asked.id, "state": asked.state,
                "action": asked.action, "arm": asked.arm, "probability": asked.probability,
                "reward": i / 100, "next_state": (i + 1) % 2, "state_name": STATES[i % 2],
                "action_name": None, "next_state_name": STATES[(i + 1) % 2],
            }  # fmt: skip
            rows.append(row)
            shop.feedback(asked.id, i / 100, (i + 1) % 2)
        asked = shop.decide(1)
        rows.append({
            "session": "", "decision": asked.id, "state": 1, "action": asked.action,
            "arm": asked.arm, "probability": asked.probability, "reward": None, "next_state": None,
            "state_name": "old", "action_name": None, "next_state_name": None,
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
        for name in ("state_name", "action_name", "next_state_name"):
            assert (row[name] or None) == wanted[name]
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


def test_names_of_added_states_and_actions_are_exported(call: Call) -> None:
    with Models(SQLite("all.sqlite", sync=False)) as models:
        models.create("shop", "random", states=["new"], actions=["=book"])
        shop = models.load("shop")
        shop.add_state(names=["old"])
        shop.add_state(count=2)
        shop.add_state(names=["half \ud800", "back"])
        shop.add_action(count=1)
        shop.add_action(names=["game"])
        for state, action, to in ((0, 0, 1), (4, 2, 5), (2, 1, 3)):
            shop.feedback(shop.decide(state, taken=action).id, 1.0, to)
    assert call("export", "--database", "all.sqlite", "--model", "shop").code == 0
    with open("shop.csv", newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [[row[name] for name in COLUMNS[-3:]] for row in rows] == [
        ["new", "'=book", "old"], ["half \ufffd", "game", "back"], ["", "", ""],
    ]  # fmt: skip


def test_decisions_of_a_user_agent_are_exported(call: Call) -> None:
    with Decisions(Mine(2, 2), "mine.sqlite", sync=False, classes=[Mine]) as decisions:
        decisions.feedback(decisions.decide(0).id, 1.0, 1)
    assert call("export", "--database", "mine.sqlite").code == 0
    assert len(Path("main.csv").read_text("utf-8").splitlines()) == 2


def test_both_formats_are_written_if_both_are_requested(
    call: Call, expected: list[dict[str, Any]]
) -> None:
    pytest.importorskip("pyarrow.parquet")
    options = ("--format", "csv", "--format", "parquet")
    said = call("export", "--database", "all.sqlite", "--model", "shop", *options)
    assert said.out == "shop.csv\nshop.parquet\n"
    assert Path("shop.csv").exists()
    assert Path("shop.parquet").exists()


def test_the_only_model_of_a_database_needs_no_name(
    call: Call, expected: list[dict[str, Any]]
) -> None:
    said = call("export", "--database", "all.sqlite", "--format", "csv")
    assert said.out == "shop.csv\n"
    with Models(SQLite("all.sqlite", sync=False)) as models:
        models.create("other", "random", states=STATES, actions=3)
    said = call("export", "--database", "all.sqlite", "--format", "csv")
    assert said.code == 2
    assert "has no model 'main'; choose one of its models" in said.err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--model", "none"), "all.sqlite has no model 'none'; choose one of its models"),
        (("--model", "shop", "--out", "shop.txt"), "--out must be a file that ends in .csv"),
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
