"""The measures: everything that figures, tables and claims say about a setting.

Regret is what an agent lost against the best gain; lower is better. The unit is the problem: a
mean is over problems, and so is its interval (see `resampling`). Agents met the same problems with
the same randomness, so they are compared problem by problem, on those that both completed.
What concerns single changes is in `changes`, what concerns parameters in `against`; both are
offered here too.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from switchmdp.experiments.results import Setting, as_setting
from switchmdp.reports.against import against, against_hardness, swept_parameters
from switchmdp.reports.changes import (
    Adaptation,
    adaptation,
    adaptation_times,
    bump_rows,
    bumps,
    segment_regret,
)
from switchmdp.reports.curves import curves, final, runs_of, segments
from switchmdp.reports.resampling import (
    Band,
    Interval,
    band,
    interquartile_mean,
    interval,
    ratio_of_means,
)

__all__ = [
    "Adaptation",
    "adaptation",
    "adaptation_times",
    "against",
    "against_hardness",
    "as_setting",
    "bad_steps",
    "bump_rows",
    "bumps",
    "difference",
    "episodes",
    "final_iqm",
    "final_quantiles",
    "final_regret",
    "probability_of_improvement",
    "ratio",
    "regret_band",
    "seconds_per_million_steps",
    "segment_regret",
    "segments",
    "shared_problems",
    "sweeps",
    "swept_parameters",
]

QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)


def regret_band(setting: Setting, agent: str, *, pseudo: bool = False) -> Band:
    """Mean regret over time.

    >>> regret_band(as_setting([10, 20], {"a": [[1, 2], [3, 4]]}), "a").middle.tolist()
    [2.0, 3.0]
    """
    return band(setting.times, curves(setting, agent, pseudo=pseudo))


def final_regret(setting: Setting, agent: str) -> Interval:
    """Mean regret at the horizon.

    >>> final_regret(as_setting([10, 20], {"a": [[1, 2], [3, 4]]}), "a").middle
    3.0
    """
    return interval(final(setting, agent))


def final_quantiles(
    setting: Setting, agent: str, probabilities: Sequence[float] = QUANTILES
) -> tuple[float, ...]:
    """Quantiles over problems of the regret at the horizon.

    >>> final_quantiles(as_setting([10], {"a": [[1], [2], [3]]}), "a", (0.5, 0.75))
    (2.0, 2.5)
    """
    values = final(setting, agent)
    values = values[~np.isnan(values)]
    if len(values) == 0:
        return (np.nan,) * len(probabilities)
    return tuple(float(q) for q in np.quantile(values, probabilities))


def final_iqm(setting: Setting, agent: str) -> Interval:
    """Mean regret at the horizon over the middle half of the problems.

    >>> final_iqm(as_setting([10], {"a": [[-99], [1], [3], [99]]}), "a").middle
    2.0
    """
    return interval(final(setting, agent), interquartile_mean)


def shared_problems(setting: Setting, *agents: str) -> int:
    """On how many problems none of the agents failed.

    >>> shared_problems(as_setting([10], {"a": [[1], [np.nan]], "b": [[1], [2]]}), "a", "b")
    1
    """
    finals = np.array([final(setting, agent) for agent in agents])
    return int((~np.isnan(finals)).all(axis=0).sum())


def difference(setting: Setting, a: str, b: str) -> Interval:
    """Mean final regret of a less that of b.

    >>> difference(as_setting([10], {"a": [[1], [3]], "b": [[2], [4]]}), "a", "b")
    Interval(middle=-1.0, low=-1.0, high=-1.0)
    """
    return interval(final(setting, a) - final(setting, b))


def ratio(setting: Setting, a: str, b: str) -> Interval:
    """Mean final regret of a by that of b; no interval where the latter's may not be positive.

    >>> ratio(as_setting([10], {"a": [[1], [3]], "b": [[2], [6]]}), "a", "b")
    Interval(middle=0.5, low=0.5, high=0.5)
    """
    both = np.column_stack([final(setting, a), final(setting, b)])
    return interval(both, ratio_of_means)


def probability_of_improvement(setting: Setting, a: str, b: str) -> Interval:
    """The share of problems on which a's final regret is lower than b's; a tie counts half.

    >>> setting = as_setting([10], {"a": [[1], [3], [5], [7]], "b": [[2], [4], [6], [7]]})
    >>> probability_of_improvement(setting, "a", "b").middle
    0.875
    """
    return interval((1 - np.sign(final(setting, a) - final(setting, b))) / 2)


def episodes(setting: Setting, agent: str) -> Interval:
    """Mean number of episodes; NaN for agents that have none.

    >>> episodes(as_setting([10], {"a": [[1]]}), "a").middle
    nan
    """
    return _mean_count(setting, agent, runs_of(setting, agent).episodes)


def sweeps(setting: Setting, agent: str) -> Interval:
    """Mean number of sweeps of extended value iteration; NaN where there are none.

    >>> sweeps(as_setting([10], {"a": [[1]]}), "a").middle
    nan
    """
    return _mean_count(setting, agent, runs_of(setting, agent).sweeps)


def bad_steps(setting: Setting, agent: str) -> Interval:
    """Mean number of steps under an ε-bad policy; NaN where that was not measured.

    >>> bad_steps(as_setting([10], {"a": [[1]]}), "a").middle
    nan
    """
    return _mean_count(setting, agent, runs_of(setting, agent).bad_steps)


def seconds_per_million_steps(setting: Setting, agent: str) -> Interval:
    """Mean wall time of a million steps; NaN where the time is not known.

    >>> seconds_per_million_steps(as_setting([10], {"a": [[1]]}), "a").middle
    nan
    """
    seconds = runs_of(setting, agent).seconds
    return _mean_count(setting, agent, seconds * 1e6 / setting.horizon)


def _mean_count(setting: Setting, agent: str, values: Any) -> Interval:
    """The mean over completed runs; a negative number stands for one that is not known."""
    known = ~runs_of(setting, agent).failed & (values >= 0)
    return interval(np.where(known, values, np.nan))
