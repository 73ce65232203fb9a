"""Code named by a configuration or folder runs only if it is trusted."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

PLAIN = ("--quiet", "--jobs", "1", "--executor", "threads")
NOISY = """\
from pathlib import Path

Path("imported").touch()


class Agent:
    def __init__(self, n_states, n_actions):
        Path("made").touch()

    def act(self, state):
        return 0

    def observe(self, state, action, reward, next_state):
        pass
"""
CONFIG = """\
title = "From elsewhere"
horizon = 50
n_problems = 1

[problems.random]
problem = "random-switching"

[agents.theirs]
agent = "noisy:Agent"
"""
SHELL = CONFIG.replace(
    '"noisy:Agent"', '"os:system"\nparameters = { command = "touch ran" }'
)  # fmt: skip


@pytest.fixture(autouse=True)
def noisy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A configuration, and a module next to it that creates files when it runs."""
    monkeypatch.delenv("SWITCHMDP_TRUST")
    (tmp_path / "noisy.py").write_text(NOISY)
    (tmp_path / "theirs.toml").write_text(CONFIG)
    (tmp_path / "shell.toml").write_text(SHELL)
    monkeypatch.delitem(sys.modules, "noisy", raising=False)


def traces() -> list[str]:
    """The names of the files that the module created; removes the files."""
    traces_left = [Path(name) for name in ("imported", "made", "ran") if Path(name).exists()]
    for path in traces_left:
        path.unlink()
    sys.modules.pop("noisy", None)
    return [path.name for path in traces_left]


def test_a_configuration_that_names_a_module_is_rejected_and_nothing_is_imported(call: Any) -> None:
    result = call("run", "theirs.toml", "--out", "out", *PLAIN)
    assert result.code == 2
    assert "agents.theirs.agent: 'noisy:Agent' is not a registered agent" in result.err
    assert "pass --trust" in result.err
    assert "SECURITY.md" in result.err
    assert traces() == []
    assert not Path("out").exists()


@pytest.mark.parametrize("trust", [(), ("--trust",)])
def test_no_configuration_runs_a_shell_command(call: Any, trust: tuple[str, ...]) -> None:
    result = call("run", "shell.toml", "--out", "out", *PLAIN, *trust)
    assert result.code == 2
    assert "agents.theirs.agent: 'os:system'" in result.err
    assert traces() == []


@pytest.mark.parametrize("executor", ["threads", "processes"])
def test_a_trusted_configuration_is_run(call: Any, executor: str) -> None:
    how = ("--out", "out", "--trust", "--quiet", "--jobs", "1", "--executor", executor)
    assert call("run", "theirs.toml", *how).code == 0
    assert traces() == ["imported", "made"]


def test_the_environment_variable_enables_trust(call: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SWITCHMDP_TRUST", "1")
    assert call("run", "theirs.toml", "--out", "out", *PLAIN).code == 0
    assert traces() == ["imported", "made"]


@pytest.fixture
def untrusted(call: Any) -> Path:
    """An untrusted folder of results with one chunk missing."""
    assert call("run", "theirs.toml", "--out", "out", *PLAIN, "--trust").code == 0
    Path("out/runs/s000-a000-b00000.npz").unlink()
    traces()
    return Path("out")


@pytest.mark.parametrize("how", [("resume",), ("verify", "--recompute", "1")])
def test_an_untrusted_folder_is_resumed_and_recomputed_only_with_trust(
    call: Any, untrusted: Path, how: tuple[str, ...]
) -> None:
    more = PLAIN if how == ("resume",) else ()
    result = call(*how, untrusted, *more)
    assert result.code == 2
    assert "pass --trust" in result.err
    assert traces() == []
    assert call(*how, untrusted, *more, "--trust").code == 0
    assert "imported" in traces()


@pytest.mark.parametrize("command", ["status", "verify", "report", "export"])
def test_reading_an_untrusted_folder_runs_none_of_its_code(
    call: Any, untrusted: Path, command: str
) -> None:
    assert call(command, untrusted).code == 0
    assert traces() == []


def test_the_suggested_command_includes_the_trust_option(call: Any, untrusted: Path) -> None:
    assert "to resume: switchmdp resume out --trust" in call("status", untrusted).out


def test_a_configuration_that_names_the_standard_library_does_not_replace_its_modules(
    call: Any,
) -> None:
    before = sys.modules["os"]
    assert call("run", "shell.toml", "--out", "out", *PLAIN, "--trust").code == 2
    assert sys.modules["os"] is before
