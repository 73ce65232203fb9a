"""The results on the page about the leaderboard, made from the published results of the package.

    python tools/leaderboard_page.py                  the summary in docs/leaderboard.md, and the
                                                      heat maps
    python tools/leaderboard_page.py SUITE FOLDER     first add the complete rows of this folder to
                                                      the published results of the suite

`make docs` adds the table of all results (`results_table`), which docs/javascripts/results.js lets
readers filter and sort. Without JavaScript it is a plain table.
"""

from __future__ import annotations

import html
import math
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from switchmdp.errors import InvalidParameter
from switchmdp.experiments.leaderboard import (
    CLOSED,
    OPEN,
    Standing,
    Suite,
    load_published,
    publish,
    published_rows,
    shipped_suite,
    standings,
)
from switchmdp.experiments.results import Results, as_setting
from switchmdp.reports import figures, leaderboard, measures
from switchmdp.reports.leaderboard import Overall, Place
from switchmdp.reports.page import Table, number, value, with_interval

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
PUBLISHED = ROOT / "src" / "switchmdp" / "experiments" / "published"
TABLE = "<!-- results -->"  # where the page gets the table
BLOCK = re.compile(r"<!-- (?P<name>summary|heat maps) -->\n.*?<!-- end -->", re.S)
BEST = 6  # agents in the summary
LOWEST_BAR, HIGHEST_BAR = 0.5, 200.0  # relative regret where bars begin and end


@dataclass(frozen=True)
class Board:
    """The published rows of a suite."""

    name: str
    suite: Suite
    standings: Sequence[Standing]

    @cached_property
    def places(self) -> dict[str, list[Place]]:
        """Every agent's place, by row."""
        return {each.row.name: leaderboard.places(self.suite, each) for each in self.standings}

    @cached_property
    def totals(self) -> list[Overall]:
        """Every agent's result over all rows."""
        return leaderboard.overall(self.suite, self.places)


def published_boards() -> list[Board]:
    """The open suite, and the closed one if it has published results."""
    boards = []
    for name in (OPEN, CLOSED):
        try:
            published = load_published(name)
        except InvalidParameter:  # it has none
            continue
        suite = shipped_suite(name)
        standings = []
        for row in published_rows(suite, published).rows:
            regret = {agent: runs[:, -1:] for agent, runs in published.regret[row.name].items()}
            results = Results("", math.nan, {row.name: as_setting([row.horizon], regret)})
            standings.append(Standing(row, None, published.choices[row.name], results))
        boards.append(Board(name, suite, standings))
    return boards


# The summary -------------------------------------------------------------------------------------


def summary(boards: Sequence[Board]) -> str:
    """The summary of all suites as Markdown."""
    return "\n\n".join(table.markdown() for board in boards for table in _summary_of(board))


def _summary_of(board: Board) -> Iterator[Table]:
    ranked = [one for one in board.totals if not one.contender.told]
    measured, rows = len(board.standings), len(board.suite.rows)
    yield Table.of(
        f"The {BEST} best agents in the {board.name} suite ({measured} of {rows} rows measured)",
        ranked[:BEST],
        {
            "agent": lambda one: one.contender.name,
            "mean rank": lambda one: number(one.mean_rank),
            "first in": lambda one: f"{one.firsts} of {len(one.relative)}",
            "relative regret": lambda one: number(one.geometric_mean),
        },
    )
    for name in board.suite.ours:
        if losses := tuple(_losses(board, name)):
            columns = ("row", "its rank", "best agent", "its regret / the best agent's")
            yield Table(f"Where {name} is not first in the {board.name} suite", columns, losses, "")


def _losses(board: Board, name: str) -> Iterator[tuple[str, ...]]:
    for standing in board.standings:
        places = [each for each in board.places[standing.row.name] if each.rank is not None]
        mine = next((each for each in places if each.name == name), None)
        if mine is not None and mine.rank != 1:
            best = places[0].name
            ratio = measures.ratio(leaderboard.setting_of(standing), name, best)
            yield standing.row.name, str(mine.rank), best, with_interval(ratio)


# The heat maps -----------------------------------------------------------------------------------


def heat_maps(boards: Sequence[Board]) -> str:
    """The heat maps of all suites as Markdown."""
    return "\n\n".join(
        f"![Regret relative to the yardstick, by agent and row, {board.name} suite]"
        f"(figures/{_heat_map_name(board)})"
        for board in boards
    )


def _heat_map_name(board: Board) -> str:
    suffix = "" if board.name == OPEN else f"-{board.name}"
    return f"leaderboard-heat-map{suffix}.svg"


def draw_heat_map(board: Board) -> Any:
    """The figure with the relative regret of every agent that learns, in every row."""
    rows = list(board.places)
    relative = {
        one.contender.name: [one.relative.get(row, math.nan) for row in rows]
        for one in board.totals
        if one.contender.yardstick
    }
    return figures.heat_map(rows, relative, label="regret relative to the yardstick")


