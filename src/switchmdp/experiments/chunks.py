"""Chunks and workers: compute a chunk, and run a process that computes chunks.

A chunk is a pure function of the experiment and the chunk's id (`compute`). The result does not
depend on where or when it is computed, or on what else is computed. Wall time is not part of the
result, and is stored separately.

A worker computes a chunk and commits it: `work` in a thread, `work_on` in another process or on a
cluster, where it gets the folder's path and whether the folder is trusted. It returns a short
report; the results go straight to disk. Run as a program (`main`), this module serves a
coordinator: it reads requests from standard input and writes reports as lines of JSON. When the
input ends, the coordinator has ended. Then the worker exits immediately, even during a chunk.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import queue
import signal
import sys
import threading
import time
import traceback
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from switchmdp.compiled import is_compiled, is_on_disk
from switchmdp.errors import ForeignFolder, SwitchmdpError
from switchmdp.experiments.plan import (
    Plan,
    agent_arguments,
    are_same,
    make_agent,
    make_problem,
    new_agent,
    problem_seed,
    run_seed,
)
from switchmdp.experiments.results import HARDNESS, Chunk, no_runs
from switchmdp.experiments.spec import describe_error
from switchmdp.experiments.store import AnyStore, Store, open_store
from switchmdp.mdp import SwitchingMDP
from switchmdp.planning import hardness
from switchmdp.planning.gain import optimal_gains
from switchmdp.simulation import Records, loop, simulate_batch
from switchmdp.simulation.bad_steps import LARGEST, STATES_NEEDED, count_bad_steps_of_all
from switchmdp.storage import Arrays

MOST_CHANGES = 1000
MOST_HARD = 100  # problems per setting whose hardness is computed: enough for quantiles
BATCH, SMALL = 128, 100  # runs per batch, for problems of at most so many state-action pairs
LONGEST = 10**7  # the longest run whose states may be held in memory
CACHED_PROBLEMS = 1024
LARGEST_CACHED = 10_000  # state-action pairs × configurations

STOPPED = "stopped"  # the error of a chunk that was cancelled
TRUSTED = "trusted"
COMPILE = "compile "  # begins the request to compile an agent; all others are ids of chunks
FACTS = -1  # takes the place of an agent's index: the facts about problems, which are compiled too
DISK_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


@dataclass(frozen=True)
class Outcome:
    """The content of a chunk (arrays and header fields), its failures and its wall times."""

    arrays: Arrays
    fields: dict[str, Any]
    failures: list[dict[str, Any]] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)


def compute(plan: Plan, chunk: Chunk, cancelled: threading.Event | None = None) -> Outcome:
    """Compute a chunk. Raises KeyboardInterrupt soon after `cancelled` is set."""
    if chunk.agent is None:
        return _facts(plan, chunk)
    return _runs(plan, chunk, chunk.agent, cancelled or threading.Event())


class _CachedProblem:
    """A problem; None until the thread that holds the lock has made it."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.problem: SwitchingMDP | None = None


class ProblemCache:
    """The most recently used problems. Several agents, in several threads, share a problem."""

    def __init__(self) -> None:
        self.entries: OrderedDict[tuple[Plan, int, int], _CachedProblem] = OrderedDict()
        self.lock = threading.Lock()

    def get(self, plan: Plan, setting: int, i: int) -> SwitchingMDP:
        """Problem i of a setting; large problems are made anew each time."""
        key = (plan, setting, i)
        with self.lock:
            entry = self.entries.setdefault(key, _CachedProblem())
            self.entries.move_to_end(key)
            while len(self.entries) > CACHED_PROBLEMS:
                self.entries.popitem(last=False)
        with entry.lock:
            if entry.problem is None:
                variant, experiment = plan.settings[setting], plan.experiment
                seed = problem_seed(experiment.seed, i)
                factory = plan.generators[variant.source]
                problem = make_problem(variant, factory, experiment.horizon, seed)
                if problem.pairs.n_pairs * (problem.changes + 1) > LARGEST_CACHED:
                    return problem
                entry.problem = problem
            return entry.problem


problem_of = ProblemCache().get


