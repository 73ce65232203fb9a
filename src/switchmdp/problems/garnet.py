"""Garnet(S, A, b): random MDPs with b successors for each action (after Archibald et al. 1995).

Each pair leads to b different states, any of them alike, with probabilities uniform on the simplex
(the pieces of [0, 1] cut at b - 1 uniform points); means are uniform on [0, 1]. An MDP in which
some state can't be reached is drawn again, so the law is Garnet's given that it communicates.
"""

from __future__ import annotations

import numpy as np
from numpy.random import SeedSequence

from switchmdp.errors import InvalidParameter
from switchmdp.mdp import MDP, Bernoulli, RewardLaw, SwitchingMDP
from switchmdp.problems.changing import MOST_DRAWS, How, When, changing
from switchmdp.problems.random import MOST_ENTRIES, distinct_states, even_change_points
from switchmdp.problems.ways import everything
from switchmdp.validation import check_integer


def garnet(
    n_states: int = 20, n_actions: int = 3, successors: int = 3, *, how: How = everything,
    changes: int = 2, horizon: int = 100_000, cycle: int | None = None,
    change_points: When = even_change_points, seed: int = 0, law: RewardLaw | None = None,
) -> SwitchingMDP:  # fmt: skip
    """Garnet(S, A, b), by default another one after each change.

    >>> garnet(10, 2, 3, changes=1, horizon=1000, seed=0)
    SwitchingMDP(10 states, 2 actions, 1 changes, 40 rows, Bernoulli())
    """
    first, further = SeedSequence(check_integer("seed", seed, 0)).spawn(2)
    return changing(
        garnet_mdp(n_states, n_actions, successors, seed=first, law=law), how, changes=changes,
        horizon=horizon, cycle=cycle, change_points=change_points, seed=further,
    )  # fmt: skip


def garnet_mdp(
    n_states: int = 20, n_actions: int = 3, successors: int = 3, *,
    seed: int | SeedSequence = 0, law: RewardLaw | None = None,
) -> MDP:  # fmt: skip
    """One Garnet(S, A, b), in which all states can reach each other.

    >>> garnet_mdp(10, 2, 3, seed=0)
    MDP(10 states, 2 actions, 60 transitions, Bernoulli())
    """
    n_states, n_actions = (
        check_integer("n_states", n_states, 1),
        check_integer("n_actions", n_actions, 1),
    )
    width = check_integer("successors", successors, 1, n_states)
    n_pairs = n_states * n_actions
    if n_pairs * width > MOST_ENTRIES:
        allowed = f"smaller: n_states n_actions successors is at most {MOST_ENTRIES:.0e}"
        raise InvalidParameter("n_states", n_states, allowed)
    seed = seed if isinstance(seed, SeedSequence) else SeedSequence(check_integer("seed", seed, 0))
    rng = np.random.default_rng(seed)
    from scipy.sparse import csr_array

    ends = np.arange(0, n_pairs * width + 1, width)
    for _ in range(MOST_DRAWS):
        targets = distinct_states(rng, n_pairs, width, n_states)
        rows = rng.dirichlet(np.ones(width), n_pairs)
        mdp = MDP(
            csr_array((rows.ravel(), targets.ravel(), ends), (n_pairs, n_states)),
            rng.random((n_states, n_actions)), law=Bernoulli() if law is None else law,
        )  # fmt: skip
        if mdp.unconnected is None:
            return mdp
    allowed = f"more: with {n_states} states and {n_actions} actions {MOST_DRAWS} draws all cut off"
    raise InvalidParameter("successors", successors, f"{allowed} some state")
