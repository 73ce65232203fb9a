"""`verify`: a replayed log gives the same learner, and differences are reported."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.online.workbench import (
    change_event,
    delete_snapshot,
    snapshots_in,
    spoil_snapshot,
    sql,
)

from switchmdp.agents import SWUCRL
from switchmdp.errors import DamagedFile, ForeignFolder
from switchmdp.online import Decisions, events_of, history, verify


def lived(folder: Path, steps: int = 60, **settings: Any) -> Path:
    """A folder with events."""
    rng = np.random.default_rng(0)
    with Decisions(SWUCRL(3, 2, window=20), folder, sync=False, **settings) as decisions:
        state = 0
        for _ in range(steps):
            asked = decisions.decide(state)
            state = int(rng.integers(3))
            decisions.feedback(asked.id, float(rng.random() < 0.5), state)
    return folder


def test_verify_gives_the_same_learner_bit_for_bit(tmp_path: Path) -> None:
    lived(tmp_path)
    with Decisions(None, tmp_path, sync=False) as decisions:
        decisions.add_state()
        decisions.add_action()
        decisions.set_mode("shadow", [1, 0, 1, 0])
        decisions.feedback(decisions.decide(3).id, 1.0, 2)
        decisions.start_over()
        live = decisions.learner.counted
    found = verify(tmp_path)
    assert (found.same, found.differing) == (True, 0)
    assert found.records == found.snapshot == 60 * 2 + 6
    assert found.learner.counted == live == 61
    assert found.learner.agent.n_states == 4
    assert len(list(history(tmp_path))) == 61


def test_verify_applies_records_after_the_newest_snapshot(tmp_path: Path) -> None:
    lived(tmp_path / "here")
    delete_snapshot(tmp_path / "here", max(snapshots_in(tmp_path / "here")))
    found = verify(tmp_path / "here")
    assert (found.records, found.snapshot, found.same) == (120, 0, True)
    assert found.learner.counted == 60


def test_verify_compares_a_snapshot_at_its_own_record(tmp_path: Path) -> None:
    lived(tmp_path, snapshot_every=50)
    numbers = snapshots_in(tmp_path)
    delete_snapshot(tmp_path, numbers[0])
    found = verify(tmp_path)
    assert 0 < found.snapshot == numbers[1] < found.records == 120
    assert found.same


def test_verify_skips_a_damaged_snapshot(tmp_path: Path) -> None:
    lived(tmp_path)
    spoil_snapshot(tmp_path, max(snapshots_in(tmp_path)))
    found = verify(tmp_path)
    assert "snapshot 120" in found.damage[0]
    assert (found.snapshot, found.same, found.learner.counted) == (0, True, 60)


def test_verify_detects_an_altered_reward(tmp_path: Path) -> None:
    lived(tmp_path)
    change_event(tmp_path, 120, reward=0.25)
    found = verify(tmp_path)
    assert not found.same
    assert found.differing == 0


def test_verify_counts_altered_actions(tmp_path: Path) -> None:
    lived(tmp_path)
    _, first = next(events_of(tmp_path))
    change_event(tmp_path, 1, action=1 - first["action"])
    found = verify(tmp_path)
    assert not found.same
    assert found.differing >= 1


def test_verify_writes_nothing(tmp_path: Path) -> None:
    lived(tmp_path)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    verify(tmp_path)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_a_folder_in_use_can_be_verified(tmp_path: Path) -> None:
    lived(tmp_path)
    with Decisions(None, tmp_path, sync=False) as decisions:
        decisions.feedback(decisions.decide(0).id, 1.0, 1)
        found = verify(tmp_path)
    assert (found.records, found.snapshot, found.same) == (122, 120, True)


def test_verify_reports_progress(tmp_path: Path) -> None:
    told: list[int] = []
    verify(lived(tmp_path, steps=3), tell=told.append)
    assert told == [1, 2, 3, 4, 5, 6]


def test_verify_rejects_a_folder_without_a_database(tmp_path: Path) -> None:
    for place in (tmp_path, tmp_path / "nowhere", tmp_path / "nowhere.sqlite"):
        with pytest.raises(ForeignFolder, match="there is no database"):
            verify(place)


def test_verify_rejects_a_damaged_event(tmp_path: Path) -> None:
    lived(tmp_path)
    sql(tmp_path, "UPDATE events SET reward = 1 - reward WHERE number = 60")
    with pytest.raises(DamagedFile, match="event 60 is damaged"):
        verify(tmp_path)
