"""Machine code on disk: one file per function and signature, named by all that it depends on.

A file's name is the digest of the function's name, its argument types, the processor, the Numba
version and *every source file of the package* (of the user's folder too, for the user's agents), so
that an edit anywhere makes the old code unreachable: there is no index that could be stale or
broken. A file opens with the digest of its content; one that is truncated or altered is removed
and compiled again. A folder that cannot be written costs one warning and the speed of the next
start, nothing else.

The folder is `$SWITCHMDP_CACHE`, or `switchmdp` in the user's cache folder. What is loaded from it
is executed, so nobody else may have written it: the folder, the folder of this version inside it
and each file must belong to the user and be writable by nobody else. That is checked before
anything is read, and no link is followed inside the folder. Where it does not hold, there is one
warning, and code is compiled without a cache.
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
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from os import open as open_handle
from pathlib import Path
from typing import Any

import numba
from numba.core.caching import _Cache
from numba.core.compiler import CompileResult
from numba.core.serialize import dumps

PACKAGE = Path(__file__).resolve().parent.parent
KEPT_VERSIONS = 4
# The layers above the loop are never compiled: editing a report must not cost a compilation.
PLAIN = ("contract.py", "gym", "online", "experiments", "reports", "cli")

HANDLES = open_handle in os.supports_dir_fd  # of folders; where there are some, files have owners
FOLDER = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0)

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
    return _root() / digest_of_sources(PACKAGE)[:16]


def _root() -> Path:
    root = os.environ.get("SWITCHMDP_CACHE")
    if not root:
        home = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
        root = os.path.join(home, "switchmdp")
    return Path(root)


def _make_private_folder() -> Path:
    folder = cache_folder()
    folder.parent.parent.mkdir(parents=True, exist_ok=True)
    folder.parent.mkdir(mode=0o700, exist_ok=True)
    with _own_root(), contextlib.suppress(FileExistsError):
        folder.mkdir(mode=0o700)
        _remove_old_versions(folder)
    with _own_folder():
        folder.chmod(0o700)
    return folder


def _remove_old_versions(folder: Path) -> None:
    with contextlib.suppress(OSError):  # another process may be doing the same
        others = [
            p for p in folder.parent.iterdir()
            if re.fullmatch("[0-9a-f]{16}", p.name) and p != folder
        ]  # fmt: skip
        others.sort(key=lambda p: p.stat().st_mtime, reverse=True)
        for old in others[KEPT_VERSIONS - 1 :]:
            shutil.rmtree(old, ignore_errors=True)


class NotOurs(PermissionError):
    """Others own the cache, or may write to it."""


@contextlib.contextmanager
def _own_root() -> Iterator[int | None]:
    """A handle of the cache once it is clear that only the user can write to it.

    Through a handle the folder that is used is the one that was checked, whatever its name means
    by then. None where the system has no such handles.
    """
    if not HANDLES:
        yield None
        return
    root = open_handle(_root(), FOLDER)
    try:
        _must_be_ours(root, _root())
        yield root
    finally:
        os.close(root)


@contextlib.contextmanager
def _own_folder() -> Iterator[int | None]:
    """The same for the folder of this version."""
    with _own_root() as root:
        if root is None:
            yield None
            return
        folder = open_handle(cache_folder().name, FOLDER | os.O_NOFOLLOW, dir_fd=root)
        try:
            _must_be_ours(folder, cache_folder())
            yield folder
        finally:
            os.close(folder)


def _must_be_ours(handle: int, path: Path) -> None:
    status = os.fstat(handle)
    if status.st_uid != os.getuid():
        raise NotOurs(f"{path} belongs to another user")
    if stat.S_IMODE(status.st_mode) & 0o022:
        raise NotOurs(f"others may write to {path}; to forbid it: chmod go-w {path}")


def _read(path: Path) -> bytes:
    """A file of the folder, if both are ours."""
    with _own_folder() as folder:
        if folder is None:
            return path.read_bytes()
        # No link is followed and, should it be a pipe, no writer waited for.
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK
        handle = open_handle(path.name, flags, dir_fd=folder)
        try:
            _must_be_ours(handle, path)
            with open(handle, "rb", closefd=False) as file:
                return file.read()
        finally:
            os.close(handle)


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
                stored = _read(path)
                if stored[:32] == hashlib.sha256(stored[32:]).digest():
                    return CompileResult._rebuild(target_context, *pickle.loads(stored[32:]))
                path.unlink()
            except NotOurs as error:
                _warn_once(f"machine code is compiled without a cache: {error}")
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
                handle = open_handle(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
                with open(handle, "wb") as file:
                    file.write(hashlib.sha256(content).digest() + content)
                temporary.replace(path)
            finally:
                temporary.unlink(missing_ok=True)
        except NotOurs as error:
            _warn_once(f"machine code is compiled without a cache: {error}")
        except OSError as error:
            _warn_once(
                f"compiled code can't be kept in {cache_folder()} ({error}); "
                "it works, and will be compiled again next time"
            )

    def enable(self) -> None: ...

    def disable(self) -> None: ...

    def flush(self) -> None:
        shutil.rmtree(cache_folder(), ignore_errors=True)
