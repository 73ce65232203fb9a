"""Experiments: problems × agents as data, run anywhere, stored on disk.

    experiment, text = load("windows.toml")
    results = run(experiment, "results/windows")

- `spec`: what a file may contain, and all its errors
- `names`: what the names in a file mean: agents, problems, their parameters, formulas
- `plan`: from an experiment to chunks of runs
- `chunks`: compute a chunk, and run a worker
- `execute`: let workers compute all chunks
- `store`, `results`: results in a folder and in memory
- `leaderboard`: run the suite in `leaderboard.toml`; published results of suites
"""

from __future__ import annotations

import contextlib
import os
import re
import warnings
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from switchmdp.display import counted
from switchmdp.errors import InvalidExperiment, InvalidParameter, SwitchmdpError
from switchmdp.experiments.results import Results, Runs, Setting
from switchmdp.experiments.spec import (
    AgentSpec,
    Claim,
    Experiment,
    ProblemSpec,
    dumps,
    load,
    loads,
    parse,
    schema,
    shipped,
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
    "load", "load_results", "loads", "open_store", "prepare", "run", "run_chunks", "schema",
    "shipped", "status", "verify",
]  # fmt: skip


def run(
    experiment: Experiment, folder: str | os.PathLike[str], *,
    modules: str | os.PathLike[str] | None = None, trust: bool | None = None, **how: Any,
) -> Results:  # fmt: skip
    """Run an experiment, store it in a folder, and load its results; completed runs are kept.

    Parameters
    ----------
    experiment
        The experiment.
    folder
        The folder of the results; it is created if it does not exist.
    modules
        The folder of your own agents and problems.
    trust
        Whether your own modules may be imported, and so run; by default whether SWITCHMDP_TRUST is
        1. An experiment may come from anyone.
    how
        Keywords of `run_chunks`: jobs, executor, dask, watch, …

    Returns
    -------
    Results
        The results of all runs.

    Raises
    ------
    InvalidParameter
        If `experiment` is something else, such as the path of a file.
    InvalidExperiment
        If an agent, problem or parameter is invalid.
    ForeignFolder
        If the folder contains something else.
    SwitchmdpError
        If chunks could not be computed or stored.

    Examples
    --------
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

    if not isinstance(experiment, Experiment):
        allowed = "an Experiment (load(path)[0] reads one from a TOML file)"
        raise InvalidParameter("experiment", experiment, allowed)
    module_folder = None if modules is None else Path(modules)
    plan = check(experiment, module_folder, trust=trust)
    store = create(folder, plan, dumps(experiment), module_folder)
    raise_if_lost(run_chunks(store, plan, **how))
    return load_results(store)


def prepare(
    config: str | os.PathLike[str], folder: str | os.PathLike[str], *,
    n_problems: int | None = None, trust: bool | None = None,
) -> tuple[Store, Plan]:  # fmt: skip
    """The folder and the plan of a configuration, ready for `run_chunks`.

    Parameters
    ----------
    config
        A TOML file, or the name of a configuration that comes with the package.
    folder
        The folder of the results; it is created if it does not exist.
    n_problems
        Replaces the number of problems in the configuration.
    trust
        Whether your own modules may be imported, and so run; by default whether SWITCHMDP_TRUST is
        1.

    Returns
    -------
    tuple[Store, Plan]
        The folder and the plan.

    Raises
    ------
    InvalidParameter
        If there is no such configuration.
    InvalidExperiment
        If the configuration has errors.
    ForeignFolder
        If the folder contains something else.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as parent:
    ...     store, plan = prepare("figure-1", Path(parent, "results"), n_problems=2)
    >>> plan.n_runs
    20
    """
    from switchmdp.experiments.plan import check

    name, known = os.fspath(config), shipped()
    modules: Path | None = None
    if name in known and not Path(name).is_file():
        experiment, text = loads(known[name]), known[name]
    elif name.endswith(".py") or not (Path(name).exists() or name.endswith(".toml")):
        allowed = f"a TOML file or one of {', '.join(known)}"
        if name.endswith(".py"):
            allowed = 'a TOML file (it names your own agents as agent = "module:Name")'
        raise InvalidParameter("the configuration", name, allowed)
    else:
        experiment, text = load(name)
        modules = _modules_of(Path(name))
    if n_problems is not None:
        experiment = parse({**experiment.model_dump(), "n_problems": n_problems})
        text = _with_problems(text, n_problems, experiment)
    plan = check(experiment, modules, trust=trust)
    return create(folder, plan, text, modules), plan


def _modules_of(config: Path) -> Path:
    """The folder of the user modules: the file's or, for a results folder, the original one."""
    with contextlib.suppress(SwitchmdpError, OSError):
        if folder := open_store(config.parent).module_folder():
            return folder
    return config.resolve().parent


def _with_problems(text: str, n_problems: int, wanted: Experiment) -> str:
    """The text with another number of problems, so that it describes what was run."""
    edited = re.sub(r"(?m)^n_problems\s*=\s*\w+", f"n_problems = {n_problems}", text, count=1)
    with contextlib.suppress(InvalidExperiment):
        if loads(edited, wanted.title) == wanted:
            return edited
    return dumps(wanted)


def raise_if_lost(progress: Progress) -> None:
    """Raise an error if chunks could not be computed or stored."""
    if progress.lost:
        chunks, error = counted(len(progress.lost), "chunk"), progress.lost[0].error
        raise SwitchmdpError(f"{chunks} could not be computed or stored; the first: {error}")


def __getattr__(name: str) -> Any:
    if name == "Tally":
        warnings.warn("Tally is now called Progress", DeprecationWarning, stacklevel=2)
        name = "Progress"
    if name in _LAZY:
        return getattr(import_module(f"switchmdp.experiments.{_LAZY[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
