"""Extended value iteration against Jaksch, Ortner and Auer's Figure 2 written out in plain Python.

The reference sorts the states, raises the best one, and takes from the worst while the sum exceeds
one; its values are left to grow. Where all numbers are binary fractions both are exact, so that
ties are ties and the choice between equal actions can be compared.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from switchmdp.errors import InvalidParameter, PrecisionNotReached
from switchmdp.mdp import MDP
from switchmdp.mdp.model import FULL_ROWS_UP_TO
from switchmdp.planning import extended_value_iteration, optimal_gain, optimism
from switchmdp.problems import random_mdp, random_sparse_mdp

Table = NDArray[np.float64]


def inner_maximum(estimate: Table, radius: float, u: Table) -> float:
    """Figure 2 of the paper."""
    n_states = len(u)
    best_first = sorted(range(n_states), key=lambda s: -u[s])
    p = estimate.copy()
    p[best_first[0]] = min(1.0, estimate[best_first[0]] + radius / 2.0)
    last = n_states - 1
    while p.sum() > 1.0 and last > 0:
        worst = best_first[last]
        p[worst] = max(0.0, 1.0 - p[[s for s in range(n_states) if s != worst]].sum())
        last -= 1
    return float(sum(p[s] * u[s] for s in range(n_states)))


def reference(
    mdp: MDP, reward_radius: Table, transition_radius: Table, precision: float
) -> tuple[float, list[int], int]:
    """(gain, policy, sweeps)."""
    u = np.zeros(mdp.n_states)
    rows, means = mdp.transitions, mdp.rewards
    for sweep in range(1, 10_000):
        following, policy = np.empty(mdp.n_states), []
        for s in range(mdp.n_states):
            values = {
                a: min(1.0, means[s, a] + reward_radius[s, a])
                + inner_maximum(rows[s, a], transition_radius[s, a], u)
                for a in mdp.pairs.at(s)
            }
            following[s] = max(values.values())
            policy.append(min(a for a in values if values[a] == following[s]))
        difference = following - u
        if difference.max() - difference.min() < precision:
            return float(difference.max() + difference.min()) / 2.0, policy, sweep
        u = following
    raise AssertionError("the reference did not converge")


def assert_same(mdp: MDP, d_r: Table, d_p: Table, precision: float) -> None:
    plan = extended_value_iteration(
        mdp, reward_radius=d_r, transition_radius=d_p, precision=precision
    )
    gain, policy, sweeps = reference(mdp, d_r, d_p, precision)
    assert plan.policy.tolist() == policy
    assert plan.sweeps == sweeps
    assert abs(plan.gain - gain) <= 1e-12


def some_mdp(rng: np.random.Generator) -> MDP:
    n_states, n_actions = int(rng.integers(1, 7)), int(rng.integers(1, 4))
    available = rng.random((n_states, n_actions)) < 0.8
    available[:, rng.integers(n_actions)] = True
    rows = rng.dirichlet(np.full(n_states, 0.3), (n_states, n_actions))
    rows[rows < 0.02] = 0.0
    rows /= rows.sum(axis=2, keepdims=True)
    return MDP(rows, rng.random((n_states, n_actions)), available=available)


def test_two_hundred_random_problems_agree_with_the_reference() -> None:
    rng = np.random.default_rng(7)
    for _ in range(200):
        mdp = some_mdp(rng)
        shape = (mdp.n_states, mdp.n_actions)
        d_r = rng.random(shape) * rng.choice([0.0, 0.3, 2.0])
        d_p = rng.uniform(0.02, rng.choice([0.3, 1.0, 3.0]), shape)
        assert_same(mdp, d_r, d_p, float(rng.choice([0.1, 0.01, 1e-4])))


def test_ties_go_to_the_lowest_action_as_in_the_reference() -> None:
    rng = np.random.default_rng(8)
    for _ in range(200):
        n_states, n_actions = int(rng.integers(2, 5)), int(rng.integers(2, 5))
        rows = rng.multinomial(2, np.full(n_states, 1.0 / n_states), (n_states, n_actions)) / 2
        mdp = MDP(rows, rng.integers(0, 3, (n_states, n_actions)) / 2)
        d_r = np.zeros((n_states, n_actions))
        d_p = rng.choice([0.5, 1.0, 2.0], (n_states, n_actions))
        assert_same(mdp, d_r, d_p, 0.25)
        repeated = MDP(rows.repeat(2, axis=1), mdp.rewards.repeat(2, axis=1))
        radius = d_p.repeat(2, axis=1)
        assert_same(repeated, d_r.repeat(2, axis=1), radius, 0.25)
        plan = extended_value_iteration(
            repeated, reward_radius=0, transition_radius=radius, precision=0.25
        )
        assert (plan.policy % 2 == 0).all()


@pytest.mark.parametrize("limit", [64, 0])
def test_a_lower_action_replaces_a_later_one_with_an_equal_value(
    limit: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(optimism, "FULL_ROWS_UP_TO", limit)
    targets = np.array([[1, 2], [1, 1], [2, 2], [1, 1]])
    rewards = [[0.0, 0.5], [1.0, 1.0], [0.5, 0.5], [0.0, 0.0]]
    mdp = MDP(np.eye(4)[targets], rewards)
    plan = extended_value_iteration(mdp, reward_radius=0, transition_radius=0, precision=0.75)
    assert plan.sweeps == 2  # the first prefers action 1 in state 0; now 0 + 1 = 1/2 + 1/2
    assert plan.policy.tolist() == [0, 0, 0, 0]


@pytest.mark.parametrize("seed", range(4))
def test_successor_lists_agree_with_the_reference_too(seed: int) -> None:
    mdp = random_sparse_mdp(80, 3, 4, seed=seed)
    assert mdp.n_states > FULL_ROWS_UP_TO
    rng = np.random.default_rng(seed)
    assert_same(mdp, rng.random((80, 3)) * 0.2, rng.uniform(0.05, 2.5, (80, 3)), 0.01)


def test_both_layouts_give_the_same_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(9)
    for _ in range(40):
        mdp = some_mdp(rng)
        radius = rng.uniform(0.05, 2.0, (mdp.n_states, mdp.n_actions))
        plans = []
        for limit in (64, 0):
            monkeypatch.setattr(optimism, "FULL_ROWS_UP_TO", limit)
            plans.append(
                extended_value_iteration(
                    mdp, reward_radius=0.1, transition_radius=radius, precision=1e-3
                )
            )
        full, lists = plans
        assert full.policy.tolist() == lists.policy.tolist()
        assert full.sweeps == lists.sweeps
        assert abs(full.gain - lists.gain) <= 1e-12
        assert np.abs(full.values - lists.values).max() <= 1e-12


def test_values_are_those_that_the_policy_is_greedy_for() -> None:
    mdp = random_mdp(5, 3, seed=1)
    plan = extended_value_iteration(mdp, reward_radius=0, transition_radius=0, precision=1e-3)
    onward = mdp.rewards + mdp.transitions @ plan.values
    assert plan.values.min() == 0.0
    assert plan.policy.tolist() == onward.argmax(axis=1).tolist()
    difference = onward.max(axis=1) - plan.values
    assert difference.max() - difference.min() < 1e-3
    assert abs((difference.max() + difference.min()) / 2 - plan.gain) <= 1e-12


def test_with_no_uncertainty_the_gain_is_the_optimal_one() -> None:
    for seed in range(20):
        mdp = random_mdp(6, 3, seed=seed)
        plan = extended_value_iteration(mdp, reward_radius=0, transition_radius=0, precision=1e-10)
        assert abs(plan.gain - optimal_gain(mdp).gain) <= 1e-9


def test_optimistic_rewards_stop_at_one() -> None:
    mdp = random_mdp(4, 2, seed=0)
    plan = extended_value_iteration(mdp, reward_radius=np.inf, transition_radius=0, precision=1e-9)
    assert plan.gain == 1.0


def test_a_ball_of_radius_two_leads_to_the_best_state() -> None:
    mdp = random_mdp(4, 2, seed=0)
    plan = extended_value_iteration(mdp, reward_radius=0, transition_radius=2, precision=1e-9)
    assert abs(plan.gain - mdp.rewards.max()) <= 1e-12


def test_a_period_without_uncertainty_ends_in_an_error_with_its_bracket() -> None:
    two_cycle = MDP([[[0, 1]], [[1, 0]]], [[1], [0]])
    with pytest.raises(PrecisionNotReached, match="sweeps") as caught:
        extended_value_iteration(two_cycle, reward_radius=0, transition_radius=0, precision=0.5)
    assert caught.value.lower <= 0.5 <= caught.value.upper
    assert caught.value.upper - caught.value.lower >= 0.5


@pytest.mark.parametrize("precision", [0.0, -1.0, np.nan, np.inf, "0.1", None])
def test_a_precision_that_is_no_positive_number_is_rejected(precision: Any) -> None:
    with pytest.raises(InvalidParameter, match="precision must be a positive number"):
        extended_value_iteration(
            random_mdp(2, 2), reward_radius=0, transition_radius=0, precision=precision
        )


@pytest.mark.parametrize("field", ["reward_radius", "transition_radius"])
@pytest.mark.parametrize("radius", [-0.1, np.nan, [[0.1], [np.nan]], np.zeros((3, 2)), "wide"])
def test_an_invalid_radius_is_rejected(field: str, radius: Any) -> None:
    radii: dict[str, Any] = {"reward_radius": 0.0, "transition_radius": 0.0, field: radius}
    with pytest.raises(InvalidParameter, match=field):
        extended_value_iteration(random_mdp(2, 2), precision=0.1, **radii)
