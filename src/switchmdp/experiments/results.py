"""Results in memory: settings × agents × problems, and the chunks in which they are stored.

A *setting* is one family of problems (a generator with its parameters). Sweeps multiply: an entry
with two swept parameters of three values each gives nine *variants*, and a variant of a problem
entry is a setting. Row i of every array in a setting belongs to the i-th problem, on which all
agents were run with the same randomness. Reports read only this. `assemble` puts the results
together from chunks.

Nothing here needs the agents and problems themselves, nor Numba. So a folder of results is read,
and its report written, without importing them, which would take a second.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from switchmdp.display import counted, shortened
from switchmdp.errors import DamagedFile, InvalidParameter
from switchmdp.experiments.spec import AgentSpec, Experiment, ProblemSpec, is_table
from switchmdp.storage import Arrays
from switchmdp.validation import check_increasing_steps

HARDNESS = ("diameter", "span", "gap", "reward_variation", "transition_variation")
MOST_PROBLEMS = 500  # in one chunk

BlockSizes = tuple[tuple[int, ...], ...]  # problems per chunk, for each setting and agent


@dataclass(frozen=True)
class Variant:
    """An agent or a family of problems, with one value for each swept parameter."""

    name: str
    base: str  # the name of the entry in the experiment
    source: str  # a registered name, or "module:Name"
    parameters: Mapping[str, Any]
    swept: Mapping[str, Any]


@dataclass(frozen=True)
class Chunk:
    """Runs of one agent on problems first..last-1 of a setting; agent None: facts about them."""

    setting: int
    agent: int | None
    block: int
    first: int
    last: int

    @property
    def id(self) -> str:
        """A short name. It is the same in every execution of the experiment."""
        agent = "facts" if self.agent is None else f"a{self.agent:03d}"
        return f"s{self.setting:03d}-{agent}-b{self.block:05d}"

    @property
    def n_runs(self) -> int:
        """The number of runs; 0 for facts."""
        return 0 if self.agent is None else len(self)

    def __len__(self) -> int:
        return self.last - self.first


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
    """The number of variants that `expand` would make.

    >>> count_variants({"x": AgentSpec(agent="a", parameters={"b": {"sweep": [10, 20]}})})
    2
    """
    tables = [[v for v in s.parameters.values() if is_table(v, "sweep")] for s in specs.values()]
    return sum(prod(len(table["sweep"]) for table in sweeps) for sweeps in tables)


def _shown(value: Any) -> str:
    for key in ("formula", "choice"):
        if is_table(value, key):
            rest = ", ".join(f"{k}={v}" for k, v in value.items() if k != key)
            return f"{value[key]}({rest})" if rest else str(value[key])
    return str(value)


def all_chunks(n_problems: int, blocks: BlockSizes) -> list[Chunk]:
    """All chunks; those that share problems are close together.

    >>> [chunk.id for chunk in all_chunks(3, ((2, 3),))]
    ['s000-facts-b00000', 's000-a000-b00000', 's000-a001-b00000', 's000-a000-b00001']
    """
    chunks = []
    for s, sizes in enumerate(blocks):
        columns: list[tuple[int | None, int]] = [(None, MOST_PROBLEMS), *enumerate(sizes)]
        for agent, size in columns:
            for block, first in enumerate(range(0, n_problems, size)):
                chunks.append(Chunk(s, agent, block, first, min(first + size, n_problems)))
    return sorted(chunks, key=lambda c: (c.setting, c.first, -1 if c.agent is None else c.agent))


# Results.


def no_runs(n: int, points: int) -> dict[str, NDArray[Any]]:
    """The result arrays of `Runs`, for n runs of which none is done."""
    return {
        "regret": np.full((n, points), np.nan), "pseudo_regret": np.full((n, points), np.nan),
        "episodes": np.full(n, -1, np.int64), "sweeps": np.full(n, -1, np.int64),
        "bad_steps": np.full(n, np.nan), "failed": np.zeros(n, np.bool_),
        "n_restarts": np.full(n, -1, np.int64),
    }  # fmt: skip


@dataclass(frozen=True)
class Runs:
    """The runs of one agent on every problem of one setting.

    Parameters
    ----------
    regret
        The regret over time, (problems, points); NaN if the run failed.
    pseudo_regret
        The pseudo-regret over time, (problems, points).
    episodes
        The number of episodes of each run; -1 if the agent has none.
    sweeps
        The sweeps of extended value iteration over all episodes; -1 if unknown.
    bad_steps
        The number of steps with an ε-bad policy; NaN if not measured.
    failed
        Whether each run failed.
    seconds
        The wall time of each run; NaN if unknown.
    base
        The name of the agent in the experiment, before sweeps gave it several variants.
    swept
        The swept parameters and their values.
    parameters
        All parameters, with their values on the first problem.
    restarts
        The steps at which the agent restarted, for each run; None if unknown.
    """

    regret: NDArray[np.float64]  # (problems, points), NaN where the run failed
    pseudo_regret: NDArray[np.float64]
    episodes: NDArray[np.int64]  # (problems,), -1 if the agent has no episodes
    sweeps: NDArray[np.int64]  # of extended value iteration, over all episodes; -1 if unknown
    bad_steps: NDArray[np.float64]  # steps whose policy is ε-bad, NaN where not measured
    failed: NDArray[np.bool_]
    seconds: NDArray[np.float64]  # wall time of the run, NaN where unknown
    base: str = ""  # the agent's name in the experiment, without the values of sweeps
    swept: Mapping[str, Any] = field(default_factory=dict)  # swept parameters and their values here
    parameters: Mapping[str, Any] = field(default_factory=dict)  # all of them, on the first problem
    restarts: tuple[NDArray[np.int64] | None, ...] = ()  # steps of each run's, None where unknown

    def __repr__(self) -> str:
        runs = counted(len(self.failed), "run")
        return f"Runs({shortened(self.base)}, {runs}, {self.failed.sum()} failed)"


@dataclass(frozen=True)
class Setting:
    """One family of problems, and the runs of each agent on them.

    Parameters
    ----------
    name
        The name of the setting.
    times
        The steps after which regret was recorded.
    change_points
        The change points of each problem, including those after the horizon.
    gains
        The optimal gain of each configuration within the horizon, for each problem.
    hardness
        The hardness measures of the problems, by name; NaN if not computed.
    agents
        The runs of each agent, by name.
    base
        The name of the entry in the experiment, before sweeps gave it several variants.
    swept
        The swept parameters and their values.
    parameters
        All parameters of the generator.
    one_problem
        Whether all runs are on the same problem, because the generator draws nothing.
    """

    name: str
    times: NDArray[np.int64]  # (points,): the steps after which regret was recorded
    change_points: tuple[NDArray[np.int64], ...]  # of each problem, also after the horizon
    gains: tuple[NDArray[np.float64], ...]  # ρ* of each problem's configurations within the horizon
    hardness: Mapping[str, NDArray[np.float64]]  # HARDNESS -> (problems,), NaN where not computed
    agents: Mapping[str, Runs]
    base: str = ""
    swept: Mapping[str, Any] = field(default_factory=dict)
    parameters: Mapping[str, Any] = field(default_factory=dict)
    one_problem: bool = False

    def __repr__(self) -> str:
        sizes = f"{counted(self.n_problems, 'problem')}, {counted(len(self.agents), 'agent')}"
        steps = counted(len(self.times), "recorded step")
        return f"Setting({shortened(self.name)}, {sizes}, {steps})"

    @property
    def n_problems(self) -> int:
        """The number of problems."""
        return len(self.change_points)

    @property
    def horizon(self) -> int:
        """The number of steps of every run."""
        return int(self.times[-1])


@dataclass(frozen=True)
class Results:
    """The results of an experiment.

    Parameters
    ----------
    title
        The title.
    epsilon
        The tolerance of ε-bad steps and of adaptation.
    settings
        The settings, by name.
    claims
        The claims to be tested.
    configuration
        The experiment as TOML.
    provenance
        The versions, the digest and the seed.
    failures
        The setting, agent, problem, error and traceback of each failed run.
    """

    title: str
    epsilon: float  # the tolerance of ε-bad steps and of adaptation
    settings: Mapping[str, Setting]
    claims: tuple[Any, ...] = ()  # `experiments.spec.Claim`s
    configuration: str = ""  # the experiment as TOML
    provenance: Mapping[str, str] = field(default_factory=dict)  # version, digest, seed, …
    failures: tuple[Mapping[str, Any], ...] = ()  # setting, agent, problem, error, traceback

    def __repr__(self) -> str:
        sizes = f"{counted(len(self.settings), 'setting')}, {counted(len(self.agents), 'agent')}"
        failures = counted(len(self.failures), "failure")
        return f"Results({shortened(self.title)}, {sizes}, {failures})"

    @property
    def agents(self) -> tuple[str, ...]:
        """Every agent's name, in order of appearance."""
        names = [name for setting in self.settings.values() for name in setting.agents]
        return tuple(dict.fromkeys(names))


