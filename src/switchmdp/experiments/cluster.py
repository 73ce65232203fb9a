"""Execute chunks on a Dask cluster; the only module that imports `distributed` (extra `dask`).

The workers must see the results folder under the same path (a shared file system) and have the same
version of this package. If a worker is killed, other workers compute its chunks.
"""

from __future__ import annotations

import contextlib
import importlib
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from switchmdp.errors import InvalidParameter, MissingExtra
from switchmdp.experiments.execute import ATTEMPTS, Executor
from switchmdp.experiments.plan import Chunk, Plan
from switchmdp.experiments.store import Store
from switchmdp.experiments.worker import ChunkReport, work_on

LOCAL = "local"
AHEAD = 4  # chunks submitted for each thread of the cluster
CONNECT_TIMEOUT = 30.0  # seconds for the scheduler to answer
ANY_PORT = "127.0.0.1:0"  # of the dashboard; even without one, Dask would warn if 8787 is taken


def on_dask(store: Store, plan: Plan, address: str, jobs: int) -> Executor:
    """Compute chunks on the cluster with this scheduler address, or on a new `local` one."""
    try:
        distributed: Any = importlib.import_module("distributed")
    except ImportError as error:
        raise MissingExtra("a cluster needs Dask: pip install 'switchmdp[dask]'") from error

    folder = str(Path(store.path).resolve())

    def execute(chunks: list[Chunk], stop: threading.Event) -> Iterator[ChunkReport]:
        cluster: Any = None
        if address == LOCAL:
            cluster = distributed.LocalCluster(
                n_workers=jobs, threads_per_worker=1, processes=True, dashboard_address=ANY_PORT
            )
        try:
            with _client(distributed, cluster or address) as client:
                yield from _stream(client, distributed, folder, plan.trusted, chunks, stop)
        finally:
            if cluster is not None:
                cluster.close()

    return execute


def _client(distributed: Any, where: Any) -> Any:
    try:
        return distributed.Client(where, timeout=CONNECT_TIMEOUT)
    except (OSError, ValueError) as error:
        allowed = f"the address of a running Dask scheduler ({error})"
        raise InvalidParameter("dask", where, allowed) from error


def _stream(
    client: Any, distributed: Any, folder: str, trust: bool, chunks: list[Chunk],
    stop: threading.Event,
) -> Iterator[ChunkReport]:  # fmt: skip
    waiting = [chunk.id for chunk in reversed(chunks)]
    attempts = dict.fromkeys(waiting, 0)
    running: dict[Any, str] = {}
    try:
        while (waiting or running) and not stop.is_set():
            room = AHEAD * max(1, sum(client.nthreads().values()))
            while waiting and len(running) < room:
                chunk = waiting.pop()
                attempts[chunk] += 1
                running[client.submit(work_on, folder, chunk, trust, pure=False)] = chunk
            with contextlib.suppress(TimeoutError, distributed.CancelledError):
                distributed.wait(list(running), timeout=0.5, return_when="FIRST_COMPLETED")
            for future in [future for future in running if future.done()]:
                chunk = running.pop(future)
                report = _report(distributed, future, chunk)
                if report.error and not report.disk_full and attempts[chunk] < ATTEMPTS:
                    waiting.append(chunk)
                else:
                    yield report
        client.cancel(list(running))
    except (OSError, distributed.client.ClosedClientError) as error:
        for chunk in (*running.values(), *waiting):
            yield ChunkReport(chunk, error=f"the connection to the cluster is lost: {error}")


def _report(distributed: Any, future: Any, chunk: str) -> ChunkReport:
    try:
        return future.result()  # type: ignore[no-any-return]  # what `work_on` returned
    except (Exception, distributed.CancelledError) as error:  # raised there, or the worker died
        return ChunkReport(chunk, error=f"{type(error).__name__}: {error}")
