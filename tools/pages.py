"""Run the code of a page of the documentation, and compare what it prints with what the page shows.

    python tools/pages.py docs/tutorials/*.md      # also rewrites the outputs and the figures

Blocks of a page:

- ```` ```python ```` and ```` ```sh ```` are run in order, in one folder. All Python blocks share
  one program.
- A block with a title, such as ```` ```python title="my_agent.py" ````, is a file.
- ```` ```text ```` directly after a block that is run shows its output. `...` stands for any text.
  With `title="your numbers will differ"` only the first words of the lines are compared.
- Blocks without a language are only shown.
- The page shows a figure that its code wrote as `![text](../figures/tutorials/NAME.svg)`.
"""

from __future__ import annotations

import argparse
import contextlib
import doctest
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

BLOCK = re.compile(
    r'^```(?P<language>\w+)(?: title="(?P<title>[^"]+)")?\n(?P<code>.*?)^```\n'
    r'(?:\n```text(?P<varies> title="your numbers will differ")?\n(?P<shown>.*?)^```\n)?',
    re.M | re.S,
)
FIGURE = re.compile(r"!\[[^\]]*\]\((?P<path>\.\./figures/[^)]+/(?P<name>[^/)]+))\)")
MARK = "\x1e"
PORT = "8765"  # in the pages; replaced by a free one
START = f"""\
import subprocess as _subprocess, sys as _sys
from pathlib import Path as _Path

def _write(name, content):
    _Path(name).write_text(content, encoding="utf-8")

def _shell(code):
    _sys.stdout.flush()
    _subprocess.run(["bash", "-e", "-o", "pipefail", "-c", code], check=True)

def _mark():
    print({MARK!r}, end="", flush=True)

"""


@dataclass(frozen=True)
class Block:
    """A block of a page that is run, or written to a file."""

    language: str
    title: str | None
    code: str
    shown: str  # the output in the page
    varies: bool = False  # whether only the first words of its lines are compared

    @property
    def statements(self) -> str:
        """The block as a part of a Python program."""
        if self.title is not None:
            return f"_write({self.title!r}, {self.code!r})\n"
        return f"_shell({self.code!r})\n" if self.language == "sh" else self.code


def is_run(match: re.Match[str]) -> bool:
    """Whether a block is run, or written to a file."""
    return match["language"] in ("python", "sh") or match["title"] is not None


def blocks(page: str) -> list[Block]:
    """The blocks of a page that are run, or written to files.

    >>> [block.shown for block in blocks("```python\\nprint(1)\\n```\\n\\n```text\\n1\\n```\\n")]
    ['1\\n']
    """
    return [
        Block(
            match["language"],
            match["title"],
            match["code"],
            match["shown"] or "",
            bool(match["varies"]),
        )
        for match in BLOCK.finditer(page)
        if is_run(match)
    ]


def free_port() -> int:
    """A port on which nothing listens."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def environment() -> dict[str, str]:
    """The environment in which a page runs: the commands of this Python come first."""
    return os.environ | {
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    }


def printed(run: Sequence[Block], folder: Path) -> list[str]:
    """Run blocks as one program in a folder; return what each prints on its standard output.

    Raises CalledProcessError if the program fails. Warnings are errors.
    """
    port = str(free_port())
    program = START + "".join(f"{block.statements}_mark()\n" for block in run)
    script = folder / "page.py"
    script.write_text(program.replace(PORT, port), encoding="utf-8")
    command = [sys.executable, "-W", "error", script.name]
    pipe = subprocess.PIPE
    process = subprocess.Popen(
        command, cwd=folder, env=environment(), stdout=pipe, stderr=pipe, text=True,
        start_new_session=True,
    )  # fmt: skip
    try:
        output, errors = process.communicate()
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)  # what a block has started in the background
    sys.stderr.write(errors)
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command, output, errors)
    return output.replace(port, PORT).split(MARK)[:-1]


def without_trailing_spaces(text: str) -> str:
    """The text without spaces at the ends of lines and lines at its end."""
    lines = "\n".join(line.rstrip() for line in text.splitlines()).rstrip()
    return lines + "\n" if lines else ""


def agrees(shown: str, output: str, varies: bool = False) -> bool:
    """Whether a page shows this output.

    >>> agrees("done in ... s\\n", "done in 1.2 s\\n"), agrees("2\\n", "3\\n")
    (True, False)
    >>> agrees("mean 2\\n", "mean 3\\n", varies=True), agrees("a 1\\n", "b 1\\n", varies=True)
    (True, False)
    """
    output = without_trailing_spaces(output)
    if varies:
        return first_words(shown) == first_words(output)
    return doctest.OutputChecker().check_output(shown, output, doctest.ELLIPSIS)


def first_words(text: str) -> list[str]:
    """The first word of each line, or a number sign in place of one with digits."""
    words = [line.split()[0] if line else "" for line in text.splitlines()]
    return ["#" if any(map(str.isdigit, word)) else word for word in words]


def update(page: Path, folder: Path) -> list[str]:
    """Run a page in a folder; write the new outputs and figures. Returns the changed blocks."""
    text = page.read_text(encoding="utf-8")
    outputs = iter(printed(blocks(text), folder))
    changed = []

    def with_output(match: re.Match[str]) -> str:
        if not is_run(match):
            return match[0]
        output = next(outputs)
        if agrees(match["shown"] or "", output, bool(match["varies"])):
            return match[0]
        changed.append(match["code"])
        note = match["varies"] or ""
        code = match[0].removesuffix(f"\n```text{note}\n{match['shown']}```\n")
        shown = without_trailing_spaces(output)
        return f"{code}\n```text{note}\n{shown}```\n" if shown else code

    page.write_text(BLOCK.sub(with_output, text), encoding="utf-8")
    for figure in FIGURE.finditer(text):
        if (folder / figure["name"]).exists():
            shutil.copy(folder / figure["name"], page.parent / figure["path"])
    return changed


def main() -> None:
    """Update the pages that are named on the command line."""
    parser = argparse.ArgumentParser(description="Update the outputs and figures of pages.")
    parser.add_argument("pages", nargs="+", type=Path)
    for page in parser.parse_args().pages:
        with tempfile.TemporaryDirectory() as folder:
            for code in update(page, Path(folder)):
                print(f"{page}: new output of\n{code}")


if __name__ == "__main__":
    main()
