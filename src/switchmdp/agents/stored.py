"""An agent on disk: every field of it and of its components, checked before any is believed.

The file is an npz without pickle (`storage`): arrays under the path of their field
(`memory.counts.visits`), and in the header the tree of classes with all plain fields. A class is
one of ours or one that the caller names; nothing else is ever imported or called. What is read
must have the fields, types and sizes that its class says, and must be consistent in itself
(`consistency`), because machine code follows the indices in it without looking.

A loaded agent goes on exactly as if it had never been put away. Saving keeps the file that was
there before as `PATH.previous`, and loading falls back to it where the newer one is damaged.
"""

from __future__ import annotations

import inspect
import os
import warnings
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from switchmdp import memory, plausible, restarts
from switchmdp.agents.consistency import must_be_consistent
from switchmdp.agents.episodic import Doubling, Episodic
from switchmdp.agents.references import Omniscient, Random
from switchmdp.agents.sw_ucrl import SWUCRL
from switchmdp.agents.ucrl2 import UCRL2, UCRL2R, UCRL2RW, Oracle
from switchmdp.compiled import ArrayOf, fields_of
from switchmdp.errors import DamagedFile, InvalidParameter
from switchmdp.planning.optimism import Optimism
from switchmdp.storage import Arrays, load_arrays, save_arrays

KIND = "agent"
FORMAT = 1
LARGEST = 2**63
AGENTS = (SWUCRL, UCRL2, UCRL2R, UCRL2RW, Oracle, Omniscient, Random, Episodic)
COMPONENTS = (
    memory.Counts, memory.Everything, memory.Window, plausible.L1Ball, Optimism, Doubling,
    restarts.Never, restarts.Periodic, restarts.Cubic, restarts.Told,
)  # fmt: skip


def save_agent(agent: Any, path: str | os.PathLike[str]) -> None:
    """Write an agent to a file, all of it or nothing; the one that was there is kept."""
    arrays: Arrays = {}
    tree = _described(agent, "", arrays)
    target = Path(path)
    if target.exists():
        temporary = target.with_name(f".{target.name}.previous")
        temporary.unlink(missing_ok=True)
        os.link(target, temporary)
        os.replace(temporary, previous_of(target))
    save_arrays(target, KIND, {"version": FORMAT, "agent": tree}, arrays)


def previous_of(path: Path) -> Path:
    """Where the file that was there before is kept."""
    return path.with_name(path.name + ".previous")


def _described(instance: Any, path: str, arrays: Arrays) -> dict[str, Any]:
    """The class and plain fields of an instance; its arrays are put aside."""
    fields: dict[str, Any] = {}
    for name in fields_of(type(instance)):
        value = getattr(instance, name)
        here = f"{path}.{name}" if path else name
        if isinstance(value, np.ndarray):
            arrays[here] = value
            fields[name] = {"array": here}
        elif isinstance(value, (bool, np.bool_)):
            fields[name] = bool(value)
        elif isinstance(value, (int, np.integer)):
            fields[name] = int(value)
        elif isinstance(value, (float, np.floating)):
            fields[name] = {"float": float(value).hex()}
        elif fields_of(type(value)) or hasattr(type(value), "__state__"):
            fields[name] = _described(value, here, arrays)
        else:
            allowed = "a number, an array, or an object of a @compiled class"
            raise InvalidParameter(f"field {here} of the agent", value, allowed)
    return {"class": type(instance).__name__, "fields": fields}


def load(path: str | os.PathLike[str], classes: Iterable[type] = ()) -> Any:
    """Read an agent back; `classes` are those of the user's that the file may name.

    >>> import tempfile
    >>> from switchmdp.agents import SWUCRL
    >>> agent = SWUCRL(5, 3, window=100)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     agent.save(f"{folder}/agent")
    ...     load(f"{folder}/agent").memory.window
    100
    """
    known = {cls.__name__: cls for cls in (*AGENTS, *COMPONENTS, *classes)}
    target = Path(path)
    try:
        return _loaded(target, known)
    except (DamagedFile, FileNotFoundError) as error:
        if not previous_of(target).exists():
            raise
        found = _loaded(previous_of(target), known)
        warnings.warn(f"{error}; going on with the one before", stacklevel=2)
        return found


def _loaded(path: Path, known: Mapping[str, type]) -> Any:
    fields, arrays = load_arrays(path, KIND)
    if fields.get("version") != FORMAT:
        raise DamagedFile(f"{path} has agent format {fields.get('version')!r}, known is {FORMAT}")
    unused = dict(arrays)
    try:
        agent = _built(fields.get("agent"), unused, known)
        if unused:
            raise ValueError(f"arrays that belong to no field: {', '.join(unused)}")
        must_be_consistent(agent)
    except (ValueError, KeyError, TypeError, AttributeError, IndexError, RecursionError) as error:
        raise DamagedFile(f"{path} does not describe an agent: {error}") from None
    return agent


def _built(tree: Any, unused: Arrays, known: Mapping[str, type]) -> Any:
    """The object that a part of the header describes."""
    if not isinstance(tree, dict) or set(tree) != {"class", "fields"}:
        raise ValueError("a part of it has no class and fields")
    cls = known.get(tree["class"]) if isinstance(tree["class"], str) else None
    if cls is None:
        raise ValueError(f"the class {tree['class']!r} is not known; name it in classes=")
    kinds, given = fields_of(cls), tree["fields"]
    if not isinstance(given, dict) or set(given) != set(kinds):
        raise ValueError(f"{cls.__name__} has other fields")
    instance: Any = object.__new__(cls)
    for name, kind in kinds.items():
        setattr(instance, name, _value(f"{cls.__name__}.{name}", given[name], kind, unused, known))
    if not issubclass(cls, AGENTS):
        instance.taken = True  # it belongs to the agent that is being built
    return instance


def _value(place: str, given: Any, kind: Any, unused: Arrays, known: Mapping[str, type]) -> Any:
    if isinstance(given, dict) and set(given) == {"array"}:
        array = unused.pop(given["array"])
        wanted = kind.dtype if isinstance(kind, ArrayOf) else None
        if not isinstance(kind, ArrayOf) or (wanted is not None and array.dtype != wanted):
            raise ValueError(f"{place} is no array of {wanted}")
        return array
    if isinstance(given, dict) and set(given) == {"float"} and kind in (float, Any):
        return float.fromhex(given["float"])
    if isinstance(given, bool) and kind in (bool, Any):
        return given
    if isinstance(given, int) and not isinstance(given, bool) and kind in (int, Any):
        if not -LARGEST <= given < LARGEST:
            raise ValueError(f"{place} is too large")
        return given
    if isinstance(given, dict) and (kind is Any or inspect.isclass(kind)):
        found = _built(given, unused, known)
        if kind is not Any and not isinstance(found, kind):
            raise ValueError(f"{place} is a {type(found).__name__}")
        return found
    raise ValueError(f"{place} is {given!r}")
