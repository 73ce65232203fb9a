"""SW-UCRL's regret bound and the window that minimises it; the window of SWUCRL2-CW.

With l changes up to step T, a window of W steps, S states, A actions, D the largest diameter among
the l + 1 MDPs and ψ = D S √(A log(T/δ)), the regret is, with probability at least 1 - δ, at most

    Theorem 1      2lW + 66.12 ⌈T/√W⌉ ψ
    Eq. 3          W* = (16.53/l · T ψ)^{2/3}, where 2lW + 66.12 T/√W ψ is smallest
    Corollary 1    38.94 (l T² ψ²)^{1/3} at W*
    Corollary 2    ε T once T ≥ 2 c log(c/δ), c = 38.94³ l D² S² A/ε³

for T ≥ max(8δ, 2Aδ) and W ≥ max(SA, A log₂²(8W/(SA))/log(T/δ)).

Theorem 1's proof slips in three places: old data reaches every episode that starts within W steps
of a change, not only the next one; episodes can outlast W; ⌈T/W⌉√W can exceed ⌈T/√W⌉. Repaired,
for one T fixed in advance, the bound is

    2lW + l(S + D) + 4.36 D √(T log(T/δ)) + 61.76 κ (T/√W + √W) ψ,   κ = √(1 + (S-2)/(2W)).

The last slip does harm where W > T: with l = 0 and W = T² the printed bound is 66.12 ψ, below the
0.015 √(DSAT) that no algorithm can beat (`ucrl2_lower_bound`).

**SWUCRL2-CW.** With the variation budgets B_r = Σ_t max|Δr̄| and B_p = Σ_t max‖Δp‖₁ over all
steps, its window and widening are

    W* = 3 S^{2/3} A^{1/2} T^{1/2} / (B_r + B_p + 1)^{1/2},      η* = √((B_p + 1) W*/T).

If the budgets are not known, W = S^{2/3} A^{1/2} T^{1/2} and η = √(W/T).

References: Gajane, Ortner, Auer (2018), Section 3 and Appendices III, IV;
Cheung, Simchi-Levi, Zhu (2020).
"""

from __future__ import annotations

import math
from typing import Any

from switchmdp.errors import InvalidParameter, OutsideValidity
from switchmdp.theory.lemmas import e1_bound, repaired_e2_bound
from switchmdp.theory.parameters import (
    ceil_div_sqrt,
    checked,
    leading_factor,
    log_ratio,
    require_theorem_1,
)

# 4.36 + 61.76, the constants of E₁ and E₂.
REGRET_CONSTANT = 66.12
# 66.12/4: the derivative 2l - (66.12/2) T ψ W^{-3/2} vanishes at W^{3/2} = 16.53 T ψ/l.
WINDOW_CONSTANT = 16.53
# 2 · 16.53^{2/3} + 66.12/16.53^{1/3} = 6 · 16.53^{2/3} = 38.9339.
COROLLARY_CONSTANT = 38.94


@checked
def theorem_1_holds(
    *, horizon: int, n_states: int, n_actions: int, window: int, delta: float
) -> bool:
    """Whether Theorem 1's conditions on T and W are met (`regret_bound` raises where not).

    >>> theorem_1_holds(horizon=100_000, n_states=5, n_actions=3, window=1000, delta=0.1)
    True
    >>> theorem_1_holds(horizon=100_000, n_states=5, n_actions=3, window=14, delta=0.1)
    False
    """
    try:
        require_theorem_1("Theorem 1", horizon, n_states, n_actions, window, delta)
    except OutsideValidity:
        return False
    return True


