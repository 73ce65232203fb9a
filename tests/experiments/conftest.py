"""A small experiment, the user's modules for it, and one digest of all that it comes to."""

from __future__ import annotations

import hashlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from switchmdp.experiments import sources
from switchmdp.experiments.check import Plan, check
from switchmdp.experiments.spec import parse
from switchmdp.experiments.store import Store, create

Data = dict[str, Any]

TOYS = '''\
"""Agents of a user's: in plain Python, with a module of numbers beside them."""

import os
import signal
import time
from pathlib import Path

from toy_numbers import FAVOURITE

HERE = Path(__file__).parent


class Toy:
    """Counts on its favourite action."""

    def __init__(self, n_states, n_actions, *, favourite=FAVOURITE):
        self.n_states, self.n_actions, self.favourite = n_states, n_actions, favourite
        self.seen = 0
        self.pause = 0.5 if (HERE / "slow").exists() else 0.0
        self.noted = not (HERE / "pids").exists()

    def act(self, state):
        if not self.noted:
            (HERE / "pids" / str(os.getpid())).touch()
            self.noted = True
        time.sleep(self.pause)
        return (self.favourite + self.seen) % self.n_actions

    def observe(self, state, action, reward, next_state):
        self.seen += next_state


class Deadly(Toy):
    """Takes its process with it."""

    def act(self, state):
        Toy.act(self, state)
        os.kill(os.getpid(), signal.SIGKILL)


class Chatty(Toy):
    """Prints, and reads what it can get."""

    def act(self, state):
        print("what an agent prints is no reply")
        assert os.read(0, 100) == b""
        return 0


class Picky(Toy):
    """Fails in a way of your choice on the problems whose agent seed is odd."""

    def __init__(self, n_states, n_actions, *, where, seed):
        Toy.__init__(self, n_states, n_actions)
        self.where = where if seed % 2 else ""
        if self.where == "constructor":
            raise RuntimeError("not this one")

    def act(self, state):
        if self.where == "act":
            raise RuntimeError("not this one")
        if self.where == "exit":
            raise SystemExit(7)
        return 10**6 if self.where == "action" else 0

    def observe(self, state, action, reward, next_state):
        if self.where == "observe":
            raise RuntimeError("not this one")
        if self.where == "unspeakable":
            raise Unspeakable
        if self.where == "surrogate":
            raise RuntimeError("\\\\ud800")


class Unspeakable(Exception):
    def __str__(self):
        raise ValueError("no words")


def two_states(mean=0.25):
    """A problem of a user's: stay, or cross over."""
    from switchmdp import MDP

    return MDP([[[1, 0], [0, 1]], [[0, 1], [1, 0]]], [[mean, 0], [1 - mean, 0]])


def sometimes(seed, n_states=3):
    """Problems that can't always be made."""
    from switchmdp.problems import random_mdp

    if seed % 2:
        raise ArithmeticError("an odd seed")
    return random_mdp(n_states, 2, seed=seed)
'''.replace("\\\\", "\\")


@pytest.fixture(autouse=True)
def forget_modules(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The user's modules of one test are gone in the next."""
    loaded: dict[str, object] = {}
    monkeypatch.setattr(sys, "path", sys.path[:])
    monkeypatch.setattr(sources, "_loaded", loaded)
    monkeypatch.setattr(sources, "_placed", sources._placed[:])
    yield
    for name in loaded:
        sys.modules.pop(name, None)


def _small(**changes: Any) -> Data:
    random = {"n_states": 3, "n_actions": 2, "changes": {"sweep": [1, 2]}}
    return {
        "title": "small", "horizon": 300, "n_problems": 4, "seed": 5,
        "problems": {"P": {"problem": "random-switching", "parameters": random}},
        "agents": {"R": {"agent": "random"}, "U": {"agent": "ucrl2", "parameters": {"delta": 0.1}}},
    } | changes  # fmt: skip


@pytest.fixture(scope="session")
def small() -> Callable[..., Data]:
    """Two settings, two agents, four problems, as plain data; keywords replace."""
    return _small


def _write_toys(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "toys.py").write_text(TOYS)
    (folder / "toy_numbers.py").write_text("FAVOURITE = 1\n")
    return folder


@pytest.fixture
def toys(tmp_path: Path) -> Path:
    """A folder with the user's modules."""
    return _write_toys(tmp_path / "toys")


@pytest.fixture(scope="session")
def write_toys() -> Callable[[Path], Path]:
    """The same, wherever it is wanted."""
    return _write_toys


def _prepare(
    data: Data, folder: Path, modules: Path | None = None, *, tiny: bool = True
) -> tuple[Store, Plan]:
    with pytest.MonkeyPatch.context() as patch:
        if tiny:
            patch.setattr("switchmdp.experiments.chunks.SECONDS", 0.0025)
        plan = check(parse(data), modules)
        return create(folder, plan, "", modules), plan


@pytest.fixture(scope="session")
def prepare() -> Callable[..., tuple[Store, Plan]]:
    """From data to a folder that can be run, in chunks of a problem or two (or not `tiny`)."""
    return _prepare


def _tree(folder: Path) -> str:
    digest = hashlib.sha256()
    for file in sorted((folder / "runs").iterdir()):
        digest.update(f"{file.name} {hashlib.sha256(file.read_bytes()).hexdigest()}\n".encode())
    return digest.hexdigest()


@pytest.fixture(scope="session")
def tree() -> Callable[[Path], str]:
    """One digest over the names and bytes of all results in a folder."""
    return _tree


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
        stat = Path(f"/proc/{pid}/stat")
        return not stat.exists() or stat.read_text().rpartition(")")[2].split()[0] != "Z"
    except (ProcessLookupError, FileNotFoundError):
        return False


@pytest.fixture(scope="session")
def alive() -> Callable[[int], bool]:
    """Whether a process still runs."""
    return _alive


def _soon(condition: Callable[[], Any], seconds: float = 30.0) -> Any:
    deadline = time.monotonic() + seconds
    while not (found := condition()) and time.monotonic() < deadline:
        time.sleep(0.02)
    return found


@pytest.fixture(scope="session")
def soon() -> Callable[..., Any]:
    """Wait until something is true, and return it."""
    return _soon


@pytest.fixture
def elsewhere() -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Python programs in processes of their own, none of which outlives the test."""
    started: list[subprocess.Popen[str]] = []

    def run(program: str, *arguments: object) -> subprocess.Popen[str]:
        command = [sys.executable, "-c", program, *map(str, arguments)]
        started.append(subprocess.Popen(command, stdout=subprocess.PIPE, text=True))
        return started[-1]

    yield run
    for process in started:
        if process.poll() is None:
            process.send_signal(signal.SIGKILL)
        process.communicate()
