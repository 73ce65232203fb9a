"""leaderboard, with a tiny suite in place of the suite of the package."""

from __future__ import annotations

import json
import shlex
import threading
from pathlib import Path
from typing import Any

import pytest

from switchmdp.experiments.leaderboard import (
    Contender,
    Row,
    Suite,
    create_folder,
    publish,
    run_suite,
    standings,
)
from switchmdp.experiments.leaderboard import load_published as load

CHANGE_POINTS = {"change_points": {"formula": "change-points"}}
TINY = Suite(
    "Tiny",
    (
        Row("changes", "random-switching", {"changes": 1}, horizon=300),
        Row("still", "random", horizon=300, changes=False),
    ),
    (
        Contender("periodic", "ucrl2-rw", {}, {"period": (20, 60)}, unforgetting="plain"),
        Contender("plain", "ucrl2", ours=True),
        Contender("told", "oracle", CHANGE_POINTS, told=True),
    ),
    tuning_problems=2, problems=3, note="Only a test.",
)  # fmt: skip
RUNS = 2 * (2 * 2 + 3 * 3)


@pytest.fixture(autouse=True)
def _tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("switchmdp.experiments.leaderboard.shipped_suite", lambda name: TINY)
    monkeypatch.setattr("switchmdp.experiments.plan.SECONDS_PER_CHUNK", 0.0)
    monkeypatch.setattr("switchmdp.reports.figures.FORMATS", ("svg",))


def written(folder: Path) -> dict[str, int]:
    """Every chunk, and the time at which it was written."""
    return {str(file): file.stat().st_mtime_ns for file in folder.glob("rows/*/*/runs/*")}


def test_the_suite_is_run_and_reported_and_a_second_call_prints_the_same(call: Any) -> None:
    result = call("leaderboard", "--out", "here")
    assert result.code == 0
    assert f"{RUNS} runs done in" in result.err
    assert "changes: choosing parameters\n" in result.err
    assert result.out.startswith("Tiny\n")
    assert result.out.endswith("\nreport: here/report/index.html\n")
    assert Path("here/report/index.html").read_text("utf-8").startswith("<!doctype html>")
    assert "**changes: every agent**" in Path("here/report/leaderboard.md").read_text("utf-8")
    before = written(Path("here"))
    second = call("leaderboard", "--out", "here")
    assert (second.code, second.out) == (0, result.out)
    assert f"nothing to run: all {RUNS} runs are done" in second.err
    assert written(Path("here")) == before


def test_a_second_call_runs_only_what_is_missing(call: Any) -> None:
    folder = create_folder(TINY, "here")
    run_suite(TINY, folder, stop=threading.Event(), begin=lambda part: None, jobs=1)
    lost = Path("here/rows/still/reporting/runs/s000-a001-b00001.npz")
    content = lost.read_bytes()
    lost.unlink()
    before = written(folder)
    result = call("leaderboard", "--out", "here")
    assert result.code == 0
    assert "\n1 run done in" in result.err
    assert lost.read_bytes() == content
    assert written(folder).items() >= before.items()


def test_the_report_is_written_when_all_shards_are_done(call: Any) -> None:
    result = call("leaderboard", "--out", "here", "--shard", "1/2")
    assert result.code == 0
    command = "switchmdp leaderboard --out here --shard 1/2"
    assert f"2 of 2 rows are not complete; when all shards are done, run: {command}\n" in result.err
    assert result.out == ""
    for shard in ("2/2", "1/2"):
        result = call("leaderboard", "--out", "here", "--shard", shard)
    assert result.out.endswith("\nreport: here/report/index.html\n")


def test_chosen_rows_are_run_into_the_folder_of_the_suite(call: Any) -> None:
    result = call("leaderboard", "--out", "here", "--row", "still")
    assert result.code == 0
    assert f"{RUNS // 2} runs done in" in result.err
    assert "not complete" not in result.err
    document = Path("here/report/leaderboard.md").read_text("utf-8")
    assert "2 rows of problems, of which 1 are complete." in document
    assert "**still: every agent**" in document
    assert "**changes: every agent**" not in document
    assert f"\n{RUNS // 2} runs done in" in call("leaderboard", "--out", "here").err  # the others


def test_an_unknown_row_is_an_error_that_names_the_rows(call: Any) -> None:
    result = call("leaderboard", "--out", "here", "--row", "drift")
    assert result.code == 2
    assert "one of changes, still" in result.err
    assert not Path("here").exists()


def test_quick_uses_a_separate_folder(call: Any) -> None:
    assert call("leaderboard", "--quick", "--quiet").code == 0
    assert Path("results/leaderboard-quick/report/index.html").is_file()
    assert not Path("results/leaderboard").exists()
    page = Path("results/leaderboard-quick/report/index.html").read_text("utf-8")
    assert ">switchmdp leaderboard --suite quick<" in page


