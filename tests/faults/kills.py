"""kill -9 of coordinators and workers.

A coordinator is killed at a random time, or right before a random one of its renames and syncs,
which a random time seldom hits. Its folder is then resumed, half of the time with the other
executor. Workers are killed under a coordinator that has to continue without help. The results
must equal those of an uninterrupted run.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from tests.faults.workbench import (
    command,
    orphans_of,
    processes_of,
    results,
    run,
    temporary_files,
    write_experiment,
)

# Counts every rename and every sync, and is killed right before the one chosen.
KILLED_AT = """\
import itertools, os, signal
turn = itertools.count(1)
def counted(function):
    def call(*given):
        if next(turn) == {at}:
            os.kill(os.getpid(), signal.SIGKILL)
        return function(*given)
    return call
os.fsync, os.replace = counted(os.fsync), counted(os.replace)
"""
IN_CREATION = 9  # renames and syncs until the folder is made
IN_ALL = 160


@dataclass(frozen=True)
class Whole:
    """An uninterrupted run: its command, duration, exit code and result files."""

    start: tuple[object, ...]
    figures: bool
    seconds: float
    code: int
    files: dict[str, bytes]
    report: list[str]

    @property
    def chunks(self) -> int:
        """How many chunks there are."""
        return sum(name.startswith("runs") for name in self.files)


def _whole(config: Path, out: Path, executor: str, figures: bool = False) -> Whole:
    start = ("run", config, "--quiet", "--jobs", 2, "--executor", executor, "--out")
    began = time.monotonic()
    done = run(*start, out, figures=figures)
    seconds = time.monotonic() - began
    assert done.returncode in (0, 3), done.stderr
    return Whole(start, figures, seconds, done.returncode, results(out), _report(out))


def _report(out: Path) -> list[str]:
    return sorted(str(file.relative_to(out)) for file in out.glob("report/**/*.*"))


def kill_coordinators(scratch: Path, count: int) -> str:
    """Kill and resume `count` coordinators, in threads and processes; one in ten draws figures."""
    config = write_experiment(scratch / "many", fragile=True)
    with ThreadPoolExecutor(2) as pool:
        threads, processes = pool.map(
            lambda executor: _whole(config, scratch / executor, executor), ("threads", "processes")
        )
        assert threads.files == processes.files
        if count >= 10:
            few = write_experiment(scratch / "few", agents=2)
            figures = _whole(few, scratch / "figures", "processes", figures=True)

        def trial(i: int) -> str:
            whole = figures if i % 10 == 9 else processes if i % 2 else threads
            return _killed_and_resumed(whole, scratch / f"trial-{i:03d}", i)

        stages = Counter(pool.map(trial, range(count)))
    shown = ", ".join(f"{n} {stage}" for stage, n in sorted(stages.items()))
    return (
        f"{count} coordinators killed ({shown}) and resumed: {len(threads.files)} result files "
        "identical each time, no temporary file, no orphan"
    )


def _killed_and_resumed(whole: Whole, out: Path, i: int) -> str:
    rng = np.random.default_rng([1, i])
    stage, seconds = "", whole.seconds
    while not stage:
        shutil.rmtree(out, ignore_errors=True)  # of one that had ended before it was killed
        at_a_write = i % 6 in (0, 2)  # two in three of those with threads
        at = int(rng.integers(1, IN_CREATION + 1 if rng.random() < 0.3 else IN_ALL))
        first = KILLED_AT.format(at=at) if at_a_write else ""
        # One in three anywhere, the others once the imports are over and it gets interesting.
        share = rng.uniform(0.4 if i % 3 else 0.0, 1.2)
        after = 60.0 if at_a_write else share * seconds
        began = time.monotonic()
        if _killed(command(*whole.start, out, figures=whole.figures, first=first), after):
            stage = _stage(out, whole)
        else:  # the whole run may have had to compile, and so taken far longer
            seconds = min(seconds, time.monotonic() - began)
    other = ("--executor", ("threads", "processes")[i // 2 % 2])
    resumed = run("resume", out, "--quiet", "--jobs", 1, *other, figures=whole.figures)
    if stage == "before anything was promised":
        assert resumed.returncode == 4, resumed.stderr
        resumed = run(*whole.start, out, figures=whole.figures)
    assert resumed.returncode == whole.code, f"{i}, {stage}: {resumed.stderr}"
    assert results(out) == whole.files, f"{i}, killed {stage}"
    assert _report(out) == whole.report, f"{i}, killed {stage}"
    assert not orphans_of(out), f"{i}, killed {stage}"
    assert not temporary_files(out), f"{i}, killed {stage}"
    return stage


def _killed(program: list[str], after: float) -> bool:
    """Start a run and kill it; False if it had ended before."""
    process = subprocess.Popen(
        program, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(after)
    finally:
        process.kill()
    return process.wait() == -signal.SIGKILL


def _stage(out: Path, whole: Whole) -> str:
    """How far the killed run had come."""
    if not (out / "experiment.json").exists():
        return "before anything was promised"
    done = len(list(out.glob("runs/s*")))
    if done == whole.chunks:
        return "after the last chunk"
    return "among the chunks" if done else "before the first chunk"


def kill_workers(scratch: Path, count: int) -> str:
    """Kill `count` worker processes, at most two per run; each run continues without help."""
    config = write_experiment(scratch / "configuration")
    whole = _whole(config, scratch / "whole", "processes")
    assert whole.code == 0
    killed, runs, seconds = 0, 0, whole.seconds
    while killed < count:
        began = time.monotonic()
        out = scratch / f"run-{runs:03d}"
        rng = np.random.default_rng([2, runs])
        program = command(*whole.start, out)
        process = subprocess.Popen(
            program, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
            text=True,
        )  # fmt: skip
        try:
            for _ in range(min(2, count - killed)):
                killed += _kill_one_of(process, out, rng.uniform(0.0, 0.5 * seconds), rng)
            _, stderr = process.communicate(timeout=300)
        finally:
            process.kill()
        assert process.returncode == 0, stderr
        assert results(out) == whole.files
        assert not temporary_files(out)
        assert not orphans_of(out)
        runs, seconds = runs + 1, min(seconds, time.monotonic() - began)
    return (
        f"{killed} workers killed under {runs} coordinators: each ended with exit code 0 and the "
        f"same {len(whole.files)} result files, no temporary file, no orphan"
    )


def _kill_one_of(
    process: subprocess.Popen[str], out: Path, after: float, rng: np.random.Generator
) -> bool:
    """Kill one of the coordinator's workers some time after it started; False if there is none."""
    while not (workers := _workers(process, out)) and process.poll() is None:
        time.sleep(0.005)
    time.sleep(after)
    workers = _workers(process, out)
    if workers:
        os.kill(workers[int(rng.integers(len(workers)))], signal.SIGKILL)
    return bool(workers)


def _workers(process: subprocess.Popen[str], out: Path) -> list[int]:
    pids = []
    for pid in processes_of(out):
        try:
            parent = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
            worker = b"switchmdp.experiments.chunks" in Path(f"/proc/{pid}/cmdline").read_bytes()
        except OSError:  # it ended in between
            continue
        if parent == process.pid and worker:
            pids.append(pid)
    return pids
