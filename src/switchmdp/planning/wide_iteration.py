"""Policy iteration in wide numbers, for MDPs where doubles are not precise enough.

These are the same policy iterations, evaluated and certified as `wide` describes: nothing overflows
or underflows, and rounding causes a relative error of the order of n · 2⁻⁵³ in the gain or the
hitting times, whatever the span of the bias. They take about ten times as long as in doubles.

Let  v(s,a) = Σ q (h_s - h_j)  and  z(s,a) = Σ q |h_s - h_j|.  For the hitting times h of a policy,
v = 1 for its own actions, and an action with a larger v is quicker. With slack ε,

    A = max_{s,a} v - ε z,     B = min_s max_a v + ε z   imply   h/A <= h'* <= h/B

in an MDP with rates q' as in `wide`: h/A is below 1 + Σ q' h/A for all actions, and h/B is
above 1 + Σ q' h/B for those where the maximum is attained, which also shows that they reach the
goal. In the same way

    min_s max_a r - v + ε z  <=  ρ'*  <=  max_{s,a} r - v - ε z.

**The likeliest tree** of a chain takes one transition of each state, such that all lead to the root
without a cycle and the product of their probabilities is largest (Chu and Liu 1965, Edmonds 1967).
If a chain moves on very different time scales, this tree dominates the hitting times: for each
group of states that the chain rarely leaves, it contains the transition by which it leaves first.
Each state takes its likeliest transition. If that closes a cycle, the cycle becomes one node. The
weight of its transitions is how much less likely they are than those they replace.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from switchmdp.compiled import entry, jit
from switchmdp.mdp.model import lead_to, predecessors
from switchmdp.planning.iteration import DONE, LIMIT, ROUNDING, route_to_class
from switchmdp.planning.wide import (
    LARGEST,
    UNIT,
    at,
    between,
    drift,
    exceeds,
    first_steps,
    grow_tree,
    larger,
    narrow,
    negative,
    order_by_depth,
    product,
    put,
    quotient,
    reduce_wide,
    smaller,
    total,
    wide,
    wide_chain,
    zeros,
)


@jit
def likeliest_tree(model: Any, choice: Any, root: int) -> Any:
    """For each state but the root the next one in the tree; -1 for the root.

    Under this policy the root can be reached from every state.
    """
    n_states = choice.size
    size = 2 * n_states  # the states, and the cycles that became nodes
    inside = np.full(size, -1)  # the node that a node became part of
    top = np.arange(n_states)  # the outermost node of each state
    replaced = np.zeros(n_states)  # log2 of the chosen transition, of all nodes around a state
    source, target, weight = np.full(size, -1), np.full(size, -1), np.full(size, -np.inf)
    settled, on_path = np.zeros(size, np.bool_), np.zeros(size, np.bool_)
    settled[root] = True
    path = np.empty(size, np.int64)
    nodes = n_states
    for state in range(n_states):
        if settled[top[state]]:
            continue
        path[0], length = top[state], 1
        on_path[path[0]] = True
        while length > 0:
            here = path[length - 1]
            for s in range(n_states):
                if top[s] != here:
                    continue
                y = model.row[choice[s]]
                for k in range(model.start[y], model.stop[y]):
                    there = np.int64(model.successors[k])
                    if top[there] != here:
                        gained = math.log2(model.probabilities[k]) - replaced[s]
                        if gained > weight[here]:
                            source[here], target[here], weight[here] = s, there, gained
            onward = top[target[here]]
            if settled[onward]:
                for i in range(length):
                    settled[path[i]] = True
                    on_path[path[i]] = False
                length = 0
            elif on_path[onward]:
                for s in range(n_states):
                    for i in range(length - 1, -1, -1):
                        if top[s] == path[i]:
                            replaced[s] += weight[path[i]]
                            inside[path[i]] = nodes
                            top[s] = nodes
                            break
                        if path[i] == onward:
                            break
                while path[length - 1] != onward:
                    length -= 1
                path[length - 1] = nodes
                on_path[nodes] = True
                nodes += 1
            else:
                path[length] = onward
                on_path[onward] = True
                length += 1
    onward = np.full(n_states, -1)
    dropped = np.zeros(size, np.bool_)
    for node in range(nodes - 1, -1, -1):
        if node == root or dropped[node]:
            continue
        s = source[node]
        onward[s] = target[node]
        while s != node:
            dropped[s] = True
            s = inside[s]
    return onward


MAX_ITERATIONS = 300
SLACK = 1.0 / 16.0  # the share of the tolerance that is spent on allowing for rounding, over n


@jit
def widening(slack: float, n_states: int) -> float:
    """The relative error that this slack may cause."""
    return 2.5 * n_states * slack


@jit
def reduced(model: Any, choice: Any, order: Any, goal: int) -> Any:
    """(P, positions, rewards, times, o, closed classes) of a policy's reduced chain.

    With a goal, which is order[0], that state is not left.
    """
    n_states = order.size
    p, position = wide_chain(model, choice, order)
    r, time, out = zeros(n_states), zeros(n_states), zeros(n_states)
    for i in range(n_states):
        if goal >= 0:
            p.m[i] = 0.0
        put(r, i, wide(model.mean[model.row[choice[order[i]]]]))
        put(time, i, wide(1.0))
    classes = reduce_wide(p, r, time, out)
    return p, position, r, time, out, classes


@jit
def most_visited(p: Any, out: Any) -> int:
    """As `iteration.often_visited`."""
    n_states, heaviest = out.m.size, 0
    weight = zeros(n_states)
    put(weight, 0, wide(1.0))
    for n in range(1, n_states):
        visits = wide(0.0)
        for j in range(n):
            if p.m[j * n_states + n] > 0.0:
                visits = total(visits, product(at(weight, j), at(p, j * n_states + n)))
        put(weight, n, quotient(visits, at(out, n)))
        if exceeds(at(weight, n), product(wide(2.0), at(weight, heaviest))):
            heaviest = n
    return heaviest


@jit
def evaluate_wide(model: Any, choice: Any, order: Any) -> Any:
    """(tree, order, gain) of a policy, whose states outside the best class are rerouted."""
    arranged = False
    while True:
        p, position, r, time, out, classes = reduced(model, choice, order, -1)
        best = -1
        for n in range(order.size):
            if out.m[n] == 0.0 and (
                best < 0
                or exceeds(quotient(at(r, n), at(time, n)), quotient(at(r, best), at(time, best)))
            ):
                best = n
        if classes > 1 or best != 0:
            order = route_to_class(model, choice, order[best])
            continue
        if arranged:
            break
        heaviest = most_visited(p, out)
        if heaviest > 0:
            order[0], order[heaviest] = order[heaviest], order[0]
            continue
        order = order_by_depth(likeliest_tree(model, choice, order[0]), order[0])
        arranged = True
    gain = quotient(at(r, 0), at(time, 0))
    cost, step = zeros(order.size), zeros(order.size)
    for n in range(order.size):
        put(cost, n, total(at(r, n), negative(product(gain, at(time, n)))))
        mean = model.mean[model.row[choice[order[n]]]]
        put(step, n, total(wide(mean), negative(gain)))
    tree = grow_tree(p, position, cost, out)
    return first_steps(model, choice, order, step, tree), order, gain


@jit
def weigh_actions(model: Any, s: int, tree: Any, slack: Any, rewards: bool) -> Any:
    """(best pair, low, low with slack, high, high with slack) of a state.

    They bound max_a r - v with `rewards`, else max_a v. The best pair has the largest lower bound.
    """
    pick, low, low_slack, high, high_slack = -1, wide(0.0), wide(0.0), wide(0.0), wide(0.0)
    for pair in range(model.starts[s], model.starts[s + 1]):
        value, error, size = drift(model, pair, s, tree)
        if rewards:
            mean = model.mean[model.row[pair]]
            value = total(value, wide(mean))
            error = total(error, wide(4.0 * UNIT * mean + 1e-300))
        else:
            value, error = negative(value), total(error, wide(1e-300))
        saved = product(slack, size)
        sure, limit = total(value, negative(error)), total(value, error)
        if pick < 0 or exceeds(limit, high):
            high = limit
        if pick < 0 or exceeds(total(limit, negative(saved)), high_slack):
            high_slack = total(limit, negative(saved))
        if pick < 0 or exceeds(total(sure, saved), low_slack):
            low_slack = total(sure, saved)
        if pick < 0 or exceeds(sure, low):
            low, pick = sure, pair
    return pick, low, low_slack, high, high_slack


@entry
def iterate_wide_policies(model: Any, choice: Any, bias: Any, tolerance: float) -> Any:
    """(lower, upper, status) of the optimal gain, as `iteration.iterate_policies`.

    The bias is written with its minimum at 0; what is beyond doubles becomes the largest of them.
    """
    n_states = choice.size
    order = np.arange(n_states)
    epsilon = SLACK * min(tolerance, 1.0) / n_states
    spread = widening(epsilon, n_states)
    slack = wide(epsilon)
    lower, upper = 0.0, 1.0
    for _ in range(MAX_ITERATIONS):
        tree, order, gain = evaluate_wide(model, choice, order)
        enough = total(gain, wide(SLACK * tolerance))
        low, high, low_slack, high_slack = wide(4.0), wide(-4.0), wide(4.0), wide(-4.0)
        switched = 0
        for s in range(n_states):
            pick, here_low, here_slack, limit, limit_slack = weigh_actions(
                model, s, tree, slack, True
            )
            high, high_slack = larger(high, limit), larger(high_slack, limit_slack)
            low, low_slack = smaller(low, here_low), smaller(low_slack, here_slack)
            if pick != choice[s] and exceeds(here_low, enough):
                choice[s] = pick
                switched += 1
        low_bound = max(narrow(low), narrow(low_slack) * (1.0 - spread)) - 4.0 * UNIT
        high_bound = min(narrow(high), narrow(high_slack) * (1.0 + spread)) + 4.0 * UNIT
        lower, upper = max(lower, low_bound), min(upper, high_bound)
        # By this bias alone, not only by all brackets together.
        certified = high_bound - low_bound <= tolerance
        if certified or switched == 0:
            lowest = 0
            for n in range(n_states):
                if between(tree.parent, tree.difference, n, lowest)[0][0] < 0.0:
                    lowest = n
            for s in range(n_states):
                here = tree.position[s]
                bias[s] = narrow(between(tree.parent, tree.difference, here, lowest)[0])
            return lower, upper, DONE if certified else ROUNDING
    return lower, upper, LIMIT


@jit
def leads_everywhere(model: Any, choice: Any, goal: int) -> bool:
    """Whether a policy reaches the goal from every state, by its graph alone."""
    n_states = choice.size
    reached = np.zeros(n_states, np.bool_)
    reached[goal] = True
    count, before = 1, 0
    while count > before:
        before = count
        for s in range(n_states - 1, -1, -1):
            y = model.row[choice[s]]
            for k in range(model.start[y], model.stop[y]):
                if not reached[s] and reached[model.successors[k]]:
                    reached[s] = True
                    count += 1
    return bool(count == n_states)


@entry
def wide_hitting_time(model: Any, goal: int, tolerance: float) -> Any:
    """(estimate, lower, upper) of the largest of the least expected hitting times of a goal."""
    n_states = model.starts.size - 1
    choice = model.starts[:n_states].copy()
    lead_to(goal, choice, predecessors(model))
    epsilon = SLACK * tolerance / n_states
    spread = widening(epsilon, n_states)
    slack, one = wide(epsilon), wide(1.0)
    enough = wide(1.0 + SLACK * tolerance)
    ones = zeros(n_states)
    for n in range(n_states):
        put(ones, n, one)
    estimate, lower, upper = 1.0, 1.0, np.inf
    for _ in range(MAX_ITERATIONS):
        order = order_by_depth(likeliest_tree(model, choice, goal), goal)
        p, position, _r, time, out, _classes = reduced(model, choice, order, goal)
        tree = grow_tree(p, position, time, out)
        tree = first_steps(model, choice, order, ones, tree)
        low, high, low_slack, high_slack = wide(4.0), wide(0.0), wide(4.0), wide(0.0)
        switched = 0
        positive = True
        nearest, longest, furthest = wide(0.0), wide(0.0), wide(0.0)
        for s in range(n_states):
            if s == goal:
                continue
            time_left, doubt = between(tree.parent, tree.difference, tree.position[s], 0)
            longest = larger(longest, time_left)
            furthest = larger(furthest, total(time_left, doubt))
            nearest = larger(nearest, total(time_left, negative(doubt)))
            positive = positive and exceeds(time_left, doubt)
            pick, here_low, here_slack, limit, limit_slack = weigh_actions(
                model, s, tree, slack, False
            )
            high, high_slack = larger(high, limit), larger(high_slack, limit_slack)
            low, low_slack = smaller(low, here_low), smaller(low_slack, here_slack)
            if pick != choice[s] and exceeds(here_low, enough):
                choice[s] = pick
                switched += 1
        if positive:
            shrink, grow = wide(1.0 - spread - 16.0 * UNIT), wide(1.0 + spread + 16.0 * UNIT)
            little, much = wide(1.0 - 16.0 * UNIT), wide(1.0 + 16.0 * UNIT)
            below = quotient(product(nearest, little), high)
            if high_slack[0] > 0.0:
                below = larger(below, quotient(product(nearest, shrink), high_slack))
            if narrow(below) > lower:
                lower, estimate = narrow(below), narrow(longest)
            above = np.inf
            if low[0] > 0.0:
                above = narrow(quotient(product(furthest, much), low))
            if low_slack[0] > 0.0:
                above = min(above, narrow(quotient(product(furthest, grow), low_slack)))
            if above < LARGEST and above < upper:
                upper, estimate = above, narrow(longest)
            if upper - lower <= tolerance * lower:
                break
        if switched == 0 or not leads_everywhere(model, choice, goal):
            break
    return min(max(estimate, lower), upper), lower, upper
