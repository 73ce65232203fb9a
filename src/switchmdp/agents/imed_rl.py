"""IMED-RL (Pesquerel and Maillard 2022): an index for each action, asymptotically optimal regret.

    For t = 1, 2, … do
      skeleton: A_s = { a : N(s,a) >= log² max_b N(s,b) } for each state s     IMEDRL.limit_skeleton
      φ := the bias of the best policy of the empirical MDP on the skeleton    IMEDRL.improve
      γ := max_a { r̂(s_t,a) + p̂(s_t,a)·φ }                                        IMEDRL.act
      H(a) := N(s_t,a) K(a) + log N(s_t,a)                                IMEDRL.index_of
      a_t := argmin H(a); observe                                     (ties: the lowest action)

K(a) is the least Kullback-Leibler divergence between the empirical law of X = R + φ(S') after the
pair and any law on (-∞, B] whose mean is at least γ, where B = 1 + max φ is the largest X. It is 0
for an action whose empirical mean is γ. By duality (Honda and Takemura 2010)

    K = max { E log(1 - (X - γ) x) :  0 <= x <= 1/(B - γ) },

which is a concave function of x. Newton's method finds the maximum, within a bracket.

For ergodic MDPs (every policy reaches every state) the paper proves that the regret is
asymptotically at most log T times the constant of the lower bound of Burnetas and Katehakis (1997).
There is no guarantee for MDPs that are only communicating, or if the problem changes.

**Choices.**

- A reward r in (0, 1) counts as a reward of 1 with probability r. The paper uses the law of the
  rewards, which takes unbounded memory. As log(1 - (X - γ) x) is concave in X, this can only make
  K smaller, so that the agent explores more. For rewards of 0 and 1 it is the same.
- Every pair has one virtual visit with reward 1/2 and a uniform next state, as in the authors'
  code. Then the empirical MDP is ergodic, and B has positive probability under the law of X.
- φ is improved after every step, starting from the last φ, until the sweeps agree up to
  `PRECISION`. A sweep costs O(observed transitions). `act` changes nothing.

**Calls from Python.** One call into machine code learns from a step and already computes the action
in the next state, which the next `act` returns if it is asked about that state.
"""

from __future__ import annotations

import inspect
import math
import time
from typing import Annotated, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from switchmdp.agents.policy_agent import (
    add_interpreted,
    call_state_of,
    find_code,
    grow_from_python,
)
from switchmdp.agents.protocol import Agent, check_act, check_observe
from switchmdp.compiled import (
    Range,
    Scratch,
    Shape,
    compiled,
    door,
    is_interpreting,
    jit,
    make_scratch,
)
from switchmdp.concurrency import exclusive
from switchmdp.mdp.pairs import find_pair
from switchmdp.memory.counts import Counts

PRECISION = 1e-4  # of the gain; rewards lie in [0, 1]
MOST_SWEEPS = 1000
IDLE = 0.1  # the probability of staying, so that no chain is periodic: it does not change the bias
MOST_STEPS, CLOSE = 60, 1e-9
TIE = 1e-9  # values that differ by less are equal, up to rounding
ARGUMENTS = {"state": 0, "action": 0, "reward": 0.0, "next_state": 0}  # of `observe_and_act`
RESULTS = ["following"]


@jit
def least_divergence(masses: Any, values: Any, reward: float, level: float, top: float) -> float:
    """K of X = R + value, where R is 1 with probability `reward` and 0 otherwise.

    `level` is γ, above the mean of X, and `top` is B >= 1 + max value, above γ.

    >>> masses, values = np.array([1.0]), np.array([0.0])  # a bandit: K = kl(0.5, 0.8)
    >>> k = least_divergence(masses, values, 0.5, 0.8, 1.0)
    >>> round(float(k), 9), round(0.5 * math.log(0.5 / 0.8) + 0.5 * math.log(0.5 / 0.2), 9)
    (0.223143551, 0.223143551)
    """
    low, high = 0.0, 1.0 / (top - level)
    x = high / 2.0
    for _ in range(MOST_STEPS):
        slope, bend = 0.0, 0.0
        for i in range(masses.size):
            gap = values[i] - level
            without, with_reward = gap / (1.0 - gap * x), (gap + 1.0) / (1.0 - (gap + 1.0) * x)
            mass, rewarded = masses[i] * (1.0 - reward), masses[i] * reward
            slope -= mass * without + rewarded * with_reward
            bend += mass * without * without + rewarded * with_reward * with_reward
        if slope > 0.0:
            low = x
        else:
            high = x
        step = slope / bend
        if abs(step) <= CLOSE * x or high - low <= CLOSE * high:
            break
        x += step
        if not low < x < high:
            x = (low + high) / 2.0
    total = 0.0
    for i in range(masses.size):
        gap = values[i] - level
        total += masses[i] * (1.0 - reward) * math.log1p(-gap * x)
        total += masses[i] * reward * math.log1p(-(gap + 1.0) * x)
    return max(0.0, total)


