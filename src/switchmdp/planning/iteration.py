"""The optimal gain of a communicating MDP by policy or value iteration, with a certificate.

**State reduction** gives the gain and bias of one policy. A policy turns the MDP into a Markov
chain P with rewards r. Its states are eliminated one by one, from the last to the first. A path
through state n is replaced by a direct transition with the same probability, reward and time,

    P_ij += P_in P_nj / o_n,   r_i += P_in r_n / o_n,   τ_i += P_in τ_n / o_n      (i, j < n)

with o_n = Σ_{j<n} P_nj and τ_i the expected time until the next state that is left. All terms are
non-negative and o_n is a sum, not 1 - P_nn (Grassmann, Taksar, Heyman 1985), so gains have a small
*relative* error however nearly decomposable the chain is. If o_n = 0 (exactly, as there is no
cancellation), state n represents a closed class, whose gain is r_n / τ_n. With one closed class
whose state is first, the bias follows in ascending order:

    h_0 = 0,   h_n = ( r_n - g τ_n + Σ_{j<n} P_nj h_j ) / o_n

Products of tiny probabilities may underflow, and then o_n = 0 does not show a closed class.
`stayed_in_range` detects this, and `wide` has the same reduction in numbers without such limits.

**Policy iteration**: evaluate by state reduction, and switch to an action if it is better by more
than the rounding errors. If a policy has several closed classes, the best one is kept and all other
states are routed to it. A new closed class can only arise with a higher gain, so the iteration
ends. It costs O(S³) per iteration, also for periodic chains, diameters of 10⁶ and nearly
decomposable chains.

**Relative value iteration** h ← h + α(Th - h), α < 1 (the aperiodicity transform), alternates
between sweeps over all actions and sweeps over the current policy. It costs O(transitions) per
sweep, and converges fast if the MDP mixes fast.

**Certificate** (`certify`). Both end with one Bellman sweep that bounds the gain. For any h, in an
MDP whose optimal gain ρ* is the same from every state,

    min_s (Th - h)(s)  <=  ρ*  <=  max_s (Th - h)(s),     (Th - h)(s) = max_a r + Σ p (h' - h(s)).

The right-hand form adds up differences of neighbours, so its rounding error is proportional to
Σ p |h' - h(s)|, which is small if a large span consists of rare or small steps. With k
successors and u = 2⁻⁵³, that error is below (2k + 8) u (r + Σ p |h' - h(s)|): k + 3 roundings in
the sum, and as many in the row, whose stored probabilities sum to 1 only up to k u. The bracket is
widened by it, so it holds for the MDP with rows p / Σp in exact arithmetic.

**Spread rows** have a few successors with their own probabilities, and the same probability for all
other states. Row x has probability p_k on each of its few successors k and u on each other state.
With H the sum of all values and q_k = p_k - u,

    Σ_j p(j) h(j)  =  u H + Σ_k q_k h(k),

so a sweep costs O(successors) although all states are possible. `iterate_spread_values` sweeps
until max(Th - h) - min(Th - h) is below a precision. The greedy policy of the last sweep then has a
gain within that precision of the optimal one. With a share S u of every row spread evenly a sweep
shrinks the span at least by the factor 1 - S u. α < 1 is needed only if that is slow:
α = 1 - (1 - least S u) / 10.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from switchmdp.compiled import entry, index, jit, patient
from switchmdp.mdp.model import extend_backwards, predecessors
from switchmdp.planning.wide import UNIT, wide_gains

TINY, HUGE = 2.0**-960, 2.0**960
MAX_ITERATIONS = 1000
STEP = 0.9
POLICY_SWEEPS = 4

DONE, ROUNDING, LIMIT = 0, 1, 2

# One policy.


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


# Policy iteration.


@patient
def certify(model: Any, bias: Any, choice: Any, keep_unless_better: bool) -> Any:
    """(lower, upper, switched): the bracket of `bias`; `choice` becomes greedy where that is sure.

    With `keep_unless_better` an action is replaced only by one that beats it by more than both
    rounding errors, so that policy iteration can't cycle.
    """
    starts, row, start, stop, mean = model.starts, model.row, model.start, model.stop, model.mean
    successors, probabilities = model.successors, model.probabilities
    lower, upper = np.inf, -np.inf
    switched = 0
    for s in range(starts.size - 1):
        low, high, here = -np.inf, -np.inf, bias[index(s)]
        kept, best, best_value, best_error = choice[index(s)], -1, -np.inf, 0.0
        kept_high = -np.inf
        for pair in range(starts[index(s)], starts[index(s + 1)]):
            y = index(row[index(pair)])
            value, size = 0.0, mean[y]
            for k in range(index(start[y]), index(stop[y])):
                term = probabilities[k] * (bias[index(successors[k])] - here)
                value += term
                size += abs(term)
            value += mean[y]
            if not size < 1e300:  # the bias overflowed here, and bounds nothing
                high = np.inf
                continue
            error = (2 * (stop[y] - start[y]) + 8) * UNIT * size + 1e-300
            low = max(low, value - error)
            high = max(high, value + error)
            if value > best_value:
                best, best_value, best_error = pair, value, error
            if pair == kept:
                kept_high = value + error
        lower = min(lower, low)
        upper = max(upper, high)
        if best != kept and (not keep_unless_better or best_value - best_error > kept_high):
            choice[index(s)] = best
            switched += 1
    return lower, upper, switched


@patient
def iterate_policies(model: Any, choice: Any, bias: Any, tolerance: float) -> Any:
    """(lower, upper, status), with `choice` and `bias` brought to the optimum."""
    n_states = choice.size
    order = np.arange(n_states)
    rewards = np.empty(n_states)
    lower, upper = 0.0, 1.0
    for _ in range(MAX_ITERATIONS):
        for s in range(n_states):
            rewards[s] = model.mean[model.row[choice[s]]]
        _gain, member = evaluate(model, choice, order, rewards, bias)
        if member < 0:
            order = route_to_class(model, choice, -1 - member)
            for s in range(n_states):
                rewards[s] = model.mean[model.row[choice[s]]]
            evaluate(model, choice, order, rewards, bias)
        low, high, switched = certify(model, bias, choice, True)
        lower, upper = max(lower, low), min(upper, high)
        if high - low <= tolerance:  # of this bias, not only of all the brackets together
            return lower, upper, DONE
        if switched == 0:
            return lower, upper, ROUNDING
    return lower, upper, LIMIT


@patient
def solve_configurations(
    model: Any, patches: Any, first: int, choice: Any, bias: Any, tolerance: float,
    out: Any, choices: Any,
) -> int:  # fmt: skip
    """Policy iteration for configurations first, first + 1, …, each from the lowest actions.

    So a configuration's numbers don't depend on which others were solved with it. Writes (lower,
    upper) into `out` and, if `choices` has rows, the optimal pairs there. Returns the index in
    `out` of the first one that failed, or -1.
    """
    for i in range(out.shape[0]):
        if i > 0:
            change = first + i - 1
            for k in range(patches.offsets[change], patches.offsets[change + 1]):
                model.row[patches.pair[k]] = patches.new[k]
        for s in range(choice.size):
            choice[s], bias[s] = model.starts[s], 0.0
        lower, upper, status = iterate_policies(model, choice, bias, tolerance)
        out[i, 0], out[i, 1] = lower, upper
        if choices.shape[0] > 0:
            for s in range(choice.size):
                choices[i, s] = choice[s]
        if status != DONE:
            return i
    return -1


# Value iteration.


@jit
def sweep_all(model: Any, bias: Any, change: Any, choice: Any) -> float:
    """change = Th - h and its greedy policy; returns the span of the change."""
    starts, row, start, stop, mean = model.starts, model.row, model.start, model.stop, model.mean
    successors, probabilities = model.successors, model.probabilities
    smallest, largest = np.inf, -np.inf
    for s in range(bias.size):
        best_value, best = -np.inf, 0
        for pair in range(starts[s], starts[s + 1]):
            y = row[pair]
            value = mean[y]
            for k in range(start[y], stop[y]):
                value += probabilities[k] * bias[successors[k]]
            # No branch: it would often be mispredicted.
            best = pair if value > best_value else best
            best_value = value if value > best_value else best_value
        choice[s] = best
        change[s] = best_value - bias[s]
        smallest, largest = min(smallest, change[s]), max(largest, change[s])
    return largest - smallest


@jit
def sweep_policy(model: Any, bias: Any, change: Any, choice: Any) -> None:
    """change = T_π h - h."""
    row, start, stop, mean = model.row, model.start, model.stop, model.mean
    successors, probabilities = model.successors, model.probabilities
    for s in range(bias.size):
        y = row[choice[s]]
        value = mean[y]
        for k in range(start[y], stop[y]):
            value += probabilities[k] * bias[successors[k]]
        change[s] = value - bias[s]


@jit
def shift(bias: Any, change: Any, step: float) -> float:
    """h ← h + α (change - change_0), which leaves the gain out, so that h stays bounded; Σ h."""
    base, total = change[index(0)], 0.0
    for s in range(bias.size):
        bias[index(s)] += step * (change[index(s)] - base)
        total += bias[index(s)]
    return total


@entry
def iterate_values(model: Any, choice: Any, bias: Any, tolerance: float, budget: int) -> Any:
    """(lower, upper, status); LIMIT as soon as the observed contraction is too slow for `budget`.

    While the policy still changes, for example along a chain, the contraction is not informative.
    """
    change = np.empty(bias.size)
    lower, upper = 0.0, 1.0
    earlier = np.inf
    then = choice.copy()
    for sweep in range(1, budget + 1):
        span = sweep_all(model, bias, change, choice)
        if span <= 0.5 * tolerance or sweep == budget:
            lower, upper, _ = certify(model, bias, choice, False)
            if upper - lower <= tolerance:
                return lower, upper, DONE
            if span <= 0.1 * tolerance:
                return lower, upper, ROUNDING
        if sweep % 16 == 0:
            settled = True
            for s in range(choice.size):
                settled = settled and choice[s] == then[s]
                then[s] = choice[s]
            if settled and earlier < np.inf:  # 16 rounds shrank the span by span / earlier
                if span >= earlier * 0.999:
                    break
                rounds = 16 * math.log(span / tolerance) / math.log(earlier / span)
                if rounds > budget - sweep:
                    break
            earlier = span if settled else np.inf
        shift(bias, change, STEP)
        for _ in range(POLICY_SWEEPS):
            sweep_policy(model, bias, change, choice)
            shift(bias, change, STEP)
    lower, upper, _ = certify(model, bias, choice, False)
    return lower, upper, LIMIT


# Value iteration for spread rows.


MOST_SWEEPS = 500
MOST_POLICY_SWEEPS = 50
REMAINING = 0.1  # policy sweeps stop at this share of the span of the sweep over all actions


@jit
def iterate_spread_values(
    starts: Any, first: Any, successors: Any, excess: Any, elsewhere: Any, mean: Any,
    bias: Any, change: Any, choice: Any, precision: float,
) -> Any:  # fmt: skip
    """(lower, upper, sweeps): a bracket of the gain; `choice` and `bias` are brought up to date.

    Row x has the successors first[x] … first[x+1]-1 with q = excess, and u = elsewhere[x].

    The iteration starts at the given values, those of the last plan. Late in a run of EvidencePSRL
    over 10⁶ steps that takes 4.0 instead of 5.9 sweeps over all actions (200 states, 5 successors
    per pair) and 17 instead of 27 (ring with shortcuts, 1,000 states). `MOST_SWEEPS` bounds the
    cost of a plan: if a chain mixes more slowly, the plan is the policy reached so far, and the
    next plan continues from it.
    """
    n_states, least, total = bias.size, 1.0, 0.0
    for pair in range(elsewhere.size):
        least = min(least, n_states * elsewhere[index(pair)])
    for s in range(n_states):
        total += bias[index(s)]
    step = 1.0 - 0.1 * (1.0 - least)
    lower, upper, sweeps = 0.0, 1.0, 0
    for sweep in range(1, MOST_SWEEPS + 1):
        lower, upper, sweeps = np.inf, -np.inf, sweep
        for s in range(n_states):
            best_value, best = -np.inf, starts[index(s)]
            for pair in range(starts[index(s)], starts[index(s + 1)]):
                value = mean[index(pair)] + elsewhere[index(pair)] * total
                for k in range(first[index(pair)], first[index(pair + 1)]):
                    value += excess[index(k)] * bias[index(successors[index(k)])]
                # No branch: it would often be mispredicted.
                best = pair if value > best_value else best
                best_value = value if value > best_value else best_value
            choice[index(s)] = best
            gained = best_value - bias[index(s)]
            change[index(s)] = gained
            lower, upper = min(lower, gained), max(upper, gained)
        if upper - lower < precision:
            break
        total = shift(bias, change, step)
        enough = max(REMAINING * (upper - lower), 0.5 * precision)
        for _ in range(MOST_POLICY_SWEEPS):
            low, high = np.inf, -np.inf
            for s in range(n_states):
                pair = choice[index(s)]
                value = mean[index(pair)] + elsewhere[index(pair)] * total
                for k in range(first[index(pair)], first[index(pair + 1)]):
                    value += excess[index(k)] * bias[index(successors[index(k)])]
                gained = value - bias[index(s)]
                change[index(s)] = gained
                low, high = min(low, gained), max(high, gained)
            total = shift(bias, change, step)
            if high - low < enough:
                break
    return lower, upper, sweeps
