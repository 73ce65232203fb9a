"""What callers may give as a problem: one that changes, or a single MDP, which never does."""

from __future__ import annotations

from switchmdp.errors import InvalidParameter
from switchmdp.mdp.mdp import MDP
from switchmdp.mdp.switching import SwitchingMDP


def as_switching(problem: SwitchingMDP | MDP) -> SwitchingMDP:
    """The problem as a SwitchingMDP, whichever of the two it is.

    >>> as_switching(MDP([[[0, 1]], [[1, 0]]], [[1], [0]])).changes
    0
    """
    if isinstance(problem, MDP):
        return SwitchingMDP([problem])
    if not isinstance(problem, SwitchingMDP):
        raise InvalidParameter("problem", problem, "an MDP or a SwitchingMDP")
    return problem
