"""The database of a decision service: models, events, snapshots and leases.

    settings    name, value                         `format`: the version of this schema
    models      name, created, key, checksum        `key` signs the ids of the model's decisions
                agent, parameters, labels           how the model was created (JSON)
                archived, summary                   since when; a short description (JSON)
    events      model, number, ...                  everything that happened, numbered from 1
    snapshots   model, number, created, content     the learner after that event; 0: at the start
    leases      model, owner, address, since        which worker serves the model (PostgreSQL)
    workers     name, address, expires              the workers that are alive (PostgreSQL)

The columns of an event:

    time        the wall clock, in seconds since 1970
    elapsed     seconds since the previous event in the same process, on a clock that cannot be set
    event       decide, feedback, history, ... (see `learner`)
    session, decision, state, action, reward, next_state
    details     everything else, as JSON
    checksum    the CRC-32 of the other columns

Events are only ever inserted. The primary key (model, number) keeps a second writer from adding to
the same history. `Database` contains everything that SQLite (`sqlite`) and PostgreSQL (`postgres`)
have in common. All values are bound parameters.

`Writer` gathers the events of all models in memory. The first caller of `commit` writes for all
that wait (group commit). If a transaction fails, on a full disk for example, its events stay in
memory, and the next commit writes them. If another worker has written to the history of a model,
the model is *overtaken*: its waiting events are dropped, and it must be loaded again.
"""

from __future__ import annotations

import json
import re
import threading
import time
import zlib
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from itertools import chain, groupby
from typing import Any

from switchmdp.errors import DamagedFile, InvalidParameter, LeaseLost, LogFailed, UnknownModel

MODEL = "main"  # the name of a single model
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")  # of a model
FORMAT = "2"
GENERATIONS = 2  # of snapshots, besides the initial one
BATCH = 5000  # events read at once
INSERTED = 100  # events in one statement

Event = dict[str, Any]
Row = tuple[Any, ...]
Statement = Callable[..., Any]
COLUMNS = (
    "model", "number", "time", "elapsed", "event", "session", "decision", "state", "action",
    "reward", "next_state", "details", "checksum",
)  # fmt: skip
FIELDS = COLUMNS[2:-2]  # the fields of an event that have a column
HAVE_COLUMNS = frozenset(FIELDS)
ENCODE = json.JSONEncoder(separators=(",", ":"), allow_nan=False).encode
SETTINGS = "CREATE TABLE settings (name TEXT PRIMARY KEY, value TEXT NOT NULL)"
# {integer}, {real} and {blob} differ between databases.
TABLES = (
    """CREATE TABLE models (
        name TEXT PRIMARY KEY, created {real} NOT NULL, key TEXT NOT NULL,
        checksum {integer} NOT NULL, agent TEXT, parameters TEXT, labels TEXT, archived {real},
        summary TEXT
    )""",
    """CREATE TABLE events (
        model TEXT NOT NULL REFERENCES models (name), number {integer} NOT NULL,
        time {real} NOT NULL, elapsed {real} NOT NULL, event TEXT NOT NULL, session TEXT,
        decision {integer}, state {integer}, action {integer}, reward {real},
        next_state {integer}, details TEXT, checksum {integer} NOT NULL,
        PRIMARY KEY (model, number)
    )""",
    """CREATE TABLE snapshots (
        model TEXT NOT NULL REFERENCES models (name), number {integer} NOT NULL,
        created {real} NOT NULL, content {blob} NOT NULL, PRIMARY KEY (model, number)
    )""",
    """CREATE TABLE leases (
        model TEXT PRIMARY KEY REFERENCES models (name), owner TEXT NOT NULL,
        address TEXT NOT NULL, since {real} NOT NULL
    )""",
    "CREATE TABLE workers (name TEXT PRIMARY KEY, address TEXT NOT NULL, expires {real} NOT NULL)",
)


@dataclass(frozen=True)
class ModelRow:
    """The row of a model."""

    name: str
    key: str
    agent: str | None = None  # its name in the registry; None if it was passed as an object
    parameters: dict[str, Any] = field(default_factory=dict)
    labels: dict[str, str] = field(default_factory=dict)
    created: float = 0.0
    archived: float | None = None
    summary: dict[str, Any] | None = None


@dataclass(frozen=True)
class Lease:
    """The worker that serves a model."""

    owner: str
    address: str


def row_of(model: str, number: int, event: Event) -> Row:
    """The columns of an event.

    >>> row_of("main", 1, {"event": "restart", "time": 5.0, "elapsed": 0.5})[:5]
    ('main', 1, 5.0, 0.5, 'restart')
    """
    return with_checksum(content_of(model, number, event))


def with_checksum(content: Row) -> Row:
    """All columns, from all but the checksum."""
    return (*content, checksum(content))


