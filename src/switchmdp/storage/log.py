"""An append-only log: one checksummed record per line.

    crc32 of the rest (8 hex digits) SPACE number SPACE JSON NEWLINE

Records are numbered from 1 without gaps, in files of bounded size named by their first record. If a
process dies while it writes, the last line is incomplete. It was never acknowledged and is removed.
A complete line may have been acknowledged, so damage in it is an error, wherever it is.

Records are appended in memory. `commit` writes many at once: the first caller writes and syncs for
all that wait (group commit). If a record cannot be written, on a full disk for example, it stays in
memory, and the next commit writes it after removing incomplete data. If a sync fails, it is unknown
what is on disk: the log then accepts nothing more, and must be reopened. The same holds if the file
does not have its expected length, because another process has written to it.

Only the owner has access to the files (mode 0600).
"""

from __future__ import annotations

import errno
import json
import os
import threading
import zlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from switchmdp.errors import DamagedFile, LogFailed
from switchmdp.storage import PRIVATE, sync_folder

LARGEST_FILE = 64 * 2**20
Record = dict[str, Any]
_JSON = json.JSONEncoder(separators=(",", ":"), allow_nan=False)


def encoded(number: int, record: Record) -> bytes:
    """The line of a record.

    >>> encoded(1, {"event": "swap"})
    b'576e440e 1 {"event":"swap"}\\n'
    """
    text = f"{number} {_JSON.encode(record)}".encode()
    return b"%08x %s\n" % (zlib.crc32(text), text)


def parse_line(line: bytes) -> tuple[int, bytes] | None:
    """The number and the JSON of a line; None if it is damaged or incomplete.

    >>> parse_line(b'576e440e 1 {"event":"swap"}\\n')
    (1, b'{"event":"swap"}')
    >>> parse_line(b'576e440e 1 {"event":"swap"}')
    """
    if line[8:9] != b" " or line[-1:] != b"\n" or line[:8] != b"%08x" % zlib.crc32(line[9:-1]):
        return None
    number, _, text = line[9:-1].partition(b" ")
    return (int(number), text) if number.isdigit() else None


def is_incomplete(line: bytes) -> bool:
    """Whether a line is the beginning of a record. Otherwise a line without an end is damaged.

    >>> line = encoded(1, {"event": "swap"})
    >>> [is_incomplete(x) for x in (line[:-5], line[:-1], line, line[:-1] + b"K")]
    [True, True, False, False]
    """
    return line[-1:] != b"\n" and parse_line(line[:-1] + b"\n") is None


def file_of(folder: Path, number: int) -> Path:
    """The file whose first record has this number."""
    return folder / f"log-{number:012d}.jsonl"


def files_of(folder: Path) -> dict[int, Path]:
    """The log's files by the number of their first record, in order."""
    names = {int(p.stem[4:]): p for p in folder.glob("log-*.jsonl") if p.stem[4:].isdecimal()}
    return dict(sorted(names.items()))


def read(folder: Path, after: int = 0) -> Iterator[tuple[int, Record]]:
    """The records after number `after`. An incomplete last line is ignored."""
    # An empty file shows that all records before it were written.
    last = (_first_file(files_of(folder), after) or 1) - 1
    for last, text, path, _ in _lines(folder, after):
        if last > after:
            try:
                record: Record = json.loads(text)
            except ValueError as error:
                raise DamagedFile(f"{path}: record {last} is not JSON: {error}") from None
            yield last, record
    if last < after:
        raise DamagedFile(f"{folder}: the log ends with record {last}, but {after} were written")


def _first_file(files: Iterable[int], after: int) -> int | None:
    """The file that contains record `after`, or starts right after it."""
    return max((n for n in files if n <= after + 1), default=None)


def _lines(folder: Path, after: int) -> Iterator[tuple[int, bytes, Path, int]]:
    """The records, with their file and end position; some before `after` are included."""
    files = files_of(folder)
    first = _first_file(files, after)
    if first is None:
        if files:
            raise DamagedFile(
                f"{folder}: the log's records {after + 1} to {min(files) - 1} are missing"
            )
        return
    expected, last = first, max(files)
    for begins, path in files.items():
        if begins < first:
            continue
        end = 0
        with open(path, "rb") as file:
            for line in file:
                parsed = parse_line(line)
                if parsed is None and is_incomplete(line) and begins == last:
                    return  # not acknowledged; it may be written right now
                if parsed is None or parsed[0] != expected:
                    what = (
                        "is damaged" if parsed is None else f"is missing: found record {parsed[0]}"
                    )
                    raise DamagedFile(
                        f"{path}: record {expected}, which begins at byte {end}, {what}"
                    )
                end += len(line)
                yield *parsed, path, end
                expected += 1


