"""References: what the others are measured against.

    Omniscient  knows every configuration and when it is active, and plays its optimal policy.
    Random      chooses uniformly among the available actions.

The third reference, `Oracle`, is UCRL2 restarted at the true change points (`ucrl2`).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from switchmdp.agents.protocol import Agent
from switchmdp.compiled import compiled
from switchmdp.mdp import MDP, SwitchingMDP, as_switching
from switchmdp.planning.gain import optimal_policies
from switchmdp.randomness import below, stream
from switchmdp.validation import check_integer


@compiled
class Omniscient(Agent):
    """Plays the optimal policy of whichever configuration is active.

    >>> from switchmdp.mdp import MDP
    >>> Omniscient(MDP([[[1, 0], [0, 1]], [[0, 1], [1, 0]]], [[0.2, 0], [0.8, 0]])).act(0)
    1
    """

    policies: NDArray[np.int64]
    change_points: NDArray[np.int64]
    at: int
    clock: int

    def __init__(self, problem: SwitchingMDP | MDP) -> None:
        problem = as_switching(problem)
        Agent.__init__(self, problem.n_states, problem.n_actions, problem.available)
        self.policies = optimal_policies(problem)
        self.change_points = problem.change_points.copy()
        self.at, self.clock = 0, 1

    def act(self, state: int) -> int:
        """The optimal action at this step."""
        while self.at < self.change_points.size and self.change_points[self.at] <= self.clock:
            self.at += 1
        return int(self.policies[self.at, state])

    def observe(self, state: int, action: int, reward: float, next_state: int) -> None:
        """Only time passes."""
        self.clock += 1

    @property
    def t(self) -> int:
        """The step that comes next, from 1."""
        return self.clock

    @property
    def policy(self) -> NDArray[np.int64]:
        """The optimal policy of the active configuration."""
        active = int(np.searchsorted(self.change_points, self.clock, side="right"))
        return np.array(self.policies[active])


@compiled
class Random(Agent):
    """Chooses uniformly among the available actions.

    >>> Random(5, 3, seed=1).act(0) in (0, 1, 2)
    True
    """

    words: NDArray[np.uint64]
    clock: int

    def __init__(
        self, n_states: Any, n_actions: Any, *, seed: int = 0, available: Any = None
    ) -> None:
        Agent.__init__(self, n_states, n_actions, available)
        self.words = stream(check_integer("seed", seed, 0))
        self.clock = 1

    def grow(self, n_states: int, n_actions: int, available: Any = None) -> None:
        """Know more states or actions."""
        self.know(self.larger(n_states, n_actions, available)[0])

    def reseed(self, seed: int | np.random.SeedSequence) -> None:
        """Start the agent's own randomness anew; `simulate` does so with the run's seed."""
        self.words = stream(seed)

    def act(self, state: int) -> int:
        """A uniform draw."""
        first = self.starts[state]
        return int(self.actions[first + below(self.words, self.starts[state + 1] - first)])

    def observe(self, state: int, action: int, reward: float, next_state: int) -> None:
        """Only time passes."""
        self.clock += 1

    @property
    def t(self) -> int:
        """The step that comes next, from 1."""
        return self.clock
