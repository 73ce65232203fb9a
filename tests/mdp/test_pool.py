"""Patches are equivalent to whole configurations, take little memory, and are validated."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.typing import NDArray

from switchmdp.errors import InvalidMDP, InvalidProblem
from switchmdp.mdp import MDP, SwitchingMDP
from switchmdp.planning.hardness import variations

SWAP = MDP([[[0.0, 1.0]], [[1.0, 0.0]]], [[1.0], [0.0]])
HUGE = 10**400


def random_row(rng: np.random.Generator, n_states: int, *, full: bool = False) -> Any:
    row = rng.random(n_states) * (full or rng.random(n_states) < 0.6)
    row[rng.integers(n_states)] += 0.5
    return row / row.sum()


def as_some_form(row: NDArray[np.float64], form: int) -> Any:
    listed = [(int(k), float(row[k])) for k in np.nonzero(row)[0]]
    return [row, row.tolist(), dict(listed), listed[::-1], np.array(listed)][form]


def both_ways(seed: int, n_states: int, changes: int = 12) -> tuple[SwitchingMDP, SwitchingMDP]:
    """Random changes, as patches and as the configurations that they lead to."""
    rng = np.random.default_rng(seed)
    mask = rng.random((n_states, 3)) < 0.7
    mask[:, 0] = True
    rows = rng.dirichlet(np.ones(n_states), (n_states, 3))
    means = rng.random((n_states, 3))
    configurations, patches = [MDP(rows, means, available=mask)], []
    # The ring of actions 0 is never cut, so that every configuration is connected.
    free = [(s, a) for s, a in np.argwhere(mask).tolist() if a > 0]
    for _ in range(changes):
        patch: list[Any] = []
        for k in rng.permutation(len(free))[: rng.integers(0, 4)]:
            s, a = free[k]
            row, mean = random_row(rng, n_states), float(rng.random())
            kind = rng.integers(3)
            patch.append(
                (s, a, None if kind == 1 else as_some_form(row, int(rng.integers(5))),
                 None if kind == 2 else mean)
            )  # fmt: skip
            rows[s, a] = rows[s, a] if kind == 1 else row
            means[s, a] = means[s, a] if kind == 2 else mean
        patches.append(patch)
        configurations.append(MDP(rows, means, available=mask))
    points = sorted(rng.choice(np.arange(2, 100), changes, replace=False).tolist())
    by_patches = SwitchingMDP.from_patches(configurations[0], points, patches)
    return by_patches, SwitchingMDP(configurations, points)


def assert_same_problem(a: SwitchingMDP, b: SwitchingMDP) -> None:
    assert np.array_equal(a.change_points, b.change_points)
    assert np.array_equal(a.patches.offsets, b.patches.offsets)
    for t in [1, *a.change_points.tolist()]:
        assert np.array_equal(a.at(t).transitions, b.at(t).transitions)
        assert np.array_equal(a.at(t).rewards, b.at(t).rewards, equal_nan=True)


@pytest.mark.parametrize("seed", range(12))
def test_patches_equal_whole_configurations(seed: int) -> None:
    assert_same_problem(*both_ways(seed, n_states=2 + seed % 6))


@pytest.mark.parametrize("n_states", [8, 13, 40])
def test_patches_of_many_states_equal_whole_configurations_bit_for_bit(n_states: int) -> None:
    assert_same_problem(*both_ways(n_states, n_states))


def test_recurring_rows_are_stored_once() -> None:
    rows = [{0: 0.5, 1: 0.5}, {1: 1.0}]
    patches = [[(0, 0, rows[i % 2], [0.25, 1.0][i % 2])] for i in range(40)]
    problem = SwitchingMDP.from_patches(SWAP, range(2, 42), patches)
    assert len(problem.model.mean) == 3
    assert len(problem.model.successors) == 4


def test_rows_that_differ_in_their_mean_share_their_successors() -> None:
    patches = [[(0, 0, None, i / 100)] for i in range(50)]
    problem = SwitchingMDP.from_patches(SWAP, range(2, 52), patches)
    assert len(problem.model.mean) == 52
    assert len(problem.model.successors) == 2


def test_a_patch_with_the_current_row_changes_nothing() -> None:
    problem = SwitchingMDP.from_patches(SWAP, [5], [[(0, 0, {1: 1.0}, 1.0)]])
    assert len(problem.patches.pair) == 0


def test_the_last_of_two_patches_to_one_pair_counts_and_only_the_net_change_is_measured() -> None:
    patch = [(0, 0, None, 0.0), (0, 0, None, 0.75)]
    problem = SwitchingMDP.from_patches(SWAP, [5], [patch])
    assert problem.at(5).rewards[0, 0] == 0.75
    assert variations(problem) == (0.25, 0.0)


def test_patches_do_not_alias_what_they_were_given() -> None:
    row = np.array([0.5, 0.5])
    problem = SwitchingMDP.from_patches(SWAP, [5], [[(0, 0, row, None)]])
    row[...] = 9.0
    assert problem.at(5).transitions[0, 0].tolist() == [0.5, 0.5]


def test_the_problem_does_not_change_with_the_mdp_that_it_was_made_of() -> None:
    base = MDP([[[0.0, 1.0]], [[1.0, 0.0]]], [[1.0], [0.0]])
    problem = SwitchingMDP([base, SWAP], [5])
    base.model.mean[...] = 0.5
    base.model.successors[...] = 0
    assert problem.at(1).rewards.tolist() == [[1.0], [0.0]]
    assert problem.at(1).transitions.tolist() == [[[0.0, 1.0]], [[1.0, 0.0]]]


@pytest.fixture(scope="module")
def hundred_thousand() -> tuple[SwitchingMDP, NDArray[np.float64], NDArray[np.float64]]:
    """100 000 changes of two rows each: change i alters actions i and i + 7 of 15 pairs."""
    rng = np.random.default_rng(0)
    n = 100_000
    rows, means = rng.dirichlet(np.ones(5), (n, 2)), rng.random((n, 2))
    base = MDP(rng.dirichlet(np.ones(5), (5, 3)), rng.random((5, 3)))
    patches = (
        [(*divmod((i + 7 * j) % 15, 3), rows[i, j], float(means[i, j])) for j in range(2)]
        for i in range(n)
    )
    return SwitchingMDP.from_patches(base, range(2, n + 2), patches), rows, means


def test_a_hundred_thousand_changes_of_two_rows_take_megabytes(hundred_thousand: Any) -> None:
    problem = hundred_thousand[0]
    arrays = [*problem.model, *problem.patches, problem.change_points, problem.pairs.actions]
    assert len(problem.model.mean) == 200_015
    assert sum(array.nbytes for array in arrays) < 60e6


def test_the_right_rows_are_active_among_a_hundred_thousand_changes(hundred_thousand: Any) -> None:
    problem, rows, means = hundred_thousand
    for i in [0, 1, 777, 50_000, 99_999]:
        mdp = problem.at(i + 2)
        for j in range(2):
            s, a = divmod((i + 7 * j) % 15, 3)
            assert mdp.rewards[s, a] == means[i, j]
            assert np.allclose(mdp.transitions[s, a], rows[i, j], rtol=0.0, atol=1e-15)
    assert problem.at(10**9).rewards[0, 0] == means[99_998, 1]  # the last change of pair 0


FAULTY: dict[str, tuple[Any, Any, str]] = {
    "a string": ("ab", None, ""), "a number": (1.0, None, ""),
    "None inside": ([None, 1], None, ""),
    "numbers written out": (["0", "1"], None, ""), "complex": ([0, 1j], None, ""),
    "a complex array": (np.array([0, 1j]), None, ""), "huge": ([0, HUGE], None, ""),
    "empty": ([], None, "sum to 0"), "an empty mapping": ({}, None, "sum to 0"),
    "too long": ([0, 0, 1], None, "[0, 0, 1]"), "three dimensions": ([[[0, 1]]], None, ""),
    "a sparse row": (sp.csr_matrix([[0.0, 1.0]]), None, ""), "an object": (object(), None, ""),
    "a negative entry": ([-0.5, 1.5], None, "-0.5"), "NaN": ([np.nan, 1], None, "nan"),
    "infinite": ([0, np.inf], None, "inf"), "a sum of 0.9": ([0.5, 0.4], None, "0.9"),
    "a negative duplicate": ([(1, -0.5), (1, 1.5)], None, "-0.5"),
    "a next state too large": ({7: 1.0}, None, "7"),
    "a next state below 0": ({-1: 1.0}, None, "-1"),
    "a next state between": ({0.5: 1.0}, None, "0.5"),
    "a next state NaN": ({np.nan: 1.0}, None, "nan"),
    "a next state by name": ({"1": 1.0}, None, ""), "a mean above": (None, 1.5, "1.5"),
    "a mean below": (None, -0.5, "-0.5"), "a mean NaN": (None, np.nan, "nan"),
    "a mean by name": (None, "0.5", "'0.5'"), "a complex mean": (None, 1j, "1j"),
    "a list as mean": (None, [0.5], "[0.5]"), "a huge mean": (None, HUGE, ""),
}  # fmt: skip


@pytest.mark.parametrize("kind", FAULTY)
def test_a_faulty_row_change_is_named_by_change_state_action_and_value(kind: str) -> None:
    transitions, mean, shown = FAULTY[kind]
    with pytest.raises(InvalidMDP, match="change 2, state 1, action 0") as caught:
        SwitchingMDP.from_patches(SWAP, [5, 6], [[], [(1, 0, transitions, mean)]])
    assert shown in str(caught.value)


@pytest.mark.parametrize("mean", [1, np.int64(1), np.float32(1), np.float64(1)], ids=repr)
def test_any_real_number_is_a_mean(mean: Any) -> None:
    problem = SwitchingMDP.from_patches(SWAP, [5], [[(1, 0, None, mean)]])
    assert problem.at(5).rewards[1, 0] == 1.0


@pytest.mark.parametrize("patch", [None, 3, [3], [None], [(0, 0, None)], "abcd", {(0, 0): 1}])
def test_an_invalid_patch_is_rejected(patch: Any) -> None:
    with pytest.raises(InvalidMDP, match="a patch is a list of"):
        SwitchingMDP.from_patches(SWAP, [5], [patch])


@pytest.mark.parametrize("patches", [None, 3, [], [[], []]])
def test_the_number_of_patches_must_equal_the_number_of_change_points(patches: Any) -> None:
    with pytest.raises(InvalidProblem):
        SwitchingMDP.from_patches(SWAP, [5], patches)


def test_a_patch_to_a_pair_that_does_not_exist_is_rejected() -> None:
    with pytest.raises(InvalidMDP, match=r"change 1: state .* got 2"):
        SwitchingMDP.from_patches(SWAP, [5], [[(2, 0, None, 0.5)]])
    with pytest.raises(InvalidMDP, match=r"change 1: action .* got 1"):
        SwitchingMDP.from_patches(SWAP, [5], [[(0, 1, None, 0.5)]])


def test_a_base_of_the_wrong_type_is_rejected() -> None:
    with pytest.raises(InvalidProblem, match="must be an MDP"):
        SwitchingMDP.from_patches(None, [5], [[]])  # type: ignore[arg-type]
