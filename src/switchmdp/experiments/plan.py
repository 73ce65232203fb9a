"""From an experiment to what runs: settings × agents × problems, cut into chunks.

Sweeps multiply: an entry with two swept parameters of three values each gives nine variants. A
variant of a problem entry is a *setting*. `check` finds every error before anything runs: it looks
up the names, checks the parameters and the claims, and makes the first problem of each setting and
each agent on it.

Random numbers: problem i is drawn from (seed, role 0, i), and every run on it uses (seed, role 1,
i). So all agents face the same problems with the same randomness, and an additional agent does not
change the results of the others.
"""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.random import SeedSequence

from switchmdp.compiled import is_compiled
from switchmdp.display import counted, shortened
from switchmdp.errors import Fault, InvalidExperiment, InvalidParameter, SwitchmdpError
from switchmdp.experiments.names import (
    AGENT,
    FORMULAS,
    PROBLEM,
    Context,
    Kind,
    accepts,
    find_factory,
    is_trusted,
    module_digests,
    parameter_faults,
    parameters_of,
    plain,
    with_integers,
)
from switchmdp.experiments.results import MOST_PROBLEMS, BlockSizes, Variant, expand
from switchmdp.experiments.spec import (
    AgentSpec,
    ConfigError,
    Experiment,
    ProblemSpec,
    Words,
    describe_error,
    is_table,
    missing,
    showable,
)
from switchmdp.mdp import MDP, SwitchingMDP
from switchmdp.problems import CHOICES

PROBLEM_ROLE, RUN_ROLE, AGENT_ROLE = 0, 1, 2
DEFAULT_DELTA = 0.05
MOST_RUNS = 10**8
MOST_PAIRINGS = 10**5  # settings × agents: each is tried before anything runs
SECONDS_PER_CHUNK = 0.25

Factories = Mapping[str, Callable[..., Any]]


@dataclass(frozen=True, eq=False)
class Plan:
    """An experiment without errors, and everything that its runs need.

    Parameters
    ----------
    experiment
        The experiment.
    settings
        The settings: problem families with one value for each swept parameter.
    agents
        The agents, with one value for each swept parameter.
    generators
        The generators of the settings, by source.
    factories
        The classes of the agents, by source.
    compiled
        Whether each agent runs as machine code.
    pairs
        The number of state-action pairs of the first problem of each setting.
    modules
        The digests of the user's modules.
    trusted
        Whether modules that the experiment names may be imported.
    """

    experiment: Experiment
    settings: tuple[Variant, ...]
    agents: tuple[Variant, ...]
    generators: Factories  # of the settings, by source
    factories: Factories  # of the agents, by source
    compiled: tuple[bool, ...]  # whether each agent runs as machine code
    pairs: tuple[int, ...]  # state-action pairs of each setting's first problem
    modules: Mapping[str, str] = field(default_factory=dict)  # digests of the user's modules
    trusted: bool = False  # whether modules that the experiment names may be imported

    def __repr__(self) -> str:
        settings, agents = (
            counted(len(self.settings), "setting"),
            counted(len(self.agents), "agent"),
        )
        title, problems = shortened(self.experiment.title), self.experiment.n_problems
        return f"Plan({title}, {settings} × {agents} × {counted(problems, 'problem')})"

    @property
    def n_runs(self) -> int:
        """The total number of runs."""
        return len(self.settings) * len(self.agents) * self.experiment.n_problems


# Seeds, problems and agents.


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
    parameters = with_integers(factory, variant.parameters)
    arguments = {name: _resolve_choice(name, value) for name, value in parameters.items()}
    for name, value in (("seed", seed), ("horizon", horizon)):
        if accepts(factory, name):
            arguments.setdefault(name, value)
    problem = factory(**arguments)
    if isinstance(problem, MDP):
        problem = SwitchingMDP([problem])
    if not isinstance(problem, SwitchingMDP):
        allowed = "a function that returns an MDP or a SwitchingMDP"
        raise InvalidParameter(variant.source, problem, allowed)
    return problem


