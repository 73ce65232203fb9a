"""Tables of a report: numbers as text, tables as text and Markdown, and what was measured.

Regret means final regret; lower is better. A number in parentheses is a 95 % bootstrap interval
over problems; – means unknown.

A cell may hold any text, including names from a configuration file. Characters that cannot be
printed (line breaks, control characters) become spaces, and characters with a meaning in Markdown
or HTML are escaped.
"""

from __future__ import annotations

import html
import itertools
import math
import textwrap
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from switchmdp.experiments.results import Results, Setting
from switchmdp.reports import measures
from switchmdp.reports.resampling import Interval

UNKNOWN = "–"
WIDEST = 44  # characters per line of a cell
MOST_PAIRED = 10  # agents; with more, each agent is only compared with the best
Item = TypeVar("Item")


# Numbers -----------------------------------------------------------------------------------------


def number(x: float) -> str:
    """Format a number with three significant digits, or with all digits of its integer part.

    >>> [number(x) for x in (12_539.4, 53.94, 0.5, -1.0, 4e-7, 0.0)]
    ['12 539', '53.9', '0.500', '-1.00', '4.00e-07', '0']
    >>> [number(x) for x in (7, 1_000_000, float("inf"), float("nan"))]
    ['7', '1 000 000', '∞', '–']
    """
    if math.isnan(x):
        return UNKNOWN
    if math.isinf(x):
        return "∞" if x > 0 else "-∞"
    if isinstance(x, int) or abs(x) >= 999.5 or x == 0:
        return f"{x + 0:,.0f}".replace(",", " ")
    rounded = float(f"{x:.3g}")
    exponent = math.floor(math.log10(abs(rounded)))
    return f"{rounded:.2e}" if exponent < -4 else f"{rounded:.{max(0, 2 - exponent)}f}"


def steps(n: float) -> str:
    """Format a number of steps as a whole number; it may be infinite or unknown.

    >>> steps(99.0), steps(float("inf")), steps(float("nan"))
    ('99', '∞', '–')
    """
    return number(int(n) if math.isfinite(n) else n)


def value(parameter: float) -> str:
    """Format the value of a parameter.

    >>> value(2000.0), value(0.05)
    ('2 000', '0.05')
    """
    return number(int(parameter)) if float(parameter).is_integer() else f"{parameter:g}"


def percent(share: float) -> str:
    """Format a share as a percentage.

    >>> percent(0.1234), percent(1.0), percent(float("nan"))
    ('12.3 %', '100.0 %', '–')
    """
    return UNKNOWN if math.isnan(share) else f"{round(100 * share, 1) + 0.0:.1f} %"


def with_interval(interval: Interval) -> str:
    """Format an estimate with its 95 % interval.

    >>> with_interval(Interval(12_539.0, 12_001.0, 13_000.0))
    '12 539 (12 001 … 13 000)'
    """
    if math.isnan(interval.middle):
        return UNKNOWN
    return f"{number(interval.middle)} ({number(interval.low)} … {number(interval.high)})"


def count(n: int, noun: str) -> str:
    """Format a count with its noun.

    >>> count(1, "problem"), count(2000, "problem")
    ('1 problem', '2 000 problems')
    """
    return f"{number(n)} {noun}" if n == 1 else f"{number(n)} {noun}s"


def printable(text: str) -> str:
    """Replace characters that cannot be printed, such as line breaks, by spaces.

    >>> printable("two\\nlines")
    'two lines'
    """
    return "".join(character if character.isprintable() else " " for character in text)


# Tables as text and Markdown ---------------------------------------------------------------------


