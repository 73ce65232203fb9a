"""The tables of a report: what was measured, formatted as text.

Regret means final regret; lower is better. A number in parentheses is a 95 % bootstrap interval
over problems; – means unknown. The first part holds the tables of an experiment, the second those
of a leaderboard.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np

from switchmdp.experiments.leaderboard import Row, Standing, Suite, trials
from switchmdp.experiments.results import Results, Setting
from switchmdp.reports import measures
from switchmdp.reports.adaptation import (
    MOST_SEGMENTS,
    adaptation_by_segment,
    detection,
    segment_boundaries,
    segment_regret,
)
from switchmdp.reports.claims import judge_all
from switchmdp.reports.formatting import (
    UNKNOWN,
    Table,
    count,
    number,
    percent,
    steps,
    with_interval,
)
from switchmdp.reports.ranking import Place, overall, setting_of, yardstick

MOST_PAIRED = 10  # agents; with more, each agent is only compared with the best
Board = Mapping[str, Sequence[Place]]  # the places of each row


# An experiment -----------------------------------------------------------------------------------


def setting_tables(setting: Setting, epsilon: float) -> list[Table]:
    """Return all tables of one setting."""
    by_segment = [segment_table(setting), adaptation_table(setting, epsilon)]
    return [summary_table(setting), paired_table(setting), *by_segment]


def summary_table(setting: Setting) -> Table:
    """Return one row per agent, in order of mean final regret.

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
        f"Regret after {number(setting.horizon)} steps on {count(setting.n_problems, 'problem')}, "
        "with 95 % bootstrap intervals over problems. “Better than” is the share of problems with "
        "lower regret. Episodes, sweeps of extended value iteration, ε-bad steps and seconds are "
        "means over problems; “failed” counts runs."
    )
    return Table(f"{setting.name}: final regret", columns, tuple(rows), note)


def short_table(setting: Setting) -> Table:
    """Return mean regret per agent, with counts of failed and unfinished runs if there are any."""
    counts = {
        "failed": [int(runs.failed.sum()) for runs in setting.agents.values()],
        "unfinished": [measures.unfinished_runs(runs) for runs in setting.agents.values()],
    }
    more = {name: dict(zip(setting.agents, n, strict=True)) for name, n in counts.items() if any(n)}
    rows = tuple(
        (
            agent,
            with_interval(measures.final_regret(setting, agent)),
            *(number(column[agent]) for column in more.values()),
        )
        for agent in _ranked(setting)
    )
    where = f"{number(setting.horizon)} steps on {count(setting.n_problems, 'problem')}"
    columns = ("agent", "mean (95 % interval)", *more)
    return Table(f"{setting.name}: regret after {where}", columns, rows)


def paired_table(setting: Setting) -> Table:
    """Compare agents pairwise on the same problems; the better agent comes first.

    >>> paired_table(measures.as_setting([10], {"a": [[2]], "b": [[1]]})).rows[0][:4]
    ('b', 'a', '-1.00 (-1.00 … -1.00)', '0.500 (0.500 … 0.500)')
    """
    ranked = _ranked(setting)
    all_pairs = len(ranked) <= MOST_PAIRED
    pairs = itertools.combinations(ranked, 2) if all_pairs else ((ranked[0], b) for b in ranked[1:])
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
    note = (
        "Mean final regret of the first agent minus, and divided by, that of the second, and the "
        "probability that the first has lower regret; with 95 % intervals."
    )
    if not all_pairs:
        note += f" With more than {MOST_PAIRED} agents, each is compared with the best only."
    columns = ("agent", "compared with", "difference", "ratio", "P(lower regret)", "problems")
    return Table(f"{setting.name}: paired comparisons", columns, rows, note)


