"""Every fault of an experiment at once, before anything runs.

Beyond the shape of the file (`spec`): the names exist, the parameters are ones that the constructor
takes, formulas are known, claims speak of what is there; and the first problem of every setting and
every agent on it can really be made.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

from switchmdp.agents import AGENTS
from switchmdp.compiled import is_compiled
from switchmdp.errors import Fault, InvalidExperiment, InvalidParameter, SwitchmdpError
from switchmdp.experiments import sources
from switchmdp.experiments.build import (
    GIVEN_TO_AGENTS,
    GIVEN_TO_PROBLEMS,
    MOST_VARIANTS,
    Variant,
    accepts,
    expand,
    is_table,
    make_agent,
    make_problem,
    parameters_of,
    problem_seed,
)
from switchmdp.experiments.formulas import FORMULAS
from switchmdp.experiments.spec import Experiment
from switchmdp.mdp import SwitchingMDP
from switchmdp.problems import PROBLEMS

MOST_RUNS = 10**8


@dataclass(frozen=True)
class Plan:
    """An experiment that was found to be in order, with all that its runs need."""

    experiment: Experiment
    settings: tuple[Variant, ...]
    agents: tuple[Variant, ...]
    factories: Mapping[str, Callable[..., Any]]  # of settings and agents, by source
    compiled: tuple[bool, ...]  # whether each agent runs as machine code
    pairs: tuple[int, ...]  # state-action pairs of each setting's first problem
    modules: Mapping[str, str]  # digests of the user's modules

    @property
    def n_runs(self) -> int:
        """How many runs there are in all."""
        return len(self.settings) * len(self.agents) * self.experiment.n_problems


def check(experiment: Experiment, folder: Path | None = None) -> Plan:
    """Find every fault, or return what the runs need; `folder` holds the user's modules.

    >>> from switchmdp.experiments.spec import parse
    >>> agents = {"A": {"agent": "sw-ucrl", "parameters": {"windw": 10, "delta": 2.0}}}
    >>> problems = {"p": {"problem": "random-switching"}}
    >>> check(parse({"title": "x", "horizon": 10, "n_problems": 1, "problems": problems,
    ...              "agents": agents}))  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    switchmdp.errors.InvalidExperiment: agents.A.parameters.windw: must be one of 'window', ...
    agents.A.parameters.window: must be given, got nothing
    """
    faults: list[Fault] = []
    factories: dict[str, Callable[..., Any]] = {}
    groups = (
        ("problems", "problem", experiment.problems, PROBLEMS, GIVEN_TO_PROBLEMS),
        ("agents", "agent", experiment.agents, AGENTS, GIVEN_TO_AGENTS),
    )
    for group, kind, specs, registry, given in groups:
        for name, spec in specs.items():
            path, source = f"{group}.{name}", getattr(spec, kind)
            try:
                factories[source] = sources.find(f"{path}.{kind}", source, registry, folder)
            except InvalidParameter as error:
                faults.append(Fault(error.field, error.value, error.allowed))
                continue
            faults += _parameters(path, spec.parameters, factories[source], given)
    if faults:
        raise InvalidExperiment(faults)
    settings, agents = expand(experiment.problems), expand(experiment.agents)
    faults += _repeated("problems", settings) + _repeated("agents", agents)
    faults += _claims(experiment, settings, agents)
    n_runs = len(settings) * len(agents) * experiment.n_problems
    if n_runs > MOST_RUNS:
        faults.append(Fault("n_problems", experiment.n_problems, f"fewer: {n_runs} runs in all"))
    if faults:
        raise InvalidExperiment(faults)
    compiled, pairs, found = _try(experiment, settings, agents, factories)
    if found:
        raise InvalidExperiment(list(dict.fromkeys(found)))
    named = [variant.source for variant in (*settings, *agents)]
    return Plan(
        experiment, tuple(settings), tuple(agents), factories, compiled, pairs,
        sources.digests(named, folder),
    )  # fmt: skip


def _parameters(
    path: str, parameters: Mapping[str, Any], factory: Callable[..., Any], given: tuple[str, ...]
) -> list[Fault]:
    known = parameters_of(factory)
    open_ended = any(p.kind is inspect.Parameter.VAR_KEYWORD for p in known.values())
    free = [n for n in known if accepts(factory, n) and n not in given]
    faults = []
    for name, value in parameters.items():
        here = f"{path}.parameters.{name}"
        if name in given:
            faults.append(Fault(here, value, "left out: the experiment gives it"))
        elif known and not open_ended and name not in free:
            names = ", ".join(map(repr, free)) or "none: it takes no parameters"
            faults.append(Fault(here, value, f"one of {names}" if free else names))
        else:
            faults += _value(here, value, path.startswith("agents"))
    wanted = [n for n in free if known[n].default is inspect.Parameter.empty]
    for name in wanted:
        if name not in parameters and not (path.startswith("problems") and name == "horizon"):
            faults.append(Fault(f"{path}.parameters.{name}", _NOTHING, "given"))
    variants = prod(len(v["sweep"]) for v in parameters.values() if _is_sweep(v))
    if variants > MOST_VARIANTS:
        faults.append(Fault(f"{path}.parameters", _NOTHING, f"at most {MOST_VARIANTS} variants"))
    return faults


class _Nothing:
    def __repr__(self) -> str:
        return "nothing"


_NOTHING = _Nothing()


def _is_sweep(value: Any) -> bool:
    return is_table(value, "sweep") and isinstance(value["sweep"], list)


def _value(path: str, value: Any, of_agent: bool, swept: bool = False) -> list[Fault]:
    if isinstance(value, (bool, int, float, str)):
        return []
    if isinstance(value, list):
        return [f for i, v in enumerate(value) for f in _value(f"{path}.{i}", v, of_agent, True)]
    if is_table(value, "sweep") and not swept:
        if list(value) != ["sweep"] or not isinstance(value["sweep"], list) or not value["sweep"]:
            return [
                Fault(path, value, "{ sweep = [...] } with at least one value and nothing else")
            ]
        return _value(f"{path}.sweep", value["sweep"], of_agent, True)
    if is_table(value, "formula") and of_agent:
        if value["formula"] not in list(FORMULAS):
            return [Fault(f"{path}.formula", value["formula"], f"one of {', '.join(FORMULAS)}")]
        known = list(inspect.signature(FORMULAS[value["formula"]]).parameters)[1:]
        allowed = f"one of {', '.join(known)}" if known else "left out: the formula takes nothing"
        rest = [k for k in value if k not in ("formula", *known)]
        return [Fault(f"{path}.{k}", value[k], allowed) for k in rest]
    if is_table(value, "choice") and not of_agent:
        return []
    tables = "a formula table" if of_agent else "a choice table"
    return [Fault(path, value, f"a value, a list, {'' if swept else 'a sweep or '}{tables}")]


def _repeated(group: str, variants: Iterable[Variant]) -> list[Fault]:
    seen: set[str] = set()
    faults = []
    for variant in variants:
        if variant.name in seen:
            faults.append(Fault(f"{group}.{variant.base}", variant.name, "a name used only once"))
        seen.add(variant.name)
    return faults


def _claims(experiment: Experiment, settings: list[Variant], agents: list[Variant]) -> list[Fault]:
    faults = []
    names = {"setting": [v.name for v in settings], "agent": [v.name for v in agents]}
    names["than"] = names["agent"]
    for i, claim in enumerate(experiment.claims):
        for field, known in names.items():
            value = getattr(claim, field)
            if value is None and claim.measure != "bumps":
                faults.append(Fault(f"claims.{i}.{field}", _NOTHING, "given"))
            elif value is not None and value not in known:
                allowed = f"one of {', '.join(map(repr, known[:20]))}"
                faults.append(Fault(f"claims.{i}.{field}", value, allowed))
    return faults


def _try(
    experiment: Experiment, settings: list[Variant], agents: list[Variant],
    factories: Mapping[str, Callable[..., Any]],
) -> tuple[tuple[bool, ...], tuple[int, ...], list[Fault]]:  # fmt: skip
    """Make the first problem of each setting, and each agent on it."""
    faults: list[Fault] = []
    compiled, pairs = [True] * len(agents), []
    seed = problem_seed(experiment.seed, 0)
    for setting in settings:
        path = f"problems.{setting.base}"
        problem: SwitchingMDP | None = None
        try:
            problem = make_problem(setting, factories[setting.source], experiment.horizon, seed)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # a user's generator may raise anything
            faults.append(_refused(path, setting, error))
            continue
        pairs.append(problem.pairs.n_pairs)
        if experiment.initial_state >= problem.n_states:
            allowed = f"below the {problem.n_states} states of {setting.name!r}"
            faults.append(Fault("initial_state", experiment.initial_state, allowed))
        for j, variant in enumerate(agents):
            try:
                agent, _ = make_agent(
                    variant, factories[variant.source], problem, experiment.horizon, 0
                )
                compiled[j] &= is_compiled(agent)
            except KeyboardInterrupt:
                raise
            except BaseException as error:  # likewise
                faults.append(_refused(f"agents.{variant.base}", variant, error))
    return tuple(compiled), tuple(pairs), faults


def _refused(path: str, variant: Variant, error: BaseException) -> Fault:
    if isinstance(error, InvalidParameter):
        field = error.field if error.field in variant.parameters else ""
        value, allowed = error.value, error.allowed
        if not field:
            allowed = f"{allowed} (for {error.field})"
        return Fault(f"{path}.parameters" + (f".{field}" if field else ""), value, allowed)
    kind = "" if isinstance(error, SwitchmdpError) else f"{type(error).__name__}: "
    return Fault(path, dict(variant.parameters), f"something that can be made ({kind}{error})")