@dataclass(frozen=True)
class Table:
    """A title, named columns, rows of text cells, and a note.

    >>> table = Table("Sizes", ("name", "size"), (("pin", "7"), ("house", "12 000")), "In mm.")
    >>> print(table.text())
    Sizes
    <BLANKLINE>
    name     size
    -----  ------
    pin         7
    house  12 000
    <BLANKLINE>
    In mm.
    >>> print(table.markdown())
    **Sizes**
    <BLANKLINE>
    | name | size |
    | --- | ---: |
    | pin | 7 |
    | house | 12 000 |
    <BLANKLINE>
    In mm.
    """

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str = ""

    @classmethod
    def of(
        cls, title: str, items: Iterable[Item], columns: Mapping[str, Callable[[Item], str]],
        note: str = "",
    ) -> Table:  # fmt: skip
        """Return a table with one row per item; each column computes its cell from the item."""
        rows = tuple(tuple(cell(item) for cell in columns.values()) for item in items)
        return cls(title, tuple(columns), rows, note)

    def text(self) -> str:
        """Return the table as aligned plain text for a terminal."""
        wrapped = [[_lines(cell) for cell in row] for row in (self.columns, *self.rows)]
        widths = [
            max(_width(line) for cell in column for line in cell)
            for column in zip(*wrapped, strict=True)
        ]
        blocks = []
        for row in wrapped:
            height = max(map(len, row))
            cells = [cell + [""] * (height - len(cell)) for cell in row]
            blocks.append(
                [_aligned(line, widths, self.numeric) for line in zip(*cells, strict=True)]
            )
        separator = [""] if any(len(block) > 1 for block in blocks[1:]) else []
        body = [line for block in blocks[1:] for line in [*block, *separator]]
        rule = "  ".join("-" * width for width in widths)
        lines = [printable(self.title), "", *blocks[0], rule, *body]
        return "\n".join(lines).rstrip() + (f"\n\n{printable(self.note)}" if self.note else "")

    def markdown(self) -> str:
        """Return the table as GitHub-flavoured Markdown."""
        rules = ["---:" if numeric else "---" for numeric in self.numeric]
        rows = [[_escaped(cell) for cell in row] for row in (self.columns, *self.rows)]
        lines = [f"| {' | '.join(row)} |" for row in (rows[0], rules, *rows[1:])]
        parts = [f"**{_escaped(self.title)}**", "\n".join(lines), _escaped(self.note)]
        return "\n\n".join(part for part in parts if part)

    @property
    def numeric(self) -> list[bool]:
        """For each column, whether it holds numbers, which are aligned to the right."""
        columns = zip(*self.rows, strict=True) if self.rows else [("",)] * len(self.columns)
        return [all(cell[:1] in {*"0123456789-∞", UNKNOWN} for cell in col) for col in columns]


def _escaped(text: str) -> str:
    safe = html.escape(printable(text), quote=False)
    return "".join(f"\\{character}" if character in "\\|*_`[]" else character for character in safe)


def _lines(cell: str) -> list[str]:
    return textwrap.wrap(printable(cell), WIDEST) or [""]


def _width(text: str) -> int:
    """Count the terminal columns that the text takes up."""
    wide = sum(unicodedata.east_asian_width(character) in "WF" for character in text)
    return len(text) + wide - sum(unicodedata.combining(character) > 0 for character in text)


def _aligned(line: Sequence[str], widths: Sequence[int], numeric: Sequence[bool]) -> str:
    cells = []
    for cell, width, to_the_right in zip(line, widths, numeric, strict=True):
        gap = " " * (width - _width(cell))
        cells.append(gap + cell if to_the_right else cell + gap)
    return "  ".join(cells).rstrip()


# Tables of an experiment -------------------------------------------------------------------------


def setting_tables(setting: Setting, epsilon: float) -> list[Table]:
    """Return all tables of one setting."""
    by_segment = [segment_table(setting), adaptation_table(setting, epsilon)]
    return [summary_table(setting), paired_table(setting), *by_segment]


def summary_table(setting: Setting) -> Table:
    """Return one row per agent, in order of mean final regret.

    >>> summary_table(measures.as_setting([10], {"a": [[2]], "b": [[1]]})).rows[0][:3]
    ('b', '1.00 (1.00 … 1.00)', '1.00 (1.00 … 1.00)')
    """
    reference, agents = next(iter(setting.agents), ""), list(setting.agents)
    means = dict(zip(agents, measures.final_regret_of(setting, agents), strict=True))
    pairs = [(agent, reference) for agent in agents]
    better = dict(zip(agents, measures.probabilities_of_improvement(setting, pairs), strict=True))

    def quantile(share: float) -> Callable[[str], str]:
        return lambda agent: number(measures.final_quantiles(setting, agent, [share])[0])

    def cost(name: str) -> Callable[[str], str]:
        return lambda agent: number(measures.mean_cost(setting, agent, name))

    def better_than_reference(agent: str) -> str:
        return UNKNOWN if agent == reference else percent(better[agent].middle)

    columns: dict[str, Callable[[str], str]] = {
        "agent": str,
        "mean regret": lambda agent: with_interval(means[agent]),
        "interquartile mean": lambda agent: with_interval(measures.final_iqm(setting, agent)),
        "median": quantile(0.5),
        "5 %": quantile(0.05),
        "95 %": quantile(0.95),
        f"better than {reference}": better_than_reference,
        "episodes": cost("episodes"),
        "sweeps": cost("sweeps"),
        "ε-bad steps": cost("bad_steps"),
        "seconds per million steps": lambda agent: number(
            measures.seconds_per_million_steps(setting, agent)
        ),
        "failed": lambda agent: number(int(setting.agents[agent].failed.sum())),
    }
    note = (
        f"Regret {_after(setting)}, with 95 % bootstrap intervals over problems. “Better than” is "
        "the share of problems with lower regret. Episodes, sweeps of extended value iteration, "
        "ε-bad steps and seconds are means over problems; “failed” counts runs."
    )
    return Table.of(f"{setting.name}: final regret", ranked_agents(setting), columns, note)


