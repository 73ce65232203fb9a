"""Parse transitions and mean rewards in all accepted forms.

Dense arrays, `scipy.sparse` matrices and successor lists all become one successor list per pair:
row x holds the successors `successors[indptr[x]:indptr[x+1]]`, increasing, with positive
probabilities that sum to 1. Anything else raises an error that names the state, the action and the
wrong value.

Every form is first read as entries (row, successor, probability). `compress` then checks, sorts and
normalises them, whatever they came from.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from switchmdp.errors import InvalidMDP
from switchmdp.mdp.pairs import Pairs
from switchmdp.validation import is_number

ROW_SUM_TOLERANCE = 1e-6  # rows given in single precision, or written out to six digits

Place = Callable[[Any], str]  # how a row is named in messages


class Rows(NamedTuple):
    """One successor list per pair, in compressed form."""

    indptr: NDArray[np.int64]
    successors: NDArray[np.uint32]
    probabilities: NDArray[np.float64]


class Entries(NamedTuple):
    """Probabilities with their rows and successors, in any order; duplicates are added up."""

    row: NDArray[np.int64]
    successor: NDArray[Any]
    probability: NDArray[Any]


def numbers(value: Any, what: str) -> NDArray[np.float64]:
    """A value as an array of doubles; strings, booleans, complex numbers and objects are not."""
    try:
        array = np.asarray(value)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise InvalidMDP(f"{what} must be an array of numbers: {error}") from None
    if np.ma.is_masked(value):  # `asarray` would use the numbers behind the mask
        raise InvalidMDP(f"{what} must be an array without masked entries")
    if array.dtype.kind not in "fiu":
        raise InvalidMDP(f"{what} must be an array of numbers, got {array.dtype}")
    return array.astype(np.float64)


def parse_means(rewards: Any) -> NDArray[np.float64]:
    """The (S, A) array of mean rewards, not yet checked for range."""
    means = numbers(rewards, "rewards")
    if means.ndim != 2 or 0 in means.shape:
        advice = ""
        if means.ndim == 3:
            advice = "; for rewards that depend on the next state, pass their means over it"
        raise InvalidMDP(
            "rewards must be a (states, actions) array with at least one state and one action, "
            f"got shape {means.shape}{advice}"
        )
    return means


def check_means(means: NDArray[np.float64], pairs: Pairs) -> NDArray[np.float64]:
    """The mean of each pair; those of unavailable actions are ignored."""
    chosen = means[pairs.states, pairs.actions]
    bad = np.nonzero(~((chosen >= 0.0) & (chosen <= 1.0)))[0]
    if len(bad):
        where = place(pairs, bad[0])
        advice = "scale the rewards first"
        raise InvalidMDP(f"{where}: mean reward {chosen[bad[0]]} is outside [0, 1]; {advice}")
    return chosen


def parse_rows(transitions: Any, pairs: Pairs) -> Rows:
    """Successor lists of the available pairs from any of the accepted forms."""
    where = partial(place, pairs)
    if isinstance(transitions, Entries):
        entries = transitions
    elif hasattr(transitions, "tocsr"):
        entries = _from_sparse(transitions, pairs)
    elif isinstance(transitions, (list, tuple)) and any(hasattr(m, "tocsr") for m in transitions):
        entries = _from_matrices(transitions, pairs)
    else:
        dense = _as_dense(transitions)
        if dense is None:
            entries = entries_of_each(_rows_of_lists(transitions, pairs), pairs.n_states, where)
        else:
            entries = _from_dense(dense, pairs)
    return compress(entries, pairs.n_pairs, where)


def compress(entries: Entries, n_rows: int, where: Place) -> Rows:
    """Check probabilities, sort them, add up duplicates, normalise rows and drop zeros."""
    row, successor = entries.row, entries.successor
    value = np.asarray(entries.probability, np.float64)
    bad = np.nonzero(~((value >= 0.0) & np.isfinite(value)))[0]
    if len(bad):
        k = bad[0]
        raise InvalidMDP(
            f"{where(row[k])}: probability {value[k]} of next state {successor[k]} is not a "
            "number >= 0"
        )
    onward = row[1:] > row[:-1]
    onward |= (row[1:] == row[:-1]) & (successor[1:] > successor[:-1])
    if not onward.all():  # as a rule they are sorted; large problems then need half the memory
        order = np.lexsort((successor, row))
        row, successor, value = row[order], successor[order], value[order]
        new = np.ones(len(row), bool)
        new[1:] = (row[1:] != row[:-1]) | (successor[1:] != successor[:-1])
        value = np.bincount(np.cumsum(new) - 1, weights=value).astype(np.float64)
        row, successor = row[new], successor[new]
    sums = np.bincount(row, weights=value, minlength=n_rows)
    bad = np.nonzero(~(np.abs(sums - 1.0) <= ROW_SUM_TOLERANCE))[0]
    if len(bad):
        raise InvalidMDP(f"{where(bad[0])}: probabilities sum to {sums[bad[0]]:.12g}, not to 1")
    divisors = sums[row]
    value = np.divide(value, divisors, out=divisors)
    keep = value > 0.0
    if not keep.all():
        row, successor, value = row[keep], successor[keep], value[keep]
    indptr = np.zeros(n_rows + 1, np.int64)
    np.cumsum(np.bincount(row, minlength=n_rows), out=indptr[1:])
    return Rows(indptr, successor.astype(np.uint32), value)


def dense_entries(rows: NDArray[np.float64]) -> Entries:
    """The entries of (n, S) probabilities."""
    row, column = np.nonzero(rows)
    return Entries(row, column, rows[row, column])


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


def _from_dense(dense: NDArray[np.float64], pairs: Pairs) -> Entries:
    expected = (pairs.n_states, pairs.n_actions, pairs.n_states)
    if dense.shape != expected:
        sizes = f"the rewards are {pairs.n_states} x {pairs.n_actions}"
        shape = f"transitions must have shape {expected} ({sizes}), got {dense.shape}"
        raise InvalidMDP(f"{shape}{_transposed(dense.shape, pairs)}")
    return dense_entries(dense[pairs.states, pairs.actions])


def _transposed(shape: tuple[int, ...], pairs: Pairs) -> str:
    """Advice if rewards or transitions have their actions in the wrong place."""
    n, m = pairs.n_states, pairs.n_actions  # actions and states, if the rewards are transposed
    advice = {
        (m, n, m): "the rewards have the actions first: pass np.transpose(rewards)",
        (m, n, n): "the transitions have the actions first: pass np.moveaxis(transitions, 0, 1)",
        (n, n, m): "the transitions have the actions last: pass np.moveaxis(transitions, 2, 1)",
        (n, m, m): "rewards and transitions have the actions first: pass np.transpose(rewards) and "
        "np.moveaxis(transitions, 0, 1)",
    }
    return f"; {advice[shape]}" if shape in advice else ""


def _from_sparse(matrix: Any, pairs: Pairs) -> Entries:
    expected = (pairs.n_states * pairs.n_actions, pairs.n_states)
    shape, entries = _sparse_entries(matrix)
    if shape != expected:
        raise InvalidMDP(
            "a sparse matrix of transitions has a row s * n_actions + a for each state and action: "
            f"shape {expected} expected, got {shape}"
        )
    return _of_available(entries, pairs)


def _from_matrices(matrices: Any, pairs: Pairs) -> Entries:
    n_states, n_actions = pairs.n_states, pairs.n_actions
    shapes, parts = zip(*map(_sparse_entries, matrices), strict=True)
    if list(shapes) != [(n_states, n_states)] * n_actions:
        raise InvalidMDP(
            f"{n_actions} sparse matrices of shape {(n_states, n_states)} expected "
            f"(one per action), got {list(shapes)}"
        )
    rows = [part.row.astype(np.int64) * n_actions + a for a, part in enumerate(parts)]
    columns = [part.successor for part in parts]
    values = [part.probability for part in parts]
    together = Entries(np.concatenate(rows), np.concatenate(columns), np.concatenate(values))
    return _of_available(together, pairs)


def _sparse_entries(matrix: Any) -> tuple[tuple[int, ...], Entries]:
    """The shape and the entries of a sparse matrix, its indices checked."""
    try:
        if hasattr(matrix, "check_format"):
            matrix.check_format(full_check=True)
        entries = matrix.tocoo()
        fits = entries.ndim == 2 and entries.data.dtype.kind in "fiu"
    except (TypeError, ValueError, AttributeError, IndexError) as error:
        raise InvalidMDP(f"transitions are not a sparse matrix of numbers: {error}") from None
    if not fits:
        raise InvalidMDP(f"transitions must be numbers, got a sparse matrix of {entries.dtype}")
    return entries.shape, Entries(entries.row, entries.col, entries.data)


def _of_available(entries: Entries, pairs: Pairs) -> Entries:
    """Entries of rows s * n_actions + a as those of pairs; unavailable actions are ignored."""
    pair_of = np.full(pairs.n_states * pairs.n_actions, -1)
    pair_of[pairs.states * pairs.n_actions + pairs.actions] = np.arange(pairs.n_pairs)
    row, successor, probability = pair_of[entries.row], entries.successor, entries.probability
    if pairs.n_pairs < len(pair_of):
        kept = row >= 0
        row, successor, probability = row[kept], successor[kept], probability[kept]
    return Entries(row, successor, probability)


def _rows_of_lists(transitions: Any, pairs: Pairs) -> Iterable[Any]:
    """The row of each pair from transitions[s][a]."""
    by_action = isinstance(transitions, Sequence) and len(transitions) == pairs.n_actions
    what = "transitions (with the states first: transitions[s][a])" if by_action else "transitions"
    _must_have(transitions, pairs.n_states, what, "states")
    for s in range(pairs.n_states):
        if isinstance(transitions, Mapping) and s not in transitions:
            raise InvalidMDP(f"transitions have no entry for state {s}")
        _must_have(transitions[s], pairs.n_actions, f"transitions of state {s}", "actions")
        for action in pairs.at(s):
            try:
                yield transitions[s][action]
            except (KeyError, IndexError):
                yield None


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


def entries_of_each(rows: Iterable[Any], n_states: int, where: Place) -> Entries:
    """Rows given one by one: as n_states numbers, a mapping, or (next state, probability) pairs."""
    row: list[int] = []
    successor: list[int] = []
    probability: list[float] = []
    for x, given in enumerate(rows):
        vector = None if isinstance(given, Mapping) else _numbers_or_none(given)
        if vector is not None and vector.shape == (n_states,):
            successor += range(n_states)
            probability += vector.tolist()
        else:
            try:
                pairs = given.items() if isinstance(given, Mapping) else given
                listed = [(_as_state(target, given), value) for target, value in pairs]
            except (TypeError, ValueError):
                raise InvalidMDP(
                    f"{where(x)}: a row of {n_states} probabilities, a mapping next state -> "
                    "probability, or a list of (next state, probability) pairs is expected, "
                    f"got {given!r}"
                ) from None
            for target, value in listed:
                fault = _fault(target, value, n_states)
                if fault:
                    raise InvalidMDP(f"{where(x)}: {fault}")
                successor.append(int(target))
                probability.append(float(value))
        row += [x] * (len(successor) - len(row))
    return Entries(np.array(row, np.int64), np.array(successor, np.int64), np.array(probability))


def _as_state(target: Any, row: Any) -> Any:
    """A next state; an array of (next state, probability) has whole numbers as floats."""
    whole = isinstance(row, np.ndarray) and isinstance(target, float) and target.is_integer()
    return int(target) if whole else target


def _fault(target: Any, value: Any, n_states: int) -> str | None:
    """The fault of an entry of a row."""
    if not isinstance(target, (int, np.integer)) or isinstance(target, bool):
        return f"next state {target!r} is not an integer"
    if not 0 <= target < n_states:
        return f"next state {target} is not in 0..{n_states - 1}"
    if not is_number(value):
        return f"probability {value!r} of next state {target} is not a number"
    try:
        float(value)
    except OverflowError:
        return f"probability {value!r} is too large"
    return None


def place(pairs: Pairs, pair: Any) -> str:
    """How a pair is named in messages."""
    state = int(np.searchsorted(pairs.starts, pair, side="right")) - 1
    return f"state {state}, action {int(pairs.actions[pair])}"
