"""Interactive charts for the page: curves thinned, rounded and ready to be written as JSON.

A chart is a dict: `title`; the x axis `x` with `xlabel` and `xname`; `log`, whether that axis is
logarithmic; `points`, whether points are drawn; vertical `marks` ({x, label}); `names` and `styles`
of the curves, where a style is a number for colour and dash; and `views`. A view has a `name` and
`curves`, each with its mean, low and high; null means unknown.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from switchmdp.experiments.results import Results, Setting
from switchmdp.reports.measures import (
    fixed_values,
    regret_at,
    regret_by_hardness,
    regret_by_parameter,
    regret_curves,
)
from switchmdp.reports.resampling import Band, Floats, band

Chart = dict[str, Any]
MOST_POINTS, FEWEST_POINTS = 240, 40  # per curve
MOST_NUMBERS = 75_000  # in all regret charts of a page, which keeps it well below a megabyte
MOST_CHANGES = 40  # change points that are marked
LOG_FROM = 20  # an axis is logarithmic if its largest value is so many times its smallest
DIGITS = 6
ENOUGH_PROBLEMS = 40  # to show regret against hardness


def regret_chart(results: Results, setting: Setting) -> Chart:
    """Return regret over time, with views for pseudo-regret and for regret within each segment.

    >>> from switchmdp.experiments.results import as_setting
    >>> setting = as_setting([10, 20], {"a": [[1, 5]]}, change_points=[11])
    >>> chart = regret_chart(Results("", 0.1, {"s": setting}), setting)
    >>> chart["x"], chart["views"][2]["curves"][0][0]
    ([0, 10, 11, 20], [0.0, 1.0, 0.4, 4.0])
    """
    changes = shared_changes(setting) or ()
    steps = _drawn_steps(setting, changes, _points_per_curve(results))
    names = list(setting.agents)
    order = list(results.agents)
    regret = {name: regret_curves(setting, name) for name in names}
    pseudo = {name: regret_curves(setting, name, pseudo=True) for name in names}
    shape = (setting.n_problems, len(steps))
    at = np.broadcast_to(steps.astype(np.float64), shape)
    segment_starts = _segment_starts(setting, steps)

    def curve(rows: Floats, subtract: Floats | float = 0.0) -> Band:
        return band(steps, regret_at(setting, rows, at) - subtract)

    views = {
        "regret": [curve(regret[name]) for name in names],
        "pseudo-regret": [curve(pseudo[name]) for name in names],
        "regret within each segment": [
            curve(regret[name], regret_at(setting, regret[name], segment_starts)) for name in names
        ],
    }
    return {
        "title": setting.name, "x": steps.tolist(), "xlabel": "time step", "xname": "step",
        "log": False, "points": False,
        "marks": [{"x": int(point), "label": ""} for point in changes],
        "names": names, "styles": [order.index(name) for name in names],
        "views": [{"name": name, "curves": _rounded(curves)} for name, curves in views.items()],
    }  # fmt: skip


def parameter_charts(results: Results, parameter: str) -> list[Chart]:
    """Return mean final regret against a swept parameter; fixed values of it are marked."""
    marks = fixed_values(results, parameter)
    panels = regret_by_parameter(results, parameter)
    order = list(dict.fromkeys(name for curves in panels.values() for name in curves))
    return [
        _points_chart(
            f"Final regret by {parameter}: {panel}", parameter, curves, order,
            marks.get(panel, {}),
        )
        for panel, curves in panels.items()
    ]  # fmt: skip


def hardness_chart(results: Results, setting: Setting) -> Chart | None:
    """Return mean final regret against the diameter, or None if too few problems differ in it."""
    if not varies_in_diameter(setting):
        return None
    title = f"Final regret by diameter: {setting.name}"
    return _points_chart(title, "diameter", regret_by_hardness(setting), results.agents, {})


def varies_in_diameter(setting: Setting) -> bool:
    """Whether enough problems have a finite diameter, and not all the same."""
    known = setting.hardness.get("diameter", np.empty(0))
    known = known[np.isfinite(known)]
    enough = len(known) >= ENOUGH_PROBLEMS and bool(setting.agents)
    return enough and bool(known.min() < known.max())


def needs_log_axis(values: ArrayLike) -> bool:
    """Whether positive values spread so widely that their axis should be logarithmic.

    >>> needs_log_axis([1, 100]), needs_log_axis([0, 100]), needs_log_axis([50, 100])
    (True, False, False)
    """
    low, high = np.min(values), np.max(values)
    return bool(low > 0 and high >= LOG_FROM * low)


def _points_chart(
    title: str,
    axis: str,
    curves: Mapping[str, Band],
    order: Sequence[str],
    marks: Mapping[str, float],
) -> Chart:
    x = np.unique(np.concatenate([curve.times for curve in curves.values()]))
    return {
        "title": title, "x": [float(f"{value:.6g}") for value in x],
        "xlabel": axis, "xname": f"{axis} =", "log": needs_log_axis(x), "points": True,
        "marks": [{"x": float(value), "label": label} for label, value in marks.items()],
        "names": list(curves), "styles": [order.index(name) for name in curves],
        "views": [
            {"name": "final regret", "curves": _rounded(_on_axis(x, c) for c in curves.values())}
        ],
    }  # fmt: skip


def shared_changes(setting: Setting) -> tuple[int, ...] | None:
    """Return the change points up to the horizon; None if problems differ or there are too many.

    >>> from switchmdp.experiments.results import as_setting
    >>> shared_changes(as_setting([10, 20], {"a": [[1, 2]]}, change_points=[11, 99]))
    (11,)
    """
    distinct = {tuple(each[each <= setting.horizon].tolist()) for each in setting.change_points}
    if len(distinct) != 1:
        return None
    (points,) = distinct
    return points if len(points) <= MOST_CHANGES else None


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
    for row, points in zip(rows, setting.change_points, strict=True):
        boundaries = np.r_[0, points - 1]
        row[:] = boundaries[np.maximum(np.searchsorted(boundaries, steps) - 1, 0)]
    return rows


def _on_axis(x: NDArray[Any], curve: Band) -> Band:
    """Return the curve on a wider axis, with NaN where it has no point."""
    place = np.searchsorted(x, curve.times)
    wide = np.full((3, len(x)), np.nan)
    wide[:, place] = curve.middle, curve.low, curve.high
    return Band(x, *wide)


def _rounded(curves: Iterable[Band]) -> list[list[list[float | None]]]:
    """Return mean, low and high of each curve, rounded to six digits of the largest number."""
    arrays = np.array([[curve.middle, curve.low, curve.high] for curve in curves])
    finite = np.abs(arrays[np.isfinite(arrays)])
    largest = float(finite.max(initial=0.0)) or 1.0
    decimals = DIGITS - 1 - math.floor(math.log10(largest))
    listed: list[list[list[float]]] = np.round(arrays, decimals).tolist()
    return [[[x if math.isfinite(x) else None for x in line] for line in curve] for curve in listed]
