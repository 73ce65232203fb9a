"""The sections of an experiment's page: what it says, and in which order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from switchmdp.experiments.results import Results, Setting
from switchmdp.reports import tables
from switchmdp.reports.charts import (
    hardness_chart,
    parameter_charts,
    regret_chart,
    shared_changes,
)
from switchmdp.reports.claims import Sentence, by_sentence, judge_all
from switchmdp.reports.formatting import UNKNOWN, Table, count, number
from switchmdp.reports.measures import swept_parameters
from switchmdp.reports.page import Claims, Code, Facts, HowToRead, Page, Plot, Section

MOST_FAILURES = 20
LONGEST_TRACEBACK = 8000  # characters
MOST_LISTED = 10


def experiment_page(results: Results, further: Sequence[Table] = ()) -> Page:
    """Return the page of an experiment; `further` tables are shown in a section of their own.

    >>> page = experiment_page(Results("Nothing yet", 0.1, {}))
    >>> page.summary, [section.title for section in page.sections if section.blocks]
    ('No results.', ['How to read this page'])
    """
    sentences = by_sentence(judge_all(results))
    sections = [
        Section("claims", "Claims", [Claims(sentences)] if sentences else []),
        how_to_read(),
        *(
            setting_section(results, setting, tables.setting_tables(setting, results.epsilon))
            for setting in results.settings.values()
        ),
        *common_sections(results, Section("further", "Further tables", further)),
    ]
    return Page(results.title, _summary(results, sentences), sections)


def common_sections(results: Results, further: Section) -> list[Section]:
    """Return the sections after the settings: problems, parameters, `further`, failures, origin."""
    return [
        Section("problems", "Problems", _problems(results)),
        Section("parameters", "Regret by parameter", list(_parameters(results))),
        further,
        Section("failures", "Failed runs", list(_failures(results.failures))),
        Section("origin", "Reproducing these results", list(_origin(results))),
    ]


def how_to_read() -> Section:
    """Return the section that explains regret and intervals."""
    return Section("reading", "How to read this page", [HowToRead()])


def setting_section(results: Results, setting: Setting, shown: Sequence[Table]) -> Section:
    """Return the section of one setting: the regret chart and the given tables."""
    i = list(results.settings).index(setting.name)
    plot = Plot(regret_chart(results, setting), _change_caption(setting))
    return Section(f"setting-{i + 1}", setting.name, [plot, *(t for t in shown if t.rows)])


def _summary(results: Results, sentences: Sequence[Sentence]) -> str:
    settings = results.settings.values()
    if not settings:
        return "No results."
    summary = (
        f"{count(len(results.agents), 'agent')} in {count(len(settings), 'setting')}, with "
        f"{_range({s.n_problems for s in settings}, 'problem')} per setting and "
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
    points = shared_changes(setting)
    if points is None:
        return "Change points are not marked, because they differ between problems or are too many."
    if not points:
        return "The problems do not change."
    return f"Dashed vertical lines mark the change points: step {_listed(map(number, points))}."


def _problems(results: Results) -> list[Table | Plot]:
    hardness = tables.hardness_table(results)
    blocks: list[Table | Plot] = [hardness] if hardness.rows else []
    for setting in results.settings.values():
        chart = hardness_chart(results, setting)
        if chart:
            caption = (
                "The problems are sorted by diameter and split into groups of equal size. Each "
                "point is the mean final regret of a group, at its median diameter."
            )
            blocks.append(Plot(chart, caption, chart["title"]))
    return blocks


def _parameters(results: Results) -> Iterator[Plot]:
    for parameter in swept_parameters(results):
        for chart in parameter_charts(results, parameter):
            marked = [f"{m['label']} = {number(_whole(m['x']))}" for m in chart["marks"]]
            caption = f"Dashed vertical lines: {', '.join(marked)}." if marked else ""
            yield Plot(chart, caption, chart["title"])


def _whole(value: float) -> float:
    return int(value) if float(value).is_integer() else value


def _failures(failures: Sequence[Mapping[str, Any]]) -> Iterator[str | Code]:
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


def _origin(results: Results) -> Iterator[Code | Facts]:
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
