"""Figures for papers. Plots compute nothing: they draw what they are given.

The only module that imports matplotlib (extra `plot`). Colours are Okabe and Ito's, which stay
apart for colour-blind readers; lines differ in dash too. The same data gives the same bytes.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from switchmdp.errors import MissingExtra

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
DASHES = ("-", "--", "-.", ":", (0, (5, 1)), (0, (3, 1, 1, 1)), (0, (1, 1)))


@dataclass(frozen=True)
class Curve:
    """A line with a band around it."""

    times: NDArray[Any]
    middle: NDArray[np.float64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]


def save_regret_figure(
    path: str | os.PathLike[str],
    panels: Sequence[tuple[str, Mapping[str, Curve], Sequence[int]]],
    *,
    ylabel: str = "regret",
) -> None:
    """Draw panels of (title, curves by name, change points) side by side; the suffix says how.

    >>> import tempfile
    >>> line = np.arange(3.0)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "figure.svg")
    ...     save_regret_figure(path, [("one", {"a": Curve(line, line, line, line)}, [1])])
    ...     os.path.getsize(path) > 1000
    True
    """
    pyplot = _pyplot()
    width, height = 4.6 * len(panels), 3.4
    figure, axes = pyplot.subplots(1, len(panels), figsize=(width, height), squeeze=False)
    for axis, (title, curves, change_points) in zip(axes[0], panels, strict=True):
        for point in change_points:
            axis.axvline(point, color="0.75", linewidth=0.8, zorder=0)
        for i, (name, curve) in enumerate(curves.items()):
            colour = COLOURS[i % len(COLOURS)]
            axis.fill_between(curve.times, curve.low, curve.high, color=colour, alpha=0.2, lw=0)
            dash = DASHES[i % len(DASHES)]
            axis.plot(curve.times, curve.middle, color=colour, ls=dash, lw=1.5, label=name)
        axis.set_title(title, fontsize=10)
        axis.set_xlabel("time step")
        axis.set_xlim(0, max(float(c.times[-1]) for c in curves.values()))
        axis.set_ylim(bottom=min(0.0, *(float(c.low.min()) for c in curves.values())))
        axis.spines[["top", "right"]].set_visible(False)
        axis.ticklabel_format(style="plain", axis="both")
    axes[0][0].set_ylabel(ylabel)
    axes[0][0].legend(frameon=False, fontsize=9)
    figure.tight_layout()
    # Neither the date nor the version of the drawing library may enter the bytes.
    svg = os.fspath(path).endswith(".svg")
    figure.savefig(path, dpi=160, metadata={"Date": None, "Creator": None} if svg else None)
    pyplot.close(figure)


def _pyplot() -> Any:
    try:
        import matplotlib
    except ImportError as error:
        raise MissingExtra("figures need matplotlib: pip install 'switchmdp[plot]'") from error
    matplotlib.use("Agg")
    matplotlib.rcParams["svg.hashsalt"] = "switchmdp"
    from matplotlib import pyplot

    return pyplot
