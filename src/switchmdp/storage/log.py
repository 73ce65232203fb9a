"""An append-only log: one checksummed record a line.

    crc32 of what follows (8 hex digits) SPACE number SPACE JSON NEWLINE

Records are numbered from 1 without a gap, in files of bounded size named by their first record. A
process that dies while it writes leaves a last line without its end, which was never acknowledged:
it is cut. A line that has its end was written whole, so that damage in it is an error, wherever it
is: it may have been acknowledged.

Records are appended in memory and written by `commit`, many at once: whoever comes first writes and
syncs for all who wait (group commit). A record that could not be written, on a full disk say, stays
in memory in its place and is written by the next commit, which cuts whatever the last one left
half written. If a sync fails, nobody knows what is on disk: the log then refuses everything, and
must be opened anew. So it does if the file is not as long as it was left: somebody else writes too.

Files are for their owner alone (mode 0600).
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
    """A record's line.

    >>> encoded(1, {"event": "swap"})
    b'576e440e 1 {"event":"swap"}\\n'
    """
    text = f"{number} {_JSON.encode(record)}".encode()
    return b"%08x %s\n" % (zlib.crc32(text), text)


def sound(line: bytes) -> tuple[int, bytes] | None:
    """A line's number and JSON; None where it is not sound.

    >>> sound(b'576e440e 1 {"event":"swap"}\\n')
    (1, b'{"event":"swap"}')
    >>> sound(b'576e440e 1 {"event":"swap"}')
    """
    if line[8:9] != b" " or line[-1:] != b"\n" or line[:8] != b"%08x" % zlib.crc32(line[9:-1]):
        return None
    number, _, text = line[9:-1].partition(b" ")
    return (int(number), text) if number.isdigit() else None


def torn(line: bytes) -> bool:
    """Whether a line is the beginning of one that was cut off; one with another end is damaged.

    >>> line = encoded(1, {"event": "swap"})
    >>> torn(line[:-5]), torn(line[:-1]), torn(line), torn(line[:-1] + b"K")
    (True, True, False, False)
    """
    return line[-1:] != b"\n" and sound(line[:-1] + b"\n") is None


def file_of(folder: Path, number: int) -> Path:
    """The file that begins with this record."""
    return folder / f"log-{number:012d}.jsonl"


def files_of(folder: Path) -> dict[int, Path]:
    """The log's files by the number of their first record, in order."""
    names = {int(p.stem[4:]): p for p in folder.glob("log-*.jsonl") if p.stem[4:].isdecimal()}
    return dict(sorted(names.items()))


def read(folder: Path, after: int = 0) -> Iterator[tuple[int, Record]]:
    """The records that follow number `after`; a line that was cut off at the end is not yet one."""
    # A file that was begun, and nothing written to it, says that all before it was.
    last = (_first_file(files_of(folder), after) or 1) - 1
    for last, text, path, _ in _lines(folder, after):
        if last > after:
            try:
                record: Record = json.loads(text)
            except ValueError as error:
                raise DamagedFile(f"{path}: record {last} is no JSON: {error}") from None
            yield last, record
    if last < after:
        raise DamagedFile(f"{folder}: the log ends with record {last}, and {after} were written")


def _first_file(files: Iterable[int], after: int) -> int | None:
    """Where to begin: the file that has record `after`, or begins right behind it."""
    return max((n for n in files if n <= after + 1), default=None)


def _lines(folder: Path, after: int) -> Iterator[tuple[int, bytes, Path, int]]:
    """Every sound record with its file and where it ends there, some before `after` included."""
    files = files_of(folder)
    first = _first_file(files, after)
    if first is None:
        if files:
            raise DamagedFile(
                f"{folder}: the log's records {after + 1} to {min(files) - 1} are gone"
            )
        return
    expected, last = first, max(files)
    for begins, path in files.items():
        if begins < first:
            continue
        end = 0
        with open(path, "rb") as file:
            for line in file:
                found = sound(line)
                if found is None and torn(line) and begins == last:
                    return  # nobody was told of it; it may be written right now
                if found is None or found[0] != expected:
                    what = "is damaged" if found is None else f"is missing: it says {found[0]}"
                    raise DamagedFile(
                        f"{path}: record {expected}, which begins at byte {end}, {what}"
                    )
                end += len(line)
                yield *found, path, end
                expected += 1


