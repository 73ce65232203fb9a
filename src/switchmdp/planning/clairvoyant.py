"""The best expected reward in T steps if all changes are known in advance.

    V_{T+1} = 0,     V_t(s) = max_a  r̄_t(s, a) + Σ_s' p_t(s' | s, a) V_{t+1}(s'),

from the last step back to the first, each with the configuration that is active then.

Regret is measured against Σ ρ*_t, which is not the same. Without a change the two differ by at most
the span of the optimal bias: T ρ* + h(s) - max h <= V_1(s) <= T ρ* + h(s) - min h. Every change may
add as much, either way: whoever starts in the right state earns more than Σ ρ*, and whoever has to
walk to where the reward has moved earns less.

Rounding takes less than T² · 2⁻⁵².
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from switchmdp.compiled import entry
from switchmdp.mdp import MDP, SwitchingMDP, as_switching
from switchmdp.validation import check_integer


def clairvoyant_reward(problem: SwitchingMDP | MDP, horizon: int) -> NDArray[np.float64]:
    """The best expected reward of the first `horizon` steps, for each initial state.

    Below, staying pays in state 0 up to step 5 and in state 1 from then on; to go takes a step.

    >>> stay_or_go = [[[1, 0], [0, 1]], [[0, 1], [1, 0]]]
    >>> first, second = MDP(stay_or_go, [[1, 0], [0, 0]]), MDP(stay_or_go, [[0, 0], [1, 0]])
    >>> clairvoyant_reward(SwitchingMDP([first, second], [6]), horizon=10).tolist()
    [9.0, 8.0]
    """
    problem = as_switching(problem)
    horizon = check_integer("horizon", horizon, 1)
    last = problem.active(horizon)
    model = problem.configuration(last).model
    values: NDArray[np.float64] = _backwards(
        model._replace(row=model.row.copy()), problem.patches, problem.change_points[:last], horizon
    )
    return values


@entry
def _backwards(model: Any, patches: Any, points: Any, horizon: int) -> Any:
    """V_1, where model.row is that of the last step; the rows are changed on the way."""
    n_states, row, change = model.starts.size - 1, model.row, points.size
    later, values = np.zeros(n_states), np.zeros(n_states)
    for t in range(horizon, 0, -1):
        if change > 0 and t < points[change - 1]:
            change -= 1
            for k in range(patches.offsets[change], patches.offsets[change + 1]):
                row[patches.pair[k]] = patches.old[k]
        for s in range(n_states):
            best = -np.inf
            for pair in range(model.starts[s], model.starts[s + 1]):
                y = row[pair]
                worth = model.mean[y]
                for k in range(model.start[y], model.stop[y]):
                    worth += model.probabilities[k] * later[model.successors[k]]
                best = max(best, worth)
            values[s] = best
        later, values = values, later
    return later
