"""Invalid input always raises a typed error that names the place and the value."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from switchmdp.errors import InvalidMDP, SwitchmdpError
from switchmdp.mdp import MDP

SWAP: Any = [[[0.0, 1.0]], [[1.0, 0.0]]]
MEANS: Any = [[1.0], [0.0]]
HUGE = 10**400


def assert_rejected(make: Callable[[], Any], *words: str) -> None:
    with pytest.raises(InvalidMDP) as caught:
        make()
    for word in words:
        assert word in str(caught.value)


@pytest.mark.parametrize(
    ("mean", "shown"), [(1.5, "1.5"), (-0.1, "-0.1"), (np.nan, "nan"), (np.inf, "inf")]
)
def test_a_mean_outside_the_unit_interval_is_named_with_its_pair(mean: float, shown: str) -> None:
    message = f"state 1, action 0: mean reward {shown} is outside [0, 1]; scale the rewards first"
    with pytest.raises(InvalidMDP, match=re.escape(message)):
        MDP(SWAP, [[0.5], [mean]])


@pytest.mark.parametrize("shape", [(0, 0), (0, 3), (2, 0), (2,), (), (2, 1, 1)])
def test_rewards_of_a_wrong_or_empty_shape_are_rejected_by_shape(shape: tuple[int, ...]) -> None:
    assert_rejected(lambda: MDP(SWAP, np.zeros(shape)), str(shape))


@pytest.mark.parametrize("shape", [(2, 1), (2, 1, 3), (3, 1, 3), (2, 2, 2), (2, 1, 2, 2), (0,)])
def test_transitions_of_a_wrong_shape_are_rejected_by_shape(shape: tuple[int, ...]) -> None:
    assert_rejected(lambda: MDP(np.zeros(shape), MEANS), str(shape), "(2, 1, 2)")


def test_a_sparse_matrix_of_a_wrong_shape_is_rejected_by_shape() -> None:
    assert_rejected(lambda: MDP(sp.csr_matrix((3, 2)), MEANS), "(2, 2)", "(3, 2)")
    assert_rejected(lambda: MDP([sp.csr_matrix((2, 2)), sp.csr_matrix((2, 2))], MEANS), "(2, 2)")
    assert_rejected(lambda: MDP([sp.csr_matrix((2, 3))], MEANS), "(2, 3)")


LISTS_OF_WRONG_SHAPE: dict[str, Any] = {
    "a state too few": [[{1: 1.0}]],
    "a state too many": [[{1: 1.0}], [{0: 1.0}], [{0: 1.0}]],
    "an action too few": [[{1: 1.0}], []],
    "an action too many": [[{1: 1.0}, {0: 1.0}], [{0: 1.0}]],
    "a state that is no state": {0: [{1: 1.0}], 1: [{0: 1.0}], 2: [{0: 1.0}]},
}


@pytest.mark.parametrize("fault", LISTS_OF_WRONG_SHAPE)
def test_successor_lists_of_a_wrong_shape_are_rejected(fault: str) -> None:
    assert_rejected(lambda: MDP(LISTS_OF_WRONG_SHAPE[fault], MEANS))


@pytest.mark.parametrize(
    ("target", "shown"),
    [(2, "2"), (-1, "-1"), (1.0, "1.0"), ("1", "'1'"), (True, "True"), (None, "None"),
     (10**30, str(10**30))],
)  # fmt: skip
def test_a_next_state_that_does_not_exist_is_named_with_its_pair(target: Any, shown: str) -> None:
    assert_rejected(
        lambda: MDP([[{1: 1.0}], [{target: 1.0}]], MEANS), f"state 1, action 0: next state {shown} "
    )


@pytest.mark.parametrize("value", ["x", 1j, HUGE, object()], ids=lambda v: type(v).__name__)
def test_a_probability_of_the_wrong_type_is_named_with_its_pair(value: Any) -> None:
    for form in ([[{1: 1.0}], [{0: value}]], [[[(1, 1.0)]], [[(0, value)]]]):
        assert_rejected(partial(MDP, form, MEANS), "state 1, action 0", repr(value)[:20])


@pytest.mark.parametrize("value", [None, [1.0], {}, np.ones(1)], ids=lambda v: type(v).__name__)
def test_a_probability_that_is_an_array_is_rejected_with_its_pair(value: Any) -> None:
    assert_rejected(lambda: MDP([[{1: 1.0}], [{0: value}]], MEANS), "state 1, action 0")


def test_a_nan_among_duplicates_is_rejected() -> None:
    for row in ([(1, 1.0), (1, np.nan)], [(1, np.nan), (1, 1.0)]):
        assert_rejected(partial(MDP, [[row], [[(0, 1.0)]]], MEANS), "state 0, action 0", "nan")


def test_the_position_of_a_nan_is_named_in_spite_of_duplicates() -> None:
    lists = [[[(1, 0.5), (1, 0.5)]], [[(0, np.nan)]]]
    assert_rejected(lambda: MDP(lists, MEANS), "state 1, action 0", "nan")


def test_a_negative_probability_is_rejected_even_if_a_duplicate_compensates_it() -> None:
    lists = [[[(1, -0.5), (1, 1.5)]], [[(0, 1.0)]]]
    assert_rejected(lambda: MDP(lists, MEANS), "state 0, action 0", "-0.5")
    duplicates = sp.csr_matrix(([-0.5, 1.5, 1.0], [1, 1, 0], [0, 2, 3]), shape=(2, 2))
    assert_rejected(lambda: MDP(duplicates, MEANS), "state 0, action 0", "-0.5")


def nest(depth: int) -> Any:
    return [] if depth == 0 else [nest(depth - 1)]


def looped() -> Any:
    loop: list[Any] = []
    loop.append(loop)
    return loop


def altered(index: int) -> Any:
    """A sparse matrix whose internal arrays were overwritten."""
    matrix = sp.csr_matrix(np.array([[0.0, 1.0], [1.0, 0.0]]))
    matrix.indices[0] = index
    return matrix


JUNK: dict[str, Any] = {
    "None": None, "a string": "ab", "bytes": b"ab", "a number": 3, "NaN": float("nan"),
    "an empty list": [], "empty lists": nest(3), "very deep lists": nest(70), "a loop": looped(),
    "an empty mapping": {}, "a set": {1}, "an object": object(), "a type": int,
    "a generator": (x for x in SWAP), "a range": range(2), "a function": len,
    "ragged lists": [[[0, 1]], [[1]]], "lists of None": [[None], [None]],
    "lists of strings": ["ab", "cd"], "mappings by name": {"0": {"0": {1: 1.0}}},
    "a mapping in place of a list": [{0: 1.0}, {1: 1.0}],
    "numbers written out": [[["0", "1"]], [["1", "0"]]],
    "written numbers in a mapping": [[{1: "1.0"}], [{0: "1.0"}]],
    "an array of strings": np.array(SWAP).astype(str),
    "an array of objects": np.array(SWAP, object),
    "an array of mappings": np.array([[{1: 1.0}], [{0: 1.0}]]),
    "an array of booleans": np.array(SWAP) > 0,
    "an array of dates": np.zeros((2, 1, 2), "M8[s]"),
    "an array of records": np.zeros((2, 1, 2), "i4,i4"),
    "complex numbers": [[[0, 1j]], [[1, 0]]],
    "a complex array": np.array(SWAP, complex),
    "complex NumPy numbers": [[{1: np.complex128(1)}], [{0: 1}]],
    "a complex sparse matrix": sp.csr_matrix(np.array([[0, 1], [1, 0]], complex)),
    "huge integers": [[[0, HUGE]], [[1, 0]]],
    "a sparse matrix and None": [sp.csr_matrix(np.eye(2)), None],
    "None and a sparse matrix": [None, sp.csr_matrix(np.eye(2))],
    "sparse rows": [[sp.csr_matrix([[0.0, 1.0]])], [sp.csr_matrix([[1.0, 0.0]])]],
    "a sparse vector": sp.coo_array(np.array([0.0, 1.0])),
    "a mapping of sparse matrices": {0: sp.csr_array(np.eye(2)), 1: sp.csr_array(np.eye(2))},
    "a sparse class": sp.csr_matrix,
    "a sparse matrix that points outside": altered(77),
    "a sparse matrix that points before": altered(-1),
    "an MDP": MDP(SWAP, MEANS), "a list of MDPs": [MDP(SWAP, MEANS)] * 2,
}  # fmt: skip


@pytest.mark.parametrize("kind", JUNK)
def test_junk_in_place_of_transitions_is_rejected_with_a_typed_error(kind: str) -> None:
    assert_rejected(lambda: MDP(JUNK[kind], MEANS))


JUNK_MEANS: dict[str, Any] = {
    "None": None, "a string": "ab", "a number": 1.0, "a mapping": {0: [1.0]}, "a set": {1.0},
    "a generator": (x for x in MEANS), "an object": object(), "a type": int,
    "ragged lists": [[1.0], [0.0, 1.0]], "lists of None": [[None], [0.0]], "a loop": looped(),
    "very deep lists": nest(70), "an empty list": [], "empty lists": [[], []],
    "numbers written out": [["1"], ["0"]], "bytes": [[b"1"], [b"0"]],
    "an array of strings": np.array([["1"], ["0"]]), "an array of objects": np.array(MEANS, object),
    "an array of booleans": np.array([[True], [False]]),
    "an array of dates": np.zeros((2, 1), "M8[s]"), "durations": np.zeros((2, 1), "m8[s]"),
    "records": np.zeros((2, 1), "i4,i4"), "complex numbers": [[1j], [0]],
    "a complex array": np.array(MEANS, complex), "huge integers": [[HUGE], [0]],
    "a sparse matrix": sp.csr_matrix(MEANS), "an MDP": MDP(SWAP, MEANS),
}  # fmt: skip


@pytest.mark.parametrize("kind", JUNK_MEANS)
def test_junk_in_place_of_rewards_is_rejected_with_a_typed_error(kind: str) -> None:
    assert_rejected(lambda: MDP(SWAP, JUNK_MEANS[kind]))


JUNK_MASKS: dict[str, Any] = {
    "a string": "ab", "a number": 1, "integers": [[1], [1]], "None inside": [[None], [True]],
    "ragged lists": [[True], [True, False]], "a wrong shape": [[True, True]] * 2,
    "a loop": looped(),
    "one dimension": [True, True], "objects": np.array([[True], [True]], object), "a mapping": {},
    "a sparse matrix": sp.csr_matrix([[True], [True]]), "an object": object(),
}  # fmt: skip


@pytest.mark.parametrize("kind", JUNK_MASKS)
def test_junk_in_place_of_the_mask_is_rejected_with_a_typed_error(kind: str) -> None:
    assert_rejected(lambda: MDP(SWAP, MEANS, available=JUNK_MASKS[kind]), "available")


def test_a_state_without_an_action_is_rejected_by_name() -> None:
    assert_rejected(lambda: MDP(SWAP, MEANS, available=[[True], [False]]), "state 1")


JUNK_LABELS: dict[str, Any] = {
    "a number": 5, "an object": object(), "too few": ["a"], "too many": ["a", "b", "c"],
    "the same twice": ["a", "a"], "numbers": [1, 2], "lists": [["a"], ["b"]], "None": [None, "a"],
}  # fmt: skip


@pytest.mark.parametrize("field", ["state_labels", "action_labels"])
@pytest.mark.parametrize("kind", JUNK_LABELS)
def test_junk_in_place_of_labels_is_rejected_by_field(kind: str, field: str) -> None:
    square = MDP(np.full((2, 2, 2), 0.5), np.zeros((2, 2)))
    assert_rejected(
        lambda: MDP(square.transitions, square.rewards, **{field: JUNK_LABELS[kind]}), field
    )


@pytest.mark.parametrize("value", [1, np.float32(1), np.int64(1)], ids=repr)
def test_any_real_number_is_a_probability(value: Any) -> None:
    assert MDP([[{1: value}], [{0: value}]], MEANS).transitions.tolist() == SWAP


def test_every_error_is_a_switchmdp_error_and_a_value_error() -> None:
    assert issubclass(InvalidMDP, SwitchmdpError)
    assert issubclass(InvalidMDP, ValueError)


RIGHT = np.full((5, 3, 5), 0.2)  # (states, actions, states)
HALVES = np.full((5, 3), 0.5)


@pytest.mark.parametrize("convert", [np.asarray, np.ndarray.tolist])
@pytest.mark.parametrize(
    ("transitions", "rewards", "advice"),
    [
        (RIGHT, HALVES.T, "; the rewards have the actions first: pass np.transpose(rewards)"),
        (
            np.full((3, 5, 5), 0.2), HALVES,
            "; the transitions have the actions first: pass np.moveaxis(transitions, 0, 1)",
        ),
        (
            np.full((5, 5, 3), 0.2), HALVES,
            "; the transitions have the actions last: pass np.moveaxis(transitions, 2, 1)",
        ),
        (
            np.full((3, 5, 5), 0.2), HALVES.T,
            "; rewards and transitions have the actions first: pass np.transpose(rewards) and "
            "np.moveaxis(transitions, 0, 1)",
        ),
    ],
)  # fmt: skip
def test_transposed_arrays_are_recognised_and_the_advice_works(
    convert: Any, transitions: Any, rewards: Any, advice: str
) -> None:
    transitions, rewards = convert(transitions), convert(rewards)
    with pytest.raises(InvalidMDP) as caught:
        MDP(transitions, rewards)
    assert str(caught.value).endswith(advice)
    for axes in re.findall(r"moveaxis\(transitions, (.), (.)\)", advice):
        transitions = np.moveaxis(transitions, *map(int, axes))
    MDP(transitions, np.transpose(rewards) if "transpose" in advice else rewards)


def test_lists_with_the_actions_first_are_recognised() -> None:
    rows = [[{0: 1.0}] * 5] * 3
    message = "transitions (with the states first: transitions[s][a]) must be over 5 states, got 3"
    assert_rejected(lambda: MDP(rows, HALVES), message)


def test_rewards_of_every_next_state_are_recognised() -> None:
    assert_rejected(lambda: MDP(RIGHT, RIGHT), "that depend on the next state, pass their means")
