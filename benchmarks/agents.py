"""Speed of every registered agent: a whole call of `simulate` at S=5, A=3.

All but `SLOWER` must make 5 million steps a second. Detectors must not slow down as their data
grow: the cost of a step is measured early and late in a run of a million steps without a change.
"""

from __future__ import annotations

import time
from typing import Any

import switchmdp as sm
from switchmdp.agents import AGENTS
from timing import Row, median_seconds, run_rival

HORIZON = 100_000
TOLD = {"change_points": [33_334, 66_667]}
PARAMETERS: dict[str, dict[str, Any]] = {
    "sw-ucrl": {"window": 20_000, "delta": 0.1},
    "ucrl2": {"delta": 0.1},
    "ucrl2-r": {"changes": 2, "delta": 0.1},
    "ucrl2-rw": {"period": 20_000, "delta": 0.1},
    "ucrl2b": {"window": 20_000, "delta": 0.1},
    "ucrl3": {"window": 20_000, "delta": 0.1},
    "kl-ucrl": {"window": 20_000, "delta": 0.1},
    "swucrl2-cw": {"horizon": HORIZON, "delta": 0.1},
    "variation-aware": {
        "reward_variation": 0.01, "transition_variation": 0.0, "diameter": 2.0, "delta": 0.1,
    },
    "borl": {"horizon": HORIZON, "delta": 0.1},
    "borl-full-grid": {"horizon": HORIZON, "delta": 0.1},
    "master-ucrl": {"horizon": HORIZON, "diameter": 2.0, "delta": 0.1},
    "oracle-ucrl2": {**TOLD, "delta": 0.1},
    "glr-ucrl": {"delta": 0.1},
    "sw-psrl": {"window": 20_000},
    "fading-psrl": {"steps": 20_000},
    "oracle-psrl": TOLD,
    "oracle-pairs-psrl": TOLD,
    "oracle-ucrl2b": {**TOLD, "delta": 0.1},
    "oracle-ucrl3": {**TOLD, "delta": 0.1},
    "oracle-kl-ucrl": {**TOLD, "delta": 0.1},
}  # fmt: skip
SLOWER = {
    "master-ucrl": "draws for every order, at every step",
}
# GLR-PSRL has the detector of GLR-UCRL2; MASTER keeps two sums and looks at no pair.
DETECTORS = ("evidence-psrl", "glr-ucrl", "r-bocpd-ucrl2")


def speeds(rivals: str | None) -> list[Row]:
    """Every agent, and UCRL2 of other packages."""
    problem = sm.problems.random_switching(5, 3, changes=2, horizon=HORIZON, seed=0)
    rows, rates = [], {}
    for name in AGENTS:

        def run(name: str = name) -> None:
            sm.simulate(made(name, problem), problem, HORIZON, seed=0)

        rates[name] = HORIZON / median_seconds(run, repeats=31)
        least = 25e6 if name == "sw-ucrl" else 5e6
        rows.append(_row(f"simulate {name}, S=5 A=3 T=100 000", rates[name], least))
        if name in SLOWER and rates[name] < least:
            rows[-1] = Row(rows[-1].what, rows[-1].measured, SLOWER[name])
    for rival in run_rival(rivals, "ucrl2_steps.py", "--skip-evi"):
        theirs = rival["steps_per_second"]
        label = f"{rival['package']} {rival['version']}: UCRL2, S=5 A=3"
        ratio = f"our UCRL2: {rates['ucrl2'] / theirs:.0f} x"
        rows.append(Row(label, f"{theirs / 1e6:.3f} M steps/s", ratio))
    return rows


def made(name: str, problem: Any) -> Any:
    """A registered agent for a problem."""
    cls: Any = AGENTS[name]
    if name == "omniscient":
        return cls(problem)
    return cls(problem.n_states, problem.n_actions, **PARAMETERS.get(name, {}))


def _row(what: str, rate: float, least: float) -> Row:
    return Row(
        what, f"{rate / 1e6:.1f} M steps/s", f">= {least / 1e6:.0f} M steps/s", rate >= least
    )


def detectors() -> list[Row]:
    """What a step costs after 900 000 steps without a change, by what it costs after 10 000."""
    rows = []
    problem = sm.problems.random_mdp(5, 3, seed=0)
    for name in DETECTORS:
        early: list[float] = []
        late: list[float] = []
        for seed in range(5):
            agent = made(name, problem)
            for steps, times in ((10_000, None), (90_000, early), (800_000, None), (90_000, late)):
                began = time.perf_counter()
                sm.simulate(agent, problem, steps, seed=seed, experienced=True)
                if times is not None:
                    times.append((time.perf_counter() - began) / steps)
        ratio = min(late) / min(early)
        rows.append(
            Row(f"{name}, a step after 900 000 by one after 10 000", f"{ratio:.2f} x",
                "<= 2 x", ratio <= 2.0)
        )  # fmt: skip
    return rows
