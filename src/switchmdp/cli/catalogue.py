"""agents, problems: what a configuration may name, and what each takes."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Mapping
from typing import Any

from switchmdp.agents import AGENTS
from switchmdp.cli.say import say
from switchmdp.experiments.build import GIVEN_TO_AGENTS, GIVEN_TO_PROBLEMS, accepts
from switchmdp.experiments.formulas import FORMULAS
from switchmdp.problems import CHOICES, PROBLEMS


def show_agents() -> None:
    """Every agent, and the formulas for their parameters."""
    for name, agent in AGENTS.items():
        _show(name, agent, GIVEN_TO_AGENTS)
    say('\nA parameter is a value, { sweep = [value, ...] }, or { formula = "NAME", ... }:\n')
    for name, formula in FORMULAS.items():
        _show(name, formula, ("context",))


def show_problems() -> None:
    """Every problem, and how its parameters are chosen."""
    for name, problem in PROBLEMS.items():
        _show(name, problem, GIVEN_TO_PROBLEMS, CHOICES)
    say('\nA parameter is a value, { sweep = [value, ...] }, or { choice = "NAME", ... }.')


def _show(
    name: str, found: Callable[..., Any], given: tuple[str, ...],
    choices: Mapping[str, Mapping[str, Any]] | None = None,
) -> None:  # fmt: skip
    """A name, the first line of its doc, and its parameters as a configuration would have them."""
    say(f"{name}: {(inspect.getdoc(found) or '').splitlines()[0]}")
    for parameter in inspect.signature(found).parameters.values():
        if parameter.name not in given and accepts(found, parameter.name):
            say(f"    {_parameter(parameter, (choices or {}).get(parameter.name, {}))}")


def _parameter(parameter: inspect.Parameter, choices: Mapping[str, Any]) -> str:
    """A parameter, its default, and what else it may be.

    >>> from switchmdp.problems import even_change_points as even
    >>> kind = inspect.Parameter.KEYWORD_ONLY
    >>> _parameter(inspect.Parameter("points", kind, default=even), {"even": even, "odd": 1})
    'points = "even" or "odd"'
    """
    name, default = parameter.name, parameter.default
    if name == "horizon":
        return "horizon = the experiment's"
    values = sorted(choices, key=lambda choice: choices[choice] is not default)
    if not values and default is not inspect.Parameter.empty and default is not None:
        values = [default]
    text = f"{name} = {' or '.join(map(json.dumps, values))}" if values else name
    needed = default is inspect.Parameter.empty
    return text + (" (needed)" if needed else " (optional)" if default is None else "")
