"""Extended value iteration (Jaksch, Ortner, Auer 2010, Section 3.1 and Theorem 7).

u_0 = 0,   u_{i+1}(s) = max_a { r̃(s,a) + max_{p in ball(s,a)} Σ p(s') u_i(s') },

until max(u_{i+1} - u_i) - min(u_{i+1} - u_i) < precision. r̃ are optimistic mean rewards. The policy
is the greedy policy of the last sweep (ties: the lowest action), and the gain estimate is the
midpoint of those two differences. If the ball of a pair contains every distribution, its row is a
point mass on the best state. `inner_maximum` computes the inner maxima.

**Why two classes.** `Optimism` is for L1 balls, `Sweeps` for balls of any other shape. One class
could serve both: with ι = 0 `Sweeps` computes the same numbers as `Optimism`. But then the inner
maximum is a method of the ball, which loads its arrays again for every pair. Measured for L1 balls,
that takes 1.4 times as long: 6.1 instead of 4.3 µs for 5 states and 3 actions, 70 instead of 52 µs
for 50 states and 5 actions, 1.76 instead of 1.24 ms for 500 states with 10 successors per pair.

**L1 balls** { p : ‖p - p̂‖₁ <= d }. A ball with d >= 2 contains every distribution, and so does that
of a pair that was never visited. No aperiodicity transform is needed, because all optimistic rows
give the best state at least min(1, d/2). *Skipping*: with min u = 0, the optimistic Σ p u is at
most max u, and at most Σ p̂ u + d/2 · max u. An action is skipped if this bound is below the best
value of its state so far, which does not change the result.

**Balls of any shape.** The optimistic rows of a small ball may be periodic, and then the plain
iteration does not converge. The chain P' = ι I + (1 - ι) P stays in its state with probability ι.
It is not periodic, every policy has the same stationary distribution and gain as before, and biases
grow by 1/(1 - ι):

    u_{i+1}(s) = (1 - ι) max_a { r̃(s,a)/(1 - ι) + max_{p in ball(s,a)} Σ p(s') u_i(s') } + ι u_i(s)

A ball has two methods. `highest(counts, pair, wanted)` is the inner maximum of a pair for the array
`value` of these sweeps, whose minimum is 0 and whose maximum is `top`. If the maximum is below
`wanted`, any upper bound of it that is below `wanted` may be returned. `arrange()` is called after
the values have changed. `free[pair]` marks the pairs whose ball contains every distribution.
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
    index,
    thaw,
)
from switchmdp.compiled.declarations import Names
from switchmdp.display import counted
from switchmdp.equality import EqualByFields
from switchmdp.errors import InvalidParameter, PrecisionNotReached
from switchmdp.mdp import MDP
from switchmdp.mdp.model import FULL_ROWS_UP_TO
from switchmdp.planning.inner_maximum import ZERO, optimistic_value, sort_by_value
from switchmdp.validation import check_positive

# L1 balls.


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

    def stop_at_once(self) -> None:
        """What `iterate` leaves where the first sweep adds 1 in every state."""
        value = self.value
        for s in range(value.size):
            value[index(s)] = 0.0
        self.lower, self.upper, self.sweeps = 1.0, 1.0, 1

    def iterate(
        self, starts: Any, offset: Any, used: Any, target: Any, full: bool,
        reward: Any, radius: Any, precision: float, choice: Any,
    ) -> bool:  # fmt: skip
        """Sweep until precise; write each state's greedy pair into `choice`.

        Pair x has successors target[k] with p̂ = estimates[k], k = offset[x] … offset[x]+used[x]-1;
        `full`: they are all the states in order. A radius of 2 or more also stands for "never
        visited". Returns False if the sweeps ran out.
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
                chosen, chosen_value = kept, reward[kept] + top
                if radius[kept] < 2.0 and top > 0.0:
                    chosen_value = reward[kept] + optimistic_value(
                        estimates, target, offset[kept], used[kept], full, value, order, best, top,
                        radius[kept], values, masses,
                    )  # fmt: skip
                for pair in range(starts[s], starts[s + 1]):
                    if pair == kept or reward[pair] + top < chosen_value:
                        continue
                    total = reward[pair] + top
                    if radius[pair] < 2.0 and top > 0.0:
                        ceiling = radius[pair] / 2.0 * top
                        for k in range(offset[pair], offset[pair] + used[pair]):
                            ceiling += estimates[k] * value[target[k]]
                        if reward[pair] + ceiling + SLACK < chosen_value:
                            continue
                        total = reward[pair] + optimistic_value(
                            estimates, target, offset[pair], used[pair], full, value, order, best,
                            top, radius[pair], values, masses,
                        )  # fmt: skip
                    if total > chosen_value or (total == chosen_value and pair < chosen):
                        chosen, chosen_value = pair, total
                choice[s] = chosen
                next_value[s] = chosen_value
                largest = max(largest, chosen_value - value[s])
                smallest = min(smallest, chosen_value - value[s])
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


