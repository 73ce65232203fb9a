"""Runs in chunks of about a second of work; a chunk is a pure function of what it is named by.

A chunk is one agent, or the facts about the problems themselves, on consecutive problems of one
setting. Its content depends on the experiment and its id alone: not on who computes it, when,
or what else is computed. Wall time is no result, and is kept apart.
"""

from __future__ import annotations

import threading
import time
import traceback
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from switchmdp.errors import SwitchmdpError
from switchmdp.experiments.build import make_agent, make_problem, problem_seed, run_seed
from switchmdp.experiments.check import Plan
from switchmdp.experiments.faults import described
from switchmdp.experiments.results import HARDNESS, no_runs
from switchmdp.mdp import SwitchingMDP
from switchmdp.planning import hardness
from switchmdp.planning.gain import optimal_gains
from switchmdp.simulation import Record, simulate
from switchmdp.simulation.bad_steps import LARGEST, count_bad_steps
from switchmdp.storage import Arrays

SECONDS = 1.0
MOST_PROBLEMS = 500
MOST_CHANGES = 1000
MOST_HARD = 250  # problems of a setting whose hardness is measured: enough for its quantiles
REMEMBERED = 1024
BATCH, SMALL = 16, 100  # runs, and pairs up to which so many agents may be held at once
LONGEST = 10**7  # steps whose states are worth keeping in memory


@dataclass(frozen=True)
class Chunk:
    """Problems first..last-1 of a setting, met by an agent; no agent: facts about the problems."""

    setting: int
    agent: int | None
    block: int
    first: int
    last: int

    @property
    def id(self) -> str:
        """A short name, the same in every run of the experiment."""
        who = "facts" if self.agent is None else f"a{self.agent:03d}"
        return f"s{self.setting:03d}-{who}-b{self.block:05d}"

    def __len__(self) -> int:
        return self.last - self.first


@dataclass(frozen=True)
class Outcome:
    """What a chunk came to: arrays by name, fields for its header, failures and seconds apart."""

    arrays: Arrays
    fields: dict[str, Any]
    failures: list[dict[str, Any]] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)


Blocks = tuple[tuple[int, ...], ...]


def block_sizes(plan: Plan) -> Blocks:
    """How many runs take about a second, for each setting and agent.

    A guess from sizes alone, so that it is always the same.
    """
    lanes = range(len(plan.agents))
    return tuple(tuple(_block(plan, s, a) for a in lanes) for s in range(len(plan.settings)))


def _block(plan: Plan, setting: int, agent: int) -> int:
    steps = plan.experiment.horizon
    if plan.compiled[agent]:
        seconds = 1e-3 + steps * 3e-8 * (1.0 + plan.pairs[setting] / 100.0)
    else:
        seconds = 1e-3 + steps * 5e-6
    return int(min(max(1.0, SECONDS / seconds), MOST_PROBLEMS))


def layout(n_problems: int, blocks: Blocks) -> list[Chunk]:
    """All chunks, those that share problems close together.

    >>> [chunk.id for chunk in layout(3, ((2, 3),))]
    ['s000-facts-b00000', 's000-a000-b00000', 's000-a001-b00000', 's000-a000-b00001']
    """
    chunks = []
    for s, sizes in enumerate(blocks):
        lanes: list[tuple[int | None, int]] = [(None, MOST_PROBLEMS), *enumerate(sizes)]
        for lane, size in lanes:
            for block, first in enumerate(range(0, n_problems, size)):
                chunks.append(Chunk(s, lane, block, first, min(first + size, n_problems)))
    return sorted(chunks, key=lambda c: (c.setting, c.first, -1 if c.agent is None else c.agent))


def compute(plan: Plan, chunk: Chunk) -> Outcome:
    """The content of a chunk."""
    return _facts(plan, chunk) if chunk.agent is None else _runs(plan, chunk, chunk.agent)


def _runs(plan: Plan, chunk: Chunk, lane: int) -> Outcome:
    experiment, variant = plan.experiment, plan.agents[lane]
    factory, n = plan.factories[variant.source], len(chunk)
    arrays: Arrays = no_runs(n, experiment.points)
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
        record = _run(agent, problem, plan, seed(row))
        seconds[row] = time.perf_counter() - began
        return problem, agent, record

    def write(row: int, problem: SwitchingMDP, agent: Any, record: Record) -> tuple[()]:
        bad = count_bad_steps(record, problem, experiment.epsilon)
        if bad is None and experiment.horizon <= LONGEST:
            agent, _ = make_agent(variant, factory, problem, experiment.horizon, seed(row))
            record = _run(agent, problem, plan, seed(row), trajectory=True)
            bad = count_bad_steps(record, problem, experiment.epsilon)
        _write(arrays, row, record, agent, bad)
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
    return Outcome(arrays, {"parameters": shown}, failures, seconds)


def _clear(arrays: Arrays, row: int) -> None:
    """The row of a run that failed."""
    for name, array in no_runs(1, arrays["regret"].shape[1]).items():
        arrays[name][row] = array[0]
    arrays["failed"][row] = True


def _run(
    agent: Any, problem: SwitchingMDP, plan: Plan, seed: int, *, trajectory: bool = False
) -> Record:
    experiment = plan.experiment
    return simulate(
        agent, problem, experiment.horizon, seed=seed, initial_state=experiment.initial_state,
        every=experiment.grid, episodes=problem.n_states <= LARGEST, trajectory=trajectory,
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


class _Kept:
    """A problem in the making or made; whoever comes second waits for it."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.problem: SwitchingMDP | None = None


_kept: OrderedDict[tuple[Plan, int, int], _Kept] = OrderedDict()
_kept_lock = threading.Lock()


def problem_of(plan: Plan, setting: int, i: int) -> SwitchingMDP:
    """Problem i of a setting, made once for all the agents that meet it soon."""
    key = (plan, setting, i)
    with _kept_lock:
        entry = _kept.setdefault(key, _Kept())
        _kept.move_to_end(key)
        while len(_kept) > REMEMBERED:
            _kept.popitem(last=False)
    with entry.lock:
        if entry.problem is None:
            variant, experiment = plan.settings[setting], plan.experiment
            seed = problem_seed(experiment.seed, i)
            factory = plan.generators[variant.source]
            problem = make_problem(variant, factory, experiment.horizon, seed)
            if problem.pairs.n_pairs * (problem.changes + 1) > 10_000:
                return problem
            entry.problem = problem
        return entry.problem
