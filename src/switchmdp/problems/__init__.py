"""Problems: functions that make MDPs and switching MDPs.

- `random`: the random problems of the paper, Garnet, and sparse ones
- `changes`: change operators (new rewards, one pair, small steps, …), any MDP with one of them, and
  drift
- `structured`: RiverSwim, locks, grids, contexts, applications: problems with a structure

`PROBLEMS` has the names that configuration files, the command line and Gymnasium know. To add a
problem, add one line there. Users mark their own functions with `problem_factory`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from switchmdp.errors import InvalidParameter
from switchmdp.mdp import Bernoulli, Beta, Deterministic
from switchmdp.problems.changes import (
    HiddenImprovement,
    Sinusoidal,
    SmallSteps,
    changing,
    drifting,
    everything,
    garnet,
    gradual_drift,
    linear,
    mirrored,
    new_rewards,
    new_transitions,
    one_pair,
    permuted_actions,
    random_changes,
    random_walk,
)
from switchmdp.problems.random import (
    bursts,
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
    ad_placement,
    combination_lock,
    concentrated_rows,
    contextual_bandit,
    deterministic_graph,
    far_bank,
    grid,
    inventory,
    inventory_mdp,
    lower_bound,
    perilous_counts,
    perils_of_drift,
    ring_with_shortcuts,
    riverswim,
    riverswim_flips,
)

__all__ = [
    "CHOICES", "PROBLEMS", "HiddenImprovement", "Sinusoidal", "SmallSteps", "ad_placement",
    "bursts", "changing", "combination_lock", "concentrated_rows", "contextual_bandit",
    "deterministic_graph", "dirichlet_rows", "drifting", "even_change_points", "everything",
    "far_bank", "garnet", "garnet_mdp", "gradual_drift", "grid", "inventory", "inventory_mdp",
    "is_problem_factory", "linear", "lower_bound", "mirrored", "new_rewards", "new_transitions",
    "one_pair", "paper_change_points", "perilous_counts", "perils_of_drift", "permuted_actions",
    "problem_factory", "random_changes", "random_mdp", "random_sparse_mdp", "random_switching",
    "random_walk", "ring_with_shortcuts", "riverswim", "riverswim_flips", "uniform_rows",
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
    "contextual-bandit": contextual_bandit,
    "concentrated-rows": concentrated_rows,
    "far-bank": far_bank,
    "grid": grid,
    "deterministic-graph": deterministic_graph,
}

# What a configuration file may say, by name, for the parameters that are functions or laws.
CHOICES: dict[str, dict[str, Any]] = {
    "rows": {"dirichlet": dirichlet_rows, "uniform": uniform_rows},
    "law": {"bernoulli": Bernoulli, "deterministic": Deterministic, "beta": Beta},
    "change_points": {
        "paper": paper_change_points,
        "even": even_change_points,
        "bursts": bursts,
    },
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


if not TYPE_CHECKING:  # type checkers would then accept any name

    def __getattr__(name: str) -> Any:
        """An error that names the function of a registered problem, for a name that is not here."""
        known = PROBLEMS.get(name.replace("_", "-"))
        advice = f"; did you mean {known.__name__!r}?" if known is not None else ""
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}{advice}")


def __dir__() -> list[str]:
    return sorted(__all__)


F = TypeVar("F", bound=Callable[..., Any])


def problem_factory(function: F) -> F:
    """Mark a function that returns an `MDP` or a `SwitchingMDP` for use in configurations.

    Parameters
    ----------
    function
        A function that returns a problem.

    Returns
    -------
    function
        The same function, marked.

    Raises
    ------
    InvalidParameter
        If a parameter has the wrong type or is out of range.

    Examples
    --------
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
    """Whether a value is a function that was marked.

    Parameters
    ----------
    value
        Any object.

    Returns
    -------
    bool
        Whether `problem_factory` marked it.

    Examples
    --------
    >>> is_problem_factory(problem_factory(lambda: random_mdp(2, 2))), is_problem_factory(print)
    (True, False)
    """
    return callable(value) and getattr(value, "makes_problems", None) is True
