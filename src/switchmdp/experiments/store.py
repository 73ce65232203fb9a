"""Stores of results: a folder, or memory.

    experiment.json     the experiment, its digest and the version that made it
    experiment.toml     the configuration as the user wrote it
    runs/ID.npz         one chunk each; a chunk is *done* if this file is complete and its checksum
                        is right
    failures/ID.json    tracebacks of the failed runs of the chunk
    timings/ID.json     wall times, which are not results

Every file is written under a temporary name, synced and renamed. There are no locks: two processes
that compute the same chunk write the same bytes. A folder of another experiment is refused.
"""

from __future__ import annotations

import contextlib
import hashlib
import inspect
import json
import os
import platform
import re
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, PositiveInt, ValidationError

from switchmdp.display import counted, shortened
from switchmdp.errors import DamagedFile, ForeignFolder, InvalidExperiment, InvalidParameter
from switchmdp.experiments.results import (
    HARDNESS,
    BlockSizes,
    Chunk,
    Results,
    Variant,
    all_chunks,
    assemble,
    count_variants,
    expand,
    no_runs,
)
from switchmdp.experiments.spec import Experiment, canonical, describe_error, dumps, loads
from switchmdp.storage import Arrays, load_arrays, save_arrays, save_bytes
from switchmdp.version import __version__

if TYPE_CHECKING:
    from switchmdp.experiments.chunks import Outcome
    from switchmdp.experiments.plan import Plan

FORMAT = 2
KIND = "chunk of runs"
MANIFEST, TEXT, ORIGIN = "experiment.json", "experiment.toml", "origin.json"
FOLDERS = ("runs", "failures", "timings")
VALID, MISSING = "valid", "missing"
TEMPORARY = re.compile(r"\..+\.(npz|json|toml)\.[0-9a-f]{12}")  # left by an interrupted writer


