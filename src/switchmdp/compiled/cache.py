"""Machine code on disk: one file per function and signature, named by all that it depends on.

A file's name is the digest of the function's name, its argument types, the processor, the Numba
version and *every source file of the package* (of the user's folder too, for the user's agents), so
that an edit anywhere makes the old code unreachable: there is no index that could be stale or
broken. A file opens with the digest of its content; one that is truncated or altered is removed
and compiled again. A folder that cannot be written costs one warning and the speed of the next
start, nothing else.

The folder is `$SWITCHMDP_CACHE`, or `switchmdp` in the user's cache folder. It is private (0700),
because machine code is loaded from it.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import pickle
import re
import shutil
import stat
import sys
import sysconfig
import time
import uuid
import warnings
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from typing import Any

import numba
from numba.core.caching import _Cache
from numba.core.compiler import CompileResult
from numba.core.serialize import dumps

PACKAGE = Path(__file__).resolve().parent.parent
KEPT_VERSIONS = 4
# The layers above the loop are never compiled: editing a report must not cost a compilation.
PLAIN = ("contract.py", "registration.py", "gym", "online", "experiments", "reports", "cli")

_BEGAN = time.time()
_warned = False


@cache
def digest_of_sources(folder: Path) -> str:
    """One digest over the names and contents of all files in a folder that machine code is made of.

    >>> len(digest_of_sources(PACKAGE))
    64
    """
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*.py")):
        name = path.relative_to(folder)
        if name.parts[0] in PLAIN:
            continue
        digest.update(str(name).encode())
        digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()


def digest_for(modules: Iterable[str]) -> str | None:
    """What the code of these modules depends on, or None where that can't be told.

    A user's module may call anything that it has imported, so all modules count that are loaded
    and not installed. A script, a notebook, or a file edited since this process began is not what
    another process would find under its name: it is not cached.
    """
    parts = [digest_of_sources(PACKAGE), numba.__version__, sys.version]
    foreign = {name for name in modules if name.partition(".")[0] != "switchmdp"}
    for name in foreign:
        if name == "__main__" or getattr(sys.modules.get(name), "__file__", None) is None:
            return None
    for name in sorted(foreign):  # a module's numbers are compiled in, whoever set them
        for constant, value in sorted(vars(sys.modules[name]).items()):
            if isinstance(value, (int, float, str, tuple)) and not constant.startswith("__"):
                parts.append(f"{name}.{constant}={value!r}")
    if foreign:
        for path in sorted(_users_files()):
            if path.stat().st_mtime >= _BEGAN:
                return None
            parts.append(f"{path}{hashlib.sha256(path.read_bytes()).hexdigest()}")
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def _users_files() -> set[Path]:
    """The files of all loaded modules that are neither installed nor ours."""
    places = ("stdlib", "platstdlib", "purelib", "platlib")
    installed = {Path(sysconfig.get_path(place)).resolve() for place in places} | {PACKAGE}
    files = {getattr(module, "__file__", None) for module in list(sys.modules.values())}
    paths = {Path(file).resolve() for file in files if file and file.endswith(".py")}
    return {p for p in paths if p.exists() and not installed & set(p.parents)}


def cache_folder() -> Path:
    """Where the machine code of this version lies."""
    root = os.environ.get("SWITCHMDP_CACHE")
    if not root:
        home = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
        root = os.path.join(home, "switchmdp")
    return Path(root) / digest_of_sources(PACKAGE)[:16]


def _make_private_folder() -> Path:
    folder = cache_folder()
    new = not folder.exists()
    folder.mkdir(parents=True, mode=0o700, exist_ok=True)
    _must_be_ours(folder)
    if stat.S_IMODE(folder.stat().st_mode) & 0o077:
        folder.chmod(0o700)
    if new:
        with contextlib.suppress(OSError):  # another process may be doing the same
            others = [
                p for p in folder.parent.iterdir()
                if re.fullmatch("[0-9a-f]{16}", p.name) and p != folder
            ]  # fmt: skip
            others.sort(key=lambda p: p.stat().st_mtime, reverse=True)
            for old in others[KEPT_VERSIONS - 1 :]:
                shutil.rmtree(old, ignore_errors=True)
    return folder


def _must_be_ours(folder: Path) -> None:
    if hasattr(os, "getuid") and folder.stat().st_uid != os.getuid():
        raise PermissionError(f"{folder} belongs to another user")


def _warn_once(message: str) -> None:
    global _warned
    if not _warned:
        _warned = True
        warnings.warn(message, stacklevel=3)


class DiskCache(_Cache):  # type: ignore[misc]  # Numba ships no types
    """Numba's cache interface over the files described above."""

    def __init__(self, function: Callable[..., Any], label: str, sources: str | None) -> None:
        self._function = function
        self._label = label
        self._sources = sources

    @property
    def cache_path(self) -> str:
        return str(cache_folder())

    def _path(self, sig: Any, codegen: Any) -> Path:
        key = (self._label, str(sig), codegen.magic_tuple(), self._sources)
        name = hashlib.sha256(repr(key).encode()).hexdigest()[:40]
        return cache_folder() / f"{self._label}.{name}"

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        target_context.refresh()
        if self._sources is not None:
            path = self._path(sig, target_context.codegen())
            try:
                stored = path.read_bytes()
                _must_be_ours(path.parent)
                if stored[:32] == hashlib.sha256(stored[32:]).digest():
                    return CompileResult._rebuild(target_context, *pickle.loads(stored[32:]))
                path.unlink()
            except (FileNotFoundError, NotADirectoryError, PermissionError):
                pass
            except IsADirectoryError:  # which no file could take the place of
                shutil.rmtree(path, ignore_errors=True)
            except Exception as error:
                _warn_once(f"machine code in {path} is unusable ({error!r}), and compiled again")
        if not self._label.startswith("_"):
            print(f"switchmdp: compiling {self._label} for this machine, once ...", file=sys.stderr)
        return None

    def save_overload(self, sig: Any, data: Any) -> None:
        if self._sources is None or data.library.has_dynamic_globals:
            return
        try:
            _make_private_folder()
            path = self._path(sig, data.codegen)
            content = dumps(data._reduce())
            temporary = path.with_name(f"{path.name}.{uuid.uuid4().hex[:12]}")
            try:
                temporary.write_bytes(hashlib.sha256(content).digest() + content)
                temporary.replace(path)
            finally:
                temporary.unlink(missing_ok=True)
        except OSError as error:
            _warn_once(
                f"compiled code can't be kept in {cache_folder()} ({error}); "
                "it works, and will be compiled again next time"
            )

    def enable(self) -> None: ...

    def disable(self) -> None: ...

    def flush(self) -> None:
        shutil.rmtree(cache_folder(), ignore_errors=True)
