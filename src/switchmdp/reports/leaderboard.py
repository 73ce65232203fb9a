"""The report of a leaderboard: a folder with a page, a document and figures.

index.html              the page: everything, interactive, in one file
leaderboard.md          the same as Markdown, with figures
figures/leaderboard-*   the heat map, and regret over time in every row
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
from switchmdp.reports import figures, ranking
from switchmdp.reports.curves import regret_panel
from switchmdp.reports.page import (
    UNKNOWN,
    Block,
    Page,
    Picture,
    Section,
    Table,
    count,
    number,
    write_page,
)
from switchmdp.reports.ranking import Place, setting_of, yardstick
from switchmdp.reports.report import (
    HOW_TO_READ,
    SIDE_BY_SIDE,
    common_sections,
    setting_section,
    write_markdown,
)

BEST_SHOWN = 6  # agents whose curves are drawn in a row, besides ours and the yardstick
LABEL = "regret relative to the yardstick"
CAPTION = "Regret relative to the yardstick, by agent and row"
HEAT_MAP = "leaderboard-heat-map"


@dataclass(frozen=True)
class Leaderboard:
    """The results of a suite.

    Parameters
    ----------
    suite
        The suite.
    standings
        The results of its complete rows.
    rerun
        The command that reproduces them, if there is one.
    """

    suite: Suite
    standings: Sequence[Standing]
    rerun: str = ""

    @cached_property
    def board(self) -> dict[str, list[Place]]:
        """Every contender's place, by row."""
        return {s.row.name: ranking.places(self.suite, s) for s in self.standings}

    @cached_property
    def overview(self) -> list[Table]:
        """The tables about all rows together."""
        shown = [
            *ranking.overall_tables(self.suite, self.standings, self.board),
            ranking.adaptivity_table(self.suite, self.standings),
            ranking.detector_table(self.suite, self.standings),
        ]
        return [table for table in shown if table.rows]

    @cached_property
    def row_tables(self) -> list[Table]:
        """One table per row."""
        return [ranking.row_table(self.suite, s, self.board[s.row.name]) for s in self.standings]

    @cached_property
    def tuning_tables(self) -> list[Table]:
        """The table of the chosen parameters, if any were tuned."""
        table = ranking.choices_table(self.suite, self.standings)
        return [table] if table.rows else []

    @cached_property
    def has_curves(self) -> bool:
        """Whether regret over time is known, and not only final regret."""
        return any(len(setting_of(standing).times) > 1 for standing in self.standings)

    @property
    def origin(self) -> Results:
        """The first row's results, for what all rows share: ε and versions."""
        return self.standings[0].results if self.standings else Results("", math.nan, {})

    def shown(self, standing: Standing) -> Setting:
        """The results of a row, with only those agents whose curves are drawn.

        Parameters
        ----------
        standing
            The row.

        Returns
        -------
        Setting
            The setting.
        """
        setting, ranked = setting_of(standing), self.board[standing.row.name]
        best = [place.name for place in ranked if place.rank is not None][:BEST_SHOWN]
        kept = {*best, *self.suite.ours, yardstick(self.suite, standing)}
        return replace(setting, agents={n: r for n, r in setting.agents.items() if n in kept})


def write_leaderboard(leaderboard: Leaderboard, folder: str | os.PathLike[str]) -> list[Path]:
    """Write the page, the document and all figures of a leaderboard (extra `plot`).

    Parameters
    ----------
    leaderboard
        The suite with the results of its complete rows.
    folder
        Where to write; it is created if it does not exist.

    Returns
    -------
    list[Path]
        The paths of the written files, the page first.

    Raises
    ------
    InvalidParameter
        If no row is complete.
    MissingExtra
        If matplotlib or Jinja2 is not installed.

    Examples
    --------
    >>> import tempfile, threading
    >>> from switchmdp.experiments import leaderboard as suites
    >>> suite = suites.Suite(
    ...     "A small suite", (suites.Row("row", "random", horizon=100),),
    ...     (suites.Contender("Random", "random"),), problems=2,
    ... )
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = suites.create_folder(suite, f"{folder}/results")
    ...     _ = suites.run_suite(
    ...         suite, path, jobs=1, stop=threading.Event(), begin=lambda stage: None)
    ...     board = Leaderboard(suite, suites.standings(suite, path))
    ...     [path.name for path in write_leaderboard(board, f"{folder}/report")][:2]
    ['index.html', 'leaderboard.md']
    """
    target = Path(folder)
    drawn = dict(leaderboard_figures(leaderboard))
    files = [target / "index.html", write_document(leaderboard, target, list(drawn))]
    files += figures.save_figures(drawn.items(), target / "figures")
    write_page(leaderboard_page(leaderboard, figures.svg_source(drawn[HEAT_MAP])), files[0])
    return files


def write_document(
    leaderboard: Leaderboard, folder: str | os.PathLike[str], pictures: Sequence[str] = ()
) -> Path:
    """Write only the Markdown document, which needs no extra; return the path."""
    return write_markdown(document(leaderboard, pictures), Path(folder, "leaderboard.md"))


def leaderboard_figures(leaderboard: Leaderboard) -> Iterator[tuple[str, Any]]:
    """Yield every figure with its file name (without suffix)."""
    rows = list(leaderboard.board)
    relative = {
        one.contender.name: [one.relative.get(row, math.nan) for row in rows]
        for one in ranking.overall(leaderboard.suite, leaderboard.board)
    }
    yield HEAT_MAP, figures.heat_map(rows, relative, label=LABEL)
    if not leaderboard.has_curves:
        return
    shown = [leaderboard.shown(standing) for standing in leaderboard.standings]
    for i, first in enumerate(range(0, len(shown), SIDE_BY_SIDE)):
        panels = [regret_panel(setting) for setting in shown[first : first + SIDE_BY_SIDE]]
        yield f"leaderboard-regret-{i + 1:02d}", figures.regret_figure(panels)


