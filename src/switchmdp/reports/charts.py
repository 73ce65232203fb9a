"""What the page's charts show: curves thinned, rounded and ready to be written as JSON.

A chart is a dict: `title`, the horizontal axis `x` with its `xlabel` and `xname`, whether it is
`log`, whether single `points` are drawn, vertical `marks` ({x, label}), the lines' `names` and
`styles` (a number for colour and dash), and `views`. A view has a name and, for each line, its
middle, low and high; null stands where nothing is known.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from switchmdp.experiments.results import Results, Setting
from switchmdp.reports.against import against, against_hardness, fixed_values
from switchmdp.reports.curves import curves, regret_at
from switchmdp.reports.resampling import Band, Floats, band

Chart = dict[str, Any]
MOST_POINTS, FEWEST_POINTS = 240, 40
MOST_NUMBERS = 75_000  # in all regret charts of a page, which keeps it well under a megabyte
MOST_CHANGES = 40  # that are marked
LOG_FROM = 20  # the ratio of largest to smallest value from which an axis is logarithmic
DIGITS = 6
ENOUGH = 40  # problems, to show regret against their hardness


def regret_chart(results: Results, setting: Setting) -> Chart:
    """Regret over time, as it is, without the luck of the draws, and anew from every change.

    >>> from switchmdp.experiments.results import as_setting
    >>> setting = as_setting([10, 20], {"a": [[1, 5]]}, change_points=[11])
    >>> chart = regret_chart(Results("", 0.1, {"s": setting}), setting)
    >>> chart["x"], chart["views"][2]["curves"][0][0]
    ([0, 10, 11, 20], [0.0, 1.0, 0.4, 4.0])
    """
    changes = shared_changes(setting) or ()
    steps = _steps(setting, changes, _points(results))
    names = list(setting.agents)
    order = list(results.agents)
    regret = {name: curves(setting, name) for name in names}
    pseudo = {name: curves(setting, name, pseudo=True) for name in names}
    taken = np.broadcast_to(steps.astype(np.float64), (setting.n_problems, len(steps)))
    begun = _begun(setting, steps)

    def since(rows: Floats, start: Floats | float) -> Band:
        earned = regret_at(setting, rows, taken)
        return band(steps, earned - start)

    views = {
        "regret": [since(regret[name], 0.0) for name in names],
        "pseudo-regret": [since(pseudo[name], 0.0) for name in names],
        "regret within each segment": [
            since(regret[name], regret_at(setting, regret[name], begun)) for name in names
        ],
    }
    return {
        "title": setting.name, "x": steps.tolist(), "xlabel": "time step", "xname": "step",
        "log": False, "points": False,
        "marks": [{"x": int(point), "label": ""} for point in changes],
        "names": names, "styles": [order.index(name) for name in names],
        "views": [{"name": name, "curves": _rounded(lines)} for name, lines in views.items()],
    }  # fmt: skip


def parameter_charts(results: Results, parameter: str) -> list[Chart]:
    """Mean final regret against a swept parameter; agents that have it fixed are marked."""
    marks = fixed_values(results, parameter)
    panels = against(results, parameter)
    order = list(dict.fromkeys(name for lines in panels.values() for name in lines))
    return [
        _points_chart(
            f"Final regret against {parameter}: {panel}", parameter, lines, order,
            marks.get(panel, {}),
        )
        for panel, lines in panels.items()
    ]  # fmt: skip


def hardness_chart(results: Results, setting: Setting, name: str) -> Chart | None:
    """Mean final regret against the problems' hardness, where enough of them differ in it."""
    known = setting.hardness.get(name, np.empty(0))
    known = known[np.isfinite(known)]
    if len(known) < ENOUGH or known.min() == known.max() or not setting.agents:
        return None
    title = f"Final regret against {name}: {setting.name}"
    return _points_chart(title, name, against_hardness(setting, name), results.agents, {})


def _points_chart(
    title: str,
    axis: str,
    lines: Mapping[str, Band],
    order: Sequence[str],
    marks: Mapping[str, float],
) -> Chart:
    x = np.unique(np.concatenate([line.times for line in lines.values()]))
    wide = [_at(x, line) for line in lines.values()]
    return {
        "title": title, "x": [float(f"{value:.6g}") for value in x],
        "xlabel": axis, "xname": f"{axis} =",
        "log": bool(x[0] > 0 and x[-1] >= LOG_FROM * x[0]), "points": True,
        "marks": [{"x": float(value), "label": label} for label, value in marks.items()],
        "names": list(lines), "styles": [order.index(name) for name in lines],
        "views": [{"name": "final regret", "curves": _rounded(wide)}],
    }  # fmt: skip


def shared_changes(setting: Setting) -> tuple[int, ...] | None:
    """The change points felt, where all problems have the same, few enough to mark.

    >>> from switchmdp.experiments.results import as_setting
    >>> shared_changes(as_setting([10, 20], {"a": [[1, 2]]}, change_points=[11, 99]))
    (11,)
    """
    felt = {tuple(points[points <= setting.horizon].tolist()) for points in setting.change_points}
    if len(felt) != 1:
        return None
    (points,) = felt
    return points if len(points) <= MOST_CHANGES else None


def _points(results: Results) -> int:
    """How many points a curve may have: fewer where there are very many curves."""
    lines = sum(len(setting.agents) for setting in results.settings.values())
    return min(MOST_POINTS, max(FEWEST_POINTS, MOST_NUMBERS // max(1, 9 * lines)))


def _steps(setting: Setting, changes: tuple[int, ...], most: int) -> NDArray[np.int64]:
    """The steps drawn: recorded ones, evenly thinned, and the last and first around a change."""
    n = len(setting.times)
    kept = setting.times[np.linspace(0, n - 1, min(n, most)).round().astype(np.int64)]
    around = [point - shift for point in changes for shift in (1, 0)]
    return np.unique(np.r_[0, kept, np.array(around, dtype=np.int64)])


def _begun(setting: Setting, steps: NDArray[np.int64]) -> Floats:
    """(problems, steps): how many steps were taken when the segment of each step began."""
    rows = np.empty((setting.n_problems, len(steps)))
    for row, points in zip(rows, setting.change_points, strict=True):
        boundaries = np.r_[0, points - 1]
        row[:] = boundaries[np.maximum(np.searchsorted(boundaries, steps) - 1, 0)]
    return rows


def _at(every: NDArray[Any], line: Band) -> Band:
    """The line on a wider axis, NaN where it has no point."""
    place = np.searchsorted(every, line.times)
    wide = np.full((3, len(every)), np.nan)
    wide[:, place] = line.middle, line.low, line.high
    return Band(every, *wide)


def _rounded(lines: list[Band]) -> list[list[list[float | None]]]:
    """Middle, low and high of each line, to six digits of the largest among them all."""
    arrays = np.array([[line.middle, line.low, line.high] for line in lines])
    finite = np.abs(arrays[np.isfinite(arrays)])
    largest = float(finite.max(initial=0.0)) or 1.0
    decimals = DIGITS - 1 - math.floor(math.log10(largest))
    listed: list[list[list[float]]] = np.round(arrays, decimals).tolist()
    return [[[x if math.isfinite(x) else None for x in curve] for curve in line] for line in listed]
