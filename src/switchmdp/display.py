"""How objects present themselves: HTML for notebooks, figures, data frames, `dir`; progress bars.

An object describes itself as a few rows of text (`html_table`) and a small curve (`sparkline`).
Both are plain HTML without colours of their own, so they suit light and dark themes.

Figures and data frames need libraries that only `reports` imports. A lower layer does not import
`reports`: the package registers what loads it (`register_presenter`), and `present` calls it when
`record.plot()` is called.
"""

from __future__ import annotations

import contextlib
import html
import importlib
import math
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

LINE_WIDTH, LINE_HEIGHT = 240, 48  # of a sparkline, in pixels
MOST_POINTS = 120
SHOWN = 12  # entries of a long list
LONGEST = 40  # characters of an entry

_loaders: list[Callable[[], Any]] = []


def register_presenter(load: Callable[[], Any]) -> None:
    """Set the function that imports the module with `plot` and `to_dataframe`.

    Parameters
    ----------
    load
        Called at the first use; returns the module.
    """
    _loaders[:] = [load]


def present(verb: str, *arguments: Any, **options: Any) -> Any:
    """Call a function of the presenting module.

    Parameters
    ----------
    verb
        `"plot"` or `"to_dataframe"`.
    *arguments, **options
        Passed on.

    Returns
    -------
    object
        What the function returns.
    """
    (load,) = _loaders
    return getattr(load(), verb)(*arguments, **options)


def visible(instance: Any, hidden: Iterable[str]) -> list[str]:
    """The attributes of an object for `__dir__`, without those for internal use.

    Parameters
    ----------
    instance
        The object.
    hidden
        The names to leave out.

    Returns
    -------
    list of str
        The other names, sorted.

    Examples
    --------
    >>> class Box:
    ...     inside, wire = 1, 2
    >>> [name for name in visible(Box(), ["wire"]) if not name.startswith("_")]
    ['inside']
    """
    return sorted(set(object.__dir__(instance)) - set(hidden))


def html_table(title: str, rows: Mapping[str, Any], picture: str = "") -> str:
    """A title and a table of two columns as HTML; all text is escaped.

    Parameters
    ----------
    title
        Shown above the table.
    rows
        Names and values.
    picture
        HTML that is added below, not escaped.

    Returns
    -------
    str
        HTML without colours or fonts of its own.

    Examples
    --------
    >>> html_table("MDP", {"states": "<2>"}).count("&lt;2&gt;")
    1
    """
    left = 'style="text-align:left"'
    body = "".join(
        f"<tr><th {left}>{html.escape(name)}</th><td {left}>{html.escape(str(value))}</td></tr>"
        for name, value in rows.items()
    )
    caption = f"<caption {left}><b>{html.escape(title)}</b></caption>"
    return f"<table>{caption}<tbody>{body}</tbody></table>{picture}"


def sparkline(values: Sequence[float] | Any, label: str) -> str:
    """A small curve as SVG, in the colour of the text around it.

    Parameters
    ----------
    values
        The values at equal distances; those that are not finite are left out.
    label
        What the curve shows, for screen readers and as a tooltip.

    Returns
    -------
    str
        An SVG element, or nothing if fewer than two values are finite.

    Examples
    --------
    >>> sparkline([0.0, 1.0], "regret").count("polyline"), sparkline([], "regret")
    (1, '')
    """
    step = max(1, math.ceil(len(values) / MOST_POINTS))
    shown = [float(y) for y in list(values[::-1][::step])[::-1] if math.isfinite(y)]
    if len(shown) < 2:
        return ""
    low, high = min(shown), max(shown)
    scale = (LINE_HEIGHT - 4) / (high - low) if high > low else 0.0
    points = " ".join(
        f"{i * LINE_WIDTH / (len(shown) - 1):.1f},{LINE_HEIGHT - 2 - (y - low) * scale:.1f}"
        for i, y in enumerate(shown)
    )
    name, box = html.escape(label, quote=True), f"0 0 {LINE_WIDTH} {LINE_HEIGHT}"
    return (
        f'<svg width="{LINE_WIDTH}" height="{LINE_HEIGHT}" viewBox="{box}" role="img" '
        f'aria-label="{name}"><title>{name}</title><polyline points="{points}" fill="none" '
        'stroke="currentColor" stroke-width="1.5"/></svg>'
    )


def counted(n: int, noun: str, plural: str = "") -> str:
    """A count with its noun, for a `__repr__` or a message.

    Parameters
    ----------
    n
        The count.
    noun
        The noun in the singular.
    plural
        The noun in the plural, if that is not the singular with an s.

    Returns
    -------
    str
        The count and the noun in the right number.

    Examples
    --------
    >>> counted(1, "agent"), counted(2000, "agent"), counted(0, "family", "families")
    ('1 agent', '2000 agents', '0 families')
    """
    return f"{n} {noun}" if n == 1 else f"{n} {plural or noun + 's'}"


def shortened(text: str, most: int = 60) -> str:
    """A text in quotes, for a `__repr__` of one line; of a long text, the beginning.

    Parameters
    ----------
    text
        The text.
    most
        The largest number of characters that are shown.

    Returns
    -------
    str
        The text in quotes.

    Examples
    --------
    >>> shortened("short"), shortened("long" * 9, 6)
    ("'short'", "'longl…'")
    """
    return repr(text if len(text) <= most else f"{text[: most - 1]}…")


def few(values: Iterable[Any]) -> str:
    """The first values of a list as text.

    Parameters
    ----------
    values
        The values.

    Returns
    -------
    str
        The first 12, each cut to 40 characters, and how many there are if there are more.

    Examples
    --------
    >>> few(range(3)), few(range(100))[-25:]
    ('0, 1, 2', '9, 10, 11, … (100 in all)')
    """
    listed = list(values)
    shown = [str(value) for value in listed[:SHOWN]]
    text = ", ".join(each if len(each) <= LONGEST else f"{each[:LONGEST]}…" for each in shown)
    return text if len(listed) <= SHOWN else f"{text}, … ({len(listed)} in all)"


# Progress bars for long calls.
#
# In a notebook it is the browser's own `<progress>` element, which suits every theme and needs no
# extension. In a terminal it is a line on standard error, which disappears at the end. Elsewhere
# nothing is shown.

Report = Callable[[int, int], None]
BAR_WIDTH = 20  # characters of the bar in a terminal
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
        from shutil import get_terminal_size  # slow to import, and most programs show no bar

        now = time.monotonic()
        if now - self.drawn < REDRAW and done < total:
            return
        self.drawn = now
        full = BAR_WIDTH * done // max(1, total)
        bar = FULL * full + EMPTY * (BAR_WIDTH - full)
        room = get_terminal_size().columns - 1
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
