"""If the agent's choice is not available, the best available action is taken."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.online.workbench import S

import switchmdp as sm
from switchmdp.online import Decisions
from switchmdp.planning.inner_maximum import optimistic_row


def brute_force(agent: Any, state: int, available: list[int]) -> int:
    """The best available action by r̃ + max p̃·u, where a linear program finds the maximum."""
    counts, t, u = agent.memory.counts, agent.clock - agent.since + 1, agent.plausible.optimism
    worth = {}
    for action in sorted(available):
        pair = agent.pairs.pair(state, action)
        n = int(counts.visits[pair])
        reward = min(1.0, counts.mean(pair) + agent.plausible.reward_radius(n, t))
        estimate = np.zeros(agent.n_states)
        for k in range(counts.offset[pair], counts.offset[pair] + counts.used[pair]):
            estimate[counts.target[k]] += counts.count[k] / max(1, n)
        if n == 0:
            estimate[0] = 1.0  # any: its ball holds every distribution
        radius = agent.plausible.transition_radius(n, t) if n else 2.0
        worth[action] = reward + optimistic_row(estimate, radius, u.value) @ u.value
    return max(worth, key=lambda action: round(worth[action], 12))


@pytest.mark.parametrize("n_states", [4, 70])
def test_the_best_available_action_replaces_an_unavailable_choice(
    n_states: int, tmp_path: Path
) -> None:
    rng = np.random.default_rng(n_states)
    known, steps = (4, 20_000) if n_states == 4 else (2, 40_000)  # of the others nothing is known
    means = rng.random((known, 4))
    rows = rng.dirichlet([0.1] * n_states, (known, 4)).cumsum(axis=2)
    agent = sm.agents.SWUCRL(n_states, 4, window=100_000, delta=0.5)
    other, tried = 0, 0
    with Decisions(agent, tmp_path, sync=False) as decisions:
        learned: Any = decisions.learner.agent
        history = []
        for _ in range(steps):
            s, a = int(rng.integers(known)), int(rng.integers(4))
            reward = float(rng.random() < means[s, a])
            history.append((s, a, reward, int(np.searchsorted(rows[s, a], rng.random()))))
        decisions.learn_from(history)
        decisions.decide(0)
        for _ in range(300):
            state = int(rng.integers(known))
            available = rng.permutation(4)[: int(rng.integers(1, 5))].tolist()
            quota, choice = learned.quota.copy(), int(learned.policy[state])
            episode = learned.episode
            decision = decisions.decide(state, available=available)
            assert decision.action in available
            assert decision.would is None
            if learned.episode != episode:
                continue
            if choice in available:
                quota[state] -= 1
                assert decision.action == choice
            else:
                tried += 1
                other += decision.action != min(available)
                assert decision.action == brute_force(learned, state, available)
            assert np.array_equal(learned.quota, quota)
    assert tried > 50
    assert other > 10


def test_worth_equals_the_value_in_extended_value_iteration(tmp_path: Path) -> None:
    """The chosen pair has the next value of its state as its worth, and no pair has more."""
    agent: Any = sm.agents.UCRL2(5, 3, delta=0.3)
    problem = sm.problems.random_switching(5, 3, changes=0, horizon=20_000, seed=1)
    sm.simulate(agent, problem, 20_000)
    agent.start_episode()
    counts, t = agent.memory.counts, agent.clock - agent.since + 1
    value = agent.plausible.optimism.next_value
    worth = [agent.plausible.worth(counts, t, pair) for pair in range(15)]
    for s in range(5):
        assert worth[agent.choice[s]] == pytest.approx(value[s], abs=1e-12)
        assert max(worth[3 * s : 3 * s + 3]) == pytest.approx(value[s], abs=1e-12)


def test_an_agent_without_episodes_takes_the_lowest_available_action(tmp_path: Path) -> None:
    with Decisions(sm.agents.Random(S, 3, seed=1), tmp_path) as decisions:
        found = {decisions.decide(0, available=[2, 1]).action for _ in range(40)}
        assert found == {1, 2}
