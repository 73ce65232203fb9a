"""Every fault of an experiment at once, before anything runs.

Beyond the shape of the file (`spec`): the names exist, the parameters are ones that the constructor
takes, formulas are known, claims speak of what is there; and the first problem of every setting and
every agent on it can really be made.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from switchmdp.compiled import is_compiled
from switchmdp.errors import Fault, InvalidExperiment, InvalidParameter, SwitchmdpError
from switchmdp.experiments import sources
from switchmdp.experiments.build import (
    GIVEN_TO_AGENTS,
    GIVEN_TO_PROBLEMS,
    Variant,
    expand,
    make_agent,
    make_problem,
    problem_seed,
)
from switchmdp.experiments.faults import NOTHING, Words, described, showable
from switchmdp.experiments.parameters import faults_of
from switchmdp.experiments.spec import AgentSpec, Experiment, ProblemSpec

MOST_RUNS = 10**8
MOST_LANES = 10**5  # settings × agents: each is tried before anything runs

Factories = Mapping[str, Callable[..., Any]]


@dataclass(frozen=True, eq=False)
class Plan:
    """An experiment that was found to be in order, with all that its runs need."""

    experiment: Experiment
    settings: tuple[Variant, ...]
    agents: tuple[Variant, ...]
    generators: Factories  # of the settings, by source
    factories: Factories  # of the agents, by source
    compiled: tuple[bool, ...]  # whether each agent runs as machine code
    pairs: tuple[int, ...]  # state-action pairs of each setting's first problem
    modules: Mapping[str, str]  # digests of the user's modules
    trusted: bool = False  # whether modules that the experiment names may be imported

    @property
    def n_runs(self) -> int:
        """How many runs there are in all."""
        return len(self.settings) * len(self.agents) * self.experiment.n_problems


def check(experiment: Experiment, folder: Path | None = None, *, trust: bool | None = None) -> Plan:
    """Find every fault, or return what the runs need; `folder` holds the user's modules.

    Those are imported only with `trust`, or with SWITCHMDP_TRUST=1 where it is not given.

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
    trusted = sources.is_trusted(trust)
    problems = _sound(
        experiment.problems, sources.PROBLEM, GIVEN_TO_PROBLEMS, folder, trust=trusted
    )
    agents = _sound(experiment.agents, sources.AGENT, GIVEN_TO_AGENTS, folder, trust=trusted)
    faults = problems.faults + agents.faults
    faults += _repeated("problems", problems.variants) + _repeated("agents", agents.variants)
    faults += _claims(experiment, problems, agents)
    lanes = len(problems.variants) * len(agents.variants)
    if lanes * experiment.n_problems > MOST_RUNS or lanes > MOST_LANES:
        many = Words(f"{lanes} settings × agents on {experiment.n_problems} problems each")
        faults.append(Fault("the experiment", many, f"at most {MOST_LANES} and {MOST_RUNS} runs"))
        raise InvalidExperiment(faults)
    compiled, pairs, refused = _try(experiment, problems, agents)
    faults += refused
    if faults:
        raise InvalidExperiment(list({str(fault): fault for fault in faults}.values()))
    named = [variant.source for variant in (*problems.variants, *agents.variants)]
    return Plan(
        experiment, tuple(problems.variants), tuple(agents.variants), problems.factories,
        agents.factories, compiled, pairs, sources.digests(named, folder), trusted,
    )  # fmt: skip


@dataclass(frozen=True)
class _Sound:
    """The entries of a group without a fault, and the faults of the others."""

    variants: list[Variant]
    factories: Factories
    others: list[str]
    faults: list[Fault]

    def may_have(self, name: str) -> bool:
        """Whether a variant has this name, or may have it once its entry's faults are mended."""
        return name in (v.name for v in self.variants) or name.partition(" [")[0] in self.others


def _sound(
    specs: Mapping[str, ProblemSpec] | Mapping[str, AgentSpec], kind: sources.Kind,
    given: tuple[str, ...], folder: Path | None, *, trust: bool,
) -> _Sound:  # fmt: skip
    entries: dict[str, Any] = {}
    factories: dict[str, Callable[..., Any]] = {}
    faults: list[Fault] = []
    for name, spec in specs.items():
        path, source = f"{kind.word}s.{name}", getattr(spec, kind.word)
        try:
            factory = sources.find(f"{path}.{kind.word}", source, kind, folder, trust)
        except InvalidParameter as error:
            faults.append(Fault(error.field, error.value, error.allowed))
            continue
        found = faults_of(path, spec.parameters, factory, given)
        faults += found
        if not found:
            entries[name], factories[source] = spec, factory
    return _Sound(expand(entries), factories, [n for n in specs if n not in entries], faults)


def _repeated(group: str, variants: Iterable[Variant]) -> list[Fault]:
    seen: set[str] = set()
    faults = []
    for variant in variants:
        if variant.name in seen:
            faults.append(Fault(f"{group}.{variant.base}", variant.name, "a name used only once"))
        seen.add(variant.name)
    return faults


def _claims(experiment: Experiment, problems: _Sound, agents: _Sound) -> list[Fault]:
    faults = []
    for i, claim in enumerate(experiment.claims):
        for field, group in (("setting", problems), ("agent", agents), ("than", agents)):
            value = getattr(claim, field)
            if value is None and claim.measure != "bumps":
                faults.append(Fault(f"claims.{i}.{field}", NOTHING, "given"))
            elif value is not None and not group.may_have(value):
                names = [variant.name for variant in group.variants[:20]] + group.others
                allowed = f"one of {', '.join(map(repr, names))}"
                faults.append(Fault(f"claims.{i}.{field}", value, allowed))
    return faults


def _try(
    experiment: Experiment, problems: _Sound, agents: _Sound
) -> tuple[tuple[bool, ...], tuple[int, ...], list[Fault]]:
    """Make the first problem of each setting, and each agent on it."""
    faults: list[Fault] = []
    compiled, pairs = [True] * len(agents.variants), []
    seed, horizon = problem_seed(experiment.seed, 0), experiment.horizon
    for setting in problems.variants:
        try:
            problem = make_problem(setting, problems.factories[setting.source], horizon, seed)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # a user's generator may raise anything
            faults.append(_refused(f"problems.{setting.base}", setting, error))
            continue
        pairs.append(problem.pairs.n_pairs)
        if experiment.initial_state >= problem.n_states:
            allowed = f"below the {problem.n_states} states of {setting.name!r}"
            faults.append(Fault("initial_state", experiment.initial_state, allowed))
        for j, variant in enumerate(agents.variants):
            try:
                factory = agents.factories[variant.source]
                agent, _ = make_agent(variant, factory, problem, horizon, 0)
                compiled[j] &= is_compiled(agent)
            except KeyboardInterrupt:
                raise
            except BaseException as error:  # likewise
                faults.append(_refused(f"agents.{variant.base}", variant, error))
    return tuple(compiled), tuple(pairs), faults


def _refused(path: str, variant: Variant, error: BaseException) -> Fault:
    if isinstance(error, InvalidParameter):
        field = f".{error.field}" if error.field in variant.parameters else ""
        allowed = error.allowed if field else f"{error.allowed} (for {error.field})"
        return Fault(f"{path}.parameters{field}", showable(error.value), allowed)
    reason = str(error) if isinstance(error, SwitchmdpError) else described(error)
    return Fault(path, dict(variant.parameters), f"something that can be made ({reason})")