@dataclass(frozen=True)
class Store:
    """The folder of an experiment.

    Parameters
    ----------
    path
        The folder.
    experiment
        The experiment.
    digest
        The digest of all that the results depend on.
    version
        The version of switchmdp that computes the results.
    modules
        The digests of the user's modules.
    blocks
        The number of runs per chunk, for each setting and agent.
    """

    path: Path
    experiment: Experiment
    digest: str
    version: str
    modules: Mapping[str, str]
    blocks: BlockSizes

    def __repr__(self) -> str:
        path, title = shortened(str(self.path), 100), shortened(self.experiment.title, 50)
        return f"Store({path}, {title}, {self.digest[:12]})"

    def chunks(self) -> list[Chunk]:
        """All chunks, done or not."""
        return all_chunks(self.experiment.n_problems, self.blocks)

    def chunk_path(self, chunk: Chunk) -> Path:
        """The file of a chunk.

        Parameters
        ----------
        chunk
            A chunk.

        Returns
        -------
        Path
            The path of its file.
        """
        return self.path / "runs" / f"{chunk.id}.npz"

    def load(self, chunk: Chunk) -> tuple[dict[str, Any], Arrays]:
        """Read and validate a chunk.

        Parameters
        ----------
        chunk
            A chunk that is done.

        Returns
        -------
        tuple[dict[str, Any], Arrays]
            The header fields and the arrays.

        Raises
        ------
        DamagedFile
            If the file is damaged, or belongs to another experiment or chunk.
        FileNotFoundError
            If the chunk is not done.
        """
        fields, arrays = load_arrays(self.chunk_path(chunk), KIND)
        if fields.get("digest") != self.digest or fields.get("chunk") != chunk.id:
            raise DamagedFile(f"{self.chunk_path(chunk)} belongs to another experiment or chunk")
        if not isinstance(fields.get("parameters", {}), dict):
            raise DamagedFile(f"{self.chunk_path(chunk)}: parameters must be a table")
        _check_shapes(self, chunk, arrays)
        return fields, arrays

    def is_done(self, chunk: Chunk) -> bool:
        """Whether the chunk's file exists and is valid.

        Parameters
        ----------
        chunk
            A chunk.

        Returns
        -------
        bool
            Whether its file exists and is valid.
        """
        return inspect_chunk(self, chunk)[0] == VALID

    def commit(self, chunk: Chunk, outcome: Outcome) -> None:
        """Write a chunk: the failures and timings first, the file that makes it *done* last.

        Parameters
        ----------
        chunk
            A chunk.
        outcome
            Its results, failures and wall times.
        """
        name = f"{chunk.id}.json"
        if outcome.failures:
            save_bytes(self.path / "failures" / name, canonical(outcome.failures))
        else:
            (self.path / "failures" / name).unlink(missing_ok=True)
        save_bytes(self.path / "timings" / name, canonical(outcome.seconds))
        fields = {**outcome.fields, "digest": self.digest, "chunk": chunk.id}
        save_arrays(self.chunk_path(chunk), KIND, fields, outcome.arrays)

    def sidecar(self, folder: str, chunk: Chunk) -> Any:
        """The `failures` or `timings` of a chunk; None if there is no valid file.

        Parameters
        ----------
        folder
            `"failures"` or `"timings"`.
        chunk
            A chunk.

        Returns
        -------
        Any
            The content of the file; None if there is no valid file.
        """
        kind = dict if folder == "failures" else (int, float)
        with contextlib.suppress(OSError, ValueError):
            content = json.loads((self.path / folder / f"{chunk.id}.json").read_bytes())
            if isinstance(content, list) and all(isinstance(entry, kind) for entry in content):
                return content
        return None

    def delete_failed(self) -> None:
        """Delete the chunks with failed runs, so that they are computed again."""
        for chunk in self.chunks():
            if inspect_chunk(self, chunk)[1]:
                self.chunk_path(chunk).unlink(missing_ok=True)
                (self.path / "failures" / f"{chunk.id}.json").unlink(missing_ok=True)

    def make_folders(self) -> None:
        """Create the folders; a copy of the store may lack those that were empty."""
        for name in FOLDERS:
            (self.path / name).mkdir(parents=True, exist_ok=True)

    def tidy(self) -> None:
        """Delete the temporary files of interrupted writers, once everything is done."""
        for folder in (self.path, *(self.path / name for name in FOLDERS)):
            for file in folder.iterdir():
                if TEMPORARY.fullmatch(file.name):
                    file.unlink(missing_ok=True)

    def plan(self, *, trust: bool | None = None) -> Plan:
        """The plan of the runs.

        Parameters
        ----------
        trust
            Whether user modules may be imported, and so run; by default whether SWITCHMDP_TRUST is
            1.

        Returns
        -------
        Plan
            The plan.

        Raises
        ------
        ForeignFolder
            If new runs would not match those in the folder.
        """
        if self.version != __version__:
            raise ForeignFolder(
                f"{self.path} was made by switchmdp {self.version}, but this is {__version__}: "
                "results of different versions can't be mixed"
            )
        from switchmdp.experiments.plan import check  # imports all agents, unlike reading

        plan = check(self.experiment, self.module_folder(), trust=trust)
        if digest_of(plan) != self.digest:
            changed = sorted({m for m, _ in plan.modules.items() ^ self.modules.items()})
            raise ForeignFolder(
                f"{self.path} was made with different code: {', '.join(changed)} changed"
            )
        return plan

    def module_folder(self) -> Path | None:
        """The folder of the user modules."""
        try:
            folder = json.loads((self.path / ORIGIN).read_bytes())["modules"]
        except (OSError, ValueError, KeyError, TypeError):
            return None
        return Path(folder) if isinstance(folder, str) else None

    def draws(self, setting: Variant) -> bool:
        """Whether the generator of a setting draws its problems, and so takes a seed.

        Parameters
        ----------
        setting
            A setting.

        Returns
        -------
        bool
            True also for a generator of the user's, which is not imported here.
        """
        from switchmdp.problems import PROBLEMS  # imports Numba

        factory = PROBLEMS.get(setting.source)
        return factory is None or "seed" in inspect.signature(factory).parameters

    def text(self) -> str:
        """The configuration as the user wrote it; if that file is damaged, an equivalent one."""
        with contextlib.suppress(OSError, UnicodeDecodeError, InvalidExperiment):
            text = (self.path / TEXT).read_bytes().decode()
            if loads(text).content() == self.experiment.content():
                return text
        return dumps(self.experiment)

    def provenance(self, missing: int) -> dict[str, str]:
        """The provenance of the results, for the report.

        Parameters
        ----------
        missing
            The number of runs that are not done.

        Returns
        -------
        dict[str, str]
            The versions, the digest and the seed.
        """
        total = sum(chunk.n_runs for chunk in self.chunks())
        return {
            "switchmdp": self.version,
            "configuration": self.digest,
            "seed": str(self.experiment.seed),
            "problems per setting": str(self.experiment.n_problems),
            "runs": f"{total - missing} of {total}: not complete" if missing else str(total),
            **_versions(),
            "rerun": "switchmdp run experiment.toml --out results"
            + " --trust" * self.experiment.needs_trust,
        }


