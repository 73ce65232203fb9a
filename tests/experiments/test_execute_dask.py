"""A real Dask cluster gives the same bytes, even if workers are killed."""

from __future__ import annotations

import importlib
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from switchmdp.errors import InvalidParameter, MissingExtra
from switchmdp.experiments import execute
from switchmdp.experiments.execute import run_chunks
from switchmdp.experiments.plan import Plan
from switchmdp.experiments.store import Store

distributed: Any = pytest.importorskip("distributed")

Small = Callable[..., dict[str, Any]]
Prepare = Callable[..., tuple[Store, Plan]]
Tree = Callable[[Path], str]
Fresh = Callable[[str], tuple[Store, Plan]]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """Two worker processes, each with a nanny that replaces it when it dies."""
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address="127.0.0.1:0"
    ) as cluster:
        yield cluster


@pytest.fixture
def nobody() -> Iterator[Any]:
    """A scheduler without a worker."""
    with distributed.LocalCluster(n_workers=0, dashboard_address="127.0.0.1:0") as cluster:
        yield cluster


def test_a_cluster_gives_the_same_bytes_even_after_an_interruption(
    cluster: Any, fresh: Fresh, whole: str, tree: Tree, stop_after: Callable[[int], dict[str, Any]]
) -> None:
    store, plan = fresh("out")
    address = cluster.scheduler_address
    progress = run_chunks(store, plan, dask=address, **stop_after(3))
    assert progress.interrupted
    assert not progress.lost
    assert 3 <= progress.done < 18
    progress = run_chunks(store, plan, dask=address)
    assert (progress.complete, progress.done, progress.failed) == (True, 18, 0)
    assert tree(store.path) == whole


def test_a_local_cluster_is_started_and_ended(fresh: Fresh, whole: str, tree: Tree) -> None:
    store, plan = fresh("out")
    assert run_chunks(store, plan, dask="local", jobs=1).complete
    assert tree(store.path) == whole


def test_killed_workers_affect_only_their_chunks(
    cluster: Any, fresh: Fresh, whole: str, tree: Tree, slow: Callable[[], Any]
) -> None:
    store, plan = fresh("out")
    toy = slow()
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(run_chunks, store, plan, dask=cluster.scheduler_address)
        toy.kill_workers(2)
        assert running.result().complete
    assert len(toy.pids()) > 2
    assert tree(store.path) == whole


def test_a_long_lived_worker_runs_the_current_user_code(
    cluster: Any, fresh: Fresh, whole: str, tree: Tree, toys: Path
) -> None:
    digests = []
    for text in ("FAVOURITE = 1\n", "FAVOURITE = 1 - 1\n"):
        (toys / "toy_numbers.py").write_text(text)
        for i, how in enumerate(({"dask": cluster.scheduler_address}, {"executor": "threads"})):
            store, plan = fresh(f"{len(text)} {i}")
            assert run_chunks(store, plan, jobs=2, **how).complete
            digests.append(tree(store.path))
    assert digests[0] == digests[1] == whole
    assert digests[2] == digests[3] != whole


def test_a_chunk_that_kills_every_worker_is_lost_and_the_others_are_done(
    cluster: Any, small: Small, prepare: Prepare, toys: Path, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr(cluster.scheduler, "allowed_failures", 0)  # so that it dies 3 times, not 12
    agents = {"R": {"agent": "random"}, "D": {"agent": "toys:Deadly"}}
    data = small(agents=agents, problems={"P": {"problem": "toys:two_states"}}, n_problems=1)
    store, plan = prepare(data, tmp_path / "out", toys)
    progress = run_chunks(store, plan, dask=cluster.scheduler_address)
    lost = {account.chunk: account.error for account in progress.lost}
    assert lost["s000-a001-b00000"].startswith("KilledWorker: ")
    assert not progress.complete
    assert [chunk.agent for chunk in store.chunks() if not store.is_done(chunk)] == [1]


def test_stopping_does_not_wait_for_workers(nobody: Any, fresh: Fresh) -> None:
    store, plan = fresh("out")
    stop = threading.Event()
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(run_chunks, store, plan, dask=nobody.scheduler_address, stop=stop)
        stop.set()
        assert running.result().interrupted


def test_chunks_are_reported_lost_when_the_scheduler_is_closed(
    nobody: Any, fresh: Fresh, monkeypatch: pytest.MonkeyPatch, soon: Callable[..., Any]
) -> None:
    monkeypatch.setattr(execute, "CONNECT_TIMEOUT", 0.5)
    store, plan = fresh("out")
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(run_chunks, store, plan, dask=nobody.scheduler_address)
        assert soon(lambda: nobody.scheduler.tasks)
        nobody.close()
        progress = running.result()
    assert len(progress.lost) == len(store.chunks())
    assert all(a.error.startswith("the connection to the cluster is lost: ") for a in progress.lost)


@pytest.mark.parametrize("address", ["tcp://127.0.0.1:1", "nonsense:", "smoke://signals"])
def test_an_address_without_a_scheduler_is_rejected(
    fresh: Fresh, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(execute, "CONNECT_TIMEOUT", 0.2)
    store, plan = fresh("out")
    with pytest.raises(InvalidParameter, match="the address of a running Dask scheduler"):
        run_chunks(store, plan, dask=address)


def test_without_dask_the_extra_is_named(fresh: Fresh, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> Any:
        raise ImportError(name)

    store, plan = fresh("out")
    monkeypatch.setattr(importlib, "import_module", missing)
    with pytest.raises(MissingExtra, match=r"pip install 'switchmdp\[dask\]'"):
        run_chunks(store, plan, dask="local")
