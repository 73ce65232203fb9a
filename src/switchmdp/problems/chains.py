"""Problems with a shape: RiverSwim, whose current may turn, and a ring with shortcuts."""

from __future__ import annotations

import numpy as np

from switchmdp.mdp import MDP, Bernoulli, RewardLaw, SwitchingMDP
from switchmdp.problems.changing import How, When, changing
from switchmdp.problems.random import even_change_points
from switchmdp.problems.ways import mirrored
from switchmdp.validation import check_integer, check_probability


def riverswim(n_states: int = 6, *, law: RewardLaw | None = None) -> MDP:
    """RiverSwim (Strehl and Littman 2008): swimming right against the current pays off at the end.

    Action 0 goes left for sure. Action 1 goes right: .4 stay and .6 forward at the left end,
    .05 / .6 / .35 back, stay, forward inside, .4 back and .6 stay at the right end. Rewards: .005
    for left at the left end, 1 for right at the right end.

    >>> from switchmdp.planning import optimal_gain
    >>> round(optimal_gain(riverswim()).gain, 4)
    0.4286
    """
    n = check_integer("n_states", n_states, 2, 3000)
    transitions, rewards = np.zeros((n, 2, n)), np.zeros((n, 2))
    for s in range(n):
        transitions[s, 0, max(0, s - 1)] = 1.0
        if 0 < s < n - 1:
            transitions[s, 1, s - 1 : s + 2] = 0.05, 0.6, 0.35
    transitions[0, 1, :2] = 0.4, 0.6
    transitions[n - 1, 1, n - 2 :] = 0.4, 0.6
    rewards[0, 0], rewards[n - 1, 1] = 0.005, 1.0
    names = ("left", "right")
    return MDP(transitions, rewards, law=Bernoulli() if law is None else law, action_labels=names)


def riverswim_flips(
    n_states: int = 6, *, how: How = mirrored, changes: int = 2, horizon: int = 100_000,
    cycle: int | None = 2, change_points: When = even_change_points, seed: int = 0,
    law: RewardLaw | None = None,
) -> SwitchingMDP:  # fmt: skip
    """RiverSwim whose current turns at each change, or (permuted-actions) whose actions do.

    Turned, the treasure lies at the left end: what swam against the current now goes with it. The
    next change turns it back.

    >>> problem = riverswim_flips(changes=1, horizon=1000)
    >>> problem.at(501).successors(5, 0), problem.at(501).successors(2, 1)
    (([4, 5], [0.6, 0.4]), ([3], [1.0]))
    """
    return changing(
        riverswim(n_states, law=law), how, changes=changes, horizon=horizon, cycle=cycle,
        change_points=change_points, seed=seed,
    )  # fmt: skip


def ring_with_shortcuts(
    n_states: int, *, seed: int = 0, slip: float = 0.1, law: RewardLaw | None = None
) -> MDP:
    """A ring of any size with four actions: on, back, and two shortcuts per state.

    An action goes where it says with probability 1 - slip, and stays otherwise; the shortcuts lead
    to states drawn once, so that all is a few jumps away. Mean rewards are uniform on [0, 1].

    >>> ring_with_shortcuts(1000).n_actions
    4
    """
    from scipy.sparse import csr_array

    n = check_integer("n_states", n_states, 2, 10**6)
    slip = check_probability("slip", slip)
    rng = np.random.default_rng(check_integer("seed", seed, 0))
    here = np.arange(n)
    targets = np.stack([(here + 1) % n, (here - 1) % n, *rng.integers(0, n, (2, n))], axis=1)
    pairs = np.arange(4 * n)
    rows = np.concatenate([pairs, pairs])
    columns = np.concatenate([targets.ravel(), np.repeat(here, 4)])
    values = np.concatenate([np.full(4 * n, 1.0 - slip), np.full(4 * n, slip)])
    transitions = csr_array((values, (rows, columns)), (4 * n, n))
    names = ("on", "back", "jump", "leap")
    law = Bernoulli() if law is None else law
    return MDP(transitions, rng.random((n, 4)), law=law, action_labels=names)
