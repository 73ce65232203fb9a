"""What the page says, part by part, as plain data for its template."""

from __future__ import annotations

import base64
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from switchmdp.experiments.results import Results, Setting
from switchmdp.reports import tables as made
from switchmdp.reports.charts import (
    Chart,
    hardness_chart,
    parameter_charts,
    regret_chart,
    shared_changes,
)
from switchmdp.reports.claims import Sentence, by_sentence, judge_all
from switchmdp.reports.measures import swept_parameters
from switchmdp.reports.numbers import UNKNOWN, number
from switchmdp.reports.table import Table

Part = dict[str, Any]

MOST_FAILURES = 20
LONGEST_TRACEBACK = 8000
LISTED = 10
BADGES = {
    "reproduced": ("✓", "good"),
    "reproduced in part": ("◐", "open"),
    "not reproduced": ("✗", "bad"),
    "undecided": ("?", "open"),
}


@dataclass(frozen=True)
class Extras:
    """What stands on the page besides what follows from results alone."""

    summary: str  # in place of what is counted in the results
    introduction: str
    first: Sequence[Table]  # before the settings
    picture: bytes  # an SVG above those
    caption: str
    of_setting: Mapping[str, Sequence[Table]]  # in place of a setting's own tables
    last: Sequence[Table]


def page_content(
    results: Results, tables: Sequence[Table], extras: Extras | None = None
) -> tuple[Part, list[Chart]]:
    """The template's variables, and the charts that they point to by number.

    >>> content, charts = page_content(Results("nothing yet", 0.1, {}), ())
    >>> content["summary"], charts
    ('Nothing was run.', [])
    """
    charts: list[Chart] = []
    sentences = by_sentence(judge_all(results))
    content: Part = {
        "title": results.title,
        "summary": _unbroken(extras.summary) if extras else _summary(results, sentences),
        "claims": [_sentence(sentence) for sentence in sentences],
        "overview": _overview(extras),
        "settings": list(_settings(results, charts, extras)),
        "hardness": [_table(table) for table in [made.hardness_table(results)] if table.rows],
        "hardness_charts": list(_hardness_charts(results, charts)),
        "sweeps": list(_sweeps(results, charts)),
        "further": [_table(table) for table in (*tables, *(extras.last if extras else ()))],
        "failures": _failures(results.failures),
        "n_failures": len(results.failures),
        "rerun": results.provenance.get("rerun", ""),
        "provenance": [(k, v) for k, v in results.provenance.items() if k != "rerun"],
        "configuration": results.configuration,
    }
    content["contents"] = list(_contents(content))
    return content, charts


def _summary(results: Results, sentences: Sequence[Sentence]) -> str:
    settings = results.settings.values()
    if not settings:
        return "Nothing was run."
    problems = _from_to({setting.n_problems for setting in settings}, "problem")
    steps = _from_to({setting.horizon for setting in settings}, "step")
    agents, places = _count(len(results.agents), "agent"), _count(len(settings), "setting")
    summary = f"{agents} in {places}, on {problems} each, for {steps}."
    if sentences:
        found = Counter(sentence.outcome for sentence in sentences)
        listed = ", ".join(f"{n} {outcome}" for outcome, n in found.items())
        summary += f" {_count(len(sentences), 'claim')}: {listed}."
    return _unbroken(summary)


def _from_to(values: set[int], noun: str) -> str:
    least, most = min(values), max(values)
    return _count(most, noun) if least == most else f"{number(least)} to {_count(most, noun)}"


def _count(n: int, noun: str) -> str:
    return f"{number(n)} {noun}" if n == 1 else f"{number(n)} {noun}s"


def _contents(content: Part) -> Iterator[tuple[str, str]]:
    if content["claims"]:
        yield "claims", "Claims"
    if content["overview"]:
        yield "overview", "Overview"
    yield "reading", "How to read this"
    for setting in content["settings"]:
        yield setting["anchor"], setting["name"]
    if content["hardness"] or content["hardness_charts"]:
        yield "problems", "The problems"
    if content["sweeps"]:
        yield "parameters", "Regret against parameters"
    if content["further"]:
        yield "further", "Further tables"
    if content["failures"]:
        yield "failures", "Failures"
    if content["rerun"] or content["provenance"] or content["configuration"]:
        yield "origin", "Where this comes from"


def _sentence(sentence: Sentence) -> Part:
    """A sentence, and under it what was tested, each with its own verdict."""
    tested = [
        {"reading": v.claim.reading, "measured": _unbroken(v.text), **_badge(v.outcome)}
        for v in sentence.verdicts
    ]
    return {"quote": sentence.quote, "tested": tested, **_badge(sentence.outcome)}


