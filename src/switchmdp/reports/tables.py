"""Tables as data: what was measured, in words and numbers that a page or a terminal can show.

Regret is final regret, and lower is better. What stands in parentheses after a number is its 95 %
bootstrap interval over problems; – is what is not known.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import numpy as np

from switchmdp.experiments.results import Results, Setting
from switchmdp.reports import measures
from switchmdp.reports.claims import judge_all
from switchmdp.reports.curves import MOST_SEGMENTS, boundaries
from switchmdp.reports.numbers import UNKNOWN, number, percent, with_interval
from switchmdp.reports.table import Table

__all__ = [
    "Table",
    "adaptation_table",
    "claims_table",
    "hardness_table",
    "paired_table",
    "segment_table",
    "summary_table",
]

MOST_PAIRED = 10  # agents up to which every pair is compared


def summary_table(setting: Setting) -> Table:
    """Every agent in a line, the one with the lowest mean final regret first.

    >>> summary_table(measures.as_setting([10], {"a": [[2]], "b": [[1]]})).rows[0][:3]
    ('b', '1.00 (1.00 … 1.00)', '1.00 (1.00 … 1.00)')
    """
    reference = next(iter(setting.agents), "")
    columns = (
        "agent", "mean regret", "interquartile mean", "median", "5 %", "95 %",
        f"better than {reference}", "episodes", "sweeps", "ε-bad steps",
        "seconds per million steps", "failed",
    )  # fmt: skip
    rows = []
    for agent in _ranked(setting):
        low, median, high = measures.final_quantiles(setting, agent, (0.05, 0.5, 0.95))
        better = measures.probability_of_improvement(setting, agent, reference).middle
        rows.append((
            agent,
            with_interval(measures.final_regret(setting, agent)),
            with_interval(measures.final_iqm(setting, agent)),
            *(number(quantile) for quantile in (median, low, high)),
            UNKNOWN if agent == reference else percent(better),
            number(measures.episodes(setting, agent).middle),
            number(measures.sweeps(setting, agent).middle),
            number(measures.bad_steps(setting, agent).middle),
            number(measures.seconds_per_million_steps(setting, agent).middle),
            number(int(setting.agents[agent].failed.sum())),
        ))  # fmt: skip
    note = (
        f"Regret after {number(setting.horizon)} steps on {number(setting.n_problems)} problems, "
        "with 95 % bootstrap intervals over problems. The last columns are means over problems."
    )
    return Table(f"{setting.name}: final regret", columns, tuple(rows), note)


def paired_table(setting: Setting) -> Table:
    """Agents compared on the same problems, two at a time, the better one first.

    >>> paired_table(measures.as_setting([10], {"a": [[2]], "b": [[1]]})).rows[0][:4]
    ('b', 'a', '-1.00 (-1.00 … -1.00)', '0.500 (0.500 … 0.500)')
    """
    ranked = _ranked(setting)
    every = len(ranked) <= MOST_PAIRED
    pairs = itertools.combinations(ranked, 2) if every else ((ranked[0], b) for b in ranked[1:])
    rows = tuple(
        (
            a,
            b,
            with_interval(measures.difference(setting, a, b)),
            with_interval(measures.ratio(setting, a, b)),
            with_interval(measures.probability_of_improvement(setting, a, b)),
            number(measures.shared_problems(setting, a, b)),
        )
        for a, b in pairs
    )
    note = "Mean final regret of the first less, and by, that of the second, with 95 % intervals."
    if not every:
        note += f" More than {MOST_PAIRED} agents: each is compared with the best only."
    columns = ("agent", "against", "difference", "ratio", "P(lower regret)", "problems")
    return Table(f"{setting.name}: paired comparisons", columns, rows, note)


def segment_table(setting: Setting) -> Table:
    """Mean regret earned by each agent between one change and the next.

    >>> setting = measures.as_setting([10, 20], {"a": [[1, 5]]}, change_points=[11])
    >>> segment_table(setting).rows
    (('0', '1 … 10', '1', '1.00 (1.00 … 1.00)'), ('1', '11 … 20', '1', '4.00 (4.00 … 4.00)'))
    """
    note = "Mean regret within each segment; 0 is the one before the first change."

    def cells(agent: str) -> list[str]:
        return [with_interval(found) for found in measures.segment_regret(setting, agent)]

    return _by_segment(setting, "regret by segment", note, cells)


def adaptation_table(setting: Setting, epsilon: float) -> Table:
    """Median steps from a change until an agent is within ε of the best gain, for good.

    >>> setting = measures.as_setting([1000, 2000], {"a": [[300, 310], [0, 999]]})
    >>> adaptation_table(setting, 0.1).rows
    (('0', '1 … 2 000', '2', '∞ (50.0 % never)'),)
    """
    note = (
        f"Median number of steps until the mean pseudo-regret of 1000 steps stays within "
        f"ε = {number(epsilon)} up to the segment's end, and on how many problems it never does."
    )

    def cells(agent: str) -> list[str]:
        return [
            UNKNOWN
            if math.isnan(found.median)
            else f"{number(found.median)} ({percent(found.never)} never)"
            for found in measures.adaptation(setting, agent, epsilon)
        ]

    return _by_segment(setting, "steps to adapt", note, cells)


def overview_table(results: Results) -> Table:
    """Mean final regret of every agent in every setting; the lowest of a setting is starred.

    >>> setting = measures.as_setting([10], {"a": [[2]], "b": [[1]]})
    >>> overview_table(Results("", 0.1, {"s": setting})).rows
    (('a', '2.00'), ('b', '1.00*'))
    """
    columns = []
    for setting in results.settings.values():
        means = {a: measures.final_regret(setting, a).middle for a in setting.agents}
        lowest = min((mean for mean in means.values() if not math.isnan(mean)), default=math.nan)
        found = [means.get(agent, math.nan) for agent in results.agents]
        columns.append([number(mean) + "*" * (mean == lowest) for mean in found])
    rows = tuple(zip(results.agents, *columns, strict=True))
    note = "Mean final regret over problems; * marks the lowest of a setting."
    return Table("Overview", ("agent", *results.settings), rows, note)


def claims_table(results: Results) -> Table:
    """Each claim, what was tested, what was measured, and what follows.

    >>> claims_table(Results("nothing", 0.1, {})).rows
    ()
    """
    rows = tuple(
        (
            verdict.claim.quote,
            verdict.claim.reading,
            verdict.claim.setting,
            verdict.text,
            verdict.outcome,
        )
        for verdict in judge_all(results)
    )
    columns = ("claim", "tested", "setting", "measured", "verdict")
    note = "A 95 % interval wholly on one side decides; otherwise the claim is undecided."
    return Table("Claims", columns, rows, note)


def hardness_table(results: Results) -> Table:
    """How hard the problems of each setting are.

    >>> hardness_table(Results("nothing", 0.1, {})).rows
    ()
    """
    rows = []
    for setting in results.settings.values():
        for name, values in setting.hardness.items():
            known = np.sort(values[~np.isnan(values)])
            if len(known) == 0:
                continue
            # No interpolation: between two infinite diameters there is nothing.
            ranks = [max(0, math.ceil(q * len(known)) - 1) for q in measures.QUANTILES]
            quantiles = [number(float(known[rank])) for rank in ranks]
            rows.append((setting.name, name.replace("_", " "), number(len(known)), *quantiles))
    columns = ("setting", "hardness", "problems", *(f"{q:.0%}" for q in measures.QUANTILES))
    note = "Quantiles over the problems of a setting; each is one problem's."
    return Table("Hardness of the problems", columns, tuple(rows), note)


def _ranked(setting: Setting) -> list[str]:
    """The agents by mean final regret; those that never completed a run last."""
    means = {agent: measures.final_regret(setting, agent).middle for agent in setting.agents}
    return sorted(means, key=lambda agent: (math.isnan(means[agent]), means[agent]))


def _by_segment(
    setting: Setting, title: str, note: str, cells: Callable[[str], list[str]]
) -> Table:
    """A row for each segment, and in it a cell for each agent."""
    agents = _ranked(setting)
    steps = boundaries(setting)
    columns = [cells(agent) for agent in agents]
    rows = []
    for j, (start, end) in enumerate(itertools.pairwise(steps.T)):
        there = ~np.isnan(end)
        spans = {(int(a) + 1, int(b)) for a, b in zip(start[there], end[there], strict=True)}
        first, last = min(spans)
        span = f"{number(first)} … {number(last)}" if len(spans) == 1 else "differ"
        row = (str(j), span, number(int(there.sum())), *(column[j] for column in columns))
        rows.append(row)
    if len(rows) == MOST_SEGMENTS:
        note += f" Of the segments of a problem the first {MOST_SEGMENTS} are shown."
    names = ("segment", "steps", "problems", *agents)
    return Table(f"{setting.name}: {title}", names, tuple(rows), note)
