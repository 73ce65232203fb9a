"""Rank the agents in each row of a leaderboard's suite, and over all rows.

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

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from switchmdp.experiments.leaderboard import Contender, Standing, Suite
from switchmdp.experiments.results import Setting
from switchmdp.reports.adaptation import adaptation_times
from switchmdp.reports.measures import (
    final_regret,
    probability_of_improvement,
    ratio,
    seconds_per_million_steps,
)
from switchmdp.reports.resampling import Interval


@dataclass(frozen=True)
class Place:
    """The result of one contender in a row."""

    name: str
    rank: int | None  # None for agents with known change points
    chosen: float | None  # the tuned value of its free parameter
    regret: Interval
    relative: Interval  # regret divided by the yardstick's
    ahead: Interval | None  # probability of lower regret than the next in rank
    adaptation: float  # median steps from a change until regret per step stays within ε
    seconds: float  # per million steps
    failed: int


def setting_of(standing: Standing) -> Setting:
    """Return the results of a row."""
    (setting,) = standing.results.settings.values()
    return setting


def yardstick(suite: Suite, standing: Standing) -> str:
    """Return the name of the row's yardstick; empty if there is none."""
    drifts = standing.row.drifts
    named = [
        one.name
        for one in suite.contenders_of(standing.row)
        if (not one.told and not one.ours if drifts else one.told)
    ]
    return next(iter(_by_regret(setting_of(standing), named)), "")


def places(suite: Suite, standing: Standing) -> list[Place]:
    """Return every contender of a row in order of mean regret."""
    setting, reference = setting_of(standing), yardstick(suite, standing)
    told = {one.name for one in suite.contenders if one.told}
    order = _by_regret(setting, list(setting.agents))
    ranked = [name for name in order if name not in told]
    means = {name: final_regret(setting, name).middle for name in order}
    unknown = Interval(math.nan, math.nan, math.nan)
    ranking = []
    for name in order:
        after = ranked[ranked.index(name) + 1 :][:1] if name in ranked else []
        rank = 1 + sum(means[other] < means[name] for other in ranked)
        ranking.append(
            Place(
                name=name,
                rank=rank if name in ranked else None,
                chosen=standing.choices.get(name),
                regret=final_regret(setting, name),
                relative=ratio(setting, name, reference) if reference else unknown,
                ahead=probability_of_improvement(setting, name, *after) if after else None,
                adaptation=_adaptation(setting, name, standing.results.epsilon),
                seconds=seconds_per_million_steps(setting, name).middle,
                failed=int(setting.agents[name].failed.sum()),
            )
        )
    return ranking


def _adaptation(setting: Setting, name: str, epsilon: float) -> float:
    """Return the median over all changes of all problems; inf if the agent mostly never adapts."""
    after = adaptation_times(setting, name, epsilon)[:, 1:]
    known = np.sort(after[~np.isnan(after)])
    return float(known[len(known) // 2]) if len(known) else math.nan


def _by_regret(setting: Setting, names: Sequence[str]) -> list[str]:
    """Sort by mean regret; agents without a completed run are left out."""
    means = {name: final_regret(setting, name).middle for name in names}
    return sorted((n for n in names if not math.isnan(means[n])), key=lambda n: means[n])


@dataclass(frozen=True)
class Overall:
    """The result of one contender over all rows in which it took part."""

    contender: Contender
    relative: Mapping[str, float]  # relative regret by row
    mean_rank: float
    firsts: int
    geometric_mean: float  # of the relative regrets; NaN if one is not positive

    @property
    def rows(self) -> int:
        """The number of rows in which the contender took part."""
        return len(self.relative)


def overall(suite: Suite, board: Mapping[str, Sequence[Place]]) -> list[Overall]:
    """Return every contender by mean rank; those with known change points follow.

    `board` holds the places by name of the row.
    """
    totals = []
    for one in suite.contenders:
        mine = {row: p for row, all_ in board.items() for p in all_ if p.name == one.name}
        if not mine:
            continue
        ranks = [p.rank for p in mine.values() if p.rank is not None]
        relative = {row: p.relative.middle for row, p in mine.items()}
        values = np.array(list(relative.values()))
        positive = len(values) > 0 and bool((values > 0).all())  # False if one is NaN
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
