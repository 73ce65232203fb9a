"""status, verify, export, agents, problems: looking at what is there."""

from __future__ import annotations

import inspect
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import click
import numpy as np

from switchmdp.cli import DAMAGED, FAILED, FINE
from switchmdp.cli.progress import say_json
from switchmdp.errors import DamagedFile, MissingExtra
from switchmdp.experiments.build import accepts, expand
from switchmdp.experiments.chunks import Chunk, compute
from switchmdp.experiments.load import load_results
from switchmdp.experiments.store import Store, open_store


def show_status(folder: Path, as_json: bool) -> int:
    """Done, missing, damaged and failed, by setting and agent."""
    store = open_store(folder)
    rows, damaged = _progress_by_lane(store)
    failures = [f for c in store.chunks() for f in store.sidecar("failures", c) or []]
    done, total = sum(r["done"] for r in rows), sum(r["runs"] for r in rows)
    code = DAMAGED if damaged else FAILED if failures else FINE
    if as_json:
        say_json(
            "status", folder=str(folder), title=store.experiment.title, digest=store.digest,
            done=done, runs=total, failed=len(failures), damaged=damaged, lanes=rows, exit=code,
        )  # fmt: skip
        return code
    click.echo(f"{store.experiment.title}\n{done} of {total} runs done, {len(failures)} failed")
    for row in rows:
        click.echo(f"  {row['setting']}, {row['agent']}: {row['done']} of {row['runs']}")
    for failure in failures[:5]:
        where = f"{failure['agent'] or 'problem'}, {failure['setting']}, #{failure['problem']}"
        click.echo(f"  failed: {where}: {failure['error']}")
    for name in damaged:
        click.echo(f"  damaged: {name}")
    if done < total or damaged:
        click.echo(f"go on with: switchmdp resume {folder}")
    return code


def _progress_by_lane(store: Store) -> tuple[list[dict[str, Any]], list[str]]:
    settings, agents = expand(store.experiment.problems), expand(store.experiment.agents)
    rows = {
        (s, a): {"setting": one.name, "agent": two.name, "done": 0, "runs": 0}
        for s, one in enumerate(settings)
        for a, two in enumerate(agents)
    }
    damaged = []
    for chunk in store.chunks():
        state = _state(store, chunk)
        if state not in ("sound", "missing"):
            damaged.append(f"{store.chunk_path(chunk).name}: {state}")
        if chunk.agent is not None:
            rows[chunk.setting, chunk.agent]["runs"] += len(chunk)  # type: ignore[operator]
            rows[chunk.setting, chunk.agent]["done"] += len(chunk) * (state == "sound")  # type: ignore[operator]
    return list(rows.values()), damaged


def _state(store: Store, chunk: Chunk) -> str:
    try:
        store.load(chunk)
    except FileNotFoundError:
        return "missing"
    except DamagedFile as error:
        return str(error)
    return "sound"


def verify_folder(folder: Path, recompute: int, as_json: bool) -> int:
    """Recompute every checksum and, for some chunks, every byte."""
    store = open_store(folder)
    states = {chunk: _state(store, chunk) for chunk in store.chunks()}
    sound = [chunk for chunk, state in states.items() if state == "sound"]
    bad = {c.id: state for c, state in states.items() if state not in ("sound", "missing")}
    known = {store.chunk_path(chunk).name for chunk in states}
    for file in sorted((store.path / "runs").iterdir()):
        if file.name not in known and not file.name.startswith("."):
            bad[file.name] = "not a file of this experiment"
    chosen = _spread(sound, recompute)
    if chosen:
        plan = store.plan()
        with tempfile.TemporaryDirectory() as scratch:
            copy = Store(Path(scratch), *(getattr(store, n) for n in _COPIED))
            for name in ("runs", "failures", "timings"):
                (copy.path / name).mkdir()
            for chunk in chosen:
                copy.commit(chunk, compute(plan, chunk))
                if copy.chunk_path(chunk).read_bytes() != store.chunk_path(chunk).read_bytes():
                    bad[chunk.id] = "running it again gives other bytes"
    code = DAMAGED if bad else FINE
    missing = sum(state == "missing" for state in states.values())
    if as_json:
        say_json(
            "verified", sound=len(sound), missing=missing, bad=bad, recomputed=len(chosen),
            exit=code,
        )  # fmt: skip
        return code
    click.echo(f"{len(sound)} chunks are sound, {missing} not done yet, {len(bad)} bad")
    if chosen:
        click.echo(f"{len(chosen)} computed again")
    for name, reason in bad.items():
        click.echo(f"  {name}: {reason}")
    if any(state not in ("sound", "missing") for state in states.values()):
        click.echo(f"damaged chunks are computed again by: switchmdp resume {folder}")
    return code


_COPIED = ("experiment", "digest", "version", "modules", "blocks")


def _spread(chunks: list[Chunk], n: int) -> list[Chunk]:
    """n of them, evenly over the whole."""
    where = np.unique(np.linspace(0, len(chunks) - 1, min(n, len(chunks))).round().astype(int))
    return [chunks[i] for i in where] if n and chunks else []


def export_folder(folder: Path, formats: tuple[str, ...], out: Path | None) -> int:
    """Tidy tables of everything that is done."""
    from switchmdp.reports.export import export_tables

    results = load_results(open_store(folder))
    target = out or folder / "export"
    try:
        files = export_tables(results, target, formats or ("csv", "parquet"))
    except MissingExtra as error:
        if formats:
            raise
        click.echo(f"only CSV: {error}", err=True)
        files = export_tables(results, target, ("csv",))
    for file in files:
        click.echo(file)
    return FINE


def show_registry(registry: Mapping[str, Callable[..., Any]], given: tuple[str, ...]) -> None:
    """Names, first lines of their docs, and parameters with their defaults."""
    for name, found in registry.items():
        first = (inspect.getdoc(found) or "").partition("\n")[0]
        click.echo(click.style(name, bold=True) + f"  {first}")
        for parameter in inspect.signature(found).parameters.values():
            if parameter.name not in given and accepts(found, parameter.name):
                empty = parameter.default is inspect.Parameter.empty
                default = getattr(parameter.default, "__name__", parameter.default)
                click.echo(f"    {parameter.name}" + ("" if empty else f" = {default}"))
