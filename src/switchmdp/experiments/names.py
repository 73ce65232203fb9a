"""The meaning of names in a configuration: agents, problems, their parameters, and formulas.

The name of an agent or problem is registered (`AGENTS`, `PROBLEMS`) or has the form "module:Name".
Such a module is imported from the configuration's folder or from Python's search path. The results
depend on its text, and on the text of the modules next to it that it imports.

Importing a module runs it. So "module:Name" is refused, and no user module is imported, unless the
caller trusts the configuration (`trust=True`, `--trust`, SWITCHMDP_TRUST=1). Even then only agents
and marked problem factories are called.

The parameters follow from the signature of the class or function. A parameter is a plain value, a
sweep over values, or a table that stands for a value:

    window = { formula = "optimal-window", diameter = 1, times = 0.5 }     agents
    law = { choice = "beta", share = 0.3 }                                 problems

A formula is a function of the problem, the horizon and δ. Its other parameters are written next to
its name. To add a formula, write a function and add one line to FORMULAS.
"""

from __future__ import annotations

import ast
import contextlib
import hashlib
import importlib
import inspect
import math
import os
import re
import sys
import sysconfig
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib.util import resolve_name
from math import isfinite, prod
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import ValidationError

from switchmdp import theory
from switchmdp.agents import AGENTS
from switchmdp.errors import Fault, InvalidExperiment, InvalidParameter
from switchmdp.experiments.spec import (
    AgentSpec,
    ConfigError,
    ProblemSpec,
    Words,
    as_integer,
    describe_error,
    in_user_module,
    is_table,
    missing,
    showable,
    unknown,
)
from switchmdp.mdp import SwitchingMDP
from switchmdp.memory.counts import BOTH, REWARDS, ROWS
from switchmdp.planning import diameter as exact_diameter
from switchmdp.planning import variations
from switchmdp.problems import CHOICES, PROBLEMS, is_problem_factory
from switchmdp.validation import check_integer, check_positive

LARGEST_VALUE = 2**63
MOST_VARIANTS = 1000
DEEPEST = 8  # lists in lists
MOST_NAMES = 5  # in a message
INTEGERS = ("int", "<class 'int'>", "int | None")  # annotations of parameters that are integers


def _is_agent_class(value: Any) -> bool:
    methods = (getattr(value, name, None) for name in ("act", "observe"))
    return isinstance(value, type) and all(map(callable, methods))


@dataclass(frozen=True)
class Kind:
    """The kind of an entry of an experiment: a family of problems, or an agent."""

    word: str
    model: type[ProblemSpec] | type[AgentSpec]
    registry: Mapping[str, Callable[..., Any]]
    already_set: tuple[str, ...]  # the arguments that the experiment sets by itself
    table: str  # the key of a table that stands for a value
    fits: Callable[[Any], bool]  # whether a user's object is of this kind
    allowed: str  # a description of what fits


PROBLEM = Kind(
    "problem", ProblemSpec, PROBLEMS, ("seed",), "choice", is_problem_factory,
    "a function marked with @switchmdp.problems.problem_factory",
)  # fmt: skip
AGENT = Kind(
    "agent", AgentSpec, AGENTS, ("n_states", "n_actions", "available", "problem", "seed"),
    "formula", _is_agent_class, "a class with the methods act and observe",
)  # fmt: skip


def entry_faults(data: Any) -> list[Fault]:
    """The errors in names and parameters of those entries that have the right shape."""
    faults: list[Fault] = []
    for kind in (PROBLEM, AGENT):
        entries = data.get(f"{kind.word}s") if isinstance(data, Mapping) else None
        for name, entry in entries.items() if isinstance(entries, Mapping) else ():
            try:
                spec = kind.model.model_validate(entry)
            except ValidationError:
                continue
            source, path = getattr(spec, kind.word), f"{kind.word}s.{name}"
            if source in kind.registry:
                faults += parameter_faults(path, spec.parameters, kind.registry[source], kind)
            elif not in_user_module(source):
                faults.append(unknown_name(kind, source, f"{path}.{kind.word}"))
    return faults


def unknown_name(kind: Kind, name: str, path: str, folder: Path | None = None) -> Fault:
    """The error for a name that no agent or problem has."""
    if meant := in_module(name, kind, folder):
        message = f"{path}: unknown {kind.word} {name!r}; write {meant}"
        return ConfigError(path, name, meant, message)
    more = f", or 'module:Name' for your own {kind.word}"
    return unknown(kind.word, name, kind.registry, path, path, more=more)


