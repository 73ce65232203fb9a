"""The one door through which transitions and rewards come in.

Dense arrays, `scipy.sparse` matrices and successor lists all become one successor list per pair:
row x holds the successors `successors[indptr[x]:indptr[x+1]]`, increasing, with positive
probabilities that sum to 1. What does not describe an MDP is refused with the state, the action and
the value that are wrong.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from switchmdp.errors import InvalidMDP
from switchmdp.mdp.pairs import Pairs

ROW_SUM_TOLERANCE = 1e-8


class Rows(NamedTuple):
    """One successor list per pair, in compressed form."""

    indptr: NDArray[np.int64]
    successors: NDArray[np.uint32]
    probabilities: NDArray[np.float64]


def parse_means(rewards: Any) -> NDArray[np.float64]:
    """The (S, A) array of mean rewards, not yet checked for range."""
    try:
        means = np.array(rewards, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidMDP(f"rewards must be a (states, actions) array of numbers: {error}") from None
    if means.ndim != 2 or 0 in means.shape:
        raise InvalidMDP(
            "rewards must be a (states, actions) array with at least one state and one action, "
            f"got shape {means.shape}"
        )
    return means


def check_means(means: NDArray[np.float64], pairs: Pairs) -> NDArray[np.float64]:
    """The mean of each pair; those of unavailable actions are ignored."""
    chosen = means[pairs.states, pairs.actions]
    bad = np.nonzero(~((chosen >= 0.0) & (chosen <= 1.0)))[0]
    if len(bad):
        where = place(pairs, bad[0])
        raise InvalidMDP(f"{where}: mean reward {chosen[bad[0]]} is outside [0, 1]")
    return chosen


def parse_rows(transitions: Any, pairs: Pairs) -> Rows:
    """Successor lists of the available pairs from any of the accepted forms."""
    if hasattr(transitions, "tocsr"):
        rows = _from_csr(transitions.tocsr(copy=True), pairs)
    elif _is_sequence(transitions) and len(transitions) and hasattr(transitions[0], "tocsr"):
        rows = _from_matrices(transitions, pairs)
    else:
        dense = _as_dense(transitions)
        rows = _from_lists(transitions, pairs) if dense is None else _from_dense(dense, pairs)
    return _checked(rows, pairs)


def _is_sequence(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, (str, bytes))


def _as_dense(transitions: Any) -> NDArray[np.float64] | None:
    if isinstance(transitions, np.ndarray):
        if transitions.dtype.kind not in "fiu":
            raise InvalidMDP(f"transitions must be an array of numbers, got {transitions.dtype}")
        return np.asarray(transitions, dtype=np.float64)
    if isinstance(transitions, Mapping):
        return None
    try:
        dense = np.array(transitions, dtype=np.float64)
    except (TypeError, ValueError):
        return None
    # [[[(next, p), ...]]] of equal lengths is a four-dimensional array, and not a dense model.
    return dense if dense.ndim == 3 else None


def _from_dense(dense: NDArray[np.float64], pairs: Pairs) -> Rows:
    expected = (pairs.n_states, pairs.n_actions, pairs.n_states)
    if dense.shape != expected:
        raise InvalidMDP(f"transitions must have shape {expected}, got {dense.shape}")
    chosen = dense[pairs.states, pairs.actions]
    row, column = np.nonzero(chosen)
    return _compress(row, column, chosen[row, column], pairs.n_pairs)


def _from_csr(matrix: Any, pairs: Pairs) -> Rows:
    expected = (pairs.n_states * pairs.n_actions, pairs.n_states)
    if matrix.shape != expected:
        raise InvalidMDP(
            "a sparse matrix of transitions has a row s * n_actions + a for each state and action: "
            f"shape {expected} expected, got {matrix.shape}"
        )
    matrix.sum_duplicates()
    chosen = matrix[pairs.states * pairs.n_actions + pairs.actions].tocoo()
    return _compress(chosen.row, chosen.col, chosen.data, pairs.n_pairs)


def _from_matrices(matrices: Any, pairs: Pairs) -> Rows:
    from scipy.sparse import vstack

    n_states = pairs.n_states
    shapes = [m.shape for m in matrices]
    if shapes != [(n_states, n_states)] * pairs.n_actions:
        raise InvalidMDP(
            f"{pairs.n_actions} sparse matrices of shape {(n_states, n_states)} expected "
            f"(one per action), got {shapes}"
        )
    by_action = vstack(matrices).tocsr()
    order = np.arange(n_states * pairs.n_actions).reshape(pairs.n_actions, n_states).T.ravel()
    return _from_csr(by_action[order], pairs)


def _from_lists(transitions: Any, pairs: Pairs) -> Rows:
    row: list[int] = []
    column: list[Any] = []
    value: list[Any] = []
    for pair, (s, a) in enumerate(zip(pairs.states.tolist(), pairs.actions.tolist(), strict=True)):
        try:
            successors = transitions[s][a]
            items = successors.items() if isinstance(successors, Mapping) else successors
            entries = [(target, probability) for target, probability in items]
        except (TypeError, ValueError, KeyError, IndexError):
            raise InvalidMDP(
                f"{place(pairs, pair)}: a mapping next state -> probability, or a list of "
                "(next state, probability) pairs, is expected"
            ) from None
        for target, probability in entries:
            if isinstance(target, bool) or not isinstance(target, (int, np.integer)):
                raise InvalidMDP(f"{place(pairs, pair)}: next state {target!r} is not an integer")
            if not 0 <= target < pairs.n_states:
                raise InvalidMDP(
                    f"{place(pairs, pair)}: next state {target} is not in 0..{pairs.n_states - 1}"
                )
            row.append(pair)
            column.append(target)
            value.append(probability)
    try:
        data = np.array(value, dtype=np.float64)
    except (TypeError, ValueError):
        raise InvalidMDP("transitions contain a probability that is not a number") from None
    return _compress(np.array(row, np.int64), np.array(column, np.int64), data, pairs.n_pairs)


def _compress(row: Any, column: Any, value: Any, n_rows: int) -> Rows:
    order = np.lexsort((column, row))
    row, column, value = row[order], column[order], np.asarray(value, np.float64)[order]
    if len(row):
        repeated = np.concatenate([[False], (row[1:] == row[:-1]) & (column[1:] == column[:-1])])
        group = np.cumsum(~repeated) - 1
        value = np.bincount(group, weights=value) if not np.isnan(value).any() else value[~repeated]
        row, column = row[~repeated], column[~repeated]
    indptr = np.concatenate([[0], np.cumsum(np.bincount(row, minlength=n_rows))]).astype(np.int64)
    return Rows(indptr, column.astype(np.uint32), value)


def _checked(rows: Rows, pairs: Pairs) -> Rows:
    indptr, successors, probabilities = rows
    owner = np.repeat(np.arange(pairs.n_pairs), np.diff(indptr))
    bad = np.nonzero(~((probabilities >= 0.0) & np.isfinite(probabilities)))[0]
    if len(bad):
        k = bad[0]
        raise InvalidMDP(
            f"{place(pairs, owner[k])}: probability {probabilities[k]} of next state "
            f"{successors[k]} is not a number >= 0"
        )
    sums = np.bincount(owner, weights=probabilities, minlength=pairs.n_pairs)
    bad = np.nonzero(np.abs(sums - 1.0) > ROW_SUM_TOLERANCE)[0]
    if len(bad):
        where = place(pairs, bad[0])
        raise InvalidMDP(f"{where}: probabilities sum to {sums[bad[0]]:.12g}, not to 1")
    probabilities = probabilities / sums[owner]
    keep = probabilities > 0.0
    if not keep.all():
        kept = np.bincount(owner[keep], minlength=pairs.n_pairs)
        indptr = np.concatenate([[0], np.cumsum(kept)]).astype(np.int64)
        successors, probabilities = successors[keep], probabilities[keep]
    return Rows(indptr, np.ascontiguousarray(successors), np.ascontiguousarray(probabilities))


def place(pairs: Pairs, pair: Any) -> str:
    """How a pair is named in messages."""
    state = int(np.searchsorted(pairs.starts, pair, side="right")) - 1
    return f"state {state}, action {int(pairs.actions[pair])}"
