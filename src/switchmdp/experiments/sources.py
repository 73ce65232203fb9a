"""From a name in a configuration to the class or function that it means.

A name is one of the package's own (`AGENTS`, `PROBLEMS`) or "module:Name" of the user's, imported
from the configuration's folder or wherever Python finds it. The text of such modules, and of those
beside them that they import, is part of what an experiment's results depend on.
"""

from __future__ import annotations

import ast
import contextlib
import difflib
import hashlib
import importlib
import re
import sys
import sysconfig
from collections.abc import Callable, Iterable, Mapping
from importlib.util import resolve_name
from pathlib import Path
from types import ModuleType
from typing import Any

from switchmdp.errors import InvalidParameter
from switchmdp.experiments.faults import described

USERS = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*(\.[^\W\d]\w*)*")


def is_users(name: str) -> bool:
    """Whether the name means something of the user's."""
    return ":" in name


def find(
    field: str, name: str, registry: Mapping[str, Callable[..., Any]], folder: Path | None
) -> Callable[..., Any]:
    """The class or function of this name; `folder` is searched first for the user's modules.

    >>> from switchmdp.agents import AGENTS
    >>> find("agent", "sw-ucrl", AGENTS, None).__name__
    'SWUCRL'
    >>> find("agent", "sw-ucrI", AGENTS, None)
    Traceback (most recent call last):
    ...
    switchmdp.errors.InvalidParameter: agent must be 'sw-ucrl' (did you mean that?), got 'sw-ucrI'
    """
    if name in registry:
        return registry[name]
    if not is_users(name):
        close = difflib.get_close_matches(name, registry, 1)
        known = f"one of {', '.join(map(repr, registry))}, or 'module:Name' of your own"
        raise InvalidParameter(
            field, name, f"{close[0]!r} (did you mean that?)" if close else known
        )
    if not USERS.fullmatch(name):
        raise InvalidParameter(field, name, "'module:Name', as Python would import it")
    module_name, _, path = name.partition(":")
    try:
        found: Any = _import(module_name, folder)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # whatever the user's module does when imported
        reason = f"a module that can be imported ({described(error)})"
        raise InvalidParameter(field, name, reason) from error
    for part in path.split("."):
        found = getattr(found, part, None)
        if found is None:
            raise InvalidParameter(field, name, f"a name that the module has: it has no {path!r}")
    if not callable(found):
        raise InvalidParameter(field, name, "a class or a function")
    return found  # type: ignore[no-any-return]  # callable() has just said so


_loaded: dict[str, tuple[Path, str]] = {}  # the user's modules: their files, as they were imported
_placed: list[str] = []  # what we put in front of sys.path, to be taken back for the next


def _import(name: str, folder: Path | None) -> ModuleType:
    """Import a module, again if it or one beside it that it uses is not what was imported before.

    A process may live long (a notebook, a cluster's worker) and meet many experiments, whose
    modules are edited meanwhile or share their names with those in other folders.
    """
    if folder is not None:
        first = str(folder.resolve())
        others = [entry for entry in sys.path if entry not in (first, *_placed)]
        _placed[:] = [first] if first in _placed or first not in sys.path else []
        sys.path[:] = [first, *others]
    importlib.invalidate_caches()
    now = {m: (file, hashlib.sha256(text).hexdigest()) for m, file, text in _files(name, folder)}
    gone = name in _loaded and name not in now
    if gone or any(m in sys.modules and _loaded.get(m) != seen for m, seen in now.items()):
        for module in (name, *now):
            sys.modules.pop(module, None)
    found = importlib.import_module(name)
    _loaded.update(now)
    return found


def digests(names: Iterable[str], folder: Path | None) -> dict[str, str]:
    """SHA-256 of the text of each user's module named, and of those beside it that it imports."""
    users = [name.partition(":")[0] for name in names if is_users(name)]
    modules = sorted({module for name in users for module, _, _ in _files(name, folder)})
    return {module: _loaded[module][1] for module in modules if module in _loaded}


def _files(name: str, folder: Path | None) -> list[tuple[str, Path, bytes]]:
    """A module and those beside it that it imports, directly or not: name, file and text."""
    places = [Path(entry).resolve() for entry in ([folder] if folder else []) + sys.path]
    root = next((place for place in places if _file(name, place)), None)
    installed = {Path(sysconfig.get_path(p)).resolve() for p in ("stdlib", "purelib", "platlib")}
    top = name.partition(".")[0]
    found: dict[str, tuple[str, Path, bytes]] = {}
    waiting = [name] if root else []
    while waiting:
        module = waiting.pop()
        first = module.partition(".")[0]
        foreign = first in sys.stdlib_module_names or first == "switchmdp" or root in installed
        file = None if module in found or (foreign and first != top) else _file(module, root)
        if file is not None:
            text = file.read_bytes()
            found[module] = (module, file, text)
            waiting += _imports(text, module, file.name == "__init__.py")
    return list(found.values())


def _file(module: str, root: Path | None) -> Path | None:
    base = Path(root or ".", *module.split("."))
    files = (base / "__init__.py", base.with_name(f"{base.name}.py"))
    return next((file for file in files if file.is_file()), None)


def _imports(text: bytes, name: str, is_package: bool) -> set[str]:
    """What a module may import, wherever in its text that stands, and the packages around it."""
    package = name if is_package else name.rpartition(".")[0]
    found = {package}
    try:
        nodes = list(ast.walk(ast.parse(text)))
    except (SyntaxError, ValueError, RecursionError):  # importing it will tell
        nodes = []
    for node in nodes:
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            with contextlib.suppress(ImportError):  # beyond the top
                base = resolve_name("." * node.level + (node.module or ""), package)
                found.update((base, *(f"{base}.{alias.name}" for alias in node.names)))
    around = {".".join(m.split(".")[:i]) for m in found for i in range(1, m.count(".") + 1)}
    return (found | around) - {""}
