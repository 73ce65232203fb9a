"""Combinations without a paper of their own: references, and two heuristics.

ToldUCRL2B, ToldUCRL3,    a tighter set on all steps since the last change, which the agent is
ToldKLUCRL                told: what its windowed version is measured by. In between changes it
                          is its paper's agent, with the guarantee that this has, if any.
FadingPSRL                posterior sampling from steps that fade with age. A heuristic.
GLRPSRL                   posterior sampling restarted by likelihood ratios. A heuristic.
"""

from __future__ import annotations

from typing import Any

from switchmdp.agents.episodes import Growing
from switchmdp.agents.episodic import Episodic
from switchmdp.compiled import compiled
from switchmdp.memory import Discounted, Everything
from switchmdp.plausible import Bernstein, BernsteinLaplace, KLBall, Posterior
from switchmdp.restarts import GLR, Never, Told
from switchmdp.validation import check_integer


@compiled
class ToldUCRL2B(Episodic):
    """UCRL2B restarted at the true change points, which it is told.

    >>> ToldUCRL2B(5, 3, change_points=[50_000]).restart_at
    50000
    """

    def __init__(
        self, n_states: Any, n_actions: Any, *,
        change_points: Any, delta: float = 0.05, available: Any = None,
    ) -> None:  # fmt: skip
        Episodic.__init__(
            self, n_states, n_actions, available=available,
            memory=Everything(), plausible=Bernstein(delta), restarts=Told(change_points),
        )  # fmt: skip


@compiled
class ToldUCRL3(Episodic):
    """UCRL3 restarted at the true change points, which it is told.

    >>> ToldUCRL3(5, 3, change_points=[50_000]).restart_at
    50000
    """

    def __init__(
        self, n_states: Any, n_actions: Any, *,
        change_points: Any, delta: float = 0.05, available: Any = None,
    ) -> None:  # fmt: skip
        Episodic.__init__(
            self, n_states, n_actions, available=available,
            memory=Everything(), plausible=BernsteinLaplace(delta), restarts=Told(change_points),
        )  # fmt: skip


@compiled
class ToldKLUCRL(Episodic):
    """KL-UCRL restarted at the true change points, which it is told.

    >>> ToldKLUCRL(5, 3, change_points=[50_000]).restart_at
    50000
    """

    def __init__(
        self, n_states: Any, n_actions: Any, *,
        change_points: Any, delta: float = 0.05, available: Any = None,
    ) -> None:  # fmt: skip
        Episodic.__init__(
            self, n_states, n_actions, available=available,
            memory=Everything(), plausible=KLBall(delta), restarts=Told(change_points),
        )  # fmt: skip


@compiled
class FadingPSRL(Episodic):
    """Posterior sampling from what is left of all steps: about the last `steps` of them.

    >>> FadingPSRL(5, 3, steps=1000).memory.discount
    0.999
    """

    def __init__(
        self, n_states: Any, n_actions: Any, *,
        steps: int, seed: int = 0, available: Any = None,
    ) -> None:  # fmt: skip
        fading = Discounted(1.0 - 1.0 / check_integer("steps", steps, 2))
        Episodic.__init__(
            self, n_states, n_actions, available=available,
            memory=fading, plausible=Posterior(seed), restarts=Never(), episodes=Growing(),
        )  # fmt: skip


@compiled
class GLRPSRL(Episodic):
    """Posterior sampling from all steps since a likelihood ratio spoke for a change.

    >>> GLRPSRL(5, 3).restarts.delta
    0.05
    """

    def __init__(
        self, n_states: Any, n_actions: Any, *,
        delta: float = 0.05, seed: int = 0, available: Any = None,
    ) -> None:  # fmt: skip
        Episodic.__init__(
            self, n_states, n_actions, available=available,
            memory=Everything(), plausible=Posterior(seed), restarts=GLR(delta), episodes=Growing(),
        )  # fmt: skip
