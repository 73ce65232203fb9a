"""PostgreSQL: a database for several workers, on one machine or on many.

The tables are those of `database`. One connection writes, another one reads. If a connection is
lost, the call raises `LogFailed`, and the next call connects again.

**Leases.** Every worker has a row in `workers`, which it renews a few times before it expires. A
model is served by the worker in its row of `leases`. If that worker's row has expired, any other
worker may take the lease over. A worker that was only slow may still believe that it has the lease.
Then the primary key (model, number) of the events decides: only one of the two can add the next
event, and the other one finds out when it tries (`Overtaken`), before anything is acknowledged.
Times are those of the database server, so the clocks of the workers do not matter.
"""

from __future__ import annotations

import json
import os
import secrets
import selectors
import socket
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from switchmdp.errors import ForeignFolder, LogFailed, MissingExtra, ModelExists
from switchmdp.online.database import (
    FORMAT,
    SETTINGS,
    TABLES,
    Database,
    Lease,
    ModelRow,
    Row,
    Statement,
    other_format,
)

try:
    import psycopg
    from psycopg import conninfo, errors
    from psycopg.pq import TransactionStatus
except ImportError as error:
    raise MissingExtra("PostgreSQL needs psycopg: pip install 'switchmdp[postgres]'") from error

LOCK = 0x53574D44  # "SWMD": of the workers that create the tables
TYPES = {"integer": "BIGINT", "real": "DOUBLE PRECISION", "blob": "BYTEA"}
NOW = "extract(epoch FROM clock_timestamp())::double precision"
SECRET_SIZE = 16  # bytes
LEASE = 10.0  # seconds after which a worker counts as dead
RENEWALS = 4  # during that time
OPTIONS: dict[str, Any] = {
    "connect_timeout": 5, "keepalives_idle": 5, "keepalives_interval": 2, "keepalives_count": 3,
    "tcp_user_timeout": 10_000, "application_name": "switchmdp",
}  # fmt: skip
STATEMENT_SECONDS = 60


