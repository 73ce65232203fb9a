"""The output of the command line, and how commands are stopped. `commands` has the commands.

Each command parses its arguments, calls the library and prints.

Commands produce output for people and for programs. The options select what is printed:

    say         results, on standard output         not with --json or --quiet
    tell        progress and advice, on stderr      not with --json or --quiet
    warn        errors and warnings, on stderr      not with --json
    say_json    events, on standard output          only with --json

If the reader of a pipe closes it, output is discarded and the command continues.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import shlex
import signal
import sys
import threading
import time
from collections import deque
from collections.abc import Iterator
from enum import IntEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TextIO

if TYPE_CHECKING:
    from switchmdp.experiments.execute import Progress  # imports all agents

EVERY = 5.0  # seconds between two lines of progress
WINDOW = 20.0  # seconds over which the rate is measured
STOPPING = "stopping; press Ctrl-C again to stop immediately"


class Exit(IntEnum):
    """The exit codes."""

    FINE = 0
    USAGE = 2  # an error in the command or the configuration
    FAILED = 3  # some runs failed
    DAMAGED = 4  # a damaged or foreign folder
    FULL = 5  # the disk is full
    INTERRUPTED = 130
    TERMINATED = 143


_quiet = _as_json = False  # set by `output_mode`
_json_stream: TextIO | None = None  # the original standard output


def main(arguments: list[str] | None = None) -> NoReturn:
    """The program `switchmdp`."""
    try:
        code = _run(sys.argv[1:] if arguments is None else arguments)
    except KeyboardInterrupt:
        code = Exit.INTERRUPTED
    sys.exit(code)


def _run(arguments: list[str]) -> int:
    from switchmdp.cli.commands import cli

    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(AttributeError):  # closed, or replaced by another object
            stream.reconfigure(errors="replace")  # type: ignore[union-attr]  # may be None
    with output_mode(quiet="--quiet" in arguments, as_json="--json" in arguments):
        try:
            code: Any = cli.main(arguments, prog_name="switchmdp", standalone_mode=False)
        except SystemExit:  # click exits this way if the pipe of its help is closed
            code = Exit.FINE
        except Exception as error:
            code = _explain(error)
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except OSError:  # already handled; Python would report it again
        discard(sys.stdout)
    return code if isinstance(code, int) else Exit.FINE


def _explain(error: Exception) -> int:
    """Print an error, on standard error or as JSON; returns the exit code."""
    import click

    from switchmdp.errors import (
        DamagedFile,
        ForeignFolder,
        InvalidExperiment,
        SwitchmdpError,
        message_of,
    )

    code, text, details = Exit.USAGE, f"error: {message_of(error)}", {}
    if isinstance(error, click.exceptions.Abort):
        return Exit.INTERRUPTED
    if isinstance(error, click.ClickException):
        text = error.format_message()
    elif isinstance(error, OSError):
        text = f"error: {_reason(error)}"
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            code, text = Exit.FULL, f"{text}; free some space, then run the same command again"
    elif isinstance(error, InvalidExperiment):
        number = "1 error" if len(error.faults) == 1 else f"{len(error.faults)} errors"
        text = "\n  ".join([f"{number} in the configuration:", *map(str, error.faults)])
        details["faults"] = [
            {"path": f.path, "value": repr(f.value), "allowed": f.allowed, "message": str(f)}
            for f in error.faults
        ]
    elif isinstance(error, (ForeignFolder, DamagedFile)):
        code = Exit.DAMAGED
    elif not isinstance(error, SwitchmdpError):
        raise error
    say_json("error", message=text.removeprefix("error: "), exit=code, **details)
    if isinstance(error, click.ClickException) and not _as_json:
        error.show()
    else:
        warn(text)
    return code


def _reason(error: OSError) -> str:
    """The system's message and the file's name, without the error number."""
    place = f"{error.filename}: " if error.filename is not None else ""
    return place + (error.strerror or str(error))


# Output.


@contextlib.contextmanager
def output_mode(*, quiet: bool = False, as_json: bool = False) -> Iterator[None]:
    """Select what is printed.

    With JSON, all other output, such as that of a user module, goes to standard error.
    """
    global _quiet, _as_json, _json_stream
    _quiet, _as_json, _json_stream = quiet, as_json, sys.stdout
    try:
        with contextlib.redirect_stdout(sys.stderr) if as_json else contextlib.nullcontext():
            yield
    finally:
        _quiet, _as_json, _json_stream = False, False, None


def prints_text() -> bool:
    """Whether results, progress and advice are printed as text."""
    return not _quiet and not _as_json


def say(text: object) -> None:
    """Print a result."""
    if prints_text():
        _write(sys.stdout, str(text))


def tell(text: str) -> None:
    """Print progress or advice."""
    if prints_text():
        _write(sys.stderr, text)


def warn(text: str) -> None:
    """Print an error or a warning."""
    if not _as_json:
        _write(sys.stderr, text)


def say_json(event: str, **content: Any) -> None:
    """Print a line of JSON in ASCII, so that no character in a name can break the line."""
    if _as_json:
        _write(_json_stream, json.dumps({"event": event, **content}))


def _write(stream: TextIO | None, text: str) -> None:
    if stream is None:  # it was closed when the program started
        return
    try:
        stream.write(f"{text}\n")
        stream.flush()
    except BrokenPipeError:
        discard(stream)


def discard(stream: TextIO | None) -> None:
    """Redirect a broken pipe to /dev/null, including what is still in its buffer."""
    with contextlib.suppress(OSError, ValueError, AttributeError):  # it may not be a file
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, stream.fileno())  # type: ignore[union-attr]  # None: suppressed
        os.close(null)


def command(verb: str, folder: Path, *, trust: bool = False) -> str:
    """A command for the user to type.

    >>> command("resume", Path("results/my runs"))
    "switchmdp resume 'results/my runs'"
    >>> command("resume", Path("mine"), trust=True)
    'switchmdp resume mine --trust'
    """
    return f"switchmdp {verb} {shlex.quote(str(folder))}" + " --trust" * trust


def printable(text: str) -> str:
    """A text as one line without control characters.

    >>> printable("two\\nlines")
    'two lines'
    """
    return "".join(character if character.isprintable() else " " for character in text)


# Progress of a long run: a bar on a terminal, lines or JSON elsewhere; and requests to stop.


class Lines:
    """A line every few seconds, as text or, with --json, as JSON."""

    last = -EVERY

    def __init__(self, steps: int) -> None:
        self.steps = steps  # per run
        self.began = time.monotonic()
        self.progress: Progress | None = None  # the latest
        self.seen: deque[tuple[float, int, float]] = deque()  # time, runs done, work done

    def __call__(self, progress: Progress) -> None:
        """Called once before the first chunk, and after each chunk."""
        now = time.monotonic()
        self.progress = progress
        if self.seen and progress.done == self.seen[0][1]:  # not yet running: compiling, perhaps
            self.seen.clear()
        self.seen.append((now, progress.done, progress.work_done))
        while len(self.seen) > 2 and self.seen[1][0] < now - WINDOW:
            self.seen.popleft()
        self.show(progress)

    def show(self, progress: Progress) -> None:
        """Print a line, if the last one is some seconds old."""
        now = time.monotonic()
        if now - self.last < EVERY or progress.done >= progress.runs:
            return
        self.last = now
        share = 100 * progress.done // max(1, progress.runs)
        tell(f"{progress.done} of {progress.runs} runs ({share} %), {self.words(progress)}")
        rate, left = self.rate(progress)
        say_json(
            "progress", done=progress.done, runs=progress.runs, failed=progress.failed,
            runs_per_second=round(rate, 3),
            seconds_left=None if left == float("inf") else round(left, 1),
        )  # fmt: skip

    def begin(self, part: str) -> None:
        """A new part begins."""
        self.seen.clear()
        tell(part)
        say_json("begin", part=part)

    def stopping(self) -> None:
        """The user asked to stop."""
        tell(STOPPING)
        say_json("stopping")

    def close(self) -> None:
        """The work has ended."""

    def rate(self, progress: Progress) -> tuple[float, float]:
        """(runs per second, seconds left), from the last WINDOW seconds.

        The time left is the work left, which takes the speed of each agent into account, divided
        by the work done per second. Without measured work, it is the runs left divided by the runs
        per second.
        """
        (begin, runs_before, work_before), (end, runs, work) = self.seen[0], self.seen[-1]
        elapsed = max(1e-9, end - begin)
        rate, work_rate = (runs - runs_before) / elapsed, (work - work_before) / elapsed
        if work_rate > 0:
            return rate, progress.work_left / work_rate
        return rate, (progress.runs - progress.done) / rate if rate > 0 else float("inf")

    def words(self, progress: Progress) -> str:
        """Speed, time left, failures."""
        rate, left = self.rate(progress)
        parts = [speed(rate * self.steps) if rate > 0 else "starting"]
        if 0 < left < float("inf"):
            parts.append(f"{clock(left)} left")
        if progress.failed:
            parts.append(f"{progress.failed} failed")
        return ", ".join(parts)


class Bar(Lines):
    """A progress bar with rate and remaining time, for terminals."""

    def __init__(self, steps: int) -> None:
        super().__init__(steps)
        from switchmdp.display import TerminalBar

        self.bar = TerminalBar()

    def show(self, progress: Progress) -> None:
        """Update the bar."""
        if progress.done < progress.runs:
            self.bar.show(progress.done, progress.runs, self.words(progress))

    def begin(self, part: str) -> None:
        """A new part begins."""
        self.seen.clear()

    def stopping(self) -> None:
        """The user asked to stop."""
        self.bar.close()
        tell(STOPPING)

    def close(self) -> None:
        """The work has ended."""
        self.bar.close()


def clock(seconds: float) -> str:
    """Seconds in minutes and hours.

    >>> clock(75), clock(7300)
    ('1:15', '2:01:40')
    """
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


def count_runs(n: int) -> str:
    """A number of runs with its noun.

    >>> count_runs(1), count_runs(2)
    ('1 run', '2 runs')
    """
    return "1 run" if n == 1 else f"{n} runs"


def speed(steps: float) -> str:
    """Steps per second with a unit.

    >>> speed(12_345_678), speed(8_765), speed(42)
    ('12.3 M steps/s', '8.8 k steps/s', '42 steps/s')
    """
    for unit, size in (("M", 1e6), ("k", 1e3)):
        if steps >= size:
            return f"{steps / size:.1f} {unit} steps/s"
    return f"{steps:.0f} steps/s"


def display(steps: int) -> Lines:
    """The progress display that suits the options and the terminal."""
    from switchmdp.display import at_terminal

    return Bar(steps) if prints_text() and at_terminal() else Lines(steps)


class Stop(threading.Event):
    """A request to stop, and the signal that made it."""

    signal: int | None = None


@contextlib.contextmanager
def stoppable(show: Lines) -> Iterator[Stop]:
    """The first Ctrl-C or SIGTERM requests a stop; a second one raises KeyboardInterrupt."""
    stop = Stop()

    def ask(number: int, frame: Any) -> None:
        if stop.signal is not None:
            raise KeyboardInterrupt
        stop.signal = number
        stop.set()

    def acknowledge() -> None:  # in a thread, since a handler may interrupt another print
        stop.wait()
        if stop.signal is not None:
            show.stopping()

    before = {n: signal.signal(n, ask) for n in (signal.SIGINT, signal.SIGTERM)}
    thread = threading.Thread(target=acknowledge, daemon=True)
    thread.start()
    try:
        yield stop
    finally:
        stop.set()
        thread.join()  # so that its message is printed first
        for number, handler in before.items():
            signal.signal(number, handler)
