"""Compute a chunk: a pure function of the experiment and the chunk's id.

The result does not depend on where or when a chunk is computed, or on what else is computed. Wall
time is not part of the result, and is stored separately.
"""

from __future__ import annotations

import threading
import time
import traceback
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from switchmdp.errors import SwitchmdpError
from switchmdp.experiments.layout import Chunk
from switchmdp.experiments.plan import Plan, make_agent, make_problem, problem_seed, run_seed
from switchmdp.experiments.results import HARDNESS, no_runs
from switchmdp.experiments.spec import describe_error
from switchmdp.mdp import SwitchingMDP
from switchmdp.planning import hardness
from switchmdp.planning.gain import optimal_gains
from switchmdp.simulation import Record, Records, simulate_batch
from switchmdp.simulation.bad_steps import LARGEST, count_bad_steps
from switchmdp.storage import Arrays

MOST_CHANGES = 1000
MOST_HARD = 100  # problems per setting whose hardness is computed: enough for quantiles
BATCH, SMALL = 32, 100  # runs per batch, for problems of at most so many state-action pairs
LONGEST = 10**7  # the longest run whose states may be held in memory
CACHED_PROBLEMS = 1024
LARGEST_CACHED = 10_000  # state-action pairs × configurations


@dataclass(frozen=True)
class Outcome:
    """The content of a chunk: arrays and header fields; and its failures and wall times."""

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
    """A problem, or the place where it will be once the thread that holds the lock has made it."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.problem: SwitchingMDP | None = None


class ProblemCache:
    """The problems used last. Several agents share a problem, from several threads."""

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

    def make(row: int) -> tuple[SwitchingMDP, Any]:
        problem = problem_of(plan, chunk.setting, chunk.first + row)
        agent, parameters = make_agent(variant, factory, problem, experiment.horizon, seed(row))
        shown.update(parameters if not shown else {})
        return problem, agent

    def run(rows: Sequence[int], made: Sequence[tuple[SwitchingMDP, Any]]) -> None:
        """Run a batch and write its results."""
        seeds = [seed(row) for row in rows]
        records = _run(plan, made, seeds, cancelled)
        for row, (problem, agent), record in zip(rows, made, records, strict=True):
            bad = count_bad_steps(record, problem, experiment.epsilon)
            if bad is None and experiment.horizon <= LONGEST:
                agent = make(row)[1]
                (record,) = _run(plan, [(problem, agent)], [seed(row)], cancelled, trajectory=True)
                bad = count_bad_steps(record, problem, experiment.epsilon)
            _write(arrays, row, record, agent, bad)
            if record.episodes is not None and len(record.episodes):
                restarts[row] = record.episodes.restarts
                arrays["n_restarts"][row] = len(restarts[row])
        for row, duration in zip(rows, records.seconds.tolist(), strict=True):
            seconds[row] = duration

    def seed(row: int) -> int:
        return run_seed(experiment.seed, chunk.first + row)

    def succeeds(rows: Sequence[int]) -> bool:
        """Run a batch; False if one of its runs failed."""
        try:
            run(rows, [make(row) for row in rows])
        except (KeyboardInterrupt, MemoryError):
            raise
        except BaseException:  # `run_alone` finds out which, and records why
            return False
        return True

    def run_alone(row: int) -> None:
        """Run one problem; if that fails, record why."""
        try:
            run([row], [make(row)])
        except (KeyboardInterrupt, MemoryError):
            raise
        except BaseException as error:  # an agent may raise anything, even SystemExit
            _clear(arrays, row)
            i = chunk.first + row
            failures.append(_failure(plan, chunk, variant.name, i, error))

    # All agents of a batch are made, then all are run, then all are written: alternating would be
    # slower, because each run evicts Python's data from the processor's caches.
    together = plan.compiled[agent_index] and plan.pairs[chunk.setting] <= SMALL
    size = BATCH if together else 1
    for first in range(0, n, size):
        rows = range(first, min(first + size, n))
        if not (together and succeeds(rows)):
            for row in rows:
                run_alone(row)
    succeeded = [restarts[row] for row in sorted(restarts) if not arrays["failed"][row]]
    arrays["restarts"] = np.concatenate([np.zeros(0, np.int64), *succeeded])
    return Outcome(arrays, {"parameters": shown}, failures, seconds)


def _clear(arrays: Arrays, row: int) -> None:
    """Mark a row as a failed run."""
    for name, array in no_runs(1, arrays["regret"].shape[1]).items():
        arrays[name][row] = array[0]
    arrays["failed"][row] = True


def _run(
    plan: Plan, made: Sequence[tuple[SwitchingMDP, Any]], seeds: Sequence[int],
    cancelled: threading.Event, *, trajectory: bool = False,
) -> Records:  # fmt: skip
    experiment, problems = plan.experiment, [problem for problem, _ in made]

    def stop_if_cancelled(done: int, total: int) -> None:
        if cancelled.is_set():
            raise KeyboardInterrupt

    return simulate_batch(
        [agent for _, agent in made], problems, experiment.horizon, seeds,
        experiment.initial_state, every=experiment.grid,
        episodes=problems[0].n_states <= LARGEST, trajectory=trajectory,
        progress=stop_if_cancelled,
    )  # fmt: skip


def _write(arrays: Arrays, row: int, record: Record, agent: Any, bad: float | None) -> None:
    arrays["regret"][row], arrays["pseudo_regret"][row] = record.regret, record.pseudo_regret
    arrays["bad_steps"][row] = np.nan if bad is None else bad
    if record.episodes is None:
        arrays["episodes"][row] = getattr(agent, "episode", -1)
    elif len(record.episodes):
        arrays["episodes"][row] = len(record.episodes)
        arrays["sweeps"][row] = record.episodes.sweeps.sum()


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
