"""The leaderboard: yardsticks, ranks, tables and files, from hand-made rows."""

from __future__ import annotations

import hashlib
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from switchmdp.experiments.leaderboard import Contender, Row, Standing, Suite
from switchmdp.experiments.results import Results, Runs, as_setting
from switchmdp.reports.leaderboard import (
    Leaderboard,
    adaptivity_table,
    choices_table,
    detector_table,
    document,
    overall,
    overall_tables,
    places,
    row_table,
    summary,
    write_leaderboard,
    yardstick,
)

ROWS = (
    Row("changes", "p", horizon=2000),
    Row("drifts", "p", horizon=2000, drifts=True),
    Row("still", "p", horizon=2000, changes=False, large=True),
)
SUITE = Suite(
    "A suite", ROWS,
    (
        Contender("ours", "x", ours=True, detects=True, unforgetting="plain"),
        Contender("window", "x", {}, {"w": (4, 8)}, unforgetting="plain"),
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
    """Two problems; on the second one, regret is twice as high."""
    changes = [1001] if row.changes else []
    curves = {name: [[x / 2, x], [x, 2 * x]] for name, x in finals.items()}
    setting = as_setting([1000, 2000], curves, changes)
    agents = {
        name: replace(runs, restarts=(np.array(restarts.get(name, []), np.int64),) * 2)
        for name, runs in setting.agents.items()
    }
    named = replace(setting, name=row.name, agents=agents)
    tuning = as_setting([1000, 2000], {"w 4": [[5, 7]], "w 8": [[4, 6]]})
    values: dict[str, Runs] = {
        name: replace(runs, base="window", swept={"w": w})
        for (name, runs), w in zip(tuning.agents.items(), (4, 8), strict=True)
    }
    results = Results("", 0.05, {row.name: replace(tuning, agents=values)})
    return Standing(row, results, {"window": {"w": 8}}, Results("", 0.05, {row.name: named}))


@pytest.fixture
def leaderboard() -> Leaderboard:
    restarts = {"told": [1001], "ours": [400, 1100]}
    return Leaderboard(SUITE, [standing(row, FINALS[row.name], restarts) for row in ROWS])


def test_the_yardstick_is_the_best_agent_with_known_change_points(leaderboard: Leaderboard) -> None:
    assert yardstick(SUITE, leaderboard.standings[0]) == "told too"
    assert yardstick(SUITE, leaderboard.standings[2]) == "told"


def test_the_yardstick_of_a_drifting_problem_is_the_best_rival_of_ours(
    leaderboard: Leaderboard,
) -> None:
    assert yardstick(SUITE, leaderboard.standings[1]) == "window"


def test_agents_with_known_change_points_are_not_ranked(leaderboard: Leaderboard) -> None:
    ranks = [(place.name, place.rank) for place in leaderboard.board["changes"]]
    assert ranks == [("told too", None), ("told", None), ("ours", 1), ("window", 2), ("plain", 3)]


def test_relative_regret_is_a_ratio_of_means_on_the_same_problems(
    leaderboard: Leaderboard,
) -> None:
    by_name = {place.name: place for place in leaderboard.board["changes"]}
    assert by_name["ours"].relative.middle == 1.5
    assert by_name["told too"].relative.middle == 1.0
    assert by_name["plain"].relative.low == 4.0  # both are twice as high on the second problem


def test_each_agent_is_compared_with_the_next_in_rank(leaderboard: Leaderboard) -> None:
    ahead = {p.name: p.ahead for p in leaderboard.board["changes"]}
    assert ahead["ours"] is not None
    assert ahead["ours"].middle == 1.0
    assert ahead["plain"] is ahead["told"] is None


def test_agents_with_equal_regret_share_a_rank() -> None:
    finals = {**FINALS["changes"], "window": 30.0}
    by_name = {place.name: place for place in places(SUITE, standing(ROWS[0], finals, {}))}
    assert [by_name[name].rank for name in ("ours", "window", "plain")] == [1, 1, 3]
    assert by_name["ours"].ahead is not None
    assert by_name["ours"].ahead.middle == 0.5


def test_an_agent_whose_runs_all_failed_has_no_place() -> None:
    finals = {**FINALS["changes"], "plain": math.nan}
    ranked = places(SUITE, standing(ROWS[0], finals, {}))
    assert "plain" not in [place.name for place in ranked]


def test_mean_ranks_are_over_the_rows_in_which_an_agent_took_part(
    leaderboard: Leaderboard,
) -> None:
    everyone = {one.contender.name: one for one in overall(SUITE, leaderboard.board)}
    assert list(everyone) == ["ours", "window", "plain", "told too", "told"]
    assert everyone["ours"].mean_rank == pytest.approx((1 + 1 + 2) / 3)
    assert (everyone["ours"].firsts, everyone["plain"].firsts) == (2, 1)
    assert len(everyone["told"].relative) == 2
    assert everyone["ours"].geometric_mean == pytest.approx((1.5 * 0.9 * 1.2) ** (1 / 3))


def test_the_lowest_relative_regret_without_known_change_points_is_starred(
    leaderboard: Leaderboard,
) -> None:
    small, large, ranks = overall_tables(SUITE, leaderboard.standings, leaderboard.board)
    assert small.columns == ("agent", "changes", "drifts")
    assert large.columns == ("agent", "still")
    assert small.rows[0] == ("ours", "1.50*", "0.900*")
    assert small.rows[4] == ("told", "1.25", "–")
    assert large.rows[2] == ("plain", "1.00*")
    assert ranks.rows[0][:3] == ("ours", "1.33", "2")


def test_a_row_table_names_the_chosen_values_the_yardstick_and_absent_agents(
    leaderboard: Leaderboard,
) -> None:
    table = row_table(SUITE, leaderboard.standings[1], leaderboard.board["drifts"])
    assert [row[1:3] for row in table.rows] == [("ours", ""), ("window", "w 8"), ("plain", "")]
    assert "The yardstick is “window”, the best rival of ours." in table.note
    assert "Left out: told; told too (" in table.note


def test_only_detectors_are_scored_for_detection(leaderboard: Leaderboard) -> None:
    rows = detector_table(SUITE, leaderboard.standings).rows
    assert rows == (
        ("changes", "ours", "100.0 %", "99", "50.0"),
        ("still", "ours", "–", "–", "100"),
    )


def test_the_cost_of_adaptivity_is_measured_on_problems_that_do_not_change(
    leaderboard: Leaderboard,
) -> None:
    rows = adaptivity_table(SUITE, leaderboard.standings).rows
    assert rows[0] == ("still", "ours", "plain", "1.20")
    assert rows[1][:2] == ("still", "window")
    assert len(rows) == 2


def test_chosen_values_are_shown_with_their_regret_and_whether_they_end_the_grid(
    leaderboard: Leaderboard,
) -> None:
    rows = choices_table(SUITE, leaderboard.standings).rows
    assert rows[0] == ("changes", "window", "2", "w 8", "6.00", "7.00", "w")


def test_curves_of_the_best_agents_ours_and_the_yardstick_are_drawn(
    leaderboard: Leaderboard,
) -> None:
    assert list(leaderboard.shown(leaderboard.standings[0]).agents) == [
        "ours",
        "window",
        "plain",
        "told too",
    ]


def test_the_summary_has_one_line_per_row(leaderboard: Leaderboard) -> None:
    text = summary(leaderboard)
    assert "By hand." in text
    line = next(line for line in text.splitlines() if line.startswith("still"))
    assert line.split() == ["still", "told", "plain", "1.00", "1.20"]


def test_the_document_states_how_many_rows_are_complete(leaderboard: Leaderboard) -> None:
    assert "3 rows of problems. " in document(leaderboard)
    part = Leaderboard(SUITE, leaderboard.standings[:1])
    assert "3 rows of problems, of which 1 are complete." in document(part)
    assert document(Leaderboard(SUITE, [])).startswith("# A suite\n")


def test_the_document_explains_tuning_and_adaptation(
    leaderboard: Leaderboard,
) -> None:
    text = document(leaderboard)
    assert "chosen separately for each row, by mean pseudo-regret on 2 problems" in text
    assert "loses at most 0.05 per step" in text
    assert "to reproduce" not in text
    again = Leaderboard(SUITE, leaderboard.standings, "switchmdp leaderboard --quick")
    assert "- to reproduce: `switchmdp leaderboard --quick`\n" in document(again)


def digests(folder: Path) -> dict[str, str]:
    files = [file for file in folder.rglob("*") if file.is_file()]
    return {str(f.relative_to(folder)): hashlib.sha256(f.read_bytes()).hexdigest() for f in files}


def test_all_files_are_written_with_reproducible_bytes(
    tmp_path: Path, leaderboard: Leaderboard
) -> None:
    files = write_leaderboard(leaderboard, tmp_path / "one")
    write_leaderboard(leaderboard, tmp_path / "two")
    assert digests(tmp_path / "one") == digests(tmp_path / "two")
    assert len(digests(tmp_path / "one")) == len(files) == 2 + 2 * 3
    page = files[0].read_text("utf-8")
    assert 'src="data:image/svg+xml;base64,' in page
    assert f"{len(leaderboard.suite.contenders)} agents in" in page.replace("\u00a0", " ")
    assert page.index('id="overview"') < page.index('id="setting-1"')
    text = files[1].read_text("utf-8")
    for name in ("leaderboard-heat-map", "leaderboard-regret-01"):
        assert f"(figures/{name}.svg)" in text
        assert (tmp_path / "one" / "figures" / f"{name}.svg").is_file()


def test_names_that_contain_markup_are_escaped(tmp_path: Path, hostile: tuple[str, str]) -> None:
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
