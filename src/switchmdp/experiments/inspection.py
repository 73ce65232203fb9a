"""Inspect the folder of an experiment: how far it is, and whether its files are intact."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from switchmdp.errors import DamagedFile
from switchmdp.experiments.execute import run_chunks
from switchmdp.experiments.plan import Chunk, expand
from switchmdp.experiments.store import Store

VALID, MISSING = "valid", "missing"


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
    """How much of an experiment is done."""

    pairings: list[PairingStatus]  # settings × agents
    damaged: list[str]  # what is wrong with each damaged chunk
    failures: list[dict[str, Any]]  # setting, agent, problem, error, traceback

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
    """Count what is done, missing, damaged and failed, by setting and agent."""
    settings, agents = expand(store.experiment.problems), expand(store.experiment.agents)
    pairings = {
        (s, a): PairingStatus(setting.name, agent.name)
        for s, setting in enumerate(settings)
        for a, agent in enumerate(agents)
    }
    damaged: list[str] = []
    failures: list[dict[str, Any]] = []
    for chunk in store.chunks():
        state = _state(store, chunk)
        if state not in (VALID, MISSING):
            damaged.append(state)
        if chunk.agent is not None:
            pairing = pairings[chunk.setting, chunk.agent]
            pairing.runs += len(chunk)
            pairing.done += len(chunk) * (state == VALID)
            pairing.failed += count_failed(store, chunk)
        failures += store.sidecar("failures", chunk) or []
    return Status(list(pairings.values()), damaged, failures)


def count_failed(store: Store, chunk: Chunk) -> int:
    """How many runs of a chunk failed; for facts, how many problems could not be made."""
    try:
        _, arrays = store.load(chunk)
    except (FileNotFoundError, DamagedFile):
        return 0
    if chunk.agent is not None:
        return int(arrays["failed"].sum())
    return len(store.sidecar("failures", chunk) or [])


def _state(store: Store, chunk: Chunk) -> str:
    try:
        store.load(chunk)
    except FileNotFoundError:
        return MISSING
    except DamagedFile as error:
        return str(error)
    return VALID


@dataclass(frozen=True)
class Verification:
    """Which chunks are valid, and what is wrong with the others."""

    valid: int
    missing: int
    bad: Mapping[str, str]  # chunk or file -> what is wrong with it
    damaged: bool  # whether resuming would repair something
    recomputed: int


def verify(store: Store, *, recompute: int = 0, trust: bool | None = None) -> Verification:
    """Check every chunk against its checksum; compute `recompute` of them again and compare."""
    states = {chunk: _state(store, chunk) for chunk in store.chunks()}
    valid = [chunk for chunk, state in states.items() if state == VALID]
    bad = {c.id: state for c, state in states.items() if state not in (VALID, MISSING)}
    damaged = bool(bad)
    known = {store.chunk_path(chunk).name for chunk in states}
    for file in sorted((store.path / "runs").glob("[!.]*")):
        if file.name not in known:
            bad[file.name] = "not a file of this experiment"
    chosen = _evenly_spaced(valid, recompute)
    if chosen:
        bad |= _recompute(store, chosen, trust)
    missing = sum(state == MISSING for state in states.values())
    return Verification(len(valid), missing, bad, damaged, len(chosen))


def _evenly_spaced(chunks: list[Chunk], n: int) -> list[Chunk]:
    """n of the chunks, spread evenly over all of them."""
    places = np.unique(np.linspace(0, len(chunks) - 1, min(n, len(chunks))).round().astype(int))
    return [chunks[i] for i in places]


def _recompute(store: Store, chunks: list[Chunk], trust: bool | None) -> dict[str, str]:
    """Compute chunks again in a temporary folder; returns those whose bytes differ."""
    plan = store.plan(trust=trust)
    with tempfile.TemporaryDirectory() as scratch:
        copy = replace(store, path=Path(scratch))
        copy.make_folders()
        progress = run_chunks(copy, plan, only=chunks, jobs=1, executor="threads")
        bad = {report.chunk: f"can't be computed again: {report.error}" for report in progress.lost}
        for chunk in chunks:
            if chunk.id not in bad:
                old, new = (one.chunk_path(chunk).read_bytes() for one in (store, copy))
                if old != new:
                    bad[chunk.id] = "computing it again gives different bytes"
    return bad
