"""Getting chunks done: in threads, in processes, as one shard of many, or on a cluster.

An executor is a function from chunks to a stream of accounts. Machine code lets go of Python's
lock, so compiled agents run in threads; plain Python agents run in processes of their own. One that
dies costs its chunk, which is tried again; the others go on. What a chunk contains is the same
whoever computes it.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from switchmdp.errors import DamagedFile, InvalidParameter
from switchmdp.experiments.check import Plan
from switchmdp.experiments.layout import Chunk
from switchmdp.experiments.store import Store
from switchmdp.experiments.warm import warm_up
from switchmdp.experiments.worker import STOPPED, Account, program, work
from switchmdp.validation import check_integer

ATTEMPTS = 3
GRACE = 10.0  # seconds for running chunks to end once a stop is asked for
LEAVING = 2.0  # seconds for cancelled ones to end
EXECUTORS = ("auto", "threads", "processes")

Executor = Callable[[list[Chunk], threading.Event], Iterator[Account]]


@dataclass
class Tally:
    """How far an experiment has come."""

    runs: int  # in all, of this shard
    done: int = 0
    failed: int = 0
    lost: list[Account] = field(default_factory=list)  # chunks that could not be committed
    disk_full: bool = False
    interrupted: bool = False

    @property
    def complete(self) -> bool:
        """Whether there is nothing left to do."""
        return not self.lost and not self.interrupted and not self.disk_full


def cores() -> int:
    """The number of processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def run_chunks(
    store: Store, plan: Plan, *, jobs: int | None = None, executor: str = "auto",
    shard: tuple[int, int] = (1, 1), dask: str | None = None, stop: threading.Event | None = None,
    watch: Callable[[Tally], None] | None = None,
) -> Tally:  # fmt: skip
    """Do what is still to be done of this shard; `watch` is called whenever a chunk is."""
    stop = stop or threading.Event()
    jobs = cores() if jobs is None else check_integer("jobs", jobs, 1, 1024)
    last = check_integer("the number of shards", shard[1], 1)
    mine = store.chunks()[check_integer("shard", shard[0], 1, last) - 1 :: last]
    tally = Tally(sum(_runs(chunk) for chunk in mine))
    undone = []
    for chunk in mine:
        try:
            _, arrays = store.load(chunk)
        except (FileNotFoundError, DamagedFile):
            undone.append(chunk)
            continue
        tally.done += _runs(chunk)
        tally.failed += int(arrays["failed"].sum()) if _runs(chunk) else 0
    left = len(undone)
    if watch:
        watch(tally)
    if dask is None and executor != "processes" and undone:
        warm_up(store, plan, jobs)
    for use, chunks in _assigned(store, plan, undone, jobs, executor, dask):
        for account in use(chunks, stop):
            left -= 1
            tally.done += account.runs
            tally.failed += account.failed
            tally.disk_full |= account.disk_full
            if account.error:
                tally.lost.append(account)
            if account.disk_full:
                stop.set()
            if watch:
                watch(tally)
        if stop.is_set():
            break
    tally.interrupted = stop.is_set() and not tally.disk_full and left > 0
    if tally.complete and shard == (1, 1):
        store.tidy()
    return tally


def _runs(chunk: Chunk) -> int:
    return 0 if chunk.agent is None else len(chunk)


def _assigned(
    store: Store, plan: Plan, chunks: list[Chunk], jobs: int, executor: str, dask: str | None
) -> list[tuple[Executor, list[Chunk]]]:
    if dask is not None:
        from switchmdp.experiments.cluster import on_dask

        return [(on_dask(store, plan, dask, jobs), chunks)]
    if executor not in EXECUTORS:
        raise InvalidParameter("executor", executor, f"one of {', '.join(EXECUTORS)}")
    threads, processes = in_threads(store, plan, jobs), in_processes(store, plan, jobs)
    if executor != "auto":
        return [(threads if executor == "threads" else processes, chunks)]
    fast = [c for c in chunks if c.agent is None or plan.compiled[c.agent]]
    slow = [c for c in chunks if c.agent is not None and not plan.compiled[c.agent]]
    return [(use, some) for use, some in ((threads, fast), (processes, slow)) if some]


