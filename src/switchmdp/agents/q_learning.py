"""Optimistic Q-learning for average reward (Wei, Jafarnia-Jahromi, Luo, Sharma, Jain 2020, Alg. 1).

    γ = 1 - 1/H;   V̂ = Q = Q̂ = H;   n = 0                                        QLearning.forget
    α_τ = (H+1) / (H+τ),   b_τ = c √(H/τ)
    For t = 1, 2, … do
      a_t = argmax Q̂(s_t, ·)                                                        QLearning.act
      n(s_t, a_t) += 1;  τ = n(s_t, a_t)                                        QLearning.observe
      Q(s_t, a_t) := (1-α_τ) Q(s_t, a_t) + α_τ (r_t + γ V̂(s_{t+1}) + b_τ)
      Q̂(s_t, a_t) := min(Q̂(s_t, a_t), Q(s_t, a_t));   V̂(s_t) := max_a Q̂(s_t, a)

As in the paper, H determines the discount: γ = 1 - 1/H. (With H = γ/(1-γ), which is also found,
γ = .99 would have H = 99 and not 100.)

The agent has no model: a step costs O(A). With c = 4 sp(v*) √log(2T/δ) and H ~ T^{1/3} the paper
proves regret O(sp(v*) (S A)^{1/3} T^{2/3}) in a stationary, weakly communicating MDP. The default
c = 1 and H = 100 (γ = .99) have no guarantee. Q̂ never increases, so improvements go unnoticed; the
restarts every `period` steps are an answer to that. They are not in the paper, and a heuristic.
Ties are broken by the lowest action.
"""

from __future__ import annotations

import math
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from switchmdp.agents.protocol import Agent
from switchmdp.compiled import Range, Shape, compiled
from switchmdp.errors import InvalidParameter
from switchmdp.mdp.pairs import find_pair
from switchmdp.restarts import NEVER
from switchmdp.validation import check_integer, check_not_negative, check_positive


@compiled
class QLearning(Agent):
    """Optimistic Q-learning for average reward, optionally restarted every `period` steps.

    Parameters
    ----------
    n_states, n_actions
        The numbers of states and actions.
    period
        The number of steps from one restart to the next; by default it never restarts.
    span
        H. The discount is 1 - 1/H.
    bonus
        c, the factor of the bonus.
    available
        Which actions each state has, a (states, actions) mask; by default all.

    Raises
    ------
    InvalidParameter
        `span` is below 2, or a parameter has the wrong type or is out of range.

    References
    ----------
    C.-Y. Wei, M. Jafarnia-Jahromi, H. Luo, H. Sharma and R. Jain (2020). Model-free reinforcement
    learning in infinite-horizon average-reward Markov decision processes. ICML.

    Examples
    --------
    >>> agent = QLearning(5, 3, period=20_000)
    >>> agent.act(0), agent.t, float(agent.q[0])
    (0, 1, 100.0)
    """

    span: Annotated[float, Range(2.0, below=math.inf)]
    bonus: Annotated[float, Range(0.0, below=math.inf)]
    period: Annotated[int, Range(1, NEVER)]
    clock: Annotated[int, Range(1, below="restart_at")]
    restart_at: Annotated[int, Range(2, NEVER + 2**53)]
    q: Annotated[NDArray[np.float64], Shape("pairs")]
    ceiling: Annotated[NDArray[np.float64], Shape("pairs")]
    value: Annotated[NDArray[np.float64], Shape("states")]
    visits: Annotated[NDArray[np.int64], Shape("pairs"), Range(0, 2**53)]

    def __init__(
        self, n_states: Any, n_actions: Any, *,
        period: int | None = None, span: float = 100.0, bonus: float = 1.0,
        available: Any = None,
    ) -> None:  # fmt: skip
        Agent.__init__(self, n_states, n_actions, available)
        self.span = check_positive("span", span)
        if self.span < 2.0:
            raise InvalidParameter("span", span, "at least 2")
        self.bonus = check_not_negative("bonus", bonus)
        self.period = NEVER if period is None else check_integer("period", period, 1)
        self.q, self.ceiling = np.zeros(self.actions.size), np.zeros(self.actions.size)
        self.value = np.zeros(self.n_states)
        self.visits = np.zeros(self.actions.size, np.int64)
        self.clock, self.restart_at = 1, min(NEVER, 1 + self.period)
        self.forget()

    def forget(self) -> None:
        """Reset the estimates to their optimistic start."""
        for pair in range(self.q.size):
            self.q[pair], self.ceiling[pair], self.visits[pair] = self.span, self.span, 0
        for s in range(self.value.size):
            self.value[s] = self.span

    def act(self, state: int) -> int:
        """The action with the highest estimate."""
        ceiling, best = self.ceiling, self.starts[state]
        for pair in range(best + 1, self.starts[state + 1]):
            if ceiling[pair] > ceiling[best]:
                best = pair
        return int(self.actions[best])

    def observe(self, state: int, action: int, reward: float, next_state: int) -> None:
        """Learn from a step."""
        pair = find_pair(self.starts, self.actions, state, action)
        q, ceiling, value, h = self.q, self.ceiling, self.value, self.span
        self.visits[pair] += 1
        n = float(self.visits[pair])
        step = (h + 1.0) / (h + n)
        aim = reward + (1.0 - 1.0 / h) * value[next_state] + self.bonus * math.sqrt(h / n)
        q[pair] = (1.0 - step) * q[pair] + step * aim
        ceiling[pair] = min(ceiling[pair], q[pair])
        best = ceiling[self.starts[state]]
        for other in range(self.starts[state] + 1, self.starts[state + 1]):
            best = max(best, ceiling[other])
        value[state] = best
        self.clock += 1
        if self.clock >= self.restart_at:
            self.forget()
            self.restart_at = self.clock + self.period

    def grow(self, n_states: int, n_actions: int, available: Any = None) -> None:
        """Add states or actions; the estimates are kept.

        Parameters
        ----------
        n_states, n_actions
            The numbers of states and actions.
        available
            Which actions each state has, a mask of the new size that includes all known pairs; by
            default new states have all actions, and new actions are available in all states.
        """
        q, ceiling, visits = self.q, self.ceiling, self.visits
        pairs, place = self.larger(n_states, n_actions, available)
        self.know(pairs)
        self.q, self.ceiling = np.zeros(self.actions.size), np.zeros(self.actions.size)
        self.value = np.zeros(self.n_states)
        self.visits = np.zeros(self.actions.size, np.int64)
        self.forget()
        self.q[place], self.ceiling[place], self.visits[place] = q, ceiling, visits
        self.value[:] = np.maximum.reduceat(self.ceiling, self.starts[:-1])

    @property
    def t(self) -> int:
        """The step that comes next, from 1."""
        return self.clock

    @property
    def policy(self) -> NDArray[np.int64]:
        """The action with the highest estimate in each state."""
        return np.array([self.act(s) for s in range(self.n_states)])
