"""The whole report of an experiment: figures, tables and the page, in one folder.

index.html          the page: everything, interactive, in one file
tables.md           the tables, for a paper or a repository
figures/*.svg, .pdf, .png
"""

from __future__ import annotations

import os
import re
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from switchmdp.experiments.results import Results, Setting
from switchmdp.reports import measures, plots, tables
from switchmdp.reports.against import against, against_hardness, fixed_values, swept_parameters
from switchmdp.reports.charts import shared_changes
from switchmdp.reports.claims import by_sentence, judge_all
from switchmdp.reports.page import write_page
from switchmdp.reports.table import Table
from switchmdp.storage import save_bytes

FORMATS = ("svg", "pdf", "png")
SIDE_BY_SIDE = 4
MANY = 3  # settings, to be worth a table of their own
ENOUGH = 40  # problems, to show regret against their diameter


def write_report(results: Results, folder: str | os.PathLike[str]) -> list[Path]:
    """Write everything; returns the files, the page first."""
    target = Path(folder)
    (target / "figures").mkdir(parents=True, exist_ok=True)
    files = [target / "index.html", target / "tables.md"]
    write_page(results, files[0], tables=overview(results))
    save_bytes(files[1], markdown(results).encode())
    for name, figure in figures(results):
        for kind in FORMATS:
            files.append(target / "figures" / f"{name}.{kind}")
            plots.save_figure(figure, files[-1])
    return files


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
    wide = values.min() > 0 and values.max() / values.min() > 20
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
    parts = [f"# {results.title}", origin, *(table.markdown() for table in all_tables(results))]
    return "\n\n".join(parts) + "\n"


def summary(results: Results) -> str:
    """What a person at a terminal wants to know: regret by agent, and what became of the claims."""
    parts = [results.title]
    for setting in results.settings.values():
        parts.append(_short(setting).text())
    parts += [table.text() for table in overview(results)]
    if results.claims:
        parts.append(_verdicts(results))
    return "\n\n".join(parts)


def _short(setting: Setting) -> Table:
    full = tables.summary_table(setting)
    keep = [0, 1] + [i for i, column in enumerate(full.columns) if "failed" in column.lower()]
    rows = tuple(tuple(row[i] for i in keep) for row in full.rows)
    columns = tuple(full.columns[i] for i in keep)
    return Table(f"{setting.name}, {setting.n_problems} problems", columns, rows, "")


def _verdicts(results: Results) -> str:
    lines = ["What is claimed, and what was measured here:"]
    for sentence in by_sentence(judge_all(results)):
        lines += ["", *textwrap.wrap(f"“{sentence.quote}”", 96, initial_indent="  ",
                                     subsequent_indent="  ")]  # fmt: skip
        lines.append(f"  {sentence.outcome.upper()}")
        for verdict in sentence.verdicts:
            lines.append(f"    {verdict.outcome}: {verdict.claim.reading}")
            lines.append(f"      {verdict.text}")
    return "\n".join(lines)
