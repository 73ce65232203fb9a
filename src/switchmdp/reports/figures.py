"""Figures for papers: regret over time, regret against a parameter, distributions, a heat map.

The functions only draw the given data. Figures are returned, so that a notebook shows
them, and `save_figure` writes them to files. The same data gives the same bytes.

This is the only module that imports matplotlib (extra `plot`). It never imports `pyplot`, and so
neither uses nor changes the caller's backend and settings. One panel is as wide as a column of a
paper, several panels are as wide as the page. Names are drawn literally, never parsed as formulas.
In SVG files text is drawn as outlines, so that it looks the same everywhere; PDF files embed
TrueType fonts. Lines use Okabe and Ito's colours, which colour-blind readers can tell apart, and
differ in dash as well. A name has the same colour and dash in all panels of a figure.
"""

from __future__ import annotations

import base64
import io
import os
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from switchmdp.display import shortened
from switchmdp.errors import InvalidParameter, MissingExtra
from switchmdp.reports.page import UNKNOWN
from switchmdp.reports.resampling import Band
from switchmdp.storage import save_bytes

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLUMN_WIDTH, PAGE_WIDTH = 3.4, 7.0  # widths, in inches
TEXT, TITLE = 8.0, 9.0  # font sizes, in points
LINE = 1.3 * TEXT  # line height, in points
_CHARACTER = 0.6  # average width of a character, relative to the font size
_STYLE: dict[Any, Any] = {
    "axes.labelsize": TEXT, "axes.linewidth": 0.6, "axes.spines.right": False,
    "axes.spines.top": False, "axes.titlesize": TITLE, "figure.dpi": 150,
    "font.family": "DejaVu Sans", "font.size": TEXT, "legend.fontsize": TEXT,
    "legend.frameon": False, "legend.handlelength": 3.2, "lines.linewidth": 1.3,
    "lines.markersize": 3.5, "pdf.fonttype": 42, "savefig.dpi": 300, "svg.fonttype": "path",
    "svg.hashsalt": "switchmdp", "text.parse_math": False, "xtick.labelsize": TEXT,
    "xtick.major.width": 0.6, "ytick.labelsize": TEXT, "ytick.major.width": 0.6,
}  # fmt: skip
# Leave out the date and the version of matplotlib, so that files are reproducible.
METADATA: dict[str, dict[str, Any]] = {
    "svg": {"Date": None, "Creator": None},
    "pdf": {"CreationDate": None, "Creator": None, "Producer": None},
    "png": {"Software": None},
}
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
DASHES: tuple[Any, ...] = (
    "-", "--", "-.", ":", (0, (8, 2)), (0, (3, 1, 1, 1, 1, 1)), (0, (8, 2, 1, 2)),
)  # fmt: skip
MARKERS = ("o", "s", "^", "D", "v", "P", "X")  # one for each dash
PANEL_HEIGHT = 2.3  # inches
FORMATS = ("svg", "pdf", "png")
CELL_WIDTH, CELL_HEIGHT = 0.42, 0.24  # of the heat map, in inches
LIGHT = 0.55  # above this share of the colour scale, the text of a cell is black


@contextmanager
def own_style() -> Iterator[None]:
    """Use the settings of this module, and restore the caller's afterwards."""
    try:
        import matplotlib
    except ImportError as error:
        raise MissingExtra("figures need matplotlib: pip install 'switchmdp[plot]'") from error
    # Not rcdefaults(), which warns if another thread changes the warning filters meanwhile.
    settings: dict[Any, Any] = {**matplotlib.rcParamsDefault, **_STYLE}
    del settings["backend"]
    with matplotlib.rc_context(settings):
        yield


@own_style()
def render_figure(figure: Figure, kind: str) -> bytes:
    """Return the content of an image file; `kind` is svg, pdf or png."""
    from matplotlib import rcParams
    from matplotlib.backend_bases import get_registered_canvas_class

    content = io.BytesIO()
    canvas, dpi = figure.canvas, figure.dpi
    # Not `savefig`: it draws everything twice, the first time only to place the panels. A canvas
    # places them when it draws, with the same result.
    try:
        figure.dpi = rcParams["savefig.dpi"]
        printer: Any = get_registered_canvas_class(kind)(figure)
        getattr(printer, f"print_{kind}")(content, metadata=METADATA[kind])
    finally:
        figure.dpi = dpi
        figure.set_canvas(canvas)
    return content.getvalue()


