"""Episodic agents: restarts, full logs and overridden methods."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import switchmdp as sm
from switchmdp.agents import DiminishingExploration, DirectedProbes, Episodic, Squares
from switchmdp.compiled import compiled
from switchmdp.errors import InvalidParameter
from switchmdp.memory import Discounted, Window
from switchmdp.plausible import L1Ball
from switchmdp.restarts import Cubic, Never


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("restart", [2, 500, 1234])
def test_a_restarted_agent_acts_like_a_new_one(restart: int, seed: int) -> None:
    """After a manual restart it equals a new agent: no counts, and t starts at 1."""
    mdp = sm.problems.random_mdp(3, 2, seed=seed)
    old = sm.agents.OracleUCRL2(3, 2, change_points=[restart], delta=0.3)
    new = sm.agents.UCRL2(3, 2, delta=0.3)
    rng = np.random.default_rng(seed)
    p, r, state = mdp.transitions, mdp.rewards, 0
    for t in range(1, 4000):
        action = old.act(state)
        if t == restart:
            assert old.visits.sum() == 0
        if t >= restart:
            assert new.act(state) == action
            assert new.gain == old.gain
        step = (state, action, float(rng.random() < r[state, action]),
                int(rng.choice(3, p=p[state, action])))  # fmt: skip
        old.observe(*step)
        if t >= restart:
            new.observe(*step)
        state = step[3]


@pytest.mark.parametrize("interpreted", [False, True])
def test_an_episode_longer_than_the_log_loses_no_steps(interpreted: bool) -> None:
    mdp = sm.problems.random_mdp(2, 1, seed=0)
    ucrl2, windowed = sm.agents.UCRL2(2, 1), sm.agents.SWUCRL(2, 1, window=10_000)
    for agent in (ucrl2, windowed):
        record = sm.simulate(agent, mdp, 30_000, episodes=True, interpreted=interpreted)
        assert record.episodes is not None
        assert record.episodes.length.max() > 2048
    assert ucrl2.visits.sum() == 30_000
    assert windowed.visits.sum() == 10_000


@compiled
class Contrary(sm.agents.SWUCRL):
    """Plans like SW-UCRL, but takes another action."""

    def act(self, state: int) -> int:
        self.prepare(state)
        return 1


def test_overridden_methods_are_overridden_in_machine_code() -> None:
    problem = sm.problems.random_switching(3, 2, changes=1, horizon=500, seed=0)
    for interpreted in (False, True):
        agent = Contrary(3, 2, window=50)
        record = sm.simulate(agent, problem, 500, trajectory=True, interpreted=interpreted)
        assert record.trajectory is not None
        assert (record.trajectory.actions == 1).all()


def test_very_late_restart_times_do_not_overflow() -> None:
    rule = Cubic(10**5)
    rule.i = 3_000_000
    assert rule.after(1) == -(-(3_000_000**3) // 10**10)


def test_exploration_checks_the_components_that_it_needs() -> None:
    parts: dict[str, Any] = {"plausible": L1Ball(0.1), "restarts": Never()}
    with pytest.raises(InvalidParameter, match="memory must be a memory that counts whole visits"):
        Episodic(2, 2, memory=Discounted(0.99), exploration=DirectedProbes(), **parts)
    for episodes in (None, Squares(20.0)):
        parts = {"plausible": L1Ball(0.1), "restarts": Never(), "episodes": episodes}
        with pytest.raises(InvalidParameter, match=r"episodes must be Squares\(10\)"):
            Episodic(2, 2, memory=Window(9), exploration=DiminishingExploration(10), **parts)
