"""Full disks and failing disks.

A full disk is a small file system in memory, filled with a file that leaves a given number of
bytes. Removing this file frees the disk. Where nothing can be mounted, every operation from the
k-th on fails instead. Single failures are injected between `storage` and the operating system:
the k-th of all openings, writes, syncs and renames, for every k up to the number of operations.
"""

from __future__ import annotations

import contextlib
import errno
import io
import json
import os
import shutil
import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.faults.workbench import (
    HERE,
    here,
    results,
    run,
    temporary_files,
    write_experiment,
)
from tests.user_modules import isolated_user_modules

from switchmdp import storage
from switchmdp.experiments.results import Results
from switchmdp.experiments.store import load_results, open_store
from switchmdp.reports.report import write_report

MODULE = "plain_agents_on_bad_disks"
PAGE = 4096
REPORT = 150  # pages: fewer than the report takes
AMPLE = 1000 * PAGE  # more than the experiment's folder needs


class BadDisk:
    """Fails the `first` operation, or all from there on; counts operations."""

    def __init__(self, error: int, first: int, *, for_good: bool = False) -> None:
        self.error, self.first, self.for_good = error, first, for_good
        self.count = 0

    def take(self) -> None:
        """Count one operation, and fail it if it is due."""
        self.count += 1
        if self.count == self.first or (self.for_good and self.count > self.first):
            raise OSError(self.error, os.strerror(self.error))

    @contextlib.contextmanager
    def below_storage(self) -> Iterator[None]:
        """All write operations of `storage` pass through this object."""
        disk = self

        class Raw(io.FileIO):
            def write(self, content: Any) -> int:
                disk.take()
                return super().write(content)

        def opened(path: Any, mode: str, **_: Any) -> Any:
            if mode == "rb":
                return open(path, mode)
            disk.take()
            return io.BufferedWriter(Raw(path, mode))

        def failing(function: Any) -> Any:
            def call(*arguments: Any) -> Any:
                disk.take()
                return function(*arguments)

            return call

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(storage, "open", opened, raising=False)
            for name in ("fsync", "replace"):
                patch.setattr(os, name, failing(getattr(os, name)))
            yield


def failing_operations(scratch: Path, every: int) -> str:
    """Each `every`-th operation of a run fails once, or from then on; likewise in its report."""
    with isolated_user_modules():
        config = write_experiment(
            scratch, horizon=20, settings=1, agents=1, fragile=True, module=MODULE
        )
        assert here("run", config, "--out", scratch / "whole", *HERE) == 3
        whole = results(scratch / "whole")
        once = _until_untouched(config, scratch / "once", whole, every, errno.EIO)
        _until_untouched(config, scratch / "for good", whole, every, errno.ENOSPC, for_good=True)
        loaded = load_results(open_store(scratch / "whole"))
    reported = _failing_report(loaded, scratch / "report", every)
    which = "every one" if every == 1 else f"one in {every}"
    return (
        f"{which} of {once} operations of a run failed (once with EIO, for good with ENOSPC), and "
        f"of {reported} of its report: no half-written file, each failure told, each run resumed "
        f"to {len(whole)} identical files"
    )


def _until_untouched(
    config: Path, out: Path, whole: dict[str, bytes], every: int, error: int, **how: bool
) -> int:
    """Returns how many operations there are."""
    first = 1
    while True:
        disk, folder = BadDisk(error, first, **how), out / f"{first}"
        with disk.below_storage(), contextlib.redirect_stderr(io.StringIO()) as stderr:
            code = here("run", config, "--out", folder, *HERE)
        if disk.count < first:
            assert code == 3  # as without faults: a run of the fragile agent failed
            return disk.count
        assert code == 5 if error == errno.ENOSPC else code in (2, 3), f"operation {first}: {code}"
        output = stderr.getvalue()
        reported = os.strerror(error) in output or "the disk is full" in output
        assert reported, f"operation {first}: {output}"
        _must_be_whole_files(folder, whole)
        if not (folder / "experiment.json").exists():
            assert here("resume", folder, *HERE) == 4
            assert here("run", config, "--out", folder, *HERE) == 3
        else:
            assert here("resume", folder, *HERE) == 3
        assert results(folder) == whole, f"operation {first}"
        assert not temporary_files(folder)
        shutil.rmtree(folder)
        first += every


def _must_be_whole_files(folder: Path, whole: dict[str, bytes]) -> None:
    assert not temporary_files(folder)
    if not (folder / "experiment.json").exists():
        return
    for name, content in results(folder).items():
        assert content == whole[name]
    for file in folder.glob("timings/*"):
        assert json.loads(file.read_bytes())


