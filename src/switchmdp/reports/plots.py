"""Figures for papers. Plots compute nothing: they draw what they are given.

Colours are Okabe and Ito's, which stay apart for colour-blind readers; lines differ in dash too. A
name has the same look in all panels of a figure. Figures are returned, so that a notebook shows
them, and saved by `save_figure`; the same data gives the same bytes.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from switchmdp.errors import InvalidParameter
from switchmdp.reports import canvas
from switchmdp.reports.resampling import Band
from switchmdp.storage import save_bytes

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
DASHES: tuple[Any, ...] = (
    "-", "--", "-.", ":", (0, (8, 2)), (0, (3, 1, 1, 1, 1, 1)), (0, (8, 2, 1, 2)),
)  # fmt: skip
MARKERS = ("o", "s", "^", "D", "v", "P", "X")  # one for each dash
PANEL_HEIGHT = 2.3  # inches


@dataclass(frozen=True)
class Panel:
    """One pair of axes: its title, its lines by name, and what is marked along the bottom."""

    title: str
    curves: Mapping[str, Band]
    change_points: Sequence[int] | NDArray[np.int64] = ()
    marks: Mapping[str, float] = field(default_factory=dict)


@canvas.style()
def regret_figure(panels: Sequence[Panel], *, ylabel: str = "regret") -> Figure:
    """Regret over time: lines with bands, and the change points.

    >>> line = np.arange(3.0)
    >>> figure = regret_figure([Panel("one", {"a": Band(line, line, line, line)}, [1])])
    >>> figure.axes[0].get_title()
    'one'
    """
    figure, axes = canvas.grid([panel.title for panel in panels], ylabel, PANEL_HEIGHT)
    looks = _looks(panel.curves for panel in panels)
    lines: dict[str, Artist] = {}
    changes: list[Artist] = []
    for axis, panel in zip(axes, panels, strict=True):
        for name, curve in panel.curves.items():
            colour, dash, _ = looks[name]
            axis.fill_between(curve.times, curve.low, curve.high, color=colour, alpha=0.2, lw=0)
            (lines[name],) = axis.plot(curve.times, curve.middle, color=colour, ls=dash)
        end = max((float(curve.times[-1]) for curve in panel.curves.values()), default=1.0)
        seen = [point for point in panel.change_points if point < end]
        if seen:
            across = axis.get_xaxis_transform()
            changes.append(axis.vlines(seen, 0, 1, "0.7", lw=0.7, zorder=0, transform=across))
        axis.set_xlim(0, end)
        axis.set_xlabel("time step")
        _begin_at_zero(axis, panel)
        canvas.mark(axis, panel.marks)
    entries = [(name, lines[name]) for name in looks]
    return canvas.settled(figure, entries + [("change", line) for line in changes[:1]])


@canvas.style()
def parameter_figure(
    panels: Sequence[Panel],
    *,
    xlabel: str,
    ylabel: str = "final regret",
    log: bool = False,
    marks: Mapping[str, float] = MappingProxyType({}),
) -> Figure:
    """Regret against a parameter, whose values are the bands' `times`; all panels get the marks.

    >>> regret = np.array([3.0, 1.0, 2.0])
    >>> scan = Band(np.array([100, 1000, 10_000]), regret, regret - 0.5, regret + 0.5)
    >>> panels = [Panel("two changes", {"SW-UCRL": scan})]
    >>> figure = parameter_figure(panels, xlabel="window", log=True, marks={"W*": 2500.0})
    >>> figure.axes[0].get_xlabel()
    'window'
    """
    figure, axes = canvas.grid([panel.title for panel in panels], ylabel, PANEL_HEIGHT)
    looks = _looks(panel.curves for panel in panels)
    lines: dict[str, Artist] = {}
    for axis, panel in zip(axes, panels, strict=True):
        marked = {**marks, **panel.marks}
        for name, scan in panel.curves.items():
            colour, dash, sign = looks[name]
            (lines[name],) = axis.plot(scan.times, scan.middle, sign, color=colour, ls=dash)
            axis.vlines(scan.times, scan.low, scan.high, colour, lw=1.0)
        if log:
            values = [*marked.values(), *(x for scan in panel.curves.values() for x in scan.times)]
            canvas.make_logarithmic(axis, values)
        axis.set_xlabel(xlabel)
        _begin_at_zero(axis, panel)
        canvas.mark(axis, marked)
    return canvas.settled(figure, [(name, lines[name]) for name in looks])


@canvas.style()
def distribution_figure(
    panels: Sequence[tuple[str, Mapping[str, Sequence[float]]]], *, xlabel: str = "final regret"
) -> Figure:
    """Bars for each agent: panels of a title and the 5, 25, 50, 75 and 95 % quantiles by name.

    >>> figure = distribution_figure([("two changes", {"SW-UCRL": [1.0, 2.0, 3.0, 4.0, 5.0]})])
    >>> [label.get_text() for label in figure.axes[0].get_yticklabels()]
    ['SW-UCRL']
    """
    looks = _looks(quantiles for _, quantiles in panels)
    room = canvas.COLUMN * (0.4 if len(panels) == 1 else 0.6)
    labels = [canvas.wrapped(name, room, canvas.TEXT) for name in looks]
    heights = np.array([0.13 + canvas.LINE / 72 * (1 + name.count("\n")) for name in labels])
    feet = np.cumsum([0.0, *heights])  # of the rows, in inches, each as high as its name needs
    rows = dict(zip(looks, feet[1:] - heights / 2, strict=True))
    figure, axes = canvas.grid([title for title, _ in panels], "", 0.7 + feet[-1])
    for axis, (_, quantiles) in zip(axes, panels, strict=True):
        for name, (lowest, low, middle, high, highest) in quantiles.items():
            colour = looks[name][0]
            axis.hlines(rows[name], lowest, highest, colour, lw=1.2)
            axis.hlines(rows[name], low, high, colour, lw=6)
            axis.plot(middle, rows[name], "o", mfc="white", mec=colour, clip_on=False)
        axis.set_ylim(feet[-1] + 0.03, -0.03)
        place = axis.get_subplotspec()
        axis.set_yticks(list(rows.values()), labels)
        axis.tick_params(axis="y", length=0, labelleft=place is None or place.is_first_col())
        axis.spines["left"].set_visible(False)
        axis.set_xlabel(xlabel)
        if np.nanmin([0.0, *(x for five in quantiles.values() for x in five)]) >= 0:
            axis.set_xlim(left=0)
    (dot,) = axes[0].plot([], [], "o", mfc="white", mec="0.4")
    (thick,) = axes[0].plot([], [], lw=6, color="0.4", solid_capstyle="butt")
    (thin,) = axes[0].plot([], [], lw=1.2, color="0.4")
    return canvas.settled(figure, [("median", dot), ("25–75 %", thick), ("5–95 %", thin)])


def save_figure(figure: Figure, path: str | os.PathLike[str]) -> None:
    """Write a figure as SVG, PDF or PNG, as the path's suffix says: all of it or nothing.

    >>> import tempfile
    >>> figure = distribution_figure([("two changes", {"SW-UCRL": [1.0, 2.0, 3.0, 4.0, 5.0]})])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_figure(figure, Path(folder, "figure.pdf"))
    ...     Path(folder, "figure.pdf").read_bytes()[:4]
    b'%PDF'
    """
    kind = Path(path).suffix.lower().removeprefix(".")
    if kind not in canvas.METADATA:
        raise InvalidParameter("path", os.fspath(path), "a name ending in .svg, .pdf or .png")
    save_bytes(path, canvas.rendered(figure, kind))


def _looks(groups: Iterable[Iterable[str]]) -> dict[str, tuple[str, Any, str]]:
    """Colour, dash and marker of each name; 49 are different."""
    looks: dict[str, tuple[str, Any, str]] = {}
    for name in dict.fromkeys(name for group in groups for name in group):
        turn, i = divmod(len(looks), len(COLOURS))
        j = (i + turn) % len(DASHES)
        looks[name] = COLOURS[i], DASHES[j], MARKERS[j]
    return looks


def _begin_at_zero(axis: Axes, panel: Panel) -> None:
    """Unless something lies below."""
    if np.nanmin(np.concatenate([[0.0], *(curve.low for curve in panel.curves.values())])) >= 0:
        axis.set_ylim(bottom=0)