@dataclass(frozen=True)
class MemoryStore:
    """Results in memory: a store without a folder.

    Parameters
    ----------
    planned
        The plan of the runs.
    outcomes
        The results of the chunks that are done.
    """

    planned: Plan
    outcomes: dict[Chunk, Outcome] = field(default_factory=dict)

    def __repr__(self) -> str:
        done = f"{len(self.outcomes)} of {len(self.chunks())} chunks done"
        return f"MemoryStore({shortened(self.experiment.title)}, {done})"

    @property
    def experiment(self) -> Experiment:
        """The experiment."""
        return self.planned.experiment

    def chunks(self) -> list[Chunk]:
        """All chunks, done or not.

        Those of a plain Python agent have one run each. Such an agent may be slow, and what an
        interruption loses is the chunks that were being computed.
        """
        from switchmdp.experiments.plan import block_sizes

        sizes, compiled = block_sizes(self.planned), self.planned.compiled
        blocks = [
            tuple(size if fast else 1 for size, fast in zip(of_setting, compiled, strict=True))
            for of_setting in sizes
        ]
        return all_chunks(self.experiment.n_problems, tuple(blocks))

    def load(self, chunk: Chunk) -> tuple[dict[str, Any], Arrays]:
        """A chunk's header fields and arrays.

        Parameters
        ----------
        chunk
            A chunk that is done.

        Returns
        -------
        tuple[dict[str, Any], Arrays]
            The header fields and the arrays.

        Raises
        ------
        FileNotFoundError
            If the chunk is not done.
        """
        if chunk not in self.outcomes:
            raise FileNotFoundError(f"chunk {chunk.id} is not done")
        return self.outcomes[chunk].fields, self.outcomes[chunk].arrays

    def commit(self, chunk: Chunk, outcome: Outcome) -> None:
        """Keep a chunk.

        Parameters
        ----------
        chunk
            A chunk.
        outcome
            Its results, failures and wall times.
        """
        self.outcomes[chunk] = outcome

    def sidecar(self, folder: str, chunk: Chunk) -> Any:
        """The `failures` or `timings` of a chunk.

        Parameters
        ----------
        folder
            `"failures"` or `"timings"`.
        chunk
            A chunk.

        Returns
        -------
        Any
            The failures or wall times.
        """
        outcome = self.outcomes[chunk]
        return outcome.failures if folder == "failures" else outcome.seconds

    def tidy(self) -> None:
        """There is nothing to delete."""

    def draws(self, setting: Variant) -> bool:
        """Whether the generator of a setting draws its problems, and so takes a seed.

        Parameters
        ----------
        setting
            A setting.

        Returns
        -------
        bool
            Whether it has a parameter `seed`.
        """
        from switchmdp.experiments.names import accepts  # imports all agents

        return accepts(self.planned.generators[setting.source], "seed")

    def text(self) -> str:
        """There is no file."""
        return ""

    def provenance(self, missing: int) -> dict[str, str]:
        """The versions and the seed.

        Parameters
        ----------
        missing
            The number of runs that are not done.

        Returns
        -------
        dict[str, str]
            The versions and the seed.
        """
        return {"switchmdp": __version__, "seed": str(self.experiment.seed), **_versions()}


AnyStore = Store | MemoryStore


def inspect_chunk(store: AnyStore, chunk: Chunk) -> tuple[str, int]:
    """VALID, MISSING or the fault of a chunk, and the number of its failed runs.

    The second number of a chunk of facts is the number of problems that could not be made.
    """
    try:
        _, arrays = store.load(chunk)
    except FileNotFoundError:
        return MISSING, 0
    except DamagedFile as error:
        return str(error), 0
    if chunk.agent is None:
        return VALID, len(store.sidecar("failures", chunk) or [])
    return VALID, int(arrays["failed"].sum())


