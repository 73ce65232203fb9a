"""From the data of an experiment to variants, and from a variant to a problem or an agent.

Sweeps multiply: an entry with two swept parameters of three values each is nine variants. The
arguments that every constructor may ask for by name (sizes, the problem itself, horizon, seed) are
given, and so cannot be set in a configuration.

Randomness has a role: problem i is drawn from (seed, role 0, i), and whatever happens on it from
(seed, role 1, i), so that all agents meet the same, and adding one changes nothing for the others.
"""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from math import prod
from typing import Any

from numpy.random import SeedSequence

from switchmdp.errors import InvalidParameter
from switchmdp.experiments.formulas import FORMULAS, Context, plain
from switchmdp.experiments.spec import AgentSpec, ProblemSpec
from switchmdp.mdp import MDP, SwitchingMDP
from switchmdp.problems import CHOICES

GIVEN_TO_PROBLEMS = ("seed",)
GIVEN_TO_AGENTS = ("n_states", "n_actions", "available", "problem", "seed")
PROBLEM_ROLE, RUN_ROLE, AGENT_ROLE = 0, 1, 2
MOST_VARIANTS = 1000
DEFAULT_DELTA = 0.05


@dataclass(frozen=True)
class Variant:
    """One agent or one family of problems, its sweeps resolved."""

    name: str
    base: str
    source: str  # a registered name, or the user's "module:Name"
    parameters: Mapping[str, Any]
    swept: Mapping[str, Any]


def expand(specs: Mapping[str, ProblemSpec] | Mapping[str, AgentSpec]) -> list[Variant]:
    """Every entry, once for each combination of its swept values.

    >>> swept = {"x": AgentSpec(agent="sw-ucrl", parameters={"window": {"sweep": [10, 20]}})}
    >>> [variant.name for variant in expand(swept)]
    ['x [window=10]', 'x [window=20]']
    """
    variants = []
    for base, spec in specs.items():
        source = spec.agent if isinstance(spec, AgentSpec) else spec.problem
        swept = {k: v["sweep"] for k, v in spec.parameters.items() if is_table(v, "sweep")}
        for combination in itertools.product(*swept.values()):
            values = dict(zip(swept, combination, strict=True))
            shown = ", ".join(f"{k}={_shown(v)}" for k, v in values.items())
            name = f"{base} [{shown}]" if shown else base
            variants.append(Variant(name, base, source, {**spec.parameters, **values}, values))
    return variants


def count_variants(specs: Mapping[str, ProblemSpec] | Mapping[str, AgentSpec]) -> int:
    """How many variants `expand` would make.

    >>> count_variants({"x": AgentSpec(agent="a", parameters={"b": {"sweep": [10, 20]}})})
    2
    """
    tables = [[v for v in s.parameters.values() if is_table(v, "sweep")] for s in specs.values()]
    return sum(prod(len(table["sweep"]) for table in sweeps) for sweeps in tables)


def is_table(value: Any, key: str) -> bool:
    """Whether a parameter is written as a table with this key."""
    return isinstance(value, Mapping) and key in value


def _shown(value: Any) -> str:
    for key in ("formula", "choice"):
        if is_table(value, key):
            rest = ", ".join(f"{k}={v}" for k, v in value.items() if k != key)
            return f"{value[key]}({rest})" if rest else str(value[key])
    return str(value)


def problem_seed(seed: int, i: int) -> int:
    """The seed of an experiment's i-th problem."""
    return _seed(seed, PROBLEM_ROLE, i)


def run_seed(seed: int, i: int) -> int:
    """The seed of every run on the i-th problem."""
    return _seed(seed, RUN_ROLE, i)


@lru_cache(maxsize=4096)
def _seed(seed: int, role: int, i: int) -> int:
    low, high = SeedSequence(seed, spawn_key=(role, i)).generate_state(2)
    return int(low) | (int(high) & 0x3FFFFFFF) << 32


