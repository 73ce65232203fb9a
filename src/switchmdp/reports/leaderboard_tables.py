"""The leaderboard's tables, as data: rows, all of them together, detectors, adaptivity, choices."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

from switchmdp.experiments.campaign import Standing
from switchmdp.experiments.suite import Suite, trials
from switchmdp.reports.alarms import detection
from switchmdp.reports.measures import ratio
from switchmdp.reports.numbers import UNKNOWN, number, percent, with_interval
from switchmdp.reports.ranking import Place, overall, setting_of, yardstick
from switchmdp.reports.table import Table

Board = Mapping[str, Sequence[Place]]


def row_table(suite: Suite, standing: Standing, found: Sequence[Place]) -> Table:
    """One row of the suite: every contender in a line, the best first."""
    row, setting = standing.row, setting_of(standing)
    columns = ("rank", "agent", "chosen", "regret", "relative regret", "P(less than the next)",
               "steps to adapt", "seconds per million steps")  # fmt: skip
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
            number(place.adaptation),
            number(place.seconds),
        )
        for place in found
    )
    note = (
        f"After {number(row.horizon)} steps on {number(setting.n_problems)} problems. Relative to "
        f"{yardstick(suite, standing) or 'nobody'}"
    )
    note += ", the best rival of ours." if row.drifts else ", the best of those told the changes."
    if row.changes and not row.drifts:
        within = number(standing.results.epsilon)
        note += (
            f" Steps to adapt: the median over changes until it loses less than {within} a step."
        )
    if failed:
        note += f" {failed} runs failed, and count for nothing."
    reasons: dict[str, list[str]] = {}
    for name, reason in suite.left_out(row).items():
        reasons.setdefault(reason, []).append(name)
    note += "".join(f" Left out: {'; '.join(who)} ({why})." for why, who in reasons.items())
    return Table(row.name, columns, rows, note)


def overall_tables(suite: Suite, standings: Sequence[Standing], board: Board) -> Iterator[Table]:
    """All rows beside each other: small problems, then larger ones; and the ranks over all."""
    everyone = overall(suite, board)
    for large, title in ((False, "Relative regret, few states"), (True, "… more states")):
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
        note = "Mean regret by that of the row's yardstick; * marks the lowest of those not told."
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
    columns = ("agent", "mean rank", "first in", "geometric mean of relative regret", "rows")
    note = f"Of {len(board)} rows, over those that an agent took part in."
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
                    number(found.delay), with_interval(found.false_alarms),
                ))  # fmt: skip
    columns = ("row", "agent", "changes found", "median delay", "false alarms in 100 000 steps")
    note = (
        "Found: the agent starts over before the next change. The delay is the median over all "
        "changes, a missed one being infinitely late. Any other restart is a false alarm."
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
    columns = ("row", "agent", "never forgets", "regret by that of the latter")
    note = "Where nothing changes: an agent against its version that never forgets."
    return Table("What adaptivity costs", columns, tuple(rows), note)


def choices_table(suite: Suite, standings: Sequence[Standing]) -> Table:
    """Mean regret of everything that was tried on the tuning problems; * marks what was chosen."""
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
        f"On {suite.tuning_problems} tuning problems, none of which is reported on. A choice at "
        "the end of its scale may be too narrow a scale."
    )
    return Table("What was chosen", columns, tuple(rows), note)


def _value(value: float) -> str:
    return number(int(value)) if float(value).is_integer() else f"{value:g}"