def content_of(model: str, number: int, event: Event) -> Row:
    """The columns of an event, without the checksum."""
    rest = {k: v for k, v in event.items() if k not in HAVE_COLUMNS and v is not None}
    session = event.get("session")
    if session is not None and not session.isprintable():  # not all of Unicode is stored as text
        event, rest = {**event, "session": None}, {**rest, "session": session}
    if "reward" in event:
        event = {**event, "reward": float(event["reward"])}  # as it is read back
    details = ENCODE(rest) if rest else None
    return (model, number, *map(event.get, FIELDS), details)


def event_of(row: Row) -> Event:
    """The event in a row."""
    event = {k: v for k, v in zip(FIELDS, row[2:-2], strict=True) if v is not None}
    return event if row[-2] is None else event | json.loads(row[-2])


def checksum(values: Sequence[Any]) -> int:
    """The checksum of the columns of a row."""
    return zlib.crc32(json.dumps(values).encode())


def checked_name(name: Any, field: str = "name") -> str:
    """Check the name of a model, which is a part of paths and file names."""
    if not isinstance(name, str) or not NAME.fullmatch(name):
        allowed = "1 to 100 letters, digits, '.', '_' or '-', and start with a letter or a digit"
        raise InvalidParameter(field, name, allowed)
    return name


def other_format(name: str, found: str | None) -> DamagedFile:
    """The error for a database whose format this version does not support.

    >>> str(other_format("shop.sqlite", "3")).partition(" (")[0]
    'shop.sqlite was written by a newer version of switchmdp'
    """
    if found is not None and found.isdecimal() and int(found) > int(FORMAT):
        return DamagedFile(
            f"{name} was written by a newer version of switchmdp (format {found}, this version "
            f"reads up to {FORMAT}); upgrade switchmdp, or restore an earlier backup"
        )
    return DamagedFile(f"{name} has the format {found!r}, not {FORMAT}; restore a backup")


class Overtaken(Exception):
    """Another worker has written to the histories of these models. `Writer` handles it."""

    def __init__(self, models: Collection[str]) -> None:
        super().__init__(models)
        self.models = frozenset(models)


