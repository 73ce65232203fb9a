"""How long one waits: the import, the first step with machine code on disk, and without."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time

from timing import Row, at_most

FIRST_STEP = (
    "import switchmdp as sm; p = sm.problems.random_switching(5, 3, changes=2, horizon=100_000);"
    "sm.simulate(sm.agents.SWUCRL(5, 3, window=1000, delta=0.1), p, 1)"
)
COLD = (
    "import time, switchmdp as sm; p = sm.problems.random_switching(5, 3, horizon=100_000);"
    "a = sm.agents.SWUCRL(5, 3, window=1000, delta=0.1); b = time.perf_counter();"
    "sm.simulate(a, p, 1); print(time.perf_counter() - b)"
)


def _seconds(code: str, repeats: int, environment: dict[str, str]) -> float:
    times = []
    for _ in range(repeats):
        began = time.perf_counter()
        subprocess.run([sys.executable, "-c", code], check=True, env=environment)
        times.append(time.perf_counter() - began)
    return statistics.median(times)


def waits() -> list[Row]:
    """Whole processes, the interpreter's own start included; only the compile is timed inside."""
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "SWITCHMDP_CACHE": folder}
        began = time.perf_counter()
        done = subprocess.run(
            [sys.executable, "-c", COLD],
            check=True,
            env=environment,
            capture_output=True,
            text=True,
        )
        process = time.perf_counter() - began
        lines = [line for line in done.stderr.splitlines() if "compiling" in line]
        warm = _seconds(FIRST_STEP, 5, environment)
    plain = dict(os.environ)
    return [
        at_most("import switchmdp (whole process)", _seconds("import switchmdp", 7, plain), 0.6),
        at_most("warm start to the first step (whole process)", warm, 1.5),
        at_most("cold compile of the first agent", float(done.stdout), 15.0),
        Row("  lines that say so", str(len(lines)), "1", len(lines) == 1),
        Row("  the whole process, problem and all", f"{process:.1f} s"),
    ]