class PostgreSQL(Database):
    """A database of a PostgreSQL server."""

    def __init__(
        self, url: str, *, sync: bool = True, read_only: bool = False, lease: float = LEASE
    ) -> None:
        self.url, self._sync, self._read_only, self._lease = url, sync, read_only, lease
        self.worker = f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(4)}"
        self._process = os.getpid()
        self._writing, self._reading = _Connection(self._connect), _Connection(self._connect)
        self._heartbeats: threading.Thread | None = None
        self._ending = threading.Event()
        try:
            self._prepare()
        except BaseException:
            self._writing.close()
            raise

    @property
    def name(self) -> str:
        """The address of the database, without its password."""
        shown = conninfo.conninfo_to_dict(self.url)
        host = shown.get("host") or shown.get("hostaddr") or "localhost"
        port = f":{shown['port']}" if shown.get("port") else ""
        return f"postgresql://{host}{port}/{shown.get('dbname') or ''}"

    def _connect(self) -> psycopg.Connection[Any]:
        options = f"-c statement_timeout={STATEMENT_SECONDS}s"
        options += f" -c synchronous_commit={'on' if self._sync else 'off'}"
        options += " -c default_transaction_read_only=on" if self._read_only else ""
        return psycopg.connect(self.url, autocommit=True, options=options, **OPTIONS)

    def _prepare(self) -> None:
        """Create the tables, or check that they are ours."""
        with self._as_errors("opened"), self._writing.used() as connection:
            connection.execute("SELECT 1")
            if not self._read_only:
                self._create_tables(connection)
            query = "SELECT to_regclass('settings'), to_regclass('models'), to_regclass('events')"
            if None in (connection.execute(query).fetchone() or ()):
                raise ForeignFolder(f"{self.name} is not a database of switchmdp")
            stored = dict(connection.execute("SELECT name, value FROM settings").fetchall())
        if stored.get("format") != FORMAT:
            raise other_format(self.name, stored.get("format"))
        self.secret = stored["secret"]

    def _create_tables(self, connection: psycopg.Connection[Any]) -> None:
        with connection.transaction():
            connection.execute("SELECT pg_advisory_xact_lock(%s)", (LOCK,))
            query = "SELECT to_regclass('settings'), to_regclass('models'), to_regclass('events')"
            if connection.execute(query).fetchone() != (None, None, None):
                return
            for statement in (SETTINGS, *TABLES):
                connection.execute(statement.format(**TYPES))
            insert = "INSERT INTO settings VALUES ('format', %s), ('secret', %s)"
            connection.execute(insert, (FORMAT, secrets.token_hex(SECRET_SIZE)))

    @property
    def is_mine(self) -> bool:
        """Whether this process opened the database; False in a forked process."""
        return os.getpid() == self._process

    def check(self) -> None:
        """Raise an error in a forked process."""
        if not self.is_mine:
            raise LogFailed(f"{self.name} is open in the parent of this forked process")

    @contextmanager
    def _as_errors(self, verb: str) -> Iterator[None]:
        """Typed errors instead of those of the driver."""
        try:
            yield
        except errors.UniqueViolation:
            raise
        except psycopg.Error as error:
            reason = str(error).partition("\n")[0]
            raise LogFailed(f"{self.name} cannot be {verb}: {reason}") from error

    @contextmanager
    def transaction(self) -> Iterator[Statement]:
        """A transaction that is durable when the block ends, or undone if it raises an error."""
        self.check()
        with (
            self._as_errors("written"), self._writing.used() as connection,
            connection.transaction(),
        ):  # fmt: skip

            def execute(query: str, values: Sequence[Any] = ()) -> Any:
                return connection.execute(query.replace("?", "%s"), values)

            yield execute

    def read(self, query: str, *values: Any) -> list[Row]:
        """The rows of a query; inside a transaction, this includes its uncommitted changes."""
        source = self._writing if self._writing.is_mine else self._reading
        with self._as_errors("read"), source.used() as connection:
            return connection.execute(query.replace("?", "%s"), values).fetchall()

    def append(self, rows: Sequence[Row], *, again: bool = False) -> None:
        """Write rows in one transaction; `again`: skip those that are there already."""
        try:
            super().append(rows, again=again)
        except errors.UniqueViolation:
            super().append(self.missing(rows))  # raises `Overtaken`, unless they are our own

    def create(self, model: ModelRow, snapshot: bytes) -> None:
        """Add a model with its initial snapshot.

        Raises `ModelExists` if another worker was faster.
        """
        try:
            super().create(model, snapshot)
        except errors.UniqueViolation:
            raise ModelExists(f"there is already a model {model.name!r}") from None

    def damage(self) -> list[str]:
        """The damage found in the tables; the server itself checks the rest."""
        return [
            f"a row of {table} refers to a model that does not exist"
            for table in ("events", "snapshots", "leases")
            if self.read(
                f"SELECT 1 FROM {table} WHERE NOT EXISTS (SELECT 1 FROM models WHERE "
                f"models.name = {table}.model) LIMIT 1"
            )
        ]

    # Leases.

    def join(
        self, address: str, kept: Callable[[Collection[str]], None],
        summaries: Callable[[], Mapping[str, Any]] = dict,
    ) -> None:  # fmt: skip
        """Register this process as a worker with this address, and keep its leases alive."""
        self._address, self._kept, self._summaries = address, kept, summaries
        self._renew()
        self._heartbeats = threading.Thread(target=self._beat, name="leases", daemon=True)
        self._descriptions = threading.Thread(target=self._describe, name="summaries", daemon=True)
        self._heartbeats.start()
        self._descriptions.start()

    def _beat(self) -> None:
        renewed = time.monotonic()
        while not self._ending.wait(self._lease / RENEWALS):
            with suppress(LogFailed):
                self._renew()
                late = time.monotonic() - renewed > self._lease
                renewed = time.monotonic()
                if late:  # others may have taken over leases in the meantime
                    query = "SELECT model FROM leases WHERE owner = ?"
                    self._kept({model for (model,) in self.read(query, self.worker)})

    def _describe(self) -> None:
        # In a thread of its own: a model can be described only after its current plan, and the
        # leases must be renewed all the same.
        while not self._ending.wait(self._lease / RENEWALS):
            with suppress(LogFailed):
                self._store_summaries(self._summaries())

    def _store_summaries(self, summaries: Mapping[str, Any]) -> None:
        """Let the other workers list what has changed in the models of this one."""
        if not summaries:
            return
        rows = [(json.dumps(summary), model) for model, summary in summaries.items()]
        with (
            self._as_errors("written"), self._writing.used() as connection,
            connection.transaction(), connection.cursor() as cursor,
        ):  # fmt: skip
            cursor.executemany("UPDATE models SET summary = %s WHERE name = %s", rows)

    def _renew(self) -> None:
        with self.transaction() as execute:
            execute(
                f"INSERT INTO workers VALUES (?, ?, {NOW} + ?) ON CONFLICT (name) DO UPDATE SET "
                "expires = excluded.expires",
                (self.worker, self._address, self._lease),
            )
            execute(f"DELETE FROM workers WHERE expires < {NOW} - 3600")

    def claim(self, model: str) -> Lease | None:
        """Take the lease of a model. Returns the lease of another worker if that one has it."""
        if self._heartbeats is None:
            return None  # not a worker of a service; the primary key protects the history
        with self.transaction() as execute:
            taken = execute(
                f"INSERT INTO leases VALUES (?, ?, ?, {NOW}) ON CONFLICT (model) DO UPDATE SET "
                "owner = excluded.owner, address = excluded.address, since = excluded.since WHERE "
                "leases.owner = excluded.owner OR NOT EXISTS (SELECT 1 FROM workers WHERE "
                f"workers.name = leases.owner AND workers.expires > {NOW}) RETURNING owner",
                (model, self.worker, self._address),
            ).fetchone()
            if taken is not None:
                return None
            query = "SELECT owner, address FROM leases WHERE model = ?"
            found = execute(query, (model,)).fetchone()
        return None if found is None else Lease(*found)

    def release(self, models: Collection[str]) -> None:
        """Give leases back."""
        with suppress(LogFailed), self.transaction() as execute:
            query = "DELETE FROM leases WHERE owner = ? AND model = ANY(?)"
            execute(query, (self.worker, list(models)))

    def close(self) -> None:
        """Give all leases back, and close the connections."""
        if not self.is_mine:
            return
        self._ending.set()
        if self._heartbeats is not None:
            self._heartbeats.join()
            self._descriptions.join()
            with suppress(LogFailed), self.transaction() as execute:
                execute("DELETE FROM leases WHERE owner = ?", (self.worker,))
                execute("DELETE FROM workers WHERE name = ?", (self.worker,))
        for connection in (self._writing, self._reading):
            connection.close()


