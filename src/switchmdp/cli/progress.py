"""How far a long run has come: a bar on a terminal, plain lines elsewhere, JSON or nothing."""

from __future__ import annotations

import json
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from switchmdp.experiments.execute import Tally

EVERY = 5.0  # seconds between two plain lines


class Silent:
    """No progress at all (`--quiet`)."""

    def __init__(self, steps: int) -> None:
        self.steps = steps  # of one run
        self.began = time.monotonic()
        self.at_start = -1

    def __call__(self, tally: Tally) -> None:
        """A chunk is done."""
        if self.at_start < 0:
            self.at_start = tally.done

    def close(self) -> None:
        """The end."""

    def rate(self, tally: Tally) -> tuple[float, float]:
        """(runs a second, seconds still to go)."""
        seconds = max(1e-9, time.monotonic() - self.began)
        rate = max(0, tally.done - self.at_start) / seconds
        return rate, (tally.runs - tally.done) / rate if rate > 0 else float("inf")


class Lines(Silent):
    """A line on standard error every few seconds."""

    last = 0.0

    def __call__(self, tally: Tally) -> None:
        """A chunk is done."""
        super().__call__(tally)
        now = time.monotonic()
        if now - self.last >= EVERY or tally.done == tally.runs:
            self.last = now
            self.say(tally)

    def say(self, tally: Tally) -> None:
        """One line."""
        rate, left = self.rate(tally)
        text = f"{tally.done} of {tally.runs} runs ({100 * tally.done // max(1, tally.runs)} %)"
        if rate > 0:
            text += f", {rate:.0f} runs/s, {rate * self.steps / 1e6:.1f} M steps/s"
        if 0 < left < float("inf"):
            text += f", {clock(left)} to go"
        print(
            text + (f", {tally.failed} failed" if tally.failed else ""), file=sys.stderr, flush=True
        )


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


class Bar(Silent):
    """A bar with rate and remaining time, for people at a terminal."""

    def __init__(self, steps: int) -> None:
        super().__init__(steps)
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

        self.bar = Progress(
            BarColumn(), MofNCompleteColumn(), TextColumn("runs  {task.fields[note]}"),
            console=Console(stderr=True), transient=True,
        )  # fmt: skip
        self.task = self.bar.add_task("", total=None, note="")
        self.bar.start()

    def __call__(self, tally: Tally) -> None:
        """A chunk is done."""
        super().__call__(tally)
        rate, left = self.rate(tally)
        note = f"{rate * self.steps / 1e6:.0f} M steps/s" if rate > 0 else "starting"
        note += f"  {clock(left)} to go" if 0 < left < float("inf") else ""
        note += f"  {tally.failed} failed" if tally.failed else ""
        self.bar.update(self.task, total=tally.runs, completed=tally.done, note=note)

    def close(self) -> None:
        """The end."""
        self.bar.stop()


def clock(seconds: float) -> str:
    """Seconds for people.

    >>> clock(75), clock(7300)
    ('1:15', '2:01:40')
    """
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


def say_json(event: str, **content: Any) -> None:
    """A line of JSON on standard output."""
    print(json.dumps({"event": event, **content}, ensure_ascii=False), flush=True)


def progress(steps: int, *, quiet: bool, as_json: bool) -> Silent:
    """The kind that fits where we are."""
    if as_json:
        return Json(steps)
    if quiet:
        return Silent(steps)
    return Bar(steps) if sys.stderr.isatty() else Lines(steps)


class Stop(threading.Event):
    """A stop that remembers which signal asked for it."""

    signal: int | None = None


@contextmanager
def stoppable() -> Iterator[Stop]:
    """The first Ctrl-C or SIGTERM asks for a stop; a second one does not wait."""
    stop = Stop()

    def ask(number: int, frame: Any) -> None:
        if stop.signal is not None:
            raise KeyboardInterrupt
        stop.signal = number
        stop.set()

    before = {n: signal.signal(n, ask) for n in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