def document(leaderboard: Leaderboard, pictures: Sequence[str] = ()) -> str:
    """Return the leaderboard as Markdown; `pictures` are the names of figures, heat map first."""
    origin = leaderboard.origin.provenance
    facts = [f"- {k}: {origin[k]}" for k in ("switchmdp", "numba", "platform") if k in origin]
    facts += [f"- to reproduce: `{leaderboard.rerun}`"] if leaderboard.rerun else []
    prose = [f"# {leaderboard.suite.title}", *_method(leaderboard)]
    parts = [html.escape(text, quote=False) for text in prose]
    parts += ["\n".join(facts)] if facts else []
    parts += [f"![{CAPTION}](figures/{picture}.svg)" for picture in pictures[:1]]
    parts += [table.markdown() for table in leaderboard.overview]
    parts.append("## Row by row")
    parts += [f"![Mean regret over time, with 95 % bands](figures/{p}.svg)" for p in pictures[1:]]
    parts += [table.markdown() for table in leaderboard.row_tables]
    if leaderboard.tuning_tables:
        parts += ["## Tuning", *(table.markdown() for table in leaderboard.tuning_tables)]
    return "\n\n".join(parts) + "\n"


def _method(leaderboard: Leaderboard) -> list[str]:
    """Explain the method in three paragraphs."""
    suite = leaderboard.suite
    complete, rows = len(leaderboard.standings), len(suite.rows)
    problems = [
        suite.note,
        f"{len(suite.contenders)} agents, {rows} rows of problems"
        + (f", of which {complete} are complete." if complete < rows else "."),
        "If an agent has free parameters, their values are chosen separately for each row, by mean "
        f"pseudo-regret on {suite.tuning_problems} problems (seed {suite.tuning_seed}), and then "
        f"fixed. The reported regret is measured on {suite.problems} other problems (seed "
        f"{suite.seed}).",
    ]
    if any("riverswim" in row.problem for row in suite.rows):
        problems.append(
            "RiverSwim is a single problem: there, tuning and reporting differ only in their "
            "random numbers."
        )
    return [
        " ".join(problems).lstrip(),
        "Relative regret is mean regret divided by that of the row's yardstick. The yardstick is "
        "the best agent that knows the change points and restarts at each of them or, where the "
        f"problem changes continually, {ranking.best_rival(suite)}. Agents with known change "
        "points have no rank.",
        "P(less than the next) is the share of problems on which an agent has less regret than the "
        "next in rank. Numbers in parentheses are 95 % bootstrap intervals over problems. "
        + (
            f"The curves are those of the {BEST_SHOWN} best agents of a row"
            + "".join(f", of {name}" for name in suite.ours)
            + " and of the yardstick; the tables contain all agents."
        )
        * leaderboard.has_curves,
    ]


def leaderboard_page(leaderboard: Leaderboard, heat_map: str) -> Page:
    """Return the page; `heat_map` is the source of an image."""
    suite, results = leaderboard.suite, _merged(leaderboard)
    summary = (
        f"{count(len(suite.contenders), 'agent')} in {count(len(results.settings), 'row')} of "
        f"problems, with {count(suite.problems, 'problem')} per row."
    )
    overview: list[Block] = [
        *_method(leaderboard),
        Picture(heat_map, CAPTION),
        *leaderboard.overview,
    ]
    rows = zip(results.settings, leaderboard.row_tables, strict=True)
    sections = [
        Section("overview", "Overview", overview),
        *([HOW_TO_READ] if leaderboard.has_curves else []),
        *(
            setting_section(results, row, [table])
            if leaderboard.has_curves
            else Section(f"setting-{i + 1}", row, [table])
            for i, (row, table) in enumerate(rows)
        ),
        *common_sections(results, Section("tuning", "Tuning", leaderboard.tuning_tables)),
    ]
    return Page(suite.title, summary, sections)


def _merged(leaderboard: Leaderboard) -> Results:
    """Return all rows as the settings of one experiment."""
    settings = {s.row.name: leaderboard.shown(s) for s in leaderboard.standings}
    failures = tuple(f for s in leaderboard.standings for f in s.results.failures)
    of_one_row = ("configuration", "seed", "runs", "problems per setting")
    origin = {k: v for k, v in leaderboard.origin.provenance.items() if k not in of_one_row}
    return Results(
        leaderboard.suite.title, leaderboard.origin.epsilon, settings, failures=failures,
        provenance=origin | {"rerun": leaderboard.rerun},
    )  # fmt: skip


def summary(leaderboard: Leaderboard) -> str:
    """Summarise the leaderboard for a terminal: the best agent and ours in each row, and ranks."""
    suite = leaderboard.suite
    rows = []
    for standing in leaderboard.standings:
        places = leaderboard.board[standing.row.name]
        relative = {place.name: number(place.relative.middle) for place in places}
        best = next((place.name for place in places if place.rank == 1), UNKNOWN)
        shown = [relative.get(name, UNKNOWN) for name in (best, *suite.ours)]
        rows.append((standing.row.name, yardstick(suite, standing), best, *shown))
    ours = [f"{name}: relative" for name in suite.ours]
    columns = ("row", "yardstick", "best", "relative regret", *ours)
    note = f"{suite.note} Relative regret: divided by that of the yardstick.".lstrip()
    tables = [Table(suite.title, columns, tuple(rows), note)]
    tables += [table for table in leaderboard.overview if table.title == "All rows"]
    return "\n\n".join(table.text() for table in tables if table.rows)
