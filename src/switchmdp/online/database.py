"""The database of a decision service: models, events and snapshots in one SQLite file.

    settings    name, value                         `format`: the version of this schema
    models      name, created, key, checksum        `key` signs the ids of the model's decisions
    events      model, number, ...                  everything that happened, numbered from 1
    snapshots   model, number, created, content     the learner after that event; 0: at the start

The columns of an event:

    time        the wall clock, in seconds since 1970
    elapsed     seconds since the previous event in the same process, on a clock that cannot be set
    event       decide, feedback, history, ... (see `learner`)
    session, decision, state, action, reward, next_state
    details     everything else, as JSON
    checksum    the CRC-32 of the other columns, because SQLite has no checksums of its own

Events are only ever inserted. The primary key (model, number) keeps a second writer from adding to
the same history. A file beside the database is locked by the process that writes, so that a second
one is refused at once; anyone may read meanwhile. Only the owner has access to the files (mode
0600), because whoever reads a key can forge ids.

`Writer` gathers events in memory. The first caller of `commit` writes for all that wait (group
commit). If a transaction fails, on a full disk for example, its events stay in memory, and the next
commit writes them. If a sync fails, it is unknown what is on disk, and the database must be
reopened.
"""

from __future__ import annotations

import json
import os
import sqlite3
import stat
import threading
import time
import zlib
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from itertools import chain
from pathlib import Path
from typing import Any, Protocol

from switchmdp.errors import DamagedFile, ForeignFolder, LogFailed

try:
    import fcntl
except ImportError:  # on Windows only the primary key keeps a second process out
    fcntl = None  # type: ignore[assignment]  # the module is missing

NAME = "switchmdp.sqlite"  # in a folder
SUFFIXES = (".sqlite", ".sqlite3", ".db")
MODEL = "main"  # the name of a single model
FORMAT = "1"
APPLICATION = 0x53574D44  # "SWMD": marks the file as ours
PRIVATE, PRIVATE_FOLDER = 0o600, 0o700
GENERATIONS = 2  # of snapshots, besides the initial one
# Pages of the write-ahead log after which it is copied to the main file, and reused. Measured with
# 12 rows in a transaction: a commit takes 4 ms while the log grows, and 0.2 ms once it is reused.
PAGES = 1000
BATCH = 5000  # events read at once
INSERTED = 100  # events in one statement
# Errors that are not damage. The last two: SQLite cannot create the file `-shm`, even to read.
TEMPORARY = ("SQLITE_IOERR", "SQLITE_FULL", "SQLITE_BUSY", "SQLITE_CANTOPEN", "SQLITE_READONLY")
# Errors after which nothing more is written.
FATAL = ("FSYNC", "CONSTRAINT", "CORRUPT", "NOTADB")

Event = dict[str, Any]
Row = tuple[Any, ...]
COLUMNS = (
    "model", "number", "time", "elapsed", "event", "session", "decision", "state", "action",
    "reward", "next_state", "details", "checksum",
)  # fmt: skip
FIELDS = COLUMNS[2:-2]  # the fields of an event that have a column
SCHEMA = """
CREATE TABLE settings (name TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT;
CREATE TABLE models (
    name TEXT PRIMARY KEY, created REAL NOT NULL, key TEXT NOT NULL, checksum INTEGER NOT NULL
) STRICT;
CREATE TABLE events (
    model TEXT NOT NULL REFERENCES models (name), number INTEGER NOT NULL, time REAL NOT NULL,
    elapsed REAL NOT NULL, event TEXT NOT NULL, session TEXT, decision INTEGER, state INTEGER,
    action INTEGER, reward REAL, next_state INTEGER, details TEXT, checksum INTEGER NOT NULL,
    PRIMARY KEY (model, number)
) STRICT, WITHOUT ROWID;
CREATE TABLE snapshots (
    model TEXT NOT NULL REFERENCES models (name), number INTEGER NOT NULL, created REAL NOT NULL,
    content BLOB NOT NULL, PRIMARY KEY (model, number)
) STRICT;
"""


def database_in(path: str | os.PathLike[str]) -> Path:
    """The file of a database, given as this file or as its folder.

    >>> database_in("shop").as_posix(), database_in("shop.sqlite").as_posix()
    ('shop/switchmdp.sqlite', 'shop.sqlite')
    """
    path = Path(path)
    return path if path.suffix in SUFFIXES or path.is_file() else path / NAME


