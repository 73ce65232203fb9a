"""UCRL3 (Bourel, Maillard, Talebi 2020): the tightest intervals, on a support kept small.

    Episodes, policy, stop rule      as UCRL2                               Episodic, Doubling
    Plausible rewards and rows       the smaller of two bounds per entry      BernsteinLaplace
    Extended value iteration         pouring within intervals, on a near-optimistic support

One of the two bounds is that of the authors' code and is not proved (see the set), so there is no
guarantee even where nothing changes; with a window likewise.
"""

from __future__ import annotations

from typing import Any

from switchmdp.agents.episodic import Episodic
from switchmdp.compiled import compiled
from switchmdp.memory import Everything, Window
from switchmdp.plausible import BernsteinLaplace
from switchmdp.restarts import Never


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
