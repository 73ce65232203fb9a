"""Agents: two verbs, `act` and `observe`. One paper, one file; a new one is a line in AGENTS."""

from switchmdp.agents.borl import BORL, PaperBORL
from switchmdp.agents.episodes import Doubling, Growing
from switchmdp.agents.episodic import Episodic
from switchmdp.agents.master import MASTER
from switchmdp.agents.protocol import Agent, AgentLike
from switchmdp.agents.references import Omniscient, Random
from switchmdp.agents.stored import load
from switchmdp.agents.sw_ucrl import SWUCRL
from switchmdp.agents.ucrl2 import UCRL2, UCRL2R, UCRL2RW, Oracle

AGENTS: dict[str, type[Agent]] = {
    "sw-ucrl": SWUCRL,
    "ucrl2": UCRL2,
    "ucrl2-r": UCRL2R,
    "ucrl2-rw": UCRL2RW,
    "borl": BORL,
    "borl-full-grid": PaperBORL,
    "master-ucrl": MASTER,
    "oracle": Oracle,
    "omniscient": Omniscient,
    "random": Random,
}

__all__ = [
    "AGENTS", "BORL", "MASTER", "SWUCRL", "UCRL2", "UCRL2R", "UCRL2RW", "Agent", "AgentLike", "Doubling",
    "Episodic", "Growing", "Omniscient", "Oracle", "PaperBORL", "Random", "load",
]  # fmt: skip
