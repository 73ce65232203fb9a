"""Gains of switching MDPs, and warm starts: the same as solving each configuration afresh."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from switchmdp.errors import InvalidParameter, NotCommunicating
from switchmdp.mdp import MDP, SwitchingMDP
from switchmdp.planning import (
    Plan,
    optimal_gain,
    optimal_gain_brackets,
    optimal_gains,
    optimal_policies,
    policy_gain,
)
from switchmdp.problems import random_mdp, random_sparse_mdp, random_switching


def many_small_changes(changes: int = 2000) -> SwitchingMDP:
    """Each change gives one or two pairs another mean, another row, or both."""
    rng = np.random.default_rng(1)
    base = random_mdp(6, 3, seed=1)
    patches: list[list[Any]] = []
    for i in range(changes):
        first = int(rng.integers(18))
        patch: list[Any] = []
        for pair in range(first, min(18, first + 1 + i % 2)):
            row = rng.dirichlet(np.full(6, 0.5)) if i % 3 else None
            mean = float(rng.random()) if row is None or i % 4 == 1 else None
            patch.append((pair // 3, pair % 3, row, mean))
        patches.append(patch)
    return SwitchingMDP.from_patches(base, range(2, changes + 2), patches)


def few_large_changes() -> SwitchingMDP:
    """More states than are solved by policy iteration at once."""
    configurations = [random_sparse_mdp(90, 3, 4, seed=seed) for seed in range(4)]
    return SwitchingMDP(configurations, [10, 20, 30])


@pytest.mark.parametrize(
    "make", [lambda: random_switching(changes=30, seed=3), many_small_changes, few_large_changes]
)
def test_gains_of_a_problem_are_those_of_its_configurations(
    make: Callable[[], SwitchingMDP],
) -> None:
    problem = make()
    brackets, policies = optimal_gain_brackets(problem), optimal_policies(problem)
    gains = optimal_gains(problem)
    assert gains.shape == (problem.changes + 1,)
    assert (brackets[:, 1] - brackets[:, 0] <= 1e-9).all()
    assert ((brackets[:, 0] <= gains) & (gains <= brackets[:, 1])).all()
    for i, mdp in enumerate(problem.configurations()):
        assert abs(optimal_gain(mdp).gain - gains[i]) <= 2e-9, i
        assert abs(policy_gain(mdp, policies[i]) - gains[i]).max() <= 2e-9, i


def test_gains_do_not_depend_on_the_order_of_requests() -> None:
    whole, pieces = random_switching(changes=9, seed=5), random_switching(changes=9, seed=5)
    for last in (0, 3, 2, 7, 9):
        assert len(optimal_gains(pieces, last)) == last + 1
    assert np.abs(optimal_gains(pieces) - optimal_gains(whole)).max() <= 1e-9
    assert np.array_equal(optimal_gains(pieces, 4), optimal_gains(pieces)[:5])


@pytest.mark.parametrize("last", [-1, 3, 50, 1.0, True])
def test_gains_of_missing_configurations_are_rejected(last: Any) -> None:
    problem = random_switching(changes=2, seed=0)
    with pytest.raises(InvalidParameter):
        optimal_gains(problem, last)


def test_a_disconnected_configuration_is_named() -> None:
    joined = MDP([[[0, 1]], [[1, 0]]], [[0], [1]])
    apart = MDP([[[1, 0]], [[1, 0]]], [[0], [1]])
    with pytest.raises(NotCommunicating, match="configuration 1"):
        optimal_gains(SwitchingMDP([joined, apart], [5]))


@pytest.mark.parametrize(
    "mdp", [random_mdp(6, 4, seed=1), random_sparse_mdp(40, 3, 2, seed=2)], ids=repr
)
def test_an_initial_guess_does_not_change_the_result(mdp: MDP) -> None:
    cold = optimal_gain(mdp)
    rng = np.random.default_rng(0)
    for start in (
        cold,
        Plan(0.0, np.zeros(mdp.n_states), np.zeros(mdp.n_states, np.int64), 0.0, 1.0),
        Plan(
            0.0, 1e3 * rng.random(mdp.n_states), rng.integers(0, 3, mdp.n_states), 0.0, 1.0
        ),
    ):  # fmt: skip
        warm = optimal_gain(mdp, start=start)
        assert abs(warm.gain - cold.gain) <= 1e-9
        assert np.array_equal(warm.policy, cold.policy)
        assert np.abs(warm.bias - cold.bias).max() <= 1e-8


def test_an_initial_guess_saves_nearly_all_sweeps() -> None:
    mdp = random_sparse_mdp(90, 3, 4, seed=1)
    cold = optimal_gain(mdp)
    warm = optimal_gain(mdp, start=cold)
    assert np.array_equal(warm.bias, cold.bias)  # accepted by the first sweep
    assert (warm.lower, warm.upper) == (cold.lower, cold.upper)


def test_an_initial_guess_is_not_modified() -> None:
    start = optimal_gain(random_sparse_mdp(90, 3, 4, seed=1))
    bias, policy = start.bias.copy(), start.policy.copy()
    optimal_gain(random_sparse_mdp(90, 3, 4, seed=2), start=start)
    assert np.array_equal(start.bias, bias)
    assert np.array_equal(start.policy, policy)


@pytest.mark.parametrize("n_states", [2, 200])
def test_an_initial_guess_of_another_size_is_rejected(n_states: int) -> None:
    start = optimal_gain(random_mdp(n_states, 2, seed=1))
    with pytest.raises(InvalidParameter, match="start must be a Plan for 20 states"):
        optimal_gain(random_mdp(20, 2, seed=1), start=start)


def test_an_initial_guess_that_is_not_a_plan_is_rejected() -> None:
    nonsense: Any = [0, 1]
    with pytest.raises(InvalidParameter, match="start must be a Plan for 2 states"):
        optimal_gain(random_mdp(2, 2), start=nonsense)


def test_the_optimal_policies_of_an_mdp_are_those_of_a_problem_without_changes() -> None:
    mdp = random_mdp(5, 3, seed=4)
    assert optimal_policies(mdp).tolist() == optimal_policies(SwitchingMDP([mdp])).tolist()
    assert optimal_policies(mdp).tolist() == [optimal_gain(mdp).policy.tolist()]


@pytest.mark.parametrize(("n_states", "changes"), [(4, 12), (4, 300), (70, 5)])
def test_gains_do_not_depend_on_how_many_were_asked_for_at_a_time(
    n_states: int, changes: int
) -> None:
    def fresh() -> SwitchingMDP:
        return random_switching(n_states, 2, changes=changes, horizon=10_000, seed=3)

    whole, pieces = optimal_gain_brackets(fresh()), fresh()
    for last in (0, 1, changes // 2, changes):
        optimal_policies(pieces)
        assert np.array_equal(optimal_gain_brackets(pieces, last), whole[: last + 1])
