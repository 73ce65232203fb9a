"""A leaderboard: a suite of rows (families of problems) × contenders (agents), run in a folder.

Each row has two phases, and each phase is an `Experiment`:

    tuning      20 problems: every contender with free parameters, once with each combination
    reporting   100 other problems: every contender, with the values chosen in the first phase

The phases have different seeds, so no problem is in both. The chosen values are part of the second
experiment, whose folder refuses any other values. They are chosen by mean pseudo-regret, which has
the same mean as regret and less noise; in a tie the earlier combination is chosen.

    suite.json               the suite and the version that made it
    rows/ROW/tuning          the results of each phase, a folder like that of any experiment
    rows/ROW/reporting

The choices do not depend on how the chunks are executed or interrupted. The package has two
suites. `leaderboard.toml` is the open suite: agents may be designed on its rows, and each row says
which ones were. `closed_suite.toml` is run once per release, and no agent is designed on it.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import threading
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from importlib import resources
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from switchmdp.errors import DamagedFile, ForeignFolder, InvalidParameter
from switchmdp.experiments.execute import Progress, run_chunks
from switchmdp.experiments.plan import Plan, check
from switchmdp.experiments.results import Results, as_setting, expand
from switchmdp.experiments.spec import AgentSpec, Experiment, ProblemSpec, canonical, dumps
from switchmdp.experiments.store import TEMPORARY, Store, create, load_results, open_store
from switchmdp.storage import load_arrays, save_arrays, save_bytes
from switchmdp.version import __version__

TUNING, REPORTING = "tuning", "reporting"
IN_WORDS = {TUNING: "choosing parameters", REPORTING: "measuring regret"}
POINTS = 200  # recorded by a run
MANIFEST = "suite.json"
OPEN, CLOSED, QUICK = "open", "closed", "quick"


@dataclass(frozen=True)
class Contender:
    """An agent, its fixed parameters, and the parameters to tune with the values to try."""

    name: str
    agent: str
    parameters: Mapping[str, Any] = field(default_factory=dict)
    tuned: Mapping[str, Sequence[float]] = field(default_factory=dict)
    of_horizon: Sequence[str] = ()  # tuned parameters whose values are fractions of the horizon
    told: bool = False  # it knows the change points: a reference, not a competitor
    yardstick: bool = True  # whether others may be measured by it, if it knows the change points
    detects: bool = False  # restarts when it detects a change
    ours: bool = False  # its regret is compared with that of the best competitor
    unforgetting: str = ""  # the contender that is its version without forgetting
    not_in_large: str = ""  # the reason why it is left out of rows with many states

    def grid(self, horizon: int) -> dict[str, list[float]]:
        """The values to try of each tuned parameter.

        >>> tuned = {"window": [0.01, 0.5], "width": [0.1, 1.0]}
        >>> Contender("c", "sw-ucrl", tuned=tuned, of_horizon=["window"]).grid(1000)
        {'window': [10, 500], 'width': [0.1, 1.0]}
        """
        return {
            name: [max(1, round(share * horizon)) for share in values]
            if name in self.of_horizon
            else list(values)
            for name, values in self.tuned.items()
        }


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
    problems: int = 0  # the number of reported problems; 0: the number of the suite
    tuning_problems: int = 0
    designed_on: Sequence[str] = ()  # contenders that were designed on problems of this kind

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
    tuning_problems: int = 20
    problems: int = 100
    tuning_seed: int = 1
    seed: int = 2
    note: str = ""  # shown at the top of the report

    @property
    def ours(self) -> tuple[str, ...]:
        """The contenders whose regret is compared with that of the best competitor."""
        return tuple(one.name for one in self.contenders if one.ours)

    def left_out(self, row: Row) -> dict[str, str]:
        """The contenders that are left out of a row, with the reasons."""
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


def shipped_suite(name: str = OPEN) -> Suite:
    """A suite of the package: "open", "closed" or "quick".

    >>> len(shipped_suite().rows) > len(shipped_suite("quick").rows)
    True
    """
    suite = _read("leaderboard.toml")
    short = suite.pop("quick")
    rows = [Row(**fields) for fields in suite.pop("rows")]
    contenders = [Contender(**fields) for fields in suite.pop("contenders")]
    if name == QUICK:
        suite, horizon, names = short, short.pop("horizon"), short.pop("rows")
        rows = [replace(row, horizon=horizon) for row in rows if row.name in names]
    elif name == CLOSED:
        suite = _read("closed_suite.toml")
        rows = [Row(**fields) for fields in suite.pop("rows")]
    if some := suite.pop("contenders", None):
        contenders = [one for one in contenders if one.name in some]
    return Suite(rows=tuple(rows), contenders=tuple(contenders), **suite)


def chosen_rows(suite: Suite, names: Sequence[str]) -> Suite:
    """The suite with only these rows, in this order; a row is given by its name or its folder.

    >>> suite = Suite("s", (Row("far bank", "random"), Row("no change", "random")), ())
    >>> [row.name for row in chosen_rows(suite, ["no-change"]).rows]
    ['no change']

    Raises
    ------
    InvalidParameter
        If the suite has no row of this name.
    """
    known = {name: row for row in suite.rows for name in (row.name, row.folder)}
    for name in names:
        if name not in known:
            raise InvalidParameter("row", name, f"one of {', '.join(r.folder for r in suite.rows)}")
    chosen = {known[name].folder: known[name] for name in names}
    return replace(suite, rows=tuple(chosen.values()))


def _read(name: str) -> dict[str, Any]:
    return tomllib.loads((resources.files("switchmdp.experiments") / name).read_text("utf-8"))


Values = Mapping[str, float]  # of the tuned parameters
Choices = dict[str, Values]  # the chosen values of each tuned contender


def tuning(suite: Suite, row: Row) -> Experiment | None:
    """The first phase of a row; None if there is nothing to tune.

    >>> row, one = Row("r", "random"), Contender("c", "sw-ucrl", tuned={"window": [10, 20]})
    >>> tuning(Suite("s", (row,), (one,)), row).agents["c"].parameters
    {'window': {'sweep': [10, 20]}}
    """
    agents = {}
    for one in suite.contenders_of(row):
        if one.tuned:
            sweeps = {name: {"sweep": values} for name, values in one.grid(row.horizon).items()}
            agents[one.name] = AgentSpec(agent=one.agent, parameters={**one.parameters, **sweeps})
    if not agents:
        return None
    n = row.tuning_problems or suite.tuning_problems
    return _experiment(suite, row, TUNING, n, suite.tuning_seed, agents)


def reporting(suite: Suite, row: Row, choices: Choices) -> Experiment:
    """The second phase of a row, with the values chosen in the first.

    >>> row, one = Row("r", "random"), Contender("c", "sw-ucrl", tuned={"window": [10, 20]})
    >>> chosen = {"c": {"window": 20}}
    >>> reporting(Suite("s", (row,), (one,)), row, chosen).agents["c"].parameters
    {'window': 20}
    """
    agents = {}
    for one in suite.contenders_of(row):
        chosen = choices[one.name] if one.tuned else {}
        agents[one.name] = AgentSpec(agent=one.agent, parameters={**one.parameters, **chosen})
    n = row.problems or suite.problems
    return _experiment(suite, row, REPORTING, n, suite.seed, agents)


def _experiment(
    suite: Suite, row: Row, phase: str, n: int, seed: int, agents: dict[str, AgentSpec]
) -> Experiment:
    problem = ProblemSpec(problem=row.problem, parameters=dict(row.parameters))
    return Experiment(
        title=f"{suite.title}: {row.name}, {phase}", horizon=row.horizon, n_problems=n, seed=seed,
        every=max(1, row.horizon // POINTS), problems={row.name: problem}, agents=agents,
    )  # fmt: skip


def trials(tuned: Results) -> dict[str, list[tuple[Values, float]]]:
    """Each contender's combinations of values in the first phase, with their mean pseudo-regret.

    It is NaN for values with which a run failed.

    >>> from dataclasses import replace
    >>> from switchmdp.experiments.results import as_setting
    >>> setting = as_setting([9], {"a 10": [[4.0], [6.0]], "a 20": [[3.0], [np.nan]]})
    >>> values = zip(setting.agents.items(), (10, 20))
    >>> lanes = {n: replace(runs, base="a", swept={"w": w}) for (n, runs), w in values}
    >>> trials(Results("", 0.1, {"s": replace(setting, agents=lanes)}))
    {'a': [({'w': 10}, 5.0), ({'w': 20}, nan)]}
    """
    (setting,) = tuned.settings.values()
    means: dict[str, list[tuple[Values, float]]] = {}
    for runs in setting.agents.values():
        final = runs.pseudo_regret[~runs.failed, -1]
        mean = float(final.mean()) if len(final) == len(runs.failed) else np.nan
        means.setdefault(runs.base, []).append((runs.swept, mean))
    return means


def choose(tuned: Results) -> Choices:
    """The values with the lowest mean pseudo-regret; values with failed runs come last.

    >>> from dataclasses import replace
    >>> from switchmdp.experiments.results import as_setting
    >>> setting = as_setting([9], {"a 10": [[5.0]], "a 20": [[3.0]], "a 30": [[3.0]]})
    >>> values = zip(setting.agents.items(), (10, 20, 30))
    >>> lanes = {n: replace(runs, base="a", swept={"w": w}) for (n, runs), w in values}
    >>> choose(Results("", 0.1, {"s": replace(setting, agents=lanes)}))
    {'a': {'w': 20}}
    """
    return {
        name: min(tried, key=lambda one: (np.isnan(one[1]), one[1]))[0]
        for name, tried in trials(tuned).items()
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
        total += 0 if first is None else len(expand(first.agents)) * first.n_problems
        total += len(suite.contenders_of(row)) * (row.problems or suite.problems)
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
    """The results of a row: tuning (None if there was none), choices, and reported results."""

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
            raise ForeignFolder(
                f"{folder} has {_describe(existing)}: the rows, an agent or its parameters have "
                "changed since; pass --out FOLDER, or delete this one"
            )
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


def stages(suite: Suite, folder: Path, modules: Path | None = None) -> Iterator[Stage]:
    """All stages in turn; the caller executes each stage before it requests the next.

    The second phase of a row is left out as long as its first phase is not complete, which may
    happen if other shards have not done their part. `modules` is the folder of the user's own
    agents, which are then imported.

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
            stage = _stage(row, TUNING, first, folder, modules)
            yield stage
            if not is_complete(stage.store):
                continue
            choices = choose(load_results(stage.store))
        yield _stage(row, REPORTING, reporting(suite, row, choices), folder, modules)


