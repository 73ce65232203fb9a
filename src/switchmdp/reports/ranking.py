"""Rank the agents in each row of a leaderboard's suite, and over all rows, with their tables.

Relative regret is regret divided by that of the row's *yardstick*: the best agent with known change
points or, where the problem changes continually, the best rival of our own agents. The yardstick
is chosen on the reported problems, which can only favour it: relative regret is not understated.
Agents with known change points have no rank. Agents with equal regret share a rank.

>>> from switchmdp.experiments.results import Results
>>> from switchmdp.experiments.leaderboard import Row
>>> from switchmdp.experiments.results import as_setting
>>> row = Row("r", "random")
>>> suite = Suite("s", (row,), (Contender("a", "ucrl2"), Contender("b", "oracle", told=True)))
>>> setting = as_setting([100], {"a": [[6.0], [9.0]], "b": [[4.0], [6.0]]})
>>> standing = Standing(row, None, {}, Results("", 0.1, {"r": setting}))
>>> yardstick(suite, standing)
'b'
>>> ranked = places(suite, standing)
>>> [(place.name, place.rank, place.relative.middle) for place in ranked]
[('b', None, 1.0), ('a', 1, 1.5)]
>>> [(one.contender.name, one.firsts) for one in overall(suite, {"r": ranked})]
[('a', 1), ('b', 0)]
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from switchmdp.experiments.leaderboard import Contender, Standing, Suite, trials
from switchmdp.experiments.results import Setting
from switchmdp.reports import measures
from switchmdp.reports.page import (
    UNKNOWN,
    Table,
    count,
    number,
    percent,
    steps,
    value,
    with_interval,
)
from switchmdp.reports.resampling import Interval
from switchmdp.reports.tables import ranked_agents, starred


@dataclass(frozen=True)
class Place:
    """The result of one contender in a row."""

    name: str
    rank: int | None  # None for agents with known change points
    regret: Interval
    relative: Interval  # regret divided by the yardstick's
    ahead: Interval | None  # probability of lower regret than the next in rank


Board = Mapping[str, Sequence[Place]]  # the places of each row


def setting_of(standing: Standing) -> Setting:
    """Return the results of a row."""
    (setting,) = standing.results.settings.values()
    return setting


def yardstick(suite: Suite, standing: Standing) -> str:
    """Return the name of the row's yardstick; empty if there is none."""
    drifts = standing.row.drifts
    candidates = {
        one.name
        for one in suite.contenders_of(standing.row)
        if (not one.told and not one.ours if drifts else one.told and one.yardstick)
    }
    return next((name for name in _completed(setting_of(standing)) if name in candidates), "")


def _completed(setting: Setting) -> list[str]:
    """Sort the agents by mean regret; agents without a completed run are left out."""
    return [a for a in ranked_agents(setting) if measures.shared_problems(setting, a)]


def places(suite: Suite, standing: Standing) -> list[Place]:
    """Return every contender of a row in order of mean regret."""
    setting, reference = setting_of(standing), yardstick(suite, standing)
    told = {one.name for one in suite.contenders if one.told}
    regret = {name: measures.final_regret(setting, name) for name in _completed(setting)}
    ranked = [name for name in regret if name not in told]
    next_in_rank = dict(itertools.pairwise(ranked))
    unknown = Interval(math.nan, math.nan, math.nan)
    ranking = []
    for name, mean in regret.items():
        rank = 1 + sum(regret[other].middle < mean.middle for other in ranked)
        relative = measures.ratio(setting, name, reference) if reference else unknown
        rival = next_in_rank.get(name)
        ahead = measures.probability_of_improvement(setting, name, rival) if rival else None
        ranking.append(Place(name, rank if name in ranked else None, mean, relative, ahead))
    return ranking


@dataclass(frozen=True)
class Overall:
    """The result of one contender over all rows in which it took part."""

    contender: Contender
    relative: Mapping[str, float]  # relative regret by row
    mean_rank: float
    firsts: int
    geometric_mean: float  # of the relative regrets; NaN if one is not positive


def overall(suite: Suite, board: Board) -> list[Overall]:
    """Return every contender by mean rank; those with known change points follow."""
    totals = []
    for one in suite.contenders:
        mine = {row: p for row, all_ in board.items() for p in all_ if p.name == one.name}
        if not mine:
            continue
        ranks = [p.rank for p in mine.values() if p.rank is not None]
        relative = {row: p.relative.middle for row, p in mine.items()}
        values = np.array(list(relative.values()))
        positive = bool((values > 0).all())  # False if one is NaN
        totals.append(
            Overall(
                contender=one,
                relative=relative,
                mean_rank=float(np.mean(ranks)) if ranks else math.nan,
                firsts=sum(rank == 1 for rank in ranks),
                geometric_mean=float(np.exp(np.log(values).mean())) if positive else math.nan,
            )
        )
    return sorted(totals, key=_order)


def _order(one: Overall) -> tuple[bool, float]:
    value = one.geometric_mean if one.contender.told else one.mean_rank
    return one.contender.told, math.inf if math.isnan(value) else value


# Tables ------------------------------------------------------------------------------------------


def best_rival(suite: Suite) -> str:
    """Describe the yardstick of rows in which no agent can know the change points.

    >>> best_rival(Suite("s", (), (Contender("Mine", "psrl", ours=True),)))
    'the best rival of Mine'
    """
    return "the best rival" + f" of {' and '.join(suite.ours)}" * bool(suite.ours)


