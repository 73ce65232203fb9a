"""Posterior sampling: its speed compared with SW-UCRL, its cost with many states, and its sweeps.

Times are CPU times, the best of several, measured in turns. The runs with 1,000 and 10,000 states
are separate processes, so that their memory can be measured.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import switchmdp as sm
from switchmdp.agents.episodic import Growing
from switchmdp.compiled import compiled
from switchmdp.memory import Everything
from switchmdp.plausible import SparsePosterior
from switchmdp.restarts import Never
from timing import Row, at_most, best_in_turns, show

HORIZON = 100_000
AGENTS: dict[str, Callable[[], Any]] = {
    "SWUCRL": lambda: sm.agents.SWUCRL(5, 3, window=20_000, delta=0.1),
    "EvidencePSRL": lambda: sm.agents.EvidencePSRL(5, 3),
    "GLRPSRL": lambda: sm.agents.GLRPSRL(5, 3),
    "SWPSRL": lambda: sm.agents.SWPSRL(5, 3, window=20_000),
    "PSRL": lambda: sm.agents.PSRL(5, 3),
}


@compiled
class FromZero(SparsePosterior):
    """A posterior whose plans do not start at the values of the last plan."""

    plan_from_last = SparsePosterior.plan

    def plan(self, starts: Any, counts: Any, t: int, choice: Any) -> None:
        """Draw an MDP, and plan from zero."""
        for s in range(self.bias.size):
            self.bias[s] = 0.0
        self.plan_from_last(starts, counts, t, choice)


def seconds_of(agent: Any, problem: Any, horizon: int) -> float:
    """The CPU time of a run."""
    began = time.thread_time()
    sm.simulate(agent, problem, horizon, seed=0)
    return time.thread_time() - began


def beside_sw_ucrl() -> list[Row]:
    """Agents that sample posteriors at S=5, A=3, T = 100,000, by SW-UCRL's time in the same run."""
    problem = sm.problems.random_switching(5, 3, changes=2, horizon=HORIZON, seed=0)
    calls = {
        name: lambda make=make: sm.simulate(make(), problem, HORIZON, seed=0)
        for name, make in AGENTS.items()
    }
    best = best_in_turns(calls, 30)
    rows = []
    for name, seconds in best.items():
        ratio, rate = seconds / best["SWUCRL"], HORIZON / seconds / 1e6
        if name != "SWUCRL":
            measured = f"{ratio:.2f} x, {rate:.1f} M steps/s"
            rows.append(Row(f"{name} by SW-UCRL, S=5 A=3", measured, "<= 3 x", ratio <= 3.0))
    return rows


def by_states() -> list[Row]:
    """EvidencePSRL with five successors per pair: what a step costs with 5 to 200 states."""
    costs = {}
    for n_states in (5, 20, 80, 200):
        problem = sm.problems.random_sparse_mdp(n_states, 3, 5, seed=0)
        times = [
            seconds_of(sm.agents.EvidencePSRL(n_states, 3), problem, HORIZON) for _ in range(5)
        ]
        costs[n_states] = min(times) / HORIZON
    rows = [
        Row(f"EvidencePSRL, a step at S={n_states} A=3", show(cost))
        for n_states, cost in costs.items()
    ]
    ratio = costs[200] / costs[5]
    return [*rows, Row("  at S=200 by S=5", f"{ratio:.1f} x", "<= 10 x", ratio <= 10.0)]


def sweeps() -> list[Row]:
    """The sweeps of a plan that starts at zero, and of one that starts where the last one ended."""
    problem = sm.problems.random_sparse_mdp(200, 3, 5, seed=0)
    rows = []
    for start, posterior in (("zero", FromZero()), ("the last plan's values", SparsePosterior())):
        agent = sm.agents.Episodic(
            200, 3, memory=Everything(), plausible=posterior, restarts=Never(), episodes=Growing()
        )
        record = sm.simulate(agent, problem, HORIZON, seed=0, episodes=True)
        assert record.episodes is not None
        mean = f"{record.episodes.sweeps.mean():.2f}"
        rows.append(Row(f"PSRL, sweeps of a plan from {start}, S=200 A=3", mean))
    return rows


def many_states() -> list[Row]:
    """A million steps of EvidencePSRL on a ring with shortcuts."""
    rows = []
    for n_states, limit in ((1_000, 30.0), (10_000, 300.0)):
        done = subprocess.run(
            [sys.executable, __file__, str(n_states)], capture_output=True, text=True, check=True
        )
        found = json.loads(done.stdout)
        megabytes = found["megabytes"]
        rows += [
            at_most(f"EvidencePSRL, 10⁶ steps at S={n_states:,} A=4", found["seconds"], limit),
            Row("  memory of the process", f"{megabytes:.0f} MB", "<= 1 GB", megabytes <= 1000.0),
            Row("  episodes", f"{found['episodes']}"),
        ]
    return rows


def lines() -> list[Row]:
    """All of the above."""
    return [*beside_sw_ucrl(), *by_states(), *sweeps(), *many_states()]


def main(n_states: int) -> None:
    """One run with many states."""
    problem = sm.problems.ring_with_shortcuts(n_states, seed=0)
    seconds_of(sm.agents.EvidencePSRL(n_states, 4), problem, 10)  # compiles
    agent = sm.agents.EvidencePSRL(n_states, 4)
    seconds = seconds_of(agent, problem, 1_000_000)
    megabytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({"seconds": seconds, "megabytes": megabytes, "episodes": agent.episode}))


if __name__ == "__main__":
    main(int(sys.argv[1]))