def _runs(plan: Plan, chunk: Chunk, agent_index: int, cancelled: threading.Event) -> Outcome:
    experiment, variant = plan.experiment, plan.agents[agent_index]
    factory, n = plan.factories[variant.source], len(chunk)
    arrays: Arrays = no_runs(n, experiment.points)
    restarts: dict[int, Any] = {}
    shown: dict[str, Any] = {}
    failures: list[dict[str, Any]] = []
    seconds = [0.0] * n

    def run(rows: Sequence[int]) -> None:
        """Run a batch and write its results."""
        problems = [problem_of(plan, chunk.setting, chunk.first + row) for row in rows]
        made = [
            agent_arguments(variant, factory, problem, experiment.horizon, seed(row))
            for row, problem in zip(rows, problems, strict=True)
        ]
        arguments, parameters = made[0]
        shown.update(parameters if not shown else {})
        agents: Any
        if len(made) > 1 and all(are_same(arguments, other) for other, _ in made):
            agents = new_agent(variant, factory, arguments)  # each run gets a copy
        else:
            agents = [new_agent(variant, factory, each) for each, _ in made]
        seeds = [seed(row) for row in rows]
        records = _run(plan, agents, problems, seeds, cancelled)
        bad = _bad_steps(records, experiment.epsilon)
        for i in np.flatnonzero(bad == STATES_NEEDED).tolist():
            bad[i] = np.nan
            if experiment.horizon <= LONGEST:
                again = [new_agent(variant, factory, made[i][0])]
                run_again = _run(plan, again, [problems[i]], [seeds[i]], cancelled, trajectory=True)
                bad[i] = _bad_steps(run_again, experiment.epsilon)[0]
        part = slice(rows[0], rows[-1] + 1)
        seconds[part] = records.seconds.tolist()
        _write({name: array[part] for name, array in arrays.items()}, records, agents, bad)
        if records.has_episodes:
            restarts.update(zip(rows, records.restarts, strict=True))

    def seed(row: int) -> int:
        return run_seed(experiment.seed, chunk.first + row)

    def attempt(rows: Sequence[int]) -> BaseException | None:
        """Run a batch; returns the error if one of its runs failed."""
        try:
            run(rows)
        except (KeyboardInterrupt, MemoryError):
            raise
        except BaseException as error:  # an agent may raise anything, even SystemExit
            return error
        return None

    # Runs of a batch share the work of Python, which only one thread can do at a time. If a run of
    # a batch fails, all its runs are repeated one by one.
    together = plan.compiled[agent_index] and plan.pairs[chunk.setting] <= SMALL
    size = BATCH if together else 1
    for first in range(0, n, size):
        rows = range(first, min(first + size, n))
        if together and attempt(rows) is None:
            continue
        for row in rows:
            if (error := attempt([row])) is not None:
                _clear(arrays, row)
                failures.append(_failure(plan, chunk, variant.name, chunk.first + row, error))
    succeeded = [restarts[row] for row in sorted(restarts) if not arrays["failed"][row]]
    arrays["restarts"] = np.concatenate([np.zeros(0, np.int64), *succeeded])
    return Outcome(arrays, {"parameters": shown}, failures, seconds)


def _clear(arrays: Arrays, row: int) -> None:
    """Mark a row as a failed run."""
    for name, array in no_runs(1, arrays["regret"].shape[1]).items():
        arrays[name][row] = array[0]
    arrays["failed"][row] = True


def _run(
    plan: Plan, agents: Any, problems: Sequence[SwitchingMDP], seeds: Sequence[int],
    cancelled: threading.Event, *, trajectory: bool = False,
) -> Records:  # fmt: skip
    def stop_if_cancelled(done: int, total: int) -> None:
        if cancelled.is_set():
            raise KeyboardInterrupt

    experiment = plan.experiment
    return simulate_batch(
        agents, problems, experiment.horizon, seeds, experiment.initial_state,
        every=experiment.grid, episodes=problems[0].n_states <= LARGEST, trajectory=trajectory,
        progress=stop_if_cancelled,
    )  # fmt: skip


def _bad_steps(records: Records, epsilon: float) -> Any:
    if not records.has_episodes:
        return np.full(len(records), np.nan)
    return count_bad_steps_of_all(records, epsilon)


def _write(arrays: Arrays, records: Records, agents: Any, bad: Any) -> None:
    """Write the results of a batch into its rows of the arrays."""
    arrays["regret"][:], arrays["pseudo_regret"][:] = records.regret, records.pseudo_regret
    arrays["bad_steps"][:] = bad
    if records.has_episodes:
        known = records.episode_counts > 0
        arrays["episodes"][known] = records.episode_counts[known]
        arrays["sweeps"][known] = records.sweeps[known]
        counts = np.array([len(steps) for steps in records.restarts], np.int64)
        arrays["n_restarts"][known] = counts[known]
    else:
        arrays["episodes"][:] = [getattr(agent, "episode", -1) for agent in agents]


def _failure(plan: Plan, chunk: Chunk, agent: str, i: int, error: BaseException) -> dict[str, Any]:
    return {
        "setting": plan.settings[chunk.setting].name, "agent": agent, "problem": i,
        "error": describe_error(error),
        "traceback": "".join(traceback.format_exception(error)),
    }  # fmt: skip


