"""From a name in a configuration to the class or function that it means.

A name is one of the package's own (`AGENTS`, `PROBLEMS`) or "module:Name" of the user's, imported
from the configuration's folder or wherever Python finds it. The text of such modules, and of those
beside them that they import, is part of what an experiment's results depend on.

To import a module is to run it. So names of the user's are refused, and nothing of theirs is
imported, unless the caller trusts the configuration (`trust=True`, `--trust`, SWITCHMDP_TRUST=1).
Even then only agents and marked problem factories are called.
"""

from __future__ import annotations

import ast
import contextlib
import difflib
import hashlib
import importlib
import os
import re
import sys
import sysconfig
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from importlib.util import resolve_name
from pathlib import Path
from types import ModuleType
from typing import Any

from switchmdp.agents import AGENTS
from switchmdp.errors import InvalidParameter
from switchmdp.experiments.faults import described
from switchmdp.problems import PROBLEMS
from switchmdp.problems.registry import is_problem_factory

TRUST = "SWITCHMDP_TRUST"
HOW_TO_TRUST = (
    "to run code from your own modules, pass --trust (trust=True in Python; see SECURITY.md)"
)
USERS = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*(\.[^\W\d]\w*)*")


def is_users(name: str) -> bool:
    """Whether the name means something of the user's."""
    return ":" in name


def is_trusted(trust: bool | None) -> bool:
    """Whether the user's modules may be run: as the caller says, else as the environment does.

    >>> is_trusted(True), is_trusted(False)
    (True, False)
    """
    return os.environ.get(TRUST) == "1" if trust is None else trust


def is_agent_class(value: Any) -> bool:
    """Whether a value is a class with an agent's two verbs."""
    verbs = (getattr(value, verb, None) for verb in ("act", "observe"))
    return isinstance(value, type) and all(map(callable, verbs))


@dataclass(frozen=True)
class Kind:
    """What a configuration may name: ours by name, or one of the user's that fits."""

    word: str
    registry: Mapping[str, Callable[..., Any]]
    fits: Callable[[Any], bool]
    allowed: str  # what fits, in words


AGENT = Kind("agent", AGENTS, is_agent_class, "a class with the methods act and observe")
PROBLEM = Kind(
    "problem", PROBLEMS, is_problem_factory,
    "a function marked with @switchmdp.problems.problem_factory",
)  # fmt: skip


def find(field: str, name: str, kind: Kind, folder: Path | None, trust: bool) -> Callable[..., Any]:
    """The class or function of this name; `folder` is searched first for the user's modules.

    >>> find("agent", "sw-ucrl", AGENT, None, trust=False).__name__
    'SWUCRL'
    >>> find("agent", "sw-ucrI", AGENT, None, trust=False)
    Traceback (most recent call last):
    ...
    switchmdp.errors.InvalidParameter: agent must be 'sw-ucrl' (did you mean that?), got 'sw-ucrI'
    """
    if name in kind.registry:
        return kind.registry[name]
    if not is_users(name):
        close = difflib.get_close_matches(name, kind.registry, 1)
        known = f"one of {', '.join(map(repr, kind.registry))}, or 'module:Name' of your own"
        raise InvalidParameter(
            field, name, f"{close[0]!r} (did you mean that?)" if close else known
        )
    if not USERS.fullmatch(name):
        raise InvalidParameter(field, name, "'module:Name', as Python would import it")
    if not trust:
        raise InvalidParameter(field, name, f"the name of a registered {kind.word}; {HOW_TO_TRUST}")
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
    if not kind.fits(found):
        raise InvalidParameter(field, name, kind.allowed)
    return found  # type: ignore[no-any-return]  # a class or a function


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


def search_path() -> list[str]:
    """Where this process looks for modules, without the folder of an experiment."""
    return [entry for entry in sys.path if isinstance(entry, str) and entry not in _placed]


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
