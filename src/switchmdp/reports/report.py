"""The report of an experiment: a folder with a page, tables and figures.

index.html          the page: everything, interactive, in one file
tables.md           the tables, for a paper or a repository
figures/*.svg, .pdf, .png
"""

from __future__ import annotations

import html
import os
import re
import textwrap
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from pathlib import Path
from typing import Any

from switchmdp.experiments.results import Results, Setting
from switchmdp.reports import curves, figures, measures, tables
from switchmdp.reports.page import (
    UNKNOWN,
    Block,
    Claims,
    Code,
    Facts,
    HowToRead,
    Page,
    Plot,
    Section,
    Table,
    count,
    number,
    printable,
    require_jinja2,
    value,
    write_page,
)
from switchmdp.reports.tables import Sentence, Verdict, by_sentence, claims_table, judge_all
from switchmdp.storage import save_bytes

SIDE_BY_SIDE = 4  # panels in a figure
MANY_SETTINGS = 3  # from which an overview table is shown
MOST_SHOWN = 8  # settings in a terminal
TERMINAL_WIDTH = 98
MOST_FAILURES = 20
LONGEST_TRACEBACK = 8000  # characters
MOST_LISTED = 10


class Report:
    """The parts of a report, each computed once, when it is first needed."""

    def __init__(self, results: Results) -> None:
        self.results = results

    @cached_property
    def verdicts(self) -> list[Verdict]:
        """The verdicts on the claims."""
        return judge_all(self.results)

    @cached_property
    def tables(self) -> dict[str, list[Table]]:
        """The tables of each setting, by its key."""
        settings, epsilon = self.results.settings, self.results.epsilon
        return {name: tables.setting_tables(one, epsilon) for name, one in settings.items()}

    @cached_property
    def views(self) -> dict[str, curves.Views]:
        """The curves of regret over time of each setting, by its key."""
        settings = self.results.settings.items()
        return {name: curves.regret_views(self.results, one) for name, one in settings}

    def summary(self) -> str:
        """Summarise the results for a terminal: regret by agent, and the verdicts on the claims."""
        settings = list(self.results.settings.values())
        parts = [printable(self.results.title)]
        parts += [tables.short_table(setting).text() for setting in settings[:MOST_SHOWN]]
        if len(settings) > MOST_SHOWN:
            parts.append(f"{len(settings) - MOST_SHOWN} more settings are in the report")
        if self.results.claims:
            parts.append(_verdicts_text(self.verdicts))
        if left := unfinished_runs(self.results):
            verb = "is" if left == 1 else "are"
            parts.append(f"not complete: {count(left, 'run')} {verb} still to be done")
        return "\n\n".join(parts)

    def write(self, folder: str | os.PathLike[str]) -> list[Path]:
        """Write the page, the tables and all figures (extra `plot`); return the paths."""
        target = Path(folder)
        files = [target / "index.html", target / "tables.md"]
        require_jinja2()
        # Drawing is Python code, and resampling is matrix products, so they can run in parallel.
        with ThreadPoolExecutor(max_workers=1) as pool:
            others = pool.submit(figures.save_figures, other_figures(self), target / "figures")
            _ = self.views  # now, because both threads need them
            regret = pool.submit(figures.save_figures, regret_figures(self), target / "figures")
            self.write_tables(target)
            write_page(experiment_page(self), files[0])
            return files + regret.result() + others.result()

    def write_tables(self, folder: str | os.PathLike[str]) -> Path:
        """Write only the tables, as Markdown, which needs no extra; return the path."""
        return write_markdown(markdown(self), Path(folder, "tables.md"))


def write_report(results: Results, folder: str | os.PathLike[str]) -> list[Path]:
    """Write the page, the tables and all figures of an experiment (extra `plot`).

    Parameters
    ----------
    results
        The results: of `experiments.load_results`, or `sm.compare(...).results`.
    folder
        The folder to write to; it is created if it does not exist.

    Returns
    -------
    list[Path]
        The paths of the written files, the page first.

    Raises
    ------
    MissingExtra
        If matplotlib or Jinja2 is not installed.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     paths = write_report(Results("Nothing yet", 0.1, {}), folder)
    ...     [path.name for path in paths]
    ['index.html', 'tables.md']
    """
    return Report(results).write(folder)


