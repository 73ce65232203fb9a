"""Progress of a long run: a bar on a terminal, lines or JSON elsewhere; and requests to stop."""

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

from switchmdp.cli import prints_text, say_json, tell
from switchmdp.experiments.execute import Progress

EVERY = 5.0  # seconds between two lines
WINDOW = 20.0  # seconds over which the rate is measured
STOPPING = "stopping; press Ctrl-C again to stop immediately"


class Lines:
    """A line every few seconds, as text or, with --json, as JSON."""

    last = -EVERY

    def __init__(self, steps: int) -> None:
        self.steps = steps  # per run
        self.began = time.monotonic()
        self.progress = Progress(0)  # the latest
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


class Bar(Lines):
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

    def show(self, progress: Progress) -> None:
        """Update the bar."""
        note = STOPPING if self.stopped else self.words(progress)
        if self.task is None and progress.done < progress.runs:
            self.task = self.bar.add_task(
                "", total=progress.runs, completed=progress.done, note=note
            )
            self.bar.start()
        if self.task is not None:
            self.bar.update(self.task, completed=progress.done, note=note)

    def begin(self, part: str) -> None:
        """A new part begins."""
        self.seen.clear()

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


def display(steps: int) -> Lines:
    """The kind of progress that fits the options and the terminal."""
    # A bar needs cursor movement, so not with NO_COLOR or on a dumb terminal.
    plain = bool(os.environ.get("NO_COLOR")) or os.environ.get("TERM", "dumb") == "dumb"
    at_terminal = sys.stderr is not None and sys.stderr.isatty()
    return Bar(steps) if prints_text() and at_terminal and not plain else Lines(steps)


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
