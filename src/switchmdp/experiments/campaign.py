"""A suite in a folder: the two phases of each row, one after the other.

    suite.json               the suite and the version that made it; a folder of another is refused
    rows/ROW/tuning          the results of each phase, a folder like that of any experiment
    rows/ROW/reporting

Whoever does a stage's chunks, in whatever order and however often interrupted, the choices are the
same, and so is all that follows from them.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from switchmdp.errors import ForeignFolder
from switchmdp.experiments.check import Plan, check
from switchmdp.experiments.load import load_results
from switchmdp.experiments.results import Results
from switchmdp.experiments.spec import Experiment, canonical
from switchmdp.experiments.store import LEFT, Store, create, open_store
from switchmdp.experiments.suite import (
    REPORTING,
    TUNING,
    Choices,
    Row,
    Suite,
    choose,
    reporting,
    tuning,
)
from switchmdp.experiments.toml import dumps
from switchmdp.storage import save_bytes
from switchmdp.version import __version__

MANIFEST = "suite.json"


@dataclass(frozen=True)
class Stage:
    """One phase of a row, to be done."""

    row: Row
    phase: str
    store: Store
    plan: Plan


@dataclass(frozen=True)
class Standing:
    """What came of a row: what was tried (None if nothing was), chosen, and then measured."""

    row: Row
    tried: Results | None
    choices: Choices
    results: Results


def settle(suite: Suite, path: str | os.PathLike[str]) -> Path:
    """Make a folder for a suite, or go on with the one that is there if it is the same.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as parent:
    ...     folder = settle(Suite("s", (), ()), Path(parent, "out"))
    ...     sorted(entry.name for entry in folder.iterdir())
    ['rows', 'suite.json']
    """
    folder = Path(path)
    manifest = canonical(
        {"version": __version__, "digest": digest_of(suite), "title": suite.title}
    )  # fmt: skip
    there = folder.iterdir() if folder.is_dir() else [folder] if folder.exists() else []
    if not all(LEFT.fullmatch(entry.name) for entry in there):
        try:
            found = (folder / MANIFEST).read_bytes()
        except OSError:
            raise ForeignFolder(f"{folder} is not empty, and holds no suite of ours") from None
        if found != manifest:
            raise ForeignFolder(f"{folder} holds {_called(found)}; choose another folder")
    (folder / "rows").mkdir(parents=True, exist_ok=True)
    save_bytes(folder / MANIFEST, manifest)
    return folder


def digest_of(suite: Suite) -> str:
    """SHA-256 of all that the suite says.

    >>> digest_of(Suite("s", (), ())) == digest_of(Suite("s", (), (), seed=3))
    False
    """
    return hashlib.sha256(canonical(suite.content())).hexdigest()


def _called(manifest: bytes) -> str:
    try:
        content = json.loads(manifest)
        return f"another suite ({content['title']!r}, by switchmdp {content['version']})"
    except (ValueError, KeyError, TypeError):
        return "a damaged suite.json"


def stages(suite: Suite, folder: Path) -> Iterator[Stage]:
    """Every stage in turn; each is to be done before the next is asked for.

    The second phase of a row follows only when its first is complete: where several share the
    work, it may have to wait until all have done their part.

    >>> import tempfile
    >>> from switchmdp.experiments.suite import Contender
    >>> suite = Suite("s", (Row("r", "random"),), (Contender("c", "random"),))
    >>> with tempfile.TemporaryDirectory() as parent:
    ...     folder = settle(suite, Path(parent, "out"))
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
    store = create(_place(folder, row, phase), plan, dumps(experiment), None)
    return Stage(row, phase, store, plan)


def _place(folder: Path, row: Row, phase: str) -> Path:
    return folder / "rows" / row.folder / phase


def is_complete(store: Store) -> bool:
    """Whether every chunk is done."""
    return all(store.is_done(chunk) for chunk in store.chunks())


def standings(suite: Suite, folder: Path) -> list[Standing]:
    """The rows that are complete, in the suite's order."""
    found = []
    for row in suite.rows:
        try:
            store = open_store(_place(folder, row, REPORTING))
        except ForeignFolder:  # not begun
            continue
        if is_complete(store):
            tried, choices = None, {}
            if tuning(suite, row) is not None:
                tried = load_results(open_store(_place(folder, row, TUNING)))
                choices = choose(tried)
            found.append(Standing(row, tried, choices, load_results(store)))
    return found