def _badge(outcome: str) -> Part:
    symbol, mood = BADGES.get(outcome, (UNKNOWN, "open"))
    return {"outcome": outcome, "symbol": symbol, "mood": mood}


def _overview(extras: Extras | None) -> Part | None:
    if extras is None:
        return None
    return {
        "introduction": _unbroken(extras.introduction),
        "picture": "data:image/svg+xml;base64," + base64.b64encode(extras.picture).decode(),
        "caption": extras.caption,
        "tables": [_table(table) for table in extras.first],
    }


def _settings(results: Results, charts: list[Chart], extras: Extras | None) -> Iterator[Part]:
    for i, setting in enumerate(results.settings.values()):
        shown: Sequence[Table] = (
            extras.of_setting[setting.name] if extras else _tables_of(setting, results.epsilon)
        )
        yield {
            "anchor": f"setting-{i + 1}",
            "name": setting.name,
            "chart": _add(regret_chart(results, setting), charts),
            "caption": _changes(setting),
            "tables": [_table(table, under=setting.name) for table in shown if table.rows],
        }


def _tables_of(setting: Setting, epsilon: float) -> tuple[Table, ...]:
    return (
        made.summary_table(setting),
        made.paired_table(setting),
        made.segment_table(setting),
        made.adaptation_table(setting, epsilon),
    )


def _changes(setting: Setting) -> str:
    points = shared_changes(setting)
    if points is None:
        return "The problems change at different or very many steps, so no change is marked."
    if not points:
        return "The problems do not change."
    listed = _listed(map(number, points))
    return _unbroken(f"Dashed vertical lines mark the changes: step {listed}.")


def _hardness_charts(results: Results, charts: list[Chart]) -> Iterator[Part]:
    for setting in results.settings.values():
        chart = hardness_chart(results, setting, "diameter")
        if chart:
            caption = (
                "The problems in order of diameter, in groups of equal size: mean final regret of "
                "each group at its median diameter."
            )
            yield {"title": chart["title"], "chart": _add(chart, charts), "caption": caption}


def _sweeps(results: Results, charts: list[Chart]) -> Iterator[Part]:
    for parameter in swept_parameters(results):
        for chart in parameter_charts(results, parameter):
            marked = [f"{m['label']} = {number(_whole(m['x']))}" for m in chart["marks"]]
            caption = f"Dashed vertical lines: {', '.join(marked)}." if marked else ""
            yield {"title": chart["title"], "chart": _add(chart, charts), "caption": caption}


def _whole(value: float) -> float:
    return int(value) if float(value).is_integer() else value


def _failures(failures: Sequence[Mapping[str, Any]]) -> list[Part]:
    """Failed runs, those of one agent with the same traceback together."""
    alike: dict[tuple[str, ...], list[str]] = {}
    for failure in failures:
        key = tuple(str(failure.get(k, "")) for k in ("agent", "setting", "error", "traceback"))
        alike.setdefault(key, []).append(str(failure.get("problem", UNKNOWN)))
    return [
        {
            "place": f"{agent} in {setting}, problem {_listed(problems)}",
            "error": error,
            "traceback": traceback[-LONGEST_TRACEBACK:],
        }
        for (agent, setting, error, traceback), problems in list(alike.items())[:MOST_FAILURES]
    ]


def _listed(items: Iterable[str]) -> str:
    words = list(items)
    more = f" and {len(words) - LISTED} more" if len(words) > LISTED else ""
    return ", ".join(words[:LISTED]) + more


def _table(table: Table, under: str = "") -> Part:
    """A table for the template; its title without the heading that it stands under."""
    title = table.title.removeprefix(f"{under}: ")
    columns = zip(*table.rows, strict=True) if table.rows else [()] * len(table.columns)
    numeric = [all(cell[:1] in {*"0123456789-∞", UNKNOWN} for cell in column) for column in columns]
    rows = [
        [_unbroken(cell) if right else cell for cell, right in zip(row, numeric, strict=True)]
        for row in table.rows
    ]
    return {
        "title": title[:1].upper() + title[1:], "columns": table.columns, "rows": rows,
        "note": table.note, "numeric": numeric,
    }  # fmt: skip


def _unbroken(text: str) -> str:
    """The text with numbers and intervals that no line ends in."""
    return re.sub(r"(?<=[\d…]) (?=[-\d…%])", "\N{NO-BREAK SPACE}", text)


def _add(chart: Chart, charts: list[Chart]) -> int:
    charts.append(chart)
    return len(charts) - 1
