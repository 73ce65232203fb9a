"""One run: its world, its record in the making, and where it stands.

A run advances in pieces of at most a twentieth of a second, so that it can report progress and be
interrupted between two steps.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from switchmdp import compiled
from switchmdp.compiled import JIT, FlatFunction, flat_function
from switchmdp.concurrency import Flag
from switchmdp.errors import InvalidAction
from switchmdp.mdp import SwitchingMDP
from switchmdp.planning.gain import optimal_gains
from switchmdp.simulation import loop
from switchmdp.simulation.loop import EpisodeLog, Position, Settled, Trace, World
from switchmdp.simulation.record import Episodes, Record, Trajectory

FIRST_LOG = 20_480  # initial capacity for episodes, in entries of policies
ARGUMENTS = ["log", "world", "trace", "at", "horizon", "every", "due"]
SUMS = [f"settled_{name}" for name in Settled._fields]
RESULTS = [*Position._fields[:-1], *SUMS]


class Run:
    """A run of an agent on a problem, from a position to the horizon."""

    def __init__(
        self, agent: Any, problem: SwitchingMDP, position: Position, words: tuple[Any, Any],
        role: Any, horizon: int, every: int, times: NDArray[np.int64], regret: NDArray[np.float64],
        pseudo_regret: NDArray[np.float64], *, episodes: bool, trajectory: bool,
        machine_code: FlatFunction | None,
    ) -> None:  # fmt: skip
        self.agent, self.problem, self.position, self.words = agent, problem, position, words
        self.horizon, self.every, self.times = horizon, every, times
        self.first = position.t
        last = int(problem.change_points.searchsorted(horizon, side="right"))
        self.world = World(
            model=problem.model_at(position.change),
            full_rows=problem.full_rows,
            actions=problem.pairs.actions,
            patches=problem.patches,
            change_points=problem.change_points[:last].copy(),
            gains=optimal_gains(problem, last),
            law=problem.law.code,
            parameter=problem.law.parameter,
            reward_words=words[0],
            move_words=words[1],
        )
        steps = _empty_steps(horizon + 1 - position.t) if trajectory else NO_STEPS
        self.trace = Trace(regret, pseudo_regret, *steps)
        self.episodes, self.trajectory, self.log = episodes, trajectory, NO_LOG
        if episodes:
            room = max(256, FIRST_LOG // problem.n_states)
            seen = 0 if position.t == 1 else getattr(agent, "episode", 0)
            self.log = _empty_log(room, problem.n_states, seen)
        self.between_steps = True  # whether the agent and the position agree
        self.seconds = 0.0  # that its steps took
        self._role, self._machine_code = role, machine_code
        self._run = machine_code or _interpreted(problem)

    @property
    def ended(self) -> bool:
        """Whether all steps are done."""
        return self.position.t > self.horizon

    @property
    def begun(self) -> bool:
        """Whether any step is done."""
        return self.position.t > self.first

    @property
    def can_hang(self) -> bool:
        """Whether a piece may never end: code of the user may do anything."""
        return self._machine_code is None

    def prepare(self, due: Flag) -> None:
        """Seed a new agent, and compile it unless that was done before."""
        if self._role is not None and hasattr(self.agent, "reseed"):
            self.agent.reseed(self._role)
        if self._machine_code is not None:
            self._machine_code.compile(
                self.agent, self.log, self.world, self.trace, self.position, self.horizon,
                self.every, due,
            )  # fmt: skip

    def advance(self, due: Flag) -> None:
        """Run until the horizon, or until `due` is set; with signals delayed."""
        began = time.perf_counter()
        position, trace = self.position, self.trace
        if position.t > self.first:
            done = (position.t - 1) // self.every - (self.first - 1) // self.every
            step = position.t - self.first
            trace = Trace(
                trace.regret[done:], trace.pseudo_regret[done:],
                trace.states[step:], trace.actions[step:], trace.rewards[step:],
            )  # fmt: skip
        self.between_steps = False
        numbers = self._run(
            self.agent, self.log, self.world, trace, position, self.horizon, self.every, due
        )
        t, state, change, segment, gains, rewards, means, *sums = numbers
        settled = Settled(*sums)
        position = Position(t, state, change, segment, gains, rewards, means, settled)
        self.position = position
        self.between_steps = True
        self.seconds += time.perf_counter() - began
        if position.state < 0:
            _refuse_action(self.world, position)
        if self.episodes and compiled.interpreted(loop.is_full)(self.log):
            self.log = _with_twice_the_room(self.log)

    def record(self, seed: int) -> Record:
        """The record of the steps that are done."""
        times, trace, agent = self.times, self.trace, self.agent
        if not self.ended:
            times, trace = _cut(times, trace, self.world, self.position, self.first)
        steps = (trace.states, trace.actions, trace.rewards)
        return Record(
            times=times,
            regret=trace.regret,
            pseudo_regret=trace.pseudo_regret,
            episodes=_episodes(self.log, self.position.t - 1) if self.episodes else None,
            trajectory=Trajectory(*steps) if self.trajectory else None,
            agent=type(agent).__qualname__, agent_t=getattr(agent, "t", None),
            seed=seed, every=self.every, final_state=self.position.state,
            position=self.position, words=self.words, problem=self.problem,
        )  # fmt: skip


def machine_code_for(agent: Any) -> FlatFunction | None:
    """The loop with this agent as machine code, not compiled yet; None if that can't be."""
    return flat_function(loop.run, agent, ARGUMENTS, RESULTS) if JIT else None


def _interpreted(problem: SwitchingMDP) -> Callable[..., tuple[Any, ...]]:
    """The loop for any agent with the methods `act` and `observe`."""
    run = compiled.interpreted(loop.run)

    def interpreted(agent: Any, *arguments: Any) -> tuple[Any, ...]:
        # The random words wrap around on purpose.
        with compiled.interpreting(), np.errstate(over="ignore"):
            numbers: tuple[Any, ...] = run(_Checked(agent, problem), *arguments)
        return numbers

    return interpreted


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


def grid(first: int, horizon: int, every: int) -> NDArray[np.int64]:
    """The multiples of `every` from `first` on, and the horizon.

    >>> grid(1, 25, 10).tolist()
    [10, 20, 25]
    """
    times = np.arange(-(-first // every) * every, horizon + 1, every, dtype=np.int64)
    return times if len(times) and times[-1] == horizon else np.append(times, horizon)


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


def _empty_steps(n: int) -> tuple[Any, Any, Any]:
    return np.zeros(n, np.int32), np.zeros(n, np.int32), np.zeros(n)


NO_LOG, NO_STEPS = _empty_log(0, 1, 0), _empty_steps(0)  # where none is wanted, nothing is written


def _with_twice_the_room(log: EpisodeLog) -> EpisodeLog:
    more = _empty_log(len(log.start), log.policy.shape[1], 0)
    return EpisodeLog(
        np.concatenate([log.start, more.start]), np.concatenate([log.gain, more.gain]),
        np.concatenate([log.sweeps, more.sweeps]), np.concatenate([log.policy, more.policy]),
        np.concatenate([log.since, more.since]), log.seen,
    )  # fmt: skip


def _episodes(log: EpisodeLog, horizon: int) -> Episodes:
    n = int(log.seen[1])
    start = log.start[:n].copy()
    length = np.diff(start, append=horizon + 1)
    return Episodes(
        start, length, log.gain[:n].copy(), log.sweeps[:n].copy(), log.policy[:n].copy(),
        log.since[:n].copy(),
    )  # fmt: skip
