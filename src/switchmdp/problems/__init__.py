"""Problems: functions that make MDPs and switching MDPs.

- `random`: the random problems of the paper, and sparse ones
- `changing`: any MDP with a change operator and change points; Garnet
- `change_operators`: how an MDP changes (new rewards, one pair, small steps, …)
- `drift`: gradual changes
- `chains`, `two_states`, `applications`: problems with a structure
- `registry`: `PROBLEMS`, their names; add a problem there
"""

from switchmdp.problems.applications import ad_placement, inventory, inventory_mdp
from switchmdp.problems.chains import (
    combination_lock,
    ring_with_shortcuts,
    riverswim,
    riverswim_flips,
)
from switchmdp.problems.change_operators import (
    HiddenImprovement,
    SmallSteps,
    everything,
    mirrored,
    new_rewards,
    new_transitions,
    one_pair,
    permuted_actions,
)
from switchmdp.problems.changing import changing, garnet, garnet_mdp, random_changes
from switchmdp.problems.drift import Sinusoidal, drifting, gradual_drift, linear, random_walk
from switchmdp.problems.random import (
    dirichlet_rows,
    even_change_points,
    paper_change_points,
    random_mdp,
    random_sparse_mdp,
    random_switching,
    uniform_rows,
)
from switchmdp.problems.registry import CHOICES, PROBLEMS, problem_factory
from switchmdp.problems.two_states import lower_bound, perilous_counts, perils_of_drift

__all__ = [
    "CHOICES", "PROBLEMS", "HiddenImprovement", "Sinusoidal", "SmallSteps", "ad_placement",
    "changing", "combination_lock", "dirichlet_rows", "drifting", "even_change_points",
    "everything", "garnet", "garnet_mdp", "gradual_drift", "inventory", "inventory_mdp", "linear",
    "lower_bound", "mirrored", "new_rewards", "new_transitions", "one_pair", "paper_change_points",
    "perilous_counts", "perils_of_drift", "permuted_actions", "problem_factory", "random_changes",
    "random_mdp", "random_sparse_mdp", "random_switching", "random_walk", "ring_with_shortcuts",
    "riverswim", "riverswim_flips", "uniform_rows",
]  # fmt: skip