class Database(ABC):
    """The operations of a database that the service uses. Failed writes raise `LogFailed`."""

    secret = ""  # known only to the workers that share the database

    @property
    @abstractmethod
    def name(self) -> str:
        """The name of the database in messages. It contains no password."""

    @property
    @abstractmethod
    def is_mine(self) -> bool:
        """Whether this process opened the database; False in a forked process."""

    @abstractmethod
    def check(self) -> None:
        """Raise `LogFailed` if this process must not write."""

    @abstractmethod
    def transaction(self) -> AbstractContextManager[Statement]:
        """A transaction that is durable when the block ends, or undone if it raises an error."""

    @abstractmethod
    def read(self, query: str, *values: Any) -> list[Row]:
        """The rows of a query."""

    @abstractmethod
    def close(self) -> None:
        """Close the database. In a forked process nothing happens: it belongs to the parent."""

    @abstractmethod
    def damage(self) -> list[str]:
        """The damage that the database itself finds in its tables."""

    def join(  # noqa: B027  # SQLite has no leases
        self, address: str, kept: Callable[[Collection[str]], None],
        summaries: Callable[[], Mapping[str, Any]] = dict,
    ) -> None:  # fmt: skip
        """Register this process as a worker with this address, and keep its leases alive.

        If leases could not be renewed in time, `kept` is called with the models that this worker
        still serves. `summaries` returns those of models that have changed; they are stored, so
        that other workers can list them.
        """

    def claim(self, model: str) -> Lease | None:
        """Take the lease of a model. Returns the lease of another worker if that one has it."""
        return None

    def release(self, models: Collection[str]) -> None:  # noqa: B027  # SQLite has no leases
        """Give leases back."""

    # Models.

    def models(self) -> list[str]:
        """The names of all models."""
        return [name for (name,) in self.read("SELECT name FROM models ORDER BY name")]

    def key_of(self, model: str) -> str | None:
        """The key of a model's ids; None if there is no such model."""
        query = "SELECT name, created, key, checksum FROM models WHERE name = ?"
        for *row, expected in self.read(query, model):
            if checksum(row) != expected:
                raise DamagedFile(f"{self.name}: the row of the model {model!r} is damaged")
            return str(row[2])
        return None

    def model(self, name: str) -> ModelRow:
        """The row of a model, or an error that names it."""
        found = self._rows("WHERE name = ?", name)
        if not found:
            raise UnknownModel(f"there is no model {name!r}")
        return found[0]

    def find_models(
        self, after: str = "", limit: int = 100, search: str = "", archived: bool | None = None
    ) -> list[ModelRow]:
        """Models in the order of their names, from the first one after `after`.

        `search`: a part of the name. `archived`: only archived ones, or only others; None: all.
        """
        where, values = "WHERE name > ?", [after]
        if search:
            pattern = "".join(f"\\{c}" if c in "\\%_" else c for c in search.lower())
            where, values = f"{where} AND lower(name) LIKE ? ESCAPE '\\'", [after, f"%{pattern}%"]
        if archived is not None:
            where += f" AND archived IS {'NOT ' if archived else ''}NULL"
        return self._rows(f"{where} ORDER BY name LIMIT ?", *values, limit)

    def _rows(self, where: str, *values: Any) -> list[ModelRow]:
        query = "SELECT name, key, agent, parameters, labels, created, archived, summary"
        return [
            ModelRow(
                name, key, agent, json.loads(parameters or "{}"), json.loads(labels or "{}"),
                created, archived, None if summary is None else json.loads(summary),
            )
            for name, key, agent, parameters, labels, created, archived, summary in self.read(
                f"{query} FROM models {where}", *values
            )
        ]  # fmt: skip

    def create(self, model: ModelRow, snapshot: bytes) -> None:
        """Add a model with its initial snapshot."""
        row = (model.name, round(time.time(), 3), model.key)
        more = (model.agent, json.dumps(model.parameters), json.dumps(model.labels))
        summary = None if model.summary is None else json.dumps(model.summary)
        with self.transaction() as execute:
            execute(
                "INSERT INTO models (name, created, key, checksum, agent, parameters, labels, "
                "summary) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                (*row, checksum(row), *more, summary),
            )
            self._insert_snapshot(execute, model.name, 0, snapshot)

    def archive(self, model: str, archived: bool) -> None:
        """Archive a model, or undo it."""
        since = round(time.time(), 3) if archived else None
        with self.transaction() as execute:
            execute("UPDATE models SET archived = ? WHERE name = ?", (since, model))

    def delete(self, model: str) -> None:
        """Delete a model with its events and snapshots."""
        with self.transaction() as execute:
            for table in ("leases", "snapshots", "events"):
                execute(f"DELETE FROM {table} WHERE model = ?", (model,))
            execute("DELETE FROM models WHERE name = ?", (model,))

    # Events.

    def append(self, rows: Sequence[Row], *, again: bool = False) -> None:
        """Write rows in one transaction; `again`: skip those that are there already."""
        with self.transaction() as execute:
            if again:
                rows = self.missing(rows)
            marks = f"({', '.join('?' * len(COLUMNS))})"
            for first in range(0, len(rows), INSERTED):  # few calls: each one waits for the GIL
                part = rows[first : first + INSERTED]
                values = ", ".join([marks] * len(part))
                execute(f"INSERT INTO events VALUES {values}", list(chain(*part)))

    def missing(self, rows: Sequence[Row]) -> list[Row]:
        """The rows that are not stored. Raises `Overtaken` if others have their numbers."""
        missing: list[Row] = []
        overtaken: set[str] = set()
        for model, mine in groupby(sorted(rows, key=lambda row: row[0]), lambda row: row[0]):
            own = sorted(mine, key=lambda row: row[1])
            query = "SELECT number, checksum FROM events WHERE model = ? AND number >= ?"
            stored: dict[int, int] = dict(self.read(query, model, own[0][1]))
            if any(stored.get(row[1], row[-1]) != row[-1] for row in own):
                overtaken.add(model)
            missing += [row for row in own if row[1] not in stored]
        if overtaken:
            raise Overtaken(overtaken)
        return missing

    def last(self, model: str) -> int:
        """The number of the last event; 0 if there is none."""
        ((number,),) = self.read("SELECT max(number) FROM events WHERE model = ?", model)
        return int(number or 0)

    def events(self, model: str, after: int = 0) -> Iterator[tuple[int, Event]]:
        """The events after number `after`. Damaged and missing ones raise `DamagedFile`."""
        for row, problem in self.scan(model, after):
            if problem:
                raise DamagedFile(f"{self.name}, model {model!r}: {problem}")
            yield row[1], event_of(row)

    def scan(self, model: str, after: int = 0) -> Iterator[tuple[Row, str]]:
        """The rows after number `after`, and the problem of each; empty if there is none."""
        columns = ", ".join(COLUMNS)
        query = f"SELECT {columns} FROM events WHERE model = ? AND number > ? ORDER BY number"
        while rows := self.read(f"{query} LIMIT ?", model, after, BATCH):
            for row in rows:
                problem, number = "", row[1]
                if number != after + 1:
                    problem = f"the events {after + 1} to {number - 1} are missing"
                elif row[-1] != checksum(row[:-1]):
                    problem = f"event {number} is damaged: it does not match its checksum"
                after = number
                yield row, problem
            if len(rows) < BATCH:
                return

    # Snapshots.

    def save_snapshot(
        self, model: str, number: int, content: bytes, summary: dict[str, Any] | None = None
    ) -> None:
        """Add a snapshot and the summary of the model, and delete outdated snapshots."""
        with self.transaction() as execute:
            self._insert_snapshot(execute, model, number, content)
            if summary is not None:
                execute(
                    "UPDATE models SET summary = ? WHERE name = ?", (json.dumps(summary), model)
                )
            execute(
                "DELETE FROM snapshots WHERE model = ? AND number > 0 AND number NOT IN (SELECT "
                f"number FROM snapshots WHERE model = ? ORDER BY number DESC LIMIT {GENERATIONS})",
                (model, model),
            )

    def _insert_snapshot(self, execute: Statement, model: str, number: int, content: bytes) -> None:
        execute(
            "INSERT INTO snapshots (model, number, created, content) VALUES (?, ?, ?, ?) ON "
            "CONFLICT (model, number) DO UPDATE SET created = excluded.created, "
            "content = excluded.content",
            (model, number, round(time.time(), 3), content),
        )

    def snapshots(self, model: str) -> dict[int, float]:
        """The numbers of the snapshots, the newest first, and when they were written."""
        query = "SELECT number, created FROM snapshots WHERE model = ? ORDER BY number DESC"
        return dict(self.read(query, model))

    def snapshot(self, model: str, number: int) -> bytes | None:
        """The content of a snapshot; None if there is none."""
        query = "SELECT content FROM snapshots WHERE model = ? AND number = ?"
        return next((bytes(content) for (content,) in self.read(query, model, number)), None)


