"""Killed workers and coordinators lose at most their chunk, and leave no process behind."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from switchmdp.experiments import execute
from switchmdp.experiments.execute import Progress, run_chunks
from switchmdp.experiments.plan import Plan
from switchmdp.experiments.store import Store, open_store

Small = Callable[..., dict[str, Any]]
Prepare = Callable[..., tuple[Store, Plan]]
Tree = Callable[[Path], str]
Fresh = Callable[[str], tuple[Store, Plan]]
Slow = Callable[[], Any]

COORDINATOR = """
import sys
from switchmdp.experiments.execute import run_chunks
from switchmdp.experiments.store import open_store
store = open_store(sys.argv[1])
run_chunks(store, store.plan(trust=True), jobs=2, executor="processes")
"""


def test_a_killed_worker_affects_only_its_chunk(
    fresh: Fresh, whole: str, tree: Tree, slow: Slow, alive: Callable[[int], bool]
) -> None:
    store, plan = fresh("out")
    toy = slow()
    with ThreadPoolExecutor(1) as pool:
        progress = pool.submit(run_chunks, store, plan, jobs=2, executor="processes")
        toy.kill_workers(2)
        assert progress.result().complete
    assert len(toy.pids()) > 2
    assert tree(store.path) == whole
    assert not any(map(alive, toy.pids()))


def test_a_chunk_whose_worker_always_dies_is_lost_and_the_others_are_done(
    small: Small, prepare: Prepare, toys: Path, tmp_path: Path, alive: Callable[[int], bool]
) -> None:
    (toys / "pids").mkdir()
    agents = {
        "D": {"agent": "toys:Deadly"}, "R": {"agent": "random"}, "T": {"agent": "toys:Toy"},
    }  # fmt: skip
    problems = {"P": {"problem": "toys:two_states"}}
    store, plan = prepare(
        small(agents=agents, problems=problems, n_problems=1), tmp_path / "out", toys
    )
    progress = run_chunks(store, plan, jobs=1)
    assert [(a.chunk, a.error) for a in progress.lost] == [
        ("s000-a000-b00000", "its worker ended with code -9")
    ]
    assert not progress.complete
    assert not progress.interrupted
    assert (progress.done, progress.runs) == (2, 3)
    assert [c.agent for c in store.chunks() if not store.is_done(c)] == [0]
    pids = [int(file.name) for file in (toys / "pids").iterdir()]
    assert len(pids) == 3 + 1  # three attempts, and one worker for the others
    assert not any(map(alive, pids))
    assert open_store(store.path).plan(trust=True).modules == plan.modules


def test_stopping_ends_workers_during_a_chunk(
    fresh: Fresh, whole: str, tree: Tree, slow: Slow, alive: Callable[[int], bool],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr(execute, "GRACE", 0.2)
    store, plan = fresh("out")
    toy, stop = slow(), threading.Event()
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(run_chunks, store, plan, jobs=2, executor="processes", stop=stop)
        toy.workers(2)
        stop.set()
        progress = running.result()
    assert progress.interrupted
    assert not progress.lost
    assert not any(map(alive, toy.pids()))
    toy.no_more()
    assert run_chunks(store, plan, jobs=2, executor="threads").complete
    assert tree(store.path) == whole


def test_no_worker_outlives_an_error_of_the_watcher(
    fresh: Fresh, slow: Slow, alive: Callable[[int], bool]
) -> None:
    store, plan = fresh("out")
    toy = slow()

    def watch(progress: Progress) -> None:
        if progress.done:
            toy.workers(1)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        run_chunks(store, plan, jobs=2, executor="processes", watch=watch)
    assert toy.pids()
    assert not any(map(alive, toy.pids()))


def test_no_worker_outlives_a_killed_coordinator(
    fresh: Fresh, whole: str, tree: Tree, slow: Slow, alive: Callable[[int], bool],
    elsewhere: Callable[..., Any], soon: Callable[..., Any],
) -> None:  # fmt: skip
    store, plan = fresh("out")
    toy = slow()
    coordinator = elsewhere(COORDINATOR, store.path)
    workers = toy.workers(2)
    coordinator.kill()
    coordinator.wait()
    assert soon(lambda: not any(map(alive, workers)))
    toy.no_more()
    assert run_chunks(store, plan, jobs=1, executor="threads").complete
    assert tree(store.path) == whole
