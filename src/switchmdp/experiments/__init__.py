"""Experiments: problems × agents as data, run anywhere, stored on disk.

    experiment, text = load("windows.toml")
    results = run(experiment, "results/windows")

`spec` says what a file may contain, `plan` turns it into chunks of runs, `chunks` computes a chunk,
`execute` lets workers compute all chunks, `store` keeps them in a folder or in memory and checks
them, and `results` puts them together. `formulas` and `user_modules` look up what a file names.
`leaderboard` runs the suite in `leaderboard.toml`.
"""

from __future__ import annotations

import os
import warnings
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from switchmdp.errors import SwitchmdpError
from switchmdp.experiments.results import Results, Runs, Setting
from switchmdp.experiments.spec import (
    AgentSpec,
    Claim,
    Experiment,
    ProblemSpec,
    dumps,
    load,
    loads,
    schema,
)
from switchmdp.experiments.store import (
    MemoryStore,
    Status,
    Store,
    Verification,
    create,
    load_results,
    open_store,
    status,
    verify,
)

if TYPE_CHECKING:
    from switchmdp.experiments.execute import Progress, run_chunks
    from switchmdp.experiments.plan import Plan, check

# Imported when first used: they import all agents and Numba, which reading results does not need.
_LAZY = {"Progress": "execute", "run_chunks": "execute", "Plan": "plan", "check": "plan"}

__all__ = [
    "AgentSpec", "Claim", "Experiment", "MemoryStore", "Plan", "ProblemSpec", "Progress",
    "Results", "Runs", "Setting", "Status", "Store", "Verification", "check", "create", "dumps",
    "load", "load_results", "loads", "open_store", "run", "run_chunks", "schema", "status",
    "verify",
]  # fmt: skip


def run(
    experiment: Experiment, folder: str | os.PathLike[str], *,
    modules: str | os.PathLike[str] | None = None, trust: bool | None = None, **how: Any,
) -> Results:  # fmt: skip
    """Run an experiment into a folder and load its results; runs that are there are not repeated.

    `modules` is the folder of the user's own agents and problems. They are imported, and so run,
    only with `trust=True` (or SWITCHMDP_TRUST=1), since an experiment may come from anyone. Other
    keywords are those of `execute.run_chunks` (jobs, executor, dask, watch, ...).

    >>> import tempfile
    >>> experiment = Experiment(
    ...     horizon=500, n_problems=2, agents={"R": AgentSpec(agent="random")},
    ...     problems={"P": ProblemSpec(problem="random-switching")},
    ... )
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     results = run(experiment, folder, jobs=1)
    >>> results.settings["P"].agents["R"].regret.shape
    (2, 250)
    """
    from switchmdp.experiments.execute import run_chunks
    from switchmdp.experiments.plan import check

    module_folder = None if modules is None else Path(modules)
    plan = check(experiment, module_folder, trust=trust)
    store = create(folder, plan, dumps(experiment), module_folder)
    raise_if_lost(run_chunks(store, plan, **how))
    return load_results(store)


def raise_if_lost(progress: Progress) -> None:
    """Raise an error if chunks could not be computed or stored."""
    if progress.lost:
        n, error = len(progress.lost), progress.lost[0].error
        raise SwitchmdpError(f"{n} chunks could not be computed or stored; the first: {error}")


def __getattr__(name: str) -> Any:
    if name == "Tally":
        warnings.warn("Tally is now called Progress", DeprecationWarning, stacklevel=2)
        name = "Progress"
    if name in _LAZY:
        return getattr(import_module(f"switchmdp.experiments.{_LAZY[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
