"""Every registered agent, with parameters that suit small problems and short runs."""

from __future__ import annotations

from functools import cache
from typing import Any

import switchmdp as sm
from switchmdp.agents import AGENTS

PARAMETERS: dict[str, dict[str, Any]] = {
    "sw-ucrl": {"window": 300},
    "ucrl2": {},
    "ucrl2-r": {"changes": 2},
    "ucrl2-rw": {"period": 400},
    "ucrl2b": {},
    "ucrl3": {"window": 300},
    "kl-ucrl": {},
    "swucrl2-cw": {"horizon": 1000, "window": 150},
    "variation-aware": {"reward_variation": 0.1, "transition_variation": 0.05, "diameter": 2},
    "oracle-ucrl2": {"change_points": [500, 900]},
    "fading-psrl": {"steps": 300},
    "oracle-ucrl2b": {"change_points": [500, 900]},
    "oracle-ucrl3": {"change_points": [500, 900]},
    "oracle-kl-ucrl": {"change_points": [500, 900]},
    "random": {"seed": 3},
    "glr-ucrl": {"explore": 0.05},
    "glr-psrl": {},
    "r-bocpd-ucrl2": {},
    "calibrated-ucrl3": {"gap": 5.0},
    "imed-rl": {},
    "psrl": {},
    "sw-psrl": {"window": 300},
    "glr-ucrl3": {},
    "oracle-pairs-psrl": {"change_points": [500, 900]},
    "oracle-psrl": {"change_points": [500, 900]},
    "q-learning": {"period": 400},
    "evidence-psrl": {"share": 1.0},
    "borl": {"horizon": 100},
    "borl-full-grid": {"horizon": 100},
    "master-ucrl": {"horizon": 1500, "diameter": 2},
}


def new_agent(name: str, problem: sm.SwitchingMDP, **parameters: Any) -> Any:
    """A fresh agent for a problem; `parameters` take the place of those above."""
    cls: Any = AGENTS[name]
    if name == "omniscient":
        return cls(problem)
    sizes, arguments = (problem.n_states, problem.n_actions), parameters or PARAMETERS[name]
    return cls(*sizes, available=problem.available, **arguments)


@cache
def component_family(name: str) -> str:
    """The kind of plausible set that an agent uses; agents of one family share most of their code.

    Machine code of two agents with the same components takes about half as long to compile in
    one process as in two.
    """
    problem = sm.problems.random_switching(3, 2, changes=1, horizon=100, seed=0)
    plausible = getattr(new_agent(name, problem), "plausible", None)
    return "no plausible set" if plausible is None else type(plausible).__name__
