"""Agents: two verbs, `act` and `observe`. One paper, one file; a new one is a line in AGENTS."""

from switchmdp.agents.bocpd_ucrl2 import RBOCPDUCRL2
from switchmdp.agents.borl import BORL, PaperBORL
from switchmdp.agents.combinations import GLRPSRL, FadingPSRL, ToldKLUCRL, ToldUCRL2B, ToldUCRL3
from switchmdp.agents.episodes import Doubling, Growing, Rooted
from switchmdp.agents.episodic import Episodic
from switchmdp.agents.evidence_psrl import EvidencePSRL
from switchmdp.agents.exploration import AsPlanned, Probes
from switchmdp.agents.glr_ucrl import GLRUCRL, ForcedExploration
from switchmdp.agents.kl_ucrl import KLUCRL
from switchmdp.agents.master import MASTER
from switchmdp.agents.protocol import Agent, AgentLike
from switchmdp.agents.psrl import PSRL, SWPSRL, OraclePSRL
from switchmdp.agents.q_learning import QLearning
from switchmdp.agents.references import Omniscient, Random
from switchmdp.agents.saving import load
from switchmdp.agents.sw_ucrl import SWUCRL
from switchmdp.agents.swucrl_cw import SWUCRL2CW
from switchmdp.agents.ucrl2 import UCRL2, UCRL2R, UCRL2RW, Oracle
from switchmdp.agents.ucrl2b import UCRL2B
from switchmdp.agents.ucrl3 import UCRL3
from switchmdp.agents.variation_aware import VariationAwareUCRL

AGENTS: dict[str, type[Agent]] = {
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
    "oracle": Oracle,
    "glr-ucrl": GLRUCRL,
    "r-bocpd-ucrl2": RBOCPDUCRL2,
    "psrl": PSRL,
    "sw-psrl": SWPSRL,
    "fading-psrl": FadingPSRL,
    "glr-psrl": GLRPSRL,
    "oracle-psrl": OraclePSRL,
    "told-ucrl2b": ToldUCRL2B,
    "told-ucrl3": ToldUCRL3,
    "told-kl-ucrl": ToldKLUCRL,
    "q-learning": QLearning,
    "omniscient": Omniscient,
    "random": Random,
}

__all__ = [
    "AGENTS", "BORL", "GLRPSRL", "GLRUCRL", "KLUCRL", "MASTER", "PSRL", "RBOCPDUCRL2", "SWPSRL",
    "SWUCRL", "SWUCRL2CW", "UCRL2", "UCRL2B", "UCRL2R", "UCRL2RW", "UCRL3", "Agent", "AgentLike",
    "AsPlanned", "Doubling", "Episodic", "EvidencePSRL", "FadingPSRL", "ForcedExploration",
    "Growing", "Omniscient", "Oracle", "OraclePSRL", "PaperBORL", "Probes", "QLearning", "Random",
    "Rooted", "ToldKLUCRL", "ToldUCRL2B", "ToldUCRL3", "VariationAwareUCRL", "load",
]  # fmt: skip
