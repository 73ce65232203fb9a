"""Wide numbers, which neither overflow nor underflow, and policies evaluated with them.

**A wide number** is a double times a power of 2⁵¹²:

    x = m · 2^(512 e),     2⁻²⁵⁶ <= |m| < 2²⁵⁶  or  x = (0, 0)

A number is the pair (m, e). One operation rounds once, as with doubles (relative error 2⁻⁵³), and
scaling by 2⁵¹² is exact. Of two positive numbers, the one with the larger (e, m) is larger.

The product of a few tiny transition probabilities is outside the range of doubles. If it underflows
to 0, it looks like a transition that does not exist.

**State reduction** is that of `iteration`, in wide numbers. Products of tiny probabilities do not
vanish, so an entry is 0 exactly where the graph of the chain has no path. There is no subtraction,
so the results have a small relative error.

**Differences.** A value function h solves  Σ_j p_sj (h_s - h_j) = c_s.  If all states of a block
wait for the same rare event, h is 10²⁰⁰ on all of them and differs by 1 from one to the next. These
differences decide which action is better, and they are lost if h is stored. So every state n gets a
parent ref(n), the state before it to which it moves most often, and only

    d_n = h_n - h_ref(n) = ( c_n + Σ_{j<n} P_nj (h_j - h_ref(n)) ) / o_n

is stored. h_i - h_j is the sum of d along the path from i to j in this tree, added up with twice
the digits of a double. The stored d define h exactly: an error in d makes another h, not a wrong
certificate. Few digits cancel if the states are in the order of the chain's likeliest tree
(`wide_iteration.likeliest_tree`).

**Certificates that allow for rounding.** Take two MDPs with n states, the same graph and rates
q_sj = p_sj / Σ_j p_sj and q'_sj (j ≠ s), with |q' - q| <= ε q. By the Markov chain tree theorem the
hitting times of a policy, and the gain of a closed class, are quotients of two homogeneous
polynomials in the rates, of degree at most n and with coefficients >= 0. So for every policy, and
for the best of them,

    ((1-ε)/(1+ε))^n  <=  h'/h, ρ'/ρ  <=  ((1+ε)/(1-ε))^n.

For given h, the sum Σ q'_sj (h_j - h_s) can be any number within ε Σ q_sj |h_j - h_s| of the sum
with q. So an inequality that holds up to this error for q holds exactly for some q', and the
results for q and q' differ by the factor above, which is below 1 + 2.5 n ε for n ε <= 1/16.
Rounding errors of the sum are of the form k 2⁻⁵³ Σ p |h_j - h_s|, so a suitable `slack` ε covers
them however large h is.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from switchmdp.compiled import jit

UNIT = 2.0**-53  # the relative error of one rounding
UP, DOWN = 2.0**512, 2.0**-512
HIGH, LOW = 2.0**256, 2.0**-256
LARGEST = 1.7976931348623157e308


@jit
def wide(m: float, e: int = 0) -> Any:
    """The number m · 2^(512 e), for any finite m.

    >>> wide(1e-200)
    (1.3407807929942597e-46, -1)
    """
    if m == 0.0:
        return 0.0, 0
    while abs(m) >= HIGH:
        m *= DOWN
        e += 1
    while abs(m) < LOW:
        m *= UP
        e -= 1
    return m, e


@jit
def narrow(x: Any) -> float:
    """The nearest double; those out of range become 0 or the largest double.

    >>> narrow(wide(1e-200)), narrow(product(wide(1e200), wide(1e200)))
    (1e-200, 1.7976931348623157e+308)
    """
    m, e = x
    if e > 2:
        return LARGEST if m > 0.0 else -LARGEST
    if e < -3:
        return 0.0
    while e > 0:
        m *= UP
        e -= 1
    while e < 0:
        m *= DOWN
        e += 1
    return float(min(max(m, -LARGEST), LARGEST))


@jit
def negative(x: Any) -> Any:
    """-x."""
    return -x[0], x[1]


@jit
def magnitude(x: Any) -> Any:
    """|x|."""
    return abs(x[0]), x[1]


@jit
def product(x: Any, y: Any) -> Any:
    """x y."""
    return wide(x[0] * y[0], x[1] + y[1])


@jit
def quotient(x: Any, y: Any) -> Any:
    """x / y; y is not 0."""
    return wide(x[0] / y[0], x[1] - y[1])


@jit
def total(x: Any, y: Any) -> Any:
    """x + y.

    >>> narrow(total(wide(1e300), wide(1.0))), narrow(total(wide(0.1), wide(0.2)))
    (1e+300, 0.30000000000000004)
    """
    if x[0] == 0.0:
        return y
    if y[0] == 0.0:
        return x
    if x[1] < y[1]:
        x, y = y, x
    apart = x[1] - y[1]
    if apart == 0:
        return wide(x[0] + y[0], x[1])
    if apart == 1:
        return wide(x[0] + y[0] * DOWN, x[1])
    return x


@jit
def total_and_error(x: Any, y: Any) -> Any:
    """(x + y rounded, what rounding took from it)."""
    if x[0] == 0.0:
        return y, x
    if y[0] == 0.0:
        return x, y
    if x[1] < y[1]:
        x, y = y, x
    apart = x[1] - y[1]
    if apart > 1:
        return x, y
    a, b = x[0], y[0]
    if apart == 1:
        b *= DOWN
    rounded = a + b
    of_b = rounded - a
    error = (a - (rounded - of_b)) + (b - of_b)
    return wide(rounded, x[1]), wide(error, x[1])


@jit
def exceeds(x: Any, y: Any) -> bool:
    """x > y.

    >>> exceeds(wide(2.0), wide(1.0)), exceeds(wide(-1e300), wide(1e-300))
    (True, False)
    """
    return bool(total(x, negative(y))[0] > 0.0)


@jit
def larger(x: Any, y: Any) -> Any:
    """max(x, y)."""
    return x if exceeds(x, y) else y


@jit
def smaller(x: Any, y: Any) -> Any:
    """min(x, y)."""
    return y if exceeds(x, y) else x


# Arrays of wide numbers, and chains.


class Numbers(NamedTuple):
    """An array of wide numbers."""

    m: NDArray[np.float64]
    e: NDArray[np.int64]


class Tree(NamedTuple):
    """A value function by its differences; parents and differences are by position."""

    position: NDArray[np.int64]
    parent: NDArray[np.int64]
    difference: Numbers


@jit
def zeros(size: int) -> Any:
    """A vector of zeros."""
    return Numbers(np.zeros(size), np.zeros(size, np.int64))


@jit
def at(x: Any, i: int) -> Any:
    """x[i]."""
    return x.m[i], x.e[i]


@jit
def put(x: Any, i: int, value: Any) -> None:
    """x[i] = value."""
    x.m[i], x.e[i] = value


@jit
def wide_chain(model: Any, choice: Any, order: Any) -> Any:
    """P of a policy, its states in this order, row by row in one vector."""
    n_states = order.size
    position = np.empty(n_states, np.int64)
    for i in range(n_states):
        position[order[i]] = i
    p = zeros(n_states * n_states)
    for i in range(n_states):
        y = model.row[choice[order[i]]]
        for k in range(model.start[y], model.stop[y]):
            cell = i * n_states + position[model.successors[k]]
            put(p, cell, total(at(p, cell), wide(model.probabilities[k])))
    return p, position


@jit
def reduce_wide(p: Any, r: Any, time: Any, out: Any) -> int:
    """`iteration.reduce_chain` in wide numbers; returns how many closed classes there are."""
    n_states = out.m.size
    classes = 0
    absorbing = np.zeros(n_states, np.bool_)
    targets = np.empty(n_states, np.int64)
    for n in range(n_states - 1, -1, -1):
        leaving, count = wide(0.0), 0
        for j in range(n_states):
            if (j < n or absorbing[j]) and p.m[n * n_states + j] > 0.0:
                leaving = total(leaving, at(p, n * n_states + j))
                targets[count] = j
                count += 1
        put(out, n, leaving)
        if count == 0:
            absorbing[n] = True
            classes += 1
            continue
        for i in range(n):
            if p.m[i * n_states + n] > 0.0:
                weight = quotient(at(p, i * n_states + n), leaving)
                for k in range(count):
                    cell = i * n_states + targets[k]
                    step = product(weight, at(p, n * n_states + targets[k]))
                    put(p, cell, total(at(p, cell), step))
                put(r, i, total(at(r, i), product(weight, at(r, n))))
                put(time, i, total(at(time, i), product(weight, at(time, n))))
    return classes


@jit
def wide_gains(model: Any, choice: Any, rewards: Any) -> Any:
    """The gain of a policy from each state, for any probabilities."""
    n_states = choice.size
    p, _ = wide_chain(model, choice, np.arange(n_states))
    r, time, out, gain = zeros(n_states), zeros(n_states), zeros(n_states), zeros(n_states)
    for s in range(n_states):
        put(r, s, wide(rewards[s]))
        put(time, s, wide(1.0))
    reduce_wide(p, r, time, out)
    for n in range(n_states):
        if out.m[n] == 0.0:
            put(gain, n, quotient(at(r, n), at(time, n)))
    narrowed = np.empty(n_states)
    for n in range(n_states):
        if out.m[n] > 0.0:
            value = wide(0.0)
            for j in range(n_states):
                if j < n or out.m[j] == 0.0:
                    value = total(value, product(at(p, n * n_states + j), at(gain, j)))
            put(gain, n, quotient(value, at(out, n)))
        narrowed[n] = narrow(at(gain, n))
    return narrowed


@jit
def between(parent: Any, difference: Any, i: int, j: int) -> Any:
    """(h_i - h_j, a bound on its error) of two positions; parents come before their children."""
    value, lost, size = wide(0.0), wide(0.0), wide(0.0)
    steps = 0
    while i != j:
        if i > j:
            step = at(difference, i)
            i = parent[i]
        else:
            step = negative(at(difference, j))
            j = parent[j]
        value, error = total_and_error(value, step)
        lost = total(lost, error)
        size = total(size, magnitude(step))
        steps += 1
    value = total(value, lost)
    if steps < 2:
        return value, wide(0.0)
    error = product(wide(4.0 * steps * steps * UNIT * UNIT), size)
    return value, total(error, product(wide(UNIT), magnitude(value)))


@jit
def grow_tree(p: Any, position: Any, cost: Any, out: Any) -> Any:
    """The differences of h for a reduced chain with one closed class; position 0 is in it."""
    n_states = out.m.size
    parent, difference = np.zeros(n_states, np.int64), zeros(n_states)
    for n in range(1, n_states):
        row = n * n_states
        for j in range(1, n):
            if exceeds(at(p, row + j), at(p, row + parent[n])):
                parent[n] = j
        step = at(cost, n)
        for j in range(n):
            if p.m[row + j] > 0.0 and j != parent[n]:
                ahead, _ = between(parent, difference, j, parent[n])
                step = total(step, product(at(p, row + j), ahead))
        put(difference, n, quotient(step, at(out, n)))
    return Tree(position, parent, difference)


@jit
def first_steps(model: Any, choice: Any, order: Any, cost: Any, tree: Any) -> Any:
    """The tree with states moved to where they go most often in one step, if that makes no cycle.

    The new differences solve  Σ p (h - h') = cost  of one state each, so a step that is almost sure
    costs no digits, however the path that the old tree takes instead goes up and down.
    """
    n_states = order.size
    parent, difference = tree.parent.copy(), zeros(n_states)
    for n in range(1, n_states):
        put(difference, n, at(tree.difference, n))
    for n in range(1, n_states):
        y = model.row[choice[order[n]]]
        likely, most = -1, 0.0
        for k in range(model.start[y], model.stop[y]):
            there = tree.position[model.successors[k]]
            if there != n and model.probabilities[k] > most:
                likely, most = there, model.probabilities[k]
        above = likely
        while above > 0 and above != n:
            above = parent[above]
        if above == n:
            continue
        step, leaving = at(cost, n), wide(0.0)
        for k in range(model.start[y], model.stop[y]):
            there = tree.position[model.successors[k]]
            if there == n:
                continue
            p = wide(model.probabilities[k])
            leaving = total(leaving, p)
            if there != likely:
                ahead, _ = between(tree.parent, tree.difference, there, likely)
                step = total(step, product(p, ahead))
        parent[n] = likely
        put(difference, n, quotient(step, leaving))
    return relabelled(parent, difference, order)


@jit
def order_by_depth(parent: Any, root: int) -> Any:
    """The nodes of a tree by their distance from its root."""
    depth = np.zeros(parent.size, np.int64)
    for n in range(parent.size):
        above = n
        while above != root:
            above = parent[above]
            depth[n] += 1
    return np.argsort(depth, kind="mergesort")


@jit
def relabelled(parent: Any, difference: Any, order: Any) -> Any:
    """A tree by positions in which parents come before their children."""
    n_states = order.size
    by_depth = order_by_depth(parent, 0)
    place, position = np.empty(n_states, np.int64), np.empty(n_states, np.int64)
    for i in range(n_states):
        place[by_depth[i]] = i
        position[order[by_depth[i]]] = i
    parents, differences = np.zeros(n_states, np.int64), zeros(n_states)
    for n in range(1, n_states):
        parents[place[n]] = place[parent[n]]
        put(differences, place[n], at(difference, n))
    return Tree(position, parents, differences)


@jit
def drift(model: Any, pair: int, s: int, tree: Any) -> Any:
    """(Σ p (h' - h(s)), a bound on its error, Σ p |h' - h(s)|) of an action, rows normalised."""
    y = model.row[pair]
    here = tree.position[s]
    value, error, size = wide(0.0), wide(0.0), wide(0.0)
    for k in range(model.start[y], model.stop[y]):
        there = tree.position[model.successors[k]]
        if there == here:
            continue
        ahead, doubt = between(tree.parent, tree.difference, there, here)
        p = wide(model.probabilities[k])
        term = product(p, ahead)
        value = total(value, term)
        size = total(size, magnitude(term))
        error = total(error, product(p, doubt))
    rounding = wide((3 * (model.stop[y] - model.start[y]) + 12) * UNIT)
    error = total(product(wide(1.0 + 1e-6), error), product(rounding, size))
    return value, error, size
