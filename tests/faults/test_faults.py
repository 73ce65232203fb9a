"""Fault injection: a tenth of each campaign; `make soak` runs them completely."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.faults.damage import damaged_files, foreign_folders
from tests.faults.disks import failing_operations, full_disks
from tests.faults.interrupts import interrupt_coordinators
from tests.faults.kills import kill_coordinators, kill_workers
from tests.faults.machine_code import sabotaged_caches
from tests.faults.mutations import mutated_configurations
from tests.faults.workbench import scratch_folder

pytestmark = pytest.mark.long


@pytest.fixture
def scratch() -> Iterator[Path]:
    with scratch_folder() as folder:
        yield folder


def test_killed_coordinators_are_resumed_to_the_same_bytes(scratch: Path) -> None:
    assert "5 coordinators killed" in kill_coordinators(scratch, 5)


def test_interrupted_runs_of_compiled_agents_are_resumed_to_the_same_bytes(scratch: Path) -> None:
    assert "4 runs interrupted" in interrupt_coordinators(scratch, 4)


def test_killed_workers_do_not_change_the_results(scratch: Path) -> None:
    assert "5 workers killed" in kill_workers(scratch, 5)


def test_a_full_disk_is_reported_and_the_run_can_be_resumed(scratch: Path) -> None:
    assert "2 full disks" in full_disks(scratch, 2)


def test_a_failed_disk_operation_is_reported_and_leaves_no_partial_files(
    scratch: Path,
) -> None:
    assert "one in 10 of" in failing_operations(scratch, 10)


def test_damage_to_stored_files_is_detected_or_harmless(scratch: Path) -> None:
    assert "200 bit flips and 20 truncations" in damaged_files(scratch, 200, 20)


def test_invalid_configurations_are_rejected_with_all_errors(scratch: Path) -> None:
    assert "500 mutated configurations" in mutated_configurations(scratch, 500)


def test_results_of_two_configurations_are_never_mixed(scratch: Path) -> None:
    assert "10 other configurations rejected" in foreign_folders(scratch, 10)


def test_damaged_machine_code_is_compiled_and_stored_again(scratch: Path) -> None:
    assert "3 files of machine code damaged" in sabotaged_caches(scratch, 3)
