"""An agent that follows a policy for a while, and logs its steps meanwhile.

`quota[s]` says how often state s may still be visited before a new policy is due. Who simulates
such an agent asks it to `prepare` only then, or after as many steps as it has `patience`, and keeps
its policy, quotas and log at hand in between.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from switchmdp.agents.protocol import Agent
from switchmdp.compiled import compiled
from switchmdp.mdp.pairs import find_pair

LOG_SIZE = 2048


@compiled
class Following(Agent):
    """Base of the agents that plan; a subclass has `prepare`, `patience`, `absorb`."""

    plausible: Any
    clock: int
    started: int
    episode_count: int
    choice: NDArray[np.int64]
    quota: NDArray[np.int64]
    log_pair: NDArray[np.uint32]
    log_next: NDArray[np.uint32]
    log_reward: NDArray[np.float64]
    logged: int

    def begin(self) -> None:
        """Before the first step: any policy, which may not be followed yet."""
        self.clock, self.started, self.episode_count = 1, 1, 0
        self.choice = self.starts[:-1].copy()
        self.quota = np.zeros(self.n_states, np.int64)
        self.log_pair = np.zeros(LOG_SIZE, np.uint32)
        self.log_next = np.zeros(LOG_SIZE, np.uint32)
        self.log_reward = np.zeros(LOG_SIZE)
        self.logged = 0

    def prepare(self, state: int) -> None:
        """See to it that the policy may be followed in this state for at least one step."""
        raise NotImplementedError

    def absorb(self) -> None:
        """Let the memory take in what was logged."""
        raise NotImplementedError

    def act(self, state: int) -> int:
        """The policy's action; makes a new policy where one is due."""
        self.prepare(state)
        return int(self.actions[self.choice[state]])

    def observe(self, state: int, action: int, reward: float, next_state: int) -> None:
        """Log a step. One that the policy did not choose is learned from all the same."""
        pair = find_pair(self.starts, self.actions, state, action)
        if pair == self.choice[state] and self.quota[state] > 0:
            self.quota[state] -= 1
        self.learn(pair, reward, next_state)

    def learn(self, pair: int, reward: float, next_state: int) -> None:
        """Log a step, whose visit was taken from the quota when it was decided on, if at all."""
        if self.logged == self.log_pair.size:
            self.absorb()
        self.log_pair[self.logged] = pair
        self.log_next[self.logged] = next_state
        self.log_reward[self.logged] = reward
        self.logged += 1
        self.clock += 1

    @property
    def t(self) -> int:
        """The step that comes next, from 1."""
        return self.clock

    @property
    def episode(self) -> int:
        """The number k of the current episode, a stretch of one policy; 0 before the first."""
        return self.episode_count

    @property
    def episode_start(self) -> int:
        """The step t_k at which the current episode started."""
        return self.started

    @property
    def policy(self) -> NDArray[np.int64]:
        """The current policy: an action for each state."""
        policy = self.actions[self.choice]
        policy.flags.writeable = False
        return policy

    @property
    def gain(self) -> float:
        """The gain that the current policy's plan promises; NaN before the first."""
        return float(self.plausible.gain()) if self.episode_count else math.nan

    @property
    def sweeps(self) -> int:
        """The sweeps of value iteration that the current policy's plan took."""
        return int(self.plausible.sweeps())
