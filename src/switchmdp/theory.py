"""The bounds of the SW-UCRL paper and of UCRL2 as functions, each with its conditions.

One name for each symbol: `horizon` T, `diameter` D, `n_states` S, `n_actions` A, `changes` l,
`window` W, `delta` δ, `epsilon` ε, and `segments` L = l + 1 for UCRL2 with restarts. All are
keywords. Where the paper has an error, the plain name is the printed form, and `repaired_…` is the
correct one. A parameter out of range raises `InvalidParameter`; valid numbers that a claim does not
cover raise `OutsideValidity`.

>>> optimal_window(
...     horizon=100_000, diameter=1, n_states=5, n_actions=3, changes=2, delta=0.1)
89119

**UCRL2.** With N visits before an episode that starts at step t, S states, A actions, diameter D:

    radii      rewards √(7 log(2SAt/δ)/(2 max(1,N)))     transitions √(14 S log(2At/δ)/max(1,N))
    regret     ≤ 34 D S √(A T log(T/δ)) with probability 1 - δ; for any algorithm there is an MDP
               with ≥ 0.015 √(DSAT) in expectation
    episodes   ≤ SA log₂(8T/(SA))
    restarts   with L segments (L - 1 changes): δ/L² and a restart at steps ⌈i³/L²⌉, i = 1, 2, …,
               regret ≤ 65 L^{1/3} T^{2/3} D S √(A log(T/δ))
    diameter   ≥ log_A S - 3

**SW-UCRL.** With l changes up to step T, a window of W steps, S states, A actions, D the largest
diameter among the l + 1 MDPs and ψ = D S √(A log(T/δ)), the regret is, with probability at least
1 - δ, at most

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

References: Jaksch, Ortner, Auer (2010), Theorems 2, 5 and 6; Gajane, Ortner, Auer (2018), Eq. 1 to
3, Sections 3 and 4 and Appendices I to VI; Cheung, Simchi-Levi, Zhu (2020).
"""

from __future__ import annotations

import inspect
import math
import operator
from collections.abc import Callable, Iterable, Sequence
from functools import wraps
from typing import Any, ParamSpec, TypeVar

import numpy as np
from numpy.typing import NDArray

from switchmdp.errors import InvalidParameter, OutsideValidity
from switchmdp.validation import is_number

__all__ = [
    "corollary_1_bound", "corollary_2_steps", "cw_widening", "cw_window",
    "diameter_lower_bound", "e1", "e1_bound", "e2", "e2_bound", "episodes_bound",
    "longest_episode", "optimal_window", "optimal_window_exact", "proposition_1",
    "raw_diameter_lower_bound", "regret_bound", "repaired_corollary_1_bound", "repaired_e2",
    "repaired_e2_bound", "repaired_regret_bound", "repaired_visits_bound", "restart_confidence",
    "restart_regret_bound", "restart_times", "reward_radius", "theorem_1_holds",
    "transition_radius", "ucrl2_episodes_bound", "ucrl2_lower_bound", "ucrl2_regret_bound",
    "visits_bound",
]  # fmt: skip


def __dir__() -> list[str]:
    return sorted(__all__)


# Parameters, and the arithmetic and conditions that the bounds share.

# Far more than any number of steps, and small enough that no bound overflows a float.
LARGEST = 10**30

P = ParamSpec("P")
R = TypeVar("R")


def integer(field: str, value: Any, least: int) -> int:
    """`value` as a Python int; bools and floats are not integers."""
    if not isinstance(value, bool):
        try:
            number = operator.index(value)
        except TypeError:
            number = least - 1
        if least <= number <= LARGEST:
            return number
    raise InvalidParameter(field, value, f"an integer from {least} to {LARGEST:g}")


def real(field: str, value: Any, least: float, most: float) -> float:
    """`value` as a float; the comparison also rejects nan and the infinities."""
    if is_number(value) and least <= value <= most:
        return float(value)
    raise InvalidParameter(field, value, f"a number from {least:g} to {most:g}")


# The least value of each integer, and the range of each number.
LEAST = {
    **dict.fromkeys(("horizon", "n_states", "n_actions", "window", "segments", "t"), 1),
    **dict.fromkeys(("changes", "visits"), 0),
}
RANGES = {
    "diameter": (1.0, LARGEST),  # for a single state, whose diameter is 0, the bounds take 1
    "epsilon": (1 / LARGEST, 1.0),
    "reward_variation": (0.0, LARGEST),
    "transition_variation": (0.0, LARGEST),
}


