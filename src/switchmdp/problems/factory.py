"""A mark for functions that make problems, so that an experiment's configuration may name them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from switchmdp.errors import InvalidParameter

F = TypeVar("F", bound=Callable[..., Any])


def problem_factory(function: F) -> F:
    """Mark a function of your own that returns an `MDP` or a `SwitchingMDP`.

    >>> from switchmdp.mdp import MDP
    >>> @problem_factory
    ... def swap(mean=0.5):
    ...     return MDP([[[0, 1]], [[1, 0]]], [[mean], [0]])
    >>> swap().n_states, is_problem_factory(swap), is_problem_factory(print)
    (2, True, False)
    """
    if not callable(function):
        raise InvalidParameter("what problem_factory marks", function, "a function")
    function.makes_problems = True  # type: ignore[attr-defined]  # functions take any attribute
    return function


def is_problem_factory(value: Any) -> bool:
    """Whether a value is a function that was marked."""
    return callable(value) and getattr(value, "makes_problems", None) is True