def load_results(store: AnyStore) -> Results:
    """The results of all completed runs.

    A run that is not done is NaN, and does not count as failed.

    Parameters
    ----------
    store
        The folder, or memory, of the results.

    Returns
    -------
    Results
        The results.

    Raises
    ------
    DamagedFile
        If the folder or a chunk is damaged.
    InvalidParameter
        If `store` is something else, such as the path of a folder.

    Examples
    --------
    >>> import tempfile
    >>> from switchmdp.experiments import prepare
    >>> with tempfile.TemporaryDirectory() as parent:
    ...     store, plan = prepare("figure-1", Path(parent, "results"), n_problems=2)
    ...     results = load_results(store)
    >>> len(results.settings), results.provenance["seed"] == str(store.experiment.seed)
    (2, True)
    """
    if not isinstance(store, (Store, MemoryStore)):
        raise InvalidParameter("store", store, "a Store, such as open_store(folder)")
    parts: dict[tuple[int, int | None], list[tuple[Chunk, dict[str, Any], Arrays]]] = {}
    failures: list[dict[str, Any]] = []
    seconds: dict[Chunk, list[float]] = {}
    missing = 0
    for chunk in store.chunks():
        try:
            fields, arrays = store.load(chunk)
        except FileNotFoundError:
            missing += chunk.n_runs
            continue
        parts.setdefault((chunk.setting, chunk.agent), []).append((chunk, fields, arrays))
        failures += store.sidecar("failures", chunk) or []
        timings = store.sidecar("timings", chunk) or []
        if len(timings) == len(chunk):
            seconds[chunk] = timings
    provenance = store.provenance(missing)
    return assemble(
        store.experiment, parts, seconds, tuple(failures), store.text(), provenance, store.draws
    )


def _versions() -> dict[str, str]:
    """The versions of everything else that results may depend on."""
    return {
        "Python": platform.python_version(),
        **{name: version(name) for name in ("numpy", "numba", "scipy") if find_spec(name)},
        "platform": f"{platform.system()} {platform.machine()}",
    }


def digest_of(plan: Plan) -> str:
    """SHA-256 of everything that determines the results: experiment, user modules, version."""
    content = {
        "experiment": plan.experiment.content(), "modules": dict(plan.modules),
        "version": __version__, "format": FORMAT,
    }  # fmt: skip
    return hashlib.sha256(canonical(content)).hexdigest()


def create(path: str | os.PathLike[str], plan: Plan, text: str, modules: Path | None) -> Store:
    """Create the folder of an experiment, or open the existing folder of the same experiment.

    Parameters
    ----------
    path
        The folder.
    plan
        The plan of the runs.
    text
        The configuration as the user wrote it.
    modules
        The folder of the user's modules.

    Returns
    -------
    Store
        The folder, with everything that was computed before.

    Raises
    ------
    ForeignFolder
        If the folder contains something else.

    Examples
    --------
    >>> import tempfile
    >>> from switchmdp.experiments import check, loads, shipped
    >>> text = shipped()["figure-1"]
    >>> with tempfile.TemporaryDirectory() as parent:
    ...     store = create(Path(parent, "results"), check(loads(text)), text, None)
    ...     sorted(path.name for path in store.path.iterdir())
    ['experiment.json', 'experiment.toml', 'failures', 'runs', 'timings']
    """
    from switchmdp.experiments.plan import block_sizes

    folder = Path(path)
    store = Store(
        folder, plan.experiment, digest_of(plan), __version__, plan.modules,
        block_sizes(plan),
    )  # fmt: skip
    entries = folder.iterdir() if folder.is_dir() else [folder] if folder.exists() else []
    # In this order: another process may be creating the same folder at the same time.
    if not all(map(_is_left_over, entries)) and not (folder / MANIFEST).exists():
        other = "not empty and is not the folder of an experiment" if folder.is_dir() else "a file"
        raise ForeignFolder(f"{folder} is {other}")
    if (folder / MANIFEST).exists():
        existing = open_store(folder)
        if existing.digest != store.digest:
            raise ForeignFolder(
                f"{folder} has the results of another configuration "
                f"({existing.experiment.title!r}, {existing.digest[:12]}): the experiment, an "
                "agent or its parameters have changed since; pass --out FOLDER, or delete this one"
            )
        store = replace(store, blocks=existing.blocks)
    store.make_folders()
    if modules is not None and plan.modules:
        save_bytes(folder / ORIGIN, canonical({"modules": str(modules.resolve())}))
    save_bytes(folder / MANIFEST, _manifest(store))
    save_bytes(folder / TEXT, text.encode())
    return store


