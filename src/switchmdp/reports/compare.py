"""compare: agents on the same problems, in one call: a table and a figure.

The same engine as for experiments in files: every agent meets the same problems with the same
randomness, and runs of compiled agents share the processor's cores.
"""

from __future__ import annotations

import html
import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from switchmdp.compiled import is_compiled
from switchmdp.errors import InvalidParameter
from switchmdp.experiments.build import expand, make_agent, make_problem, problem_seed
from switchmdp.experiments.check import Plan
from switchmdp.experiments.chunks import Chunk, Outcome, block_sizes, compute, layout
from switchmdp.experiments.execute import cores
from switchmdp.experiments.load import assemble, versions
from switchmdp.experiments.results import Results
from switchmdp.experiments.spec import AgentSpec, ProblemSpec, parse
from switchmdp.mdp import MDP, SwitchingMDP
from switchmdp.mdp.pairs import whole
from switchmdp.reports import plots, tables
from switchmdp.reports.report import regret_panel, write_report
from switchmdp.version import __version__

Problems = MDP | SwitchingMDP | Sequence[MDP | SwitchingMDP] | Callable[[int], MDP | SwitchingMDP]
Factory = Callable[[SwitchingMDP], Any]


@dataclass(frozen=True)
class Comparison:
    """What `compare` found; shown as a table."""

    results: Results

    @property
    def tables(self) -> list[tables.Table]:
        """One for each setting, the agent with the lowest regret first."""
        return [tables.summary_table(setting) for setting in self.results.settings.values()]

    @property
    def figure(self) -> Any:
        """Mean regret over time with 95 % bands over problems (extra `plot`)."""
        return plots.regret_figure([regret_panel(s) for s in self.results.settings.values()])

    def save(self, folder: str | os.PathLike[str]) -> Path:
        """Write figures, tables and the page; returns the page."""
        return write_report(self.results, folder)[0]

    def __str__(self) -> str:
        return "\n\n".join(table.text() for table in self.tables)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(str(self))}</pre>"


def compare(
    problems: Problems | Mapping[str, Problems],
    agents: Mapping[str, Factory],
    *,
    horizon: int,
    seed: int = 0,
    n_problems: int | None = None,
    every: int | None = None,
    epsilon: float = 0.05,
    jobs: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Comparison:
    """Run every agent on every problem with the same randomness.

    `problems`: a problem, a list of them, or a function of a seed that makes one (then `n_problems`
    are drawn, 20 if not given); or several of these by name. `agents`: by name, functions that make
    a fresh agent for a problem. `progress(done, runs)` is called as runs are done.

    >>> import switchmdp as sm
    >>> found = compare(
    ...     lambda seed: sm.problems.random_switching(5, 3, changes=1, horizon=1000, seed=seed),
    ...     {"UCRL2": lambda problem: sm.agents.UCRL2(5, 3),
    ...      "told": lambda problem: sm.agents.Oracle(5, 3, change_points=problem.change_points)},
    ...     horizon=1000, n_problems=3,
    ... )
    >>> list(found.results.settings["problems"].agents)
    ['UCRL2', 'told']
    """
    plan = _plan(problems, agents, horizon, seed, n_problems, every, epsilon)
    chunks = layout(plan.experiment.n_problems, block_sizes(plan))
    jobs = cores() if jobs is None else whole("jobs", jobs, 1, 1024)
    outcomes: dict[Chunk, Outcome] = {}
    done = 0
    with ThreadPoolExecutor(jobs) as pool:
        for chunk, outcome in zip(
            chunks, pool.map(lambda c: compute(plan, c), chunks), strict=True
        ):
            outcomes[chunk] = outcome
            done += 0 if chunk.agent is None else len(chunk)
            if progress is not None:
                progress(done, plan.n_runs)
    return Comparison(_results(plan, outcomes))


def _plan(
    problems: Any, agents: Any, horizon: int, seed: int, n_problems: int | None,
    every: int | None, epsilon: float,
) -> Plan:  # fmt: skip
    if not isinstance(agents, Mapping) or not all(map(callable, agents.values())):
        raise InvalidParameter("agents", agents, "functions of a problem that make agents, by name")
    families = problems if isinstance(problems, Mapping) else {"problems": problems}
    n = _how_many(families, n_problems)
    experiment = parse({
        "title": "Comparison", "horizon": horizon, "n_problems": n, "seed": seed,
        "every": every, "epsilon": epsilon,
        "problems": {name: ProblemSpec(problem=f"problem {name}"[:100]) for name in families},
        "agents": {name: AgentSpec(agent=f"agent {name}"[:100]) for name in agents},
    })  # fmt: skip
    settings, lanes = expand(experiment.problems), expand(experiment.agents)
    generators = {
        setting.source: _generator(family, seed)
        for setting, family in zip(settings, families.values(), strict=True)
    }
    factories = {
        lane.source: _maker(make) for lane, make in zip(lanes, agents.values(), strict=True)
    }
    compiled: list[bool] = []
    pairs: list[int] = []
    for s, setting in enumerate(settings):
        first = make_problem(setting, generators[setting.source], horizon, problem_seed(seed, 0))
        pairs.append(first.pairs.n_pairs)
        made = [make_agent(lane, factories[lane.source], first, horizon, 0)[0] for lane in lanes]
        compiled = [is_compiled(a) and (s == 0 or compiled[i]) for i, a in enumerate(made)]
    return Plan(
        experiment, tuple(settings), tuple(lanes), generators, factories, tuple(compiled),
        tuple(pairs), {},
    )  # fmt: skip


def _how_many(families: Mapping[str, Any], n_problems: int | None) -> int:
    sizes = {len(f) for f in families.values() if isinstance(f, Sequence)}
    single = any(isinstance(f, (MDP, SwitchingMDP)) for f in families.values())
    if not families or len(sizes) > 1 or 0 in sizes:
        raise InvalidParameter("problems", sorted(sizes), "lists of the same length, at least 1")
    if n_problems is None:
        return sizes.pop() if sizes else 1 if single else 20
    if sizes and n_problems not in sizes:
        raise InvalidParameter("n_problems", n_problems, f"left out, or the {sizes} given")
    return n_problems


def _generator(family: Any, seed: int) -> Callable[..., Any]:
    if isinstance(family, (MDP, SwitchingMDP)):
        return lambda: family
    if isinstance(family, Sequence):
        known = {problem_seed(seed, i): problem for i, problem in enumerate(family)}
        return lambda seed: known[seed]
    if callable(family):
        return lambda seed: family(seed)
    raise InvalidParameter("problems", family, "problems, a list of them, or a function of a seed")


def _maker(make: Factory) -> Callable[..., Any]:
    return lambda problem: make(problem)


def _results(plan: Plan, outcomes: Mapping[Chunk, Outcome]) -> Results:
    parts: dict[Any, list[Any]] = {}
    for chunk, outcome in outcomes.items():
        found = (chunk, outcome.fields, outcome.arrays)
        parts.setdefault((chunk.setting, chunk.agent), []).append(found)
    failures = tuple(f for outcome in outcomes.values() for f in outcome.failures)
    if failures:
        first = failures[0]
        warnings.warn(
            f"{len(failures)} runs failed, the first one of {first['agent']!r}: {first['error']} "
            "(results.failures has their tracebacks)", stacklevel=3,
        )  # fmt: skip
    seconds = {c: o.seconds for c, o in outcomes.items() if len(o.seconds) == len(c)}
    origin = {"switchmdp": __version__, "seed": str(plan.experiment.seed), **versions()}
    return assemble(plan.experiment, parts, seconds, failures, "", origin)
