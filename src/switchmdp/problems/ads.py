"""Ad placement: what to show next, to an audience that changes. A problem of our own.

A state is the ad shown last, an action the ad to show next, a reward a click. The audience
consists of groups; group g clicks on ad a with probability c(g, a). With w_g the groups' shares,

    r̄(s, a) = Σ_g w_g c(g, a),   times (1 - fatigue) where a = s: seen just before.

The shares walk on the simplex (`ways.exchange`), so rewards drift and transitions never change: the
next state is the ad shown. With the click rates in order, r_1 >= r_2 >= …, the best gain is that of
the best cycle, max((1 - fatigue) r_1, (r_1 + r_2)/2): show the best ad again and again, or the
best two in turn.
"""

from __future__ import annotations

import numpy as np

from switchmdp.errors import InvalidParameter
from switchmdp.mdp import MDP, Bernoulli, RewardLaw, SwitchingMDP
from switchmdp.problems.drift import moves, stacked
from switchmdp.problems.random import must_fit
from switchmdp.problems.ways import at_most_one, exchange
from switchmdp.validation import check_integer

MOST_GROUPS = 1000


def ad_placement(
    n_ads: int = 8, groups: int = 3, *, fatigue: float = 0.5, best_rate: float = 0.5,
    step: float = 0.02, horizon: int = 100_000, every: int | None = None, seed: int = 0,
    law: RewardLaw | None = None,
) -> SwitchingMDP:  # fmt: skip
    """Which ad to show after which: click rates drift with the audience.

    Rates c(g, a) are drawn uniformly between 0 and `best_rate`; `step` is the standard deviation of
    what two groups exchange at a move.

    >>> problem = ad_placement(5, horizon=1000, every=100)
    >>> problem.at(1).successors(0, 3), problem.changes
    (([3], [1.0]), 9)
    """
    n_ads, groups = (
        check_integer("n_ads", n_ads, 2),
        check_integer("groups", groups, 2, MOST_GROUPS),
    )
    step, fatigue = at_most_one("step", step), at_most_one("fatigue", fatigue)
    if not at_most_one("best_rate", best_rate) > 0.0:
        raise InvalidParameter("best_rate", best_rate, "above 0")
    points = moves(horizon, every)
    must_fit(n_ads, n_ads, len(points) + 1)
    rng = np.random.default_rng(check_integer("seed", seed, 0))
    clicks = best_rate * rng.random((groups, n_ads))
    shares = [rng.dirichlet(np.ones(groups), 1)]
    for _ in points:
        shares.append(exchange(shares[-1], step, rng))
    rates = np.concatenate(shares) @ clicks
    means = rates[:, None, :] * (1.0 - fatigue * np.eye(n_ads))
    transitions = np.broadcast_to(np.eye(n_ads), (n_ads, n_ads, n_ads))
    first = MDP(transitions, means[0], law=Bernoulli() if law is None else law)
    return stacked(first, np.broadcast_to(transitions, (*means.shape, n_ads)), means, points)
