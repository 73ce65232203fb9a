"""The registered agents that can be served, and the parameters that a user can set.

A service knows the states, the actions and the feedback of its callers. An agent whose constructor
needs more, such as the problem or its change points, can only be simulated. This follows from the
signatures of the registered classes.
"""

from __future__ import annotations

import inspect
from collections.abc import Collection, Mapping
from typing import Any

from switchmdp.agents import AGENTS, Agent
from switchmdp.errors import InvalidParameter

SIZE = ("n_states", "n_actions", "available")  # set by options of their own, or by the folder
UNAVAILABLE = {
    "problem": "the problem itself",
    "change_points": "the change points",
}  # required parameters that are known in a simulation only


def unavailable_information(agent: type[Agent]) -> str | None:
    """What the agent needs and a service does not know; None if it can be served.

    >>> unavailable_information(AGENTS["oracle"]), unavailable_information(AGENTS["sw-ucrl"])
    ('the change points', None)
    """
    for name, parameter in inspect.signature(agent).parameters.items():
        if name in UNAVAILABLE and parameter.default is parameter.empty:
            return UNAVAILABLE[name]
    return None


def servable_agents() -> dict[str, type[Agent]]:
    """The registered agents that can be served, by name."""
    return {name: agent for name, agent in AGENTS.items() if unavailable_information(agent) is None}


def parameters_of(name: str) -> dict[str, inspect.Parameter]:
    """The parameters of a servable agent that its user can set.

    >>> list(parameters_of("sw-ucrl"))
    ['window', 'delta']
    """
    known = servable_agents()
    if name not in known:
        allowed = f"one of {', '.join(known)}"
        if name in AGENTS:
            needs = unavailable_information(AGENTS[name])
            allowed += f" ({name} needs {needs}, so it can only be simulated)"
        raise InvalidParameter("--agent", name, allowed)
    takes = inspect.signature(known[name]).parameters
    return {parameter: kind for parameter, kind in takes.items() if parameter not in SIZE}


def check_parameters(name: str, given: Collection[str]) -> None:
    """Raise an error unless the agent takes these parameters and needs no others."""
    takes = parameters_of(name)
    for parameter in given:
        if parameter not in takes:
            raise InvalidParameter(f"parameter of {name}", parameter, f"one of {', '.join(takes)}")
    for parameter, kind in takes.items():
        if kind.default is kind.empty and parameter not in given:
            allowed = f"set, because {name} requires it (--set {parameter}=VALUE)"
            raise InvalidParameter(parameter, None, allowed)


def create(name: str, n_states: int, n_actions: int, parameters: Mapping[str, Any]) -> Any:
    """A new agent of this size.

    >>> create("sw-ucrl", 2, 2, {"window": 10}).memory.window
    10
    """
    check_parameters(name, parameters)
    kind: Any = AGENTS[name]
    return kind(n_states, n_actions, **parameters)
