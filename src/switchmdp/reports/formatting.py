"""Numbers and tables as text: three significant digits, aligned columns, Markdown.

A table cell may hold any text, including names from a configuration file. Characters that cannot be
printed (line breaks, control characters) become spaces, and characters with a meaning in Markdown
or HTML are escaped.
"""

from __future__ import annotations

import html
import math
import textwrap
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

from switchmdp.reports.resampling import Interval

UNKNOWN = "–"
WIDEST = 44  # characters per line of a cell


def number(value: float) -> str:
    """Format a number with three significant digits, or with all digits of its integer part.

    >>> [number(x) for x in (12_539.4, 53.94, 0.5, -1.0, 4e-7, 0.0)]
    ['12 539', '53.9', '0.500', '-1.00', '4.00e-07', '0']
    >>> [number(x) for x in (7, 1_000_000, float("inf"), float("nan"))]
    ['7', '1 000 000', '∞', '–']
    """
    if math.isnan(value):
        return UNKNOWN
    if math.isinf(value):
        return "∞" if value > 0 else "-∞"
    if isinstance(value, int) or abs(value) >= 999.5 or value == 0:
        return f"{value + 0:,.0f}".replace(",", " ")
    rounded = float(f"{value:.3g}")
    exponent = math.floor(math.log10(abs(rounded)))
    return f"{rounded:.2e}" if exponent < -4 else f"{rounded:.{max(0, 2 - exponent)}f}"


def steps(value: float) -> str:
    """Format a number of steps as a whole number; it may be infinite or unknown.

    >>> steps(99.0), steps(float("inf")), steps(float("nan"))
    ('99', '∞', '–')
    """
    return number(int(value) if math.isfinite(value) else value)


def percent(share: float) -> str:
    """Format a share as a percentage.

    >>> percent(0.1234), percent(1.0), percent(float("nan"))
    ('12.3 %', '100.0 %', '–')
    """
    return UNKNOWN if math.isnan(share) else f"{round(100 * share, 1) + 0.0:.1f} %"


def with_interval(interval: Interval) -> str:
    """Format an estimate with its 95 % interval.

    >>> with_interval(Interval(12_539.0, 12_001.0, 13_000.0))
    '12 539 (12 001 … 13 000)'
    """
    if math.isnan(interval.middle):
        return UNKNOWN
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


@dataclass(frozen=True)
class Table:
    """A title, named columns, rows of text cells, and a note.

    >>> table = Table("Sizes", ("name", "size"), (("pin", "7"), ("house", "12 000")), "In mm.")
    >>> print(table.text())
    Sizes
    <BLANKLINE>
    name     size
    -----  ------
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

    def text(self) -> str:
        """Return the table as aligned plain text for a terminal."""
        wrapped = [[_lines(cell) for cell in row] for row in (self.columns, *self.rows)]
        widths = [
            max(_width(line) for cell in column for line in cell)
            for column in zip(*wrapped, strict=True)
        ]
        blocks = []
        for row in wrapped:
            height = max(map(len, row))
            cells = [cell + [""] * (height - len(cell)) for cell in row]
            blocks.append(
                [_aligned(line, widths, self.numeric) for line in zip(*cells, strict=True)]
            )
        separator = [""] if any(len(block) > 1 for block in blocks[1:]) else []
        body = [line for block in blocks[1:] for line in [*block, *separator]]
        rule = "  ".join("-" * width for width in widths)
        lines = [printable(self.title), "", *blocks[0], rule, *body]
        return "\n".join(lines).rstrip() + (f"\n\n{printable(self.note)}" if self.note else "")

    def markdown(self) -> str:
        """Return the table as GitHub-flavoured Markdown."""
        rules = ["---:" if numeric else "---" for numeric in self.numeric]
        rows = [[_escaped(cell) for cell in row] for row in (self.columns, *self.rows)]
        lines = [f"| {' | '.join(row)} |" for row in (rows[0], rules, *rows[1:])]
        parts = [f"**{_escaped(self.title)}**", "\n".join(lines), _escaped(self.note)]
        return "\n\n".join(part for part in parts if part)

    @property
    def numeric(self) -> list[bool]:
        """For each column, whether it holds numbers, which are aligned to the right."""
        columns = zip(*self.rows, strict=True) if self.rows else [("",)] * len(self.columns)
        return [all(cell[:1] in {*"0123456789-∞", UNKNOWN} for cell in col) for col in columns]


def _escaped(text: str) -> str:
    safe = html.escape(printable(text), quote=False)
    return "".join(f"\\{character}" if character in "\\|*_`[]" else character for character in safe)


def _lines(cell: str) -> list[str]:
    return textwrap.wrap(printable(cell), WIDEST) or [""]


def _width(text: str) -> int:
    """Count the terminal columns that the text takes up."""
    wide = sum(unicodedata.east_asian_width(character) in "WF" for character in text)
    return len(text) + wide - sum(unicodedata.combining(character) > 0 for character in text)


def _aligned(line: Sequence[str], widths: Sequence[int], numeric: Sequence[bool]) -> str:
    cells = []
    for cell, width, to_the_right in zip(line, widths, numeric, strict=True):
        gap = " " * (width - _width(cell))
        cells.append(gap + cell if to_the_right else cell + gap)
    return "  ".join(cells).rstrip()
