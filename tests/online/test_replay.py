"""`verify`: a replayed log gives the same learner, and differences are reported."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from switchmdp.agents import SWUCRL
from switchmdp.errors import DamagedFile, ForeignFolder
from switchmdp.online import Decisions, history, snapshots, verify
from switchmdp.storage.log import encoded, files_of, read


def lived(folder: Path, steps: int = 60, **settings: Any) -> Path:
    """A folder in which something has happened."""
    rng = np.random.default_rng(0)
    with Decisions(SWUCRL(3, 2, window=20), folder, sync=False, **settings) as decisions:
        state = 0
        for _ in range(steps):
            asked = decisions.decide(state)
            state = int(rng.integers(3))
            decisions.feedback(asked.id, float(rng.random() < 0.5), state)
    return folder


def changed(folder: Path, number: int, **fields: Any) -> None:
    """Other words in a record, with the right checksum."""
    (file,) = files_of(folder).values()
    records = dict(read(folder))
    records[number] |= fields
    file.write_bytes(b"".join(encoded(n, record) for n, record in records.items()))


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
    newest = max(snapshots.snapshots_of(tmp_path / "here"))
    snapshots.snapshots_of(tmp_path / "here")[newest].unlink()
    found = verify(tmp_path / "here")
    assert (found.records, found.snapshot, found.same) == (120, 0, True)
    assert found.learner.counted == 60


def test_verify_compares_a_snapshot_at_its_own_record(tmp_path: Path) -> None:
    lived(tmp_path, snapshot_every=50)
    numbers = list(snapshots.snapshots_of(tmp_path))
    snapshots.snapshots_of(tmp_path)[numbers[0]].unlink()
    found = verify(tmp_path)
    assert 0 < found.snapshot == numbers[1] < found.records == 120
    assert found.same


def test_verify_skips_a_damaged_snapshot(tmp_path: Path) -> None:
    lived(tmp_path)
    newest, *_ = snapshots.snapshots_of(tmp_path).values()
    newest.write_bytes(newest.read_bytes()[:-100])
    found = verify(tmp_path)
    assert (found.snapshot, found.same, found.learner.counted) == (0, True, 60)


def test_verify_detects_an_altered_reward(tmp_path: Path) -> None:
    lived(tmp_path)
    changed(tmp_path, 120, reward=0.25)
    found = verify(tmp_path)
    assert not found.same
    assert found.differing == 0


def test_verify_counts_altered_actions(tmp_path: Path) -> None:
    lived(tmp_path)
    _, first = next(read(tmp_path))
    changed(tmp_path, 1, action=1 - first["action"])
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


def test_verify_rejects_a_folder_without_decisions(tmp_path: Path) -> None:
    with pytest.raises(ForeignFolder, match="it has no decisions"):
        verify(tmp_path)
    with pytest.raises(ForeignFolder, match="it has no decisions"):
        verify(tmp_path / "nowhere")


def test_verify_rejects_a_damaged_record(tmp_path: Path) -> None:
    lived(tmp_path)
    (file,) = files_of(tmp_path).values()
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(bytes(content))
    with pytest.raises(DamagedFile, match=r"record \d+, .* is damaged"):
        verify(tmp_path)
