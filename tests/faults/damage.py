"""Flipped bits, truncated files, and folders of another experiment.

Of every kind of file in a folder of results, one after the other is damaged and looked at in all
the ways that there are. Damage to what results are made of (the manifest, the chunks) is detected
or changes no value. Damage to what goes with them (the text, the timings, the failures, the origin
of the user's modules) changes no value and stops nobody from reading them.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
from tests.faults.workbench import (
    HERE,
    here,
    results,
    temporary_files,
    write_experiment,
)
from tests.user_modules import isolated_user_modules

from switchmdp.errors import DamagedFile, ForeignFolder
from switchmdp.experiments.results import Results
from switchmdp.experiments.store import load_results, open_store

MODULE = "plain_agents_on_damaged_disks"
KINDS = {
    "manifest": "experiment.json", "chunk": "runs/*.npz", "text": "experiment.toml",
    "origin": "origin.json", "failures": "failures/*.json", "timings": "timings/*.json",
}  # fmt: skip
EVERY_COMMAND = 19  # one damaged folder in so many is looked at by every command

Damage = Callable[[bytes, np.random.Generator], bytes]


def flipped(content: bytes, rng: np.random.Generator) -> bytes:
    """One bit is another."""
    damaged = bytearray(content)
    damaged[int(rng.integers(len(content)))] ^= 1 << int(rng.integers(8))
    return bytes(damaged)


def truncated(content: bytes, rng: np.random.Generator) -> bytes:
    """The end is missing."""
    return content[: int(rng.integers(len(content)))]


def damaged_files(scratch: Path, flips: int, truncations: int) -> str:
    """Apply the given numbers of bit flips and truncations to all kinds of files."""
    with isolated_user_modules():
        config = write_experiment(scratch, horizon=40, agents=1, fragile=True, module=MODULE)
        folder = scratch / "folder"
        assert here("run", config, "--out", folder, *HERE) == 3
        sound = values(load_results(open_store(folder)))
        progress: Counter[str] = Counter()
        turns = [flipped] * flips + [truncated] * truncations
        for i, damage in enumerate(turns):
            kind = list(KINDS)[i % len(KINDS)]
            progress[_damaged(folder, kind, damage, i, sound)] += 1
    return (
        f"{flips} bit flips and {truncations} truncations over {len(KINDS)} kinds of files: "
        f"{progress['detected']} detected, {progress['harmless']} harmless, "
        f"{-(-len(turns) // EVERY_COMMAND)} of them looked at by every command"
    )


def _damaged(
    folder: Path, kind: str, damage: Damage, i: int, sound: Mapping[str, Any]
) -> str:  # fmt: skip
    """Damage one file of this kind, check the folder, and restore the file."""
    rng = np.random.default_rng([5, i])
    files = sorted(folder.glob(KINDS[kind]))
    file = files[int(rng.integers(len(files)))]
    before, whole = file.read_bytes(), results(folder)
    file.write_bytes(damage(before, rng))
    verdict = look(folder, sound)
    assert verdict == "harmless" or kind in ("manifest", "chunk"), f"#{i}: {file}"
    if i % EVERY_COMMAND == 0:
        _every_command(folder, kind, verdict, whole)
    file.write_bytes(before)
    return verdict


def look(folder: Path, sound: Mapping[str, Any]) -> str:
    """Read everything in the folder."""
    try:
        store = open_store(folder)
        done = [store.is_done(chunk) for chunk in store.chunks()]
        loaded = values(load_results(store))
    except (DamagedFile, ForeignFolder):
        return "detected"
    assert all(done)
    assert loaded.keys() == sound.keys()
    for name, value in sound.items():
        same = np.array_equal(loaded[name], value, equal_nan=value.dtype.kind == "f")
        assert same, f"{folder}: {name} has changed, and nothing was said"
    return "harmless"


def values(results: Results) -> dict[str, Any]:
    """All values by name, except wall time, messages and tracebacks."""
    flat: dict[str, Any] = {"title": np.array(results.title), "epsilon": np.array(results.epsilon)}
    for setting in results.settings.values():
        points = [*setting.change_points, *setting.gains, *setting.hardness.values()]
        flat |= {f"{setting.name} {i}": array for i, array in enumerate([setting.times, *points])}
        for name, runs in setting.agents.items():
            for field in fields(runs):
                if field.name != "seconds":
                    value = getattr(runs, field.name)
                    value = value if isinstance(value, np.ndarray) else np.array(repr(value))
                    flat[f"{setting.name} {name} {field.name}"] = value
    return flat


def _every_command(folder: Path, kind: str, verdict: str, whole: dict[str, bytes]) -> None:
    """status, verify, report, export and resume end with documented codes, and resume repairs."""
    codes = {
        "status": here("status", folder), "verify": here("verify", folder),
        "report": here("report", folder), "export": here("export", folder, "--format", "csv"),
    }  # fmt: skip
    if verdict == "detected":
        assert set(codes.values()) == {4}, codes
    else:
        assert codes == {"status": 3, "verify": 0, "report": 2, "export": 0}, codes
    resumed = here("resume", folder, *HERE)
    if kind == "manifest":
        assert resumed == (4 if verdict == "detected" else 3)
    elif kind == "origin":
        assert resumed in (2, 3, 4)  # 2: the modules can't be found
    else:
        assert resumed == 3
        assert verdict == "harmless" or results(folder) == whole
        assert not temporary_files(folder)


def foreign_folders(scratch: Path, count: int) -> str:
    """A folder holds one configuration; `count` others are rejected, and change no byte of it."""
    with isolated_user_modules():
        config = write_experiment(scratch, horizon=40, agents=1, module=MODULE)
        folder, text = scratch / "folder", config.read_text()
        assert here("run", config, "--out", folder, *HERE) == 0
        before = everything(folder)
        for i in range(count):
            config.write_text(other_configuration(text, i))
            assert here("run", config, "--out", folder, *HERE) == 4, f"#{i}"
            assert everything(folder) == before, f"#{i}"
        config.write_text(text)
        repaired = _repaired(folder, count)
        assert here("run", config, "--out", folder, *HERE) == 0
    return (
        f"{count} other configurations rejected with exit code 4, no byte changed; {repaired} "
        "damaged chunks computed again to the same bytes by resume"
    )


def other_configuration(text: str, i: int) -> str:
    """The configuration with one number changed: seed, horizon, problems, sizes or sweeps."""
    numbers = list(re.finditer(r"(?<=[ \[])\d+", text))
    one = numbers[i % len(numbers)]
    return text[: one.start()] + str(int(one[0]) + 10 + i // len(numbers)) + text[one.end() :]


def everything(folder: Path) -> dict[str, bytes]:
    """Every file of a folder."""
    return {str(file): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


def _repaired(folder: Path, count: int) -> int:
    """Repeatedly damage several chunks at once; resume restores their content."""
    whole, repaired = results(folder), 0
    rng = np.random.default_rng(7)
    files = sorted(folder.glob("runs/*"))
    while repaired < count:
        for file in files:
            how = int(rng.integers(4))
            if how == 0:
                file.unlink()
            elif how == 1:
                file.write_bytes(truncated(file.read_bytes(), rng))
            elif how == 2:
                file.write_bytes(files[0].read_bytes() if files[0].exists() else b"")
            repaired += how < 3
        assert here("resume", folder, *HERE) == 0
        assert results(folder) == whole
    return repaired