def write_tables(results: Results, folder: str | os.PathLike[str]) -> Path:
    """Write the tables of an experiment as Markdown, which needs no extra.

    Parameters
    ----------
    results
        The results: of `experiments.load_results`, or `sm.compare(...).results`.
    folder
        The folder to write to; it is created if it does not exist.

    Returns
    -------
    Path
        The path of the written file.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_tables(Results("Nothing yet", 0.1, {}), folder).name
    'tables.md'
    """
    return Report(results).write_tables(folder)


def summary(results: Results) -> str:
    """Summarise results for a terminal: regret by agent, and the verdicts on the claims.

    Parameters
    ----------
    results
        The results: of `experiments.load_results`, or `sm.compare(...).results`.

    Returns
    -------
    str
        The text.

    Examples
    --------
    >>> from switchmdp.experiments.results import as_setting
    >>> setting = as_setting([10], {"a": [[2], [4]], "b": [[1], [1]]})
    >>> print(summary(Results("Two agents", 0.1, {"s": setting})))
    Two agents
    <BLANKLINE>
    curves: regret after 10 steps on 2 problems
    <BLANKLINE>
    agent  mean (95 % interval)
    ---------------------------
    b                      1.00
    a        3.00 (2.00 … 4.00)
    <BLANKLINE>
    Intervals over fewer than 6 problems tend to be too narrow.
    """
    return Report(results).summary()


def unfinished_runs(results: Results) -> int:
    """Return the number of runs that neither failed nor reached the horizon.

    >>> unfinished_runs(Results("Nothing yet", 0.1, {}))
    0
    """
    settings = results.settings.values()
    return sum(measures.unfinished_runs(runs) for one in settings for runs in one.agents.values())


def write_markdown(text: str, path: Path) -> Path:
    """Write a Markdown file, atomically, in a folder that is created if necessary."""
    path.parent.mkdir(parents=True, exist_ok=True)
    save_bytes(path, text.encode("utf-8", "backslashreplace"))
    return path


# Figures -----------------------------------------------------------------------------------------


def report_figures(report: Report) -> Iterator[tuple[str, Any]]:
    """Yield every figure of the report with its file name (without suffix)."""
    yield from regret_figures(report)
    yield from other_figures(report)


def regret_figures(report: Report) -> Iterator[tuple[str, Any]]:
    """Yield the figures of regret over time."""
    for suffix, group in _side_by_side(report.results):
        panels = [
            curves.regret_panel(setting, report.views[key][curves.REGRET]) for key, setting in group
        ]
        yield f"regret{suffix}", figures.regret_figure(panels)


def other_figures(report: Report) -> Iterator[tuple[str, Any]]:
    """Yield the figures that need only the regret at the horizon."""
    for suffix, group in _side_by_side(report.results):
        quantiles = [
            (one.name, {agent: measures.final_quantiles(one, agent) for agent in one.agents})
            for _, one in group
        ]
        yield f"final{suffix}", figures.distribution_figure(quantiles)
    for parameter in curves.swept_parameters(report.results):
        panels = curves.parameter_panels(report.results, parameter)
        log = curves.needs_log_axis(panels)
        figure = figures.parameter_figure(panels[:SIDE_BY_SIDE], xlabel=parameter, log=log)
        yield f"against-{_file_name(parameter)}", figure
    if panels := curves.diameter_panels(report.results)[:SIDE_BY_SIDE]:
        yield "against-diameter", figures.parameter_figure(panels, xlabel="diameter of the problem")


