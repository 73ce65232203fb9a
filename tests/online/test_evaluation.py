"""Predictions of other agents on logged steps."""

from __future__ import annotations

import copy
import math
from typing import Any

import numpy as np
import pytest

from switchmdp.agents import SWUCRL, UCRL2, UCRL2RW, Episodic, QLearning, Random
from switchmdp.agents.saving import described
from switchmdp.errors import InvalidAction, InvalidParameter, InvalidReward, InvalidState
from switchmdp.memory import Everything
from switchmdp.online import evaluate
from switchmdp.online.evaluation import BLOCK, LastVisit, difference
from switchmdp.online.learner import Step
from switchmdp.plausible import L1Ball
from switchmdp.restarts import Never, Periodic


def drawn(steps: int, seed: int = 0, n_states: int = 3, n_actions: int = 2) -> list[Step]:
    """Steps of a problem that changes in the middle."""
    rng = np.random.default_rng(seed)
    rows, state = [], 0
    for i in range(steps):
        action = int(rng.integers(n_actions))
        reward = float(rng.random() < (0.9 if (state + action + 2 * i // steps) % 2 else 0.1))
        after = int(rng.integers(n_states))
        rows.append((state, action, reward, after))
        state = after
    return rows


def predictions(
    rows: list[Step], window: int, n_states: int
) -> tuple[list[float], list[float], list[int]]:
    """The predictions of a window, computed directly from their definition."""
    errors, losses, seen = [], [], []
    for i, (state, action, reward, after) in enumerate(rows):
        past = [row for row in rows[max(0, i - window) : i] if row[:2] == (state, action)]
        so_far = sum(row[2] for row in rows[:i]) / max(1, i)
        expected = sum(row[2] for row in past) / len(past) if past else so_far
        led = sum(row[3] == after for row in past)
        errors.append((reward - expected) ** 2)
        losses.append(-math.log((led + 1 / n_states) / (len(past) + 1)))
        seen.append(len(past))
    return errors, losses, seen


@pytest.mark.parametrize("window", [1, 7, 50, 1000])
def test_window_predictions_match_their_definition(window: int) -> None:
    rows = drawn(300)
    found = evaluate(rows, SWUCRL(3, 2, window=window))
    errors, losses, seen = predictions(rows, window, 3)
    assert found.steps == 300
    assert found.squared_errors == pytest.approx(errors)
    assert found.log_losses == pytest.approx(losses)
    assert found.reward_error == pytest.approx(np.mean(errors))
    assert found.move_loss == pytest.approx(np.mean(losses))
    assert found.unseen == seen.count(0) / 300


def test_predictions_are_correct_with_many_states() -> None:
    """With many states, successors are stored in slots, which are searched."""
    rows = drawn(400, n_states=300)
    found = evaluate(rows, SWUCRL(300, 2, window=100), plan=False)
    errors, losses, _ = predictions(rows, 100, 300)
    assert found.squared_errors == pytest.approx(errors)
    assert found.log_losses == pytest.approx(losses)


def test_a_window_longer_than_the_log_forgets_nothing() -> None:
    rows = drawn(300)
    long, ever = evaluate(rows, SWUCRL(3, 2, window=300)), evaluate(rows, UCRL2(3, 2))
    assert np.array_equal(long.squared_errors, ever.squared_errors)
    assert np.array_equal(long.log_losses, ever.log_losses)


def test_after_a_restart_predictions_use_newer_steps_only() -> None:
    rows = drawn(300)
    found = evaluate(rows, UCRL2RW(3, 2, period=100))
    fresh = [evaluate(rows[i : i + 100], UCRL2(3, 2)) for i in (0, 100, 200)]
    assert np.array_equal(found.log_losses, np.concatenate([part.log_losses for part in fresh]))
    assert np.array_equal(found.visits, fresh[-1].visits)


def test_custom_component_combinations_can_be_evaluated() -> None:
    rows = drawn(300)
    own = Episodic(3, 2, memory=Everything(), plausible=L1Ball(0.05), restarts=Periodic(100))
    named = UCRL2RW(3, 2, period=100)
    assert evaluate(rows, own).reward_error == evaluate(rows, named).reward_error


def test_the_last_visit_baseline_predicts_the_previous_outcome() -> None:
    rows: list[Step] = [(0, 0, 1.0, 1), (1, 0, 0.0, 0), (0, 0, 0.5, 1), (1, 0, 1.0, 1)]
    agent = Episodic(2, 1, memory=LastVisit(), plausible=L1Ball(0.05), restarts=Never())
    found = evaluate(rows, agent, plan=False)
    assert found.squared_errors.tolist() == [1.0, 1.0, 0.25, 1.0]
    again, new = -math.log(1.5 / 2), -math.log(0.5 / 2)
    assert found.log_losses == pytest.approx([math.log(2), math.log(2), again, new])
    assert found.visits.tolist() == [[1], [1]]
    assert found.reward_estimates.tolist() == [[0.5], [1.0]]


def test_the_agent_that_made_the_log_agrees_with_all_actions() -> None:
    agent = SWUCRL(3, 2, window=200)
    rng = np.random.default_rng(1)
    rows, state = [], 0
    for _ in range(500):
        action = agent.act(state)
        reward, after = float(rng.random() < 0.2 + 0.3 * action), int(rng.integers(3))
        agent.observe(state, action, reward, after)
        rows.append((state, action, reward, after))
        state = after
    found = evaluate(rows, SWUCRL(3, 2, window=200))
    assert found.agreement == 1.0
    assert found.episodes == agent.episode + 1  # the last is the plan for now
    assert np.array_equal(found.visits, agent.visits)
    assert np.array_equal(found.reward_estimates, agent.reward_estimates)
    assert evaluate(rows, SWUCRL(3, 2, window=20)).agreement < 1.0


def test_the_final_policy_uses_all_steps() -> None:
    """Both actions stay in their state; only the second one is rewarded."""
    rows: list[Step] = [(i % 2, a, float(a), i % 2) for i in range(4000) for a in (0, 1)]
    found = evaluate(rows, SWUCRL(2, 2, window=8000))
    assert found.policy.tolist() == [1, 1]
    assert found.reward_estimates.tolist() == [[0.0, 1.0], [0.0, 1.0]]


def test_without_a_plan_there_is_no_agreement() -> None:
    found = evaluate(drawn(50), SWUCRL(3, 2, window=20), plan=False)
    assert math.isnan(found.agreement)
    assert found.episodes == 0


def test_evaluate_does_not_change_the_given_agent() -> None:
    agent = SWUCRL(3, 2, window=20)
    for row in drawn(30):
        agent.observe(*row)
    before, arrays = copy.deepcopy(described(agent))
    evaluate(drawn(100), agent)
    fields, now = described(agent)
    assert fields == before
    assert all(np.array_equal(now[name], arrays[name]) for name in arrays)


def test_calibration_is_the_gap_between_predictions_and_rewards() -> None:
    """The predictions are right on average, so there is no gap, although each is off by 1/2."""
    coin = np.random.default_rng(0).random(10_000) < 0.45
    assert evaluate([(0, 0, float(r), 0) for r in coin], UCRL2(1, 1)).calibration < 0.01
    turned: list[Step] = [(0, 0, float(i >= 5000), 0) for i in range(10_000)]
    assert evaluate(turned, UCRL2(1, 1)).calibration > 0.3
    assert evaluate(turned, SWUCRL(1, 1, window=10)).calibration < 0.01


def test_rewards_outside_the_interval_are_not_covered() -> None:
    turned: list[Step] = [(0, 0, float(i >= 50 * BLOCK), 0) for i in range(100 * BLOCK)]
    ever, window = evaluate(turned, UCRL2(1, 1)), evaluate(turned, SWUCRL(1, 1, window=50))
    assert ever.covered < 0.8
    assert window.covered == 0.99  # all but the block that begins with the change
    assert math.isnan(evaluate(turned[: BLOCK - 1], UCRL2(1, 1)).covered)


def test_difference_returns_the_mean_and_its_standard_error() -> None:
    rng = np.random.default_rng(2)
    noise = rng.random(30_000)
    gap, error = difference(noise + 0.5, noise)
    assert gap == pytest.approx(0.5)
    assert error < 1e-12
    gap, error = difference(rng.random(30_000), rng.random(30_000))
    assert error == pytest.approx(math.sqrt(2 / 12 / 30_000), rel=0.5)
    assert math.isnan(difference(np.ones(1), np.ones(1))[1])


def test_evaluate_reports_progress() -> None:
    told: list[int] = []
    evaluate(drawn(5), SWUCRL(3, 2, window=20), tell=told.append)
    assert told == [1, 2, 3, 4, 5]


@pytest.mark.parametrize(
    ("step", "error"),
    [
        ((3, 0, 0.5, 0), InvalidState),
        ((0, 2, 0.5, 0), InvalidAction),
        ((0, 0, 1.5, 0), InvalidReward),
        ((0, 0, 0.5, -1), InvalidState),
    ],
)
def test_a_step_that_does_not_fit_the_agent_is_rejected(step: Any, error: type) -> None:
    with pytest.raises(error):
        evaluate([*drawn(3), step], SWUCRL(3, 2, window=20))


def test_without_episodes_only_the_agreement_is_measured() -> None:
    found = evaluate(drawn(400), Random(3, 2))
    assert 0.3 < found.agreement < 0.7
    assert (found.policy == -1).all()
    assert (found.visits == 0).all()
    assert np.isnan(found.reward_estimates).all()
    numbers = (found.reward_error, found.move_loss, found.calibration, found.covered, found.unseen)
    assert all(math.isnan(number) for number in numbers)
    assert np.isnan(found.squared_errors).all()
    assert len(found.log_losses) == 400
    learning = evaluate(drawn(400), QLearning(3, 2))
    assert ((learning.policy >= 0) & (learning.policy < 2)).all()
    assert learning.episodes == 0


def test_the_last_visit_baseline_forgets_at_restarts() -> None:
    """A detector makes it forget some pairs, a schedule all of them."""
    rows: list[Step] = [(0, 0, 1.0, 1), (1, 0, 0.0, 0)] * 4
    agent = Episodic(2, 1, memory=LastVisit(), plausible=L1Ball(0.05), restarts=Periodic(4))
    found = evaluate(rows, agent, plan=False)
    assert found.unseen == 0.5  # both pairs, at the beginning and after the restart
    assert found.visits.tolist() == [[1], [1]]
    memory = LastVisit()
    memory.allocate(agent.pairs)
    steps = np.array([0, 1], np.uint32), np.array([1, 0], np.uint32), np.array([1.0, 0.0])
    memory.absorb(*steps, 2)
    assert memory.keep(5, np.array([True, False])) == 0
    assert memory.counts.visits.tolist() == [0, 1]


def test_evaluate_requires_an_agent_and_steps() -> None:
    with pytest.raises(InvalidParameter, match="agent must be an Agent"):
        evaluate(drawn(3), object())
    with pytest.raises(InvalidParameter, match="history must be at least one step"):
        evaluate([], SWUCRL(3, 2, window=20))
