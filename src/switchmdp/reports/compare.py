"""compare: agents on the same problems, in one call: a table and a figure.

The same engine as for experiments in files: every agent meets the same problems with the same
randomness, and runs of compiled agents share the processor's cores.
"""

from __future__ import annotations

import base64
import contextlib
import html
import os
import threading
import warnings
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from switchmdp.compiled import is_compiled
from switchmdp.errors import InvalidParameter, MissingExtra
from switchmdp.experiments.build import accepts, expand, make_agent, make_problem, problem_seed
from switchmdp.experiments.check import Plan
from switchmdp.experiments.chunks import Outcome, compute
from switchmdp.experiments.execute import cores
from switchmdp.experiments.layout import Chunk, block_sizes, layout
from switchmdp.experiments.load import assemble, versions
from switchmdp.experiments.results import Results
from switchmdp.experiments.spec import AgentSpec, ProblemSpec, parse
from switchmdp.experiments.warm import compile_agents
from switchmdp.mdp import MDP, SwitchingMDP
from switchmdp.reports import figures, tables
from switchmdp.reports.formatting import Table
from switchmdp.reports.report import regret_panel, write_report
from switchmdp.validation import check_integer
from switchmdp.version import __version__

Problems = MDP | SwitchingMDP | Sequence[MDP | SwitchingMDP] | Callable[[int], MDP | SwitchingMDP]
Factory = Callable[..., Any]


