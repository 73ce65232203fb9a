"""Measures of a setting: regret, comparisons of agents, cost, and regret against a parameter.

Regret is the reward lost against the optimal gain; lower is better. The unit is the problem: means
and their intervals are over problems (see `resampling`). All agents face the same problems with the
same randomness, so they are compared problem by problem, on the problems that both completed.

Regret is recorded on a grid of steps. It is 0 before the first step and linear between two recorded
steps. Measures of single changes are in `adaptation`, those of the leaderboard in `ranking`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from switchmdp.errors import InvalidParameter
from switchmdp.experiments.results import Results, Runs, Setting
from switchmdp.experiments.results import as_setting as as_setting
from switchmdp.reports.resampling import (
    Band,
    Floats,
    Interval,
    band,
    interquartile_mean,
    interval,
    ratio_of_means,
)

QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)


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
    last: Floats = regret_curves(setting, agent)[:, -1]
    return last


def regret_at(setting: Setting, rows: Floats, steps: Floats) -> Floats:
    """Return regret after the given steps, of the shape (problems, k) of `steps`; NaN stays NaN.

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


def with_origin(setting: Setting, rows: Floats) -> tuple[NDArray[np.int64], Floats]:
    """Return the recorded steps and curves, preceded by step 0 with regret 0."""
    return np.r_[0, setting.times], np.pad(rows, ((0, 0), (1, 0)))


def regret_band(setting: Setting, agent: str, *, pseudo: bool = False) -> Band:
    """Return the mean regret over time.

    >>> regret_band(as_setting([10, 20], {"a": [[1, 2], [3, 4]]}), "a").middle.tolist()
    [2.0, 3.0]
    """
    return band(setting.times, regret_curves(setting, agent, pseudo=pseudo))


def final_regret(setting: Setting, agent: str) -> Interval:
    """Return the mean regret at the horizon.

    >>> final_regret(as_setting([10, 20], {"a": [[1, 2], [3, 4]]}), "a").middle
    3.0
    """
    return interval(final_regrets(setting, agent))


def final_iqm(setting: Setting, agent: str) -> Interval:
    """Return the mean regret at the horizon over the middle half of the problems.

    >>> final_iqm(as_setting([10], {"a": [[-99], [1], [3], [99]]}), "a").middle
    2.0
    """
    return interval(final_regrets(setting, agent), interquartile_mean)


def final_quantiles(
    setting: Setting, agent: str, probabilities: Sequence[float] = QUANTILES
) -> tuple[float, ...]:
    """Return quantiles over problems of the regret at the horizon.

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
    """Return the mean final regret of a minus that of b.

    >>> difference(as_setting([10], {"a": [[1], [3]], "b": [[2], [4]]}), "a", "b")
    Interval(middle=-1.0, low=-1.0, high=-1.0)
    """
    return interval(final_regrets(setting, a) - final_regrets(setting, b))


def ratio(setting: Setting, a: str, b: str) -> Interval:
    """Return the mean final regret of a divided by that of b.

    The interval is NaN if a resampled mean of b is not positive.

    >>> ratio(as_setting([10], {"a": [[1], [3]], "b": [[2], [6]]}), "a", "b")
    Interval(middle=0.5, low=0.5, high=0.5)
    """
    both = np.column_stack([final_regrets(setting, a), final_regrets(setting, b)])
    return interval(both, ratio_of_means)


def probability_of_improvement(setting: Setting, a: str, b: str) -> Interval:
    """Return the share of problems on which a's final regret is below b's; a tie counts half.

    >>> setting = as_setting([10], {"a": [[1], [3], [5], [7]], "b": [[2], [4], [6], [7]]})
    >>> probability_of_improvement(setting, "a", "b").middle
    0.875
    """
    return interval((1 - np.sign(final_regrets(setting, a) - final_regrets(setting, b))) / 2)


# Cost --------------------------------------------------------------------------------------------


def episodes(setting: Setting, agent: str) -> Interval:
    """Return the mean number of episodes; NaN for agents without episodes.

    >>> episodes(as_setting([10], {"a": [[1]]}), "a").middle
    nan
    """
    return _mean_count(setting, agent, runs_of(setting, agent).episodes)


def sweeps(setting: Setting, agent: str) -> Interval:
    """Return the mean number of sweeps of extended value iteration; NaN for agents without it.

    >>> sweeps(as_setting([10], {"a": [[1]]}), "a").middle
    nan
    """
    return _mean_count(setting, agent, runs_of(setting, agent).sweeps)


def bad_steps(setting: Setting, agent: str) -> Interval:
    """Return the mean number of steps under an ε-bad policy; NaN if it was not measured.

    >>> bad_steps(as_setting([10], {"a": [[1]]}), "a").middle
    nan
    """
    return _mean_count(setting, agent, runs_of(setting, agent).bad_steps)


def seconds_per_million_steps(setting: Setting, agent: str) -> Interval:
    """Return the mean wall time per million steps; NaN if it was not measured.

    >>> seconds_per_million_steps(as_setting([10], {"a": [[1]]}), "a").middle
    nan
    """
    seconds = runs_of(setting, agent).seconds
    return _mean_count(setting, agent, seconds * 1e6 / setting.horizon)


def _mean_count(setting: Setting, agent: str, values: Any) -> Interval:
    """Return the mean over completed runs; a negative value means unknown."""
    known = ~runs_of(setting, agent).failed & (values >= 0)
    return interval(np.where(known, values, np.nan))


def unfinished_runs(runs: Runs) -> int:
    """Return the number of runs that neither failed nor reached the horizon."""
    return int((np.isnan(runs.regret[:, -1]) & ~runs.failed).sum())


# Regret against a parameter ----------------------------------------------------------------------
# A curve is a `Band` whose `times` are the parameter's values in increasing order.


@dataclass(frozen=True)
class _Point:
    """One value of a swept parameter, with the panel and the curve to which it belongs."""

    parameter: str
    value: float
    panel: str
    curve: str
    setting: Setting
    agent: str


def swept_parameters(results: Results) -> tuple[str, ...]:
    """Return the parameters of agents or problems that were swept over numbers.

    >>> swept_parameters(Results("nothing", 0.1, {}))
    ()
    """
    return tuple(dict.fromkeys(point.parameter for point in _swept_points(results)))


def regret_by_parameter(results: Results, parameter: str) -> dict[str, dict[str, Band]]:
    """Return mean final regret against a swept parameter: panel -> curve -> `Band`.

    Args:
        results: the results of an experiment with a sweep.
        parameter: one of `swept_parameters(results)`.

    There is one panel per setting, where settings that differ only in the parameter share a panel,
    and one curve per agent and per value of the other swept parameters. The value of a formula is
    that on the first problem. If agent and problem both swept a parameter of this name, the agent's
    is used.

    >>> from dataclasses import replace
    >>> setting = as_setting([10], {"a [w=8]": [[3]], "a [w=4]": [[5]]})
    >>> agents = {
    ...     name: replace(setting.agents[name], base="a", swept={"w": w})
    ...     for name, w in [("a [w=8]", 8), ("a [w=4]", 4)]
    ... }
    >>> results = Results("", 0.1, {"s": replace(setting, base="s", agents=agents)})
    >>> curve = regret_by_parameter(results, "w")["s"]["a"]
    >>> curve.times.tolist(), curve.middle.tolist()
    ([4.0, 8.0], [5.0, 3.0])
    """
    allowed = swept_parameters(results)
    if parameter not in allowed:
        known = ", ".join(map(repr, allowed)) or "none in these results"
        raise InvalidParameter("parameter", parameter, f"a parameter swept over numbers: {known}")
    panels: dict[str, dict[str, list[tuple[float, Interval]]]] = {}
    for point in _swept_points(results):
        if point.parameter == parameter:
            regret = final_regret(point.setting, point.agent)
            curves = panels.setdefault(point.panel, {})
            curves.setdefault(point.curve, []).append((point.value, regret))
    return {
        panel: {name: _curve(points) for name, points in curves.items()}
        for panel, curves in panels.items()
    }


def fixed_values(results: Results, parameter: str) -> dict[str, dict[str, float]]:
    """Return the values of agents for which others' swept parameter is fixed: panel -> agent."""
    fixed: dict[str, dict[str, float]] = {}
    for setting in results.settings.values():
        swept = any(parameter in runs.swept for runs in setting.agents.values())
        for name, runs in setting.agents.items():
            value = runs.parameters.get(parameter)
            if swept and parameter not in runs.swept and isinstance(value, int | float):
                panel = _label(setting.base or setting.name, setting.swept)
                fixed.setdefault(panel, {})[name] = float(value)
    return fixed


