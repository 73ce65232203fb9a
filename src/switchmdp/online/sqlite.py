"""SQLite: a database in one file, for one process that writes.

WAL mode, `synchronous=FULL`. A file beside the database is locked by the process that writes, so
that a second one is refused at once; anyone may read meanwhile. Only the owner has access to the
files (mode 0600), because whoever reads a key can forge ids. If a sync fails, it is unknown what is
on disk, and the database must be reopened.

Databases of format 1, which held one model, are converted when they are opened for writing.
"""

from __future__ import annotations

import os
import re
import sqlite3
import stat
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

from switchmdp.errors import DamagedFile, ForeignFolder, InvalidParameter, LogFailed
from switchmdp.online.database import (
    FORMAT,
    SETTINGS,
    TABLES,
    Database,
    Row,
    Statement,
    other_format,
)

try:
    import fcntl
except ImportError:  # on Windows
    fcntl = None  # type: ignore[assignment]  # the module is missing

NAME = "switchmdp.sqlite"  # in a folder
SUFFIXES = (".sqlite", ".sqlite3", ".db")
ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")  # not a path, nor a drive of Windows
APPLICATION = 0x53574D44  # "SWMD": marks the file as ours
PRIVATE, PRIVATE_FOLDER = 0o600, 0o700
# Pages of the write-ahead log after which it is copied to the main file, and reused. Measured with
# 12 rows in a transaction: a commit takes 4 ms while the log grows, and 0.2 ms once it is reused.
PAGES = 1000
# Errors that are not damage. The last two: SQLite cannot create the file `-shm`, even to read.
TEMPORARY = ("SQLITE_IOERR", "SQLITE_FULL", "SQLITE_BUSY", "SQLITE_CANTOPEN", "SQLITE_READONLY")
# Errors after which nothing more is written.
FATAL = ("FSYNC", "CONSTRAINT", "CORRUPT", "NOTADB")
TYPES = {"integer": "INTEGER", "real": "REAL", "blob": "BLOB"}
ENDINGS = {"events": " STRICT, WITHOUT ROWID"}  # of the tables; " STRICT" for all others
ADDED_COLUMNS = ("agent TEXT", "parameters TEXT", "labels TEXT", "archived REAL", "summary TEXT")


def _statements() -> list[str]:
    """The statements that create the tables."""
    created = [statement.format(**TYPES) for statement in (SETTINGS, *TABLES)]
    return [text + ENDINGS.get(text.split()[2], " STRICT") for text in created]


def database_in(path: str | os.PathLike[str]) -> Path:
    """The file of a database, given as this file or as its folder.

    >>> database_in("shop").as_posix(), database_in("shop.sqlite").as_posix()
    ('shop/switchmdp.sqlite', 'shop.sqlite')
    """
    if ADDRESS.match(os.fspath(path)):
        allowed = "a file, a folder or, on the command line, postgresql://USER@HOST/NAME"
        raise InvalidParameter("database", os.fspath(path), allowed)
    path = Path(path)
    return path if path.suffix in SUFFIXES or path.is_file() else path / NAME


