"""Problems kept for the agents that meet them soon."""

from __future__ import annotations

import threading
from collections import OrderedDict

from switchmdp.experiments.build import make_problem, problem_seed
from switchmdp.experiments.check import Plan
from switchmdp.mdp import SwitchingMDP

REMEMBERED = 1024


class _Kept:
    """A problem in the making or made; whoever comes second waits for it."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.problem: SwitchingMDP | None = None


_kept: OrderedDict[tuple[Plan, int, int], _Kept] = OrderedDict()
_kept_lock = threading.Lock()


def problem_of(plan: Plan, setting: int, i: int) -> SwitchingMDP:
    """Problem i of a setting, made once for all the agents that meet it soon."""
    key = (plan, setting, i)
    with _kept_lock:
        entry = _kept.setdefault(key, _Kept())
        _kept.move_to_end(key)
        while len(_kept) > REMEMBERED:
            _kept.popitem(last=False)
    with entry.lock:
        if entry.problem is None:
            variant, experiment = plan.settings[setting], plan.experiment
            seed = problem_seed(experiment.seed, i)
            factory = plan.generators[variant.source]
            problem = make_problem(variant, factory, experiment.horizon, seed)
            if problem.pairs.n_pairs * (problem.changes + 1) > 10_000:
                return problem
            entry.problem = problem
        return entry.problem
