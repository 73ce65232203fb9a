"""States and actions that are added between decisions."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.online.workbench import A, S, bits, bits_of, kill, live, sql, sw_ucrl

import switchmdp as sm
from switchmdp.agents import Agent
from switchmdp.errors import InvalidAction, InvalidParameter, InvalidState
from switchmdp.online import Decisions, events_of, rebuild

AGENTS: dict[str, Callable[[], Agent]] = {
    "sw-ucrl": sw_ucrl,
    "ucrl2": lambda: sm.agents.UCRL2(S, A),
    "ucrl2-r": lambda: sm.agents.UCRL2R(S, A, changes=3),
    "ucrl2-rw": lambda: sm.agents.UCRL2RW(S, A, period=300),
    "oracle": lambda: sm.agents.OracleUCRL2(S, A, change_points=[70]),
    "random": lambda: sm.agents.Random(S, A),
}


@pytest.mark.parametrize("name", AGENTS)
def test_growth_keeps_old_estimates_and_adds_the_new_pairs(name: str, tmp_path: Path) -> None:
    with Decisions(AGENTS[name](), tmp_path, sync=False) as decisions:
        live(decisions, 100)
        learner, open_one = decisions.learner, decisions.decide(1)
        agent: Any = learner.agent
        visits = agent.visits.copy() if hasattr(agent, "visits") else None
        steps, at = learner.last_step.copy(), learner.last_at.copy()
        assert decisions.add_state() == S
        assert decisions.add_action([0, S]) == A
        assert decisions.add_state([A]) == S + 1
        assert decisions.add_action() == A + 1
        assert agent.pairs.at(1) == [0, 1, 2, A + 1]
        assert agent.pairs.at(0) == agent.pairs.at(S) == [0, 1, 2, A, A + 1]
        assert agent.pairs.at(S + 1) == [A, A + 1]
        if visits is not None:
            assert np.array_equal(agent.visits[:S, :A], visits)
            assert agent.visits.sum() == visits.sum()
        for old, new in ((steps, learner.last_step), (at, learner.last_at)):
            assert np.array_equal(new[:S, :A], old)
            assert np.count_nonzero(new) == np.count_nonzero(old)
            assert new.dtype == old.dtype
        assert decisions.feedback(open_one.id, 1.0, S + 1)
        assert decisions.decide(S + 1).action in (A, A + 1)
        with pytest.raises(InvalidAction):
            decisions.decide(S + 1, taken=0)
        with pytest.raises(InvalidState):
            decisions.decide(S + 2)
        live(decisions, 50)
    with Decisions(AGENTS[name](), tmp_path, sync=False) as decisions:
        assert decisions.learner.agent.n_states == S + 2


def test_growth_is_replayed_from_the_log(tmp_path: Path) -> None:
    decisions = Decisions(sw_ucrl(), tmp_path, sync=False)
    for i in range(4):
        live(decisions, 40, i)
        decisions.add_state([0])
        decisions.add_action([S + i])
    live(decisions, 40)
    kill(decisions)
    after = bits(decisions.learner)
    assert after == bits(rebuild(tmp_path))
    with Decisions(None, tmp_path) as decisions:
        assert bits_of(decisions) == after


def test_growth_stores_only_what_changed(tmp_path: Path) -> None:
    """With a hundred more states of a hundred actions each, the size of an event is the same."""
    with Decisions(sm.agents.UCRL2(100, 100), tmp_path, sync=False) as decisions:
        decisions.add_state([0, 3])
        for _ in range(3):
            decisions.add_state()
        decisions.add_action([1])
    stored = sql(tmp_path, "SELECT event, details FROM events")
    assert stored == [
        ("add_state", '{"available":[0,3]}'), *[("add_state", None)] * 3,
        ("add_action", '{"states":[1]}'),
    ]  # fmt: skip


def test_a_fixed_policy_takes_the_first_action_of_a_new_state(tmp_path: Path) -> None:
    with Decisions(sw_ucrl(), tmp_path) as decisions:
        decisions.set_mode("fixed", [2] * S)
        decisions.add_state([1, 2])
        assert decisions.learner.policy == [2] * S + [1]
        assert decisions.decide(S).action == 1


def test_growth_cancels_a_plan(tmp_path: Path) -> None:
    with Decisions(sw_ucrl(), tmp_path) as decisions:
        live(decisions, 40)
        decisions._apply({"event": "plan"})
        assert decisions.learner.planning is not None
        decisions.add_state()
        assert decisions.learner.planning is None
        live(decisions, 40)
    assert bits(rebuild(tmp_path)) == bits(decisions.learner)


def test_an_agent_that_cannot_grow_is_unchanged(tmp_path: Path) -> None:
    problem = sm.problems.random_switching(S, A, changes=1, horizon=100, seed=0)
    with Decisions(sm.agents.Omniscient(problem), tmp_path) as decisions:
        live(decisions, 5)
        before = bits_of(decisions)
        for grow in (decisions.add_state, decisions.add_action):
            with pytest.raises(
                InvalidParameter, match="an agent that supports new states and actions"
            ):
                grow()
        assert bits_of(decisions) == before
    assert not any(record["event"].startswith("add_") for _, record in events_of(tmp_path))


def test_a_window_forgets_correctly_after_growth(tmp_path: Path) -> None:
    """With few states, counts are full arrays; with many, lists. Growth must convert them."""
    rng = np.random.default_rng(0)
    rows = [
        (int(rng.integers(62)), int(rng.integers(2)), float(rng.random()), int(rng.integers(62)))
        for _ in range(3000)
    ]
    with Decisions(sm.agents.SWUCRL(62, 2, window=500), tmp_path, sync=False) as decisions:
        born = sm.agents.SWUCRL(66, 2, window=500)
        for i in range(0, 3000, 100):
            decisions.learn_from(rows[i : i + 100])
            for row in rows[i : i + 100]:
                born.observe(*row)
            if i in (500, 1000, 1500, 2000):
                decisions.add_state()
        grown = decisions.learner.agent
        assert np.array_equal(grown.visits, born.visits)
        assert np.array_equal(grown.reward_estimates, born.reward_estimates)
        for state in range(62):
            for action in range(2):
                mine = grown.transition_counts(state, action)
                assert mine == born.transition_counts(state, action)