class Writer:
    """Events that wait for their transaction, of all models of a database.

    `overtaken` is called with the name of a model that another worker has written to.
    """

    def __init__(
        self, store: Database, overtaken: Callable[[str], None] = lambda model: None,
        committed: Callable[[float], None] = lambda seconds: None,
    ) -> None:  # fmt: skip
        self.store, self.overtaken, self.committed = store, overtaken, committed
        self.stuck = False  # the last commit failed: unacknowledged events wait
        self._appended = self._committed = 0
        self._waiting: list[tuple[int, Row]] = []
        self._unsure = False  # it is unknown whether the last transaction was completed
        self._turns: Counter[str] = Counter()  # how often each model was overtaken
        self._appending, self._writing = threading.Lock(), threading.Lock()

    def turn_of(self, model: str) -> int:
        """How often the model was overtaken, for `append`."""
        return self._turns[model]

    def append(self, model: str, number: int, event: Event, turn: int = 0) -> int:
        """Add an event. It is durable once `commit` was called with the returned ticket.

        An event is refused if the model was overtaken after the event was made (`turn`).
        """
        content = content_of(model, number, event)
        with self._appending:
            if turn != self._turns[model]:
                raise lost(model)
            self._waiting.append((self._appended + 1, content))
            self._appended += 1
            return self._appended

    def abandon(self, models: Collection[str]) -> None:
        """Drop the waiting events of models that another worker serves now."""
        with self._appending:
            self._turns.update(models)
            self._waiting = [one for one in self._waiting if one[1][0] not in models]
        for model in models:
            self.overtaken(model)

    def commit(self, ticket: int | None = None) -> None:
        """Write the events up to this ticket (None: all)."""
        wanted = self._appended if ticket is None else ticket
        with self._writing:
            if self._committed >= wanted:
                return
            with self._appending:
                waiting, self._waiting = self._waiting, []
            if not waiting:  # they were dropped
                self._committed = wanted
                return
            began = time.perf_counter()
            try:
                self._write([with_checksum(content) for _, content in waiting])
            except BaseException as error:
                with self._appending:
                    self._waiting = waiting + self._waiting
                self.stuck = True
                if isinstance(error, DamagedFile):  # found when the last events were looked up
                    raise LogFailed(str(error)) from None
                raise
            self._committed = waiting[-1][0]
            self.stuck = False
            self.committed(time.perf_counter() - began)

    def _write(self, rows: list[Row]) -> None:
        """Write rows, without those of models that were overtaken."""
        while True:
            again, self._unsure = self._unsure, True
            try:
                if rows:
                    self.store.append(rows, again=again)
            except Overtaken as error:
                rows = [row for row in rows if row[0] not in error.models]
                self.abandon(error.models)
                continue
            self._unsure = False
            return


def lost(model: str) -> LeaseLost:
    """The error for the requests of a model that was overtaken."""
    return LeaseLost(f"another worker serves the model {model!r} now; send the request again")
