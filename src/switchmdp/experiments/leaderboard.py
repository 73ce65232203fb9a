"""A leaderboard: a suite of rows (families of problems) × contenders (agents), run in a folder.

Each row has two phases, and each phase is an `Experiment`:

    tuning      30 problems: every contender with a free parameter, once with each of its values
    reporting   100 other problems: every contender, with the value chosen in the first phase

The phases have different seeds, so no problem is in both. The chosen values are part of the second
experiment, whose folder refuses any other values. A value is chosen by mean pseudo-regret, which
has the same mean as regret and less noise; in a tie the earlier value is chosen.

    suite.json               the suite and the version that made it
    rows/ROW/tuning          the results of each phase, a folder like that of any experiment
    rows/ROW/reporting

The choices do not depend on how the chunks are executed or interrupted. `leaderboard.toml` is the
suite of the package.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import threading
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np

from switchmdp.errors import ForeignFolder
from switchmdp.experiments.execute import Progress, run_chunks
from switchmdp.experiments.layout import expand
from switchmdp.experiments.plan import Plan, check
from switchmdp.experiments.results import Results
from switchmdp.experiments.spec import AgentSpec, Experiment, ProblemSpec, canonical, dumps
from switchmdp.experiments.store import TEMPORARY, Store, create, load_results, open_store
from switchmdp.storage import save_bytes
from switchmdp.version import __version__

TUNING, REPORTING = "tuning", "reporting"
POINTS = 200  # recorded by a run
MANIFEST = "suite.json"


@dataclass(frozen=True)
class Tuned:
    """A parameter to tune and its values; with `of_horizon` they are fractions of the horizon."""

    parameter: str
    values: tuple[float, ...]
    of_horizon: bool = False

    def at(self, horizon: int) -> list[float]:
        """The values for this horizon.

        >>> Tuned("window", (0.01, 0.5), of_horizon=True).at(1000)
        [10, 500]
        """
        if not self.of_horizon:
            return list(self.values)
        return [max(1, round(share * horizon)) for share in self.values]


@dataclass(frozen=True)
class Contender:
    """An agent, its fixed parameters, and the parameter to tune."""

    name: str
    agent: str
    parameters: Mapping[str, Any] = field(default_factory=dict)
    tuned: Tuned | None = None
    told: bool = False  # knows the change points: a reference, not a competitor
    detects: bool = False  # restarts when it detects a change
    ours: bool = False  # its regret is compared with that of the best competitor
    unforgetting: str = ""  # the contender that is the same without forgetting
    not_in_large: str = ""  # why it is left out of rows with many states


@dataclass(frozen=True)
class Row:
    """A family of problems, and the horizon."""

    name: str
    problem: str
    parameters: Mapping[str, Any] = field(default_factory=dict)
    horizon: int = 100_000
    large: bool = False
    drifts: bool = False  # changes all the time, so knowing the change points does not help
    changes: bool = True

    @property
    def folder(self) -> str:
        """The name of its folder.

        >>> Row("hidden improvement, S = 5", "random").folder
        'hidden-improvement-s-5'
        """
        return re.sub(r"[^a-z0-9]+", "-", self.name.lower()).strip("-")


@dataclass(frozen=True)
class Suite:
    """Rows × contenders."""

    title: str
    rows: tuple[Row, ...]
    contenders: tuple[Contender, ...]
    tuning_problems: int = 30
    problems: int = 100
    tuning_seed: int = 1
    seed: int = 2
    note: str = ""  # shown at the top of the report

    @property
    def ours(self) -> tuple[str, ...]:
        """The contenders whose regret is compared with that of the best competitor."""
        return tuple(one.name for one in self.contenders if one.ours)

    def left_out(self, row: Row) -> dict[str, str]:
        """The contenders that are left out of a row, and why."""
        reasons = {}
        for one in self.contenders:
            if row.drifts and one.told:
                reasons[one.name] = (
                    "knowing the change points does not help if the problem changes all the time"
                )
            elif row.large and one.not_in_large:
                reasons[one.name] = one.not_in_large
        return reasons

    def contenders_of(self, row: Row) -> tuple[Contender, ...]:
        """The contenders of a row."""
        out = self.left_out(row)
        return tuple(one for one in self.contenders if one.name not in out)


def shipped_suite(*, quick: bool = False) -> Suite:
    """The suite of the package, or its short version.

    >>> len(shipped_suite().rows), len(shipped_suite(quick=True).rows)
    (25, 6)
    """
    file = resources.files("switchmdp.experiments") / "leaderboard.toml"
    suite = tomllib.loads(file.read_text("utf-8"))
    short = suite.pop("quick")
    rows = [Row(**fields) for fields in suite.pop("rows")]
    contenders = [_contender(**fields) for fields in suite.pop("contenders")]
    if quick:
        suite, horizon = short, short.pop("horizon")
        names = {*short.pop("rows"), *short.pop("contenders")}
        rows = [replace(row, horizon=horizon) for row in rows if row.name in names]
        contenders = [one for one in contenders if one.name in names]
    return Suite(rows=tuple(rows), contenders=tuple(contenders), **suite)


def _contender(tuned: dict[str, Any] | None = None, **fields: Any) -> Contender:
    return Contender(**fields, tuned=None if tuned is None else Tuned(**tuned))


Choices = dict[str, float]  # the chosen value of each tuned contender


def tuning(suite: Suite, row: Row) -> Experiment | None:
    """The first phase of a row; None if there is nothing to tune.

    >>> row, one = Row("r", "random"), Contender("c", "sw-ucrl", tuned=Tuned("window", (10, 20)))
    >>> tuning(Suite("s", (row,), (one,)), row).agents["c"].parameters
    {'window': {'sweep': [10, 20]}}
    """
    agents = {
        one.name: AgentSpec(
            agent=one.agent,
            parameters={
                **one.parameters, one.tuned.parameter: {"sweep": one.tuned.at(row.horizon)}
            },
        )
        for one in suite.contenders_of(row)
        if one.tuned is not None
    }  # fmt: skip
    if not agents:
        return None
    return _experiment(suite, row, TUNING, suite.tuning_problems, suite.tuning_seed, agents)


def reporting(suite: Suite, row: Row, choices: Choices) -> Experiment:
    """The second phase of a row, with the values chosen in the first.

    >>> row, one = Row("r", "random"), Contender("c", "sw-ucrl", tuned=Tuned("window", (10, 20)))
    >>> reporting(Suite("s", (row,), (one,)), row, {"c": 20}).agents["c"].parameters
    {'window': 20}
    """
    agents = {}
    for one in suite.contenders_of(row):
        chosen = {} if one.tuned is None else {one.tuned.parameter: choices[one.name]}
        agents[one.name] = AgentSpec(agent=one.agent, parameters={**one.parameters, **chosen})
    return _experiment(suite, row, REPORTING, suite.problems, suite.seed, agents)


def _experiment(
    suite: Suite, row: Row, phase: str, n: int, seed: int, agents: dict[str, AgentSpec]
) -> Experiment:
    problem = ProblemSpec(problem=row.problem, parameters=dict(row.parameters))
    return Experiment(
        title=f"{suite.title}: {row.name}, {phase}", horizon=row.horizon, n_problems=n, seed=seed,
        every=max(1, row.horizon // POINTS), problems={row.name: problem}, agents=agents,
    )  # fmt: skip


def trials(tuned: Results) -> dict[str, dict[float, float]]:
    """The mean pseudo-regret of each contender with each of its values in the first phase.

    It is NaN for a value with which a run failed.

    >>> from dataclasses import replace
    >>> from switchmdp.experiments.results import as_setting
    >>> setting = as_setting([9], {"a 10": [[4.0], [6.0]], "a 20": [[3.0], [np.nan]]})
    >>> values = zip(setting.agents.items(), (10, 20))
    >>> lanes = {n: replace(runs, base="a", swept={"w": w}) for (n, runs), w in values}
    >>> trials(Results("", 0.1, {"s": replace(setting, agents=lanes)}))
    {'a': {10: 5.0, 20: nan}}
    """
    (setting,) = tuned.settings.values()
    means: dict[str, dict[float, float]] = {}
    for runs in setting.agents.values():
        (value,) = runs.swept.values()
        final = runs.pseudo_regret[~runs.failed, -1]
        mean = float(final.mean()) if len(final) == len(runs.failed) else np.nan
        means.setdefault(runs.base, {})[value] = mean
    return means


def choose(tuned: Results) -> Choices:
    """The value with the lowest mean pseudo-regret; values with failed runs come last.

    >>> from dataclasses import replace
    >>> from switchmdp.experiments.results import as_setting
    >>> setting = as_setting([9], {"a 10": [[5.0]], "a 20": [[3.0]], "a 30": [[3.0]]})
    >>> values = zip(setting.agents.items(), (10, 20, 30))
    >>> lanes = {n: replace(runs, base="a", swept={"w": w}) for (n, runs), w in values}
    >>> choose(Results("", 0.1, {"s": replace(setting, agents=lanes)}))
    {'a': 20}
    """
    return {
        name: min(means, key=lambda value: (np.isnan(means[value]), means[value]))
        for name, means in trials(tuned).items()
    }


def expected_runs(suite: Suite) -> int:
    """The number of runs in all rows and phases.

    >>> row, one = Row("r", "random"), Contender("c", "random")
    >>> expected_runs(Suite("s", (row,), (one,)))
    100
    """
    total = 0
    for row in suite.rows:
        first = tuning(suite, row)
        total += 0 if first is None else len(expand(first.agents)) * suite.tuning_problems
        total += len(suite.contenders_of(row)) * suite.problems
    return total


# The suite in a folder.


@dataclass(frozen=True)
class Stage:
    """One phase of a row, ready to be executed."""

    row: Row
    phase: str
    store: Store
    plan: Plan


@dataclass(frozen=True)
class Standing:
    """The results of a row: of the tuning (None if there was none), its choices, the report's."""

    row: Row
    tried: Results | None
    choices: Choices
    results: Results


