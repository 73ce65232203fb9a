"""What changes cost: regret within segments, bumps at the changes, time to adapt.

A segment is the time between two changes; see `curves` for how regret is read between recorded
steps. Problems may have different numbers of changes: segment j is measured on those that have it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from switchmdp.errors import InvalidParameter
from switchmdp.experiments.results import Setting
from switchmdp.reports.curves import boundaries, curves, from_zero, regret_at
from switchmdp.reports.resampling import Floats, Interval, interval

SUSTAINED = 1000  # steps over which an adapted agent is within ε on average


@dataclass(frozen=True)
class Adaptation:
    """How fast an agent finds its way in a segment, over problems."""

    median: float  # steps, inf where at least half never do
    never: float  # share of the problems on which it does not before the segment ends


def segment_regret(setting: Setting, agent: str, *, pseudo: bool = False) -> tuple[Interval, ...]:
    """Mean regret earned within each segment, number 0 being the one before the first change.

    Segment j covers the steps from change point c_j to c_{j+1} - 1, and so earns
    R(c_{j+1} - 1) - R(c_j - 1). Regret after a step that is not recorded is interpolated linearly.

    >>> from switchmdp.experiments.results import as_setting
    >>> setting = as_setting([10, 20], {"a": [[1, 5]]}, change_points=[11])
    >>> [found.middle for found in segment_regret(setting, "a")]
    [1.0, 4.0]
    """
    rows = curves(setting, agent, pseudo=pseudo)
    earned = np.diff(regret_at(setting, rows, boundaries(setting)), axis=1)
    return tuple(interval(column) for column in earned.T)


def bumps(setting: Setting, agent: str, span: int) -> dict[int, Interval]:
    """By change number, regret in the `span` steps after it less that in the `span` before it.

    A change that was measured on no problem is left out; see `bump_rows`.

    >>> from switchmdp.experiments.results import as_setting
    >>> bumps(as_setting([10, 20], {"a": [[1, 5]]}, change_points=[11]), "a", span=10)
    {1: Interval(middle=3.0, low=3.0, high=3.0)}
    """
    columns = enumerate(bump_rows(setting, agent, span).T, start=1)
    return {j: interval(column) for j, column in columns if not np.isnan(column).all()}


def bump_rows(setting: Setting, agent: str, span: int) -> Floats:
    """The same, problem by problem: (problems, changes).

    NaN unless there are `span` steps from the change to its neighbours and to the run's ends.

    >>> from switchmdp.experiments.results import as_setting
    >>> bump_rows(as_setting([10, 20], {"a": [[1, 5]]}, change_points=[11]), "a", 11).tolist()
    [[nan]]
    """
    if span < 1:
        raise InvalidParameter("span", span, "at least 1 step")
    steps = boundaries(setting)
    length = np.diff(steps, axis=1)
    room = np.minimum(length[:, :-1], length[:, 1:]) >= span
    at = np.where(room, steps[:, 1:-1], np.nan)
    rows = curves(setting, agent)
    before, now, after = (regret_at(setting, rows, at + shift) for shift in (-span, 0, span))
    return (after - now) - (now - before)


def adaptation_times(setting: Setting, agent: str, epsilon: float) -> Floats:
    """Steps from each segment's start until the agent has adapted: (problems, segments).

    It has at the first recorded step from which on, until the segment's end, the mean pseudo-regret
    of the next 1000 steps stays at most ε; `inf` where that never comes. The resolution is the
    grid of recorded steps: 1000 steps are as many grid cells as make at least 1000, and only cells
    that lie within the segment count. NaN where a segment is not there, the run failed, or no such
    stretch fits in.

    >>> from switchmdp.experiments.results import as_setting
    >>> setting = as_setting([1000, 2000, 3000], {"a": [[300, 310, 320]], "b": [[0, 10, 310]]})
    >>> [adaptation_times(setting, agent, epsilon=0.1).tolist() for agent in "ab"]
    [[[1000.0]], [[inf]]]
    """
    rows = curves(setting, agent, pseudo=True)
    times, values = from_zero(setting, rows)
    ends = np.searchsorted(times, times + SUSTAINED)
    ends = ends[ends < len(times)]
    starts = np.arange(len(ends))
    bad = values[:, ends] - values[:, starts] > epsilon * (times[ends] - times[starts])
    latest_bad = np.maximum.accumulate(np.where(bad, starts, -1), axis=1)

    steps = boundaries(setting)
    steps[np.isnan(rows).any(axis=1)] = np.nan
    found = np.full((len(steps), steps.shape[1] - 1), np.nan)
    for j in range(found.shape[1]):
        first = np.searchsorted(times, steps[:, j])
        beyond = np.searchsorted(times[ends], steps[:, j + 1], side="right")
        fits = np.nonzero((first < beyond) & ~np.isnan(steps[:, j + 1]))[0]
        last = beyond[fits] - 1
        adapted = np.maximum(first[fits], latest_bad[fits, last] + 1)
        found[fits, j] = np.where(adapted > last, np.inf, times[adapted] - steps[fits, j])
    return found


def adaptation(setting: Setting, agent: str, epsilon: float) -> tuple[Adaptation, ...]:
    """For each segment the median adaptation time and the share of problems where it is infinite.

    >>> from switchmdp.experiments.results import as_setting
    >>> adaptation(as_setting([1000, 2000], {"a": [[300, 310], [0, 0], [0, 999]]}), "a", 0.1)
    (Adaptation(median=1000.0, never=0.3333333333333333),)
    """
    summaries = []
    for column in adaptation_times(setting, agent, epsilon).T:
        measured = column[~np.isnan(column)]
        known = len(measured) > 0
        median = float(np.median(measured)) if known else np.nan
        never = float(np.mean(np.isinf(measured))) if known else np.nan
        summaries.append(Adaptation(median, never))
    return tuple(summaries)
