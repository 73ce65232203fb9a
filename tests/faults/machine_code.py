"""Damaged machine code on disk.

Files of a warm cache are cut short, altered, emptied, filled with something else, or replaced by a
folder or by a link that leads nowhere. A run with such files gives the same results and repairs
the cache: every file is valid again, and the next run replaces none of them.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path

from tests.faults.workbench import results, run

from switchmdp.compiled.cache import cache_folder

EXPERIMENT = """\
title = "one agent"
horizon = 50
n_problems = 2

[problems.random]
problem = "random-switching"

[agents.chance]
agent = "random"
"""

# Says which files of machine code a run asks for.
TELLING = """\
import sys
from switchmdp.compiled.cache import DiskCache, cache_folder
load = DiskCache.load_overload
def telling(self, sig, context):
    found = load(self, sig, context)
    file = cache_folder() / self._name(sig, context.codegen().magic_tuple())
    print("asked for", file, file=sys.stderr)
    return found
DiskCache.load_overload = telling
"""


def cut_short(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-100])


def alter(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)


def empty(file: Path) -> None:
    file.write_bytes(b"")


def fill_with_something_else(file: Path) -> None:
    """Even the checksum is right."""
    content = b"not machine code"
    file.write_bytes(hashlib.sha256(content).digest() + content)


def become_a_folder(file: Path) -> None:
    file.unlink()
    file.mkdir()


def lead_nowhere(file: Path) -> None:
    file.unlink()
    file.symlink_to(file)


SABOTAGE: tuple[Callable[[Path], None], ...] = (
    cut_short, alter, lead_nowhere, become_a_folder, fill_with_something_else, empty,
)  # fmt: skip


def sabotaged_caches(scratch: Path, count: int) -> str:
    """Damage `count` files of machine code, three at a time."""
    config = scratch / "experiment.toml"
    config.write_text(EXPERIMENT)
    root = scratch / "cache"
    if cache_folder().exists():
        shutil.copytree(cache_folder(), root / cache_folder().name)
    whole, files = _run(config, scratch / "cold", root)
    if not all((cache_folder() / file.name).exists() for file in files):
        whole, files = _run(config, scratch / "warm", root)  # compiling asks for more than running
    order = sorted(files, key=lambda file: (os.stat(file).st_size, file))  # soon compiled, first
    damaged = rounds = 0
    while damaged < count:
        for _ in range(min(3, count - damaged)):
            SABOTAGE[damaged % len(SABOTAGE)](order[damaged % len(order)])
            damaged += 1
        actual, healed = _run(config, scratch / f"spoilt-{rounds}", root)
        assert actual == whole
        assert healed.keys() >= files.keys(), f"not healed: {files.keys() - healed.keys()}"
        actual, used = _run(config, scratch / f"healed-{rounds}", root)
        assert actual == whole
        # It may ask for more files: patient functions are loaded once they are on disk.
        assert all(used[file] == healed[file] for file in files)
        rounds += 1
    return (
        f"{damaged} files of machine code damaged in {min(count, len(SABOTAGE))} ways over "
        f"{rounds} runs: the same results, and every file sound and in use again"
    )


def _run(config: Path, out: Path, root: Path) -> tuple[dict[str, bytes], dict[Path, int]]:
    """The results, and the files of machine code that were requested and are valid now.

    Each file comes with its inode, which changes when the file is replaced.
    """
    done = run("run", config, "--out", out, "--quiet", first=TELLING, SWITCHMDP_CACHE=str(root))
    assert done.returncode == 0, done.stderr
    asked = re.findall(r"^asked for (.*)$", done.stderr, re.MULTILINE)
    return results(out), {Path(p): os.stat(p).st_ino for p in asked if _is_sound(Path(p))}


def _is_sound(file: Path) -> bool:
    content = file.read_bytes() if file.is_file() else b""
    return content[:32] == hashlib.sha256(content[32:]).digest()
