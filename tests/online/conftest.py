"""A folder that was lived in."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.online.workbench import bits, kill, live, sw_ucrl

from switchmdp.online import Decisions, snapshots


@pytest.fixture
def lived(tmp_path: Path) -> tuple[Path, Any]:
    """A folder with snapshots, whose process was killed; and what its learner was."""
    folder = tmp_path / "lived"
    decisions = Decisions(sw_ucrl(), folder, sync=False, snapshot_every=50)
    for seed in range(5):
        live(decisions, 33, seed)
        saver = decisions._journal._saver
        assert saver is not None
        saver.join()
    decisions._journal._every = 10**9
    live(decisions, 33, 5)  # so that the last records are in the log alone, however slow the disk
    kill(decisions)
    assert len(snapshots.snapshots_of(folder)) == 3
    return folder, bits(decisions.learner)