class _Connection:
    """A connection for one thread at a time, which is made again after an error."""

    def __init__(self, connect: Callable[[], psycopg.Connection[Any]]) -> None:
        self._connect = connect
        self._lock = threading.RLock()
        self._open: psycopg.Connection[Any] | None = None
        self._owner = 0

    @property
    def is_mine(self) -> bool:
        """Whether this thread is using it."""
        return self._owner == threading.get_ident()

    @contextmanager
    def used(self) -> Iterator[psycopg.Connection[Any]]:
        """The connection, for a block."""
        with self._lock:
            outer, self._owner = self._owner, threading.get_ident()
            try:
                if self._open is not None and _was_cut_off(self._open):
                    self.close()
                if self._open is None or self._open.closed:
                    self._open = self._connect()
                yield self._open
            except psycopg.OperationalError:
                self.close()
                raise
            finally:
                self._owner = outer

    def close(self) -> None:
        """Close the connection."""
        with self._lock:
            if self._open is not None:
                with suppress(psycopg.Error):
                    self._open.close()
                self._open = None


def _was_cut_off(connection: psycopg.Connection[Any]) -> bool:
    """Whether the server has ended an idle connection, for example because it was restarted.

    Between two queries a server sends nothing but its goodbye.
    """
    if connection.closed or connection.info.transaction_status != TransactionStatus.IDLE:
        return False
    with selectors.DefaultSelector() as selector:
        selector.register(connection.fileno(), selectors.EVENT_READ)
        return bool(selector.select(0))
