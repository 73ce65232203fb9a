"""What a chunk holds: a pure function of the experiment and the chunk's id.

It doesn't matter who computes it, when, or what else is computed. Wall time is no result, and is
kept apart.
"""

from __future__ import annotations

import threading
import time
import traceback
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from switchmdp.errors import SwitchmdpError
from switchmdp.experiments.build import make_agent, run_seed
from switchmdp.experiments.check import Plan
from switchmdp.experiments.faults import described
from switchmdp.experiments.kept import problem_of
from switchmdp.experiments.layout import Chunk
from switchmdp.experiments.results import HARDNESS, no_runs
from switchmdp.mdp import SwitchingMDP
from switchmdp.planning import hardness
from switchmdp.planning.gain import optimal_gains
from switchmdp.simulation import Record, simulate
from switchmdp.simulation.bad_steps import LARGEST, count_bad_steps
from switchmdp.storage import Arrays

MOST_CHANGES = 1000
MOST_HARD = 100  # problems of a setting whose hardness is measured: enough for its quantiles
BATCH, SMALL = 32, 100  # runs, and pairs up to which so many agents may be held at once
LONGEST = 10**7  # steps whose states are worth keeping in memory


@dataclass(frozen=True)
class Outcome:
    """What a chunk came to: arrays by name, fields for its header, failures and seconds apart."""

    arrays: Arrays
    fields: dict[str, Any]
    failures: list[dict[str, Any]] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)


def compute(plan: Plan, chunk: Chunk, cancelled: threading.Event | None = None) -> Outcome:
    """The content of a chunk. Raises KeyboardInterrupt soon after `cancelled` is set."""
    if chunk.agent is None:
        return _facts(plan, chunk)
    return _runs(plan, chunk, chunk.agent, cancelled or threading.Event())


def _runs(plan: Plan, chunk: Chunk, lane: int, cancelled: threading.Event) -> Outcome:
    experiment, variant = plan.experiment, plan.agents[lane]
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

    def run(row: int, problem: SwitchingMDP, agent: Any) -> tuple[SwitchingMDP, Any, Record]:
        began = time.perf_counter()
        record = _run(agent, problem, plan, seed(row), cancelled)
        seconds[row] = time.perf_counter() - began
        return problem, agent, record

    def write(row: int, problem: SwitchingMDP, agent: Any, record: Record) -> tuple[()]:
        bad = count_bad_steps(record, problem, experiment.epsilon)
        if bad is None and experiment.horizon <= LONGEST:
            agent, _ = make_agent(variant, factory, problem, experiment.horizon, seed(row))
            record = _run(agent, problem, plan, seed(row), cancelled, trajectory=True)
            bad = count_bad_steps(record, problem, experiment.epsilon)
        _write(arrays, row, record, agent, bad)
        if record.episodes is not None and len(record.episodes):
            restarts[row] = record.episodes.restarts
            arrays["n_restarts"][row] = len(restarts[row])
        return ()

    def seed(row: int) -> int:
        return run_seed(experiment.seed, chunk.first + row)

    # In batches, step by step: Python is slow to come back to after a run has filled the caches.
    small = plan.compiled[lane] and plan.pairs[chunk.setting] <= SMALL
    size = BATCH if small else 1
    for first in range(0, n, size):
        going: dict[int, Any] = dict.fromkeys(range(first, min(first + size, n)), ())
        for step in (make, run, write):
            for row, given in list(going.items()):
                try:
                    going[row] = step(row, *given)
                except (KeyboardInterrupt, MemoryError):
                    raise
                except BaseException as error:  # an agent may raise anything, even SystemExit
                    del going[row]
                    _clear(arrays, row)
                    i = chunk.first + row
                    failures.append(_failure(plan, chunk, variant.name, i, error))
    failures.sort(key=lambda failure: failure["problem"])
    told = [restarts[row] for row in sorted(restarts) if not arrays["failed"][row]]
    arrays["restarts"] = np.concatenate([np.zeros(0, np.int64), *told])
    return Outcome(arrays, {"parameters": shown}, failures, seconds)


def _clear(arrays: Arrays, row: int) -> None:
    """The row of a run that failed."""
    for name, array in no_runs(1, arrays["regret"].shape[1]).items():
        arrays[name][row] = array[0]
    arrays["failed"][row] = True


def _run(
    agent: Any, problem: SwitchingMDP, plan: Plan, seed: int, cancelled: threading.Event, *,
    trajectory: bool = False,
) -> Record:  # fmt: skip
    experiment = plan.experiment

    def stop_if_cancelled(done: int, horizon: int) -> None:
        if cancelled.is_set():
            raise KeyboardInterrupt

    return simulate(
        agent, problem, experiment.horizon, seed=seed, initial_state=experiment.initial_state,
        every=experiment.grid, episodes=problem.n_states <= LARGEST, trajectory=trajectory,
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
        "error": described(error),
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
            felt = int(np.searchsorted(problem.change_points, horizon, side="right"))
            found = optimal_gains(problem, felt)
            counts[row] = problem.changes, len(found)
            points.append(problem.change_points)
            gains.append(found)
            if i < MOST_HARD:
                hard[row] = _hardness(problem)
        except (KeyboardInterrupt, MemoryError):
            raise
        except BaseException as error:  # a user's generator may raise anything
            failures.append(_failure(plan, chunk, "", i, error))
    arrays = {
        "counts": counts, "change_points": np.concatenate(points), "gains": np.concatenate(gains),
        "hardness": hard,
    }  # fmt: skip
    return Outcome(arrays, {}, failures, [time.perf_counter() - began])


def _hardness(problem: SwitchingMDP) -> Any:
    """In the order of HARDNESS; NaN where it would take longer than the runs."""
    if problem.n_states > LARGEST or problem.changes > MOST_CHANGES:
        return np.nan
    try:
        found = hardness(problem)
    except SwitchmdpError:
        return np.nan
    return (
        found.diameter, max(found.spans), min(found.gaps),
        found.reward_variation, found.transition_variation,
    )  # fmt: skip
