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

**Prebuilt code.** A wheel made by `make wheel` has a second folder, `prebuilt` inside the package,
with machine code for any processor of one architecture. Its files have the same names and the same
content as those of the cache, made for Numba's processor `generic`, and it is only ever read. It is
trusted like the sources beside it. Its subfolder is named by the versions and the sources, so other
versions of Python, Numba or NumPy, or an edited source, find nothing there and compile as usual.
The cache comes first: code made for this processor is faster.

**Several processes.** A process that finds no code locks a file while it compiles. Others that need
the same code wait, and load it. The lock only saves work: where there can be none, or it takes too
long, a process compiles by itself.
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

import llvmlite  # type: ignore[import-untyped]  # it ships no types
import numba
import numba.cpython.hashing  # names the addresses of what machine code that hashes refers to
import numpy as np
from numba.core.caching import _Cache
from numba.core.compiler import CompileResult
from numba.core.runtime import rtsys
from numba.core.serialize import dumps
from platformdirs import user_cache_dir

PACKAGE = Path(__file__).resolve().parent.parent
PREBUILT = PACKAGE / "prebuilt"
GENERIC = ("generic", "")  # the processor and its features for which code is prebuilt
SILENT_WAIT = 0.5  # seconds for another process that compiles the same, before a message
LONGEST_WAIT = 120.0  # and before this process compiles by itself
KEPT_VERSIONS = 8  # the most recently used ones
# The layers above the loop are never compiled: editing a report must not cost a compilation.
PLAIN = ("contract.py", "client", "gym", "online", "experiments", "reports", "cli")

HANDLES = open_handle in os.supports_dir_fd  # of folders; where there are some, files have owners
FOLDER = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0)

_BEGAN = time.time()
_warned = False


