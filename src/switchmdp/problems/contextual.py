"""Problems whose transition rows have a known shape: independent contexts, and flat or sparse rows.

**Contextual bandit.** States are contexts, such as the kind of the next visitor. The next context
is independent of everything: all pairs have the same transition row, uniform or Zipf (proportional
to 1, 1/2, 1/3, …). Mean rewards are uniform on [0, 1]; a change draws all of them again. With mean
rewards r̄ and shares w the optimal gain is Σ_s w_s max_a r̄(s, a).

**Rows of any concentration.** Each row is drawn from Dirichlet(α, …, α): nearly deterministic for
α near 0, uniform on the simplex for α = 1, nearly uniform rows for a large α. Mean rewards are
uniform on [0, 1]; a change draws everything again. The row of action 0 is mixed with a step to the
next state on a ring, so that all states connect.
"""

from __future__ import annotations

import numpy as np

from switchmdp.mdp import MDP, RewardLaw, SwitchingMDP
from switchmdp.problems.random import (
    When,
    check_changes,
    check_sizes,
    even_change_points,
    generator,
)
from switchmdp.validation import check_positive

RING = 0.05  # the probability of the step on the ring


def contextual_bandit(
    n_states: int = 20, n_actions: int = 5, *, zipf: bool = False, changes: int = 0,
    horizon: int = 100_000, change_points: When = even_change_points, seed: int = 0,
    law: RewardLaw | None = None,
) -> SwitchingMDP:  # fmt: skip
    """Return a contextual bandit whose mean rewards are drawn again at each change.

    Parameters
    ----------
    n_states, n_actions
        The number of contexts and of actions.
    zipf
        Whether contexts have Zipf's distribution instead of the uniform one.
    changes, horizon, change_points
        How many changes there are, and when: a function of both, or a list of steps.
    seed
        The seed of the mean rewards.
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
    >>> problem = contextual_bandit(3, 2, zipf=True, changes=1, horizon=100)
    >>> [round(p, 4) for p in problem.at(1).successors(0, 1)[1]]
    [0.5455, 0.2727, 0.1818]
    >>> problem.change_points.tolist()
    [51]
    """
    changes, points = check_changes(changes, horizon, change_points)
    n_states, n_actions = check_sizes(n_states, n_actions, changes + 1)
    rng = generator(seed)
    weights = 1.0 / np.arange(1, n_states + 1) if zipf else np.ones(n_states)
    rows = np.broadcast_to(weights / weights.sum(), (n_states, n_actions, n_states))
    return SwitchingMDP(
        [MDP(rows, rng.random((n_states, n_actions)), law=law) for _ in range(changes + 1)], points
    )


def concentrated_rows(
    n_states: int = 20, n_actions: int = 4, *, concentration: float = 1.0, changes: int = 0,
    horizon: int = 100_000, change_points: When = even_change_points, seed: int = 0,
    law: RewardLaw | None = None,
) -> SwitchingMDP:  # fmt: skip
    """Return a problem whose transition rows are drawn from Dirichlet(α, …, α).

    Parameters
    ----------
    n_states, n_actions
        The number of states and of actions.
    concentration
        α: small for sparse rows, large for nearly uniform ones.
    changes, horizon, change_points
        How many changes there are, and when: a function of both, or a list of steps.
    seed
        The seed of rows and mean rewards.
    law
        The reward law; Bernoulli by default.

    Returns
    -------
    function
        A law of rows for `random_mdp` and `random_switching`.

    Raises
    ------
    InvalidParameter
        If a parameter has the wrong type or is out of range.

    Examples
    --------
    >>> flat = concentrated_rows(4, 2, concentration=1e6).at(1)
    >>> [round(p, 2) for p in flat.successors(2, 1)[1]]
    [0.25, 0.25, 0.25, 0.25]
    """
    alpha = check_positive("concentration", concentration)
    changes, points = check_changes(changes, horizon, change_points)
    n_states, n_actions = check_sizes(n_states, n_actions, changes + 1)
    rng = generator(seed)
    step_on_ring = np.roll(np.eye(n_states), 1, axis=1)

    def draw() -> MDP:
        # Gamma draws of a tiny shape may all be 0: then NumPy's Dirichlet returns NaN.
        weights = rng.standard_gamma(alpha, (n_states, n_actions, n_states)) + 1e-300
        rows = weights / weights.sum(axis=-1, keepdims=True)
        rows[rows < 1e-12] = 0.0
        rows[:, 0] = (1.0 - RING) * rows[:, 0] + RING * step_on_ring
        rows /= rows.sum(axis=-1, keepdims=True)
        return MDP(rows, rng.random((n_states, n_actions)), law=law)

    return SwitchingMDP([draw() for _ in range(changes + 1)], points)
