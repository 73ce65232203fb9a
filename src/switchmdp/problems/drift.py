"""Drift: problems that change all the time.

Rows move every `every` steps (default: a thousandth of the horizon), before steps 1 + every,
1 + 2·every, … . `hardness` and `variations` report the total variations

    B_r = Σ max_{s,a} |Δr̄|,      B_p = Σ max_{s,a} ‖Δp‖₁      over all moves.

**Gradual drift** leads from M_0 to M_1, the result of a change operator. After a share x of the
time the problem is (1 - path(x)) M_0 + path(x) M_1. The path is linear, or a sine wave.
**Random walk**: every row performs a random walk on the simplex and every mean one in [0, 1], as in
`SmallSteps`. The walk preserves uniform laws, so at any time the problem looks
like a random MDP.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.random import SeedSequence
from numpy.typing import NDArray

from switchmdp.errors import InvalidParameter, InvalidProblem
from switchmdp.mdp import MDP, RewardLaw, SwitchingMDP
from switchmdp.problems.changes import How, at_most_one, changing, everything, exchange, step_within
from switchmdp.problems.random import MOST_CHANGES, must_fit, random_mdp
from switchmdp.validation import check_integer, check_positive, is_number

Path = Callable[[float], float]


def linear(share: float) -> float:
    """The path of a drift with constant speed.

    Parameters
    ----------
    share
        The share of the time that has passed.

    Returns
    -------
    float
        The position on the path.

    Examples
    --------
    >>> linear(0.25)
    0.25
    """
    return share


@dataclass(frozen=True)
class Sinusoidal:
    """A path of a drift that returns to its start `cycles` times: (1 - cos 2π·cycles·x)/2.

    Parameters
    ----------
    cycles
        How often the path returns to its start.

    Raises
    ------
    InvalidParameter
        If a parameter has the wrong type or is out of range.

    Examples
    --------
    >>> Sinusoidal(cycles=2)(0.25)
    1.0
    """

    cycles: float = 1.0

    def __post_init__(self) -> None:
        check_positive("cycles", self.cycles)

    def __call__(self, share: float) -> float:
        return (1.0 - math.cos(2.0 * math.pi * self.cycles * share)) / 2.0


def gradual_drift(
    n_states: int = 5, n_actions: int = 3, *, how: How = everything, path: Path = linear,
    horizon: int = 100_000, every: int | None = None, seed: int = 0, law: RewardLaw | None = None,
) -> SwitchingMDP:  # fmt: skip
    """A random MDP that gradually becomes another one, along a path.

    Parameters
    ----------
    n_states
        The number of states.
    n_actions
        The number of actions of each state.
    how
        How: a change operator, such as `new_rewards` or `SmallSteps(0.1)`.
    path
        A function from [0, 1] to [0, 1], such as `linear` or `Sinusoidal(cycles=2)`.
    horizon
        The number of steps of a run.
    every
        The number of steps between two moves; by default a thousandth of the horizon.
    seed
        The seed of all that is drawn.
    law
        The reward law; Bernoulli by default.

    Returns
    -------
    SwitchingMDP
        The problem.

    Raises
    ------
    InvalidParameter
        If a parameter has the wrong type or is out of range.
    NotCommunicating
        If some states cannot reach each other.

    Examples
    --------
    >>> from switchmdp.planning import variations
    >>> from switchmdp.problems import new_rewards
    >>> drift = gradual_drift(how=new_rewards, horizon=1000, every=100)
    >>> drift.change_points.tolist(), variations(drift)[1]
    ([101, 201, 301, 401, 501, 601, 701, 801, 901], 0.0)
    """
    first, further = SeedSequence(check_integer("seed", seed, 0)).spawn(2)
    base = random_mdp(n_states, n_actions, seed=first, law=law)
    target = changing(base, how, changes=1, horizon=2, seed=further).configuration(1)
    return drifting(base, target, path, horizon=horizon, every=every)


def drifting(
    first: MDP, last: MDP, path: Path = linear, *, horizon: int = 100_000, every: int | None = None
) -> SwitchingMDP:
    """One MDP that becomes another along a path, a function from [0, 1] to [0, 1].

    Parameters
    ----------
    first
        The MDP at the start.
    last
        The MDP at the end.
    path
        A function from [0, 1] to [0, 1], such as `linear` or `Sinusoidal(cycles=2)`.
    horizon
        The number of steps of a run.
    every
        The number of steps between two moves; by default a thousandth of the horizon.

    Returns
    -------
    SwitchingMDP
        The problem.

    Raises
    ------
    InvalidParameter
        If a parameter has the wrong type or is out of range.
    InvalidProblem
        If the two differ in their states, actions or reward laws.
    NotCommunicating
        If some states cannot reach each other.

    Examples
    --------
    >>> from switchmdp.problems import riverswim
    >>> drifting(riverswim(), riverswim(), horizon=1000, every=250).changes
    3
    """
    for field, mdp in (("first", first), ("last", last)):
        if not isinstance(mdp, MDP):
            raise InvalidParameter(field, mdp, "an MDP")
    if not first.pairs.same_as(last.pairs) or first.law != last.law:
        raise InvalidProblem(
            f"{first} cannot drift to {last}: only rewards and transitions may differ"
        )
    if not callable(path) or isinstance(path, type):
        raise InvalidParameter("path", path, "a function such as linear or Sinusoidal(cycles=2)")
    points = _moves(first, horizon, every)
    x = np.array([_position(path, i / max(1, len(points))) for i in range(len(points) + 1)])
    x = x[:, None, None]
    # Written so that what is the same at both ends is the same in between, to the bit.
    means = first.rewards + x * (last.rewards - first.rewards)
    rows = first.transitions + x[..., None] * (last.transitions - first.transitions)
    return stacked(first, rows, means, points)


def random_walk(
    n_states: int = 5, n_actions: int = 3, *, step: float = 0.02, reward_step: float = 0.02,
    horizon: int = 100_000, every: int | None = None, seed: int = 0, law: RewardLaw | None = None,
) -> SwitchingMDP:  # fmt: skip
    """A random MDP whose rows and mean rewards perform random walks.

    `step` is the standard deviation of what two successors of a row exchange at a move,
    `reward_step` that of a mean's move.

    Parameters
    ----------
    n_states
        The number of states.
    n_actions
        The number of actions of each state.
    step
        The standard deviation of what two entries exchange at a move.
    reward_step
        The standard deviation of the move of a mean reward.
    horizon
        The number of steps of a run.
    every
        The number of steps between two moves; by default a thousandth of the horizon.
    seed
        The seed of all that is drawn.
    law
        The reward law; Bernoulli by default.

    Returns
    -------
    SwitchingMDP
        The problem.

    Raises
    ------
    InvalidParameter
        If a parameter has the wrong type or is out of range.

    Examples
    --------
    >>> random_walk(step=0.0, horizon=10_000, every=1000, seed=1).changes
    9
    """
    step, reward_step = at_most_one("step", step), at_most_one("reward_step", reward_step)
    first, further = SeedSequence(check_integer("seed", seed, 0)).spawn(2)
    base = random_mdp(n_states, n_actions, seed=first, law=law)
    points = _moves(base, horizon, every)
    rng = np.random.default_rng(further)
    rows = np.empty((len(points) + 1, n_states * n_actions, n_states))
    means = np.empty((len(points) + 1, n_states, n_actions))
    rows[0], means[0] = base.transitions.reshape(-1, n_states), base.rewards
    for i in range(len(points)):
        rows[i + 1] = exchange(rows[i], step, rng)
        means[i + 1] = step_within(means[i], reward_step, rng)
    return stacked(base, rows.reshape(*means.shape, n_states), means, points)


def moves(horizon: Any, every: Any) -> list[int]:
    """The steps before which a drifting problem moves.

    >>> moves(10, 3), len(moves(100_000, None))
    ([4, 7, 10], 999)
    """
    horizon = check_integer("horizon", horizon, 1)
    every = max(1, horizon // 1000) if every is None else check_integer("every", every, 1)
    count = (horizon - 1) // every
    if count > MOST_CHANGES:
        raise InvalidParameter("every", every, f"larger: {count} moves, of at most {MOST_CHANGES}")
    return list(range(1 + every, horizon + 1, every))


def _moves(mdp: MDP, horizon: Any, every: Any) -> list[int]:
    points = moves(horizon, every)
    must_fit(mdp.n_states, mdp.n_actions, len(points) + 1)
    return points


def _position(path: Path, share: float) -> float:
    x = path(share)
    if not is_number(x) or not 0.0 <= x <= 1.0:
        raise InvalidParameter(f"path({share})", x, "a number from 0 to 1")
    return float(x)


def stacked(
    base: MDP, transitions: NDArray[Any], means: NDArray[Any], points: list[int]
) -> SwitchingMDP:
    """A configuration for each (S, A, S) and (S, A) of the stacks; labels and law of the base."""
    if base.available.all():
        problem = SwitchingMDP.from_arrays(transitions, means, points, law=base.law)
        return problem.label_like(base)
    names = {"state_labels": base.state_labels, "action_labels": base.action_labels}
    made = (
        MDP(p, r, available=base.available, law=base.law, **names)
        for p, r in zip(transitions, means, strict=True)
    )
    return SwitchingMDP(made, points)
