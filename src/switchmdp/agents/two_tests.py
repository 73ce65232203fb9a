"""The two tests by which MASTER restarts (Wei, Luo 2021), and the rates that they are made of.

    ρ(t) = min( D S √(A/t) + D S A/t, D ),    ρ̂(t) = scale · 18 (log₂ T + 1) log(T/δ) ρ(t)

In a block of which t steps have passed, with optimistic gains g̃, rewards R, and U = min g̃ so far:

    Test 1, where an instance of order m ends:   the mean of R over its 2^m steps >= U + 9 ρ̂(2^m)
    Test 2, after every step:                    the mean of g̃ - R over the t steps >= 3 ρ̂(t)
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from switchmdp.compiled import compiled


@compiled
class TwoTests:
    """What the tests need of a block, and their verdicts.

    >>> tests = TwoTests(5, 3, horizon=100_000, diameter=1.0, delta=0.1, scale=1.0, orders=17)
    >>> round(tests.rho(100_000), 5), round(tests.rho_hat(100_000), 1)
    (0.02754, 120.6)
    """

    n_states: int
    n_actions: int
    diameter: float
    factor: float
    earned: float  # ΣR
    gap: float  # Σ(g̃ - R)
    lowest: float  # U
    earned_before: NDArray[np.float64]  # ΣR when the instance of each order started

    def __init__(
        self, n_states: int, n_actions: int, *,
        horizon: int, diameter: float, delta: float, scale: float, orders: int,
    ) -> None:  # fmt: skip
        self.n_states, self.n_actions, self.diameter = n_states, n_actions, diameter
        self.factor = scale * 18.0 * (math.log2(horizon) + 1.0) * math.log(horizon / delta)
        self.earned_before = np.zeros(orders)
        self.begin()

    def rho(self, t: int) -> float:
        """ρ(t), the base's regret per step after t of them, up to logarithms."""
        ratio = self.n_actions / t
        return self.diameter * min(1.0, self.n_states * (math.sqrt(ratio) + ratio))

    def rho_hat(self, t: int) -> float:
        """ρ̂(t)."""
        return self.factor * self.rho(t)

    def begin(self) -> None:
        """A block begins."""
        self.earned, self.gap, self.lowest = 0.0, 0.0, np.inf

    def start(self, order: int) -> None:
        """An instance starts."""
        self.earned_before[order] = self.earned

    def take_in(self, rewards: Any, first: int, last: int, gain: float) -> None:
        """The rewards first..last-1 of a log, earned where g̃ was `gain`."""
        earned, gap = self.earned, self.gap
        for i in range(first, last):
            earned += rewards[i]
            gap += gain - rewards[i]
        self.earned, self.gap, self.lowest = earned, gap, min(self.lowest, gain)

    def test_1_fails(self, order: int) -> bool:
        """Whether an instance that has ended earned too much for what was held possible."""
        span = 1 << order
        mean = (self.earned - self.earned_before[order]) / span
        return bool(mean >= self.lowest + 9.0 * self.rho_hat(span))

    def test_2_fails(self, t: int) -> bool:
        """Whether t steps of a block earned too little for what was promised."""
        return self.gap >= self.most_gap(t)

    def most_gap(self, t: int) -> float:
        """3 t ρ̂(t), which rises with t: what Σ(g̃ - R) must stay below."""
        return 3.0 * t * self.rho_hat(t)

    def check_state(self) -> None:
        """Whether what a file says makes sense."""
        sound = self.n_states >= 1 and self.n_actions >= 1
        sound = sound and 0.0 < self.diameter < math.inf and 0.0 < self.factor < math.inf
        sound = sound and all(math.isfinite(x) for x in (self.earned, self.gap))
        if not sound or not self.lowest >= 0.0 or not np.isfinite(self.earned_before).all():
            raise ValueError("TwoTests is not consistent")