def _is_left_over(entry: Path) -> bool:
    """Whether a process that was interrupted before it wrote the manifest may have left this."""
    if entry.name in FOLDERS:
        return entry.is_dir() and not any(entry.iterdir())
    return entry.name == ORIGIN or TEMPORARY.fullmatch(entry.name) is not None


def _manifest(store: Store) -> bytes:
    content = {
        "format": FORMAT, "digest": store.digest, "version": store.version,
        "modules": dict(store.modules), "blocks": store.blocks,
        "experiment": store.experiment.model_dump(mode="json"),
    }  # fmt: skip
    return canonical({**content, "checksum": hashlib.sha256(canonical(content)).hexdigest()})


class _Manifest(BaseModel):
    """The content of a folder of results, as described by its manifest."""

    model_config = ConfigDict(strict=True, extra="forbid")

    format: Literal[2]
    digest: str
    version: str
    modules: dict[str, str]
    blocks: tuple[tuple[PositiveInt, ...], ...]
    experiment: Experiment
    checksum: str


def open_store(path: str | os.PathLike[str]) -> Store:
    """Open a folder of results.

    Parameters
    ----------
    path
        The folder.

    Returns
    -------
    Store
        The folder.

    Raises
    ------
    ForeignFolder
        If it is not a folder of results.
    DamagedFile
        If the manifest is damaged.

    Examples
    --------
    >>> import tempfile
    >>> from switchmdp.experiments import prepare
    >>> with tempfile.TemporaryDirectory() as parent:
    ...     store, plan = prepare("figure-1", Path(parent, "results"))
    ...     open_store(store.path) == store
    True
    """
    file = Path(path) / MANIFEST
    try:
        raw = file.read_bytes()
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
        raise ForeignFolder(f"{path} is not a folder of results: it has no {MANIFEST}") from None
    try:
        content = _Manifest.model_validate_json(raw)
        settings = count_variants(content.experiment.problems)
        agents = count_variants(content.experiment.agents)
    except (ValidationError, TypeError):
        raise DamagedFile(f"{file} does not describe an experiment") from None
    store = Store(
        Path(path), content.experiment, content.digest, content.version, content.modules,
        content.blocks,
    )  # fmt: skip
    if len(store.blocks) != settings or any(len(sizes) != agents for sizes in store.blocks):
        raise DamagedFile(f"{file} must have one block size for each setting and agent")
    if _manifest(store) != raw:
        raise DamagedFile(f"{file} does not match its checksum")
    return store


def _check_shapes(store: Store, chunk: Chunk, arrays: Arrays) -> None:
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
            raise DamagedFile(f"{store.chunk_path(chunk)}: {name} has the wrong type or shape")


def _has_shape(array: NDArray[Any], shape: tuple[int, ...] | None) -> bool:
    """Whether an array has this shape; None: any shape with one dimension."""
    return array.ndim == 1 if shape is None else array.shape == shape


# Status and verification of a folder.


@dataclass
class PairingStatus:
    """The runs of one agent in one setting."""

    setting: str
    agent: str
    done: int = 0
    runs: int = 0
    failed: int = 0


@dataclass(frozen=True)
class Status:
    """The progress of a stored experiment.

    Parameters
    ----------
    pairings
        The number of done and failed runs of each agent in each setting.
    damaged
        What is wrong with each damaged chunk.
    failures
        The setting, agent, problem, error and traceback of each failed run.
    """

    pairings: list[PairingStatus]  # settings × agents
    damaged: list[str]  # a description of each damaged chunk
    failures: list[dict[str, Any]]  # setting, agent, problem, error, traceback

    def __repr__(self) -> str:
        runs = f"{self.done} of {self.runs} runs done, {self.failed} failed"
        return f"Status({runs}, {counted(len(self.damaged), 'chunk')} damaged)"

    @property
    def done(self) -> int:
        """The number of runs that are done, including failed ones."""
        return sum(pairing.done for pairing in self.pairings)

    @property
    def runs(self) -> int:
        """The total number of runs."""
        return sum(pairing.runs for pairing in self.pairings)

    @property
    def failed(self) -> int:
        """The number of failed runs."""
        return sum(pairing.failed for pairing in self.pairings)


