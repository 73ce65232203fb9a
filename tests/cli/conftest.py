"""Call the program on small experiments, in this process or in a new one.

Figures are drawn only where a test asks for them.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.user_modules import isolated_user_modules

from switchmdp.cli import main
from switchmdp.experiments import loads, run
from switchmdp.reports import figures

CONFIG = """\
title = "Two agents"
horizon = 300
n_problems = 3  # a few
seed = 5

[problems.random]
problem = "random-switching"
parameters = { changes = { sweep = [1, 2] } }

[agents.UCRL2]
agent = "ucrl2"

[agents.chance]
agent = "random"
"""

MODULE = '''\
"""User agents."""


class First:
    """Always chooses the first action."""

    def __init__(self, n_states, n_actions):
        pass

    def act(self, state):
        return 0

    def observe(self, state, action, reward, next_state):
        pass


class Fails(First):
    """Raises an error."""

    def act(self, state):
        raise RuntimeError("no idea\\nwhat to do")
'''

USERS = """
[agents.mine]
agent = "own_agents:{name}"
"""


PROGRAM = """\
import sys
from switchmdp.cli import main

if {"run", "resume", "report"} & set(sys.argv):
    from switchmdp.reports import figures

    figures.save_figures = lambda *_: []
main()
"""


@dataclass(frozen=True)
class CommandResult:
    """The exit code and output of a command."""

    code: int
    out: str
    err: str


Call = Callable[..., CommandResult]


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SWITCHMDP_TRUST", "1")  # its effect is tested in test_trust.py
    monkeypatch.setattr(figures, "save_figures", lambda *_: [])
    (tmp_path / "small.toml").write_text(CONFIG, encoding="utf-8")
    (tmp_path / "own_agents.py").write_text(MODULE, encoding="utf-8")
    for name in ("First", "Fails"):
        text = CONFIG + USERS.format(name=name)
        (tmp_path / f"{name.lower()}.toml").write_text(text, encoding="utf-8")
    with isolated_user_modules():
        yield


@pytest.fixture
def call(capsys: pytest.CaptureFixture[str]) -> Call:
    """Call the program in this process."""

    def run_it(*arguments: str | Path) -> CommandResult:
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            main([str(argument) for argument in arguments])
        return CommandResult(int(ended.value.code or 0), *capsys.readouterr())

    return run_it


@pytest.fixture
def program() -> list[str]:
    """The command that runs the program in a new process."""
    return [sys.executable, "-c", PROGRAM]


@pytest.fixture(scope="session")
def _finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("finished") / "small"
    run(loads(CONFIG), folder, jobs=1)
    return folder


@pytest.fixture
def compiled(_finished: Path) -> None:
    """The agents are compiled already, so that no message says that they are being compiled."""


@pytest.fixture
def done(tmp_path: Path, _finished: Path) -> Path:
    """A complete folder of results, as a relative path."""
    shutil.copytree(_finished, tmp_path / "done")
    return Path("done")


@pytest.fixture
def half_done(done: Path) -> Path:
    """The folder `done` with one chunk missing."""
    (done / "runs" / "s001-a000-b00000.npz").unlink()
    return done
