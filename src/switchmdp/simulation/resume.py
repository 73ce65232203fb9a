"""Continuing a run: what may be resumed with what, and one record of two pieces."""

from __future__ import annotations

from typing import Any

import numpy as np

from switchmdp.errors import InvalidParameter, Mismatch
from switchmdp.mdp import SwitchingMDP
from switchmdp.simulation.record import Episodes, Record, Trajectory


def grid_to_continue(
    record: Record, agent: Any, problem: SwitchingMDP, horizon: int, every: int | None,
    episodes: bool, trajectory: bool,
) -> int:  # fmt: skip
    """The grid of a record, once it is clear that this run may continue it."""
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
            f"the agent is at t = {getattr(agent, 't', None)}, the record to resume ends where its "
            f"agent was at t = {record.agent_t}: resume with the agent that made it"
        )
    return record.every


def _same(a: SwitchingMDP, b: SwitchingMDP) -> bool:
    theirs: list[tuple[Any, Any]] = list(zip(a.model, b.model, strict=True))
    theirs += zip(a.patches, b.patches, strict=True)
    theirs.append((a.change_points, b.change_points))
    theirs.append((a.pairs.actions, b.pairs.actions))
    return a.law == b.law and all(np.array_equal(x, y) for x, y in theirs)


def joined(before: Record, after: Record) -> Record:
    """One record of both pieces; the first one's end is no grid point unless it falls on one."""
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
