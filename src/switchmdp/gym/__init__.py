"""Gymnasium in both directions: problems as environments, and agents on any discrete environment.

Importing this package registers every problem with Gymnasium, as `switchmdp/RandomSwitching-v0` and
so on. It is the only package that imports Gymnasium, which comes with the extra `gym`.

- `environment`: problems as environments, with their ids, tabular environments as MDPs, and agents
  on any environment (`play`)
- `wrappers`: make any environment change
"""

from switchmdp.errors import MissingExtra

try:
    import gymnasium
except ImportError as error:
    raise MissingExtra("switchmdp.gym needs Gymnasium: pip install 'switchmdp[gym]'") from error

from switchmdp.gym.environment import (
    Played,
    SwitchingEnv,
    identifier,
    make_env,
    play,
    register,
    to_mdp,
)
from switchmdp.gym.wrappers import (
    At,
    AtRate,
    Change,
    Changing,
    Every,
    PermuteActions,
    PerturbTransitions,
    RescaleRewards,
    ReseedMap,
    Schedule,
)

__all__ = [
    "At", "AtRate", "Change", "Changing", "Every", "PermuteActions", "PerturbTransitions", "Played",
    "RescaleRewards", "ReseedMap", "Schedule", "SwitchingEnv", "identifier", "make_env", "play",
    "register", "to_mdp",
]  # fmt: skip

register(gymnasium.registry)
