"""Measures of a setting: regret, comparisons of agents, cost, and how agents react to changes.

Regret is the reward that is lost compared with the optimal gain; lower is better. The unit is the
problem: means and their intervals are over problems (see `resampling`). All agents face the same
problems with the same randomness, so they are compared problem by problem, on the problems that
both completed.

Regret is recorded on a grid of steps. It is 0 before the first step and linear between two recorded
steps.

A segment is the time between two change points. A change point c takes effect at step c, so c - 1
steps have been taken before it; that number is a *boundary*. Change points past the horizon have no
effect. Problems may differ in their number of changes: segment j is measured on those that have it.

Detection. Let a change take effect at step c, and let c' be the next change point or the end of the
run. The change is *detected* if the agent restarts, fully or in part, at a step t with c < t < c';
the delay is t - c for the first such t. Every other restart is a false alarm, including a second
restart in the same segment. A change at the last step of the run is not counted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from switchmdp.errors import InvalidParameter
from switchmdp.experiments.results import Runs, Setting
from switchmdp.experiments.results import as_setting as as_setting
from switchmdp.reports.resampling import (
    Band,
    Floats,
    Interval,
    band,
    estimate,
    interquartile_mean,
    interval,
    intervals,
    ratio_of_means,
)

QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)
MOST_SEGMENTS = 64  # measured per problem; later segments are ignored
SUSTAINED = 1000  # steps over which the mean pseudo-regret of an adapted agent is at most ε

Steps = NDArray[np.int64]


def runs_of(setting: Setting, agent: str) -> Runs:
    """Return the agent's runs; the error for an unknown agent lists the known ones."""
    if agent not in setting.agents:
        raise InvalidParameter("agent", agent, f"one of {', '.join(map(repr, setting.agents))}")
    return setting.agents[agent]


# Regret ------------------------------------------------------------------------------------------


def regret_curves(setting: Setting, agent: str, *, pseudo: bool = False) -> Floats:
    """Return the agent's regret (problems, points); rows of failed runs are NaN.

    >>> regret_curves(as_setting([10], {"a": [[1], [np.nan]]}), "a").tolist()
    [[1.0], [nan]]
    """
    runs = runs_of(setting, agent)
    rows = runs.pseudo_regret if pseudo else runs.regret
    return np.where(runs.failed[:, None], np.nan, rows)


def final_regrets(setting: Setting, agent: str) -> Floats:
    """Return the agent's regret at the horizon (problems,); NaN for failed runs.

    >>> final_regrets(as_setting([10, 20], {"a": [[1, 2], [3, 4]]}), "a").tolist()
    [2.0, 4.0]
    """
    runs = runs_of(setting, agent)
    return np.where(runs.failed, np.nan, runs.regret[:, -1])


def regret_at(setting: Setting, rows: Floats, steps: Floats) -> Floats:
    """Return regret after the given steps: (problems, k); NaN stays NaN.

    `steps` has a row for each problem, or one row for all.

    >>> setting = as_setting([10, 20], {"a": [[1, 3]]})
    >>> steps = np.array([[0.0, 5.0, 10.0, 15.0]])
    >>> regret_at(setting, regret_curves(setting, "a"), steps).tolist()
    [[0.0, 0.5, 1.0, 2.0]]
    """
    times, values = with_origin(setting, rows)
    right = np.clip(np.searchsorted(times, steps), 1, len(times) - 1)
    share = (steps - times[right - 1]) / (times[right] - times[right - 1])
    before = np.take_along_axis(values, right - 1, axis=1)
    after = np.take_along_axis(values, right, axis=1)
    at: Floats = (1 - share) * before + share * after
    return at


def with_origin(setting: Setting, rows: Floats) -> tuple[Steps, Floats]:
    """Return the recorded steps and curves, preceded by step 0 with regret 0."""
    return np.r_[0, setting.times], np.pad(rows, ((0, 0), (1, 0)))


def regret_band(setting: Setting, agent: str, *, pseudo: bool = False) -> Band:
    """The mean regret over time.

    Parameters
    ----------
    setting
        The runs of one family of problems.
    agent
        The name of the agent.
    pseudo
        Use pseudo-regret.

    Returns
    -------
    Band
        The mean, with its pointwise 95 % band.

    Examples
    --------
    >>> regret_band(as_setting([10, 20], {"a": [[1, 2], [3, 4]]}), "a").middle.tolist()
    [2.0, 3.0]
    """
    return band(setting.times, regret_curves(setting, agent, pseudo=pseudo))