def status(store: Store) -> Status:
    """Count completed, missing, damaged and failed runs, by setting and agent.

    Parameters
    ----------
    store
        The folder of the results.

    Returns
    -------
    Status
        What is done.

    Examples
    --------
    >>> import tempfile
    >>> from switchmdp.experiments import prepare
    >>> with tempfile.TemporaryDirectory() as parent:
    ...     store, plan = prepare("figure-1", Path(parent, "results"), n_problems=2)
    ...     now = status(store)
    >>> now.done, now.runs
    (0, 20)
    """
    settings, agents = expand(store.experiment.problems), expand(store.experiment.agents)
    pairings = {
        (s, a): PairingStatus(setting.name, agent.name)
        for s, setting in enumerate(settings)
        for a, agent in enumerate(agents)
    }
    damaged: list[str] = []
    failures: list[dict[str, Any]] = []
    for chunk in store.chunks():
        state, failed = inspect_chunk(store, chunk)
        damaged += [state] if state not in (VALID, MISSING) else []
        failures += store.sidecar("failures", chunk) or []
        if chunk.agent is not None:
            pairing = pairings[chunk.setting, chunk.agent]
            pairing.runs += len(chunk)
            pairing.done += len(chunk) * (state == VALID)
            pairing.failed += failed
    return Status(list(pairings.values()), damaged, failures)


@dataclass(frozen=True)
class Verification:
    """The number of valid chunks, and the faults of the others.

    Parameters
    ----------
    valid
        The number of valid chunks.
    missing
        The number of chunks that are not done.
    bad
        What is wrong with a chunk or file, by name.
    damaged
        Whether resuming would repair something.
    recomputed
        The number of chunks that were computed again.
    """

    valid: int
    missing: int
    bad: Mapping[str, str]  # chunk or file -> its fault
    damaged: bool  # whether resuming would repair something
    recomputed: int

    def __repr__(self) -> str:
        counts = f"{self.valid} valid, {self.missing} missing, {len(self.bad)} bad"
        return f"Verification({counts}, {self.recomputed} recomputed)"


def verify(store: Store, *, recompute: int = 0, trust: bool | None = None) -> Verification:
    """Check every chunk against its checksum, and compute some of them again.

    Parameters
    ----------
    store
        The folder of the results.
    recompute
        How many chunks to compute again, and to compare byte for byte.
    trust
        Whether user modules may be imported, and so run; by default whether SWITCHMDP_TRUST is 1.

    Returns
    -------
    Verification
        What is valid, missing and bad.

    Examples
    --------
    >>> import tempfile
    >>> from switchmdp.experiments import prepare
    >>> with tempfile.TemporaryDirectory() as parent:
    ...     store, plan = prepare("figure-1", Path(parent, "results"), n_problems=2)
    ...     verify(store).missing == len(store.chunks())
    True
    """
    states = {chunk: inspect_chunk(store, chunk)[0] for chunk in store.chunks()}
    valid = [chunk for chunk, state in states.items() if state == VALID]
    bad = {c.id: state for c, state in states.items() if state not in (VALID, MISSING)}
    damaged = bool(bad)
    known = {store.chunk_path(chunk).name for chunk in states}
    for file in sorted((store.path / "runs").glob("[!.]*")):
        if file.name not in known:
            bad[file.name] = "not a file of this experiment"
    places = np.linspace(0, len(valid) - 1, min(recompute, len(valid))).round().astype(int)
    chosen = [valid[i] for i in np.unique(places)]
    if chosen:
        bad |= _recompute(store, chosen, trust)
    missing = list(states.values()).count(MISSING)
    return Verification(len(valid), missing, bad, damaged, len(chosen))


def _recompute(store: Store, chunks: list[Chunk], trust: bool | None) -> dict[str, str]:
    """Compute chunks again in a temporary folder; returns those whose bytes differ."""
    from switchmdp.experiments.chunks import compute

    plan = store.plan(trust=trust)
    bad = {}
    with tempfile.TemporaryDirectory() as scratch:
        copy = replace(store, path=Path(scratch))
        copy.make_folders()
        for chunk in chunks:
            try:
                copy.commit(chunk, compute(plan, chunk))
            except (OSError, MemoryError) as error:
                bad[chunk.id] = f"can't be computed again: {describe_error(error)}"
                continue
            if store.chunk_path(chunk).read_bytes() != copy.chunk_path(chunk).read_bytes():
                bad[chunk.id] = "computing it again gives different bytes"
    return bad
