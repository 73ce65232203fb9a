"""Compute a chunk and commit it: the same function in a thread, a process or a cluster.

A worker gets the folder's path, a chunk's id and whether the folder is trusted. It returns a short
report; the results go straight to disk. Run as a program (`main`), this module serves a
coordinator: it reads chunk ids from standard input and writes reports as lines of JSON. When the
input ends, the coordinator has ended, and the worker exits immediately, even during a chunk.

`compile_agents` makes the machine code of agents before runs are timed. Machine code is kept on
disk; if several classes of agents are not there yet, further processes help to compile them.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from switchmdp.compiled import is_compiled, is_on_disk
from switchmdp.errors import ForeignFolder
from switchmdp.experiments.chunks import compute, problem_of
from switchmdp.experiments.layout import Chunk
from switchmdp.experiments.plan import Plan, make_agent
from switchmdp.experiments.store import AnyStore, Store, open_store
from switchmdp.experiments.user_modules import search_path
from switchmdp.simulation import loop, simulate
from switchmdp.simulation.bad_steps import count_bad_steps

STOPPED = "stopped"
TRUSTED = "trusted"
FACTS = -1  # takes the place of an agent's index: the facts about problems, which are compiled too
DISK_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


@dataclass(frozen=True)
class ChunkReport:
    """What became of a chunk."""

    chunk: str
    runs: int = 0
    failed: int = 0
    seconds: float = 0.0  # that its runs took
    error: str = ""  # why it could not be committed
    disk_full: bool = False


def work(
    store: AnyStore, plan: Plan, chunk: Chunk, cancelled: threading.Event | None = None
) -> ChunkReport:
    """Compute a chunk and commit it, unless it is cancelled before."""
    try:
        outcome = compute(plan, chunk, cancelled)
        store.commit(chunk, outcome)
    except KeyboardInterrupt:
        return ChunkReport(chunk.id, error=STOPPED)
    except (OSError, MemoryError) as error:
        full = isinstance(error, OSError) and error.errno in DISK_FULL
        return ChunkReport(chunk.id, error=f"{type(error).__name__}: {error}", disk_full=full)
    if chunk.agent is None:
        return ChunkReport(chunk.id)
    return ChunkReport(chunk.id, len(chunk), len(outcome.failures), sum(outcome.seconds))


_opened: dict[tuple[str, bool], tuple[bytes, Store, Plan, dict[str, Chunk]]] = {}
_lock = threading.Lock()


def work_on(folder: str, chunk_id: str, trust: bool) -> ChunkReport:
    """The same for a worker that has only the folder's path, and whether it is trusted."""
    key = (folder, trust)
    with _lock:
        manifest = (Path(folder) / "experiment.json").read_bytes()
        if key not in _opened or _opened[key][0] != manifest:
            store = open_store(folder)
            by_id = {chunk.id: chunk for chunk in store.chunks()}
            _opened[key] = (manifest, store, store.plan(trust=trust), by_id)
        _, store, plan, chunks = _opened[key]
    if chunk_id not in chunks:
        raise ForeignFolder(f"{folder} has no chunk {chunk_id}")
    return work(store, plan, chunks[chunk_id])


def program(main: str, folder: Path, trust: bool, *arguments: str) -> list[str]:
    """The command that runs a function of this module in another process.

    Python would put the current folder first on the search path. That may be a folder of results
    from an untrusted source, so the new process gets exactly the search path of this one.
    """
    code = f"import sys; sys.path[:] = {search_path()!r}; from {__name__} import {main}; {main}()"
    return [sys.executable, "-c", code, str(folder), TRUSTED if trust else "", *arguments]