def final_regret(setting: Setting, agent: str) -> Interval:
    """The mean regret at the horizon.

    Parameters
    ----------
    setting
        The runs of one family of problems.
    agent
        The name of the agent.

    Returns
    -------
    Interval
        The mean, with its 95 % interval.

    Examples
    --------
    >>> final_regret(as_setting([10, 20], {"a": [[1, 2], [3, 4]]}), "a").middle
    3.0
    """
    return final_regret_of(setting, [agent])[0]


def final_regret_of(setting: Setting, agents: Sequence[str]) -> list[Interval]:
    """Return the mean regret at the horizon of several agents, much faster than one by one.

    >>> setting = as_setting([10], {"a": [[1], [3]], "b": [[5], [5]]})
    >>> [mean.middle for mean in final_regret_of(setting, ["a", "b"])]
    [2.0, 5.0]
    """
    return intervals(_columns(setting, [final_regrets(setting, agent) for agent in agents]))


def _columns(setting: Setting, columns: Sequence[Floats]) -> Floats:
    """Return the columns side by side (problems, columns); there may be none."""
    return np.array(columns).reshape(len(columns), setting.n_problems).T


def mean_final_regret(setting: Setting, agent: str) -> float:
    """Return the mean regret at the horizon without its interval, for example to sort agents.

    >>> mean_final_regret(as_setting([10, 20], {"a": [[1, 2], [3, 4]]}), "a")
    3.0
    """
    return estimate(final_regrets(setting, agent))


def final_iqm(setting: Setting, agent: str) -> Interval:
    """Return the mean regret at the horizon over the middle half of the problems.

    >>> final_iqm(as_setting([10], {"a": [[-99], [1], [3], [99]]}), "a").middle
    2.0
    """
    return interval(final_regrets(setting, agent), interquartile_mean)


def final_quantiles(
    setting: Setting, agent: str, probabilities: Sequence[float] = QUANTILES
) -> tuple[float, ...]:
    """Quantiles over problems of the regret at the horizon.

    Parameters
    ----------
    setting
        The runs of one family of problems.
    agent
        The name of the agent.
    probabilities
        The probabilities of the quantiles.

    Returns
    -------
    tuple[float, ...]
        The quantiles.

    Examples
    --------
    >>> final_quantiles(as_setting([10], {"a": [[1], [2], [3]]}), "a", (0.5, 0.75))
    (2.0, 2.5)
    """
    values = final_regrets(setting, agent)
    values = values[~np.isnan(values)]
    if len(values) == 0:
        return (np.nan,) * len(probabilities)
    return tuple(float(q) for q in np.quantile(values, probabilities))


# Comparisons -------------------------------------------------------------------------------------


def shared_problems(setting: Setting, *agents: str) -> int:
    """Return the number of problems that all these agents completed.

    >>> shared_problems(as_setting([10], {"a": [[1], [np.nan]], "b": [[1], [2]]}), "a", "b")
    1
    """
    finals = np.array([final_regrets(setting, agent) for agent in agents])
    return int((~np.isnan(finals)).all(axis=0).sum())


def difference(setting: Setting, a: str, b: str) -> Interval:
    """The mean final regret of a minus that of b.

    Parameters
    ----------
    setting
        The runs of one family of problems.
    a, b
        The names of the agents.

    Returns
    -------
    Interval
        The difference, with its 95 % interval over the problems that both completed.

    Examples
    --------
    >>> difference(as_setting([10], {"a": [[1], [3]], "b": [[2], [4]]}), "a", "b")
    Interval(middle=-1.0, low=-1.0, high=-1.0)
    """
    return differences(setting, [(a, b)])[0]


def differences(setting: Setting, pairs: Sequence[tuple[str, str]]) -> list[Interval]:
    """Return the `difference` of each pair of agents."""
    first, second = _finals_of(setting, pairs)
    return intervals(first - second)


def ratio(setting: Setting, a: str, b: str) -> Interval:
    """The mean final regret of a divided by that of b.

    Parameters
    ----------
    setting
        The runs of one family of problems.
    a, b
        The names of the agents.

    Returns
    -------
    Interval
        The ratio, with its 95 % interval; NaN if a resampled mean of b is not positive.

    Examples
    --------
    >>> ratio(as_setting([10], {"a": [[1], [3]], "b": [[2], [6]]}), "a", "b")
    Interval(middle=0.5, low=0.5, high=0.5)
    """
    return ratios(setting, [(a, b)])[0]


