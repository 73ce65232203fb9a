"""UCRL3 with a calibrated detector: rounds of exploration, restarts, and detected changes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import switchmdp as sm
from switchmdp.agents import CalibratedUCRL3, Episodic, Squares
from switchmdp.agents.calibrated_ucrl3 import DiminishingExploration, RestartAll
from switchmdp.errors import InvalidParameter
from switchmdp.memory import EverythingWithVariance
from switchmdp.plausible import BernsteinLaplace
from switchmdp.restarts import Never


def exploring(n_states: int, n_actions: int, gap: float) -> Episodic:
    """The agent without its detector."""
    return Episodic(
        n_states, n_actions, memory=EverythingWithVariance(), plausible=BernsteinLaplace(0.1),
        restarts=Never(), episodes=Squares(gap), exploration=DiminishingExploration(gap),
    )  # fmt: skip


def test_episodes_end_at_the_gap_times_every_square() -> None:
    rule = Squares(10.0)
    assert [rule.end(t, 1) for t in (1, 10, 11, 40, 41, 91)] == [11, 11, 41, 41, 91, 161]
    assert rule.end(1010, 1000) == 1040
    assert [Squares(2.5).end(t, 1) for t in (1, 4, 11)] == [4, 11, 24]


def test_a_round_explores_one_action_per_state_in_turn() -> None:
    agent = exploring(3, 2, 10.0)
    asked: list[list[tuple[int, int]]] = []
    rng, state = np.random.default_rng(0), 0
    for t in range(1, 400):
        action = agent.act(state)
        if t - 1 in {10 * k * k for k in range(1, 7)}:
            asked.append([(s, int(turn) % 2) for s, turn in enumerate(agent.exploration.turn)])
            assert agent.exploration.owes.any()
        target = int(rng.integers(3))
        agent.observe(state, action, float(rng.random()), target)
        state = target
    assert asked[:3] == [[(0, k % 2), (1, k % 2), (2, k % 2)] for k in range(3)]


def test_the_number_of_forced_visits_is_within_the_theorems_bounds() -> None:
    """At most S √(n/g) forced steps; and every pair has at least ⌊rounds/A⌋ visits."""
    n_states, n_actions, gap, steps = 4, 3, 10.0, 40_000
    mdp = sm.problems.random_mdp(n_states, n_actions, seed=5)
    agent = CalibratedUCRL3(n_states, n_actions, gap=gap)
    sm.simulate(agent, sm.SwitchingMDP([mdp]), steps, seed=1)
    assert agent.since == 1
    rounds = math.isqrt(int((steps - 1) / gap))
    assert agent.exploration.next_round == rounds + 1
    assert (agent.exploration.turn <= rounds).all()
    assert agent.exploration.turn.sum() <= n_states * math.sqrt(steps / gap)
    assert agent.visits.min() >= rounds // n_actions - 1


def test_an_alarm_clears_all_counts_and_restarts_the_rounds() -> None:
    rows = np.full((2, 2, 2), 0.5)
    first, second = np.array([[0.9, 0.1]] * 2), np.array([[0.1, 0.9]] * 2)
    problem = sm.SwitchingMDP([sm.MDP(rows, first), sm.MDP(rows, second)], [3001])
    agent = CalibratedUCRL3(2, 2)
    record = sm.simulate(agent, problem, 3000, seed=0)
    assert agent.since == 1
    sm.simulate(agent, problem, 4000, resume=record)
    assert 3001 < agent.since < 3300
    assert agent.visits.sum() == 4001 - agent.since
    assert agent.exploration.next_round <= 1 + math.isqrt((4001 - agent.since) // 10)
    assert agent.policy.tolist() == [1, 1]


def test_it_detects_an_improvement_of_an_unused_action() -> None:
    """Action 1 is bad and becomes the best; its policy alone never takes it."""
    rows = np.full((3, 2, 3), 1 / 3)
    before, after = np.array([[0.5, 0.05]] * 3), np.array([[0.5, 0.95]] * 3)
    problem = sm.SwitchingMDP([sm.MDP(rows, before), sm.MDP(rows, after)], [20_001])
    agent = CalibratedUCRL3(3, 2)
    record = sm.simulate(agent, problem, 20_000, seed=0)
    assert agent.policy.tolist() == [0, 0, 0]
    sm.simulate(agent, problem, 60_000, resume=record)
    assert agent.since > 20_001
    assert agent.policy.tolist() == [1, 1, 1]


@pytest.mark.parametrize("seed", range(3))
def test_there_is_no_alarm_with_flat_rows_and_no_changes(seed: int) -> None:
    rows, means = np.full((6, 3, 6), 1 / 6), np.random.default_rng(seed).random((6, 3))
    agent = CalibratedUCRL3(6, 3)
    sm.simulate(agent, sm.SwitchingMDP([sm.MDP(rows, means)]), 30_000, seed=seed)
    assert agent.since == 1


def test_all_pairs_are_suspected_and_all_earlier_counts_are_cleared() -> None:
    rule, suspects = RestartAll(0.1), np.zeros(6, np.uint8)
    assert rule.suspect(suspects) == 0
    assert suspects.tolist() == [1] * 6


@pytest.mark.parametrize("bad", [0.5, -1, math.nan, math.inf, 2e9, "2", None, True])
def test_a_bad_gap_is_rejected(bad: Any) -> None:
    with pytest.raises(InvalidParameter, match="gap"):
        CalibratedUCRL3(3, 2, gap=bad)


def test_it_passes_the_agent_contract() -> None:
    mask = np.ones((4, 3), bool)
    mask[::2, 1] = False
    sm.check_agent(lambda: CalibratedUCRL3(4, 3, gap=4.0, available=mask), steps=900, strict=True)
