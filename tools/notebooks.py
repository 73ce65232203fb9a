"""Make notebooks with outputs and figures from the tutorials.

    python tools/notebooks.py site/notebooks

Shell blocks become `%%bash` cells and files `%%writefile` cells. Outputs and figures of the page
are left out, because the notebook has its own.
"""

from __future__ import annotations

import argparse
import re
import tempfile
from pathlib import Path
from typing import Any

import jupytext
from nbclient import NotebookClient
from tools.pages import BLOCK, FIGURE, PORT, environment, free_port, is_run

TUTORIALS = Path(__file__).resolve().parent.parent / "docs" / "tutorials"
LINK = re.compile(r"\[([^\]]+)\]\((?!https?:)[^)]+\)")  # to other pages of the documentation
SAVED = re.compile(r"^(?:sm\.reports\.)?save_figure\((\w+), .*\)\n\Z", re.M)
SECONDS = 600  # for a cell


def as_cell(match: re.Match[str]) -> str:
    """A block as jupytext reads it; the output is left out."""
    if not is_run(match):
        return match[0]
    if match["title"] is not None:
        return f"```python\n%%writefile {match['title']}\n{match['code']}```\n"
    if match["language"] == "sh":
        return f"```python\n%%bash\n{match['code']}```\n"
    code = SAVED.sub(r"\g<0>\1\n", match["code"])  # show the figure that was saved
    return f"```python\n{code}```\n"


def notebook(page: str) -> Any:
    """A page as a notebook without outputs."""
    text = BLOCK.sub(as_cell, LINK.sub(r"\1", FIGURE.sub("", page)))
    content = jupytext.reads(text, fmt="md")
    content.cells = [cell for cell in content.cells if cell.source.strip()]
    content.metadata["kernelspec"] = {
        "display_name": "Python 3", "language": "python", "name": "python3",
    }  # fmt: skip
    return content


def execute(content: Any) -> None:
    """Run a notebook in an empty folder; its cells get their outputs.

    Raises CellExecutionError if a cell fails.
    """
    port = str(free_port())
    for cell in content.cells:
        cell.source = cell.source.replace(PORT, port)
    with tempfile.TemporaryDirectory() as folder:
        resources = {"metadata": {"path": folder}}
        client = NotebookClient(
            content, timeout=SECONDS, resources=resources, coalesce_streams=True
        )
        client.execute(env=environment())
    for cell in content.cells:
        cell.source = cell.source.replace(port, PORT)
        if cell.cell_type == "code":  # messages, such as that something is compiled
            cell.outputs = [one for one in cell.outputs if one.get("name") != "stderr"]


def write_notebooks(target: Path) -> list[Path]:
    """Write every tutorial as a notebook with outputs to a folder; return the files."""
    target.mkdir(parents=True, exist_ok=True)
    written = []
    for page in sorted(TUTORIALS.glob("*.md")):
        if page.stem == "index":
            continue
        content = notebook(page.read_text(encoding="utf-8"))
        execute(content)
        written.append(target / f"{page.stem}.ipynb")
        jupytext.write(content, written[-1])
    return written


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Write the tutorials as notebooks.")
    parser.add_argument("target", type=Path)
    for path in write_notebooks(parser.parse_args().target):
        print(path)
