"""Ctrl-C and SIGTERM keep finished runs and print the command that resumes."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

WAITING = '''\
"""An agent that creates a file when it begins, and waits for another file."""

import time
from pathlib import Path

HERE = Path(__file__).parent


class Waits:
    def __init__(self, n_states, n_actions, *, seed):
        self.name = f"begun-{seed}"

    def act(self, state):
        (HERE / self.name).touch()
        while not (HERE / "go").exists():
            time.sleep(0.01)
        return 0

    def observe(self, state, action, reward, next_state):
        pass
'''
CONFIG = """\
title = "Waiting"
horizon = 20
n_problems = 2

[problems.random]
problem = "random-switching"
parameters = { changes = { sweep = [0, 1, 2] } }

[agents.chance]
agent = "random"

[agents.waits]
agent = "waiting:Waits"
"""


@pytest.fixture
def waiting(tmp_path: Path, program: list[str]) -> Iterator[subprocess.Popen[str]]:
    """A process in the middle of a run: one agent is done, the other in its first of 3 chunks."""
    (tmp_path / "waiting.py").write_text(WAITING, "utf-8")
    (tmp_path / "waits.toml").write_text(CONFIG, "utf-8")
    process = _begin(
        program, tmp_path, "run", "waits.toml", "--out", "here", "--jobs", "1", "--json"
    )
    yield process
    if process.poll() is None:
        process.kill()
    process.communicate()


def _begin(program: list[str], folder: Path, *arguments: str) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [*program, *arguments], cwd=folder, text=True, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )  # fmt: skip
    _wait(lambda: any(folder.glob("begun-*")))
    return process


def _wait(for_what: Any) -> None:
    for _ in range(3000):
        if for_what():
            return
        time.sleep(0.02)
    raise AssertionError("waited in vain")


def _wait_for_line(process: subprocess.Popen[str], event: str) -> None:
    assert process.stdout is not None
    while json.loads(process.stdout.readline())["event"] != event:
        pass


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_the_first_signal_finishes_running_chunks_and_says_how_to_resume(
    waiting: subprocess.Popen[str], call: Any, tmp_path: Path, number: int, code: int
) -> None:
    waiting.send_signal(number)
    _wait_for_line(waiting, "stopping")
    (tmp_path / "go").touch()
    out, _ = waiting.communicate(timeout=60)
    finished = json.loads(out.splitlines()[-1])
    assert waiting.returncode == finished["exit"] == code
    assert (finished["done"], finished["runs"]) == (8, 12)  # without the two chunks that wait
    assert call("resume", "here", "--quiet", "--executor", "threads").code == 0
    assert (tmp_path / "here" / "report" / "index.html").exists()
    assert not list((tmp_path / "here").rglob(".*"))  # nothing unfinished is left


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_the_second_signal_does_not_wait(
    waiting: subprocess.Popen[str], tmp_path: Path, number: int, code: int
) -> None:
    waiting.send_signal(number)
    _wait_for_line(waiting, "stopping")
    waiting.send_signal(number)
    out, err = waiting.communicate(timeout=60)  # the agent is never let go
    assert waiting.returncode == code
    assert "Traceback" not in err
    assert json.loads(out.splitlines()[-1])["done"] == 6


def test_without_json_the_messages_are_text(tmp_path: Path, program: list[str]) -> None:
    (tmp_path / "waiting.py").write_text(WAITING, "utf-8")
    (tmp_path / "waits.toml").write_text(CONFIG, "utf-8")
    process = _begin(program, tmp_path, "run", "waits.toml", "--out", "my results", "--jobs", "1")
    process.send_signal(signal.SIGINT)
    assert process.stderr is not None
    while "stopping; press Ctrl-C again to stop immediately" not in process.stderr.readline():
        pass
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert out == ""
    command = "switchmdp resume 'my results' --trust"
    assert err == f"stopped: 6 of 12 runs are saved; to resume: {command}\n"
