"""Regret against a parameter: of the agents (window), of the problems (changes), of their hardness.

A line is a `Band` whose `times` are the parameter's values, from left to right. Lines of different
problems don't belong into one picture: they come in panels.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from switchmdp.errors import InvalidParameter
from switchmdp.experiments.results import Results, Setting
from switchmdp.reports.curves import final
from switchmdp.reports.resampling import Band, Interval, interval


@dataclass(frozen=True)
class _Point:
    """One value of a swept parameter, and whose it is once that parameter is put aside."""

    parameter: str
    value: float
    agent_line: str
    setting_line: str
    setting: Setting
    agent: str


def swept_parameters(results: Results) -> tuple[str, ...]:
    """The parameters of agents or problems that were swept over numbers, and so can be an axis.

    >>> swept_parameters(Results("nothing", 0.1, {}))
    ()
    """
    return tuple(dict.fromkeys(point.parameter for point in _points(results)))


def against(results: Results, parameter: str) -> dict[str, dict[str, Band]]:
    """Mean final regret against a swept parameter of the agents or of the problems.

    A panel for each setting (without the parameter, if it is the problems'), and in it a line for
    each agent, and for each value of whatever else was swept. A formula's value is the one it had
    on the first problem. Where agent and problem both swept a parameter of that name, the agent's
    is taken.

    >>> from dataclasses import replace
    >>> from switchmdp.experiments.results import as_setting
    >>> setting = as_setting([10], {"a [w=8]": [[3]], "a [w=4]": [[5]]})
    >>> agents = {
    ...     name: replace(setting.agents[name], base="a", swept={"w": w})
    ...     for name, w in [("a [w=8]", 8), ("a [w=4]", 4)]
    ... }
    >>> panels = against(Results("", 0.1, {"s": replace(setting, base="s", agents=agents)}), "w")
    >>> panels["s"]["a"].times.tolist(), panels["s"]["a"].middle.tolist()
    ([4.0, 8.0], [5.0, 3.0])
    """
    allowed = swept_parameters(results)
    if parameter not in allowed:
        known = ", ".join(map(repr, allowed)) or "(none here)"
        raise InvalidParameter("parameter", parameter, f"one that was swept over numbers: {known}")
    panels: dict[str, dict[str, list[tuple[float, Interval]]]] = {}
    for point in _points(results):
        if point.parameter == parameter:
            lines = panels.setdefault(point.setting_line, {})
            found = interval(final(point.setting, point.agent))
            lines.setdefault(point.agent_line, []).append((point.value, found))
    return {
        panel: {name: _joined(line) for name, line in lines.items()}
        for panel, lines in panels.items()
    }


def fixed_values(results: Results, parameter: str) -> dict[str, dict[str, float]]:
    """Where agents stand that have a parameter which others sweep: panel -> agent -> value."""
    found: dict[str, dict[str, float]] = {}
    for setting in results.settings.values():
        swept = any(parameter in runs.swept for runs in setting.agents.values())
        for name, runs in setting.agents.items():
            value = runs.parameters.get(parameter)
            if swept and parameter not in runs.swept and isinstance(value, int | float):
                panel = _label(setting.base or setting.name, setting.swept)
                found.setdefault(panel, {})[name] = float(value)
    return found


def against_hardness(setting: Setting, name: str = "diameter", bins: int = 8) -> dict[str, Band]:
    """Mean final regret of each agent against a hardness of the problems.

    Problems are put in order of hardness and cut into `bins` groups of equal size, each placed at
    its median hardness. Problems of unknown or infinite hardness are left out.

    >>> from dataclasses import replace
    >>> from switchmdp.experiments.results import as_setting
    >>> setting = as_setting([10], {"a": [[5], [1], [7], [3]]})
    >>> setting = replace(setting, hardness={"diameter": np.array([30.0, 10.0, 40.0, 20.0])})
    >>> line = against_hardness(setting, bins=2)["a"]
    >>> line.times.tolist(), line.middle.tolist()
    ([15.0, 35.0], [2.0, 6.0])
    """
    if name not in setting.hardness:
        raise InvalidParameter("name", name, f"one of {', '.join(map(repr, setting.hardness))}")
    if bins < 1:
        raise InvalidParameter("bins", bins, "at least 1")
    hardness = setting.hardness[name]
    order = np.argsort(hardness, kind="stable")
    order = order[np.isfinite(hardness[order])]
    if len(order) == 0:
        return {}
    groups = np.array_split(order, min(bins, len(order)))
    medians = [float(np.median(hardness[group])) for group in groups]
    lines = {}
    for agent in setting.agents:
        found = [interval(final(setting, agent)[group]) for group in groups]
        lines[agent] = _joined(list(zip(medians, found, strict=True)))
    return lines


def _points(results: Results) -> Iterator[_Point]:
    for setting in results.settings.values():
        for agent, runs in setting.agents.items():
            for owner in (runs, setting):
                for name, written in owner.swept.items():
                    value = owner.parameters.get(name, written)
                    number = isinstance(value, int | float) and not isinstance(value, bool)
                    if not number or (owner is setting and name in runs.swept):
                        continue
                    of_agent = {k: v for k, v in runs.swept.items() if k != name}
                    of_setting = dict(setting.swept)
                    if owner is setting:
                        del of_setting[name]
                    agent_line = _label(runs.base or agent, of_agent)
                    setting_line = _label(setting.base or setting.name, of_setting)
                    yield _Point(name, float(value), agent_line, setting_line, setting, agent)


def _label(base: str, rest: Mapping[str, Any]) -> str:
    """An agent or setting as told apart by the parameters that are not the axis."""
    shown = ", ".join(f"{name}={value}" for name, value in rest.items())
    return f"{base} [{shown}]" if shown else base


def _joined(points: Sequence[tuple[float, Interval]]) -> Band:
    """Points as a line, from left to right."""
    ordered = sorted(points, key=lambda point: point[0])
    rows = np.array([[x, found.middle, found.low, found.high] for x, found in ordered])
    return Band(*rows.T)
