"""A table: a title, columns, rows of plain text, a note; as aligned text or as Markdown.

Cells may hold any text, names from a configuration included. What cannot be printed (line breaks,
control characters) is shown as a space, and what Markdown or HTML would read as theirs is escaped.
"""

from __future__ import annotations

import html
import textwrap
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

from switchmdp.reports.numbers import UNKNOWN

WIDEST = 44  # characters of a column of plain text, before its cells go on in the next line


@dataclass(frozen=True)
class Table:
    """Rows of text under named columns.

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
        """Aligned plain text for a terminal."""
        wrapped = [[_lines(cell) for cell in row] for row in (self.columns, *self.rows)]
        widths = [
            max(_width(line) for cell in column for line in cell)
            for column in zip(*wrapped, strict=True)
        ]
        right = self._numeric()
        blocks = []
        for row in wrapped:
            height = max(map(len, row))
            cells = [cell + [""] * (height - len(cell)) for cell in row]
            blocks.append([_aligned(line, widths, right) for line in zip(*cells, strict=True)])
        apart = [""] if any(len(block) > 1 for block in blocks[1:]) else []
        body = [line for block in blocks[1:] for line in [*block, *apart]]
        rule = "  ".join("-" * width for width in widths)
        lines = [_printable(self.title), "", *blocks[0], rule, *body]
        return "\n".join(lines).rstrip() + (f"\n\n{_printable(self.note)}" if self.note else "")

    def markdown(self) -> str:
        """A Markdown table (pipes, as GitHub reads them)."""
        rules = ["---:" if right else "---" for right in self._numeric()]
        rows = [[_escaped(cell) for cell in row] for row in (self.columns, *self.rows)]
        lines = [f"| {' | '.join(row)} |" for row in (rows[0], rules, *rows[1:])]
        parts = [f"**{_escaped(self.title)}**", "\n".join(lines), _escaped(self.note)]
        return "\n\n".join(part for part in parts if part)

    def _numeric(self) -> list[bool]:
        """Which columns hold numbers, and so are aligned to the right."""
        cells = zip(*self.rows, strict=True) if self.rows else [("",)] * len(self.columns)
        return [all(cell[:1] in {*"0123456789-∞", UNKNOWN} for cell in col) for col in cells]


def _printable(text: str) -> str:
    return "".join(character if character.isprintable() else " " for character in text)


def _escaped(text: str) -> str:
    safe = html.escape(_printable(text), quote=False)
    return "".join(f"\\{character}" if character in "\\|*_`[]" else character for character in safe)


def _lines(cell: str) -> list[str]:
    return textwrap.wrap(_printable(cell), WIDEST) or [""]


def _width(text: str) -> int:
    """Columns of a terminal that the text takes."""
    wide = sum(unicodedata.east_asian_width(character) in "WF" for character in text)
    return len(text) + wide - sum(unicodedata.combining(character) > 0 for character in text)


def _aligned(line: Sequence[str], widths: Sequence[int], right: Sequence[bool]) -> str:
    cells = []
    for cell, width, to_the_right in zip(line, widths, right, strict=True):
        gap = " " * (width - _width(cell))
        cells.append(gap + cell if to_the_right else cell + gap)
    return "  ".join(cells).rstrip()
