"""How things are timed and shown: medians after warm-up, and what they are measured against."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Row:
    """One line of the table: a measurement, its target, and whether it is met."""

    what: str
    measured: str
    target: str = ""
    met: bool | None = None

    def __str__(self) -> str:
        verdict = {True: "ok", False: "MISSED", None: ""}[self.met]
        return f"  {self.what:58s} {self.measured:>24s}   {self.target:22s} {verdict}"


def at_most(what: str, seconds: float, limit: float, note: str = "") -> Row:
    """A time that must not exceed a limit, also as a share of that limit."""
    share = f" ({seconds / limit:.2f} x limit)"
    return Row(what, show(seconds) + note + share, f"<= {show(limit)}", seconds <= limit)


def show(seconds: float) -> str:
    """A time with a unit that suits it."""
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds / 1e-9:.3g} ns"


def median_seconds(
    call: Callable[[], Any], repeats: int = 15, warm_up: int = 2,
    clock: Callable[[], float] = time.perf_counter,
) -> float:  # fmt: skip
    """The median time of a call."""
    for _ in range(warm_up):
        call()
    times = []
    for _ in range(repeats):
        began = clock()
        call()
        times.append(clock() - began)
    return statistics.median(times)


def best_in_turns(calls: Mapping[str, Callable[[], Any]], rounds: int) -> dict[str, float]:
    """The least processor time of each call, made in turns, so that all see the same machine."""
    best = dict.fromkeys(calls, float("inf"))
    for _ in range(rounds):
        for name, call in calls.items():
            began = time.thread_time()
            call()
            best[name] = min(best[name], time.thread_time() - began)
    return best


def run_rival(python: str | None, *arguments: str) -> list[dict[str, Any]]:
    """What a script of `rivals/` prints in their environment; nothing where there is none."""
    if python is None or not os.path.exists(python):
        return []
    script = os.path.join(os.path.dirname(__file__), "rivals", arguments[0])
    done = subprocess.run(
        [python, script, *arguments[1:]], capture_output=True, text=True, timeout=600, check=False
    )
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
