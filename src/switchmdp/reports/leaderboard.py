"""The leaderboard: tables, figures and the page of a suite, in one folder.

index.html              the page: everything, interactive, in one file
leaderboard.md          the same as a document, with pictures
figures/leaderboard-*   the heat map, and regret over time, row by row
"""

from __future__ import annotations

import html
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from switchmdp.experiments.campaign import Standing
from switchmdp.experiments.results import Results, Setting
from switchmdp.experiments.suite import Suite
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


@dataclass(frozen=True)
class Leaderboard:
    """A suite and what came of its rows."""

    suite: Suite
    standings: Sequence[Standing]

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

    def shown(self, standing: Standing) -> Setting:
        """A row with only those whose curves are drawn: the best, ours and the yardstick."""
        setting, found = setting_of(standing), self.board[standing.row.name]
        ours = {one.name for one in self.suite.contenders if one.ours}
        best = [place.name for place in found if place.rank is not None][:SHOWN]
        kept = {*best, *ours, yardstick(self.suite, standing)}
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
    origin = found.standings[0].results.provenance if found.standings else {}
    kept = [f"- {k}: {v}" for k, v in origin.items() if k in ("switchmdp", "numba", "platform")]
    parts = [f"# {html.escape(suite.title, quote=False)}"]
    parts += [html.escape(_method(found), quote=False), *(["\n".join(kept)] if kept else [])]
    for picture in pictures[:1]:
        parts.append(f"![{LABEL}, by agent and row](figures/{picture}.svg)")
    parts += [table.markdown() for table in found.overview]
    parts.append("## Row by row")
    parts += [f"![Mean regret over time, with 95 % bands](figures/{p}.svg)" for p in pictures[1:]]
    parts += [table.markdown() for table in found.row_tables]
    chosen = made.choices_table(suite, found.standings)
    parts += ["## What was chosen", chosen.markdown()] if chosen.rows else []
    return "\n\n".join(parts) + "\n"


def _method(found: Leaderboard) -> str:
    suite = found.suite
    done, rows = len(found.standings), len(suite.rows)
    return " ".join(part for part in (
        suite.note,
        f"{len(suite.contenders)} agents, {rows} rows of problems"
        + (f", of which {done} are complete." if done < rows else "."),
        "An agent's one free parameter, where it has one, is chosen for each row by mean regret on "
        f"{suite.tuning_problems} problems (seed {suite.tuning_seed}) and then frozen; reported is "
        f"regret on {suite.problems} others (seed {suite.seed}).",
        "RiverSwim is a single problem: there, both meet it, with other draws."
        if any("riverswim" in row.problem for row in suite.rows) else "",
        "Relative regret is mean regret by that of the row's yardstick: the best of the agents "
        "that are told every change and start over there or, where the problem changes all the "
        "time, the best rival of ours. In parentheses: 95 % bootstrap intervals over problems.",
    ) if part)  # fmt: skip


def _merged(found: Leaderboard) -> Results:
    """All rows as the settings of one experiment, for the page."""
    settings = {s.row.name: found.shown(s) for s in found.standings}
    failures = tuple(f for s in found.standings for f in s.results.failures)
    origin = dict(found.standings[0].results.provenance) if found.standings else {}
    for key in ("configuration", "seed", "runs", "problems per setting"):
        origin.pop(key, None)
    return Results(
        found.suite.title, 0.05, settings, failures=failures,
        provenance=origin | {"rerun": "switchmdp leaderboard"},
    )  # fmt: skip


def _extras(found: Leaderboard, picture: bytes) -> Extras:
    chosen = made.choices_table(found.suite, found.standings)
    of_setting = {table.title: (table,) for table in found.row_tables}
    return Extras(_method(found), found.overview, picture, LABEL, of_setting, (chosen,))


def summary(found: Leaderboard) -> str:
    """What a person at a terminal wants to know: each row's best, ours, and the ranks."""
    ours = [one.name for one in found.suite.contenders if one.ours]
    lines = []
    for standing in found.standings:
        each = {place.name: place for place in found.board[standing.row.name]}
        first = next((p for p in each.values() if p.rank == 1), None)
        measured = [number(each[n].relative.middle) if n in each else UNKNOWN for n in ours]
        best = (first.name, number(first.relative.middle)) if first else (UNKNOWN, UNKNOWN)
        lines.append((standing.row.name, yardstick(found.suite, standing), *best, *measured))
    columns = ("row", "yardstick", "best", "relative regret", *ours)
    tables = [Table(found.suite.title, columns, tuple(lines), found.suite.note)]
    tables += [table for table in found.overview if table.title == "All rows"]
    return "\n\n".join(table.text() for table in tables if table.rows)