def _resolve_choice(name: str, value: Any) -> Any:
    """The function or law that a parameter names; other values unchanged."""
    if is_table(value, "choice"):
        chosen = CHOICES[name][value["choice"]]
        rest = {k: v for k, v in value.items() if k != "choice"}
    elif isinstance(value, str) and name in CHOICES:
        chosen, rest = CHOICES[name][value], {}
    else:
        return value
    return chosen(**rest) if isinstance(chosen, type) else chosen


def make_agent(
    variant: Variant, factory: Callable[..., Any], problem: SwitchingMDP, horizon: int, seed: int
) -> tuple[Any, dict[str, Any]]:
    """A new agent for this problem, and the values of its parameters for it."""
    arguments, parameters = agent_arguments(variant, factory, problem, horizon, seed)
    return new_agent(variant, factory, arguments), parameters


def agent_arguments(
    variant: Variant, factory: Callable[..., Any], problem: SwitchingMDP, horizon: int, seed: int
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The arguments of a new agent for this problem, and the values of its parameters for it."""
    parameters = resolve_formulas(variant, factory, problem, horizon)
    available: dict[str, Callable[[], Any]] = {
        "n_states": lambda: problem.n_states,
        "n_actions": lambda: problem.n_actions,
        "available": lambda: problem.available,
        "problem": lambda: problem,
        "seed": lambda: _seed(seed, AGENT_ROLE, 0),
    }
    names = list(_accepted_names(factory))
    # If all actions are available in all states, there is no need to pass a table of them.
    if _has_all_actions(problem) and _default_of(factory, "available", 0) is None:
        names.remove("available")
    shown = {name: plain(value) for name, value in parameters.items()}
    return {name: available[name]() for name in names} | parameters, shown


@lru_cache(maxsize=1024)
def _accepted_names(factory: Callable[..., Any]) -> tuple[str, ...]:
    """The arguments that the experiment sets by itself and the factory accepts."""
    return tuple(name for name in AGENT.already_set if accepts(factory, name))


def new_agent(variant: Variant, factory: Callable[..., Any], arguments: dict[str, Any]) -> Any:
    """A new agent with these arguments."""
    agent = factory(**arguments)
    missing = [verb for verb in ("act", "observe") if not hasattr(agent, verb)]
    if isinstance(agent, type) or missing:
        allowed = "a class or function that returns an agent, with the methods act and observe"
        allowed += f" (here {missing[0]} is missing)" if len(missing) == 1 else ""
        raise InvalidParameter(variant.source, agent, allowed)
    return agent


def are_same(one: dict[str, Any], other: dict[str, Any]) -> bool:
    """Whether two agents would have the same arguments.

    >>> are_same({"window": 10, "delta": 0.1}, {"window": 10, "delta": 0.2})
    False
    """
    return one.keys() == other.keys() and all(_equal(one[name], other[name]) for name in one)


def _equal(x: Any, y: Any) -> bool:
    if x is y:
        return True
    return type(x) is type(y) and bool(
        np.array_equal(x, y) if isinstance(x, np.ndarray) else x == y
    )


def _has_all_actions(problem: SwitchingMDP) -> bool:
    return problem.pairs.n_pairs == problem.n_states * problem.n_actions


def resolve_formulas(
    variant: Variant, factory: Callable[..., Any], problem: SwitchingMDP, horizon: int
) -> dict[str, Any]:
    """The parameters, with their formulas computed."""
    delta = variant.parameters.get("delta", _default_of(factory, "delta", DEFAULT_DELTA))
    context = Context(problem, horizon, delta)
    values = {}
    for name, value in variant.parameters.items():
        if is_table(value, "formula"):
            rest = {k: v for k, v in value.items() if k != "formula"}
            formula = FORMULAS[value["formula"]]
            value = formula(context, **with_integers(formula, rest))
        values[name] = value
    return with_integers(factory, values)


def _default_of(factory: Callable[..., Any], name: str, otherwise: Any) -> Any:
    parameter = parameters_of(factory).get(name)
    if parameter is None or parameter.default is inspect.Parameter.empty:
        return otherwise
    return parameter.default


# All errors before anything runs.


def check(experiment: Experiment, folder: Path | None = None, *, trust: bool | None = None) -> Plan:
    """Check an experiment, and return the plan of its runs.

    All errors are found before anything runs.

    Parameters
    ----------
    experiment
        The experiment.
    folder
        The folder of the user's modules.
    trust
        Whether user modules may be imported, and so run; by default whether SWITCHMDP_TRUST is 1.

    Returns
    -------
    Plan
        The plan.

    Raises
    ------
    InvalidExperiment
        If the experiment has errors; the exception lists all of them.

    Examples
    --------
    >>> from switchmdp.experiments.spec import parse
    >>> agents = {"A": {"agent": "sw-ucrl", "parameters": {"windw": 10, "delta": 2.0}}}
    >>> problems = {"p": {"problem": "random-switching"}}
    >>> check(parse({"horizon": 10, "n_problems": 1, "problems": problems, "agents": agents}))
    Traceback (most recent call last):
    ...
    switchmdp.errors.InvalidExperiment: agents.A.parameters: unknown parameter 'windw'; did you \
mean 'window'?
    agents.A.parameters.window: missing required parameter
    """
    trusted = is_trusted(trust)
    problems = _check_entries(experiment.problems, PROBLEM, folder, trust=trusted)
    agents = _check_entries(experiment.agents, AGENT, folder, trust=trusted)
    faults = problems.faults + agents.faults + _claim_faults(experiment, problems, agents)
    pairings = len(problems.variants) * len(agents.variants)
    if pairings * experiment.n_problems > MOST_RUNS or pairings > MOST_PAIRINGS:
        size = Words(f"{pairings} settings × agents on {experiment.n_problems} problems each")
        allowed = f"at most {MOST_PAIRINGS} settings × agents and {MOST_RUNS} runs"
        raise InvalidExperiment([*faults, Fault("the experiment", size, allowed)])
    plan = make_plan(experiment, problems, agents, partial(_collect, faults))
    if faults:
        raise InvalidExperiment(list({str(fault): fault for fault in faults}.values()))
    names = [variant.source for variant in (*plan.settings, *plan.agents)]
    return replace(plan, modules=module_digests(names, folder), trusted=trusted)


@dataclass(frozen=True)
class Entries:
    """The variants of all valid entries, the names of the other entries, and their errors."""

    variants: list[Variant]
    factories: Factories  # by source
    invalid: list[str] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)

    def may_have(self, name: str) -> bool:
        """Whether a variant has this name, or an entry with errors might have it."""
        return name in (v.name for v in self.variants) or name.partition(" [")[0] in self.invalid


def _check_entries(
    specs: Mapping[str, ProblemSpec] | Mapping[str, AgentSpec], kind: Kind, folder: Path | None, *,
    trust: bool,
) -> Entries:  # fmt: skip
    valid: dict[str, Any] = {}
    factories: dict[str, Callable[..., Any]] = {}
    faults: list[Fault] = []
    for name, spec in specs.items():
        path, source = f"{kind.word}s.{name}", getattr(spec, kind.word)
        try:
            factory = find_factory(f"{path}.{kind.word}", source, kind, folder, trust)
        except InvalidExperiment as error:
            faults += error.faults
            continue
        wrong = parameter_faults(path, spec.parameters, factory, kind)
        faults += wrong
        if not wrong:
            valid[name], factories[source] = spec, factory
    variants = expand(valid)
    counts = Counter(variant.name for variant in variants)
    for variant in variants:
        if counts[variant.name] > 1:
            path, n = f"{kind.word}s.{variant.base}", counts[variant.name]
            message = f"{path}: {n} variants have the same name {variant.name!r}"
            faults.append(ConfigError(path, variant.name, "a name used only once", message))
    return Entries(variants, factories, [name for name in specs if name not in valid], faults)


def _claim_faults(experiment: Experiment, problems: Entries, agents: Entries) -> list[Fault]:
    faults = []
    for i, claim in enumerate(experiment.claims):
        for key, group in (("setting", problems), ("agent", agents), ("than", agents)):
            value = getattr(claim, key)
            if value is None and claim.measure != "bumps":
                faults.append(missing(f"claims.{i}.{key}", f"claims.{i}", f"key {key!r}"))
            elif value is not None and not group.may_have(value):
                names = [variant.name for variant in group.variants[:20]] + group.invalid
                allowed = f"one of {', '.join(map(repr, names))}"
                faults.append(Fault(f"claims.{i}.{key}", value, allowed))
    return faults


Attempt = Callable[[str, Variant], AbstractContextManager[None]]


def make_plan(
    experiment: Experiment, problems: Entries, agents: Entries,
    attempt: Attempt = lambda path, variant: nullcontext(),
) -> Plan:  # fmt: skip
    """The plan of the runs. To find errors, make the first problem of each setting and its agents.

    `attempt(path, variant)` is the context in which each of them is made; by default, errors are
    raised.
    """
    compiled, pairs = [True] * len(agents.variants), []
    seed, horizon = problem_seed(experiment.seed, 0), experiment.horizon
    for setting in problems.variants:
        with attempt(f"problems.{setting.base}", setting):
            problem = make_problem(setting, problems.factories[setting.source], horizon, seed)
            pairs.append(problem.pairs.n_pairs)
            with attempt("initial_state", setting):
                _check_initial_state(experiment.initial_state, problem, setting.name)
            for j, variant in enumerate(agents.variants):
                with attempt(f"agents.{variant.base}", variant):
                    factory = agents.factories[variant.source]
                    agent, _ = make_agent(variant, factory, problem, horizon, 0)
                    compiled[j] &= is_compiled(agent)
                    # Machine code refuses an agent that has run before. Find other agents here.
                    if not is_compiled(agent):
                        again, _ = make_agent(variant, factory, problem, horizon, 0)
                        if again is agent:
                            allowed = "a function that makes a new agent for each run"
                            raise InvalidParameter(f"agents[{variant.name!r}]", agent, allowed)
    return Plan(
        experiment, tuple(problems.variants), tuple(agents.variants), problems.factories,
        agents.factories, tuple(compiled), tuple(pairs),
    )  # fmt: skip


def _check_initial_state(state: int, problem: SwitchingMDP, setting: str) -> None:
    if state >= problem.n_states:
        allowed = f"below the {problem.n_states} states of {setting!r}"
        raise InvalidExperiment([Fault("initial_state", state, allowed)])


@contextmanager
def _collect(faults: list[Fault], path: str, variant: Variant) -> Iterator[None]:
    """Add the exceptions of a constructor to the errors of the configuration."""
    try:
        yield
    except KeyboardInterrupt:
        raise
    except InvalidExperiment as error:
        faults += error.faults
    except BaseException as error:  # user code may raise anything
        faults.append(_fault_of(path, variant, error))


def _fault_of(path: str, variant: Variant, error: BaseException) -> Fault:
    """The exception of a constructor as an error of the configuration."""
    if isinstance(error, InvalidParameter):
        field = f".{error.field}" if error.field in variant.parameters else ""
        allowed = error.allowed if field else f"{error.allowed} (for {error.field})"
        return Fault(f"{path}.parameters{field}", showable(error.value), allowed)
    reason = str(error) if isinstance(error, SwitchmdpError) else describe_error(error)
    return Fault(
        path, dict(variant.parameters), f"parameters that the constructor accepts ({reason})"
    )


# Chunks of about a quarter of a second of work.


def block_sizes(plan: Plan) -> BlockSizes:
    """The number of runs that take about a quarter of a second, for each setting and agent.

    The estimate uses only sizes, so that it is the same on every machine.
    """
    agents = range(len(plan.agents))
    return tuple(tuple(_block_size(plan, s, a) for a in agents) for s in range(len(plan.settings)))


def _block_size(plan: Plan, setting: int, agent: int) -> int:
    steps = plan.experiment.horizon
    if plan.compiled[agent]:
        seconds = 2e-4 + steps * 2e-8 * (1.0 + plan.pairs[setting] / 100.0)
    else:
        seconds = 1e-3 + steps * 5e-6
    return int(min(max(1.0, SECONDS_PER_CHUNK / seconds), MOST_PROBLEMS))
