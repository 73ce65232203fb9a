"""Compare agents on the same problems in one call: a table and a figure.

`compare` makes a plan from Python objects, and executes it in memory with the same executor as an
experiment in a file. All agents face the same problems with the same randomness.
"""

from __future__ import annotations

import contextlib
import html
import inspect
import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from switchmdp.display import progress_bar
from switchmdp.errors import ComparisonInterrupted, InvalidParameter, MissingExtra
from switchmdp.experiments import (
    MemoryStore,
    Plan,
    Progress,
    Results,
    load_results,
    raise_if_lost,
    run_chunks,
)
from switchmdp.experiments.names import AGENT, accepts, required_parameters
from switchmdp.experiments.plan import Entries, make_plan, problem_seed
from switchmdp.experiments.results import Setting, expand
from switchmdp.experiments.spec import AgentSpec, ProblemSpec, parse
from switchmdp.mdp import MDP, SwitchingMDP
from switchmdp.reports import figures, tables
from switchmdp.reports.curves import regret_panel
from switchmdp.reports.export import table_columns
from switchmdp.reports.page import Table
from switchmdp.reports.present import to_dataframe
from switchmdp.reports.report import write_report

Problems = MDP | SwitchingMDP | Sequence[MDP | SwitchingMDP] | Callable[[int], MDP | SwitchingMDP]
Factory = Callable[..., Any]
POSITIONAL = ([inspect.Parameter.POSITIONAL_ONLY], [inspect.Parameter.POSITIONAL_OR_KEYWORD])
MAKERS = "a dictionary of agent classes by name, such as {'UCRL2': sm.agents.UCRL2}"
MAKER = "a class with the parameters n_states and n_actions, or a function of a problem"
UNNAMED = "problems"  # the setting's name, if problems have no names


@dataclass(frozen=True)
class Comparison:
    """The results of `compare`, shown as a table; in a notebook also as a figure."""

    results: Results

    @property
    def tables(self) -> list[Table]:
        """One table of all measurements for each setting, with the lowest regret first."""
        return [tables.summary_table(setting) for setting in self.results.settings.values()]

    @property
    def figure(self) -> Any:
        """Mean regret over time with 95 % bands over problems (extra `plot`)."""
        settings = self.results.settings.values()
        ylabel = "mean regret" if any(s.n_problems > 1 for s in settings) else "regret"
        return figures.regret_figure([_panel(s) for s in settings], ylabel=ylabel)

    def plot(self) -> Any:
        """Draw mean regret over time with 95 % bands over problems (extra `plot`).

        Returns
        -------
        matplotlib.figure.Figure
            The figure, one panel for each setting.
        """
        return self.figure

    def to_dataframe(self, table: str = "runs", library: str | None = None) -> Any:
        """The results as a data frame.

        Parameters
        ----------
        table
            `"runs"` has one row for each run, `"regret"` one for each run and point of the grid.
        library
            `"pandas"`, `"polars"` or `"pyarrow"`; by default the first of them that is installed.

        Returns
        -------
        pandas.DataFrame, polars.DataFrame or pyarrow.Table
            Setting, agent, problem, and what was measured. In `"runs"`, `bad_steps` counts the
            ε-bad steps (docs/experiments.md). In `"regret"`, `step` is the step.

        Raises
        ------
        InvalidParameter
            If `table` is neither of the two.
        MissingExtra
            If the library is not installed.
        """
        if table not in ("runs", "regret"):
            raise InvalidParameter("table", table, "'runs' or 'regret'")
        return to_dataframe(table_columns(self.results, table), library=library)

    def save(self, folder: str | os.PathLike[str]) -> Path:
        """Write figures, tables and the page; returns the page.

        None of these can be loaded again. To keep the results, pickle the comparison, or run the
        comparison from an experiment file with `switchmdp run`.
        """
        return write_report(self.results, folder)[0]

    def __str__(self) -> str:
        return "\n\n".join(_short_table(s).text() for s in self.results.settings.values())

    __repr__ = __str__

    def _repr_html_(self) -> str:
        """The tables and, with the extra `plot`, the figure, for notebooks."""
        shown = f"<pre>{html.escape(str(self))}</pre>"
        with contextlib.suppress(MissingExtra):
            source = figures.svg_source(self.figure)
            shown += f'<img alt="mean regret over time" src="{source}">'
        return shown


def _short_table(setting: Setting) -> Table:
    """Mean regret per agent, with a title that explains the numbers."""
    table = tables.short_table(setting)
    title = table.title.removeprefix(f"{UNNAMED}: ")
    if title != table.title:
        title = title.capitalize()
    return replace(table, title=f"{title} (lower is better)")


