"""MDPs and switching MDPs: data, validated when they are made.

- `mdp`, `switching`: the public classes `MDP` and `SwitchingMDP`
- `pairs`: state-action pairs; `model`: the arrays that machine code works on
- `parse`: all accepted forms of transitions and rewards
- `pool`: the rows and patches of a problem, built or read from a file
- `laws`: reward laws; `graph`: reachability
"""

from switchmdp.mdp.laws import Bernoulli, Beta, Deterministic, RewardLaw
from switchmdp.mdp.mdp import MDP
from switchmdp.mdp.pairs import Pairs
from switchmdp.mdp.switching import SwitchingMDP, as_switching

__all__ = [
    "MDP", "Bernoulli", "Beta", "Deterministic", "Pairs", "RewardLaw", "SwitchingMDP",
    "as_switching",
]  # fmt: skip
