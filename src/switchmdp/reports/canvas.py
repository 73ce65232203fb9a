"""How figures look: style, axes, ticks, marks and the legend below. `plots` says what is drawn.

The only module that imports matplotlib (extra `plot`), and never its `pyplot`: a notebook's backend
and settings stay as they are, and nothing here depends on them. One panel is as wide as a column,
several are as wide as the page. Names are drawn as they are written, never read as formulas. The
same figure gives the same bytes; text is outlined in SVG, so that it looks alike everywhere, and
embedded as TrueType in PDF.
"""

from __future__ import annotations

import io
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from switchmdp.errors import InvalidParameter, MissingExtra

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLUMN, PAGE = 3.4, 7.0  # widths, in inches
TEXT, TITLE = 8.0, 9.0  # sizes, in points
LINE = 1.3 * TEXT  # from one line of text to the next
_CHARACTER = 0.6  # the width of a character, on average, for each point of its size
_STYLE: dict[Any, Any] = {
    "axes.labelsize": TEXT, "axes.linewidth": 0.6, "axes.spines.right": False,
    "axes.spines.top": False, "axes.titlesize": TITLE, "figure.dpi": 150,
    "font.family": "DejaVu Sans", "font.size": TEXT, "legend.fontsize": TEXT,
    "legend.frameon": False, "legend.handlelength": 3.2, "lines.linewidth": 1.3,
    "lines.markersize": 3.5, "pdf.fonttype": 42, "savefig.dpi": 300, "svg.fonttype": "path",
    "svg.hashsalt": "switchmdp", "text.parse_math": False, "xtick.labelsize": TEXT,
    "xtick.major.width": 0.6, "ytick.labelsize": TEXT, "ytick.major.width": 0.6,
}  # fmt: skip
# Neither the date nor the version of the drawing library may enter the bytes.
METADATA: dict[str, dict[str, Any]] = {
    "svg": {"Date": None, "Creator": None},
    "pdf": {"CreationDate": None, "Creator": None, "Producer": None},
    "png": {"Software": None},
}


@contextmanager
def style() -> Iterator[None]:
    """Our own settings, whatever the caller's are; his are back afterwards."""
    try:
        import matplotlib
    except ImportError as error:
        raise MissingExtra("figures need matplotlib: pip install 'switchmdp[plot]'") from error
    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(_STYLE)
        yield


@style()
def rendered(figure: Figure, kind: str) -> bytes:
    """The file that holds the figure; `kind` is a key of METADATA."""
    content = io.BytesIO()
    figure.savefig(content, format=kind, metadata=METADATA[kind])
    return content.getvalue()


@cache
def _figure_class() -> type[Figure]:
    from matplotlib.figure import Figure

    class Shown(Figure):
        """A figure that a notebook shows although `pyplot` knows nothing of it."""

        def _repr_png_(self) -> tuple[bytes, dict[str, float]]:
            width, height = (96 * float(inches) for inches in self.get_size_inches())
            return rendered(self, "png"), {"width": width, "height": height}

    return Shown


