"""The figures of the gallery, and of the page about what happens around a change.

    python examples/gallery.py                     draw all of them into docs/figures/gallery
    python examples/gallery.py windows restarts    draw some

Each public function draws one figure. The documentation site shows it with its code.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import switchmdp as sm
from switchmdp.reports import Panel
from switchmdp.reports.resampling import band

FOLDER = Path(__file__).resolve().parent.parent / "docs" / "figures" / "gallery"
HORIZON = 100_000
N_PROBLEMS = 50
N_STREAMS, STEPS_BEFORE = 20, 15_000
SIZES = (0.2, 0.3, 0.4, 0.5, 0.7)


def draw_losses(agents: dict[str, Any], every: int = 2000) -> Any:
    """Draw what agents lose per step on random problems that change in the middle of the run."""

    def make_problem(seed: int) -> sm.SwitchingMDP:
        return sm.problems.random_changes(changes=1, horizon=HORIZON, seed=seed)

    compared = sm.compare(
        make_problem, agents, horizon=HORIZON, n_problems=4 * N_PROBLEMS, every=every
    )
    setting = compared.results.settings["problems"]
    curves = {}
    for name, runs in setting.agents.items():
        losses = np.diff(runs.pseudo_regret, prepend=0.0) / every
        curves[name] = band(setting.times - every / 2, losses)
    panel = Panel("", curves, setting.change_points[0])
    figure = sm.reports.regret_figure([panel], ylabel="loss per step")
    make_logarithmic(figure, lowest=5e-4)
    return figure


def make_logarithmic(figure: Any, lowest: float) -> None:
    """Make the y axes logarithmic."""
    for axis in figure.axes:
        axis.set_yscale("log")
        axis.yaxis.set_major_formatter("{x:g}")
        axis.set_ylim(bottom=lowest)


def windows() -> Any:
    """A short window always loses a little; a long one takes long to forget."""
    agents: dict[str, Any] = {
        f"window {window:,}".replace(",", " "): partial(sm.agents.SWUCRL, window=window, width=0.1)
        for window in (1000, 5000, 20_000)
    }
    agents["no window"] = partial(sm.agents.UCRL2, width=0.1)
    return draw_losses(agents)


def restarts() -> Any:
    """Restarts at fixed intervals, at alarms of a detector, and at known change points."""

    def know(problem: sm.SwitchingMDP) -> Any:
        return sm.agents.OracleUCRL2(5, 3, change_points=problem.change_points, width=0.1)

    agents = {
        "every 10 000 steps": partial(sm.agents.UCRL2RW, period=10_000, width=0.1),
        "detector (GLR-UCRL2)": partial(sm.agents.GLRUCRL, width=0.1),
        "detector (EvidencePSRL)": sm.agents.EvidencePSRL,
        "known change point": know,
    }
    return draw_losses(agents)


def delays() -> Any:
    """How long the detector takes: small changes take long, and changes of one pair longer."""

    def delay(seed: int, size: float, only_one: bool) -> int:
        """Steps from the change to the alarm, in a stream of random states and actions."""
        rng, detector = np.random.default_rng(seed), sm.DriftDetector(5, 3)
        state = 0
        for t in range(STEPS_BEFORE + 40_000):
            action, next_state = int(rng.integers(3)), int(rng.integers(5))
            changed = t >= STEPS_BEFORE and (not only_one or state == action == 0)
            reward = float(rng.random() < (0.2 + size if changed else 0.2))
            if detector.update(state, action, reward, next_state) and t >= STEPS_BEFORE:
                return t - STEPS_BEFORE
            state = next_state
        raise RuntimeError("the change was not detected")

    curves = {}
    for name, only_one in (("all pairs change", False), ("one pair changes", True)):
        measured = [[delay(i, size, only_one) for size in SIZES] for i in range(N_STREAMS)]
        curves[name] = band(SIZES, measured)
    figure = sm.reports.parameter_figure(
        [Panel("", curves)], xlabel="change of the mean reward", ylabel="delay in steps"
    )
    make_logarithmic(figure, lowest=10)
    return figure


def comparison() -> Any:
    """Mean regret over time, with bands over problems."""

    def make_problem(seed: int) -> sm.SwitchingMDP:
        return sm.problems.random_changes(changes=3, horizon=HORIZON, seed=seed)

    agents: dict[str, Any] = {
        "EvidencePSRL": sm.agents.EvidencePSRL,
        "SW-UCRL": partial(sm.agents.SWUCRL, window=5000, width=0.1),
        "UCRL2": partial(sm.agents.UCRL2, width=0.1),
        "PSRL": sm.agents.PSRL,
    }
    problems = {"three changes": make_problem}
    figure = sm.compare(problems, agents, horizon=HORIZON, n_problems=N_PROBLEMS).plot()
    make_logarithmic(figure, lowest=10)
    return figure


def distribution() -> Any:
    """The distribution of the final regret over problems."""

    def make_problem(seed: int) -> sm.SwitchingMDP:
        return sm.problems.garnet(10, 3, 3, changes=2, horizon=HORIZON, seed=seed)

    agents: dict[str, Any] = {
        "EvidencePSRL": sm.agents.EvidencePSRL,
        "SW-UCRL": partial(sm.agents.SWUCRL, window=5000, width=0.1),
        "periodic restarts": partial(sm.agents.UCRL2RW, period=10_000, width=0.1),
    }
    compared = sm.compare(make_problem, agents, horizon=HORIZON, n_problems=N_PROBLEMS)
    setting = compared.results.settings["problems"]
    quantiles = {name: sm.reports.final_quantiles(setting, name) for name in setting.agents}
    return sm.reports.distribution_figure([("Garnet with two changes", quantiles)])


def scan() -> Any:
    """Final regret against a parameter."""
    windows = [500, 1000, 2000, 5000, 10_000, 20_000, 50_000]
    panels = []
    for changes in (2, 8):

        def make_problem(seed: int, changes: int = changes) -> sm.SwitchingMDP:
            return sm.problems.random_changes(changes=changes, horizon=HORIZON, seed=seed)

        agents = {
            str(window): partial(sm.agents.SWUCRL, window=window, width=0.1) for window in windows
        }
        compared = sm.compare(make_problem, agents, horizon=HORIZON, n_problems=N_PROBLEMS)
        setting = compared.results.settings["problems"]
        regret = np.column_stack([runs.regret[:, -1] for runs in setting.agents.values()])
        panels.append(Panel(f"{changes} changes", {"SW-UCRL": band(windows, regret)}))
    return sm.reports.parameter_figure(panels, xlabel="window", log=True)


def graph() -> Any:
    """A small MDP as a graph, and its mean rewards."""
    return sm.problems.riverswim(6).plot()


def problem() -> Any:
    """The optimal gain of a problem over time."""
    drifting = sm.problems.gradual_drift(5, 3, horizon=HORIZON, every=200, seed=0)
    return drifting.plot(horizon=HORIZON)


def record() -> Any:
    """The regret of one run, with the change points and the restarts of the agent."""
    changing = sm.problems.random_changes(changes=3, horizon=HORIZON, seed=1)
    agent = sm.agents.EvidencePSRL(5, 3)
    return sm.simulate(agent, changing, HORIZON, seed=0, episodes=True).plot()


def agent() -> Any:
    """What an agent has seen, what it believes, and its policy."""
    changing = sm.problems.random_changes(changes=1, horizon=HORIZON, seed=2)
    learner = sm.agents.EvidencePSRL(5, 3)
    sm.simulate(learner, changing, HORIZON, seed=0)
    return learner.plot()


FIGURES: dict[str, Callable[[], Any]] = {
    function.__name__: function
    for function in (
        windows, restarts, delays, comparison, distribution, scan, graph, problem, record, agent,
    )
}  # fmt: skip


def main(names: list[str]) -> None:
    """Draw these figures, by default all."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name in names or FIGURES:
        sm.reports.save_figure(FIGURES[name](), FOLDER / f"{name}.svg")
        print(f"{name}.svg")


if __name__ == "__main__":
    main(sys.argv[1:])
