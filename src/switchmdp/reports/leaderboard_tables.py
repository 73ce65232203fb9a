"""The leaderboard's tables, as data: rows, all of them together, detectors, adaptivity, choices."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

from switchmdp.experiments.leaderboard import Row, Standing, Suite, trials
from switchmdp.reports.alarms import detection
from switchmdp.reports.measures import ratio
from switchmdp.reports.numbers import UNKNOWN, number, percent, with_interval
from switchmdp.reports.ranking import Place, overall, setting_of, yardstick
from switchmdp.reports.table import Table

Board = Mapping[str, Sequence[Place]]


def best_rival(suite: Suite) -> str:
    """What the yardstick is where nobody is told.

    >>> from switchmdp.experiments.leaderboard import Contender
    >>> best_rival(Suite("s", (), (Contender("Mine", "psrl", ours=True),)))
    'the best rival of Mine'
    """
    return "the best rival" + f" of {' and '.join(suite.ours)}" * bool(suite.ours)


def row_table(suite: Suite, standing: Standing, found: Sequence[Place]) -> Table:
    """One row of the suite: every contender in a line, the best first."""
    row, setting = standing.row, setting_of(standing)
    columns = ("rank", "agent", "chosen", "regret", "relative regret", "P(less than the next)",
               "steps to adapt", "µs per step")  # fmt: skip
    parameters = {one.name: one.tuned.parameter for one in suite.contenders if one.tuned}
    failed = sum(place.failed for place in found)
    rows = tuple(
        (
            UNKNOWN if place.rank is None else str(place.rank),
            place.name,
            f"{parameters[place.name]} {_value(place.chosen)}" if place.chosen is not None else "",
            with_interval(place.regret),
            with_interval(place.relative),
            UNKNOWN if place.ahead is None else with_interval(place.ahead),
            _whole(place.adaptation),
            number(place.seconds),  # for a million steps
        )
        for place in found
    )
    note = [f"After {number(row.horizon)} steps on {number(setting.n_problems)} problems."]
    if measure := yardstick(suite, standing):
        why = best_rival(suite) if row.drifts else "the best of those told the changes"
        note.append(f"The yardstick is “{measure}”, {why}.")
    if row.changes and not row.drifts:
        note.append(
            "Steps to adapt: from a change until the agent loses at most "
            f"{standing.results.epsilon:g} a step up to the next one; the median over all changes, "
            f"known to within {number(int(setting.times[0]))} steps."
        )
    if failed:
        note.append(f"{failed} runs failed and are not counted.")
    return Table(f"{row.name}: every agent", columns, rows, " ".join([*note, *_absent(suite, row)]))


def _absent(suite: Suite, row: Row) -> list[str]:
    """Who is left out, and why."""
    reasons: dict[str, list[str]] = {}
    for name, reason in suite.left_out(row).items():
        reasons.setdefault(reason, []).append(name)
    return [f"Left out: {'; '.join(who)} ({why})." for why, who in reasons.items()]


def overall_tables(suite: Suite, standings: Sequence[Standing], board: Board) -> Iterator[Table]:
    """All rows beside each other: small problems, then larger ones; and the ranks over all."""
    everyone = overall(suite, board)
    for large, title in (
        (False, "Relative regret, few states"),
        (True, "Relative regret, more states"),
    ):
        rows = [s.row.name for s in standings if s.row.large == large]
        if not rows:
            continue
        lines = []
        rivals = [one for one in everyone if not one.contender.told]
        lowest = [
            min((v for one in rivals if (v := one.relative.get(row, math.nan)) > 0), default=0.0)
            for row in rows
        ]
        for one in everyone:
            values = [one.relative.get(row, math.nan) for row in rows]
            starred = [
                not one.contender.told and v == best for v, best in zip(values, lowest, strict=True)
            ]
            cells = [number(v) + "*" * star for v, star in zip(values, starred, strict=True)]
            lines.append((one.contender.name, *cells))
        note = "Mean regret in units of the row's yardstick; * marks the lowest of those not told."
        yield Table(title, ("agent", *rows), tuple(lines), note)
    lines = [
        (
            one.contender.name,
            number(one.mean_rank),
            number(one.firsts) if not one.contender.told else UNKNOWN,
            number(one.geometric_mean),
            number(one.rows),
        )
        for one in everyone
    ]
    columns = ("agent", "mean rank", "times first", "geometric mean of relative regret", "rows")
    note = (
        f"Over those of the {len(board)} rows that an agent took part in. Who is told has no rank."
    )
    yield Table("All rows", columns, tuple(lines), note)


def detector_table(suite: Suite, standings: Sequence[Standing]) -> Table:
    """Which changes detectors find, how late, and their false alarms."""
    detectors = [one.name for one in suite.contenders if one.detects]
    rows = []
    for standing in standings:
        if standing.row.drifts:
            continue
        setting = setting_of(standing)
        for name in (n for n in detectors if n in setting.agents):
            found = detection(setting, name)
            if found is not None:
                rows.append((
                    standing.row.name, name, percent(found.found.middle),
                    _whole(found.delay), with_interval(found.false_alarms),
                ))  # fmt: skip
    columns = ("row", "agent", "changes found", "median delay in steps",
               "false alarms in 100 000 steps")  # fmt: skip
    note = (
        "Found: the agent starts over, or forgets a part, before the next change. The delay is the "
        "median over all changes, a missed one being infinitely late. Any other restart is a false "
        "alarm."
    )
    return Table("Detectors", columns, tuple(rows), note)


def adaptivity_table(suite: Suite, standings: Sequence[Standing]) -> Table:
    """What adaptivity costs where nothing changes."""
    rows = []
    for standing in (s for s in standings if not s.row.changes):
        setting = setting_of(standing)
        for one in suite.contenders:
            if one.unforgetting in setting.agents and one.name in setting.agents:
                cost = ratio(setting, one.name, one.unforgetting)
                rows.append((standing.row.name, one.name, one.unforgetting, with_interval(cost)))
    columns = ("row", "agent", "its version that never forgets", "regret divided by that one's")
    note = "Ratios of mean regret where nothing changes: 1 would be for free."
    return Table("What adaptivity costs", columns, tuple(rows), note)


def choices_table(suite: Suite, standings: Sequence[Standing]) -> Table:
    """Mean pseudo-regret of all that was tried on the tuning problems; * marks what was chosen."""
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
        f"On the {suite.tuning_problems} tuning problems of each row; * marks the value chosen. "
        "Where it is the first or the last, a wider scale might hold a better one."
    )
    return Table("What was chosen", columns, tuple(rows), note)


def _whole(steps: float) -> str:
    """Steps, of which there is no half; none at all, or infinitely many, may be known."""
    return number(int(steps) if math.isfinite(steps) else steps)


def _value(value: float) -> str:
    return number(int(value)) if float(value).is_integer() else f"{value:g}"