def svg_source(figure: Figure) -> str:
    """Return the figure as a `data:` URL, for the `src` of an HTML image."""
    return "data:image/svg+xml;base64," + base64.b64encode(render_figure(figure, "svg")).decode()


@dataclass(frozen=True)
class Panel:
    """One panel of a figure: curves, change points, marks and restarts.

    Parameters
    ----------
    title
        The title above the axes.
    curves
        The curves, by name.
    change_points
        The steps at which vertical lines are drawn.
    marks
        Named values on the x axis.
    restarts
        The steps at which a triangle at the foot of the panel marks a restart.
    """

    title: str
    curves: Mapping[str, Band]
    change_points: Sequence[int] | NDArray[np.int64] = ()
    marks: Mapping[str, float] = field(default_factory=dict)
    restarts: Sequence[int] | NDArray[np.int64] = ()

    def __repr__(self) -> str:
        return f"Panel({shortened(self.title)}, {len(self.curves)} curves)"


@own_style()
def regret_figure(panels: Sequence[Panel], *, ylabel: str = "regret") -> Figure:
    """Draw regret over time: curves with bands, the change points, and the restarts.

    Parameters
    ----------
    panels
        One panel for each pair of axes; the `times` of a curve are time steps.
    ylabel
        The label of the y axis.

    Returns
    -------
    matplotlib.figure.Figure
        The figure.

    Examples
    --------
    >>> line = np.arange(3.0)
    >>> figure = regret_figure([Panel("one", {"a": Band(line, line, line, line)}, [1])])
    >>> figure.axes[0].get_title()
    'one'
    """
    figure, axes = make_panels([panel.title for panel in panels], ylabel, PANEL_HEIGHT)
    looks = _looks(panel.curves for panel in panels)
    lines: dict[str, Artist] = {}
    events: dict[str, Artist] = {}
    for axis, panel in zip(axes, panels, strict=True):
        for name, curve in panel.curves.items():
            colour, dash, _ = looks[name]
            axis.fill_between(curve.times, curve.low, curve.high, color=colour, alpha=0.2, lw=0)
            (lines[name],) = axis.plot(curve.times, curve.middle, color=colour, ls=dash)
        end = max((float(curve.times[-1]) for curve in panel.curves.values()), default=1.0)
        seen = [point for point in panel.change_points if point < end]
        if seen:
            across = axis.get_xaxis_transform()
            vertical = axis.vlines(seen, 0, 1, "0.7", lw=0.7, zorder=0, transform=across)
            events.setdefault("change point", vertical)
        if len(panel.restarts):
            (marks,) = axis.plot(
                panel.restarts, np.zeros(len(panel.restarts)), "^", color="0.3", ms=4,
                clip_on=False, transform=axis.get_xaxis_transform(), gid="restarts",
            )  # fmt: skip
            events.setdefault("restart", marks)
        axis.set_xlim(0, end)
        axis.set_xlabel("time step")
        _begin_at_zero(axis, panel)
        _mark(axis, panel.marks)
    entries = [(name, lines[name]) for name in looks]
    return add_legend(figure, [*entries, *events.items()])


@own_style()
def parameter_figure(
    panels: Sequence[Panel],
    *,
    xlabel: str,
    ylabel: str = "final regret",
    log: bool = False,
    marks: Mapping[str, float] = MappingProxyType({}),
) -> Figure:
    """Draw regret against a parameter.

    Parameters
    ----------
    panels
        One panel for each pair of axes; the `times` of a curve are the values of the parameter.
    xlabel
        The name of the parameter.
    ylabel
        The label of the y axis.
    log
        Whether the x axis is logarithmic.
    marks
        Named vertical lines in every panel; a panel may have its own.

    Returns
    -------
    matplotlib.figure.Figure
        The figure.

    Examples
    --------
    >>> regret = np.array([3.0, 1.0, 2.0])
    >>> scan = Band(np.array([100, 1000, 10_000]), regret, regret - 0.5, regret + 0.5)
    >>> panels = [Panel("two changes", {"SW-UCRL": scan})]
    >>> figure = parameter_figure(panels, xlabel="window", log=True, marks={"W*": 2500.0})
    >>> figure.axes[0].get_xlabel()
    'window'
    """
    figure, axes = make_panels([panel.title for panel in panels], ylabel, PANEL_HEIGHT)
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
            _make_logarithmic(axis, values)
        axis.set_xlabel(xlabel)
        _begin_at_zero(axis, panel)
        _mark(axis, marked)
    return add_legend(figure, [(name, lines[name]) for name in looks])


