"""Published results of the suites of the package: the regret of every reported run.

    entry = entry_suite(shipped_suite(), "my_module:MyAgent")      the user's agent on every row
    ranked = with_published(entry, standings, load_published())    among the published contenders

All contenders of a row were run on the same problems with the same random numbers, which depend on
the suite's seed only. So another agent can join later, without running the others again.

A file has one array per row and contender, of shape (problems, points) of regret. The
package contains the regret at the horizon (`published/*.npz`).
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import resources
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from switchmdp.errors import DamagedFile, InvalidParameter
from switchmdp.experiments.leaderboard import (
    OPEN,
    Choices,
    Contender,
    Row,
    Standing,
    Suite,
    reporting,
)
from switchmdp.experiments.plan import check
from switchmdp.experiments.results import as_setting
from switchmdp.storage import load_arrays, save_arrays
from switchmdp.version import __version__

KIND = "published leaderboard"


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
    save_arrays(path, KIND, {"version": __version__, "rows": rows}, arrays)


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
        fields, arrays = load_arrays(path, KIND)
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
        raise DamagedFile(f"{path} does not hold published results: {error!r}") from None


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
