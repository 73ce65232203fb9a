"""Two ways to the optimal gain of a communicating MDP, both ending in `certify`.

**Policy iteration**: evaluate by state reduction, switch where an action is surely better. A policy
with several closed classes keeps its best one, and all other states are routed to it; a new closed
class can only arise with a higher gain, so this ends. Indifferent to periods, to diameters of 10⁶
and to near-decomposability; O(S³) an iteration.

**Relative value iteration** h ← h + α(Th - h), α < 1 (the aperiodicity transform), with sweeps over
the current policy alone in between: O(transitions) a sweep, for MDPs that mix.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from switchmdp.compiled import entry, jit
from switchmdp.mdp.graph import predecessors, states_of_pairs
from switchmdp.planning.bellman import certify
from switchmdp.planning.evaluation import evaluate, route_to_class

MAX_ITERATIONS = 1000
STEP = 0.9
POLICY_SWEEPS = 4

DONE, ROUNDING, LIMIT = 0, 1, 2


@entry
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
            offsets, pairs = predecessors(model)
            states = states_of_pairs(model.starts)
            order = route_to_class(model, choice, -1 - member, offsets, pairs, states)
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


@jit
def sweep_all(model: Any, bias: Any, change: Any, choice: Any) -> float:
    """change = Th - h and its greedy policy; returns the span of the change."""
    starts, row, start, stop, mean = model.starts, model.row, model.start, model.stop, model.mean
    successors, probabilities = model.successors, model.probabilities
    smallest, largest = np.inf, -np.inf
    for s in range(bias.size):
        found, best = -np.inf, 0
        for pair in range(starts[s], starts[s + 1]):
            y = row[pair]
            value = mean[y]
            for k in range(start[y], stop[y]):
                value += probabilities[k] * bias[successors[k]]
            best = pair if value > found else best  # no branch: it would often be mispredicted
            found = value if value > found else found
        choice[s] = best
        change[s] = found - bias[s]
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
def shift(bias: Any, change: Any) -> None:
    """h ← h + α (change - change_0): the gain itself is left out, so that h stays bounded."""
    base = change[0]
    for s in range(bias.size):
        bias[s] += STEP * (change[s] - base)


@entry
def iterate_values(model: Any, choice: Any, bias: Any, tolerance: float, budget: int) -> Any:
    """(lower, upper, status); LIMIT as soon as the contraction seen won't do in `budget` rounds.

    While the policy still changes (a wave that crosses a chain, say), contraction says nothing.
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
        shift(bias, change)
        for _ in range(POLICY_SWEEPS):
            sweep_policy(model, bias, change, choice)
            shift(bias, change)
    lower, upper, _ = certify(model, bias, choice, False)
    return lower, upper, LIMIT


@entry
def solve_in_turn(
    model: Any, patches: Any, first: int, choice: Any, bias: Any, tolerance: float,
    out: Any, choices: Any,
) -> Any:  # fmt: skip
    """Policy iteration for configuration after configuration, each from the first actions.

    So a configuration's numbers don't depend on which others were solved with it. Writes (lower,
    upper) into `out` and, where `choices` has rows, the optimal pairs there. Returns (index,
    status) of the first failure, or (-1, 0).
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
            return i, status
    return -1, 0
