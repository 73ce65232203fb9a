"""The optimal gain of an MDP with many states.

**Value iteration** as in `iteration`: a sweep over all actions, then a few over the greedy policy.
It starts without the aperiodicity transform, which makes mixing chains converge more slowly, and
turns it on as soon as a round does not shrink the span. The gain is subtracted in every update, so
that the bias stays bounded.

**Policy iteration by components.** If rewards are collected on a cycle, as on a ring, value
iteration needs many times as many sweeps as the cycle has states. But then a policy is evaluated
quickly. Its graph is split into strongly connected components, which are solved one after another,
each after those that it leads to. In a component in which all cycles pass through one state v
(apart from steps that stay where they are), a depth-first search finishes every state after its
successors other than v. In that order

    a_s = ( r_s + Σ_{t≠s,v} p_st a_t ) / Σ_{t≠s} p_st

is an expected total from s until the chain reaches v or leaves: the rewards; the time, with r = 1;
or the probability of leaving, with r = Σ p over the states outside. All terms are
positive. A closed component, which can't be left, has the gain reward / time of v; elsewhere h(v)
follows from what is outside and the probability of leaving. That takes O(states + transitions of
the policy). If several components are closed, the best one is kept and all other states are routed
to it, as in `iteration`.

**Policy iteration with sparse factors** (SciPy's SuperLU), for policies with other components, such
as long chains, whose factors stay sparse. Unlike state reduction it subtracts, so each solution is
refined and checked: the gain of a closed class by its distance to r + Ph - h, and the probabilities
of ending in each class by their sum, which is 1.

All end with `iteration.certify`, so the bracket holds however the bias was computed.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from switchmdp.compiled import entry, index, jit
from switchmdp.errors import MissingExtra, PrecisionNotReached
from switchmdp.mdp.model import Model, extend_backwards, predecessors
from switchmdp.planning.iteration import (
    DONE,
    LIMIT,
    MAX_ITERATIONS,
    POLICY_SWEEPS,
    ROUNDING,
    STEP,
    certify,
    route_to_class,
)

QUICK = 64  # rounds; if value iteration needs more, components are tried first
CHECKED = 8  # rounds between two estimates of how many are needed
GAIN_ERROR = 1e-9

Vector = NDArray[np.float64]

# Value iteration.


@jit
def sweep_actions(
    model: Any, bias: Any, updated: Any, choice: Any, step: float, gain: float
) -> tuple[float, float]:
    """updated = h + step (Th - gain - h) and the greedy policy; (smallest, largest) of Th - h."""
    starts, row, start, stop, mean = model.starts, model.row, model.start, model.stop, model.mean
    successors, probabilities = model.successors, model.probabilities
    smallest, largest = np.inf, -np.inf
    for s in range(bias.size):
        best_value, best = -np.inf, index(0)
        for pair in range(index(starts[index(s)]), index(starts[index(s + 1)])):
            y = index(row[pair])
            value = mean[y]
            for k in range(index(start[y]), index(stop[y])):
                value += probabilities[k] * bias[index(successors[k])]
            # No branch: it would often be mispredicted.
            best = pair if value > best_value else best
            best_value = value if value > best_value else best_value
        choice[index(s)] = best
        change = best_value - bias[index(s)]
        updated[index(s)] = bias[index(s)] + step * (change - gain)
        smallest, largest = min(smallest, change), max(largest, change)
    return smallest, largest


@jit
def sweep_choice(
    model: Any, bias: Any, updated: Any, choice: Any, step: float, gain: float
) -> None:
    """updated = h + step (T_π h - gain - h)."""
    row, start, stop, mean = model.row, model.start, model.stop, model.mean
    successors, probabilities = model.successors, model.probabilities
    for s in range(bias.size):
        y = index(row[index(choice[index(s)])])
        value = mean[y]
        for k in range(index(start[y]), index(stop[y])):
            value += probabilities[k] * bias[index(successors[k])]
        here = bias[index(s)]
        updated[index(s)] = here + step * (value - gain - here)


@jit
def same_choice(choice: Any, then: Any) -> bool:
    """Whether two policies are the same; the second becomes the first."""
    changed = 0
    for s in range(choice.size):
        changed += choice[s] != then[s]
        then[s] = choice[s]
    return bool(changed == 0)


@entry
def iterate_large_values(
    model: Any, choice: Any, bias: Any, tolerance: float, budget: int, patient: bool
) -> Any:
    """(lower, upper, status); LIMIT as soon as the observed contraction is too slow for `budget`.

    While the policy still changes, for example along a chain, the contraction is a poor estimate:
    with `patient` it is measured only while the policy stays the same.
    """
    here, there = bias.copy(), np.empty(bias.size)
    then = choice.copy()
    step, gain = 1.0, 0.5
    span, earlier = np.inf, np.inf
    lower, upper, status = 0.0, 1.0, LIMIT
    for sweep in range(1, budget + 1):
        smallest, largest = sweep_actions(model, here, there, choice, step, gain)
        before, span = span, largest - smallest
        if span <= 0.5 * tolerance:
            lower, upper, _ = certify(model, here, choice, False)
            if upper - lower <= tolerance:
                status = DONE
                break
            if span <= 0.1 * tolerance:
                status = ROUNDING
                break
        if span > 0.9 * before:
            step = STEP
        if sweep % CHECKED == 0 and (not patient or sweep % (2 * CHECKED) == 0):
            settled = same_choice(choice, then) or not patient
            if settled and earlier < np.inf:
                if span >= earlier * 0.999:
                    break
                shrinkage = math.log(earlier / span) / (2 * CHECKED if patient else CHECKED)
                if math.log(span / tolerance) > shrinkage * (budget - sweep):
                    break
            earlier = span if settled else np.inf
        gain = (smallest + largest) / 2.0
        here, there = there, here
        for _ in range(POLICY_SWEEPS):
            sweep_choice(model, here, there, choice, step, gain)
            here, there = there, here
        # One sweep less: if the span will be small enough, the certificate is the next sweep.
        if before < np.inf and span / before * span <= 0.25 * tolerance:
            lower, upper, _ = certify(model, here, choice, False)
            if upper - lower <= tolerance:
                status = DONE
                break
    if status == LIMIT:
        lower, upper, _ = certify(model, here, choice, False)
    bias[:] = here
    return lower, upper, status


# Policy iteration by components.


@jit
def components(model: Any, choice: Any) -> Any:
    """(label, finish, count): the strongly connected components of a policy's graph.

    A component leads only to those with lower labels. `finish` has the states in the order in which
    a depth-first search finishes them (Tarjan 1972).
    """
    row, start, stop, successors = model.row, model.start, model.stop, model.successors
    n_states = choice.size
    label, finish = np.full(n_states, -1), np.empty(n_states, np.int64)
    number, low = np.zeros(n_states, np.int64), np.zeros(n_states, np.int64)
    edge = np.empty(n_states, np.int64)
    stack, path = np.empty(n_states, np.int64), np.empty(n_states, np.int64)
    visited, stacked, finished, count = 0, 0, 0, 0
    for root in range(n_states):
        if number[root] > 0:
            continue
        path[0], depth = root, 1
        while depth > 0:
            s = index(path[depth - 1])
            y = index(row[index(choice[s])])
            if number[s] == 0:
                visited += 1
                number[s], low[s], edge[s] = visited, visited, start[y]
                stack[stacked] = s
                stacked += 1
            if edge[s] < stop[y]:
                target = index(successors[index(edge[s])])
                edge[s] += 1
                if number[target] == 0:
                    path[depth] = target
                    depth += 1
                elif label[target] < 0:
                    low[s] = min(low[s], number[target])
                continue
            depth -= 1
            finish[finished] = s
            finished += 1
            if depth > 0:
                parent = index(path[depth - 1])
                low[parent] = min(low[parent], low[s])
            if low[s] == number[s]:
                while label[s] < 0:
                    stacked -= 1
                    label[stack[stacked]] = count
                count += 1
    return label, finish, count


@jit
def feedback_states(model: Any, choice: Any, label: Any, finish: Any, count: int) -> Any:
    """(v, closed, simple) of the components; v is -1 for a single state.

    `simple` is False if the cycles of some component have no state in common.
    """
    row, start, stop, successors = model.row, model.start, model.stop, model.successors
    position = np.empty(finish.size, np.int64)
    for i in range(finish.size):
        position[finish[i]] = i
    feedback, closed = np.full(count, -1), np.ones(count, np.bool_)
    for s in range(finish.size):
        y = row[choice[s]]
        for k in range(start[y], stop[y]):
            target = np.int64(successors[k])
            if label[target] != label[s]:
                closed[label[s]] = False
            elif position[target] > position[s]:
                if feedback[label[s]] not in (-1, target):
                    return feedback, closed, False
                feedback[label[s]] = target
    return feedback, closed, True


@jit
def by_component(label: Any, finish: Any, count: int) -> Any:
    """(order, offsets): the states of each component, as they were finished."""
    offsets = np.zeros(count + 1, np.int64)
    for s in range(label.size):
        offsets[label[s] + 1] += 1
    for c in range(count):
        offsets[c + 1] += offsets[c]
    order, fill = np.empty(label.size, np.int64), offsets[:count].copy()
    for i in range(finish.size):
        c = label[finish[i]]
        order[fill[c]] = finish[i]
        fill[c] += 1
    return order, offsets


@jit
def until_feedback(
    model: Any, choice: Any, states: Any, label: Any, v: int, gain: float, bias: Any,
    value: Any, other: Any,
) -> None:  # fmt: skip
    """Reward and time in a component until it reaches v, into `value` and `other`.

    With gain < 0, for a closed component: rewards and time. Otherwise: r - gain plus the bias of
    the state reached outside, and the probability of leaving.
    """
    row, start, stop, mean = model.row, model.start, model.stop, model.mean
    successors, probabilities = model.successors, model.probabilities
    for i in range(states.size):
        s = states[i]
        y = row[choice[s]]
        out = 0.0
        worth = mean[y] if gain < 0.0 else mean[y] - gain
        rest = 1.0 if gain < 0.0 else 0.0
        for k in range(start[y], stop[y]):
            target, p = np.int64(successors[k]), probabilities[k]
            if target == s:
                continue
            out += p
            if label[target] != label[s]:
                worth += p * bias[target]
                rest += p
            elif target != v:
                worth += p * value[target]
                rest += p * other[target]
        value[s], other[s] = worth / max(out, 1e-300), rest / max(out, 1e-300)


@jit
def best_closed_component(
    model: Any, choice: Any, label: Any, order: Any, offsets: Any, feedback: Any, closed: Any,
    value: Any, other: Any,
) -> Any:  # fmt: skip
    """(gain, component, number of closed components)."""
    best_gain, best, n_closed = -1.0, -1, 0
    for c in range(closed.size):
        if not closed[c]:
            continue
        n_closed += 1
        states = order[offsets[c] : offsets[c + 1]]
        gain = model.mean[model.row[choice[states[0]]]]
        if states.size > 1:
            until_feedback(model, choice, states, label, feedback[c], -1.0, value, value, other)
            gain = value[feedback[c]] / other[feedback[c]]
        if gain > best_gain:
            best_gain, best = gain, c
    return best_gain, best, n_closed


@jit
def evaluate_by_components(model: Any, choice: Any, before: Any, bias: Any) -> bool:
    """The bias of a policy whose components are all simple; False for other policies.

    If several components are closed, the policy changes: all states are routed to the best one.
    """
    n_states = choice.size
    value, other = np.zeros(n_states), np.zeros(n_states)
    while True:
        label, finish, count = components(model, choice)
        feedback, closed, simple = feedback_states(model, choice, label, finish, count)
        if not simple:
            return False
        order, offsets = by_component(label, finish, count)
        gain, best, n_closed = best_closed_component(
            model, choice, label, order, offsets, feedback, closed, value, other
        )
        if n_closed == 1:
            break
        seen, queue = np.zeros(n_states, np.bool_), np.empty(n_states, np.int64)
        filled = 0
        for i in range(offsets[best], offsets[best + 1]):
            seen[order[i]] = True
            queue[filled] = order[i]
            filled += 1
        extend_backwards(queue, filled, seen, choice, before)
    for c in range(count):
        states, v = order[offsets[c] : offsets[c + 1]], feedback[c]
        if closed[c] and states.size == 1:
            bias[states[0]] = 0.0
            continue
        until_feedback(model, choice, states, label, v, gain, bias, value, other)
        base = 0.0
        if v >= 0 and not closed[c]:
            if other[v] == 0.0:
                return False
            base = value[v] / other[v]
        for i in range(states.size):
            s = states[i]
            bias[s] = base if s == v else value[s] + (1.0 - other[s]) * base
    return True


@entry
def iterate_by_components(model: Any, choice: Any, bias: Any, tolerance: float) -> Any:
    """(lower, upper, status); LIMIT if a policy is not simple, or rounding hides the optimum."""
    before = predecessors(model)
    lower, upper = 0.0, 1.0
    for _ in range(MAX_ITERATIONS):
        if not evaluate_by_components(model, choice, before, bias):
            return lower, upper, LIMIT
        low, high, switched = certify(model, bias, choice, True)
        lower, upper = max(lower, low), min(upper, high)
        if high - low <= tolerance:
            return lower, upper, DONE
        if switched == 0:
            return lower, upper, LIMIT
    return lower, upper, LIMIT


# Policy iteration with sparse factors.


def iterate_large_policies(
    model: Model, choice: NDArray[np.int64], bias: Vector, tolerance: float
) -> tuple[float, float, int]:
    """Policy iteration as in `iteration.iterate_policies`, on sparse matrices."""
    lower, upper = 0.0, 1.0
    for _ in range(MAX_ITERATIONS):
        classes = _closed_classes(model, choice)
        member = int(classes[0][0])
        if len(classes) > 1:
            gains = gains_of_large_chain(model, choice)
            member = max((int(states[0]) for states in classes), key=lambda s: gains[s])
            route_to_class(model, choice, member)
        if not np.isfinite(_solve_bias(*_chain(model, choice), member, bias)):
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
    for inside in _closed_classes(model, choice):
        scratch = np.zeros(len(inside))
        part = matrix[inside][:, inside]
        gain[inside] = _solve_bias(part, rewards[inside], 0, scratch)
        onward = rewards[inside] + _drift(part, scratch)
        _require(np.abs(onward - gain[inside]).max(), rewards)
    open_states = np.nonzero(np.isnan(gain))[0]
    if len(open_states):
        closed = np.nonzero(~np.isnan(gain))[0]
        exits = matrix[open_states][:, closed]
        factors = _factorised(_identity_minus(matrix)[open_states][:, open_states])
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


def _closed_classes(model: Model, choice: NDArray[np.int64]) -> list[NDArray[np.int64]]:
    """The states of each closed class of a policy."""
    label, _, count = components(model, choice)
    edges = _chain(model, choice)[0].tocoo()
    closed = np.ones(count, bool)
    closed[label[edges.row[label[edges.row] != label[edges.col]]]] = False
    order, offsets = by_component(label, np.arange(len(label)), count)
    return [order[offsets[c] : offsets[c + 1]] for c in np.nonzero(closed)[0]]


def _sparse() -> Any:
    """SciPy's sparse matrices, which come with an extra."""
    try:
        import scipy.sparse
        import scipy.sparse.linalg
    except ImportError as error:
        raise MissingExtra(
            "policies of more than 2000 states need SciPy: pip install 'switchmdp[sparse]'"
        ) from error
    return scipy.sparse


