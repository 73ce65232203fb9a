"""The leaderboard: tables, figures and the page of a suite, in one folder.

index.html              the page: everything, interactive, in one file
leaderboard.md          the same as a document, with pictures
figures/leaderboard-*   the heat map, and regret over time, row by row
"""

from __future__ import annotations

import html
import math
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from switchmdp.experiments.leaderboard import Standing, Suite
from switchmdp.experiments.results import Results, Setting
from switchmdp.reports import leaderboard_tables as made
from switchmdp.reports import plots
from switchmdp.reports.heatmap import heat_map
from switchmdp.reports.numbers import UNKNOWN, number
from switchmdp.reports.page import Extras, write_page
from switchmdp.reports.ranking import Place, overall, places, setting_of, yardstick
from switchmdp.reports.report import FORMATS, SIDE_BY_SIDE, regret_panel
from switchmdp.reports.table import Table
from switchmdp.storage import save_bytes

SHOWN = 6  # of the best of a row whose curves are drawn, besides ours and the yardstick
LABEL = "regret relative to the yardstick"
CAPTION = "Regret relative to the yardstick, by agent and row"


@dataclass(frozen=True)
class Leaderboard:
    """A suite, what came of its rows, and the command that does it all again, if there is one."""

    suite: Suite
    standings: Sequence[Standing]
    rerun: str = ""

    @cached_property
    def board(self) -> dict[str, list[Place]]:
        """By row, every contender's place."""
        return {s.row.name: places(self.suite, s) for s in self.standings}

    @cached_property
    def overview(self) -> list[Table]:
        """What is said of all rows together."""
        rows = self.standings
        tables = [*made.overall_tables(self.suite, rows, self.board)]
        tables += [made.adaptivity_table(self.suite, rows), made.detector_table(self.suite, rows)]
        return [table for table in tables if table.rows]

    @cached_property
    def row_tables(self) -> list[Table]:
        """One table for each row."""
        found = zip(self.standings, self.board.values(), strict=True)
        return [made.row_table(self.suite, standing, each) for standing, each in found]

    @property
    def origin(self) -> Results:
        """The first row's results, which tell what all rows share: ε, versions."""
        return self.standings[0].results if self.standings else Results("", math.nan, {})

    def shown(self, standing: Standing) -> Setting:
        """A row with only those whose curves are drawn: the best, ours and the yardstick."""
        setting, found = setting_of(standing), self.board[standing.row.name]
        best = [place.name for place in found if place.rank is not None][:SHOWN]
        kept = {*best, *self.suite.ours, yardstick(self.suite, standing)}
        return replace(setting, agents={n: r for n, r in setting.agents.items() if n in kept})


def write_leaderboard(found: Leaderboard, folder: str | os.PathLike[str]) -> list[Path]:
    """Write everything; returns the files, the page first."""
    target = Path(folder)
    (target / "figures").mkdir(parents=True, exist_ok=True)
    drawn = dict(figures(found))
    files = [target / "index.html", write_document(found, target, list(drawn))]
    for name, figure in drawn.items():
        for kind in FORMATS:
            files.append(target / "figures" / f"{name}.{kind}")
            plots.save_figure(figure, files[-1])
    picture = (target / "figures" / "leaderboard-heat-map.svg").read_bytes()
    write_page(_merged(found), files[0], extras=_extras(found, picture))
    return files


def write_document(
    found: Leaderboard, folder: str | os.PathLike[str], pictures: Sequence[str] = ()
) -> Path:
    """Write the document only, which needs no extra; returns the file."""
    target = Path(folder)
    target.mkdir(parents=True, exist_ok=True)
    text = document(found, pictures)
    save_bytes(target / "leaderboard.md", text.encode("utf-8", "backslashreplace"))
    return target / "leaderboard.md"


def figures(found: Leaderboard) -> Iterator[tuple[str, Any]]:
    """Every figure with the name of its file."""
    rows = list(found.board)
    everyone = overall(found.suite, found.board)
    lines = {
        one.contender.name: [one.relative.get(row, float("nan")) for row in rows]
        for one in everyone
    }
    yield "leaderboard-heat-map", heat_map(rows, lines, label=LABEL)
    shown = [found.shown(standing) for standing in found.standings]
    for i, first in enumerate(range(0, len(shown), SIDE_BY_SIDE)):
        panels = [regret_panel(setting) for setting in shown[first : first + SIDE_BY_SIDE]]
        yield f"leaderboard-regret-{i + 1:02d}", plots.regret_figure(panels)


