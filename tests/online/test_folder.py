"""The folder: one owner, one process, damage is detected, and old formats stay readable."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

import pytest
from tests.online.workbench import Clock, bits, bits_of, copied, kill, live, reopened, sw_ucrl

from switchmdp.errors import (
    DamagedFile,
    ForeignFolder,
    ForgottenDecision,
    LogFailed,
    UnknownDecision,
)
from switchmdp.online import Decisions, history, rebuild, snapshots, verify
from switchmdp.storage.log import files_of, read

GOLDEN = Path(__file__).parent / "golden"


def modes(folder: Path) -> dict[str, int]:
    paths = (folder, *folder.iterdir())
    return {path.name: path.stat().st_mode & 0o777 for path in paths}


# Who may look and write.


def test_only_the_owner_has_access_to_a_new_folder(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        with Decisions(sw_ucrl(), tmp_path / "own") as decisions:
            live(decisions, 5)
    finally:
        os.umask(before)
    found = modes(tmp_path / "own")
    assert found.pop("own") == 0o700
    assert {"decisions.json", "snapshot-000000000010.npz", "log-000000000001.jsonl"} <= set(found)
    assert set(found.values()) == {0o600}


def test_opening_removes_permissions_of_others(lived: tuple[Path, Any]) -> None:
    folder, _ = lived
    folder.chmod(0o755)
    for path in folder.iterdir():
        path.chmod(0o644)
    verify(folder)  # which only reads
    assert modes(folder)["decisions.json"] == 0o644
    reopened(folder).close()
    found = modes(folder)
    assert found.pop(folder.name) == 0o700
    assert set(found.values()) == {0o600}


OTHER = """
import sys
from switchmdp.online import Decisions
try:
    Decisions(None, sys.argv[1]).close()
except Exception as error:
    print(type(error).__name__, error)
"""


def another_process(folder: Path) -> str:
    command = [sys.executable, "-c", OTHER, str(folder)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def test_deleting_the_lock_file_does_not_unlock_the_folder(tmp_path: Path) -> None:
    with Decisions(sw_ucrl(), tmp_path) as decisions:
        live(decisions, 3)
        (tmp_path / "lock").unlink()
        assert another_process(tmp_path).startswith("ForeignFolder")
        with pytest.raises(ForeignFolder, match="in use"):
            Decisions(None, tmp_path)
        live(decisions, 3)
        after = bits_of(decisions)
    assert another_process(tmp_path) == ""
    assert bits(rebuild(tmp_path)) == after


def test_the_lock_of_an_older_version_is_respected(tmp_path: Path) -> None:
    """It locks the file alone."""
    import fcntl

    with Decisions(sw_ucrl(), tmp_path):
        pass
    handle = os.open(tmp_path / "lock", os.O_RDWR)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        with pytest.raises(ForeignFolder, match="in use"):
            Decisions(None, tmp_path)
    finally:
        os.close(handle)
    reopened(tmp_path).close()


FORKED = """
import os, sys
from switchmdp.agents import SWUCRL
from switchmdp.errors import LogFailed
from switchmdp.online import Decisions

decisions = Decisions(SWUCRL(4, 3, window=60), sys.argv[1], snapshot_every=4)
first = decisions.decide(0)
child = os.fork()
if child == 0:
    refused = 0
    for call in (
        lambda: decisions.decide(0), lambda: decisions.feedback(first.id, 1.0, 1),
        decisions.start_over, lambda: decisions.learn_from([(0, 0, 1.0, 0)] * 5),
    ):
        try:
            call()
        except LogFailed as error:
            refused += "forked process" in str(error)
    decisions.close()
    os._exit(refused)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), decisions.records)
for i in range(20):
    decisions.feedback(decisions.decide(i % 4).id, 1.0, 0)
