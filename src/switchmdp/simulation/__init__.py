"""simulate and simulate_batch: run agents on problems and record their regret.

Only the simulation computes regret; agents know nothing about it. Each run has one `SeedSequence`,
spawned into streams for rewards, transitions and the agent. Two agents that run with the same seed
get the same draws at the same step. (Beta rewards take a varying number of draws, so they agree
only as long as the agents choose the same actions.)

- `loop`: the interaction loop, compiled together with the agent
- `batch`: many runs in few calls into machine code; a single run is a batch of one
- `record`: what `simulate` and `simulate_batch` return, and how a run is resumed
- `bad_steps`: counts the steps on which an agent followed a clearly suboptimal policy
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from typing import Any

import numpy as np

from switchmdp.compiled import is_compiled
from switchmdp.concurrency import delayed_signals, exclusive, pulse
from switchmdp.errors import Interrupted, InvalidParameter, InvalidState, Mismatch
from switchmdp.mdp import MDP, SwitchingMDP, as_switching
from switchmdp.mdp.pairs import Pairs
from switchmdp.randomness import run_seed, stream, streams_of_runs
from switchmdp.simulation.batch import Batch
from switchmdp.simulation.loop import Position, Settled
from switchmdp.simulation.record import (
    Episodes,
    Record,
    Records,
    Trajectory,
    grid_to_continue,
    joined,
)
from switchmdp.validation import check_index, check_integer

__all__ = ["Episodes", "Record", "Records", "Trajectory", "simulate", "simulate_batch"]

GRID_POINTS = 1000
PROGRESS_SECONDS = 0.1  # which is also how soon a chunk of an experiment can be cancelled


def simulate(
    agent: Any,
    problem: SwitchingMDP | MDP,
    horizon: int,
    seed: int | None = None,
    initial_state: int | None = None,
    *,
    every: int | None = None,
    episodes: bool = False,
    trajectory: bool = False,
    resume: Record | None = None,
    interpreted: bool = False,
    experienced: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> Record:
    """Run an agent on a problem for `horizon` steps, and record its regret.

    Compiled agents run as machine code; any other object with the methods `act` and `observe` runs
    interpreted. The run changes the agent, because it learns.

    With the same `every`, a run in pieces (`resume`) equals a whole run bit for bit.

    Ctrl-C raises `errors.Interrupted`, a KeyboardInterrupt, between two steps. The agent is
    consistent, `error.record` has the completed steps, and `resume=error.record` continues to the
    same record as without the interruption. Machine code reacts within a twentieth of a second, or
    when the agent has finished its current plan. (Before the first step, while gains are computed,
    Ctrl-C raises a plain KeyboardInterrupt.)

    Parameters
    ----------
    agent
        An object with the methods `act` and `observe`.
    problem
        A switching MDP, or an MDP that does not change.
    horizon
        The number of steps.
    seed
        The seed of all random numbers of the run; by default 0.
    initial_state
        The state before the first step; by default 0.
    every
        The number of steps between two recorded points; by default a thousandth of the horizon. The
        horizon is always recorded.
    episodes
        Record the episodes: start, length, optimistic gain, sweeps, policy, restarts.
    trajectory
        Record every state, action and reward.
    resume
        The record of an earlier run. This run continues it with the same agent, seed and `every`.
    interpreted
        Run a compiled agent interpreted, with the same record.
    experienced
        Accept an agent that has run before.
    progress
        A function that is called about ten times per second with (steps done, horizon).

    Returns
    -------
    Record
        The regret over time, and what else was requested.

    Raises
    ------
    InvalidParameter
        an argument has the wrong type or is out of range.
    Mismatch
        the agent does not fit the problem, or the record does not fit the run.
    InvalidAction
        the agent chose an action that is not available.
    SharedAgent
        another thread is using the agent.
    Interrupted
        Ctrl-C.

    Examples
    --------
    >>> import switchmdp as sm
    >>> problem = sm.problems.random_switching(5, 3, changes=2, horizon=2000, seed=0)
    >>> record = sm.simulate(sm.agents.SWUCRL(5, 3, window=500), problem, horizon=2000, seed=0)
    >>> record.horizon, len(record.times)
    (2000, 1000)
    """
    problem = as_switching(problem)
    horizon = check_integer("horizon", horizon, 1)
    _must_fit(agent, problem)
    _check_progress(progress)
    with exclusive(agent):
        if resume is None:
            seed = 0 if seed is None else check_integer("seed", seed, 0)
            every = _checked_grid(every, horizon)
            position = _first_position(problem, initial_state)
            _check_experience(agent, experienced)
            words = [stream(run_seed(seed, key)).reshape(1, 4) for key in (0, 1)]
        else:
            if initial_state is not None or seed not in (None, getattr(resume, "seed", None)):
                raise Mismatch("a resumed run keeps its seed and initial state; do not pass others")
            every = grid_to_continue(resume, agent, problem, horizon, every, episodes, trajectory)
            if horizon == resume.horizon:
                return resume
            seed, position = resume.seed, resume.position
            words = [each.reshape(1, 4).copy() for each in resume.words]
        batch = Batch(
            [agent], [problem], position, words, None if resume else [seed], horizon, every,
            episodes=episodes, trajectory=trajectory, interpreted=interpreted,
        )  # fmt: skip
        interrupted = _complete(batch, batch.first - 1, horizon, progress)
        record = batch.record(0, seed)
    if resume is not None:
        record = joined(resume, record) if record.horizon >= batch.first else resume
    if interrupted:
        raise Interrupted(record, horizon, agent=agent) from None
    return record


def simulate_batch(
    agents: Any,
    problems: SwitchingMDP | MDP | Sequence[SwitchingMDP | MDP],
    horizon: int,
    seeds: Sequence[int] | None = None,
    initial_state: int | None = None,
    *,
    every: int | None = None,
    episodes: bool = False,
    trajectory: bool = False,
    interpreted: bool = False,
    experienced: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> Records:
    """Run many agents, each on its problem, and return their records together.

    Run i is `simulate(agents[i], problems[i], horizon, seeds[i], ...)`, and its record is the same
    byte for byte. What the runs have in common is done once, so many short runs need far less time.
    One agent for all runs is fastest: a single call into machine code then simulates many runs, and
    threads run in parallel.

    Parameters
    ----------
    agents
        One agent, of which each run gets a new copy (the agent itself does not change); or a list
        with one agent for each run, of any classes. No agent may occur twice.
    problems
        One problem for each run, or one for all.
    horizon
        The number of steps of every run.
    seeds
        One seed for each run; by default 0, 1, 2, …
    initial_state
        The state before the first step of every run; by default 0.
    every
        The number of steps between two recorded points; by default a thousandth of the horizon.
    episodes
        Record the episodes.
    trajectory
        Record every state, action and reward.
    interpreted
        Run compiled agents interpreted, with the same records.
    experienced
        Accept agents that have run before.
    progress
        A function that is called about ten times per second with (steps done, steps in total),
        added up over all runs.

    Returns
    -------
    Records
        The records: `records[i]` is that of run i, and `records.regret` has one row for each run.

    Raises
    ------
    InvalidParameter
        An argument has the wrong type, length or range.
    Mismatch
        An agent does not fit its problem, or has run before.
    InvalidAction
        An agent chose an action that is not available.
    SharedAgent
        Another thread is using an agent.
    Interrupted
        Ctrl-C. `error.record` is the record of the interrupted run, `error.agent` its agent, and
        `error.before` has the records of the runs before it. The runs after it have not begun.

    Examples
    --------
    >>> import switchmdp as sm
    >>> problems = [sm.problems.random_switching(5, 3, changes=2, horizon=500, seed=i)
    ...             for i in range(3)]
    >>> records = sm.simulate_batch(sm.agents.SWUCRL(5, 3, window=100), problems, horizon=500)
    >>> len(records), records.regret.shape, records[2].seed
    (3, (3, 500), 2)
    """
    is_template = _is_agent(agents)
    agents = [agents] if is_template else _as_list("agents", agents, AGENTS)
    if not isinstance(problems, (MDP, SwitchingMDP)):
        problems = _as_list("problems", problems, "a problem, or a list with one for each run")
    if seeds is not None:
        seeds = _as_list("seeds", seeds, "a list with one seed for each run")
    n = _number_of_runs(agents[0], problems, seeds) if is_template else len(agents)
    problems = _one_for_each(problems, n)
    horizon = check_integer("horizon", horizon, 1)
    every = _checked_grid(every, horizon)
    seeds = range(n) if seeds is None else seeds
    if len(seeds) != n:
        raise InvalidParameter("seeds", seeds, f"a list with one seed for each of the {n} runs")
    seeds = [check_integer("seeds", seed, 0) for seed in seeds]
    if len({id(agent) for agent in agents}) < len(agents):
        raise InvalidParameter("agents", agents, "a separate agent for each run")
    _check_progress(progress)
    with ExitStack() as stack:
        for i, agent in enumerate(agents):
            its = {p.pairs: p for p in problems}.values() if is_template else [problems[i]]
            for problem in its:
                _must_fit(agent, problem)
            stack.enter_context(exclusive(agent))
            _check_experience(agent, experienced)
        smallest = min(problems, key=lambda problem: problem.n_states, default=None)
        batch = Batch(
            agents, problems, _first_position(smallest, initial_state), streams_of_runs(seeds),
            seeds, horizon, every, episodes=episodes, trajectory=trajectory,
            interpreted=interpreted, copies=is_template,
        )  # fmt: skip
        if _complete(batch, 0, n * horizon, progress):
            begun = batch.current + int(batch.steps_done > batch.current * horizon)
            records = [batch.record(i, seeds[i]) for i in range(max(1, begun))]
            raise Interrupted(records[-1], horizon, records[:-1], batch.agent(len(records) - 1))
    return Records(batch, seeds)


AGENTS = "an agent, or a list with one agent for each run"


def _is_agent(value: Any) -> bool:
    return callable(getattr(value, "act", None)) and not isinstance(value, type)


def _number_of_runs(agent: Any, problems: Any, seeds: list[int] | None) -> int:
    """The number of runs where all have a copy of one agent."""
    if isinstance(problems, list):
        return len(problems)
    if seeds is None:
        allowed = "a list of agents, or one agent with a list of problems or seeds"
        raise InvalidParameter("agents", agent, allowed)
    return len(seeds)


def _one_for_each(problems: Any, n: int) -> list[SwitchingMDP]:
    if not isinstance(problems, list):
        return [as_switching(problems)] * n
    if len(problems) != n:
        raise InvalidParameter("problems", problems, f"one problem for each of the {n} runs")
    return [as_switching(problem) for problem in problems]


def _as_list(field: str, values: Any, allowed: str) -> list[Any]:
    if isinstance(values, (str, bytes)) or not isinstance(values, Iterable):
        raise InvalidParameter(field, values, allowed)
    return list(values)


def _checked_grid(every: int | None, horizon: int) -> int:
    if every is None:
        return max(1, horizon // GRID_POINTS)
    return check_integer("every", every, 1)


def _check_progress(progress: Any) -> None:
    if progress is not None and not callable(progress):
        raise InvalidParameter("progress", progress, "a function of (steps done, steps in total)")


def _check_experience(agent: Any, experienced: bool) -> None:
    """Refuse a compiled agent that has run before, unless it may be `experienced`."""
    if not experienced and getattr(agent, "t", 1) != 1 and is_compiled(agent):
        raise Mismatch(
            f"the agent has already run {agent.t - 1} steps: use a new one for each run, "
            "resume=record to continue, or experienced=True to keep what it has learned"
        )


def _first_position(problem: SwitchingMDP | None, initial_state: int | None) -> Position:
    n_states = 1 if problem is None else problem.n_states
    start = 0 if initial_state is None else initial_state
    state = check_index(start, n_states, "initial_state", InvalidState)
    return Position(1, state, 0, 1, 0.0, 0.0, 0.0, Settled())


def _complete(
    batch: Batch, before: int, total: int, progress: Callable[[int, int], None] | None
) -> bool:
    """Complete the runs; returns whether Ctrl-C stopped one between two steps.

    `before` is the number of steps, of `total`, that were done before.
    """
    reported = time.monotonic()
    with pulse() as due:
        try:
            batch.prepare(due)
            while not batch.ended:
                due[0] = False
                with delayed_signals(until_repeated=batch.can_hang):
                    batch.advance(due)
                if progress is not None and (
                    batch.ended or time.monotonic() - reported >= PROGRESS_SECONDS
                ):
                    reported = time.monotonic()
                    progress(before + batch.steps_done, total)
        except KeyboardInterrupt:
            if not batch.between_steps:
                raise
            return True
    return False


def _must_fit(agent: Any, problem: SwitchingMDP) -> None:
    for verb in ("act", "observe"):
        if isinstance(agent, type) and hasattr(agent, verb):
            raise InvalidParameter("agent", agent, "an agent, not its class: make a new one")
        if not callable(getattr(agent, verb, None)):
            raise InvalidParameter("agent", agent, f"an object with the method {verb!r}")
    for size in ("n_states", "n_actions"):
        has, needs = getattr(agent, size, None), getattr(problem, size)
        if has is not None and has != needs:
            raise Mismatch(f"the agent has {size} = {has}, the problem has {needs}")
    pairs = getattr(agent, "pairs", None)
    if isinstance(pairs, Pairs) and not pairs.same_as(problem.pairs):
        bad = np.argwhere(pairs.available != problem.available)[0]
        raise Mismatch(
            f"action {bad[1]} in state {bad[0]} differs between the agent and the problem; "
            "create the agent with available=problem.available"
        )
