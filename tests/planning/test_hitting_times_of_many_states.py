"""Diameters by batches of goals, against closed forms and the methods for few states."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_array

from switchmdp.errors import PrecisionNotReached
from switchmdp.mdp import MDP
from switchmdp.planning import diameter, hitting_times
from switchmdp.planning.hitting_times import hitting_times_that_decide, solve_goals
from switchmdp.problems import random_sparse_mdp, ring_with_shortcuts, riverswim


@pytest.fixture
def as_if_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hitting_times, "DENSE", 0)


def one_way_ring(n_states: int, slip: float) -> MDP:
    here = np.arange(n_states)
    rows, columns = np.concatenate([here, here]), np.concatenate([(here + 1) % n_states, here])
    weights = np.concatenate([np.full(n_states, 1.0 - slip), np.full(n_states, slip)])
    return MDP(csr_array((weights, (rows, columns)), (n_states, n_states)), np.zeros((n_states, 1)))


def rare_goal(n_states: int, steps: int, chance: float) -> MDP:
    """All states are drawn again in each step, but the last `steps` must be climbed one by one.

    A state of the climb leads upwards with this probability, and otherwise starts again.
    """
    rows = np.zeros((n_states, 1, n_states))
    plain = n_states - steps
    rows[:, 0, :plain] = 1.0 / plain
    for s in range(plain - 1, n_states - 1):
        rows[s, 0] *= 1.0 - chance
        rows[s, 0, s + 1] += chance
    return MDP(rows, np.zeros((n_states, 1)))


@pytest.mark.parametrize("n_states", [2, 3, 8, 50])
@pytest.mark.parametrize("slip", [0.0, 0.25])
@pytest.mark.usefixtures("as_if_large")
def test_a_one_way_ring_is_crossed_in_the_steps_it_has(n_states: int, slip: float) -> None:
    d = diameter(one_way_ring(n_states, slip))
    expected = (n_states - 1) / (1.0 - slip)
    assert d.lower * (1 - 1e-12) <= expected <= d.upper * (1 + 1e-12)
    assert d.upper - d.lower <= 1e-9 * d.lower
    assert d.lower <= d <= d.upper


@pytest.mark.parametrize("make", [
    lambda: random_sparse_mdp(150, 3, 4, seed=1), lambda: random_sparse_mdp(150, 2, 10, seed=2),
    lambda: ring_with_shortcuts(150, seed=3),
])  # fmt: skip
def test_batches_find_the_diameter_that_single_goals_have(make: Any) -> None:
    mdp = make()
    d = diameter(mdp, tolerance=1e-8)
    results = hitting_times_that_decide(mdp.model, 1e-8)
    lower, upper = results[:, 1].max(), results[:, 2].max()
    assert max(lower, d.lower) <= min(upper, d.upper)
    assert upper - lower <= 1e-8 * lower


@pytest.mark.parametrize(("steps", "chance"), [(3, 0.1), (6, 0.01), (4, 1e-3)])
@pytest.mark.usefixtures("as_if_large")
def test_times_of_many_orders_of_magnitude_are_certified(steps: int, chance: float) -> None:
    n_states = 40
    mdp = rare_goal(n_states, steps, chance)
    plain = n_states - steps
    # x from the foot, plain + x from elsewhere: x = (1/(1-c) + plain - 1 + x) (1 - c^steps).
    fails = chance**steps
    expected = plain + (1.0 / (1.0 - chance) + plain - 1.0) * (1.0 - fails) / fails
    d = diameter(mdp, tolerance=1e-6)
    assert d.lower * (1 - 1e-12) <= expected <= d.upper * (1 + 1e-12)
    assert d.upper - d.lower <= 1e-6 * d.lower


def test_every_goal_has_a_valid_bracket_however_rough() -> None:
    mdp = random_sparse_mdp(60, 3, 5, seed=4)
    precise = np.tile([1.0, 1.0, np.inf], (60, 1))
    solve_goals(mdp.model, np.arange(60), 1e-9, 1000, 1.0, precise)
    assert ((precise[:, 2] - precise[:, 1]) <= 1e-9 * precise[:, 1]).any()
    for budget in (1, 2, 5, 20):
        rough = np.tile([1.0, 1.0, np.inf], (60, 1))
        solve_goals(mdp.model, np.arange(60), 0.2, budget, 1.0, rough)
        assert (rough[:, 1] <= precise[:, 2]).all()
        assert (rough[:, 2] >= precise[:, 1]).all()


@pytest.mark.usefixtures("as_if_large")
def test_a_diameter_beyond_doubles_raises_an_error_with_a_valid_bracket() -> None:
    with pytest.raises(PrecisionNotReached) as caught:
        diameter(riverswim(1000))
    assert caught.value.lower <= caught.value.upper