def _factorised(matrix: Any) -> Any:
    """SuperLU's factors, or None if rounding has made the matrix singular."""
    try:
        return _sparse().linalg.splu(matrix.tocsc())
    except RuntimeError:
        return None


def _drift(matrix: Any, h: Vector) -> Vector:
    """Σ p (h' - h(s)) of each state."""
    edges = matrix.tocoo()
    weights = edges.data * (h[edges.col] - h[edges.row])
    return np.bincount(edges.row, weights, len(h)).astype(np.float64)


def _chain(model: Model, choice: NDArray[np.int64]) -> tuple[Any, Vector]:
    """The transition matrix and the rewards of a policy."""
    rows = model.row[choice]
    width = model.stop[rows] - model.start[rows]
    indptr = np.concatenate([[0], np.cumsum(width)])
    inside = np.arange(indptr[-1]) - np.repeat(indptr[:-1], width)
    entries = np.repeat(model.start[rows], width) + inside
    content = (model.probabilities[entries], model.successors[entries], indptr)
    return _sparse().csr_array(content, (len(choice), len(choice))), model.mean[rows]


def _identity_minus(matrix: Any) -> Any:
    """I - P, with the diagonal as the sum of the other entries: 1 - p_ss would lose digits."""
    edges = matrix.tocoo()
    away = edges.row != edges.col
    content = (edges.data[away], (edges.row[away], edges.col[away]))
    others = _sparse().csr_array(content, matrix.shape)
    return (_sparse().diags_array(others.sum(axis=1)) - others).tocsr()


def _factors(matrix: Any, member: int) -> Any:
    """I - P with ones in the column of `member`, factorised; None if that is singular."""
    n_states = matrix.shape[0]
    system = _identity_minus(matrix).tocoo()
    keep = system.col != member
    entries = np.concatenate([system.data[keep], np.ones(n_states)])
    rows = np.concatenate([system.row[keep], np.arange(n_states)])
    columns = np.concatenate([system.col[keep], np.full(n_states, member)])
    return _factorised(_sparse().csc_array((entries, (rows, columns)), system.shape))


def _solve_bias(matrix: Any, rewards: Vector, member: int, bias: Vector) -> float:
    """Solve (I - P) h + g = r with h = 0 at a state of the class, whose unknown becomes g.

    As in `iteration.evaluate`, that state must be visited often. The stationary distribution, from
    which this follows, solves the transposed system. Returns g, or NaN if the matrix is singular.
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
