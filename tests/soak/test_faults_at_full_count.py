"""The campaigns of `tests/faults` at their full counts, each with a line that says what it did."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.faults.damage import damaged_files, foreign_folders
from tests.faults.disks import failing_operations, full_disks
from tests.faults.interrupts import interrupt_coordinators
from tests.faults.kills import kill_coordinators, kill_workers
from tests.faults.machine_code import sabotaged_caches
from tests.faults.mutations import mutated_configurations
from tests.faults.workbench import scratch_folder

pytestmark = pytest.mark.soak

Campaign = Callable[..., str]


@pytest.fixture
def scratch() -> Iterator[Path]:
    with scratch_folder() as folder:
        yield folder


@pytest.mark.parametrize(
    ("campaign", "counts"),
    [
        (kill_coordinators, [50]),
        (interrupt_coordinators, [40]),
        (kill_workers, [50]),
        (full_disks, [20]),
        (failing_operations, [1]),
        (damaged_files, [2000, 200]),
        (mutated_configurations, [5000]),
        (foreign_folders, [100]),
        (sabotaged_caches, [30]),
    ],
)
def test_no_fault_changes_a_result(
    campaign: Campaign, counts: list[int], scratch: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    account = campaign(scratch, *counts)
    with capsys.disabled():
        print(f"\n{account}")
