"""The leaderboard: yardsticks, ranks and tables from hand-made rows, and what is written."""

from __future__ import annotations

import hashlib
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from switchmdp.experiments.leaderboard import Contender, Row, Standing, Suite, Tuned
from switchmdp.experiments.results import Results, Runs, as_setting
from switchmdp.reports.leaderboard import Leaderboard, document, summary, write_leaderboard
from switchmdp.reports.leaderboard_tables import (
    adaptivity_table,
    choices_table,
    detector_table,
    overall_tables,
    row_table,
)
from switchmdp.reports.ranking import overall, places, yardstick

ROWS = (
    Row("changes", "p", horizon=2000),
    Row("drifts", "p", horizon=2000, drifts=True),
    Row("still", "p", horizon=2000, changes=False, large=True),
)
SUITE = Suite(
    "A suite", ROWS,
    (
        Contender("ours", "x", ours=True, detects=True, unforgetting="plain"),
        Contender("window", "x", {}, Tuned("w", (4, 8)), unforgetting="plain"),
        Contender("plain", "x"),
        Contender("told", "x", told=True),
        Contender("told too", "x", told=True),
    ),
    tuning_problems=2, problems=2, note="By hand.",
)  # fmt: skip
FINALS = {
    "changes": {"ours": 30.0, "window": 40.0, "plain": 80.0, "told": 25.0, "told too": 20.0},
    "drifts": {"ours": 9.0, "window": 10.0, "plain": 20.0},
    "still": {"ours": 12.0, "window": 16.0, "plain": 10.0, "told": 10.0, "told too": 11.0},
}


def standing(row: Row, finals: dict[str, float], restarts: dict[str, list[int]]) -> Standing:
    """Two problems, of which the second costs twice as much."""
    changes = [1001] if row.changes else []
    curves = {name: [[x / 2, x], [x, 2 * x]] for name, x in finals.items()}
    setting = as_setting([1000, 2000], curves, changes)
    agents = {
        name: replace(runs, restarts=(np.array(restarts.get(name, []), np.int64),) * 2)
        for name, runs in setting.agents.items()
    }
    named = replace(setting, name=row.name, agents=agents)
    tried = as_setting([1000, 2000], {"w 4": [[5, 7]], "w 8": [[4, 6]]})
    values: dict[str, Runs] = {
        name: replace(runs, base="window", swept={"w": w})
        for (name, runs), w in zip(tried.agents.items(), (4, 8), strict=True)
    }
    before = Results("", 0.05, {row.name: replace(tried, agents=values)})
    return Standing(row, before, {"window": 8}, Results("", 0.05, {row.name: named}))


@pytest.fixture
def found() -> Leaderboard:
    told = {"told": [1001], "ours": [400, 1100]}
    return Leaderboard(SUITE, [standing(row, FINALS[row.name], told) for row in ROWS])


def test_the_yardstick_is_the_best_of_those_told(found: Leaderboard) -> None:
    assert yardstick(SUITE, found.standings[0]) == "told too"
    assert yardstick(SUITE, found.standings[2]) == "told"


def test_where_the_problem_drifts_it_is_the_best_rival_and_never_ours(found: Leaderboard) -> None:
    assert yardstick(SUITE, found.standings[1]) == "window"


def test_those_told_have_no_rank_and_the_others_no_gap_in_theirs(found: Leaderboard) -> None:
    ranks = [(place.name, place.rank) for place in found.board["changes"]]
    assert ranks == [("told too", None), ("told", None), ("ours", 1), ("window", 2), ("plain", 3)]


def test_relative_regret_is_a_ratio_of_means_over_the_same_problems(found: Leaderboard) -> None:
    by_name = {place.name: place for place in found.board["changes"]}
    assert by_name["ours"].relative.middle == 1.5
    assert by_name["told too"].relative.middle == 1.0
    assert by_name["plain"].relative.low == 4.0  # both are twice as high on the second problem


def test_each_is_compared_with_the_next_in_rank(found: Leaderboard) -> None:
    ahead = {p.name: p.ahead for p in found.board["changes"]}
    assert ahead["ours"] is not None
    assert ahead["ours"].middle == 1.0
    assert ahead["plain"] is ahead["told"] is None


def test_equals_share_a_rank_and_neither_is_likelier_to_be_better() -> None:
    finals = {**FINALS["changes"], "window": 30.0}
    found = {place.name: place for place in places(SUITE, standing(ROWS[0], finals, {}))}
    assert [found[name].rank for name in ("ours", "window", "plain")] == [1, 1, 3]
    assert found["ours"].ahead is not None
    assert found["ours"].ahead.middle == 0.5


def test_an_agent_that_failed_everywhere_is_nowhere() -> None:
    finals = {**FINALS["changes"], "plain": math.nan}
    found = places(SUITE, standing(ROWS[0], finals, {}))
    assert "plain" not in [place.name for place in found]


def test_over_all_rows_ranks_are_averaged_over_those_taken_part_in(found: Leaderboard) -> None:
    everyone = {one.contender.name: one for one in overall(SUITE, found.board)}
    assert list(everyone) == ["ours", "window", "plain", "told too", "told"]
    assert everyone["ours"].mean_rank == pytest.approx((1 + 1 + 2) / 3)
    assert (everyone["ours"].firsts, everyone["plain"].firsts) == (2, 1)
    assert everyone["told"].rows == 2
    assert everyone["ours"].geometric_mean == pytest.approx((1.5 * 0.9 * 1.2) ** (1 / 3))


