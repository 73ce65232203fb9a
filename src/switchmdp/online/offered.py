"""Which registered agents can be served.

A service knows the states, the actions and what its callers report. An agent whose constructor
needs more than that, such as the problem itself or the times at which it will change, can only be
simulated. Nothing else decides: the list follows from the registry.
"""

from __future__ import annotations

import inspect

from switchmdp.agents import AGENTS, Agent

UNKNOWABLE = {
    "problem": "the problem itself",
    "change_points": "the times of all changes",
}  # required parameters that only a simulation can give


def unknowable(agent: type[Agent]) -> str | None:
    """What the agent would have to be told that a service can't know; None if it can be served.

    >>> unknowable(AGENTS["oracle"]), unknowable(AGENTS["sw-ucrl"])
    ('the times of all changes', None)
    """
    for name, parameter in inspect.signature(agent).parameters.items():
        if name in UNKNOWABLE and parameter.default is parameter.empty:
            return UNKNOWABLE[name]
    return None


def offered() -> dict[str, type[Agent]]:
    """The registered agents that can be served, by name."""
    return {name: agent for name, agent in AGENTS.items() if unknowable(agent) is None}
