"""The curves of a report: regret over time, against a swept parameter, and against the diameter.

A curve is a `Band`. A figure shows curves as `Panel`s; the page shows them as interactive charts,
with fewer points and rounded numbers, which are written as JSON.

A chart is a dict: `title`; the x axis `x` with `xlabel` and `xname`; `log`, whether that axis is
logarithmic; `points`, whether points are drawn; vertical `marks` ({x, label}); `names` and `styles`
of the curves, where a style is a number for colour and dash; and `views`. A view has a `name` and
`curves`, each with its mean, low and high; null means unknown.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from switchmdp.errors import InvalidParameter
from switchmdp.experiments.results import Results, Setting
from switchmdp.reports.figures import Panel
from switchmdp.reports.measures import (
    as_setting,  # noqa: F401 (for the examples)
    final_regret,
    final_regrets,
    regret_at,
    regret_band,
    regret_curves,
)
from switchmdp.reports.page import Chart
from switchmdp.reports.resampling import (
    Band,
    Floats,
    Interval,
    band,
    band_and_growth,
    intervals,
)

MOST_POINTS, FEWEST_POINTS = 240, 40  # per curve
MOST_NUMBERS = 75_000  # in all regret charts of a page, which keeps it well below a megabyte
MOST_CHANGES = 40  # change points that are marked
LOG_FROM = 20  # an axis is logarithmic if its largest value is so many times its smallest
DIGITS = 6
ENOUGH_PROBLEMS = 40  # to show regret against the diameter


# Regret over time --------------------------------------------------------------------------------


def shared_changes(setting: Setting) -> tuple[int, ...] | None:
    """Return the change points up to the horizon; None if problems differ or there are too many.

    >>> shared_changes(as_setting([10, 20], {"a": [[1, 2]]}, change_points=[11, 99]))
    (11,)
    """
    distinct = {tuple(each[each <= setting.horizon].tolist()) for each in setting.change_points}
    if len(distinct) != 1:
        return None
    (points,) = distinct
    return points if len(points) <= MOST_CHANGES else None


Views = dict[str, dict[str, Band]]  # name of the view -> agent -> curve
REGRET = "regret"


def regret_panel(setting: Setting, known: Mapping[str, Band] | None = None) -> Panel:
    """Return mean regret over time, from 0, with the change points that all problems share.

    `known` may hold curves that were computed for the page; they are used if they have all points.
    """
    curves = {}
    for agent in setting.agents:
        curve = None if known is None else _at(known[agent], setting.times)
        curves[agent] = (curve or regret_band(setting, agent)).from_zero()
    return Panel(setting.name, curves, shared_changes(setting) or ())


def _at(curve: Band, times: NDArray[np.int64]) -> Band | None:
    """Return the curve at these times; None if it is not known at all of them."""
    places = np.minimum(np.searchsorted(curve.times, times), len(curve.times) - 1)
    if not np.array_equal(curve.times[places], times):
        return None
    return Band(times, curve.middle[places], curve.low[places], curve.high[places])


def regret_views(results: Results, setting: Setting) -> Views:
    """Return regret over time, pseudo-regret, and regret within each segment."""
    changes = shared_changes(setting)
    steps = _drawn_steps(setting, changes or (), _points_per_curve(results))
    at = steps[None].astype(np.float64)
    segment_starts = _segment_starts(setting, steps)
    views: Views = {REGRET: {}, "pseudo-regret": {}, "regret within each segment": {}}
    for name in setting.agents:
        rows = regret_curves(setting, name)
        regret = regret_at(setting, rows, at)
        pseudo = regret_at(setting, regret_curves(setting, name, pseudo=True), at)
        if changes is None:
            curve = band(steps, regret)
            within = band(steps, regret - regret_at(setting, rows, segment_starts))
        else:  # the step before each change is drawn, so the start of each segment is a point
            starts = np.searchsorted(steps, segment_starts[0])
            curve, within = band_and_growth(steps, regret, starts)
        for view, drawn in zip(views.values(), (curve, band(steps, pseudo), within), strict=True):
            view[name] = drawn
    return views


def regret_chart(results: Results, setting: Setting, views: Views | None = None) -> Chart:
    """Return regret over time as a chart; `views` may be given if they are known.

    >>> setting = as_setting([10, 20], {"a": [[1, 5]]}, change_points=[11])
    >>> chart = regret_chart(Results("", 0.1, {"s": setting}), setting)
    >>> chart["x"], chart["views"][2]["curves"][0][0]
    ([0, 10, 11, 20], [0.0, 1.0, 0.4, 4.0])
    """
    changes = shared_changes(setting) or ()
    steps = _drawn_steps(setting, changes, _points_per_curve(results))
    marks = [{"x": int(point), "label": ""} for point in changes]
    return {
        "title": setting.name, "x": steps.tolist(), "xlabel": "time step", "xname": "step",
        "log": False, "points": False, "marks": marks,
        **_drawn(views or regret_views(results, setting), results.agents),
    }  # fmt: skip


def _points_per_curve(results: Results) -> int:
    """Return the number of points per curve, which is lower if there are many curves."""
    curves = sum(len(setting.agents) for setting in results.settings.values())
    return min(MOST_POINTS, max(FEWEST_POINTS, MOST_NUMBERS // max(1, 9 * curves)))


def _drawn_steps(setting: Setting, changes: tuple[int, ...], most: int) -> NDArray[np.int64]:
    """Return evenly thinned recorded steps, and the steps right before and at each change."""
    n = len(setting.times)
    thinned = setting.times[np.linspace(0, n - 1, min(n, most)).round().astype(np.int64)]
    around = [point - shift for point in changes for shift in (1, 0)]
    return np.unique(np.r_[0, thinned, np.array(around, dtype=np.int64)])


def _segment_starts(setting: Setting, steps: NDArray[np.int64]) -> Floats:
    """Return the number of steps before the segment of each step: (problems, steps)."""
    rows = np.empty((setting.n_problems, len(steps)))
    known: dict[bytes, Floats] = {}  # problems often share their change points
    for row, points in zip(rows, setting.change_points, strict=True):
        key = points.tobytes()
        if key not in known:
            boundaries = np.r_[0.0, points - 1]
            known[key] = boundaries[np.maximum(np.searchsorted(boundaries, steps) - 1, 0)]
        row[:] = known[key]
    return rows


# Regret against a parameter ----------------------------------------------------------------------
# The `times` of a curve are the parameter's values in increasing order.


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
    """Mean final regret against a swept parameter.

    There is one panel per setting, where settings that differ only in the parameter share a panel,
    and one curve per agent and per value of the other swept parameters. The value of a formula is
    that on the first problem. If agent and problem both swept a parameter of this name, the agent's
    is used.

    Parameters
    ----------
    results
        The results of an experiment with a sweep.
    parameter
        The name of a parameter that was swept over numbers.

    Returns
    -------
    dict[str, dict[str, Band]]
        The curves, by panel and name.

    Raises
    ------
    InvalidParameter
        If no parameter of this name was swept over numbers.

    Examples
    --------
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


