"""Optimistic Q-learning: the paper's update by hand, restarts, and learning."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import switchmdp as sm
from switchmdp.agents import QLearning, load
from switchmdp.errors import InvalidParameter


def test_two_updates_match_algorithm_1() -> None:
    """H = 4, so γ = 3/4: α_1 = 5/5, α_2 = 5/6, and b_τ = c √(4/τ)."""
    agent = QLearning(2, 2, span=4.0, bonus=0.1)
    assert agent.q.tolist() == [4.0] * 4
    assert agent.value.tolist() == [4.0, 4.0]
    agent.observe(0, 0, 0.5, 1)
    first = 0.5 + 0.75 * 4.0 + 0.1 * 2.0
    assert agent.q[0] == agent.ceiling[0] == pytest.approx(first)
    assert agent.value[0] == 4.0  # the other action is still hoped for
    assert agent.act(0) == 1
    agent.observe(0, 0, 1.0, 0)
    second = first / 6 + 5 / 6 * (1.0 + 0.75 * 4.0 + 0.1 * math.sqrt(2.0))
    assert agent.q[0] == pytest.approx(second)
    assert agent.ceiling[0] == pytest.approx(first)  # Q̂ only falls
    agent.observe(0, 1, 0.0, 1)
    assert agent.value[0] == pytest.approx(max(first, 0.75 * 4.0 + 0.2))


def test_a_restart_resets_the_estimates_to_optimistic_values() -> None:
    agent = QLearning(2, 2, period=3)
    for _ in range(2):
        agent.observe(0, 0, 0.0, 1)
    assert agent.visits.sum() == 2
    agent.observe(0, 0, 0.0, 1)
    assert (agent.t, agent.restart_at) == (4, 7)
    assert agent.visits.sum() == 0
    assert agent.q.tolist() == agent.ceiling.tolist() == [100.0] * 4


def test_it_learns_the_better_action_again_after_a_restart() -> None:
    rows = np.full((2, 2, 2), 0.5)
    first, second = np.array([[0.9, 0.1]] * 2), np.array([[0.1, 0.9]] * 2)
    problem = sm.SwitchingMDP([sm.MDP(rows, first), sm.MDP(rows, second)], [20_001])
    agent = QLearning(2, 2, period=20_000, span=10.0, bonus=0.1)
    record = sm.simulate(agent, problem, 20_000, seed=0)
    sm.simulate(agent, problem, 39_999, resume=record)
    assert agent.policy.tolist() == [1, 1]


@pytest.mark.parametrize("n_states", [4, 70])
def test_it_passes_the_agent_contract(n_states: int) -> None:
    mask = np.ones((n_states, 3), bool)
    mask[::2, 1] = False
    sm.check_agent(
        lambda: QLearning(n_states, 3, period=700, available=mask), steps=1500, strict=True
    )


def test_growth_keeps_the_estimates() -> None:
    agent = QLearning(2, 2)
    agent.observe(1, 1, 0.5, 0)
    learned = agent.q[3]
    agent.grow(3, 3)
    assert agent.q[4] == learned
    assert agent.q.size == 9
    assert agent.value.tolist() == [100.0, 100.0, 100.0]


def test_a_file_with_bad_values_is_rejected(tmp_path: Any) -> None:
    agent = QLearning(3, 2, period=50)
    sm.simulate(agent, sm.problems.random_switching(3, 2, changes=1, horizon=99), 99)
    agent.save(tmp_path / "agent")
    assert np.array_equal(load(tmp_path / "agent").q, agent.q)
    for field, bad in (("q", np.full(6, np.nan)), ("visits", agent.visits[:-1]), ("clock", 10**6)):
        value = getattr(agent, field)
        setattr(agent, field, bad)
        with pytest.raises(InvalidParameter, match="consistent"):
            agent.save(tmp_path / "agent")
        setattr(agent, field, value)


@pytest.mark.parametrize(
    ("field", "parameters"),
    [("period", {"period": 0}), ("span", {"span": 1.5}), ("span", {"span": None}),
     ("bonus", {"bonus": -1.0}), ("bonus", {"bonus": float("nan")})],
)  # fmt: skip
def test_bad_parameters_are_rejected_by_name(field: str, parameters: dict[str, Any]) -> None:
    with pytest.raises(InvalidParameter, match=field):
        QLearning(2, 2, **parameters)
