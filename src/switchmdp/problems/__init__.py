"""Problems: functions that make MDPs and switching MDPs. A new one is one line in PROBLEMS."""

from collections.abc import Callable
from typing import Any

from switchmdp.mdp import Bernoulli, Beta, Deterministic
from switchmdp.problems.chains import ring_with_shortcuts, riverswim
from switchmdp.problems.random import (
    dirichlet_rows,
    even_change_points,
    paper_change_points,
    random_mdp,
    random_sparse_mdp,
    random_switching,
    uniform_rows,
)

PROBLEMS: dict[str, Callable[..., Any]] = {
    "random-switching": random_switching,
    "random": random_mdp,
    "random-sparse": random_sparse_mdp,
    "riverswim": riverswim,
    "ring-with-shortcuts": ring_with_shortcuts,
}

# What a configuration file may say, by name, for the parameters that are functions or laws.
CHOICES: dict[str, dict[str, Any]] = {
    "rows": {"dirichlet": dirichlet_rows, "uniform": uniform_rows},
    "law": {"bernoulli": Bernoulli, "deterministic": Deterministic, "beta": Beta},
    "change_points": {"paper": paper_change_points, "even": even_change_points},
}

__all__ = [
    "CHOICES", "PROBLEMS", "dirichlet_rows", "even_change_points", "paper_change_points",
    "random_mdp", "random_sparse_mdp", "random_switching", "ring_with_shortcuts", "riverswim",
    "uniform_rows",
]  # fmt: skip