def test_the_lowest_of_those_not_told_is_starred(found: Leaderboard) -> None:
    small, large, ranks = overall_tables(SUITE, found.standings, found.board)
    assert small.columns == ("agent", "changes", "drifts")
    assert large.columns == ("agent", "still")
    assert small.rows[0] == ("ours", "1.50*", "0.900*")
    assert small.rows[4] == ("told", "1.25", "–")
    assert large.rows[2] == ("plain", "1.00*")
    assert ranks.rows[0][:3] == ("ours", "1.33", "2")


def test_a_row_says_what_was_chosen_by_what_it_is_measured_and_who_is_left_out(
    found: Leaderboard,
) -> None:
    table = row_table(SUITE, found.standings[1], found.board["drifts"])
    assert [row[1:3] for row in table.rows] == [("ours", ""), ("window", "w 8"), ("plain", "")]
    assert "The yardstick is “window”, the best rival of ours." in table.note
    assert "Left out: told; told too (" in table.note


def test_detectors_are_scored_and_schedules_are_not(found: Leaderboard) -> None:
    rows = detector_table(SUITE, found.standings).rows
    assert rows == (
        ("changes", "ours", "100.0 %", "99", "50.0 (50.0 … 50.0)"),
        ("still", "ours", "–", "–", "100 (100 … 100)"),
    )


def test_adaptivity_is_priced_where_nothing_changes(found: Leaderboard) -> None:
    rows = adaptivity_table(SUITE, found.standings).rows
    assert rows[0] == ("still", "ours", "plain", "1.20 (1.20 … 1.20)")
    assert rows[1][:2] == ("still", "window")
    assert len(rows) == 2


def test_all_that_was_tried_is_shown_and_the_choice_starred(found: Leaderboard) -> None:
    rows = choices_table(SUITE, found.standings).rows
    assert rows[0] == ("changes", "window", "w", "4: 7.00, 8: 6.00*")


def test_the_curves_drawn_are_the_best_ours_and_the_yardstick(found: Leaderboard) -> None:
    assert list(found.shown(found.standings[0]).agents) == ["ours", "window", "plain", "told too"]


def test_the_summary_has_a_line_for_each_row(found: Leaderboard) -> None:
    text = summary(found)
    assert "By hand." in text
    line = next(line for line in text.splitlines() if line.startswith("still"))
    assert line.split() == ["still", "told", "plain", "1.00", "1.20"]


def test_the_document_says_how_many_rows_are_complete(found: Leaderboard) -> None:
    assert "3 rows of problems. " in document(found)
    part = Leaderboard(SUITE, found.standings[:1])
    assert "3 rows of problems, of which 1 are complete." in document(part)
    assert document(Leaderboard(SUITE, [])).startswith("# A suite\n")


def test_the_document_says_by_what_a_value_is_chosen_and_what_it_takes_to_adapt(
    found: Leaderboard,
) -> None:
    text = document(found)
    assert "chosen for each row by mean pseudo-regret on 2 problems" in text
    assert "loses at most 0.05 a step" in text
    assert "to run it again" not in text
    again = Leaderboard(SUITE, found.standings, "switchmdp leaderboard --quick")
    assert "- to run it again: `switchmdp leaderboard --quick`\n" in document(again)


def digests(folder: Path) -> dict[str, str]:
    files = [file for file in folder.rglob("*") if file.is_file()]
    return {str(f.relative_to(folder)): hashlib.sha256(f.read_bytes()).hexdigest() for f in files}


def test_everything_is_written_and_twice_the_same(tmp_path: Path, found: Leaderboard) -> None:
    files = write_leaderboard(found, tmp_path / "one")
    write_leaderboard(found, tmp_path / "two")
    assert digests(tmp_path / "one") == digests(tmp_path / "two")
    assert len(digests(tmp_path / "one")) == len(files) == 2 + 2 * 3
    page = files[0].read_text("utf-8")
    assert 'src="data:image/svg+xml;base64,' in page
    assert f"{len(found.suite.contenders)} agents in" in page.replace("\u00a0", " ")
    assert page.index('id="overview"') < page.index('id="setting-1"')
    text = files[1].read_text("utf-8")
    for name in ("leaderboard-heat-map", "leaderboard-regret-01"):
        assert f"(figures/{name}.svg)" in text
        assert (tmp_path / "one" / "figures" / f"{name}.svg").is_file()


def test_names_that_are_markup_stay_names(tmp_path: Path, hostile: tuple[str, str]) -> None:
    bad = "".join(hostile)
    row = replace(ROWS[0], name=bad)
    contenders = tuple(
        replace(one, name=bad) if one.name == "plain" else one for one in SUITE.contenders
    )
    suite = replace(SUITE, title=bad, note=bad, rows=(row,), contenders=contenders)
    finals = {bad if name == "plain" else name: x for name, x in FINALS["changes"].items()}
    write_leaderboard(Leaderboard(suite, [standing(row, finals, {})]), tmp_path)
    for file in ("index.html", "leaderboard.md"):
        text = (tmp_path / file).read_text("utf-8")
        assert "<script>alert" not in text
        assert "<img src=x" not in text
