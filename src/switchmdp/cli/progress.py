"""Progress of a long run: a bar on a terminal, plain lines elsewhere, JSON, or nothing."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
import time
from collections import deque
from collections.abc import Iterator
from typing import Any

from switchmdp.cli import say_json, tell
from switchmdp.experiments.execute import Progress

EVERY = 5.0  # seconds between two plain lines
WINDOW = 20.0  # seconds over which the rate is measured
STOPPING = "stopping; press Ctrl-C again to stop immediately"


class Silent:
    """No output (`--quiet`); counts the runs that were done before.

    >>> show = Silent(steps=100)
    >>> for part, before, after in [("one", 2, 3), ("two", 7, 9)]:
    ...     show.begin(part)
    ...     show(Progress(9, before))
    ...     show(Progress(9, after))
    >>> show.before
    6
    """

    def __init__(self, steps: int) -> None:
        self.steps = steps  # per run
        self.began = time.monotonic()
        self.progress: Progress | None = None  # the latest
        self.before = 0  # runs that were done before
        self.start: int | None = None  # runs done at the start of the current part
        self.seen: deque[tuple[float, int, float]] = deque()  # time, runs done, work done

    def __call__(self, progress: Progress) -> None:
        """Called once before the first chunk, and after each chunk."""
        now = time.monotonic()
        self.progress = progress
        if self.start is None:  # the first call of a part
            self.before += progress.done - (self.seen[-1][1] if self.seen else 0)
            self.start = progress.done
        if progress.done == self.start:  # not yet running, for example compiling
            self.seen.clear()
        self.seen.append((now, progress.done, progress.work_done))
        while len(self.seen) > 2 and self.seen[1][0] < now - WINDOW:
            self.seen.popleft()

    def begin(self, part: str) -> None:
        """A new part begins; the next call tells how much of it was done before."""
        self.start = None
        self.announce(part)

    def announce(self, part: str) -> None:
        """Print the name of a new part."""

    def stopping(self) -> None:
        """The user asked to stop."""

    def close(self) -> None:
        """Everything has ended."""

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


class Lines(Silent):
    """A line on standard error every few seconds."""

    last = -EVERY

    def __call__(self, progress: Progress) -> None:
        """Called once before the first chunk, and after each chunk."""
        super().__call__(progress)
        now = time.monotonic()
        if now - self.last >= EVERY and progress.done < progress.runs:
            self.last = now
            self.print_line(progress)

    def announce(self, part: str) -> None:
        """Print the name of a new part."""
        tell(part)

    def print_line(self, progress: Progress) -> None:
        """Print one line."""
        share = 100 * progress.done // max(1, progress.runs)
        tell(f"{progress.done} of {progress.runs} runs ({share} %), {self.words(progress)}")

    def stopping(self) -> None:
        """The user asked to stop."""
        tell(STOPPING)


class Json(Lines):
    """The same as lines of JSON on standard output (`--json`)."""

    def print_line(self, progress: Progress) -> None:
        """Print one line."""
        rate, left = self.rate(progress)
        seconds_left = None if left == float("inf") else round(left, 1)
        say_json(
            "progress", done=progress.done, runs=progress.runs, failed=progress.failed,
            runs_per_second=round(rate, 3), seconds_left=seconds_left,
        )  # fmt: skip

    def announce(self, part: str) -> None:
        """Print the name of a new part."""
        say_json("begin", part=part)

    def stopping(self) -> None:
        """The user asked to stop."""
        say_json("stopping")


class Bar(Silent):
    """A progress bar with rate and remaining time, for terminals."""

    def __init__(self, steps: int) -> None:
        super().__init__(steps)
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn
        from rich.progress import Progress as RichProgress

        self.stopped = False
        self.task: Any = None  # until there is something to do
        self.bar = RichProgress(
            BarColumn(20), MofNCompleteColumn(), TextColumn("runs  {task.fields[note]}"),
            console=Console(stderr=True), transient=True,
        )  # fmt: skip

    def __call__(self, progress: Progress) -> None:
        """Called once before the first chunk, and after each chunk."""
        super().__call__(progress)
        note = STOPPING if self.stopped else self.words(progress)
        if self.task is None and progress.done < progress.runs:
            self.task = self.bar.add_task(
                "", total=progress.runs, completed=progress.done, note=note
            )
            self.bar.start()
        if self.task is not None:
            self.bar.update(self.task, completed=progress.done, note=note)

    def stopping(self) -> None:
        """The user asked to stop."""
        self.stopped = True
        if self.task is not None:
            self.bar.update(self.task, note=STOPPING)

    def close(self) -> None:
        """Everything has ended."""
        if self.task is not None:
            self.bar.stop()


def clock(seconds: float) -> str:
    """Seconds in minutes and hours.

    >>> clock(75), clock(7300)
    ('1:15', '2:01:40')
    """
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


def speed(steps: float) -> str:
    """Steps per second with a unit.

    >>> speed(12_345_678), speed(8_765), speed(42)
    ('12.3 M steps/s', '8.8 k steps/s', '42 steps/s')
    """
    for unit, size in (("M", 1e6), ("k", 1e3)):
        if steps >= size:
            return f"{steps / size:.1f} {unit} steps/s"
    return f"{steps:.0f} steps/s"


def display(steps: int, *, quiet: bool, as_json: bool) -> Silent:
    """The kind of progress that fits the options and the terminal."""
    if as_json:
        return Json(steps)
    if quiet:
        return Silent(steps)
    # A bar needs cursor movement, so not with NO_COLOR or on a dumb terminal.
    plain = bool(os.environ.get("NO_COLOR")) or os.environ.get("TERM", "dumb") == "dumb"
    at_terminal = sys.stderr is not None and sys.stderr.isatty()
    return Bar(steps) if at_terminal and not plain else Lines(steps)


class Stop(threading.Event):
    """A request to stop, and the signal that made it."""

    signal: int | None = None


@contextlib.contextmanager
def stoppable(show: Silent) -> Iterator[Stop]:
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
