"""Are the plausible sets of an agent consistent in themselves? See `consistency`.

Nearly all that a set keeps is worked out anew for every plan. What must be right beforehand are
the sizes, and the orders of states that a plan starts from.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from switchmdp.mdp.pairs import MAX_PAIRS
from switchmdp.planning.inner_maximum import Ranking
from switchmdp.planning.optimism import Optimism, Sweeps
from switchmdp.plausible import BernsteinLaplace, KLBall
from switchmdp.plausible.intervals import Intervals
from switchmdp.plausible.l1 import L1Set
from switchmdp.plausible.optimistic import Optimistic


def require(condition: Any, what: str) -> None:
    """Raise a ValueError where something does not hold."""
    if not condition:
        raise ValueError(f"{what} is not consistent")


def _sized(size: int, *arrays: Any) -> bool:
    return all(array.shape == (size,) for array in arrays)


def _l1_set(ball: Any, n_states: int, n_pairs: int) -> None:
    name = type(ball).__name__
    require(0.0 < ball.delta < 1.0 and ball.n_states == n_states, name)
    require(1 <= ball.n_actions <= MAX_PAIRS, f"{name}.n_actions")
    require(_sized(n_pairs, ball.reward, ball.radius), f"{name}: a size")


def _optimism(work: Any, n_states: int, n_pairs: int) -> None:
    per_state = (work.value, work.next_value, work.values, work.masses)
    require(_sized(n_states, *per_state), "Optimism: a size")
    require(np.array_equal(np.sort(work.order), np.arange(n_states)), "Optimism.order")
    require(work.estimates.ndim == 1 and work.sweeps >= 0, "Optimism")


def _optimistic(plausible: Any, n_states: int, n_pairs: int) -> None:
    require(0.0 < plausible.delta < 1.0 and plausible.n_states == n_states, "a set")
    require(1 <= plausible.n_actions <= MAX_PAIRS, "n_actions of a set")
    require(_sized(n_pairs, plausible.reward, plausible.free), "a set: a size")


def _intervals(plausible: Any, n_states: int, n_pairs: int) -> None:
    require(_sized(n_pairs, plausible.left, plausible.beyond), "Intervals: a size")
    require(_sized(plausible.low.size, plausible.low, plausible.high), "Intervals: a size")


def _laplace(plausible: Any, n_states: int, n_pairs: int) -> None:
    require(_sized(n_pairs, plausible.extra), "BernsteinLaplace: a size")


def _kl_ball(plausible: Any, n_states: int, n_pairs: int) -> None:
    require(_sized(n_pairs, plausible.budget), "KLBall: a size")
    require(_sized(n_states, plausible.masses, plausible.gaps), "KLBall: a size")


def _sweeps(work: Any, n_states: int, n_pairs: int) -> None:
    require(_sized(n_states, work.value, work.next_value) and work.done >= 0, "Sweeps")


def _ranking(ranking: Any, n_states: int, n_pairs: int) -> None:
    per_state = (ranking.ranked, ranking.places, ranking.rooms, ranking.slots, ranking.nothing)
    require(_sized(n_states, *per_state) and _sized(n_states + 1, ranking.sums), "Ranking: a size")
    require(not ranking.nothing.any(), "Ranking.nothing")
    for places in (ranking.order, ranking.rank):
        require(np.array_equal(np.sort(places), np.arange(n_states)), "Ranking: an order")


SETS: dict[type, Callable[[Any, int, int], None]] = {
    L1Set: _l1_set, Optimism: _optimism, Optimistic: _optimistic, Intervals: _intervals,
    BernsteinLaplace: _laplace, KLBall: _kl_ball, Sweeps: _sweeps, Ranking: _ranking,
}  # fmt: skip
