"""UCRL2 restarted by GLR: it detects changes, and probes do not change the policy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import switchmdp as sm
from switchmdp.agents import GLRUCRL, RBOCPDUCRL2, load
from switchmdp.errors import InvalidParameter


def swapped(change: int, horizon: int) -> sm.SwitchingMDP:
    """Two states; the change exchanges the good and the bad action."""
    rows = np.array([[[0.8, 0.2], [0.2, 0.8]]] * 2)
    first = sm.MDP(rows, [[0.1, 0.1], [0.9, 0.9]])
    second = sm.MDP(rows[:, ::-1], [[0.9, 0.9], [0.1, 0.1]])
    assert change < horizon
    return sm.SwitchingMDP([first, second], [change])


@pytest.mark.parametrize("make", [GLRUCRL, RBOCPDUCRL2])
def test_it_restarts_soon_after_a_change_and_never_before(make: Any) -> None:
    problem = swapped(3001, 6000)
    for seed in range(5):
        agent = make(2, 2, delta=0.05)
        record = sm.simulate(agent, problem, 3000, seed=seed)
        assert agent.since == 1
        sm.simulate(agent, problem, 3300, resume=record)
        assert 3001 < agent.since < 3100
        assert (agent.since - 1) % 16 == 0


def test_a_probe_takes_actions_in_turn_at_every_interval() -> None:
    agent = GLRUCRL(1, 3, explore=0.1)
    problem = sm.SwitchingMDP([sm.MDP(np.ones((1, 3, 1)), [[0.0, 1.0, 0.0]])])
    with_probes = sm.simulate(agent, problem, 5000, seed=0, trajectory=True)
    assert with_probes.trajectory is not None
    probed = with_probes.trajectory.actions[9::10]
    assert probed.tolist() == [k % 3 for k in range(500)]
    others = np.delete(with_probes.trajectory.actions, np.arange(9, 5000, 10))
    assert (others[-2000:] == 1).all()


def test_the_policy_and_its_quota_are_restored_after_a_probe() -> None:
    agent = GLRUCRL(2, 2, explore=1 / 7)
    rng = np.random.default_rng(0)
    state, expected, restored = 0, None, 0
    for t in range(1, 700):
        action = agent.act(state)
        assert agent.act(state) == action
        if agent.probed == t:
            expected = agent.held, agent.held_quota
            assert t % 7 == 0
        elif expected is not None:
            if agent.episode_start != t:
                assert (agent.choice[agent.place], agent.quota[agent.place]) == expected
                restored += 1
            expected = None
        target = int(rng.integers(2))
        agent.observe(state, action, float(rng.random() < 0.5), target)
        state = target
    assert agent.turn.sum() == 699 // 7
    assert restored > 50


def test_a_manual_restart_during_a_probe_discards_the_policy() -> None:
    agent, state = GLRUCRL(3, 2, explore=0.1), 0
    for t in range(1, 50):
        agent.observe(state, agent.act(state), 0.5, t % 3)
        state = t % 3
    agent.act(state)
    assert agent.probed == 50
    assert agent.held_quota > 0
    agent.start_over()
    assert agent.probed == 0
    assert not agent.quota.any()


def test_without_exploration_it_equals_the_agent_without_probes() -> None:
    problem = swapped(1001, 3000)
    plain = sm.simulate(GLRUCRL(2, 2), problem, 3000, seed=1, trajectory=True)
    never = sm.simulate(GLRUCRL(2, 2, explore=1e-15), problem, 3000, seed=1, trajectory=True)
    assert plain.trajectory is not None
    assert never.trajectory is not None
    assert np.array_equal(plain.trajectory.actions, never.trajectory.actions)


@pytest.mark.parametrize(
    "make",
    [lambda: GLRUCRL(4, 2), lambda: GLRUCRL(4, 2, explore=0.07), lambda: RBOCPDUCRL2(4, 2)],
)
def test_it_passes_the_agent_contract_and_continues_after_loading(make: Any, tmp_path: Any) -> None:
    sm.check_agent(make, steps=1500, memory_steps=5000, strict=True)
    problem = sm.problems.random_switching(4, 2, changes=2, horizon=4000, seed=0)
    agent, control = make(), make()
    record = sm.simulate(agent, problem, 1, seed=1)
    for cut in (140, 777, 2100, 4000):
        agent.save(tmp_path / "agent")
        agent = load(tmp_path / "agent")
        record = sm.simulate(agent, problem, cut, resume=record)
    assert record.regret[-1] == sm.simulate(control, problem, 4000, seed=1).regret[-1]


def test_probes_survive_growth() -> None:
    agent = GLRUCRL(2, 2, explore=1.0)
    for state, target in ((0, 1), (1, 0), (0, 1)):
        agent.observe(state, agent.act(state), 0.5, target)
    agent.act(1)
    agent.grow(3, 3)
    assert agent.probed == 0
    assert agent.turn.size == 3
    assert all(agent.act(s) in (0, 1, 2) for s in range(3))


def test_hostile_values_of_probes_are_rejected(tmp_path: Any) -> None:
    for field, bad in (("interval", 0), ("place", 5), ("held_quota", -1), ("held", 9),
                       ("turn", np.zeros(3, int))):  # fmt: skip
        agent = GLRUCRL(2, 2, explore=1.0)
        agent.observe(0, agent.act(0), 0.5, 0)
        agent.act(0)
        agent.probed = agent.t
        setattr(agent, field, bad)
        with pytest.raises(InvalidParameter, match="consistent"):
            agent.save(tmp_path / "agent")


@pytest.mark.parametrize("explore", [-0.1, 1.5, None, "0.1", float("nan")])
def test_an_invalid_exploration_rate_is_rejected(explore: Any) -> None:
    with pytest.raises(InvalidParameter, match="explore"):
        GLRUCRL(2, 2, explore=explore)
