"""Connected states, compared with a transitive closure, and the messages about them."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.sparse.csgraph import connected_components

from switchmdp.mdp import MDP
from switchmdp.mdp.model import Model, reachable_from, reaching, unconnected_states


def communicating(model: Model) -> bool:
    return unconnected_states(model) is None


def mdp_of(edges: NDArray[np.bool_]) -> MDP:
    """One action per state, uniform over its edges."""
    rows = edges / edges.sum(axis=1, keepdims=True)
    return MDP(rows[:, None, :], np.zeros((len(edges), 1)))


def random_edges(seed: int) -> NDArray[np.bool_]:
    rng = np.random.default_rng(seed)
    n_states = int(rng.integers(1, 9))
    edges = rng.random((n_states, n_states)) < rng.uniform(0.05, 0.4)
    edges[np.arange(n_states), rng.integers(0, n_states, n_states)] = True
    return edges


def closure(edges: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Reachability in any number of steps, including none."""
    reach = edges | np.eye(len(edges), dtype=bool)
    for k in range(len(edges)):
        reach |= reach[:, k, None] & reach[None, k, :]
    return reach


@pytest.mark.parametrize("seed", range(30))
def test_reachability_is_the_transitive_closure(seed: int) -> None:
    edges = random_edges(seed)
    model, reach = mdp_of(edges).model, closure(edges)
    for s in range(len(edges)):
        assert reachable_from(model, s).tolist() == reach[s].tolist()
        assert reaching(model, s).tolist() == reach[:, s].tolist()


def test_communicating_means_one_strong_component() -> None:
    answers = set()
    for seed in range(60):
        edges = random_edges(seed)
        expected = connected_components(edges, connection="strong")[0] == 1
        assert communicating(mdp_of(edges).model) == expected
        assert (unconnected_states(mdp_of(edges).model) is None) == expected
        answers.add(bool(expected))
    assert answers == {True, False}


def test_only_available_actions_connect_states() -> None:
    stay_or_swap = np.array([[[1.0, 0.0], [0.0, 1.0]], [[0.0, 1.0], [1.0, 0.0]]])
    means = np.zeros((2, 2))
    assert communicating(MDP(stay_or_swap, means).model)
    mask = [[True, True], [True, False]]
    locked = MDP(stay_or_swap, means, available=mask).model
    assert unconnected_states(locked) == "no policy leads from state 1 to state 0"


def test_states_that_cannot_be_reached_are_all_named() -> None:
    edges = np.eye(4, dtype=bool)
    edges[0, 1] = edges[1, 0] = True
    assert unconnected_states(mdp_of(edges).model) == "no policy leads from state 0 to states 2, 3"


def test_many_states_that_cannot_be_connected_are_counted() -> None:
    edges = np.zeros((21, 21), bool)
    edges[:, 0] = True
    words = unconnected_states(mdp_of(edges).model)
    assert words == "no policy leads from state 0 to states 1, 2, 3, 4, 5, 6, 7, 8 and 12 more"


def test_any_positive_probability_connects() -> None:
    tiny = MDP([[[1.0 - 1e-12, 1e-12]], [[1.0, 0.0]]], [[0], [0]])
    assert communicating(tiny.model)
    exact = MDP([[[1.0, 0.0]], [[1.0, 0.0]]], [[0], [0]])
    assert not communicating(exact.model)


def test_a_single_state_communicates() -> None:
    assert communicating(MDP([[[1.0]]], [[0.0]]).model)
