"""A tenth of the runs of `kills`; `make soak` runs them all."""

from __future__ import annotations

from tests.faults.workbench import scratch_folder
from tests.online.kills import kill_deciders


def test_a_killed_process_loses_nothing_acknowledged() -> None:
    with scratch_folder() as scratch:
        assert kill_deciders(scratch, 20).startswith("20 deciding processes killed")