def as_setting(
    times: ArrayLike, regret: Mapping[str, ArrayLike], change_points: Sequence[int] = ()
) -> Setting:
    """A setting from regret curves that were computed elsewhere.

    Parameters
    ----------
    times
        The steps after which regret was recorded.
    regret
        For each agent its regret, an array (problems, points). A row with a NaN is a failed run. It
        is also used as pseudo-regret.
    change_points
        The change points, the same on all problems.

    Returns
    -------
    Setting
        The setting.

    Raises
    ------
    InvalidParameter
        If an array has the wrong shape.

    Examples
    --------
    >>> as_setting([10, 20], {"a": [[1, 2], [3, 4], [5, 6]]}, change_points=[11]).n_problems
    3
    """
    steps = np.array(times, dtype=np.int64)
    curves: dict[str, NDArray[np.float64]] = {
        name: np.array(rows, dtype=np.float64, ndmin=1) for name, rows in regret.items()
    }
    n = max(map(len, curves.values()), default=0)
    agents = {}
    for name, curve in curves.items():
        if curve.shape != (n, len(steps)):
            allowed = f"of shape {n, len(steps)}: one row per problem, one column per step"
            raise InvalidParameter(f"regret[{name!r}]", curve.shape, allowed)
        unknown = np.full(n, np.nan)
        uncounted = np.full(n, -1, dtype=np.int64)
        failed = np.isnan(curve).sum(axis=1) > 0
        agents[name] = Runs(curve, curve, uncounted, uncounted, unknown, failed, unknown, base=name)
    points = np.array(change_points, dtype=np.int64)
    gains = np.full(len(points) + 1, np.nan)
    return Setting("curves", steps, (points,) * n, (gains,) * n, {}, agents)