def _panel(setting: Setting) -> figures.Panel:
    """Regret over time; the title says how many problems the mean is of, and what bands are."""
    panel = regret_panel(setting)
    sample = tables.sample(setting)
    title = sample if setting.name == UNNAMED else f"{setting.name} ({sample})"
    if setting.n_problems > 1:
        title += ", 95 % bands"
    return replace(panel, title=title)


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

    Terminals and notebooks show a progress bar. If runs fail, they are left out, with a warning.
    Ctrl-C raises `errors.ComparisonInterrupted`, a KeyboardInterrupt; `error.comparison` contains
    the completed runs. For long comparisons, write an experiment file: `switchmdp run` stores each
    result when it is complete, and resumes after an interruption.

    Parameters
    ----------
    problems
        A problem; a list of problems; a function that makes one; or several of these by name, as a
        mapping. A function gets the seed as its parameter `seed` or as the only argument that it
        requires, and the horizon if it has a parameter `horizon`.
    agents
        By name: classes that take `n_states` and `n_actions`, or functions that make a new agent
        for a problem. A class or function that requires no argument gets none.
    horizon
        The number of steps of a run.
    seed
        The seed of all problems and runs.
    n_problems
        How many problems to draw from a function (by default 20), or how often to use a single
        problem (by default once). It is the same for all problems of a mapping: by default 1 if one
        of them is a single problem.
    every
        The number of steps between two recorded points; by default 1/200 of the horizon.
    epsilon
        The loss per step up to which an agent counts as adapted after a change.
    jobs
        The number of threads; by default one per core.
    progress
        A function that is called as `progress(done, runs)` in place of the progress bar.

    Returns
    -------
    Comparison
        Prints as a table; `plot()` draws regret over time.

    Raises
    ------
    InvalidParameter
        If problems or agents are none of the above, or all runs would use the same agent object.
    InvalidExperiment
        If a number has the wrong type or is out of range.
    ComparisonInterrupted
        If Ctrl-C is pressed.

    Examples
    --------
    >>> import switchmdp as sm
    >>> comparison = compare(
    ...     lambda seed: sm.problems.random_switching(5, 3, changes=1, horizon=1000, seed=seed),
    ...     {"UCRL2": sm.agents.UCRL2,
    ...      "known": lambda problem: sm.agents.OracleUCRL2(
    ...          5, 3, change_points=problem.change_points)},
    ...     horizon=1000, n_problems=3,
    ... )
    >>> list(comparison.results.settings["problems"].agents)
    ['UCRL2', 'known']
    """
    if progress is not None and not callable(progress):
        raise InvalidParameter("progress", progress, "a function of (runs done, runs in total)")
    plan = _plan(problems, agents, horizon, seed, n_problems, every, epsilon)
    store = MemoryStore(plan)
    bar = progress_bar() if progress is None else contextlib.nullcontext(progress)
    with bar as report:

        def watch(state: Progress) -> None:
            if store.outcomes:
                report(state.done, state.runs)

        try:
            raise_if_lost(run_chunks(store, plan, jobs=jobs, executor="threads", watch=watch))
        except KeyboardInterrupt:
            done = sum(chunk.n_runs for chunk in store.outcomes)
            partial = Comparison(load_results(store))
            raise ComparisonInterrupted(partial, done, plan.n_runs) from None
    results = load_results(store)
    _warn_of_failures(results, plan)
    return Comparison(results)


def _plan(
    problems: Any, agents: Any, horizon: int, seed: int, n_problems: int | None,
    every: int | None, epsilon: float,
) -> Plan:  # fmt: skip
    if not isinstance(agents, Mapping):
        raise InvalidParameter("agents", agents, MAKERS)
    for name, make in agents.items():
        if not isinstance(make, type) and all(hasattr(make, verb) for verb in ("act", "observe")):
            allowed = f"{MAKER}, because each run needs a new agent"
            raise InvalidParameter(f"agents[{name!r}]", make, allowed)
        if not callable(make):
            raise InvalidParameter(f"agents[{name!r}]", make, MAKER)
    families = problems if isinstance(problems, Mapping) else {UNNAMED: problems}
    experiment = parse({
        "title": "Comparison", "horizon": horizon, "n_problems": _how_many(families, n_problems),
        "seed": seed, "every": every, "epsilon": epsilon,
        "problems": {name: ProblemSpec(problem=f"problem {i}") for i, name in enumerate(families)},
        "agents": {name: AgentSpec(agent=f"agent {i}") for i, name in enumerate(agents)},
    }, look_up_names=False)  # fmt: skip
    generators = {
        f"problem {i}": _generator(family, experiment.seed)
        for i, family in enumerate(families.values())
    }
    factories = {f"agent {i}": _maker(*agent) for i, agent in enumerate(agents.items())}
    try:
        return make_plan(
            experiment,
            Entries(expand(experiment.problems), generators),
            Entries(expand(experiment.agents), factories),
        )
    except InvalidParameter as error:  # name the argument in place of the internal name
        shown = {f"agent {i}": f"agents[{name!r}]" for i, name in enumerate(agents)}
        named = "problems[{!r}]" if families is problems else UNNAMED
        shown |= {f"problem {i}": named.format(name) for i, name in enumerate(families)}
        field = shown.get(error.field, error.field)
        raise InvalidParameter(field, error.value, error.allowed) from None


def _how_many(families: Mapping[str, Any], n_problems: int | None) -> Any:
    sizes = {len(family) for family in families.values() if _is_list(family)}
    if len(sizes) > 1 or 0 in sizes:
        raise InvalidParameter("problems", sorted(sizes), "lists of the same length, at least 1")
    if sizes and n_problems not in (None, *sizes):
        allowed = f"left out: the list has {sizes.pop()} problems"
        raise InvalidParameter("n_problems", n_problems, allowed)
    single = any(isinstance(family, (MDP, SwitchingMDP)) for family in families.values())
    return n_problems if n_problems is not None else sizes.pop() if sizes else 1 if single else 20


def _is_list(family: Any) -> bool:
    return isinstance(family, Sequence) and not isinstance(family, (str, bytes))


def _generator(family: Any, seed: int) -> Any:
    """A function with the parameters `seed`, if needed, and `horizon`, if it is not set yet.

    A seed is passed by name, or as the only required argument.
    """
    if isinstance(family, (MDP, SwitchingMDP)):
        return lambda: family
    if _is_list(family) and all(isinstance(problem, (MDP, SwitchingMDP)) for problem in family):
        by_seed = {problem_seed(seed, i): problem for i, problem in enumerate(family)}
        return lambda seed: by_seed[seed]
    if not callable(family):
        allowed = "an MDP, a SwitchingMDP, a list of them, or a function of a seed"
        raise InvalidParameter("problems", family, allowed)
    has_horizon = "horizon" in getattr(family, "keywords", ())  # a functools.partial
    by_name = [name for name in ("seed", "horizon") if accepts(family, name)]
    others = [p for p in required_parameters(family) if p.name not in by_name]
    if [p.kind for p in others] in POSITIONAL and "seed" not in by_name:
        if "horizon" in [p.name for p in required_parameters(family)]:
            return lambda seed, horizon: family(seed, horizon=horizon)
        return lambda seed: family(seed)
    if others:
        names = ", ".join(p.name for p in others)
        allowed = f"a function of a seed, but it also requires {names}: use functools.partial"
        raise InvalidParameter("problems", family, allowed)
    if not has_horizon:
        return family
    return (lambda seed: family(seed=seed)) if "seed" in by_name else (lambda: family())


def _maker(name: str, make: Callable[..., Any]) -> Callable[..., Any]:
    """A class with `n_states` gets its arguments by name.

    Any other class or function gets the problem as its only required argument, the two sizes if it
    requires two arguments, or nothing if it requires nothing.
    """
    required = required_parameters(make)
    if accepts(make, "n_states"):
        unknown = [p.name for p in required if p.name not in AGENT.already_set]
        if not unknown:
            return make
    else:
        unknown = [p.name for p in required]
        if accepts(make, "problem") and unknown in ([], ["problem"]):
            return lambda problem: make(problem=problem)
        if not unknown:
            return lambda: make()
        kinds = [p.kind for p in required]
        if kinds in POSITIONAL:
            return lambda problem: make(problem)
        if len(kinds) == 2 and inspect.Parameter.KEYWORD_ONLY not in kinds:
            return lambda n_states, n_actions: make(n_states, n_actions)
    needed = ", ".join(unknown)
    allowed = f"{MAKER}, but it also requires {needed}: pass lambda problem: ..., which sets it"
    raise InvalidParameter(f"agents[{name!r}]", make, allowed)


def _warn_of_failures(results: Results, plan: Plan) -> None:
    failed = [failure for failure in results.failures if failure["agent"]]
    if failed:
        first = failed[0]
        warnings.warn(
            f"{len(failed)} of {plan.n_runs} runs failed, the first of {first['agent']!r} on "
            f"problem {first['problem']}: {first['error']} "
            "(traceback: print(comparison.results.failures[0]['traceback']))",
            stacklevel=3,
        )  # fmt: skip