class Store(Protocol):
    """What the decisions need of a database. Failed writes raise `LogFailed`."""

    @property
    def name(self) -> str:
        """The database, in messages."""

    @property
    def is_mine(self) -> bool:
        """Whether this process opened the database."""

    def check(self) -> None:
        """Raise `LogFailed` if this process must not write."""

    def models(self) -> dict[str, str]:
        """The models and the keys of their ids."""

    def create(self, model: str, key: str, snapshot: bytes) -> None:
        """Add a model with its initial snapshot."""

    def append(self, rows: Sequence[Row], *, again: bool = False) -> None:
        """Write rows in one transaction; `again`: skip those that are there already."""

    def last(self, model: str) -> int:
        """The number of the last event; 0 if there is none."""

    def events(self, model: str, after: int = 0) -> Iterator[tuple[int, Event]]:
        """The events after number `after`. Damaged and missing ones raise `DamagedFile`."""

    def save_snapshot(self, model: str, number: int, content: bytes) -> None:
        """Add a snapshot, and delete outdated ones."""

    def snapshots(self, model: str) -> dict[int, float]:
        """The numbers of the snapshots, the newest first, and when they were written."""

    def snapshot(self, model: str, number: int) -> bytes | None:
        """The content of a snapshot; None if there is none."""

    def close(self) -> None:
        """Close the database."""


def row_of(model: str, number: int, event: Event) -> Row:
    """The columns of an event.

    >>> row_of("main", 1, {"event": "restart", "time": 5.0, "elapsed": 0.5})[:5]
    ('main', 1, 5.0, 0.5, 'restart')
    """
    rest = {k: v for k, v in event.items() if k not in FIELDS and v is not None}
    session = event.get("session")
    if session is not None and not session.isprintable():  # not all of Unicode is stored as text
        event, rest = {**event, "session": None}, {**rest, "session": session}
    if "reward" in event:
        event = {**event, "reward": float(event["reward"])}  # as it is read back
    details = json.dumps(rest, separators=(",", ":"), allow_nan=False) if rest else None
    row = (model, number, *map(event.get, FIELDS), details)
    return (*row, checksum(row))


def event_of(row: Row) -> Event:
    """The event in a row."""
    event = {k: v for k, v in zip(FIELDS, row[2:-2], strict=True) if v is not None}
    return event if row[-2] is None else event | json.loads(row[-2])


def checksum(values: Sequence[Any]) -> int:
    """The checksum of the columns of a row."""
    return zlib.crc32(json.dumps(values).encode())


