"""Tuning and reporting use different problems, and the shipped suites are valid."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from switchmdp.agents import agent_info
from switchmdp.experiments.leaderboard import (
    Choices,
    Contender,
    Row,
    Suite,
    choose,
    digest_of,
    entry_suite,
    expected_runs,
    reporting,
    shipped_suite,
    tuning,
)
from switchmdp.experiments.plan import check, problem_seed, run_seed
from switchmdp.experiments.results import Results, Runs, Setting, expand

FULL, CLOSED, QUICK = (shipped_suite(name) for name in ("open", "closed", "quick"))
SMALL = Suite(
    "small",
    (
        Row("changes", "random-switching", {"changes": 1}, horizon=400),
        Row("drifts", "random-switching", {"changes": 9}, horizon=400, drifts=True),
        Row("many states", "random-switching", {"n_states": 9}, horizon=400, large=True),
    ),
    (
        Contender("window", "sw-ucrl", {"delta": 0.1}, {"window": (0.1, 0.5)}, ["window"]),
        Contender("plain", "ucrl2", not_in_large="too slow"),
        Contender("told", "oracle", {"change_points": {"formula": "change-points"}}, told=True),
    ),
    tuning_problems=2,
    problems=3,
)  # fmt: skip


def results_of(finals: dict[int, list[float]], failed: tuple[float, ...] = ()) -> Results:
    """Results of one contender, `a`, with these values of `w`."""
    lanes = {}
    for value, regret in finals.items():
        curve, counts = np.array([regret]).T, np.zeros(len(regret), np.int64)
        flags = np.full(len(regret), value in failed) & (np.arange(len(regret)) == 0)
        lanes[f"a [w={value}]"] = Runs(
            curve * 0, curve, counts, counts, curve[:, 0], flags, curve[:, 0], "a", {"w": value}
        )
    none = np.zeros(0, np.int64)
    setting = Setting("s", np.array([10]), (none,) * 2, (np.zeros(0),) * 2, {}, lanes)
    return Results("", 0.05, {"s": setting})


def test_tuning_tries_every_value_of_the_tuned_contenders() -> None:
    experiment = tuning(SMALL, SMALL.rows[0])
    assert experiment is not None
    assert [variant.name for variant in expand(experiment.agents)] == [
        "window [window=40]", "window [window=200]",
    ]  # fmt: skip
    assert (experiment.n_problems, experiment.horizon) == (2, 400)


def test_reporting_has_all_contenders_with_the_chosen_values() -> None:
    experiment = reporting(SMALL, SMALL.rows[0], {"window": {"window": 40}})
    assert list(experiment.agents) == ["window", "plain", "told"]
    assert experiment.agents["window"].parameters == {"delta": 0.1, "window": 40}
    assert experiment.n_problems == 3


def test_a_row_without_tuned_contenders_has_no_tuning() -> None:
    assert tuning(replace(SMALL, contenders=SMALL.contenders[1:]), SMALL.rows[0]) is None


def test_the_phases_share_no_seeds() -> None:
    for suite in (FULL, CLOSED, QUICK):
        for seed_of in (problem_seed, run_seed):
            tuned = {seed_of(suite.tuning_seed, i) for i in range(suite.tuning_problems)}
            reported = {seed_of(suite.seed, i) for i in range(suite.problems)}
            assert not tuned & reported


def test_left_out_contenders_have_a_reason() -> None:
    changes, drifts, large = SMALL.rows
    assert SMALL.left_out(changes) == {}
    assert list(SMALL.left_out(drifts)) == ["told"]
    assert SMALL.left_out(large) == {"plain": "too slow"}
    assert [one.name for one in SMALL.contenders_of(large)] == ["window", "told"]


def test_the_first_value_with_the_lowest_mean_pseudo_regret_is_chosen() -> None:
    assert choose(results_of({8: [9.0, 1.0], 4: [2.0, 3.0], 2: [3.0, 2.0]})) == {"a": {"w": 4}}


def test_a_value_with_a_failed_run_is_chosen_only_if_all_values_have_one() -> None:
    finals = {8: [1.0, 1.0], 4: [2.0, 3.0]}
    assert choose(results_of(finals, failed=(8,))) == {"a": {"w": 4}}
    assert choose(results_of(finals, failed=(8, 4))) == {"a": {"w": 8}}


def test_expected_runs_are_those_of_both_phases() -> None:
    assert expected_runs(SMALL) == (2 * 2 + 3 * 3) + (2 * 2 + 2 * 3) + (2 * 2 + 2 * 3)


@pytest.mark.parametrize("suite", [FULL, CLOSED, QUICK])
def test_names_in_the_shipped_suite_are_unique_and_registered(suite: Suite) -> None:
    names = [one.name for one in suite.contenders]
    assert len(set(names)) == len(names)
    assert len({row.folder for row in suite.rows}) == len(suite.rows)
    assert {one.unforgetting for one in suite.contenders} <= {"", *names}
    assert [one.tuned for one in suite.contenders if one.ours] == [{}]
    assert any(one.told and one.yardstick for one in suite.contenders)


def test_every_optimistic_contender_has_a_tuned_width() -> None:
    for one in FULL.contenders:
        parameters = agent_info(one.agent).parameters
        if "width" in parameters:
            assert len(one.tuned["width"]) >= 3
            assert max(one.tuned["width"]) == parameters["width"]  # the width of the paper


def test_no_agent_was_designed_on_the_closed_suite() -> None:
    assert all(row.designed_on == () for row in CLOSED.rows)
    assert all(list(row.designed_on) == ["EvidencePSRL"] for row in FULL.rows)
    kinds = {(row.problem, str(row.parameters)) for row in FULL.rows}
    long = [row for row in CLOSED.rows if row.horizon > FULL.rows[0].horizon]
    assert not kinds & {
        (row.problem, str(row.parameters)) for row in CLOSED.rows if row not in long
    }


def test_an_entry_runs_alone_on_the_problems_of_the_suite() -> None:
    entry = entry_suite(FULL, "psrl")
    (mine,) = entry.contenders
    assert (mine.name, mine.agent, mine.ours) == ("psrl", "psrl", True)
    assert (entry.rows, entry.seed, entry.problems) == (FULL.rows, FULL.seed, FULL.problems)
    assert tuning(entry, entry.rows[0]) is None


def test_folders_of_the_shipped_suites_can_still_be_opened() -> None:
    """Their manifests contain these digests. A change of the suite changes them on purpose."""
    assert [digest_of(suite)[:16] for suite in (FULL, CLOSED, QUICK)] == [
        "96e598713eb38a2f", "0a961a2ccd40d93a", "7897c90472c76f8e",
    ]  # fmt: skip


def test_the_shipped_suites_tune_on_20_problems_and_report_on_100() -> None:
    for suite in (FULL, CLOSED):
        assert (suite.tuning_problems, suite.problems) == (20, 100)


@pytest.mark.parametrize("row", [*FULL.rows, *CLOSED.rows], ids=lambda row: row.folder)
def test_every_row_of_the_shipped_suites_can_be_run(row: Row) -> None:
    first = tuning(FULL, row)
    assert first is not None
    check(first)
    choices: Choices = {
        one.name: {name: values[0] for name, values in one.grid(row.horizon).items()}
        for one in FULL.contenders
    }  # fmt: skip
    check(reporting(FULL, row, choices))
