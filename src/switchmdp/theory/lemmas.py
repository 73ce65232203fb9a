"""The lemmas behind SW-UCRL's bound, and the two sums E₁ and E₂ they lead to.

Episode k starts at t_k with N_k(s,a) visits in the window of the W steps before it, and makes
v_k(s,a) visits itself, none beyond max(1, N_k). With m episodes up to step T (S states, A actions):

    Lemma 1    m ≤ ⌈T/W⌉ SA log₂(8W/(SA))
    Lemma 2    Σ_k Σ_{s,a} v_k/√max(1, N_k) ≤ (2√2 + 2) ⌈T/W⌉ √(SAW)

    E₁ = √(5/8 T log(8T/δ)) + √T + D √(5/2 T log(8T/δ))            ≤ 4.36 D √(T log(T/δ))
    E₂ = D · (Lemma 1) + (2D √(14 S log(2AT/δ)) + 2) · (Lemma 2)   ≤ 61.76 ⌈T/√W⌉ ψ

with ψ = D S √(A log(T/δ)). Three steps are repaired here, the printed forms beside them:

- A pair with N_k = 0 may be visited once, so that an episode lasts up to W + S - 1 steps and
  Lemma 2's batches up to 2W + S - 2, not 2W. Its bound grows by κ = √(1 + (S-2)/(2W)).
- ⌈T/W⌉√W ≤ ⌈T/√W⌉ is false: T/√W + √W is right. At T = W + 1 the left side is almost
  twice the right, and E₂ exceeds its printed bound.
- The first visit to a pair breaks Proposition 1's printed hypothesis; see `proposition_1`.

Reference: Gajane, Ortner, Auer (2018), Section 4 and Appendices I, II, V, VI.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

from switchmdp.errors import InvalidParameter, OutsideValidity
from switchmdp.theory.parameters import (
    ceil_div,
    ceil_div_sqrt,
    checked,
    integer,
    leading_factor,
    log_ratio,
    require_horizon,
    require_theorem_1,
    require_window,
)

# Lemma 2: Proposition 1 gives 1 + (√2 + 1) for each √(2SAW).
VISITS = 2 * math.sqrt(2) + 2
# √(5/4) + 1 + √5 = 4.3541: log(8T/δ) ≤ 2 log(T/δ) in E₁, and 1 ≤ D √log(T/δ).
E1_CONSTANT = 4.36
# 1 + (2√28 + 2)(2√2 + 2) = 61.7561: log(2AT/δ) ≤ 2 log(T/δ) in E₂, and 1 ≤ D √(S log(T/δ)).
E2_CONSTANT = 61.76


@checked
def longest_episode(*, window: int, n_states: int) -> int:
    """W + S - 1, the most steps that an episode can last.

    A policy's S pairs share at most W visits in the window, and each of the up to S - 1 pairs
    without any may still be visited once. (The paper says W.)

    >>> longest_episode(window=10, n_states=2)
    11
    """
    return window + n_states - 1


@checked
def episodes_bound(*, horizon: int, n_states: int, n_actions: int, window: int) -> float:
    """Lemma 1: at most ⌈T/W⌉ SA log₂(8W/(SA)) episodes up to step T, for W ≥ SA and T ≥ SA.

    >>> episodes_bound(horizon=1000, n_states=5, n_actions=2, window=80)
    780.0
    """
    T, S, A, W = horizon, n_states, n_actions, window
    require_horizon("Lemma 1", T, S * A, "n_states * n_actions")
    if S * A > W:
        raise OutsideValidity(f"Lemma 1 needs window >= n_states * n_actions = {S * A}, got {W}")
    return ceil_div(T, W) * S * A * math.log2(8 * W / (S * A))


@checked
def visits_bound(*, horizon: int, n_states: int, n_actions: int, window: int) -> float:
    """Lemma 2 as printed: Σ v_k/√max(1, N_k) ≤ (2√2 + 2) ⌈T/W⌉ √(SAW), for every T and W.

    Its proof needs episodes of at most W steps; for S ≤ 2 it stands as printed.

    >>> round(visits_bound(horizon=1000, n_states=5, n_actions=2, window=100), 2)
    1526.88
    """
    return VISITS * ceil_div(horizon, window) * math.sqrt(n_states * n_actions * window)


@checked
def repaired_visits_bound(*, horizon: int, n_states: int, n_actions: int, window: int) -> float:
    """Lemma 2 with batches of up to 2W + S - 2 steps: (2 + √2) ⌈T/W⌉ √(SA(2W + S - 2)).

    A batch ends with the first episode to end at or after its W-th step: at most W - 1 steps and
    one `longest_episode`. Every T and W.

    >>> round(repaired_visits_bound(horizon=1000, n_states=5, n_actions=2, window=100), 2)
    1538.29
    """
    T, S, A, W = horizon, n_states, n_actions, window
    return VISITS / math.sqrt(2) * ceil_div(T, W) * math.sqrt(S * A * (2 * W + S - 2))


def proposition_1(*, visits: Sequence[int], older: Sequence[int]) -> tuple[float, float]:
    """The two sides of Proposition 1: Σ z_k/√Z_k ≤ √y₁ + (√2 + 1) √(Σ z_k).

    For one pair in one batch: z_k = `visits` in episode k, x_k = z₁ + … + z_{k-1} those of the
    batch before it, y_k = `older` ones still in the window, and Z_k = max(1, x_k + y_k).
    Holds where z_k ≤ Z_k and y never grows. (Printed with z_k ≤ x_k + y_k, which the first visit
    to a pair breaks: x = y = 0, z = 1. The term √y₁ is not needed: x_k ≤ Z_k and z_k ≤ Z_k give
    z_k/√Z_k ≤ (√2 + 1) (√(x_k + z_k) - √x_k), which sums to the other term.)

    >>> left, right = proposition_1(visits=[1, 1, 2, 4], older=[0, 0, 0, 0])
    >>> round(left, 3), round(right, 3)
    (5.414, 6.828)
    """
    z, y = _integers("visits", visits), _integers("older", older)
    if len(z) != len(y) or not z:
        raise InvalidParameter("older", older, f"as long as visits ({len(z)}), and not empty")
    left, before = 0.0, 0
    for k, (now, old) in enumerate(zip(z, y, strict=True)):
        Z = max(1, before + old)
        if now > Z:
            raise OutsideValidity(
                f"Proposition 1 needs visits[{k}] <= max(1, earlier + older) = {Z}, got {now}"
            )
        if old > y[max(0, k - 1)]:
            raise OutsideValidity(
                f"Proposition 1 needs older never to grow, got {y[k - 1]} then {old} at {k}"
            )
        left += now / math.sqrt(Z)
        before += now
    return left, math.sqrt(y[0]) + (math.sqrt(2) + 1) * math.sqrt(before)


@checked
def e1(*, horizon: int, diameter: float, delta: float) -> float:
    """E₁ = √(5/8 T log(8T/δ)) + √T + D √(5/2 T log(8T/δ)): deviations and failed confidence.

    >>> round(e1(horizon=10_000, diameter=2, delta=0.1), 1)
    1557.3
    """
    spread = horizon * log_ratio(8 * horizon, delta)
    deviations = math.sqrt(5 / 8 * spread) + math.sqrt(horizon)
    return deviations + diameter * math.sqrt(5 / 2 * spread)


@checked
def e1_bound(*, horizon: int, diameter: float, delta: float) -> float:
    """E₁ ≤ 4.36 D √(T log(T/δ)), for T ≥ 8δ.

    >>> round(e1_bound(horizon=10_000, diameter=2, delta=0.1), 1)
    2958.8
    """
    require_horizon("the bound of E1", horizon, 8 * delta, "8 delta")
    return E1_CONSTANT * diameter * math.sqrt(horizon * log_ratio(horizon, delta))


@checked
def e2(
    *, horizon: int, diameter: float, n_states: int, n_actions: int, window: int, delta: float
) -> float:
    """E₂ as printed: D · Lemma 1 + (2D √(14 S log(2AT/δ)) + 2) · Lemma 2. Lemma 1's conditions.

    >>> round(e2(horizon=1001, diameter=1, n_states=2, n_actions=2, window=1000, delta=0.1), 1)
    22350.9
    """
    visits = visits_bound(horizon=horizon, n_states=n_states, n_actions=n_actions, window=window)
    return _e2(horizon, diameter, n_states, n_actions, window, delta, visits)


@checked
def e2_bound(
    *, horizon: int, diameter: float, n_states: int, n_actions: int, window: int, delta: float
) -> float:
    """E₂ ≤ 61.76 ⌈T/√W⌉ ψ as printed, for T ≥ 2Aδ and W ≥ max(SA, A log₂²(8W/(SA))/log(T/δ)).

    Follows where W divides T, and then also needs log(T/δ) ≥ 1. Elsewhere it can fail:

    >>> setting = dict(horizon=1001, diameter=1, n_states=2, n_actions=2, window=1000, delta=0.1)
    >>> round(e2_bound(**setting), 1), e2_bound(**setting) < e2(**setting)
    (16965.4, True)
    """
    T, S, A, W = horizon, n_states, n_actions, window
    require_horizon("the bound of E2", T, 2 * A * delta, "2 A delta")
    require_window("the bound of E2", T, S, A, W, delta)
    return E2_CONSTANT * ceil_div_sqrt(T, W) * leading_factor(T, diameter, S, A, delta)


@checked
def repaired_e2(
    *, horizon: int, diameter: float, n_states: int, n_actions: int, window: int, delta: float
) -> float:
    """E₂ with the repaired Lemma 2. Lemma 1's conditions.

    >>> setting = dict(horizon=1001, diameter=1, n_states=4, n_actions=2, window=100, delta=0.1)
    >>> round(e2(**setting)), round(repaired_e2(**setting))
    (76783, 77163)
    """
    visits = repaired_visits_bound(
        horizon=horizon, n_states=n_states, n_actions=n_actions, window=window
    )
    return _e2(horizon, diameter, n_states, n_actions, window, delta, visits)


@checked
def repaired_e2_bound(
    *, horizon: int, diameter: float, n_states: int, n_actions: int, window: int, delta: float
) -> float:
    """Repaired E₂ ≤ 61.76 κ (T/√W + √W) ψ, κ = √(1 + (S-2)/(2W)), for Theorem 1's T and W.

    T ≥ 8δ is needed beside T ≥ 2Aδ: the last step takes log(T/δ) ≥ 1.

    >>> setting = dict(horizon=1001, diameter=1, n_states=2, n_actions=2, window=1000, delta=0.1)
    >>> round(repaired_e2_bound(**setting), 1)
    33547.5
    """
    T, S, A, W = horizon, n_states, n_actions, window
    require_theorem_1("the repaired bound of E2", T, S, A, W, delta)
    kappa = math.sqrt(1 + max(0, S - 2) / (2 * W))
    steps = T / math.sqrt(W) + math.sqrt(W)
    return E2_CONSTANT * kappa * steps * leading_factor(T, diameter, S, A, delta)


def _integers(field: str, values: Any) -> list[int]:
    if not isinstance(values, Iterable):
        raise InvalidParameter(field, values, "a list of integers")
    return [integer(field, n, 0) for n in values]


def _e2(T: int, D: float, S: int, A: int, W: int, delta: float, visits: float) -> float:
    """E₂ for a given bound on Lemma 2's sum."""
    episodes = episodes_bound(horizon=T, n_states=S, n_actions=A, window=W)
    spread = 14 * S * log_ratio(2 * A * T, delta)
    return D * episodes + (2 * D * math.sqrt(spread) + 2) * visits
