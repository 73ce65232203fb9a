"""Agents that know the change points, and posterior sampling with fading weights or a detector."""

from __future__ import annotations

import pytest

import switchmdp as sm
from switchmdp.agents import (
    GLRPSRL,
    FadingPSRL,
    OraclePairsPSRL,
)
from switchmdp.errors import InvalidParameter

pytestmark = pytest.mark.xdist_group("Posterior")

PROBLEM = sm.problems.random_switching(4, 2, changes=1, horizon=6000, seed=1, change_points=[3001])


def test_known_pairs_forget_only_changed_pairs() -> None:
    agent = OraclePairsPSRL(4, 2, change_points=[3001], changed_pairs=[[1, 2, 3, 0, 0, 0, 0, 0]])
    first = sm.simulate(agent, PROBLEM, 2999, seed=0)
    rewarded, visits = agent.memory.counts.rewarded.copy(), agent.memory.counts.visits.copy()
    assert rewarded.min() > 0
    sm.simulate(agent, PROBLEM, 3001, resume=first)
    left = agent.memory.counts
    added = 2  # steps in between
    assert left.rewarded[:2].sum() <= added
    assert left.visits[[0, 2]].sum() <= added
    assert (left.rewarded[2:] >= rewarded[2:]).all()
    assert (left.visits[[1, 3, 4, 5, 6, 7]] >= visits[[1, 3, 4, 5, 6, 7]]).all()


def test_known_pairs_need_a_code_for_each_change_point_and_pair() -> None:
    for bad in ([[1, 1]], [[9] * 8], [1] * 8, [[0.5] * 8], "all"):
        with pytest.raises(InvalidParameter, match="changed_pairs"):
            OraclePairsPSRL(4, 2, change_points=[3001], changed_pairs=bad)


def test_fading_psrl_remembers_about_the_requested_number_of_steps() -> None:
    agent = FadingPSRL(4, 2, steps=400)
    sm.simulate(agent, PROBLEM, 6000, seed=0)
    assert agent.memory.discount == 1 - 1 / 400
    assert agent.visits.sum() == pytest.approx(400, rel=0.1)


def test_glr_psrl_restarts_after_a_change_and_not_before() -> None:
    for seed in range(3):
        agent = GLRPSRL(4, 2)
        record = sm.simulate(agent, PROBLEM, 6000, seed=seed, episodes=True)
        assert record.episodes is not None
        restarts = record.episodes.restarts.tolist()
        assert len(restarts) == 1
        assert 3001 < restarts[0] < 3400
