"""Large problems: exact gains and diameters, and agents with a hundred thousand states."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import switchmdp as sm
from switchmdp.compiled import is_compiled
from timing import Row, at_most

MILLION = """
import json, resource, time
import switchmdp as sm
small = sm.problems.random_sparse_mdp(3000, 2, 10)
sm.optimal_gain(small, tolerance=1e-6)
began = time.perf_counter()
mdp = sm.problems.random_sparse_mdp(1_000_000, 2, 10, seed=0)
built = time.perf_counter()
plan = sm.optimal_gain(mdp, tolerance=1e-6)
solved = time.perf_counter()
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
print(json.dumps([built - began, solved - built, peak, plan.upper - plan.lower]))
"""


def bytes_of(instance: Any) -> int:
    """The arrays of an agent and of the components it holds."""
    total = 0
    for value in vars(instance).values():
        if isinstance(value, np.ndarray):
            total += value.nbytes
        elif is_compiled(value):
            total += bytes_of(value)
    return total


def seconds_of(call: Callable[[], Any]) -> tuple[float, Any]:
    """How long one call takes, and what it returns."""
    began = time.perf_counter()
    result = call()
    return time.perf_counter() - began, result


def ring() -> list[Row]:
    """A ring with shortcuts of 100 000 states: its gain, and 10⁶ steps of UCRL2 and SW-UCRL."""
    sm.optimal_gain(sm.problems.ring_with_shortcuts(3000, seed=0))
    mdp = sm.problems.ring_with_shortcuts(100_000, seed=0)
    planning, plan = seconds_of(lambda: sm.optimal_gain(mdp))
    rows = [
        at_most("optimal_gain, ring with shortcuts, S=100 000 A=4, 1e-9", planning, 3.0),
        Row("  certified to", f"{plan.upper - plan.lower:.1e}"),
    ]
    problem = sm.SwitchingMDP([mdp])
    for agent in (
        sm.agents.UCRL2(100_000, 4, delta=0.1),
        sm.agents.SWUCRL(100_000, 4, window=1_000_000, delta=0.1),
    ):
        record = sm.simulate(agent, problem, 1, every=1000)
        seconds, _ = seconds_of(lambda: sm.simulate(agent, problem, 1_000_000, resume=record))  # noqa: B023  # called at once
        megabytes = bytes_of(agent) / 1e6
        name = f"{type(agent).__name__}, S=100 000 A=4, 10⁶ steps"
        rows += [
            at_most(name, seconds, 20.0),
            Row("  episodes", f"{agent.episode}"),
            Row("  the time over the episodes", f"{seconds / agent.episode * 1e3:.2f} ms"),
            Row("  what the agent keeps", f"{megabytes:.0f} MB", "< 200 MB", megabytes < 200),
        ]
    return rows


def million() -> list[Row]:
    """The gain of 10⁶ states with 10 successors per pair, in a process of its own."""
    folder = os.path.dirname(os.path.dirname(os.path.abspath(sm.__file__)))
    environment = {**os.environ, "PYTHONPATH": folder}
    done = subprocess.run(
        [sys.executable, "-c", MILLION], env=environment, capture_output=True, text=True, check=True
    )
    building, solving, peak, width = json.loads(done.stdout.splitlines()[-1])
    gigabytes = peak / 1e9
    return [
        at_most("optimal_gain, S=10⁶ A=2, 10 successors, 1e-6", solving, 60.0),
        Row("  certified to", f"{width:.1e}", "<= 1e-6", width <= 1e-6),
        Row("  memory of the whole process", f"{gigabytes:.2f} GB", "<= 2 GB", gigabytes <= 2.0),
        Row("  to draw and check the MDP before", f"{building:.1f} s"),
    ]


def diameter() -> list[Row]:
    """The diameter of 10 000 states, which is the largest of 10 000 hitting-time problems."""
    small = sm.problems.random_sparse_mdp(2001, 2, 5, seed=0)
    sm.diameter(small, tolerance=0.1)
    mdp = sm.problems.random_sparse_mdp(10_000, 4, 10, seed=0)
    seconds, found = seconds_of(lambda: sm.diameter(mdp, tolerance=1e-6))
    return [
        at_most("diameter, S=10 000 A=4, 10 successors, 1e-6 relative", seconds, 120.0),
        Row(f"  D = {found:.6g}, certified to", f"{(found.upper - found.lower) / found:.1e}"),
    ]


def problems() -> list[Row]:
    """All of them."""
    return ring() + million() + diameter()