class Log:
    """The log of a folder, open for writing. `number` is that of the last record appended."""

    def __init__(
        self, folder: Path, *, number: int, sync: bool = True,
        may_write: Callable[[], None] = lambda: None,
    ) -> None:  # fmt: skip
        """Open after record `number`, the last sound one; what lies behind it is cut.

        `may_write` is asked before each write, and raises where this process must not.
        """
        self.folder, self.number, self.sync, self._may_write = folder, number, sync, may_write
        self.stuck = False  # the last commit failed: records wait that nobody was promised
        self.size, self._file, self._unfinished = 0, -1, False
        self._committed = number
        self._waiting: list[tuple[int, bytes]] = []
        self._appending, self._writing = threading.Lock(), threading.Lock()
        self._failure: str | None = None
        self._cut()

    def _cut(self) -> None:
        for begins, other in files_of(self.folder).items():
            if begins > self.number:  # begun, and not one whole record in it
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
        """Write there from now on; if this fails, nothing has changed."""
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, PRIVATE)
        try:
            sync_folder(self.folder)
            if self._file >= 0:
                os.fdatasync(self._file)  # a file is on disk before there is one that follows it
        except OSError:
            os.close(file)
            raise
        if self._file >= 0:
            os.close(self._file)
        self._file, self.size = file, os.fstat(file).st_size

    def append(self, record: Record) -> int:
        """Give a record its number; it is durable once `commit` has returned."""
        with self._appending:
            self._waiting.append((self.number + 1, encoded(self.number + 1, record)))
            self.number += 1
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
                self._waiting = [line for line in self._waiting if line[0] > self._committed]
                waiting = list(self._waiting)
            self._may_write()
            try:
                self._write(waiting)
            except OSError as error:
                self.stuck = True
                raise LogFailed(f"{self.folder}: the log can't be written: {error}") from error
            self.stuck = False

    def _write(self, waiting: list[tuple[int, bytes]]) -> None:
        if self._file < 0 or self.size >= LARGEST_FILE:
            self._open(file_of(self.folder, waiting[0][0]))
        content = b"".join(line for _, line in waiting)
        size, last = self.size + len(content), waiting[-1][0]
        if self._unfinished:  # an earlier attempt failed, or was interrupted
            os.ftruncate(self._file, self.size)
        else:
            self._must_be_ours()
        self._unfinished = True
        written = 0
        while written < len(content):
            written += os.write(self._file, content[written:])
        if self.sync:
            self._settle()
        self.size, self._committed, self._unfinished = size, last, False

    def _must_be_ours(self) -> None:
        """Raise where the file is not as it was left; only this process may write to it."""
        found = os.fstat(self._file)
        if found.st_size != self.size or found.st_nlink == 0:
            self._failure = "its file was changed or deleted by another process"
            raise OSError(errno.EBUSY, self._failure)

    def _settle(self) -> None:
        try:
            os.fdatasync(self._file)
        except OSError as error:
            self._failure = f"what was written may not have reached the disk ({error})"
            raise

    def settle(self, number: int) -> None:
        """`commit` and sync, also where commits do not."""
        self.commit(number)
        with self._writing:
            if not self.sync and self._file >= 0:
                self._settle()

    def close(self) -> None:
        """Commit what waits, and let go of the file."""
        try:
            self.commit()
        finally:
            with self._writing:
                if self._file >= 0:
                    os.close(self._file)
                    self._file = -1
