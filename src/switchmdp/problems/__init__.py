"""Problems: functions that make MDPs and switching MDPs. A new one is one line in PROBLEMS."""

from collections.abc import Callable
from typing import Any

from switchmdp.mdp import Bernoulli, Beta, Deterministic
from switchmdp.problems.ads import ad_placement
from switchmdp.problems.chains import ring_with_shortcuts, riverswim, riverswim_flips
from switchmdp.problems.changing import changing, random_changes
from switchmdp.problems.drift import Sinusoidal, drifting, gradual_drift, linear, random_walk
from switchmdp.problems.factory import problem_factory
from switchmdp.problems.garnet import garnet, garnet_mdp
from switchmdp.problems.hidden import HiddenImprovement
from switchmdp.problems.inventory import inventory, inventory_mdp
from switchmdp.problems.lock import combination_lock
from switchmdp.problems.random import (
    dirichlet_rows,
    even_change_points,
    paper_change_points,
    random_mdp,
    random_sparse_mdp,
    random_switching,
    uniform_rows,
)
from switchmdp.problems.two_states import lower_bound, perilous_counts, perils_of_drift
from switchmdp.problems.ways import (
    SmallSteps,
    everything,
    mirrored,
    new_rewards,
    new_transitions,
    one_pair,
    permuted_actions,
)

PROBLEMS: dict[str, Callable[..., Any]] = {
    "random-switching": random_switching,
    "random": random_mdp,
    "random-sparse": random_sparse_mdp,
    "riverswim": riverswim,
    "ring-with-shortcuts": ring_with_shortcuts,
    "random-changes": random_changes,
    "garnet": garnet,
    "riverswim-flips": riverswim_flips,
    "gradual-drift": gradual_drift,
    "random-walk": random_walk,
    "perils-of-drift": perils_of_drift,
    "lower-bound": lower_bound,
    "combination-lock": combination_lock,
    "ad-placement": ad_placement,
    "inventory": inventory,
}

# What a configuration file may say, by name, for the parameters that are functions or laws.
CHOICES: dict[str, dict[str, Any]] = {
    "rows": {"dirichlet": dirichlet_rows, "uniform": uniform_rows},
    "law": {"bernoulli": Bernoulli, "deterministic": Deterministic, "beta": Beta},
    "change_points": {"paper": paper_change_points, "even": even_change_points},
    "how": {
        "everything": everything,
        "rewards": new_rewards,
        "transitions": new_transitions,
        "one-pair": one_pair,
        "small-steps": SmallSteps,
        "hidden-improvement": HiddenImprovement,
        "permuted-actions": permuted_actions,
        "mirrored": mirrored,
    },
    "path": {"linear": linear, "sinusoidal": Sinusoidal},
}

__all__ = [
    "CHOICES", "PROBLEMS", "HiddenImprovement", "Sinusoidal", "SmallSteps", "ad_placement",
    "changing", "combination_lock", "dirichlet_rows", "drifting", "even_change_points",
    "everything", "garnet", "garnet_mdp", "gradual_drift", "inventory", "inventory_mdp", "linear",
    "lower_bound", "mirrored", "new_rewards", "new_transitions", "one_pair", "paper_change_points",
    "perilous_counts", "perils_of_drift", "permuted_actions", "problem_factory", "random_changes",
    "random_mdp", "random_sparse_mdp", "random_switching", "random_walk", "ring_with_shortcuts",
    "riverswim", "riverswim_flips", "uniform_rows",
]  # fmt: skip