class Log:
    """The log of a folder, open for writing. `number` is that of the last record appended."""

    def __init__(
        self, folder: Path, *, number: int, sync: bool = True,
        may_write: Callable[[], None] = lambda: None,
    ) -> None:  # fmt: skip
        """Open after the last record, `number`. Incomplete data after it is removed.

        `may_write` is called before each write, and raises an error if writing is not allowed.
        """
        self.folder, self.number, self.sync, self._may_write = folder, number, sync, may_write
        self.stuck = False  # the last commit failed: unacknowledged records wait
        self.size, self._file, self._unfinished = 0, -1, False
        self._committed = number
        self._waiting: list[tuple[int, bytes]] = []
        self._appending, self._writing = threading.Lock(), threading.Lock()
        self._failure: str | None = None
        self._truncate()

    def _truncate(self) -> None:
        for begins, other in files_of(self.folder).items():
            if begins > self.number:  # must not contain a complete record
                if b"\n" in other.read_bytes():
                    raise DamagedFile(f"{self.folder}: records follow number {self.number}")
                if begins > self.number + 1:
                    other.unlink()
        begun = file_of(self.folder, self.number + 1)
        if begun.exists():
            self._open(begun)
            os.ftruncate(self._file, 0)
            self.size = 0
        elif self.number > 0:
            for number, _, path, end in _lines(self.folder, self.number - 1):
                if number == self.number:
                    self._open(path)
                    os.ftruncate(self._file, end)
                    self.size = end
                    return
            raise DamagedFile(f"{self.folder}: the log ends before record {self.number}")

    def _open(self, path: Path) -> None:
        """Write to this file from now on. If this fails, nothing has changed."""
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, PRIVATE)
        try:
            sync_folder(self.folder)
            if self._file >= 0:
                os.fdatasync(self._file)  # before the next file exists
        except OSError:
            os.close(file)
            raise
        if self._file >= 0:
            os.close(self._file)
        self._file, self.size = file, os.fstat(file).st_size

    def append(self, record: Record) -> int:
        """Number a record. It is durable once `commit` has returned."""
        with self._appending:
            self._waiting.append((self.number + 1, encoded(self.number + 1, record)))
            self.number += 1
            return self.number

    def commit(self, number: int | None = None) -> None:
        """Write the records up to this number (None: all) to disk."""
        wanted = self.number if number is None else number
        with self._writing:
            if self._committed >= wanted:
                return
            if self._failure is not None:
                raise LogFailed(f"{self.folder}: {self._failure}; it must be reopened")
            with self._appending:
                self._waiting = [line for line in self._waiting if line[0] > self._committed]
                waiting = list(self._waiting)
            self._may_write()
            try:
                self._write(waiting)
            except OSError as error:
                self.stuck = True
                raise LogFailed(f"{self.folder}: the log cannot be written: {error}") from error
            self.stuck = False

    def _write(self, waiting: list[tuple[int, bytes]]) -> None:
        if self._file < 0 or self.size >= LARGEST_FILE:
            self._open(file_of(self.folder, waiting[0][0]))
        content = b"".join(line for _, line in waiting)
        size, last = self.size + len(content), waiting[-1][0]
        if self._unfinished:  # an earlier attempt failed, or was interrupted
            os.ftruncate(self._file, self.size)
        else:
            self._check_unchanged()
        self._unfinished = True
        written = 0
        while written < len(content):
            written += os.write(self._file, content[written:])
        if self.sync:
            self._sync()
        self.size, self._committed, self._unfinished = size, last, False

    def _check_unchanged(self) -> None:
        """Raise an error if another process has changed the file."""
        status = os.fstat(self._file)
        if status.st_size != self.size or status.st_nlink == 0:
            self._failure = "its file was changed or deleted by another process"
            raise OSError(errno.EBUSY, self._failure)

    def _sync(self) -> None:
        try:
            os.fdatasync(self._file)
        except OSError as error:
            self._failure = f"written data may not have reached the disk ({error})"
            raise

    def sync_up_to(self, number: int) -> None:
        """`commit` and sync, even if commits do not sync."""
        self.commit(number)
        with self._writing:
            if not self.sync and self._file >= 0:
                self._sync()

    def close(self) -> None:
        """Commit waiting records, and close the file."""
        try:
            self.commit()
        finally:
            with self._writing:
                if self._file >= 0:
                    os.close(self._file)
                    self._file = -1
