"""Discounted counts against the explicit sum, and together with plausible sets and rules."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import switchmdp as sm
from switchmdp.agents import Episodic, FadingPSRL, load
from switchmdp.compiled import validate
from switchmdp.errors import InvalidParameter
from switchmdp.mdp import Pairs
from switchmdp.memory import Discounted
from switchmdp.plausible import L1Ball
from switchmdp.restarts import BOCPD


def log_of(steps: int, n_pairs: int, n_states: int) -> Any:
    rng = np.random.default_rng(n_states)
    pairs = rng.integers(0, n_pairs, steps).astype(np.uint32)
    return pairs, rng.integers(0, n_states, steps).astype(np.uint32), rng.random(steps)


def filled(discount: float, n_states: int, steps: int, piece: int = 10**9) -> Discounted:
    memory = Discounted(discount)
    memory.allocate(Pairs.of(n_states, 1))
    pairs, nexts, rewards = log_of(steps, n_states, n_states)
    for at in range(0, steps, piece):
        part = slice(at, min(steps, at + piece))
        memory.absorb(pairs[part], nexts[part], rewards[part], part.stop - at)
    return memory


def table(memory: Discounted, n_states: int) -> Any:
    counts, weights = memory.counts, np.zeros((n_states, n_states))
    for pair in range(n_states):
        block = slice(counts.offset[pair], counts.offset[pair] + counts.used[pair])
        np.add.at(weights[pair], counts.target[block], counts.count[block])
    return weights


@pytest.mark.parametrize("n_states", [3, 70])
@pytest.mark.parametrize("discount", [0.9, 0.99, 0.9995])
def test_a_weight_follows_the_age_of_its_step_up_to_one_part_in_32(
    discount: float, n_states: int
) -> None:
    pairs, nexts, rewards = log_of(4000, n_states, n_states)
    memory, block = filled(discount, n_states, 4000), Discounted(discount).block
    passed = block * (4000 // block - np.arange(4000) // block)  # multiples of the block since
    for age, close in ((passed, 1e-4), (4000 - np.arange(4000), 1 / 32)):
        expected = np.zeros((n_states, n_states))
        np.add.at(expected, (pairs, nexts), discount**age)
        np.testing.assert_allclose(table(memory, n_states), expected, rtol=close, atol=2e-4)
        np.testing.assert_allclose(memory.counts.mass, expected.sum(axis=1), rtol=close, atol=1e-3)
        earned = np.bincount(pairs, discount**age * rewards, n_states)
        for pair in np.nonzero(memory.counts.visits)[0].tolist():
            mean = earned[pair] / expected[pair].sum()
            assert memory.counts.mean(pair) == pytest.approx(mean, abs=0.02)


def test_discounts_up_to_31_32_decay_at_every_step() -> None:
    memory = Discounted(0.5)
    memory.allocate(Pairs.of(2, 1))
    for next_state, reward in ((0, 1.0), (1, 0.0), (1, 1.0)):
        step = (np.zeros(1, np.uint32), np.full(1, next_state, np.uint32), np.full(1, reward), 1)
        memory.absorb(*step)
    assert memory.counts.mass.tolist() == [0.875, 0.0]
    assert memory.counts.visits.tolist() == [0.0, 0.0]  # less than one
    memory.counts.add(np.zeros(1, np.uint32), np.ones(1, np.uint32), np.ones(1), 0, 1)
    assert memory.counts.visits.tolist() == [1.875, 0.0]
    assert table(memory, 2)[0].tolist() == [0.125, 1.75]
    assert memory.counts.mean(0) == pytest.approx(1.625 / 1.875)


@pytest.mark.parametrize("n_states", [3, 70])
def test_the_result_does_not_depend_on_when_the_log_is_absorbed(n_states: int) -> None:
    states = []
    for piece in (1, 7, 500, 3000):
        memory = filled(0.995, n_states, 3000, piece)
        counts = memory.counts
        states.append([memory.age, counts.visits.tobytes(), counts.rewards.tobytes(),
                       table(memory, n_states).tobytes()])  # fmt: skip
    assert states[0] == states[1] == states[2] == states[3]


def test_visits_equal_the_sum_of_successors_and_tiny_weights_are_dropped() -> None:
    memory = filled(0.99, 70, 20_000)  # so many that blocks move and close ranks
    counts = memory.counts
    np.testing.assert_allclose(table(memory, 70).sum(axis=1), counts.mass, rtol=1e-9)
    assert (counts.count[counts.count > 0] >= 2.0**-20).all()
    assert np.array_equal(counts.visits, np.where(counts.mass >= 1.0, counts.mass, 0.0))
    assert (counts.visits == 0.0).any()
    quiet = (np.full(1000, 3, np.uint32), np.full(1000, 3, np.uint32), np.ones(1000), 1000)
    for _ in range(20):
        memory.absorb(*quiet)
    assert np.nonzero(counts.mass)[0].tolist() == [3]
    assert counts.visits[3] == pytest.approx(100.0, rel=0.04)
    assert counts.mean(3) == pytest.approx(1.0, abs=1e-12)


AGENTS_WITH_DISCOUNTED_COUNTS: dict[str, Callable[[], Any]] = {
    "plausible set, restarts": lambda: Episodic(
        4, 2, memory=Discounted(0.99), plausible=L1Ball(0.1), restarts=BOCPD(0.05)
    ),
    "posterior": lambda: FadingPSRL(4, 2, steps=100),
}


@pytest.mark.parametrize(
    "make", AGENTS_WITH_DISCOUNTED_COUNTS.values(), ids=AGENTS_WITH_DISCOUNTED_COUNTS
)
def test_plausible_sets_and_posteriors_work_with_discounted_counts(
    make: Callable[[], Any], tmp_path: Path
) -> None:
    sm.check_agent(make, steps=900, memory_steps=4000, strict=True)
    problem = sm.problems.random_switching(4, 2, changes=1, horizon=2000, seed=0)
    agent, control = make(), make()
    record = sm.simulate(agent, problem, 777, seed=1)
    agent.save(tmp_path / "agent")
    record = sm.simulate(load(tmp_path / "agent"), problem, 2000, resume=record)
    assert record.regret[-1] == sm.simulate(control, problem, 2000, seed=1).regret[-1]


def test_old_data_fade_after_a_change() -> None:
    """Two states swap their rewards: discounted estimates follow, undiscounted ones do not."""
    rows = np.full((2, 2, 2), 0.5)
    first, second = np.array([[0.9, 0.1], [0.9, 0.1]]), np.array([[0.1, 0.9], [0.1, 0.9]])
    problem = sm.SwitchingMDP([sm.MDP(rows, first), sm.MDP(rows, second)], [5001])
    agent = FadingPSRL(2, 2, steps=100)
    sm.simulate(agent, problem, 10_000, seed=0)
    assert np.abs(agent.reward_estimates - second)[agent.visits > 20].max() < 0.25
    assert agent.visits.sum() == pytest.approx(100.0, rel=0.04)


def test_growth_keeps_the_weights() -> None:
    memory = filled(0.9, 3, 100)
    before = table(memory, 3)
    memory.grow(Pairs.of(5, 1), np.arange(3))
    assert np.array_equal(table(memory, 5)[:3, :3], before)
    assert memory.counts.visits.size == 5


@pytest.mark.parametrize("discount", [0.0, 1.0, -0.5, 2, None, "0.9"])
def test_a_bad_discount_is_rejected(discount: Any) -> None:
    with pytest.raises(InvalidParameter, match="discount"):
        Discounted(discount)


@pytest.mark.parametrize("n_states", [3, 70])
def test_hostile_values_are_rejected(n_states: int) -> None:
    fresh = filled(0.9, n_states, 100).counts
    validate(fresh, states=n_states, pairs=n_states)
    for field, bad in (
        ("visits", fresh.visits[:-1]), ("used", fresh.used + n_states), ("filled", 10**6),
        ("offset", fresh.offset - 1), ("offset", fresh.offset + 10**6), ("count", fresh.count - 2),
        ("target", fresh.target + np.uint32(n_states)), ("rewards", fresh.rewards * np.nan),
    ):  # fmt: skip
        counts = filled(0.9, n_states, 100).counts
        setattr(counts, field, bad)
        with pytest.raises(ValueError, match=rf"Weights\.{field}"):
            validate(counts, states=n_states, pairs=n_states)
    memory = filled(0.9, n_states, 100)
    memory.age = memory.block
    with pytest.raises(ValueError, match=r"Discounted\.age"):
        validate(memory, states=n_states, pairs=n_states)
