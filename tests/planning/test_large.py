"""Large MDPs: value iteration and policy iteration by components, against dense methods."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_array

from switchmdp.errors import MissingExtra
from switchmdp.mdp import MDP
from switchmdp.mdp.model import predecessors
from switchmdp.planning import gain, optimal_gain, policy_gain
from switchmdp.planning.iteration import DONE, LIMIT, iterate_policies
from switchmdp.planning.large import (
    QUICK,
    components,
    evaluate_by_components,
    iterate_by_components,
    iterate_large_values,
)
from switchmdp.problems import random_sparse_mdp, ring_with_shortcuts, riverswim


def solved(way: Any, mdp: MDP, *more: Any) -> Any:
    choice, bias = mdp.pairs.starts[:-1].copy(), np.zeros(mdp.n_states)
    return way(mdp.model, choice, bias, 1e-9, *more), choice, bias


def functional_graph(targets: Any, *, stay: float, seed: int) -> MDP:
    """One action per state: on to its target, or stay; plus an action that goes around a ring."""
    rng = np.random.default_rng(seed)
    n = len(targets)
    here = np.arange(n)
    rows = np.concatenate([2 * here, 2 * here, 2 * here + 1])
    columns = np.concatenate([targets, here, (here + 1) % n])
    weights = np.concatenate([np.full(n, 1.0 - stay), np.full(n, stay), np.ones(n)])
    return MDP(csr_array((weights, (rows, columns)), (2 * n, n)), rng.random((n, 2)))


def reachable(mdp: MDP, choice: Any) -> Any:
    """The transitive closure of a policy's graph, each state included."""
    n = mdp.n_states
    reach = np.eye(n, dtype=bool)
    for s in range(n):
        y = mdp.model.row[choice[s]]
        reach[s, mdp.model.successors[mdp.model.start[y] : mdp.model.stop[y]]] = True
    for middle in range(n):
        reach |= np.outer(reach[:, middle], reach[middle])
    return reach


@pytest.mark.parametrize("seed", range(20))
def test_components_are_the_classes_of_mutually_reachable_states_sinks_first(seed: int) -> None:
    rng = np.random.default_rng(seed)
    mdp = random_sparse_mdp(30, 3, 1 + seed % 2, seed=seed)
    choice = np.array([mdp.pairs.pair(s, int(a)) for s, a in enumerate(rng.integers(0, 3, 30))])
    label, finish, count = components(mdp.model, choice)
    reach = reachable(mdp, choice)
    assert np.array_equal(label[:, None] == label[None, :], reach & reach.T)
    assert sorted(finish.tolist()) == list(range(30))
    assert set(label.tolist()) == set(range(count))
    assert (label[:, None] >= label[None, :])[reach].all()


@pytest.mark.parametrize("seed", range(20))
def test_the_bias_by_components_solves_the_policys_equations(seed: int) -> None:
    rng = np.random.default_rng(seed)
    mdp = functional_graph(rng.integers(0, 40, 40), stay=0.3 * (seed % 2), seed=seed)
    choice, bias = mdp.pairs.starts[:-1].copy(), np.empty(40)
    model = mdp.model
    assert evaluate_by_components(model, choice, predecessors(model), bias)
    gains = policy_gain(mdp, mdp.pairs.actions[choice])
    assert np.ptp(gains) <= 1e-12  # routed to one class
    first = policy_gain(mdp, np.zeros(40, np.int64))
    assert abs(gains[0] - first.max()) <= 1e-12  # the best one
    rows = mdp.transitions[np.arange(40), mdp.pairs.actions[choice]]
    rewards = mdp.rewards[np.arange(40), mdp.pairs.actions[choice]]
    assert abs(rewards + rows @ bias - bias - gains).max() <= 1e-10


