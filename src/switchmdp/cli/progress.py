"""How far a long run has come: a bar on a terminal, plain lines elsewhere, JSON or nothing."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from switchmdp.cli.say import say_json, tell
from switchmdp.experiments.execute import Tally

EVERY = 5.0  # seconds between two plain lines
LATELY = 20.0  # seconds over which the rate is taken: agents differ in speed
STOPPING = "stopping; Ctrl-C again leaves at once"


class Silent:
    """No progress at all (`--quiet`); what was there already is counted apart.

    >>> show = Silent(steps=100)
    >>> for part, found, done in [("one", 2, 3), ("two", 7, 9)]:
    ...     show.begin(part)
    ...     show(Tally(9, found))
    ...     show(Tally(9, done))
    >>> show.before
    6
    """

    def __init__(self, steps: int) -> None:
        self.steps = steps  # of one run
        self.began = time.monotonic()
        self.tally: Tally | None = None  # as it is now
        self.before = 0  # runs that were there already
        self.start: int | None = None  # runs done as a part begins, once it is known
        self.seen: deque[tuple[float, int]] = deque()  # when, runs done

    def __call__(self, tally: Tally) -> None:
        """A chunk is done; also called once before the first."""
        now = time.monotonic()
        self.tally = tally
        if self.start is None:  # what a part finds done was there already
            self.before += tally.done - (self.seen[-1][1] if self.seen else 0)
            self.start = tally.done
        if tally.done == self.start:  # compiling, say: the clock of the rate has not begun
            self.seen.clear()
        self.seen.append((now, tally.done))
        while len(self.seen) > 2 and self.seen[1][0] < now - LATELY:
            self.seen.popleft()

    def begin(self, part: str) -> None:
        """Another part begins; the next call tells what of it is there already."""
        self.start = None
        self.announce(part)

    def announce(self, part: str) -> None:
        """Say that another part begins."""

    def stopping(self) -> None:
        """A stop was asked for."""

    def close(self) -> None:
        """The end."""

    def rate(self, tally: Tally) -> tuple[float, float]:
        """(runs a second of late, seconds still to go)."""
        (begin, before), (end, done) = self.seen[0], self.seen[-1]
        rate = (done - before) / max(1e-9, end - begin)
        return rate, (tally.runs - tally.done) / rate if rate > 0 else float("inf")

    def words(self, tally: Tally) -> str:
        """Speed, time to go, failures."""
        rate, left = self.rate(tally)
        parts = [speed(rate * self.steps) if rate > 0 else "starting"]
        if 0 < left < float("inf"):
            parts.append(f"{clock(left)} to go")
        if tally.failed:
            parts.append(f"{tally.failed} failed")
        return ", ".join(parts)


class Lines(Silent):
    """A line on standard error every few seconds."""

    last = -EVERY

    def __call__(self, tally: Tally) -> None:
        """A chunk is done; also called once before the first."""
        super().__call__(tally)
        now = time.monotonic()
        if now - self.last >= EVERY and tally.done < tally.runs:
            self.last = now
            self.say(tally)

    def announce(self, part: str) -> None:
        """Say that another part begins."""
        tell(part)

    def say(self, tally: Tally) -> None:
        """One line."""
        share = 100 * tally.done // max(1, tally.runs)
        tell(f"{tally.done} of {tally.runs} runs ({share} %), {self.words(tally)}")

    def stopping(self) -> None:
        """A stop was asked for."""
        tell(STOPPING)


class Json(Lines):
    """The same as lines of JSON on standard output (`--json`)."""

    def say(self, tally: Tally) -> None:
        """One line."""
        rate, left = self.rate(tally)
        to_go = None if left == float("inf") else round(left, 1)
        say_json(
            "progress", done=tally.done, runs=tally.runs, failed=tally.failed,
            runs_per_second=round(rate, 3), seconds_left=to_go,
        )  # fmt: skip

    def announce(self, part: str) -> None:
        """Say that another part begins."""
        say_json("begin", part=part)

    def stopping(self) -> None:
        """A stop was asked for."""
        say_json("stopping")


class Bar(Silent):
    """A bar with rate and remaining time, for people at a terminal."""

    def __init__(self, steps: int) -> None:
        super().__init__(steps)
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

        self.stopped = False
        self.task: Any = None  # until there is something to do
        self.bar = Progress(
            BarColumn(20), MofNCompleteColumn(), TextColumn("runs  {task.fields[note]}"),
            console=Console(stderr=True), transient=True,
        )  # fmt: skip

    def __call__(self, tally: Tally) -> None:
        """A chunk is done; also called once before the first."""
        super().__call__(tally)
        note = STOPPING if self.stopped else self.words(tally)
        if self.task is None and tally.done < tally.runs:
            self.task = self.bar.add_task("", total=tally.runs, completed=tally.done, note=note)
            self.bar.start()
        if self.task is not None:
            self.bar.update(self.task, completed=tally.done, note=note)

    def stopping(self) -> None:
        """A stop was asked for."""
        self.stopped = True
        if self.task is not None:
            self.bar.update(self.task, note=STOPPING)

    def close(self) -> None:
        """The end."""
        if self.task is not None:
            self.bar.stop()


def clock(seconds: float) -> str:
    """Seconds for people.

    >>> clock(75), clock(7300)
    ('1:15', '2:01:40')
    """
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


def speed(steps: float) -> str:
    """Steps a second for people.

    >>> speed(12_345_678), speed(8_765), speed(42)
    ('12.3 M steps/s', '8.8 k steps/s', '42 steps/s')
    """
    for unit, size in (("M", 1e6), ("k", 1e3)):
        if steps >= size:
            return f"{steps / size:.1f} {unit} steps/s"
    return f"{steps:.0f} steps/s"


def progress(steps: int, *, quiet: bool, as_json: bool) -> Silent:
    """The kind that fits where we are."""
    if as_json:
        return Json(steps)
    if quiet:
        return Silent(steps)
    # A bar moves the cursor: not for those who want plain text, nor for terminals that can't.
    plain = bool(os.environ.get("NO_COLOR")) or os.environ.get("TERM", "dumb") == "dumb"
    at_terminal = sys.stderr is not None and sys.stderr.isatty()
    return Bar(steps) if at_terminal and not plain else Lines(steps)


class Stop(threading.Event):
    """A stop that remembers which signal asked for it."""

    signal: int | None = None


@contextmanager
def stoppable(show: Silent) -> Iterator[Stop]:
    """The first Ctrl-C or SIGTERM asks for a stop; a second one does not wait."""
    stop = Stop()

    def ask(number: int, frame: Any) -> None:
        if stop.signal is not None:
            raise KeyboardInterrupt
        stop.signal = number
        stop.set()

    def acknowledge() -> None:  # not in the handler, which may have come in the middle of a print
        stop.wait()
        if stop.signal is not None:
            show.stopping()

    before = {n: signal.signal(n, ask) for n in (signal.SIGINT, signal.SIGTERM)}
    herald = threading.Thread(target=acknowledge, daemon=True)
    herald.start()
    try:
        yield stop
    finally:
        stop.set()
        herald.join()  # what it says comes before what comes of it
        for number, handler in before.items():
            signal.signal(number, handler)
