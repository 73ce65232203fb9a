"""Exact planning: gains, diameters, optimism, hardness, finite horizons."""

from switchmdp.planning.clairvoyant import clairvoyant_reward
from switchmdp.planning.diameter import Diameter, diameter, is_communicating
from switchmdp.planning.gain import (
    Plan,
    optimal_gain,
    optimal_gain_brackets,
    optimal_gains,
    optimal_policies,
    policy_gain,
)
from switchmdp.planning.hardness import Hardness, action_gaps, hardness, variations
from switchmdp.planning.inner_maximum import optimistic_row
from switchmdp.planning.optimism import OptimisticPlan, extended_value_iteration

__all__ = [
    "Diameter", "Hardness", "OptimisticPlan", "Plan", "action_gaps", "clairvoyant_reward",
    "diameter", "extended_value_iteration", "hardness", "is_communicating", "optimal_gain",
    "optimal_gain_brackets", "optimal_gains", "optimal_policies", "optimistic_row", "policy_gain",
    "variations",
]  # fmt: skip
