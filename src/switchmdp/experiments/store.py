"""A folder of results: what was asked, what is done.

    experiment.json     the experiment, its digest and the version that made it
    experiment.toml     the same as it was written, for people
    runs/ID.npz         one chunk each; *done* is this file, complete and with the right checksum
    failures/ID.json    tracebacks of the runs in that chunk that failed
    timings/ID.json     wall time, which is no result

Every file is written under a temporary name, synced and renamed. Nothing is ever locked: two who
compute the same chunk write the same bytes. A folder of another experiment is refused.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from switchmdp.errors import DamagedFile, ForeignFolder, InvalidExperiment
from switchmdp.experiments.build import count_variants
from switchmdp.experiments.check import Plan, check
from switchmdp.experiments.chunks import Outcome
from switchmdp.experiments.layout import Blocks, Chunk, block_sizes, layout
from switchmdp.experiments.results import HARDNESS, no_runs
from switchmdp.experiments.sources import is_users
from switchmdp.experiments.spec import Experiment, canonical, loads, parse
from switchmdp.experiments.toml import dumps
from switchmdp.storage import Arrays, load_arrays, save_arrays, save_bytes
from switchmdp.version import __version__

FORMAT = 2
KIND = "chunk of runs"
MANIFEST, TEXT, ORIGIN = "experiment.json", "experiment.toml", "origin.json"
FOLDERS = ("runs", "failures", "timings")
LEFT = re.compile(r"\..+\.(npz|json|toml)\.[0-9a-f]{12}")  # by a writer that was interrupted


@dataclass(frozen=True)
class Store:
    """An experiment's folder, opened."""

    path: Path
    experiment: Experiment
    digest: str
    version: str
    modules: Mapping[str, str]
    blocks: Blocks

    def chunks(self) -> list[Chunk]:
        """All chunks, done or not."""
        return layout(self.experiment.n_problems, self.blocks)

    def chunk_path(self, chunk: Chunk) -> Path:
        """Where a chunk's results are."""
        return self.path / "runs" / f"{chunk.id}.npz"

    def load(self, chunk: Chunk) -> tuple[dict[str, Any], Arrays]:
        """A chunk's fields and arrays, all of it checked."""
        fields, arrays = load_arrays(self.chunk_path(chunk), KIND)
        if fields.get("digest") != self.digest or fields.get("chunk") != chunk.id:
            raise DamagedFile(f"{self.chunk_path(chunk)} belongs to another experiment or chunk")
        if not isinstance(fields.get("parameters", {}), dict):
            raise DamagedFile(f"{self.chunk_path(chunk)}: parameters are not a table")
        _must_have_shape(self, chunk, arrays)
        return fields, arrays

    def is_done(self, chunk: Chunk) -> bool:
        """Whether the chunk's file is there and sound."""
        try:
            self.load(chunk)
        except (FileNotFoundError, DamagedFile):
            return False
        return True

    def commit(self, chunk: Chunk, outcome: Outcome) -> None:
        """Write a chunk: what goes with it first, the file that says *done* last."""
        name = f"{chunk.id}.json"
        if outcome.failures:
            save_bytes(self.path / "failures" / name, canonical(outcome.failures))
        else:
            (self.path / "failures" / name).unlink(missing_ok=True)
        save_bytes(self.path / "timings" / name, canonical(outcome.seconds))
        fields = {**outcome.fields, "digest": self.digest, "chunk": chunk.id}
        save_arrays(self.chunk_path(chunk), KIND, fields, outcome.arrays)

    def sidecar(self, folder: str, chunk: Chunk) -> Any:
        """The failures or timings of a chunk; None where there are none to read."""
        wanted = dict if folder == "failures" else (int, float)
        with contextlib.suppress(OSError, ValueError):
            found = json.loads((self.path / folder / f"{chunk.id}.json").read_bytes())
            if isinstance(found, list) and all(isinstance(entry, wanted) for entry in found):
                return found
        return None

    def forget(self, chunk: Chunk) -> None:
        """Make a chunk undone."""
        self.chunk_path(chunk).unlink(missing_ok=True)
        (self.path / "failures" / f"{chunk.id}.json").unlink(missing_ok=True)

    def tidy(self) -> None:
        """Remove what interrupted writers left; for when everything is done."""
        for folder in (self.path, *(self.path / name for name in FOLDERS)):
            for file in folder.iterdir():
                if LEFT.fullmatch(file.name):
                    file.unlink(missing_ok=True)

    @property
    def needs_trust(self) -> bool:
        """Whether its runs need modules of the user's, which are imported only with trust."""
        experiment = self.experiment
        names = [spec.problem for spec in experiment.problems.values()]
        names += [spec.agent for spec in experiment.agents.values()]
        return any(map(is_users, names))

    def plan(self, *, trust: bool | None = None) -> Plan:
        """All that runs need, once it is clear that they would be the same as those here.

        `trust` is as for `check`.
        """
        if self.version != __version__:
            raise ForeignFolder(
                f"{self.path} was made by switchmdp {self.version}, this is "
                f"{__version__}: results of two versions are never mixed"
            )
        plan = check(self.experiment, self.module_folder(), trust=trust)
        if digest_of(plan) != self.digest:
            changed = sorted({m for m, _ in plan.modules.items() ^ self.modules.items()})
            raise ForeignFolder(
                f"{self.path} was made with other code: {', '.join(changed)} changed since"
            )
        return plan

    def module_folder(self) -> Path | None:
        """Where the user's modules were found."""
        try:
            found = json.loads((self.path / ORIGIN).read_bytes())["modules"]
        except (OSError, ValueError, KeyError, TypeError):
            return None
        return Path(found) if isinstance(found, str) else None

    def text(self) -> str:
        """The experiment as it was written; where that was damaged since, in our words."""
        with contextlib.suppress(OSError, UnicodeDecodeError, InvalidExperiment):
            text = (self.path / TEXT).read_bytes().decode()
            if loads(text).content() == self.experiment.content():
                return text
        return dumps(self.experiment)


