"""ε-bad steps against a count that takes the definition at its word."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import switchmdp as sm
from switchmdp.simulation.bad_steps import TABLE, count_bad_steps

STAY = [[[1, 0], [0, 1]], [[0, 1], [1, 0]]]


def losses(record: sm.Record, problem: sm.SwitchingMDP) -> Any:
    """ρ*_t - gain(M_t, π_t from s_t) for every step, one after the other."""
    episodes, trajectory = record.episodes, record.trajectory
    assert episodes is not None
    assert trajectory is not None
    known: dict[Any, Any] = {}
    losses_by_step = []
    for t in range(1, record.horizon + 1):
        k = int(np.flatnonzero(episodes.start <= t)[-1])
        policy = tuple(episodes.policy[k].tolist())
        key = problem.active(t), policy
        if key not in known:
            mdp = problem.at(t)
            known[key] = sm.optimal_gain(mdp).gain - sm.policy_gain(mdp, list(policy))
        losses_by_step.append(known[key][trajectory.states[t - 1]])
    return np.array(losses_by_step)


def must_count(record: sm.Record, problem: sm.SwitchingMDP) -> list[float]:
    """Compare for an ε between any two losses that occur; which of them these were."""
    lost = losses(record, problem)
    levels = np.unique(lost.round(9))
    between = [float(e) for e in (levels[:-1] + levels[1:]) / 2 if e > 0]
    for epsilon in between:
        assert count_bad_steps(record, problem, epsilon) == (lost > epsilon).sum()
    assert len(between) >= 2
    return between


class Wandering:
    """An agent in plain Python: every 17 steps another policy, any that is available."""

    def __init__(self, available: Any, seed: int = 0) -> None:
        self.episode = self.t = 0
        self.available = np.asarray(available)
        self.rng = np.random.default_rng(seed)

    def act(self, state: int) -> int:
        if self.t % 17 == 0:
            self.episode += 1
            self.policy = [int(self.rng.choice(np.flatnonzero(row))) for row in self.available]
        return self.policy[state]

    def observe(self, state: int, action: int, reward: float, next_state: int) -> None:
        self.t += 1


def run(agent: Any, problem: sm.SwitchingMDP, horizon: int, seed: int = 0) -> sm.Record:
    return sm.simulate(agent, problem, horizon, seed=seed, episodes=True, trajectory=True)


def without_trajectory(record: sm.Record) -> sm.Record:
    return type(record)(**{**vars(record), "trajectory": None})


@pytest.mark.parametrize("seed", range(4))
def test_the_count_is_the_definitions_where_changes_fall_into_episodes(seed: int) -> None:
    problem = sm.problems.random_switching(
        4, 3, changes=3, horizon=5000, seed=seed, change_points=[1333, 2700, 2701]
    )
    record = run(sm.agents.UCRL2(4, 3), problem, 5000, seed)
    assert record.episodes is not None
    assert not set(problem.change_points) & set(record.episodes.start)
    for epsilon in must_count(record, problem):
        known = count_bad_steps(record, problem, epsilon)
        assert count_bad_steps(without_trajectory(record), problem, epsilon) == known


@pytest.mark.parametrize("last", [400, 401])
def test_a_change_at_the_last_step_counts_and_a_later_one_does_not(last: int) -> None:
    problem = sm.problems.random_switching(
        3, 2, changes=1, horizon=400, seed=1, change_points=[last]
    )
    record = run(Wandering(problem.available), problem, 400)
    assert len(must_count(record, problem)) > 5
    lost = losses(record, problem)
    assert (lost[-1] == lost[-2]) == (last == 401)


def test_unavailable_actions_are_counted_by_their_own_numbers() -> None:
    rng = np.random.default_rng(3)
    available = np.array(
        [[True, False, True], [False, True, False], [True, True, True], [False, True, True]]
    )
    mdps = [
        sm.MDP(rng.dirichlet(np.ones(4), (4, 3)), rng.random((4, 3)), available=available)
        for _ in range(2)
    ]
    problem = sm.SwitchingMDP(mdps, [600])
    assert len(must_count(run(Wandering(available), problem, 1200), problem)) > 10
    must_count(run(sm.agents.UCRL2(4, 3, available=available), problem, 5000), problem)


def test_policies_with_two_closed_classes_need_the_states_visited() -> None:
    """Staying in either state is a class of its own; only one is worth staying in."""
    problem = sm.SwitchingMDP([sm.MDP(STAY, [[0.2, 0.5], [0.8, 0.5]]),
                               sm.MDP(STAY, [[0.9, 0.5], [0.1, 0.5]])], [777])  # fmt: skip
    record = run(sm.agents.UCRL2(2, 2), problem, 1500)
    assert record.episodes is not None
    both = [tuple(policy) == (0, 0) for policy in record.episodes.policy.tolist()]
    assert any(both)
    must_count(record, problem)
    assert count_bad_steps(without_trajectory(record), problem, 0.05) is None
    must_count(run(Wandering(problem.available), problem, 1500), problem)


def test_a_transient_state_has_the_mean_gain_of_its_closed_classes() -> None:
    """State 0 leads to 1 or 2 by chance; these stay, or go back."""
    half, back = [0, 0.5, 0.5], [1, 0, 0]
    rows = [[half, half], [[0, 1, 0], back], [[0, 0, 1], back]]
    problem = sm.SwitchingMDP([sm.MDP(rows, [[0, 0.1], [0.2, 0], [0.9, 0]])])
    record = run(Wandering(problem.available), problem, 1000)
    must_count(record, problem)
    assert 0.35 in losses(record, problem).round(9)


def test_bad_steps_are_counted_without_a_table_of_policies() -> None:
    assert TABLE < 4**8
    problem = sm.problems.random_switching(8, 4, changes=1, horizon=1000, seed=2)
    must_count(run(Wandering(problem.available), problem, 1000), problem)


def test_many_changes_of_one_row_are_followed() -> None:
    base = sm.MDP(STAY, [[0.2, 0.5], [0.8, 0.5]])
    points = list(range(50, 1000, 7))
    patches = [[(0, 0, None, 0.9 if i % 2 else 0.1)] for i in range(len(points))]
    problem = sm.SwitchingMDP.from_patches(base, points, patches)
    must_count(run(sm.agents.UCRL2(2, 2), problem, 1000, seed=4), problem)


def test_an_agent_without_episodes_is_not_measured() -> None:
    problem = sm.problems.random_switching(3, 2, changes=1, horizon=200, seed=0)
    record = run(sm.agents.Random(3, 2), problem, 200)
    assert math.isnan(count_bad_steps(record, problem, 0.05) or 0.0)
    unrecorded = sm.simulate(sm.agents.UCRL2(3, 2), problem, 200)
    assert math.isnan(count_bad_steps(unrecorded, problem, 0.05) or 0.0)


class Hidden:
    """An agent that counts its episodes and shows no policy."""

    episode = 1

    def act(self, state: int) -> int:
        return 0

    def observe(self, state: int, action: int, reward: float, next_state: int) -> None: ...


def test_an_agent_without_a_policy_is_not_measured() -> None:
    problem = sm.problems.random_switching(3, 2, changes=2, horizon=100, seed=5)
    record = run(Hidden(), problem, 100)
    assert record.episodes is not None
    assert len(record.episodes) == 1
    assert math.isnan(count_bad_steps(record, problem, 0.02) or 0.0)
