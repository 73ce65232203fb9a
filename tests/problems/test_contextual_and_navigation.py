"""Contextual bandits, rows of any concentration, and navigation problems."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import switchmdp as sm
from switchmdp.errors import InvalidParameter
from switchmdp.problems import (
    PROBLEMS,
    bursts,
    concentrated_rows,
    contextual_bandit,
    deterministic_graph,
    far_bank,
    grid,
)

NEW = ["contextual-bandit", "concentrated-rows", "far-bank", "grid", "deterministic-graph"]


@pytest.mark.parametrize("zipf", [False, True])
def test_the_optimal_gain_of_a_contextual_bandit_is_the_mean_of_the_best_rewards(
    zipf: bool,
) -> None:
    problem = contextual_bandit(6, 3, zipf=zipf, changes=2, horizon=900, seed=4)
    weights = 1.0 / np.arange(1, 7) if zipf else np.ones(6)
    for mdp in problem.configurations():
        best = float(weights @ mdp.rewards.max(axis=1) / weights.sum())
        assert sm.optimal_gain(mdp).gain == pytest.approx(best, abs=1e-9)


def test_changes_of_a_contextual_bandit_redraw_all_rewards_and_no_transitions() -> None:
    first, second = contextual_bandit(6, 3, changes=1, horizon=900, seed=4).configurations()
    assert (first.rewards != second.rewards).all()
    assert (first.transitions == second.transitions).all()


@pytest.mark.parametrize("alpha", [0.05, 1.0, 1000.0])
def test_rows_have_the_concentration_of_their_dirichlet_law(alpha: float) -> None:
    """The mean of Σ p² over Dirichlet(α, …, α) is (α + 1)/(S α + 1)."""
    rows = concentrated_rows(40, 30, concentration=alpha, seed=1).at(1).transitions[:, 1:]
    assert (rows**2).sum(axis=-1).mean() == pytest.approx((alpha + 1) / (40 * alpha + 1), rel=0.04)


@pytest.mark.parametrize("concentration", [1e-3, 0.05, 1.0, 1e6])
def test_all_states_are_connected_at_any_concentration(concentration: float) -> None:
    for seed in range(5):
        problem = concentrated_rows(12, 2, concentration=concentration, changes=1, seed=seed)
        for mdp in problem.configurations():
            assert sm.is_communicating(mdp)


def test_the_far_bank_pays_only_after_a_third_of_the_horizon() -> None:
    before, after = far_bank(6, horizon=900).configurations()
    cross = sm.policy_gain(after, [1] * 6)
    assert sm.policy_gain(before, [0] * 6) == pytest.approx(0.2)
    assert sm.optimal_gain(before).gain == pytest.approx(0.2, abs=1e-9)
    assert cross == pytest.approx(sm.optimal_gain(after).gain, abs=1e-9)


def test_the_gain_of_a_small_grid_follows_from_the_walk_to_the_goal() -> None:
    """One row of two cells: the goal earns 1, then half of the time the walk takes 1/(1-slip)."""
    mdp = grid(1, 2, slip=0.2, changes=0, horizon=100).at(1)
    assert sm.optimal_gain(mdp).gain == pytest.approx(1.0 / (1.0 + 0.5 / 0.8), abs=1e-9)


def test_each_change_moves_the_goal_of_a_grid() -> None:
    problem = grid(3, 3, changes=6, horizon=700, seed=2)
    goals = [int(mdp.rewards.sum(axis=1).argmax()) for mdp in problem.configurations()]
    assert all(a != b for a, b in pairwise(goals))


def test_a_deterministic_graph_has_one_successor_per_pair() -> None:
    problem = deterministic_graph(7, 3, changes=1, horizon=100, seed=3)
    for mdp in problem.configurations():
        assert (mdp.transitions.max(axis=-1) == 1.0).all()
        assert sm.is_communicating(mdp)


def test_bursts_come_in_pairs_within_the_horizon() -> None:
    for changes, horizon in ((0, 10), (1, 10), (5, 1000), (8, 100_000)):
        points = bursts(changes, horizon)
        assert len(points) == changes
        assert all(a < b for a, b in pairwise(points))
        assert all(1 < point <= horizon for point in points)
    assert bursts(2, 100_000) == [50_001, 52_001]


@pytest.mark.parametrize("name", NEW)
def test_the_same_seed_gives_the_same_problem_and_bad_parameters_are_named(name: str) -> None:
    make: Any = PROBLEMS[name]
    seeds = {} if name == "far-bank" else {"seed": 5}  # there is one far bank
    first, second = make(**seeds), make(**seeds)
    assert first.change_points.tolist() == second.change_points.tolist()
    for a, b in zip(first.configurations(), second.configurations(), strict=True):
        assert (a.rewards == b.rewards).all()
        assert (a.transitions == b.transitions).all()
    if seeds:
        with pytest.raises(InvalidParameter, match="seed"):
            make(seed=-1)
    with pytest.raises(InvalidParameter, match="horizon"):
        make(horizon=0)
