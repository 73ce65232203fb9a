"""References for comparisons.

    Omniscient  knows every configuration and when it is active, and plays its optimal policy.
    Random      chooses uniformly among the available actions.

Agents that know the change points, but not the configurations, are in `oracle`.
"""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from switchmdp.agents.protocol import Agent
from switchmdp.compiled import Increasing, RandomWords, Range, Shape, compiled, require
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

    policies: Annotated[
        NDArray[np.int64], Shape("changes + 1", "states"), Range(0, below="actions")
    ]
    change_points: Annotated[
        NDArray[np.int64], Shape("changes"), Range(2, below=2**62), Increasing()
    ]
    at: Annotated[int, Range(0, "changes")]
    clock: Annotated[int, Range(1, 2**53)]

    def __init__(self, problem: SwitchingMDP | MDP) -> None:
        problem = as_switching(problem)
        Agent.__init__(self, problem.n_states, problem.n_actions, problem.available)
        self.policies = optimal_policies(problem)
        self.change_points = problem.change_points.copy()
        self.at, self.clock = 0, 1

    def check_invariants(self) -> None:
        """The policies choose available actions."""
        first = np.arange(self.n_states) * self.n_actions
        available = np.repeat(first, np.diff(self.starts)) + self.actions
        chosen = np.isin(first + self.policies, available)
        require(chosen.all(), "Omniscient.policies must choose available actions")

    def act(self, state: int) -> int:
        """The optimal action at this step."""
        while self.at < self.change_points.size and self.change_points[self.at] <= self.clock:
            self.at += 1
        return int(self.policies[self.at, state])

    def observe(self, state: int, action: int, reward: float, next_state: int) -> None:
        """Advance the time."""
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

    words: RandomWords
    clock: Annotated[int, Range(1, 2**53)]

    def __init__(
        self, n_states: Any, n_actions: Any, *, seed: int = 0, available: Any = None
    ) -> None:
        Agent.__init__(self, n_states, n_actions, available)
        self.words = stream(check_integer("seed", seed, 0))
        self.clock = 1

    def grow(self, n_states: int, n_actions: int, available: Any = None) -> None:
        """Add states or actions."""
        self.know(self.larger(n_states, n_actions, available)[0])

    def reseed(self, seed: int | np.random.SeedSequence) -> None:
        """Seed the random numbers; `simulate` does so with the seed of the run."""
        self.words = stream(seed)

    def act(self, state: int) -> int:
        """A uniform draw."""
        first = self.starts[state]
        return int(self.actions[first + below(self.words, self.starts[state + 1] - first)])

    def observe(self, state: int, action: int, reward: float, next_state: int) -> None:
        """Advance the time."""
        self.clock += 1

    @property
    def t(self) -> int:
        """The step that comes next, from 1."""
        return self.clock
