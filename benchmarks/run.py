"""The benchmarks, as one table: `make bench`.

Medians on one core after warm-up, everything in one run on one machine. Other packages run in a
separate environment (`benchmarks/rivals`), on problems of the same kind and size (the solvers on
the same MDP); without it their rows are missing. Whether an MDP is connected is computed once, so
repeated calls of `optimal_gain` on one MDP do not include it. The exit status is 1 if a target is
missed. A section that raises an error counts as a missed target, and the others still run.
"""

from __future__ import annotations

import argparse
import platform
import sys
import traceback
from collections.abc import Callable, Iterable

import numba
import numpy as np

import agents
import engine
import fused_loop
import large
import load
import play
import posterior
import report
import speed
import startup
import switchmdp
from timing import Row


def main() -> int:
    parser = argparse.ArgumentParser(description="The benchmarks, as one table.")
    parser.add_argument("--rivals", help="the Python that has the other packages")
    parser.add_argument("--only", help="just the sections whose title contains this")
    options = parser.parse_args()
    sections: dict[str, Callable[[], Iterable[Row]]] = {
        "start": startup.waits,
        "prebuilt machine code": startup.prebuilt,
        "the loop": fused_loop.ratios,
        "steps": lambda: agents.speeds(options.rivals),
        "detectors": agents.detectors,
        "agents called from Python": play.calls,
        "Gymnasium": play.environments,
        "posterior sampling": posterior.lines,
        "extended value iteration": speed.extended_value_iteration,
        "gain": lambda: speed.gain(options.rivals),
        "diameter and changes": speed.diameter_and_changes,
        "large": large.problems,
        "Python per run": engine.python_per_run,
        "the paper's experiment": engine.figure_1,
        "the report": report.figure_1,
        "the service": load.service,
        "the service on PostgreSQL": load.on_postgres,
        "many models": load.many_models,
        "decisions of EvidencePSRL": load.evidence_psrl,
    }
    print(
        f"switchmdp {switchmdp.__version__}, Python {platform.python_version()}, "
        f"Numba {numba.__version__}, NumPy {np.__version__}, {platform.machine()}"
    )
    chosen = [title for title in sections if not options.only or options.only in title]
    if not chosen:
        parser.error(f"no title contains {options.only!r}; the titles are {', '.join(sections)}")
    missed = 0
    for title in chosen:
        measure = sections[title]
        print(title, flush=True)
        try:
            for row in measure():
                print(row, flush=True)
                missed += row.met is False
        except Exception:  # the next section may be fine
            traceback.print_exc()
            missed += 1
    print(f"{missed} targets missed" if missed else "all targets met")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
