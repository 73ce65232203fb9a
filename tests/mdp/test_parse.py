"""All forms of input give the same model; errors name the state, action and value."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.typing import NDArray

from switchmdp.errors import InvalidMDP
from switchmdp.mdp import MDP
from switchmdp.mdp.model import Model

S, A = 4, 3


def sparse_rows(seed: int = 7) -> NDArray[np.float64]:
    """Random rows of which about half the entries are zero."""
    rng = np.random.default_rng(seed)
    rows = rng.random((S, A, S)) * (rng.random((S, A, S)) < 0.5)
    rows[..., 0] += 0.125
    return np.asarray(rows / rows.sum(axis=2, keepdims=True))


DENSE = sparse_rows()
MEANS = np.random.default_rng(8).random((S, A))
FLAT = DENSE.reshape(S * A, S)


def pairs_of(row: NDArray[np.float64]) -> list[tuple[int, float]]:
    return [(int(k), float(row[k])) for k in np.nonzero(row)[0]]


def with_duplicates() -> Any:
    """Each entry twice, half of it each time: halves add up without rounding."""
    row, column = np.nonzero(FLAT)
    value = FLAT[row, column] / 2.0
    twice = (np.tile(row, 2), np.tile(column, 2))
    return sp.coo_matrix((np.tile(value, 2), twice), shape=FLAT.shape)


def with_stored_zeros() -> Any:
    """A sparse matrix that stores every entry, the zeros too."""
    row, column = np.indices(FLAT.shape)
    return sp.coo_array((FLAT.ravel(), (row.ravel(), column.ravel())), shape=FLAT.shape).tocsr()


FORMS: dict[str, Any] = {
    "nested lists": DENSE.tolist(),
    "nested tuples": tuple(tuple(map(tuple, rows)) for rows in DENSE.tolist()),
    "lists of arrays": [list(rows) for rows in DENSE],
    "array": DENSE,
    "Fortran array": np.asfortranarray(DENSE),
    "strided array": np.repeat(DENSE, 2, axis=1)[:, ::2],
    "long doubles": DENSE.astype(np.longdouble),
    "big-endian array": DENSE.astype(">f8"),
    "csr matrix": sp.csr_matrix(FLAT),
    "csr array": sp.csr_array(FLAT),
    "csc matrix": sp.csc_matrix(FLAT),
    "lil matrix": sp.lil_matrix(FLAT),
    "coo matrix with duplicates": with_duplicates(),
    "csr array with stored zeros": with_stored_zeros(),
    "a sparse matrix per action": [sp.csr_matrix(DENSE[:, a]) for a in range(A)],
    "a sparse array per action, of many kinds": (
        sp.coo_array(DENSE[:, 0]), sp.csc_array(DENSE[:, 1]), sp.csr_array(DENSE[:, 2]),
    ),
    "mappings": [[dict(pairs_of(row)) for row in rows] for rows in DENSE],
    "mappings all the way": {
        s: {a: dict(pairs_of(DENSE[s, a])) for a in range(A)} for s in range(S)
    },
    "pairs": [[pairs_of(row) for row in rows] for rows in DENSE],
    "pairs backwards": [[pairs_of(row)[::-1] for row in rows] for rows in DENSE],
    "pairs of equal lengths": [[list(enumerate(row)) for row in rows] for rows in DENSE.tolist()],
    "pairs in halves": [
        [[(k, p / 2.0) for k, p in pairs_of(row)] * 2 for row in rows] for rows in DENSE
    ],
    "mappings and pairs": [
        [dict(pairs_of(row)) if (s + a) % 2 else pairs_of(row) for a, row in enumerate(rows)]
        for s, rows in enumerate(DENSE)
    ],
    "NumPy integers as next states": [
        [{np.uint8(k): np.float64(p) for k, p in pairs_of(row)} for row in rows] for rows in DENSE
    ],
}  # fmt: skip


def assert_same_model(actual: Model, expected: Model) -> None:
    arrays: Any = zip(Model._fields, actual, expected, strict=True)
    for name, a, b in arrays:
        assert a.dtype == b.dtype, name
        assert a.flags.c_contiguous, name
        assert np.array_equal(a, b), name


@pytest.mark.parametrize("form", FORMS)
def test_every_form_of_input_gives_the_same_model(form: str) -> None:
    assert_same_model(MDP(FORMS[form], MEANS).model, MDP(DENSE, MEANS).model)


def test_successors_increase_and_no_zero_is_stored() -> None:
    model = MDP(with_stored_zeros(), MEANS).model
    assert len(model.successors) == np.count_nonzero(DENSE)
    assert (model.probabilities > 0.0).all()
    for first, last in zip(model.start, model.stop, strict=True):
        assert (np.diff(model.successors[first:last].astype(int)) > 0).all()


def test_integers_are_accepted_as_probabilities() -> None:
    swap = np.array([[[0, 1]], [[1, 0]]], np.int8)
    expected = MDP(swap.astype(float), [[1.0], [0.0]]).model
    assert_same_model(MDP(swap, np.array([[1], [0]], np.uint8)).model, expected)


def test_float32_probabilities_that_are_exact_give_the_same_model() -> None:
    rows = np.array([[[0.25, 0.75]], [[0.5, 0.5]]])
    means = np.array([[0.125], [1.0]])
    expected = MDP(rows, means).model
    assert_same_model(MDP(rows.astype(np.float32), means.astype(np.float32)).model, expected)


@pytest.mark.parametrize("seed", range(5))
def test_rows_rounded_to_float32_are_accepted_and_normalised(seed: int) -> None:
    rows = np.random.default_rng(seed).dirichlet(np.ones(S), size=(S, A)).astype(np.float32)
    for form in (rows, sp.csr_matrix(rows.reshape(S * A, S))):
        sums = MDP(form, MEANS.astype(np.float32)).transitions.sum(axis=2)
        assert np.allclose(sums, 1.0, rtol=0.0, atol=1e-15)


def test_a_row_within_rounding_of_one_is_normalised() -> None:
    mdp = MDP([[[0.5, 0.5 + 4e-9]], [[1.0, 0.0]]], [[0], [0]])
    assert abs(mdp.transitions[0, 0].sum() - 1.0) < 1e-15


def test_the_last_cumulative_probability_of_a_row_is_exactly_one() -> None:
    rows = np.random.default_rng(0).dirichlet(np.ones(9), (9, 4))
    model = MDP(rows, np.zeros((9, 4))).model
    plain = model.probabilities.reshape(36, 9).cumsum(axis=1)
    assert not (plain[:, -1] == 1.0).all()
    assert (model.cumulative[model.stop - 1] == 1.0).all()
    assert np.array_equal(model.cumulative.reshape(36, 9)[:, :-1], plain[:, :-1])


@pytest.mark.parametrize(
    "form", ["array", "Fortran array", "csr matrix", "csr array", "csr array with stored zeros"]
)
def test_changing_the_input_later_changes_nothing(form: str) -> None:
    transitions = FORMS[form].copy()
    means = MEANS.copy()
    mdp = MDP(transitions, means)
    (transitions if isinstance(transitions, np.ndarray) else transitions.data)[...] = 7.0
    means[...] = 7.0
    assert_same_model(mdp.model, MDP(DENSE, MEANS).model)


def test_parsing_does_not_modify_a_sparse_matrix() -> None:
    entries = ([0.5, 0.0, 0.5, 1.0], [1, 0, 1, 0], [0, 3, 4])  # out of order, a zero, a duplicate
    matrix = sp.csr_matrix(entries, shape=(2, 2))
    assert MDP(matrix, [[0], [0]]).transitions.tolist() == [[[0.0, 1.0]], [[1.0, 0.0]]]
    assert (matrix.data.tolist(), matrix.indices.tolist(), matrix.indptr.tolist()) == entries


AVAILABLE = np.ones((S, A), bool)
AVAILABLE[1, 2] = AVAILABLE[3, 0] = False


def garbage(value: float) -> NDArray[np.float64]:
    rows = DENSE.copy()
    rows[1, 2] = rows[3, 0] = value
    return rows


@pytest.mark.parametrize("value", [np.nan, np.inf, -3.0, 0.0])
def test_values_of_unavailable_actions_are_ignored(value: float) -> None:
    means = MEANS.copy()
    means[1, 2] = means[3, 0] = value if value else 9.0
    expected = MDP(DENSE, MEANS, available=AVAILABLE).model
    rows = garbage(value)
    forms = [
        rows,
        rows.tolist(),
        sp.csr_matrix(rows.reshape(S * A, S)),
        [sp.csr_array(rows[:, a]) for a in range(A)],
        [[dict(enumerate(row)) for row in some] for some in rows.tolist()],
        [
            [pairs_of(DENSE[s, a]) if AVAILABLE[s, a] else "garbage" for a in range(A)]
            for s in range(S)
        ],
    ]
    for form in forms:
        assert_same_model(MDP(form, means, available=AVAILABLE).model, expected)


def broken(value: float, at: tuple[int, int, int] = (2, 1, 3)) -> NDArray[np.float64]:
    rows = DENSE.copy()
    rows[at] = value
    return rows


def dense_forms(rows: NDArray[np.float64]) -> dict[str, Any]:
    return {
        "array": rows,
        "nested lists": rows.tolist(),
        "csr matrix": sp.csr_matrix(rows.reshape(S * A, S)),
        "a sparse matrix per action": [sp.csr_matrix(rows[:, a]) for a in range(A)],
        "mappings": [[dict(enumerate(row)) for row in some] for some in rows.tolist()],
    }


@pytest.mark.parametrize("form", dense_forms(DENSE))
@pytest.mark.parametrize(
    ("value", "shown"), [(-0.25, "-0.25"), (np.nan, "nan"), (np.inf, "inf"), (-np.inf, "-inf")]
)
def test_a_bad_probability_is_named_by_state_action_next_state_and_value(
    form: str, value: float, shown: str
) -> None:
    expected = f"state 2, action 1: probability {shown} of next state 3"
    with pytest.raises(InvalidMDP, match=re.escape(expected)):
        MDP(dense_forms(broken(value))[form], MEANS)


@pytest.mark.parametrize("form", dense_forms(DENSE))
def test_a_row_that_sums_to_0_9_is_rejected_by_state_and_action(form: str) -> None:
    rows = DENSE.copy()
    rows[3, 2] *= 0.9
    with pytest.raises(InvalidMDP, match=r"state 3, action 2: probabilities sum to 0\.9, not to 1"):
        MDP(dense_forms(rows)[form], MEANS)


def test_an_empty_row_is_rejected_by_state_and_action() -> None:
    with pytest.raises(InvalidMDP, match="state 1, action 0: probabilities sum to 0, not to 1"):
        MDP([[{1: 1.0}], [{}]], [[0], [0]])
