"""Execute chunks: in threads, in processes, as one shard of many, or on a Dask cluster.

An executor is a function from chunks to a stream of reports. Machine code releases Python's lock,
so compiled agents run in threads; plain Python agents run in worker processes. If a worker process
dies, only its chunk is affected, and is tried again. The content of a chunk is the same with every
executor.

More than a few threads wait for Python's lock between runs. On 16 cores a run of Figure 1 takes
1.85 ms with 1 thread; 4, 8 and 16 threads are 2.5, 3.8 and 5.2 times as fast. So long experiments
with many workers run in processes, which take a second or more to start. (Since this measurement,
threads leave machine code a tenth as often.)

Why not `concurrent.futures`? Measured with Python 3.11, "spawn" context:
- SIGKILL of one of 4 workers of a ProcessPoolExecutor: all 12 of 12 submitted futures fail. The
  same happens with loky 3.7. Here one chunk is repeated.
- SIGKILL of the coordinator: idle workers still exist 10 minutes later. Here they exit at once.
- A script without `if __name__ == "__main__"` ends with BrokenProcessPool, because each worker
  runs the script again.

Threads are plain daemon threads. Python's documentation says that it joins those of a
ThreadPoolExecutor at exit, so a chunk that is slow to cancel would delay the second Ctrl-C.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from switchmdp.concurrency import set_flags
from switchmdp.display import counted
from switchmdp.errors import InvalidParameter, MissingExtra
from switchmdp.experiments import chunks as worker
from switchmdp.experiments.chunks import STOPPED, ChunkReport
from switchmdp.experiments.names import search_path
from switchmdp.experiments.plan import SECONDS_PER_CHUNK, Plan
from switchmdp.experiments.results import Chunk
from switchmdp.experiments.store import VALID, AnyStore, Store, inspect_chunk
from switchmdp.validation import check_integer

ATTEMPTS = 3
MOST_THREADS = 4  # more threads would wait for each other
WORTH_PROCESSES = 40.0  # seconds of work for which many processes are started
GRACE = 10.0  # seconds for running chunks to end after a request to stop
CANCEL = 2.0  # seconds for cancelled chunks to end
EXECUTORS = ("auto", "threads", "processes")
LOCAL = "local"
AHEAD = 4  # chunks submitted for each thread of a cluster
CONNECT_TIMEOUT = 30.0  # seconds for a scheduler to answer
ANY_PORT = "127.0.0.1:0"  # of the dashboard; even without one, Dask would warn if 8787 is taken

Executor = Callable[[list[Chunk], threading.Event], Iterator[ChunkReport]]


@dataclass
class Progress:
    """How much of an experiment is done.

    Parameters
    ----------
    runs
        The total number of runs of this shard.
    done
        How many of them are done.
    before
        How many were done before this call.
    failed
        How many failed.
    lost
        The chunks that could not be computed or stored.
    disk_full
        Whether the disk is full.
    interrupted
        Whether the execution was stopped.
    left
        The number of runs that are left, by setting and agent.
    measured
        The number of measured runs and their seconds, by setting and agent.
    """

    runs: int  # the total, of this shard
    done: int = 0
    before: int = 0  # the runs that were done before
    failed: int = 0
    lost: list[ChunkReport] = field(default_factory=list)  # chunks that could not be committed
    disk_full: bool = False
    interrupted: bool = False
    left: dict[Hashable, int] = field(default_factory=dict)  # runs by (setting, agent)
    measured: dict[Hashable, tuple[int, float]] = field(default_factory=dict)  # (runs, seconds)

    def __repr__(self) -> str:
        runs = f"{self.done} of {self.runs} runs done, {self.failed} failed"
        return f"Progress({runs}, {counted(len(self.lost), 'chunk')} lost)"

    def add(self, report: ChunkReport, key: Hashable) -> None:
        """Add the report of a chunk.

        Parameters
        ----------
        report
            The report.
        key
            The setting and agent of the chunk.
        """
        self.done += report.runs
        self.failed += report.failed
        self.disk_full |= report.disk_full
        if report.error:
            self.lost.append(report)
        if report.runs:
            runs, seconds = self.measured.get(key, (0, 0.0))
            self.measured[key] = runs + report.runs, seconds + report.seconds
            self.left[key] -= report.runs

    @property
    def complete(self) -> bool:
        """Whether there is nothing left to do."""
        return not self.lost and not self.interrupted and not self.disk_full

    @property
    def work_done(self) -> float:
        """The seconds of the measured runs, added up over all workers."""
        return sum(seconds for _, seconds in self.measured.values())

    @property
    def work_left(self) -> float:
        """An estimate of the seconds that the other runs will take, added up over all workers.

        Agents differ in speed, so each is estimated from its own runs; one without any from the
        mean of all.

        Examples
        --------
        >>> Progress(
        ...     runs=30, done=20, left={"fast": 5, "slow": 5},
        ...     measured={"fast": (10, 1.0), "slow": (10, 100.0)},
        ... ).work_left
        50.5
        """
        runs = sum(n for n, _ in self.measured.values())
        mean = self.work_done / runs if runs else 0.0
        known = {key: seconds / n for key, (n, seconds) in self.measured.items() if n}
        others = self.runs - self.done - sum(self.left.values())
        return others * mean + sum(n * known.get(key, mean) for key, n in self.left.items())


def cores() -> int:
    """The number of processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def run_chunks(
    store: AnyStore, plan: Plan, *, jobs: int | None = None, executor: str = "auto",
    shard: tuple[int, int] = (1, 1), dask: str | None = None, stop: threading.Event | None = None,
    watch: Callable[[Progress], None] = lambda progress: None, progress: Progress | None = None,
) -> Progress:  # fmt: skip
    """Execute the chunks of this shard that are not done yet.

    Parameters
    ----------
    store
        The folder, or memory, of the results.
    plan
        The plan of the runs.
    jobs
        The number of workers; by default one per available processor.
    executor
        `"threads"`, `"processes"` or `"auto"`. Results in memory need threads.
    shard
        (i, n) computes the i-th of n parts.
    dask
        The address of a Dask scheduler, which then distributes the chunks.
    stop
        An event that stops the execution once it is set.
    watch
        A function that is called with the progress, before the first chunk and after each one.
    progress
        The progress of several experiments, to which this one is added.

    Returns
    -------
    Progress
        The progress in the end.

    Raises
    ------
    InvalidParameter
        If `jobs`, `executor` or `shard` is invalid.

    Examples
    --------
    >>> from switchmdp.experiments import AgentSpec, Experiment, MemoryStore, ProblemSpec, check
    >>> plan = check(Experiment(
    ...     horizon=100, n_problems=2, agents={"Random": AgentSpec(agent="random")},
    ...     problems={"P": ProblemSpec(problem="random-switching")},
    ... ))
    >>> run_chunks(MemoryStore(plan), plan, jobs=1).done
    2
    """
    stop = stop or threading.Event()
    jobs = cores() if jobs is None else check_integer("jobs", jobs, 1, 1024)
    n_shards = check_integer("the number of shards", shard[1], 1)
    first = check_integer("shard", shard[0], 1, n_shards) - 1
    chunks = store.chunks()[first::n_shards]
    if progress is None:
        progress = Progress(sum(chunk.n_runs for chunk in chunks))
    todo = _not_done(store, chunks, progress)
    left = len(todo)
    if dask is None and executor != "processes" and todo:
        compile_agents(store, plan, jobs, stop)
    watch(progress)
    keys = {chunk.id: _pairing(store, chunk) for chunk in todo}
    for execute, some in _assign(store, plan, todo, jobs, executor, dask):
        for report in execute(some, stop):
            left -= 1
            progress.add(report, keys[report.chunk])
            if report.disk_full:
                stop.set()
            watch(progress)
        if stop.is_set():
            break
    progress.interrupted = stop.is_set() and not progress.disk_full and left > 0
    if progress.complete and shard == (1, 1):
        store.tidy()
    return progress


