"""The report of the paper's experiment: the whole command, its parts, and how fast commands start.

The whole command and the starts are processes, and their times include the start of Python. The
parts are timed one after the other in this process; in a report, drawing runs at the same time as
resampling and the page.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from switchmdp import experiments
from switchmdp.experiments.spec import shipped
from switchmdp.experiments.store import load_results, open_store
from switchmdp.reports import figures, report
from switchmdp.reports.page import render_page
from timing import Row, at_most, median_seconds, show

LIMIT = 2.5
PROGRAM = "from switchmdp.cli import main; main()"
HEAVY = ("numba", "scipy", "matplotlib")
IMPORTED = (
    "import atexit, sys; atexit.register(lambda: print(*[m for m in {heavy} if m in sys.modules],"
    " file=sys.stderr)); " + PROGRAM
)


def figure_1() -> list[Row]:
    """The report of Figure 1 with 1000 problems a setting."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place, "results")
        experiments.run(experiments.loads(shipped()["figure-1"]), folder)
        walls, busy = zip(*(_process("report", str(folder)) for _ in range(5)), strict=True)
        results = load_results(open_store(folder))
        rows = [
            at_most("switchmdp report, Figure 1 (best of 5)", min(walls), LIMIT),
            Row("  processor time, all threads", show(min(busy))),
            Row("  imports", show(_imports())),
            Row("  reading", show(_median(lambda: load_results(open_store(folder))))),
            *_parts(results),
        ]
        starts = (["--help"], ["report", "--help"], ["status", str(folder)])
        return rows + [row for arguments in starts for row in _start(arguments)]


def _process(*arguments: str, code: str = PROGRAM) -> tuple[float, float]:
    """The wall time and the processor time of a command."""
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run([sys.executable, "-c", code, *arguments], check=True, capture_output=True)
    wall, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def _imports() -> float:
    code = "import switchmdp.cli.run, switchmdp.reports.report"
    return min(_process(code=code)[0] for _ in range(5))


def _parts(results: Any) -> list[Row]:
    whole = report.Report(results)
    page = report.experiment_page(whole)
    drawn = list(report.report_figures(whole))
    parts: dict[str, Callable[[], Any]] = {
        "curves with their bands": lambda: report.Report(results).views,
        "tables and claims": lambda: list(report.all_tables(report.Report(results))),
        "page": lambda: render_page(page),
        "making the figures": lambda: list(report.report_figures(whole)),
        **{
            f"drawing {kind}": lambda kind=kind: [figures.render_figure(f, kind) for _, f in drawn]  # type: ignore[misc]
            for kind in figures.FORMATS
        },
    }
    return [Row(f"  {name}", show(_median(part))) for name, part in parts.items()]


def _median(part: Callable[[], Any]) -> float:
    return median_seconds(part, repeats=3, warm_up=1)


def _start(arguments: list[str]) -> list[Row]:
    """How long a command takes that should be instant, and what it imports without need."""
    shown = " ".join(a for a in arguments if os.sep not in a)
    wall = min(_process(*arguments)[0] for _ in range(5))
    done = subprocess.run(
        [sys.executable, "-c", IMPORTED.format(heavy=HEAVY), *arguments],
        check=True, capture_output=True, text=True,
    )  # fmt: skip
    heavy = done.stderr.strip() or "nothing"
    return [
        Row(f"switchmdp {shown}", show(wall)),
        Row("  imports without need", heavy, "nothing", heavy == "nothing"),
    ]