def assemble(
    experiment: Experiment, parts: Any, seconds: Any, failures: Any, text: str,
    origin: dict[str, str], draws: Callable[[Variant], bool],
) -> Results:  # fmt: skip
    """Results from lists of (chunk, fields, arrays) by setting and agent.

    `draws` says whether a generator draws its problems. That may be slow to find out, so it is
    asked only where the problems look the same.
    """
    agents = expand(experiment.agents)
    grid, horizon = experiment.grid, experiment.horizon
    times = np.minimum(np.arange(grid, horizon + grid, grid, dtype=np.int64), horizon)
    settings = {}
    for s, variant in enumerate(expand(experiment.problems)):
        runs = {
            agent.name: _runs(agent, parts.get((s, a), []), seconds, experiment)
            for a, agent in enumerate(agents)
        }
        points, gains, hardness = _facts(parts.get((s, None), []), experiment.n_problems)
        settings[variant.name] = Setting(
            variant.name, times, points, gains, hardness, runs,
            base=variant.base, swept=variant.swept, parameters=variant.parameters,
            one_problem=_look_the_same(points, gains) and not draws(variant),
        )  # fmt: skip
    return Results(
        experiment.title, experiment.epsilon, settings, experiment.claims, text, origin, failures
    )


def _look_the_same(points: Sequence[Any], gains: Sequence[Any]) -> bool:
    """Whether several problems have the same change points and optimal gains."""
    known = len(gains) > 1 and len(gains[0]) > 0
    return known and all(
        np.array_equal(each, values[0]) for values in (points, gains) for each in values
    )


def _runs(variant: Variant, part: Any, seconds: Any, experiment: Experiment) -> Runs:
    n = experiment.n_problems
    whole: Arrays = no_runs(n, experiment.points)
    took = np.full(n, np.nan)
    parameters: dict[str, Any] = {}
    restarts: list[Any] = [None] * n
    for chunk, fields, arrays in part:
        here = slice(chunk.first, chunk.last)
        restarts[here] = _restarts(chunk, arrays)
        for name, array in whole.items():
            array[here] = arrays[name]
        parameters = parameters or fields.get("parameters", {})
        if chunk in seconds:
            took[here] = seconds[chunk]
    took[whole["failed"]] = np.nan
    del whole["n_restarts"]
    return Runs(
        **whole, seconds=took, base=variant.base, swept=variant.swept, parameters=parameters,
        restarts=tuple(restarts),
    )  # fmt: skip


def _restarts(chunk: Chunk, arrays: Arrays) -> list[Any]:
    """The restarts of each run of a chunk; None where unknown."""
    counts, steps = arrays["n_restarts"], arrays["restarts"]
    known = np.maximum(counts, 0)
    # The first condition guards against an overflow of the sum.
    if (known > len(steps)).any() or known.sum() != len(steps):
        raise DamagedFile(f"chunk {chunk.id}: the counts do not fit the restarts")
    parts = np.split(steps, np.cumsum(known)[:-1])
    return [part if n >= 0 else None for n, part in zip(counts, parts, strict=True)]


def _facts(part: Any, n: int) -> tuple[Any, Any, dict[str, Any]]:
    points = [np.zeros(0, np.int64)] * n
    gains = [np.zeros(0)] * n
    hardness = np.full((n, len(HARDNESS)), np.nan)
    for chunk, _, arrays in part:
        counts = arrays["counts"]
        lengths = [len(arrays[k]) for k in ("change_points", "gains")]
        in_range = (counts >= 0).all() and (counts <= lengths).all()  # so sums can't overflow
        if not in_range or counts.sum(axis=0).tolist() != lengths:
            raise DamagedFile(f"chunk {chunk.id}: the counts do not fit the change points")
        cuts = np.cumsum(counts, axis=0)[:-1]
        here = slice(chunk.first, chunk.last)
        try:
            parts = np.split(arrays["change_points"], cuts[:, 0])
            points[here] = [check_increasing_steps(part) for part in parts]
        except ValueError as error:
            raise DamagedFile(f"chunk {chunk.id}: change points {error}") from None
        gains[here] = np.split(arrays["gains"], cuts[:, 1])
        hardness[here] = arrays["hardness"]
    return tuple(points), tuple(gains), dict(zip(HARDNESS, hardness.T, strict=True))
