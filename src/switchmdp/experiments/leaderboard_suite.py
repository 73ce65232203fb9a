"""The suite of the package: which agents run on which problems, and what is tuned for each.

Windows and periods are fractions of the horizon. `EvidencePSRL` has no tuned parameter. Agents that
know the change points are a reference; agents that never forget show the price of adaptivity where
nothing changes. An agent gets what its paper assumes to be known (the horizon, a diameter).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from switchmdp.experiments.leaderboard import Contender, Row, Suite, Tuned

SHARES = (0.01, 0.03, 0.1, 0.3, 1.0)
WINDOW = Tuned("window", SHARES, of_horizon=True)
PERIOD = Tuned("period", SHARES, of_horizon=True)
DELTA = Tuned("delta", (0.01, 0.05, 0.2, 0.5, 0.9))
HORIZON = {"formula": "horizon"}
TOLD = {"change_points": {"formula": "change-points"}}
D = 5.0  # the diameter of most small problems here

OURS = "EvidencePSRL"

CONTENDERS = (
    Contender(OURS, "evidence-psrl", detects=True, ours=True, unforgetting="PSRL"),
    Contender("SW-UCRL", "sw-ucrl", {"delta": 0.1}, WINDOW, unforgetting="UCRL2"),
    Contender("UCRL2-R", "ucrl2-r", {"delta": 0.1}, Tuned("changes", (0, 1, 2, 4, 8)),
              unforgetting="UCRL2"),
    Contender("UCRL2-RW", "ucrl2-rw", {"delta": 0.1}, PERIOD, unforgetting="UCRL2"),
    Contender("SWUCRL2-CW", "swucrl2-cw", {"horizon": HORIZON, "delta": 0.1}, WINDOW,
              unforgetting="UCRL2"),
    Contender("variation-aware UCRL", "variation-aware",
              {"transition_variation": 0.0, "diameter": D, "delta": 0.1},
              Tuned("reward_variation", (0.001, 0.005, 0.01, 0.1, 1.0)), unforgetting="UCRL2"),
    Contender("BORL", "borl", {"horizon": HORIZON, "delta": 0.1}, unforgetting="UCRL2"),
    # With the printed constant (8) its base agent learns nothing in so few steps. Its tests hardly
    # ever fire; scaled until they do, they also fire where nothing has changed, at a net cost.
    Contender("MASTER-UCRL", "master-ucrl",
              {"horizon": HORIZON, "diameter": D, "delta": 0.1, "scale": 0.0003},
              Tuned("confidence", (8.0, 1.0, 0.3, 0.1, 0.03)), detects=True,
              unforgetting="UCRL2"),
    Contender("R-BOCPD-UCRL2", "r-bocpd-ucrl2", {}, DELTA, detects=True, unforgetting="UCRL2"),
    Contender("GLR-UCRL2", "glr-ucrl", {"delta": 0.05},
              Tuned("explore", (0.0, 0.0003, 0.001, 0.003, 0.01)), detects=True,
              unforgetting="UCRL2"),
    Contender("GLR-PSRL", "glr-psrl", {}, DELTA, detects=True, unforgetting="PSRL"),
    Contender("SW-UCRL2B", "ucrl2b", {"delta": 0.1}, WINDOW, unforgetting="UCRL2B"),
    Contender("SW-UCRL3", "ucrl3", {"delta": 0.1}, WINDOW, unforgetting="UCRL3",
              not_in_large="with a short window it plans very often, each time solving for every "
                           "entry's bound: more than a second a run"),
    Contender("SW-KL-UCRL", "kl-ucrl", {"delta": 0.1}, WINDOW, unforgetting="KL-UCRL"),
    Contender("SW-PSRL", "sw-psrl", {}, WINDOW, unforgetting="PSRL"),
    Contender("fading PSRL", "fading-psrl", {}, Tuned("steps", SHARES, of_horizon=True),
              unforgetting="PSRL"),
    Contender("Q-learning, restarted", "q-learning", {}, PERIOD,
              unforgetting="Q-learning"),
    Contender("UCRL2", "ucrl2", {"delta": 0.1}),
    Contender("UCRL2B", "ucrl2b", {"delta": 0.1}),
    Contender("UCRL3", "ucrl3", {"delta": 0.1}),
    Contender("KL-UCRL", "kl-ucrl", {"delta": 0.1}),
    Contender("PSRL", "psrl"),
    Contender("Q-learning", "q-learning"),
    Contender("UCRL2, told", "oracle", {**TOLD, "delta": 0.1}, told=True),
    Contender("UCRL2B, told", "told-ucrl2b", {**TOLD, "delta": 0.1}, told=True),
    Contender("UCRL3, told", "told-ucrl3", {**TOLD, "delta": 0.1}, told=True),
    Contender("KL-UCRL, told", "told-kl-ucrl", {**TOLD, "delta": 0.1}, told=True),
    Contender("PSRL, told", "oracle-psrl", TOLD, told=True),
)  # fmt: skip

SMALL, MIDDLE = {"n_states": 5, "n_actions": 3}, {"n_states": 20, "n_actions": 4}


def _rows(name: str, sizes: dict[str, int], large: bool) -> tuple[Row, ...]:
    """The rows that exist in every size."""

    def changing(what: str, how: Any, changes: int = 4, **more: Any) -> Row:
        parameters = {**sizes, "how": how, "changes": changes, **more}
        return Row(f"{what}, {name}", "random-changes", parameters, large=large)

    # So that a problem is small enough for the problem cache.
    every = 1000 if large else 200
    small_steps = changing("many small changes", {"choice": "small-steps", "size": 0.1}, 50)
    return (
        changing("rewards only", "rewards"),
        changing("transitions only", "transitions"),
        changing("single pair", "one-pair"),
        changing("hidden improvement", "hidden-improvement", 2),
        changing("recurring", "everything", cycle=2),
        Row(f"gradual drift, {name}", "gradual-drift", {**sizes, "every": every}, large=large,
            drifts=True),
        Row(f"random walk, {name}", "random-walk", {**sizes, "every": every}, large=large,
            drifts=True),
        replace(small_steps, drifts=True),
        Row(f"no change, {name}", "random", sizes, large=large, changes=False),
    )  # fmt: skip


ROWS = (
    Row("paper, 2 changes", "random-switching", {**SMALL, "changes": 2}),
    Row("paper, 4 changes", "random-switching", {**SMALL, "changes": 4}),
    Row("RiverSwim flips, S = 6", "riverswim-flips", {"n_states": 6, "changes": 4}),
    Row("Garnet, S = 10", "garnet", {"n_states": 10, "n_actions": 3, "successors": 3,
                                     "changes": 4}),
    *_rows("S = 5", SMALL, large=False),
    Row("all new, S = 20", "random-changes", {**MIDDLE, "changes": 4}, large=True),
    Row("RiverSwim flips, S = 12", "riverswim-flips", {"n_states": 12, "changes": 2}, large=True),
    Row("Garnet, S = 20", "garnet", {**MIDDLE, "successors": 3, "changes": 4}, large=True),
    *_rows("S = 20", MIDDLE, large=True),
)  # fmt: skip

SUITE = Suite("Leaderboard", ROWS, CONTENDERS, tuning_seed=20_261_126, seed=20_261_127)

_BRIEFLY = ("paper, 4 changes", "rewards only, S = 5", "hidden improvement, S = 5",
            "RiverSwim flips, S = 6", "random walk, S = 5", "no change, S = 5")  # fmt: skip
_FEW = (OURS, "SW-UCRL", "UCRL2-RW", "R-BOCPD-UCRL2", "GLR-UCRL2", "SW-PSRL", "UCRL2", "PSRL",
        "UCRL2, told", "PSRL, told")  # fmt: skip

QUICK = Suite(
    "Leaderboard, quickly",
    tuple(replace(row, horizon=30_000) for row in ROWS if row.name in _BRIEFLY),
    tuple(one for one in CONTENDERS if one.name in _FEW),
    tuning_problems=5, problems=10, tuning_seed=20_180_526, seed=20_260_102,
    note="A foretaste of the suite: few rows, agents and problems, and short runs. It ranks "
         "nothing.",
)  # fmt: skip
