"""Fixtures: a small experiment, user modules for it, and a digest of its results."""

from __future__ import annotations

import hashlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.user_modules import isolated_user_modules

from switchmdp.experiments.execute import Progress, run_chunks
from switchmdp.experiments.plan import Plan, check
from switchmdp.experiments.spec import parse
from switchmdp.experiments.store import Store, create

Data = dict[str, Any]

TOYS = Path(__file__).with_name("toys.py.txt").read_text()  # not a module of these tests


@pytest.fixture(autouse=True)
def forget_modules() -> Iterator[None]:
    """Unload the user modules of a test, so that the next test does not see them."""
    with isolated_user_modules():
        yield


def _small(**changes: Any) -> Data:
    random = {"n_states": 3, "n_actions": 2, "changes": {"sweep": [1, 2]}}
    return {
        "title": "small", "horizon": 300, "n_problems": 4, "seed": 5,
        "problems": {"P": {"problem": "random-switching", "parameters": random}},
        "agents": {"R": {"agent": "random"}, "U": {"agent": "ucrl2", "parameters": {"delta": 0.1}}},
    } | changes  # fmt: skip


@pytest.fixture(scope="session")
def small() -> Callable[..., Data]:
    """Two settings, two agents and four problems as plain data; keywords replace entries."""
    return _small


def _write_toys(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "toys.py").write_text(TOYS)
    (folder / "toy_numbers.py").write_text("FAVOURITE = 1\n")
    return folder


@pytest.fixture
def toys(tmp_path: Path) -> Path:
    """A folder with user modules."""
    return _write_toys(tmp_path / "toys")


def _prepare(
    data: Data, folder: Path, modules: Path | None = None, *, tiny: bool = True
) -> tuple[Store, Plan]:
    with pytest.MonkeyPatch.context() as patch:
        if tiny:
            patch.setattr("switchmdp.experiments.plan.SECONDS_PER_CHUNK", 0.0005)
        plan = check(parse(data), modules, trust=modules is not None)
        return create(folder, plan, "", modules), plan


@pytest.fixture(scope="session")
def prepare() -> Callable[..., tuple[Store, Plan]]:
    """Make a store and a plan from data, with chunks of one or two problems if `tiny`."""
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


@pytest.fixture(scope="session")
def mixed() -> Data:
    """Two compiled agents and one user agent; 18 runs."""
    return _small(agents=_small()["agents"] | {"T": {"agent": "toys:Toy"}}, n_problems=3)


@pytest.fixture(scope="session")
def whole(mixed: Data, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The digest of the results of `mixed`, computed one chunk after the other."""
    folder = tmp_path_factory.mktemp("whole")
    with isolated_user_modules():
        store, plan = _prepare(mixed, folder / "out", _write_toys(folder / "toys"))
        progress = run_chunks(store, plan, jobs=1, executor="threads")
    assert (progress.complete, progress.done, progress.runs, progress.failed) == (True, 18, 18, 0)
    return _tree(store.path)


@pytest.fixture
def fresh(mixed: Data, toys: Path, tmp_path: Path) -> Callable[[str], tuple[Store, Plan]]:
    """The experiment `mixed` in a new folder of this name."""
    return lambda name: _prepare(mixed, tmp_path / name, toys)


class Slow:
    """Makes the user agents slow, and lists the processes that run them."""

    def __init__(self, toys: Path) -> None:
        self.toys = toys
        (toys / "slow").touch()
        (toys / "pids").mkdir()

    def pids(self) -> list[int]:
        """The processes that have run a user agent."""
        return [int(file.name) for file in (self.toys / "pids").iterdir()]

    def workers(self, n: int) -> list[int]:
        """Wait until there are n such processes."""
        return list(_soon(lambda: len(pids := self.pids()) >= n and pids))

    def kill_workers(self, n: int) -> None:
        """Kill n workers while they run a slow agent; agents made after that are fast."""
        killed = self.workers(n)
        self.no_more()
        for pid in killed:
            os.kill(pid, signal.SIGKILL)
        assert len(killed) == n

    def no_more(self) -> None:
        """Make new agents fast again."""
        (self.toys / "slow").unlink()


@pytest.fixture
def slow(toys: Path) -> Callable[[], Slow]:
    """Make the user agents slow."""
    return lambda: Slow(toys)


def _stop_after(runs: int) -> dict[str, Any]:
    stop = threading.Event()

    def watch(progress: Progress) -> None:
        if progress.done >= runs:
            stop.set()

    return {"stop": stop, "watch": watch}


@pytest.fixture(scope="session")
def stop_after() -> Callable[[int], dict[str, Any]]:
    """Keywords of `run_chunks` with which it stops once so many runs are done."""
    return _stop_after


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
        stat = Path(f"/proc/{pid}/stat")
        return not stat.exists() or stat.read_text().rpartition(")")[2].split()[0] != "Z"
    except (ProcessLookupError, FileNotFoundError):
        return False


@pytest.fixture(scope="session")
def alive() -> Callable[[int], bool]:
    """Whether a process is still running."""
    return _alive


def _soon(condition: Callable[[], Any], seconds: float = 30.0) -> Any:
    deadline = time.monotonic() + seconds
    while not (value := condition()) and time.monotonic() < deadline:
        time.sleep(0.02)
    return value


@pytest.fixture(scope="session")
def soon() -> Callable[..., Any]:
    """Wait until a condition is true, and return its value."""
    return _soon


@pytest.fixture
def elsewhere() -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Start Python programs in new processes, and kill them after the test."""
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
