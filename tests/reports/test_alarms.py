"""Detection: which changes are found, how late, and what is a false alarm."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from switchmdp.experiments.results import Setting, as_setting
from switchmdp.reports.alarms import detection


def restarted(changes: Sequence[int], *runs: Sequence[int] | None) -> Setting:
    """An agent `a` that started over at these steps of 1000."""
    setting = as_setting([500, 1000], {"a": [[0, 0]] * len(runs)}, changes)
    steps = tuple(None if run is None else np.array(run, np.int64) for run in runs)
    return replace(setting, agents={"a": replace(setting.agents["a"], restarts=steps)})


def test_the_first_restart_after_a_change_finds_it_and_all_others_are_false() -> None:
    found = detection(restarted([101, 501], [50, 111, 300, 503]), "a")
    assert found is not None
    assert found.found.middle == 1.0
    assert found.delay == 10.0  # of 2 and 10, the later one
    assert found.false_alarms.middle == 200.0  # 2 in 1000 steps


def test_a_restart_at_the_very_step_of_a_change_has_not_seen_it() -> None:
    found = detection(restarted([101], [101]), "a")
    assert found is not None
    assert (found.found.middle, found.false_alarms.middle) == (0.0, 100.0)


def test_a_restart_after_the_next_change_comes_too_late() -> None:
    found = detection(restarted([101, 501], [502]), "a")
    assert found is not None
    assert found.found.middle == 0.5
    assert found.delay == np.inf
    assert found.false_alarms.middle == 0.0


def test_the_median_delay_is_over_all_changes_of_all_problems() -> None:
    found = detection(restarted([101], [105], [110], [200]), "a")
    assert found is not None
    assert found.delay == 9.0


def test_a_change_at_the_last_step_or_later_is_none() -> None:
    found = detection(restarted([1000, 2000], []), "a")
    assert found is not None
    assert np.isnan(found.found.middle)
    assert np.isnan(found.delay)


def test_runs_whose_restarts_are_not_known_are_left_out() -> None:
    some = detection(restarted([101], None, [105]), "a")
    assert some is not None
    assert some.found.middle == 1.0
    assert detection(restarted([101], None, None), "a") is None
    assert detection(as_setting([10], {"a": [[0]]}), "a") is None
