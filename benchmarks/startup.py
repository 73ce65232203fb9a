"""Waiting times: the import, the first step, the compiler, a worker, an installed wheel."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path

from switchmdp.experiments import check, create
from switchmdp.experiments.execute import worker_command
from switchmdp.experiments.spec import parse
from timing import Row, at_most, show

ROOT = Path(__file__).resolve().parent.parent
FIRST_STEP = (
    "import switchmdp as sm; p = sm.problems.random_switching(5, 3, changes=2, horizon=100_000);"
    "sm.simulate(sm.agents.SWUCRL(5, 3, window=1000, delta=0.1), p, 1)"
)
IMPORT = (
    "import time; began = time.process_time(); import switchmdp; print(time.process_time() - began)"
)
# CPU time: several compilers at work on one machine slow each other down.
COLD = """
import json, time, switchmdp as sm
p = sm.problems.random_switching(5, 3, changes=2, horizon=100_000)
first = sm.agents.SWUCRL(5, 3, window=1000, delta=0.1)
seconds = []
for agent in (first, sm.agents.UCRL2(5, 3), sm.agents.EvidencePSRL(5, 3)):
    began = time.process_time()
    sm.simulate(agent, p, 1)
    seconds.append(time.process_time() - began)
print(json.dumps(seconds))
"""
SPEEDS = """
import json, time, switchmdp as sm
p = sm.problems.random_switching(5, 3, changes=2, horizon=100_000)
make = {
    "SW-UCRL": lambda: sm.agents.SWUCRL(5, 3, window=1000),
    "UCRL2": lambda: sm.agents.UCRL2(5, 3),
    "EvidencePSRL": lambda: sm.agents.EvidencePSRL(5, 3),
}
best = dict.fromkeys(make, 1e9)
for _ in range(10):
    for name in make:
        agent, began = make[name](), time.process_time()
        sm.simulate(agent, p, 100_000, seed=1)
        best[name] = min(best[name], time.process_time() - began)
print(json.dumps(best))
"""


def _python(code: str, environment: dict[str, str], folder: Path | None = None) -> tuple[str, str]:
    """What a process, started in a folder, prints and says on the side."""
    command = [sys.executable, "-P", "-c", code]
    done = subprocess.run(
        command, check=True, env=environment, cwd=folder, capture_output=True, text=True
    )
    return done.stdout, done.stderr


def _seconds(code: str, repeats: int, environment: dict[str, str]) -> float:
    times = []
    for _ in range(repeats):
        began = time.perf_counter()
        _python(code, environment)
        times.append(time.perf_counter() - began)
    return statistics.median(times)


def waits() -> Iterable[Row]:
    """Whole processes, the interpreter's own start included; only the compiler is timed inside."""
    plain = dict(os.environ)
    imports = [float(_python(IMPORT, plain)[0]) for _ in range(7)]
    yield at_most("import switchmdp, CPU time", statistics.median(imports), 0.1)
    yield at_most("import switchmdp (whole process)", _seconds("import switchmdp", 7, plain), 0.6)
    with tempfile.TemporaryDirectory() as folder:
        environment = plain | {"SWITCHMDP_CACHE": folder, "SWITCHMDP_NATIVE": "1"}
        printed, said = _python(COLD, environment)
        first, second, third = json.loads(printed)
        yield at_most("cold compile of the first agent (SW-UCRL), CPU time", first, 10.0)
        yield at_most("  then of UCRL2", second, 3.0)
        yield at_most("  then of EvidencePSRL", third, 3.0)
        lines = sum("compiling" in line for line in said.splitlines())
        yield Row("  lines that say so", str(lines), "3", lines == 3)
        warm = _seconds(FIRST_STEP, 7, environment)
        yield at_most("warm start to the first step (whole process)", warm, 1.0)
        cpu, _ = _python(FIRST_STEP + "; import time; print(time.process_time())", environment)
        yield Row("  its CPU time", show(float(cpu)))
        seconds, cpu_seconds = _worker(environment)
        yield at_most("start of a worker to its first chunk of one step", seconds, 1.0)
        yield Row("  its CPU time", show(cpu_seconds))


