"""Commands that only read: status, verify, export; agents, problems, schema; doctor."""

from __future__ import annotations

import inspect
import json
import os
import platform
import re
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from switchmdp import experiments
from switchmdp.cli import Exit, printable, say, say_json, warn
from switchmdp.cli.run import load_folder, resume_command
from switchmdp.errors import InvalidParameter, MissingExtra, SwitchmdpError
from switchmdp.experiments.spec import unknown
from switchmdp.experiments.store import open_store
from switchmdp.version import __version__

if TYPE_CHECKING:
    from switchmdp.experiments.names import Kind  # imports all agents

Choices = Mapping[str, Mapping[str, Any]]  # of parameters that are functions or laws, by name
SHOWN = 3  # failures whose tracebacks are printed


def show_status(folder: Path) -> int:
    """Print the numbers of completed and failed runs by setting and agent, and any damage."""
    from switchmdp.reports.page import Table

    store = open_store(folder)
    status = experiments.status(store)
    code = (
        Exit.DAMAGED
        if status.damaged
        else Exit.FAILED
        if status.failed or status.failures
        else Exit.FINE
    )
    # `lanes` is the deprecated name of `pairings`, as below `sound` is of `valid`.
    pairings = [asdict(pairing) for pairing in status.pairings]
    say_json(
        "status", folder=str(folder), title=store.experiment.title, digest=store.digest,
        done=status.done, runs=status.runs, failed=status.failed, damaged=status.damaged,
        pairings=pairings, lanes=pairings, failures=status.failures, exit=code,
    )  # fmt: skip
    say(printable(store.experiment.title))
    say(f"{status.done} of {status.runs} runs done, {status.failed} failed")
    columns: dict[str, Callable[[Any], str]] = {
        name: lambda pairing, name=name: str(getattr(pairing, name))  # type: ignore[misc]
        for name in ("setting", "agent", "done", "runs", "failed")
    }
    say(f"\n{Table.of('', status.pairings, columns).text()}\n")
    _show_failures(status.failures)
    for reason in status.damaged:
        say(f"  damaged: {printable(reason)}")
    if status.done < status.runs or status.damaged:
        say(f"to resume: {resume_command(store)}")
    return code


def _show_failures(failures: list[dict[str, Any]]) -> None:
    """Print one failure of each kind, with its traceback."""
    kinds = {(f.get("agent"), f.get("error")): f for f in reversed(failures)}
    for failure in [*reversed(kinds.values())][:SHOWN]:
        agent, setting = failure.get("agent") or "the problem itself", failure.get("setting")
        say(printable(f"  failed: {agent} on {setting}, problem {failure.get('problem')}"))
        for line in str(failure.get("traceback", "")).splitlines():
            say(f"    {printable(line)}")


def verify_folder(folder: Path, recompute: int, trust: bool | None) -> int:
    """Check every checksum; compute some chunks again and compare every byte."""
    store = open_store(folder)
    result = experiments.verify(store, recompute=recompute, trust=trust)
    code = Exit.DAMAGED if result.bad else Exit.FINE
    say_json(
        "verified", valid=result.valid, sound=result.valid, missing=result.missing, bad=result.bad,
        recomputed=result.recomputed, exit=code,
    )  # fmt: skip
    valid = "1 chunk is" if result.valid == 1 else f"{result.valid} chunks are"
    say(f"{valid} valid, {result.missing} not done yet, {len(result.bad)} bad")
    if result.recomputed:
        say(f"{result.recomputed} computed again and compared byte by byte")
    for name, reason in result.bad.items():
        say(printable(f"  {name}: {reason}"))
    if result.damaged:
        say(f"to compute damaged chunks again: {resume_command(store)}")
    return code


def export_results(
    folder: Path | None, formats: tuple[str, ...], out: Path | None, database: str | None,
    model: str | None,
) -> int:  # fmt: skip
    """Write tables of all completed runs, or of the decisions of a model of a service."""
    from switchmdp.cli.online import export_decisions
    from switchmdp.online.sqlite import SUFFIXES, database_in
    from switchmdp.reports.export import export_tables

    if folder is None and database is None:
        raise InvalidParameter("FOLDER", None, "set (or --database, for decisions of a service)")
    if folder is None:
        assert database is not None
        return export_decisions(database, model, formats, out)
    if database is not None:
        raise InvalidParameter("FOLDER", str(folder), "omitted if --database is set")
    file = database_in(folder)
    if file.suffix in SUFFIXES and file.is_file():
        allowed = f"a folder of results (for decisions of a service: --database {folder})"
        raise InvalidParameter("FOLDER", str(folder), allowed)

    results = load_folder(folder)
    target, missing = out or folder / "export", None
    try:
        files = export_tables(results, target, formats or ("csv", "parquet"))
    except MissingExtra as error:
        if formats:
            raise
        warn(f"only CSV: {error}")
        missing, files = str(error), export_tables(results, target, ("csv",))
    say_json("export", files=[str(file) for file in files], missing=missing)
    say("\n".join(map(str, files)))
    return Exit.FINE


# agents, problems, schema


def show_agents(name: str | None) -> None:
    """Print one agent with its documentation, or all agents and the formulas for parameters."""
    from switchmdp.experiments.names import AGENT, FORMULAS

    _show_entries(AGENT, name)
    if name is None:
        say('\nA parameter is a value, { sweep = [value, ...] }, or { formula = "NAME", ... }:\n')
        for formula, function in FORMULAS.items():
            _show_signature(formula, function, ("context",))