def _pairing(store: AnyStore, chunk: Chunk) -> Hashable:
    return store.experiment.title, chunk.setting, chunk.agent


def _not_done(store: AnyStore, chunks: list[Chunk], progress: Progress) -> list[Chunk]:
    """The chunks that are not done; adds to `progress` what is done, and what is left."""
    todo = []
    for chunk in chunks:
        state, failed = inspect_chunk(store, chunk)
        if state == VALID:
            progress.done += chunk.n_runs
            progress.before += chunk.n_runs
            progress.failed += failed if chunk.n_runs else 0
        else:
            todo.append(chunk)
            key = _pairing(store, chunk)
            progress.left[key] = progress.left.get(key, 0) + chunk.n_runs
    return todo


def _assign(
    store: AnyStore, plan: Plan, chunks: list[Chunk], jobs: int, executor: str, dask: str | None
) -> list[tuple[Executor, list[Chunk]]]:
    """The executors, with their chunks."""
    if executor not in EXECUTORS:
        raise InvalidParameter("executor", executor, f"one of {', '.join(EXECUTORS)}")
    threads = partial(_run_workers, partial(_ThreadWorker, store, plan), jobs)
    if not isinstance(store, Store):
        return [(threads, chunks)]
    if dask is not None:
        return [(on_dask(store, plan, dask, jobs), chunks)]
    processes = partial(_run_workers, partial(_ProcessWorker, store.path, plan.trusted), jobs)
    if executor != "auto":
        return [(threads if executor == "threads" else processes, chunks)]
    fast = [c for c in chunks if c.agent is None or plan.compiled[c.agent]]
    long = len(fast) * SECONDS_PER_CHUNK > WORTH_PROCESSES
    if jobs > MOST_THREADS and long:
        return [(processes, chunks)]
    slow = [c for c in chunks if c.agent is not None and not plan.compiled[c.agent]]
    return [(execute, some) for execute, some in ((threads, fast), (processes, slow)) if some]


