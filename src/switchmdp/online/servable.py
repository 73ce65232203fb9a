"""The parameters of the agents that can be served, as a user can set them.

A service knows the states, the actions and the feedback of its callers. An agent whose constructor
needs more, such as the problem or its change points, can only be simulated (`agents.registry`).
"""

from __future__ import annotations

import inspect
from collections.abc import Collection, Mapping
from typing import Any

from switchmdp.agents import AGENTS
from switchmdp.agents.registry import servable_agents, unavailable_information
from switchmdp.errors import InvalidParameter

SIZE = ("n_states", "n_actions", "available")  # set by options of their own, or by the folder


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
