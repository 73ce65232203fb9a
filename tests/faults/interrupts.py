"""Ctrl-C at random moments of `switchmdp run`, with agents that run as machine code.

The first signal lets the running chunks finish; in every other trial a second one ends the program
at once. The program never crashes, and `resume` completes the folder to the bytes of an
uninterrupted run.
"""

from __future__ import annotations

import contextlib
import signal
import subprocess
import time
from collections import Counter
from pathlib import Path

import numpy as np
from tests.faults.workbench import command, orphans_of, results, run, temporary_files

EXPERIMENT = """\
title = "interrupted"
horizon = 400000
n_problems = 40
seed = 1

[problems.random]
problem = "random-switching"
parameters = { n_states = 4, n_actions = 2, changes = 2 }

[agents.chance]
agent = "random"

[agents.UCRL2]
agent = "ucrl2"
"""


def interrupt_coordinators(scratch: Path, count: int) -> str:
    """Interrupt and resume as many runs."""
    config = scratch / "experiment.toml"
    config.write_text(EXPERIMENT)
    start = ("run", config, "--quiet", "--jobs", 2, "--out")
    for name in ("compiled", "whole"):  # the second does not compile, and so tells the time
        began = time.monotonic()
        assert run(*start, scratch / name).returncode == 0
    seconds, whole = time.monotonic() - began, results(scratch / "whole")
    codes = Counter(
        _interrupted_and_resumed(start, scratch / f"trial-{i:03d}", i, seconds, whole)
        for i in range(count)
    )
    shown = ", ".join(f"{n} with exit code {code}" for code, n in sorted(codes.items()))
    return f"{count} runs interrupted ({shown}) and resumed to the same {len(whole)} files"


def _interrupted_and_resumed(
    start: tuple[object, ...], out: Path, i: int, seconds: float, whole: dict[str, bytes]
) -> int:
    rng = np.random.default_rng([3, i])
    process = subprocess.Popen(
        command(*start, out), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        time.sleep(rng.uniform(0.4, 1.0) * seconds)
        process.send_signal(signal.SIGINT)
        if i % 2:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(rng.uniform(0.0, 0.3))
            process.send_signal(signal.SIGINT)
        _, stderr = process.communicate(timeout=30)
    finally:
        process.kill()
    # A second signal may come when Python has already taken its handlers down, and then kills.
    ended = (0, 130, -signal.SIGINT) if i % 2 else (0, 130)
    assert process.returncode in ended, (process.returncode, stderr)
    assert "Traceback" not in stderr
    assert not orphans_of(out)
    if not (out / "experiment.json").exists():
        return process.returncode  # before anything was promised
    assert run("resume", out, "--quiet").returncode == 0
    assert results(out) == whole
    assert not temporary_files(out)
    return process.returncode
