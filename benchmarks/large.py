"""A hundred thousand states: what an agent keeps, and how long an episode's start takes."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

import switchmdp as sm
from switchmdp.compiled import is_compiled
from timing import Row, at_most


def bytes_of(instance: Any) -> int:
    """The arrays of an agent and of the components it holds."""
    total = 0
    for value in vars(instance).values():
        if isinstance(value, np.ndarray):
            total += value.nbytes
        elif is_compiled(value):
            total += bytes_of(value)
    return total


def ring() -> list[Row]:
    """SW-UCRL with W = 10⁶ on a ring with shortcuts, 10⁶ steps."""
    mdp = sm.problems.ring_with_shortcuts(100_000, seed=0)
    began = time.perf_counter()
    sm.optimal_gain(mdp)
    planning = time.perf_counter() - began
    agent = sm.agents.SWUCRL(100_000, 4, window=1_000_000, delta=0.1)
    problem = sm.SwitchingMDP([mdp])
    record = sm.simulate(agent, problem, 1, every=1000)
    began = time.perf_counter()
    sm.simulate(agent, problem, 1_000_000, resume=record)
    seconds = time.perf_counter() - began
    megabytes = bytes_of(agent) / 1e6
    return [
        Row("SWUCRL, S=100 000 A=4 W=10⁶, after 10⁶ steps", f"{megabytes:.0f} MB", "< 200 MB",
            megabytes < 200),
        at_most("  simulate 10⁶ steps on a ring with shortcuts", seconds, 600.0),
        Row("  episodes", f"{agent.episode}"),
        Row("  the time over the episodes", f"{seconds / agent.episode * 1e3:.2f} ms"),
        Row("  the ring's optimal gain, certified to 1e-9", f"{planning:.2f} s"),
    ]  # fmt: skip
