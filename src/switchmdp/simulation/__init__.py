"""simulate: run an agent on a problem and record its regret.

Only the simulation computes regret; agents know nothing about it. Each run has one `SeedSequence`,
spawned into streams for rewards, transitions and the agent. Two agents that run with the same seed
get the same draws at the same step. (Beta rewards take a varying number of draws, so they agree
only as long as the agents choose the same actions.)

- `loop`: the interaction loop, compiled together with the agent
- `record`: what `simulate` returns, and how a run is resumed
- `bad_steps`: counts the steps on which an agent followed a clearly suboptimal policy
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from switchmdp import compiled
from switchmdp.compiled import JIT, compile_for, is_compiled, pack, unpack
from switchmdp.concurrency import delayed_signals, exclusive, pulse
from switchmdp.errors import (
    Interrupted,
    InvalidAction,
    InvalidParameter,
    InvalidState,
    Mismatch,
)
from switchmdp.mdp import MDP, SwitchingMDP, as_switching
from switchmdp.mdp.pairs import Pairs
from switchmdp.planning.gain import optimal_gains
from switchmdp.randomness import run_seeds, stream
from switchmdp.simulation import loop
from switchmdp.simulation.loop import EpisodeLog, Position, Settled, Trace, World
from switchmdp.simulation.record import Episodes, Record, Trajectory, grid_to_continue, joined
from switchmdp.validation import check_index, check_integer

__all__ = ["Episodes", "Record", "Trajectory", "simulate"]

GRID_POINTS = 1000
PROGRESS_SECONDS = 0.1  # which is also how soon a chunk of an experiment can be cancelled
FIRST_LOG = 20_480  # initial capacity for episodes, in entries of policies


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

    Compiled agents run as machine code, any other object with the methods `act` and `observe` runs
    interpreted; `interpreted=True` runs a compiled agent interpreted, with the same record. The run
    changes the agent, because it learns. An agent that has run before is refused unless
    `experienced=True`. Seed and initial state default to 0.

    The record has a point every `every` steps (default: a thousandth of the horizon) and at the
    horizon. On request it also has the `episodes` (start, length, optimistic gain, sweeps, policy,
    restarts; none if the agent has no episodes) and the whole `trajectory`. `resume` continues a
    run to a later horizon with the same agent; with the same `every`, a run in pieces equals a
    whole run bit for bit. `progress(done, horizon)` is called about ten times per second.

    Ctrl-C raises `errors.Interrupted`, a KeyboardInterrupt, between two steps. The agent is
    consistent, `error.record` has the completed steps, and `resume=error.record` continues to the
    same record as without the interruption. Machine code reacts within a twentieth of a second, or
    when the agent has finished its current plan. (Before the first step, while gains are computed,
    Ctrl-C raises a plain KeyboardInterrupt.)

    Raises:
        InvalidParameter: an argument has the wrong type or is out of range.
        Mismatch: the agent does not fit the problem, or the record does not fit the run.
        InvalidAction: the agent chose an action that is not available.
        SharedAgent: another thread is using the agent.
        Interrupted: Ctrl-C.

    >>> import switchmdp as sm
    >>> problem = sm.problems.random_switching(5, 3, changes=2, horizon=2000, seed=0)
    >>> record = sm.simulate(sm.agents.SWUCRL(5, 3, window=500), problem, horizon=2000, seed=0)
    >>> record.horizon, len(record.times)
    (2000, 1000)
    """
    problem = as_switching(problem)
    horizon = check_integer("horizon", horizon, 1)
    _must_fit(agent, problem)
    if progress is not None and not callable(progress):
        raise InvalidParameter("progress", progress, "a function of (steps done, horizon)")
    with exclusive(agent):
        role, has_machine_code = None, is_compiled(agent)
        if resume is None:
            if has_machine_code and getattr(agent, "t", 1) != 1 and not experienced:
                raise Mismatch(
                    f"the agent has already run {agent.t - 1} steps: use a new one for each run, "
                    "resume=record to continue, or experienced=True to keep what it has learned"
                )
            seed = 0 if seed is None else check_integer("seed", seed, 0)
            start = 0 if initial_state is None else initial_state
            every = (
                max(1, horizon // GRID_POINTS)
                if every is None
                else check_integer("every", every, 1)
            )
            position = Position(
                1, check_index(start, problem.n_states, "initial_state", InvalidState),
                0, 1, 0.0, 0.0, 0.0, Settled(),
            )  # fmt: skip
            rewards, moves, role = run_seeds(seed)
            words = (stream(rewards), stream(moves))
        else:
            if initial_state is not None or seed not in (None, getattr(resume, "seed", None)):
                raise Mismatch("a resumed run keeps its seed and initial state; do not pass others")
            every = grid_to_continue(resume, agent, problem, horizon, every, episodes, trajectory)
            if horizon == resume.horizon:
                return resume
            seed, position = resume.seed, resume.position
            words = (resume.words[0].copy(), resume.words[1].copy())

        last = int(np.searchsorted(problem.change_points, horizon, side="right"))
        world = World(
            model=problem.configuration(position.change).model,
            actions=problem.pairs.actions,
            patches=problem.patches,
            change_points=problem.change_points[:last].copy(),
            gains=optimal_gains(problem, last),
            law=problem.law.code,
            parameter=problem.law.parameter,
            reward_words=words[0],
            move_words=words[1],
        )
        first = position.t
        steps = horizon + 1 - first if trajectory else 0
        times = _grid(first, horizon, every)
        trace = Trace(
            np.zeros(len(times)), np.zeros(len(times)),
            np.zeros(steps, np.int32), np.zeros(steps, np.int32), np.zeros(steps),
        )  # fmt: skip
        seen = 0 if resume is None else getattr(agent, "episode", 0)
        room = max(256, FIRST_LOG // problem.n_states) if episodes else 0
        log = _empty_log(room, problem.n_states, seen)
        if role is not None and hasattr(agent, "reseed"):
            agent.reseed(role)
        as_machine = JIT and has_machine_code and not interpreted
        runner = _MachineRunner(agent) if as_machine else _InterpretedRunner(agent, problem)
        position, log, interrupted = _run_in_pieces(
            runner, world, log, trace, position, horizon, every, progress
        )

        done = position.t - 1
        if interrupted:
            times, trace = _cut(times, trace, world, position, first)
        fresh = Record(
            times=times,
            regret=trace.regret,
            pseudo_regret=trace.pseudo_regret,
            episodes=_episodes(log, done) if episodes else None,
            trajectory=(
                Trajectory(trace.states, trace.actions, trace.rewards) if trajectory else None
            ),
            agent=type(agent).__qualname__, agent_t=getattr(agent, "t", None),
            seed=seed, every=every, final_state=position.state,
            position=position, words=words, problem=problem,
        )  # fmt: skip
    record = fresh if resume is None else joined(resume, fresh) if done >= first else resume
    if interrupted:
        raise Interrupted(record, horizon) from None
    return record


class _MachineRunner:
    """Runs a compiled agent as machine code."""

    can_hang = False

    def __init__(self, agent: Any) -> None:
        self._agent = agent
        self._code: Any = None

    def prepare(self, *arguments: Any) -> None:
        self._code = compile_for(loop.run, self._agent, *arguments)

    def __call__(self, *arguments: Any) -> Position:  # with signals delayed
        state, position = self._code(pack(self._agent), *arguments)
        unpack(self._agent, state)
        return _position(position)


class _InterpretedRunner:
    """Runs any agent with the methods `act` and `observe`."""

    can_hang = True

    def __init__(self, agent: Any, problem: SwitchingMDP) -> None:
        self._agent = _Checked(agent, problem)

    def prepare(self, *arguments: Any) -> None:
        pass

    def __call__(self, *arguments: Any) -> Position:
        # The random words wrap around on purpose.
        with compiled.interpreting(), np.errstate(over="ignore"):
            return _position(loop.run(self._agent, *arguments)[1])


def _position(fields: Any) -> Position:
    *numbers, settled = fields
    return Position._make([*numbers, Settled._make(settled)])


class _Checked:
    """A plain agent whose actions are checked before they reach the loop."""

    def __init__(self, agent: Any, problem: SwitchingMDP) -> None:
        self._agent = agent
        self._pairs = problem.pairs
        self.observe = agent.observe

    def act(self, state: int) -> int:
        action = self._agent.act(state)
        try:
            self._pairs.pair(state, action)
        except InvalidAction as error:
            what = f"the action that the agent chose in state {state}"
            raise InvalidAction(what, action, error.allowed) from None
        return int(action)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._agent, name)


def _run_in_pieces(
    runner: _MachineRunner | _InterpretedRunner, world: World, log: EpisodeLog, trace: Trace,
    position: Position, horizon: int, every: int, progress: Callable[[int, int], None] | None,
) -> tuple[Position, EpisodeLog, bool]:  # fmt: skip
    """Run in short pieces, so that a long run can report progress and be interrupted.

    Returns the position, the log, and whether Ctrl-C stopped the run there.
    """
    first, reported = position.t, time.monotonic()
    between_steps = True  # whether the agent and the position agree
    with pulse() as due:
        try:
            runner.prepare(log, world, trace, position, horizon, every, due)
            while position.t <= horizon:
                done = (position.t - 1) // every - (first - 1) // every
                step = position.t - first
                part = Trace(
                    trace.regret[done:], trace.pseudo_regret[done:],
                    trace.states[step:], trace.actions[step:], trace.rewards[step:],
                )  # fmt: skip
                due[0] = False
                with delayed_signals(until_repeated=runner.can_hang):
                    between_steps = False
                    position = runner(log, world, part, position, horizon, every, due)
                    between_steps = True
                if position.state < 0:
                    _refuse_action(world, position)
                if compiled.interpreted(loop.is_full)(log):
                    log = _with_twice_the_room(log)
                ended = position.t > horizon
                if progress is not None and (
                    ended or time.monotonic() - reported >= PROGRESS_SECONDS
                ):
                    reported = time.monotonic()
                    progress(position.t - 1, horizon)
        except KeyboardInterrupt:
            if not between_steps:
                raise
            return position, log, True
    return position, log, False


def _refuse_action(world: World, position: Position) -> None:
    s = -1 - position.state
    known = world.actions[world.model.starts[s] : world.model.starts[s + 1]].tolist()
    where = f"the agent's action in state {s} at step {position.t}"
    raise InvalidAction(where, "an action that is not available", f"one of {known}")


def _cut(
    times: NDArray[np.int64], trace: Trace, world: World, position: Position, first: int
) -> tuple[NDArray[np.int64], Trace]:
    """The grid and the trace up to a position, which becomes the last point."""
    done = position.t - 1
    n, steps = int(np.searchsorted(times, done, side="right")), done + 1 - first
    times, regret, pseudo = times[:n], trace.regret[:n], trace.pseudo_regret[:n]
    if done >= first and (n == 0 or times[-1] != done):
        here = position.gains + world.gains[position.change] * (position.t - position.segment)
        before = compiled.interpreted(loop.settled_part)(position.settled)
        times = np.append(times, done)
        regret = np.append(regret, before[0] + (here - position.rewards))
        pseudo = np.append(pseudo, before[1] + (here - position.means))
    steps_done = (trace.states[:steps], trace.actions[:steps], trace.rewards[:steps])
    return times, Trace(regret, pseudo, *steps_done)


def _empty_log(room: int, n_states: int, seen: int) -> EpisodeLog:
    start, sweeps = np.zeros(room, np.int64), np.zeros(room, np.int64)
    policy, since = np.zeros((room, n_states), np.int32), np.zeros(room, np.int64)
    return EpisodeLog(start, np.zeros(room), sweeps, policy, since, np.array([seen, 0]))


def _with_twice_the_room(log: EpisodeLog) -> EpisodeLog:
    more = _empty_log(len(log.start), log.policy.shape[1], 0)
    return EpisodeLog(
        np.concatenate([log.start, more.start]), np.concatenate([log.gain, more.gain]),
        np.concatenate([log.sweeps, more.sweeps]), np.concatenate([log.policy, more.policy]),
        np.concatenate([log.since, more.since]), log.seen,
    )  # fmt: skip


def _grid(first: int, horizon: int, every: int) -> Any:
    """The multiples of `every` from `first` on, and the horizon."""
    times = np.arange(-(-first // every) * every, horizon + 1, every, dtype=np.int64)
    return times if len(times) and times[-1] == horizon else np.append(times, horizon)


def _episodes(log: EpisodeLog, horizon: int) -> Episodes:
    n = int(log.seen[1])
    start = log.start[:n].copy()
    length = np.diff(start, append=horizon + 1)
    return Episodes(
        start, length, log.gain[:n].copy(), log.sweeps[:n].copy(), log.policy[:n].copy(),
        log.since[:n].copy(),
    )  # fmt: skip


def _must_fit(agent: Any, problem: SwitchingMDP) -> None:
    for verb in ("act", "observe"):
        if isinstance(agent, type) or not callable(getattr(agent, verb, None)):
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
