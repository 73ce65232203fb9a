"""status, verify, export: looking at what is there."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from switchmdp.cli import DAMAGED, FAILED, FINE
from switchmdp.cli.say import command, printable, say, say_json, tell
from switchmdp.errors import DamagedFile, MissingExtra
from switchmdp.experiments.build import expand
from switchmdp.experiments.chunks import compute
from switchmdp.experiments.layout import Chunk
from switchmdp.experiments.load import load_results
from switchmdp.experiments.results import Results
from switchmdp.experiments.store import FOLDERS, Store, open_store

SHOWN = 3  # failures whose tracebacks are shown


def load_all(folder: Path) -> Results:
    """Everything that is done; a damaged chunk is no reason to give up for good."""
    store = open_store(folder)
    try:
        return load_results(store)
    except DamagedFile as error:
        raise DamagedFile(f"{error}\n  to run it again: {resuming(store)}") from None


def resuming(store: Store) -> str:
    """The command that goes on with a folder."""
    return command("resume", store.path, trust=store.needs_trust)


def failed_runs(store: Store, chunk: Chunk) -> int:
    """How many runs of a chunk failed, as the chunk itself says; of its problems likewise."""
    try:
        _, arrays = store.load(chunk)
    except (FileNotFoundError, DamagedFile):
        return 0
    if chunk.agent is not None:
        return int(arrays["failed"].sum())
    return len(store.sidecar("failures", chunk) or [])


def show_status(folder: Path, as_json: bool) -> int:
    """Done, missing, damaged and failed, by setting and agent."""
    store = open_store(folder)
    lanes, damaged = _lanes(store)
    failures = [f for c in store.chunks() for f in store.sidecar("failures", c) or []]
    done, runs, failed = (sum(lane[k] for lane in lanes) for k in ("done", "runs", "failed"))
    code = DAMAGED if damaged else FAILED if failed or failures else FINE
    if as_json:
        say_json(
            "status", folder=str(folder), title=store.experiment.title, digest=store.digest,
            done=done, runs=runs, failed=failed, damaged=damaged, lanes=lanes,
            failures=failures, exit=code,
        )  # fmt: skip
        return code
    say(f"{printable(store.experiment.title)}\n{done} of {runs} runs done, {failed} failed")
    for lane in lanes:
        end = f", {lane['failed']} failed" if lane["failed"] else ""
        name = printable(f"{lane['setting']}, {lane['agent']}")
        say(f"  {name}: {lane['done']} of {lane['runs']}{end}")
    _show_failures(failures)
    for name in damaged:
        say(f"  damaged: {printable(name)}")
    if done < runs or damaged:
        say(f"go on with: {resuming(store)}")
    return code


def _lanes(store: Store) -> tuple[list[dict[str, Any]], list[str]]:
    settings, agents = expand(store.experiment.problems), expand(store.experiment.agents)
    lanes: dict[Any, dict[str, Any]] = {
        (s, a): {"setting": one.name, "agent": two.name, "done": 0, "runs": 0, "failed": 0}
        for s, one in enumerate(settings)
        for a, two in enumerate(agents)
    }
    damaged = []
    for chunk in store.chunks():
        state = _state(store, chunk)
        if state not in ("sound", "missing"):
            damaged.append(state)
        if chunk.agent is not None:
            lane = lanes[chunk.setting, chunk.agent]
            lane["runs"] += len(chunk)
            lane["done"] += len(chunk) * (state == "sound")
            lane["failed"] += failed_runs(store, chunk)
    return list(lanes.values()), damaged


def _show_failures(failures: list[dict[str, Any]]) -> None:
    """One of each kind, with its traceback."""
    kinds = {(f.get("agent"), f.get("error")): f for f in reversed(failures)}
    for failure in [*reversed(kinds.values())][:SHOWN]:
        who, where = failure.get("agent") or "the problem itself", failure.get("setting")
        say(printable(f"  failed: {who} on {where}, problem {failure.get('problem')}"))
        for line in str(failure.get("traceback", "")).splitlines():
            say(f"    {printable(line)}")


def _state(store: Store, chunk: Chunk) -> str:
    try:
        store.load(chunk)
    except FileNotFoundError:
        return "missing"
    except DamagedFile as error:
        return str(error)
    return "sound"


def verify_folder(folder: Path, recompute: int, trust: bool | None, as_json: bool) -> int:
    """Recompute every checksum and, for some chunks, every byte."""
    store = open_store(folder)
    states = {chunk: _state(store, chunk) for chunk in store.chunks()}
    sound = [chunk for chunk, state in states.items() if state == "sound"]
    bad = {c.id: state for c, state in states.items() if state not in ("sound", "missing")}
    damaged = bool(bad)
    known = {store.chunk_path(chunk).name for chunk in states}
    for file in sorted((store.path / "runs").glob("[!.]*")):
        if file.name not in known:
            bad[file.name] = "not a file of this experiment"
    chosen = _spread(sound, recompute)
    bad |= dict.fromkeys(_differing(store, chosen, trust), "running it again gives other bytes")
    code = DAMAGED if bad else FINE
    missing = sum(state == "missing" for state in states.values())
    if as_json:
        say_json(
            "verified", sound=len(sound), missing=missing, bad=bad, recomputed=len(chosen),
            exit=code,
        )  # fmt: skip
        return code
    say(f"{len(sound)} chunks are sound, {missing} not done yet, {len(bad)} bad")
    if chosen:
        say(f"{len(chosen)} run again and compared byte by byte")
    for name, reason in bad.items():
        say(printable(f"  {name}: {reason}"))
    if damaged:
        say(f"damaged chunks are run again by: {resuming(store)}")
    return code


def _spread(chunks: list[Chunk], n: int) -> list[Chunk]:
    """n of them, evenly over the whole."""
    where = np.unique(np.linspace(0, len(chunks) - 1, min(n, len(chunks))).round().astype(int))
    return [chunks[i] for i in where]


def _differing(store: Store, chunks: list[Chunk], trust: bool | None) -> list[str]:
    """Run chunks again somewhere else; which of them come out differently?"""
    if not chunks:
        return []
    plan = store.plan(trust=trust)
    with tempfile.TemporaryDirectory() as scratch:
        copy = replace(store, path=Path(scratch))
        for name in FOLDERS:
            (copy.path / name).mkdir()
        for chunk in chunks:
            copy.commit(chunk, compute(plan, chunk))
        return [
            chunk.id
            for chunk in chunks
            if copy.chunk_path(chunk).read_bytes() != store.chunk_path(chunk).read_bytes()
        ]


def export_folder(folder: Path, formats: tuple[str, ...], out: Path | None, as_json: bool) -> int:
    """Tidy tables of everything that is done."""
    from switchmdp.reports.export import export_tables

    results = load_all(folder)
    target = out or folder / "export"
    try:
        files = export_tables(results, target, formats or ("csv", "parquet"))
    except MissingExtra as error:
        if formats:
            raise
        tell(f"only CSV: {error}")
        files = export_tables(results, target, ("csv",))
    if as_json:
        say_json("export", files=[str(file) for file in files])
    else:
        say("\n".join(map(str, files)))
    return FINE
