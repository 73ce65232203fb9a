"""Gain and bias of a policy by state reduction, which avoids subtractions that lose digits.

A policy turns the MDP into a Markov chain P with rewards r. Its states are eliminated one by one,
from the last to the first: what passes through state n is credited to where it goes next,

    P_ij += P_in P_nj / o_n,   r_i += P_in r_n / o_n,   τ_i += P_in τ_n / o_n      (i, j < n)

with o_n = Σ_{j<n} P_nj and τ_i the expected time until the next state that is left. All terms are
non-negative and o_n is a sum, not 1 - P_nn (Grassmann, Taksar, Heyman 1985), so gains have a small
*relative* error however nearly decomposable the chain is. If o_n = 0 (exactly, as there is no
cancellation), state n represents a closed class, whose gain is r_n / τ_n. With one closed class
whose state is first, the bias follows in ascending order:

    h_0 = 0,   h_n = ( r_n - g τ_n + Σ_{j<n} P_nj h_j ) / o_n

Products of tiny probabilities may underflow: then o_n = 0 means nothing. `stayed_in_range` detects
this, and `wide` has the same reduction in numbers without such limits.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from switchmdp.compiled import jit, patient
from switchmdp.mdp.graph import extend_backwards, predecessors
from switchmdp.planning.wide import wide_gains

TINY, HUGE = 2.0**-960, 2.0**960


@jit
def chain(model: Any, choice: Any, order: Any, rewards: Any) -> Any:
    """P and r of a policy, its states in this order; `rewards` are by state."""
    n_states = order.size
    position = np.empty(n_states, np.int64)
    for i in range(n_states):
        position[order[i]] = i
    p, r = np.zeros((n_states, n_states)), np.empty(n_states)
    for i in range(n_states):
        s = order[i]
        y = model.row[choice[s]]
        r[i] = rewards[s]
        for k in range(model.start[y], model.stop[y]):
            p[i, position[model.successors[k]]] += model.probabilities[k]
    return p, r


@jit
def reduce_chain(p: Any, r: Any, time: Any, out: Any) -> int:
    """Eliminate all states in place; o_n into `out`, 0 for one that represents a closed class.

    Returns how many closed classes there are.
    """
    classes = 0
    absorbing = np.empty(out.size, np.int64)
    for n in range(out.size - 1, -1, -1):
        total = 0.0
        for j in range(n):
            total += p[n, j]
        for c in range(classes):
            total += p[n, absorbing[c]]
        out[n] = total
        if total == 0.0:
            absorbing[classes] = n
            classes += 1
            continue
        for i in range(n):
            if p[i, n] > 0.0:
                weight = p[i, n] / total
                for j in range(n):
                    p[i, j] += weight * p[n, j]
                for c in range(classes):
                    p[i, absorbing[c]] += weight * p[n, absorbing[c]]
                r[i] += weight * r[n]
                time[i] += weight * time[n]
    return classes


@jit
def stayed_in_range(p: Any, time: Any, out: Any) -> bool:
    """Whether no number came near the ends of the range of doubles while a chain was reduced.

    The entries with which a state was eliminated are those left in its row and column. If no
    product of them was tiny, none has underflowed, and every entry that is 0 was always 0.
    """
    for n in range(out.size):
        if not time[n] < HUGE:
            return False
        smallest, lightest = 1.0, 1.0
        for j in range(out.size):
            if 0.0 < p[n, j] < smallest:
                smallest = p[n, j]
        if out[n] > 0.0:
            for i in range(n):
                if p[i, n] > 0.0:
                    weight = p[i, n] / out[n]
                    if not weight < HUGE:
                        return False
                    lightest = min(lightest, weight)
        if smallest * lightest < TINY:
            return False
    return True


@patient
def gains_of_policy(model: Any, choice: Any, order: Any, rewards: Any) -> Any:
    """The gain of a policy from each state; `order` is 0, 1, …, and `rewards` are by state.

    To a relative error of 1e-9, or an absolute one of 1e-300.
    """
    p, r = chain(model, choice, order, rewards)
    n_states = r.size
    time, out, gain = np.ones(n_states), np.empty(n_states), np.empty(n_states)
    reduce_chain(p, r, time, out)
    if not stayed_in_range(p, time, out):
        return wide_gains(model, choice, rewards)
    for n in range(n_states):
        if out[n] == 0.0:
            gain[n] = r[n] / time[n]
    for n in range(n_states):
        if out[n] > 0.0:
            total = 0.0
            for j in range(n_states):
                if j < n or out[j] == 0.0:
                    total += p[n, j] * gain[j]
                    if p[n, j] * gain[j] < TINY and p[n, j] > 0.0 and gain[j] > 0.0:
                        return wide_gains(model, choice, rewards)
            gain[n] = total / out[n]
    return gain


@jit
def often_visited(p: Any, out: Any) -> int:
    """The state that a reduced chain visits most between two visits to state 0; often 0 itself.

    Going back, state n is visited Σ_{j<n} w_j P_jn / o_n times.
    """
    heaviest = 0
    weight = np.ones(out.size)
    for n in range(1, out.size):
        total = 0.0
        for j in range(n):
            total += weight[j] * p[j, n]
        weight[n] = total / out[n]
        if weight[n] > 2.0 * weight[heaviest]:
            heaviest = n
    return heaviest


@jit
def evaluate(model: Any, choice: Any, order: Any, rewards: Any, bias: Any) -> Any:
    """(gain, class): the policy's gain, bias by state into `bias`, and a state of its closed class.

    If the policy has several closed classes: the gain of the best one, -1 - its state, and no bias.
    The bias is relative to order[0]. If that state is visited once in a million steps, r_n - g τ_n
    is a small difference of large numbers: then a state that is visited often takes its place in
    `order`.
    """
    n_states = order.size
    for attempt in range(2):
        p, r = chain(model, choice, order, rewards)
        time, out = np.ones(n_states), np.empty(n_states)
        classes = reduce_chain(p, r, time, out)
        best = -1
        for n in range(n_states):
            if out[n] == 0.0 and (best < 0 or r[n] / time[n] > r[best] / time[best]):
                best = n
        gain = r[best] / time[best]
        if classes > 1 or best != 0:
            return gain, -1 - order[best]
        heaviest = often_visited(p, out)
        if heaviest > 0 and attempt == 0:
            order[0], order[heaviest] = order[heaviest], order[0]
            continue
        bias[order[0]] = 0.0
        for n in range(1, n_states):
            total = r[n] - gain * time[n]
            for j in range(n):
                total += p[n, j] * bias[order[j]]
            bias[order[n]] = total / out[n]
        break
    return gain, order[0]


@patient
def route_to_class(model: Any, choice: Any, member: int) -> Any:
    """Keep the closed class of `member`; give every state outside it an action that leads there.

    Returns the class's states first, the others after them: an order in which a chain may be
    reduced.
    """
    n_states = choice.size
    seen = np.zeros(n_states, np.bool_)
    order = np.empty(n_states, np.int64)
    order[0] = member
    seen[member] = True
    filled = 1
    read = 0
    while read < filled:
        y = model.row[choice[order[read]]]
        read += 1
        for k in range(model.start[y], model.stop[y]):
            target = model.successors[k]
            if not seen[target]:
                seen[target] = True
                order[filled] = target
                filled += 1
    extend_backwards(order, filled, seen, choice, predecessors(model))
    return order
