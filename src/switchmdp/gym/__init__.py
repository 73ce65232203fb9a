"""Gymnasium, both ways: our problems as environments, any discrete environment for our agents.

The only place that imports Gymnasium. Every problem has an id there, `switchmdp/RandomSwitching-v0`
and so on.
"""

import gymnasium

from switchmdp.gym.changes import (
    Change,
    PermuteActions,
    PerturbTransitions,
    RescaleRewards,
    ReseedMap,
)
from switchmdp.gym.changing import At, AtRate, Changing, Every, Schedule
from switchmdp.gym.environment import SwitchingEnv, make_env
from switchmdp.gym.model import to_mdp
from switchmdp.gym.play import Played, play
from switchmdp.registration import identifier, register_with

__all__ = [
    "At", "AtRate", "Change", "Changing", "Every", "PermuteActions", "PerturbTransitions", "Played",
    "RescaleRewards", "ReseedMap", "Schedule", "SwitchingEnv", "identifier", "make_env", "play",
    "to_mdp",
]  # fmt: skip

register_with(gymnasium)
