"""Output: JSON, --quiet, colour, closed pipes, terminals, and fast help."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from switchmdp.cli import Bar, Lines, display, main, output_mode, say, say_json, tell, warn
from switchmdp.cli.commands import cli
from switchmdp.experiments.execute import Progress

PLAIN = ("--executor", "threads")
Shell = Callable[..., subprocess.CompletedProcess[str]]


def events(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


@pytest.mark.usefixtures("compiled")
def test_every_line_of_json_is_json(call: Any) -> None:
    result = call("run", "fails.toml", "--out", "here", "--json", *PLAIN)
    assert result.code == 3
    first, *_, finished, report = events(result.out)
    assert (first["event"], first["done"], first["runs"]) == ("progress", 0, 18)
    assert finished == {
        "event": "finished", "folder": "here", "done": 18, "runs": 18, "failed": 6, "lost": [],
        "exit": 3,
    }  # fmt: skip
    assert report["event"] == "report"
    assert report["files"][0] == "here/report/index.html"
    assert result.err == ""


def test_status_verify_report_and_export_print_json(call: Any, half_done: Path) -> None:
    (status,) = events(call("status", half_done, "--json").out)
    assert (status["done"], status["runs"], status["exit"]) == (9, 12, 0)
    assert status["pairings"][2] == {
        "setting": "random [changes=2]", "agent": "UCRL2", "done": 0, "runs": 3, "failed": 0,
    }  # fmt: skip
    assert status["lanes"] == status["pairings"]  # the deprecated name
    (verified,) = events(call("verify", half_done, "--json", "--recompute", "1").out)
    assert (verified["valid"], verified["missing"], verified["recomputed"]) == (5, 1, 1)
    assert verified["sound"] == verified["valid"]  # the deprecated name
    (report,) = events(call("report", half_done, "--json").out)
    assert report["files"] == ["done/report/index.html", "done/report/tables.md"]
    (exported,) = events(call("export", half_done, "--json", "--format", "csv").out)
    assert len(exported["files"]) == 4


@pytest.mark.parametrize(
    ("command", "code"),
    [
        (["status", "nowhere"], 4),
        (["run", "nowhere.toml"], 2),
        (["run", "small.toml", "--jobs", "0"], 2),
        (["run"], 2),
        (["agents"], 2),
    ],
)
def test_an_error_is_json_as_well(call: Any, command: list[str], code: int) -> None:
    result = call(*command, "--json")
    (error,) = events(result.out)
    assert (result.code, error["exit"], error["event"]) == (code, code, "error")
    assert error["message"]
    assert result.err == ""


def test_configuration_errors_are_json_with_path_value_and_what_is_allowed(call: Any) -> None:
    Path("wrong.toml").write_text("title = 3\nhorizon = 0\n", "utf-8")
    (error,) = events(call("run", "wrong.toml", "--json").out)
    assert error["faults"][:2] == [
        {
            "path": "title", "value": "3", "allowed": "a string",
            "message": "title: must be a string, got 3",
        },
        {
            "path": "horizon", "value": "0", "allowed": "greater than or equal to 1",
            "message": "horizon: must be greater than or equal to 1, got 0",
        },
    ]  # fmt: skip


def test_output_of_user_modules_does_not_mix_with_json(call: Any) -> None:
    source = Path("own_agents.py")
    noisy = source.read_text("utf-8").replace("return 0", 'print("hm"); return 0')
    source.write_text(f"print('hello')\n{noisy}", "utf-8")
    result = call("run", "first.toml", "--out", "here", "--json", *PLAIN)
    assert result.code == 0
    assert events(result.out)[-1]["event"] == "report"
    assert result.err.startswith("hello\n")
    assert "hm" in result.err


def test_a_name_cannot_break_a_line_of_json_or_move_the_cursor(call: Any) -> None:
    text = Path("small.toml").read_text("utf-8")
    text = text.replace('"Two agents"', '"two\\u2028\\u001B[2Jlines\\n"')
    Path("odd.toml").write_text(text, "utf-8")
    result = call("run", "odd.toml", "--out", "here", "--problems", "1")
    assert "\x1b" not in result.out
    assert result.out.startswith("two  [2Jlines \n")
    assert "\x1b" not in call("status", "here").out
    assert "\x1b" not in Path("here/report/tables.md").read_text("utf-8")
    (status,) = events(call("status", "here", "--json").out)
    assert status["title"] == "two\u2028\x1b[2Jlines\n"


@pytest.mark.usefixtures("compiled")
def test_quiet_prints_only_errors(call: Any) -> None:
    result = call("run", "small.toml", "--quiet")
    assert (result.code, result.out, result.err) == (0, "", "")
    assert Path("results/small/report/index.html").exists()
    result = call("run", "fails.toml", "--quiet", *PLAIN)
    assert (result.code, result.out) == (3, "")
    assert result.err.startswith("6 runs failed")


@pytest.mark.parametrize(
    ("options", "out", "err"),
    [
        ({}, "result\n", "progress\nwarning\n"),
        ({"quiet": True}, "", "warning\n"),
        ({"as_json": True}, '{"event": "x", "n": 1}\n', "printed by an agent\n"),
        ({"as_json": True, "quiet": True}, '{"event": "x", "n": 1}\n', "printed by an agent\n"),
    ],
    ids=str,
)
def test_the_options_select_what_is_printed(
    capsys: pytest.CaptureFixture[str], options: dict[str, bool], out: str, err: str
) -> None:
    with output_mode(**options):
        say("result")
        tell("progress")
        warn("warning")
        say_json("x", n=1)
        if "as_json" in options:
            print("printed by an agent")
    assert capsys.readouterr() == (out, err)


def test_without_a_command_the_help_is_printed(call: Any) -> None:
    result = call()
    assert result.code == 2
    assert "Experiments:\n  reproduce" in result.err


def test_a_mistyped_command_or_option_is_answered_with_a_suggestion(call: Any) -> None:
    result = call("statsu", "here")
    assert result.code == 2
    assert "No such command 'statsu'. Did you mean 'status'?" in result.err
    result = call("run", "small.toml", "--job", "x")
    assert result.code == 2
    assert "No such option '--job'. (Did you mean one of: '--jobs', " in result.err


@pytest.mark.parametrize("name", ["", *cli.commands])
def test_every_help_text_is_complete_and_fits_a_terminal(call: Any, name: str) -> None:
    result = call(*name.split(), "--help")
    assert result.code == 0
    assert "..." not in result.out.partition("Commands:")[2]  # no line was cut short
    assert "\b" not in result.out
    assert max(map(len, result.out.splitlines())) <= 80
    assert call(*name.split(), "-h").out == result.out


def test_all_commands_are_listed_in_sections_in_order_of_use(call: Any) -> None:
    listed = call("--help").out.partition("Experiments:\n")[2].partition("Exit codes")[0]
    sections = [line for line in listed.splitlines() if line and not line.startswith(" ")]
    assert sections == ["Information:", "Decision service:"]
    names = re.findall(r"^  (\S+)", listed, re.MULTILINE)
    assert names[:4] == ["reproduce", "run", "resume", "status"]
    assert sorted(names) == sorted(cli.commands)


@pytest.mark.parametrize("option", ["--help", "--version", "run --help"])
def test_help_and_version_import_nothing_heavy(option: str) -> None:
    program = (
        "import sys\nfrom switchmdp.cli import main\n"
        "try:\n    main(sys.argv[1:])\nexcept SystemExit:\n    pass\n"
        "heavy = {'numpy', 'numba', 'scipy', 'pydantic', 'rich', 'matplotlib', 'jinja2'}\n"
        "print('loaded:', *sorted(heavy & set(sys.modules)))"
    )
    command = [sys.executable, "-c", program, *option.split()]
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    assert result.stdout.splitlines()[-1] == "loaded:"
    assert "switchmdp" in result.stdout


@pytest.fixture
def piped(program: list[str]) -> Shell:
    """A shell command in which $S is the program."""

    def run(command: str, **variables: str) -> subprocess.CompletedProcess[str]:
        line = command.replace("$S", shlex.join(program))
        environment = {**os.environ, **variables}
        return subprocess.run(
            ["bash", "-c", line], capture_output=True, encoding="utf-8", env=environment,
            check=False,
        )  # fmt: skip

    return run


@pytest.mark.parametrize("command", ["status done | head -1", "schema | true", "--help | true"])
@pytest.mark.usefixtures("done")
def test_a_closed_pipe_is_not_an_error(piped: Shell, command: str) -> None:
    result = piped(f"$S {command}; exit ${{PIPESTATUS[0]}}")
    assert (result.returncode, result.stderr) == (0, "")


def test_a_run_continues_when_the_pipe_is_closed(piped: Shell, half_done: Path) -> None:
    result = piped(f"$S resume {half_done} --json 2>&1 | true; exit ${{PIPESTATUS[0]}}")
    assert result.returncode == 0
    assert (half_done / "report" / "index.html").exists()


def test_closed_and_full_outputs_print_no_traceback(piped: Shell, done: Path) -> None:
    assert piped(f"$S status {done} >&-").returncode == 0
    assert piped(f"$S status {done} >&- 2>&-").returncode == 0
    if Path("/dev/full").exists():
        result = piped(f"$S status {done} > /dev/full")
        assert result.returncode == 5
        assert result.stderr.startswith("error: No space left on device; free some space")
        assert result.stderr.count("\n") == 1


def test_output_works_on_an_ascii_terminal(piped: Shell, done: Path) -> None:
    result = piped(f"$S report {done} --out there", PYTHONIOENCODING="ascii")
    assert result.returncode == 0
    assert "regret after 300 steps" in result.stdout


@pytest.fixture
def at_a_terminal(program: list[str]) -> Callable[..., tuple[int, str]]:
    """Run the program at a terminal; returns the exit code and the output."""

    def run(*arguments: str | Path, **variables: str) -> tuple[int, str]:
        here, there = pty.openpty()
        environment = {**os.environ, "TERM": "xterm-256color", **variables}
        process = subprocess.Popen(
            [*program, *map(str, arguments)], stdin=there, stdout=there, stderr=there,
            env=environment,
        )  # fmt: skip
        os.close(there)
        heard = b""
        with contextlib.suppress(OSError):  # how a terminal ends on Linux
            while part := os.read(here, 65536):
                heard += part
        os.close(here)
        return process.wait(), heard.decode()

    return run


def test_a_terminal_shows_a_progress_bar_that_is_removed_at_the_end(
    at_a_terminal: Any, half_done: Path
) -> None:
    code, heard = at_a_terminal("resume", half_done)
    assert code == 0
    assert "━" in heard
    assert re.search(r" 9/12 runs  starting", heard)
    (*_, drawn, erased, after) = heard.partition("3 runs done in")[0].rsplit("\r", 3)
    assert "/12" in drawn
    assert (erased.strip(), after.strip()) == ("", "")
    assert "3 runs done in" in heard


def test_without_colour_there_are_no_escape_codes(at_a_terminal: Any, half_done: Path) -> None:
    code, heard = at_a_terminal("resume", half_done, NO_COLOR="1")
    assert code == 0
    assert "\x1b" not in heard
    assert "9 of 12 runs (75 %), starting" in heard
    for command in (["agents"], ["--help"]):
        assert "\x1b" not in at_a_terminal(*command, NO_COLOR="1")[1]


class Terminal:
    """A stream that claims to be a terminal."""

    def isatty(self) -> bool:
        return True


def test_the_kind_of_progress_fits_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert type(display(1)) is Lines
    monkeypatch.setattr(sys, "stderr", Terminal())
    assert type(display(1)) is Bar
    for options in ({"as_json": True}, {"quiet": True}):
        with output_mode(**options):
            assert type(display(1)) is Lines
    monkeypatch.setenv("TERM", "dumb")
    assert type(display(1)) is Lines
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("NO_COLOR", "1")
    assert type(display(1)) is Lines


def test_rate_and_time_left_are_measured_over_the_last_seconds(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now = [100.0]
    monkeypatch.setattr("switchmdp.cli.time.monotonic", lambda: now[0])
    show = Lines(steps=1000)
    progress = Progress(runs=1000, done=100)
    show(progress)
    for _ in range(10):  # fast at first: 10 runs a second
        now[0] += 1.0
        progress.done += 10
        show(progress)
    for _ in range(60):  # then one every second
        now[0] += 1.0
        progress.done += 1
        progress.failed = 2
        show(progress)
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "100 of 1000 runs (10 %), starting"
    assert lines[1] == "150 of 1000 runs (15 %), 10.0 k steps/s, 1:25 left"
    assert lines[-1] == "260 of 1000 runs (26 %), 1.0 k steps/s, 12:20 left, 2 failed"
    assert len(lines) == 15  # one every five seconds


def test_the_time_left_depends_on_the_speed_of_the_agents_that_are_left(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = [0.0]
    monkeypatch.setattr("switchmdp.cli.time.monotonic", lambda: now[0])
    show = Lines(steps=1000)
    progress = Progress(runs=40, left={"fast": 20, "slow": 20})
    show(progress)
    now[0] = 11.0  # two workers: 10 fast runs of 0.2 s, 10 slow ones of 2 s
    progress.done, progress.left = 20, {"fast": 10, "slow": 10}
    progress.measured = {"fast": (10, 2.0), "slow": (10, 20.0)}
    show(progress)
    assert show.rate(progress)[1] == pytest.approx(11.0)
    progress.left = {"fast": 20, "slow": 0}
    assert show.rate(progress)[1] == pytest.approx(2.0)
    progress.left = {"fast": 0, "new": 20}
    assert show.rate(progress)[1] == pytest.approx(11.0)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("switchmdp re", {"plain,resume", "plain,report", "plain,reproduce"}),
        ("switchmdp run fig", {"plain,figure-1", "file,fig"}),
        ("switchmdp agents sw-", {"plain,sw-ucrl", "plain,sw-psrl"}),
        ("switchmdp problems riverswim-", {"plain,riverswim-flips"}),
        ("switchmdp serve --agent sw-u", {"plain,sw-ucrl"}),
        ("switchmdp status res", {"dir,res"}),
    ],
)
def test_the_shell_completes_commands_and_names(
    words: str,
    expected: set[str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("_SWITCHMDP_COMPLETE", "bash_complete")
    monkeypatch.setenv("COMP_WORDS", words)
    monkeypatch.setenv("COMP_CWORD", str(words.count(" ")))
    with pytest.raises(SystemExit):
        main([])
    assert expected <= {*capsys.readouterr().out.split()}


# `compopt` works only while a user presses Tab.
PRESS_TAB = """
compopt() { echo compopt "$@"; }
eval "$(_SWITCHMDP_COMPLETE=bash_source switchmdp)"
COMP_WORDS=(switchmdp run "$1") COMP_CWORD=2
_switchmdp_completion switchmdp
echo "${COMPREPLY[@]}"
"""


@pytest.mark.parametrize(
    ("typed", "completed"),
    [("fig", "figure-1"), ("wi", "window-scan windows.toml"), ("no such name", "")],
)
def test_bash_offers_configurations_and_otherwise_files(
    typed: str, completed: str, tmp_path: Path
) -> None:
    (tmp_path / "windows.toml").touch()
    (tmp_path / "window.csv").touch()
    programs = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-c", PRESS_TAB, "bash", typed], capture_output=True, text=True, cwd=tmp_path,
        env=os.environ | {"PATH": programs}, check=True,
    )  # fmt: skip
    assert done.stdout == f"compopt -o default\n{completed}\n"
