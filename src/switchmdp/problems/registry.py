"""The registry of problems: names for configuration files, the command line and Gymnasium.

To add a problem, add one line to `PROBLEMS`. Users mark their own functions with `problem_factory`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from switchmdp.errors import InvalidParameter
from switchmdp.mdp import Bernoulli, Beta, Deterministic
from switchmdp.problems.applications import ad_placement, inventory
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
from switchmdp.problems.changing import garnet, random_changes
from switchmdp.problems.drift import Sinusoidal, gradual_drift, linear, random_walk
from switchmdp.problems.random import (
    dirichlet_rows,
    even_change_points,
    paper_change_points,
    random_mdp,
    random_sparse_mdp,
    random_switching,
    uniform_rows,
)
from switchmdp.problems.two_states import lower_bound, perils_of_drift

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