@checked
def regret_bound(
    *, horizon: int, diameter: float, n_states: int, n_actions: int, changes: int, window: int,
    delta: float,
) -> float:  # fmt: skip
    """Theorem 1 as printed: 2lW + 66.12 ⌈T/√W⌉ ψ.

    For T ≥ max(8δ, 2Aδ) and W ≥ max(SA, A log₂²(8W/(SA))/log(T/δ)); see `repaired_regret_bound`.

    >>> setting = dict(horizon=10**9, diameter=1, n_states=5, n_actions=3, changes=2, delta=0.1)
    >>> round(regret_bound(window=10**7, **setting))
    908903691
    """
    T, D, S, A, W = horizon, diameter, n_states, n_actions, window
    require_theorem_1("Theorem 1", T, S, A, W, delta)
    steps = ceil_div_sqrt(T, W)
    return 2 * changes * W + REGRET_CONSTANT * steps * leading_factor(T, D, S, A, delta)


@checked
def repaired_regret_bound(
    *, horizon: int, diameter: float, n_states: int, n_actions: int, changes: int, window: int,
    delta: float,
) -> float:  # fmt: skip
    """Theorem 1 repaired: 2lW + l(S + D) + 4.36 D √(T log(T/δ)) + 61.76 κ (T/√W + √W) ψ.

    This project's own, for one T fixed in advance; κ = √(1 + (S-2)/(2W)), 1 for a single state.
    The conditions are Theorem 1's.

    >>> setting = dict(horizon=10**9, diameter=1, n_states=5, n_actions=3, changes=2, delta=0.1)
    >>> round(repaired_regret_bound(window=10**7, **setting))
    860384703
    """
    T, D, S, A, W = horizon, diameter, n_states, n_actions, window
    require_theorem_1("the repaired bound", T, S, A, W, delta)
    # A change spoils W steps and the last episode that began in them: at most 2W + S - 2 steps.
    # Cutting the episode in which it falls makes one episode more, at a cost of D.
    spoiled = 2 * changes * W + changes * (S + D)
    deviations = e1_bound(horizon=T, diameter=D, delta=delta)
    learning = repaired_e2_bound(
        horizon=T, diameter=D, n_states=S, n_actions=A, window=W, delta=delta
    )
    return spoiled + deviations + learning


@checked
def optimal_window_exact(
    *, horizon: int, diameter: float, n_states: int, n_actions: int, changes: int, delta: float
) -> float:
    """Eq. 3: W* = (16.53/l · T ψ)^{2/3}, unrounded, for l ≥ 1 changes.

    It minimises Theorem 1's bound without the ceiling, and may exceed T.

    >>> setting = dict(horizon=100_000, diameter=1, n_states=5, n_actions=3, delta=0.1)
    >>> round(optimal_window_exact(changes=2, **setting), 1)
    89119.2
    """
    T, D, S, A = horizon, diameter, n_states, n_actions
    if changes == 0:
        raise OutsideValidity("Eq. 3 needs changes >= 1: without any, no window is long enough")
    return math.cbrt(WINDOW_CONSTANT / changes * T * leading_factor(T, D, S, A, delta)) ** 2


@checked
def optimal_window(
    *, horizon: int, diameter: float, n_states: int, n_actions: int, changes: int, delta: float
) -> int:
    """Eq. 3's window as an agent can use it: rounded, at least SA, at most T.

    With no changes it is T, and a window of T steps forgets nothing: that is UCRL2. Defined for
    every setting; whether Theorem 1 then applies is `theorem_1_holds`.

    >>> setting = dict(horizon=100_000, diameter=1, n_states=5, n_actions=3, delta=0.1)
    >>> optimal_window(changes=2, **setting), optimal_window(changes=4, **setting)
    (89119, 56142)
    >>> optimal_window(changes=0, **setting)
    100000
    """
    T, D, S, A = horizon, diameter, n_states, n_actions
    if changes == 0:
        return T
    exact = optimal_window_exact(
        horizon=T, diameter=D, n_states=S, n_actions=A, changes=changes, delta=delta
    )
    return min(T, max(S * A, round(exact)))


