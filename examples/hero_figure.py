"""The figure of the README: regret over time on problems that change three times.

    python examples/hero_figure.py [docs/figures/hero.svg]

The problems are those of Gajane, Ortner and Auer (2018) with four changes: random MDPs with 5
states and 3 actions, and a new one every 25,000 steps. The last change falls on the last step, so
only three take effect. The rivals have the parameters that the leaderboard selected on other
problems of this kind (row "paper, 4 changes"); EvidencePSRL has no tuned parameter.
"""

from __future__ import annotations

import argparse
import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import switchmdp as sm
from switchmdp.experiments.results import Setting
from switchmdp.mdp import SwitchingMDP
from switchmdp.reports import figures, measures

HORIZON, CHANGES, PROBLEMS, SEED = 100_000, 4, 100, 2026
KNOWN = "PSRL, known changes"
OURS = "EvidencePSRL"


def known_changes(problem: SwitchingMDP) -> Any:
    """PSRL that forgets everything at each change point: a reference, not a competitor."""
    return sm.agents.OraclePSRL(5, 3, change_points=problem.change_points)


AGENTS: dict[str, Callable[..., Any]] = {
    "UCRL2": functools.partial(sm.agents.UCRL2, width=0.3, delta=0.1),
    "UCRL2-R": functools.partial(sm.agents.UCRL2R, changes=0, width=0.1, delta=0.1),
    "UCRL2-RW": functools.partial(sm.agents.UCRL2RW, period=3000, width=0.1, delta=0.1),
    "SW-UCRL": functools.partial(sm.agents.SWUCRL, window=1000, width=0.03, delta=0.1),
    OURS: sm.agents.EvidencePSRL,
    KNOWN: known_changes,
}


def measured(n_problems: int = PROBLEMS, horizon: int = HORIZON) -> Setting:
    """Run all agents on the same problems with the same random numbers."""
    generate = functools.partial(
        sm.problems.random_switching, 5, 3, changes=CHANGES, horizon=horizon
    )
    comparison = sm.compare(
        generate, AGENTS, horizon=horizon, seed=SEED, n_problems=n_problems, every=horizon // 400
    )
    (setting,) = comparison.results.settings.values()
    return setting


@figures.own_style()
def drawn(setting: Setting) -> Any:
    """Draw each agent's mean pseudo-regret with 95 % bands; names stand at the curves' ends."""
    figure, (axis,) = figures.make_panels([""], "mean regret (logarithmic)", 3.9)
    figure.set_size_inches(figures.PAGE_WIDTH, 3.9)
    axis.set_yscale("log")
    axis.yaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    ends = {}
    for i, name in enumerate(setting.agents):
        curve = measures.regret_band(setting, name, pseudo=True)
        look = {"color": figures.COLOURS[i], "ls": figures.DASHES[i], "lw": 1.3}
        if name == OURS:
            look |= {"ls": "-", "lw": 2.4, "zorder": 3}
        if name == KNOWN:
            look |= {"color": figures.COLOURS[-1], "ls": ":", "lw": 1.6, "zorder": 4}
        axis.fill_between(curve.times, curve.low, curve.high, color=look["color"], alpha=0.15, lw=0)
        axis.plot(curve.times, curve.middle, **look)
        ends[name] = float(curve.middle[-1]), look["color"]
    axis.set_xlim(0, setting.horizon)
    axis.set_ylim(10, 30_000)
    _name_curves(axis, ends)
    _mark_changes(axis, setting)
    axis.set_xlabel("time step")
    figure.draw_without_rendering()
    return figure


def _name_curves(axis: Any, ends: dict[str, tuple[float, str]]) -> None:
    """Write each name at the height of its curve's end; names that would overlap move up."""
    lowest = -np.inf
    for name, (value, colour) in sorted(ends.items(), key=lambda item: item[1][0]):
        height = max(axis.transData.transform((0, value))[1], lowest)
        lowest = height + 1.35 * figures.TEXT / 72 * axis.figure.dpi
        place = axis.transData.inverted().transform((0, height))[1]
        axis.annotate(
            f"{name}  {value:,.0f}", (1.0, place), (6, 0), axis.get_yaxis_transform(),
            "offset points", color=colour, va="center", annotation_clip=False,
            weight="bold" if name == OURS else "normal",
        )  # fmt: skip


def _mark_changes(axis: Any, setting: Setting) -> None:
    """Draw a line for each change, and say whether it takes effect before the run ends."""
    for number, point in enumerate(setting.change_points[0].tolist(), 1):
        takes_effect = point < setting.horizon
        axis.axvline(point, color="0.45", lw=0.8, ls="-" if takes_effect else ":", zorder=0)
        axis.annotate(
            f"change {number}\n{'takes effect' if takes_effect else 'no effect'}",
            (point, 1), (0, 3), axis.get_xaxis_transform(), "offset points",
            color="0.3", ha="center", va="bottom",
        )  # fmt: skip


def main() -> None:
    """Run, draw and write the figure, and print the regret after the last step."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", nargs="?", type=Path, default=Path("docs/figures/hero.svg"))
    parser.add_argument("--problems", type=int, default=PROBLEMS)
    options = parser.parse_args()
    setting = measured(options.problems)
    for name in setting.agents:
        regret = measures.regret_curves(setting, name, pseudo=True)[:, -1].mean()
        print(f"{name:<24} {regret:>8,.0f}")
    figures.save_figure(drawn(setting), options.out)


if __name__ == "__main__":
    main()