def _swept_points(results: Results) -> Iterator[_Point]:
    for setting in results.settings.values():
        for agent, runs in setting.agents.items():
            for name in dict.fromkeys((*runs.swept, *setting.swept)):
                owner = runs if name in runs.swept else setting
                value = owner.parameters.get(name, owner.swept[name])
                if isinstance(value, bool) or not isinstance(value, int | float):
                    continue
                on_axis = name if owner is setting else None
                panel = _label(setting.base or setting.name, setting.swept, on_axis)
                curve = _label(runs.base or agent, runs.swept, name)
                yield _Point(name, float(value), panel, curve, setting, agent)


def _label(base: str, swept: Mapping[str, Any], on_axis: str | None = None) -> str:
    """Name an agent or setting with its swept parameters other than the one on the x axis."""
    shown = ", ".join(f"{name}={value}" for name, value in swept.items() if name != on_axis)
    return f"{base} [{shown}]" if shown else base


def parameter_panels(results: Results, parameter: str) -> list[Panel]:
    """Return final regret against a swept parameter.

    If the parameter is fixed for some agents of a panel, their values are marked.
    """
    marks: dict[str, dict[str, float]] = {}
    for setting in results.settings.values():
        swept = any(parameter in runs.swept for runs in setting.agents.values())
        panel = _label(setting.base or setting.name, setting.swept)
        for name, runs in setting.agents.items():
            value = runs.parameters.get(parameter)
            if swept and parameter not in runs.swept and isinstance(value, int | float):
                marks.setdefault(panel, {})[name] = float(value)
    by_panel = regret_by_parameter(results, parameter)
    return [Panel(name, curves, (), marks.get(name, {})) for name, curves in by_panel.items()]