@dataclass(frozen=True)
class Comparison:
    """What `compare` found; shown as a table, in a notebook with the figure below it."""

    results: Results

    @property
    def tables(self) -> list[Table]:
        """All that was measured, for each setting; the agent with the lowest regret first."""
        return [tables.summary_table(setting) for setting in self.results.settings.values()]

    @property
    def figure(self) -> Any:
        """Mean regret over time with 95 % bands over problems (extra `plot`)."""
        return figures.regret_figure([regret_panel(s) for s in self.results.settings.values()])

    def save(self, folder: str | os.PathLike[str]) -> Path:
        """Write figures, tables and the page; returns the page."""
        return write_report(self.results, folder)[0]

    def __str__(self) -> str:
        return "\n\n".join(tables.short_table(s).text() for s in self.results.settings.values())

    __repr__ = __str__

    def _repr_html_(self) -> str:
        """What a notebook shows: the tables and, with the extra `plot`, the figure."""
        shown = f"<pre>{html.escape(str(self))}</pre>"
        with contextlib.suppress(MissingExtra):
            image = base64.b64encode(figures.render_figure(self.figure, "svg")).decode()
            shown += f'<img alt="mean regret over time" src="data:image/svg+xml;base64,{image}">'
        return shown


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

    `problems`: a problem (met `n_problems` times, once if not given), a list of them, or a function
    of a seed that makes one (`n_problems` are drawn, 20 if not given); or several of these by name.
    `agents`: by name, functions that make a fresh agent for a problem, or classes that take
    `n_states` and `n_actions`. `progress(done, runs)` is called as runs are done. Runs that fail
    are left out, with a warning.

    >>> import switchmdp as sm
    >>> found = compare(
    ...     lambda seed: sm.problems.random_switching(5, 3, changes=1, horizon=1000, seed=seed),
    ...     {"UCRL2": sm.agents.UCRL2,
    ...      "told": lambda problem: sm.agents.OracleUCRL2(
    ...          5, 3, change_points=problem.change_points)},
    ...     horizon=1000, n_problems=3,
    ... )
    >>> list(found.results.settings["problems"].agents)
    ['UCRL2', 'told']
    """
    plan = _plan(problems, agents, horizon, seed, n_problems, every, epsilon)
    chunks = layout(plan.experiment.n_problems, block_sizes(plan))
    jobs = cores() if jobs is None else check_integer("jobs", jobs, 1, 1024)
    compile_agents(plan, [a for a, compiled in enumerate(plan.compiled) if compiled])
    outcomes: dict[Chunk, Outcome] = {}
    done = 0
    ended = threading.Event()
    pool = ThreadPoolExecutor(jobs)
    try:
        found = pool.map(lambda chunk: compute(plan, chunk, ended), chunks)
        for chunk, outcome in zip(chunks, found, strict=True):
            outcomes[chunk] = outcome
            done += 0 if chunk.agent is None else len(chunk)
            if progress is not None:
                progress(done, plan.n_runs)
    finally:
        ended.set()  # after Ctrl-C, runs that are under way stop within half a second
        pool.shutdown(wait=False, cancel_futures=True)  # nobody waits for them
    return Comparison(_results(plan, outcomes))


def _plan(
    problems: Any, agents: Any, horizon: int, seed: int, n_problems: int | None,
    every: int | None, epsilon: float,
) -> Plan:  # fmt: skip
    if not isinstance(agents, Mapping) or not all(map(callable, agents.values())):
        raise InvalidParameter("agents", agents, "functions of a problem that make agents, by name")
    families = problems if isinstance(problems, Mapping) else {"problems": problems}
    experiment = parse({
        "title": "Comparison", "horizon": horizon, "n_problems": _how_many(families, n_problems),
        "seed": seed, "every": every, "epsilon": epsilon,
        "problems": {name: ProblemSpec(problem=f"problem {i}") for i, name in enumerate(families)},
        "agents": {name: AgentSpec(agent=f"agent {i}") for i, name in enumerate(agents)},
    })  # fmt: skip
    settings, lanes = expand(experiment.problems), expand(experiment.agents)
    generators = {f"problem {i}": _generator(f, seed) for i, f in enumerate(families.values())}
    factories = {f"agent {i}": _maker(make) for i, make in enumerate(agents.values())}
    compiled = [True] * len(lanes)
    pairs: list[int] = []
    for setting in settings:
        first = make_problem(setting, generators[setting.source], horizon, problem_seed(seed, 0))
        pairs.append(first.pairs.n_pairs)
        for i, lane in enumerate(lanes):
            agent, _ = make_agent(lane, factories[lane.source], first, horizon, 0)
            compiled[i] &= is_compiled(agent)
    return Plan(
        experiment, tuple(settings), tuple(lanes), generators, factories, tuple(compiled),
        tuple(pairs), {},
    )  # fmt: skip


def _how_many(families: Mapping[str, Any], n_problems: int | None) -> Any:
    sizes = {len(family) for family in families.values() if _is_list(family)}
    if len(sizes) > 1 or 0 in sizes:
        raise InvalidParameter("problems", sorted(sizes), "lists of the same length, at least 1")
    if sizes and n_problems not in (None, *sizes):
        raise InvalidParameter("n_problems", n_problems, f"left out: {sizes.pop()} are given")
    single = any(isinstance(family, (MDP, SwitchingMDP)) for family in families.values())
    return n_problems if n_problems is not None else sizes.pop() if sizes else 1 if single else 20


def _is_list(family: Any) -> bool:
    return isinstance(family, Sequence) and not isinstance(family, (str, bytes))


def _generator(family: Any, seed: int) -> Any:
    """A function of a seed, and of the horizon if it takes one that is not set already."""
    if isinstance(family, (MDP, SwitchingMDP)):
        return lambda: family
    if _is_list(family) and all(isinstance(problem, (MDP, SwitchingMDP)) for problem in family):
        known = {problem_seed(seed, i): problem for i, problem in enumerate(family)}
        return lambda seed: known[seed]
    if not callable(family):
        allowed = "an MDP, a SwitchingMDP, a list of them, or a function of a seed"
        raise InvalidParameter("problems", family, allowed)
    if not accepts(family, "seed"):
        return lambda seed: family(seed)
    has_horizon = "horizon" in getattr(family, "keywords", ())  # a functools.partial
    return (lambda seed: family(seed=seed)) if has_horizon else family


def _maker(make: Callable[..., Any]) -> Callable[..., Any]:
    """A class gets what it asks for by name; any other function gets the problem."""
    return make if accepts(make, "n_states") else lambda problem: make(problem)


def _results(plan: Plan, outcomes: Mapping[Chunk, Outcome]) -> Results:
    parts: dict[Any, list[Any]] = {}
    for chunk, outcome in outcomes.items():
        found = (chunk, outcome.fields, outcome.arrays)
        parts.setdefault((chunk.setting, chunk.agent), []).append(found)
    failures = tuple(f for outcome in outcomes.values() for f in outcome.failures)
    failed = [failure for failure in failures if failure["agent"]]
    if failed:
        first = failed[0]
        warnings.warn(
            f"{len(failed)} of {plan.n_runs} runs failed, the first of {first['agent']!r} on "
            f"problem {first['problem']}: {first['error']} (results.failures: their tracebacks)",
            stacklevel=3,
        )  # fmt: skip
    seconds = {c: o.seconds for c, o in outcomes.items() if len(o.seconds) == len(c)}
    origin = {"switchmdp": __version__, "seed": str(plan.experiment.seed), **versions()}
    return assemble(plan.experiment, parts, seconds, failures, "", origin)
