"""Exact planning: gains, diameters, optimism, hardness, finite horizons.

Start with `gain`, `diameter` and `optimism`, which have the public functions.

- `gain`: `optimal_gain` and `policy_gain`, which choose a method and check its result, and the best
  expected reward in T steps if all changes are known
- `iteration`: policy and value iteration in doubles, and the certificate of a gain
- `evaluation`: gain and bias of one policy by state reduction, for policy iteration
- `large_values`: value iteration, and policy iteration on trees, for many states
- `large`: policy iteration with sparse factorisation, for many states where those fail
- `wide_iteration`: policy iteration where the bias exceeds what doubles can certify, with `wide`:
  arithmetic that neither overflows nor underflows, and evaluation of a policy with it
- `diameter`: expected hitting times and the diameter, with `large_diameter` for many states
- `optimism`: extended value iteration, for optimistic agents
- `inner_maximum`: its inner step, the best row in an L1 ball, in intervals or in a KL ball
- `hardness`: diameters, spans, gaps and variations of a problem
"""

from switchmdp.planning.diameter import Diameter, diameter, is_communicating
from switchmdp.planning.gain import (
    Plan,
    clairvoyant_reward,
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