def _worker(environment: dict[str, str]) -> tuple[float, float]:
    """From the start of a process to its first report, and CPU time; machine code is on disk."""
    data = {
        "title": "x", "horizon": 1, "n_problems": 1,
        "agents": {"A": {"agent": "sw-ucrl", "parameters": {"window": 10}}},
        "problems": {"p": {"problem": "random-switching", "parameters": {"changes": 0}}},
    }  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        store = create(Path(folder) / "results", check(parse(data)), "", None)
        chunk = next(chunk for chunk in store.chunks() if chunk.agent is not None)
        command = worker_command(store.path, False)
        times, before = [], os.times()
        for _ in range(7):
            began = time.perf_counter()
            with subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
            ) as process:
                assert process.stdin is not None
                assert process.stdout is not None
                process.stdin.write(f"{chunk.id}\n")
                process.stdin.flush()
                assert json.loads(process.stdout.readline())["error"] == ""
                times.append(time.perf_counter() - began)
                process.stdin.close()
        after = os.times()
    used = after.children_user + after.children_system
    used -= before.children_user + before.children_system
    return statistics.median(times), used / len(times)


def prebuilt() -> Iterable[Row]:
    """A wheel with the machine code of three agents, installed beside this environment."""
    readme = (ROOT / "README.md").read_text("utf-8").split("```python\n")[1].split("```")[0]
    with tempfile.TemporaryDirectory() as folder:
        built, wheels, target = (Path(folder) / name for name in ("built", "wheels", "target"))
        pip = [sys.executable, "-P", "-m", "pip", "--disable-pip-version-check", "-q"]
        tasks = ["sw-ucrl", "ucrl2", "evidence-psrl", "small problems"]
        tool = [sys.executable, str(ROOT / "tools" / "prebuild.py"), str(built), "--only", *tasks]
        subprocess.run(tool, check=True, capture_output=True)
        make = [*pip, "wheel", "--no-deps", "--no-build-isolation", "-w", str(wheels), str(ROOT)]
        environment = os.environ | {"SWITCHMDP_PREBUILT": str(built)}
        subprocess.run(make, check=True, capture_output=True, env=environment)
        (wheel,) = wheels.iterdir()
        yield Row("a wheel with the machine code of three agents", f"{wheel.stat().st_size:,} B")
        installed = os.environ | {
            "PYTHONPATH": str(target), "SWITCHMDP_CACHE": str(Path(folder) / "empty")
        }  # fmt: skip
        began = time.perf_counter()
        subprocess.run([*pip, "install", "--no-deps", "--target", str(target), wheel], check=True)
        done = time.perf_counter()
        _, said = _python(readme, installed, Path(folder))  # the example writes a figure there
        seconds = time.perf_counter() - began
        yield at_most("pip install of that wheel, then the README's example", seconds, 5.0)
        yield Row("  of this the example", show(time.perf_counter() - done))
        yield Row("  compiled", str(said.count("compiling")), "0", "compiling" not in said)
        native = installed | {"SWITCHMDP_NATIVE": "1", "SWITCHMDP_CACHE": str(Path(folder) / "own")}
        best: dict[str, dict[str, float]] = {}
        for _ in range(3):
            for kind, environment in (("native", native), ("generic", installed)):
                for name, measured in json.loads(_python(SPEEDS, environment)[0]).items():
                    found = best.setdefault(name, {})
                    found[kind] = min(found.get(kind, 1e9), measured)
        for name, found in best.items():
            ratio = found["generic"] / found["native"]
            yield Row(
                f"{name}, prebuilt code: its time against native code's",
                f"{ratio:.2f} ({show(found['generic'])})", "<= 1.1", ratio <= 1.1,
            )  # fmt: skip
