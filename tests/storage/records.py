"""Logs whose records hold their own number."""

from __future__ import annotations

from pathlib import Path

from switchmdp.storage.log import Log, encoded, read


def written(folder: Path, n: int, *, first: int = 1) -> list[bytes]:
    """A log with n more records, one commit each; their lines."""
    log = Log(folder, number=first - 1)
    for i in range(first, first + n):
        log.commit(log.append({"i": i}))
    log.close()
    return [encoded(i, {"i": i}) for i in range(first, first + n)]


def numbers(folder: Path, after: int = 0) -> list[int]:
    """The numbers of the records, which must hold what was written."""
    found = list(read(folder, after))
    assert all(record == {"i": number} for number, record in found)
    return [number for number, _ in found]


def goes_on(folder: Path, last: int) -> None:
    """Opened after its last sound record, the log takes another one."""
    written(folder, 1, first=last + 1)
    assert numbers(folder) == [*range(1, last + 2)]
