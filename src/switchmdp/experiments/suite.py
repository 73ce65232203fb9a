"""A suite: rows of problems × contenders, each with at most one parameter to choose, as data.

A row is played in two phases, each an `Experiment` of its own:

    tuning      30 problems: every contender that has a free parameter, once with each of its values
    reporting   100 others: every contender, with the value chosen there

The two phases have seeds of their own, so that no problem is in both. What was chosen is written
into the second experiment, and so is frozen with it: its folder refuses any other.

Chosen by mean pseudo-regret, which has the mean of regret with less noise; ties go to the earlier
value. `rivals` holds the suite that is shipped.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from switchmdp.experiments.build import expand
from switchmdp.experiments.results import Results
from switchmdp.experiments.spec import AgentSpec, Experiment, ProblemSpec

TUNING, REPORTING = "tuning", "reporting"
POINTS = 200  # that a run records


@dataclass(frozen=True)
class Tuned:
    """A free parameter and its values; `of_horizon`: as shares of the horizon, in whole steps."""

    parameter: str
    values: tuple[float, ...]
    of_horizon: bool = False

    def at(self, horizon: int) -> list[float]:
        """The values for this horizon.

        >>> Tuned("window", (0.01, 0.5), of_horizon=True).at(1000)
        [10, 500]
        """
        if not self.of_horizon:
            return list(self.values)
        return [max(1, round(share * horizon)) for share in self.values]


@dataclass(frozen=True)
class Contender:
    """An agent, what is set for it, and what is chosen."""

    name: str
    agent: str
    parameters: Mapping[str, Any] = field(default_factory=dict)
    tuned: Tuned | None = None
    told: bool = False  # of every change: a reference, no rival
    detects: bool = False  # starts over when the data say so
    ours: bool = False  # whose regret is compared with that of the best rival
    unforgetting: str = ""  # the contender that is the same but never forgets
    not_in_large: str = ""  # why it is left out where there are many states


@dataclass(frozen=True)
class Row:
    """A family of problems, and how long they last."""

    name: str
    problem: str
    parameters: Mapping[str, Any] = field(default_factory=dict)
    horizon: int = 100_000
    large: bool = False
    drifts: bool = False  # changes all the time: to be told of it is of no use
    changes: bool = True

    @property
    def folder(self) -> str:
        """Its name as that of a folder.

        >>> Row("hidden improvement, S = 5", "random").folder
        'hidden-improvement-s-5'
        """
        return re.sub(r"[^a-z0-9]+", "-", self.name.lower()).strip("-")


@dataclass(frozen=True)
class Suite:
    """Rows × contenders."""

    title: str
    rows: tuple[Row, ...]
    contenders: tuple[Contender, ...]
    tuning_problems: int = 30
    problems: int = 100
    tuning_seed: int = 1
    seed: int = 2
    note: str = ""  # what a reader should know beforehand

    @property
    def ours(self) -> tuple[str, ...]:
        """The names of those whose regret is compared with that of the best rival."""
        return tuple(one.name for one in self.contenders if one.ours)

    def content(self) -> dict[str, Any]:
        """All of it as plain data."""
        return asdict(self)

    def left_out(self, row: Row) -> dict[str, str]:
        """The contenders that do not take part in a row, and why."""
        reasons = {}
        for one in self.contenders:
            if row.drifts and one.told:
                reasons[one.name] = "being told of a change at every turn helps nobody"
            elif row.large and one.not_in_large:
                reasons[one.name] = one.not_in_large
        return reasons

    def contenders_of(self, row: Row) -> tuple[Contender, ...]:
        """Those who take part in a row."""
        out = self.left_out(row)
        return tuple(one for one in self.contenders if one.name not in out)


Choices = dict[str, float]  # of each contender that has something to choose


def tuning(suite: Suite, row: Row) -> Experiment | None:
    """The first phase of a row; None where there is nothing to choose.

    >>> row, one = Row("r", "random"), Contender("c", "sw-ucrl", tuned=Tuned("window", (10, 20)))
    >>> tuning(Suite("s", (row,), (one,)), row).agents["c"].parameters
    {'window': {'sweep': [10, 20]}}
    """
    agents = {
        one.name: AgentSpec(
            agent=one.agent,
            parameters={
                **one.parameters, one.tuned.parameter: {"sweep": one.tuned.at(row.horizon)}
            },
        )
        for one in suite.contenders_of(row)
        if one.tuned is not None
    }  # fmt: skip
    if not agents:
        return None
    return _experiment(suite, row, TUNING, suite.tuning_problems, suite.tuning_seed, agents)


def reporting(suite: Suite, row: Row, choices: Choices) -> Experiment:
    """The second phase of a row, with what was chosen in the first.

    >>> row, one = Row("r", "random"), Contender("c", "sw-ucrl", tuned=Tuned("window", (10, 20)))
    >>> reporting(Suite("s", (row,), (one,)), row, {"c": 20}).agents["c"].parameters
    {'window': 20}
    """
    agents = {}
    for one in suite.contenders_of(row):
        chosen = {} if one.tuned is None else {one.tuned.parameter: choices[one.name]}
        agents[one.name] = AgentSpec(agent=one.agent, parameters={**one.parameters, **chosen})
    return _experiment(suite, row, REPORTING, suite.problems, suite.seed, agents)


def _experiment(
    suite: Suite, row: Row, phase: str, n: int, seed: int, agents: dict[str, AgentSpec]
) -> Experiment:
    problem = ProblemSpec(problem=row.problem, parameters=dict(row.parameters))
    return Experiment(
        title=f"{suite.title}: {row.name}, {phase}", horizon=row.horizon, n_problems=n, seed=seed,
        every=max(1, row.horizon // POINTS), problems={row.name: problem}, agents=agents,
    )  # fmt: skip


def trials(tuned: Results) -> dict[str, dict[float, float]]:
    """Mean pseudo-regret of each contender with each of its values, in the first phase.

    NaN for a value with which a run failed.

    >>> from dataclasses import replace
    >>> from switchmdp.experiments.results import as_setting
    >>> setting = as_setting([9], {"a 10": [[4.0], [6.0]], "a 20": [[3.0], [np.nan]]})
    >>> values = zip(setting.agents.items(), (10, 20))
    >>> lanes = {n: replace(runs, base="a", swept={"w": w}) for (n, runs), w in values}
    >>> trials(Results("", 0.1, {"s": replace(setting, agents=lanes)}))
    {'a': {10: 5.0, 20: nan}}
    """
    (setting,) = tuned.settings.values()
    found: dict[str, dict[float, float]] = {}
    for runs in setting.agents.values():
        (value,) = runs.swept.values()
        known = runs.pseudo_regret[~runs.failed, -1]
        mean = float(known.mean()) if len(known) == len(runs.failed) else np.nan
        found.setdefault(runs.base, {})[value] = mean
    return found


def choose(tuned: Results) -> Choices:
    """The value of lowest mean pseudo-regret; one with which a run failed only if all did.

    >>> from dataclasses import replace
    >>> from switchmdp.experiments.results import as_setting
    >>> setting = as_setting([9], {"a 10": [[5.0]], "a 20": [[3.0]], "a 30": [[3.0]]})
    >>> values = zip(setting.agents.items(), (10, 20, 30))
    >>> lanes = {n: replace(runs, base="a", swept={"w": w}) for (n, runs), w in values}
    >>> choose(Results("", 0.1, {"s": replace(setting, agents=lanes)}))
    {'a': 20}
    """
    return {
        name: min(means, key=lambda value: _or_worst(means[value]))
        for name, means in trials(tuned).items()
    }


def _or_worst(mean: float) -> float:
    return np.inf if np.isnan(mean) else mean


def expected_runs(suite: Suite) -> int:
    """How many runs there are in all rows and phases.

    >>> row, one = Row("r", "random"), Contender("c", "random")
    >>> expected_runs(Suite("s", (row,), (one,)))
    100
    """
    total = 0
    for row in suite.rows:
        first = tuning(suite, row)
        total += 0 if first is None else len(expand(first.agents)) * suite.tuning_problems
        total += len(suite.contenders_of(row)) * suite.problems
    return total
