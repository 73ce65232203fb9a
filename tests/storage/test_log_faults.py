"""Disks that fail or are full: what raised was not promised, what was promised is there once."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.storage.bad_disk import BadDisk
from tests.storage.records import goes_on, numbers

from switchmdp.errors import LogFailed
from switchmdp.storage import log as logs
from switchmdp.storage.log import Log


def attempts(folder: Path, error: int | None) -> Iterator[tuple[BadDisk, list[int]]]:
    """Twelve records for every operation that may fail: the disk, and what was acknowledged."""
    k = 0
    while True:
        k += 1
        place, disk, promised = folder / f"{error}-{k}", BadDisk(error, k), []
        place.mkdir()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(logs, "LARGEST_FILE", 150)
            log = Log(place, number=0)
            disk.put_under(patch)
            for i in range(1, 13):
                number = log.append({"i": i})
                assert number == i
                try:
                    log.commit(number)
                except (LogFailed, KeyboardInterrupt):
                    try:
                        log.commit(number)  # once more: the disk is well again
                    except LogFailed:
                        assert log._failure is not None
                        break
                promised.append(number)
            if disk.refused:
                yield disk, promised
                assert promised == numbers(place)[: len(promised)]
            if log._failure is None:
                assert promised == [*range(1, 13)]
                log.close()
            else:
                with pytest.raises(LogFailed, match="reopened"):
                    log.close()
        last = max(numbers(place), default=0)
        assert last - len(promised) in (0, 1)  # not promised, and there all the same
        goes_on(place, last)
        if not disk.refused:
            return


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EIO, None])
def test_whatever_operation_fails_nothing_promised_is_lost_and_nothing_is_there_twice(
    error: int | None, tmp_path: Path
) -> None:
    refused = [(disk.refused, len(promised)) for disk, promised in attempts(tmp_path, error)]
    names = [name for name, _ in refused]
    assert len(refused) > 30
    assert {"open", "write", "fdatasync", "fsync"} <= set(names)
    # Only a sync that failed leaves it open what is on disk; Ctrl-C in it does not.
    assert all(n == 12 for name, n in refused if name != "fdatasync" or error is None)


def test_after_a_sync_that_failed_nothing_more_is_promised(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The system may have dropped what it could not write, and say so only once."""

    def broken(file: int) -> None:
        raise OSError(errno.EIO, "broken")

    log = Log(tmp_path, number=0)
    log.commit(log.append({"i": 1}))
    with monkeypatch.context() as patch:
        patch.setattr(os, "fdatasync", broken)
        with pytest.raises(LogFailed, match="cannot be written"):
            log.commit(log.append({"i": 2}))
    for number in (2, log.append({"i": 3})):
        with pytest.raises(LogFailed, match="may not have reached the disk"):
            log.commit(number)
    log.commit(1)
    with pytest.raises(LogFailed):
        log.close()
    assert numbers(tmp_path)[0] == 1


def test_where_the_disk_stays_full_records_wait_in_their_places(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*given: Any) -> int:
        raise OSError(errno.ENOSPC, "full")

    log = Log(tmp_path, number=0)
    log.commit(log.append({"i": 1}))
    with monkeypatch.context() as patch:
        patch.setattr(os, "write", full)
        for i in (2, 3):
            number = log.append({"i": i})
            for _ in range(3):
                with pytest.raises(LogFailed, match="cannot be written"):
                    log.commit(number)
                assert log.stuck
        assert numbers(tmp_path) == [1]
        log.commit(1)  # which is there
    log.commit(2)
    assert not log.stuck
    assert numbers(tmp_path) == [1, 2, 3]
    log.close()
