"""KL-UCRL (Filippi, Cappé, Garivier 2010): UCRL2 with Kullback-Leibler balls.

    Episodes, policy, stop rule      as UCRL2                               Episodic, Doubling
    Plausible rewards                within √(log(4SA log t/δ)/(1.99 N)) of r̂          KLBall
    Plausible rows                   KL(p̂, p̃) <= C_p/N                                 KLBall
    Extended value iteration         the inner maximum by its dual           planning.inner_maximum

In a stationary communicating MDP the paper bounds its regret by order D S √(A T), as UCRL2's, with
probability 1 - δ, where the constants know the horizon T; how far that holds with t in its place
is said in `plausible.divergence`. Where the world changes it has no guarantee; with a window it is
a heuristic.
"""

from __future__ import annotations

from typing import Any

from switchmdp.agents.episodic import Episodic
from switchmdp.compiled import compiled
from switchmdp.memory import Everything, Window
from switchmdp.plausible import KLBall
from switchmdp.restarts import Never


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