def test_a_transient_component_is_solved_from_its_successors() -> None:
    # 0 → 1 → 2 → 0 or 3, and 3 stays for 1/2: h(3) = 0 and the others wait for the way out.
    transitions = [
        [{1: 1.0}, {0: 0.5, 1: 0.5}],
        [{2: 1.0}, {1: 0.9, 2: 0.1}],
        [{0: 0.75, 3: 0.25}, {0: 0.75, 3: 0.25}],
        [{3: 1.0}, {0: 1.0}],
    ]
    mdp = MDP(transitions, [[0.0, 0.0], [0.25, 0.25], [1.0, 1.0], [0.5, 0.5]])
    bias = np.empty(4)
    choice = mdp.pairs.starts[:-1].copy()
    assert evaluate_by_components(mdp.model, choice, predecessors(mdp.model), bias)
    # A round 0 → 1 → 2 earns 5/4 - 3/2 = -1/4 beyond the gain, and there are four on average.
    assert bias.tolist() == [-1.0, -0.5, -0.25, 0.0]
    # Steps that stay where they are take time, and earn as much in each.
    choice[1] += 1
    assert evaluate_by_components(mdp.model, choice, predecessors(mdp.model), bias)
    assert abs(bias - [-4.0 * 2.5, -9.5, -7.0, 0.0]).max() <= 1e-12


@pytest.mark.parametrize("seed", range(6))
def test_rings_have_the_same_gain_by_components_and_by_dense_policies(seed: int) -> None:
    mdp = ring_with_shortcuts(400, seed=seed)
    (lower, upper, status), choice, bias = solved(iterate_by_components, mdp)
    (exact, _, dense), _, _ = solved(iterate_policies, mdp)
    assert status == dense == DONE
    assert lower - 1e-12 <= exact <= upper + 1e-12
    own = policy_gain(mdp, mdp.pairs.actions[choice])
    assert lower - 1e-12 <= own.min() <= own.max() <= upper + 1e-12
    assert np.isfinite(bias).all()


def test_policies_whose_cycles_have_no_state_in_common_are_rejected() -> None:
    (_, _, status), _, _ = solved(iterate_by_components, riverswim(50))
    assert status == LIMIT


def test_value_iteration_solves_periodic_mdps_after_a_round_without_progress() -> None:
    rng = np.random.default_rng(3)
    rows = np.zeros((80, 2, 80))
    rows[:40, :, 40:] = rng.dirichlet(np.ones(40), (40, 2))
    rows[40:, :, :40] = rng.dirichlet(np.ones(40), (40, 2))
    rewards = np.zeros((80, 2))
    rewards[:40] = 1.0
    (lower, upper, status), _, _ = solved(iterate_large_values, MDP(rows, rewards), QUICK, False)
    assert status == DONE
    assert lower <= 0.5 <= upper <= lower + 1e-9


@pytest.mark.parametrize("patient", [False, True])
def test_value_iteration_gives_up_on_long_cycles(patient: bool) -> None:
    rewards = np.random.default_rng(1).random(500)
    onward = csr_array((np.ones(500), ((np.arange(500) + 1) % 500), np.arange(501)))
    mdp = MDP(onward, rewards[:, None])
    (lower, upper, status), _, _ = solved(iterate_large_values, mdp, QUICK, patient)
    assert status == LIMIT
    assert lower <= rewards.mean() <= upper
    (lower, upper, status), _, _ = solved(iterate_by_components, mdp)
    assert status == DONE
    assert lower - 1e-12 <= rewards.mean() <= upper + 1e-12 <= lower + 1e-9


@pytest.mark.parametrize("seed", range(4))
def test_every_method_for_large_mdps_agrees_with_those_for_small_ones(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    mdps = [random_sparse_mdp(200, 3, 1 + seed, seed=seed), ring_with_shortcuts(200, seed=seed)]
    before = [optimal_gain(mdp) for mdp in mdps]
    monkeypatch.setattr(gain, "DENSE", 0)
    for mdp, plan in zip(mdps, before, strict=True):
        now = optimal_gain(mdp)
        assert now.upper - now.lower <= 1e-9
        assert max(now.lower, plan.lower) <= min(now.upper, plan.upper)
        again = optimal_gain(mdp, start=now)
        assert max(again.lower, plan.lower) <= min(again.upper, plan.upper)


def test_without_scipy_a_policy_of_many_states_names_the_extra(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    mdp = random_sparse_mdp(2001, 2, 3, seed=0)
    monkeypatch.setitem(sys.modules, "scipy", None)
    with pytest.raises(MissingExtra, match=r"switchmdp\[sparse\]"):
        policy_gain(mdp, np.zeros(2001, np.int64))