def ratios(setting: Setting, pairs: Sequence[tuple[str, str]]) -> list[Interval]:
    """Return the `ratio` of each pair of agents."""
    return intervals(np.stack(_finals_of(setting, pairs), axis=1), ratio_of_means)


def probability_of_improvement(setting: Setting, a: str, b: str) -> Interval:
    """The share of problems on which the final regret of a is below that of b. A tie counts half.

    Parameters
    ----------
    setting
        The runs of one family of problems.
    a, b
        The names of the agents.

    Returns
    -------
    Interval
        The share, with its 95 % interval.

    Examples
    --------
    >>> setting = as_setting([10], {"a": [[1], [3], [5], [7]], "b": [[2], [4], [6], [7]]})
    >>> probability_of_improvement(setting, "a", "b").middle
    0.875
    """
    return probabilities_of_improvement(setting, [(a, b)])[0]


def probabilities_of_improvement(
    setting: Setting, pairs: Sequence[tuple[str, str]]
) -> list[Interval]:
    """Return the `probability_of_improvement` of each pair of agents."""
    first, second = _finals_of(setting, pairs)
    return intervals((1 - np.sign(first - second)) / 2)


def _finals_of(setting: Setting, pairs: Sequence[tuple[str, str]]) -> tuple[Floats, Floats]:
    """Return the final regrets of the first and of the second agents: (problems, pairs) each."""
    finals = {agent: final_regrets(setting, agent) for pair in pairs for agent in pair}
    first, second = ([finals[pair[side]] for pair in pairs] for side in (0, 1))
    return _columns(setting, first), _columns(setting, second)


# Cost --------------------------------------------------------------------------------------------


def mean_cost(setting: Setting, agent: str, name: str) -> float:
    """Return the mean of a field of `Runs` over completed runs; NaN if it was not measured.

    `name` is "episodes", "sweeps" (of extended value iteration), "bad_steps" (under an ε-bad
    policy) or "seconds". A negative value means unknown.

    >>> mean_cost(as_setting([10], {"a": [[1]]}), "a", "episodes")
    nan
    """
    runs = runs_of(setting, agent)
    values = getattr(runs, name)
    known = values[~runs.failed & (values >= 0)]
    return float(known.mean()) if len(known) else np.nan


def seconds_per_million_steps(setting: Setting, agent: str) -> float:
    """Return the mean wall time per million steps; NaN if it was not measured.

    >>> seconds_per_million_steps(as_setting([10], {"a": [[1]]}), "a")
    nan
    """
    return mean_cost(setting, agent, "seconds") * 1e6 / setting.horizon


def unfinished_runs(runs: Runs) -> int:
    """Return the number of runs that neither failed nor reached the horizon."""
    return int((np.isnan(runs.regret[:, -1]) & ~runs.failed).sum())


# Segments ----------------------------------------------------------------------------------------


def segment_boundaries(setting: Setting) -> Floats:
    """Return for each problem 0 and the last step of each segment, padded with NaN.

    >>> segment_boundaries(as_setting([10, 20], {"a": [[1, 2]]}, change_points=[6])).tolist()
    [[0.0, 5.0, 20.0]]
    """
    # Without a loop over problems: there may be thousands, and every table by segment starts here.
    n, horizon = setting.n_problems, setting.horizon
    points = np.concatenate([np.zeros(0, np.int64), *setting.change_points])
    problems = np.repeat(np.arange(n), [len(each) for each in setting.change_points])
    early = points <= horizon
    points, problems = points[early], problems[early]
    changes = np.bincount(problems, minlength=n)
    places = np.arange(len(points)) - np.repeat(np.cumsum(changes) - changes, changes)
    boundaries = np.full((n, 1 + min(MOST_SEGMENTS, 1 + int(changes.max(initial=0)))), np.nan)
    boundaries[:, 0] = 0
    shown = places < MOST_SEGMENTS
    boundaries[problems[shown], 1 + places[shown]] = points[shown] - 1
    complete = np.nonzero(changes < MOST_SEGMENTS)[0]
    boundaries[complete, 1 + changes[complete]] = horizon
    return boundaries