def create_folder(suite: Suite, path: str | os.PathLike[str]) -> Path:
    """Create the folder of a suite, or check that the existing one belongs to the same suite.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as parent:
    ...     folder = create_folder(Suite("s", (), ()), Path(parent, "out"))
    ...     sorted(entry.name for entry in folder.iterdir())
    ['rows', 'suite.json']
    """
    folder = Path(path)
    manifest = canonical({"version": __version__, "digest": digest_of(suite), "title": suite.title})
    entries = folder.iterdir() if folder.is_dir() else [folder] if folder.exists() else []
    if not all(TEMPORARY.fullmatch(entry.name) for entry in entries):
        try:
            existing = (folder / MANIFEST).read_bytes()
        except OSError:
            raise ForeignFolder(f"{folder} is not empty and is not the folder of a suite") from None
        if existing != manifest:
            raise ForeignFolder(f"{folder} has {_describe(existing)}; choose another folder")
    (folder / "rows").mkdir(parents=True, exist_ok=True)
    save_bytes(folder / MANIFEST, manifest)
    return folder


def digest_of(suite: Suite) -> str:
    """SHA-256 of the content of a suite.

    >>> digest_of(Suite("s", (), ())) == digest_of(Suite("s", (), (), seed=3))
    False
    """
    return hashlib.sha256(canonical(asdict(suite))).hexdigest()


