"""The paper's whole experiment: how long it takes, and how much of that is not simulation.

The share is one of processor time, all threads together: what is spent inside `simulate`, and what
is spent anywhere else (making problems and agents, gains, hardness, ε-bad steps, files).
"""

from __future__ import annotations

import tempfile
import threading
import time
from typing import Any

from switchmdp.experiments import check, chunks, create, loads, run_chunks
from switchmdp.experiments.execute import cores
from switchmdp.experiments.spec import shipped
from timing import Row, at_most

LIMIT = 25.0
MOST_OVERHEAD = 0.10


def figure_1() -> list[Row]:
    """Figure 1 with 1000 problems a setting and both references, machine code on disk."""
    text = shipped()["figure-1"]
    with tempfile.TemporaryDirectory() as folder:
        few = check(loads(text).model_copy(update={"n_problems": 2}))
        run_chunks(create(folder, few, text, None), few)
    inside = _Inside(vars(chunks)["simulate"])
    vars(chunks)["simulate"] = inside  # to be put back below
    try:
        with tempfile.TemporaryDirectory() as folder:
            began, busy = time.perf_counter(), time.process_time()
            plan = check(loads(text))
            tally = run_chunks(create(folder, plan, text, None), plan)
            wall, busy = time.perf_counter() - began, time.process_time() - busy
    finally:
        vars(chunks)["simulate"] = inside.simulate
    share = 1.0 - inside.seconds / busy
    steps = plan.n_runs * plan.experiment.horizon
    return [
        at_most(f"Figure 1: {tally.done} runs, {steps:.0e} steps, {cores()} cores", wall, LIMIT),
        Row("  processor time", f"{busy:.1f} s"),
        Row("  of it outside simulation", f"{100 * share:.1f} %", "< 10 %", share < MOST_OVERHEAD),
    ]


class _Inside:
    """`simulate`, and the processor time that its calls take."""

    def __init__(self, simulate: Any) -> None:
        self.simulate = simulate
        self.seconds = 0.0
        self.lock = threading.Lock()

    def __call__(self, *given: Any, **named: Any) -> Any:
        began = time.thread_time()
        record = self.simulate(*given, **named)
        took = time.thread_time() - began
        with self.lock:
            self.seconds += took
        return record
