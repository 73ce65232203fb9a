"""Parse transitions and mean rewards in all accepted forms.

Dense arrays, `scipy.sparse` matrices and successor lists all become one successor list per pair:
row x holds the successors `successors[indptr[x]:indptr[x+1]]`, increasing, with positive
probabilities that sum to 1. Anything else raises an error that names the state, the action and the
wrong value.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from switchmdp.errors import InvalidMDP
from switchmdp.mdp.pairs import Pairs
from switchmdp.validation import is_number

ROW_SUM_TOLERANCE = 1e-6  # rows given in single precision, or written out to six digits


class Rows(NamedTuple):
    """One successor list per pair, in compressed form."""

    indptr: NDArray[np.int64]
    successors: NDArray[np.uint32]
    probabilities: NDArray[np.float64]


def numbers(value: Any, what: str) -> NDArray[np.float64]:
    """A value as an array of doubles; strings, booleans, complex numbers and objects are not."""
    try:
        array = np.asarray(value)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise InvalidMDP(f"{what} must be an array of numbers: {error}") from None
    if array.dtype.kind not in "fiu":
        raise InvalidMDP(f"{what} must be an array of numbers, got {array.dtype}")
    return array.astype(np.float64)


def parse_means(rewards: Any) -> NDArray[np.float64]:
    """The (S, A) array of mean rewards, not yet checked for range."""
    means = numbers(rewards, "rewards")
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
        rows = _from_sparse(transitions, pairs)
    elif isinstance(transitions, (list, tuple)) and any(hasattr(m, "tocsr") for m in transitions):
        rows = _from_matrices(transitions, pairs)
    else:
        dense = _as_dense(transitions)
        rows = _from_lists(transitions, pairs) if dense is None else _from_dense(dense, pairs)
    return _checked(rows, pairs)


def parse_stack(rows: NDArray[np.float64], means: NDArray[np.float64]) -> Rows:
    """Successor lists of (k, pairs, S) probabilities, as if they were pairs of one large MDP."""
    n, n_pairs, n_states = rows.shape
    pairs = Pairs.of(n * n_pairs, 1)
    check_means(means.reshape(-1, 1), pairs)
    return _checked(_from_dense_rows(rows.reshape(-1, n_states), pairs), pairs)


def _as_dense(transitions: Any) -> NDArray[np.float64] | None:
    if isinstance(transitions, np.ndarray):
        return numbers(transitions, "transitions")
    dense = _numbers_or_none(transitions)
    # [[[(next, p), ...]]] of equal lengths is a four-dimensional array, and not a dense model.
    return dense.astype(np.float64) if dense is not None and dense.ndim == 3 else None


def _numbers_or_none(value: Any) -> NDArray[Any] | None:
    """A value as an array of numbers, or None if it is something else."""
    try:
        array = np.asarray(value)
    except (TypeError, ValueError, OverflowError, RecursionError):
        return None
    return array if array.dtype.kind in "fiu" else None


def _from_dense(dense: NDArray[np.float64], pairs: Pairs) -> Rows:
    expected = (pairs.n_states, pairs.n_actions, pairs.n_states)
    if dense.shape != expected:
        sizes = f"the rewards are {pairs.n_states} x {pairs.n_actions}"
        raise InvalidMDP(f"transitions must have shape {expected} ({sizes}), got {dense.shape}")
    return _from_dense_rows(dense[pairs.states, pairs.actions], pairs)


def _from_dense_rows(rows: NDArray[np.float64], pairs: Pairs) -> Rows:
    row, column = np.nonzero(rows)  # in order, and none twice
    value = _must_be_probabilities(row, column, rows[row, column], pairs)
    return _listed(row, column, value, pairs)


def _from_sparse(matrix: Any, pairs: Pairs) -> Rows:
    expected = (pairs.n_states * pairs.n_actions, pairs.n_states)
    entries = _entries(matrix)
    if entries.shape != expected:
        raise InvalidMDP(
            "a sparse matrix of transitions has a row s * n_actions + a for each state and action: "
            f"shape {expected} expected, got {entries.shape}"
        )
    pair_of = np.full(expected[0], -1)
    pair_of[pairs.states * pairs.n_actions + pairs.actions] = np.arange(pairs.n_pairs)
    row, column, value = pair_of[entries.row], entries.col, entries.data
    if pairs.n_pairs < expected[0]:
        row, column, value = row[row >= 0], column[row >= 0], value[row >= 0]
    return _compress(row, column, value, pairs)


def _from_matrices(matrices: Any, pairs: Pairs) -> Rows:
    from scipy.sparse import coo_array

    n_states, n_actions = pairs.n_states, pairs.n_actions
    parts = [_entries(matrix) for matrix in matrices]
    if [part.shape for part in parts] != [(n_states, n_states)] * n_actions:
        raise InvalidMDP(
            f"{n_actions} sparse matrices of shape {(n_states, n_states)} expected "
            f"(one per action), got {[part.shape for part in parts]}"
        )
    rows = np.concatenate([part.row * n_actions + a for a, part in enumerate(parts)])
    columns = np.concatenate([part.col for part in parts])
    data = np.concatenate([part.data for part in parts])
    return _from_sparse(coo_array((data, (rows, columns)), (n_states * n_actions, n_states)), pairs)


def _entries(matrix: Any) -> Any:
    """A sparse matrix as (row, column, value) triples, its indices checked."""
    try:
        if hasattr(matrix, "check_format"):
            matrix.check_format(full_check=True)
        entries = matrix.tocoo()
        fits = entries.ndim == 2 and entries.data.dtype.kind in "fiu"
    except (TypeError, ValueError, AttributeError, IndexError) as error:
        raise InvalidMDP(f"transitions are not a sparse matrix of numbers: {error}") from None
    if not fits:
        raise InvalidMDP(f"transitions must be numbers, got a sparse matrix of {entries.dtype}")
    return entries


def _from_lists(transitions: Any, pairs: Pairs) -> Rows:
    _must_have(transitions, pairs.n_states, "transitions", "states")
    row: list[int] = []
    column: list[int] = []
    value: list[float] = []
    for s in range(pairs.n_states):
        if isinstance(transitions, Mapping) and s not in transitions:
            raise InvalidMDP(f"transitions have no entry for state {s}")
        _must_have(transitions[s], pairs.n_actions, f"transitions of state {s}", "actions")
        for pair in range(pairs.starts[s], pairs.starts[s + 1]):
            for target, probability in _items(transitions[s], pairs, pair):
                row.append(pair)
                column.append(target)
                value.append(probability)
    return _compress(np.array(row, np.int64), np.array(column, np.int64), np.array(value), pairs)


def _must_have(container: Any, size: int, what: str, of: str) -> None:
    known = isinstance(container, (Mapping, Sequence, np.ndarray))
    if not known or isinstance(container, (str, bytes)):
        raise InvalidMDP(f"{what} must be a list or a mapping over the {of}, got {container!r}")
    if isinstance(container, Mapping):
        for key in container:
            if not is_number(key) or key not in range(size):
                raise InvalidMDP(f"{what}: {key!r} is not one of the {size} {of}")
    elif len(container) != size:
        raise InvalidMDP(f"{what} must be over {size} {of}, got {len(container)}")


def _items(actions: Any, pairs: Pairs, pair: int) -> Iterator[tuple[int, float]]:
    """The (next state, probability) entries of one pair."""
    where = place(pairs, pair)
    try:
        successors = actions[int(pairs.actions[pair])]
        is_mapping = isinstance(successors, Mapping)
        row = None if is_mapping else _numbers_or_none(successors)
        if row is not None and row.shape == (pairs.n_states,):
            entries = list(enumerate(row.tolist()))
        else:
            entries = [(t, p) for t, p in (successors.items() if is_mapping else successors)]
    except (TypeError, ValueError, KeyError, IndexError):
        raise InvalidMDP(
            f"{where}: a row of {pairs.n_states} probabilities, a mapping next state -> "
            "probability, or a list of (next state, probability) pairs is expected"
        ) from None
    for target, probability in entries:
        if not isinstance(target, (int, np.integer)) or isinstance(target, bool):
            raise InvalidMDP(f"{where}: next state {target!r} is not an integer")
        if not 0 <= target < pairs.n_states:
            raise InvalidMDP(f"{where}: next state {target} is not in 0..{pairs.n_states - 1}")
        if not is_number(probability):
            raise InvalidMDP(
                f"{where}: probability {probability!r} of next state {target} is not a number"
            )
        try:
            yield int(target), float(probability)
        except OverflowError:
            raise InvalidMDP(f"{where}: probability {probability!r} is too large") from None


def _compress(row: Any, column: Any, value: Any, pairs: Pairs) -> Rows:
    """Sort by row and column, check, and add up duplicates."""
    value = _must_be_probabilities(row, column, np.asarray(value, np.float64), pairs)
    if _is_sorted(row, column):  # as a rule; large problems then need half the memory
        return _listed(row, column, value, pairs)
    order = np.lexsort((column, row))
    row, column, value = row[order], column[order], value[order]
    if len(row):
        repeated = np.concatenate([[False], (row[1:] == row[:-1]) & (column[1:] == column[:-1])])
        value = np.bincount(np.cumsum(~repeated) - 1, weights=value)
        row, column = row[~repeated], column[~repeated]
    return _listed(row, column, value, pairs)


def _is_sorted(row: Any, column: Any) -> bool:
    """Whether entries are in order and none occurs twice."""
    onward = row[1:] > row[:-1]
    onward |= (row[1:] == row[:-1]) & (column[1:] > column[:-1])
    return bool(onward.all())


def _listed(row: Any, column: Any, value: Any, pairs: Pairs) -> Rows:
    """Sorted entries as successor lists."""
    indptr = np.zeros(pairs.n_pairs + 1, np.int64)
    np.cumsum(np.bincount(row, minlength=pairs.n_pairs), out=indptr[1:])
    return Rows(indptr, column.astype(np.uint32), value)


def _must_be_probabilities(row: Any, column: Any, value: Any, pairs: Pairs) -> Any:
    bad = np.nonzero(~((value >= 0.0) & np.isfinite(value)))[0]
    if len(bad):
        k = bad[0]
        raise InvalidMDP(
            f"{place(pairs, row[k])}: probability {value[k]} of next state {column[k]} is not a "
            "number >= 0"
        )
    return value


def _checked(rows: Rows, pairs: Pairs) -> Rows:
    """Normalise rows that sum to 1 and drop zeros; raise an error for other rows."""
    indptr, successors, probabilities = rows
    owner = np.repeat(np.arange(pairs.n_pairs), np.diff(indptr))
    sums = np.bincount(owner, weights=probabilities, minlength=pairs.n_pairs)
    bad = np.nonzero(~(np.abs(sums - 1.0) <= ROW_SUM_TOLERANCE))[0]
    if len(bad):
        where = place(pairs, bad[0])
        raise InvalidMDP(f"{where}: probabilities sum to {sums[bad[0]]:.12g}, not to 1")
    divisors = sums[owner]
    probabilities = np.divide(probabilities, divisors, out=divisors)
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