def regret_by_diameter(setting: Setting, n_groups: int = 8) -> dict[str, Band]:
    """Return each agent's mean final regret against the diameter of the problems.

    The problems are sorted by diameter and split into groups of equal size; each group is placed at
    its median diameter. Problems of unknown or infinite diameter are left out.

    >>> from dataclasses import replace
    >>> setting = as_setting([10], {"a": [[5], [1], [7], [3]]})
    >>> setting = replace(setting, hardness={"diameter": np.array([30.0, 10.0, 40.0, 20.0])})
    >>> curve = regret_by_diameter(setting, n_groups=2)["a"]
    >>> curve.times.tolist(), curve.middle.tolist()
    ([15.0, 35.0], [2.0, 6.0])
    """
    diameters = setting.hardness["diameter"]
    order = np.argsort(diameters, kind="stable")
    order = order[np.isfinite(diameters[order])]
    if len(order) == 0 or not setting.agents:
        return {}
    groups = np.array_split(order, min(n_groups, len(order)))
    medians = [float(np.median(diameters[group])) for group in groups]
    curves = {}
    finals = np.column_stack([final_regrets(setting, agent) for agent in setting.agents])
    by_group = [intervals(finals[group]) for group in groups]
    for agent, means in zip(setting.agents, zip(*by_group, strict=True), strict=True):
        curves[agent] = _curve(list(zip(medians, means, strict=True)))
    return curves


def diameter_panels(results: Results) -> list[Panel]:
    """Return final regret against the diameter, for settings with enough different diameters."""
    panels = []
    for setting in results.settings.values():
        known = setting.hardness.get("diameter", np.empty(0))
        known = known[np.isfinite(known)]
        if len(known) >= ENOUGH_PROBLEMS and setting.agents and known.min() < known.max():
            panels.append(Panel(setting.name, regret_by_diameter(setting)))
    return panels


def _curve(points: Sequence[tuple[float, Interval]]) -> Band:
    ordered = sorted(points, key=lambda point: point[0])
    rows = np.array([[x, mean.middle, mean.low, mean.high] for x, mean in ordered])
    return Band(*rows.T)


def needs_log_axis(panels: Iterable[Panel]) -> bool:
    """Whether the x values are positive and spread so widely that their axis is logarithmic.

    >>> curve = Band(np.array([1, 100]), *np.ones((3, 2)))
    >>> needs_log_axis([Panel("", {"a": curve})])
    True
    """
    x = np.concatenate([curve.times for panel in panels for curve in panel.curves.values()])
    return bool(x.min() > 0 and x.max() >= LOG_FROM * x.min())


def points_chart(panel: Panel, axis: str, order: Sequence[str]) -> Chart:
    """Return a panel of final regret against a parameter or the diameter as a chart.

    `order` holds the names of all curves on the page, which determine their styles.
    """
    x = np.unique(np.concatenate([curve.times for curve in panel.curves.values()]))
    curves = {}
    for name, curve in panel.curves.items():
        wide = np.full((3, len(x)), np.nan)
        wide[:, np.searchsorted(x, curve.times)] = curve.middle, curve.low, curve.high
        curves[name] = Band(x, *wide)
    marks = [{"x": float(value), "label": label} for label, value in panel.marks.items()]
    return {
        "title": f"Final regret by {axis}: {panel.title}",
        "x": [float(f"{value:.6g}") for value in x], "xlabel": axis, "xname": f"{axis} =",
        "log": needs_log_axis([panel]), "points": True, "marks": marks,
        **_drawn({"final regret": curves}, order),
    }  # fmt: skip


def _drawn(views: Mapping[str, Mapping[str, Band]], order: Sequence[str]) -> Chart:
    """Return the part of a chart that describes its curves, by view and name."""
    names = list(next(iter(views.values())))
    return {
        "names": names, "styles": [order.index(name) for name in names],
        "views": [{"name": view, "curves": _rounded(c.values())} for view, c in views.items()],
    }  # fmt: skip


def _rounded(curves: Iterable[Band]) -> list[list[list[float | None]]]:
    """Return mean, low and high of each curve, rounded to six digits of the largest number."""
    arrays = np.array([[curve.middle, curve.low, curve.high] for curve in curves])
    finite = np.abs(arrays[np.isfinite(arrays)])
    largest = float(finite.max(initial=0.0)) or 1.0
    decimals = DIGITS - 1 - math.floor(math.log10(largest))
    listed: list[list[list[float]]] = np.round(arrays, decimals).tolist()
    return [[[x if math.isfinite(x) else None for x in line] for line in curve] for curve in listed]