@cache
def digest_of_sources(folder: Path) -> str:
    """A digest of the names and contents of all source files in a folder that may be compiled.

    Examples
    --------
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


@cache
def versions() -> tuple[str, ...]:
    """The dependencies of machine code besides the sources and the processor.

    The interface between Python and machine code, which the suffix of extension modules names, is
    the same for all releases of a minor version. Numba depends on the first two numbers of NumPy's
    version.
    """
    numpy = ".".join(np.__version__.split(".")[:2])
    suffix = str(sysconfig.get_config_var("EXT_SUFFIX"))
    return numba.__version__, llvmlite.__version__, f"numpy {numpy}", suffix


def digest_for(modules: Iterable[str]) -> str | None:
    """A digest of what the code of these modules depends on; None if it is unknown.

    The module of a user may call anything that it has imported, so all loaded modules that are not
    installed are included. A script, a notebook, or a file edited since this process began differs
    from what another process would find under its name, so it is not cached.
    """
    parts = [digest_of_sources(PACKAGE), *versions()]
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
    """The folder for the machine code of this version."""
    return _root() / digest_of_sources(PACKAGE)[:16]


def prebuilt_folder() -> Path:
    """Where prebuilt code lies that fits these versions and sources, if there is any."""
    return PREBUILT / str(digest_for([]))[:16]


def folders() -> list[Path]:
    """Where machine code may be found, the best first.

    `SWITCHMDP_NATIVE=1` leaves out prebuilt code, so that code is compiled for this processor.
    """
    native = os.environ.get("SWITCHMDP_NATIVE", "") not in ("", "0")
    return [cache_folder()] if native else [cache_folder(), prebuilt_folder()]


def _root() -> Path:
    return Path(os.environ.get("SWITCHMDP_CACHE") or user_cache_dir("switchmdp", False))


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


@cache
def _mark_as_used(folder: Path) -> None:
    """Set the time of the folder of this version, once per process, so that it is kept.

    A cache that may only be read works all the same, and nobody removes versions from it.
    """
    with contextlib.suppress(OSError), _own_folder() as handle:
        os.utime(folder if handle is None else handle)


def _remove_old_versions(folder: Path) -> None:
    """Remove all but the most recently used versions."""
    with contextlib.suppress(OSError):  # another process may be doing the same
        others = [
            p for p in folder.parent.iterdir()
            if re.fullmatch("[0-9a-f]{16}", p.name) and p != folder
        ]  # fmt: skip
        others.sort(key=lambda p: p.stat().st_mtime, reverse=True)
        for old in others[KEPT_VERSIONS - 1 :]:
            shutil.rmtree(old, ignore_errors=True)


class NotOurs(PermissionError):
    """The cache belongs to another user, or others may write to it."""


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


def _announce(message: str) -> None:
    """Print a message to standard error, which may be a closed pipe: the run must not fail."""
    with contextlib.suppress(OSError, ValueError):
        print(f"switchmdp: {message}", file=sys.stderr)


@contextlib.contextmanager
def _lock(label: str) -> Iterator[None]:
    """Hold the lock of a label. Where there can be none, or it takes too long, do without."""
    from filelock import FileLock, Timeout  # here: the import takes as long as loading code

    with contextlib.ExitStack() as held:
        with contextlib.suppress(OSError, NotImplementedError):
            # Nobody else can write to the folder, so the path is no link of theirs.
            path = _make_private_folder() / f"lock.{label}"
            lock = FileLock(path, mode=0o600)
            try:
                lock.acquire(timeout=min(SILENT_WAIT, LONGEST_WAIT))
            except Timeout:
                if not label.startswith("_"):
                    name = _short(label)
                    _announce(f"waiting for {name}, which another process is compiling ...")
                lock.acquire(timeout=LONGEST_WAIT)
            held.callback(lock.release)
            # A process that waits for a removed file finds the code all the same.
            held.callback(path.unlink, missing_ok=True)
        yield


def _short(label: str) -> str:
    """A label without the classes of the components.

    >>> _short("SWUCRL-Episodic-L1Ball-Window.run"), _short("Random.run")
    ('SWUCRL', 'Random')
    """
    return label.partition("-")[0].partition(".")[0]


class DiskCache(_Cache):  # type: ignore[misc]  # Numba ships no types
    """Numba's cache interface over the files described above."""

    def __init__(self, function: Callable[..., Any], label: str, sources: str | None) -> None:
        self._function = function
        self._label = label
        self._sources = sources
        self._held = contextlib.ExitStack()

    @property
    def cache_path(self) -> str:
        return str(cache_folder())

    def _name(self, sig: Any, processor: tuple[str, ...]) -> str:
        key = (self._label, str(sig), processor, self._sources)
        return f"{self._label}.{hashlib.sha256(repr(key).encode()).hexdigest()[:40]}"

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """The machine code for these types. None: the caller compiles it, then calls `unlock`."""
        # What loading needs of `target_context.refresh()`, which takes a third of a second.
        rtsys.initialize(target_context)
        if self._sources is not None:
            found = self._find(sig, target_context)
            if found is None:
                self._held.enter_context(_lock(self._label))
                found = self._find(sig, target_context)  # another process may have compiled it
            if found is not None:
                return found
        if not self._label.startswith("_"):
            name = _short(self._label)
            _announce(f"compiling {name} for this machine, once; it may take a minute ...")
        return None

    def is_on_disk(self) -> bool:
        """Whether there is machine code of this function, for any types."""
        return any(any(folder.glob(f"{self._label}.*")) for folder in folders())

    def unlock(self) -> None:
        """Allow other processes to continue that wait for this code."""
        self._held.close()

    def _find(self, sig: Any, target_context: Any) -> Any:
        """The code for these types, from the first folder that has it."""
        native = target_context.codegen().magic_tuple()
        for folder in folders():
            is_cache = folder == cache_folder()
            path = folder / self._name(sig, native if is_cache else (native[0], *GENERIC))
            try:
                stored = _read(path) if is_cache else path.read_bytes()
                if stored[:32] == hashlib.sha256(stored[32:]).digest():
                    if is_cache:
                        _mark_as_used(folder)
                    return CompileResult._rebuild(target_context, *pickle.loads(stored[32:]))
                if is_cache:
                    path.unlink()
            except NotOurs as error:
                _warn_once(f"machine code is compiled without a cache: {error}")
            except (FileNotFoundError, NotADirectoryError, PermissionError):
                pass
            except IsADirectoryError:  # which no file could take the place of
                if is_cache:
                    shutil.rmtree(path, ignore_errors=True)
            except Exception as error:
                _warn_once(f"machine code in {path} is unusable ({error!r}), and compiled again")
        return None

    def save_overload(self, sig: Any, data: Any) -> None:
        if self._sources is None or data.library.has_dynamic_globals:
            return
        try:
            _make_private_folder()
            path = cache_folder() / self._name(sig, data.codegen.magic_tuple())
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