class SQLite:
    """A `Store` in a file, for one process that writes, or read-only beside it."""

    def __init__(
        self, path: str | os.PathLike[str], *, sync: bool = True, read_only: bool = False
    ) -> None:
        self.path, self._process, self._lock = Path(path), os.getpid(), threading.RLock()
        self._resources, self._failure = ExitStack(), ""
        if read_only and not self.path.is_file():
            raise ForeignFolder(f"there is no database {self.path}{_advice(self.path)}")
        try:
            if not read_only:
                self._claim()
            mode = "rw" if os.access(self.path, os.W_OK) else "ro"
            self._connection = sqlite3.connect(
                f"{self.path.absolute().as_uri()}?mode={mode}", uri=True, isolation_level=None,
                check_same_thread=False,
            )  # fmt: skip
            self._resources.callback(self._connection.close)
            self._prepare(sync, read_only)
        except sqlite3.Error as error:
            self._resources.close()
            raise self._failed("opened", error) from None
        except BaseException:
            self._resources.close()
            raise
        self._opened = [] if read_only else self._files()

    @property
    def name(self) -> str:
        """The path of the file."""
        return str(self.path)

    def _claim(self) -> None:
        """Lock the database, and create its file if there is none."""
        self.path.parent.mkdir(mode=PRIVATE_FOLDER, parents=True, exist_ok=True)
        self._resources.enter_context(locked(Path(f"{self.path}-lock"), self.path))
        os.close(os.open(self.path, os.O_RDWR | os.O_CREAT, PRIVATE))

    def _prepare(self, sync: bool, read_only: bool) -> None:
        execute = self._connection.execute
        new = not execute("SELECT count(*) FROM sqlite_master").fetchone()[0] and not read_only
        if not new and execute("PRAGMA application_id").fetchone()[0] != APPLICATION:
            raise ForeignFolder(f"{self.path} is not a database of switchmdp")
        if not read_only:
            for end in ("", "-wal", "-shm", "-lock"):  # only now: files of others are not changed
                _make_private(Path(f"{self.path}{end}"))
            if execute("PRAGMA journal_mode = WAL").fetchone() != ("wal",):
                raise sqlite3.OperationalError("its file system does not support the WAL mode")
        if new:
            self._connection.executescript(
                f"BEGIN; PRAGMA application_id = {APPLICATION}; {SCHEMA}"
                f"INSERT INTO settings VALUES ('format', '{FORMAT}'); COMMIT"
            )
        stored = execute("SELECT value FROM settings WHERE name = 'format'").fetchone()
        if stored != (FORMAT,):
            raise DamagedFile(f"{self.path} has format {stored}, known is {FORMAT}")
        execute("PRAGMA foreign_keys = ON")
        execute(f"PRAGMA wal_autocheckpoint = {PAGES}")
        execute(f"PRAGMA synchronous = {'FULL' if sync else 'NORMAL'}")
        execute(f"PRAGMA query_only = {'ON' if read_only else 'OFF'}")

    def _files(self) -> list[tuple[int, int]]:
        status = [os.stat(path) for path in (self.path, f"{self.path}-wal")]
        return [(file.st_dev, file.st_ino) for file in status]

    @property
    def is_mine(self) -> bool:
        """Whether this process opened the database. A fork did not."""
        return os.getpid() == self._process

    def check(self) -> None:
        """Raise an error in a forked process."""
        if not self.is_mine:
            raise LogFailed(f"{self.path} is open in the parent of this forked process")

    def _check_files(self) -> None:
        with suppress(OSError):
            if self._files() == self._opened:
                return
        raise LogFailed(f"{self.path} was moved, replaced or deleted")

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """A transaction that is durable when the block ends, or undone if it raises an error."""
        with self._lock:
            if self._connection.in_transaction:  # part of the outer one
                yield self._connection
                return
            if self._failure:
                raise LogFailed(f"{self.path}: {self._failure}; it must be reopened")
            self.check()
            self._check_files()
            try:
                self._connection.execute("BEGIN IMMEDIATE")
                yield self._connection
                self._connection.execute("COMMIT")
            except BaseException as error:
                with suppress(sqlite3.Error):
                    self._connection.execute("ROLLBACK")
                if not isinstance(error, sqlite3.Error):
                    raise
                code = getattr(error, "sqlite_errorname", "")
                if any(reason in code for reason in FATAL):
                    self._failure = f"it cannot be written ({error}, {code})"
                raise LogFailed(f"{self.path} cannot be written: {error} ({code})") from error

    def append(self, rows: Sequence[Row], *, again: bool = False) -> None:
        """Write rows in one transaction; `again`: skip those that are there already."""
        with self.transaction() as connection:
            if again:
                written = {model: self.last(model) for model in {row[0] for row in rows}}
                rows = [row for row in rows if row[1] > written[row[0]]]
            marks = f"({', '.join('?' * len(COLUMNS))})"
            for first in range(0, len(rows), INSERTED):  # few calls: each one waits for the GIL
                part = rows[first : first + INSERTED]
                values = ", ".join([marks] * len(part))
                connection.execute(f"INSERT INTO events VALUES {values}", list(chain(*part)))

    def create(self, model: str, key: str, snapshot: bytes) -> None:
        """Add a model with its initial snapshot."""
        row = (model, round(time.time(), 3), key)
        with self.transaction() as connection:
            connection.execute("INSERT INTO models VALUES (?, ?, ?, ?)", (*row, checksum(row)))
            self._insert_snapshot(model, 0, snapshot)

    def _insert_snapshot(self, model: str, number: int, content: bytes) -> None:
        row = (model, number, round(time.time(), 3), content)
        self._connection.execute("INSERT OR REPLACE INTO snapshots VALUES (?, ?, ?, ?)", row)

    def save_snapshot(self, model: str, number: int, content: bytes) -> None:
        """Add a snapshot, and delete outdated ones."""
        with self.transaction() as connection:
            self._insert_snapshot(model, number, content)
            for old in list(self.snapshots(model))[GENERATIONS:]:
                if old:
                    connection.execute(
                        "DELETE FROM snapshots WHERE model = ? AND number = ?", (model, old)
                    )

    def read(self, query: str, *values: Any) -> list[Row]:
        """The rows of a query."""
        with self._lock:
            try:
                return self._connection.execute(query, values).fetchall()
            except sqlite3.Error as error:
                raise self._failed("read", error) from None

    def _failed(self, verb: str, error: sqlite3.Error) -> LogFailed | DamagedFile:
        """The typed error for a database that cannot be opened or read."""
        code, message = getattr(error, "sqlite_errorname", ""), f"{self.path} cannot be {verb}"
        if not code.startswith(TEMPORARY):
            return DamagedFile(f"{message}: {error}")
        if code.startswith(("SQLITE_CANTOPEN", "SQLITE_READONLY")):
            message += " (this needs write access to its folder, or a copy in another one)"
        return LogFailed(f"{message}: {error}")

    def models(self) -> dict[str, str]:
        """The models and the keys of their ids."""
        rows = self.read("SELECT name, created, key, checksum FROM models ORDER BY name")
        for *row, expected in rows:
            if checksum(row) != expected:
                raise DamagedFile(f"{self.path}: the row of the model {row[0]!r} is damaged")
        return {name: key for name, _, key, _ in rows}

    def last(self, model: str) -> int:
        """The number of the last event; 0 if there is none."""
        ((number,),) = self.read("SELECT max(number) FROM events WHERE model = ?", model)
        return int(number or 0)

    def events(self, model: str, after: int = 0) -> Iterator[tuple[int, Event]]:
        """The events after number `after`. Damaged and missing ones raise an error."""
        for row, problem in self.scan(model, after):
            if problem:
                raise DamagedFile(f"{self.path}, model {model!r}: {problem}")
            yield row[1], event_of(row)

    def scan(self, model: str, after: int = 0) -> Iterator[tuple[Row, str]]:
        """The rows after number `after`, and the problem of each; empty if there is none."""
        query = "SELECT * FROM events WHERE model = ? AND number > ? ORDER BY number LIMIT ?"
        while rows := self.read(query, model, after, BATCH):
            for row in rows:
                problem, number = "", row[1]
                if number != after + 1:
                    problem = f"the events {after + 1} to {number - 1} are missing"
                elif row[-1] != checksum(row[:-1]):
                    problem = f"event {number} is damaged: it does not match its checksum"
                after = number
                yield row, problem

    def damage(self) -> list[str]:
        """What SQLite finds wrong with the file and its tables."""
        lines = [line for (line,) in self.read("PRAGMA integrity_check") if line != "ok"]
        for table, _, parent, _ in self.read("PRAGMA foreign_key_check"):
            lines.append(f"a row of {table} refers to a row of {parent} that does not exist")
        return lines

    def snapshots(self, model: str) -> dict[int, float]:
        """The numbers of the snapshots, the newest first, and when they were written."""
        query = "SELECT number, created FROM snapshots WHERE model = ? ORDER BY number DESC"
        return dict(self.read(query, model))

    def snapshot(self, model: str, number: int) -> bytes | None:
        """The content of a snapshot; None if there is none."""
        query = "SELECT content FROM snapshots WHERE model = ? AND number = ?"
        return next((content for (content,) in self.read(query, model, number)), None)

    def close(self) -> None:
        """Close the database. In a forked process nothing happens: it belongs to the parent."""
        if self.is_mine:
            with self._lock:
                self._resources.close()


