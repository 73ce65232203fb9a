"""UCRL2: its confidence radii, regret bounds and restarts, and a lower bound of the diameter.

With N visits before an episode that starts at step t, S states, A actions, diameter D:

    radii      rewards √(7 log(2SAt/δ)/(2 max(1,N)))     transitions √(14 S log(2At/δ)/max(1,N))
    regret     ≤ 34 D S √(A T log(T/δ)) with probability 1 - δ; for any algorithm there is an MDP
               with ≥ 0.015 √(DSAT) in expectation
    episodes   ≤ SA log₂(8T/(SA))
    restarts   with L segments (L - 1 changes): δ/L² and a restart at steps ⌈i³/L²⌉, i = 1, 2, …,
               regret ≤ 65 L^{1/3} T^{2/3} D S √(A log(T/δ))
    diameter   ≥ log_A S - 3

References: Jaksch, Ortner, Auer (2010), Theorems 2, 5 and 6;
Gajane, Ortner, Auer (2018), Eq. 1 and 2.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from switchmdp.errors import InvalidParameter, OutsideValidity
from switchmdp.theory.parameters import (
    ceil_div,
    checked,
    leading_factor,
    log_ratio,
    require_horizon,
)

# As their theorems print them.
REGRET_CONSTANT = 34
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
    return REGRET_CONSTANT * math.sqrt(horizon) * factor


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