def grid(titles: Sequence[str], ylabel: str, height: float) -> tuple[Figure, list[Axes]]:
    """A figure with axes for each title, in rows of two or three, each so high."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    n = len(titles)
    if n == 0:
        raise InvalidParameter("panels", list(titles), "at least one panel")
    columns = n if n <= 3 else 2 if n == 4 else 3
    rows = -(-n // columns)
    width = COLUMN if n == 1 else PAGE
    figure = _figure_class()(figsize=(width, rows * height), layout="constrained")
    FigureCanvasAgg(figure)
    axes = [figure.add_subplot(rows, columns, i + 1) for i in range(n)]
    for i, (axis, title) in enumerate(zip(axes, titles, strict=True)):
        axis.set_title(wrapped(title, width / columns - 0.4, TITLE))
        for side, whole in ((axis.xaxis, True), (axis.yaxis, False)):
            steps = [1, 2, 2.5, 5, 10]
            side.set_major_locator(MaxNLocator(5, steps=steps, integer=whole, min_n_ticks=3))
            side.set_major_formatter(FuncFormatter(lambda x, _: short(x)))
        if i % columns == 0:
            axis.set_ylabel(ylabel)
    return figure, axes


def make_logarithmic(axis: Axes, values: ArrayLike) -> None:
    """A logarithmic horizontal axis for these values."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    shown = np.asarray(values, dtype=np.float64)
    if not np.all(shown > 0):
        raise InvalidParameter("values", shown.min(), "positive on a logarithmic axis")
    few = np.ptp(np.log10(shown)) < 2.5 if shown.size else True
    axis.set_xscale("log")
    axis.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if few else (1.0,)))
    axis.xaxis.set_major_formatter(FuncFormatter(lambda x, _: short(x)))
    axis.xaxis.set_minor_formatter(NullFormatter())


def mark(axis: Axes, marks: Mapping[str, float]) -> None:
    """Vertical lines, named above the axes; a name that would touch another goes higher."""
    for place in marks.values():
        axis.axvline(place, color="0.35", lw=0.9, ls=(0, (2, 1.5)), zorder=0)
    taken: list[float] = []  # how far each line of names reaches to the right, in pixels
    for name, place in sorted(marks.items(), key=lambda item: item[1]):
        middle = float(axis.transData.transform((place, 0))[0])
        half = len(name) * TEXT * _CHARACTER / 72 / 2 * axis.figure.dpi
        level = next((i for i, end in enumerate(taken) if end < middle - half), len(taken))
        taken[level : level + 1] = [middle + half]
        axis.annotate(
            wrapped(name, PAGE, TEXT), (place, 1), (0, 2 + LINE * level),
            axis.get_xaxis_transform(), "offset points", ha="center", va="bottom",
        )  # fmt: skip
    axis.set_title(axis.get_title(), pad=6 + LINE * len(taken))


def settled(figure: Figure, entries: Sequence[tuple[str, Artist]]) -> Figure:
    """The figure with a legend below, in as many columns as fit; the axes keep their height."""
    n = len(entries)
    width, height = (float(inches) for inches in figure.get_size_inches())
    names = [wrapped(name, width - 0.8, TEXT) for name, _ in entries]
    for columns in sorted({-(-n // rows) for rows in range(1, n + 1)}, reverse=True):
        legend = figure.legend(
            [handle for _, handle in entries],
            [str(i) for i in range(n)],
            loc="outside lower center",
            ncols=columns,
        )
        for text, name in zip(legend.get_texts(), names, strict=True):
            text.set_text(name)  # only here: a legend passes over labels that begin with _
        box = legend.get_window_extent()
        if box.width <= figure.bbox.width or columns == 1:
            figure.set_size_inches(width, height + box.height / figure.dpi)
            break
        legend.remove()
    figure.draw_without_rendering()  # ticks are made on demand, in the style of the moment
    return figure


def wrapped(words: str, inches: float, size: float) -> str:
    """Words that can be drawn, in lines that fit.

    >>> wrapped("two\\nwords", 0.5, TEXT)
    'two\\nwords'
    >>> wrapped("two\\nwords", 1.0, TEXT)
    'two words'
    """
    drawable = (" " if c.isspace() else c if c.isprintable() else "\ufffd" for c in words)
    return textwrap.fill("".join(drawable), max(8, int(72 * inches / (size * _CHARACTER))))


def short(x: float) -> str:
    """A tick's label.

    >>> [short(x) for x in (-2500.0, 0.0, 0.25, 750.0, 20_000.0, 1_500_000.0)]
    ['−2.5k', '0', '0.25', '750', '20k', '1.5M']
    """
    unit, suffix = next((u for u in ((1e6, "M"), (1e3, "k")) if abs(x) >= u[0]), (1.0, ""))
    return f"{x / unit:.6g}{suffix}".replace("-", "−")
