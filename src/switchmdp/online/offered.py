"""Which registered agents can be served: see `agents.registry`."""

from switchmdp.agents.registry import served_agents as offered
from switchmdp.agents.registry import unknowable

__all__ = ["offered", "unknowable"]
