"""Two applications, designed for this package: ad placement and inventory control.

**Ad placement.** The state is the last ad shown, the action the next ad, the reward a click. The
audience consists of groups; group g clicks on ad a with probability c(g, a). With w_g the groups'
shares,

    r̄(s, a) = Σ_g w_g c(g, a),   times (1 - fatigue) if a = s, because the user has just seen it.

The shares perform a random walk on the simplex, so rewards drift, and transitions never change: the
next state is the ad shown. With the click rates in order, r_1 >= r_2 >= …, the best gain is that of
the best cycle, max((1 - fatigue) r_1, (r_1 + r_2)/2): always show the best ad, or alternate between
the best two.

**Inventory with lost sales.** The state is the stock s = 0 … capacity in the morning, the action
the number a = 0 … largest_order of units ordered. They arrive at once, as far as there is room:
y = min(s + a, capacity) are for sale. The demand X is Poisson(λ); unserved demand is lost:

    next stock  y - min(y, X),
    profit      price · min(y, X) - cost · (y - s) - holding · (y - min(y, X)).

A mean reward is the expected profit, mapped linearly to [0, 1] from its least and greatest possible
values, -cost · largest_order - holding · capacity and price · capacity. A change draws λ again,
uniformly from `demand`: rewards and transitions change together.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from switchmdp.errors import InvalidParameter
from switchmdp.mdp import MDP, RewardLaw, SwitchingMDP
from switchmdp.problems.changes import at_most_one, exchange, switching
from switchmdp.problems.drift import moves, stacked
from switchmdp.problems.random import When, even_change_points, generator, must_fit
from switchmdp.validation import check_integer, check_not_negative, check_positive, is_number

# Ad placement.


MOST_GROUPS = 1000


def ad_placement(
    n_ads: int = 8, groups: int = 3, *, fatigue: float = 0.5, best_rate: float = 0.5,
    step: float = 0.02, horizon: int = 100_000, every: int | None = None, seed: int = 0,
    law: RewardLaw | None = None,
) -> SwitchingMDP:  # fmt: skip
    """Choose the next ad to show; click rates drift with the audience.

    Rates c(g, a) are drawn uniformly between 0 and `best_rate`; `step` is the standard deviation of
    what two groups exchange at a move.

    Parameters
    ----------
    n_ads
        The number of ads.
    groups
        The number of groups of the audience.
    fatigue
        The share of clicks that is lost if an ad is shown twice in a row.
    best_rate
        The largest click rate.
    step
        The standard deviation of what two entries exchange at a move.
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
    >>> problem = ad_placement(5, horizon=1000, every=100)
    >>> problem.at(1).successors(0, 3), problem.changes
    (([3], [1.0]), 9)
    """
    n_ads = check_integer("n_ads", n_ads, 2)
    groups = check_integer("groups", groups, 2, MOST_GROUPS)
    step, fatigue = at_most_one("step", step), at_most_one("fatigue", fatigue)
    if not at_most_one("best_rate", best_rate) > 0.0:
        raise InvalidParameter("best_rate", best_rate, "above 0")
    points = moves(horizon, every)
    must_fit(n_ads, n_ads, len(points) + 1)
    rng = generator(seed)
    clicks = best_rate * rng.random((groups, n_ads))
    shares = [rng.dirichlet(np.ones(groups), 1)]
    for _ in points:
        shares.append(exchange(shares[-1], step, rng))
    rates = np.concatenate(shares) @ clicks
    means = rates[:, None, :] * (1.0 - fatigue * np.eye(n_ads))
    transitions = np.broadcast_to(np.eye(n_ads), (n_ads, n_ads, n_ads))
    first = MDP(transitions, means[0], law=law)
    return stacked(first, np.broadcast_to(transitions, (*means.shape, n_ads)), means, points)


# Inventory.


MOST_DEMAND = 500.0  # exp(-λ) is still a normal number


def inventory(
    capacity: int = 8, largest_order: int = 4, *, demand: Any = (1.0, 6.0), price: float = 1.0,
    cost: float = 0.5, holding: float = 0.05, changes: int = 2, horizon: int = 100_000,
    cycle: int | None = None, change_points: When = even_change_points, seed: int = 0,
    law: RewardLaw | None = None,
) -> SwitchingMDP:  # fmt: skip
    """Choose how much to order; sales are lost, and each change draws a new mean demand.

    Parameters
    ----------
    capacity
        The most units in stock.
    largest_order
        The most units that can be ordered at a time.
    demand
        The smallest and the largest mean demand.
    price
        What a sold unit earns.
    cost
        What an ordered unit costs.
    holding
        What a unit in stock costs per step.
    changes
        The number of changes.
    horizon
        The number of steps of a run.
    cycle
        After how many configurations the first one returns; by default it never does.
    change_points
        When: a list of change points, or a function of the number of changes and the horizon.
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
    >>> problem = inventory(capacity=3, largest_order=2, changes=1, horizon=1000)
    >>> problem.n_states, problem.n_actions
    (4, 3)
    """
    least, most = _range(demand)
    rng = generator(seed)

    def season(before: Any = None) -> MDP:
        return inventory_mdp(
            capacity, largest_order, demand=rng.uniform(least, most), price=price, cost=cost,
            holding=holding, law=law,
        )  # fmt: skip

    return switching(
        season(), season, changes=changes, horizon=horizon, cycle=cycle, change_points=change_points
    )


def inventory_mdp(
    capacity: int = 8, largest_order: int = 4, *, demand: float = 3.0, price: float = 1.0,
    cost: float = 0.5, holding: float = 0.05, law: RewardLaw | None = None,
) -> MDP:  # fmt: skip
    """The inventory with a fixed mean demand.

    Parameters
    ----------
    capacity
        The most units in stock.
    largest_order
        The most units that can be ordered at a time.
    demand
        The mean demand.
    price
        What a sold unit earns.
    cost
        What an ordered unit costs.
    holding
        What a unit in stock costs per step.
    law
        The reward law; Bernoulli by default.

    Returns
    -------
    MDP
        The MDP.

    Raises
    ------
    InvalidParameter
        If a parameter has the wrong type or is out of range.

    Examples
    --------
    >>> inventory_mdp(1, 1, demand=math.log(2)).successors(1, 0)
    ([0, 1], [0.5, 0.5])
    """
    capacity = check_integer("capacity", capacity, 1, 3000)
    n_states = capacity + 1
    n_actions = check_integer("largest_order", largest_order, 1, capacity) + 1
    must_fit(n_states, n_actions, 1)
    price = check_positive("price", price)
    cost, holding = check_not_negative("cost", cost), check_not_negative("holding", holding)
    rest, kept = _after_sales(capacity, _demand("demand", demand))
    stock = np.arange(n_states)
    offered = np.minimum(stock[:, None] + np.arange(n_actions), capacity)
    profit = price * (offered - kept[offered]) - cost * (offered - stock[:, None])
    profit = profit - holding * kept[offered]
    lowest, highest = -cost * (n_actions - 1) - holding * capacity, price * capacity
    means = np.clip((profit - lowest) / (highest - lowest), 0.0, 1.0)  # rounding
    return MDP(rest[offered], means, law=law)


def _after_sales(capacity: int, demand: float) -> tuple[NDArray[Any], NDArray[Any]]:
    """For each y the distribution of the remaining stock, and its mean."""
    mass = [math.exp(-demand)]
    for x in range(1, capacity + 1):
        mass.append(mass[-1] * demand / x)
    rest = np.zeros((capacity + 1, capacity + 1))
    for y in range(capacity + 1):
        rest[y, 1 : y + 1] = mass[:y][::-1]  # k = y - x units are left after a demand of x < y
        rest[y, 0] = max(0.0, 1.0 - math.fsum(mass[:y]))
    return rest, rest @ np.arange(capacity + 1)


def _range(demand: Any) -> tuple[float, float]:
    if not isinstance(demand, (list, tuple)) or len(demand) != 2:
        raise InvalidParameter("demand", demand, "two numbers, the smallest and the largest")
    least, most = _demand("demand", demand[0]), _demand("demand", demand[1])
    if least > most:
        raise InvalidParameter("demand", demand, "two numbers, the smaller one first")
    return least, most


def _demand(field: str, value: Any) -> float:
    if not is_number(value) or not 0.0 < value <= MOST_DEMAND:
        raise InvalidParameter(field, value, f"above 0 and at most {MOST_DEMAND:g}")
    return float(value)
