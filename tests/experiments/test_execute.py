"""All executors give the same results, and a failure affects only its own chunk."""

from __future__ import annotations

import errno
import subprocess
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from switchmdp.errors import ForeignFolder, InvalidExperiment, InvalidParameter
from switchmdp.experiments import execute
from switchmdp.experiments.chunks import work_on
from switchmdp.experiments.execute import run_chunks, worker_command
from switchmdp.experiments.names import search_path
from switchmdp.experiments.plan import Plan, problem_seed
from switchmdp.experiments.store import Store, load_results, open_store
from switchmdp.storage import save_arrays

Small = Callable[..., dict[str, Any]]
Prepare = Callable[..., tuple[Store, Plan]]
Tree = Callable[[Path], str]


Fresh = Callable[[str], tuple[Store, Plan]]


@pytest.mark.parametrize(
    "how",
    [
        {"executor": "threads", "jobs": 2},
        {"executor": "threads", "jobs": 7},
        {"executor": "processes", "jobs": 3},
        {"executor": "auto", "jobs": 2},
    ],
    ids=lambda how: f"{how['executor']}-{how['jobs']}",
)
def test_nothing_depends_on_the_executor_or_the_number_of_jobs(
    fresh: Fresh, whole: str, tree: Tree, how: dict[str, Any]
) -> None:
    store, plan = fresh("out")
    progress = run_chunks(store, plan, **how)
    assert (progress.complete, progress.done) == (True, 18)
    assert tree(store.path) == whole


def test_shards_run_separately_give_the_same_bytes(fresh: Fresh, whole: str, tree: Tree) -> None:
    store, _ = fresh("out")
    runs = 0
    for i in (3, 1, 2):
        one = open_store(store.path)
        progress = run_chunks(one, one.plan(trust=True), jobs=1, executor="threads", shard=(i, 3))
        assert progress.complete
        assert progress.done == progress.runs
        runs += progress.runs
    assert runs == 18
    assert tree(store.path) == whole


@pytest.mark.parametrize(("jobs", "expected"), [(2, "threads"), (5, "processes")])
def test_long_experiments_with_many_workers_run_in_processes(
    fresh: Fresh, monkeypatch: pytest.MonkeyPatch, jobs: int, expected: str
) -> None:
    store, plan = fresh("out")
    chunks = [
        chunk for chunk in store.chunks() if chunk.agent is None or plan.compiled[chunk.agent]
    ]
    used: list[str] = []

    def use(make_worker: Any, *arguments: Any) -> Any:
        used.append("threads" if make_worker.func is execute._ThreadWorker else "processes")
        return iter(())

    monkeypatch.setattr(execute, "_run_workers", use)
    for many, workers in ((chunks, "threads"), (chunks * 100, expected)):
        used.clear()
        for run, part in execute._assign(store, plan, many, jobs, "auto", None):
            list(run(part, threading.Event()))
        assert used == [workers]


def test_finished_chunks_are_not_computed_again(fresh: Fresh, whole: str, tree: Tree) -> None:
    store, plan = fresh("out")
    run_chunks(store, plan, jobs=1, executor="threads", shard=(1, 2))
    before = {file: file.stat().st_mtime_ns for file in (store.path / "runs").iterdir()}
    assert run_chunks(store, plan, jobs=1, executor="threads").complete
    assert all(file.stat().st_mtime_ns == when for file, when in before.items())
    assert tree(store.path) == whole


def test_a_damaged_chunk_is_computed_again(fresh: Fresh, whole: str, tree: Tree) -> None:
    store, plan = fresh("out")
    run_chunks(store, plan, jobs=2, executor="threads")
    for chunk in store.chunks()[::3]:
        store.chunk_path(chunk).write_bytes(b"damage")
    assert run_chunks(store, plan, jobs=2, executor="threads").complete
    assert tree(store.path) == whole


def test_progress_starts_with_what_is_done_and_ends_with_everything(fresh: Fresh) -> None:
    store, plan = fresh("out")
    run_chunks(store, plan, jobs=1, executor="threads", shard=(1, 2))
    seen: list[int] = []
    run_chunks(store, plan, jobs=2, executor="threads", watch=lambda now: seen.append(now.done))
    assert 0 < seen[0] < seen[-1] == 18
    assert seen == sorted(seen)


@pytest.mark.parametrize(
    "how",
    [
        {"jobs": 0}, {"jobs": 2.0}, {"jobs": 10**6}, {"executor": "magic"}, {"shard": (0, 2)},
        {"shard": (3, 2)}, {"shard": (1, 0)}, {"shard": (1.0, 2)},
    ],
    ids=str,
)  # fmt: skip
def test_invalid_options_are_rejected(fresh: Fresh, how: dict[str, Any]) -> None:
    store, plan = fresh("out")
    with pytest.raises(InvalidParameter):
        run_chunks(store, plan, **how)


def test_failed_runs_are_counted_when_run_and_when_resumed(
    small: Small, prepare: Prepare, toys: Path, tmp_path: Path
) -> None:
    agents = {
        "X": {"agent": "toys:Picky", "parameters": {"where": "act"}},
        "R": {"agent": "random"},
    }
    store, plan = prepare(small(agents=agents), tmp_path / "out", toys)
    progress = run_chunks(store, plan, jobs=2, executor="threads")
    assert (progress.complete, progress.done, progress.runs) == (True, 16, 16)
    failures = load_results(store).failures
    assert 0 < progress.failed == len(failures) < 8
    for file in (store.path / "failures").iterdir():
        file.unlink()
    assert run_chunks(store, plan, jobs=2).failed == progress.failed


