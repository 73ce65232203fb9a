"""Policies of MDPs too large for a dense matrix, by sparse factorisation (SciPy's SuperLU).

The last method that `gain` tries, for long chains, whose factors stay sparse. Unlike state
reduction it subtracts, so each solution is refined and checked: biases by `certify`, the gain of a
closed class by its distance to r + Ph - h, and the probabilities of ending in each class by their
sum, which is 1.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from switchmdp.errors import PrecisionNotReached
from switchmdp.mdp.model import Model
from switchmdp.planning.evaluation import route_to_class
from switchmdp.planning.iteration import DONE, LIMIT, MAX_ITERATIONS, ROUNDING, certify

GAIN_ERROR = 1e-9

Vector = NDArray[np.float64]


def iterate_large_policies(
    model: Model, choice: NDArray[np.int64], bias: Vector, tolerance: float
) -> tuple[float, float, int]:
    """Policy iteration as in `iteration.iterate_policies`, on sparse matrices."""
    lower, upper = 0.0, 1.0
    for _ in range(MAX_ITERATIONS):
        matrix, rewards = _chain(model, choice)
        members = _one_of_each_closed_class(matrix)
        member = members[0]
        if len(members) > 1:
            gains = gains_of_large_chain(model, choice)
            member = max(members, key=lambda s: gains[s])
            route_to_class(model, choice, member)
            matrix, rewards = _chain(model, choice)
        if not np.isfinite(_solve_bias(matrix, rewards, member, bias)):
            return lower, upper, ROUNDING
        low, high, switched = certify(model, bias, choice, True)
        lower, upper = max(lower, low), min(upper, high)
        if high - low <= tolerance:
            return lower, upper, DONE
        if switched == 0:
            return lower, upper, ROUNDING
    return lower, upper, LIMIT


def gains_of_large_chain(model: Model, choice: NDArray[np.int64]) -> Vector:
    """The gain of a policy from each state: closed classes first, then what leads to them."""
    matrix, rewards = _chain(model, choice)
    gain = np.full(len(rewards), np.nan)
    for member in _one_of_each_closed_class(matrix):
        inside = np.nonzero(_reached(matrix, member))[0]
        scratch = np.zeros(len(inside))
        part = matrix[inside][:, inside]
        gain[inside] = _solve_bias(
            part, rewards[inside], int(np.nonzero(inside == member)[0][0]), scratch
        )
        onward = rewards[inside] + _drift(part, scratch)
        _require(np.abs(onward - gain[inside]).max(), rewards)
    open_states = np.nonzero(np.isnan(gain))[0]
    if len(open_states):
        closed = np.nonzero(~np.isnan(gain))[0]
        system = _identity_minus(matrix)[open_states][:, open_states]
        exits = matrix[open_states][:, closed]
        factors = _factorised(system.tocsc())
        if factors is None:
            _require(np.nan, rewards)
        gain[open_states] = factors.solve(exits @ gain[closed])
        _require(np.abs(factors.solve(exits.sum(axis=1)) - 1.0).max(), rewards)
    return gain


def _require(error: float, rewards: Vector) -> None:
    if not error <= GAIN_ERROR:
        raise PrecisionNotReached(
            f"the gain of this policy of {len(rewards)} states is uncertain by {error:.3g}",
            float(rewards.min()), float(rewards.max()),
        )  # fmt: skip


def _factorised(matrix: Any) -> Any:
    """SuperLU's factors, or None if rounding has made the matrix singular."""
    from scipy.sparse.linalg import splu

    try:
        return splu(matrix)
    except RuntimeError:
        return None


def _drift(matrix: Any, h: Vector) -> Vector:
    """Σ p (h' - h(s)) of each state."""
    edges = matrix.tocoo()
    weights = edges.data * (h[edges.col] - h[edges.row])
    return np.bincount(edges.row, weights, len(h)).astype(np.float64)


def _chain(model: Model, choice: NDArray[np.int64]) -> tuple[Any, Vector]:
    from scipy.sparse import csr_array

    rows = model.row[choice]
    width = model.stop[rows] - model.start[rows]
    indptr = np.concatenate([[0], np.cumsum(width)])
    inside = np.arange(indptr[-1]) - np.repeat(indptr[:-1], width)
    entries = np.repeat(model.start[rows], width) + inside
    shape = (len(choice), len(choice))
    matrix = csr_array((model.probabilities[entries], model.successors[entries], indptr), shape)
    return matrix, model.mean[rows]


def _one_of_each_closed_class(matrix: Any) -> list[int]:
    from scipy.sparse.csgraph import connected_components

    count, label = connected_components(matrix, directed=True, connection="strong")
    edges = matrix.tocoo()
    closed = np.ones(count, bool)
    closed[label[edges.row[label[edges.row] != label[edges.col]]]] = False
    _, first = np.unique(label, return_index=True)
    return [int(s) for s in first[closed]]


def _reached(matrix: Any, member: int) -> NDArray[np.bool_]:
    from scipy.sparse.csgraph import breadth_first_order

    seen = np.zeros(matrix.shape[0], bool)
    seen[breadth_first_order(matrix, member, return_predecessors=False)] = True
    return seen


def _identity_minus(matrix: Any) -> Any:
    """I - P, with the diagonal as the sum of the other entries: 1 - p_ss would lose digits."""
    from scipy.sparse import csr_array, diags_array

    edges = matrix.tocoo()
    away = edges.row != edges.col
    others = csr_array((edges.data[away], (edges.row[away], edges.col[away])), matrix.shape)
    return (diags_array(others.sum(axis=1)) - others).tocsr()


def _factors(matrix: Any, member: int) -> Any:
    """I - P with ones in the column of `member`, factorised; None if that is singular."""
    from scipy.sparse import csc_array

    n_states = matrix.shape[0]
    system = _identity_minus(matrix).tocoo()
    keep = system.col != member
    entries = np.concatenate([system.data[keep], np.ones(n_states)])
    rows = np.concatenate([system.row[keep], np.arange(n_states)])
    columns = np.concatenate([system.col[keep], np.full(n_states, member)])
    return _factorised(csc_array((entries, (rows, columns)), system.shape))


def _solve_bias(matrix: Any, rewards: Vector, member: int, bias: Vector) -> float:
    """Solve (I - P) h + g = r with h = 0 at a state of the class, whose unknown becomes g.

    As in `evaluation`, that state must be visited often. The stationary distribution, from which
    this follows, solves the transposed system. Returns g, or NaN if the matrix is singular.
    """
    n_states = len(rewards)
    if n_states == 1:
        bias[0] = 0.0
        return float(rewards[0])
    factors = _factors(matrix, member)
    if factors is None:
        return float("nan")
    visits = factors.solve(np.eye(1, n_states, member)[0], trans="T")
    if visits.max() > 4.0 * visits[member]:
        member = int(np.argmax(visits))
        factors = _factors(matrix, member)
        if factors is None:
            return float("nan")
    solution = factors.solve(rewards)
    for _ in range(2):
        h = solution.copy()
        h[member] = 0.0
        solution += factors.solve(rewards + _drift(matrix, h) - solution[member])
    gain = float(solution[member])
    solution[member] = 0.0
    bias[:] = solution
    return gain