@own_style()
def distribution_figure(
    panels: Sequence[tuple[str, Mapping[str, Sequence[float]]]], *, xlabel: str = "final regret"
) -> Figure:
    """Draw quantiles as bars.

    Parameters
    ----------
    panels
        Pairs of a title and the 5, 25, 50, 75 and 95 % quantiles of each agent.
    xlabel
        The label of the x axis.

    Returns
    -------
    matplotlib.figure.Figure
        The figure.

    Examples
    --------
    >>> figure = distribution_figure([("two changes", {"SW-UCRL": [1.0, 2.0, 3.0, 4.0, 5.0]})])
    >>> [label.get_text() for label in figure.axes[0].get_yticklabels()]
    ['SW-UCRL']
    """
    looks = _looks(quantiles for _, quantiles in panels)
    room = COLUMN_WIDTH * (0.4 if len(panels) == 1 else 0.6)
    labels = [_wrapped(name, room, TEXT) for name in looks]
    heights = np.array([0.13 + LINE / 72 * (1 + name.count("\n")) for name in labels])
    feet = np.cumsum(
        [0.0, *heights]
    )  # lower edges of the rows, in inches; a row is as high as its name
    rows = dict(zip(looks, feet[1:] - heights / 2, strict=True))
    figure, axes = make_panels([title for title, _ in panels], "", 0.7 + feet[-1])
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
    return add_legend(figure, [("median", dot), ("25–75 %", thick), ("5–95 %", thin)])


@own_style()
def heat_map(columns: Sequence[str], rows: Mapping[str, Sequence[float]], *, label: str) -> Figure:
    """Draw one number per row and column, coloured by its logarithm.

    Unknown (NaN) and non-positive numbers stay white. The colour map is cividis, which looks nearly
    the same to colour-blind readers and gets lighter throughout. Each cell also shows its number.

    >>> figure = heat_map(["one", "two"], {"a": [1.0, 10.0]}, label="relative regret")
    >>> [text.get_text() for text in figure.axes[0].texts]
    ['1.0', '10']
    """
    if not columns or not rows:
        raise InvalidParameter("rows", list(rows), "at least one row and one column")
    values = np.array([list(row) for row in rows.values()], dtype=np.float64)
    values = np.where(values > 0, values, np.nan)
    known = values[np.isfinite(values)]
    low, high = (float(known.min()), float(known.max())) if known.size else (1.0, 1.0)
    low, high = min(low, 1.0), max(high, 10.0)
    figure, (axis,) = make_panels([""], "", 1.0)
    names = [_wrapped(name, 1.9, TEXT) for name in rows]
    heads = [_wrapped(name, 2.2, TEXT) for name in columns]
    figure.set_size_inches(3.2 + CELL_WIDTH * len(columns), 2.1 + CELL_HEIGHT * len(rows))
    mesh: Any = axis.pcolormesh(
        np.ma.masked_invalid(values), cmap="cividis", norm="log", vmin=low, vmax=high,
        edgecolors="white", linewidth=0.6,
    )  # fmt: skip
    for i, row in enumerate(values):
        for j, value in enumerate(row):
            share = np.log(value / low) / np.log(high / low)
            colour = "0.35" if np.isnan(value) else "black" if share > LIGHT else "white"
            axis.text(j + 0.5, i + 0.5, _cell(value), ha="center", va="center", fontsize=6.0,
                      color=colour)  # fmt: skip
    axis.set_xticks(np.arange(len(columns)) + 0.5, heads, rotation=90)
    axis.set_yticks(np.arange(len(rows)) + 0.5, names)
    axis.invert_yaxis()
    axis.tick_params(length=0)
    for side in axis.spines.values():
        side.set_visible(False)
    bar = figure.colorbar(mesh, ax=axis, label=label, shrink=0.6, aspect=25)
    bar.outline.set_visible(False)
    powers = range(int(np.floor(np.log10(low))), int(np.ceil(np.log10(high))) + 1)
    ticks = [x for n in powers for x in (10.0**n, 2 * 10.0**n, 5 * 10.0**n) if low <= x <= high]
    bar.set_ticks(ticks, labels=[f"{x:g}" for x in ticks])
    bar.minorticks_off()
    figure.draw_without_rendering()
    return figure