def _describe(manifest: bytes) -> str:
    try:
        content = json.loads(manifest)
        return f"another suite ({content['title']!r}, by switchmdp {content['version']})"
    except (ValueError, KeyError, TypeError):
        return f"a damaged {MANIFEST}"


def stages(suite: Suite, folder: Path) -> Iterator[Stage]:
    """Every stage in turn; the caller executes each one before it asks for the next.

    The second phase of a row is left out as long as its first phase is not complete, which may
    happen if other shards have not done their part.

    >>> import tempfile
    >>> suite = Suite("s", (Row("r", "random"),), (Contender("c", "random"),))
    >>> with tempfile.TemporaryDirectory() as parent:
    ...     folder = create_folder(suite, Path(parent, "out"))
    ...     [(stage.row.name, stage.phase) for stage in stages(suite, folder)]
    [('r', 'reporting')]
    """
    for row in suite.rows:
        first = tuning(suite, row)
        choices: Choices = {}
        if first is not None:
            stage = _stage(row, TUNING, first, folder)
            yield stage
            if not is_complete(stage.store):
                continue
            choices = choose(load_results(stage.store))
        yield _stage(row, REPORTING, reporting(suite, row, choices), folder)


def _stage(row: Row, phase: str, experiment: Experiment, folder: Path) -> Stage:
    plan = check(experiment)
    store = create(_folder_of(folder, row, phase), plan, dumps(experiment), None)
    return Stage(row, phase, store, plan)


def _folder_of(folder: Path, row: Row, phase: str) -> Path:
    return folder / "rows" / row.folder / phase


def is_complete(store: Store) -> bool:
    """Whether every chunk is done."""
    return all(store.is_done(chunk) for chunk in store.chunks())


def run_suite(
    suite: Suite, folder: Path, *, shard: tuple[int, int] = (1, 1), stop: threading.Event,
    begin: Callable[[str], None], **how: Any,
) -> Progress:  # fmt: skip
    """Execute all stages; returns their progress together.

    `begin` is called with the name of each stage. The other keywords are those of `run_chunks`.
    """
    total = Progress(-(-expected_runs(suite) // shard[1]))
    for stage in stages(suite, folder):
        begin(f"{stage.row.name}, {stage.phase}")
        run_chunks(stage.store, stage.plan, progress=total, stop=stop, shard=shard, **how)
        if stop.is_set():
            total.interrupted = not total.disk_full
            break
    return total


def standings(suite: Suite, folder: Path) -> list[Standing]:
    """The rows that are complete, in the order of the suite."""
    complete = []
    for row in suite.rows:
        try:
            store = open_store(_folder_of(folder, row, REPORTING))
        except ForeignFolder:  # not started
            continue
        if is_complete(store):
            tried, choices = None, {}
            if tuning(suite, row) is not None:
                tried = load_results(open_store(_folder_of(folder, row, TUNING)))
                choices = choose(tried)
            complete.append(Standing(row, tried, choices, load_results(store)))
    return complete
