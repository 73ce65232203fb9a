"""A tenth of the runs of `worker_kills`; `make soak` runs them all."""

from __future__ import annotations

from tests.online.postgres_server import new_database, postgres_server
from tests.online.worker_kills import kill_workers


def test_killed_workers_lose_nothing_acknowledged() -> None:
    with postgres_server() as server:
        print(kill_workers(new_database(server), 10))
