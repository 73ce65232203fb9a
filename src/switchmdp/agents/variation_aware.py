"""Variation-aware UCRL with restarts (Ortner, Gajane, Auer 2019).

The pseudo-code, with the code that carries out each line:

    Input: δ, the variations V_r, V_p, the diameter D.                VariationAwareUCRL.__init__
    τ := 1.  For phases i = 1, 2, … do
      run variation-aware UCRL with δ/(2τ²) for                                          Varied
      θ_i = ⌈i² / (V_r + D V_p)²⌉ steps;  τ := τ + θ_i.                                   Phases

V_r and V_p are the total variations of rewards and transitions, Σ_t max|Δr̄| and Σ_t max‖Δp‖₁. The
radii also contain the variation within the phase, which is usually unknown. Its default is 0, as in
the authors' experiments. Without any variation there is one phase, which does not end.

With the true variations, also within phases, the regret is of order
(V_r + D V_p)^{1/3} T^{2/3} D S √A with probability 1 - δ. With 0 for the variation within a phase
it is a heuristic.
"""

from __future__ import annotations

import math
from typing import Annotated, Any

from switchmdp.agents.episodic import Episodic
from switchmdp.compiled import Range, compiled, require
from switchmdp.errors import InvalidParameter
from switchmdp.memory import Everything
from switchmdp.plausible import Varied
from switchmdp.restarts import NEVER, Schedule
from switchmdp.validation import check_not_negative, is_number


@compiled
class Phases(Schedule):
    """Restarts after ⌈i²/V²⌉ steps, i = 1, 2, …, with V = V_r + D V_p."""

    variation: Annotated[float, Range(0.0, below=math.inf)]
    i: Annotated[int, Range(0, 2**31)]
    start: Annotated[int, Range(1, NEVER)]

    def __init__(self, variation: float) -> None:
        self.variation = check_not_negative("variation", variation)
        self.i, self.start = 0, 1

    def length(self) -> int:
        """θ_i, the number of steps of phase i."""
        ratio = self.i / max(self.variation, 1e-18)
        # Rounding must not increase a whole square by one.
        return math.ceil(ratio * ratio * (1.0 - 1e-12)) if ratio < 1e9 else NEVER

    def after(self, t: int) -> int:
        """The first restart after step t; t never decreases."""
        while self.start <= t and self.start < NEVER:
            self.i += 1
            self.start = min(NEVER, self.start + self.length())
        return self.start


@compiled
class VariationAwareUCRL(Episodic):
    """UCRL2 in phases, which are longer the less the problem varies.

    Parameters
    ----------
    n_states, n_actions
        The numbers of states and actions.
    reward_variation
        V_r, the total variation of the mean rewards.
    transition_variation
        V_p, the total variation of the transition rows.
    diameter
        An upper bound of every diameter.
    delta
        A bound on the probability that the true MDP is not in the plausible set.
    width
        A factor on all radii. The proofs need 1; less is usually better, but has no guarantee.
    phase_reward_variation
        The variation of rewards within a phase; 0 is a heuristic.
    phase_transition_variation
        The variation of rows within a phase; 0 is a heuristic.
    available
        Which actions each state has, a (states, actions) mask; by default all.

    Raises
    ------
    InvalidParameter
        A parameter has the wrong type or is out of range.

    References
    ----------
    R. Ortner, P. Gajane and P. Auer (2019). Variational regret bounds for reinforcement learning.
    UAI.

    Examples
    --------
    >>> agent = VariationAwareUCRL(
    ...     5, 3, diameter=2.0, reward_variation=0.06, transition_variation=0.02)
    >>> agent.restart_at
    101
    """

    forget = Episodic.start_over  # the overridden method: machine code has no super()

    def __init__(
        self, n_states: Any, n_actions: Any, *,
        reward_variation: float, transition_variation: float, diameter: float,
        delta: float = 0.05, width: float = 1.0, phase_reward_variation: float = 0.0,
        phase_transition_variation: float = 0.0, available: Any = None,
    ) -> None:  # fmt: skip
        if not is_number(diameter) or not 1.0 <= diameter < math.inf:
            raise InvalidParameter("diameter", diameter, "a number >= 1")
        total = check_not_negative("reward_variation", reward_variation)
        total += diameter * check_not_negative("transition_variation", transition_variation)
        plausible = Varied(
            delta, reward_variation=phase_reward_variation,
            transition_variation=phase_transition_variation, width=width,
        )  # fmt: skip
        Episodic.__init__(
            self, n_states, n_actions, available=available, memory=Everything(),
            plausible=plausible, restarts=Phases(total),
        )  # fmt: skip

    def start_over(self) -> None:
        """Forget everything, and start a phase of the confidence set."""
        self.forget()
        self.plausible.start_phase(self.since)

    def check_invariants(self) -> None:
        """The schedule, the set and the agent agree on the phase."""
        require(self.restart_at == self.restarts.start, "restart_at must end the phase")
        require(self.plausible.phase <= self.clock, "Varied.phase lies in the future")
