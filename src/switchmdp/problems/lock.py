"""A combination lock made continuing.

In each of the states 0 … n-1 one action is right. It leads on with probability q = 1 - slip; it
may slip, and every other action does, back to state 0. The right action of the last state opens the
lock with probability q, which earns 1, and closes it again: back to state 0. Nothing else earns.

The optimal policy always does what is right, and opens the lock as often as n successes in a row
come: every (q⁻ⁿ - 1)/(1 - q) steps, so

    ρ* = (1 - q) qⁿ / (1 - qⁿ)   (1/n for q = 1),      D = (q^-(n-1) - 1)/(1 - q).

Who acts at random opens it every Aⁿ steps or less often: it takes deliberate exploration. At a
change the lock gets another combination.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from switchmdp.errors import InvalidParameter
from switchmdp.mdp import MDP, Bernoulli, RewardLaw, SwitchingMDP
from switchmdp.problems.changing import When, switching
from switchmdp.problems.random import even_change_points, must_fit
from switchmdp.validation import check_integer, is_number


def combination_lock(
    length: int = 6, n_actions: int = 2, *, slip: float = 0.05, changes: int = 2,
    horizon: int = 100_000, cycle: int | None = None, change_points: When = even_change_points,
    seed: int = 0, law: RewardLaw | None = None,
) -> SwitchingMDP:  # fmt: skip
    """A lock that opens after `length` right actions in a row, with a new combination at a change.

    >>> from switchmdp.planning import optimal_gains
    >>> optimal_gains(combination_lock(4, slip=0.0, changes=1, horizon=1000)).round(9).tolist()
    [0.25, 0.25]
    """
    length, n_actions = (
        check_integer("length", length, 1, 3000),
        check_integer("n_actions", n_actions, 2),
    )
    must_fit(length, n_actions, 1)
    if not is_number(slip) or not 0.0 <= slip < 1.0:
        raise InvalidParameter("slip", slip, "a number from 0 to below 1")
    rng = np.random.default_rng(check_integer("seed", seed, 0))
    law = Bernoulli() if law is None else law
    combination = rng.integers(0, n_actions, length)

    def another(lock: MDP) -> MDP:
        nonlocal combination
        before = combination
        while (combination == before).all():
            combination = rng.integers(0, n_actions, length)
        return _lock(combination, n_actions, float(slip), law)

    return switching(
        _lock(combination, n_actions, float(slip), law), another, changes=changes,
        horizon=horizon, cycle=cycle, change_points=change_points,
    )  # fmt: skip


def _lock(combination: Any, n_actions: int, slip: float, law: RewardLaw) -> MDP:
    n = len(combination)
    transitions, rewards = np.zeros((n, n_actions, n)), np.zeros((n, n_actions))
    transitions[:, :, 0] = 1.0
    here = np.arange(n - 1)
    transitions[here, combination[:-1], 0] = slip
    transitions[here, combination[:-1], here + 1] = 1.0 - slip
    rewards[n - 1, combination[-1]] = 1.0 - slip
    return MDP(transitions, rewards, law=law)