# The table ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Line:
    """One line of the table: an agent in a row, or over all rows of a suite."""

    row: str
    agent: str
    rank: float  # NaN if it has none
    shown_rank: str
    relative: float
    shown_relative: str
    regret: float
    chosen: str


def results_table() -> str:
    """The table of all published results as HTML, with the controls that filter it."""
    boards = published_boards()
    lines = [line for board in boards for line in _lines(board)]
    heads = {
        "row": "row", "rank": "rank", "agent": "agent", "relative": "relative regret",
        "regret": "regret", "chosen": "tuned parameters",
    }  # fmt: skip
    buttons = "".join(
        f'<th scope="col" class="{key}"><button type="button">{title}</button></th>'
        for key, title in heads.items()
    )
    return (
        '<div class="results" data-search-exclude>'
        f'<div class="filters">{_choice_of_rows(boards)}'
        '<label>agent <input type="search" placeholder="part of a name"></label>'
        '<output aria-live="polite"></output></div>'
        f'<div class="scroll"><table class="sortable"><thead><tr>{buttons}</tr></thead>'
        f"<tbody>{''.join(map(_line_as_html, lines))}</tbody></table></div></div>"
    )


def _all_rows(board: Board) -> str:
    return f"all rows of the {board.name} suite"


def _choice_of_rows(boards: Sequence[Board]) -> str:
    groups = [("overall", [_all_rows(board) for board in boards])]
    groups += [
        (f"{board.name} suite", [each.row.name for each in board.standings]) for board in boards
    ]
    options = "".join(
        f'<optgroup label="{title}">'
        + "".join(f"<option>{html.escape(name)}</option>" for name in names)
        + "</optgroup>"
        for title, names in groups
    )
    return f'<label>row <select>{options}<option value="">every row</option></select></label>'


def _lines(board: Board) -> Iterator[Line]:
    for one in board.totals:
        yield Line(
            _all_rows(board), one.contender.name, one.mean_rank, number(one.mean_rank),
            one.geometric_mean, number(one.geometric_mean), math.nan, "",
        )  # fmt: skip
    for standing in board.standings:
        for place in board.places[standing.row.name]:
            chosen = standing.choices.get(place.name, {})
            rank = math.nan if place.rank is None else place.rank
            yield Line(
                standing.row.name, place.name, rank, number(rank),
                place.relative.middle, with_interval(place.relative), place.regret.middle,
                ", ".join(f"{name} {value(each)}" for name, each in chosen.items()),
            )  # fmt: skip


def _line_as_html(line: Line) -> str:
    told = ' class="told"' if math.isnan(line.rank) else ""
    cells = [
        _cell("row", line.row),
        _cell("rank", line.shown_rank, line.rank),
        _cell("agent", line.agent),
        _cell("relative", line.shown_relative, line.relative, bar=_bar(line.relative)),
        _cell("regret", number(line.regret), line.regret),
        _cell("chosen", line.chosen),
    ]
    return f"<tr{told}>{''.join(cells)}</tr>"


def _cell(key: str, text: str, sort_by: float | None = None, bar: float | None = None) -> str:
    """A cell; numbers are sorted by their value, and unknown ones come last."""
    attributes = f' class="{key}"'
    if sort_by is not None:
        known = "" if math.isnan(sort_by) else f"{sort_by:.6g}"
        attributes += f' data-value="{known}"'
    if bar is not None:
        attributes += f' style="--bar: {bar:.1%}"'
    return f"<td{attributes}>{html.escape(text)}</td>"


def _bar(relative: float) -> float:
    """The length of a bar on a logarithmic scale, between 0 and 1."""
    if not relative > LOWEST_BAR:  # unknown or not positive, too
        return 0.0
    share = math.log(relative / LOWEST_BAR) / math.log(HIGHEST_BAR / LOWEST_BAR)
    return min(share, 1.0)


def updated(page: str, boards: Sequence[Board]) -> str:
    """The page with the present summary and heat maps."""
    blocks = {"summary": summary(boards), "heat maps": heat_maps(boards)}
    return BLOCK.sub(lambda m: f"<!-- {m['name']} -->\n\n{blocks[m['name']]}\n\n<!-- end -->", page)


def add_rows(name: str, folder: Path) -> None:
    """Add the complete rows of a folder to the published results of a suite."""
    file = PUBLISHED / f"{name}.npz"
    publish(
        standings(shipped_suite(name), folder), file,
        previous=load_published(file) if file.exists() else None,
    )  # fmt: skip


def main(arguments: Sequence[str]) -> None:
    """Add rows if a suite and its folder are given; write the summary and the heat maps."""
    if arguments:
        name, folder = arguments
        add_rows(name, Path(folder))
    boards = published_boards()
    page = DOCS / "leaderboard.md"
    text = updated(page.read_text(encoding="utf-8"), boards)
    page.write_text(text, encoding="utf-8")
    for board in boards:
        figures.save_figure(draw_heat_map(board), DOCS / "figures" / _heat_map_name(board))


if __name__ == "__main__":
    main(sys.argv[1:])
