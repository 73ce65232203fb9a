"""The form of a report: numbers as text, tables, and pages made of sections.

A cell of a table may hold any text, including names from a configuration file. Characters that
cannot be printed (line breaks, control characters) become spaces, and characters with a meaning in
Markdown or HTML are escaped.

A page is self-contained, interactive and printable. It is a list of sections, and a section a list
of blocks: prose, facts, tables, charts, a picture, claims, code. The template has one macro per
class of blocks; `report` and `leaderboard` supply the content of a page. This is the only module
that imports Jinja2 (extra `plot`). The template escapes all text. The data of the charts is
embedded as JSON without any character that could end its element. The page's content security
policy allows only the two embedded scripts, identified by their hashes, and no network access. The
same content gives the same bytes.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
import math
import os
import re
import textwrap
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from typing import Any, TypeVar

from switchmdp.display import counted, shortened
from switchmdp.errors import MissingExtra
from switchmdp.reports.resampling import Interval
from switchmdp.storage import save_bytes

UNKNOWN = "–"
WIDEST = 44  # characters per line of a cell
SCRIPTS = ("uPlot.iife.min.js", "page.js")
STYLES = ("uPlot.min.css", "page.css")
Item = TypeVar("Item")
Chart = dict[str, Any]  # an interactive chart, as described in `curves`


# Numbers -----------------------------------------------------------------------------------------


def number(x: float) -> str:
    """Format a number with three significant digits, or with all digits of its integer part.

    >>> [number(x) for x in (12_539.4, 53.94, 0.5, -1.0, 4e-7, 0.0)]
    ['12 539', '53.9', '0.500', '-1.00', '4.00e-07', '0']
    >>> [number(x) for x in (7, 1_000_000, float("inf"), float("nan"))]
    ['7', '1 000 000', '∞', '–']
    """
    if math.isnan(x):
        return UNKNOWN
    if math.isinf(x):
        return "∞" if x > 0 else "-∞"
    if isinstance(x, int) or abs(x) >= 999.5 or x == 0:
        return f"{x + 0:,.0f}".replace(",", " ")
    rounded = float(f"{x:.3g}")
    exponent = math.floor(math.log10(abs(rounded)))
    return f"{rounded:.2e}" if exponent < -4 else f"{rounded:.{max(0, 2 - exponent)}f}"


def steps(n: float) -> str:
    """Format a number of steps as a whole number; it may be infinite or unknown.

    >>> steps(99.0), steps(float("inf")), steps(float("nan"))
    ('99', '∞', '–')
    """
    return number(int(n) if math.isfinite(n) else n)


def value(parameter: float) -> str:
    """Format the value of a parameter.

    >>> value(2000.0), value(0.05)
    ('2 000', '0.05')
    """
    return number(int(parameter)) if float(parameter).is_integer() else f"{parameter:g}"


def percent(share: float) -> str:
    """Format a share as a percentage.

    >>> percent(0.1234), percent(1.0), percent(float("nan"))
    ('12.3 %', '100.0 %', '–')
    """
    return UNKNOWN if math.isnan(share) else f"{round(100 * share, 1) + 0.0:.1f} %"


def with_interval(interval: Interval) -> str:
    """Format an estimate with its 95 % interval, unless that is a single point.

    >>> with_interval(Interval(12_539.0, 12_001.0, 13_000.0))
    '12 539 (12 001 … 13 000)'
    >>> with_interval(Interval(1.0, 1.0, 1.0))
    '1.00'
    """
    if math.isnan(interval.middle):
        return UNKNOWN
    if interval.low == interval.high:  # there is one problem, or all results are equal
        return number(interval.middle)
    return f"{number(interval.middle)} ({number(interval.low)} … {number(interval.high)})"


def count(n: int, noun: str) -> str:
    """Format a count with its noun.

    >>> count(1, "problem"), count(2000, "problem")
    ('1 problem', '2 000 problems')
    """
    return f"{number(n)} {noun}" if n == 1 else f"{number(n)} {noun}s"


def printable(text: str) -> str:
    """Replace characters that cannot be printed, such as line breaks, by spaces.

    >>> printable("two\\nlines")
    'two lines'
    """
    return "".join(character if character.isprintable() else " " for character in text)


# Tables as text and Markdown ---------------------------------------------------------------------


@dataclass(frozen=True)
class Table:
    """A table of text cells, with a title and a note.

    Parameters
    ----------
    title
        The title.
    columns
        The names of the columns.
    rows
        The cells of each row.
    note
        A note below the table.

    Examples
    --------
    >>> table = Table("Sizes", ("name", "size"), (("pin", "7"), ("house", "12 000")), "In mm.")
    >>> print(table.text())
    Sizes
    <BLANKLINE>
    name     size
    -------------
    pin         7
    house  12 000
    <BLANKLINE>
    In mm.
    >>> print(table.markdown())
    **Sizes**
    <BLANKLINE>
    | name | size |
    | --- | ---: |
    | pin | 7 |
    | house | 12 000 |
    <BLANKLINE>
    In mm.
    """

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str = ""

    def __repr__(self) -> str:
        sizes = f"{counted(len(self.rows), 'row')}, {counted(len(self.columns), 'column')}"
        return f"Table({shortened(self.title)}, {sizes})"

    @classmethod
    def of(
        cls, title: str, items: Iterable[Item], columns: Mapping[str, Callable[[Item], str]],
        note: str = "",
    ) -> Table:  # fmt: skip
        """A table with one row per item, where each column computes its cell from the item.

        Parameters
        ----------
        title
            The title.
        items
            The items.
        columns
            A function from an item to a cell, by the name of the column.
        note
            A note below the table.

        Returns
        -------
        Table
            The table.
        """
        rows = tuple(tuple(cell(item) for cell in columns.values()) for item in items)
        return cls(title, tuple(columns), rows, note)

    def text(self) -> str:
        """Return the table as aligned plain text for a terminal."""
        cells = [[_folded(cell) for cell in row] for row in (self.columns, *self.rows)]
        widths = [max(_width(x) for cell in col for x in cell) for col in zip(*cells, strict=True)]
        lines: list[str] = []
        for row in cells:
            height = max(map(len, row))
            padded = [cell + [""] * (height - len(cell)) for cell in row]
            for parts in zip(*padded, strict=True):
                aligned = map(_aligned, parts, widths, self.numeric)
                lines.append("  ".join(aligned).rstrip())
            if len(lines) == 1:
                lines.append("-" * (sum(widths) + 2 * len(widths) - 2))
            elif any(len(cell) > 1 for row in cells for cell in row):
                lines.append("")
        table = "\n".join(lines).rstrip()
        return "\n\n".join(x for x in (printable(self.title), table, printable(self.note)) if x)

    def markdown(self) -> str:
        """Return the table as GitHub-flavoured Markdown."""
        rules = ["---:" if numeric else "---" for numeric in self.numeric]
        rows = [[_escaped(cell) for cell in row] for row in (self.columns, *self.rows)]
        lines = [f"| {' | '.join(row)} |" for row in (rows[0], rules, *rows[1:])]
        parts = [f"**{_escaped(self.title)}**", "\n".join(lines), _escaped(self.note)]
        return "\n\n".join(part for part in parts if part)

    @property
    def numeric(self) -> list[bool]:
        """For each column, whether it contains numbers, which are aligned to the right."""
        columns = zip(*self.rows, strict=True) if self.rows else [("",)] * len(self.columns)
        return [all(cell[:1] in {*"0123456789-∞", UNKNOWN} for cell in col) for col in columns]


def _folded(cell: str) -> list[str]:
    """The lines of a cell, each at most WIDEST characters long."""
    return textwrap.wrap(printable(cell), WIDEST) or [""]


def _aligned(text: str, width: int, right: bool) -> str:
    """Text that is padded with spaces on the left (`right`) or on the right."""
    room = " " * (width - _width(text))
    return room + text if right else text + room


def _width(text: str) -> int:
    """The width of a text in a terminal, in columns.

    >>> _width("W*"), _width("滑动"), _width("e\\u0301")
    (2, 4, 1)
    """
    wide = sum(unicodedata.east_asian_width(character) in "WF" for character in text)
    return len(text) + wide - sum(unicodedata.combining(character) > 0 for character in text)


def _escaped(text: str) -> str:
    safe = html.escape(printable(text), quote=False)
    return "".join(f"\\{character}" if character in "\\|*_`[]" else character for character in safe)


# Pages -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class HowToRead:
    """An explanation of regret and intervals, which is part of the template."""


@dataclass(frozen=True)
class Facts:
    """Names with their values."""

    items: Sequence[tuple[str, str]]
    title: str = ""


@dataclass(frozen=True)
class Plot:
    """An interactive chart."""

    chart: Chart
    caption: str
    title: str = ""


@dataclass(frozen=True)
class Picture:
    """An image, given as a `data:` URL."""

    source: str
    caption: str


@dataclass(frozen=True)
class Claims:
    """Quoted sentences with their verdicts."""

    sentences: Sequence[Any]  # `tables.Sentence`s


@dataclass(frozen=True)
class Code:
    """Preformatted text; with a summary, it is folded."""

    text: str
    title: str = ""
    summary: str = ""


Block = str | HowToRead | Facts | Table | Plot | Picture | Claims | Code  # str: a paragraph


@dataclass(frozen=True)
class Section:
    """A heading, with an anchor to link to, and the blocks below it."""

    anchor: str
    title: str
    blocks: Sequence[Block]


@dataclass(frozen=True)
class Page:
    """A title, a one-line summary and the sections; sections without blocks are not shown."""

    title: str
    summary: str
    sections: Sequence[Section]


def write_page(page: Page, path: str | os.PathLike[str]) -> None:
    """Write the page to a file, atomically.

    >>> import tempfile
    >>> from pathlib import Path
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_page(Page("Nothing yet", "", ()), Path(folder, "page.html"))
    ...     Path(folder, "page.html").read_text(encoding="utf-8")[:15]
    '<!doctype html>'
    """
    # A traceback may contain surrogates, for example from a file name that is not UTF-8.
    save_bytes(path, render_page(page).encode("utf-8", errors="backslashreplace"))


def require_jinja2() -> None:
    """Raise `MissingExtra` unless Jinja2 is installed."""
    try:
        import jinja2  # noqa: F401
    except ImportError as error:
        raise MissingExtra("the page needs Jinja2: pip install 'switchmdp[plot]'") from error


def render_page(page: Page) -> str:
    """Return the page as HTML.

    >>> html = render_page(Page("A <b>bold</b> title", "", ()))
    >>> "<title>A &lt;b&gt;bold&lt;/b&gt; title</title>" in html
    True
    """
    require_jinja2()
    from jinja2 import Environment, StrictUndefined
    from markupsafe import Markup

    environment = Environment(
        autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=StrictUndefined
    )
    environment.filters |= {"unbroken": unbroken, "kind": lambda block: type(block).__name__}
    blocks = [block for section in page.sections for block in section.blocks]
    scripts = [_file(name) for name in SCRIPTS]
    return environment.from_string(_file("page.html.j2")).render(
        page=page,
        policy=_policy(scripts),
        licence=_file("uPlot-LICENSE.txt"),
        # Not escaped: the files of this package, and JSON without markup characters.
        style=Markup("\n".join(_file(name) for name in STYLES)),
        charts=Markup(_json([block.chart for block in blocks if isinstance(block, Plot)])),
        scripts=[Markup(script) for script in scripts],
    )


def unbroken(text: str) -> str:
    """Use no-break spaces within numbers and intervals, so that no line ends there.

    >>> unbroken("10 000 … 20 000 steps") == "10\\xa0000\\xa0…\\xa020\\xa0000 steps"
    True
    """
    return re.sub(r"(?<=[\d…]) (?=[-\d…%])", "\N{NO-BREAK SPACE}", text)


def _file(name: str) -> str:
    return (resources.files("switchmdp.reports") / "page_files" / name).read_text("utf-8")


def _policy(scripts: Sequence[str]) -> str:
    digests = [hashlib.sha256(script.encode()).digest() for script in scripts]
    allowed = " ".join(f"'sha256-{base64.b64encode(digest).decode()}'" for digest in digests)
    return (
        f"default-src 'none'; style-src 'unsafe-inline'; script-src {allowed}; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )


def _json(value: Any) -> str:
    """Return JSON without any character that has a meaning in HTML or ends a script line.

    >>> _json(["</script>", None])
    '["\\\\u003c/script\\\\u003e",null]'
    """
    text = json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return re.sub("[<>&\u2028\u2029]", lambda match: f"\\u{ord(match.group()):04x}", text)
