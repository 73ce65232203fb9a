"""The paper's whole experiment: how long it takes, and how much of that is not simulation."""

from __future__ import annotations

import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import switchmdp as sm
from switchmdp.cli.run import shipped
from switchmdp.experiments import check, create, loads, run_chunks
from switchmdp.experiments.build import make_agent, run_seed
from switchmdp.experiments.check import Plan
from switchmdp.experiments.chunks import problem_of
from switchmdp.experiments.execute import cores
from timing import Row, at_most

LIMIT = 25.0
MOST_OVERHEAD = 0.10


def figure_1() -> list[Row]:
    """Figure 1 with 1000 problems a setting and both references, machine code on disk."""
    text = shipped()["figure-1"]
    few = loads(text).model_copy(update={"n_problems": 2})
    with tempfile.TemporaryDirectory() as folder:
        plan = check(few)
        run_chunks(create(folder, plan, text, None), plan)
    jobs = cores()
    with tempfile.TemporaryDirectory() as folder:
        began = time.perf_counter()
        plan = check(loads(text))
        tally = run_chunks(create(folder, plan, text, None), plan, jobs=jobs)
        engine = time.perf_counter() - began
    bare = _bare(plan, jobs)
    share = 1.0 - bare / engine
    steps = plan.n_runs * plan.experiment.horizon
    return [
        at_most(f"Figure 1: {tally.done} runs, {steps:.0e} steps, {jobs} cores", engine, LIMIT),
        Row("  the same runs without the engine", f"{bare:.1f} s"),
        Row("  the engine's share", f"{100 * share:.1f} %", "< 10 %", share < MOST_OVERHEAD),
    ]


def _bare(plan: Plan, jobs: int) -> float:
    """Nothing but `simulate`: problems and agents made before, nothing measured, nothing kept."""
    experiment, seconds = plan.experiment, 0.0
    for s in range(len(plan.settings)):
        for first in range(0, experiment.n_problems, 250):
            ready: list[tuple[Any, Any, int]] = []
            for i in range(first, min(first + 250, experiment.n_problems)):
                problem = problem_of(plan, s, i)
                sm.optimal_gains(problem)
                for variant in plan.agents:
                    factory = plan.factories[variant.source]
                    agent, _ = make_agent(variant, factory, problem, experiment.horizon, 0)
                    ready.append((agent, problem, run_seed(experiment.seed, i)))
            began = time.perf_counter()
            with ThreadPoolExecutor(jobs) as pool:
                list(pool.map(lambda run: _simulate(plan, *run), ready))
            seconds += time.perf_counter() - began
    return seconds


def _simulate(plan: Plan, agent: Any, problem: Any, seed: int) -> None:
    experiment = plan.experiment
    sm.simulate(agent, problem, experiment.horizon, seed=seed, every=experiment.grid, episodes=True)
