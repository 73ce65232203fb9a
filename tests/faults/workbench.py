"""A small experiment of many small chunks, and the command line to run it with.

Its agents are plain Python, so that they run in threads and in processes alike. Compared are the
bytes of everything that is a result: the manifest, the chunks and the failures; wall time is none.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from switchmdp.cli import main

AGENTS = '''\
"""Two verbs, and no machine code."""


class Plain:
    def __init__(self, n_states, n_actions, *, step=1, patience=1_000_000, seed=0):
        self.n_actions, self.step, self.t = n_actions, step, 0
        self.patience = patience if seed % 2 else 1_000_000

    def act(self, state):
        if self.t > self.patience:
            raise RuntimeError("out of patience")
        return (state * self.step + self.t // 7) % self.n_actions

    def observe(self, state, action, reward, next_state):
        self.t += self.step
'''
EXPERIMENT = """\
title = "faults"
horizon = {horizon}
n_problems = {problems}
seed = 1

[problems.random]
problem = "random-switching"
parameters = {{ n_states = 3, n_actions = 2, changes = {{ sweep = {changes} }} }}

[agents.plain]
agent = "{module}:Plain"
parameters = {{ step = {{ sweep = {steps} }} }}
"""
FRAGILE = """
[agents.fragile]
agent = "{module}:Plain"
parameters = {{ patience = 5 }}
"""
# A run without its figures and its page, as where the extra that draws them is not installed.
PLAIN = "import sys; sys.modules['matplotlib'] = sys.modules['jinja2'] = None\n"
MAIN = "from switchmdp.cli import main; main()\n"
HERE = ("--quiet", "--jobs", 1, "--executor", "threads")  # runs in this process


def write_experiment(
    folder: Path, *, horizon: int = 300, problems: int = 3, settings: int = 2, agents: int = 10,
    fragile: bool = False, module: str = "plain_agents",
) -> Path:  # fmt: skip
    """A configuration of settings × (agents + 1) chunks, and more with an agent that fails, in a
    folder with the module of its agents."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{module}.py").write_text(AGENTS)
    text = (EXPERIMENT + FRAGILE * fragile).format(
        horizon=horizon, problems=problems, module=module, changes=[*range(1, settings + 1)],
        steps=[*range(1, agents + 1)],
    )  # fmt: skip
    (folder / "experiment.toml").write_text(text)
    return folder / "experiment.toml"


def command(*arguments: object, figures: bool = False, first: str = "") -> list[str]:
    """The command line as a program; `first` runs before it."""
    program = first + ("" if figures else PLAIN) + MAIN
    return [sys.executable, "-c", program, *map(str, arguments)]


def run(
    *arguments: object, figures: bool = False, first: str = "", **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run a command to its end."""
    program = command(*arguments, figures=figures, first=first)
    return subprocess.run(
        program, capture_output=True, text=True, timeout=300, stdin=subprocess.DEVNULL,
        env=os.environ | environment,
    )  # fmt: skip


def here(*arguments: object) -> int:
    """Run the command line in this process, without figures and page; returns the exit code."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "matplotlib", None)
        patch.setitem(sys.modules, "jinja2", None)
        with pytest.raises(SystemExit) as ended:
            main([*map(str, arguments)])
    assert isinstance(ended.value.code, int)
    return ended.value.code


def results(folder: Path) -> dict[str, bytes]:
    """Every file that is a result, by its name."""
    files = [folder / "experiment.json", *folder.glob("runs/*"), *folder.glob("failures/*")]
    return {str(file.relative_to(folder)): file.read_bytes() for file in sorted(files)}


def temporary_files(folder: Path) -> list[str]:
    """Temporary files of interrupted writers, anywhere in the folder."""
    return [str(path) for path in folder.rglob(".*")]


def processes_of(folder: Path) -> list[int]:
    """The processes that have this folder in their command line."""
    pids = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            line = (entry / "cmdline").read_bytes()
        except OSError:  # it ended in between
            continue
        if str(folder).encode() in line and int(entry.name) != os.getpid():
            pids.append(int(entry.name))
    return pids


def orphans_of(folder: Path, patience: float = 20.0) -> list[int]:
    """Processes of the folder that still run after a while."""
    until = time.monotonic() + patience
    while (left := processes_of(folder)) and time.monotonic() < until:
        time.sleep(0.02)
    return left


MEMORY = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None  # where syncing costs nothing


@contextmanager
def scratch_folder() -> Iterator[Path]:
    """A temporary folder, in memory where possible, whose modules are trusted."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SWITCHMDP_TRUST", "1")
        with tempfile.TemporaryDirectory(dir=MEMORY, prefix="switchmdp-faults-") as folder:
            yield Path(folder)
