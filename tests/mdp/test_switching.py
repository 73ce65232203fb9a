"""Configurations and change points: active configurations and invalid arguments."""

from __future__ import annotations

import pickle
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from switchmdp.errors import (
    InvalidMDP,
    InvalidParameter,
    InvalidProblem,
    NotCommunicating,
    SwitchmdpError,
)
from switchmdp.mdp import MDP, Beta, Deterministic, SwitchingMDP

SWAP = [[[0.0, 1.0]], [[1.0, 0.0]]]


def swap(mean: float, **options: Any) -> MDP:
    return MDP(SWAP, [[mean], [0.0]], **options)


def level(problem: SwitchingMDP, t: int) -> float:
    return float(problem.at(t).rewards[0, 0])


def looped() -> Any:
    loop: list[Any] = []
    loop.append(loop)
    return loop


def test_configuration_i_is_active_from_its_change_point_until_the_next() -> None:
    problem = SwitchingMDP([swap(0.1), swap(0.2), swap(0.3)], change_points=[2, 10])
    assert [level(problem, t) for t in (1, 2, 9, 10, 10**15)] == [0.1, 0.2, 0.2, 0.3, 0.3]
    assert [problem.active(t) for t in (1, 2, 9, 10, 2**62)] == [0, 1, 1, 2, 2]


def test_without_change_points_one_configuration_is_active_for_ever() -> None:
    problem = SwitchingMDP([swap(0.5)])
    assert problem.changes == 0
    assert problem.active(2**40) == 0
    assert problem.at(1).transitions.tolist() == SWAP


def test_configurations_may_come_from_a_generator() -> None:
    problem = SwitchingMDP((swap(x) for x in (0.1, 0.2, 0.3)), [5, 6])
    assert [float(m.rewards[0, 0]) for m in problem.configurations()] == [0.1, 0.2, 0.3]


@pytest.mark.parametrize("t", [0, -1, 1.0, None, "1", True, np.nan, 2**63])
def test_an_invalid_step_is_rejected(t: Any) -> None:
    for ask in (SwitchingMDP([swap(0.5)]).at, SwitchingMDP([swap(0.5)]).active):
        with pytest.raises(
            InvalidParameter, match=r"t must be an integer (>= 1|from 1 to)"
        ) as caught:
            ask(t)
        assert repr(t) in str(caught.value)


@pytest.mark.parametrize("i", [-1, 2, 0.0, None, True])
def test_a_configuration_that_does_not_exist_is_rejected(i: Any) -> None:
    with pytest.raises(InvalidParameter, match="configuration must be an integer from 0 to 1"):
        SwitchingMDP([swap(0.1), swap(0.2)], [5]).configuration(i)


FAULTY_POINTS: dict[str, Any] = {
    "None": None, "a number": 5, "a string": "5", "strings": ["5", "6"], "floats": [5.0, 6.0],
    "NaN": [np.nan, 6.0], "booleans": [True, True], "None inside": [None, 6], "a set": {5, 6},
    "a mapping": {5: 0, 6: 1}, "two dimensions": [[5, 6]], "ragged lists": [[5], [6, 7]],
    "complex": [5j, 6j], "dates": np.array([5, 6], "M8[s]"), "a loop": looped(),
    "one too few": [5], "one too many": [5, 6, 7], "zero": [0, 5], "one": [1, 5],
    "negative": [-3, 5], "equal": [5, 5], "decreasing": [6, 5],
    "decreasing unsigned bytes": np.array([200, 100], np.uint8),
    "decreasing unsigned words": np.array([10, 5], np.uint64),
    "beyond 64 bits": [5, 2**64], "beyond 63 bits": np.array([5, 2**63 + 9], np.uint64),
}  # fmt: skip


@pytest.mark.parametrize("kind", FAULTY_POINTS)
def test_invalid_change_points_are_rejected(kind: str) -> None:
    configurations = [swap(0.1), swap(0.2), swap(0.3)]
    with pytest.raises(InvalidProblem):
        SwitchingMDP(configurations, FAULTY_POINTS[kind])
    with pytest.raises(InvalidProblem):
        SwitchingMDP.from_patches(configurations[0], FAULTY_POINTS[kind], [[], []])