def act_from_python(self: Any, state: int) -> int:
    """As `IMEDRL.act`; the last `observe` may have found the action already."""
    with exclusive(self):
        (state,) = check_act(self, state)
        time_known, state_known, action = call_state_of(self).ahead
        if (time_known, state_known) == (self.clock, state):
            return action
        with np.errstate(all="ignore"):  # machine code does not warn
            return int(inspect.unwrap(IMEDRL.act)(self, state))


def observe_from_python(self: Any, state: int, action: int, reward: float, next_state: int) -> None:
    """As `IMEDRL.observe`, as machine code if possible."""
    with exclusive(self):
        step = check_observe(self, state, action, reward, next_state)
        known, code = call_state_of(self), None
        if not is_interpreting():
            code = find_code(known, self, observe_and_act, ARGUMENTS, RESULTS)
        if code is None:
            began = time.perf_counter()
            with np.errstate(all="ignore"):
                inspect.unwrap(IMEDRL.observe)(self, *step)
            add_interpreted(known, time.perf_counter() - began)
        else:
            code(*step)
            known.ahead = self.clock, step[3], code.results["following"]


@compiled
class IMEDRL(Agent):
    """Takes the action with the least empirical divergence; for problems that do not change.

    Parameters
    ----------
    n_states, n_actions
        The numbers of states and actions.
    available
        Which actions each state has, a (states, actions) mask; by default all.

    Raises
    ------
    InvalidParameter
        A parameter has the wrong type or is out of range.

    References
    ----------
    F. Pesquerel and O.-A. Maillard (2022). IMED-RL: regret optimal learning of ergodic Markov
    decision processes. NeurIPS.

    Examples
    --------
    >>> agent = IMEDRL(5, 3)
    >>> agent.observe(0, agent.act(0), 1.0, 4)
    >>> agent.act(0), agent.t
    (1, 2)
    """

    __doors__: ClassVar[dict[str, Any]] = {**Agent.__doors__, "grow": grow_from_python}

    counts: Counts
    bias: Annotated[NDArray[np.float64], Shape("states"), Range(0.0, 1e9)]
    clock: Annotated[int, Range(1, 2**53)]
    limits: Annotated[NDArray[np.float64], Shape("states"), Scratch()]
    next_bias: Annotated[NDArray[np.float64], Shape("states"), Scratch()]
    masses: Annotated[NDArray[np.float64], Shape("states"), Scratch()]
    step_pair: Annotated[NDArray[np.uint32], Shape(1), Scratch()]
    step_next: Annotated[NDArray[np.uint32], Shape(1), Scratch()]
    step_reward: Annotated[NDArray[np.float64], Shape(1), Scratch()]

    def __init__(self, n_states: Any, n_actions: Any, *, available: Any = None) -> None:
        Agent.__init__(self, n_states, n_actions, available)
        self.counts = Counts(self.pairs)
        self.bias, self.clock = np.zeros(self.n_states), 1
        make_scratch(self, self.pairs)

    def reward_of(self, pair: int) -> float:
        """r̂ of a pair, with its virtual visit."""
        n = self.counts.visits[pair]
        return float((self.counts.mean(pair) * n + 0.5) / (n + 1.0))

    def value_of(self, pair: int, average: float) -> float:
        """r̂ + p̂·φ of a pair; `average` is that of φ over all states."""
        counts, bias, total = self.counts, self.bias, average
        for k in range(counts.offset[pair], counts.offset[pair] + counts.used[pair]):
            total += counts.count[k] * bias[counts.target[k]]
        return float(self.reward_of(pair) + total / (counts.visits[pair] + 1.0))

    def average_bias(self) -> float:
        """The value of a uniform next state."""
        total = 0.0
        for s in range(self.bias.size):
            total += self.bias[s]
        return total / self.bias.size

    @door(act_from_python)
    def act(self, state: int) -> int:
        """The action with the least index; one that was never tried comes first."""
        first, last = self.starts[state], self.starts[state + 1]
        average, level, top = self.average_bias(), -math.inf, 0.0
        for pair in range(first, last):
            level = max(level, self.value_of(pair, average))
        for s in range(self.bias.size):
            top = max(top, self.bias[s])
        best, least = first, math.inf
        for pair in range(first, last):
            index = self.index_of(pair, average, level, 1.0 + top)
            if index < least:
                best, least = pair, index
        return int(self.actions[best])

    def index_of(self, pair: int, average: float, level: float, top: float) -> float:
        """H = N K + log N; -∞ for a pair that was never visited."""
        counts, masses = self.counts, self.masses
        n = 1.0 * counts.visits[pair]
        if n == 0.0:
            return -math.inf
        if self.value_of(pair, average) >= level - TIE or level >= top:
            return math.log(n)
        for s in range(masses.size):
            masses[s] = 1.0 / masses.size / (n + 1.0)
        for k in range(counts.offset[pair], counts.offset[pair] + counts.used[pair]):
            masses[counts.target[k]] += counts.count[k] / (n + 1.0)
        divergence = least_divergence(masses, self.bias, self.reward_of(pair), level, top)
        return float(n * divergence + math.log(n))

    @door(observe_from_python)
    def observe(self, state: int, action: int, reward: float, next_state: int) -> None:
        """Learn from a step."""
        pair = find_pair(self.starts, self.actions, state, action)
        self.step_pair[0], self.step_next[0], self.step_reward[0] = pair, next_state, reward
        self.counts.add(self.step_pair, self.step_next, self.step_reward, 0, 1)
        self.clock += 1
        self.improve()

    def limit_skeleton(self) -> None:
        """log² max_b N(s, b): the visits from which a pair of state s is in the skeleton."""
        visits, limits, starts = self.counts.visits, self.limits, self.starts
        for s in range(limits.size):
            most = 1
            for pair in range(starts[s], starts[s + 1]):
                most = max(most, visits[pair])
            limits[s] = math.log(most) * math.log(most)

    def improve(self) -> None:
        """Value iteration on the skeleton, from the last bias."""
        bias, changed, starts, limits = self.bias, self.next_bias, self.starts, self.limits
        visits = self.counts.visits
        self.limit_skeleton()
        for _ in range(MOST_SWEEPS):
            average, least, most = self.average_bias(), math.inf, -math.inf
            for s in range(bias.size):
                best = -math.inf
                for pair in range(starts[s], starts[s + 1]):
                    if visits[pair] >= limits[s]:
                        best = max(best, self.value_of(pair, average))
                least, most = min(least, best - bias[s]), max(most, best - bias[s])
                changed[s] = IDLE * bias[s] + (1.0 - IDLE) * best
            lowest = math.inf
            for s in range(bias.size):
                lowest = min(lowest, changed[s])
            for s in range(bias.size):
                bias[s] = changed[s] - lowest
            if most - least < PRECISION:
                break

    def grow(self, n_states: int, n_actions: int, available: Any = None) -> None:
        """Add states or actions; what was learned is kept.

        Parameters
        ----------
        n_states, n_actions
            The numbers of states and actions.
        available
            Which actions each state has, a mask of the new size that includes all known pairs; by
            default new states have all actions, and new actions are available in all states.
        """
        pairs, place = self.larger(n_states, n_actions, available)
        bias = self.bias
        self.counts = self.counts.moved(pairs, place)
        self.know(pairs)
        self.bias = np.zeros(self.n_states)
        self.bias[: bias.size] = bias
        make_scratch(self, pairs)
        self.improve()

    @property
    def t(self) -> int:
        """The step that comes next, from 1."""
        return self.clock

    @property
    def policy(self) -> NDArray[np.int64]:
        """The action with the least index in each state."""
        return np.array([self.act(s) for s in range(self.n_states)])


@jit
def observe_and_act(agent: Any, state: int, action: int, reward: float, next_state: int) -> int:
    """Learn from a step; returns the action in the next state."""
    agent.observe(state, action, reward, next_state)
    following: int = agent.act(next_state)
    return following