def show_problems(name: str | None) -> None:
    """Print one problem with its documentation, or all problems."""
    from switchmdp.experiments.names import PROBLEM
    from switchmdp.problems import CHOICES

    _show_entries(PROBLEM, name, CHOICES)
    if name is None:
        say('\nA parameter is a value, { sweep = [value, ...] }, or { choice = "NAME", ... }.')


def _show_entries(kind: Kind, name: str | None, choices: Choices | None = None) -> None:
    """Print the entry of this name, or all entries of a registry."""
    if name is not None and name not in kind.registry:
        raise SwitchmdpError(str(unknown(kind.word, name, kind.registry, "", "")))
    for entry in kind.registry if name is None else [name]:
        _show_signature(entry, kind.registry[entry], kind.already_set, choices)
    if name is not None:
        say(f"\nIn Python: switchmdp.{kind.word}s.{kind.registry[name].__name__}")
        say("\n".join(_doc_lines(kind.registry[name])[1:]).rstrip())


def _doc_lines(described: Any) -> list[str]:
    """The lines of a docstring, at least one; `python -OO` removes docstrings."""
    return (inspect.getdoc(described) or "(no description)").splitlines()


def show_schema() -> None:
    """Print the JSON schema of configuration files."""
    say(json.dumps(experiments.schema(), indent=2))


def _show_signature(
    name: str, factory: Callable[..., Any], already_set: tuple[str, ...],
    choices: Choices | None = None,
) -> None:  # fmt: skip
    """Print a name, its summary, and its parameters as they would be in a configuration."""
    from switchmdp.experiments.names import accepts

    say(f"{name}: {_doc_lines(factory)[0]}")
    for parameter in inspect.signature(factory).parameters.values():
        if parameter.name not in already_set and accepts(factory, parameter.name):
            say(f"    {_parameter(parameter, (choices or {}).get(parameter.name, {}))}")


def _parameter(parameter: inspect.Parameter, choices: Mapping[str, Any]) -> str:
    """A parameter, its default, and its other choices.

    >>> from switchmdp.problems import even_change_points as even
    >>> kind = inspect.Parameter.KEYWORD_ONLY
    >>> _parameter(inspect.Parameter("points", kind, default=even), {"even": even, "odd": 1})
    'points = "even" or "odd"'
    """
    name, default = parameter.name, parameter.default
    if name == "horizon":
        return "horizon = the experiment's"
    values = sorted(choices, key=lambda choice: choices[choice] is not default)
    if not values and default is not inspect.Parameter.empty and default is not None:
        values = [default]
    text = f"{name} = {' or '.join(map(json.dumps, values))}" if values else name
    required = default is inspect.Parameter.empty
    return text + (" (required)" if required else " (optional)" if default is None else "")


# doctor


def check_installation() -> int:
    """Check the dependencies and the main functions; the exit code shows whether all work."""
    broken = 0
    say(f"switchmdp {__version__}, Python {platform.python_version()}")
    for name, extra in _dependencies().items():
        try:
            say(f"  ok      {name} {version(name)}")
        except PackageNotFoundError:
            broken += not extra
            word, package = ("absent", f"switchmdp[{extra}]") if extra else ("BROKEN", "switchmdp")
            say(f"  {word}  {name} is not installed: pip install '{package}'")
    checks = {
        "the cache of machine code": _cache,
        "compiled agents": _compiled,
        "writing and syncing files here": _writing,
        "processors": _cores,
    }
    for name, check in checks.items():
        try:
            say(f"  ok      {name}: {check()}")
        except Exception as error:  # anything that does not work is to be reported
            broken += 1
            say(f"  BROKEN  {name}: {type(error).__name__}: {error}")
    return Exit.FAILED if broken else Exit.FINE


def _dependencies() -> dict[str, str]:
    """The dependencies of users in the package's metadata: name -> extra, or "" if required."""
    dependencies: dict[str, str] = {}
    for requirement in requires("switchmdp") or []:
        name = re.match(r"[\w.-]+", requirement)
        extra = re.search(r"extra == ['\"]([\w-]+)['\"]", requirement)
        if name and name[0] != "switchmdp" and (not extra or extra[1] not in ("dev", "docs")):
            dependencies.setdefault(name[0], extra[1] if extra else "")
    return dependencies


def _cache() -> str:
    from switchmdp.compiled.cache import cache_folder

    folder = cache_folder()
    files = list(folder.glob("*")) if folder.exists() else []
    size = sum(file.stat().st_size for file in files)
    return f"{folder}, {len(files)} files, {size / 1e6:.1f} MB"


def _compiled() -> str:
    import numpy as np

    import switchmdp as sm

    problem = sm.problems.random_switching(5, 3, changes=1, horizon=20_000, seed=0)

    def regret(interpreted: bool, horizon: int) -> Any:
        agent = sm.agents.SWUCRL(5, 3, window=1000)
        return sm.simulate(agent, problem, horizon, seed=0, interpreted=interpreted).regret

    if not np.array_equal(regret(False, 1000), regret(True, 1000)):
        raise RuntimeError("machine code and Python give different results")
    began = time.perf_counter()
    regret(False, 20_000)
    speed = 20_000 / (time.perf_counter() - began)
    return f"same results as Python, {speed / 1e6:.0f} M steps/s"


def _writing() -> str:
    from switchmdp.storage import save_bytes

    with tempfile.TemporaryDirectory(dir=".") as folder:
        save_bytes(Path(folder) / "probe", b"probe")
    return os.getcwd()


def _cores() -> str:
    from switchmdp.experiments.execute import cores

    return str(cores())
