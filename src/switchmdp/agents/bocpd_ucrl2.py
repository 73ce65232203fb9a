"""R-BOCPD-UCRL2 (Alami, Mahfoud, Moulines 2023): UCRL2, started over when a detector fires.

    UCRL2 on all steps since the last restart                              Everything, L1Ball
    after each step: the pair's detector R-BOCPD reads the next state                   BOCPD
    if it fires: forget all, t := 1, and restart the detectors of all pairs  Episodic.start_over

The paper bounds the regret by O(D S √(A T K log(T/δ)) + K log(K/δ)/min KL) for K changes, each of
transitions that all pairs show: with the prior of its theorem, not with w/n, and without rewards
that change. With `rewards` (the default here) changes of rewards are found too: a heuristic.
"""

from __future__ import annotations

from typing import Any

from switchmdp.agents.episodic import Episodic
from switchmdp.compiled import compiled
from switchmdp.memory import Everything
from switchmdp.plausible import L1Ball
from switchmdp.restarts import BOCPD


@compiled
class RBOCPDUCRL2(Episodic):
    """UCRL2 restarted by R-BOCPD; `weight` is the prior's w, δ/streams if not given.

    >>> RBOCPDUCRL2(5, 3, delta=0.1).act(0)
    0
    """

    def __init__(
        self, n_states: Any, n_actions: Any, *,
        delta: float = 0.05, weight: float | None = None, rewards: bool = True,
        available: Any = None,
    ) -> None:  # fmt: skip
        Episodic.__init__(
            self, n_states, n_actions, available=available, memory=Everything(),
            plausible=L1Ball(delta), restarts=BOCPD(delta, weight=weight, rewards=rewards),
        )  # fmt: skip
