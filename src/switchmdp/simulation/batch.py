"""A batch: runs whose problems, positions and records are parts of common arrays.

Each run has its own agent, or all runs start with a copy of one agent. Then one call into
machine code simulates many runs: it copies the agent, gives the copy the random words of the run,
and runs it.

A call ends when `due` is set, which happens every twentieth of a second, so that the batch can
report progress and be interrupted between two steps. If that was in the middle of a run, its copy
comes back as a Python object, and the next call continues with it.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from copy import deepcopy
from itertools import accumulate
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from switchmdp import compiled
from switchmdp.compiled import JIT, BatchFunction, batch_function
from switchmdp.concurrency import Flag
from switchmdp.errors import InvalidAction
from switchmdp.mdp import SwitchingMDP
from switchmdp.planning.gain import optimal_gains
from switchmdp.randomness import run_seed, stream
from switchmdp.simulation import loop
from switchmdp.simulation.loop import EpisodePool, Position, Problems, Runs, Settled
from switchmdp.simulation.record import Episodes, Record, Trajectory

ARGUMENTS = ["problems", "runs", "pool", "first", "horizon", "every", "due"]
ROOM = 20_480  # for the episodes of a run at first, in entries of policies
NO_WORDS = np.zeros((0, 4), np.uint64)


class Batch:
    """Runs from one position to the horizon, one after another.

    `agents` has one agent for each run or, with `copies`, one of which each run gets a copy.
    `words` are the random words of the rewards and transitions of each run. With `seeds` each run
    also reseeds its agent.
    """

    def __init__(
        self, agents: Sequence[Any], problems: Sequence[SwitchingMDP], position: Position,
        words: Any, seeds: Sequence[int] | None, horizon: int, every: int, *,
        episodes: bool, trajectory: bool, interpreted: bool, copies: bool = False,
    ) -> None:  # fmt: skip
        n, n_states = len(problems), max((p.n_states for p in problems), default=1)
        self.agents, self.problems = agents, problems
        self.horizon, self.every, self.first = horizon, every, position.t
        self.times = grid(self.first, horizon, every)
        self.episodes, self.trajectory = episodes, trajectory
        self.current = 0  # the run that comes next, or is under way
        self.between_steps = True  # whether agents and positions agree
        self.seconds = np.zeros(n)
        self._code = [None if interpreted else machine_code_for(agent) for agent in agents]
        self._seeds, self._words, self._is_template = seeds, words[-1], copies
        self._copy: Any = None  # the agent of a run that is under way, if it is a copy
        self.pooled, numbers = pool_problems(problems, horizon)
        rows = [p.model_at(position.change).row for p in problems]
        points, steps = len(self.times), horizon + 1 - self.first if trajectory else 0
        self.runs = Runs(
            problem=numbers,
            row=rows[0] if n == 1 else np.concatenate([np.zeros(0, np.int64), *rows]),
            row_bounds=np.array([*accumulate(map(len, rows), initial=0)]),
            numbers=np.array([position[:4]] * n, np.int64).reshape(n, 4),
            sums=np.array([[*position[4:7], *position.settled]] * n, float).reshape(n, 9),
            reward_words=words[0], move_words=words[1],
            regret=np.zeros((n, points)), pseudo_regret=np.zeros((n, points)),
            states=np.zeros((n, steps), np.int32), actions=np.zeros((n, steps), np.int32),
            rewards=np.zeros((n, steps)),
        )  # fmt: skip
        seen = np.zeros((n, 2), np.int64)
        if self.first > 1:
            seen[:, 0] = [getattr(agent, "episode", 0) for agent in agents]
        self.pool = NO_EPISODES._replace(first=np.zeros(n, np.int64), seen=seen)
        if episodes:
            self.pool = _empty_pool(max(256, ROOM // n_states) * n, n_states, seen)

    def __len__(self) -> int:
        return len(self.seconds)

    @property
    def ended(self) -> bool:
        """Whether all runs have reached the horizon."""
        return self.current == len(self)

    @property
    def steps_done(self) -> int:
        """The number of steps of all runs."""
        return int(self.runs.numbers[:, 0].sum()) - len(self) * self.first

    @property
    def can_hang(self) -> bool:
        """Whether a call may never end, because it runs code of the user."""
        return None in self._code

    def prepare(self, due: Flag) -> None:
        """Seed the agents, and compile what was not compiled before."""
        code, seeds = self._code[0] if self._code else None, self._seeds or ()
        if self._is_template and (code is None or not _takes_words(self.agents[0], code)):
            self._is_template = False  # the copies are made and seeded here
            self.agents = [deepcopy(self.agents[0]) for _ in seeds]
            self._code = [code] * len(seeds)
        if not self._is_template:
            for agent, seed in zip(self.agents, seeds, strict=False):
                if hasattr(agent, "reseed"):
                    agent.reseed(run_seed(seed, 2))
        for agent, code in zip(self.agents, self._code, strict=True):
            if code is not None:
                code.compile(agent, *self._arguments(due))

    def advance(self, due: Flag) -> None:
        """Continue the runs until all have ended or `due` is set. Call it with signals delayed."""
        n = len(self)
        while self.current < n:
            began, i = time.perf_counter(), self.current
            self.between_steps = False
            last = self._call(i, due)
            self.between_steps = True
            # Only a call is timed: its runs get equal shares.
            self.seconds[i : last + 1] += (time.perf_counter() - began) / (last + 1 - i)
            if self.runs.numbers[last, 0] > self.horizon:
                self.current = last + 1
            else:
                self.current = last
                self._make_way(last)
            if due[0]:
                break

    def _call(self, i: int, due: Flag) -> int:
        """Simulate run i, and those after it if they can be in the same call; returns the last."""
        k = 0 if self._is_template else i
        agent, code = self.agents[k], self._code[k]
        if code is None:
            run = compiled.interpreted(loop.run)
            # The random words wrap around on purpose.
            with compiled.interpreting(), np.errstate(over="ignore"):
                run(_Checked(agent, self.problems[i]), i, *self._arguments(due))
            return i
        if not self._is_template or self._copy is not None:
            running = agent if self._copy is None else self._copy
            code(running, NO_WORDS, False, i, i + 1, *self._arguments(due))
            if self.runs.numbers[i, 0] > self.horizon:
                self._copy = None
            return i
        fields, last = code(agent, self._words, True, i, len(self), *self._arguments(due))
        if self.runs.numbers[last, 0] <= self.horizon:
            self._copy = code.layout.copy_with(agent, fields)
        return last

    def _arguments(self, due: Flag) -> tuple[Any, ...]:
        return (
            self.pooled, self.runs, self.pool, self.first, self.horizon, self.every, due
        )  # fmt: skip

    def _make_way(self, i: int) -> None:
        """Remove what stops a run: a full log, or an invalid action."""
        state, pool = int(self.runs.numbers[i, 1]), self.pool
        if state < 0:
            known = self.problems[i].pairs.at(-1 - state)
            t = self.runs.numbers[i, 0]
            where = f"the agent's action in state {-1 - state} at step {t}"
            raise InvalidAction(where, "an action that is not available", f"one of {known}")
        used = int(pool.first[i] + pool.seen[i, 1])
        if self.episodes and used >= len(pool.start):
            more = _empty_pool(2 * used, pool.policy.shape[1], pool.seen)
            self.pool = more._replace(first=pool.first)
            for name in LOGGED:
                getattr(self.pool, name)[:used] = getattr(pool, name)[:used]

    def __getstate__(self) -> dict[str, Any]:
        """Without machine code, which cannot be pickled and which records do not need."""
        return {**vars(self), "_code": [None] * len(self._code)}

    def agent(self, i: int) -> Any:
        """The agent of run i, which is the first or under way."""
        if not self._is_template:
            return self.agents[i]
        if self._copy is None and self.runs.numbers[i, 0] == self.first and self._seeds:
            agent = deepcopy(self.agents[0])  # the run has not begun
            if hasattr(agent, "reseed"):
                agent.reseed(run_seed(self._seeds[i], 2))
            return agent
        return self._copy

    def record(self, i: int, seed: int) -> Record:
        """The record of the steps of run i that are done."""
        runs, agent = self.runs, self.agents[0 if self._is_template else i]
        t, state, change, segment = runs.numbers[i].tolist()
        sums = runs.sums[i].tolist()
        gains, rewards, means, *settled = sums
        position = Position(t, state, change, segment, gains, rewards, means, Settled(*settled))
        agent_t = getattr(agent, "t", None)
        if agent_t is not None and self._is_template:
            agent_t += t - self.first
        times, regret, pseudo, steps = self.times, runs.regret[i], runs.pseudo_regret[i], None
        if t <= self.horizon:
            times, regret, pseudo = self._cut(i, position)
        if self.trajectory:
            done = slice(t - self.first)
            steps = Trajectory(runs.states[i, done], runs.actions[i, done], runs.rewards[i, done])
        return Record(
            times=times, regret=regret, pseudo_regret=pseudo,
            episodes=self._episodes(i, t - 1) if self.episodes else None, trajectory=steps,
            agent=type(agent).__qualname__, agent_t=agent_t, seed=seed, every=self.every,
            final_state=state, position=position,
            words=(runs.reward_words[i], runs.move_words[i]), problem=self.problems[i],
        )  # fmt: skip

    def _cut(self, i: int, position: Position) -> tuple[Any, Any, Any]:
        """Times, regret and pseudo-regret up to a position, which becomes the last point."""
        done = position.t - 1
        n = int(np.searchsorted(self.times, done, side="right"))
        times, regret = self.times[:n], self.runs.regret[i, :n]
        pseudo = self.runs.pseudo_regret[i, :n]
        if done >= self.first and (n == 0 or times[-1] != done):
            gain = optimal_gains(self.problems[i], position.change)[-1]
            here = position.gains + gain * (position.t - position.segment)
            before = compiled.interpreted(loop.settled_part)(position.settled)
            times = np.append(times, done)
            regret = np.append(regret, before[0] + (here - position.rewards))
            pseudo = np.append(pseudo, before[1] + (here - position.means))
        return times, regret, pseudo

    def _episodes(self, i: int, horizon: int) -> Episodes:
        pool, first = self.pool, int(self.pool.first[i])
        part = slice(first, first + int(pool.seen[i, 1]))
        start, n_states = pool.start[part].copy(), self.problems[i].n_states
        return Episodes(
            start, np.diff(start, append=horizon + 1), pool.gain[part].copy(),
            pool.sweeps[part].copy(), pool.policy[part, :n_states].copy(), pool.since[part].copy(),
        )  # fmt: skip


_nothing: Any = [np.zeros(0)] * len(Problems._fields)
NO_PROBLEMS = Problems(*_nothing)  # of an empty batch
_pools: WeakKeyDictionary[SwitchingMDP, tuple[int, Problems]] = WeakKeyDictionary()


def pool_problems(
    problems: Sequence[SwitchingMDP], horizon: int
) -> tuple[Problems, NDArray[np.int64]]:
    """The problems up to the horizon as common arrays, each once; and the number of each there."""
    number: dict[SwitchingMDP, int] = {}
    numbers = np.array([number.setdefault(p, len(number)) for p in problems], np.int64)
    pools = [_pool_of_one(problem, horizon) for problem in number]
    if len(pools) <= 1:
        return pools[0] if pools else NO_PROBLEMS, numbers
    columns = dict(zip(Problems._fields, zip(*pools, strict=True), strict=True))
    sizes = np.array([bounds[:, 1] for bounds in columns.pop("bounds")])
    bounds = np.zeros((sizes.shape[1], len(pools) + 1), np.int64)
    np.cumsum(sizes.T, axis=1, out=bounds[:, 1:])
    arrays = {name: np.concatenate(column) for name, column in columns.items()}
    return Problems(**arrays, bounds=bounds), numbers


def _pool_of_one(problem: SwitchingMDP, horizon: int) -> Problems:
    """A single problem, whose arrays are not copied; kept for its next run."""
    last, pool = _pools.get(problem, (-1, None))
    n = int(problem.change_points.searchsorted(horizon, side="right"))
    if pool is None or last != n:
        patches = problem.patches
        arrays: tuple[Any, ...] = (
            *problem.model, problem.pairs.actions, patches.offsets, patches.pair, patches.new,
            problem.change_points[:n].copy(), optimal_gains(problem, n),
        )  # fmt: skip
        pool = Problems(
            **dict(zip(Problems._fields, arrays, strict=False)),
            bounds=np.array([(0, len(array)) for array in arrays]),
            law=np.array([problem.law.code]), parameter=np.array([float(problem.law.parameter)]),
            full_rows=np.array([problem.full_rows]),
        )  # fmt: skip
        _pools[problem] = n, pool
    return pool


def machine_code_for(agent: Any) -> BatchFunction | None:
    """The loop with this agent as machine code, not compiled yet; None if that is impossible."""
    return batch_function(loop.run, agent, ARGUMENTS) if JIT else None


_known_to_take_words: dict[BatchFunction, bool] = {}


def _takes_words(agent: Any, code: BatchFunction) -> bool:
    """Whether `reseed` sets the random words to those of the seed, and changes nothing else.

    That is a property of the agent's classes. Machine code can then seed copies.
    """
    if code not in _known_to_take_words:
        taken = True
        if hasattr(agent, "reseed"):
            for seed in (1, 2):
                seeded = deepcopy(agent)
                seeded.reseed(seed)
                fields = zip(code.fields(seeded), code.fields(agent), code.are_words, strict=True)
                for now, before, is_word in fields:
                    expected = stream(seed) if is_word else before
                    taken = taken and np.asarray(now).tobytes() == np.asarray(expected).tobytes()
        _known_to_take_words[code] = taken
    return _known_to_take_words[code]


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


def _empty_pool(room: int, n_states: int, seen: NDArray[np.int64]) -> EpisodePool:
    """A pool whose memory is not touched before it is used."""
    start, sweeps, since = (np.empty(room, np.int64) for _ in range(3))
    policy, first = np.empty((room, n_states), np.int32), np.zeros(len(seen), np.int64)
    return EpisodePool(start, np.empty(room), sweeps, policy, since, first, seen)


LOGGED = ("start", "gain", "sweeps", "policy", "since")  # fields with one entry per episode
NO_EPISODES = _empty_pool(0, 1, np.zeros((0, 2), np.int64))
