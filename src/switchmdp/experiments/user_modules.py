"""Find the class or function that a configuration names; import user modules only with trust.

A name is registered (`AGENTS`, `PROBLEMS`) or has the form "module:Name". Such a module is imported
from the configuration's folder or from Python's search path. Its text, and the text of the modules
next to it that it imports, is part of what the results depend on.

Importing a module runs it. So "module:Name" is refused, and no user module is imported, unless the
caller trusts the configuration (`trust=True`, `--trust`, SWITCHMDP_TRUST=1). Even then only agents
and marked problem factories are called.
"""

from __future__ import annotations

import ast
import contextlib
import hashlib
import importlib
import os
import re
import sys
import sysconfig
from collections.abc import Callable, Iterable
from importlib.util import resolve_name
from pathlib import Path
from types import ModuleType
from typing import Any

from switchmdp.errors import InvalidExperiment
from switchmdp.experiments.parameters import Kind, unknown_name
from switchmdp.experiments.spec import ConfigError, describe_error, in_user_module

TRUST = "SWITCHMDP_TRUST"
HOW_TO_TRUST = (
    "to run code from your own modules, pass --trust (trust=True in Python; see SECURITY.md)"
)
USERS = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*(\.[^\W\d]\w*)*")


def is_trusted(trust: bool | None) -> bool:
    """Whether user modules may be imported; None: whether SWITCHMDP_TRUST is 1.

    >>> is_trusted(True), is_trusted(False)
    (True, False)
    """
    return os.environ.get(TRUST) == "1" if trust is None else trust


def find(field: str, name: str, kind: Kind, folder: Path | None, trust: bool) -> Callable[..., Any]:
    """The class or function of this name; `folder` is searched first for user modules.

    >>> from switchmdp.experiments.parameters import AGENT
    >>> find("agent", "sw-ucrl", AGENT, None, trust=False).__name__
    'SWUCRL'
    >>> find("agent", "SW-UCRL", AGENT, None, trust=False)
    Traceback (most recent call last):
    ...
    switchmdp.errors.InvalidExperiment: agent: unknown agent 'SW-UCRL'; did you mean 'sw-ucrl'?
    """

    def refused(reason: str) -> InvalidExperiment:
        return InvalidExperiment([ConfigError(field, name, kind.allowed, f"{field}: {reason}")])

    if name in kind.registry:
        return kind.registry[name]
    if not in_user_module(name):
        raise InvalidExperiment([unknown_name(kind, name, field)])
    if not USERS.fullmatch(name):
        raise refused(f"{name!r} does not have the form 'module:Name'")
    if not trust:
        raise refused(f"{name!r} is not a registered {kind.word}; {HOW_TO_TRUST}")
    module_name, _, path = name.partition(":")
    try:
        value: Any = _import(module_name, folder)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # a user module may raise anything
        raise refused(f"can't import {module_name!r} ({describe_error(error)})") from error
    for part in path.split("."):
        value = getattr(value, part, None)
        if value is None:
            raise refused(f"module {module_name!r} has no {path!r}")
    if not kind.fits(value):
        raise refused(f"{name!r} must be {kind.allowed}")
    return value  # type: ignore[no-any-return]  # a class or a function


_loaded: dict[str, tuple[Path, str]] = {}  # user modules: file and digest when imported
_added: list[str] = []  # what `_import` put in front of sys.path, to be removed the next time


def _import(name: str, folder: Path | None) -> ModuleType:
    """Import a module; import it again if it or a module next to it that it uses has changed.

    A long-lived process (a notebook, a cluster's worker) may run many experiments, whose modules
    are edited in between or have the same names as those in other folders.
    """
    if folder is not None:
        first = str(folder.resolve())
        others = [entry for entry in sys.path if entry not in (first, *_added)]
        _added[:] = [first] if first in _added or first not in sys.path else []
        sys.path[:] = [first, *others]
    importlib.invalidate_caches()
    now = {
        module: (file, hashlib.sha256(text).hexdigest())
        for module, file, text in _files(name, folder)
        if not _is_standard(file)  # a second copy of `os` would surprise everyone else
    }
    deleted = name in _loaded and name not in now
    if deleted or any(m in sys.modules and _loaded.get(m) != file for m, file in now.items()):
        for other in (name, *now):
            sys.modules.pop(other, None)
    module = importlib.import_module(name)
    _loaded.update(now)
    return module


def _is_standard(file: Path) -> bool:
    """Whether a file belongs to the standard library, below which packages may be installed."""
    standard, *installed = (
        Path(sysconfig.get_path(place)).resolve() for place in ("stdlib", "purelib", "platlib")
    )
    return standard in file.parents and not {*installed} & {*file.parents}


def search_path() -> list[str]:
    """The search path of this process, without the folders of experiments."""
    return [entry for entry in sys.path if isinstance(entry, str) and entry not in _added]


def digests(names: Iterable[str], folder: Path | None) -> dict[str, str]:
    """SHA-256 of each user module, and of the modules next to it that it imports."""
    users = [name.partition(":")[0] for name in names if in_user_module(name)]
    modules = sorted({module for name in users for module, _, _ in _files(name, folder)})
    return {module: _loaded[module][1] for module in modules if module in _loaded}


def _files(name: str, folder: Path | None) -> list[tuple[str, Path, bytes]]:
    """A module and the modules next to it that it imports, also indirectly: name, file, text."""
    places = [Path(entry).resolve() for entry in ([folder] if folder else []) + sys.path]
    root = next((place for place in places if _file(name, place)), None)
    installed = {Path(sysconfig.get_path(p)).resolve() for p in ("stdlib", "purelib", "platlib")}
    top = name.partition(".")[0]
    files: dict[str, tuple[str, Path, bytes]] = {}
    waiting = [name] if root else []
    while waiting:
        module = waiting.pop()
        first = module.partition(".")[0]
        foreign = first in sys.stdlib_module_names or first == "switchmdp" or root in installed
        file = None if module in files or (foreign and first != top) else _file(module, root)
        if file is not None:
            text = file.read_bytes()
            files[module] = (module, file, text)
            waiting += _imports(text, module, file.name == "__init__.py")
    return list(files.values())


def _file(module: str, root: Path | None) -> Path | None:
    base = Path(root or ".", *module.split("."))
    files = (base / "__init__.py", base.with_name(f"{base.name}.py"))
    return next((file for file in files if file.is_file()), None)


def _imports(text: bytes, name: str, is_package: bool) -> set[str]:
    """All modules that a module's text imports anywhere, and the packages that contain them."""
    package = name if is_package else name.rpartition(".")[0]
    imported = {package}
    try:
        nodes = list(ast.walk(_parse(text)))
    except (SyntaxError, ValueError, RecursionError):  # the import will fail, too
        nodes = []
    for node in nodes:
        if isinstance(node, ast.Import):
            imported.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            with contextlib.suppress(ImportError):  # beyond the top
                base = resolve_name("." * node.level + (node.module or ""), package)
                imported.update((base, *(f"{base}.{alias.name}" for alias in node.names)))
    around = {".".join(m.split(".")[:i]) for m in imported for i in range(1, m.count(".") + 1)}
    return (imported | around) - {""}


def _parse(text: bytes) -> ast.AST:
    """The syntax tree of a module.

    In some versions of Python, 3.11.7 for one, parsing fails with a SystemError if another thread
    parses at the same time. Threads that log a traceback do.
    """
    for _ in range(9):
        with contextlib.suppress(SystemError):
            return ast.parse(text)
    return ast.parse(text)