def _cell(value: float) -> str:
    """Format a number so that it fits into a cell.

    >>> [_cell(x) for x in (0.314, 1.0, 9.96, 31.4, 1234.0, float("nan"))]
    ['0.31', '1.0', '10', '31', '1234', '–']
    """
    if np.isnan(value):
        return UNKNOWN
    return f"{value:.2f}" if value < 0.995 else f"{value:.1f}" if value < 9.95 else f"{value:.0f}"


def save_figure(figure: Figure, path: str | os.PathLike[str]) -> None:
    """Write a figure as SVG, PDF or PNG, by the suffix of the path.

    The file is replaced atomically.

    Parameters
    ----------
    figure
        The figure.
    path
        The file, ending in .svg, .pdf or .png.

    Raises
    ------
    InvalidParameter
        If `figure` is no figure, or the path has another ending.

    Examples
    --------
    >>> import tempfile
    >>> figure = distribution_figure([("two changes", {"SW-UCRL": [1.0, 2.0, 3.0, 4.0, 5.0]})])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_figure(figure, Path(folder, "figure.pdf"))
    ...     Path(folder, "figure.pdf").read_bytes()[:4]
    b'%PDF'
    """
    if not hasattr(figure, "canvas"):
        raise InvalidParameter("figure", figure, "a matplotlib figure; the path comes second")
    kind = Path(path).suffix.lower().removeprefix(".")
    if kind not in METADATA:
        raise InvalidParameter("path", os.fspath(path), "a path ending in .svg, .pdf or .png")
    save_bytes(path, render_figure(figure, kind))