def _side_by_side(results: Results) -> Iterator[tuple[str, list[tuple[str, Setting]]]]:
    """Yield the settings that share a figure, with the end of its file name."""
    settings = list(results.settings.items())
    groups = [settings] if len(settings) <= SIDE_BY_SIDE else [[one] for one in settings]
    for i, group in enumerate(groups if settings else []):
        yield f"-{i + 1:02d}" if len(groups) > 1 else "", group


def _file_name(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9]+", "-", text).strip("-") or "parameter"


# Tables and verdicts as text ---------------------------------------------------------------------


def all_tables(report: Report) -> Iterator[Table]:
    """Yield every table, in the order of the report."""
    if report.results.claims:
        yield claims_table(report.verdicts)
    yield from overview(report.results)
    for of_setting in report.tables.values():
        yield from of_setting
    yield tables.hardness_table(report.results)


def overview(results: Results) -> list[Table]:
    """Return a table of all settings side by side, if there are many."""
    many = len(results.settings) >= MANY_SETTINGS
    return [tables.overview_table(results)] if many else []


def markdown(report: Report) -> str:
    """Return all tables as Markdown."""
    origin = "\n".join(f"- {key}: {value}" for key, value in report.results.provenance.items())
    head = f"# {printable(report.results.title)}\n\n{origin}".rstrip()
    parts = [html.escape(head, quote=False), *(table.markdown() for table in all_tables(report))]
    return "\n\n".join(parts) + "\n"


def _verdicts_text(verdicts: Sequence[Verdict]) -> str:
    lines = ["Claims and measurements:"]
    for sentence in by_sentence(verdicts):
        lines += ["", *_wrapped(f"“{sentence.quote}”", "  "), f"  {sentence.outcome.upper()}"]
        for verdict in sentence.verdicts:
            lines += _wrapped(f"{verdict.outcome}: {verdict.claim.reading}", "    ")
            lines += _wrapped(verdict.text, "      ")
    return "\n".join(lines)


def _wrapped(text: str, indent: str) -> list[str]:
    """Wrap text to the width of a terminal without breaking numbers such as 10 000."""
    whole = re.sub(r"(?<=\d) (?=\d)", "\N{NO-BREAK SPACE}", printable(text))
    lines = textwrap.wrap(whole, TERMINAL_WIDTH, initial_indent=indent, subsequent_indent=indent)
    return [line.replace("\N{NO-BREAK SPACE}", " ") for line in lines]


# Page --------------------------------------------------------------------------------------------


HOW_TO_READ = Section("reading", "How to read this page", [HowToRead()])


def experiment_page(report: Report) -> Page:
    """Return the page of an experiment.

    >>> page = experiment_page(Report(Results("Nothing yet", 0.1, {})))
    >>> page.summary, [section.title for section in page.sections if section.blocks]
    ('No results.', ['How to read this page'])
    """
    results, sentences = report.results, by_sentence(report.verdicts)
    sections = [
        Section("claims", "Claims", [Claims(sentences)] if sentences else []),
        HOW_TO_READ,
        *(
            setting_section(results, name, shown, report.views[name])
            for name, shown in report.tables.items()
        ),
        *common_sections(results, Section("further", "Further tables", overview(results))),
    ]
    return Page(results.title, _summary(results, sentences), sections)


def common_sections(results: Results, further: Section) -> list[Section]:
    """Return the sections after the settings: problems, parameters, `further`, failures, origin."""
    return [
        Section("problems", "About the problems", list(_problems(results))),
        Section("parameters", "Regret by parameter", list(_parameters(results))),
        further,
        Section("failures", "Failed runs", list(_failures(results.failures))),
        Section("origin", "Reproducing these results", list(_origin(results))),
    ]


def setting_section(
    results: Results, name: str, shown: Sequence[Table], views: curves.Views | None = None
) -> Section:
    """Return the section of one setting: the regret chart and the given tables."""
    i, setting = list(results.settings).index(name), results.settings[name]
    plot = Plot(curves.regret_chart(results, setting, views), _change_caption(setting))
    return Section(f"setting-{i + 1}", setting.name, [plot, *(t for t in shown if t.rows)])


