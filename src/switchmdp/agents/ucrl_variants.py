"""UCRL2B, UCRL3 and KL-UCRL: UCRL2 with tighter plausible sets, with or without a window.

**UCRL2B (Fruit, Pirotta, Lazaric 2020)**: UCRL2 with empirical Bernstein bounds for each entry.

    Episodes, policy, stop rule      as UCRL2                               Episodic, Doubling
    Plausible rewards and rows       within √(2 V̂ b/n) + 3b/n of r̂, p̂              Bernstein
    Extended value iteration         pouring within intervals             Ranking, Sweeps

In a stationary communicating MDP the set holds the true one with probability 1 - δ (see the set for
the union), and the regret of an agent of this kind is of order √(D S A Γ T), Γ the most successors
of a pair. Where the world changes it has no guarantee; with a window it is a heuristic whose bounds
hold in every window in which nothing changes.

**UCRL3 (Bourel, Maillard, Talebi 2020)**: the tightest intervals, on a support kept small.

    Episodes, policy, stop rule      as UCRL2                               Episodic, Doubling
    Plausible rewards and rows       the smaller of two bounds per entry      BernsteinLaplace
    Extended value iteration         pouring within intervals, on a near-optimistic support

One of the two bounds is that of the authors' code and is not proved (see the set), so there is no
guarantee even where nothing changes; with a window likewise.

**KL-UCRL (Filippi, Cappé, Garivier 2010)**: UCRL2 with Kullback-Leibler balls.

    Episodes, policy, stop rule      as UCRL2                               Episodic, Doubling
    Plausible rewards                within √(log(4SA log t/δ)/(1.99 N)) of r̂          KLBall
    Plausible rows                   KL(p̂, p̃) <= C_p/N                                 KLBall
    Extended value iteration         the inner maximum by its dual           planning.inner_maximum

In a stationary communicating MDP the paper bounds its regret by order D S √(A T), as UCRL2's, with
probability 1 - δ, where the constants know the horizon T; how far that holds with t in its place
is said in `plausible.kl_ball`. Where the world changes it has no guarantee; with a window it is
a heuristic.
"""

from __future__ import annotations

from typing import Any

from switchmdp.agents.episodic import Episodic
from switchmdp.compiled import compiled
from switchmdp.memory import Everything, Window
from switchmdp.plausible import Bernstein, BernsteinLaplace, KLBall
from switchmdp.restarts import Never


@compiled
class UCRL2B(Episodic):
    """UCRL2 with Bernstein bounds; remembers everything, or the last `window` steps.

    >>> UCRL2B(5, 3, delta=0.1).act(2)
    0
    """

    def __init__(
        self, n_states: Any, n_actions: Any, *,
        delta: float = 0.05, window: int | None = None, available: Any = None,
    ) -> None:  # fmt: skip
        memory: Any = Everything() if window is None else Window(window)
        Episodic.__init__(
            self, n_states, n_actions, available=available, memory=memory,
            plausible=Bernstein(delta, windowed=window is not None), restarts=Never(),
        )  # fmt: skip


@compiled
class UCRL3(Episodic):
    """UCRL2 with UCRL3's intervals; remembers everything, or the last `window` steps.

    >>> UCRL3(5, 3, delta=0.1).act(2)
    0
    """

    def __init__(
        self, n_states: Any, n_actions: Any, *,
        delta: float = 0.05, window: int | None = None, available: Any = None,
    ) -> None:  # fmt: skip
        memory: Any = Everything() if window is None else Window(window)
        Episodic.__init__(
            self, n_states, n_actions, available=available, memory=memory,
            plausible=BernsteinLaplace(delta, windowed=window is not None), restarts=Never(),
        )  # fmt: skip


@compiled
class KLUCRL(Episodic):
    """UCRL2 with Kullback-Leibler balls; remembers everything, or the last `window` steps.

    >>> KLUCRL(5, 3, delta=0.1).act(2)
    0
    """

    def __init__(
        self, n_states: Any, n_actions: Any, *,
        delta: float = 0.05, window: int | None = None, available: Any = None,
    ) -> None:  # fmt: skip
        memory: Any = Everything() if window is None else Window(window)
        Episodic.__init__(
            self, n_states, n_actions, available=available, memory=memory,
            plausible=KLBall(delta, windowed=window is not None), restarts=Never(),
        )  # fmt: skip