def test_a_fault_in_the_change_points_is_named_by_value() -> None:
    m = swap(0.5)
    with pytest.raises(InvalidProblem, match="must be >= 2, got 1"):
        SwitchingMDP([m, m], [1])
    with pytest.raises(InvalidProblem, match="increase strictly, got 7 then 7"):
        SwitchingMDP([m] * 4, [5, 7, 7])
    with pytest.raises(InvalidProblem, match="2 configurations need 1 change point, got 3"):
        SwitchingMDP([m, m], [5, 6, 7])


@pytest.mark.parametrize(
    "configurations", [None, 3, swap(0.5), [], "ab", [None], [swap(0.5), None], [SWAP]]
)
def test_invalid_configurations_are_rejected(configurations: Any) -> None:
    with pytest.raises(InvalidProblem):
        SwitchingMDP(configurations, [])


def test_configurations_of_another_shape_or_law_are_rejected_by_number() -> None:
    base = MDP([SWAP[0] * 2, SWAP[1] * 2], [[0.5, 0.5]] * 2)
    masked = MDP(base.transitions, base.rewards, available=[[True, True], [True, False]])
    larger = MDP(np.full((3, 2, 3), 1 / 3), np.full((3, 2), 0.5))
    other_law = MDP(base.transitions, base.rewards, law=Deterministic())
    for other in (masked, larger, swap(0.5)):
        with pytest.raises(
            InvalidProblem, match=r"configuration 2 .* differs from configuration 0"
        ):
            SwitchingMDP([base, base, other], [5, 6])
    with pytest.raises(InvalidProblem, match=r"configuration 1 has rewards of law Deterministic"):
        SwitchingMDP([base, other_law], [5])


def test_a_range_of_configurations_can_not_end_before_it_starts() -> None:
    problem = SwitchingMDP([swap(0.1), swap(0.2), swap(0.3)], [5, 9])
    assert [float(m.rewards[0, 0]) for m in problem.configurations(1, 1)] == [0.2]
    with pytest.raises(InvalidParameter, match="last must be an integer from 2 to 2"):
        list(problem.configurations(2, 1))


def test_recurring_configurations_share_their_rows() -> None:
    rng = np.random.default_rng(0)
    a, b = (MDP(rng.dirichlet(np.ones(4), (4, 2)), rng.random((4, 2))) for _ in range(2))
    problem = SwitchingMDP([a, b] * 50, range(2, 101))
    assert len(problem.model.mean) == 16
    assert len(problem.model.successors) == 64
    for i, mdp in enumerate([a, b] * 2):
        assert np.array_equal(problem.configuration(i).transitions, mdp.transitions)
        assert np.array_equal(problem.configuration(i).rewards, mdp.rewards)


def test_a_configuration_that_changes_nothing_stores_nothing() -> None:
    problem = SwitchingMDP([swap(0.5)] * 3, [5, 6])
    assert problem.changes == 2
    assert (len(problem.model.mean), len(problem.patches.pair)) == (2, 0)


def test_an_impossible_variance_in_a_later_configuration_is_rejected_by_pair() -> None:
    base = MDP(SWAP, [[0.5], [0.5]], law=Beta(variance=0.1))
    with pytest.raises(InvalidMDP, match=r"state 1, action 0.* mean 0\.01 "):
        SwitchingMDP.from_patches(base, [5, 9], [[], [(1, 0, None, 0.01)]])


def test_labels_law_and_mask_are_those_of_the_first_configuration() -> None:
    labels: dict[str, Any] = {"state_labels": ["a", "b"], "action_labels": ["go"]}
    problem = SwitchingMDP([swap(0.1, **labels), swap(0.2, **labels)], [5])
    for mdp in problem.configurations():
        assert (mdp.state_labels, mdp.action_labels) == (("a", "b"), ("go",))
        assert mdp.available.tolist() == problem.available.tolist() == [[True], [True]]


def test_change_points_are_a_copy_that_cannot_be_written() -> None:
    points: Any = np.array([5, 9], np.int32)
    problem = SwitchingMDP([swap(0.1), swap(0.2), swap(0.3)], points)
    points[...] = 1
    assert problem.change_points.tolist() == [5, 9]
    with pytest.raises(ValueError, match="read-only"):
        problem.change_points[0] = 7


