"""UCRL2B (Fruit, Pirotta, Lazaric 2020): UCRL2 with empirical Bernstein bounds for each entry.

    Episodes, policy, stop rule      as UCRL2                               Episodic, Doubling
    Plausible rewards and rows       within √(2 V̂ b/n) + 3b/n of r̂, p̂              Bernstein
    Extended value iteration         pouring within intervals             Ranking, Sweeps

In a stationary communicating MDP the set holds the true one with probability 1 - δ (see the set for
the union), and the regret of an agent of this kind is of order √(D S A Γ T), Γ the most successors
of a pair. Where the world changes it has no guarantee; with a window it is a heuristic whose bounds
hold in every window in which nothing changes.
"""

from __future__ import annotations

from typing import Any

from switchmdp.agents.episodic import Episodic
from switchmdp.compiled import compiled
from switchmdp.memory import Everything, Window
from switchmdp.plausible import Bernstein
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
