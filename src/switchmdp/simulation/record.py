"""The record of a run: regret on a grid and, on request, its episodes and its trajectory.

`grid_to_continue` checks that a run may continue a record, and `joined` makes one record of two
consecutive ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, overload

import numpy as np
from numpy.typing import NDArray

from switchmdp.display import counted, html_table, present, sparkline, visible
from switchmdp.equality import EqualByFields, same
from switchmdp.errors import InvalidParameter, Mismatch
from switchmdp.mdp import SwitchingMDP
from switchmdp.simulation.loop import Position

if TYPE_CHECKING:
    from switchmdp.simulation.batch import Batch


@dataclass(frozen=True, eq=False, repr=False)
class Episodes(EqualByFields):
    """The episodes of a run: arrays with one entry per episode, in order.

    Parameters
    ----------
    start
        The first step of each episode.
    length
        The number of steps of each episode.
    gain
        The gain that the plan of each episode promised.
    sweeps
        The sweeps of value iteration that each plan took.
    policy
        The policy of each episode, one row of actions.
    since
        The first step that the agent still remembered.
    """

    start: NDArray[np.int64]
    length: NDArray[np.int64]
    gain: NDArray[np.float64]
    sweeps: NDArray[np.int64]
    policy: NDArray[np.int32]
    since: NDArray[np.int64]  # the first step that the agent still remembered

    def __repr__(self) -> str:
        if not len(self):
            return "Episodes(none)"
        lengths = f"lengths {self.length.min()} to {self.length.max()}"
        episodes, restarts = counted(len(self), "episode"), counted(len(self.restarts), "restart")
        sweeps = counted(self.sweeps.sum(), "sweep")
        return f"Episodes({episodes}, {lengths}, {restarts}, {sweeps})"

    def to_dataframe(self, library: str | None = None) -> Any:
        """The episodes, without their policies, as a data frame.

        Parameters
        ----------
        library
            `"pandas"`, `"polars"` or `"pyarrow"`; by default the first of them that is installed.

        Returns
        -------
        pandas.DataFrame, polars.DataFrame or pyarrow.Table
            One row for each episode.

        Raises
        ------
        MissingExtra
            If the library is not installed.
        """
        return present(
            "to_dataframe",
            {
                "start": self.start,
                "length": self.length,
                "gain": self.gain,
                "sweeps": self.sweeps,
                "since": self.since,
            },
            library=library,
        )

    @property
    def restarts(self) -> NDArray[np.int64]:
        """The steps at which the agent restarted, completely or in part."""
        steps: NDArray[np.int64] = self.start[np.diff(self.since, prepend=1) != 0]
        return steps

    def __len__(self) -> int:
        return len(self.start)


@dataclass(frozen=True, eq=False, repr=False)
class Trajectory(EqualByFields):
    """The state, action and reward of every step.

    Parameters
    ----------
    states
        The state before each step.
    actions
        The action of each step.
    rewards
        The reward of each step.
    """

    states: NDArray[np.int32]
    actions: NDArray[np.int32]
    rewards: NDArray[np.float64]

    def __repr__(self) -> str:
        return f"Trajectory({counted(len(self), 'step')}, total reward {self.rewards.sum():.6g})"

    def to_dataframe(self, library: str | None = None) -> Any:
        """The trajectory as a data frame.

        Parameters
        ----------
        library
            `"pandas"`, `"polars"` or `"pyarrow"`; by default the first of them that is installed.

        Returns
        -------
        pandas.DataFrame, polars.DataFrame or pyarrow.Table
            One row for each step.

        Raises
        ------
        MissingExtra
            If the library is not installed.
        """
        return present(
            "to_dataframe",
            {
                "step": np.arange(1, len(self) + 1),
                "state": self.states,
                "action": self.actions,
                "reward": self.rewards,
            },
            library=library,
        )

    def __len__(self) -> int:
        return len(self.states)


@dataclass(frozen=True, eq=False, repr=False)
class Record(EqualByFields):
    """The record of a run: its regret over time and, on request, its episodes and trajectory.

    Regret may be negative: Σρ* is not the maximum of what can be earned in finite time.

    Parameters
    ----------
    times
        The steps after which regret was recorded.
    regret
        Σ(ρ*_t - r_t) up to each of these steps.
    pseudo_regret
        The same with the mean reward r̄(s_t, a_t) in place of r_t, which has far less noise.
    episodes
        The episodes; None unless they were recorded with `episodes=True`.
    trajectory
        All states, actions and rewards; None unless they were recorded with `trajectory=True`.
    agent
        The name of the agent's class.
    agent_t
        The time of the agent at the end, or None if it has no clock.
    seed
        The seed of the run.
    every
        The number of steps between two recorded points.
    final_state
        The state after the last step.
    position
        Where the run stands, for `resume`.
    words
        The states of the random streams, for `resume`.
    problem
        The problem.
    """

    times: NDArray[np.int64]
    regret: NDArray[np.float64]
    pseudo_regret: NDArray[np.float64]
    episodes: Episodes | None
    trajectory: Trajectory | None
    agent: str
    agent_t: int | None
    seed: int
    every: int
    final_state: int
    # The state of the run, from which `resume` continues.
    position: Position
    words: tuple[Any, Any]
    problem: Any

    def __repr__(self) -> str:
        regret = f"regret={self.regret[-1]:.6g}" if len(self.regret) else "no steps"
        parts = [counted(len(self.times), "point")]
        parts += [] if self.episodes is None else [counted(len(self.episodes), "episode")]
        parts += [] if self.trajectory is None else ["trajectory"]
        parts += ["no change point reached"] if self._is_before_all_changes() else []
        parts += [f"no {self._not_recorded()} recorded"] if self._not_recorded() else []
        return (
            f"Record({self.agent}, horizon={self.horizon}, seed={self.seed}, {regret}, "
            f"{', '.join(parts)})"
        )

    def _not_recorded(self) -> str:
        """The parts that were not requested from `simulate`, by their parameters."""
        names = ("episodes", "trajectory")
        return " or ".join(name for name in names if getattr(self, name) is None)

    def _is_before_all_changes(self) -> bool:
        """Whether the problem changes, but only after the run."""
        points = self.problem.change_points
        return len(points) > 0 and bool(points[0] > self.horizon)

    def __eq__(self, other: object) -> bool:
        """Whether all fields are equal; problems are compared by their content."""
        if type(other) is not type(self):
            return False
        fields, others = dict(vars(self)), dict(vars(other))
        one, two = fields.pop("problem"), others.pop("problem")
        return same(fields, others) and (one is two or _same(one, two))

    __hash__ = EqualByFields.__hash__

    def __dir__(self) -> list[str]:
        return visible(self, ("agent_t", "position", "words"))

    def _repr_html_(self) -> str:
        rows: dict[str, Any] = {"agent": self.agent, "steps": self.horizon, "seed": self.seed}
        if len(self.regret):
            rows |= {
                "regret": f"{self.regret[-1]:.6g}",
                "pseudo-regret": f"{self.pseudo_regret[-1]:.6g}",
                "mean reward": f"{self.total_reward / self.horizon:.6g}",
            }  # fmt: skip
        if self.episodes is not None:
            rows |= {"episodes": len(self.episodes), "restarts": len(self.episodes.restarts)}
        if self._is_before_all_changes():
            rows |= {"changes": f"none; the first is at step {self.problem.change_points[0]}"}
        if missing := self._not_recorded():
            rows |= {"not recorded": missing}
        return html_table("Record", rows, sparkline(self.regret, "regret over time"))

    def plot(self) -> Any:
        """Draw regret and pseudo-regret over time, with the change points (extra `plot`).

        Returns
        -------
        matplotlib.figure.Figure
            The figure. A notebook shows it; `reports.save_figure` writes it to a file.
        """
        return present("plot", self)

    def to_dataframe(self, library: str | None = None) -> Any:
        """The regret over time as a data frame.

        Parameters
        ----------
        library
            `"pandas"`, `"polars"` or `"pyarrow"`; by default the first of them that is installed.

        Returns
        -------
        pandas.DataFrame, polars.DataFrame or pyarrow.Table
            One row for each point of the grid.

        Raises
        ------
        MissingExtra
            If the library is not installed.
        """
        return present(
            "to_dataframe",
            {
                "step": self.times,
                "regret": self.regret,
                "pseudo_regret": self.pseudo_regret,
            },
            library=library,
        )

    @property
    def horizon(self) -> int:
        """The number of steps run."""
        return self.position.t - 1

    @property
    def total_reward(self) -> float:
        """The sum of all rewards."""
        settled = self.position.settled
        return settled.rewards + settled.rewards_rest + self.position.rewards


class Records(Sequence[Record]):
    """The records of a batch of runs, a sequence of `Record`.

    `records[i]` is the record of run i. `regret` and `pseudo_regret` have one row for each run.
    `seconds[i]` is the time that its steps took. (One call into machine code runs many of them, and
    its time is divided equally.)

    Parameters
    ----------
    batch
        The runs.
    seeds
        The seed of each run.

    Examples
    --------
    >>> import switchmdp as sm
    >>> problem = sm.problems.random_switching(5, 3, changes=1, horizon=100, seed=0)
    >>> agents = [sm.agents.Random(5, 3), sm.agents.UCRL2(5, 3)]
    >>> sm.simulate_batch(agents, problem, horizon=100)
    Records(2 runs, 100 points each)
    """

    def __init__(self, batch: Batch, seeds: Sequence[int]) -> None:
        self.batch, self._seeds = batch, seeds
        self.times, self.seconds = batch.times, batch.seconds
        self.regret, self.pseudo_regret = batch.runs.regret, batch.runs.pseudo_regret

    @property
    def has_episodes(self) -> bool:
        """Whether episodes were recorded."""
        return self.batch.episodes

    @property
    def episode_counts(self) -> NDArray[np.int64]:
        """The number of episodes of each run."""
        return self.batch.pool.seen[:, 1]

    @property
    def sweeps(self) -> NDArray[np.int64]:
        """The sweeps of value iteration in all episodes of each run."""
        return self._sums(self.batch.pool.sweeps[: self.episode_counts.sum()])

    @property
    def restarts(self) -> list[NDArray[np.int64]]:
        """The steps at which the agent of each run restarted, completely or in part."""
        pool, n = self.batch.pool, int(self.episode_counts.sum())
        before = np.roll(pool.since[:n], 1)
        before[pool.first[self.episode_counts > 0]] = 1
        restarted = pool.since[:n] != before
        steps, ends = pool.start[:n][restarted], np.cumsum(self._sums(restarted)).tolist()
        return [steps[first:last] for first, last in pairwise([0, *ends])]

    def _sums(self, per_episode: NDArray[Any]) -> NDArray[np.int64]:
        """The sum over the episodes of each run."""
        totals = np.concatenate([[0], np.cumsum(per_episode, dtype=np.int64)])
        first = self.batch.pool.first
        sums: NDArray[np.int64] = totals[first + self.episode_counts] - totals[first]
        return sums

    def __repr__(self) -> str:
        runs, points = counted(len(self), "run"), counted(len(self.times), "point")
        return f"Records({runs}, {points} each)"

    def plot(self) -> Any:
        """Draw the regret of every run, and the mean, over time (extra `plot`).

        Returns
        -------
        matplotlib.figure.Figure
            The figure. A notebook shows it; `reports.save_figure` writes it to a file.
        """
        return present("plot", self)

    def to_dataframe(self, library: str | None = None) -> Any:
        """The regret of all runs over time as a data frame.

        Parameters
        ----------
        library
            `"pandas"`, `"polars"` or `"pyarrow"`; by default the first of them that is installed.

        Returns
        -------
        pandas.DataFrame, polars.DataFrame or pyarrow.Table
            One row for each run and point of the grid.

        Raises
        ------
        MissingExtra
            If the library is not installed.
        """
        return present(
            "to_dataframe",
            {
                "run": np.repeat(np.arange(len(self)), len(self.times)),
                "step": np.tile(self.times, len(self)),
                "regret": self.regret.ravel(),
                "pseudo_regret": self.pseudo_regret.ravel(),
            },
            library=library,
        )

    def __len__(self) -> int:
        return len(self._seeds)

    @overload
    def __getitem__(self, i: int) -> Record: ...

    @overload
    def __getitem__(self, i: slice) -> list[Record]: ...

    def __getitem__(self, i: int | slice) -> Record | list[Record]:
        runs = range(len(self))[i]  # which checks the index
        if isinstance(runs, range):
            return [self.batch.record(k, self._seeds[k]) for k in runs]
        return self.batch.record(runs, self._seeds[runs])


def grid_to_continue(
    record: Record, agent: Any, problem: SwitchingMDP, horizon: int, every: int | None,
    episodes: bool, trajectory: bool,
) -> int:  # fmt: skip
    """The grid of a record, after checking that this run may continue it."""
    if not isinstance(record, Record):
        raise InvalidParameter("resume", record, "the record of an earlier run")
    if record.agent != type(agent).__qualname__:
        raise Mismatch(
            f"the record to resume was made by {record.agent}, not {type(agent).__qualname__}"
        )
    if record.problem is not problem and not _same(record.problem, problem):
        raise Mismatch("the record to resume was made on another problem")
    if horizon < record.horizon:
        raise InvalidParameter(
            "horizon", horizon, f"at least the {record.horizon} steps run before"
        )
    if every is not None and every != record.every:
        raise Mismatch(f"the record to resume has a grid of every={record.every}, not {every}")
    if episodes != (record.episodes is not None) or trajectory != (record.trajectory is not None):
        raise Mismatch("resume with the same episodes= and trajectory= as before")
    if getattr(agent, "t", None) != record.agent_t:
        raise Mismatch(
            f"the agent is at t = {getattr(agent, 't', None)}, but the record to resume ends at "
            f"t = {record.agent_t}: resume with the agent that made the record"
        )
    return record.every


def _same(a: SwitchingMDP, b: SwitchingMDP) -> bool:
    theirs: list[tuple[Any, Any]] = list(zip(a.model, b.model, strict=True))
    theirs += zip(a.patches, b.patches, strict=True)
    theirs.append((a.change_points, b.change_points))
    theirs.append((a.pairs.actions, b.pairs.actions))
    return a.law == b.law and all(np.array_equal(x, y) for x, y in theirs)


def joined(before: Record, after: Record) -> Record:
    """One record of both pieces; the end of the first is kept only if it is a grid point."""
    keep = len(before.times) - (before.horizon % before.every != 0)
    parts: dict[str, Any] = {
        name: np.concatenate([getattr(before, name)[:keep], getattr(after, name)])
        for name in ("times", "regret", "pseudo_regret")
    }
    if before.episodes is not None and after.episodes is not None:
        joined = {
            name: np.concatenate([getattr(before.episodes, name), getattr(after.episodes, name)])
            for name in ("start", "gain", "sweeps", "policy", "since")
        }
        length = np.diff(joined["start"], append=after.horizon + 1)
        parts["episodes"] = Episodes(length=length, **joined)
    if before.trajectory is not None and after.trajectory is not None:
        one, two = before.trajectory, after.trajectory
        parts["trajectory"] = Trajectory(
            np.concatenate([one.states, two.states]),
            np.concatenate([one.actions, two.actions]),
            np.concatenate([one.rewards, two.rewards]),
        )
    return Record(**{**vars(after), **parts})
