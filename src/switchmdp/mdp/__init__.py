"""MDPs and switching MDPs: data, validated at one door."""

from switchmdp.mdp.given import as_switching
from switchmdp.mdp.laws import Bernoulli, Beta, Deterministic, RewardLaw
from switchmdp.mdp.mdp import MDP
from switchmdp.mdp.pairs import Pairs
from switchmdp.mdp.switching import SwitchingMDP

__all__ = [
    "MDP", "Bernoulli", "Beta", "Deterministic", "Pairs", "RewardLaw", "SwitchingMDP",
    "as_switching",
]  # fmt: skip
