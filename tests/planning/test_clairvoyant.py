"""The clairvoyant's reward against all sequences of policies, and against the gain."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from switchmdp.errors import InvalidParameter
from switchmdp.mdp import MDP, SwitchingMDP
from switchmdp.planning import clairvoyant_reward, optimal_gain
from switchmdp.problems import PROBLEMS, random_mdp, random_switching


def earned(problem: SwitchingMDP, policies: Any) -> float:
    """The expected reward of a policy for each step, starting in state 0."""
    chances, total = np.array([1.0] + [0.0] * (problem.n_states - 1)), 0.0
    states = np.arange(problem.n_states)
    for t, policy in enumerate(policies, start=1):
        mdp = problem.at(t)
        total += chances @ mdp.rewards[states, policy]
        chances = chances @ mdp.transitions[states, policy]
    return float(total)


@pytest.mark.parametrize("seed", range(5))
def test_no_sequence_of_policies_earns_more_and_one_earns_as_much(seed: int) -> None:
    problem = random_switching(2, 2, changes=2, horizon=6, seed=seed, change_points=[3, 5])
    policies = list(itertools.product(range(2), repeat=2))
    best = max(earned(problem, chosen) for chosen in itertools.product(policies, repeat=5))
    assert clairvoyant_reward(problem, 5)[0] == pytest.approx(best, abs=1e-12)


def test_many_small_patches_are_planned_backwards_correctly() -> None:
    problem = PROBLEMS["random-walk"](4, 2, every=3, horizon=200, seed=1)
    values = np.zeros(4)
    for t in range(150, 0, -1):
        mdp = problem.at(t)
        values = (mdp.rewards + mdp.transitions @ values).max(axis=1)
    assert problem.changes > 40
    np.testing.assert_allclose(clairvoyant_reward(problem, 150), values, rtol=1e-12)


@pytest.mark.parametrize("seed", range(5))
def test_without_changes_it_differs_from_the_gain_only_by_the_bias(seed: int) -> None:
    mdp = random_mdp(6, 3, seed=seed)
    plan = optimal_gain(mdp)
    above = clairvoyant_reward(mdp, 1000) - 1000 * plan.gain - plan.bias
    assert (above >= -plan.bias.max() - 1e-6).all()
    assert (above <= -plan.bias.min() + 1e-6).all()


def test_changes_after_the_horizon_have_no_effect() -> None:
    problem = random_switching(3, 2, changes=2, horizon=90, seed=0)
    first = int(problem.change_points[0])
    before = clairvoyant_reward(problem, first - 1)
    np.testing.assert_array_equal(before, clairvoyant_reward(problem.at(1), first - 1))
    assert (clairvoyant_reward(problem, 90) > before).all()
    assert problem.at(1).rewards.tolist() == problem.configuration(0).rewards.tolist()


@pytest.mark.parametrize("wrong", [("river", 10), (MDP([[[1.0]]], [[1.0]]), 0)])
def test_invalid_arguments_are_rejected(wrong: Any) -> None:
    with pytest.raises(InvalidParameter):
        clairvoyant_reward(*wrong)