def short_table(setting: Setting) -> Table:
    """Return mean regret per agent, with counts of failed and unfinished runs if there are any."""
    counts = {
        "failed": {name: int(runs.failed.sum()) for name, runs in setting.agents.items()},
        "unfinished": {name: measures.unfinished_runs(r) for name, r in setting.agents.items()},
    }
    shown = {name: column for name, column in counts.items() if any(column.values())}
    ranked = ranked_agents(setting)
    rows = tuple(
        (agent, with_interval(mean), *(number(column[agent]) for column in shown.values()))
        for agent, mean in zip(ranked, measures.final_regret_of(setting, ranked), strict=True)
    )
    columns = ("agent", "mean (95 % interval)", *shown)
    return Table(f"{setting.name}: regret {_after(setting)}", columns, rows)


def _after(setting: Setting) -> str:
    return f"after {number(setting.horizon)} steps on {count(setting.n_problems, 'problem')}"


def paired_table(setting: Setting) -> Table:
    """Compare agents pairwise on the same problems; the better agent comes first.

    >>> paired_table(measures.as_setting([10], {"a": [[2]], "b": [[1]]})).rows[0][:4]
    ('b', 'a', '-1.00 (-1.00 … -1.00)', '0.500 (0.500 … 0.500)')
    """
    ranked = ranked_agents(setting)
    all_pairs = len(ranked) <= MOST_PAIRED
    pairs = (
        list(itertools.combinations(ranked, 2))
        if all_pairs
        else [(ranked[0], b) for b in ranked[1:]]
    )

    def measured(
        measure: Callable[[Setting, list[tuple[str, str]]], list[Interval]],
    ) -> Callable[[tuple[str, str]], str]:
        found = dict(zip(pairs, measure(setting, pairs), strict=True))
        return lambda pair: with_interval(found[pair])

    columns: dict[str, Callable[[tuple[str, str]], str]] = {
        "agent": lambda pair: pair[0],
        "compared with": lambda pair: pair[1],
        "difference": measured(measures.differences),
        "ratio": measured(measures.ratios),
        "P(lower regret)": measured(measures.probabilities_of_improvement),
        "problems": lambda pair: number(measures.shared_problems(setting, *pair)),
    }
    note = (
        "Mean final regret of the first agent minus, and divided by, that of the second, and the "
        "probability that the first has lower regret; with 95 % intervals."
    )
    if not all_pairs:
        note += f" With more than {MOST_PAIRED} agents, each is compared with the best only."
    return Table.of(f"{setting.name}: paired comparisons", pairs, columns, note)


def segment_table(setting: Setting) -> Table:
    """Return each agent's mean regret within each segment.

    >>> setting = measures.as_setting([10, 20], {"a": [[1, 5]]}, change_points=[11])
    >>> segment_table(setting).rows
    (('0', '1 … 10', '1', '1.00 (1.00 … 1.00)'), ('1', '11 … 20', '1', '4.00 (4.00 … 4.00)'))
    """
    note = "Mean regret within each segment. Segment 0 ends at the first change."

    def cells(agent: str) -> list[str]:
        return [with_interval(mean) for mean in measures.segment_regret(setting, agent)]

    return _by_segment(setting, "regret by segment", note, cells)