def in_threads(store: Store, plan: Plan, jobs: int) -> Executor:
    """Chunks computed here, in threads of this process."""

    class Hand:
        def __init__(self) -> None:
            self.cancelled = threading.Event()

        def __call__(self, chunk: Chunk) -> Account:
            return work(store, plan, chunk, self.cancelled)

        def close(self) -> None:
            self.cancelled.set()

    return lambda chunks, stop: _hands(Hand, chunks, jobs, stop)


def in_processes(store: Store, plan: Plan, jobs: int) -> Executor:
    """Chunks computed in processes of their own, each served by a thread of this one."""
    command = program(work.__module__, store.path, plan.trusted)
    return lambda chunks, stop: _hands(lambda: _Process(command), chunks, jobs, stop)


class _Process:
    """A worker process, replaced when it dies."""

    def __init__(self, command: list[str]) -> None:
        self.command = command
        self.process: subprocess.Popen[str] | None = None
        self.closed = False
        self.lock = threading.Lock()  # no worker is started once this is closed

    def __call__(self, chunk: Chunk) -> Account:
        how = STOPPED
        for _ in range(ATTEMPTS):
            process = self._running()
            if process is None:
                break
            assert process.stdin is not None
            assert process.stdout is not None
            try:
                process.stdin.write(f"{chunk.id}\n")
                process.stdin.flush()
                reply = process.stdout.readline()
            except (OSError, ValueError):
                reply = ""
            if reply.endswith("\n"):
                return Account(**json.loads(reply))
            how = f"its worker ended with code {process.wait()}"
        return Account(chunk.id, error=STOPPED if self.closed else how)

    def _running(self) -> subprocess.Popen[str] | None:
        with self.lock:
            if not self.closed and (self.process is None or self.process.poll() is not None):
                _end(self.process)
                self.process = subprocess.Popen(
                    self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
                )
            return None if self.closed else self.process

    def close(self) -> None:
        """End the worker, in the middle of its work if need be."""
        with self.lock:
            self.closed = True
            _end(self.process)


def _end(process: subprocess.Popen[str] | None) -> None:
    if process is not None:
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            with contextlib.suppress(OSError):  # what it was told last may never have left
                pipe.close()  # type: ignore[union-attr]  # both are pipes of ours


def _hands(
    make: Callable[[], Any], chunks: list[Chunk], jobs: int, stop: threading.Event
) -> Iterator[Account]:
    """Threads that take chunks in turn until none is left or a stop is asked for."""
    todo: queue.SimpleQueue[Chunk] = queue.SimpleQueue()
    for chunk in chunks:
        todo.put(chunk)
    accounts: queue.SimpleQueue[Account | BaseException | None] = queue.SimpleQueue()
    hands = [make() for _ in range(min(jobs, len(chunks)))]

    def take(hand: Callable[[Chunk], Account]) -> None:
        try:
            while not stop.is_set():
                accounts.put(hand(todo.get_nowait()))
        except queue.Empty:
            pass
        except BaseException as error:  # ours, not an agent's: it ends the whole run
            accounts.put(error)
        accounts.put(None)

    threads = [threading.Thread(target=take, args=(hand,), daemon=True) for hand in hands]
    for thread in threads:
        thread.start()
    working, waited = len(hands), 0.0
    try:
        while working and waited < GRACE:
            try:
                account = accounts.get(timeout=0.1)
            except queue.Empty:
                waited += 0.1 if stop.is_set() else 0.0
                continue
            if account is None:
                working -= 1
            elif isinstance(account, BaseException):
                raise account
            elif not (stop.is_set() and account.error == STOPPED):
                yield account
    finally:
        stopping = stop.is_set() or working
        if stopping:
            stop.set()
        for hand in hands:
            hand.close()
        patience = time.monotonic() + LEAVING
        for thread in threads:  # one that still runs when Python ends may crash it
            thread.join(max(0.0, patience - time.monotonic()))
