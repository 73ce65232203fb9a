"""The window and the widening of SWUCRL2-CW (Cheung, Simchi-Levi, Zhu 2020).

With the variation budgets B_r = Σ_t max|Δr̄| and B_p = Σ_t max‖Δp‖₁ over all steps,

    W* = 3 S^{2/3} A^{1/2} T^{1/2} / (B_r + B_p + 1)^{1/2},      η* = √((B_p + 1) W*/T);

where the budgets are not known, W = S^{2/3} A^{1/2} T^{1/2} and η = √(W/T).
"""

from __future__ import annotations

import math

from switchmdp.errors import InvalidParameter
from switchmdp.theory._common import LARGEST, counts, real


def cw_window(
    *,
    horizon: int,
    n_states: int,
    n_actions: int,
    reward_variation: float | None = None,
    transition_variation: float | None = None,
) -> int:
    """W*, or without both budgets the window for unknown ones; rounded, from 1 to T.

    >>> cw_window(horizon=100_000, n_states=5, n_actions=3)
    1602
    >>> sizes = dict(horizon=100_000, n_states=5, n_actions=3)
    >>> cw_window(reward_variation=2, transition_variation=1, **sizes)
    2402
    """
    T, S, A = counts(horizon=horizon, n_states=n_states, n_actions=n_actions)
    window = math.cbrt(S) ** 2 * math.sqrt(A * T)
    if (reward_variation is None) != (transition_variation is None):
        raise InvalidParameter("transition_variation", transition_variation,
                               "given together with reward_variation, or neither")  # fmt: skip
    if reward_variation is not None and transition_variation is not None:
        b_r = real("reward_variation", reward_variation, 0, LARGEST)
        b_p = real("transition_variation", transition_variation, 0, LARGEST)
        window *= 3 / math.sqrt(b_r + b_p + 1)
    return min(max(1, round(window)), T)


def cw_widening(*, horizon: int, window: int, transition_variation: float | None = None) -> float:
    """η* = √((B_p + 1) W/T), or √(W/T) where B_p is not known.

    >>> cw_widening(horizon=10_000, window=400), cw_widening(
    ...     horizon=10_000, window=400, transition_variation=3)
    (0.2, 0.4)
    """
    T, W = counts(horizon=horizon, window=window)
    budget = 0.0
    if transition_variation is not None:
        budget = real("transition_variation", transition_variation, 0, LARGEST)
    return math.sqrt((budget + 1) * W / T)
