"""The report of a leaderboard: a folder with a page, a document and figures.

index.html              the page: everything, interactive, in one file
leaderboard.md          the same content as Markdown, with figures
figures/leaderboard-*   the heat map, and regret over time in every row

Relative regret is regret divided by that of the row's *yardstick*: the best agent with known change
points or, where the problem changes continually, the best rival of our own agents. The yardstick
is chosen on the reported problems, which can only favour it: relative regret is not understated.
Agents with known change points have no rank. Agents with equal regret share a rank.

>>> from switchmdp.experiments.leaderboard import Row
>>> from switchmdp.experiments.results import as_setting
>>> row = Row("r", "random")
>>> suite = Suite("s", (row,), (Contender("a", "ucrl2"), Contender("b", "oracle-ucrl2", told=True)))
>>> setting = as_setting([100], {"a": [[6.0], [9.0]], "b": [[4.0], [6.0]]})
>>> standing = Standing(row, None, {}, Results("", 0.1, {"r": setting}))
>>> yardstick(suite, standing)
'b'
>>> ranked = places(suite, standing)
>>> [(place.name, place.rank, place.relative.middle) for place in ranked]
[('b', None, 1.0), ('a', 1, 1.5)]
>>> [(one.contender.name, one.firsts) for one in overall(suite, {"r": ranked})]
[('a', 1), ('b', 0)]
"""

from __future__ import annotations

import html
import itertools
import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from switchmdp.display import shortened
from switchmdp.experiments.leaderboard import Contender, Standing, Suite, trials
from switchmdp.experiments.results import Results, Setting
from switchmdp.reports import figures, measures
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
    percent,
    steps,
    value,
    with_interval,
    write_page,
)
from switchmdp.reports.report import (
    HOW_TO_READ,
    SIDE_BY_SIDE,
    common_sections,
    setting_section,
    write_markdown,
)
from switchmdp.reports.resampling import Interval
from switchmdp.reports.tables import ranked_agents, starred

BEST_SHOWN = 6  # agents whose curves are drawn in a row, besides ours and the yardstick
LABEL = "regret relative to the yardstick"
CAPTION = "Regret relative to the yardstick, by agent and row"
HEAT_MAP = "leaderboard-heat-map"


# Ranks and the regret relative to the yardstick --------------------------------------------------


@dataclass(frozen=True)
class Place:
    """The result of one contender in a row."""

    name: str
    rank: int | None  # None for agents with known change points
    regret: Interval
    relative: Interval  # regret divided by the yardstick's
    ahead: Interval | None  # probability of lower regret than the next in rank


Board = Mapping[str, Sequence[Place]]  # the places of each row


def setting_of(standing: Standing) -> Setting:
    """Return the results of a row."""
    (setting,) = standing.results.settings.values()
    return setting


def yardstick(suite: Suite, standing: Standing) -> str:
    """Return the name of the row's yardstick; empty if there is none."""
    drifts = standing.row.drifts
    candidates = {
        one.name
        for one in suite.contenders_of(standing.row)
        if (not one.told and not one.ours if drifts else one.told and one.yardstick)
    }
    return next((name for name in _completed(setting_of(standing)) if name in candidates), "")


def _completed(setting: Setting) -> list[str]:
    """Sort the agents by mean regret; agents without a completed run are left out."""
    return [a for a in ranked_agents(setting) if measures.shared_problems(setting, a)]


def places(suite: Suite, standing: Standing) -> list[Place]:
    """Return every contender of a row in order of mean regret."""
    setting, reference = setting_of(standing), yardstick(suite, standing)
    told = {one.name for one in suite.contenders if one.told}
    regret = {name: measures.final_regret(setting, name) for name in _completed(setting)}
    ranked = [name for name in regret if name not in told]
    next_in_rank = dict(itertools.pairwise(ranked))
    unknown = Interval(math.nan, math.nan, math.nan)
    ranking = []
    for name, mean in regret.items():
        rank = 1 + sum(regret[other].middle < mean.middle for other in ranked)
        relative = measures.ratio(setting, name, reference) if reference else unknown
        rival = next_in_rank.get(name)
        ahead = measures.probability_of_improvement(setting, name, rival) if rival else None
        ranking.append(Place(name, rank if name in ranked else None, mean, relative, ahead))
    return ranking


@dataclass(frozen=True)
class Overall:
    """The result of one contender over all rows in which it took part."""

    contender: Contender
    relative: Mapping[str, float]  # relative regret by row
    mean_rank: float
    firsts: int
    geometric_mean: float  # of the relative regrets; NaN if one is not positive


