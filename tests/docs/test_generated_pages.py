"""The pages made from the package: the API reference, and the results of the leaderboard."""

from __future__ import annotations

import inspect
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from tools import api_reference, leaderboard_page

import switchmdp as sm
from examples import gallery
from switchmdp import theory
from switchmdp.cli.commands import cli
from switchmdp.reports.page import with_interval

ROOT = Path(__file__).resolve().parent.parent.parent
DOCS = ROOT / "docs"


def test_every_public_name_is_in_the_reference() -> None:
    pages = api_reference.pages()
    listed = set(re.findall(r"^::: switchmdp\.(\S+)$", "\n".join(pages.values()), re.M))
    for package in api_reference.PACKAGES:
        for name in api_reference.public_names(package):
            assert api_reference.identifier(package, name).removeprefix("switchmdp.") in listed
    for name in sm.__all__:
        assert name == "__version__" or f"`sm.{name}`" in pages["switchmdp"]


def test_every_public_package_has_a_page() -> None:
    modules = {name for name in sm.__all__ if inspect.ismodule(getattr(sm, name))}
    assert modules <= set(api_reference.PACKAGES)


def test_every_public_name_is_documented() -> None:
    assert api_reference.undocumented() == []


def test_missing_documentation_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def half_documented(x: int) -> int:
        """A sentence."""
        return x

    def not_documented() -> None: ...

    monkeypatch.setattr(theory, "e1", half_documented)
    monkeypatch.setattr(theory, "e2", not_documented)
    found = [fault for fault in api_reference.undocumented() if re.search(r"\.e[12]:", fault)]
    assert found == [
        "switchmdp.theory.e1: no section Parameters",
        "switchmdp.theory.e1: no section Returns",
        "switchmdp.theory.e2: no docstring",
    ]


def test_examples_in_docstrings_become_code() -> None:
    markdown = api_reference.as_markdown("Text.\n\n    >>> 1 + 1\n    2\n\nMore.")
    assert markdown == "Text.\n\n```pycon\n>>> 1 + 1\n2\n```\n\nMore."


def test_the_command_line_page_has_every_command() -> None:
    page = api_reference.pages()["command-line"]
    for command in ("run", "leaderboard", "serve", "doctor"):
        assert f"## `switchmdp {command}`" in page
    assert page.count("  -h, --help") == len(cli.commands) + 1


def test_the_page_about_the_leaderboard_shows_the_published_results() -> None:
    page = (DOCS / "leaderboard.md").read_text(encoding="utf-8")
    assert page == leaderboard_page.updated(page, leaderboard_page.published_boards())


@pytest.mark.parametrize("page", ["README.md", "docs/how-to/choose-an-agent.md"])
def test_quoted_results_are_those_of_the_leaderboard(page: str) -> None:
    boards = leaderboard_page.published_boards()
    shown = {
        with_interval(place.relative)
        for board in boards
        for places in board.places.values()
        for place in places
    }
    text = (ROOT / page).read_text(encoding="utf-8")
    tables = "\n".join(line for line in text.splitlines() if line.startswith("|"))
    quoted = re.findall(r"[0-9.]+ \([0-9.]+ … [0-9.]+\)", tables)
    assert len(quoted) > 5
    assert set(quoted) <= shown
    counts = [len(board.standings) for board in boards]
    firsts = [next(one.firsts for one in board.totals if one.contender.ours) for board in boards]
    (open_rows, closed_rows), (first, first_closed) = counts, firsts
    assert f"first in {first} of {open_rows} rows of the open suite" in text
    assert f"{first_closed} of {closed_rows} of the closed one" in text


def test_the_table_has_a_line_for_every_published_agent_and_row() -> None:
    table = leaderboard_page.results_table()
    boards = leaderboard_page.published_boards()
    lines = sum(len(board.totals) + sum(map(len, board.places.values())) for board in boards)
    assert table.count("<tr") == 1 + lines


def test_the_gallery_shows_every_figure_with_its_code() -> None:
    page = (DOCS / "gallery.md").read_text(encoding="utf-8")
    for name in gallery.FIGURES:
        assert f"(figures/gallery/{name}.svg)\n\n<!-- code: {name} -->" in page
        assert (DOCS / "figures" / "gallery" / f"{name}.svg").exists()


@pytest.mark.long
def test_the_figures_of_the_gallery_can_be_drawn() -> None:
    """Small, and interpreted: compiling the agents would take much longer."""
    code = """
from examples import gallery
gallery.HORIZON, gallery.N_PROBLEMS = 400, 2
gallery.N_STREAMS, gallery.STEPS_BEFORE, gallery.SIZES = 1, 1000, (0.6, 0.7)
for draw in gallery.FIGURES.values():
    assert draw().axes
print(len(gallery.FIGURES))
"""
    environment = os.environ | {"NUMBA_DISABLE_JIT": "1", "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", code]
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) == len(gallery.FIGURES) >= 10