def row_table(suite: Suite, standing: Standing, ranking: Sequence[Place]) -> Table:
    """Return one row of the suite: every contender, in order of mean regret."""
    row, setting = standing.row, setting_of(standing)

    def chosen(place: Place) -> str:
        return _values(standing.choices.get(place.name, {}))

    def steps_to_adapt(place: Place) -> str:
        """Return the median over all changes of all problems; ∞ if the agent never adapts."""
        after = measures.adaptation_times(setting, place.name, standing.results.epsilon)[:, 1:]
        known = np.sort(after[~np.isnan(after)])
        return steps(float(known[len(known) // 2])) if len(known) else UNKNOWN

    columns: dict[str, Callable[[Place], str]] = {
        "rank": lambda place: UNKNOWN if place.rank is None else str(place.rank),
        "agent": lambda place: place.name,
        "chosen": chosen,
        "regret": lambda place: with_interval(place.regret),
        "relative regret": lambda place: with_interval(place.relative),
        "P(less than the next)": lambda p: with_interval(p.ahead) if p.ahead else UNKNOWN,
        "steps to adapt": steps_to_adapt,
        # Seconds per million steps are microseconds per step.
        "µs per step": lambda p: number(measures.seconds_per_million_steps(setting, p.name)),
    }
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
    if failed := sum(int(runs.failed.sum()) for runs in setting.agents.values()):
        note.append(f"{count(failed, 'run')} failed and {'is' if failed == 1 else 'are'} excluded.")
    reasons: dict[str, list[str]] = {}
    for name, reason in suite.left_out(row).items():
        reasons.setdefault(reason, []).append(name)
    if row.designed_on:
        note.append(f"Designed on problems of this kind: {', '.join(row.designed_on)}.")
    note += [f"Left out: {'; '.join(names)} ({reason})." for reason, names in reasons.items()]
    return Table.of(f"{row.name}: every agent", ranking, columns, " ".join(note))


def overall_tables(suite: Suite, standings: Sequence[Standing], board: Board) -> Iterator[Table]:
    """Yield relative regret in all rows, for small and for large problems, and the mean ranks."""
    totals = overall(suite, board)
    note = (
        "Mean regret divided by that of the row's yardstick; * marks the lowest among the agents "
        "that do not know the change points."
    )
    for large, size in ((False, "few states"), (True, "more states")):
        rows = [s.row.name for s in standings if s.row.large == large]
        columns = []
        for row in rows:
            values = [one.relative.get(row, math.nan) for one in totals]
            eligible = [one.relative.get(row, 0) > 0 and not one.contender.told for one in totals]
            columns.append(starred(values, eligible))
        if rows:
            cells = tuple(zip((one.contender.name for one in totals), *columns, strict=True))
            yield Table(f"Relative regret, {size}", ("agent", *rows), cells, note)
    yield Table.of(
        "All rows",
        totals,
        {
            "agent": lambda one: one.contender.name,
            "mean rank": lambda one: number(one.mean_rank),
            "times first": lambda one: UNKNOWN if one.contender.told else number(one.firsts),
            "geometric mean of relative regret": lambda one: number(one.geometric_mean),
            "rows": lambda one: number(len(one.relative)),
        },
        f"Over those of the {count(len(board), 'row')} in which the agent took part. Agents with "
        "known change points have no rank.",
    )


def detector_table(suite: Suite, standings: Sequence[Standing]) -> Table:
    """Return how many changes each detector finds, its delay and its false alarms."""
    rows = []
    for standing in (s for s in standings if not s.row.drifts):
        setting = setting_of(standing)
        for name in (c.name for c in suite.contenders if c.detects and c.name in setting.agents):
            score = measures.detection(setting, name)
            if score is not None:
                detected, false_alarms = percent(score.detected.middle), score.false_alarms
                delay = steps(score.delay)
                rows.append((standing.row.name, name, detected, delay, with_interval(false_alarms)))
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
    grids = {one.name: one for one in suite.contenders}
    for standing in standings:
        for name, tried in (trials(standing.tried) if standing.tried else {}).items():
            chosen = standing.choices[name]
            grid = grids[name].grid(standing.row.horizon)
            # A chosen value at an end of its grid may mean that the grid is too small.
            at_end = [
                p for p, v in chosen.items() if len(grid[p]) > 1 and v in (grid[p][0], grid[p][-1])
            ]
            best = min(mean for _, mean in tried)
            worst = max(mean for _, mean in tried)
            rows.append((
                standing.row.name, name, str(len(tried)), _values(chosen), number(best),
                number(worst), ", ".join(at_end),
            ))  # fmt: skip
    columns = (
        "row",
        "agent",
        "tried",
        "chosen",
        "its mean pseudo-regret",
        "the worst",
        "at an end",
    )
    note = (
        f"On the {suite.tuning_problems} tuning problems of each row. Where a chosen value is the "
        "first or the last one of its parameter, a value outside the range might be better."
    )
    return Table("Chosen parameters", columns, tuple(rows), note)


def _values(values: Mapping[str, float]) -> str:
    return ", ".join(f"{name} {value(chosen)}" for name, chosen in values.items())
