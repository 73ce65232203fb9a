"""SW-UCRL, UCRL2-R and UCRL2-RW on random switching MDPs: a table and a figure.

A small version of the experiment of Gajane, Ortner and Auer (2018), Section 5: S = 5, A = 3,
T = 100 000, δ = 0.1, l = 2 and 4 changes, the window of Eq. 3. The paper's diameter bound
log_A S - 3 is negative here, so the window is computed with D = 1. Two references are run beside
them: UCRL2 that is told the changes, and UCRL2 that never forgets.

    python examples/three_algorithms.py --problems 100 --out results
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import numpy as np

import switchmdp as sm
from switchmdp.reports.plots import Panel, regret_figure, save_figure
from switchmdp.reports.resampling import Band

S, A, T, DELTA = 5, 3, 100_000, 0.1


def agents_for(problem: sm.SwitchingMDP, changes: int) -> dict[str, Any]:
    """One fresh agent of each kind."""
    window = sm.theory.optimal_window(
        horizon=T, diameter=1.0, n_states=S, n_actions=A, changes=changes, delta=DELTA
    )
    points = problem.change_points
    return {
        "SW-UCRL": sm.agents.SWUCRL(S, A, window=window, delta=DELTA),
        "UCRL2-R": sm.agents.UCRL2R(S, A, changes=changes, delta=DELTA),
        "UCRL2-RW": sm.agents.UCRL2RW(S, A, period=window, delta=DELTA),
        "UCRL2, told the changes": sm.agents.Oracle(S, A, change_points=points, delta=DELTA),
        "UCRL2, never forgets": sm.agents.UCRL2(S, A, delta=DELTA),
    }


def run(changes: int, n_problems: int, seed: int) -> dict[str, np.ndarray[Any, Any]]:
    """The regret curves of every agent on the same problems: name -> (problems, points)."""
    curves: dict[str, list[Any]] = {}
    for i in range(n_problems):
        problem = sm.problems.random_switching(S, A, changes=changes, horizon=T, seed=seed + i)
        for name, agent in agents_for(problem, changes).items():
            record = sm.simulate(agent, problem, T, seed=seed + i, every=500)
            curves.setdefault(name, []).append(record.regret)
    return {name: np.array(lines) for name, lines in curves.items()}


def band(lines: np.ndarray[Any, Any], rng: np.random.Generator) -> Band:
    """The mean over problems and its 95 % bootstrap band over problems."""
    draws = rng.integers(0, len(lines), (400, len(lines)))
    means = np.array([lines[draw].mean(axis=0) for draw in draws])
    low, high = np.quantile(means, [0.025, 0.975], axis=0)
    return Band(np.arange(500, T + 1, 500), lines.mean(axis=0), low, high)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--problems", type=int, default=100, help="problems per setting")
    parser.add_argument("--seed", type=int, default=0, help="seed of the first problem")
    parser.add_argument("--out", type=Path, default=Path("results"), help="folder of the figure")
    options = parser.parse_args()
    if options.problems < 2:
        parser.error("--problems must be at least 2, to show how much they differ")
    options.out.mkdir(parents=True, exist_ok=True)
    panels = []
    for changes in (2, 4):
        print(f"{options.problems} problems with {changes} changes ...", flush=True)
        began = time.perf_counter()
        lines = run(changes, options.problems, options.seed)
        seconds = time.perf_counter() - began
        rng = np.random.default_rng(0)
        curves = {name: band(found, rng) for name, found in lines.items()}
        print(f"  mean regret after {T} steps, with its 95 % interval   ({seconds:.1f} s)")
        for name, curve in sorted(curves.items(), key=lambda item: float(item[1].middle[-1])):
            interval = f"{curve.low[-1]:9.0f} … {curve.high[-1]:.0f}"
            print(f"    {name:26s}{curve.middle[-1]:9.0f}   {interval}")
        points = sm.problems.paper_change_points(changes, T)
        panels.append(Panel(f"l = {changes}, {options.problems} problems", curves, points))
    figure, path = regret_figure(panels), options.out / "three_algorithms.svg"
    save_figure(figure, path)
    save_figure(figure, path.with_suffix(".png"))
    print(f"figure: {path} (and .png)")


if __name__ == "__main__":
    main()