def parameter(name: str, value: Any) -> Any:
    """The value of the parameter of this name as a Python number; an unknown variation is None."""
    if name in LEAST:
        return integer(name, value, LEAST[name])
    if name != "delta":
        unknown = value is None and name.endswith("variation")
        return None if unknown else real(name, value, *RANGES[name])
    if is_number(value) and 0 < value < 1:
        return float(value)
    raise InvalidParameter(name, value, "a number strictly between 0 and 1")


def checked(function: Callable[P, R]) -> Callable[P, R]:
    """Check every keyword argument by its name, and pass it on as a Python number."""
    names = inspect.signature(function).parameters

    @wraps(function)
    def call(*positional: P.args, **arguments: P.kwargs) -> R:
        for name, value in arguments.items():
            if name in names:
                arguments[name] = parameter(name, value)
        return function(*positional, **arguments)

    return call


def log_ratio(numerator: float, delta: float) -> float:
    """log(numerator/delta), finite for every delta > 0."""
    return math.log(numerator) - math.log(delta)


def ceil_div(numerator: int, denominator: int) -> int:
    """⌈numerator/denominator⌉, exactly."""
    return -(-numerator // denominator)


def ceil_div_sqrt(numerator: int, radicand: int) -> int:
    """⌈numerator/√radicand⌉, exactly: the least n with n² ≥ numerator²/radicand."""
    return math.isqrt(ceil_div(numerator**2, radicand) - 1) + 1


def leading_factor(T: int, D: float, S: int, A: int, delta: float) -> float:
    """ψ = D S √(A log(T/δ)), the factor that Theorem 1 and everything after it share."""
    return D * S * math.sqrt(A * log_ratio(T, delta))


def require_horizon(claim: str, T: int, least: float, meaning: str) -> None:
    """Raise `OutsideValidity` if the horizon is too short for the claim."""
    if least > T:
        raise OutsideValidity(f"{claim} needs horizon >= {meaning} = {least:g}, got {T}")


def require_window(claim: str, T: int, S: int, A: int, W: float, delta: float) -> None:
    """Raise `OutsideValidity` if Theorem 1 does not cover the window.

    W is on both sides of the second condition, but log₂²(8x)/x decreases for x = W/(SA) ≥ 1: if a
    window meets the condition, every longer one does.
    """
    if S * A > W:
        raise OutsideValidity(f"{claim} needs window >= n_states * n_actions = {S * A}, got {W:g}")
    least = A * math.log2(8 * W / (S * A)) ** 2 / log_ratio(T, delta)
    if least > W:
        raise OutsideValidity(
            f"{claim} needs window >= A log2(8W/(SA))^2 / log(T/delta) = {least:g}, got {W:g}"
        )


def require_theorem_1(claim: str, T: int, S: int, A: int, W: float, delta: float) -> None:
    """Raise `OutsideValidity` if Theorem 1's conditions on T and W do not hold."""
    require_horizon(claim, T, max(8, 2 * A) * delta, "max(8, 2 A) delta")
    require_window(claim, T, S, A, W, delta)


# UCRL2.

# As their theorems print them.
UCRL2_CONSTANT = 34
LOWER_BOUND_CONSTANT = 0.015
RESTART_CONSTANT = 65


@checked
def reward_radius(*, visits: int, t: int, n_states: int, n_actions: int, delta: float) -> float:
    """Eq. 1: |r̃ - r̂| ≤ √(7 log(2SAt/δ)/(2 max(1, N))), for an episode that starts at step t.

    Parameters
    ----------
    visits
        N: the number of visits to the pair.
    t
        The step at which the episode starts.
    n_states
        S: the number of states.
    n_actions
        A: the number of actions.
    delta
        δ: the probability of failure, between 0 and 1.

    Returns
    -------
    float
        The confidence radius.

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
    >>> round(reward_radius(visits=1000, t=10_000, n_states=5, n_actions=3, delta=0.1), 4)
    0.2285
    """
    return math.sqrt(7 * log_ratio(2 * n_states * n_actions * t, delta) / (2 * max(1, visits)))


@checked
def transition_radius(*, visits: int, t: int, n_states: int, n_actions: int, delta: float) -> float:
    """Eq. 2: ‖p̃ - p̂‖₁ ≤ √(14 S log(2At/δ)/max(1, N)). A radius of 2 or more excludes nothing.

    Parameters
    ----------
    visits
        N: the number of visits to the pair.
    t
        The step at which the episode starts.
    n_states
        S: the number of states.
    n_actions
        A: the number of actions.
    delta
        δ: the probability of failure, between 0 and 1.

    Returns
    -------
    float
        The confidence radius.

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
    >>> round(transition_radius(visits=1000, t=10_000, n_states=5, n_actions=3, delta=0.1), 4)
    0.9651
    """
    return math.sqrt(14 * n_states * log_ratio(2 * n_actions * t, delta) / max(1, visits))


@checked
def ucrl2_regret_bound(
    *, horizon: int, diameter: float, n_states: int, n_actions: int, delta: float
) -> float:
    """UCRL2's Theorem 2: regret at most 34 D S √(A T log(T/δ)) without changes, for T > 1.

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
    delta
        δ: the probability of failure, between 0 and 1.

    Returns
    -------
    float
        The regret bound.

    Raises
    ------
    InvalidParameter
        If a parameter has the wrong type or is out of range.
    OutsideValidity
        If the claim does not cover these numbers.

    References
    ----------
    Jaksch, Ortner, Auer (2010): Near-optimal regret bounds for reinforcement learning.

    Examples
    --------
    >>> round(ucrl2_regret_bound(horizon=10**6, diameter=1, n_states=5, n_actions=3, delta=0.1))
    1182133
    """
    require_horizon("UCRL2's bound", horizon, 2, "2")
    factor = leading_factor(horizon, diameter, n_states, n_actions, delta)
    return UCRL2_CONSTANT * math.sqrt(horizon) * factor


@checked
def ucrl2_episodes_bound(*, horizon: int, n_states: int, n_actions: int) -> float:
    """UCRL2 has at most SA log₂(8T/(SA)) episodes up to step T, for T ≥ SA.

    Parameters
    ----------
    horizon
        T: the number of steps.
    n_states
        S: the number of states.
    n_actions
        A: the number of actions.

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
    Jaksch, Ortner, Auer (2010): Near-optimal regret bounds for reinforcement learning.

    Examples
    --------
    >>> ucrl2_episodes_bound(horizon=1280, n_states=5, n_actions=2)
    100.0
    """
    n_pairs = n_states * n_actions
    require_horizon("UCRL2's episode bound", horizon, n_pairs, "n_states * n_actions")
    return n_pairs * math.log2(8 * horizon / n_pairs)


@checked
def ucrl2_lower_bound(*, horizon: int, diameter: float, n_states: int, n_actions: int) -> float:
    """Theorem 5: for any algorithm, on some MDP, expected regret at least 0.015 √(DSAT).

    For S ≥ 10, A ≥ 10, D ≥ 20 log_A S and T ≥ DSA.

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

    Returns
    -------
    float
        The lower bound of the expected regret.

    Raises
    ------
    InvalidParameter
        If a parameter has the wrong type or is out of range.
    OutsideValidity
        If the claim does not cover these numbers.

    References
    ----------
    Jaksch, Ortner, Auer (2010): Near-optimal regret bounds for reinforcement learning.

    Examples
    --------
    >>> round(ucrl2_lower_bound(horizon=50_000, diameter=20, n_states=10, n_actions=10), 6)
    150.0
    """
    T, D, S, A = horizon, diameter, n_states, n_actions
    if S < 10 or A < 10:
        raise OutsideValidity(
            f"the lower bound needs n_states >= 10 and n_actions >= 10, got {S} and {A}"
        )
    least = 20 * math.log(S) / math.log(A)
    # Where S is a power of A, the quotient of logarithms may come out one rounding too large.
    if least * (1 - 1e-12) > D:
        raise OutsideValidity(f"the lower bound needs diameter >= 20 log_A(S) = {least:g}, got {D}")
    require_horizon("the lower bound", T, D * S * A, "diameter * n_states * n_actions")
    return LOWER_BOUND_CONSTANT * math.sqrt(D * S * A * T)


@checked
def restart_times(*, horizon: int, segments: int) -> NDArray[np.int64]:
    """The steps ⌈i³/L²⌉, i = 1, 2, 3, …, at which UCRL2-R starts over (Theorem 6).

    L = `segments` is the number of changes plus 1. The first numbers repeat, and each step is
    listed once. Step 1 starts the run and is no restart. At most T segments fit into T steps.

    Parameters
    ----------
    horizon
        T: the number of steps.
    segments
        L: the number of segments, one more than the number of changes.

    Returns
    -------
    numpy.ndarray
        The steps, in increasing order.

    Raises
    ------
    InvalidParameter
        If a parameter has the wrong type or is out of range.

    References
    ----------
    Jaksch, Ortner, Auer (2010): Near-optimal regret bounds for reinforcement learning.

    Examples
    --------
    >>> restart_times(horizon=100, segments=3).tolist()
    [3, 8, 14, 24, 39, 57, 81]
    """
    _require_segments(horizon, segments)
    times = []
    latest, i = 1, 1
    while (step := ceil_div(i**3, segments**2)) <= horizon:
        if step > latest:
            times.append(step)
            latest = step
        i += 1
    return np.array(times, dtype=np.int64)


@checked
def restart_confidence(*, segments: int, delta: float) -> float:
    """δ/L², the confidence with which UCRL2-R runs UCRL2 (Theorem 6).

    Parameters
    ----------
    segments
        L: the number of segments, one more than the number of changes.
    delta
        δ: the probability of failure, between 0 and 1.

    Returns
    -------
    float
        The probability of failure for each segment.

    Raises
    ------
    InvalidParameter
        If a parameter has the wrong type or is out of range.

    References
    ----------
    Jaksch, Ortner, Auer (2010): Near-optimal regret bounds for reinforcement learning.

    Examples
    --------
    >>> restart_confidence(segments=2, delta=0.1)
    0.025
    """
    return delta / segments**2


@checked
def restart_regret_bound(
    *, horizon: int, diameter: float, n_states: int, n_actions: int, segments: int, delta: float
) -> float:
    """Theorem 6: UCRL2-R's regret is at most 65 L^{1/3} T^{2/3} D S √(A log(T/δ)), for T > 1.

    L = `segments` is the number of changes plus 1, and D is the largest diameter.

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
    segments
        L: the number of segments, one more than the number of changes.
    delta
        δ: the probability of failure, between 0 and 1.

    Returns
    -------
    float
        The regret bound.

    Raises
    ------
    InvalidParameter
        If a parameter has the wrong type or is out of range.
    OutsideValidity
        If the claim does not cover these numbers.

    References
    ----------
    Jaksch, Ortner, Auer (2010): Near-optimal regret bounds for reinforcement learning.

    Examples
    --------
    >>> setting = dict(horizon=10**9, diameter=1, n_states=5, n_actions=3, delta=0.1)
    >>> round(restart_regret_bound(segments=3, **setting))
    3895760510
    """
    _require_segments(horizon, segments)
    require_horizon("UCRL2-R's bound", horizon, 2, "2")
    growth = math.cbrt(segments) * math.cbrt(horizon) ** 2
    factor = leading_factor(horizon, diameter, n_states, n_actions, delta)
    return RESTART_CONSTANT * growth * factor


@checked
def raw_diameter_lower_bound(*, n_states: int, n_actions: int) -> float:
    """D ≥ log_A S - 3 as printed, for A ≥ 2. It is negative for S < A³, and below 1 for S < A⁴.

    Parameters
    ----------
    n_states
        S: the number of states.
    n_actions
        A: the number of actions.

    Returns
    -------
    float
        The printed lower bound.

    Raises
    ------
    InvalidParameter
        If a parameter has the wrong type or is out of range.
    OutsideValidity
        If the claim does not cover these numbers.

    References
    ----------
    Jaksch, Ortner, Auer (2010): Near-optimal regret bounds for reinforcement learning.

    Examples
    --------
    >>> round(raw_diameter_lower_bound(n_states=5, n_actions=3), 3)
    -1.535
    """
    if n_actions < 2:
        raise OutsideValidity("log_A(S) - 3 needs n_actions >= 2, got 1")
    return math.log(n_states) / math.log(n_actions) - 3


@checked
def diameter_lower_bound(*, n_states: int, n_actions: int) -> float:
    """A lower bound of the diameter, max(1, log_A S - 3). The bounds need a diameter of at least 1.

    With one action a communicating MDP is a Markov chain. Some state has a stationary probability
    of at most 1/S, so its mean recurrence time is at least S, and it takes at least S - 1 steps to
    reach it from some other state. A cycle attains this: max(1, S - 1). For a single state the
    result is 1.

    Parameters
    ----------
    n_states
        S: the number of states.
    n_actions
        A: the number of actions.

    Returns
    -------
    float
        The lower bound.

    Raises
    ------
    InvalidParameter
        If a parameter has the wrong type or is out of range.

    References
    ----------
    Jaksch, Ortner, Auer (2010): Near-optimal regret bounds for reinforcement learning.

    Examples
    --------
    >>> diameter_lower_bound(n_states=5, n_actions=3)
    1.0
    >>> diameter_lower_bound(n_states=1024, n_actions=2)
    7.0
    """
    if n_actions == 1:
        return max(1.0, n_states - 1.0)
    return max(1.0, raw_diameter_lower_bound(n_states=n_states, n_actions=n_actions))


def _require_segments(horizon: int, segments: int) -> None:
    if segments > horizon:
        raise InvalidParameter("segments", segments, f"at most the horizon, {horizon}")


# SW-UCRL.

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
