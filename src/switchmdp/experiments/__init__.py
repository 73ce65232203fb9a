"""Experiments: problems × agents as data, run anywhere, kept on disk.

    experiment, text = load("windows.toml")
    results = run(experiment, "results/windows")

`spec` says what an experiment is, `check` whether it can be run, `chunks` what it computes, `store`
where that is kept, `execute` who computes it, and `results` what came of it.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from switchmdp.errors import SwitchmdpError
from switchmdp.experiments.check import Plan, check
from switchmdp.experiments.execute import Tally, run_chunks
from switchmdp.experiments.load import load_results
from switchmdp.experiments.results import Results, Runs, Setting
from switchmdp.experiments.spec import (
    AgentSpec,
    Claim,
    Experiment,
    ProblemSpec,
    load,
    loads,
    schema,
)
from switchmdp.experiments.store import Store, create, open_store
from switchmdp.experiments.toml import dumps

__all__ = [
    "AgentSpec", "Claim", "Experiment", "Plan", "ProblemSpec", "Results", "Runs", "Setting",
    "Store", "Tally", "check", "create", "dumps", "load", "load_results", "loads", "open_store",
    "run", "run_chunks", "schema",
]  # fmt: skip


def run(
    experiment: Experiment, folder: str | os.PathLike[str], *,
    modules: str | os.PathLike[str] | None = None, trust: bool | None = None, **how: Any,
) -> Results:  # fmt: skip
    """Run an experiment into a folder, or go on with what is there, and load its results.

    `modules` is the folder of the user's own agents and problems. They are imported, and so run,
    only with `trust=True` (or SWITCHMDP_TRUST=1): an experiment does not say who wrote it. What
    else may be given is what `execute.run_chunks` takes (jobs, executor, dask, watch, ...).

    >>> import tempfile
    >>> experiment = Experiment(
    ...     title="chance", horizon=500, n_problems=2, agents={"R": AgentSpec(agent="random")},
    ...     problems={"P": ProblemSpec(problem="random-switching")},
    ... )
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     results = run(experiment, folder, jobs=1)
    >>> results.settings["P"].agents["R"].regret.shape
    (2, 250)
    """
    where = None if modules is None else Path(modules)
    plan = check(experiment, where, trust=trust)
    store = create(folder, plan, dumps(experiment), where)
    tally = run_chunks(store, plan, **how)
    if tally.lost:
        raise SwitchmdpError(f"{len(tally.lost)} chunks could not be done: {tally.lost[0].error}")
    return load_results(store)
