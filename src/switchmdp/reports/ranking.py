"""Who is how good in a row of the suite, and over all of them.

Regret is put in relation to a *yardstick*: the best of those who are told every change or, where
the problem changes all the time, the best rival that is not ours. It is chosen on the problems that
are reported, which makes it, if anything, too good: relative regret is never flattered. Whoever is
told has no rank; equals share theirs.

>>> from switchmdp.experiments.results import Results
>>> from switchmdp.experiments.leaderboard import Row
>>> from switchmdp.experiments.results import as_setting
>>> row = Row("r", "random")
>>> suite = Suite("s", (row,), (Contender("a", "ucrl2"), Contender("b", "oracle", told=True)))
>>> setting = as_setting([100], {"a": [[6.0], [9.0]], "b": [[4.0], [6.0]]})
>>> standing = Standing(row, None, {}, Results("", 0.1, {"r": setting}))
>>> yardstick(suite, standing)
'b'
>>> found = places(suite, standing)
>>> [(place.name, place.rank, place.relative.middle) for place in found]
[('b', None, 1.0), ('a', 1, 1.5)]
>>> [(one.contender.name, one.firsts) for one in overall(suite, {"r": found})]
[('a', 1), ('b', 0)]
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from switchmdp.experiments.leaderboard import Contender, Standing, Suite
from switchmdp.experiments.results import Setting
from switchmdp.reports.measures import (
    adaptation_times,
    final_regret,
    probability_of_improvement,
    ratio,
    seconds_per_million_steps,
)
from switchmdp.reports.resampling import Interval


@dataclass(frozen=True)
class Place:
    """How one contender did in a row."""

    name: str
    rank: int | None  # None for those who are told
    chosen: float | None  # the value of its free parameter
    regret: Interval
    relative: Interval  # to the yardstick
    ahead: Interval | None  # probability of less regret than the next in rank
    adaptation: float  # median of steps from a change until it is within ε for good
    seconds: float  # for a million steps
    failed: int


def setting_of(standing: Standing) -> Setting:
    """What was measured in a row."""
    (setting,) = standing.results.settings.values()
    return setting


def yardstick(suite: Suite, standing: Standing) -> str:
    """The name of the contender by which the others are measured; empty if there is none."""
    drifts = standing.row.drifts
    named = [
        one.name
        for one in suite.contenders_of(standing.row)
        if (not one.told and not one.ours if drifts else one.told)
    ]
    return next(iter(_by_regret(setting_of(standing), named)), "")


def places(suite: Suite, standing: Standing) -> list[Place]:
    """Every contender of a row, the one with the lowest mean regret first."""
    setting, reference = setting_of(standing), yardstick(suite, standing)
    told = {one.name for one in suite.contenders if one.told}
    order = _by_regret(setting, list(setting.agents))
    ranked = [name for name in order if name not in told]
    means = {name: final_regret(setting, name).middle for name in order}
    unknown = Interval(math.nan, math.nan, math.nan)
    found = []
    for name in order:
        after = ranked[ranked.index(name) + 1 :][:1] if name in ranked else []
        rank = 1 + sum(means[other] < means[name] for other in ranked)
        found.append(
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
    return found


def _adaptation(setting: Setting, name: str, epsilon: float) -> float:
    """Over all changes of all problems, and infinite where most are never adapted to."""
    after = adaptation_times(setting, name, epsilon)[:, 1:]
    known = np.sort(after[~np.isnan(after)])
    return float(known[len(known) // 2]) if len(known) else math.nan


def _by_regret(setting: Setting, names: Sequence[str]) -> list[str]:
    """From low to high mean regret; those of whom nothing is known are left out."""
    means = {name: final_regret(setting, name).middle for name in names}
    return sorted((n for n in names if not math.isnan(means[n])), key=lambda n: means[n])


@dataclass(frozen=True)
class Overall:
    """One contender over all rows that it took part in."""

    contender: Contender
    relative: Mapping[str, float]  # regret by row, to the row's yardstick
    mean_rank: float
    firsts: int
    geometric_mean: float  # of the relative regrets; NaN where one is not positive

    @property
    def rows(self) -> int:
        """In how many rows it took part."""
        return len(self.relative)


def overall(suite: Suite, board: Mapping[str, Sequence[Place]]) -> list[Overall]:
    """Every contender that took part, by mean rank; then those who are told. `board`: by row."""
    found = []
    for one in suite.contenders:
        mine = {row: p for row, all_ in board.items() for p in all_ if p.name == one.name}
        if not mine:
            continue
        ranks = [p.rank for p in mine.values() if p.rank is not None]
        relative = {row: p.relative.middle for row, p in mine.items()}
        values = np.array(list(relative.values()))
        positive = len(values) > 0 and bool((values > 0).all())  # not so where one is NaN
        found.append(
            Overall(
                contender=one,
                relative=relative,
                mean_rank=float(np.mean(ranks)) if ranks else math.nan,
                firsts=sum(rank == 1 for rank in ranks),
                geometric_mean=float(np.exp(np.log(values).mean())) if positive else math.nan,
            )
        )
    return sorted(found, key=_order)


def _order(one: Overall) -> tuple[bool, float]:
    value = one.geometric_mean if one.contender.told else one.mean_rank
    return one.contender.told, math.inf if math.isnan(value) else value
