"""One HTML page made of sections: self-contained, interactive and printable.

A page is a list of sections, and a section a list of blocks: prose, facts, tables, charts, a
picture, claims, code. The template has one macro per class of blocks; `report` and `leaderboard`
decide what a page says.

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
from switchmdp.reports.claims import Sentence
from switchmdp.reports.curves import Chart
from switchmdp.reports.tables import Table
from switchmdp.storage import save_bytes

SCRIPTS = ("uPlot.iife.min.js", "page.js")
STYLES = ("uPlot.min.css", "page.css")


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
