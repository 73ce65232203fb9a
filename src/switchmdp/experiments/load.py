"""A folder's chunks, put together: from disk to `Results`."""

from __future__ import annotations

import platform
from importlib.metadata import version
from typing import Any

import numpy as np

from switchmdp.errors import DamagedFile
from switchmdp.experiments.build import Variant, expand
from switchmdp.experiments.layout import Chunk
from switchmdp.experiments.results import HARDNESS, Results, Runs, Setting, no_runs
from switchmdp.experiments.spec import Experiment
from switchmdp.experiments.store import Store
from switchmdp.storage import Arrays
from switchmdp.validation import check_increasing_steps


def load_results(store: Store) -> Results:
    """Everything that is done; a run that is not is NaN, and counts as neither good nor failed."""
    parts: dict[tuple[int, int | None], list[tuple[Chunk, dict[str, Any], Arrays]]] = {}
    failures: list[dict[str, Any]] = []
    missing = 0
    for chunk in store.chunks():
        try:
            fields, arrays = store.load(chunk)
        except FileNotFoundError:
            missing += len(chunk) if chunk.agent is not None else 0
            continue
        parts.setdefault((chunk.setting, chunk.agent), []).append((chunk, fields, arrays))
        failures += store.sidecar("failures", chunk) or []
    seconds = {
        chunk: found
        for part in parts.values()
        for chunk, _, _ in part
        if len(found := store.sidecar("timings", chunk) or []) == len(chunk)
    }
    return assemble(
        store.experiment, parts, seconds, tuple(failures), store.text(), provenance(store, missing)
    )


def versions() -> dict[str, str]:
    """What else results may depend on."""
    return {
        "Python": platform.python_version(),
        **{name: version(name) for name in ("numpy", "numba", "scipy")},
        "platform": f"{platform.system()} {platform.machine()}",
    }


def assemble(
    experiment: Experiment, parts: Any, seconds: Any, failures: Any, text: str,
    origin: dict[str, str],
) -> Results:  # fmt: skip
    """Results from (chunk, fields, arrays) by setting and agent."""
    agents = expand(experiment.agents)
    grid, horizon = experiment.grid, experiment.horizon
    times = np.minimum(np.arange(grid, horizon + grid, grid, dtype=np.int64), horizon)
    settings = {}
    for s, variant in enumerate(expand(experiment.problems)):
        runs = {
            agent.name: _runs(agent, parts.get((s, a), []), seconds, experiment)
            for a, agent in enumerate(agents)
        }
        points, gains, hardness = _facts(parts.get((s, None), []), experiment.n_problems)
        settings[variant.name] = Setting(
            variant.name, times, points, gains, hardness, runs,
            base=variant.base, swept=variant.swept, parameters=variant.parameters,
        )  # fmt: skip
    return Results(
        experiment.title, experiment.epsilon, settings, experiment.claims, text, origin, failures
    )


def _runs(variant: Variant, part: Any, seconds: Any, experiment: Experiment) -> Runs:
    n = experiment.n_problems
    whole: Arrays = no_runs(n, experiment.points)
    took = np.full(n, np.nan)
    parameters: dict[str, Any] = {}
    restarts: list[Any] = [None] * n
    for chunk, fields, arrays in part:
        here = slice(chunk.first, chunk.last)
        restarts[here] = _restarts(chunk, arrays)
        for name, array in whole.items():
            array[here] = arrays[name]
        parameters = parameters or fields.get("parameters", {})
        if chunk in seconds:
            took[here] = seconds[chunk]
    took[whole["failed"]] = np.nan
    del whole["n_restarts"]
    return Runs(
        **whole, seconds=took, base=variant.base, swept=variant.swept, parameters=parameters,
        restarts=tuple(restarts),
    )  # fmt: skip


def _restarts(chunk: Chunk, arrays: Arrays) -> list[Any]:
    """The restarts of each run of a chunk, None where they are not known."""
    counts, steps = arrays["n_restarts"], arrays["restarts"]
    known = np.maximum(counts, 0)
    if (known > len(steps)).any() or known.sum() != len(steps):  # else the sum may wrap around
        raise DamagedFile(f"chunk {chunk.id}: the counts do not fit the restarts")
    parts = np.split(steps, np.cumsum(known)[:-1])
    return [part if n >= 0 else None for n, part in zip(counts, parts, strict=True)]


def _change_points(chunk: Chunk, arrays: Arrays, cuts: Any) -> list[Any]:
    """The change points of each problem of a chunk."""
    try:
        return [check_increasing_steps(part) for part in np.split(arrays["change_points"], cuts)]
    except ValueError as error:
        raise DamagedFile(f"chunk {chunk.id}: change points {error}") from None


def _facts(part: Any, n: int) -> tuple[Any, Any, dict[str, Any]]:
    points = [np.zeros(0, np.int64)] * n
    gains = [np.zeros(0)] * n
    hardness = np.full((n, len(HARDNESS)), np.nan)
    for chunk, _, arrays in part:
        counts = arrays["counts"]
        there = [len(arrays[k]) for k in ("change_points", "gains")]
        within = (counts >= 0).all() and (counts <= there).all()  # else the sums may wrap around
        if not within or counts.sum(axis=0).tolist() != there:
            raise DamagedFile(f"chunk {chunk.id}: the counts do not fit the change points")
        cuts = np.cumsum(counts, axis=0)[:-1]
        points[chunk.first : chunk.last] = _change_points(chunk, arrays, cuts[:, 0])
        gains[chunk.first : chunk.last] = np.split(arrays["gains"], cuts[:, 1])
        hardness[chunk.first : chunk.last] = arrays["hardness"]
    return tuple(points), tuple(gains), dict(zip(HARDNESS, hardness.T, strict=True))


def provenance(store: Store, missing: int) -> dict[str, str]:
    """Where results come from, in words."""
    experiment = store.experiment
    total = sum(len(chunk) for chunk in store.chunks() if chunk.agent is not None)
    return {
        "switchmdp": store.version,
        "configuration": store.digest,
        "seed": str(experiment.seed),
        "problems per setting": str(experiment.n_problems),
        "runs": f"{total}" if not missing else f"{total - missing} of {total}: not complete",
        **versions(),
        "rerun": "switchmdp run experiment.toml --out results" + " --trust" * store.needs_trust,
    }
