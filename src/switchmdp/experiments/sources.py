"""From a name in a configuration to the class or function that it means.

A name is one of the package's own (`AGENTS`, `PROBLEMS`) or "module:Name" of the user's, imported
from the configuration's folder or wherever Python finds it. The text of such modules, and of those
beside them that they use, is part of what an experiment's results depend on.
"""

from __future__ import annotations

import difflib
import hashlib
import importlib
import re
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from switchmdp.errors import InvalidParameter

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
        reason = f"a module that can be imported ({type(error).__name__}: {error})"
        raise InvalidParameter(field, name, reason) from error
    for part in path.split("."):
        found = getattr(found, part, None)
        if found is None:
            raise InvalidParameter(field, name, f"a name that the module has: it has no {path!r}")
    if not callable(found):
        raise InvalidParameter(field, name, "a class or a function")
    return found  # type: ignore[no-any-return]  # callable() has just said so


def _import(name: str, folder: Path | None) -> ModuleType:
    if folder is not None and str(folder) not in sys.path:
        sys.path.insert(0, str(folder))
        importlib.invalidate_caches()
    return importlib.import_module(name)


def digests(names: list[str], folder: Path | None) -> dict[str, str]:
    """SHA-256 of the text of each user's module named, and of those beside it that it uses."""
    found: dict[str, str] = {}
    for name in names:
        if is_users(name):
            _visit(name.partition(":")[0], found)
    return dict(sorted(found.items()))


def _visit(name: str, found: dict[str, str], beside: Path | None = None) -> None:
    module = sys.modules.get(name)
    file = getattr(module, "__file__", None)
    if name in found or file is None or (beside and beside not in Path(file).parents):
        return
    found[name] = hashlib.sha256(Path(file).read_bytes()).hexdigest()
    for value in list(vars(module).values()):
        used = value.__name__ if isinstance(value, ModuleType) else getattr(value, "__module__", 0)
        if isinstance(used, str) and used != name:
            _visit(used, found, beside or Path(file).parent)
