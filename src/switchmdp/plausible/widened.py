"""L1 balls widened by what may have changed since the data were taken.

`Widened`, of SWUCRL2-CW (Cheung, Simchi-Levi, Zhu 2020), for a horizon T and a widening η:

    |r̃ - r̂|  <= 2 sqrt( 2 log(S A T / δ) / N⁺ )
    ‖p̃ - p̂‖₁ <= 2 sqrt( 2 S log(S A T / δ) / N⁺ ) + η

`Varied`, of variation-aware UCRL (Ortner, Gajane, Auer 2019), with confidence δ' = δ/(2τ²) in a
phase that starts at step τ, t counted within the phase, and V_r, V_p the variation in it:

    |r̃ - r̂|  <= V_r + sqrt( 8 log(8 S A t³ / δ') / N⁺ )
    ‖p̃ - p̂‖₁ <= V_p + sqrt( 8 S log(8 S A t³ / δ') / N⁺ )
"""

from __future__ import annotations

import math
from typing import Any

from switchmdp.compiled import compiled
from switchmdp.errors import InvalidParameter
from switchmdp.mdp.pairs import probability, real, whole
from switchmdp.plausible.l1 import L1Set


def not_negative(field: str, value: Any) -> float:
    """A parameter that must be a finite number from 0 on."""
    if not real(value) or not 0.0 <= value < math.inf:
        raise InvalidParameter(field, value, "a number >= 0")
    return float(value)


@compiled
class Widened(L1Set):
    """The confidence-widened L1 set of SWUCRL2-CW."""

    horizon: int
    widening: float

    def __init__(self, delta: float, *, horizon: int, widening: float) -> None:
        self.delta = probability("delta", delta)
        self.horizon = whole("horizon", horizon, 1)
        self.widening = not_negative("widening", widening)

    def reward_scale(self, t: int) -> float:
        """8 log(SAT/δ), as 2 √(2x) = √(8x)."""
        return 8.0 * math.log(1.0 * self.n_states * self.n_actions * self.horizon / self.delta)

    def transition_scale(self, t: int) -> float:
        """8 S log(SAT/δ)."""
        return self.n_states * self.reward_scale(t)

    def transition_widening(self) -> float:
        """η."""
        return self.widening

    def check_state(self) -> None:
        """What a file may say."""
        whole("horizon", self.horizon, 1)
        not_negative("widening", self.widening)


@compiled
class Varied(L1Set):
    """The L1 set of variation-aware UCRL; the agent says at which step a phase starts."""

    reward_variation: float
    transition_variation: float
    phase: int

    def __init__(
        self, delta: float, *, reward_variation: float = 0.0, transition_variation: float = 0.0
    ) -> None:
        self.delta = probability("delta", delta)
        self.reward_variation = not_negative("reward_variation", reward_variation)
        self.transition_variation = not_negative("transition_variation", transition_variation)
        self.phase = 1

    def start_phase(self, t: int) -> None:
        """A phase starts at step t."""
        self.phase = t

    def reward_scale(self, t: int) -> float:
        """8 log(8SAt³/δ'), 1/δ' = 2τ²/δ; logarithms are added lest a cube overflow."""
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

    def check_state(self) -> None:
        """What a file may say."""
        not_negative("reward_variation", self.reward_variation)
        not_negative("transition_variation", self.transition_variation)
        whole("phase", self.phase, 1)
