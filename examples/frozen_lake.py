"""SW-UCRL beside UCRL2 on a FrozenLake whose ice changes.

    S F F        Start, frozen, frozen
    H F G        hole, frozen, goal

The lake is not slippery, and the goal is three steps away. Halfway through, the four actions are
permuted, so the old way to the goal leads elsewhere. UCRL2 uses all its data. SW-UCRL uses the last
`window` steps, so it has forgotten the old data `window` steps after the change. The setting is
chosen to show this difference. If changes come so often that neither agent learns much in between,
neither is better throughout.

    python examples/frozen_lake.py                  160 000 steps, four changes: half a minute
    python examples/frozen_lake.py --steps 40000    a quarter of it: too short to learn much

Needs `switchmdp[plot]` for the figure.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

import switchmdp as sm
from switchmdp.gym import At, Changing, PermuteActions, play, to_mdp
from switchmdp.reports import Band, Panel, regret_figure, save_figure

LAKE = ["SFF", "HFG"]


def lake() -> gymnasium.Env[Any, Any]:
    """The lake before anything changes."""
    return gymnasium.make("FrozenLake-v1", desc=LAKE, is_slippery=False)


def agents(window: int) -> dict[str, Callable[[], Any]]:
    """What is compared."""
    return {
        "SW-UCRL": lambda: sm.agents.SWUCRL(6, 4, window=window, delta=0.1),
        "UCRL2": lambda: sm.agents.UCRL2(6, 4, delta=0.1),
    }


def goals(make: Callable[[], Any], steps: int, change: int, runs: int) -> NDArray[np.float64]:
    """Whether each step reached the goal: a row for each of several changes."""
    return np.array([
        play(make(), Changing(lake(), when=At([change]), how=PermuteActions(), seed=run), steps,
             seed=run).rewards
        for run in range(runs)
    ])  # fmt: skip


def table(found: dict[str, NDArray[np.float64]], change: int) -> str:
    """Goals per 1000 steps before and after the change."""
    best = 1000 * sm.optimal_gain(to_mdp(lake())).gain
    rows = [f"{'goals per 1000 steps':<22}{'before':>10}{'after':>10}{'after, each change':>24}"]
    for name, rewards in found.items():
        before, after = 1000 * rewards[:, : change - 1].mean(), 1000 * rewards[:, change - 1 :]
        each = " ".join(f"{value:.0f}" for value in after.mean(axis=1))
        rows.append(f"{name:<22}{before:>10.1f}{after.mean():>10.1f}{each:>24}")
    return "\n".join([*rows, f"{'the best policy':<22}{best:>10.1f}{best:>10.1f}"])


def figure(found: dict[str, NDArray[np.float64]], change: int) -> Any:
    """Goals so far: the mean over the changes, in a band from the worst to the best."""
    curves = {}
    for name, rewards in found.items():
        times = np.unique(np.linspace(1, rewards.shape[1], 200).astype(np.int64))
        sums = rewards.cumsum(axis=1)[:, times - 1]
        curves[name] = Band(times, sums.mean(axis=0), sums.min(axis=0), sums.max(axis=0))
    title = "A lake whose directions change"
    return regret_figure([Panel(title, curves, [change])], ylabel="goals reached")


def main(given: Sequence[str] | None = None) -> None:
    """Play, print the table, save the figure."""
    parser = argparse.ArgumentParser(description="SW-UCRL and UCRL2 on a lake whose ice changes")
    parser.add_argument("--steps", type=int, default=160_000)
    parser.add_argument("--changes", type=int, default=4, help="how many different ones to average")
    parser.add_argument("--out", type=Path, default=Path("frozen_lake.svg"), help="the figure")
    options = parser.parse_args(given)
    change, window = options.steps * 5 // 8, options.steps // 4
    found = {
        name: goals(make, options.steps, change, options.changes)
        for name, make in agents(window).items()
    }
    print(f"{options.steps} steps, a change at step {change}, window {window}\n")
    print(table(found, change))
    save_figure(figure(found, change), options.out)
    print(f"\nfigure: {options.out}")


if __name__ == "__main__":
    main()
