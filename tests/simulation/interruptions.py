"""Ctrl-C at random moments: a campaign, as a program.

    python -m tests.simulation.interruptions SIGNALS SEED

simulates registered agents in turn, sends itself SIGINT at a random moment of each run, and checks
what `simulate` promises then: a KeyboardInterrupt soon, an agent that is consistent, and a record
that continues to the bytes of a run that was never interrupted. It prints the delays in seconds as
JSON. A crash of the interpreter shows in the exit code.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from typing import Any

import numpy as np
from tests.every_agent import new_agent

import switchmdp as sm
from switchmdp.agents import AGENTS
from switchmdp.errors import Interrupted

FOREVER = 10**9
PROBLEM = sm.problems.random_switching(
    4, 3, changes=5, horizon=200_000, seed=2, law=sm.Beta(share=0.5)
)


class Interrupter(threading.Thread):
    """Sends SIGINT to this process some time after its start, and remembers when."""

    def __init__(self, delay: float) -> None:
        super().__init__(daemon=True)
        self._delay = delay
        self.sent = 0.0

    def run(self) -> None:
        time.sleep(self._delay)
        self.sent = time.perf_counter()
        os.kill(os.getpid(), signal.SIGINT)


def interrupt_once(name: str, rng: np.random.Generator) -> float:
    """Interrupt a run of one agent, check what is left, and return the delay in seconds."""
    every = int(rng.integers(20_000, 100_000))
    agent = new_agent(name, PROBLEM)
    sm.simulate(new_agent(name, PROBLEM), PROBLEM, 10, episodes=True)  # compiled from now on
    interrupter = Interrupter(float(rng.uniform(0.0, 0.25)))
    record = None
    try:
        interrupter.start()  # the signal may come before `start` returns
        sm.simulate(agent, PROBLEM, FOREVER, seed=7, every=every, episodes=True)
    except KeyboardInterrupt as error:
        delay = time.perf_counter() - interrupter.sent
        record = error.record if isinstance(error, Interrupted) else None
    if record is None:  # the signal came before the first step
        assert getattr(agent, "t", 1) == 1
        return delay
    assert getattr(agent, "t", record.horizon + 1) == record.horizon + 1
    horizon = record.horizon + int(rng.integers(1, 2000))
    options: dict[str, Any] = {"every": record.every, "episodes": True}
    continued = sm.simulate(agent, PROBLEM, horizon, resume=record, **options)
    whole = sm.simulate(new_agent(name, PROBLEM), PROBLEM, horizon, seed=7, **options)
    must_be_equal(continued, whole)
    return delay


def must_be_equal(a: sm.Record, b: sm.Record) -> None:
    """Raise an AssertionError unless both records have the same bytes."""
    for field in ("times", "regret", "pseudo_regret"):
        assert getattr(a, field).tobytes() == getattr(b, field).tobytes(), field
    assert a.position == b.position
    assert a.episodes is not None
    assert b.episodes is not None
    for field in vars(a.episodes):
        assert getattr(a.episodes, field).tobytes() == getattr(b.episodes, field).tobytes(), field


def main(signals: int, seed: int) -> None:
    """Interrupt as many runs, of one agent after the other."""
    rng = np.random.default_rng(seed)
    names = list(AGENTS)
    delays = [interrupt_once(names[i % len(names)], rng) for i in range(signals)]
    print(json.dumps(delays))


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
