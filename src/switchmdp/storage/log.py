"""An append-only log: one checksummed record a line.

    crc32 of what follows (8 hex digits) SPACE number SPACE JSON NEWLINE

Records are numbered from 1 without a gap, in files of bounded size named by their first record. A
process that dies while it writes leaves a torn last line behind, which was never acknowledged: it
is cut. A damaged line with a sound one after it is no torn tail, and is refused.

Records are appended in memory and written by `commit`, many at once: whoever comes first writes and
syncs for all who wait (group commit). A record that could not be written, on a full disk say, stays
in memory in its place and is written by the next commit, which cuts whatever the last one left
half written. If a sync fails, nobody knows what is on disk: the log then refuses everything, and
must be opened anew.
"""

from __future__ import annotations

import json
import os
import threading
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from switchmdp.errors import DamagedFile, LogFailed
from switchmdp.storage import sync_folder

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
    try:
        if line[8:9] != b" " or line[-1:] != b"\n" or zlib.crc32(line[9:-1]) != int(line[:8], 16):
            return None
        number, _, text = line[9:-1].partition(b" ")
        return int(number), text
    except ValueError:
        return None


def files_of(folder: Path) -> dict[int, Path]:
    """The log's files by the number of their first record, in order."""
    names = {int(p.stem[4:]): p for p in folder.glob("log-*.jsonl") if p.stem[4:].isdecimal()}
    return dict(sorted(names.items()))


def read(folder: Path, after: int = 0) -> Iterator[tuple[int, Record]]:
    """The records that follow number `after`; a torn tail is passed over in silence."""
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
    expected, torn = first, ""
    for begins, path in files.items():
        if begins < first:
            continue
        end = 0
        with open(path, "rb") as file:
            for line in file:
                found = sound(line)
                if found is None:
                    torn = torn or f"{path.name}: record {expected} is damaged"
                    if line[-1:] != b"\n":  # somebody may be writing the rest of it right now
                        break
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
        self.stuck = False  # the last commit failed: records wait that nobody was promised
        self.size, self._file, self._unfinished = 0, -1, False
        self._committed = number
        self._waiting: list[tuple[int, bytes]] = []
        self._appending, self._writing = threading.Lock(), threading.Lock()
        self._failure: str | None = None
        self._cut()

    def _cut(self) -> None:
        for begins, other in files_of(self.folder).items():
            if begins > self.number:  # begun, and not one sound record in it
                if any(map(sound, other.read_bytes().splitlines(keepends=True))):
                    raise DamagedFile(f"{self.folder}: records follow number {self.number}")
                other.unlink()
        if self.number > 0:
            for number, _, path, end in _lines(self.folder, self.number - 1):
                if number == self.number:
                    self._open(path)
                    os.ftruncate(self._file, end)
                    self.size = end
                    return
            raise DamagedFile(f"{self.folder}: the log ends before record {self.number}")

    def _open(self, path: Path) -> None:
        """Write there from now on; if this fails, nothing has changed."""
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
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
            try:
                self._write(waiting)
            except OSError as error:
                self.stuck = True
                raise LogFailed(f"{self.folder}: the log can't be written: {error}") from error
            self.stuck = False

    def _write(self, waiting: list[tuple[int, bytes]]) -> None:
        if self._file < 0 or self.size >= LARGEST_FILE:
            self._open(self.folder / f"log-{waiting[0][0]:012d}.jsonl")
        content = b"".join(line for _, line in waiting)
        size, last = self.size + len(content), waiting[-1][0]
        if self._unfinished:  # an earlier attempt failed, or was interrupted
            os.ftruncate(self._file, self.size)
        self._unfinished = True
        written = 0
        while written < len(content):
            written += os.write(self._file, content[written:])
        if self.sync:
            self._settle()
        self.size, self._committed, self._unfinished = size, last, False

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
