"""switchmdp: reinforcement learning in finite MDPs whose rewards and transitions change.

    >>> import switchmdp as sm
    >>> problem = sm.problems.random_switching(5, 3, changes=2, horizon=5000, seed=0)
    >>> agent = sm.agents.SWUCRL(5, 3, window=1000, delta=0.1)
    >>> record = sm.simulate(agent, problem, horizon=5000, seed=0)
    >>> bool(record.regret[-1] > 0)
    True

Everything here is imported when it is first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from switchmdp.display import register_presenter
from switchmdp.version import __version__

register_presenter(lambda: importlib.import_module("switchmdp.reports.present"))

_MODULES = (
    "agents", "errors", "experiments", "gym", "memory", "online", "planning", "plausible",
    "problems", "reports", "restarts", "theory",
)  # fmt: skip
_NAMES = {
    "MDP": "mdp", "SwitchingMDP": "mdp", "Bernoulli": "mdp", "Beta": "mdp", "Deterministic": "mdp",
    "optimal_gain": "planning", "optimal_gains": "planning", "policy_gain": "planning",
    "diameter": "planning", "is_communicating": "planning", "hardness": "planning",
    "extended_value_iteration": "planning", "clairvoyant_reward": "planning",
    "simulate": "simulation", "simulate_batch": "simulation", "Record": "simulation",
    "check_agent": "contract", "check_problem": "contract",
    "Experiment": "experiments", "compare": "reports.compare", "plot": "reports.present",
    "DriftDetector": "restarts",
}  # fmt: skip

__all__ = [
    "MDP", "Bernoulli", "Beta", "Deterministic", "DriftDetector", "Experiment", "Record",
    "SwitchingMDP", "__version__", "agents", "check_agent", "check_problem", "clairvoyant_reward",
    "compare", "diameter", "errors", "experiments", "extended_value_iteration", "gym", "hardness",
    "is_communicating", "memory", "online", "optimal_gain", "optimal_gains", "planning",
    "plausible", "plot", "policy_gain", "problems", "reports", "restarts", "simulate",
    "simulate_batch", "theory",
]  # fmt: skip

if TYPE_CHECKING:
    from switchmdp import (
        agents,
        errors,
        experiments,
        gym,
        memory,
        online,
        planning,
        plausible,
        problems,
        reports,
        restarts,
        theory,
    )
    from switchmdp.contract import check_agent, check_problem
    from switchmdp.experiments import Experiment
    from switchmdp.mdp import MDP, Bernoulli, Beta, Deterministic, SwitchingMDP
    from switchmdp.planning import (
        clairvoyant_reward,
        diameter,
        extended_value_iteration,
        hardness,
        is_communicating,
        optimal_gain,
        optimal_gains,
        policy_gain,
    )
    from switchmdp.reports.compare import compare
    from switchmdp.reports.present import plot
    from switchmdp.restarts import DriftDetector
    from switchmdp.simulation import Record, simulate, simulate_batch


def __getattr__(name: str) -> Any:
    if name in _NAMES:
        value = getattr(importlib.import_module(f"switchmdp.{_NAMES[name]}"), name)
    elif name in _MODULES:
        value = importlib.import_module(f"switchmdp.{name}")
    else:
        raise AttributeError(f"module 'switchmdp' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
