"""L1 balls widened by η, so that what was learned before a drift stays inside.

With L = log(S A T / δ), T the horizon, and N⁺ = max(1, N):

    |r̃ - r̂|  <= c sqrt( L / N⁺ ),  r̃ <= 1
    ‖p̃ - p̂‖₁ <= c sqrt( S L / N⁺ ) + η

- SWUCRL2-CW (Cheung, Simchi-Levi, Zhu 2020) prints 2 sqrt(2 L / N⁺) and 2 sqrt(2 S L / N⁺) + η:
  c = 2√2, with η given.
- The base of MASTER-UCRL (Wei, Luo 2021) prints conf = 8 sqrt(L / N⁺) and √S conf + η: c = 8, with
  η = 1/T, 2/T, 4/T, … in each plan, until the span of the bias is at most 2D.

Drift may leave a plausible set without any MDP of a small diameter, though all true ones have one;
a widened set has one again (Cheung et al. call it the perils of drift and the blessing of more
optimism). Where nothing drifts, η > 0 costs regret.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from switchmdp.compiled import compiled
from switchmdp.errors import InvalidParameter
from switchmdp.mdp.pairs import Pairs, positive, probability, real, whole
from switchmdp.plausible.l1 import L1Ball

CHEUNG = 2.0 * math.sqrt(2.0)
WEI_LUO = 8.0
LONGEST = 2**53


@compiled
class WidenedBall(L1Ball):
    """Radii c √(L/N⁺) and c √(S L/N⁺) + η, with c = `scale` and η = `widening`."""

    scale: float
    horizon: int
    widening: float
    log: float  # L

    def __init__(
        self, *, scale: float = CHEUNG, horizon: int, delta: float, widening: float = 0.0
    ) -> None:
        self.scale = positive("scale", scale)
        self.horizon = whole("horizon", horizon, 1, LONGEST)
        self.delta = probability("delta", delta)
        if not real(widening) or not 0.0 <= widening < math.inf:
            raise InvalidParameter("widening", widening, "a number, at least 0")
        self.widening = float(widening)

    def allocate(self, pairs: Pairs) -> None:
        """Make room for these pairs."""
        L1Ball.allocate(self, pairs)
        self.log = math.log(float(self.n_states) * self.n_actions * self.horizon / self.delta)

    def reward_radius(self, visits: int, t: int) -> float:
        """c √(L/N⁺)."""
        return self.scale * math.sqrt(self.log / max(1, visits))

    def transition_radius(self, visits: int, t: int) -> float:
        """c √(S L/N⁺) + η."""
        return self.widening + math.sqrt(self.n_states) * self.reward_radius(visits, t)

    def plan(self, starts: Any, counts: Any, t: int, choice: Any) -> None:
        """Write the optimistic policy, as a pair for each state, into `choice`."""
        self.plan_rows(starts, counts, 0, t, choice)

    def plan_rows(self, starts: Any, counts: Any, first: int, t: int, choice: Any) -> None:
        """Plan where pair x has the counts of row first + x."""
        self.bound(counts, first)
        self.solve(starts, counts, first, t, choice)

    def bound(self, counts: Any, first: int) -> None:
        """The balls' centres, and r̃ and the radii of all pairs."""
        reward, radius, optimism = self.reward, self.radius, self.optimism
        if optimism.estimates.size != counts.count.size:
            optimism.estimates = np.zeros(counts.count.size)
        estimates, count = optimism.estimates, counts.count
        visits, offset, used = counts.visits, counts.offset, counts.used
        scale, log, root, widening = self.scale, self.log, math.sqrt(self.n_states), self.widening
        for pair in range(reward.size):
            row = first + pair
            n = visits[row]
            width = scale * math.sqrt(log / max(1, n))
            reward[pair] = min(1.0, counts.mean(row) + width)
            radius[pair] = widening + root * width
            if n == 0:  # nothing is known of it, however small the scale
                reward[pair], radius[pair] = 1.0, max(2.0, radius[pair])
            elif radius[pair] < 2.0:
                for k in range(offset[row], offset[row] + used[row]):
                    estimates[k] = count[k] / n

    def solve(self, starts: Any, counts: Any, first: int, t: int, choice: Any) -> None:
        """Extended value iteration, to 1/√t."""
        last = first + self.reward.size
        self.optimism.iterate(
            starts, counts.offset[first:last], counts.used[first:last], counts.target, counts.full,
            self.reward, self.radius, 1.0 / math.sqrt(t), choice,
        )  # fmt: skip

    def check_state(self) -> None:
        """Whether what a file says makes sense."""
        sound = 0.0 < self.scale < math.inf and 0.0 <= self.widening < math.inf
        if not sound or not (1 <= self.horizon <= LONGEST and 0.0 <= self.log <= 1000.0):
            raise ValueError("WidenedBall is not consistent")


@compiled
class SpanBall(WidenedBall):
    """In each plan η = 1/T, 2/T, 4/T, … until the span of the bias is at most `span` (2D)."""

    span: float

    def __init__(self, *, scale: float, horizon: int, delta: float, span: float) -> None:
        WidenedBall.__init__(self, scale=scale, horizon=horizon, delta=delta)
        self.span = positive("span", span)
        self.widening = 1.0 / self.horizon

    def plan_rows(self, starts: Any, counts: Any, first: int, t: int, choice: Any) -> None:
        """Plan where pair x has the counts of row first + x."""
        self.widening = 1.0 / self.horizon
        self.bound(counts, first)
        self.solve(starts, counts, first, t, choice)
        # From η = 2 on every ball holds all distributions, and wider ones change nothing.
        while self.bias_span() > self.span and self.widening < 2.0:
            self.widening *= 2.0
            self.bound(counts, first)
            self.solve(starts, counts, first, t, choice)

    def follow(self, gain: float, widening: float) -> None:
        """Go back to an earlier plan: its gain and its η."""
        self.optimism.lower, self.optimism.upper, self.widening = gain, gain, widening

    def bias_span(self) -> float:
        """max u - min u of the last plan; extended value iteration keeps min u = 0."""
        span = 0.0
        for value in self.optimism.value:
            span = max(span, value)
        return span

    def check_state(self) -> None:
        """Whether what a file says makes sense."""
        sound = 0.0 < self.scale < math.inf and 1 <= self.horizon <= LONGEST
        sound = sound and 0.0 <= self.log <= 1000.0
        if not sound or not (0.0 < self.span < math.inf and 0.0 < self.widening <= 4.0):
            raise ValueError("SpanBall is not consistent")
