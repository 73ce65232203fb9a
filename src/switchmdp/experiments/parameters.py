"""The parameters of agents and problems: what they may be, and formulas that compute them.

A configuration names a class or function, and its parameters follow from the signature of that. A
parameter is a plain value, a sweep over values, or a table that stands for a value:

    window = { formula = "optimal-window", diameter = 1, times = 0.5 }     agents
    law = { choice = "beta", share = 0.3 }                                 problems

A formula is a function of the problem, the horizon and δ. Its other parameters are written next to
its name. To add a formula, write a function and add one line to FORMULAS.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from math import isfinite, prod
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import ValidationError

from switchmdp import theory
from switchmdp.agents import AGENTS
from switchmdp.errors import Fault, InvalidParameter
from switchmdp.experiments.spec import (
    AgentSpec,
    ConfigError,
    ProblemSpec,
    Words,
    as_integer,
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
from switchmdp.problems import PROBLEMS, is_problem_factory
from switchmdp.validation import check_integer, check_positive

LARGEST_VALUE = 2**63
MOST_VARIANTS = 1000
DEEPEST = 8  # lists in lists
INTEGERS = ("int", "<class 'int'>", "int | None")  # annotations of parameters that are integers


def _is_agent_class(value: Any) -> bool:
    methods = (getattr(value, name, None) for name in ("act", "observe"))
    return isinstance(value, type) and all(map(callable, methods))


@dataclass(frozen=True)
class Kind:
    """What an entry of an experiment describes: a family of problems, or an agent."""

    word: str
    model: type[ProblemSpec] | type[AgentSpec]
    registry: Mapping[str, Callable[..., Any]]
    already_set: tuple[str, ...]  # the arguments that the experiment sets by itself
    table: str  # the key of a table that stands for a value
    fits: Callable[[Any], bool]  # whether an object of the user's is of this kind
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


def unknown_name(kind: Kind, name: str, path: str) -> Fault:
    """The error that no agent or problem has this name."""
    more = ", or 'module:Name' of your own"
    return unknown(kind.word, name, kind.registry, path, path, more=more)


# What the parameters of an agent or a problem may be.


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
    declared = {name: str(p.annotation) for name, p in parameters_of(factory).items()}
    integers = [name for name, kind in declared.items() if kind in INTEGERS]
    return {name: as_integer(v) if name in integers else v for name, v in values.items()}


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
            faults += _value_faults(here, value, kind)
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


def _value_faults(path: str, value: Any, kind: Kind) -> list[Fault]:
    if not is_table(value, "sweep"):
        return _single_value_faults(path, value, kind, "a sweep, ")
    if list(value) != ["sweep"] or not isinstance(value["sweep"], list) or not value["sweep"]:
        allowed = "{ sweep = [...] } with at least one value and nothing else"
        return [Fault(path, showable(value), allowed)]
    swept = enumerate(value["sweep"])
    return [f for i, v in swept for f in _single_value_faults(f"{path}.sweep.{i}", v, kind, "")]


def _single_value_faults(path: str, value: Any, kind: Kind, sweep: str) -> list[Fault]:
    if is_table(value, "formula") and kind is AGENT:
        name = value["formula"]
        if name not in list(FORMULAS):
            return [unknown("formula", name, FORMULAS, f"{path}.formula", path)]
        known = list(inspect.signature(FORMULAS[name]).parameters)[1:]
        rest = [k for k in value if k not in ("formula", *known)]
        what = f"parameter of the formula {name!r}:"
        faults = [unknown(what, k, known, f"{path}.{k}", path, value[k]) for k in rest]
        given = [k for k in known if k in value]
        return faults + [f for k in given for f in _plain_value_faults(f"{path}.{k}", value[k])]
    if is_table(value, "choice") and kind is PROBLEM:
        return [f for k, v in value.items() for f in _plain_value_faults(f"{path}.{k}", v)]
    if isinstance(value, Mapping):
        return [Fault(path, showable(value), f"a value, a list, {sweep}or a {kind.table} table")]
    return _plain_value_faults(path, value)


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
        valid, allowed = False, f"a number, text, true, false or a list, at most {DEEPEST} deep"
    return [] if valid else [Fault(path, showable(value), allowed)]


# Formulas.

MOST_CHANGES = 10**9


@dataclass(frozen=True)
class Context:
    """What a formula may use."""

    problem: SwitchingMDP
    horizon: int
    delta: float


def optimal_window(
    context: Context, *, diameter: float | str = "lower-bound", times: float = 1.0
) -> int:
    """W* of Eq. 3 of Gajane, Ortner and Auer (2018), for the problem's number of changes.

    `diameter`: a number, "lower-bound" (max(1, log_A S - 3)) or "exact" (the largest of the
    problem's configurations); `times`: a factor on the result. The horizon if nothing changes.

    >>> from switchmdp.problems import random_switching
    >>> optimal_window(Context(random_switching(changes=2, seed=0), 100_000, 0.1), diameter=1)
    89119
    """
    problem, horizon = context.problem, context.horizon
    factor = check_positive("times", times)
    if problem.changes == 0:
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


def _diameter(problem: SwitchingMDP, value: float | str) -> float:
    if value == "lower-bound":
        return theory.diameter_lower_bound(n_states=problem.n_states, n_actions=problem.n_actions)
    if value == "exact":
        return max(exact_diameter(mdp) for mdp in problem.configurations())
    if isinstance(value, str):
        raise InvalidParameter("diameter", value, "a number, 'lower-bound' or 'exact'")
    return check_positive("diameter", value)


def changes(context: Context, *, plus: int = 0) -> int:
    """The problem's number of changes, including those after the horizon."""
    return context.problem.changes + check_integer("plus", plus, -MOST_CHANGES, MOST_CHANGES)


def change_points(context: Context) -> Any:
    """The problem's change points."""
    return context.problem.change_points


def changed_pairs(context: Context) -> NDArray[np.uint8]:
    """What changes at each change point: a row for each change point, a column for each pair.

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
    """η* of SWUCRL2-CW, for that window and the problem's variations."""
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
