"""Posterior sampling: PSRL with TSDE's episodes, on all steps, on a window, or told the changes.

    For episodes k = 1, 2, … do                             (Ouyang, Gagrani, Nayyar, Jain 2017)
      T_{k-1} := t - t_{k-1};  t_k := t.                              Growing.end, start_episode
      Draw an MDP from the posterior; π_k := its best policy.                     Posterior.plan
      While t <= t_k + T_{k-1} and no pair's visits have doubled:         Growing.end, .quota
         follow π_k; update the posterior.                          Episodic.prepare, .observe

(Visits are doubled as UCRL2 has it: v_k = max(1, N_k).) In a stationary, weakly communicating MDP
drawn from the prior, its Bayesian regret is O(H S √(A T) log T), with H a bound on the optimal
bias's span. On a window it is a heuristic; told the changes it is a reference.
"""

from __future__ import annotations

from typing import Any

from switchmdp.agents.episodes import Growing
from switchmdp.agents.episodic import Episodic
from switchmdp.compiled import compiled
from switchmdp.memory import Everything, Window
from switchmdp.plausible import Posterior
from switchmdp.restarts import Never, Told


@compiled
class PSRL(Episodic):
    """Posterior sampling that remembers everything.

    >>> PSRL(5, 3, seed=1).act(0) in (0, 1, 2)
    True
    """

    def __init__(
        self, n_states: Any, n_actions: Any, *, seed: int = 0, available: Any = None
    ) -> None:
        Episodic.__init__(
            self, n_states, n_actions, available=available, memory=Everything(),
            plausible=Posterior(seed), restarts=Never(), episodes=Growing(),
        )  # fmt: skip


@compiled
class SWPSRL(Episodic):
    """Posterior sampling from the last `window` steps.

    >>> SWPSRL(5, 3, window=1000).memory.window
    1000
    """

    def __init__(
        self, n_states: Any, n_actions: Any, *,
        window: int, seed: int = 0, available: Any = None,
    ) -> None:  # fmt: skip
        Episodic.__init__(
            self, n_states, n_actions, available=available, memory=Window(window),
            plausible=Posterior(seed), restarts=Never(), episodes=Growing(),
        )  # fmt: skip


@compiled
class OraclePSRL(Episodic):
    """Posterior sampling restarted at the true change points, which it is told.

    >>> OraclePSRL(5, 3, change_points=[50_000]).restart_at
    50000
    """

    def __init__(
        self, n_states: Any, n_actions: Any, *,
        change_points: Any, seed: int = 0, available: Any = None,
    ) -> None:  # fmt: skip
        Episodic.__init__(
            self, n_states, n_actions, available=available, memory=Everything(),
            plausible=Posterior(seed), restarts=Told(change_points), episodes=Growing(),
        )  # fmt: skip
