"""The registry of agents: their names, and what each of them needs.

A new agent is one line in `AGENTS`. Everything else follows from the signature of its constructor:
its parameters, whether it needs the problem or its change points, and whether a service can offer
it.
"""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import Any

from switchmdp.agents.calibrated_ucrl3 import CalibratedUCRL3
from switchmdp.agents.detector_ucrl import GLRUCRL, GLRUCRL3, RBOCPDUCRL2
from switchmdp.agents.evidence_psrl import EvidencePSRL
from switchmdp.agents.imed_rl import IMEDRL
from switchmdp.agents.master import MASTER
from switchmdp.agents.protocol import Agent
from switchmdp.agents.psrl import GLRPSRL, PSRL, SWPSRL, FadingPSRL
from switchmdp.agents.q_learning import QLearning
from switchmdp.agents.references import (
    Omniscient,
    OracleKLUCRL,
    OraclePairsPSRL,
    OraclePSRL,
    OracleUCRL2,
    OracleUCRL2B,
    OracleUCRL3,
    Random,
)
from switchmdp.agents.sw_ucrl import SWUCRL
from switchmdp.agents.swucrl_cw import BORL, SWUCRL2CW, PaperBORL
from switchmdp.agents.ucrl2 import KLUCRL, UCRL2, UCRL2B, UCRL2R, UCRL2RW, UCRL3
from switchmdp.agents.variation_aware import VariationAwareUCRL

REQUIRED = inspect.Parameter.empty  # the default of a parameter that has none
EVERY_AGENT_HAS = ("n_states", "n_actions", "available")
ONLY_IN_SIMULATIONS = {
    "problem": "the problem itself",
    "change_points": "the change points",
}  # required parameters that a service cannot know


class Registry(dict[str, type[Agent]]):
    """Agents by name; a lookup also accepts the aliases, which iteration leaves out."""

    def __init__(self, agents: dict[str, type[Agent]], aliases: dict[str, str]) -> None:
        super().__init__(agents)
        self.aliases = aliases

    def __missing__(self, name: str) -> type[Agent]:
        return self[self.aliases[name]]

    def __contains__(self, name: object) -> bool:
        return super().__contains__(name) or name in self.aliases


AGENTS = Registry(
    {
        "sw-ucrl": SWUCRL,
        "ucrl2": UCRL2,
        "ucrl2-r": UCRL2R,
        "ucrl2-rw": UCRL2RW,
        "evidence-psrl": EvidencePSRL,
        "ucrl2b": UCRL2B,
        "ucrl3": UCRL3,
        "kl-ucrl": KLUCRL,
        "swucrl2-cw": SWUCRL2CW,
        "variation-aware": VariationAwareUCRL,
        "borl": BORL,
        "borl-full-grid": PaperBORL,
        "master-ucrl": MASTER,
        "oracle-ucrl2": OracleUCRL2,
        "glr-ucrl": GLRUCRL,
        "glr-ucrl3": GLRUCRL3,
        "r-bocpd-ucrl2": RBOCPDUCRL2,
        "calibrated-ucrl3": CalibratedUCRL3,
        "imed-rl": IMEDRL,
        "psrl": PSRL,
        "sw-psrl": SWPSRL,
        "fading-psrl": FadingPSRL,
        "glr-psrl": GLRPSRL,
        "oracle-psrl": OraclePSRL,
        "oracle-pairs-psrl": OraclePairsPSRL,
        "oracle-ucrl2b": OracleUCRL2B,
        "oracle-ucrl3": OracleUCRL3,
        "oracle-kl-ucrl": OracleKLUCRL,
        "q-learning": QLearning,
        "omniscient": Omniscient,
        "random": Random,
    },
    # Earlier names. The name that a configuration uses is part of its digest, so they stay valid.
    aliases={
        "oracle": "oracle-ucrl2",
        "told-ucrl2b": "oracle-ucrl2b",
        "told-ucrl3": "oracle-ucrl3",
        "told-kl-ucrl": "oracle-kl-ucrl",
    },
)


@dataclass(frozen=True)
class AgentInfo:
    """The requirements of an agent's constructor."""

    parameters: dict[str, Any]  # name: default, or REQUIRED; without sizes and available actions
    unavailable: str | None  # what it needs and only a simulation can give, in words

    @property
    def needs_problem(self) -> bool:
        """Whether the agent must be given the problem itself."""
        return self.parameters.get("problem") is REQUIRED

    @property
    def needs_change_points(self) -> bool:
        """Whether the agent must be given the change points."""
        return self.parameters.get("change_points") is REQUIRED

    @property
    def can_be_served(self) -> bool:
        """Whether a service knows all that the agent must be given."""
        return self.unavailable is None


def agent_info(agent: str | type) -> AgentInfo:
    """The requirements of an agent, by its name in the registry or from its class.

    Parameters
    ----------
    agent
        The name of a registered agent, or an agent class.

    Returns
    -------
    AgentInfo
        Its parameters, and the information that only a simulation can provide.

    Raises
    ------
    KeyError
        If no agent is registered under this name.

    Examples
    --------
    >>> info = agent_info("oracle-psrl")
    >>> info.needs_change_points, info.can_be_served, info.parameters["seed"]
    (True, False, 0)
    """
    cls = AGENTS[agent] if isinstance(agent, str) else agent
    parameters = {
        name: parameter.default
        for name, parameter in inspect.signature(cls).parameters.items()
        if name not in EVERY_AGENT_HAS
    }
    missing = (text for name, text in ONLY_IN_SIMULATIONS.items()
               if name in parameters and parameters[name] is REQUIRED)  # fmt: skip
    return AgentInfo(parameters, next(missing, None))


def unavailable_information(agent: type) -> str | None:
    """What the agent needs that a service cannot know; None if it can be served.

    >>> unavailable_information(AGENTS["oracle-ucrl2"]), unavailable_information(AGENTS["sw-ucrl"])
    ('the change points', None)
    """
    return agent_info(agent).unavailable


def servable_agents() -> dict[str, type[Agent]]:
    """The registered agents that can be served, by name."""
    return {name: agent for name, agent in AGENTS.items() if agent_info(agent).can_be_served}
