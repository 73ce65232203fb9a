"""Extended value iteration over balls of any shape, here the smallest: one row for each pair."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import switchmdp as sm
from switchmdp.planning.optimism import Sweeps


class Row:
    """A ball that holds one row."""

    def __init__(self, mdp: sm.MDP, work: Sweeps) -> None:
        pairs = mdp.pairs
        self.rows = mdp.transitions[pairs.states, pairs.actions]
        self.work = work
        self.arranged = 0

    def arrange(self) -> None:
        self.arranged += 1

    def highest(self, counts: Any, pair: int, lowest_wanted: float) -> float:
        value = float(self.rows[pair] @ self.work.value)
        return value if value >= lowest_wanted else lowest_wanted - 1.0


def sweep(mdp: sm.MDP, precision: float, free: Any = None) -> tuple[Sweeps, list[int]]:
    pairs, work = mdp.pairs, Sweeps(mdp.n_states)
    choice = np.zeros(mdp.n_states, np.int64)
    reward = mdp.rewards[pairs.states, pairs.actions]
    free = np.zeros(pairs.n_pairs, bool) if free is None else free
    ball = Row(mdp, work)
    assert work.iterate(ball, pairs.starts, None, reward, free, precision, choice)
    assert ball.arranged == work.done
    return work, pairs.actions[choice].tolist()


@pytest.mark.parametrize("seed", range(5))
def test_with_one_row_for_each_pair_the_gain_is_the_optimal_one(seed: int) -> None:
    mdp = sm.problems.random_mdp(6, 3, seed=seed)
    work, policy = sweep(mdp, 1e-10)
    plan = sm.optimal_gain(mdp)
    assert work.lower - 1e-9 <= plan.gain <= work.upper + 1e-9
    assert policy == plan.policy.tolist()
    assert work.value.min() == 0.0
    assert work.value.max() == work.top


def test_a_cycle_converges_because_of_the_aperiodicity_transform() -> None:
    cycle = sm.MDP([[[0, 1]], [[1, 0]]], [[1], [0]])
    work, _ = sweep(cycle, 1e-9)
    assert abs((work.lower + work.upper) / 2 - 0.5) <= 1e-9
    assert work.done < 200


def test_ties_go_to_the_lowest_action() -> None:
    mdp = sm.problems.random_mdp(4, 2, seed=1)
    twice = sm.MDP(mdp.transitions.repeat(2, axis=1), mdp.rewards.repeat(2, axis=1))
    assert all(action % 2 == 0 for action in sweep(twice, 1e-6)[1])


def test_an_unvisited_pair_leads_to_the_best_state() -> None:
    mdp = sm.problems.random_mdp(4, 2, seed=2)
    work, _ = sweep(mdp, 1e-9, np.ones(8, bool))
    assert abs((work.lower + work.upper) / 2 - mdp.rewards.max()) <= 1e-9