def test_a_failing_problem_counts_its_runs_only(
    small: Small, prepare: Prepare, toys: Path, tmp_path: Path
) -> None:
    odd = [[problem_seed(seed, i) % 2 for i in range(4)] for seed in range(100)]
    data = small(problems={"P": {"problem": "toys:sometimes"}}, seed=odd.index([0, 1, 0, 1]))
    store, plan = prepare(data, tmp_path / "out", toys)
    progress = run_chunks(store, plan, jobs=1, executor="threads")
    failed = {(f["agent"], f["problem"]) for f in load_results(store).failures}
    assert failed == {(agent, i) for agent in ("", "R", "U") for i in (1, 3)}
    assert (progress.failed, progress.runs) == (4, 8)


def test_input_and_output_of_agents_do_not_reach_the_coordinator(
    small: Small, prepare: Prepare, toys: Path, tmp_path: Path
) -> None:
    data = small(agents={"C": {"agent": "toys:Chatty"}}, n_problems=1)
    store, plan = prepare(data, tmp_path / "out", toys)
    progress = run_chunks(store, plan, jobs=1, executor="processes")
    assert (progress.complete, progress.failed) == (True, 0)


def test_a_stop_keeps_what_is_done_and_resuming_gives_the_same_bytes(
    fresh: Fresh, whole: str, tree: Tree, stop_after: Callable[[int], dict[str, Any]]
) -> None:
    store, plan = fresh("out")
    progress = run_chunks(store, plan, jobs=2, executor="threads", **stop_after(5))
    assert progress.interrupted
    assert not progress.complete
    assert 5 <= progress.done < 18
    done = [chunk for chunk in store.chunks() if store.is_done(chunk)]
    assert sum(len(chunk) for chunk in done if chunk.agent is not None) == progress.done
    progress = run_chunks(store, plan, jobs=2, executor="threads")
    assert progress.complete
    assert tree(store.path) == whole


def test_a_stop_is_an_interruption_even_if_only_facts_are_missing(fresh: Fresh) -> None:
    store, plan = fresh("out")
    run_chunks(store, plan, jobs=1, executor="threads")
    facts = next(chunk for chunk in store.chunks() if chunk.agent is None)
    store.chunk_path(facts).unlink()
    stop = threading.Event()
    stop.set()
    progress = run_chunks(store, plan, jobs=1, executor="threads", stop=stop)
    assert (progress.interrupted, progress.complete) == (True, False)
    assert run_chunks(store, plan, jobs=1, executor="threads").complete
    assert not run_chunks(store, plan, jobs=1, executor="threads", stop=stop).interrupted


def test_a_full_disk_stops_the_run_which_can_be_resumed(
    fresh: Fresh, whole: str, tree: Tree, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, plan = fresh("out")
    room = iter(range(7))

    def save(*arguments: Any) -> None:
        if next(room, None) is None:
            raise OSError(errno.ENOSPC, "No space left on device")
        save_arrays(*arguments)

    monkeypatch.setattr("switchmdp.experiments.store.save_arrays", save)
    progress = run_chunks(store, plan, jobs=1, executor="threads")
    assert (progress.disk_full, progress.interrupted, progress.complete) == (True, False, False)
    full = "OSError: [Errno 28] No space left on device"
    assert {account.error for account in progress.lost} == {full}
    assert len(list((store.path / "runs").iterdir())) == 7
    monkeypatch.setattr("switchmdp.experiments.store.save_arrays", save_arrays)
    assert run_chunks(store, plan, jobs=1, executor="threads").complete
    assert tree(store.path) == whole


def test_a_worker_rejects_chunks_and_folders_that_do_not_exist(
    fresh: Fresh, tmp_path: Path
) -> None:
    store, _ = fresh("out")
    with pytest.raises(ForeignFolder, match="has no chunk nonsense"):
        work_on(str(store.path), "nonsense", trust=True)
    with pytest.raises(FileNotFoundError):
        work_on(str(tmp_path / "nowhere"), "s000-facts-b00000", trust=True)


def test_a_worker_notices_that_the_users_code_changed(fresh: Fresh, toys: Path) -> None:
    store, plan = fresh("out")
    with (toys / "toys.py").open("a") as file:
        file.write("# edited\n")
    progress = run_chunks(store, plan, jobs=1, executor="processes")
    assert len(progress.lost) == len(store.chunks())
    assert all("ForeignFolder: " in account.error for account in progress.lost)
    assert not any(map(store.is_done, store.chunks()))


def test_workers_trust_the_users_modules_only_if_the_coordinator_does(
    fresh: Fresh, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SWITCHMDP_TRUST", "1")  # what a worker is told counts, not where it runs
    store, plan = fresh("out")
    chunk = store.chunks()[0].id
    assert work_on(str(store.path), chunk, trust=True).error == ""
    with pytest.raises(InvalidExperiment, match=r"registered agent; .*--trust"):
        work_on(str(store.path), chunk, trust=False)
    doubtful = replace(plan, trusted=False)
    progress = run_chunks(store, doubtful, jobs=1, executor="processes")
    assert len(progress.lost) == len(store.chunks()) - 1
    assert all("--trust" in account.error for account in progress.lost)
    assert run_chunks(store, plan, jobs=1, executor="processes").complete


def test_a_worker_does_not_search_the_folder_in_which_it_starts(tmp_path: Path) -> None:
    """It may be an untrusted folder of results with a module named like one of ours."""
    for name in ("numpy", "json", "switchmdp"):
        (tmp_path / f"{name}.py").write_text("open('imported', 'w')\n")
    command = worker_command(tmp_path, False)
    assert "" not in search_path()
    done = subprocess.run(command, cwd=tmp_path, stdin=subprocess.DEVNULL, check=False)
    assert done.returncode == 0
    assert not (tmp_path / "imported").exists()
