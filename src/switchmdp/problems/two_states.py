"""Two problems with two states: a lower bound on the regret, and data that misleads windows.

**Lower bound** (after Jaksch, Ortner, Auer 2010, Section 6). All actions of s1, which earns 1, fall
back to s0 with probability δ' = 1/D. All actions of s0, which earns nothing, leave it with δ', and
one good action with δ' + ε:

    ρ* = (δ' + ε)/(2δ' + ε),   every other policy's gain 1/2,   diameter 1/δ'.

A change makes another action the good one.

**Perils of drift** (Cheung, Simchi-Levi, Zhu 2020). At first action 0 stays and action 1 crosses to
the other state; each change, every W/4 steps, swaps them. Every diameter is 1. But an agent that
plays action 0 in state 0 and 1 in state 1 for two quarters of a window, and the opposite for the
next two, stays in its state at nearly every step (it crosses only at the first step of the second
and of the fourth quarter):

    quarter  1   action 0 stays    s0: stays with 0
             2   action 0 crosses  s0: crosses with 0, then in s1 stays with 1
             3   action 0 stays    s1: stays with 0
             4   action 0 crosses  s1: crosses with 0, then in s0 stays with 1

So the data of a window suggest that all four pairs stay, each observed about W/4 times, and every
MDP within confidence radii of order √(log W/W) has a diameter of at least c √(W/log W): optimism
within that set is not optimistic. The order of the quarters is our interpretation of the paper; the
rewards (¼ in s0, ¾ in s1) are our choice.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from switchmdp.errors import InvalidParameter
from switchmdp.mdp import MDP, Bernoulli, RewardLaw, SwitchingMDP
from switchmdp.problems.change_operators import permuted_actions
from switchmdp.problems.changing import When, changing, switching
from switchmdp.problems.drift import moves
from switchmdp.problems.random import even_change_points
from switchmdp.validation import check_integer, is_number

MOST_ACTIONS = 10_000


def lower_bound(
    n_actions: int = 10, *, diameter: float = 10.0, advantage: float = 0.05, changes: int = 2,
    horizon: int = 100_000, cycle: int | None = None, change_points: When = even_change_points,
    seed: int = 0, law: RewardLaw | None = None,
) -> SwitchingMDP:  # fmt: skip
    """The two-state lower-bound instance; `advantage` is ε; a change moves the good action.

    >>> from switchmdp.planning import optimal_gains
    >>> optimal_gains(lower_bound(changes=1, horizon=1000)).round(9).tolist()
    [0.6, 0.6]
    """
    n_actions = check_integer("n_actions", n_actions, 2, MOST_ACTIONS)
    if not is_number(diameter) or not 1.0 < diameter < float("inf"):
        raise InvalidParameter("diameter", diameter, "a number above 1")
    leave = 1.0 / float(diameter)
    if not is_number(advantage) or not 0.0 < advantage <= 1.0 - leave:
        raise InvalidParameter("advantage", advantage, f"above 0, at most 1 - 1/D = {1.0 - leave}")
    rng = np.random.default_rng(check_integer("seed", seed, 0))
    law = Bernoulli() if law is None else law
    good = int(rng.integers(n_actions))

    def instance() -> MDP:
        p = np.full((2, n_actions), leave)
        p[0, good] += advantage
        transitions = np.empty((2, n_actions, 2))
        transitions[0] = np.stack([1.0 - p[0], p[0]], axis=1)
        transitions[1] = np.stack([p[1], 1.0 - p[1]], axis=1)
        return MDP(transitions, np.repeat([[0.0], [1.0]], n_actions, axis=1), law=law)

    def following(mdp: MDP) -> MDP:
        nonlocal good
        good = int(good + rng.integers(1, n_actions)) % n_actions
        return instance()

    return switching(
        instance(), following, changes=changes, horizon=horizon, cycle=cycle,
        change_points=change_points,
    )  # fmt: skip


def perils_of_drift(
    window: int = 1000, *, horizon: int = 100_000, law: RewardLaw | None = None
) -> SwitchingMDP:
    """Two states; the actions that stay and cross are swapped every quarter of a window.

    >>> problem = perils_of_drift(window=8, horizon=8)
    >>> [mdp.successors(0, 0)[0] for mdp in problem.configurations()]
    [[0], [1], [0], [1]]
    """
    points = moves(horizon, _window(window) // 4)
    stay, cross = np.eye(2), np.eye(2)[::-1]
    law = Bernoulli() if law is None else law
    base = MDP(np.stack([stay, cross], axis=1), [[0.25, 0.25], [0.75, 0.75]], law=law)
    return changing(
        base, permuted_actions, changes=len(points), horizon=horizon, cycle=2, change_points=points
    )


def perilous_counts(window: int) -> NDArray[np.int64]:
    """The transitions N(s, a, s') in a window of the data described in the module's docstring.

    >>> perilous_counts(1000).tolist()
    [[[250, 1], [249, 0]], [[1, 250], [0, 249]]]
    """
    quarter = _window(window) // 4
    counts = np.zeros((2, 2, 2), np.int64)
    for s in range(2):
        counts[s, 0, s], counts[s, 0, 1 - s], counts[s, 1, s] = quarter, 1, quarter - 1
    return counts


def _window(value: Any) -> int:
    window = check_integer("window", value, 4)
    if window % 4:
        raise InvalidParameter("window", value, "a multiple of 4")
    return window
