"""MDPs and switching MDPs: data, validated when they are made.

- `mdp`: reward laws, and the public classes `MDP` and `SwitchingMDP`
- `pairs`: state-action pairs
- `model`: the arrays that machine code works on, and reachability
- `parse`: all accepted forms of transitions and rewards
- `pool`: the rows and patches of a problem, built or read from a file
"""

from switchmdp.mdp.mdp import (
    MDP,
    Bernoulli,
    Beta,
    Deterministic,
    RewardLaw,
    SwitchingMDP,
    as_switching,
)
from switchmdp.mdp.pairs import Pairs

__all__ = [
    "MDP", "Bernoulli", "Beta", "Deterministic", "Pairs", "RewardLaw", "SwitchingMDP",
    "as_switching",
]  # fmt: skip


def __dir__() -> list[str]:
    return sorted(__all__)