def _facts(plan: Plan, chunk: Chunk) -> Outcome:
    n, horizon = len(chunk), plan.experiment.horizon
    counts = np.zeros((n, 2), np.int64)
    points: list[Any] = [np.zeros(0, np.int64)]
    gains: list[Any] = [np.zeros(0)]
    hard = np.full((n, len(HARDNESS)), np.nan)
    failures = []
    began = time.perf_counter()
    for row, i in enumerate(range(chunk.first, chunk.last)):
        try:
            problem = problem_of(plan, chunk.setting, i)
            n_changes = int(np.searchsorted(problem.change_points, horizon, side="right"))
            optimal = optimal_gains(problem, n_changes)
            counts[row] = problem.changes, len(optimal)
            points.append(problem.change_points)
            gains.append(optimal)
            if i < MOST_HARD:
                hard[row] = _hardness(problem)
        except (KeyboardInterrupt, MemoryError):
            raise
        except BaseException as error:  # user code may raise anything
            failures.append(_failure(plan, chunk, "", i, error))
    arrays = {
        "counts": counts, "change_points": np.concatenate(points), "gains": np.concatenate(gains),
        "hardness": hard,
    }  # fmt: skip
    return Outcome(arrays, {}, failures, [time.perf_counter() - began])


def _hardness(problem: SwitchingMDP) -> Any:
    """The measures in the order of HARDNESS; NaN where computing them takes too long."""
    if problem.n_states > LARGEST or problem.changes > MOST_CHANGES:
        return np.nan
    try:
        measures = hardness(problem)
    except SwitchmdpError:
        return np.nan
    return (
        measures.diameter, max(measures.spans), min(measures.gaps),
        measures.reward_variation, measures.transition_variation,
    )  # fmt: skip


# Workers.


@dataclass(frozen=True)
class ChunkReport:
    """The outcome of a chunk."""

    chunk: str
    runs: int = 0
    failed: int = 0
    seconds: float = 0.0  # the time of its runs
    error: str = ""  # the reason why it could not be committed
    disk_full: bool = False


def work(
    store: AnyStore, plan: Plan, chunk: Chunk, cancelled: threading.Event | None = None
) -> ChunkReport:
    """Compute a chunk and commit it, unless it is cancelled first."""
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


def work_on(folder: str, request: str, trust: bool) -> ChunkReport:
    """`work` for a worker that knows only the folder's path, and whether the folder is trusted.

    The request is the id of a chunk, or COMPILE and the index of an agent.
    """
    key = (folder, trust)
    with _lock:
        manifest = (Path(folder) / "experiment.json").read_bytes()
        if key not in _opened or _opened[key][0] != manifest:
            store = open_store(folder)
            by_id = {chunk.id: chunk for chunk in store.chunks()}
            _opened[key] = (manifest, store, store.plan(trust=trust), by_id)
        _, store, plan, chunks = _opened[key]
    if request.startswith(COMPILE):
        compile_agent(plan, int(request.removeprefix(COMPILE)))
        return ChunkReport(request)
    if request not in chunks:
        raise ForeignFolder(f"{folder} has no chunk {request}")
    return work(store, plan, chunks[request])


def main() -> None:
    """Serve a coordinator until it ends. sys.argv has the folder, and whether it is trusted."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the coordinator decides when to stop
    replies = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # the output of an agent must not be read as a reply
    folder, trust = sys.argv[1], sys.argv[2] == TRUSTED
    requests: queue.Queue[str] = queue.Queue()

    def receive() -> None:
        """Pass on each line of the input; exit when it ends."""
        lines = os.fdopen(os.dup(0))
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)  # an agent must not read our input
        for line in lines:
            requests.put(line.strip())
        os._exit(0)

    threading.Thread(target=receive, daemon=True).start()
    while True:
        request = requests.get()
        try:
            report = work_on(folder, request, trust)
        except Exception as error:  # reported to the coordinator
            report = ChunkReport(request, error=f"{type(error).__name__}: {error}")
        replies.write(json.dumps(asdict(report)) + "\n")
        replies.flush()


# Machine code, which is compiled before runs are timed, and stored on disk.


def agents_to_compile(plan: Plan) -> list[int]:
    """The first agent of each class whose machine code is not on disk yet."""
    new: dict[type, int] = {}
    for a in range(len(plan.agents)):
        agent = _first_agent(plan, a)
        if agent is not None and is_compiled(agent) and not is_on_disk(loop.run, agent):
            new.setdefault(type(agent), a)
    return list(new.values())


def compile_agent(plan: Plan, a: int) -> None:
    """Run agent a for one step, which compiles everything that a run of a chunk calls."""
    with contextlib.suppress(Exception):  # its runs will report the error
        if a == FACTS:
            compute(plan, Chunk(setting=0, agent=None, block=0, first=0, last=1))
        elif (agent := _first_agent(plan, a)) is not None:
            problem = problem_of(plan, 0, 0)
            records = simulate_batch([agent], problem, 1, episodes=True)
            count_bad_steps_of_all(records, plan.experiment.epsilon)


def _first_agent(plan: Plan, a: int) -> Any:
    """Agent a on the first problem; None if it can't be made."""
    variant = plan.agents[a]
    with contextlib.suppress(Exception):  # its runs will report the error
        problem = problem_of(plan, 0, 0)
        factory = plan.factories[variant.source]
        return make_agent(variant, factory, problem, plan.experiment.horizon, 0)[0]
    return None
