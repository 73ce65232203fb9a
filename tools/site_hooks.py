"""What the documentation site adds to MkDocs (`hooks` in mkdocs.yml).

- The pages of the API reference are made from the package. A public function or class without
  complete documentation is a warning, and in strict mode warnings fail.
- Files of the repository to which pages link, such as SECURITY.md, become part of the site.
- Every tutorial links to its notebook, which `make docs` writes.
- The leaderboard gets its table of results, and the gallery the code of its figures.
"""

from __future__ import annotations

import inspect
import logging
import posixpath
import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page
from tools import api_reference, leaderboard_page

from examples import gallery

ROOT = Path(__file__).resolve().parent.parent
REPOSITORY_PAGES = ("SECURITY.md", "CONTRIBUTING.md", "CHANGELOG.md")
LINK = re.compile(r"(?<=\]\()(?![a-z]+:|#)([^)#\s]+)(?=[)#])")

CODE = re.compile(r"<!-- code: ([\w ]+) -->")  # of these functions of the gallery

log = logging.getLogger("mkdocs.hooks.switchmdp")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages of the API reference, and the files of the repository that are linked."""
    for name, content in api_reference.pages().items():
        files.append(File.generated(config, f"reference/{name}.md", content=content))
    for fault in api_reference.undocumented():
        log.warning("undocumented: %s", fault)
    pending = [f"docs/{file.src_uri}" for file in files if file.is_documentation_page()]
    pending += REPOSITORY_PAGES
    while pending:
        path = pending.pop()
        if not (ROOT / path).is_file():
            continue
        uri = path.removeprefix("docs/")
        if files.get_file_from_path(uri) is None:
            files.append(File.generated(config, uri, abs_src_path=str(ROOT / path)))
        if path.endswith(".md"):
            targets = _targets(path, (ROOT / path).read_text(encoding="utf-8"))
            pending += [each for each in targets if _is_outside(each, files)]
    return files


def _targets(path: str, text: str) -> list[str]:
    """The paths in the repository to which a page links."""
    folder = posixpath.dirname(path)
    return [posixpath.normpath(posixpath.join(folder, link)) for link in LINK.findall(text)]


def _is_outside(path: str, files: Files) -> bool:
    return not path.startswith("docs/") and files.get_file_from_path(path) is None


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Show the code of figures, and make links to files of the repository links within the site."""
    uri = page.file.src_uri
    path = f"docs/{uri}" if (ROOT / "docs" / uri).exists() else uri

    def in_site(found: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(posixpath.dirname(path), found[1]))
        target = target.removeprefix("docs/")
        if files.get_file_from_path(target) is None:
            return found[1]
        return posixpath.relpath(target, posixpath.dirname(uri) or ".")

    return LINK.sub(in_site, CODE.sub(_code, markdown))


def _code(found: re.Match[str]) -> str:
    sources = [inspect.getsource(getattr(gallery, name)) for name in found[1].split()]
    lines = ["```python", *"\n\n".join(sources).splitlines(), "```"]
    return "\n    ".join(['??? example "Code"\n', *lines])


def on_page_content(html: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Put the results into the page about the leaderboard, and a link into every tutorial."""
    folder, _, name = page.file.src_uri.removesuffix(".md").rpartition("/")
    if folder == "tutorials":
        notebook = f'<a href="../notebooks/{name}.ipynb" download>Download as a notebook</a>'
        return html.replace("</h1>", f"</h1>\n<p>{notebook}</p>", 1)
    if leaderboard_page.TABLE in html:
        return html.replace(leaderboard_page.TABLE, leaderboard_page.results_table())
    return html