def _summary(results: Results, sentences: Sequence[Sentence]) -> str:
    settings = results.settings.values()
    if not settings:
        return "No results."
    sizes = {s.n_problems for s in settings}
    one_problem = any(s.one_problem for s in settings)
    size = f"{_range(sizes, 'run')} of each agent" if one_problem else _range(sizes, "problem")
    summary = (
        f"{count(len(results.agents), 'agent')} in {count(len(settings), 'setting')}, with "
        f"{size} per setting and "
        f"{_range({s.horizon for s in settings}, 'step')} per run."
    )
    if sentences:
        outcomes = Counter(sentence.outcome for sentence in sentences)
        listed = ", ".join(f"{n} {outcome}" for outcome, n in outcomes.items())
        summary += f" {count(len(sentences), 'claim')}: {listed}."
    return summary


def _range(values: set[int], noun: str) -> str:
    least, most = min(values), max(values)
    return count(most, noun) if least == most else f"{number(least)} to {count(most, noun)}"


def _change_caption(setting: Setting) -> str:
    points = curves.shared_changes(setting)
    if points is None:
        return "Change points are not marked, because they differ between problems or are too many."
    if not points:
        return tables.late_changes(setting) or "The problems do not change."
    if len(points) == 1:
        return f"A dashed vertical line marks the change point: step {number(points[0])}."
    return f"Dashed vertical lines mark the change points: steps {_listed(map(number, points))}."


def _problems(results: Results) -> Iterator[Block]:
    hardness = tables.hardness_table(results)
    if hardness.rows:
        yield hardness
    caption = (
        "The problems are sorted by diameter and split into groups of equal size. Each point is "
        "the mean final regret of a group, at its median diameter."
    )
    for panel in curves.diameter_panels(results):
        chart = curves.points_chart(panel, "diameter", results.agents)
        yield Plot(chart, caption, chart["title"])


def _parameters(results: Results) -> Iterator[Block]:
    for parameter in curves.swept_parameters(results):
        panels = curves.parameter_panels(results, parameter)
        order = list(dict.fromkeys(name for panel in panels for name in panel.curves))
        for panel in panels:
            marked = [f"{name} = {value(x)}" for name, x in panel.marks.items()]
            caption = f"Dashed vertical lines: {', '.join(marked)}." if marked else ""
            chart = curves.points_chart(panel, parameter, order)
            yield Plot(chart, caption, chart["title"])


def _failures(failures: Sequence[Mapping[str, Any]]) -> Iterator[Block]:
    """Yield the failed runs; runs of an agent with the same traceback are grouped."""
    if failures:
        n = len(failures)
        yield f"{count(n, 'run')} failed and {'is' if n == 1 else 'are'} excluded from all numbers."
    groups: dict[tuple[str, ...], list[str]] = {}
    for failure in failures:
        key = tuple(str(failure.get(k, "")) for k in ("agent", "setting", "error", "traceback"))
        groups.setdefault(key, []).append(str(failure.get("problem", UNKNOWN)))
    for (agent, setting, error, traceback), problems in list(groups.items())[:MOST_FAILURES]:
        place = f"{agent} in {setting}, problem {_listed(problems)}"
        yield Code(traceback[-LONGEST_TRACEBACK:], summary=f"{place}: {error}")


def _origin(results: Results) -> Iterator[Block]:
    facts = dict(results.provenance)
    if rerun := facts.pop("rerun", ""):
        yield Code(rerun, title="Command")
    if facts:
        yield Facts(list(facts.items()), title="Versions")
    if results.configuration:
        yield Code(results.configuration, title="Configuration", summary="The experiment as TOML")


def _listed(items: Iterable[str]) -> str:
    words = list(items)
    more = f" and {len(words) - MOST_LISTED} more" if len(words) > MOST_LISTED else ""
    return ", ".join(words[:MOST_LISTED]) + more