def save_figures(figures: Iterable[tuple[str, Figure]], folder: Path) -> list[Path]:
    """Write named figures to a folder in all FORMATS; return the paths."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for name, figure in figures:
        figure.set_layout_engine("none")  # the panels are placed already: once is enough
        for kind in FORMATS:
            paths.append(folder / f"{name}.{kind}")
            save_figure(figure, paths[-1])
    return paths


def _looks(groups: Iterable[Iterable[str]]) -> dict[str, tuple[str, Any, str]]:
    """Assign a colour, dash and marker to each name; the first 49 are all different."""
    looks: dict[str, tuple[str, Any, str]] = {}
    for name in dict.fromkeys(name for group in groups for name in group):
        turn, i = divmod(len(looks), len(COLOURS))
        j = (i + turn) % len(DASHES)
        looks[name] = COLOURS[i], DASHES[j], MARKERS[j]
    return looks


def _begin_at_zero(axis: Axes, panel: Panel) -> None:
    """Start the y axis at 0 unless a curve has negative values."""
    if np.nanmin(np.concatenate([[0.0], *(curve.low for curve in panel.curves.values())])) >= 0:
        axis.set_ylim(bottom=0)


@cache
def _figure_class() -> type[Figure]:
    from matplotlib.figure import Figure

    class NotebookFigure(Figure):
        """A figure that a notebook can show without `pyplot`."""

        def _repr_png_(self) -> tuple[bytes, dict[str, float]]:
            width, height = (96 * float(inches) for inches in self.get_size_inches())
            return render_figure(self, "png"), {"width": width, "height": height}

    return NotebookFigure


def make_panels(titles: Sequence[str], ylabel: str, height: float) -> tuple[Figure, list[Axes]]:
    """Create a figure with one panel per title, in rows of up to three panels."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    n = len(titles)
    if n == 0:
        raise InvalidParameter("panels", list(titles), "at least one panel")
    columns = n if n <= 3 else 2 if n == 4 else 3
    rows = -(-n // columns)
    width = COLUMN_WIDTH if n == 1 else PAGE_WIDTH
    figure = _figure_class()(figsize=(width, rows * height), layout="constrained")
    FigureCanvasAgg(figure)
    axes = [figure.add_subplot(rows, columns, i + 1) for i in range(n)]
    for i, (axis, title) in enumerate(zip(axes, titles, strict=True)):
        axis.set_title(_wrapped(title, width / columns - 0.4, TITLE))
        for side, whole in ((axis.xaxis, True), (axis.yaxis, False)):
            steps = [1, 2, 2.5, 5, 10]
            side.set_major_locator(MaxNLocator(5, steps=steps, integer=whole, min_n_ticks=3))
            side.set_major_formatter(FuncFormatter(lambda x, _: _tick_label(x)))
        if i % columns == 0:
            axis.set_ylabel(ylabel)
    return figure, axes


def _make_logarithmic(axis: Axes, values: ArrayLike) -> None:
    """Make the x axis logarithmic, with ticks that suit the range of these values."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    shown = np.asarray(values, dtype=np.float64)
    if not np.all(shown > 0):
        raise InvalidParameter("values", shown.min(), "positive values on a logarithmic axis")
    few = np.ptp(np.log10(shown)) < 2.5 if shown.size else True
    axis.set_xscale("log")
    axis.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if few else (1.0,)))
    axis.xaxis.set_major_formatter(FuncFormatter(lambda x, _: _tick_label(x)))
    axis.xaxis.set_minor_formatter(NullFormatter())


def _mark(axis: Axes, marks: Mapping[str, float]) -> None:
    """Draw vertical lines with names above the axes; names that would overlap are stacked."""
    for place in marks.values():
        axis.axvline(place, color="0.35", lw=0.9, ls=(0, (2, 1.5)), zorder=0)
    taken: list[float] = []  # right end of each line of names, in pixels
    for name, place in sorted(marks.items(), key=lambda item: item[1]):
        middle = float(axis.transData.transform((place, 0))[0])
        half = len(name) * TEXT * _CHARACTER / 72 / 2 * axis.figure.dpi
        level = next((i for i, end in enumerate(taken) if end < middle - half), len(taken))
        taken[level : level + 1] = [middle + half]
        axis.annotate(
            _wrapped(name, PAGE_WIDTH, TEXT), (place, 1), (0, 2 + LINE * level),
            axis.get_xaxis_transform(), "offset points", ha="center", va="bottom",
        )  # fmt: skip
    axis.set_title(axis.get_title(), pad=6 + LINE * len(taken))


def add_legend(figure: Figure, entries: Sequence[tuple[str, Artist]]) -> Figure:
    """Add a legend below the panels, in as many columns as fit; panels keep their height."""
    n = len(entries)
    width, height = (float(inches) for inches in figure.get_size_inches())
    names = [_wrapped(name, width - 0.8, TEXT) for name, _ in entries]
    for columns in sorted({-(-n // rows) for rows in range(1, n + 1)}, reverse=True):
        legend = figure.legend(
            [handle for _, handle in entries],
            [str(i) for i in range(n)],
            loc="outside lower center",
            ncols=columns,
        )
        for text, name in zip(legend.get_texts(), names, strict=True):
            text.set_text(name)  # set late because a legend skips labels that begin with _
        box = legend.get_window_extent()
        if box.width <= figure.bbox.width or columns == 1:
            figure.set_size_inches(width, height + box.height / figure.dpi)
            break
        legend.remove()
    figure.draw_without_rendering()  # create the ticks now, in this module's style
    return figure


def _wrapped(words: str, inches: float, size: float) -> str:
    """Wrap text to a width and replace characters that cannot be drawn.

    >>> _wrapped("two\\nwords", 0.5, TEXT)
    'two\\nwords'
    >>> _wrapped("two\\nwords", 1.0, TEXT)
    'two words'
    """
    drawable = (" " if c.isspace() else c if c.isprintable() else "\ufffd" for c in words)
    return textwrap.fill("".join(drawable), max(8, int(72 * inches / (size * _CHARACTER))))


def _tick_label(x: float) -> str:
    """Format a tick label.

    >>> [_tick_label(x) for x in (-2500.0, 0.0, 0.25, 750.0, 20_000.0, 1_500_000.0)]
    ['−2.5k', '0', '0.25', '750', '20k', '1.5M']
    """
    unit, suffix = next((u for u in ((1e6, "M"), (1e3, "k")) if abs(x) >= u[0]), (1.0, ""))
    return f"{x / unit:.6g}{suffix}".replace("-", "−")