def _stage(
    row: Row, phase: str, experiment: Experiment, folder: Path, modules: Path | None
) -> Stage:
    plan = check(experiment, modules, trust=True if modules else None)
    store = create(_folder_of(folder, row, phase), plan, dumps(experiment), modules)
    return Stage(row, phase, store, plan)


def _folder_of(folder: Path, row: Row, phase: str) -> Path:
    return folder / "rows" / row.folder / phase


def is_complete(store: Store) -> bool:
    """Whether every chunk is done."""
    return all(store.is_done(chunk) for chunk in store.chunks())


def run_suite(
    suite: Suite, folder: Path, *, shard: tuple[int, int] = (1, 1), stop: threading.Event,
    begin: Callable[[str], None], modules: Path | None = None, **how: Any,
) -> Progress:  # fmt: skip
    """Execute all stages; returns their progress together.

    `begin` is called with a description of each stage. `modules` is the folder of the user's own
    agents. The other keywords are those of `run_chunks`.
    """
    total = Progress(-(-expected_runs(suite) // shard[1]))
    for stage in stages(suite, folder, modules):
        begin(f"{stage.row.name}: {IN_WORDS[stage.phase]}")
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


# Published results: the regret of every reported run of a suite.
#
#     entry = entry_suite(shipped_suite(), "my_module:MyAgent")      the user's agent on every row
#     ranked = with_published(entry, standings, load_published())    among the published contenders
#
# All contenders of a row were run on the same problems with the same random numbers, which depend
# on the suite's seed only. So another agent can join later, without running the others again.
#
# A file has one array per row and contender, of shape (problems, points) of regret. The package
# contains the regret at the horizon (`published/*.npz`).

PUBLISHED = "published leaderboard"


@dataclass(frozen=True)
class Published:
    """The reported runs of a suite."""

    version: str  # of the package that ran them
    times: Mapping[str, NDArray[np.int64]]  # by row: the steps at which regret was recorded
    regret: Mapping[str, Mapping[str, NDArray[np.float64]]]  # by row and contender
    choices: Mapping[str, Choices]  # by row: the tuned parameters of each contender


def publish(
    standings: Sequence[Standing], path: str | os.PathLike[str], points: int = 1,
    previous: Published | None = None,
) -> None:  # fmt: skip
    """Write the regret of every reported run to a file.

    Parameters
    ----------
    standings
        The complete rows of a suite.
    path
        The file to write.
    points
        How many steps to keep per run, evenly spaced and up to the horizon.
    previous
        Published results of the same suite. Its rows that are not among `standings` are kept, so
        that a suite can be run and published a few rows at a time.
    """
    times = {} if previous is None else dict(previous.times)
    regret = {} if previous is None else dict(previous.regret)
    choices = {} if previous is None else dict(previous.choices)
    for standing in standings:
        (setting,) = standing.results.settings.values()
        last = len(setting.times)
        kept = np.unique(np.ceil(np.linspace(last / points, last, points)).astype(int)) - 1
        row = standing.row.name
        times[row] = setting.times[kept]
        regret[row] = {name: runs.regret[:, kept] for name, runs in setting.agents.items()}
        choices[row] = standing.choices
    rows: list[dict[str, Any]] = []
    arrays: dict[str, Any] = {}
    for number, (row, agents) in enumerate(regret.items()):
        rows.append({
            "name": row, "times": times[row].tolist(), "agents": list(agents),
            "choices": {name: dict(values) for name, values in choices[row].items()},
        })  # fmt: skip
        arrays |= {f"r{number:03d}-a{i:03d}": runs for i, runs in enumerate(agents.values())}
    save_arrays(path, PUBLISHED, {"version": __version__, "rows": rows}, arrays)


def load_published(suite: str | os.PathLike[str] = OPEN) -> Published:
    """Read published results: those of a suite of the package, by its name, or of a file.

    Raises
    ------
    InvalidParameter
        If the package has no published results of this name, and there is no such file.
    DamagedFile
        If the file is damaged or is not a file of published results.
    """
    with resources.as_file(resources.files("switchmdp.experiments") / "published") as folder:
        inside = folder / f"{suite}.npz"
        path = inside if inside.exists() else Path(suite)
        if not path.exists():
            names = " or ".join(sorted(file.stem for file in folder.glob("*.npz")))
            allowed = f"{names} (the suites with published results), or a file"
            raise InvalidParameter("suite", str(suite), allowed)
        fields, arrays = load_arrays(path, PUBLISHED)
    try:
        rows = fields["rows"]
        times = {one["name"]: np.array(one["times"], np.int64) for one in rows}
        regret = {
            one["name"]: {
                name: arrays[f"r{number:03d}-a{i:03d}"] for i, name in enumerate(one["agents"])
            }
            for number, one in enumerate(rows)
        }
        choices = {one["name"]: one["choices"] for one in rows}
        return Published(fields["version"], times, regret, choices)
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise DamagedFile(f"{path} does not contain published results: {error!r}") from None


def published_rows(suite: Suite, published: Published) -> Suite:
    """The suite without the rows that have no published results.

    >>> suite = Suite("s", (Row("r", "random"), Row("q", "random")), ())
    >>> [row.name for row in published_rows(suite, Published("1", {}, {"q": {}}, {})).rows]
    ['q']

    Raises
    ------
    InvalidParameter
        If no row has published results.
    """
    rows = tuple(row for row in suite.rows if row.name in published.regret)
    if not rows:
        raise InvalidParameter("suite", suite.title, "a suite with published results")
    return replace(suite, rows=rows)


def entry_suite(
    suite: Suite, agent: str, modules: Path | None = None,
    parameters: Mapping[str, Any] = MappingProxyType({}),
) -> Suite:  # fmt: skip
    """The same rows and problems with one contender: a registered agent, or "module:Name".

    `modules` is the folder of the user's own agents, which are then imported, and `parameters` are
    those of the agent.

    >>> entry_suite(Suite("s", (Row("r", "random"),), ()), "psrl").ours
    ('psrl',)

    Raises
    ------
    InvalidExperiment
        If there is no such agent, or it cannot be made without further parameters.
    """
    name = agent.rpartition(":")[2]
    taken = {one.name for one in suite.contenders}
    shown = f"{name} (entry)" if name in taken else name
    contender = Contender(shown, agent, parameters=dict(parameters), ours=True)
    entry = replace(suite, title=f"{suite.title} with {shown}", contenders=(contender,))
    check(reporting(entry, entry.rows[0], {}), modules, trust=True if modules else None)
    return entry


def with_published(
    suite: Suite, standings: Sequence[Standing], published: Published
) -> tuple[Suite, list[Standing]]:
    """Rank the entries of `standings` among the published contenders of `suite`.

    Rows whose problems differ from the published ones are left out.
    """
    entries = {
        one.name: Contender(one.name, "", ours=True)
        for standing in standings
        for one in (Contender(name, "") for name in _agents(standing))
    }
    rivals = tuple(replace(one, ours=False) for one in suite.contenders)
    merged = [
        _merged(standing, published)
        for standing in standings
        if _comparable(standing, published, suite)
    ]
    return replace(suite, contenders=(*entries.values(), *rivals)), merged


def _agents(standing: Standing) -> list[str]:
    (setting,) = standing.results.settings.values()
    return list(setting.agents)


def _comparable(standing: Standing, published: Published, suite: Suite) -> bool:
    row: Row = standing.row
    (setting,) = standing.results.settings.values()
    known = published.regret.get(row.name, {})
    return bool(known) and all(len(runs) == setting.n_problems for runs in known.values())


def _merged(standing: Standing, published: Published) -> Standing:
    (setting,) = standing.results.settings.values()
    mine = {name: runs.regret[:, -1:] for name, runs in setting.agents.items()}
    rivals = {name: runs[:, -1:] for name, runs in published.regret[standing.row.name].items()}
    joint = as_setting([setting.horizon], rivals | mine)
    results = replace(standing.results, settings={setting.name: joint})
    return Standing(standing.row, None, published.choices[standing.row.name], results)
