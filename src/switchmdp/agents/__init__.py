"""Agents: two verbs, `act` and `observe`. One paper, one file; a new one is a line in AGENTS."""

from switchmdp.agents.bocpd_ucrl2 import RBOCPDUCRL2
from switchmdp.agents.episodes import Doubling, Growing
from switchmdp.agents.episodic import Episodic
from switchmdp.agents.glr_ucrl import GLRUCRL, Probing
from switchmdp.agents.protocol import Agent, AgentLike
from switchmdp.agents.psrl import PSRL, SWPSRL, OraclePSRL
from switchmdp.agents.q_learning import QLearning
from switchmdp.agents.references import Omniscient, Random
from switchmdp.agents.stored import load
from switchmdp.agents.sw_ucrl import SWUCRL
from switchmdp.agents.ucrl2 import UCRL2, UCRL2R, UCRL2RW, Oracle

AGENTS: dict[str, type[Agent]] = {
    "sw-ucrl": SWUCRL,
    "ucrl2": UCRL2,
    "ucrl2-r": UCRL2R,
    "ucrl2-rw": UCRL2RW,
    "oracle": Oracle,
    "glr-ucrl": GLRUCRL,
    "r-bocpd-ucrl2": RBOCPDUCRL2,
    "psrl": PSRL,
    "sw-psrl": SWPSRL,
    "oracle-psrl": OraclePSRL,
    "q-learning": QLearning,
    "omniscient": Omniscient,
    "random": Random,
}

__all__ = [
    "AGENTS", "GLRUCRL", "PSRL", "RBOCPDUCRL2", "SWPSRL", "SWUCRL", "UCRL2", "UCRL2R", "UCRL2RW",
    "Agent", "AgentLike", "Doubling", "Episodic", "Growing", "Omniscient", "Oracle", "OraclePSRL",
    "Probing", "QLearning", "Random", "load",
]  # fmt: skip
