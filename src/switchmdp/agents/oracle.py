"""Agents that know the change points and restart there: references for all others.

Between two change points each is the agent of its paper, with that paper's guarantee, if any. The
difference to them is the cost of not knowing when the problem changes.
"""

from __future__ import annotations

from typing import Any

from switchmdp.agents.episodes import Growing
from switchmdp.agents.episodic import Episodic
from switchmdp.compiled import compiled
from switchmdp.memory import Everything
from switchmdp.plausible import Bernstein, BernsteinLaplace, KLBall, L1Ball, posterior_for
from switchmdp.restarts import Told


@compiled
class OracleUCRL2(Episodic):
    """UCRL2 with known change points: restarts at each of them.

    >>> OracleUCRL2(5, 3, change_points=[50_000], delta=0.1).restart_at
    50000
    """

    def __init__(
        self, n_states: Any, n_actions: Any, *,
        change_points: Any, delta: float = 0.05, available: Any = None,
    ) -> None:  # fmt: skip
        Episodic.__init__(
            self, n_states, n_actions, available=available,
            memory=Everything(), plausible=L1Ball(delta), restarts=Told(change_points),
        )  # fmt: skip


@compiled
class OracleUCRL2B(Episodic):
    """UCRL2B with known change points: restarts at each of them.

    >>> OracleUCRL2B(5, 3, change_points=[50_000]).restart_at
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
class OracleUCRL3(Episodic):
    """UCRL3 with known change points: restarts at each of them.

    >>> OracleUCRL3(5, 3, change_points=[50_000]).restart_at
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
class OracleKLUCRL(Episodic):
    """KL-UCRL with known change points: restarts at each of them.

    >>> OracleKLUCRL(5, 3, change_points=[50_000]).restart_at
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
class OraclePSRL(Episodic):
    """Posterior sampling with known change points: restarts at each of them.

    >>> OraclePSRL(5, 3, change_points=[50_000]).restart_at
    50000
    """

    def __init__(
        self, n_states: Any, n_actions: Any, *,
        change_points: Any, seed: int = 0, available: Any = None,
    ) -> None:  # fmt: skip
        Episodic.__init__(
            self, n_states, n_actions, available=available,
            memory=Everything(), plausible=posterior_for(n_states, seed),
            restarts=Told(change_points), episodes=Growing(),
        )  # fmt: skip