decisions.close()
"""


def test_a_fork_cannot_write(tmp_path: Path) -> None:
    command = [sys.executable, "-c", FORKED, str(tmp_path)]
    environment = {**os.environ, "NUMBA_DISABLE_JIT": "1"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr, done.returncode) == ("4 1\n", "", 0)
    assert verify(tmp_path).same
    with reopened(tmp_path) as decisions:
        assert decisions.learner.decided == 21
        assert decisions.learner.counted == 20


def test_a_moved_or_replaced_folder_is_not_written_to(tmp_path: Path) -> None:
    decisions = Decisions(sw_ucrl(), tmp_path / "here")
    live(decisions, 3)
    (tmp_path / "here").rename(tmp_path / "there")
    with pytest.raises(LogFailed, match="no longer exists"):
        decisions.decide(0)
    (tmp_path / "here").mkdir()
    with pytest.raises(LogFailed, match="was replaced by another folder"):
        decisions.decide(0)
    assert not list((tmp_path / "here").iterdir())
    (tmp_path / "here").rmdir()
    (tmp_path / "there").rename(tmp_path / "here")
    live(decisions, 3)
    decisions.close()
    assert bits(rebuild(tmp_path / "here")) == bits(decisions.learner)


# What is damaged or missing.


def test_any_flipped_bit_in_the_description_is_detected(tmp_path: Path) -> None:
    with Decisions(sw_ucrl(), tmp_path) as decisions:
        decision = decisions.decide(0)
    path = tmp_path / "decisions.json"
    whole = path.read_bytes()
    for at in range(len(whole)):
        for bit in range(0, 8, 3):
            damaged = bytearray(whole)
            damaged[at] ^= 1 << bit
            path.write_bytes(damaged)
            with pytest.raises(DamagedFile):
                reopened(tmp_path)
    path.write_bytes(whole)
    with reopened(tmp_path) as decisions:
        assert decisions.feedback(decision.id, 1.0, 0)


@pytest.mark.parametrize("snapshot", [True, False])
def test_a_deleted_log_is_an_error(snapshot: bool, tmp_path: Path) -> None:
    decisions = Decisions(sw_ucrl(), tmp_path)
    live(decisions, 10)
    kill(decisions)
    if snapshot:
        reopened(tmp_path).close()
    for path in files_of(tmp_path).values():
        path.unlink()
    for opened in (reopened, rebuild, verify, lambda folder: list(history(folder))):
        with pytest.raises(DamagedFile, match="the log is missing"):
            opened(tmp_path)


def test_a_flipped_bit_in_the_last_lines_is_detected(lived: tuple[Path, Any]) -> None:
    """These were acknowledged, and no snapshot holds them."""
    folder, before = lived
    path = max(files_of(folder).values())
    whole = path.read_bytes()
    for at in range(1, 1 + sum(map(len, whole.splitlines(keepends=True)[-3:])), 7):
        damaged = bytearray(whole)
        damaged[-at] ^= 1 << at % 8
        path.write_bytes(damaged)
        with pytest.raises(DamagedFile, match=r"record \d+, .* is damaged"):
            reopened(folder)
        assert path.read_bytes() == damaged
    path.write_bytes(whole)
    with reopened(folder) as decisions:
        assert bits_of(decisions) == before


# Backups, and numbers that come again.


def test_ids_issued_after_a_backup_are_unknown_once_it_is_restored(tmp_path: Path) -> None:
    clock = Clock()
    with Decisions(sw_ucrl(), tmp_path / "own", clock=clock, timer=clock) as decisions:
        kept = decisions.decide(0)
        backup = copied(tmp_path / "own", tmp_path / "backup")
        lost = [decisions.decide(i % 4) for i in range(5)]
    with Decisions(None, backup, clock=clock, timer=clock) as decisions:
        for _ in range(2):  # also once the number was given out again
            for decision in lost:
                with pytest.raises(UnknownDecision):
                    decisions.feedback(decision.id, 1.0, 0)
            made = [decisions.decide(i % 4) for i in range(5)]
        assert {d.id for d in made}.isdisjoint(d.id for d in lost)
        assert decisions.learner.decided > len(lost) + 1  # all numbers have come again
        assert decisions.learner.counted == 0
        assert decisions.feedback(kept.id, 1.0, 0)
        assert all(decisions.feedback(d.id, 1.0, 0) for d in made)
        after = bits_of(decisions)
    assert bits(rebuild(backup)) == after


def test_ids_of_a_lost_log_tail_are_not_reused(tmp_path: Path) -> None:
    decisions = Decisions(sw_ucrl(), tmp_path)
    kept, lost = decisions.decide(0), decisions.decide(1)
    kill(decisions)
    path = files_of(tmp_path)[1]
    path.write_bytes(path.read_bytes().splitlines(keepends=True)[0])
    with reopened(tmp_path) as decisions:
        again = decisions.decide(2)
        assert again.id.partition("-")[0] == lost.id.partition("-")[0]
        with pytest.raises(UnknownDecision):
            decisions.feedback(lost.id, 1.0, 0)
        assert decisions.feedback(again.id, 1.0, 0)
        assert decisions.feedback(kept.id, 1.0, 0)


def test_ids_stay_valid_after_reopening(tmp_path: Path) -> None:
    made = []
    for _ in range(4):
        with Decisions(sw_ucrl(), tmp_path, snapshot_every=2) as decisions:
            made += [decisions.decide(0), decisions.decide(1)]
    epochs = [record["epoch"] for _, record in read(tmp_path) if "epoch" in record]
    assert len(set(epochs)) == 4
    with reopened(tmp_path) as decisions:
        assert decisions.learner.epochs == [(2 * i + 1, epoch) for i, epoch in enumerate(epochs)]
        assert all(decisions.feedback(d.id, 1.0, 0) for d in made)
        assert not any(decisions.feedback(d.id, 1.0, 0) for d in made)


# Folders of earlier versions.

OLD_IDS = ["4-f1a4a5000e97", "8-61ae6c8ffa12", "12-5184a673815a", "16-11cd85918633",
           "20-6c47b5dfb670", "24-6fe56e3a82ac"]  # fmt: skip


@pytest.fixture
def old(tmp_path: Path) -> Path:
    """The folder that format 1 has left."""
    with tarfile.open(GOLDEN / "format-1.tar.gz") as archive:
        archive.extractall(tmp_path / "old", filter="data")
    return tmp_path / "old"


def test_a_folder_of_format_1_gives_the_same_learner(old: Path) -> None:
    found = verify(old)
    assert (found.records, found.snapshot, found.same, found.differing) == (43, 30, True, 0)
    assert found.learner.now == found.learner.at == 1700000038.75
    assert found.learner.expired == 0
    assert len(list(history(old))) == 18


def test_ids_of_a_format_1_folder_stay_valid(old: Path) -> None:
    clock = Clock(5.0)  # a timer that begins anew with the process
    with Decisions(None, old, timer=clock) as decisions:
        assert json.loads((old / "decisions.json").read_bytes())["format"] == 2
        assert modes(old)["decisions.json"] == 0o600
        assert decisions.feedback(OLD_IDS[0], 1.0, 0)
        new = decisions.decide(0)
        clock.now += 99.5
        assert decisions.feedback(OLD_IDS[-1], 1.0, 0)  # it was made at the last record
        clock.now += 1
        for name in (new.id, *OLD_IDS[1:-1]):
            with pytest.raises(ForgottenDecision):
                decisions.feedback(name, 1.0, 0)
        decisions.decide(0)
        assert decisions.learner.expired == 5
        assert len(decisions.learner.pending) == 1
        after = bits_of(decisions)
    assert bits(rebuild(old)) == after
    with Decisions(None, old) as decisions:
        assert not decisions.feedback(OLD_IDS[0], 1.0, 0)


def test_upgrading_an_empty_format_1_folder_creates_a_log(old: Path) -> None:
    for path in (*files_of(old).values(), snapshots.file_of(old, 30)):
        path.unlink()
    reopened(old).close()
    assert files_of(old)
    shutil.copytree(old, old.parent / "copy")
    reopened(old.parent / "copy").close()
    for path in files_of(old).values():
        path.unlink()
    with pytest.raises(DamagedFile, match="the log is missing"):
        reopened(old)