def overall(suite: Suite, board: Board) -> list[Overall]:
    """Return every contender by mean rank; those with known change points follow."""
    totals = []
    for one in suite.contenders:
        mine = {row: p for row, all_ in board.items() for p in all_ if p.name == one.name}
        if not mine:
            continue
        ranks = [p.rank for p in mine.values() if p.rank is not None]
        relative = {row: p.relative.middle for row, p in mine.items()}
        values = np.array(list(relative.values()))
        positive = bool((values > 0).all())  # False if one is NaN
        totals.append(
            Overall(
                contender=one,
                relative=relative,
                mean_rank=float(np.mean(ranks)) if ranks else math.nan,
                firsts=sum(rank == 1 for rank in ranks),
                geometric_mean=float(np.exp(np.log(values).mean())) if positive else math.nan,
            )
        )
    return sorted(totals, key=_order)


def _order(one: Overall) -> tuple[bool, float]:
    value = one.geometric_mean if one.contender.told else one.mean_rank
    return one.contender.told, math.inf if math.isnan(value) else value


# Tables


def best_rival(suite: Suite) -> str:
    """Describe the yardstick of rows whose problems change continually.

    >>> best_rival(Suite("s", (), (Contender("Mine", "psrl", ours=True),)))
    'the best rival of Mine'
    """
    return "the best rival" + f" of {' and '.join(suite.ours)}" * bool(suite.ours)


