"""An append-only log: one checksummed record a line.

    crc32 of what follows (8 hex digits) SPACE number SPACE JSON NEWLINE

Records are numbered from 1 without a gap, in files of bounded size named by their first record. A
process that dies while it writes leaves a torn last line behind, which was never acknowledged: it
is cut. A damaged line with a sound one after it is no torn tail, and is refused.

Records are appended in memory and written by `commit`, many at once: whoever comes first writes and
syncs for all who wait (group commit). A record that could not be written, on a full disk say, stays
in memory in its place and is written by the next commit. If a sync fails, nobody knows what is on
disk: the log then refuses everything, and must be opened anew.
"""

from __future__ import annotations

import json
import os
import threading
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from switchmdp.errors import DamagedFile, LogFailed
from switchmdp.storage import sync_folder

LARGEST_FILE = 64 * 2**20
Record = dict[str, Any]


def encoded(number: int, record: Record) -> bytes:
    """A record's line.

    >>> encoded(1, {"event": "swap"})
    b'576e440e 1 {"event":"swap"}\\n'
    """
    text = f"{number} {json.dumps(record, separators=(',', ':'), allow_nan=False)}".encode()
    return b"%08x %s\n" % (zlib.crc32(text), text)


def decoded(line: bytes) -> tuple[int, Record] | None:
    """A line's number and record; None where it is not sound."""
    try:
        if line[8:9] != b" " or line[-1:] != b"\n" or zlib.crc32(line[9:-1]) != int(line[:8], 16):
            return None
        number, _, text = line[9:-1].partition(b" ")
        record = json.loads(text)
        return (int(number), record) if isinstance(record, dict) else None
    except ValueError:
        return None


def files_of(folder: Path) -> dict[int, Path]:
    """The log's files by the number of their first record, in order."""
    names = {int(p.stem[4:]): p for p in folder.glob("log-*.jsonl") if p.stem[4:].isdigit()}
    return dict(sorted(names.items()))


def read(folder: Path, after: int = 0) -> Iterator[tuple[int, Record]]:
    """The records that follow number `after`; a torn tail is passed over in silence."""
    for number, record, _, _ in _lines(folder, after):
        if number > after:
            yield number, record


def _lines(folder: Path, after: int) -> Iterator[tuple[int, Record, Path, int]]:
    """Every sound record with its file and where it ends there."""
    files = files_of(folder)
    first = max((n for n in files if n <= after + 1), default=None)
    if first is None:
        if files:
            raise DamagedFile(
                f"{folder}: the log's records {after + 1} to {min(files) - 1} are gone"
            )
        return
    expected, torn = first, ""
    for begins, path in files.items():
        if begins < first:
            continue
        end = 0
        with open(path, "rb") as file:
            for line in file:
                found = decoded(line)
                if found is None:
                    torn = torn or f"{path.name}: record {expected} is damaged"
                elif torn or found[0] != expected:
                    what = torn or f"{path.name}: record {found[0]} where {expected} should be"
                    raise DamagedFile(f"{folder}: {what}, and others follow it")
                else:
                    end += len(line)
                    yield *found, path, end
                    expected += 1


class Log:
    """The log of a folder, open for writing. `number` is that of the last record appended."""

    def __init__(self, folder: Path, *, number: int, sync: bool = True) -> None:
        """Open after record `number`, the last sound one; what lies behind it is cut."""
        self.folder, self.number, self.sync = folder, number, sync
        self.size, self._file = 0, -1
        self._committed = number
        self._waiting: list[tuple[int, bytes]] = []
        self._appending, self._writing = threading.Lock(), threading.Lock()
        self._failure: str | None = None
        self._cut()

    def _cut(self) -> None:
        files = files_of(self.folder)
        for begins, other in files.items():
            if begins > self.number:  # begun, and not one sound record in it
                if any(map(decoded, other.read_bytes().splitlines(keepends=True))):
                    raise DamagedFile(f"{self.folder}: records follow number {self.number}")
                other.unlink()
        if self.number > 0:
            lines = _lines(self.folder, self.number - 1)
            path, end = next((path, end) for n, _, path, end in lines if n == self.number)
            self._open(path)
            os.ftruncate(self._file, end)
            self.size = end

    def _open(self, path: Path) -> None:
        if self._file >= 0:
            os.close(self._file)
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self.size = os.fstat(self._file).st_size
        sync_folder(self.folder)

    def append(self, record: Record) -> int:
        """Give a record its number; it is durable once `commit` has returned."""
        with self._appending:
            self.number += 1
            self._waiting.append((self.number, encoded(self.number, record)))
            return self.number

    def commit(self, number: int | None = None) -> None:
        """See to it that the records up to this number, or all, are on disk."""
        wanted = self.number if number is None else number
        with self._writing:
            if self._committed >= wanted:
                return
            if self._failure is not None:
                raise LogFailed(f"{self.folder}: {self._failure}; it must be opened anew")
            with self._appending:
                waiting, self._waiting = self._waiting, []
            try:
                self._write(waiting)
            except OSError as error:
                with self._appending:
                    self._waiting = waiting + self._waiting
                raise LogFailed(f"{self.folder}: the log can't be written: {error}") from error
            self._committed = waiting[-1][0]

    def _write(self, waiting: list[tuple[int, bytes]]) -> None:
        if self._file < 0 or self.size >= LARGEST_FILE:
            self._open(self.folder / f"log-{waiting[0][0]:012d}.jsonl")
        content = b"".join(line for _, line in waiting)
        try:
            written = 0
            while written < len(content):
                written += os.write(self._file, content[written:])
        except OSError as error:
            try:
                os.ftruncate(self._file, self.size)
            except OSError:
                self._failure = f"a line was left half written ({error})"
            raise
        if self.sync:
            try:
                os.fdatasync(self._file)
            except OSError as error:
                self._failure = f"what was written may not have reached the disk ({error})"
                raise
        self.size += len(content)

    def close(self) -> None:
        """Commit what waits, and let go of the file."""
        try:
            self.commit()
        finally:
            with self._writing:
                if self._file >= 0:
                    os.close(self._file)
                    self._file = -1