PYTHON_FILE = re.compile(r"(?P<path>.*[^/\\]\.py)(:(?P<name>.*))?")


def in_module(name: str, kind: Kind, folder: Path | None) -> str | None:
    """The right spelling for "my_agents.py" or "my_agents.Mine"; None for any other name.

    The file is read to find the names in it, but not imported.
    """
    place = folder or Path()
    match = PYTHON_FILE.fullmatch(name)
    if match is None:
        module, _, end = name.rpartition(".")
        is_module = USERS.fullmatch(f"{module}:{end}") and _file(module, place)
        return repr(f"{module}:{end}") if is_module else None
    file = Path(match["path"])
    module = ".".join(file.with_suffix("").parts)
    move = ""
    if not USERS.fullmatch(f"{module}:Name"):
        module = re.sub(r"\W", "_", file.stem)
        move = f", with {module}.py in {'the current folder' if folder is None else folder}"
    wanted, found = match["name"], _names_in(place / file, kind)
    names = found if found and wanted not in found else [wanted or "Name"]
    return " or ".join(repr(f"{module}:{each}") for each in names[:MOST_NAMES]) + move


def _names_in(file: Path, kind: Kind) -> list[str]:
    """The classes in a Python file that look like agents, or the functions that look like problems.

    If none does, all classes or functions.
    """
    try:
        body = _parse(file.read_bytes()).body
    except (OSError, SyntaxError, ValueError, RecursionError):
        return []
    if kind is AGENT:
        classes = [node for node in body if isinstance(node, ast.ClassDef)]
        marked = [node for node in classes if {"act", "observe"} <= _methods(node)]
        return [node.name for node in marked or classes]
    functions = [node for node in body if isinstance(node, ast.FunctionDef)]
    return [node.name for node in [f for f in functions if f.decorator_list] or functions]


def _methods(node: ast.ClassDef) -> set[str]:
    return {each.name for each in node.body if isinstance(each, ast.FunctionDef)}


# The parameters of agents and problems.


@lru_cache(maxsize=1024)
def parameters_of(factory: Callable[..., Any]) -> Mapping[str, inspect.Parameter]:
    """The parameters of a class or function."""
    try:
        return inspect.signature(factory).parameters
    except (TypeError, ValueError):
        return {}


def accepts(factory: Callable[..., Any], name: str) -> bool:
    """Whether the factory has a parameter of this name (a bare **kwargs does not count)."""
    parameter = parameters_of(factory).get(name)
    return parameter is not None and parameter.kind in (
        inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY,
    )  # fmt: skip


def required_parameters(factory: Callable[..., Any]) -> list[inspect.Parameter]:
    """The parameters that have no default.

    >>> [parameter.name for parameter in required_parameters(lambda n, *rest, window=5: None)]
    ['n']
    """
    variadic = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    every = parameters_of(factory).values()
    return [p for p in every if p.default is p.empty and p.kind not in variadic]