def digest_of(plan: Plan) -> str:
    """What the results depend on: the experiment's content, the user's code, our version."""
    content = {
        "experiment": plan.experiment.content(), "modules": dict(plan.modules),
        "version": __version__, "format": FORMAT,
    }  # fmt: skip
    return hashlib.sha256(canonical(content)).hexdigest()


def create(path: str | os.PathLike[str], plan: Plan, text: str, modules: Path | None) -> Store:
    """Make a folder for an experiment, or open the one that is there if it is the same."""
    folder = Path(path)
    store = Store(
        folder, plan.experiment, digest_of(plan), __version__, plan.modules,
        block_sizes(plan),
    )  # fmt: skip
    there = folder.iterdir() if folder.is_dir() else [folder] if folder.exists() else []
    # In this order, or the manifest of one who makes the same folder now could come in between.
    if not all(map(_ours, there)) and not (folder / MANIFEST).exists():
        raise ForeignFolder(f"{folder} is not empty, and holds no experiment of ours")
    if (folder / MANIFEST).exists():
        found = open_store(folder)
        if found.digest != store.digest:
            raise ForeignFolder(
                f"{folder} holds the results of another configuration ({found.experiment.title!r}, "
                f"{found.digest[:12]}); choose another folder"
            )
        store = replace(store, blocks=found.blocks)
    for name in FOLDERS:
        (folder / name).mkdir(parents=True, exist_ok=True)
    if modules is not None and plan.modules:
        save_bytes(folder / ORIGIN, canonical({"modules": str(modules.resolve())}))
    save_bytes(folder / MANIFEST, _manifest(store))
    save_bytes(folder / TEXT, text.encode())
    return store


def _ours(entry: Path) -> bool:
    """What a writer that was interrupted before the manifest may have left."""
    if entry.name in FOLDERS:
        return entry.is_dir() and not any(entry.iterdir())
    return entry.name == ORIGIN or LEFT.fullmatch(entry.name) is not None


def _manifest(store: Store) -> bytes:
    content = {
        "format": FORMAT, "digest": store.digest, "version": store.version,
        "modules": dict(store.modules), "blocks": store.blocks,
        "experiment": store.experiment.model_dump(mode="json"),
    }  # fmt: skip
    return canonical({**content, "checksum": hashlib.sha256(canonical(content)).hexdigest()})


def open_store(path: str | os.PathLike[str]) -> Store:
    """Open a folder of results."""
    file = Path(path) / MANIFEST
    try:
        raw = file.read_bytes()
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
        raise ForeignFolder(f"{path} is no folder of results: there is no {MANIFEST}") from None
    try:
        content = json.loads(raw)
        checksum = content.pop("checksum")
        sound = checksum == hashlib.sha256(canonical(content)).hexdigest()
        store = Store(
            Path(path), parse(content["experiment"]), content["digest"], content["version"],
            content["modules"], tuple(tuple(map(int, sizes)) for sizes in content["blocks"]),
        )  # fmt: skip
        _must_make_sense(store)
    except (ValueError, KeyError, TypeError, AttributeError, ArithmeticError, RecursionError):
        raise DamagedFile(f"{file} is not the description of an experiment") from None
    if not sound or content.get("format") != FORMAT or _manifest(store) != raw:
        raise DamagedFile(f"{file} does not match its checksum")
    return store


def _must_make_sense(store: Store) -> None:
    """A checksum says that a manifest is complete, not who wrote it."""
    experiment, blocks = store.experiment, store.blocks
    settings, agents = count_variants(experiment.problems), count_variants(experiment.agents)
    if len(blocks) != settings or any(len(sizes) != agents for sizes in blocks):
        raise ValueError("blocks are not one size for each setting and agent")
    if any(size < 1 for sizes in blocks for size in sizes):
        raise ValueError("a block without problems")
    texts = (store.digest, store.version, *store.modules, *store.modules.values())
    if not all(isinstance(text, str) for text in texts):
        raise ValueError("digest, version and modules are texts")


def _must_have_shape(store: Store, chunk: Chunk, arrays: Arrays) -> None:
    n = len(chunk)
    expected: dict[str, tuple[tuple[int, ...] | None, Any]]
    if chunk.agent is None:
        expected = {
            "counts": ((n, 2), np.int64), "hardness": ((n, len(HARDNESS)), np.float64),
            "change_points": (None, np.int64), "gains": (None, np.float64),
        }  # fmt: skip
    else:
        empty = no_runs(n, store.experiment.points)
        expected = {name: (array.shape, array.dtype) for name, array in empty.items()}
        expected["restarts"] = (None, np.int64)
    for name, (shape, dtype) in expected.items():
        array = arrays.get(name)
        if array is None or array.dtype != dtype or not _has_shape(array, shape):
            raise DamagedFile(f"{store.chunk_path(chunk)}: {name} is not what it should be")


def _has_shape(array: NDArray[Any], shape: tuple[int, ...] | None) -> bool:
    """Whether an array has this shape or, where none is given, one dimension."""
    return array.ndim == 1 if shape is None else array.shape == shape
