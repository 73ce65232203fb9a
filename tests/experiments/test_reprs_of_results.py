"""What public objects of experiments and reports print: one line of at most 200 characters."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from switchmdp import reports
from switchmdp.experiments import (
    MemoryStore,
    Progress,
    check,
    load_results,
    loads,
    prepare,
    shipped,
    status,
    verify,
)
from switchmdp.experiments.leaderboard import Row, Suite
from switchmdp.experiments.spec import Claim
from switchmdp.reports.measures import as_setting

LONG = "a title of many words " * 9


def test_reprs_are_one_short_line_without_an_address(tmp_path: Path) -> None:
    experiment = loads(shipped()["figure-1"]).model_copy(update={"title": LONG})
    store, plan = prepare("figure-1", tmp_path / LONG, n_problems=2)
    results = load_results(store)
    setting = as_setting(range(1, 500), {LONG: np.ones((3, 499))}, [7])
    band = reports.regret_band(setting, LONG)
    claim = Claim(quote=LONG, reading=LONG, measure="better", setting="s", agent="a", than="b")
    objects = [
        experiment, plan, store, check(experiment), MemoryStore(check(experiment)), status(store),
        verify(store), results, replace(results, title=LONG), *results.settings.values(), setting,
        *setting.agents.values(), Progress(3, left={i: i for i in range(99)}), band,
        reports.Panel(LONG, {LONG: band}), reports.summary_table(setting),
        reports.judge_all(replace(results, claims=(claim,)))[0],
        reports.Leaderboard(Suite(LONG, (Row("r", "random"),), ()), []),
    ]  # fmt: skip
    for one in objects:
        text = repr(one)
        assert text.startswith(f"{type(one).__name__}(")
        assert len(text) <= 200, text
        assert "\n" not in text
        assert " at 0x" not in text


def test_reprs_show_the_content_of_an_object() -> None:
    setting = as_setting([10, 20], {"a": [[1.0, 2.0], [np.nan, 4.0]]})
    assert repr(setting) == "Setting('curves', 2 problems, 1 agent, 2 recorded steps)"
    assert repr(setting.agents["a"]) == "Runs('a', 2 runs, 1 failed)"
    assert repr(Progress(9, done=3)) == "Progress(3 of 9 runs done, 0 failed, 0 chunks lost)"