def with_integers(factory: Callable[..., Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """Floats with an integer value, such as 1e4, as integers where the factory declares `int`.

    >>> def factory(window: int, delta: float) -> None: ...
    >>> with_integers(factory, {"window": 1e4, "delta": 1.0})
    {'window': 10000, 'delta': 1.0}
    """
    integers = _integers_of(factory)
    return {name: as_integer(v) if name in integers else v for name, v in values.items()}


@lru_cache(maxsize=1024)
def _integers_of(factory: Callable[..., Any]) -> frozenset[str]:
    """The parameters that the factory declares as `int`."""
    declared = {name: str(p.annotation) for name, p in parameters_of(factory).items()}
    return frozenset(name for name, kind in declared.items() if kind in INTEGERS)


def parameter_faults(
    path: str, parameters: Mapping[str, Any], factory: Callable[..., Any], kind: Kind
) -> list[Fault]:
    """The errors in the parameters of an entry."""
    known = parameters_of(factory)
    open_ended = any(p.kind is inspect.Parameter.VAR_KEYWORD for p in known.values())
    free = [n for n in known if accepts(factory, n) and n not in kind.already_set]
    faults: list[Fault] = []
    for name, value in parameters.items():
        here = f"{path}.parameters.{name}"
        if name in kind.already_set:
            message = f"{here}: the experiment sets this parameter itself; leave it out"
            faults.append(ConfigError(here, showable(value), "left out", message))
        elif known and not open_ended and name not in free:
            faults.append(unknown("parameter", name, free, here, f"{path}.parameters", value))
        else:
            faults += _value_faults(here, name, value, kind)
    for name in free:
        needed = known[name].default is inspect.Parameter.empty and name not in parameters
        if needed and not (kind is PROBLEM and name == "horizon"):
            here = f"{path}.parameters.{name}"
            faults.append(missing(here, here, "parameter"))
    sweeps = [v["sweep"] for v in parameters.values() if is_table(v, "sweep")]
    variants = prod(len(values) for values in sweeps if isinstance(values, list))
    if variants > MOST_VARIANTS:
        value = Words(f"{variants} variants")
        faults.append(Fault(f"{path}.parameters", value, f"at most {MOST_VARIANTS} variants"))
    return faults


def _value_faults(path: str, name: str, value: Any, kind: Kind) -> list[Fault]:
    if not is_table(value, "sweep"):
        return _single_value_faults(path, name, value, kind, "a sweep, ")
    if list(value) != ["sweep"] or not isinstance(value["sweep"], list) or not value["sweep"]:
        allowed = "{ sweep = [...] } with at least one value and nothing else"
        return [Fault(path, showable(value), allowed)]
    swept = [(f"{path}.sweep.{i}", v) for i, v in enumerate(value["sweep"])]
    return [fault for here, v in swept for fault in _single_value_faults(here, name, v, kind, "")]


def _single_value_faults(path: str, name: str, value: Any, kind: Kind, sweep: str) -> list[Fault]:
    table, choices = kind.table, FORMULAS if kind is AGENT else CHOICES.get(name, {})
    if is_table(value, table):
        chosen = value[table]
        if chosen not in list(choices):
            return [unknown(table, chosen, choices, f"{path}.{table}", path)]
        known = [k for k in choice_parameters(choices[chosen]) if k != "context"]
        rest = [k for k in value if k not in (table, *known)]
        what = f"parameter of the {table} {chosen!r}:"
        faults = [unknown(what, k, known, f"{path}.{k}", path, value[k]) for k in rest]
        given = [k for k in known if k in value]
        return faults + [f for k in given for f in _plain_value_faults(f"{path}.{k}", value[k])]
    if isinstance(value, Mapping):
        return [Fault(path, showable(value), f"a value, a list, {sweep}or a {table} table")]
    if isinstance(value, str) and kind is PROBLEM and choices and value not in choices:
        return [unknown(table, value, choices, path, path)]
    return _plain_value_faults(path, value)


def choice_parameters(choice: Any) -> Iterable[str]:
    """The parameters that may be written next to the name of a formula or choice.

    A choice that is a function is used as it is, and has none.

    >>> list(choice_parameters(CHOICES["law"]["beta"])), list(choice_parameters(print))
    (['variance', 'share'], [])
    """
    takes_them = isinstance(choice, type) or choice in FORMULAS.values()
    return parameters_of(choice) if takes_them else ()


def _plain_value_faults(path: str, value: Any, depth: int = 0) -> list[Fault]:
    if isinstance(value, list) and depth < DEEPEST:
        items = enumerate(value)
        return [f for i, v in items for f in _plain_value_faults(f"{path}.{i}", v, depth + 1)]
    if isinstance(value, str):
        valid, allowed = value.encode("utf-8", "replace").decode() == value, "text"
    elif isinstance(value, float):
        valid, allowed = isfinite(value), "a finite number"
    elif isinstance(value, (bool, int)):
        valid, allowed = abs(value) < LARGEST_VALUE, "a number within ±2**63"
    else:
        valid, allowed = False, f"a number, text, true, false, or lists, at most {DEEPEST} deep"
    return [] if valid else [Fault(path, showable(value), allowed)]


# Formulas.

MOST_CHANGES = 10**9


@dataclass(frozen=True)
class Context:
    """The values that a formula may use."""

    problem: SwitchingMDP
    horizon: int
    delta: float


def optimal_window(
    context: Context, *, diameter: float | str = "lower-bound", times: float = 1.0
) -> int:
    """W* of Eq. 3 of Gajane, Ortner and Auer (2018), for the problem's number of changes.

    `diameter`: a number, "lower-bound" (max(1, log_A S - 3)) or "exact" (the largest of the
    problem's configurations); `times`: a factor on the result. If nothing changes, the result is
    the horizon.

    >>> from switchmdp.problems import random_switching
    >>> optimal_window(Context(random_switching(changes=2, seed=0), 100_000, 0.1), diameter=1)
    89119
    """
    problem, horizon = context.problem, context.horizon
    factor = check_positive("times", times)
    if problem.changes == 0:
        _check_diameter(diameter)  # to compute an exact one would take long
        return horizon
    window = _window(
        horizon, _diameter(problem, diameter), problem.n_states, problem.n_actions,
        problem.changes, context.delta,
    )  # fmt: skip
    return int(min(max(round(window * factor), problem.pairs.n_pairs), horizon))


@lru_cache(maxsize=256)
def _window(
    horizon: int, diameter: float, n_states: int, n_actions: int, changes: int, delta: float
) -> int:
    return theory.optimal_window(
        horizon=horizon, diameter=diameter, n_states=n_states, n_actions=n_actions,
        changes=changes, delta=delta,
    )  # fmt: skip


def _check_diameter(value: float | str) -> float | str:
    if not isinstance(value, str):
        return check_positive("diameter", value)
    if value not in ("lower-bound", "exact"):
        raise InvalidParameter("diameter", value, "a number, 'lower-bound' or 'exact'")
    return value


def _diameter(problem: SwitchingMDP, value: float | str) -> float:
    value = _check_diameter(value)
    if value == "lower-bound":
        return theory.diameter_lower_bound(n_states=problem.n_states, n_actions=problem.n_actions)
    if value == "exact":
        return max(exact_diameter(mdp) for mdp in problem.configurations())
    return float(value)


def changes(context: Context, *, plus: int = 0) -> int:
    """The problem's number of changes, including those after the horizon."""
    return context.problem.changes + check_integer("plus", plus, -MOST_CHANGES, MOST_CHANGES)


def change_points(context: Context) -> Any:
    """The problem's change points."""
    return context.problem.change_points


def changed_pairs(context: Context) -> NDArray[np.uint8]:
    """The changes at each change point: a row for each change point, a column for each pair.

    0 stands for no change, 1 for mean reward and transition row, 2 for the mean reward, 3 for the
    transition row.

    >>> from switchmdp.mdp import MDP
    >>> first, second = (MDP([[[0, 1]], [[1, 0]]], [[mean], [0.5]]) for mean in (0.25, 0.75))
    >>> changed_pairs(Context(SwitchingMDP([first, second], [10]), 100, 0.1)).tolist()
    [[2, 0]]
    """
    problem, model, patches = context.problem, context.problem.model, context.problem.patches
    codes = np.zeros((problem.changes, problem.pairs.n_pairs), np.uint8)
    for change in range(problem.changes):
        for k in range(patches.offsets[change], patches.offsets[change + 1]):
            old, new = patches.old[k], patches.new[k]
            before, after = (slice(model.start[row], model.stop[row]) for row in (old, new))
            same_row = np.array_equal(
                model.successors[before], model.successors[after]
            ) and np.array_equal(model.probabilities[before], model.probabilities[after])
            if model.mean[old] == model.mean[new]:
                codes[change, patches.pair[k]] = 0 if same_row else ROWS
            else:
                codes[change, patches.pair[k]] = REWARDS if same_row else BOTH
    return codes


def horizon(context: Context, *, times: float = 1.0) -> int:
    """The number of steps, or a multiple of it."""
    return max(1, round(context.horizon * check_positive("times", times)))


def diameter(context: Context) -> float:
    """The largest diameter of the problem's configurations."""
    return _diameter(context.problem, "exact")


def reward_variation(context: Context) -> float:
    """B_r: the largest change of a mean reward, summed over all change points."""
    return variations(context.problem)[0]


def transition_variation(context: Context) -> float:
    """B_p: the largest L1 change of a transition row, summed over all change points."""
    return variations(context.problem)[1]


def cw_window(context: Context, *, times: float = 1.0) -> int:
    """W* of SWUCRL2-CW (Cheung, Simchi-Levi, Zhu 2020), for the problem's variations.

    >>> from switchmdp.problems import random_mdp
    >>> cw_window(Context(SwitchingMDP([random_mdp(5, 3, seed=0)], []), 100_000, 0.1))
    4805
    """
    problem = context.problem
    reward, transition = variations(problem)
    window = theory.cw_window(
        horizon=context.horizon, n_states=problem.n_states, n_actions=problem.n_actions,
        reward_variation=reward, transition_variation=transition,
    )  # fmt: skip
    return min(max(1, round(window * check_positive("times", times))), context.horizon)


def cw_widening(context: Context, *, times: float = 1.0) -> float:
    """η* of SWUCRL2-CW, for the window `cw_window` and the problem's variations."""
    eta = theory.cw_widening(
        horizon=context.horizon, window=cw_window(context),
        transition_variation=variations(context.problem)[1],
    )  # fmt: skip
    return eta * check_positive("times", times)


def exploration_rate(context: Context, *, times: float = 1.0) -> float:
    """√(l S A log T / T), at most 1: the exploration rate of bandits with GLR restarts.

    >>> from switchmdp.problems import random_switching
    >>> problem = random_switching(5, 3, changes=2, seed=0)
    >>> round(exploration_rate(Context(problem, 100_000, 0.1)), 5)
    0.05877
    """
    problem, T = context.problem, context.horizon
    share = problem.changes * problem.n_states * problem.n_actions * math.log(T) / T
    return min(1.0, math.sqrt(share) * check_positive("times", times))


FORMULAS: dict[str, Callable[..., Any]] = {
    "optimal-window": optimal_window,
    "changes": changes,
    "change-points": change_points,
    "changed-pairs": changed_pairs,
    "horizon": horizon,
    "reward-variation": reward_variation,
    "transition-variation": transition_variation,
    "cw-window": cw_window,
    "cw-widening": cw_widening,
    "diameter": diameter,
    "exploration-rate": exploration_rate,
}


def plain(value: Any) -> Any:
    """A parameter's value in a form that JSON can represent."""
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, (bool, int, float, str)) or value is None:
        return value
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    return str(getattr(value, "__name__", value))


# Registered names and user modules.

TRUST = "SWITCHMDP_TRUST"
HOW_TO_TRUST = (
    "to run code from your own modules, pass --trust (trust=True in Python; see SECURITY.md)"
)
USERS = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*(\.[^\W\d]\w*)*")


def is_trusted(trust: bool | None) -> bool:
    """Whether user modules may be imported; None: whether SWITCHMDP_TRUST is 1.

    >>> is_trusted(True), is_trusted(False)
    (True, False)
    """
    return os.environ.get(TRUST) == "1" if trust is None else trust


def find_factory(
    field: str, name: str, kind: Kind, folder: Path | None, trust: bool
) -> Callable[..., Any]:
    """The class or function of this name; `folder` is searched first for user modules.

    >>> from switchmdp.experiments.names import AGENT
    >>> find_factory("agent", "sw-ucrl", AGENT, None, trust=False).__name__
    'SWUCRL'
    >>> find_factory("agent", "SW-UCRL", AGENT, None, trust=False)
    Traceback (most recent call last):
    ...
    switchmdp.errors.InvalidExperiment: agent: unknown agent 'SW-UCRL'; did you mean 'sw-ucrl'?
    """

    def refused(reason: str) -> InvalidExperiment:
        return InvalidExperiment([ConfigError(field, name, kind.allowed, f"{field}: {reason}")])

    if name in kind.registry:
        return kind.registry[name]
    if not in_user_module(name):
        raise InvalidExperiment([unknown_name(kind, name, field, folder)])
    file = (folder or Path()) / name.rpartition(":")[0]
    if not USERS.fullmatch(name) or file.is_file():
        meant = in_module(name, kind, folder)
        advice = f"; write {meant}" if meant else ""
        raise refused(f"{name!r} does not have the form 'module:Name'{advice}")
    if name.startswith("__main__:"):
        place = "is in a script or notebook, which workers can't import; move it to a module"
        raise refused(f"{name!r} {place}, such as my_module.py, and write 'my_module:Name'")
    if not trust:
        raise refused(f"{name!r} is not a registered {kind.word}; {HOW_TO_TRUST}")
    module_name, _, path = name.partition(":")
    try:
        value: Any = _import(module_name, folder)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # a user module may raise anything
        raise refused(f"can't import {module_name!r} ({describe_error(error)})") from error
    for part in path.split("."):
        value = getattr(value, part, None)
        if value is None:
            raise refused(f"module {module_name!r} has no {path!r}")
    if not kind.fits(value):
        raise refused(f"{name!r} must be {kind.allowed}")
    return value  # type: ignore[no-any-return]  # a class or a function


_loaded: dict[str, tuple[Path, str]] = {}  # user modules: file and digest when imported
_added: list[str] = []  # folders that `_import` put in front of sys.path; removed at the next call


def _import(name: str, folder: Path | None) -> ModuleType:
    """Import a module, or import it again if it, or a module next to it that it uses, has changed.

    A long-lived process (a notebook, a cluster's worker) may run many experiments, whose modules
    are edited in between or have the same names as those in other folders.
    """
    if folder is not None:
        first = str(folder.resolve())
        others = [entry for entry in sys.path if entry not in (first, *_added)]
        _added[:] = [first] if first in _added or first not in sys.path else []
        sys.path[:] = [first, *others]
    importlib.invalidate_caches()
    now = {
        module: (file, hashlib.sha256(text).hexdigest())
        for module, file, text in _files(name, folder)
        if not _is_standard(file)  # a second copy of `os` would surprise everyone else
    }
    deleted = name in _loaded and name not in now
    if deleted or any(m in sys.modules and _loaded.get(m) != file for m, file in now.items()):
        for other in (name, *now):
            sys.modules.pop(other, None)
    module = importlib.import_module(name)
    _loaded.update(now)
    return module


def _is_standard(file: Path) -> bool:
    """Whether a file belongs to the standard library, below which packages may be installed."""
    standard, *installed = (
        Path(sysconfig.get_path(place)).resolve() for place in ("stdlib", "purelib", "platlib")
    )
    return standard in file.parents and not {*installed} & {*file.parents}


def search_path() -> list[str]:
    """The search path of this process, without the folders of experiments."""
    return [entry for entry in sys.path if isinstance(entry, str) and entry not in _added]


def module_digests(names: Iterable[str], folder: Path | None) -> dict[str, str]:
    """SHA-256 of each user module, and of the modules next to it that it imports."""
    users = [name.partition(":")[0] for name in names if in_user_module(name)]
    modules = sorted({module for name in users for module, _, _ in _files(name, folder)})
    return {module: _loaded[module][1] for module in modules if module in _loaded}


def _files(name: str, folder: Path | None) -> list[tuple[str, Path, bytes]]:
    """A module and the modules next to it that it imports, also indirectly: name, file, text."""
    places = [Path(entry).resolve() for entry in ([folder] if folder else []) + sys.path]
    root = next((place for place in places if _file(name, place)), None)
    installed = {Path(sysconfig.get_path(p)).resolve() for p in ("stdlib", "purelib", "platlib")}
    top = name.partition(".")[0]
    files: dict[str, tuple[str, Path, bytes]] = {}
    waiting = [name] if root else []
    while waiting:
        module = waiting.pop()
        first = module.partition(".")[0]
        foreign = first in sys.stdlib_module_names or first == "switchmdp" or root in installed
        file = None if module in files or (foreign and first != top) else _file(module, root)
        if file is not None:
            text = file.read_bytes()
            files[module] = (module, file, text)
            waiting += _imports(text, module, file.name == "__init__.py")
    return list(files.values())


def _file(module: str, root: Path | None) -> Path | None:
    base = Path(root or ".", *module.split("."))
    files = (base / "__init__.py", base.with_name(f"{base.name}.py"))
    return next((file for file in files if file.is_file()), None)


def _imports(text: bytes, name: str, is_package: bool) -> set[str]:
    """All modules that a module's text imports anywhere, and the packages that contain them."""
    package = name if is_package else name.rpartition(".")[0]
    imported = {package}
    try:
        nodes = list(ast.walk(_parse(text)))
    except (SyntaxError, ValueError, RecursionError):  # the import will fail, too
        nodes = []
    for node in nodes:
        if isinstance(node, ast.Import):
            imported.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            with contextlib.suppress(ImportError):  # beyond the top
                base = resolve_name("." * node.level + (node.module or ""), package)
                imported.update((base, *(f"{base}.{alias.name}" for alias in node.names)))
    around = {".".join(m.split(".")[:i]) for m in imported for i in range(1, m.count(".") + 1)}
    return (imported | around) - {""}


def _parse(text: bytes) -> ast.Module:
    """The syntax tree of a module.

    In some versions of Python, 3.11.7 for one, parsing fails with a SystemError if another thread
    parses at the same time. Threads that log a traceback do.
    """
    for _ in range(9):
        with contextlib.suppress(SystemError):
            return ast.parse(text)
    return ast.parse(text)
