"""Posterior sampling: TSDE's episodes, its variants, and convergence to the best policy."""

from __future__ import annotations

import numpy as np
import pytest

import switchmdp as sm
from switchmdp.agents import PSRL, SWPSRL, Growing, OraclePSRL

pytestmark = pytest.mark.xdist_group("Posterior")

PROBLEM = sm.problems.random_switching(4, 2, changes=2, horizon=6000, seed=1)


def test_each_episode_is_at_most_one_step_longer_than_the_previous_one() -> None:
    record = sm.simulate(PSRL(4, 2), PROBLEM, 6000, seed=0, episodes=True)
    assert record.episodes is not None
    lengths = record.episodes.length[:-1]
    assert lengths[0] <= 2
    assert (np.diff(lengths) <= 1).all()
    assert lengths.max() > 30


def test_the_tsde_rule_matches_the_paper() -> None:
    """t_0 = 0; T_{k-1} = t - t_{k-1}; an episode goes on while t <= t_k + T_{k-1}."""
    rule = Growing()
    assert [rule.end(t, 1) for t in (1, 3, 6, 8, 11, 15)] == [3, 6, 10, 11, 15, 20]


def test_an_episode_also_ends_when_a_pairs_visits_have_doubled() -> None:
    record = sm.simulate(PSRL(4, 2), PROBLEM, 6000, seed=0, episodes=True)
    assert record.episodes is not None
    shorter = np.diff(record.episodes.length[:-1]) <= 0
    assert 5 < shorter.sum() < 100


def test_an_oracle_restarts_at_changes_and_a_window_forgets() -> None:
    oracle = OraclePSRL(4, 2, change_points=PROBLEM.change_points)
    sm.simulate(oracle, PROBLEM, 6000, seed=0)
    windowed = SWPSRL(4, 2, window=500)
    sm.simulate(windowed, PROBLEM, 6000, seed=0)
    assert oracle.since == PROBLEM.change_points[PROBLEM.change_points <= 6000][-1]
    assert windowed.visits.sum() == 500
    for seed in range(3):
        blind = sm.simulate(PSRL(4, 2), PROBLEM, 6000, seed=seed)
        informed = sm.simulate(
            OraclePSRL(4, 2, change_points=PROBLEM.change_points), PROBLEM, 6000, seed=seed
        )
        assert informed.pseudo_regret[-1] < blind.pseudo_regret[-1]


def test_without_changes_it_converges_to_the_optimal_policy() -> None:
    mdp = sm.problems.random_mdp(4, 2, seed=3)
    agent = PSRL(4, 2)
    record = sm.simulate(agent, sm.SwitchingMDP([mdp]), 20_000, seed=0)
    assert sm.policy_gain(mdp, agent.policy) == pytest.approx(sm.optimal_gain(mdp).gain, abs=0.02)
    assert record.pseudo_regret[-1] < 200


def test_its_draws_depend_only_on_its_seed() -> None:
    runs = [sm.simulate(PSRL(4, 2), PROBLEM, 500, seed=seed, trajectory=True) for seed in (0, 0, 1)]
    actions = [run.trajectory.actions.tolist() for run in runs if run.trajectory is not None]
    assert actions[0] == actions[1] != actions[2]