@dataclass(frozen=True, eq=False, repr=False)
class OptimisticPlan(EqualByFields):
    """The result of extended value iteration.

    Parameters
    ----------
    gain
        The optimistic gain.
    policy
        The action of each state.
    values
        The values of the last sweep, the least of which is 0.
    sweeps
        The number of sweeps.
    """

    gain: float
    policy: NDArray[np.int64]
    values: NDArray[np.float64]
    sweeps: int

    def __repr__(self) -> str:
        states = counted(len(self.policy), "state")
        return f"OptimisticPlan(gain={self.gain:.10g}, {counted(self.sweeps, 'sweep')}, {states})"


def extended_value_iteration(
    estimate: MDP, *, reward_radius: Any, transition_radius: Any, precision: float
) -> OptimisticPlan:
    """The optimistic plan over all MDPs within these radii of an estimated one.

    Radii are numbers or (S, A) arrays.

    Parameters
    ----------
    estimate
        The estimated MDP.
    reward_radius
        The confidence radius of the mean rewards: a number or an (S, A) array.
    transition_radius
        The confidence radius of the rows in L1 distance: a number or an (S, A) array.
    precision
        The span of the last change at which the iteration stops.

    Returns
    -------
    OptimisticPlan
        The optimistic gain and its policy.

    Raises
    ------
    InvalidParameter
        If a parameter has the wrong type or is out of range.
    PrecisionNotReached
        If the sweeps run out.

    References
    ----------
    Jaksch, Ortner, Auer (2010): Near-optimal regret bounds for reinforcement learning.

    Examples
    --------
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
        raise InvalidParameter(field, radius, "numbers >= 0, not NaN")
    return chosen


# Balls of any shape.


IDLE = 0.1  # ι: a tenth more sweeps where the chain mixes slowly, and few where it is periodic


@compiled
class Sweeps:
    """Extended value iteration with the memory it works in."""

    value: Annotated[NDArray[np.float64], Shape("states")]
    next_value: Annotated[NDArray[np.float64], Shape("states"), Scratch()]
    top: Annotated[float, FINITE]
    lower: Annotated[float, FINITE]
    upper: Annotated[float, FINITE]
    done: Annotated[int, Range(0, MAX_SWEEPS)]

    def __init__(self, n_states: int) -> None:
        self.value, self.next_value = np.zeros(n_states), np.zeros(n_states)
        self.top, self.lower, self.upper = 0.0, 0.0, 1.0
        self.done = 0

    def iterate(
        self, ball: Any, starts: Any, counts: Any, reward: Any, free: Any, precision: float,
        choice: Any,
    ) -> bool:  # fmt: skip
        """Sweep until precise; write each state's greedy pair into `choice`.

        `reward` are the optimistic mean rewards. Returns False if the sweeps ran out.
        """
        value, next_value = self.value, self.next_value
        n_states, moving = value.size, 1.0 - IDLE
        for s in range(n_states):
            value[s] = 0.0
            choice[s] = starts[s]
        self.top = 0.0
        ball.arrange()
        for sweep in range(1, MAX_SWEEPS + 1):
            top = self.top
            largest, smallest = -np.inf, np.inf
            for s in range(n_states):
                # The last sweep's choice first: most others then can't reach it.
                kept = choice[s]
                chosen, chosen_value = kept, reward[kept] + moving * top
                if not free[kept] and top > 0.0:
                    chosen_value = reward[kept] + moving * ball.highest(counts, kept, -np.inf)
                for pair in range(starts[s], starts[s + 1]):
                    total = reward[pair] + moving * top
                    if pair == kept or total < chosen_value:
                        continue
                    if not free[pair] and top > 0.0:
                        wanted = (chosen_value - reward[pair]) / moving
                        total = reward[pair] + moving * ball.highest(counts, pair, wanted)
                    if total > chosen_value or (total == chosen_value and pair < chosen):
                        chosen, chosen_value = pair, total
                choice[s] = chosen
                next_value[s] = chosen_value + IDLE * value[s]
                largest = max(largest, next_value[s] - value[s])
                smallest = min(smallest, next_value[s] - value[s])
            self.lower, self.upper, self.done = smallest, largest, sweep
            if largest - smallest < precision:
                return True
            lowest, highest = np.inf, -np.inf
            for s in range(n_states):
                lowest = min(lowest, next_value[s])
                highest = max(highest, next_value[s])
            for s in range(n_states):
                value[s] = next_value[s] - lowest
            self.top = highest - lowest
            ball.arrange()
        return False
