"""The record of a run: regret on a grid and, on request, its episodes and its trajectory.

`grid_to_continue` checks that a run may continue a record, and `joined` makes one record of two
consecutive ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from switchmdp.errors import InvalidParameter, Mismatch
from switchmdp.mdp import SwitchingMDP
from switchmdp.simulation.loop import Position


@dataclass(frozen=True, repr=False)
class Episodes:
    """The episodes of a run: arrays with one entry per episode, in order."""

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
        restarts = f"{len(self.restarts)} restarts"
        return f"Episodes({len(self)} episodes, {lengths}, {restarts}, {self.sweeps.sum()} sweeps)"

    @property
    def restarts(self) -> NDArray[np.int64]:
        """The steps at which the agent restarted, completely or in part."""
        steps: NDArray[np.int64] = self.start[np.diff(self.since, prepend=1) != 0]
        return steps

    def __len__(self) -> int:
        return len(self.start)


@dataclass(frozen=True, repr=False)
class Trajectory:
    """The state, action and reward of every step."""

    states: NDArray[np.int32]
    actions: NDArray[np.int32]
    rewards: NDArray[np.float64]

    def __repr__(self) -> str:
        return f"Trajectory({len(self)} steps, total reward {self.rewards.sum():.6g})"

    def __len__(self) -> int:
        return len(self.states)


@dataclass(frozen=True, repr=False)
class Record:
    """The record of a run up to `horizon`.

    `regret[i]` is Σ(ρ*_t - r_t) up to step `times[i]`; `pseudo_regret` uses the mean r̄(s_t, a_t)
    instead of the reward r_t and has far less noise. Both may be negative: Σρ* is not the maximum
    of what can be earned in finite time.
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
        parts = [f"{len(self.times)} points"]
        parts += [] if self.episodes is None else [f"{len(self.episodes)} episodes"]
        parts += [] if self.trajectory is None else ["trajectory"]
        return (
            f"Record({self.agent}, horizon={self.horizon}, seed={self.seed}, {regret}, "
            f"{', '.join(parts)})"
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
    """The records of a batch. `regret` and `pseudo_regret` have one row for each run.

    `records[i]` is the record of run i; its curves are row i. `seconds[i]` is the time that its
    steps took.

    >>> import switchmdp as sm
    >>> problem = sm.problems.random_switching(5, 3, changes=1, horizon=100, seed=0)
    >>> agents = [sm.agents.Random(5, 3), sm.agents.UCRL2(5, 3)]
    >>> sm.simulate_batch(agents, problem, horizon=100)
    Records(2 runs, 100 points each)
    """

    def __init__(
        self, times: NDArray[np.int64], regret: NDArray[np.float64],
        pseudo_regret: NDArray[np.float64], seconds: Sequence[float], records: list[Record],
    ) -> None:  # fmt: skip
        self.times, self.regret, self.pseudo_regret = times, regret, pseudo_regret
        self.seconds = np.array(seconds)
        self._records = records

    def __repr__(self) -> str:
        return f"Records({len(self)} runs, {len(self.times)} points each)"

    def __len__(self) -> int:
        return len(self._records)

    @overload
    def __getitem__(self, i: int) -> Record: ...

    @overload
    def __getitem__(self, i: slice) -> list[Record]: ...

    def __getitem__(self, i: int | slice) -> Record | list[Record]:
        return self._records[i]


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
