"""UCRL2 (Jaksch, Ortner, Auer 2010, Figure 1), and its variants with scheduled restarts.

UCRL2 is the episodic agent that remembers everything. It assumes that nothing changes.

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
"""

from __future__ import annotations

from typing import Any

from switchmdp.agents.episodic import Episodic
from switchmdp.compiled import compiled
from switchmdp.memory import Everything
from switchmdp.plausible import L1Ball
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
        The probability with which the true MDP may lie outside the plausible set.
    width
        A factor of all radii. The proofs need 1; less is usually better, without a guarantee.
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
        The probability with which the true MDP may lie outside the plausible set.
    width
        A factor of all radii. The proofs need 1; less is usually better, without a guarantee.
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
        The probability with which the true MDP may lie outside the plausible set.
    width
        A factor of all radii. The proofs need 1; less is usually better, without a guarantee.
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
