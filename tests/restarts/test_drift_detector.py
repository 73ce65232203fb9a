"""The public drift detector: alarms, their contents, and checked input."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import switchmdp as sm
from switchmdp.errors import InvalidAction, InvalidParameter, InvalidReward, InvalidState
from switchmdp.restarts import Calibrated


def feed(detector: Any, mdp: sm.MDP, rng: np.random.Generator, n: int) -> None:
    """n steps of a random policy."""
    ends, state = np.cumsum(mdp.transitions, axis=-1), 0
    for _ in range(n):
        action = int(rng.integers(mdp.n_actions))
        row = ends[state, action]
        next_state = min(int(np.searchsorted(row, rng.random())), mdp.n_states - 1)
        reward = float(rng.random() < mdp.rewards[state, action])
        detector.update(state, action, reward, next_state)
        state = next_state


def world(rng: np.random.Generator) -> sm.MDP:
    return sm.MDP(rng.dirichlet(np.ones(4), (4, 2)), rng.random((4, 2)))


def test_it_names_the_step_and_the_kind_of_a_change() -> None:
    rng = np.random.default_rng(0)
    first, other = world(rng), world(rng)
    other = sm.MDP(other.transitions, 1.0 - first.rewards)
    detector = sm.DriftDetector(4, 2)
    feed(detector, first, rng, 3000)
    assert detector.alarms == []
    feed(detector, sm.MDP(first.transitions, other.rewards), rng, 1500)
    (alarm, *_) = detector.alarms
    assert abs(alarm.change - 3001) <= 64
    assert 3001 < alarm.step < 3300
    assert len(alarm.rewards) >= 3
    assert alarm.rows == ()
    before = len(detector.alarms)
    feed(detector, sm.MDP(other.transitions, other.rewards), rng, 1500)
    alarm = detector.alarms[before]
    assert abs(alarm.change - 4501) <= 64
    assert len(alarm.rows) >= 3
    assert detector.steps == 6000


def test_it_raises_the_alarms_of_the_component_that_agents_use() -> None:
    rng = np.random.default_rng(1)
    steps: list[tuple[int, int, float, int]] = []

    class Recorder:
        def update(self, *step: Any) -> None:
            steps.append(step)

    for _ in range(2):
        feed(Recorder(), world(rng), rng, 2000)
    detector, rule = sm.DriftDetector(4, 2), Calibrated(0.01)
    rule.allocate(detector.pairs)
    pairs = np.array([s * 2 + a for s, a, _, _ in steps], np.uint32)
    nexts = np.array([x for _, _, _, x in steps], np.uint32)
    rule.watch(pairs, nexts, np.array([r for _, _, r, _ in steps]), len(steps))
    alarms = [alarm for step in steps if (alarm := detector.update(*step)) is not None]
    assert alarms == detector.alarms
    assert alarms[0].change == 1 + rule.steps - rule.keeps
    assert rule.alarmed()


def test_without_a_change_there_is_no_alarm() -> None:
    rng = np.random.default_rng(2)
    detector = sm.DriftDetector(4, 2)
    feed(detector, sm.MDP(np.full((4, 2, 4), 0.25), rng.random((4, 2))), rng, 20_000)
    assert detector.alarms == []


def test_invalid_input_is_rejected_and_changes_nothing() -> None:
    detector = sm.DriftDetector(2, 2, available=[[True, False], [True, True]])
    for step, error in (
        ((2, 0, 0.0, 0), InvalidState), ((0, 1, 0.0, 0), InvalidAction),
        ((0, 0, 1.5, 0), InvalidReward), ((0, 0, np.nan, 0), InvalidReward),
        ((0, 0, 0.5, -1), InvalidState),
    ):  # fmt: skip
        with pytest.raises(error):
            detector.update(*step)
    assert detector.steps == 0
    with pytest.raises(InvalidParameter):
        sm.DriftDetector(2, 2, delta=0.0)
    assert repr(detector) == "DriftDetector(2, 2, delta=0.01, t=0)"


def test_with_one_state_no_row_is_suspected() -> None:
    """Its rows have a single successor, so that only rewards can change."""
    rng, detector = np.random.default_rng(0), sm.DriftDetector(1, 2)
    for t in range(3000):
        detector.update(0, t % 2, float(rng.random() < (0.2 if t < 1500 else 0.8)), 0)
    assert detector.alarms
    assert all(alarm.rewards and not alarm.rows for alarm in detector.alarms)
