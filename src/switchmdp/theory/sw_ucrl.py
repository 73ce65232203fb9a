"""The regret bound of SW-UCRL, its lemmas and its optimal window; and the window of SWUCRL2-CW.

With l changes up to step T, a window of W steps, S states, A actions, D the largest diameter among
the l + 1 MDPs and ψ = D S √(A log(T/δ)), the regret is, with probability at least 1 - δ, at most

    Theorem 1      2lW + 66.12 ⌈T/√W⌉ ψ
    Eq. 3          W* = (16.53/l · T ψ)^{2/3}, where 2lW + 66.12 T/√W ψ is smallest
    Corollary 1    38.94 (l T² ψ²)^{1/3} at W*
    Corollary 2    ε T once T ≥ 2 c log(c/δ), c = 38.94³ l D² S² A/ε³

for T ≥ max(8δ, 2Aδ) and W ≥ max(SA, A log₂²(8W/(SA))/log(T/δ)).

The proof of Theorem 1 has three gaps: old data remain in the window of every episode that starts
within W steps of a change, not only of the next one; an episode can be longer than W; ⌈T/W⌉√W can
exceed ⌈T/√W⌉. The repaired bound, for one T fixed in advance, is

    2lW + l(S + D) + 4.36 D √(T log(T/δ)) + 61.76 κ (T/√W + √W) ψ,   κ = √(1 + (S-2)/(2W)).

The last gap matters if W > T: with l = 0 and W = T² the printed bound is 66.12 ψ, which is below
the lower bound 0.015 √(DSAT) for any algorithm (`ucrl2_lower_bound`).

**The lemmas**, and the sums E₁ and E₂ that are bounded with them. Episode k starts at t_k with
N_k(s,a) visits in the window of the W steps before it, and has v_k(s,a) <= max(1, N_k(s,a)) visits.
With m episodes up to step T:

    Lemma 1    m ≤ ⌈T/W⌉ SA log₂(8W/(SA))
    Lemma 2    Σ_k Σ_{s,a} v_k/√max(1, N_k) ≤ (2√2 + 2) ⌈T/W⌉ √(SAW)

    E₁ = √(5/8 T log(8T/δ)) + √T + D √(5/2 T log(8T/δ))            ≤ 4.36 D √(T log(T/δ))
    E₂ = D · (Lemma 1) + (2D √(14 S log(2AT/δ)) + 2) · (Lemma 2)   ≤ 61.76 ⌈T/√W⌉ ψ

There are functions for the printed forms, and for the repaired forms of three steps:

- A pair with N_k = 0 may be visited once, so an episode has up to W + S - 1 steps, and a batch of
  Lemma 2 up to 2W + S - 2 instead of 2W. The bound of the lemma grows by κ = √(1 + (S-2)/(2W)).
- ⌈T/W⌉√W ≤ ⌈T/√W⌉ is false, and T/√W + √W is a valid upper bound. At T = W + 1 the left side is
  almost twice the right side, and E₂ exceeds its printed bound.
- The first visit to a pair violates the printed hypothesis of Proposition 1; see `proposition_1`.

**SWUCRL2-CW.** With the variation budgets B_r = Σ_t max|Δr̄| and B_p = Σ_t max‖Δp‖₁ over all
steps, its window and widening are

    W* = 3 S^{2/3} A^{1/2} T^{1/2} / (B_r + B_p + 1)^{1/2},      η* = √((B_p + 1) W*/T).

If the budgets are not known, W = S^{2/3} A^{1/2} T^{1/2} and η = √(W/T).

References: Gajane, Ortner, Auer (2018), Sections 3 and 4 and Appendices I to VI;
Cheung, Simchi-Levi, Zhu (2020).
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
# 4.36 + 61.76, the constants of E₁ and E₂.
REGRET_CONSTANT = 66.12
# 66.12/4: the derivative 2l - (66.12/2) T ψ W^{-3/2} vanishes at W^{3/2} = 16.53 T ψ/l.
WINDOW_CONSTANT = 16.53
# 2 · 16.53^{2/3} + 66.12/16.53^{1/3} = 6 · 16.53^{2/3} = 38.9339.
COROLLARY_CONSTANT = 38.94
# The lemmas.


@checked
def longest_episode(*, window: int, n_states: int) -> int:
    """The largest number of steps in an episode: W + S - 1.

    The S pairs of a policy have at most W visits in the window, and each of the up to S - 1 pairs
    without a visit may be visited once. (The paper says W.)

    Parameters
    ----------
    window
        W: the number of steps in the window.
    n_states
        S: the number of states.

    Returns
    -------
    int
        The number of steps.

    Raises
    ------
    InvalidParameter
        If a parameter has the wrong type or is out of range.

    References
    ----------
    Gajane, Ortner, Auer (2018): A sliding-window algorithm for Markov decision processes with
    arbitrarily changing rewards and transitions.

    Examples
    --------
    >>> longest_episode(window=10, n_states=2)
    11
    """
    return window + n_states - 1


@checked
def episodes_bound(*, horizon: int, n_states: int, n_actions: int, window: int) -> float:
    """Lemma 1: at most ⌈T/W⌉ SA log₂(8W/(SA)) episodes up to step T, for W ≥ SA and T ≥ SA.

    Parameters
    ----------
    horizon
        T: the number of steps.
    n_states
        S: the number of states.
    n_actions
        A: the number of actions.
    window
        W: the number of steps in the window.

    Returns
    -------
    float
        The largest number of episodes.

    Raises
    ------
    InvalidParameter
        If a parameter has the wrong type or is out of range.
    OutsideValidity
        If the claim does not cover these numbers.

    References
    ----------
    Gajane, Ortner, Auer (2018): A sliding-window algorithm for Markov decision processes with
    arbitrarily changing rewards and transitions.

    Examples
    --------
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

    Its proof needs episodes of at most W steps. For S ≤ 2 the lemma holds as printed.

    Parameters
    ----------
    horizon
        T: the number of steps.
    n_states
        S: the number of states.
    n_actions
        A: the number of actions.
    window
        W: the number of steps in the window.

    Returns
    -------
    float
        The printed bound of the sum.

    Raises
    ------
    InvalidParameter
        If a parameter has the wrong type or is out of range.
    OutsideValidity
        If the claim does not cover these numbers.

    References
    ----------
    Gajane, Ortner, Auer (2018): A sliding-window algorithm for Markov decision processes with
    arbitrarily changing rewards and transitions.

    Examples
    --------
    >>> round(visits_bound(horizon=1000, n_states=5, n_actions=2, window=100), 2)
    1526.88
    """
    return VISITS * ceil_div(horizon, window) * math.sqrt(n_states * n_actions * window)


@checked
def repaired_visits_bound(*, horizon: int, n_states: int, n_actions: int, window: int) -> float:
    """Lemma 2 with batches of up to 2W + S - 2 steps: (2 + √2) ⌈T/W⌉ √(SA(2W + S - 2)).

    A batch ends with the first episode that ends at or after the W-th step of the batch. So it has
    at most W - 1 steps plus one `longest_episode`. The lemma holds for every T and W.

    Parameters
    ----------
    horizon
        T: the number of steps.
    n_states
        S: the number of states.
    n_actions
        A: the number of actions.
    window
        W: the number of steps in the window.

    Returns
    -------
    float
        The repaired bound of the sum.

    Raises
    ------
    InvalidParameter
        If a parameter has the wrong type or is out of range.
    OutsideValidity
        If the claim does not cover these numbers.

    References
    ----------
    Gajane, Ortner, Auer (2018): A sliding-window algorithm for Markov decision processes with
    arbitrarily changing rewards and transitions.

    Examples
    --------
    >>> round(repaired_visits_bound(horizon=1000, n_states=5, n_actions=2, window=100), 2)
    1538.29
    """
    T, S, A, W = horizon, n_states, n_actions, window
    return VISITS / math.sqrt(2) * ceil_div(T, W) * math.sqrt(S * A * (2 * W + S - 2))


def proposition_1(*, visits: Sequence[int], older: Sequence[int]) -> tuple[float, float]:
    """The two sides of Proposition 1: Σ z_k/√Z_k ≤ √y₁ + (√2 + 1) √(Σ z_k).

    For one pair in one batch: z_k = `visits` in episode k, x_k = z₁ + … + z_{k-1} those of the
    batch before it, y_k = `older` ones still in the window, and Z_k = max(1, x_k + y_k). It holds
    if z_k ≤ Z_k and y never grows. (The paper requires z_k ≤ x_k + y_k, which the first visit to a
    pair violates: x = y = 0, z = 1. The term √y₁ is not needed: x_k ≤ Z_k and z_k ≤ Z_k give
    z_k/√Z_k ≤ (√2 + 1) (√(x_k + z_k) - √x_k), which sums to the other term.)

    Parameters
    ----------
    visits
        z_k: the visits in episode k.
    older
        y_k: the visits before the batch that are still in the window.

    Returns
    -------
    tuple of float
        The left and the right side.

    Raises
    ------
    InvalidParameter
        If a parameter has the wrong type or is out of range.
    OutsideValidity
        If the claim does not cover these numbers.

    References
    ----------
    Gajane, Ortner, Auer (2018): A sliding-window algorithm for Markov decision processes with
    arbitrarily changing rewards and transitions.

    Examples
    --------
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

    Parameters
    ----------
    horizon
        T: the number of steps.
    diameter
        D: the largest diameter of the configurations, at least 1.
    delta
        δ: the probability of failure, between 0 and 1.

    Returns
    -------
    float
        E₁.

    Raises
    ------
    InvalidParameter
        If a parameter has the wrong type or is out of range.
    OutsideValidity
        If the claim does not cover these numbers.

    References
    ----------
    Gajane, Ortner, Auer (2018): A sliding-window algorithm for Markov decision processes with
    arbitrarily changing rewards and transitions.

    Examples
    --------
    >>> round(e1(horizon=10_000, diameter=2, delta=0.1), 1)
    1557.3
    """
    spread = horizon * log_ratio(8 * horizon, delta)
    deviations = math.sqrt(5 / 8 * spread) + math.sqrt(horizon)
    return deviations + diameter * math.sqrt(5 / 2 * spread)


@checked
def e1_bound(*, horizon: int, diameter: float, delta: float) -> float:
    """E₁ ≤ 4.36 D √(T log(T/δ)), for T ≥ 8δ.

    Parameters
    ----------
    horizon
        T: the number of steps.
    diameter
        D: the largest diameter of the configurations, at least 1.
    delta
        δ: the probability of failure, between 0 and 1.

    Returns
    -------
    float
        The bound of E₁.

    Raises
    ------
    InvalidParameter
        If a parameter has the wrong type or is out of range.
    OutsideValidity
        If the claim does not cover these numbers.

    References
    ----------
    Gajane, Ortner, Auer (2018): A sliding-window algorithm for Markov decision processes with
    arbitrarily changing rewards and transitions.

    Examples
    --------
    >>> round(e1_bound(horizon=10_000, diameter=2, delta=0.1), 1)
    2958.8
    """
    require_horizon("the bound of E1", horizon, 8 * delta, "8 delta")
    return E1_CONSTANT * diameter * math.sqrt(horizon * log_ratio(horizon, delta))


@checked
def e2(
    *, horizon: int, diameter: float, n_states: int, n_actions: int, window: int, delta: float
) -> float:
    """E₂ as printed: D · Lemma 1 + (2D √(14 S log(2AT/δ)) + 2) · Lemma 2.

    The conditions are those of Lemma 1.

    Parameters
    ----------
    horizon
        T: the number of steps.
    diameter
        D: the largest diameter of the configurations, at least 1.
    n_states
        S: the number of states.
    n_actions
        A: the number of actions.
    window
        W: the number of steps in the window.
    delta
        δ: the probability of failure, between 0 and 1.

    Returns
    -------
    float
        E₂ as printed.

    Raises
    ------
    InvalidParameter
        If a parameter has the wrong type or is out of range.
    OutsideValidity
        If the claim does not cover these numbers.

    References
    ----------
    Gajane, Ortner, Auer (2018): A sliding-window algorithm for Markov decision processes with
    arbitrarily changing rewards and transitions.

    Examples
    --------
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

    It holds if W divides T and log(T/δ) ≥ 1. Otherwise it can fail:

    Parameters
    ----------
    horizon
        T: the number of steps.
    diameter
        D: the largest diameter of the configurations, at least 1.
    n_states
        S: the number of states.
    n_actions
        A: the number of actions.
    window
        W: the number of steps in the window.
    delta
        δ: the probability of failure, between 0 and 1.

    Returns
    -------
    float
        The printed bound of E₂.

    Raises
    ------
    InvalidParameter
        If a parameter has the wrong type or is out of range.
    OutsideValidity
        If the claim does not cover these numbers.

    References
    ----------
    Gajane, Ortner, Auer (2018): A sliding-window algorithm for Markov decision processes with
    arbitrarily changing rewards and transitions.

    Examples
    --------
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
    """E₂ with the repaired Lemma 2.

    The conditions are those of Lemma 1.

    Parameters
    ----------
    horizon
        T: the number of steps.
    diameter
        D: the largest diameter of the configurations, at least 1.
    n_states
        S: the number of states.
    n_actions
        A: the number of actions.
    window
        W: the number of steps in the window.
    delta
        δ: the probability of failure, between 0 and 1.

    Returns
    -------
    float
        The repaired E₂.

    Raises
    ------
    InvalidParameter
        If a parameter has the wrong type or is out of range.
    OutsideValidity
        If the claim does not cover these numbers.

    References
    ----------
    Gajane, Ortner, Auer (2018): A sliding-window algorithm for Markov decision processes with
    arbitrarily changing rewards and transitions.

    Examples
    --------
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

    Besides T ≥ 2Aδ, T ≥ 8δ is needed, because the last step of the proof uses log(T/δ) ≥ 1.

    Parameters
    ----------
    horizon
        T: the number of steps.
    diameter
        D: the largest diameter of the configurations, at least 1.
    n_states
        S: the number of states.
    n_actions
        A: the number of actions.
    window
        W: the number of steps in the window.
    delta
        δ: the probability of failure, between 0 and 1.

    Returns
    -------
    float
        The repaired bound of E₂.

    Raises
    ------
    InvalidParameter
        If a parameter has the wrong type or is out of range.
    OutsideValidity
        If the claim does not cover these numbers.

    References
    ----------
    Gajane, Ortner, Auer (2018): A sliding-window algorithm for Markov decision processes with
    arbitrarily changing rewards and transitions.

    Examples
    --------
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
    """E₂ for a given bound of the sum in Lemma 2."""
    episodes = episodes_bound(horizon=T, n_states=S, n_actions=A, window=W)
    spread = 14 * S * log_ratio(2 * A * T, delta)
    return D * episodes + (2 * D * math.sqrt(spread) + 2) * visits


# The theorem and its corollaries.


@checked
def theorem_1_holds(
    *, horizon: int, n_states: int, n_actions: int, window: int, delta: float
) -> bool:
    """Whether the conditions of Theorem 1 on T and W hold; if not, `regret_bound` raises.

    Parameters
    ----------
    horizon
        T: the number of steps.
    n_states
        S: the number of states.
    n_actions
        A: the number of actions.
    window
        W: the number of steps in the window.
    delta
        δ: the probability of failure, between 0 and 1.

    Returns
    -------
    bool
        Whether the theorem covers these numbers.

    Raises
    ------
    InvalidParameter
        If a parameter has the wrong type or is out of range.

    References
    ----------
    Gajane, Ortner, Auer (2018): A sliding-window algorithm for Markov decision processes with
    arbitrarily changing rewards and transitions.

    Examples
    --------
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

    Parameters
    ----------
    horizon
        T: the number of steps.
    diameter
        D: the largest diameter of the configurations, at least 1.
    n_states
        S: the number of states.
    n_actions
        A: the number of actions.
    changes
        l: the number of changes.
    window
        W: the number of steps in the window.
    delta
        δ: the probability of failure, between 0 and 1.

    Returns
    -------
    float
        The printed regret bound.

    Raises
    ------
    InvalidParameter
        If a parameter has the wrong type or is out of range.
    OutsideValidity
        If the claim does not cover these numbers.

    References
    ----------
    Gajane, Ortner, Auer (2018): A sliding-window algorithm for Markov decision processes with
    arbitrarily changing rewards and transitions.

    Examples
    --------
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

    The proof is this project's own, for one T fixed in advance. κ = √(1 + (S-2)/(2W)), and 1 for a
    single state. The conditions are those of Theorem 1.

    Parameters
    ----------
    horizon
        T: the number of steps.
    diameter
        D: the largest diameter of the configurations, at least 1.
    n_states
        S: the number of states.
    n_actions
        A: the number of actions.
    changes
        l: the number of changes.
    window
        W: the number of steps in the window.
    delta
        δ: the probability of failure, between 0 and 1.

    Returns
    -------
    float
        The repaired regret bound.

    Raises
    ------
    InvalidParameter
        If a parameter has the wrong type or is out of range.
    OutsideValidity
        If the claim does not cover these numbers.

    References
    ----------
    Gajane, Ortner, Auer (2018): A sliding-window algorithm for Markov decision processes with
    arbitrarily changing rewards and transitions.

    Examples
    --------
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

    Parameters
    ----------
    horizon
        T: the number of steps.
    diameter
        D: the largest diameter of the configurations, at least 1.
    n_states
        S: the number of states.
    n_actions
        A: the number of actions.
    changes
        l: the number of changes.
    delta
        δ: the probability of failure, between 0 and 1.

    Returns
    -------
    float
        The window, not rounded.

    Raises
    ------
    InvalidParameter
        If a parameter has the wrong type or is out of range.
    OutsideValidity
        If the claim does not cover these numbers.

    References
    ----------
    Gajane, Ortner, Auer (2018): A sliding-window algorithm for Markov decision processes with
    arbitrarily changing rewards and transitions.

    Examples
    --------
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
    """The window of Eq. 3 as an agent can use it: rounded, at least SA, at most T.

    Without changes it is T, and a window of T steps forgets nothing: that is UCRL2. It is defined
    for every setting; `theorem_1_holds` says whether Theorem 1 applies.

    Parameters
    ----------
    horizon
        T: the number of steps.
    diameter
        D: the largest diameter of the configurations, at least 1.
    n_states
        S: the number of states.
    n_actions
        A: the number of actions.
    changes
        l: the number of changes.
    delta
        δ: the probability of failure, between 0 and 1.

    Returns
    -------
    int
        The window.

    Raises
    ------
    InvalidParameter
        If a parameter has the wrong type or is out of range.

    References
    ----------
    Gajane, Ortner, Auer (2018): A sliding-window algorithm for Markov decision processes with
    arbitrarily changing rewards and transitions.

    Examples
    --------
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

    For l ≥ 1 changes and T ≥ max(8δ, 2Aδ), if Theorem 1 covers the window W*. The proof drops the
    ceiling of Theorem 1, whose bound at W* can be larger.

    Parameters
    ----------
    horizon
        T: the number of steps.
    diameter
        D: the largest diameter of the configurations, at least 1.
    n_states
        S: the number of states.
    n_actions
        A: the number of actions.
    changes
        l: the number of changes.
    delta
        δ: the probability of failure, between 0 and 1.

    Returns
    -------
    float
        The printed bound at the optimal window.

    Raises
    ------
    InvalidParameter
        If a parameter has the wrong type or is out of range.
    OutsideValidity
        If the claim does not cover these numbers.

    References
    ----------
    Gajane, Ortner, Auer (2018): A sliding-window algorithm for Markov decision processes with
    arbitrarily changing rewards and transitions.

    Examples
    --------
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
    """The repaired bound at `optimal_window`, which replaces Corollary 1.

    The conditions are those of Theorem 1, for T and that window; changes = 0 is allowed.

    Parameters
    ----------
    horizon
        T: the number of steps.
    diameter
        D: the largest diameter of the configurations, at least 1.
    n_states
        S: the number of states.
    n_actions
        A: the number of actions.
    changes
        l: the number of changes.
    delta
        δ: the probability of failure, between 0 and 1.

    Returns
    -------
    float
        The repaired bound at the optimal window.

    Raises
    ------
    InvalidParameter
        If a parameter has the wrong type or is out of range.
    OutsideValidity
        If the claim does not cover these numbers.

    References
    ----------
    Gajane, Ortner, Auer (2018): A sliding-window algorithm for Markov decision processes with
    arbitrarily changing rewards and transitions.

    Examples
    --------
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

    This bounds the *average regret* at such T, with W* computed for T. It does not bound the number
    of steps with a regret above ε, though the paper speaks of sub-optimal steps. It holds for l ≥ 1
    changes and 0 < ε ≤ 1, which implies the conditions of Theorem 1.

    Parameters
    ----------
    diameter
        D: the largest diameter of the configurations, at least 1.
    n_states
        S: the number of states.
    n_actions
        A: the number of actions.
    changes
        l: the number of changes.
    delta
        δ: the probability of failure, between 0 and 1.
    epsilon
        ε: the average regret per step, at most 1.

    Returns
    -------
    int
        The number of steps.

    Raises
    ------
    InvalidParameter
        If a parameter has the wrong type or is out of range.
    OutsideValidity
        If the claim does not cover these numbers.

    References
    ----------
    Gajane, Ortner, Auer (2018): A sliding-window algorithm for Markov decision processes with
    arbitrarily changing rewards and transitions.

    Examples
    --------
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
    """W*, or the window for unknown budgets if they are not given; rounded, from 1 to T.

    Parameters
    ----------
    horizon
        T: the number of steps.
    n_states
        S: the number of states.
    n_actions
        A: the number of actions.
    reward_variation
        B_r: the variation of the mean rewards; unknown by default.
    transition_variation
        B_p: the variation of the rows; unknown by default.

    Returns
    -------
    int
        The window.

    Raises
    ------
    InvalidParameter
        If a parameter has the wrong type or is out of range.

    References
    ----------
    Cheung, Simchi-Levi, Zhu (2020): Reinforcement learning for non-stationary Markov decision
    processes: the blessing of (more) optimism.

    Examples
    --------
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
    """η* = √((B_p + 1) W/T), or √(W/T) if B_p is not known.

    Parameters
    ----------
    horizon
        T: the number of steps.
    window
        W: the number of steps in the window.
    transition_variation
        B_p: the variation of the rows; unknown by default.

    Returns
    -------
    float
        The widening η.

    Raises
    ------
    InvalidParameter
        If a parameter has the wrong type or is out of range.

    References
    ----------
    Cheung, Simchi-Levi, Zhu (2020): Reinforcement learning for non-stationary Markov decision
    processes: the blessing of (more) optimism.

    Examples
    --------
    >>> cw_widening(horizon=10_000, window=400), cw_widening(
    ...     horizon=10_000, window=400, transition_variation=3)
    (0.2, 0.4)
    """
    return math.sqrt(((transition_variation or 0.0) + 1) * window / horizon)