class SQLite(Database):
    """A database in a file, for one process that writes, or read-only beside it."""

    def __init__(
        self, path: str | os.PathLike[str], *, sync: bool = True, read_only: bool = False
    ) -> None:
        self.path, self._process, self._lock = Path(path), os.getpid(), threading.RLock()
        self._resources, self._failure = ExitStack(), ""
        self._made_lock = False
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
            failed = self._failed("opened", error)
            self._abandon(failed)
            raise failed from None
        except BaseException as error:
            self._abandon(error)
            raise
        self._opened = [] if read_only else self._files()

    @property
    def name(self) -> str:
        """The path of the file."""
        return str(self.path)

    def _claim(self) -> None:
        """Lock the database, and create its file if there is none."""
        self.path.parent.mkdir(mode=PRIVATE_FOLDER, parents=True, exist_ok=True)
        lock = Path(f"{self.path}-lock")
        new = not lock.exists()
        self._resources.enter_context(locked(lock, self.path))
        self._made_lock = new
        os.close(os.open(self.path, os.O_RDWR | os.O_CREAT, PRIVATE))

    def _abandon(self, error: BaseException) -> None:
        """Release everything. Beside a file that we cannot use, no file of ours is left."""
        self._resources.close()
        if self._made_lock and isinstance(error, (ForeignFolder, DamagedFile, OSError)):
            Path(f"{self.path}-lock").unlink(missing_ok=True)

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
            self._run(
                f"PRAGMA application_id = {APPLICATION}", *_statements(),
                f"INSERT INTO settings VALUES ('format', '{FORMAT}')",
            )  # fmt: skip
        stored = execute("SELECT value FROM settings WHERE name = 'format'").fetchone()
        if stored == ("1",) and not read_only:
            self._run(
                *(f"ALTER TABLE models ADD COLUMN {column}" for column in ADDED_COLUMNS),
                *_statements()[-2:],
                f"UPDATE settings SET value = '{FORMAT}' WHERE name = 'format'",
            )  # fmt: skip
        elif stored not in ((FORMAT,), ("1",)):
            raise other_format(self.name, stored and stored[0])
        execute("PRAGMA foreign_keys = ON")
        execute(f"PRAGMA wal_autocheckpoint = {PAGES}")
        execute(f"PRAGMA synchronous = {'FULL' if sync else 'NORMAL'}")
        execute(f"PRAGMA query_only = {'ON' if read_only else 'OFF'}")

    def _run(self, *statements: str) -> None:
        """Run statements in one transaction."""
        self._connection.executescript("; ".join(("BEGIN", *statements, "COMMIT")))

    def _files(self) -> list[tuple[int, int]]:
        status = [os.stat(path) for path in (self.path, f"{self.path}-wal")]
        return [(file.st_dev, file.st_ino) for file in status]

    @property
    def is_mine(self) -> bool:
        """Whether this process opened the database; False in a forked process."""
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
    def transaction(self) -> Iterator[Statement]:
        """A transaction that is durable when the block ends, or undone if it raises an error."""
        with self._lock:
            if self._connection.in_transaction:  # part of the outer one
                yield self._connection.execute
                return
            if self._failure:
                raise LogFailed(f"{self.path}: {self._failure}; it must be reopened")
            self.check()
            self._check_files()
            try:
                self._connection.execute("BEGIN IMMEDIATE")
                yield self._connection.execute
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

    def damage(self) -> list[str]:
        """The damage that SQLite finds in the file and its tables."""
        lines = [line for (line,) in self.read("PRAGMA integrity_check") if line != "ok"]
        for table, _, parent, _ in self.read("PRAGMA foreign_key_check"):
            lines.append(f"a row of {table} refers to a row of {parent} that does not exist")
        return lines

    def close(self) -> None:
        """Close the database. In a forked process nothing happens: it belongs to the parent."""
        if self.is_mine:
            with self._lock:
                self._resources.close()


@contextmanager
def locked(file: Path, what: Path) -> Iterator[None]:
    """Hold a lock that only one process can have. The lock ends with the process."""
    in_use = f"{what} is in use by another process, or was opened before in this one"
    if fcntl is None:
        from filelock import FileLock, Timeout

        with ExitStack() as held:
            try:
                held.enter_context(FileLock(file, timeout=0, mode=PRIVATE))
            except Timeout:
                raise ForeignFolder(in_use) from None
            yield
        return
    handle = os.open(file, os.O_RDWR | os.O_CREAT, PRIVATE)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise ForeignFolder(in_use) from None
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
            advice = _advice(database) or "; use a new folder"
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
    """Advice for the case that there is no such database."""
    folder = path.parent
    if (folder / "decisions.json").exists():  # of an earlier version
        return f"; convert it with: switchmdp import {folder} --database {path}"
    others = sorted(one.name for one in folder.glob("*") if one.suffix in SUFFIXES)
    return f"; its folder has {', '.join(others[:3])}" if others else ""
