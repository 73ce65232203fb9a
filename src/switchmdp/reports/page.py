"""One HTML page made of sections: self-contained, interactive and printable.

A page is a list of sections, and a section a list of blocks: prose, facts, tables, charts, a
picture, claims, code. This module turns them into HTML; `report` and `leaderboard` decide what
a page says.

This is the only module that imports Jinja2 (extra `plot`). The template escapes all text. The data
of the charts is embedded as JSON without any character that could end its element. The page's
content security policy allows only the two embedded scripts, identified by their hashes, and no
network access. The same content gives the same bytes.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources
from typing import Any

from switchmdp.errors import MissingExtra
from switchmdp.reports.charts import Chart
from switchmdp.reports.claims import Sentence
from switchmdp.reports.formatting import UNKNOWN, Table
from switchmdp.storage import save_bytes

SCRIPTS = ("uPlot.iife.min.js", "page.js")
STYLES = ("uPlot.min.css", "page.css")
BADGES = {
    "reproduced": ("✓", "good"),
    "reproduced in part": ("◐", "open"),
    "not reproduced": ("✗", "bad"),
    "undecided": ("?", "open"),
}


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
    """An SVG image."""

    svg: bytes
    caption: str


@dataclass(frozen=True)
class Claims:
    """Quoted sentences with their verdicts."""

    sentences: Sequence[Sentence]


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


def render_page(page: Page) -> str:
    """Return the page as HTML.

    >>> html = render_page(Page("A <b>bold</b> title", "", ()))
    >>> "<title>A &lt;b&gt;bold&lt;/b&gt; title</title>" in html
    True
    """
    try:
        from jinja2 import Environment, StrictUndefined
        from markupsafe import Markup
    except ImportError as error:
        raise MissingExtra("the page needs Jinja2: pip install 'switchmdp[plot]'") from error
    charts: list[Chart] = []
    sections = [
        {
            "anchor": section.anchor,
            "title": section.title,
            "blocks": [_block(block, section, charts) for block in section.blocks],
        }
        for section in page.sections
        if section.blocks
    ]
    scripts = [_file(name) for name in SCRIPTS]
    # Not escaped: the files of this package, and JSON without markup characters.
    verbatim = {
        "style": Markup("\n".join(_file(name) for name in STYLES)),
        "charts": Markup(_json(charts)),
        "scripts": [Markup(script) for script in scripts],
    }
    environment = Environment(
        autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=StrictUndefined
    )
    return environment.from_string(_file("page.html.j2")).render(
        title=page.title, summary=unbroken(page.summary), sections=sections, **verbatim,
        policy=_policy(scripts), licence=_file("uPlot-LICENSE.txt"),
    )  # fmt: skip


def unbroken(text: str) -> str:
    """Use no-break spaces within numbers and intervals, so that no line ends there.

    >>> unbroken("10 000 … 20 000 steps") == "10\\xa0000\\xa0…\\xa020\\xa0000 steps"
    True
    """
    return re.sub(r"(?<=[\d…]) (?=[-\d…%])", "\N{NO-BREAK SPACE}", text)


def _block(block: Block, section: Section, charts: list[Chart]) -> dict[str, Any]:
    """Return the template's variables for a block; a chart is added to `charts`."""
    match block:
        case str():
            return {"kind": "prose", "text": unbroken(block)}
        case HowToRead():
            return {"kind": "how_to_read"}
        case Facts(items, title):
            return {"kind": "facts", "title": title, "items": items}
        case Table():
            return {"kind": "table", **_table(block, section.title)}
        case Plot(chart, caption, title):
            charts.append(chart)
            return {
                "kind": "chart", "title": title, "index": len(charts) - 1,
                "caption": unbroken(caption),
            }  # fmt: skip
        case Picture(svg, caption):
            data = "data:image/svg+xml;base64," + base64.b64encode(svg).decode()
            return {"kind": "picture", "source": data, "caption": caption}
        case Claims(sentences):
            return {"kind": "claims", "sentences": [_sentence(each) for each in sentences]}
        case Code(text, title, summary):
            return {"kind": "code", "title": title, "summary": summary, "text": text}


def _table(table: Table, heading: str) -> dict[str, Any]:
    """Return a table for the template, its title without the heading above it."""
    title = table.title.removeprefix(f"{heading}: ")
    rows = [
        [unbroken(cell) if right else cell for cell, right in zip(row, table.numeric, strict=True)]
        for row in table.rows
    ]
    return {
        "title": title[:1].upper() + title[1:], "columns": table.columns, "rows": rows,
        "note": table.note, "numeric": table.numeric,
    }  # fmt: skip


def _sentence(sentence: Sentence) -> dict[str, Any]:
    tests = [
        {"reading": v.claim.reading, "measured": unbroken(v.text), **_badge(v.outcome)}
        for v in sentence.verdicts
    ]
    return {"quote": sentence.quote, "tests": tests, **_badge(sentence.outcome)}


def _badge(outcome: str) -> dict[str, str]:
    symbol, mood = BADGES.get(outcome, (UNKNOWN, "open"))
    return {"outcome": outcome, "symbol": symbol, "mood": mood}


def _file(name: str) -> str:
    folder = resources.files("switchmdp.reports").joinpath("page_files")
    return folder.joinpath(name).read_text(encoding="utf-8")


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
