"""A heat map: one number for each name and column, coloured by its logarithm.

The colours are cividis, which looks nearly the same to colour-blind readers and grows lighter all
the way; each cell says its number too. As all figures: the same data gives the same bytes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from switchmdp.errors import InvalidParameter
from switchmdp.reports import canvas
from switchmdp.reports.numbers import UNKNOWN

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CELL, HEIGHT = 0.42, 0.24  # inches
DARK = 0.55  # the share of the scale from which on the colours are light, and text on them black


@canvas.style()
def heat_map(columns: Sequence[str], lines: Mapping[str, Sequence[float]], *, label: str) -> Figure:
    """Lines of cells, one for each column; NaN and what is not positive stays white.

    >>> figure = heat_map(["one", "two"], {"a": [1.0, 10.0]}, label="relative regret")
    >>> [text.get_text() for text in figure.axes[0].texts]
    ['1.0', '10']
    """
    if not columns or not lines:
        raise InvalidParameter("lines", list(lines), "at least one line and one column")
    values = np.array([list(line) for line in lines.values()], dtype=np.float64)
    values = np.where(values > 0, values, np.nan)
    known = values[np.isfinite(values)]
    low, high = (float(known.min()), float(known.max())) if known.size else (1.0, 1.0)
    low, high = min(low, 1.0), max(high, 10.0)
    figure, (axis,) = canvas.grid([""], "", 1.0)
    names = [canvas.wrapped(name, 1.9, canvas.TEXT) for name in lines]
    heads = [canvas.wrapped(name, 2.2, canvas.TEXT) for name in columns]
    figure.set_size_inches(3.2 + CELL * len(columns), 2.1 + HEIGHT * len(lines))
    mesh: Any = axis.pcolormesh(
        np.ma.masked_invalid(values), cmap="cividis", norm="log", vmin=low, vmax=high,
        edgecolors="white", linewidth=0.6,
    )  # fmt: skip
    for i, line in enumerate(values):
        for j, value in enumerate(line):
            share = np.log(value / low) / np.log(high / low)
            colour = "0.35" if np.isnan(value) else "black" if share > DARK else "white"
            axis.text(j + 0.5, i + 0.5, _cell(value), ha="center", va="center", fontsize=6.0,
                      color=colour)  # fmt: skip
    axis.set_xticks(np.arange(len(columns)) + 0.5, heads, rotation=90)
    axis.set_yticks(np.arange(len(lines)) + 0.5, names)
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
    """A number that fits into a cell.

    >>> [_cell(x) for x in (0.314, 1.0, 9.96, 31.4, 1234.0, float("nan"))]
    ['0.31', '1.0', '10', '31', '1234', '–']
    """
    if np.isnan(value):
        return UNKNOWN
    return f"{value:.2f}" if value < 0.995 else f"{value:.1f}" if value < 9.95 else f"{value:.0f}"