@contextmanager
def locked(file: Path, what: Path) -> Iterator[None]:
    """Hold a lock that only one process can have. It ends with the process."""
    handle = os.open(file, os.O_RDWR | os.O_CREAT, PRIVATE)
    try:
        if fcntl is not None:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise ForeignFolder(f"{what} is in use by another process") from None
        yield
    finally:
        os.close(handle)


def is_new(place: str | os.PathLike[str]) -> bool:
    """Whether there is no database yet. A folder with other files raises an error."""
    database, folder = database_in(place), Path(place)
    if database.exists():
        return False
    for other in sorted(folder.iterdir()) if folder.is_dir() else ():
        if not other.name.startswith((NAME, ".")):
            advice = _advice(database)
            raise ForeignFolder(f"{folder} contains {other.name!r}, but no {NAME}{advice}")
    return True


def _make_private(path: Path) -> None:
    """Remove permissions of others, which a restored backup may have set."""
    if os.name == "posix" and path.exists():
        mode = stat.S_IMODE(path.stat().st_mode)
        if mode & ~PRIVATE:
            with suppress(PermissionError):  # another user is the owner
                path.chmod(mode & PRIVATE)


def _advice(path: Path) -> str:
    """How to convert a folder of an earlier version, if it is one."""
    if not (path.parent / "decisions.json").exists():
        return ""
    return f"; convert it with: switchmdp import {path.parent} --database {path}"


class Writer:
    """Events that wait for their transaction, of all models of a database."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.stuck = False  # the last commit failed: unacknowledged events wait
        self._appended = self._committed = 0
        self._waiting: list[tuple[int, Row]] = []
        self._unsure = False  # whether the last transaction was completed
        self._appending, self._writing = threading.Lock(), threading.Lock()

    def append(self, model: str, number: int, event: Event) -> int:
        """Add an event. It is durable once `commit` was called with the returned ticket."""
        row = row_of(model, number, event)
        with self._appending:
            self._waiting.append((self._appended + 1, row))
            self._appended += 1
            return self._appended

    def commit(self, ticket: int | None = None) -> None:
        """Write the events up to this ticket (None: all)."""
        wanted = self._appended if ticket is None else ticket
        with self._writing:
            if self._committed >= wanted:
                return
            with self._appending:
                self._waiting = [one for one in self._waiting if one[0] > self._committed]
                waiting = list(self._waiting)
            again, self._unsure = self._unsure, True
            try:
                self.store.append([row for _, row in waiting], again=again)
            except BaseException as error:
                self.stuck = True
                if isinstance(error, DamagedFile):  # found when the last events were looked up
                    raise LogFailed(str(error)) from None
                raise
            self._committed = waiting[-1][0]
            self._unsure = self.stuck = False