def adaptation_table(setting: Setting, epsilon: float) -> Table:
    """Return each agent's median number of steps from a change until it has adapted.

    >>> setting = measures.as_setting([1000, 2000], {"a": [[300, 310], [0, 999]]})
    >>> adaptation_table(setting, 0.1).rows
    (('0', '1 … 2 000', '2', '∞ (50.0 % never)'),)
    """
    note = (
        "Median number of steps from the start of the segment until the mean pseudo-regret of 1000 "
        f"steps stays at most ε = {number(epsilon)} for the rest of the segment. In parentheses: "
        "the share of problems on which this never happens."
    )

    def cells(agent: str) -> list[str]:
        return [
            UNKNOWN
            if math.isnan(each.median)
            else f"{number(each.median)} ({percent(each.never)} never)"
            for each in measures.adaptation_by_segment(setting, agent, epsilon)
        ]

    return _by_segment(setting, "steps to adapt", note, cells)


def overview_table(results: Results) -> Table:
    """Return the mean final regret of every agent in every setting.

    >>> setting = measures.as_setting([10], {"a": [[2]], "b": [[1]]})
    >>> overview_table(Results("", 0.1, {"s": setting})).rows
    (('a', '2.00'), ('b', '1.00*'))
    """
    columns = []
    for setting in results.settings.values():
        means = {a: measures.mean_final_regret(setting, a) for a in setting.agents}
        columns.append(starred([means.get(agent, math.nan) for agent in results.agents]))
    rows = tuple(zip(results.agents, *columns, strict=True))
    note = "Mean final regret over problems; * marks the lowest in each setting."
    return Table("Overview", ("agent", *results.settings), rows, note)


def hardness_table(results: Results) -> Table:
    """Return quantiles of each hardness measure over the problems of each setting.

    >>> hardness_table(Results("nothing", 0.1, {})).rows
    ()
    """
    rows = []
    for setting in results.settings.values():
        for name, values in setting.hardness.items():
            known = np.sort(values[~np.isnan(values)])
            if len(known) == 0:
                continue
            # Do not interpolate: a diameter may be infinite.
            ranks = [max(0, math.ceil(q * len(known)) - 1) for q in measures.QUANTILES]
            quantiles = [number(float(known[rank])) for rank in ranks]
            rows.append((setting.name, name.replace("_", " "), number(len(known)), *quantiles))
    columns = ("setting", "hardness", "problems", *(f"{q:.0%}" for q in measures.QUANTILES))
    note = "Quantiles over the problems of a setting, without interpolation."
    return Table("Hardness of the problems", columns, tuple(rows), note)


def ranked_agents(setting: Setting) -> list[str]:
    """Sort the agents by mean final regret; agents without a completed run come last."""
    means = {agent: measures.mean_final_regret(setting, agent) for agent in setting.agents}
    return sorted(means, key=lambda agent: (math.isnan(means[agent]), means[agent]))


def starred(values: Sequence[float], eligible: Sequence[bool] | None = None) -> list[str]:
    """Format numbers, with a star at the lowest among the eligible ones."""
    eligible = eligible or [True] * len(values)
    candidates = [v for v, allowed in zip(values, eligible, strict=True) if allowed and v == v]
    lowest = min(candidates, default=math.nan)
    return [
        number(value) + "*" * (allowed and value == lowest)
        for value, allowed in zip(values, eligible, strict=True)
    ]


def _by_segment(
    setting: Setting, title: str, note: str, cells: Callable[[str], list[str]]
) -> Table:
    """Return a table with a row per segment and a column per agent."""
    agents = ranked_agents(setting)
    columns = [cells(agent) for agent in agents]
    rows = []
    for j, (start, end) in enumerate(itertools.pairwise(measures.segment_boundaries(setting).T)):
        present = ~np.isnan(end)
        spans = {(int(a) + 1, int(b)) for a, b in zip(start[present], end[present], strict=True)}
        first, last = min(spans)
        span = f"{number(first)} … {number(last)}" if len(spans) == 1 else "vary"
        rows.append((str(j), span, number(int(present.sum())), *(column[j] for column in columns)))
    if len(rows) == measures.MOST_SEGMENTS:
        note += f" Only the first {measures.MOST_SEGMENTS} segments are shown."
    names = ("segment", "steps", "problems", *agents)
    return Table(f"{setting.name}: {title}", names, tuple(rows), note)