def compile_agents(store: AnyStore, plan: Plan, jobs: int, stop: threading.Event) -> None:
    """Compile every agent whose machine code is not on disk yet, in up to `jobs` processes."""
    new = worker.agents_to_compile(plan)
    helpers = []
    if isinstance(store, Store):
        n = min(jobs, len(new)) - 1
        helpers = [_ProcessWorker(store.path, plan.trusted) for _ in range(n)]
    if helpers:
        count = f"{len(new)} agents in {len(helpers) + 1} processes"
        print(f"switchmdp: compiling {count}, once ...", file=sys.stderr)
    todo: queue.SimpleQueue[int] = queue.SimpleQueue()
    for a in [*new, worker.FACTS] if helpers else new:
        todo.put(a)

    def compile_all(compile_one: Callable[[int], Any]) -> None:
        with contextlib.suppress(queue.Empty, OSError):  # OSError: a process can't be started
            while not stop.is_set():
                compile_one(todo.get_nowait())

    def by(helper: _ProcessWorker) -> Callable[[int], Any]:
        return lambda a: helper(f"{worker.COMPILE}{a}")

    threads = [threading.Thread(target=compile_all, args=(by(helper),)) for helper in helpers]
    try:
        for thread in threads:
            thread.start()
        compile_all(partial(worker.compile_agent, plan))
        while any(thread.is_alive() for thread in threads) and not stop.is_set():
            time.sleep(0.01)
        for a in new if threads and not stop.is_set() else ():
            worker.compile_agent(plan, a)  # load what the others have compiled
    finally:
        for helper in helpers:
            helper.close()
        for thread in threads:
            thread.join()


def worker_command(folder: Path, trust: bool) -> list[str]:
    """The command that starts a worker process.

    Python would put the current folder first on the search path. That may be a folder of results
    from an untrusted source, so the new process gets exactly the search path of this one.
    """
    main = f"from {worker.__name__} import main; main()"
    code = f"import sys; sys.path[:] = {search_path()!r}; {main}"
    return [sys.executable, "-c", code, str(folder), worker.TRUSTED if trust else ""]


