"""Extended value iteration on L1 balls (Jaksch, Ortner, Auer 2010, Section 3.1 and Theorem 7).

u_0 = 0,   u_{i+1}(s) = max_a { r̃(s,a) + max_{p in ball(s,a)} Σ p(s') u_i(s') },

    r̃ = min(1, r̂ + d_r),     ball = { p : ‖p - p̂‖₁ <= d },

until  max(u_{i+1} - u_i) - min(u_{i+1} - u_i) < precision. The policy is the one found in that last
sweep (ties: the lowest action), the gain estimate is the midpoint of those two differences.

**Inner maximum.** See `inner_maximum`: its cost follows the transitions that are there. A ball with
d >= 2 holds every distribution, and so does the one of a pair never visited, whatever its radius:
its row is a point mass on the best state.

**Skipping.** With min u = 0 the optimistic Σ p u is at most max u, and at most Σ p̂ u + d/2 · max u:
an action whose bound stays below what its state has already is not worked out. The result is the
same.

No aperiodicity transform is needed: all optimistic rows give the best state at least min(1, d/2).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from switchmdp.compiled import (
    FINITE,
    JIT,
    Range,
    Scratch,
    Shape,
    call_machine_code,
    compiled,
    freeze,
    thaw,
)
from switchmdp.compiled.declarations import Names
from switchmdp.errors import InvalidParameter, PrecisionNotReached
from switchmdp.mdp import MDP
from switchmdp.mdp.model import FULL_ROWS_UP_TO
from switchmdp.planning.inner_maximum import ZERO, optimistic_value, sort_by_value
from switchmdp.validation import check_positive

MAX_SWEEPS = 1_000_000
SLACK = 1e-9  # far above the rounding of a sum of at most S products of numbers below 10⁵


def _in_order(names: Names) -> NDArray[np.int64]:
    return np.arange(names["states"])


@compiled
class Optimism:
    """Extended value iteration with the memory it works in."""

    estimates: Annotated[NDArray[np.float64], Shape(0), Scratch()]
    value: Annotated[NDArray[np.float64], Shape("states")]
    next_value: Annotated[NDArray[np.float64], Shape("states"), Scratch()]
    order: Annotated[NDArray[np.int64], Scratch(_in_order)]
    values: Annotated[NDArray[np.float64], Shape("states"), Scratch()]
    masses: Annotated[NDArray[np.float64], Shape("states"), Scratch()]
    lower: Annotated[float, FINITE]
    upper: Annotated[float, FINITE]
    sweeps: Annotated[int, Range(0, MAX_SWEEPS)]

    def __init__(self, n_states: int) -> None:
        self.estimates = np.empty(0)
        self.value, self.next_value = np.zeros(n_states), np.zeros(n_states)
        self.order = np.arange(n_states)
        self.values, self.masses = np.zeros(n_states), np.zeros(n_states)
        self.lower, self.upper = 0.0, 1.0
        self.sweeps = 0

    def estimate(self, counts: Any, first: int, radius: Any) -> None:
        """p̂ = P / N of every pair whose ball does not hold all distributions.

        Pair x has the counts of row first + x.
        """
        if self.estimates.size != counts.count.size:
            self.estimates = np.zeros(counts.count.size)
        estimates, count, visits = self.estimates, counts.count, counts.visits
        offset, used = counts.offset, counts.used
        for pair in range(radius.size):
            if radius[pair] < 2.0:
                row = first + pair
                for k in range(offset[row], offset[row] + used[row]):
                    estimates[k] = count[k] / visits[row]

    def iterate(
        self, starts: Any, offset: Any, used: Any, target: Any, full: bool,
        reward: Any, radius: Any, precision: float, choice: Any,
    ) -> bool:  # fmt: skip
        """Sweep until precise; writes each state's greedy pair into `choice`.

        Pair x has successors target[k] with p̂ = estimates[k], k = offset[x] … offset[x]+used[x]-1;
        `full`: they are all the states in order. A radius of 2 or more stands for "never visited"
        too. False where the sweeps ran out.
        """
        estimates, value, next_value = self.estimates, self.value, self.next_value
        order, values, masses = self.order, self.values, self.masses
        n_states = value.size
        for s in range(n_states):
            value[s] = 0.0
            order[s] = s
            choice[s] = starts[s]
        best = ZERO
        for sweep in range(1, MAX_SWEEPS + 1):
            top = value[best]
            largest, smallest = -np.inf, np.inf
            for s in range(n_states):
                # The last sweep's choice first: most others then can't reach it.
                kept = choice[s]
                chosen, found = kept, reward[kept] + top
                if radius[kept] < 2.0 and top > 0.0:
                    found = reward[kept] + optimistic_value(
                        estimates, target, offset[kept], used[kept], full, value, order, best, top,
                        radius[kept], values, masses,
                    )  # fmt: skip
                for pair in range(starts[s], starts[s + 1]):
                    if pair == kept or reward[pair] + top < found:
                        continue
                    total = reward[pair] + top
                    if radius[pair] < 2.0 and top > 0.0:
                        ceiling = radius[pair] / 2.0 * top
                        for k in range(offset[pair], offset[pair] + used[pair]):
                            ceiling += estimates[k] * value[target[k]]
                        if reward[pair] + ceiling + SLACK < found:
                            continue
                        total = reward[pair] + optimistic_value(
                            estimates, target, offset[pair], used[pair], full, value, order, best,
                            top, radius[pair], values, masses,
                        )  # fmt: skip
                    if total > found or (total == found and pair < chosen):
                        chosen, found = pair, total
                choice[s] = chosen
                next_value[s] = found
                largest = max(largest, found - value[s])
                smallest = min(smallest, found - value[s])
            self.lower, self.upper, self.sweeps = smallest, largest, sweep
            if largest - smallest < precision:
                return True
            lowest = np.inf
            for s in range(n_states):
                lowest = min(lowest, next_value[s])
            for s in range(n_states):
                value[s] = next_value[s] - lowest
            if full:
                sort_by_value(order, value)
                best = order[n_states - 1]
            else:
                best = ZERO
                for s in range(n_states):
                    if value[s] >= value[best]:
                        best = s
        return False


@dataclass(frozen=True)
class OptimisticPlan:
    """What extended value iteration found."""

    gain: float
    policy: NDArray[np.int64]
    values: NDArray[np.float64]
    sweeps: int


def extended_value_iteration(
    estimate: MDP, *, reward_radius: Any, transition_radius: Any, precision: float
) -> OptimisticPlan:
    """The optimistic plan over all MDPs within these radii of an estimated one.

    Radii are numbers or (S, A) arrays.

    >>> half = MDP([[[0.5, 0.5]], [[0.5, 0.5]]], [[0.0], [1.0]])
    >>> plan = extended_value_iteration(
    ...     half, reward_radius=0, transition_radius=0.2, precision=1e-9)
    >>> round(plan.gain, 6)
    0.6
    """
    if not isinstance(estimate, MDP):
        raise InvalidParameter("estimate", estimate, "an MDP")
    precision = check_positive("precision", precision)
    work, arguments = prepare(estimate, reward_radius, transition_radius)
    choice = np.zeros(estimate.n_states, np.int64)
    if not _iterate(work, *arguments, precision, choice):
        raise PrecisionNotReached(
            f"{MAX_SWEEPS} sweeps did not reach precision {precision}", work.lower, work.upper
        )
    gain = (work.lower + work.upper) / 2.0
    policy = estimate.pairs.actions[choice]
    return OptimisticPlan(gain, policy, work.value.copy(), work.sweeps)


def prepare(estimate: MDP, reward_radius: Any, transition_radius: Any) -> tuple[Optimism, Any]:
    """The working memory and the first arguments of `Optimism.iterate` for an estimated MDP."""
    pairs, model = estimate.pairs, estimate.model
    d_r = _per_pair("reward_radius", reward_radius, estimate)
    d_p = _per_pair("transition_radius", transition_radius, estimate)
    work = Optimism(pairs.n_states)
    reward = np.minimum(1.0, model.mean[model.row] + d_r)
    full = pairs.n_states <= FULL_ROWS_UP_TO
    if full:
        rows = estimate.transitions[pairs.states, pairs.actions]
        work.estimates = rows.ravel()
        offset = np.arange(pairs.n_pairs) * pairs.n_states
        used = np.full(pairs.n_pairs, pairs.n_states)
        target = np.tile(np.arange(pairs.n_states, dtype=np.uint32), pairs.n_pairs)
    else:
        work.estimates = model.probabilities
        offset, target = model.start[model.row], model.successors
        used = model.stop[model.row] - offset
    return work, (pairs.starts, offset, used, target, full, reward, d_p)


def _iterate(work: Optimism, *arguments: Any) -> bool:
    if not JIT:
        return bool(work.iterate(*arguments))
    return bool(call_machine_code(_run, work, *arguments))


def _run(
    state: Any, starts: Any, offset: Any, used: Any, target: Any, full: bool,
    reward: Any, radius: Any, precision: float, choice: Any,
) -> Any:  # fmt: skip
    work = thaw(state)
    done = work.iterate(starts, offset, used, target, full, reward, radius, precision, choice)
    return freeze(work), done


def _per_pair(field: str, radius: Any, mdp: MDP) -> NDArray[np.float64]:
    shape = (mdp.n_states, mdp.n_actions)
    try:
        spread = np.broadcast_to(np.asarray(radius, np.float64), shape)
    except (TypeError, ValueError):
        raise InvalidParameter(field, radius, f"a number or an array of shape {shape}") from None
    chosen = spread[mdp.pairs.states, mdp.pairs.actions]
    if not (chosen >= 0.0).all():
        raise InvalidParameter(field, radius, "nowhere negative or NaN")
    return chosen
