"""Problems: functions that make MDPs and switching MDPs.

- `random`: the random problems of the paper, Garnet, and sparse ones
- `changing`: any MDP with a change operator and change points
- `change_operators`: how an MDP changes (new rewards, one pair, small steps, …)
- `drift`: gradual changes
- `structured`, `applications`: problems with a structure

`PROBLEMS` has the names that configuration files, the command line and Gymnasium know. To add a
problem, add one line there. Users mark their own functions with `problem_factory`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from switchmdp.errors import InvalidParameter
from switchmdp.mdp import Bernoulli, Beta, Deterministic
from switchmdp.problems.applications import ad_placement, inventory, inventory_mdp
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
from switchmdp.problems.changing import changing, garnet, random_changes
from switchmdp.problems.drift import Sinusoidal, drifting, gradual_drift, linear, random_walk
from switchmdp.problems.random import (
    dirichlet_rows,
    even_change_points,
    garnet_mdp,
    paper_change_points,
    random_mdp,
    random_sparse_mdp,
    random_switching,
    uniform_rows,
)
from switchmdp.problems.structured import (
    combination_lock,
    lower_bound,
    perilous_counts,
    perils_of_drift,
    ring_with_shortcuts,
    riverswim,
    riverswim_flips,
)

__all__ = [
    "CHOICES", "PROBLEMS", "HiddenImprovement", "Sinusoidal", "SmallSteps", "ad_placement",
    "changing", "combination_lock", "dirichlet_rows", "drifting", "even_change_points",
    "everything", "garnet", "garnet_mdp", "gradual_drift", "inventory", "inventory_mdp",
    "is_problem_factory", "linear",
    "lower_bound", "mirrored", "new_rewards", "new_transitions", "one_pair", "paper_change_points",
    "perilous_counts", "perils_of_drift", "permuted_actions", "problem_factory", "random_changes",
    "random_mdp", "random_sparse_mdp", "random_switching", "random_walk", "ring_with_shortcuts",
    "riverswim", "riverswim_flips", "uniform_rows",
]  # fmt: skip

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

F = TypeVar("F", bound=Callable[..., Any])


def problem_factory(function: F) -> F:
    """Mark a function that returns an `MDP` or a `SwitchingMDP` for use in configurations.

    >>> from switchmdp.mdp import MDP
    >>> @problem_factory
    ... def swap(mean=0.5):
    ...     return MDP([[[0, 1]], [[1, 0]]], [[mean], [0]])
    >>> swap().n_states, is_problem_factory(swap), is_problem_factory(print)
    (2, True, False)
    """
    if not callable(function):
        raise InvalidParameter("the argument of problem_factory", function, "a function")
    function.makes_problems = True  # type: ignore[attr-defined]  # functions take any attribute
    return function


def is_problem_factory(value: Any) -> bool:
    """Whether a value is a function that was marked."""
    return callable(value) and getattr(value, "makes_problems", None) is True