def row_table(suite: Suite, standing: Standing, ranking: Sequence[Place]) -> Table:
    """Return one row of the suite: every contender, in order of mean regret."""
    row, setting = standing.row, setting_of(standing)

    def chosen(place: Place) -> str:
        return _values(standing.choices.get(place.name, {}))

    def steps_to_adapt(place: Place) -> str:
        """Return the median over all changes of all problems; ∞ if the agent never adapts."""
        after = measures.adaptation_times(setting, place.name, standing.results.epsilon)[:, 1:]
        known = np.sort(after[~np.isnan(after)])
        return steps(float(known[len(known) // 2])) if len(known) else UNKNOWN

    columns: dict[str, Callable[[Place], str]] = {
        "rank": lambda place: UNKNOWN if place.rank is None else str(place.rank),
        "agent": lambda place: place.name,
        "chosen": chosen,
        "regret": lambda place: with_interval(place.regret),
        "relative regret": lambda place: with_interval(place.relative),
        "P(less than the next)": lambda p: with_interval(p.ahead) if p.ahead else UNKNOWN,
        "steps to adapt": steps_to_adapt,
        # Seconds per million steps are microseconds per step.
        "µs per step": lambda p: number(measures.seconds_per_million_steps(setting, p.name)),
    }
    note = [f"After {number(row.horizon)} steps on {count(setting.n_problems, 'problem')}."]
    if name := yardstick(suite, standing):
        why = best_rival(suite) if row.drifts else "the best agent with known change points"
        note.append(f"The yardstick is “{name}”, {why}.")
    if row.changes and not row.drifts:
        note.append(
            "Steps to adapt: from a change until the agent loses at most "
            f"{standing.results.epsilon:g} per step until the next change. This is the median over "
            f"all changes, with a resolution of {number(int(setting.times[0]))} steps."
        )
    if failed := sum(int(runs.failed.sum()) for runs in setting.agents.values()):
        note.append(f"{count(failed, 'run')} failed and {'is' if failed == 1 else 'are'} excluded.")
    reasons: dict[str, list[str]] = {}
    for name, reason in suite.left_out(row).items():
        reasons.setdefault(reason, []).append(name)
    if row.designed_on:
        note.append(f"Designed on problems of this kind: {', '.join(row.designed_on)}.")
    note += [f"Left out: {'; '.join(names)} ({reason})." for reason, names in reasons.items()]
    return Table.of(f"{row.name}: every agent", ranking, columns, " ".join(note))


def overall_tables(suite: Suite, standings: Sequence[Standing], board: Board) -> Iterator[Table]:
    """Yield relative regret in all rows, for small and for large problems, and the mean ranks."""
    totals = overall(suite, board)
    note = (
        "Mean regret divided by that of the row's yardstick; * marks the lowest among the agents "
        "that do not know the change points."
    )
    for large, size in ((False, "few states"), (True, "more states")):
        rows = [s.row.name for s in standings if s.row.large == large]
        columns = []
        for row in rows:
            values = [one.relative.get(row, math.nan) for one in totals]
            eligible = [one.relative.get(row, 0) > 0 and not one.contender.told for one in totals]
            columns.append(starred(values, eligible))
        if rows:
            cells = tuple(zip((one.contender.name for one in totals), *columns, strict=True))
            yield Table(f"Relative regret, {size}", ("agent", *rows), cells, note)
    yield Table.of(
        "All rows",
        totals,
        {
            "agent": lambda one: one.contender.name,
            "mean rank": lambda one: number(one.mean_rank),
            "times first": lambda one: UNKNOWN if one.contender.told else number(one.firsts),
            "geometric mean of relative regret": lambda one: number(one.geometric_mean),
            "rows": lambda one: number(len(one.relative)),
        },
        "An agent's numbers are over the rows in which it took part, out of "
        f"{number(len(board))}. Agents with known change points have no rank.",
    )


def detector_table(suite: Suite, standings: Sequence[Standing]) -> Table:
    """Return how many changes each detector finds, its delay and its false alarms."""
    rows = []
    for standing in (s for s in standings if not s.row.drifts):
        setting = setting_of(standing)
        for name in (c.name for c in suite.contenders if c.detects and c.name in setting.agents):
            score = measures.detection(setting, name)
            if score is not None:
                detected, false_alarms = percent(score.detected.middle), score.false_alarms
                delay = steps(score.delay)
                rows.append((standing.row.name, name, detected, delay, with_interval(false_alarms)))
    columns = ("row", "agent", "changes detected", "median delay in steps",
               "false alarms per 100 000 steps")  # fmt: skip
    note = (
        "A change is detected if the agent restarts, fully or in part, before the next change. The "
        "delay is the median over all changes; a missed change has an infinite delay. Any other "
        "restart is a false alarm."
    )
    return Table("Detectors", columns, tuple(rows), note)


def adaptivity_table(suite: Suite, standings: Sequence[Standing]) -> Table:
    """Return the cost of adaptivity on problems that do not change."""
    rows = []
    for standing in (s for s in standings if not s.row.changes):
        setting = setting_of(standing)
        for one in suite.contenders:
            if one.unforgetting in setting.agents and one.name in setting.agents:
                cost = measures.ratio(setting, one.name, one.unforgetting)
                rows.append((standing.row.name, one.name, one.unforgetting, with_interval(cost)))
    columns = ("row", "agent", "non-adaptive version", "ratio of regrets")
    note = (
        "Mean regret divided by that of the version that never forgets, on problems that do not "
        "change. A ratio of 1 means that adaptivity costs nothing."
    )
    return Table("Cost of adaptivity", columns, tuple(rows), note)


def choices_table(suite: Suite, standings: Sequence[Standing]) -> Table:
    """Return the mean pseudo-regret of every value tried on the tuning problems."""
    rows = []
    grids = {one.name: one for one in suite.contenders}
    for standing in standings:
        for name, tried in (trials(standing.tried) if standing.tried else {}).items():
            chosen = standing.choices[name]
            grid = grids[name].grid(standing.row.horizon)
            # A chosen value at an end of its grid may mean that the grid is too small.
            at_end = [
                p for p, v in chosen.items() if len(grid[p]) > 1 and v in (grid[p][0], grid[p][-1])
            ]
            best = min(mean for _, mean in tried)
            worst = max(mean for _, mean in tried)
            rows.append((
                standing.row.name, name, str(len(tried)), _values(chosen), number(best),
                number(worst), ", ".join(at_end),
            ))  # fmt: skip
    columns = (
        "row",
        "agent",
        "tried",
        "chosen",
        "its mean pseudo-regret",
        "the worst",
        "at an end",
    )
    note = (
        f"On the {suite.tuning_problems} tuning problems of each row. Where a chosen value is the "
        "first or the last one of its parameter, a value outside the range might be better."
    )
    return Table("Chosen parameters", columns, tuple(rows), note)


def _values(values: Mapping[str, float]) -> str:
    return ", ".join(f"{name} {value(chosen)}" for name, chosen in values.items())


# The report --------------------------------------------------------------------------------------


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

    def __repr__(self) -> str:
        complete = f"{len(self.standings)} of {len(self.suite.rows)} rows complete"
        return f"Leaderboard({shortened(self.suite.title)}, {complete})"

    @cached_property
    def board(self) -> dict[str, list[Place]]:
        """Every contender's place, by row."""
        return {s.row.name: places(self.suite, s) for s in self.standings}

    @cached_property
    def overview(self) -> list[Table]:
        """The tables about all rows together."""
        shown = [
            *overall_tables(self.suite, self.standings, self.board),
            adaptivity_table(self.suite, self.standings),
            detector_table(self.suite, self.standings),
        ]
        return [table for table in shown if table.rows]

    @cached_property
    def row_tables(self) -> list[Table]:
        """One table per row."""
        return [row_table(self.suite, s, self.board[s.row.name]) for s in self.standings]

    @cached_property
    def tuning_tables(self) -> list[Table]:
        """The table of the chosen parameters, if any were tuned."""
        table = choices_table(self.suite, self.standings)
        return [table] if table.rows else []

    @cached_property
    def has_curves(self) -> bool:
        """Whether regret over time is known, and not only final regret."""
        return any(len(setting_of(standing).times) > 1 for standing in self.standings)

    @property
    def origin(self) -> Results:
        """The first row's results; ε and the versions are the same in all rows."""
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
        The folder to write to; it is created if it does not exist.

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
        for one in overall(leaderboard.suite, leaderboard.board)
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
        f"problem changes continually, {best_rival(suite)}. Agents with known change "
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
    columns = ("row", "yardstick", "best", "best: relative", *ours)
    note = f"{suite.note} Relative regret is regret divided by that of the yardstick.".lstrip()
    tables = [Table(suite.title, columns, tuple(rows), note)]
    tables += [table for table in leaderboard.overview if table.title == "All rows"]
    return "\n\n".join(table.text() for table in tables if table.rows)
