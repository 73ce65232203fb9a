"""The L1 balls of UCRL2 and SW-UCRL: plausible MDPs, and the best policy of the best of them.

L1Ball is the paper's set M_k (Figure 1, steps 4 and 5; Jaksch et al. 2010). With N⁺ = max(1, N):

    |r̃ - r̂|  <= sqrt( 7 log(2 S A t_k / δ) / (2 N⁺) ),  r̃ <= 1       (Eq. 1)
    ‖p̃ - p̂‖₁ <= sqrt( 14 S log(2 A t_k / δ) / N⁺ )                    (Eq. 2)
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from switchmdp.compiled import compiled
from switchmdp.mdp.pairs import Pairs, probability
from switchmdp.planning.inner_maximum import optimistic_row
from switchmdp.planning.optimism import Optimism


@compiled
class L1Ball:
    """The L1 confidence set of UCRL2 and SW-UCRL at confidence δ."""

    delta: float
    n_states: int
    n_actions: int
    optimism: Optimism
    reward: NDArray[np.float64]
    radius: NDArray[np.float64]

    def __init__(self, delta: float) -> None:
        self.delta = probability("delta", delta)

    def allocate(self, pairs: Pairs) -> None:
        """Make room for these pairs."""
        self.n_states, self.n_actions = pairs.n_states, pairs.n_actions
        self.optimism = Optimism(pairs.n_states)
        self.reward, self.radius = np.zeros(pairs.n_pairs), np.zeros(pairs.n_pairs)

    def reward_radius(self, visits: int, t: int) -> float:
        """Eq. 1."""
        log = math.log(2.0 * self.n_states * self.n_actions * t / self.delta)
        return math.sqrt(7.0 * log / (2.0 * max(1, visits)))

    def transition_radius(self, visits: int, t: int) -> float:
        """Eq. 2."""
        log = math.log(2.0 * self.n_actions * t / self.delta)
        return math.sqrt(14.0 * self.n_states * log / max(1, visits))

    def plan(self, starts: Any, counts: Any, t: int, choice: Any) -> None:
        """Steps 4 and 5: write the optimistic policy, as a pair for each state, into `choice`."""
        visits, reward, radius = counts.visits, self.reward, self.radius
        log_r = math.log(2.0 * self.n_states * self.n_actions * t / self.delta)
        log_p = math.log(2.0 * self.n_actions * t / self.delta)
        # Eq. 1 and 2 again, with the logarithms outside the loop. Most pairs of a large problem
        # were never visited: they share N⁺ = 1 and r̂ = 0.
        unseen_reward = min(1.0, math.sqrt(7.0 * log_r / 2.0))
        unseen_radius = max(2.0, math.sqrt(14.0 * self.n_states * log_p))
        for pair in range(visits.size):
            n = visits[pair]
            if n == 0:
                reward[pair], radius[pair] = unseen_reward, unseen_radius
            else:
                reward[pair] = min(1.0, counts.mean(pair) + math.sqrt(7.0 * log_r / (2.0 * n)))
                radius[pair] = math.sqrt(14.0 * self.n_states * log_p / n)
        self.optimism.estimate(counts, radius)
        # All rows give the best state at least d/2 > 0, so this converges long before it gives up.
        self.optimism.iterate(
            starts, counts.offset, counts.used, counts.target, counts.full,
            reward, radius, 1.0 / math.sqrt(t), choice,
        )  # fmt: skip

    def worth(self, counts: Any, t: int, pair: int) -> float:
        """r̃ + max p̃·u of a pair with these counts; u are the values of the last plan."""
        value, visits = self.optimism.value, int(counts.visits[pair])
        reward = min(1.0, counts.mean(pair) + self.reward_radius(visits, t))
        radius, best = self.transition_radius(visits, t), int(np.argmax(value))
        if visits == 0 or radius >= 2.0:
            return float(reward + value[best])
        block = slice(counts.offset[pair], counts.offset[pair] + counts.used[pair])
        slots = zip(counts.target[block].tolist(), counts.count[block].tolist(), strict=True)
        estimate = {best: 0.0} | {target: n / visits for target, n in slots if n > 0}
        values = value[list(estimate)]
        row = optimistic_row(list(estimate.values()), radius, values)
        return float(reward + row @ values)

    def gain(self) -> float:
        """The optimistic gain of the last plan."""
        return (self.optimism.lower + self.optimism.upper) / 2.0

    def sweeps(self) -> int:
        """The sweeps that the last plan took."""
        return self.optimism.sweeps
