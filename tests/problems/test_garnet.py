"""Garnet(S, A, b): every pair has b successors, and all states are connected."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import switchmdp as sm
from switchmdp import problems
from switchmdp.errors import InvalidParameter


@pytest.mark.parametrize(("n_states", "n_actions", "width"), [
    (1, 1, 1), (2, 1, 2), (8, 2, 1), (20, 3, 3), (20, 3, 20), (100, 4, 5),
])  # fmt: skip
def test_every_pair_has_b_successors_and_all_states_are_connected(
    n_states: int, n_actions: int, width: int
) -> None:
    for seed in range(3):
        mdp = problems.garnet_mdp(n_states, n_actions, width, seed=seed)
        assert ((mdp.transitions > 0).sum(axis=2) == width).all()
        assert sm.is_communicating(mdp)
        assert np.isfinite(sm.diameter(mdp))


def test_successors_are_uniformly_distributed() -> None:
    often = np.zeros(6)
    for seed in range(300):
        often += (problems.garnet_mdp(6, 2, 2, seed=seed).transitions > 0).sum(axis=(0, 1))
    assert often / often.sum() == pytest.approx(np.full(6, 1 / 6), abs=0.01)


def test_every_configuration_is_a_garnet() -> None:
    problem = problems.garnet(15, 2, 2, changes=8, horizon=900, seed=4)
    assert problem.change_points.tolist() == [101, 201, 301, 401, 501, 601, 701, 801]
    for mdp in problem.configurations():
        assert ((mdp.transitions > 0).sum(axis=2) == 2).all()
        assert sm.is_communicating(mdp)


def test_a_garnet_accepts_any_operator_and_can_cycle() -> None:
    problem = problems.garnet(how=problems.new_rewards, changes=2, cycle=2, horizon=300)
    a, b, c = problem.configurations()
    assert np.array_equal(a.transitions, b.transitions)
    assert not np.array_equal(a.rewards, b.rewards)
    assert np.array_equal(a.rewards, c.rewards)


@pytest.mark.parametrize(
    ("field", "wrong"),
    [
        ("successors", {"n_states": 5, "successors": 6}),
        ("successors", {"successors": 0}),
        ("successors", {"n_states": 200, "n_actions": 1, "successors": 1}),
        ("n_states", {"n_states": 10**6, "n_actions": 100}),
        ("n_actions", {"n_actions": 0}),
    ],
)
def test_invalid_parameters_are_named(field: str, wrong: dict[str, Any]) -> None:
    """A single action with a single successor: only a cycle connects, and is never drawn."""
    with pytest.raises(InvalidParameter) as caught:
        problems.garnet_mdp(**wrong)
    assert caught.value.field == field