@checked
def corollary_1_bound(
    *, horizon: int, diameter: float, n_states: int, n_actions: int, changes: int, delta: float
) -> float:
    """Corollary 1 as printed: regret at most 38.94 (l T² ψ²)^{1/3} at W*.

    For l ≥ 1 changes and T ≥ max(8δ, 2Aδ), where W* is a window that Theorem 1 covers.
    The proof drops Theorem 1's ceiling: the theorem's own bound at W* can be larger.

    >>> setting = dict(horizon=10**9, diameter=1, n_states=5, n_actions=3, delta=0.1)
    >>> round(corollary_1_bound(changes=2, **setting))
    588615368
    """
    T, D, S, A = horizon, diameter, n_states, n_actions
    window = optimal_window_exact(
        horizon=T, diameter=D, n_states=S, n_actions=A, changes=changes, delta=delta
    )
    require_theorem_1("Corollary 1", T, S, A, window, delta)
    growth = math.cbrt(changes) * math.cbrt(T * leading_factor(T, D, S, A, delta)) ** 2
    return COROLLARY_CONSTANT * growth


@checked
def repaired_corollary_1_bound(
    *, horizon: int, diameter: float, n_states: int, n_actions: int, changes: int, delta: float
) -> float:
    """The repaired bound at `optimal_window`: what is proved in Corollary 1's place.

    Theorem 1's conditions on T and on that window; changes = 0 is allowed.

    >>> setting = dict(horizon=10**9, diameter=1, n_states=5, n_actions=3, delta=0.1)
    >>> round(repaired_corollary_1_bound(changes=2, **setting))
    581293597
    """
    setting: dict[str, Any] = {
        "horizon": horizon, "diameter": diameter, "n_states": n_states, "n_actions": n_actions,
        "changes": changes, "delta": delta,
    }  # fmt: skip
    return repaired_regret_bound(window=optimal_window(**setting), **setting)


@checked
def corollary_2_steps(
    *, diameter: float, n_states: int, n_actions: int, changes: int, delta: float, epsilon: float
) -> int:
    """Corollary 2: after T ≥ 2 c log(c/δ) steps, c = 38.94³ l D² S² A/ε³, regret/T is at most ε.

    It bounds the *average regret* at such T, with W* set for T. It does not count the steps whose
    own regret exceeds ε, though the paper speaks of sub-optimal steps.
    For l ≥ 1 changes and 0 < ε ≤ 1; Theorem 1's conditions then hold by themselves.

    >>> corollary_2_steps(
    ...     diameter=1, n_states=5, n_actions=3, changes=2, delta=0.1, epsilon=0.5)
    2887860128
    """
    if changes == 0:
        raise OutsideValidity("Corollary 2 needs changes >= 1: its window is Eq. 3's")
    c = (COROLLARY_CONSTANT / epsilon) ** 3 * changes * diameter**2 * n_states**2 * n_actions
    return math.ceil(2 * c * log_ratio(c, delta))


# SWUCRL2-CW.


@checked
def cw_window(
    *, horizon: int, n_states: int, n_actions: int, reward_variation: float | None = None,
    transition_variation: float | None = None,
) -> int:  # fmt: skip
    """W*, or without both budgets the window for unknown ones; rounded, from 1 to T.

    >>> cw_window(horizon=100_000, n_states=5, n_actions=3)
    1602
    >>> sizes = dict(horizon=100_000, n_states=5, n_actions=3)
    >>> cw_window(reward_variation=2, transition_variation=1, **sizes)
    2402
    """
    window = math.cbrt(n_states) ** 2 * math.sqrt(n_actions * horizon)
    if (reward_variation is None) != (transition_variation is None):
        allowed = "given together with reward_variation, or neither"
        raise InvalidParameter("transition_variation", transition_variation, allowed)
    if reward_variation is not None and transition_variation is not None:
        window *= 3 / math.sqrt(reward_variation + transition_variation + 1)
    return min(max(1, round(window)), horizon)


@checked
def cw_widening(*, horizon: int, window: int, transition_variation: float | None = None) -> float:
    """η* = √((B_p + 1) W/T), or √(W/T) where B_p is not known.

    >>> cw_widening(horizon=10_000, window=400), cw_widening(
    ...     horizon=10_000, window=400, transition_variation=3)
    (0.2, 0.4)
    """
    return math.sqrt(((transition_variation or 0.0) + 1) * window / horizon)
