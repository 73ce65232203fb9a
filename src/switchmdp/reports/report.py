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
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from switchmdp.experiments.results import Results, Setting
from switchmdp.reports import figures, measures, tables
from switchmdp.reports.charts import needs_log_axis, shared_changes, varies_in_diameter
from switchmdp.reports.claims import by_sentence, judge_all
from switchmdp.reports.formatting import Table, printable
from switchmdp.reports.page import write_page
from switchmdp.reports.sections import experiment_page
from switchmdp.storage import save_bytes

SIDE_BY_SIDE = 4  # panels in a figure
MANY_SETTINGS = 3  # from which an overview table is shown
MOST_SHOWN = 8  # settings in a terminal
TERMINAL_WIDTH = 98


def write_report(results: Results, folder: str | os.PathLike[str]) -> list[Path]:
    """Write the page, the tables and all figures of an experiment (extra `plot`).

    Args:
        results: what `experiments.load_results` returns, or `sm.compare(...).results`.
        folder: where to write; it is created if it does not exist.

    Returns:
        The paths of the written files, the page first.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     paths = write_report(Results("Nothing yet", 0.1, {}), folder)
    ...     [path.name for path in paths]
    ['index.html', 'tables.md']
    """
    target = Path(folder)
    files = [target / "index.html", write_tables(results, target)]
    write_page(experiment_page(results, overview(results)), files[0])
    return files + figures.save_figures(report_figures(results), target / "figures")


def write_tables(results: Results, folder: str | os.PathLike[str]) -> Path:
    """Write only the tables, as Markdown, which needs no extra; return the path.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_tables(Results("Nothing yet", 0.1, {}), folder).name
    'tables.md'
    """
    return write_markdown(markdown(results), Path(folder, "tables.md"))


def write_markdown(text: str, path: Path) -> Path:
    """Write a Markdown file, atomically, in a folder that is created if necessary."""
    path.parent.mkdir(parents=True, exist_ok=True)
    save_bytes(path, text.encode("utf-8", "backslashreplace"))
    return path


def report_figures(results: Results) -> Iterator[tuple[str, Any]]:
    """Yield every figure of the report with its file name (without suffix)."""
    settings = list(results.settings.values())
    groups = [settings] if len(settings) <= SIDE_BY_SIDE else [[one] for one in settings]
    for i, group in enumerate(groups if settings else []):
        suffix = f"-{i + 1:02d}" if len(groups) > 1 else ""
        yield f"regret{suffix}", figures.regret_figure([regret_panel(one) for one in group])
        quantiles = [
            (one.name, {agent: measures.final_quantiles(one, agent) for agent in one.agents})
            for one in group
        ]
        yield f"final{suffix}", figures.distribution_figure(quantiles)
    for parameter in measures.swept_parameters(results):
        yield f"against-{_file_name(parameter)}", parameter_figure(results, parameter)
    panels = [
        figures.Panel(one.name, measures.regret_by_hardness(one, "diameter"))
        for one in settings[:SIDE_BY_SIDE]
        if varies_in_diameter(one)
    ]
    if panels:
        yield "against-diameter", figures.parameter_figure(panels, xlabel="diameter of the problem")


def regret_panel(setting: Setting) -> figures.Panel:
    """Return mean regret over time, with the change points that all problems share."""
    curves = {agent: measures.regret_band(setting, agent) for agent in setting.agents}
    return figures.Panel(setting.name, curves, shared_changes(setting) or ())


def parameter_figure(results: Results, parameter: str) -> Any:
    """Draw final regret against a swept parameter; fixed values of it are marked."""
    by_panel = measures.regret_by_parameter(results, parameter)
    marks = measures.fixed_values(results, parameter)
    values = np.concatenate(
        [curve.times for curves in by_panel.values() for curve in curves.values()]
    )
    panels = [
        figures.Panel(name, curves, (), marks.get(name, {})) for name, curves in by_panel.items()
    ]
    return figures.parameter_figure(
        panels[:SIDE_BY_SIDE], xlabel=parameter, log=needs_log_axis(values)
    )


def _file_name(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9]+", "-", text).strip("-") or "parameter"


def all_tables(results: Results) -> Iterator[Table]:
    """Yield every table, in the order of the report."""
    if results.claims:
        yield tables.claims_table(results)
    yield from overview(results)
    for setting in results.settings.values():
        yield from tables.setting_tables(setting, results.epsilon)
    yield tables.hardness_table(results)


def overview(results: Results) -> list[Table]:
    """Return a table of all settings side by side, if there are many."""
    many = len(results.settings) >= MANY_SETTINGS
    return [tables.overview_table(results)] if many else []


def markdown(results: Results) -> str:
    """Return all tables as Markdown."""
    origin = "\n".join(f"- {key}: {value}" for key, value in results.provenance.items())
    head = html.escape(f"# {printable(results.title)}\n\n{origin}".rstrip(), quote=False)
    parts = [head, *(table.markdown() for table in all_tables(results))]
    return "\n\n".join(parts) + "\n"


def summary(results: Results) -> str:
    """Summarise results for a terminal: regret by agent, and the verdicts on the claims.

    Args:
        results: what `experiments.load_results` returns, or `sm.compare(...).results`.

    >>> from switchmdp.experiments.results import as_setting
    >>> setting = as_setting([10], {"a": [[2], [4]], "b": [[1], [1]]})
    >>> print(summary(Results("Two agents", 0.1, {"s": setting})))
    Two agents
    <BLANKLINE>
    curves: regret after 10 steps on 2 problems
    <BLANKLINE>
    agent  mean (95 % interval)
    -----  --------------------
    b        1.00 (1.00 … 1.00)
    a        3.00 (2.00 … 4.00)
    """
    parts = [printable(results.title)]
    settings = list(results.settings.values())
    parts += [tables.short_table(setting).text() for setting in settings[:MOST_SHOWN]]
    if len(settings) > MOST_SHOWN:
        parts.append(f"{len(settings) - MOST_SHOWN} more settings are in the report")
    if results.claims:
        parts.append(_verdicts(results))
    unfinished = sum(
        measures.unfinished_runs(runs) for setting in settings for runs in setting.agents.values()
    )
    if unfinished:
        parts.append(f"not complete: {unfinished} runs are still to be done")
    return "\n\n".join(parts)


def _verdicts(results: Results) -> str:
    lines = ["Claims and measurements:"]
    for sentence in by_sentence(judge_all(results)):
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