def segment_regret(setting: Setting, agent: str, *, pseudo: bool = False) -> tuple[Interval, ...]:
    """The mean regret within each segment; segment 0 is the one before the first change.

    Segment j covers the steps from change point c_j to c_{j+1} - 1. Its regret is R(c_{j+1} - 1) -
    R(c_j - 1).

    Parameters
    ----------
    setting
        The runs of one family of problems.
    agent
        The name of the agent.
    pseudo
        Use pseudo-regret.

    Returns
    -------
    tuple[Interval, ...]
        The mean of each segment, with its 95 % interval.

    Examples
    --------
    >>> setting = as_setting([10, 20], {"a": [[1, 5]]}, change_points=[11])
    >>> [mean.middle for mean in segment_regret(setting, "a")]
    [1.0, 4.0]
    """
    rows = regret_curves(setting, agent, pseudo=pseudo)
    earned = np.diff(regret_at(setting, rows, segment_boundaries(setting)), axis=1)
    return tuple(intervals(earned))


# Jumps of regret at change points ----------------------------------------------------------------


def bumps(setting: Setting, agent: str, span: int) -> dict[int, Interval]:
    """The difference in the growth of regret after and before each change.

    This is the regret in the `span` steps after the change minus that in the `span` steps before. A
    change with another change, or an end of the run, within `span` steps is left out.

    Parameters
    ----------
    setting
        The runs of one family of problems.
    agent
        The name of the agent.
    span
        The number of steps.

    Returns
    -------
    dict[int, Interval]
        The mean difference with its 95 % interval, by the number of the change, from 1.

    Raises
    ------
    InvalidParameter
        If `span` is less than 1.

    Examples
    --------
    >>> bumps(as_setting([10, 20], {"a": [[1, 5]]}, change_points=[11]), "a", span=10)
    {1: Interval(middle=3.0, low=3.0, high=3.0)}
    """
    rows = bump_rows(setting, agent, span)
    measured = np.nonzero(~np.isnan(rows).all(axis=0))[0]
    means = intervals(rows[:, measured])
    return {int(j) + 1: mean for j, mean in zip(measured, means, strict=True)}


def bump_rows(setting: Setting, agent: str, span: int) -> Floats:
    """Return regret in the `span` steps after each change minus that in the `span` steps before.

    The shape is (problems, changes). A change with another change or an end of the run within
    `span` steps is NaN.

    >>> bump_rows(as_setting([10, 20], {"a": [[1, 5]]}, change_points=[11]), "a", 11).tolist()
    [[nan]]
    """
    if span < 1:
        raise InvalidParameter("span", span, "at least 1 step")
    boundaries = segment_boundaries(setting)
    length = np.diff(boundaries, axis=1)
    room = np.minimum(length[:, :-1], length[:, 1:]) >= span
    at = np.where(room, boundaries[:, 1:-1], np.nan)
    rows = regret_curves(setting, agent)
    before, now, after = (regret_at(setting, rows, at + shift) for shift in (-span, 0, span))
    return (after - now) - (now - before)


# Time to adapt -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Adaptation:
    """How fast an agent adapts in a segment, over problems.

    Parameters
    ----------
    median
        The median number of steps until the agent has adapted; infinite if it does not adapt on at
        least half of the problems.
    never
        The share of the problems on which the agent does not adapt within the segment.
    """

    median: float  # steps; inf if the agent does not adapt on at least half of the problems
    never: float  # share of the problems on which the agent does not adapt within the segment


