"""Formulas: parameters of agents that depend on the problem.

    window = { formula = "optimal-window", diameter = 1, times = 0.5 }

A formula is a function of the problem, the horizon and δ. Its other parameters are written next to
its name. To add a formula, write a function and add one line to FORMULAS.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from switchmdp import theory
from switchmdp.errors import InvalidParameter
from switchmdp.mdp import SwitchingMDP
from switchmdp.planning import diameter as exact_diameter
from switchmdp.planning import variations
from switchmdp.validation import check_integer, check_positive

MOST_CHANGES = 10**9


@dataclass(frozen=True)
class Context:
    """What a formula may use."""

    problem: SwitchingMDP
    horizon: int
    delta: float


def optimal_window(
    context: Context, *, diameter: float | str = "lower-bound", times: float = 1.0
) -> int:
    """W* of Eq. 3 of Gajane, Ortner and Auer (2018), for the problem's number of changes.

    `diameter`: a number, "lower-bound" (max(1, log_A S - 3)) or "exact" (the largest of the
    problem's configurations); `times`: a factor on the result. The horizon if nothing changes.

    >>> from switchmdp.problems import random_switching
    >>> optimal_window(Context(random_switching(changes=2, seed=0), 100_000, 0.1), diameter=1)
    89119
    """
    problem, horizon = context.problem, context.horizon
    factor = check_positive("times", times)
    if problem.changes == 0:
        return horizon
    window = _window(
        horizon, _diameter(problem, diameter), problem.n_states, problem.n_actions,
        problem.changes, context.delta,
    )  # fmt: skip
    return int(min(max(round(window * factor), problem.pairs.n_pairs), horizon))


@lru_cache(maxsize=256)
def _window(
    horizon: int, diameter: float, n_states: int, n_actions: int, changes: int, delta: float
) -> int:
    return theory.optimal_window(
        horizon=horizon, diameter=diameter, n_states=n_states, n_actions=n_actions,
        changes=changes, delta=delta,
    )  # fmt: skip


def _diameter(problem: SwitchingMDP, value: float | str) -> float:
    if value == "lower-bound":
        return theory.diameter_lower_bound(n_states=problem.n_states, n_actions=problem.n_actions)
    if value == "exact":
        return max(exact_diameter(mdp) for mdp in problem.configurations())
    if isinstance(value, str):
        raise InvalidParameter("diameter", value, "a number, 'lower-bound' or 'exact'")
    return check_positive("diameter", value)


def changes(context: Context, *, plus: int = 0) -> int:
    """The problem's number of changes, including those after the horizon."""
    return context.problem.changes + check_integer("plus", plus, -MOST_CHANGES, MOST_CHANGES)


def change_points(context: Context) -> Any:
    """The problem's change points."""
    return context.problem.change_points


def horizon(context: Context, *, times: float = 1.0) -> int:
    """The number of steps, or a multiple of it."""
    return max(1, round(context.horizon * check_positive("times", times)))


def reward_variation(context: Context) -> float:
    """B_r: the largest change of a mean reward, summed over all change points."""
    return variations(context.problem)[0]


def transition_variation(context: Context) -> float:
    """B_p: the largest L1 change of a transition row, summed over all change points."""
    return variations(context.problem)[1]


def cw_window(context: Context, *, times: float = 1.0) -> int:
    """W* of SWUCRL2-CW (Cheung, Simchi-Levi, Zhu 2020), for the problem's variations.

    >>> from switchmdp.problems import random_mdp
    >>> cw_window(Context(SwitchingMDP([random_mdp(5, 3, seed=0)], []), 100_000, 0.1))
    4805
    """
    problem = context.problem
    reward, transition = variations(problem)
    window = theory.cw_window(
        horizon=context.horizon, n_states=problem.n_states, n_actions=problem.n_actions,
        reward_variation=reward, transition_variation=transition,
    )  # fmt: skip
    return min(max(1, round(window * check_positive("times", times))), context.horizon)


def cw_widening(context: Context, *, times: float = 1.0) -> float:
    """η* of SWUCRL2-CW, for that window and the problem's variations."""
    eta = theory.cw_widening(
        horizon=context.horizon, window=cw_window(context),
        transition_variation=variations(context.problem)[1],
    )  # fmt: skip
    return eta * check_positive("times", times)


def exploration_rate(context: Context, *, times: float = 1.0) -> float:
    """√(l S A log T / T), at most 1: the exploration rate of bandits with GLR restarts.

    >>> from switchmdp.problems import random_switching
    >>> problem = random_switching(5, 3, changes=2, seed=0)
    >>> round(exploration_rate(Context(problem, 100_000, 0.1)), 5)
    0.05877
    """
    problem, T = context.problem, context.horizon
    share = problem.changes * problem.n_states * problem.n_actions * math.log(T) / T
    return min(1.0, math.sqrt(share) * check_positive("times", times))


FORMULAS: dict[str, Callable[..., Any]] = {
    "optimal-window": optimal_window,
    "changes": changes,
    "change-points": change_points,
    "horizon": horizon,
    "reward-variation": reward_variation,
    "transition-variation": transition_variation,
    "cw-window": cw_window,
    "cw-widening": cw_widening,
    "exploration-rate": exploration_rate,
}


def plain(value: Any) -> Any:
    """A parameter's value in a form that JSON can represent."""
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, (bool, int, float, str)) or value is None:
        return value
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    return str(getattr(value, "__name__", value))
