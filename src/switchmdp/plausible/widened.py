"""L1 balls that are widened for changes during the time of the data.

Drift may leave a plausible set without any MDP of a small diameter, though all true ones have one;
a widened set has one again (Cheung et al. call it the perils of drift and the blessing of more
optimism). Where nothing drifts, a widening costs regret.

`Widened`, for a horizon T, a widening η and L = log(S A T / δ):

    |r̃ - r̂|  <= sqrt( c L / N⁺ ),        ‖p̃ - p̂‖₁ <= sqrt( c S L / N⁺ ) + η

- SWUCRL2-CW (Cheung, Simchi-Levi, Zhu 2020) prints 2 sqrt(2 L / N⁺) and 2 sqrt(2 S L / N⁺) + η:
  c = 8, with η given.
- The base of MASTER-UCRL (Wei, Luo 2021) prints conf = 8 sqrt(L / N⁺) and √S conf + η: c = 64.
  `SpanBall` takes η = 1/T, 2/T, 4/T, … in each plan, until the span of the bias is at most 2D.

`Varied`, of variation-aware UCRL (Ortner, Gajane, Auer 2019), with confidence δ' = δ/(2τ²) in a
phase that starts at step τ, t counted within the phase, and V_r, V_p the variation in it:

    |r̃ - r̂|  <= V_r + sqrt( 8 log(8 S A t³ / δ') / N⁺ )
    ‖p̃ - p̂‖₁ <= V_p + sqrt( 8 S log(8 S A t³ / δ') / N⁺ )
"""

from __future__ import annotations

import math
from typing import Annotated, Any

from switchmdp.compiled import Range, compiled
from switchmdp.mdp.pairs import Pairs
from switchmdp.plausible.l1 import L1Set
from switchmdp.validation import (
    check_integer,
    check_not_negative,
    check_positive,
    check_probability,
)

CHEUNG, WEI_LUO = 8.0, 64.0
LONGEST = 2**53


@compiled
class Widened(L1Set):
    """Balls of radii √(c L/N⁺) and √(c S L/N⁺) + η, with c = `scale` and η = `widening`."""

    horizon: Annotated[int, Range(1, LONGEST)]
    widening: Annotated[float, Range(0.0, below=math.inf)]
    scale: Annotated[float, Range(above=0.0, below=math.inf)]
    log: Annotated[float, Range(0.0, below=math.inf)]  # L

    def __init__(
        self, delta: float, *, horizon: int, widening: float = 0.0, scale: float = CHEUNG
    ) -> None:
        self.delta = check_probability("delta", delta)
        self.horizon = check_integer("horizon", horizon, 1, LONGEST)
        self.widening = check_not_negative("widening", widening)
        self.scale = check_positive("scale", scale)

    def allocate(self, pairs: Pairs) -> None:
        """Make room for these pairs."""
        L1Set.allocate(self, pairs)
        self.log = math.log(float(self.n_states) * self.n_actions * self.horizon / self.delta)

    def reward_scale(self, t: int) -> float:
        """c L."""
        return self.scale * self.log

    def transition_scale(self, t: int) -> float:
        """c S L."""
        return self.n_states * self.reward_scale(t)

    def transition_widening(self) -> float:
        """η."""
        return self.widening


@compiled
class SpanBall(Widened):
    """In each plan η = 1/T, 2/T, 4/T, … until the span of the bias is at most `span` (2D)."""

    span: Annotated[float, Range(above=0.0, below=math.inf)]
    widening: Annotated[float, Range(above=0.0, high=4.0)]

    def __init__(self, delta: float, *, horizon: int, span: float, scale: float = WEI_LUO) -> None:
        Widened.__init__(self, delta, horizon=horizon, scale=scale)
        self.span = check_positive("span", span)
        self.widening = 1.0 / self.horizon

    def plan_rows(self, starts: Any, counts: Any, first: int, t: int, choice: Any) -> None:
        """Plan where pair x has the counts of row first + x."""
        self.widening = 1.0 / self.horizon
        self.bound(counts, first, t)
        self.solve(starts, counts, first, t, choice)
        # From η = 2 on every ball holds all distributions, and wider ones change nothing.
        while self.bias_span() > self.span and self.widening < 2.0:
            self.widening *= 2.0
            self.bound(counts, first, t)
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


@compiled
class Varied(L1Set):
    """The L1 set of variation-aware UCRL; the agent says at which step a phase starts."""

    reward_variation: Annotated[float, Range(0.0, below=math.inf)]
    transition_variation: Annotated[float, Range(0.0, below=math.inf)]
    phase: Annotated[int, Range(1, 2**62)]

    def __init__(
        self, delta: float, *, reward_variation: float = 0.0, transition_variation: float = 0.0
    ) -> None:
        self.delta = check_probability("delta", delta)
        self.reward_variation = check_not_negative("reward_variation", reward_variation)
        self.transition_variation = check_not_negative("transition_variation", transition_variation)
        self.phase = 1

    def start_phase(self, t: int) -> None:
        """A phase starts at step t."""
        self.phase = t

    def reward_scale(self, t: int) -> float:
        """8 log(8SAt³/δ'), 1/δ' = 2τ²/δ; a sum of logarithms, because t³ may overflow."""
        constant = math.log(8.0 * self.n_states * self.n_actions / self.delta)
        confidence = math.log(2.0) + 2.0 * math.log(self.phase)
        return 8.0 * (constant + 3.0 * math.log(t) + confidence)

    def transition_scale(self, t: int) -> float:
        """8 S log(8SAt³/δ')."""
        return self.n_states * self.reward_scale(t)

    def reward_widening(self) -> float:
        """V_r."""
        return self.reward_variation

    def transition_widening(self) -> float:
        """V_p."""
        return self.transition_variation
