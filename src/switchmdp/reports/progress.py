"""A progress bar for long calls in a notebook or a terminal; elsewhere nothing is shown.

In a notebook it is the browser's own `<progress>` element, which suits every theme and needs no
extension. In a terminal it is a line on standard error, which disappears at the end.
"""

from __future__ import annotations

import contextlib
import importlib
import math
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

Report = Callable[[int, int], None]
WIDTH = 20  # characters of the bar in a terminal
FULL, EMPTY = "━", " "
REDRAW = 0.1  # seconds between two drawings in a terminal


@contextlib.contextmanager
def progress_bar(unit: str = "runs") -> Iterator[Report]:
    """Show a bar for as long as the context lasts.

    Parameters
    ----------
    unit
        What is counted.

    Yields
    ------
    callable
        A function `report(done, total)`, which updates the bar.

    Examples
    --------
    >>> with progress_bar() as report:  # shows nothing here: this is not a terminal
    ...     report(1, 2)
    """
    if _in_notebook():
        with _notebook_bar(unit) as report:
            yield report
    elif at_terminal():
        bar = TerminalBar(unit)
        with contextlib.closing(bar):
            yield bar.show
    else:
        yield lambda done, total: None


def _in_notebook() -> bool:
    """Whether this code runs in the kernel of a notebook."""
    ipython: Any = sys.modules.get("IPython")
    return ipython is not None and hasattr(ipython.get_ipython(), "kernel")


def at_terminal() -> bool:
    """Whether standard error is a terminal that can move its cursor.

    Returns
    -------
    bool
        False also with `NO_COLOR` and on a dumb terminal.
    """
    plain = bool(os.environ.get("NO_COLOR")) or os.environ.get("TERM", "dumb") == "dumb"
    return sys.stderr is not None and sys.stderr.isatty() and not plain


@contextlib.contextmanager
def _notebook_bar(unit: str) -> Iterator[Report]:
    tools = importlib.import_module("IPython.display")
    shown = tools.display(tools.HTML("starting …"), display_id=True)

    def report(done: int, total: int) -> None:
        bar = f'<progress value="{done}" max="{total}"></progress>'
        shown.update(tools.HTML(f"{bar} {done} of {total} {unit}"))

    try:
        yield report
    finally:
        shown.update(tools.HTML(""))


class TerminalBar:
    """A line on standard error that is written again and again, and erased at the end.

    Parameters
    ----------
    unit
        What is counted.
    """

    def __init__(self, unit: str = "runs") -> None:
        self.unit = unit
        self.shown = ""
        self.drawn = -math.inf

    def show(self, done: int, total: int, note: str = "") -> None:
        """Draw the bar, at most ten times a second.

        Parameters
        ----------
        done, total
            How much is done, and of how much.
        note
            What follows, such as the time left.
        """
        now = time.monotonic()
        if now - self.drawn < REDRAW and done < total:
            return
        self.drawn = now
        full = WIDTH * done // max(1, total)
        bar = FULL * full + EMPTY * (WIDTH - full)
        room = shutil.get_terminal_size().columns - 1
        self._write(f"{bar} {done}/{total} {self.unit}  {note}"[:room])

    def close(self) -> None:
        """Erase the line."""
        self._write("")

    def _write(self, text: str) -> None:
        with contextlib.suppress(OSError, ValueError):  # the terminal may be gone
            if self.shown or text:
                sys.stderr.write("\r" + " " * len(self.shown) + "\r" + text)
                sys.stderr.flush()
        self.shown = text