def test_a_problem_survives_pickling() -> None:
    problem = SwitchingMDP([swap(0.1), swap(0.2)], [5])
    copy = pickle.loads(pickle.dumps(problem))
    assert [level(copy, t) for t in (4, 5)] == [0.1, 0.2]
    assert repr(copy) == repr(problem)


def test_changes_can_be_undone_with_the_old_rows() -> None:
    rng = np.random.default_rng(1)
    mdps = [MDP(rng.dirichlet(np.ones(3), (3, 2)), rng.random((3, 2))) for _ in range(3)]
    problem = SwitchingMDP([mdps[k] for k in (0, 1, 0, 2, 2, 1)], range(2, 7))
    row = problem.configuration(problem.changes).model.row.copy()
    for first, last in pairwise(problem.patches.offsets[::-1]):
        row[problem.patches.pair[last:first]] = problem.patches.old[last:first]
    assert np.array_equal(row, problem.model.row)


def test_every_error_of_a_problem_is_a_switchmdp_error() -> None:
    assert issubclass(InvalidProblem, SwitchmdpError)
    assert issubclass(NotCommunicating, SwitchmdpError)


def _stack(n: int, seed: int) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    return rng.dirichlet(np.ones(4), (n, 4, 3)), rng.random((n, 4, 3))


@pytest.mark.parametrize("n", [1, 2, 5])
def test_a_stack_of_arrays_is_the_same_problem_as_its_configurations(n: int) -> None:
    rows, means = _stack(n, n)
    rows[0, 0, 0] = [0.0, 1.0, 0.0, 0.0]
    points = list(range(10, 10 * n, 10))
    stacked = SwitchingMDP.from_arrays(rows, means, points)
    listed = SwitchingMDP([MDP(p, r) for p, r in zip(rows, means, strict=True)], points)
    ours: list[Any] = [*stacked.model, *stacked.patches]
    theirs: list[Any] = [*listed.model, *listed.patches]
    for a, b in zip(ours, theirs, strict=True):
        assert a.dtype == b.dtype
        assert np.array_equal(a, b)
    assert stacked.change_points.tolist() == points
    assert stacked.law == listed.law


def test_unchanged_rows_of_a_stack_are_stored_once() -> None:
    rows, means = _stack(3, 0)
    rows[1], means[1] = rows[0], means[0]
    problem = SwitchingMDP.from_arrays(rows, means, [10, 20])
    assert len(problem.model.mean) == 24
    assert problem.patches.offsets.tolist() == [0, 0, 12]


@pytest.mark.parametrize(
    ("spoil", "error", "message"),
    [
        (lambda p, r: (p * 0.9, r, [5]), InvalidMDP, "state 0, action 0: probabilities sum"),
        (lambda p, r: (p, r + 1, [5]), InvalidMDP, "outside"),
        (lambda p, r: (p, r, [5, 6]), InvalidProblem, "2 configurations need 1 change point,"),
        (lambda p, r: (p[:1], r, [5]), InvalidProblem, "must be"),
        (lambda p, r: (p, r[0], [5]), InvalidProblem, "must be"),
        (lambda p, r: (p * np.nan, r, [5]), InvalidMDP, "is not a number"),
    ],
)
def test_an_invalid_stack_raises_the_same_errors_as_its_configurations(
    spoil: Any, error: Any, message: str
) -> None:
    rows, means, points = spoil(*_stack(2, 1))
    with pytest.raises(error, match=message):
        SwitchingMDP.from_arrays(rows, means, points)


def test_configurations_with_different_labels_are_refused() -> None:
    for field, other in (("state_labels", ["b", "a"]), ("action_labels", ["stay"])):
        one: dict[str, Any] = {"state_labels": ["a", "b"], "action_labels": ["go"]}
        two = one | {field: other}
        with pytest.raises(InvalidProblem, match=f"configuration 2 has {field} .*, an earlier one"):
            SwitchingMDP([swap(0.1, **one), swap(0.2), swap(0.3, **two)], [5, 9])
        later = SwitchingMDP([swap(0.1), swap(0.2, **two)], [5])
        assert list(getattr(later, field)) == other
