"""Agents: objects with the methods `act` and `observe`.

A new agent is one file and one line in `registry`.

- `protocol`, `policy_agent`: the interfaces, and the base class of agents that follow a policy
- `episodic`: the agent that is made of components, and the rules when an episode ends
- `exploration`, `recall`: components that only agents use
- the other modules: one paper or family of agents each
- `references`: agents that know the problem or its change points, and one that acts at random
"""

import warnings
from typing import Any

from switchmdp.agents.calibrated_ucrl3 import CalibratedUCRL3, DiminishingExploration
from switchmdp.agents.detector_ucrl import GLRUCRL, GLRUCRL3, RBOCPDUCRL2, ForcedExploration
from switchmdp.agents.episodic import Doubling, Episodic, Growing, Rooted, Squares, Vanishing
from switchmdp.agents.evidence_psrl import EvidencePSRL
from switchmdp.agents.exploration import AsPlanned, DirectedProbes
from switchmdp.agents.imed_rl import IMEDRL
from switchmdp.agents.master import MASTER
from switchmdp.agents.protocol import Agent, AgentLike
from switchmdp.agents.psrl import GLRPSRL, PSRL, SWPSRL, FadingPSRL
from switchmdp.agents.q_learning import QLearning
from switchmdp.agents.recall import Recall
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
from switchmdp.agents.registry import AGENTS, agent_info
from switchmdp.agents.saving import OLD_CLASSES, load
from switchmdp.agents.sw_ucrl import SWUCRL
from switchmdp.agents.swucrl_cw import BORL, SWUCRL2CW, PaperBORL
from switchmdp.agents.ucrl2 import KLUCRL, UCRL2, UCRL2B, UCRL2R, UCRL2RW, UCRL3
from switchmdp.agents.variation_aware import VariationAwareUCRL

__all__ = [
    "AGENTS", "BORL", "GLRPSRL", "GLRUCRL", "GLRUCRL3", "IMEDRL", "KLUCRL", "MASTER", "PSRL",
    "RBOCPDUCRL2", "SWPSRL", "SWUCRL", "SWUCRL2CW", "UCRL2", "UCRL2B", "UCRL2R", "UCRL2RW",
    "UCRL3", "Agent", "AgentLike", "AsPlanned", "CalibratedUCRL3", "DiminishingExploration",
    "DirectedProbes", "Doubling", "Episodic", "EvidencePSRL", "FadingPSRL", "ForcedExploration",
    "Growing", "Omniscient", "OracleKLUCRL", "OraclePSRL", "OraclePairsPSRL", "OracleUCRL2",
    "OracleUCRL2B", "OracleUCRL3", "PaperBORL", "QLearning", "Random", "Recall", "Rooted",
    "Squares", "Vanishing", "VariationAwareUCRL", "agent_info", "load",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    """Classes under their old names."""
    new = OLD_CLASSES.get(name)
    if new not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    warnings.warn(f"agents.{name} is now agents.{new}", DeprecationWarning, stacklevel=2)
    return globals()[new]


def __dir__() -> list[str]:
    return sorted(__all__)