def document(found: Leaderboard, pictures: Sequence[str] = ()) -> str:
    """All of it as Markdown."""
    suite = found.suite
    origin = found.origin.provenance
    kept = [f"- {k}: {origin[k]}" for k in ("switchmdp", "numba", "platform") if k in origin]
    kept += [f"- to run it again: `{found.rerun}`"] if found.rerun else []
    parts = [f"# {html.escape(suite.title, quote=False)}", html.escape(_method(found), quote=False)]
    parts += ["\n".join(kept)] if kept else []
    parts += [f"![{CAPTION}](figures/{picture}.svg)" for picture in pictures[:1]]
    parts += [table.markdown() for table in found.overview]
    parts.append("## Row by row")
    parts += [f"![Mean regret over time, with 95 % bands](figures/{p}.svg)" for p in pictures[1:]]
    parts += [table.markdown() for table in found.row_tables]
    chosen = made.choices_table(suite, found.standings)
    parts += ["## Tuning", chosen.markdown()] if chosen.rows else []
    return "\n\n".join(parts) + "\n"


def _method(found: Leaderboard) -> str:
    suite = found.suite
    done, rows = len(found.standings), len(suite.rows)
    return " ".join(part for part in (
        suite.note,
        f"{len(suite.contenders)} agents, {rows} rows of problems"
        + (f", of which {done} are complete." if done < rows else "."),
        "An agent's one free parameter, where it has one, is chosen for each row by mean "
        f"pseudo-regret on {suite.tuning_problems} problems (seed {suite.tuning_seed}) and then "
        f"frozen; reported is regret on {suite.problems} others (seed {suite.seed}).",
        "RiverSwim is a single problem: there, tuning and reporting differ in their draws alone."
        if any("riverswim" in row.problem for row in suite.rows) else "",
        "Relative regret is mean regret divided by that of the row's yardstick: the best of the "
        "agents that are told every change and start over there or, where the problem changes all "
        f"the time, {made.best_rival(suite)}. Who is told has no rank.",
        "P(less than the next) is the share of problems on which an agent has less regret than the "
        "next in rank. In parentheses: 95 % bootstrap intervals over problems.",
        f"Curves are those of a row's {SHOWN} best"
        + "".join(f", of {name}" for name in suite.ours)
        + " and of the yardstick; the tables hold every agent.",
    ) if part)  # fmt: skip


def _merged(found: Leaderboard) -> Results:
    """All rows as the settings of one experiment, for the page."""
    settings = {s.row.name: found.shown(s) for s in found.standings}
    failures = tuple(f for s in found.standings for f in s.results.failures)
    of_one_row = ("configuration", "seed", "runs", "problems per setting")
    origin = {k: v for k, v in found.origin.provenance.items() if k not in of_one_row}
    return Results(
        found.suite.title, found.origin.epsilon, settings, failures=failures,
        provenance=origin | {"rerun": found.rerun},
    )  # fmt: skip


def _extras(found: Leaderboard, picture: bytes) -> Extras:
    chosen = made.choices_table(found.suite, found.standings)
    of_setting = {row: (table,) for row, table in zip(found.board, found.row_tables, strict=True)}
    n, rows, problems = len(found.suite.contenders), len(found.standings), found.suite.problems
    plural = "s" if rows != 1 else ""
    counted = f"{n} agents in {rows} row{plural} of problems, on {problems} problems each."
    return Extras(counted, _method(found), found.overview, picture, CAPTION, of_setting, (chosen,))


def summary(found: Leaderboard) -> str:
    """What a person at a terminal wants to know: each row's best, ours, and the ranks."""
    ours = found.suite.ours
    lines = []
    for standing in found.standings:
        each = {place.name: place for place in found.board[standing.row.name]}
        first = next((p for p in each.values() if p.rank == 1), None)
        measured = [number(each[n].relative.middle) if n in each else UNKNOWN for n in ours]
        best = (first.name, number(first.relative.middle)) if first else (UNKNOWN, UNKNOWN)
        lines.append((standing.row.name, yardstick(found.suite, standing), *best, *measured))
    columns = ("row", "yardstick", "best", "its relative regret", *(f"that of {n}" for n in ours))
    note = f"{found.suite.note} Relative: divided by that of the yardstick.".lstrip()
    tables = [Table(found.suite.title, columns, tuple(lines), note)]
    tables += [table for table in found.overview if table.title == "All rows"]
    return "\n\n".join(table.text() for table in tables if table.rows)