class _ThreadWorker:
    """Computes chunks in the calling thread."""

    def __init__(self, store: AnyStore, plan: Plan) -> None:
        self.store, self.plan = store, plan
        self.cancelled = threading.Event()

    def __call__(self, chunk: Chunk) -> ChunkReport:
        return worker.work(self.store, self.plan, chunk, self.cancelled)

    def close(self) -> None:
        """Cancel the current chunk."""
        self.cancelled.set()
        set_flags()


class _ProcessWorker:
    """Lets a process compute chunks, or compile; it is replaced when it dies."""

    def __init__(self, folder: Path, trust: bool) -> None:
        self.command = worker_command(folder, trust)
        self.process: subprocess.Popen[str] | None = None
        self.closed = False
        self.lock = threading.Lock()  # so that no process is started after `close`

    def __call__(self, request: Chunk | str) -> ChunkReport:
        name = request if isinstance(request, str) else request.id
        error = STOPPED
        for _ in range(ATTEMPTS):
            process = self._running()
            if process is None:
                break
            assert process.stdin is not None
            assert process.stdout is not None
            try:
                process.stdin.write(f"{name}\n")
                process.stdin.flush()
                reply = process.stdout.readline()
            except (OSError, ValueError):
                reply = ""
            if reply.endswith("\n"):
                return ChunkReport(**json.loads(reply))
            error = f"its worker ended with code {process.wait()}"
        return ChunkReport(name, error=STOPPED if self.closed else error)

    def _running(self) -> subprocess.Popen[str] | None:
        with self.lock:
            if not self.closed and (self.process is None or self.process.poll() is not None):
                _kill(self.process)
                self.process = subprocess.Popen(
                    self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
                )
            return None if self.closed else self.process

    def close(self) -> None:
        """Kill the process, even during a chunk."""
        with self.lock:
            self.closed = True
            _kill(self.process)


def _kill(process: subprocess.Popen[str] | None) -> None:
    if process is not None:
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            with contextlib.suppress(OSError):  # the last request may still be in the buffer
                pipe.close()  # type: ignore[union-attr]  # both are pipes


def _run_workers(
    make_worker: Callable[[], Any], jobs: int, chunks: list[Chunk], stop: threading.Event
) -> Iterator[ChunkReport]:
    """Let `jobs` workers compute chunks until none is left or `stop` is set."""
    todo: queue.SimpleQueue[Chunk] = queue.SimpleQueue()
    for chunk in chunks:
        todo.put(chunk)
    reports: queue.SimpleQueue[ChunkReport | BaseException | None] = queue.SimpleQueue()
    workers = [make_worker() for _ in range(min(jobs, len(chunks)))]

    def serve(worker: Callable[[Chunk], ChunkReport]) -> None:
        try:
            while not stop.is_set():
                reports.put(worker(todo.get_nowait()))
        except queue.Empty:
            pass
        except BaseException as error:  # an error of ours, not of an agent: it ends the execution
            reports.put(error)
        reports.put(None)

    threads = [threading.Thread(target=serve, args=(worker,), daemon=True) for worker in workers]
    for thread in threads:
        thread.start()
    active, waited = len(workers), 0.0
    try:
        while active and waited < GRACE:
            try:
                report = reports.get(timeout=0.1)
            except queue.Empty:
                waited += 0.1 if stop.is_set() else 0.0
                continue
            if report is None:
                active -= 1
            elif isinstance(report, BaseException):
                raise report
            elif not (stop.is_set() and report.error == STOPPED):
                yield report
    finally:
        if active:
            stop.set()
        for worker in workers:
            worker.close()
        deadline = time.monotonic() + CANCEL
        for thread in threads:  # a thread that runs while Python exits may crash it
            thread.join(max(0.0, deadline - time.monotonic()))


# A Dask cluster (extra `dask`); only this part uses `distributed`.


def on_dask(store: Store, plan: Plan, address: str, jobs: int) -> Executor:
    """Compute chunks on the cluster with this scheduler address, or on a new `local` one.

    The workers must see the results folder under the same path (a shared file system) and have the
    same version of this package. If a worker is killed, other workers compute its chunks.
    """
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
                running[client.submit(worker.work_on, folder, chunk, trust, pure=False)] = chunk
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
