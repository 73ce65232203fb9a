"""Chunks on a Dask cluster: the only place that knows `distributed` (extra `dask`).

The workers must see the results folder under the same path (a shared file system) and have the
same version of this package. A worker that is killed costs the chunks it was computing, which
others then do.
"""

from __future__ import annotations

import importlib
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from switchmdp.errors import MissingExtra
from switchmdp.experiments.chunks import Chunk
from switchmdp.experiments.execute import ATTEMPTS, Executor
from switchmdp.experiments.store import Store
from switchmdp.experiments.worker import Account, work_on

LOCAL = "local"
AHEAD = 4  # chunks submitted for each thread of the cluster


def on_dask(store: Store, address: str, jobs: int) -> Executor:
    """Chunks computed by the cluster at this scheduler address, or by a `local` one."""
    try:
        distributed: Any = importlib.import_module("distributed")
    except ImportError as error:
        raise MissingExtra("a cluster needs Dask: pip install 'switchmdp[dask]'") from error

    folder = str(Path(store.path).resolve())

    def use(chunks: list[Chunk], stop: threading.Event) -> Iterator[Account]:
        cluster: Any = None
        if address == LOCAL:
            cluster = distributed.LocalCluster(
                n_workers=jobs, threads_per_worker=1, processes=True, dashboard_address=None
            )
        try:
            with distributed.Client(cluster or address, timeout=30) as client:
                yield from _stream(client, distributed, folder, chunks, stop)
        finally:
            if cluster is not None:
                cluster.close()

    return use


def _stream(
    client: Any, distributed: Any, folder: str, chunks: list[Chunk], stop: threading.Event
) -> Iterator[Account]:
    waiting = [chunk.id for chunk in reversed(chunks)]
    attempts = dict.fromkeys(waiting, 0)
    running: dict[Any, str] = {}
    while (waiting or running) and not (stop.is_set() and not running):
        room = AHEAD * max(1, sum(client.nthreads().values()))
        while waiting and len(running) < room and not stop.is_set():
            chunk = waiting.pop()
            attempts[chunk] += 1
            running[client.submit(work_on, folder, chunk, pure=False)] = chunk
        if stop.is_set():
            idle = [f for f in running if f.status == "pending"]
            client.cancel(idle)
            for future in idle:
                del running[future]
            continue
        try:
            finished = distributed.wait(list(running), timeout=0.5, return_when="FIRST_COMPLETED")
        except TimeoutError:
            continue
        for future in finished.done:
            chunk = running.pop(future)
            error = future.exception() if future.status == "error" else None
            if future.status == "finished":
                yield future.result()
            elif attempts[chunk] < ATTEMPTS:
                waiting.append(chunk)
            else:
                yield Account(chunk, error=f"{type(error).__name__}: {error}")
