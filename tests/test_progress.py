"""Long calls show how far they are in notebooks and terminals, and nothing elsewhere."""

from __future__ import annotations

import io
import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

import switchmdp as sm
from switchmdp.display import TerminalBar, progress_bar


class Terminal(io.StringIO):
    """A stream that claims to be a terminal."""

    def isatty(self) -> bool:
        return True


def become_terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """Let standard error be a terminal. (Not a fixture: pytest sets it again after those.)"""
    stream = Terminal()
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.delitem(sys.modules, "IPython", raising=False)
    return stream


@pytest.fixture
def cell(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What the output of a notebook's cell shows, one entry for each change."""
    shown: list[str] = []
    ipython: Any = ModuleType("IPython")
    tools: Any = ModuleType("IPython.display")
    handle = SimpleNamespace(update=shown.append)

    def display(thing: str, display_id: bool) -> SimpleNamespace:
        shown.append(thing)
        return handle

    tools.HTML, tools.display = str, display
    ipython.get_ipython = lambda: SimpleNamespace(kernel=1)
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    monkeypatch.setitem(sys.modules, "IPython.display", tools)
    return shown


def compared(**options: Any) -> Any:
    agents = {"Random": sm.agents.Random}
    return sm.compare(sm.problems.random_switching, agents, horizon=50, n_problems=3, **options)


def test_a_notebook_shows_an_element_that_disappears(cell: list[str]) -> None:
    compared()
    assert cell[0] == "starting …"
    assert '<progress value="3" max="3"></progress> 3 of 3 runs' in cell
    assert cell[-1] == ""


def test_an_error_leaves_no_bar_in_a_notebook(cell: list[str]) -> None:
    with pytest.raises(ZeroDivisionError), progress_bar() as report:
        report(1, 1 // 0)
    assert cell[-1] == ""


def test_a_terminal_shows_a_line_that_disappears(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = become_terminal(monkeypatch)
    compared()
    *_, last, erased, after = terminal.getvalue().split("\r")
    assert "3/3 runs" in last
    assert (erased.strip(), after) == ("", "")


def test_a_bar_is_drawn_at_most_ten_times_a_second_and_never_wider_than_the_terminal(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    terminal = become_terminal(monkeypatch)
    now = [0.0]
    monkeypatch.setattr("switchmdp.display.time.monotonic", lambda: now[0])
    monkeypatch.setenv("COLUMNS", "40")
    bar = TerminalBar()
    for done in range(100):
        now[0] += 0.01
        bar.show(done, 1000, "a long note about the time that is left")
    lines = [line for line in terminal.getvalue().split("\r") if "runs" in line]
    assert 9 <= len(lines) <= 11
    assert max(map(len, lines)) == 39


def test_a_shell_of_ipython_without_a_kernel_is_a_terminal(
    monkeypatch: pytest.MonkeyPatch, cell: list[str]
) -> None:
    ipython = sys.modules["IPython"]
    terminal = become_terminal(monkeypatch)
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    monkeypatch.setattr(ipython, "get_ipython", SimpleNamespace)
    compared()
    assert cell == []
    assert "3/3 runs" in terminal.getvalue()


def test_a_pipe_and_a_callback_get_no_bar(capsys: pytest.CaptureFixture[str]) -> None:
    heard: list[tuple[int, int]] = []
    compared()
    compared(progress=lambda done, runs: heard.append((done, runs)))
    assert capsys.readouterr() == ("", "")
    assert heard[-1] == (3, 3)
