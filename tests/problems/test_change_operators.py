"""Each change operator does what its name says, and nothing else."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import switchmdp as sm
from switchmdp import problems
from switchmdp.errors import InvalidParameter, InvalidProblem
from switchmdp.problems.changes import exchange, step_within


def before_and_after(how: Any, base: sm.MDP | None = None, seed: int = 0) -> Any:
    base = problems.random_mdp(6, 3, seed=seed) if base is None else base
    problem = problems.changing(base, how, changes=1, horizon=10, seed=seed)
    return tuple(problem.configurations())


def test_new_rewards_keep_all_transitions() -> None:
    a, b = before_and_after(problems.new_rewards)
    assert np.array_equal(a.transitions, b.transitions)
    assert (a.rewards != b.rewards).all()


def test_new_transitions_keep_all_rewards() -> None:
    a, b = before_and_after(problems.new_transitions)
    assert np.array_equal(a.rewards, b.rewards)
    assert (a.transitions != b.transitions).any(axis=2).all()


def test_everything_changes_transitions_and_rewards() -> None:
    a, b = before_and_after(problems.everything)
    assert (a.rewards != b.rewards).all()
    assert (a.transitions != b.transitions).any(axis=2).all()


def test_new_rows_have_as_many_successors_as_the_old_ones() -> None:
    a, b = before_and_after(problems.everything, problems.garnet_mdp(12, 3, 4, seed=1))
    assert ((a.transitions > 0).sum(axis=2) == 4).all()
    assert ((b.transitions > 0).sum(axis=2) == 4).all()
    assert ((a.transitions > 0) != (b.transitions > 0)).any(axis=2).mean() > 0.9


def test_new_rows_are_uniform_on_the_simplex() -> None:
    rng = np.random.default_rng(0)
    base = problems.random_mdp(3, 2, seed=0)
    drawn = [row for _ in range(1000) for _, _, row, _ in problems.new_transitions(base, rng)]
    first = np.array([row[0] for row in drawn])
    assert first.mean() == pytest.approx(1 / 3, abs=0.01)
    assert first.var() == pytest.approx(1 / 18, abs=0.003)


def test_one_pair_changes_a_uniformly_drawn_pair() -> None:
    changed = set()
    for seed in range(60):
        base = problems.random_mdp(2, 3, seed=0)
        problem = problems.changing(base, problems.one_pair, changes=1, horizon=10, seed=seed)
        a, b = problem.configurations()
        different = (a.rewards != b.rewards) & (a.transitions != b.transitions).any(axis=2)
        assert different.sum() == (a.rewards != b.rewards).sum() == 1
        changed.add(int(np.flatnonzero(different)[0]))
    assert changed == set(range(6))


def test_actions_are_permuted_in_the_same_way_in_all_states() -> None:
    for seed in range(10):
        a, b = before_and_after(problems.permuted_actions, seed=seed)
        meaning = [int(np.flatnonzero(a.rewards[0] == mean)[0]) for mean in b.rewards[0]]
        assert sorted(meaning) == [0, 1, 2]
        assert meaning != [0, 1, 2]
        assert np.array_equal(b.rewards, a.rewards[:, meaning])
        assert b.transitions == pytest.approx(a.transitions[:, meaning], abs=1e-15)


def test_a_mirrored_mdp_reverses_states_and_actions() -> None:
    a, b = before_and_after(problems.mirrored)
    assert np.array_equal(b.rewards, a.rewards[::-1, ::-1])
    assert b.transitions == pytest.approx(a.transitions[::-1, ::-1, ::-1], abs=1e-15)
    assert sm.optimal_gain(a).gain == pytest.approx(sm.optimal_gain(b).gain, abs=1e-9)


def test_small_steps_are_small_and_keep_the_successors() -> None:
    a, b = before_and_after(problems.SmallSteps(0.001), problems.garnet_mdp(10, 2, 3, seed=0))
    assert np.array_equal(a.transitions > 0, b.transitions > 0)
    for moved in (np.abs(a.rewards - b.rewards), np.abs(a.transitions - b.transitions)):
        assert 0.0 < moved.max() < 0.006


def test_the_random_walk_keeps_the_uniform_distribution() -> None:
    """Dirichlet(1) in five states: a coordinate has mean 1/5, variance 2/75; E Σp² is 1/3."""
    rng = np.random.default_rng(0)
    rows, means = rng.dirichlet(np.ones(5), 20_000), rng.random(20_000)
    for _ in range(30):
        rows, means = exchange(rows, 0.3, rng), step_within(means, 0.3, rng)
    assert rows.min() >= 0.0
    assert np.abs(rows.sum(axis=1) - 1.0).max() < 1e-12
    assert rows[:, 0].mean() == pytest.approx(1 / 5, abs=0.004)
    assert rows[:, 0].var() == pytest.approx(2 / 75, abs=0.001)
    assert (rows**2).sum(axis=1).mean() == pytest.approx(1 / 3, abs=0.004)
    assert np.quantile(means, [0.1, 0.5, 0.9]) == pytest.approx([0.1, 0.5, 0.9], abs=0.02)


def test_the_random_walk_forgets_its_start() -> None:
    """From a corner and from the middle the walk converges to the uniform distribution."""
    rng = np.random.default_rng(1)
    rows = np.tile([1.0, 0.0, 0.0], (20_000, 1))
    for _ in range(200):
        rows = exchange(rows, 0.3, rng)
    assert rows[:, 0].mean() == pytest.approx(1 / 3, abs=0.01)
    assert rows[:, 0].var() == pytest.approx(1 / 18, abs=0.002)


def test_a_row_with_a_single_successor_does_not_change() -> None:
    assert exchange(np.array([[1.0], [1.0]]), 0.5, np.random.default_rng(0)).tolist() == [[1], [1]]
    zeros = exchange(np.array([[0.0, 0.0, 1.0, 0.0]]), 1.0, np.random.default_rng(3))
    assert zeros.sum() == pytest.approx(1.0)
    assert zeros.min() >= 0.0


@pytest.mark.parametrize("size", [-0.1, 1.1, "0.1", None, True, float("nan")])
def test_the_size_of_a_step_is_checked(size: Any) -> None:
    with pytest.raises(InvalidParameter, match="size"):
        problems.SmallSteps(size)


def test_a_single_action_cannot_be_permuted() -> None:
    with pytest.raises(InvalidProblem, match="a single action"):
        before_and_after(problems.permuted_actions, problems.random_mdp(3, 1))