def make_problem(
    variant: Variant, factory: Callable[..., Any], horizon: int, seed: int
) -> SwitchingMDP:
    """A problem of this family."""
    arguments = {k: _chosen(k, v) for k, v in variant.parameters.items()}
    for name, value in (("seed", seed), ("horizon", horizon)):
        if accepts(factory, name):
            arguments.setdefault(name, value)
    problem = factory(**arguments)
    if isinstance(problem, MDP):
        problem = SwitchingMDP([problem])
    if not isinstance(problem, SwitchingMDP):
        raise InvalidParameter(
            variant.source, problem, "a function that makes an MDP or SwitchingMDP"
        )
    return problem


def _chosen(name: str, value: Any) -> Any:
    """A function or law by its name, where the parameter is one."""
    known = CHOICES.get(name, {})
    if is_table(value, "choice"):
        choice, rest = value["choice"], {k: v for k, v in value.items() if k != "choice"}
    elif isinstance(value, str) and known:
        choice, rest = value, {}
    else:
        return value
    if not isinstance(choice, str) or choice not in known:
        raise InvalidParameter(name, choice, f"one of {', '.join(map(repr, known))}")
    found = known[choice]
    if not isinstance(found, type) and rest:
        raise InvalidParameter(name, rest, f"nothing but the choice {choice!r}")
    return found(**rest) if isinstance(found, type) else found


def make_agent(
    variant: Variant, factory: Callable[..., Any], problem: SwitchingMDP, horizon: int, seed: int
) -> tuple[Any, dict[str, Any]]:
    """A fresh agent for this problem, and its parameters as they came out for it."""
    parameters = resolve(variant, factory, problem, horizon)
    given: dict[str, Callable[[], Any]] = {
        "n_states": lambda: problem.n_states,
        "n_actions": lambda: problem.n_actions,
        "available": lambda: problem.available,
        "problem": lambda: problem,
        "seed": lambda: _seed(seed, AGENT_ROLE, 0),
    }
    wanted = [name for name in GIVEN_TO_AGENTS if accepts(factory, name)]
    # All actions are available to most agents, which need not be told so at every run.
    if _is_full(problem) and default_of(factory, "available", 0) is None:
        wanted.remove("available")
    agent = factory(**{name: given[name]() for name in wanted}, **parameters)
    if isinstance(agent, type) or not (hasattr(agent, "act") and hasattr(agent, "observe")):
        raise InvalidParameter(variant.source, agent, "what makes agents, which act and observe")
    return agent, {name: plain(value) for name, value in parameters.items()}


def _is_full(problem: SwitchingMDP) -> bool:
    return problem.pairs.n_pairs == problem.n_states * problem.n_actions


def resolve(
    variant: Variant, factory: Callable[..., Any], problem: SwitchingMDP, horizon: int
) -> dict[str, Any]:
    """The parameters with their formulas computed."""
    delta = variant.parameters.get("delta", default_of(factory, "delta", DEFAULT_DELTA))
    context = Context(problem, horizon, delta)
    found = {}
    for name, value in variant.parameters.items():
        if is_table(value, "formula"):
            rest = {k: v for k, v in value.items() if k != "formula"}
            value = FORMULAS[value["formula"]](context, **rest)
        found[name] = value
    return found


@lru_cache(maxsize=1024)
def parameters_of(factory: Callable[..., Any]) -> Mapping[str, inspect.Parameter]:
    """What a class or function can be called with."""
    try:
        return inspect.signature(factory).parameters
    except (TypeError, ValueError):
        return {}


def accepts(factory: Callable[..., Any], name: str) -> bool:
    """Whether the argument may be given by name (a bare **anything does not count)."""
    found = parameters_of(factory).get(name)
    return found is not None and found.kind in (
        inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY,
    )  # fmt: skip


def default_of(factory: Callable[..., Any], name: str, otherwise: Any) -> Any:
    """The argument's default value."""
    found = parameters_of(factory).get(name)
    missing = found is None or found.default is inspect.Parameter.empty
    return otherwise if missing or found is None else found.default