def regret_by_hardness(setting: Setting, name: str = "diameter", bins: int = 8) -> dict[str, Band]:
    """Return each agent's mean final regret against a hardness of the problems.

    The problems are sorted by hardness and split into `bins` groups of equal size; each group is
    placed at its median hardness. Problems of unknown or infinite hardness are left out.

    >>> from dataclasses import replace
    >>> setting = as_setting([10], {"a": [[5], [1], [7], [3]]})
    >>> setting = replace(setting, hardness={"diameter": np.array([30.0, 10.0, 40.0, 20.0])})
    >>> curve = regret_by_hardness(setting, bins=2)["a"]
    >>> curve.times.tolist(), curve.middle.tolist()
    ([15.0, 35.0], [2.0, 6.0])
    """
    if name not in setting.hardness:
        raise InvalidParameter("name", name, f"one of {', '.join(map(repr, setting.hardness))}")
    if bins < 1:
        raise InvalidParameter("bins", bins, "at least 1")
    hardness = setting.hardness[name]
    order = np.argsort(hardness, kind="stable")
    order = order[np.isfinite(hardness[order])]
    if len(order) == 0:
        return {}
    groups = np.array_split(order, min(bins, len(order)))
    medians = [float(np.median(hardness[group])) for group in groups]
    curves = {}
    for agent in setting.agents:
        regrets = final_regrets(setting, agent)
        means = [interval(regrets[group]) for group in groups]
        curves[agent] = _curve(list(zip(medians, means, strict=True)))
    return curves


def _swept_points(results: Results) -> Iterator[_Point]:
    for setting in results.settings.values():
        for agent, runs in setting.agents.items():
            for owner in (runs, setting):
                for name, written in owner.swept.items():
                    value = owner.parameters.get(name, written)
                    is_number = isinstance(value, int | float) and not isinstance(value, bool)
                    if not is_number or (owner is setting and name in runs.swept):
                        continue
                    of_agent = {k: v for k, v in runs.swept.items() if k != name}
                    of_setting = dict(setting.swept)
                    if owner is setting:
                        del of_setting[name]
                    panel = _label(setting.base or setting.name, of_setting)
                    curve = _label(runs.base or agent, of_agent)
                    yield _Point(name, float(value), panel, curve, setting, agent)


def _label(base: str, other_parameters: Mapping[str, Any]) -> str:
    """Name an agent or setting with its swept parameters other than the one on the x axis."""
    shown = ", ".join(f"{name}={value}" for name, value in other_parameters.items())
    return f"{base} [{shown}]" if shown else base


def _curve(points: Sequence[tuple[float, Interval]]) -> Band:
    ordered = sorted(points, key=lambda point: point[0])
    rows = np.array([[x, mean.middle, mean.low, mean.high] for x, mean in ordered])
    return Band(*rows.T)