def segment_table(setting: Setting) -> Table:
    """Return each agent's mean regret within each segment.

    >>> setting = measures.as_setting([10, 20], {"a": [[1, 5]]}, change_points=[11])
    >>> segment_table(setting).rows
    (('0', '1 … 10', '1', '1.00 (1.00 … 1.00)'), ('1', '11 … 20', '1', '4.00 (4.00 … 4.00)'))
    """
    note = "Mean regret within each segment. Segment 0 ends at the first change."

    def cells(agent: str) -> list[str]:
        return [with_interval(mean) for mean in segment_regret(setting, agent)]

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
            for each in adaptation_by_segment(setting, agent, epsilon)
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
        means = {a: measures.final_regret(setting, a).middle for a in setting.agents}
        columns.append(_starred([means.get(agent, math.nan) for agent in results.agents]))
    rows = tuple(zip(results.agents, *columns, strict=True))
    note = "Mean final regret over problems; * marks the lowest in each setting."
    return Table("Overview", ("agent", *results.settings), rows, note)


def claims_table(results: Results) -> Table:
    """Return each claim with its test, the measured numbers and the verdict.

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
    columns = ("claim", "tested as", "setting", "measured", "verdict")
    note = (
        "A claim is decided if the 95 % interval lies entirely on one side of the threshold; "
        "otherwise it is undecided."
    )
    return Table("Claims", columns, rows, note)


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


def _ranked(setting: Setting) -> list[str]:
    """Sort the agents by mean final regret; agents without a completed run come last."""
    means = {agent: measures.final_regret(setting, agent).middle for agent in setting.agents}
    return sorted(means, key=lambda agent: (math.isnan(means[agent]), means[agent]))


def _starred(values: Sequence[float], eligible: Sequence[bool] | None = None) -> list[str]:
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
    agents = _ranked(setting)
    columns = [cells(agent) for agent in agents]
    rows = []
    for j, (start, end) in enumerate(itertools.pairwise(segment_boundaries(setting).T)):
        present = ~np.isnan(end)
        spans = {(int(a) + 1, int(b)) for a, b in zip(start[present], end[present], strict=True)}
        first, last = min(spans)
        span = f"{number(first)} … {number(last)}" if len(spans) == 1 else "vary"
        rows.append((str(j), span, number(int(present.sum())), *(column[j] for column in columns)))
    if len(rows) == MOST_SEGMENTS:
        note += f" Only the first {MOST_SEGMENTS} segments are shown."
    names = ("segment", "steps", "problems", *agents)
    return Table(f"{setting.name}: {title}", names, tuple(rows), note)


# A leaderboard -----------------------------------------------------------------------------------


def best_rival(suite: Suite) -> str:
    """Describe the yardstick of rows in which no agent can know the change points.

    >>> from switchmdp.experiments.leaderboard import Contender
    >>> best_rival(Suite("s", (), (Contender("Mine", "psrl", ours=True),)))
    'the best rival of Mine'
    """
    return "the best rival" + f" of {' and '.join(suite.ours)}" * bool(suite.ours)


def row_table(suite: Suite, standing: Standing, places: Sequence[Place]) -> Table:
    """Return one row of the suite: every contender, in order of mean regret."""
    row, setting = standing.row, setting_of(standing)
    columns = ("rank", "agent", "chosen", "regret", "relative regret", "P(less than the next)",
               "steps to adapt", "µs per step")  # fmt: skip
    parameters = {one.name: one.tuned.parameter for one in suite.contenders if one.tuned}
    rows = tuple(
        (
            UNKNOWN if place.rank is None else str(place.rank),
            place.name,
            f"{parameters[place.name]} {_value(place.chosen)}" if place.chosen is not None else "",
            with_interval(place.regret),
            with_interval(place.relative),
            UNKNOWN if place.ahead is None else with_interval(place.ahead),
            steps(place.adaptation),
            number(place.seconds),  # seconds per million steps are microseconds per step
        )
        for place in places
    )
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
    if failed := sum(place.failed for place in places):
        note.append(f"{count(failed, 'run')} failed and {'is' if failed == 1 else 'are'} excluded.")
    note += _left_out(suite, row)
    return Table(f"{row.name}: every agent", columns, rows, " ".join(note))


def _left_out(suite: Suite, row: Row) -> list[str]:
    """Name the agents that do not take part in a row, with the reason."""
    reasons: dict[str, list[str]] = {}
    for name, reason in suite.left_out(row).items():
        reasons.setdefault(reason, []).append(name)
    return [f"Left out: {'; '.join(names)} ({reason})." for reason, names in reasons.items()]


def overall_tables(suite: Suite, standings: Sequence[Standing], board: Board) -> Iterator[Table]:
    """Yield relative regret in all rows, for small and for large problems, and the mean ranks."""
    totals = overall(suite, board)
    ranked = [not one.contender.told for one in totals]
    for large, title in (
        (False, "Relative regret, few states"),
        (True, "Relative regret, more states"),
    ):
        rows = [s.row.name for s in standings if s.row.large == large]
        if not rows:
            continue
        cells = []
        for row in rows:
            values = [one.relative.get(row, math.nan) for one in totals]
            positive = [
                allowed and value > 0 for allowed, value in zip(ranked, values, strict=True)
            ]
            cells.append(_starred(values, positive))
        lines = tuple(zip((one.contender.name for one in totals), *cells, strict=True))
        note = (
            "Mean regret divided by that of the row's yardstick; * marks the lowest among the "
            "agents that do not know the change points."
        )
        yield Table(title, ("agent", *rows), lines, note)
    totals_by_agent = tuple(
        (
            one.contender.name,
            number(one.mean_rank),
            UNKNOWN if one.contender.told else number(one.firsts),
            number(one.geometric_mean),
            number(one.rows),
        )
        for one in totals
    )
    columns = ("agent", "mean rank", "times first", "geometric mean of relative regret", "rows")
    note = (
        f"Over those of the {len(board)} rows in which the agent took part. Agents with known "
        "change points have no rank."
    )
    yield Table("All rows", columns, totals_by_agent, note)


def detector_table(suite: Suite, standings: Sequence[Standing]) -> Table:
    """Return how many changes each detector finds, its delay and its false alarms."""
    detectors = [one.name for one in suite.contenders if one.detects]
    rows = []
    for standing in standings:
        if standing.row.drifts:
            continue
        setting = setting_of(standing)
        for name in (n for n in detectors if n in setting.agents):
            score = detection(setting, name)
            if score is not None:
                rows.append((
                    standing.row.name, name, percent(score.detected.middle),
                    steps(score.delay), with_interval(score.false_alarms),
                ))  # fmt: skip
    columns = ("row", "agent", "changes detected", "median delay in steps",
               "false alarms per 100 000 steps")  # fmt: skip
    note = (
        "A change is detected if the agent restarts, fully or in part, before the next change. The "
        "delay is the median over all changes; a missed change has an infinite delay. Any other "
        "restart is a false alarm."
    )
    return Table("Detectors", columns, tuple(rows), note)


def adaptivity_table(suite: Suite, standings: Sequence[Standing]) -> Table:
    """Return what adaptivity costs on problems that do not change."""
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
    parameters = {one.name: one.tuned.parameter for one in suite.contenders if one.tuned}
    for standing in standings:
        for name, means in (trials(standing.tried) if standing.tried else {}).items():
            cells = [
                f"{_value(value)}: {number(mean)}" + "*" * (value == standing.choices[name])
                for value, mean in means.items()
            ]
            rows.append((standing.row.name, name, parameters[name], ", ".join(cells)))
    columns = ("row", "agent", "parameter", "value: mean pseudo-regret")
    note = (
        f"On the {suite.tuning_problems} tuning problems of each row; * marks the chosen value. If "
        "it is the first or the last one, a value outside the range might be better."
    )
    return Table("Chosen parameters", columns, tuple(rows), note)


def _value(value: float) -> str:
    return number(int(value)) if float(value).is_integer() else f"{value:g}"
