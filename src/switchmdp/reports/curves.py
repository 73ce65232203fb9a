"""Regret curves as arrays: one row per problem, read off at any step, cut at the changes.

Regret is recorded on a grid of steps. Between two recorded steps it is interpolated linearly, and
it is 0 before the first step. Change point c is felt from step c on, so the *boundary* before it
is c - 1, the number of steps taken when it strikes. Those past the horizon are never felt.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from switchmdp.errors import InvalidParameter
from switchmdp.experiments.results import Runs, Setting
from switchmdp.reports.resampling import Floats

MOST_SEGMENTS = 64  # of a problem; those after them are not measured one by one


def runs_of(setting: Setting, agent: str) -> Runs:
    """The agent's runs, or an error that names those there are."""
    if agent not in setting.agents:
        raise InvalidParameter("agent", agent, f"one of {', '.join(map(repr, setting.agents))}")
    return setting.agents[agent]


def curves(setting: Setting, agent: str, *, pseudo: bool = False) -> Floats:
    """The agent's regret (problems, points), all NaN in the rows of failed runs.

    >>> from switchmdp.experiments.results import as_setting
    >>> curves(as_setting([10], {"a": [[1], [np.nan]]}), "a").tolist()
    [[1.0], [nan]]
    """
    runs = runs_of(setting, agent)
    rows = runs.pseudo_regret if pseudo else runs.regret
    return np.where(runs.failed[:, None], np.nan, rows)


def final(setting: Setting, agent: str) -> Floats:
    """The agent's regret at the horizon (problems,), NaN where it failed.

    >>> from switchmdp.experiments.results import as_setting
    >>> final(as_setting([10, 20], {"a": [[1, 2], [3, 4]]}), "a").tolist()
    [2.0, 4.0]
    """
    last: Floats = curves(setting, agent)[:, -1]
    return last


def segments(setting: Setting, i: int) -> NDArray[np.int64]:
    """First and last step of each segment of problem i, the one before any change first.

    >>> from switchmdp.experiments.results import as_setting
    >>> segments(as_setting([10, 20], {"a": [[1, 2]]}, change_points=[6, 21]), 0).tolist()
    [[1, 5], [6, 20]]
    """
    ends = _ends(setting, i)
    return np.column_stack([np.append(1, ends[:-1] + 1), ends])


def boundaries(setting: Setting) -> Floats:
    """For each problem the steps taken when each segment begins and when the last ends, then NaN.

    >>> from switchmdp.experiments.results import as_setting
    >>> boundaries(as_setting([10, 20], {"a": [[1, 2]]}, change_points=[6])).tolist()
    [[0.0, 5.0, 20.0]]
    """
    ends = [_ends(setting, i)[:MOST_SEGMENTS] for i in range(setting.n_problems)]
    found = np.full((len(ends), 1 + max(map(len, ends), default=1)), np.nan)
    found[:, 0] = 0
    for row, last in zip(found, ends, strict=True):
        row[1 : 1 + len(last)] = last
    return found


def _ends(setting: Setting, i: int) -> NDArray[np.int64]:
    """The last step of each segment of problem i."""
    points = setting.change_points[i]
    return np.append(points[points <= setting.horizon] - 1, setting.horizon)


def regret_at(setting: Setting, rows: Floats, steps: Floats) -> Floats:
    """Regret after so many steps, (problems, k) like `steps`; NaN where those are.

    >>> from switchmdp.experiments.results import as_setting
    >>> setting = as_setting([10, 20], {"a": [[1, 3]]})
    >>> regret_at(setting, curves(setting, "a"), np.array([[0.0, 5.0, 10.0, 15.0]])).tolist()
    [[0.0, 0.5, 1.0, 2.0]]
    """
    times, values = from_zero(setting, rows)
    right = np.clip(np.searchsorted(times, steps), 1, len(times) - 1)
    share = (steps - times[right - 1]) / (times[right] - times[right - 1])
    before = np.take_along_axis(values, right - 1, axis=1)
    after = np.take_along_axis(values, right, axis=1)
    at: Floats = (1 - share) * before + share * after
    return at


def from_zero(setting: Setting, rows: Floats) -> tuple[NDArray[np.int64], Floats]:
    """The recorded steps and curves with their common origin put before them."""
    return np.r_[0, setting.times], np.pad(rows, ((0, 0), (1, 0)))
