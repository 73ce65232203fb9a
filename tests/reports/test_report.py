"""The report of an experiment: its files, reproducible bytes, and the terminal summary."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from switchmdp.errors import MissingExtra
from switchmdp.experiments.results import Results, Runs, as_setting
from switchmdp.reports import curves, figures, report
from switchmdp.reports.report import Report

Maker = Callable[..., Results]


def digests(folder: Path) -> dict[str, str]:
    files = [file for file in folder.rglob("*") if file.is_file()]
    return {str(f.relative_to(folder)): hashlib.sha256(f.read_bytes()).hexdigest() for f in files}


def with_runs(results: Results, change: Callable[[Runs], Runs]) -> Results:
    """Return the results with changed runs of the first agent."""
    settings = {}
    for name, setting in results.settings.items():
        first, *_ = setting.agents
        agents = {**setting.agents, first: change(setting.agents[first])}
        settings[name] = replace(setting, agents=agents)
    return replace(results, settings=settings)


def unfinished(runs: Runs) -> Runs:
    """Return runs of which the first two are not finished."""
    regret = runs.regret.copy()
    regret[:2] = np.nan
    return replace(runs, regret=regret)


def failed(runs: Runs) -> Runs:
    """Return runs of which the first two failed."""
    flags = runs.failed.copy()
    flags[:2] = True
    return replace(unfinished(runs), failed=flags)


def test_a_setting_may_be_filed_under_another_name(tmp_path: Path) -> None:
    setting = as_setting([10, 20], {"a": [[1, 2]]})
    page, *_ = report.write_report(Results("Curves", 0.1, {"mine": setting}), tmp_path)
    assert 'id="setting-1"' in page.read_text("utf-8")


def test_all_files_are_written_and_the_same_results_give_the_same_bytes(
    tmp_path: Path, make_results: Maker
) -> None:
    first, second = tmp_path / "new" / "report", tmp_path / "again"
    files = report.write_report(make_results(), first)
    assert [str(file.relative_to(first)) for file in files] == [
        "index.html", "tables.md",
        *(f"figures/{name}.{kind}" for name in ("regret", "final") for kind in figures.FORMATS),
    ]  # fmt: skip
    assert all(file.stat().st_size for file in files)
    report.write_report(make_results(), second)
    assert digests(first) == digests(second)


def test_more_than_four_settings_get_separate_figures(
    make_results: Maker,
) -> None:
    few = make_results(settings=("a", "b", "c", "d"), n=3, points=5)
    assert [name for name, _ in report.report_figures(Report(few))] == ["regret", "final"]
    many = make_results(settings=("a", "b", "c", "d", "e"), n=3, points=5)
    names = [name for name, _ in report.report_figures(Report(many))]
    assert names == [f"{kind}-{i:02d}" for kind in ("regret", "final") for i in range(1, 6)]


def test_a_swept_parameter_gets_a_figure_named_after_it(make_results: Maker) -> None:
    results = make_results(settings=("a", "b"), n=3, points=5)
    settings = {
        name: replace(setting, base="s", swept={"no. of/changes": i}, parameters={})
        for i, (name, setting) in enumerate(results.settings.items())
    }
    names = [name for name, _ in report.report_figures(Report(replace(results, settings=settings)))]
    assert names == ["regret", "final", "against-no-of-changes"]


def test_regret_by_diameter_is_drawn_for_enough_problems(make_results: Maker) -> None:
    results = make_results(n=curves.ENOUGH_PROBLEMS, points=5)
    assert [name for name, _ in report.report_figures(Report(results))][-1] == "against-diameter"


def test_the_summary_shows_regret_and_verdicts(make_results: Maker) -> None:
    text = report.summary(make_results())
    title, first, *_ = text.split("\n\n")
    assert title == "A window against restarts"
    assert first == "two changes: regret after 10 000 steps on 8 problems"
    assert "mean (95 % interval)" in text
    assert "\nwindow " in text
    assert "“The window wins.”\n  REPRODUCED\n    reproduced: its mean final regret" in text
    assert "failed" not in text
    assert "unfinished" not in text


def test_the_summary_and_the_page_say_if_nothing_changes_within_the_horizon(
    make_results: Maker,
) -> None:
    results = make_results(n=3, points=5)
    ((name, setting),) = results.settings.items()
    late = replace(setting, change_points=(np.array([10_001, 20_000]),) * 3)
    note = "Nothing changes in these runs of 10 000 steps: the first change point is step 10 001."
    for one, noted in ((setting, False), (late, True)):
        shown = Report(replace(results, settings={name: one}))
        assert (note in shown.summary()) is noted
        assert (note in report.markdown(shown)) is noted
        (plot, *_) = report.setting_section(shown.results, name, []).blocks
        assert (note == plot.caption) is noted  # type: ignore[union-attr]  # it is a plot


def test_the_summary_counts_failed_and_unfinished_runs(
    make_results: Maker,
) -> None:
    text = report.summary(with_runs(make_results(claims=False), failed))
    assert "agent" in text
    assert [line.split()[-1] for line in text.splitlines() if line.startswith("window")] == ["2"]
    assert "failed" in text
    assert "not complete" not in text
    text = report.summary(with_runs(make_results(claims=False), unfinished))
    assert "unfinished" in text
    assert text.endswith("not complete: 2 runs are still to be done")


def test_the_saved_tables_say_that_runs_are_unfinished(make_results: Maker) -> None:
    note = "Not complete: 2 of 16 runs are unfinished, so means may be over different problems."
    few = "Intervals over fewer than 6 problems tend to be too narrow."
    for n, change, said in ((8, unfinished, [note]), (8, failed, []), (7, unfinished, [few])):
        text = report.markdown(Report(with_runs(make_results(n=n, claims=False), change)))
        assert all(one in text for one in said)
        assert ("| unfinished |" in text) is (change is unfinished)
        assert ("Not complete" in text) is (change is unfinished)
        assert (few in text) is (few in said)


def test_three_or_more_settings_have_an_overview_table(make_results: Maker) -> None:
    assert "Overview" not in report.markdown(
        Report(make_results(settings=("a", "b"), n=3, points=5))
    )
    assert "Overview" in report.markdown(
        Report(make_results(settings=("a", "b", "c"), n=3, points=5))
    )


def test_the_summary_shows_at_most_eight_settings(make_results: Maker) -> None:
    results = make_results(settings=tuple("abcdefghij"), n=2, points=3, claims=False)
    text = report.summary(results)
    assert text.count("regret after") == report.MOST_SHOWN
    assert text.endswith("2 more settings are in the report")


def test_long_verdicts_are_wrapped_without_breaking_numbers(make_results: Maker) -> None:
    (claim,) = make_results().claims
    long = claim.model_copy(update={"reading": "1 000 000, " * 30})
    text = report.summary(replace(make_results(), claims=(long,)))
    lines = text.splitlines()
    assert max(map(len, lines)) <= report.TERMINAL_WIDTH
    numbers = [line for line in lines if "1 000 000" in line]
    assert len(numbers) > 1
    assert all(line.endswith("1 000 000,") for line in numbers)


def test_markdown_contains_every_table_and_the_provenance(make_results: Maker) -> None:
    text = report.markdown(Report(make_results()))
    assert text.startswith("# A window against restarts\n\n- rerun: ")
    for table in report.all_tables(Report(make_results())):
        assert table.markdown() in text


def test_names_from_a_configuration_are_escaped(hostile_results: Results) -> None:
    odd = replace(hostile_results, title="a\n# b\x1b[2J<img>")
    assert report.markdown(Report(odd)).startswith("# a # b [2J&lt;img&gt;\n")
    assert "\x1b" not in report.summary(odd)
    assert "<script>" not in report.markdown(Report(hostile_results))


def test_empty_results_can_be_reported(tmp_path: Path) -> None:
    empty = Results("nothing yet", 0.1, {})
    assert report.summary(empty) == "nothing yet"
    assert report.write_tables(empty, tmp_path).read_text("utf-8").startswith("# nothing yet\n")


def test_without_matplotlib_the_tables_are_still_written(
    tmp_path: Path, make_results: Maker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(MissingExtra, match=r"switchmdp\[plot\]"):
        report.write_report(make_results(), tmp_path)
    assert (tmp_path / "tables.md").exists()