def test_the_closed_suite_uses_a_separate_folder(
    call: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = []

    def suite(name: str) -> Suite:
        names.append(name)
        return TINY

    monkeypatch.setattr("switchmdp.experiments.leaderboard.shipped_suite", suite)
    assert call("leaderboard", "--suite", "closed", "--quiet").code == 0
    assert names == ["closed"]
    assert Path("results/leaderboard-closed/report/index.html").is_file()


OTHER = """
class Other:
    def __init__(self, n_states, n_actions, after):
        self.left = after

    def act(self, state):
        if self.left == 0:
            raise RuntimeError("out of ideas")
        return 0

    def observe(self, state, action, reward, next_state):
        self.left -= 1
"""


@pytest.fixture
def published(call: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The tiny suite has published results."""
    assert call("leaderboard", "--out", "whole", "--quiet").code == 0
    publish(standings(TINY, Path("whole")), "published.npz")
    monkeypatch.setattr(
        "switchmdp.experiments.leaderboard.load_published", lambda name: load("published.npz")
    )


def test_an_agent_of_your_own_is_ranked_among_published_results(call: Any, published: None) -> None:
    """The entry is UCRL2 under another name, so it ties with the published UCRL2."""
    Path("mine.py").write_text("from switchmdp.agents import UCRL2 as Mine\n", "utf-8")
    result = call("leaderboard", "--agent", "mine:Mine", "--executor", "threads")
    assert result.code == 0
    assert "6 runs done in" in result.err  # 2 rows × 3 problems of one agent
    document = Path("results/leaderboard-Mine/report/leaderboard.md").read_text("utf-8")
    row = document.partition("**changes: every agent**")[2]
    ranks = {line.split(" | ")[1]: line.split(" | ")[0] for line in row.splitlines() if "|" in line}
    assert ranks["Mine"] == ranks["plain"]
    assert "periodic" in ranks
    assert result.out.startswith("Tiny\n")
    page = Path("results/leaderboard-Mine/report/index.html").read_text("utf-8")
    assert "Mine" in page
    assert "periodic" in page


def test_an_agent_of_your_own_gets_the_parameters_that_are_set(call: Any, published: None) -> None:
    Path("other.py").write_text(OTHER, "utf-8")
    result = call("leaderboard", "--agent", "other:Other", "--row", "still", "--quiet")
    assert result.code == 2
    assert "parameters.after: missing required parameter" in result.err
    options = ("--agent", "other:Other", "--set", "after=1000", "--row", "still")
    assert call("leaderboard", *options, "--executor", "threads").code == 0


def test_the_error_of_an_agent_of_your_own_is_shown(call: Any, published: None) -> None:
    Path("other.py").write_text(OTHER, "utf-8")
    options = ("--agent", "other:Other", "--set", "after=100", "--row", "still")
    result = call("leaderboard", *options, "--executor", "threads")
    assert result.code == 3
    assert "3 runs failed" in result.err
    assert "the first failed run: RuntimeError: out of ideas" in result.err


def test_an_unknown_agent_is_named_with_a_suggestion(call: Any) -> None:
    result = call("leaderboard", "--agent", "ucrl-2")
    assert result.code == 2
    assert "ucrl2" in result.err
    assert not Path("results").exists()


def test_a_parameter_without_an_agent_is_refused_before_anything_runs(call: Any) -> None:
    result = call("leaderboard", "--set", "rate=0.02")
    assert result.code == 2
    assert result.err == "error: --set must be used together with --agent, got {'rate': 0.02}\n"
    assert not Path("results").exists()


def test_a_file_as_an_agent_is_answered_with_the_name_of_its_class(call: Any) -> None:
    text = "class Mine:\n    def act(self, s): ...\n    def observe(self, *step): ...\n"
    Path("mine.py").write_text(text, "utf-8")
    result = call("leaderboard", "--agent", "mine.py")
    assert result.code == 2
    assert "write 'mine:Mine'" in result.err


def test_the_command_to_resume_repeats_the_options(
    call: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*rest: Any, **more: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("switchmdp.experiments.leaderboard.run_chunks", interrupt)
    options = ("--out", "my runs", "--shard", "2/3", "--jobs", "1", "--executor", "threads")
    result = call("leaderboard", "--quick", *options)
    assert result.code == 130
    command = result.err.splitlines()[-1].partition("; to resume: ")[2]
    assert sorted(shlex.split(command)) == sorted(
        ("switchmdp", "leaderboard", "--suite", "quick", *options)
    )


def test_json_reports_progress_and_results(call: Any) -> None:
    result = call("leaderboard", "--out", "here", "--json")
    lines = [json.loads(line) for line in result.out.splitlines()]
    assert [line["part"] for line in lines if line["event"] == "begin"] == [
        f"{row}: {what}"
        for row in ("changes", "still")
        for what in ("choosing parameters", "measuring regret")
    ]
    finished, board = lines[-2:]
    assert (finished["event"], finished["done"], finished["exit"]) == ("finished", RUNS, 0)
    assert board["event"] == "leaderboard"
    assert board["relative_regret"]["changes"]["told"] == 1.0
    assert board["files"][0] == "here/report/index.html"
    assert all("compiling" in line for line in result.err.splitlines())


def test_a_folder_that_is_not_a_suite_is_rejected(call: Any, done: Path) -> None:
    result = call("leaderboard", "--out", done)
    assert result.code == 4
    assert "is not the folder of a suite" in result.err


def test_a_failing_agent_fails_its_own_runs_and_the_rest_is_reported(
    call: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    fails = Contender("fails", "own_agents:Fails")
    suite = Suite("Failing", TINY.rows[:1], (*TINY.contenders, fails), 2, 3)
    monkeypatch.setattr("switchmdp.experiments.leaderboard.shipped_suite", lambda name: suite)
    result = call("leaderboard", "--out", "here", "--executor", "threads")
    assert result.code == 3
    assert "3 runs failed; for their tracebacks: here/rows/*/*/failures" in result.err
    assert "fails" not in result.out.partition("All rows")[2]


def test_without_matplotlib_there_is_the_document(
    call: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "matplotlib", None)
    result = call("leaderboard", "--out", "here")
    assert result.code == 2
    assert "no figures and no page: figures need matplotlib" in result.err
    assert Path("here/report/leaderboard.md").is_file()
