"""One HTML page that shows a whole experiment: self-contained, interactive, printable.

The only module that imports Jinja2 (extra `plot`). Everything is escaped by the template; what the
charts draw goes into a block of JSON that can't end its own element; and the page's policy runs
only the two scripts that were put there, known by their hashes, and fetches nothing from anywhere.
The same results give the same bytes.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
from collections.abc import Sequence
from importlib import resources
from typing import Any

from switchmdp.errors import MissingExtra
from switchmdp.experiments.results import Results
from switchmdp.reports.page_content import Extras, page_content
from switchmdp.reports.table import Table
from switchmdp.storage import save_bytes

__all__ = ["Extras", "render_page", "write_page"]

SCRIPTS = ("uPlot.iife.min.js", "page.js")
STYLES = ("uPlot.min.css", "page.css")


def write_page(
    results: Results,
    path: str | os.PathLike[str],
    *,
    tables: Sequence[Table] = (),
    extras: Extras | None = None,
) -> None:
    """Write the page (see `render_page`) to a file, which is then complete or not there.

    >>> import tempfile
    >>> from pathlib import Path
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_page(Results("nothing yet", 0.1, {}), Path(folder, "page.html"))
    ...     Path(folder, "page.html").read_text(encoding="utf-8")[:15]
    '<!doctype html>'
    """
    page = render_page(results, tables=tables, extras=extras)
    # A traceback may hold what is not text, such as a path of stray bytes.
    save_bytes(path, page.encode("utf-8", errors="backslashreplace"))


def render_page(
    results: Results, *, tables: Sequence[Table] = (), extras: Extras | None = None
) -> str:
    """The page as text: claims, settings, problems, what was swept, and where it all comes from.

    `tables` are shown after those of the results, and `extras` say what else there is.

    >>> page = render_page(Results("A <b>bold</b> title", 0.1, {}))
    >>> "<title>A &lt;b&gt;bold&lt;/b&gt; title</title>" in page
    True
    """
    try:
        from jinja2 import Environment, StrictUndefined
        from markupsafe import Markup
    except ImportError as error:
        raise MissingExtra("the page needs Jinja2: pip install 'switchmdp[plot]'") from error
    content, charts = page_content(results, tables, extras)
    scripts = [_file(name) for name in SCRIPTS]
    # Not escaped: our own files, and JSON in which no markup is left.
    verbatim = {
        "style": Markup("\n".join(_file(name) for name in STYLES)),
        "charts": Markup(_json(charts)),
        "scripts": [Markup(script) for script in scripts],
    }
    environment = Environment(
        autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=StrictUndefined
    )
    return environment.from_string(_file("page.html.j2")).render(
        content, **verbatim, policy=_policy(scripts), licence=_file("uPlot-LICENSE.txt")
    )


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
    """JSON without a character that HTML or an old script parser could take for its own.

    >>> _json(["</script>", None])
    '["\\\\u003c/script\\\\u003e",null]'
    """
    text = json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return re.sub("[<>&\u2028\u2029]", lambda found: f"\\u{ord(found.group()):04x}", text)