def adaptation_times(setting: Setting, agent: str, epsilon: float) -> Floats:
    """Return the steps from each segment's start until the agent has adapted: (problems, segments).

    The agent has adapted at the first recorded step from which on, until the end of the segment,
    the mean pseudo-regret of the next 1000 steps stays at most ε. If there is no such step the
    value is `inf`. The resolution is the grid of recorded steps: 1000 steps means as many grid
    cells as cover at least 1000 steps, and all of them must lie within the segment. NaN if the
    problem does not have the segment, the run failed, or the segment is too short.

    >>> setting = as_setting([1000, 2000, 3000], {"a": [[300, 310, 320]], "b": [[0, 10, 310]]})
    >>> [adaptation_times(setting, agent, epsilon=0.1).tolist() for agent in "ab"]
    [[[1000.0]], [[inf]]]
    """
    rows = regret_curves(setting, agent, pseudo=True)
    times, values = with_origin(setting, rows)
    ends = np.searchsorted(times, times + SUSTAINED)
    ends = ends[ends < len(times)]
    starts = np.arange(len(ends))
    bad = values[:, ends] - values[:, starts] > epsilon * (times[ends] - times[starts])
    latest_bad = np.maximum.accumulate(np.where(bad, starts, -1), axis=1)

    boundaries = segment_boundaries(setting)
    boundaries[np.isnan(rows).any(axis=1)] = np.nan
    delays = np.full((len(boundaries), boundaries.shape[1] - 1), np.nan)
    for j in range(delays.shape[1]):
        first = np.searchsorted(times, boundaries[:, j])
        beyond = np.searchsorted(times[ends], boundaries[:, j + 1], side="right")
        fits = np.nonzero((first < beyond) & ~np.isnan(boundaries[:, j + 1]))[0]
        last = beyond[fits] - 1
        adapted = np.maximum(first[fits], latest_bad[fits, last] + 1)
        delays[fits, j] = np.where(adapted > last, np.inf, times[adapted] - boundaries[fits, j])
    return delays


def adaptation_by_segment(setting: Setting, agent: str, epsilon: float) -> tuple[Adaptation, ...]:
    """The median adaptation time in each segment, and how often the agent never adapts.

    The agent has adapted at the first recorded step from which on, until the end of the segment,
    the mean pseudo-regret of the next 1000 steps stays at most ε.

    Parameters
    ----------
    setting
        The runs of one family of problems.
    agent
        The name of the agent.
    epsilon
        ε, the tolerance.

    Returns
    -------
    tuple[Adaptation, ...]
        The adaptation in each segment.

    Examples
    --------
    >>> setting = as_setting([1000, 2000], {"a": [[300, 310], [0, 0], [0, 999]]})
    >>> adaptation_by_segment(setting, "a", epsilon=0.1)
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


# Detection ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Detection:
    """How well an agent's restarts match the changes of a setting.

    Parameters
    ----------
    detected
        The share of the changes that were detected; NaN if there are none.
    delay
        The median delay over all changes, where a missed change has an infinite delay.
    false_alarms
        The number of false alarms per 100 000 steps.
    """

    detected: Interval  # share of the changes; NaN if there are none
    delay: float  # median over all changes, where a missed change has an infinite delay
    false_alarms: Interval  # per 100 000 steps


def detection(setting: Setting, agent: str) -> Detection | None:
    """Compare the restarts of an agent with the change points.

    Parameters
    ----------
    setting
        The runs of one family of problems.
    agent
        The name of the agent.

    Returns
    -------
    Detection | None
        How many changes were detected, how late, and the false alarms; None if no restarts were
        recorded.

    Examples
    --------
    >>> from dataclasses import replace
    >>> setting = as_setting([50_000, 100_000], {"a": [[0, 0]]}, change_points=[100, 60_000])
    >>> runs = replace(setting.agents["a"], restarts=(np.array([50, 107, 900]),))
    >>> score = detection(replace(setting, agents={"a": runs}), "a")
    >>> score.detected.middle, score.delay, score.false_alarms.middle
    (0.5, inf, 2.0)
    """
    shares, delays, false_alarms = [], [], []
    recorded = runs_of(setting, agent).restarts or (None,) * setting.n_problems
    for points, restarts in zip(setting.change_points, recorded, strict=True):
        if restarts is None:
            continue
        changes = points[points < setting.horizon]
        late = _detection_delays(changes, restarts, setting.horizon)
        hits = int(np.isfinite(late).sum())
        shares.append(hits / len(changes) if len(changes) else np.nan)
        delays.append(late)
        false_alarms.append((len(restarts) - hits) * 1e5 / setting.horizon)
    if not delays:
        return None
    ordered = np.sort(np.concatenate(delays))
    # An element, not the mean of two, because one of the two may be infinite.
    median = float(ordered[len(ordered) // 2]) if len(ordered) else np.nan
    return Detection(interval(shares), median, interval(false_alarms))


def _detection_delays(changes: Steps, restarts: Steps, horizon: int) -> Floats:
    """Return the steps from each change to the first restart in its segment; inf if none."""
    ends = np.append(changes[1:], horizon + 1)
    first = np.searchsorted(restarts, changes, side="right")
    at = np.append(restarts, horizon + 1)[first]
    return np.where(at < ends, at - changes, np.inf)
