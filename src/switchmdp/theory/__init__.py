"""The bounds of the SW-UCRL paper and of UCRL2 as functions, each with its conditions.

One name for each symbol: `horizon` T, `diameter` D, `n_states` S, `n_actions` A, `changes` l,
`window` W, `delta` δ, `epsilon` ε, and `segments` L = l + 1 for UCRL2 with restarts. All are
keywords. `sw_ucrl` has the theorem, the lemmas of its proof and its window (and that of
SWUCRL2-CW); `ucrl2` has the bounds of UCRL2. Where the paper has an error, the plain name is the
printed form, and `repaired_…` is the correct one. If the conditions of a claim do not hold, a
function raises `OutsideValidity`.

>>> optimal_window(
...     horizon=100_000, diameter=1, n_states=5, n_actions=3, changes=2, delta=0.1)
89119
"""

from __future__ import annotations

from switchmdp.theory.sw_ucrl import (
    corollary_1_bound,
    corollary_2_steps,
    cw_widening,
    cw_window,
    e1,
    e1_bound,
    e2,
    e2_bound,
    episodes_bound,
    longest_episode,
    optimal_window,
    optimal_window_exact,
    proposition_1,
    regret_bound,
    repaired_corollary_1_bound,
    repaired_e2,
    repaired_e2_bound,
    repaired_regret_bound,
    repaired_visits_bound,
    theorem_1_holds,
    visits_bound,
)
from switchmdp.theory.ucrl2 import (
    diameter_lower_bound,
    raw_diameter_lower_bound,
    restart_confidence,
    restart_regret_bound,
    restart_times,
    reward_radius,
    transition_radius,
    ucrl2_episodes_bound,
    ucrl2_lower_bound,
    ucrl2_regret_bound,
)

__all__ = [
    "corollary_1_bound", "corollary_2_steps", "cw_widening", "cw_window",
    "diameter_lower_bound", "e1", "e1_bound", "e2", "e2_bound", "episodes_bound",
    "longest_episode", "optimal_window", "optimal_window_exact", "proposition_1",
    "raw_diameter_lower_bound", "regret_bound", "repaired_corollary_1_bound", "repaired_e2",
    "repaired_e2_bound", "repaired_regret_bound", "repaired_visits_bound", "restart_confidence",
    "restart_regret_bound", "restart_times", "reward_radius", "theorem_1_holds",
    "transition_radius", "ucrl2_episodes_bound", "ucrl2_lower_bound", "ucrl2_regret_bound",
    "visits_bound",
]  # fmt: skip
