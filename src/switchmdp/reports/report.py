"""The whole report of an experiment: figures, tables and the page, in one folder.

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

from switchmdp.experiments.results import Results, Runs, Setting
from switchmdp.reports import measures, plots, tables
from switchmdp.reports.against import against, against_hardness, fixed_values, swept_parameters
from switchmdp.reports.charts import ENOUGH, LOG_FROM, shared_changes
from switchmdp.reports.claims import by_sentence, judge_all
from switchmdp.reports.numbers import number
from switchmdp.reports.page import write_page
from switchmdp.reports.table import Table
from switchmdp.storage import save_bytes

FORMATS = ("svg", "pdf", "png")
SIDE_BY_SIDE = 4
MANY = 3  # settings, to be worth a table of their own
SHOWN = 8  # settings, at a terminal
WIDTH = 98  # of what a terminal is shown


def write_report(results: Results, folder: str | os.PathLike[str]) -> list[Path]:
    """Write everything; returns the files, the page first."""
    target = Path(folder)
    (target / "figures").mkdir(parents=True, exist_ok=True)
    files = [target / "index.html", write_tables(results, target)]
    write_page(results, files[0], tables=overview(results))
    for name, figure in figures(results):
        for kind in FORMATS:
            files.append(target / "figures" / f"{name}.{kind}")
            plots.save_figure(figure, files[-1])
    return files


def write_tables(results: Results, folder: str | os.PathLike[str]) -> Path:
    """Write the tables only, which needs no extra; returns the file."""
    target = Path(folder)
    target.mkdir(parents=True, exist_ok=True)
    save_bytes(target / "tables.md", markdown(results).encode("utf-8", "backslashreplace"))
    return target / "tables.md"


def figures(results: Results) -> Iterator[tuple[str, Any]]:
    """Every figure with the name of its file."""
    settings = list(results.settings.values())
    groups = [settings] if len(settings) <= SIDE_BY_SIDE else [[one] for one in settings]
    for i, group in enumerate(groups):
        end = f"-{i + 1:02d}" if len(groups) > 1 else ""
        yield f"regret{end}", plots.regret_figure([regret_panel(one) for one in group])
        yield f"final{end}", plots.distribution_figure([_quantiles(one) for one in group])
    for parameter in swept_parameters(results):
        yield f"against-{_file_name(parameter)}", parameter_figure(results, parameter)
    panels = [p for one in settings[:SIDE_BY_SIDE] if (p := _by_diameter(one)) is not None]
    if panels:
        yield "against-diameter", plots.parameter_figure(panels, xlabel="diameter of the problem")


def regret_panel(setting: Setting) -> plots.Panel:
    """Mean regret over time, with the change points that all problems share."""
    curves = {agent: measures.regret_band(setting, agent) for agent in setting.agents}
    return plots.Panel(setting.name, curves, shared_changes(setting) or ())


def _quantiles(setting: Setting) -> tuple[str, dict[str, tuple[float, ...]]]:
    return setting.name, {a: measures.final_quantiles(setting, a) for a in setting.agents}


def parameter_figure(results: Results, parameter: str) -> Any:
    """Final regret against a swept parameter; agents that have it fixed are marked at its value."""
    found, marks = against(results, parameter), fixed_values(results, parameter)
    values = np.concatenate([line.times for lines in found.values() for line in lines.values()])
    wide = values.min() > 0 and values.max() >= LOG_FROM * values.min()
    panels = [plots.Panel(name, lines, (), marks.get(name, {})) for name, lines in found.items()]
    return plots.parameter_figure(panels[:SIDE_BY_SIDE], xlabel=parameter, log=bool(wide))


def _by_diameter(setting: Setting) -> plots.Panel | None:
    known = np.isfinite(setting.hardness["diameter"]).sum()
    if known < ENOUGH:
        return None
    return plots.Panel(setting.name, against_hardness(setting, "diameter"))


def _file_name(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9]+", "-", text).strip("-") or "parameter"


def all_tables(results: Results) -> Iterator[Table]:
    """Every table, in the order of the report."""
    if results.claims:
        yield tables.claims_table(results)
    yield from overview(results)
    for setting in results.settings.values():
        yield tables.summary_table(setting)
        yield tables.paired_table(setting)
        yield tables.segment_table(setting)
        yield tables.adaptation_table(setting, results.epsilon)
    yield tables.hardness_table(results)


def overview(results: Results) -> list[Table]:
    """All settings beside each other, where there are many."""
    return [tables.overview_table(results)] if len(results.settings) >= MANY else []


def markdown(results: Results) -> str:
    """All tables as Markdown."""
    origin = "\n".join(f"- {key}: {value}" for key, value in results.provenance.items())
    head = html.escape(f"# {_line(results.title)}\n\n{origin}".rstrip(), quote=False)
    parts = [head, *(table.markdown() for table in all_tables(results))]
    return "\n\n".join(parts) + "\n"


def summary(results: Results) -> str:
    """What a person at a terminal wants to know: regret by agent, and what became of the claims."""
    parts = [_line(results.title)]
    settings = list(results.settings.values())
    parts += [short_table(setting).text() for setting in settings[:SHOWN]]
    if len(settings) > SHOWN:
        parts.append(f"and {len(settings) - SHOWN} more settings, which the report shows")
    if results.claims:
        parts.append(_verdicts(results))
    undone = sum(_undone(runs) for s in results.settings.values() for runs in s.agents.values())
    if undone:
        parts.append(f"not complete: {undone} runs are still to be done")
    return "\n\n".join(parts)


def _undone(runs: Runs) -> int:
    return int((np.isnan(runs.regret[:, -1]) & ~runs.failed).sum())


def short_table(setting: Setting) -> Table:
    """Mean regret, and how many runs failed or are not done, where some are."""
    counts = {
        "failed": [int(runs.failed.sum()) for runs in setting.agents.values()],
        "not done": [_undone(runs) for runs in setting.agents.values()],
    }
    more = {name: dict(zip(setting.agents, n, strict=True)) for name, n in counts.items() if any(n)}
    rows = tuple(
        (agent, regret, *(number(count[agent]) for count in more.values()))
        for agent, regret, *_ in tables.summary_table(setting).rows
    )
    problems = "1 problem" if setting.n_problems == 1 else f"{number(setting.n_problems)} problems"
    title = f"{setting.name}: regret after {number(setting.horizon)} steps on {problems}"
    return Table(title, ("agent", "mean (95 % interval)", *more), rows)


def _verdicts(results: Results) -> str:
    lines = ["What is claimed, and what was measured here:"]
    for sentence in by_sentence(judge_all(results)):
        lines += ["", *_wrapped(f"“{sentence.quote}”", "  "), f"  {sentence.outcome.upper()}"]
        for verdict in sentence.verdicts:
            lines += _wrapped(f"{verdict.outcome}: {verdict.claim.reading}", "    ")
            lines += _wrapped(verdict.text, "      ")
    return "\n".join(lines)


def _wrapped(text: str, indent: str) -> list[str]:
    """Lines no wider than a terminal; the thousands of a number stay together."""
    whole = re.sub(r"(?<=\d) (?=\d)", "\N{NO-BREAK SPACE}", _line(text))
    lines = textwrap.wrap(whole, WIDTH, initial_indent=indent, subsequent_indent=indent)
    return [line.replace("\N{NO-BREAK SPACE}", " ") for line in lines]


def _line(text: str) -> str:
    """A text from a configuration as one line of what can be printed."""
    return "".join(character if character.isprintable() else " " for character in text)
