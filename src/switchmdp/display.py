"""How objects present themselves: HTML for notebooks, figures, data frames, and `dir`.

An object describes itself as a few rows of text (`html_table`) and a small curve (`sparkline`).
Both are plain HTML without colours of their own, so they suit light and dark themes.

Figures and data frames need libraries that only `reports` imports. A lower layer does not import
`reports`: the package registers what loads it (`register_presenter`), and `present` calls it when
`record.plot()` is called.
"""

from __future__ import annotations

import html
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

WIDTH, HEIGHT = 240, 48  # of a sparkline, in pixels
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
    scale = (HEIGHT - 4) / (high - low) if high > low else 0.0
    points = " ".join(
        f"{i * WIDTH / (len(shown) - 1):.1f},{HEIGHT - 2 - (y - low) * scale:.1f}"
        for i, y in enumerate(shown)
    )
    name = html.escape(label, quote=True)
    return (
        f'<svg width="{WIDTH}" height="{HEIGHT}" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
        f'aria-label="{name}"><title>{name}</title><polyline points="{points}" fill="none" '
        'stroke="currentColor" stroke-width="1.5"/></svg>'
    )


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
