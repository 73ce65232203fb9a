"""UCRL2, its variants with scheduled restarts, and those with tighter plausible sets.

**UCRL2 (Jaksch, Ortner, Auer 2010, Figure 1)** is the episodic agent that remembers everything. It
assumes that nothing changes. Two variants restart on a schedule:

    UCRL2     never restarts.
    UCRL2-R   Jaksch et al., Theorem 6: for ℓ - 1 changes, UCRL2 with δ/ℓ², restarted at steps
              ⌈i³/ℓ²⌉, i = 1, 2, 3, …  The SW-UCRL paper does not say whether it ran ℓ = l + 1, as
              in the theorem, or ℓ = l: `segments` sets it, and l + 1 is the default.
    UCRL2-RW  the second baseline of the SW-UCRL paper: restarted every W* steps, with the same δ.

In a stationary communicating MDP the regret of UCRL2 is at most 34 D S √(A T log(T/δ)) with
probability 1 - δ (Theorem 2). With ℓ - 1 changes that of UCRL2-R is at most 65 ℓ^{1/3} T^{2/3} D S
√(A log(T/δ)) (Theorem 6). For UCRL2-RW no bound is proved. UCRL2 has no guarantee if the problem
changes. `references.OracleUCRL2` restarts it at the true change points.

A restart deletes all counts, and t in the radii and in 1/√t starts again at 1.

Three more variants have tighter plausible sets (`plausible.tight`), with or without a window:

**UCRL2B (Fruit, Pirotta, Lazaric 2020)**: UCRL2 with empirical Bernstein bounds for each entry.

    Episodes, policy, stop rule      as UCRL2                               Episodic, Doubling
    Plausible rewards and rows       within √(2 V̂ b/n) + 3b/n of r̂, p̂             Bernstein
    V̂ of the rewards                 their empirical variance     EverythingWithVariance
    Extended value iteration         inner maximum over intervals        Ranking, Sweeps

In a stationary communicating MDP the set contains the true MDP with probability 1 - δ (see the set
for the union bound), and the regret of an agent of this kind is of order √(D S A Γ T), with Γ the
largest number of successors of a pair. There is no guarantee if the problem changes. With a window
it is a heuristic, whose bounds hold in every window in which nothing changes.

**UCRL3 (Bourel, Maillard, Talebi 2020, Algorithm 4)**: time-uniform intervals, on a small support.

    Initialise: δ₀ := δ/(3 + 3S)                                        BernsteinLaplace.terms
    For episodes k = 1, 2, … do
      t_k := t; update N, µ̂ and p̂                                          Episodic.absorb
      c, C := plausible rewards and entries (Section 3.1)           BernsteinLaplace.measure
      π_k := EVI-NOSS(p̂, c, C, max N, 1/√t_k)          Sweeps, with BernsteinLaplace.allowed
      While v_k(s_t, π_k(s_t)) < N_k(s_t, π_k(s_t)): follow π_k                     Doubling

In a stationary communicating MDP its regret is at most, with probability 1 - 4δ (Theorem 1),
(5 √(Σ D_s² L_{s,a}) + 10 √(SA) + 2D) √(T log(6 S² A √(T+1)/δ)), plus terms of order T^{1/3}; D_s is
the local diameter and L_{s,a} <= S - 1 the local effective support. There is no guarantee if the
problem changes. With a window it is a heuristic, as above.

**KL-UCRL (Filippi, Cappé, Garivier 2010)**: UCRL2 with Kullback-Leibler balls.

    Episodes, policy, stop rule      as UCRL2                               Episodic, Doubling
    Plausible rewards                within √(log(4SA log t/δ)/(1.99 N)) of r̂          KLBall
    Plausible rows                   KL(p̂, p̃) <= C_p/N                                 KLBall
    Extended value iteration         the inner maximum by its dual           planning.inner_maximum

In a stationary communicating MDP the paper bounds its regret by order D S √(A T), like that of
UCRL2, with probability 1 - δ, if the constants contain the horizon T. `plausible.tight` says what
holds with t instead. There is no guarantee if the problem changes. With a window it is a heuristic.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from switchmdp.agents.episodic import Episodic
from switchmdp.compiled import compiled
from switchmdp.errors import InvalidParameter
from switchmdp.memory import Everything, EverythingWithVariance, Window, WindowWithVariance
from switchmdp.plausible import Bernstein, BernsteinLaplace, KLBall, L1Ball
from switchmdp.restarts import Cubic, Never, Periodic
from switchmdp.validation import check_integer, check_probability


@compiled
class UCRL2(Episodic):
    """Optimism in the face of uncertainty, for problems that do not change.

    It remembers everything.

    Parameters
    ----------
    n_states, n_actions
        The numbers of states and actions.
    delta
        A bound on the probability that the true MDP is not in the plausible set.
    width
        A factor on all radii. The proofs need 1; less is usually better, but has no guarantee.
    available
        Which actions each state has, a (states, actions) mask; by default all.

    Raises
    ------
    InvalidParameter
        A parameter has the wrong type or is out of range.

    References
    ----------
    T. Jaksch, R. Ortner and P. Auer (2010). Near-optimal regret bounds for reinforcement learning.
    Journal of Machine Learning Research 11.

    Examples
    --------
    >>> UCRL2(5, 3, delta=0.1).act(2)
    0
    """

    def __init__(
        self, n_states: Any, n_actions: Any, *,
        delta: float = 0.05, width: float = 1.0, available: Any = None,
    ) -> None:  # fmt: skip
        Episodic.__init__(
            self, n_states, n_actions, available=available,
            memory=Everything(), plausible=L1Ball(delta, width=width), restarts=Never(),
        )  # fmt: skip


@compiled
class UCRL2R(Episodic):
    """UCRL2 restarted at ⌈i³/ℓ²⌉, for `changes` = ℓ - 1 changes (or `segments` = ℓ).

    Parameters
    ----------
    n_states, n_actions
        The numbers of states and actions.
    changes
        The number of changes, ℓ - 1.
    delta
        A bound on the probability that the true MDP is not in the plausible set.
    width
        A factor on all radii. The proofs need 1; less is usually better, but has no guarantee.
    segments
        ℓ itself; by default `changes` + 1.
    available
        Which actions each state has, a (states, actions) mask; by default all.

    Raises
    ------
    InvalidParameter
        A parameter has the wrong type or is out of range.

    References
    ----------
    T. Jaksch, R. Ortner and P. Auer (2010). Near-optimal regret bounds for reinforcement learning.
    Journal of Machine Learning Research 11. Theorem 6.

    Examples
    --------
    >>> UCRL2R(5, 3, changes=2, delta=0.1).restart_at
    3
    """

    def __init__(
        self, n_states: Any, n_actions: Any, *,
        changes: int, delta: float = 0.05, width: float = 1.0, segments: int | None = None,
        available: Any = None,
    ) -> None:  # fmt: skip
        if np.ndim(changes) > 0:
            allowed = "a number (OracleUCRL2, OraclePSRL and others take change_points=)"
            raise InvalidParameter("changes", changes, allowed)
        changes = check_integer("changes", changes, 0, 10**5 - 1)
        ell = changes + 1 if segments is None else check_integer("segments", segments, 1, 10**5)
        share = check_probability("delta", delta) / ell**2
        Episodic.__init__(
            self, n_states, n_actions, available=available, memory=Everything(),
            plausible=L1Ball(share, width=width), restarts=Cubic(ell),
        )  # fmt: skip


@compiled
class UCRL2RW(Episodic):
    """UCRL2 restarted every `period` steps.

    Parameters
    ----------
    n_states, n_actions
        The numbers of states and actions.
    period
        The number of steps from one restart to the next.
    delta
        A bound on the probability that the true MDP is not in the plausible set.
    width
        A factor on all radii. The proofs need 1; less is usually better, but has no guarantee.
    available
        Which actions each state has, a (states, actions) mask; by default all.

    Raises
    ------
    InvalidParameter
        A parameter has the wrong type or is out of range.

    References
    ----------
    P. Gajane, R. Ortner and P. Auer (2018). A sliding-window algorithm for Markov decision
    processes with arbitrarily changing rewards and transitions. arXiv:1805.10066.

    Examples
    --------
    >>> UCRL2RW(5, 3, period=20_000, delta=0.1).restart_at
    20001
    """

    def __init__(
        self, n_states: Any, n_actions: Any, *,
        period: int, delta: float = 0.05, width: float = 1.0, available: Any = None,
    ) -> None:  # fmt: skip
        Episodic.__init__(
            self, n_states, n_actions, available=available,
            memory=Everything(), plausible=L1Ball(delta, width=width), restarts=Periodic(period),
        )  # fmt: skip


@compiled
class UCRL2B(Episodic):
    """UCRL2 with empirical Bernstein bounds; remembers everything, or the last `window` steps.

    Parameters
    ----------
    n_states, n_actions
        The numbers of states and actions.
    delta
        A bound on the probability that the true MDP is not in the plausible set.
    width
        A factor on all radii. The proofs need 1; less is usually better, but has no guarantee.
    window
        Remember this many latest steps; by default all.
    available
        Which actions each state has, a (states, actions) mask; by default all.

    Raises
    ------
    InvalidParameter
        A parameter has the wrong type or is out of range.

    References
    ----------
    R. Fruit, M. Pirotta and A. Lazaric (2020). Improved analysis of UCRL2 with empirical Bernstein
    inequality. arXiv:2007.05456.

    Examples
    --------
    >>> UCRL2B(5, 3, delta=0.1).act(2)
    0
    """

    def __init__(
        self, n_states: Any, n_actions: Any, *,
        delta: float = 0.05, width: float = 1.0, window: int | None = None, available: Any = None,
    ) -> None:  # fmt: skip
        memory: Any = EverythingWithVariance() if window is None else WindowWithVariance(window)
        Episodic.__init__(
            self, n_states, n_actions, available=available, memory=memory,
            plausible=Bernstein(delta, windowed=window is not None, width=width), restarts=Never(),
        )  # fmt: skip


@compiled
class UCRL3(Episodic):
    """UCRL3 with the published confidence set; remembers everything, or the last `window` steps.

    Parameters
    ----------
    n_states, n_actions
        The numbers of states and actions.
    delta
        A bound on the probability that the true MDP is not in the plausible set.
    width
        A factor on all radii. The proofs need 1; less is usually better, but has no guarantee.
    window
        Remember this many latest steps; by default all.
    available
        Which actions each state has, a (states, actions) mask; by default all.

    Raises
    ------
    InvalidParameter
        A parameter has the wrong type or is out of range.

    References
    ----------
    H. Bourel, O.-A. Maillard and M. S. Talebi (2020). Tightening exploration in upper confidence
    reinforcement learning. ICML.

    Examples
    --------
    >>> UCRL3(5, 3, delta=0.1).act(2)
    0
    """

    def __init__(
        self, n_states: Any, n_actions: Any, *,
        delta: float = 0.05, width: float = 1.0, window: int | None = None, available: Any = None,
    ) -> None:  # fmt: skip
        memory: Any = EverythingWithVariance() if window is None else WindowWithVariance(window)
        Episodic.__init__(
            self, n_states, n_actions, available=available, memory=memory,
            plausible=BernsteinLaplace(delta, windowed=window is not None, width=width),
            restarts=Never(),
        )  # fmt: skip


@compiled
class KLUCRL(Episodic):
    """UCRL2 with Kullback-Leibler balls; remembers everything, or the last `window` steps.

    Parameters
    ----------
    n_states, n_actions
        The numbers of states and actions.
    delta
        A bound on the probability that the true MDP is not in the plausible set.
    width
        A factor on all radii. The proofs need 1; less is usually better, but has no guarantee.
    window
        Remember this many latest steps; by default all.
    available
        Which actions each state has, a (states, actions) mask; by default all.

    Raises
    ------
    InvalidParameter
        A parameter has the wrong type or is out of range.

    References
    ----------
    S. Filippi, O. Cappé and A. Garivier (2010). Optimism in reinforcement learning and
    Kullback-Leibler divergence. Allerton Conference.

    Examples
    --------
    >>> KLUCRL(5, 3, delta=0.1).act(2)
    0
    """

    def __init__(
        self, n_states: Any, n_actions: Any, *,
        delta: float = 0.05, width: float = 1.0, window: int | None = None, available: Any = None,
    ) -> None:  # fmt: skip
        memory: Any = Everything() if window is None else Window(window)
        Episodic.__init__(
            self, n_states, n_actions, available=available, memory=memory,
            plausible=KLBall(delta, windowed=window is not None, width=width), restarts=Never(),
        )  # fmt: skip