def main() -> None:
    """Serve a coordinator until it ends; sys.argv holds the folder and whether it is trusted."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the coordinator decides when to stop
    replies = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what an agent prints must not be read as a reply
    folder, trust = sys.argv[1], sys.argv[2] == TRUSTED
    requests: queue.Queue[str] = queue.Queue()
    threading.Thread(target=_exit_with_coordinator, args=(requests.put,), daemon=True).start()
    while True:
        chunk = requests.get()
        try:
            report = work_on(folder, chunk, trust)
        except Exception as error:  # reported to the coordinator
            report = ChunkReport(chunk, error=f"{type(error).__name__}: {error}")
        replies.write(json.dumps(asdict(report)) + "\n")
        replies.flush()


def _exit_with_coordinator(receive: Callable[[str], None] = lambda line: None) -> None:
    """Pass on each line of the input; exit when it ends."""
    lines = os.fdopen(os.dup(0))
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)  # an agent must not read our input
    for line in lines:
        receive(line.strip())
    os._exit(0)


def compile_agents(store: AnyStore, plan: Plan, jobs: int) -> None:
    """Compile every agent whose machine code is not on disk yet, in up to `jobs` processes."""
    new: dict[type, int] = {}
    for a in range(len(plan.agents)):
        agent = _first_agent(plan, a)
        if agent is not None and is_compiled(agent) and not is_on_disk(loop.run, agent):
            new.setdefault(type(agent), a)
    if not new:
        return
    todo: queue.SimpleQueue[int] = queue.SimpleQueue()
    for a in new.values():
        todo.put(a)
    helpers: list[subprocess.Popen[str]] = []
    if isinstance(store, Store):
        command = program(compile_main.__name__, store.path, plan.trusted)
        for _ in range(min(jobs, len(new)) - 1):
            with contextlib.suppress(OSError):  # then there are fewer
                helpers.append(
                    subprocess.Popen(
                        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
                    )
                )
    if helpers:
        todo.put(FACTS)
        count = f"{len(new)} agents in {len(helpers) + 1} processes"
        print(f"switchmdp: compiling {count}, once ...", file=sys.stderr)
    threads = [threading.Thread(target=_feed, args=(todo, helper)) for helper in helpers]
    try:
        for thread in threads:
            thread.start()
        for a in _taken(todo):
            compile_these(plan, [a])
        for thread in threads:
            thread.join()
        compile_these(plan, list(new.values()))  # load what the others have compiled
    finally:
        for helper in helpers:
            helper.kill()
        for helper, thread in zip(helpers, threads, strict=True):
            if thread.is_alive():
                thread.join()
            helper.communicate()


def _taken(todo: queue.SimpleQueue[int]) -> Iterator[int]:
    """What is left to do, until another thread has taken the last of it."""
    with contextlib.suppress(queue.Empty):
        while True:
            yield todo.get_nowait()


def _feed(todo: queue.SimpleQueue[int], helper: subprocess.Popen[str]) -> None:
    """Pass agents to another process, one when it has compiled the one before."""
    assert helper.stdin is not None
    assert helper.stdout is not None
    with contextlib.suppress(OSError, ValueError):  # it has ended: its agent is compiled here
        for a in _taken(todo):
            helper.stdin.write(f"{a}\n")
            helper.stdin.flush()
            if not helper.stdout.readline():
                return


def compile_these(plan: Plan, agents: Sequence[int]) -> None:
    """Run each agent for one step, with everything that a run of a chunk calls."""
    for a in agents:
        if a == FACTS:
            with contextlib.suppress(Exception):  # its chunk will report the error
                compute(plan, Chunk(setting=0, agent=None, block=0, first=0, last=1))
            continue
        agent = _first_agent(plan, a)
        if agent is not None:
            with contextlib.suppress(Exception):  # its runs will report the error
                problem = problem_of(plan, 0, 0)
                record = simulate(agent, problem, 1, seed=0, episodes=True)
                count_bad_steps(record, problem, plan.experiment.epsilon)


def _first_agent(plan: Plan, a: int) -> Any:
    """Agent a on the first problem; None if it can't be made."""
    variant = plan.agents[a]
    try:
        problem = problem_of(plan, 0, 0)
        factory = plan.factories[variant.source]
        return make_agent(variant, factory, problem, plan.experiment.horizon, 0)[0]
    except Exception:  # its runs will report the error
        return None


def compile_main() -> None:
    """Compile in another process; sys.argv holds the folder and trust, the input agents."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the coordinator decides when to stop
    replies = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what an agent prints must not be read as a reply
    agents: queue.Queue[str] = queue.Queue()
    threading.Thread(target=_exit_with_coordinator, args=(agents.put,), daemon=True).start()
    plan = open_store(sys.argv[1]).plan(trust=sys.argv[2] == TRUSTED)
    while True:
        agent = agents.get()
        compile_these(plan, [int(agent)])
        replies.write(f"{agent}\n")
        replies.flush()
