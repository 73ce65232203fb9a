"""The whole report of an experiment: figures, tables and the page, in one folder.

index.html          the page: everything, interactive, in one file
tables.md           the tables, for a paper or a repository
figures/*.svg, .pdf, .png
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from switchmdp.experiments.results import Results, Setting
from switchmdp.reports import measures, plots, tables
from switchmdp.reports.against import against, against_hardness, swept_parameters
from switchmdp.reports.claims import judge_all
from switchmdp.reports.page import write_page
from switchmdp.reports.table import Table
from switchmdp.storage import save_bytes

FORMATS = ("svg", "pdf", "png")
SIDE_BY_SIDE = 4
ENOUGH = 40  # problems, to show regret against their diameter


def write_report(results: Results, folder: str | os.PathLike[str]) -> list[Path]:
    """Write everything; returns the files, the page first."""
    target = Path(folder)
    (target / "figures").mkdir(parents=True, exist_ok=True)
    files = [target / "index.html", target / "tables.md"]
    write_page(results, files[0])
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
    return plots.Panel(setting.name, curves, shared_change_points(setting))


def shared_change_points(setting: Setting) -> list[int]:
    """The change points felt, if they are the same in every problem; else none can be marked."""
    known = [points for points in setting.change_points if len(points)]
    if not known or any(not np.array_equal(points, known[0]) for points in known):
        return []
    return [int(c) for c in known[0] if c < setting.horizon]


def _quantiles(setting: Setting) -> tuple[str, dict[str, tuple[float, ...]]]:
    return setting.name, {a: measures.final_quantiles(setting, a) for a in setting.agents}


def parameter_figure(results: Results, parameter: str) -> Any:
    """Final regret against a swept parameter; agents that have it fixed are marked at its value."""
    lines = against(results, parameter)
    values = np.concatenate([line.times for line in lines.values()])
    wide = values.min() > 0 and values.max() / values.min() > 20
    panel = plots.Panel("", lines)
    marks = fixed_values(results, parameter)
    return plots.parameter_figure([panel], xlabel=parameter, log=bool(wide), marks=marks)


def fixed_values(results: Results, parameter: str) -> dict[str, float]:
    """Where agents stand that have this parameter but do not sweep it: what a scan compares to."""
    found: dict[str, float] = {}
    for setting in results.settings.values():
        for name, runs in setting.agents.items():
            value = runs.parameters.get(parameter)
            if parameter not in runs.swept and isinstance(value, (int, float)):
                label = f"{name}, {setting.name}" if len(results.settings) > 1 else name
                found[label] = float(value)
    return found


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
    for setting in results.settings.values():
        yield tables.summary_table(setting)
        yield tables.paired_table(setting)
        yield tables.segment_table(setting)
        yield tables.adaptation_table(setting, results.epsilon)
    yield tables.hardness_table(results)


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
    lines = ["What the paper says, and what was measured here:"]
    quote = ""
    for verdict in judge_all(results):
        if verdict.claim.quote != quote:
            quote = verdict.claim.quote
            lines.append(f"\n  “{quote}”")
        lines.append(f"    {verdict.outcome.upper()}: {verdict.claim.reading}")
        lines.append(f"      {verdict.text}")
    return "\n".join(lines)