def _failing_report(loaded: Results, out: Path, every: int) -> int:
    write_report(loaded, out / "whole")
    whole = {file.relative_to(out / "whole"): file.read_bytes() for file in _files(out / "whole")}
    first = 1
    while True:
        disk, folder = BadDisk((errno.EIO, errno.ENOSPC)[first % 2], first), out / f"{first}"
        with disk.below_storage():
            try:
                write_report(loaded, folder)
                reported = 0
            except OSError as error:
                reported = error.errno or 0
        if disk.count < first:
            assert not reported
            return disk.count
        assert reported == disk.error, f"operation {first} failed"
        for file in _files(folder):
            assert file.read_bytes() == whole[file.relative_to(folder)], f"operation {first}"
        first += every


def _files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


@contextlib.contextmanager
def small_disk(place: Path) -> Iterator[bool]:
    """Mount a small file system; False where that is impossible."""
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={AMPLE},mode=700", "tmpfs", str(place)]
    try:
        mounted = subprocess.run(mount, capture_output=True).returncode == 0
    except OSError:
        mounted = False
    try:
        yield mounted
    finally:
        if mounted:
            subprocess.run(["umount", str(place)], check=True)


def full_disks(scratch: Path, count: int) -> str:
    """`count` runs on a disk that is full for chunks, for the folder, or for the report."""
    config = write_experiment(scratch / "configuration", agents=3)
    start = ("run", config, "--quiet", "--jobs", 2, "--executor", "threads", "--out")
    out = scratch / "whole"
    assert run(*start, out).returncode == 0
    whole = results(out)
    first = _pages(out.glob("*.*"))
    last = first + _pages(out.glob("runs/*")) + _pages(out.glob("timings/*"))
    spans = ((first, last), (0, first), (last, last + REPORT))
    with small_disk(scratch / "disk") as mounted:
        if mounted:
            stages = []
            for i in range(count):
                low, high = spans[i % 3]
                free = low + (high - low) * (i // 3) // -(-count // 3)
                stages.append(_filled(start, scratch / "disk", free, whole, figures=i % 3 == 2))
            kind = "a file system of its own"
        else:
            stages = _without_space(config, scratch, whole, count)
            kind = "injected, since nothing can be mounted here"
    shown = ", ".join(f"{stages.count(stage)} {stage}" for stage in dict.fromkeys(stages))
    return (
        f"{count} full disks ({kind}; {shown}): exit code 5 each time, and {len(whole)} identical "
        "files once there was room"
    )


def _pages(files: Iterable[Path]) -> int:
    """The size of files on a disk with pages."""
    return sum(-(-file.stat().st_size // PAGE) for file in files)


def _filled(
    start: tuple[object, ...], disk: Path, free: int, whole: dict[str, bytes], *, figures: bool
) -> str:
    """Run with this number of free pages, free the disk, and resume."""
    out, ballast = disk / "out", disk / "ballast"
    ballast.write_bytes(bytes(AMPLE - free * PAGE))
    done = run(*start, out, figures=figures)
    assert done.returncode == 5, f"{free} pages free: {done.returncode}, {done.stderr}"
    assert "Traceback" not in done.stderr
    assert "free some space, then" in done.stderr
    assert "run the same command again" in done.stderr or f"resume {out}" in done.stderr
    stage = "before the manifest"
    again: tuple[object, ...] = (*start, out)
    if (out / "experiment.json").exists():
        chunks = len(list(out.glob("runs/*")))
        stage = "before the last chunk" if chunks < len(whole) - 1 else "in the report"
        again = ("resume", out, "--quiet")
    ballast.unlink()
    again_done = run(*again, figures=figures)
    assert again_done.returncode == 0, again_done.stderr
    assert results(out) == whole
    assert (out / "report" / "index.html").exists() == figures
    assert not temporary_files(out)
    shutil.rmtree(out)
    return stage


def _without_space(config: Path, scratch: Path, whole: dict[str, bytes], count: int) -> list[str]:
    """Simulate a full disk: from some operation on there is no space."""
    with isolated_user_modules():
        start = ("run", config, *HERE, "--out")
        for i in range(count):
            out = scratch / f"{i}"
            with BadDisk(errno.ENOSPC, 1 + 50 * i // count, for_good=True).below_storage():
                assert here(*start, out) == 5
            assert here(*start, out) == 0
            assert results(out) == whole
    return ["somewhere"] * count
