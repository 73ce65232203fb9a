"""The paper's whole experiment, and what a run costs in addition to its steps.

The share outside simulation is one of processor time, all threads together: what is spent inside
`simulate_batch`, and what is spent anywhere else (making problems and agents, gains, hardness,
ε-bad steps, files).

Python runs one thread at a time, machine code runs in all of them. If a share s of the processor
time holds Python's lock, n threads have at best the efficiency 1 / max(1, n s). Everything that is
not the machine code of the loop counts as Python here, so s is an upper bound.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import switchmdp as sm
from switchmdp.compiled import BatchFunction
from switchmdp.experiments import check, chunks, create, loads, run_chunks
from switchmdp.experiments.execute import cores
from switchmdp.experiments.plan import Plan
from switchmdp.experiments.spec import shipped
from switchmdp.simulation import Records
from timing import Row, at_most, median_seconds, show

LIMIT = 25.0
MOST_OVERHEAD = 0.10
MANY_THREADS, EFFICIENT = 16, 0.7
IDEAL = 1.25
RUNS, FEW = 100, 200


def python_per_run() -> list[Row]:
    """What a run of one step takes, alone and in a batch: Python, and the agent's first plan.

    CPU time: other programs on the machine make no difference.
    """
    make = sm.problems.random_switching
    problems = [make(5, 3, changes=2, horizon=10**5, seed=i) for i in range(RUNS)]

    def one_by_one() -> None:
        for i, agent in enumerate(agents.pop()):
            sm.simulate(agent, problems[i], 1, seed=i)

    def make_agents() -> list[Any]:
        return [sm.agents.SWUCRL(5, 3, window=1000) for _ in problems]

    clock, agents = time.process_time, [make_agents() for _ in range(40)]
    single = median_seconds(one_by_one, clock=clock) / RUNS
    each = median_seconds(lambda: sm.simulate_batch(agents.pop(), problems, 1), clock=clock) / RUNS
    agent = make_agents()[0]
    batch = median_seconds(lambda: sm.simulate_batch(agent, problems, 1), clock=clock) / RUNS
    return [
        at_most("simulate, one step, CPU time", single, 2e-4),
        at_most(f"simulate_batch, one step, copies of an agent, each of {RUNS}", batch, 5e-5),
        Row("  with an agent of its own for each run", show(each)),
        Row("  making such an agent", show(median_seconds(make_agents, clock=clock) / RUNS)),
    ]


def figure_1() -> list[Row]:
    """Figure 1 with 1000 problems a setting and both references, machine code on disk."""
    _compile_everything()
    _run(2, 1)
    small, alone, busy, inside = _run(FEW, 1)
    rate = small.n_runs * small.experiment.horizon / alone
    serial = 1.0 - inside.loop / busy
    per_run = (busy - inside.loop) / small.n_runs
    plan, wall, busy, inside = _run(None, cores())
    share = 1.0 - inside.seconds / busy
    steps = plan.n_runs * plan.experiment.horizon
    ideal = steps / rate / cores()
    chunk = inside.seconds / inside.calls
    efficiency = 1.0 / max(1.0, MANY_THREADS * serial)
    return [
        at_most(f"Figure 1: {plan.n_runs} runs, {steps:.0e} steps, {cores()} cores", wall, LIMIT),
        Row("  relative to one core's rate times cores", f"{wall / ideal:.2f}", f"<= {IDEAL}",
            wall / ideal <= IDEAL),
        Row("  one core", f"{rate / 1e6:.1f} M steps/s"),
        Row("  processor time", f"{busy:.1f} s"),
        Row("  of it outside simulation", f"{100 * share:.1f} %", "< 10 %", share < MOST_OVERHEAD),
        Row("  of one core's time outside the loop", f"{100 * serial:.1f} %"),
        Row("  that is, for each run", show(per_run)),
        Row("  the mean time of a chunk", show(chunk), "about 0.25 s", 0.1 <= chunk <= 0.5),
        Row(f"  efficiency of {MANY_THREADS} threads that follows", f"{100 * efficiency:.0f} %",
            f">= {100 * EFFICIENT:.0f} %", efficiency >= EFFICIENT),
    ]  # fmt: skip


def _compile_everything() -> None:
    """Compile also the functions that would be interpreted at first (`compiled.compiler`)."""
    code = (
        "import sys; from pathlib import Path; sys.path.insert(0, sys.argv[1])\n"
        "from switchmdp.compiled import compiler; compiler.PATIENCE = 0.0\n"
        "import engine; engine._run(2, 1)"
    )
    subprocess.run([sys.executable, "-c", code, str(Path(__file__).parent)], check=True)


def _run(n_problems: int | None, jobs: int) -> tuple[Plan, float, float, _Inside]:
    """(plan, wall time, processor time, of it inside) of Figure 1 with so many problems."""
    text = shipped()["figure-1"]
    plan = check(loads(text))
    if n_problems is not None:
        plan = check(loads(text).model_copy(update={"n_problems": n_problems}))
    inside = _Inside(vars(chunks)["simulate_batch"], BatchFunction.__call__)
    vars(chunks)["simulate_batch"] = inside  # both are put back below
    function: Any = BatchFunction
    function.__call__ = lambda *given: inside.call_loop(*given)
    try:
        with tempfile.TemporaryDirectory() as folder:
            store = create(folder, plan, text, None)
            began, busy = time.perf_counter(), time.process_time()
            run_chunks(store, plan, jobs=jobs, executor="threads")
            wall, busy = time.perf_counter() - began, time.process_time() - busy
    finally:
        vars(chunks)["simulate_batch"] = inside.simulate_batch
        function.__call__ = inside.machine_code
    return plan, wall, busy, inside


class _Inside:
    """`simulate_batch`, and the processor time that its calls and the loop in them take."""

    def __init__(self, simulate_batch: Any, machine_code: Any) -> None:
        self.simulate_batch, self.machine_code = simulate_batch, machine_code
        self.seconds = self.loop = 0.0
        self.calls = 0
        self.lock = threading.Lock()

    def __call__(self, *given: Any, **named: Any) -> Records:
        began = time.thread_time()
        records: Records = self.simulate_batch(*given, **named)
        took = time.thread_time() - began
        with self.lock:
            self.seconds += took
            self.calls += 1
        return records

    def call_loop(self, *given: Any) -> Any:
        began = time.thread_time()
        returned = self.machine_code(*given)
        took = time.thread_time() - began
        with self.lock:
            self.loop += took
        return returned
