"""Exact planning: gains, diameters, optimism, hardness, finite horizons.

Start with `gain`, `hardness` and `optimism`, which have the public functions.

- `gain`: `optimal_gain` and `policy_gain`, which choose a method and check its result, and the best
  expected reward in T steps if all changes are known
- `hardness`: the diameter, and spans, gaps and variations of a problem
- `optimism`: extended value iteration, for optimistic agents
- `inner_maximum`: its inner step, the best row in an L1 ball, in intervals or in a KL ball
- `iteration`: policy and value iteration in doubles, and the certificate of a gain
- `large`: the same for many states, where a dense matrix is too large
- `wide_iteration`: policy iteration where the bias exceeds what doubles can certify, with `wide`:
  arithmetic that neither overflows nor underflows, and evaluation of a policy with it
- `hitting_times`: least expected hitting times, certified
"""

from switchmdp.planning.gain import (
    Plan,
    clairvoyant_reward,
    optimal_gain,
    optimal_gain_brackets,
    optimal_gains,
    optimal_policies,
    policy_gain,
)
from switchmdp.planning.hardness import (
    Diameter,
    Hardness,
    action_gaps,
    diameter,
    hardness,
    is_communicating,
    variations,
)
from switchmdp.planning.inner_maximum import optimistic_row
from switchmdp.planning.optimism import OptimisticPlan, extended_value_iteration

__all__ = [
    "Diameter", "Hardness", "OptimisticPlan", "Plan", "action_gaps", "clairvoyant_reward",
    "diameter", "extended_value_iteration", "hardness", "is_communicating", "optimal_gain",
    "optimal_gain_brackets", "optimal_gains", "optimal_policies", "optimistic_row", "policy_gain",
    "variations",
]  # fmt: skip


def __dir__() -> list[str]:
    return sorted(__all__)
