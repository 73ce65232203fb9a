"""Published results: all runs can be read back, and entries are compared problem by problem."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from switchmdp.errors import DamagedFile, InvalidParameter
from switchmdp.experiments.leaderboard import (
    Choices,
    Contender,
    Row,
    Standing,
    Suite,
    load_published,
    publish,
    published_rows,
    shipped_suite,
    with_published,
)
from switchmdp.experiments.results import Results, as_setting
from switchmdp.storage import save_arrays

ROW = Row("r", "random", horizon=40)
SUITE = Suite("s", (ROW,), (Contender("a", "ucrl2"), Contender("b", "psrl", ours=True)))
TIMES = [10, 20, 30, 40]
REGRET = {"a": [[1, 2, 3, 4], [2, 3, 4, 5]], "b": [[0, 1, 1, 2], [1, 1, 2, 2]]}


def standing(regret: dict[str, list[list[int]]]) -> Standing:
    setting = as_setting(TIMES, regret)
    choices: Choices = {"a": {"width": 0.3}} if "a" in regret else {}
    return Standing(ROW, None, choices, Results("", 0.05, {"r": setting}))


@pytest.mark.parametrize(("points", "times"), [(1, [40]), (2, [20, 40]), (9, TIMES)])
def test_published_runs_are_read_back(tmp_path: Path, points: int, times: list[int]) -> None:
    publish([standing(REGRET)], tmp_path / "file.npz", points)
    published = load_published(tmp_path / "file.npz")
    assert published.times["r"].tolist() == times
    columns = [TIMES.index(t) for t in times]
    for name, curves in REGRET.items():
        assert published.regret["r"][name].tolist() == np.array(curves)[:, columns].tolist()
    assert published.choices == {"r": {"a": {"width": 0.3}}}


def test_rows_keep_their_order_and_their_runs(tmp_path: Path) -> None:
    """The second row has fewer contenders, and its name comes first in the alphabet."""
    second = Standing(
        Row("a", "random", horizon=40), None, {},
        Results("", 0.05, {"a": as_setting(TIMES, {"b": [[7, 7, 7, 7]]})}),
    )  # fmt: skip
    publish([standing(REGRET), second], tmp_path / "file.npz")
    published = load_published(tmp_path / "file.npz")
    assert {row: list(agents) for row, agents in published.regret.items()} == {
        "r": ["a", "b"], "a": ["b"],
    }  # fmt: skip
    assert published.regret["a"]["b"].tolist() == [[7]]


def test_rows_can_be_added_to_published_results(tmp_path: Path) -> None:
    publish([standing(REGRET)], tmp_path / "first.npz", points=2)
    results = Results("", 0.05, {"a": as_setting(TIMES, {"b": [[7, 7, 7, 8]]})})
    new = Standing(Row("a", "random", horizon=40), None, {}, results)
    publish([new], tmp_path / "second.npz", previous=load_published(tmp_path / "first.npz"))
    both = load_published(tmp_path / "second.npz")
    assert list(both.regret) == ["r", "a"]
    assert both.regret["r"]["a"].tolist() == [[2, 4], [3, 5]]
    assert both.times["r"].tolist() == [20, 40]
    assert both.choices == {"r": {"a": {"width": 0.3}}, "a": {}}
    assert both.regret["a"]["b"].tolist() == [[8]]


def test_a_row_that_is_published_again_replaces_the_old_one(tmp_path: Path) -> None:
    publish([standing(REGRET)], tmp_path / "file.npz")
    corrected = standing({"b": [[0, 1, 1, 9], [1, 1, 2, 9]]})
    previous = load_published(tmp_path / "file.npz")
    publish([corrected], tmp_path / "file.npz", previous=previous)
    published = load_published(tmp_path / "file.npz")
    assert list(published.regret["r"]) == ["b"]
    assert published.regret["r"]["b"].tolist() == [[9], [9]]


def test_an_entry_joins_the_published_contenders(tmp_path: Path) -> None:
    publish([standing(REGRET)], tmp_path / "file.npz")
    entry = standing({"mine": [[0, 0, 1, 1], [0, 1, 1, 1]]})
    suite, (merged,) = with_published(SUITE, [entry], load_published(tmp_path / "file.npz"))
    (setting,) = merged.results.settings.values()
    assert list(setting.agents) == ["a", "b", "mine"]
    assert [one.name for one in suite.contenders] == ["mine", "a", "b"]
    assert suite.ours == ("mine",)
    assert setting.agents["mine"].regret[:, -1].tolist() == [1, 1]


def test_rows_with_other_problems_are_left_out(tmp_path: Path) -> None:
    publish([standing(REGRET)], tmp_path / "file.npz")
    published = load_published(tmp_path / "file.npz")
    shorter = standing({"mine": [[0, 0, 1, 1]]})
    assert with_published(SUITE, [shorter], published)[1] == []


def test_missing_and_foreign_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidParameter, match="suite must be closed or open or quick"):
        load_published("no-such")
    save_arrays(tmp_path / "other.npz", "published leaderboard", {"rows": [{"name": "r"}]}, {})
    with pytest.raises(DamagedFile, match=r"other\.npz"):
        load_published(tmp_path / "other.npz")


@pytest.mark.parametrize("name", ["open", "closed", "quick"])
def test_the_published_results_belong_to_the_suite_of_their_name(name: str) -> None:
    suite, published = shipped_suite(name), load_published(name)
    rows = published_rows(suite, published).rows
    assert rows
    for row in rows:
        assert published.times[row.name].tolist() == [row.horizon]
        assert {len(runs) for runs in published.regret[row.name].values()} == {
            row.problems or suite.problems
        }
        assert set(published.regret[row.name]) == {one.name for one in suite.contenders_of(row)}
