"""An agent on disk: every field of it and of its components, checked before any is believed.

The file is an npz without pickle (`storage`): arrays under the path of their field
(`memory.counts.visits`), and in the header the tree of classes with all plain fields. A class is
one of ours or one that the caller names; nothing else is ever imported or called. What is read
must have the fields, types and sizes that its class says, and must be consistent in itself
(`consistency`), because machine code follows the indices in it without looking.

A loaded agent goes on exactly as if it had never been put away. Saving keeps the file that was
there before as `PATH.previous`, unless it is damaged, and loading falls back to it where the newer
one is. An agent that could not be loaded again is not written, lest it push a good one out.
"""

from __future__ import annotations

import inspect
import os
import warnings
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from switchmdp.agents.consistency import must_be_consistent
from switchmdp.agents.episodic import Episodic
from switchmdp.compiled import ArrayOf, classes_of, fields_of
from switchmdp.concurrency import exclusive
from switchmdp.errors import DamagedFile, InvalidParameter
from switchmdp.storage import Arrays, load_arrays, save_arrays, save_bytes

KIND = "agent"
FORMAT = 2
LARGEST = 2**63
WRONG = (ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RecursionError)
NUMBERS = (bool, np.bool_, int, np.integer, float, np.floating)


class NotKnown(DamagedFile):
    """The file is whole, but of a class or format that is not known here."""


def save_agent(agent: Any, path: str | os.PathLike[str]) -> None:
    """Write an agent to a file, all of it or nothing; the one that was there is kept."""
    with exclusive(agent):
        fields, arrays = described(agent)
        try:
            must_be_consistent(agent)
        except WRONG as error:
            raise InvalidParameter("agent", agent, f"consistent in itself ({error})") from None
        _keep(Path(path))
        save_arrays(path, KIND, fields, arrays)


def described(agent: Any) -> tuple[dict[str, Any], Arrays]:
    """All of an agent: fields for a header, and its own arrays, not copies."""
    arrays: Arrays = {}
    tree = _described(agent, "", arrays)
    return {"version": FORMAT, "agent": tree}, arrays


def previous_of(path: Path) -> Path:
    """Where the file that was there before is kept."""
    return path.with_name(path.name + ".previous")


def _keep(path: Path) -> None:
    """Give the file that is there its second name; a damaged one would push a good one out."""
    try:
        load_arrays(path, KIND)
    except (FileNotFoundError, DamagedFile):
        return
    spare = path.with_name(f".{path.name}.previous")
    spare.unlink(missing_ok=True)
    try:
        os.link(path, spare)
    except OSError:  # not every file system has links
        save_bytes(previous_of(path), path.read_bytes())
        return
    os.replace(spare, previous_of(path))
    spare.unlink(missing_ok=True)  # where both were the same file, `replace` has done nothing


def _described(instance: Any, path: str, arrays: Arrays) -> dict[str, Any]:
    """The class and plain fields of an instance; its arrays are put aside."""
    cls = type(instance)
    kinds, here = fields_of(cls), path or "agent"
    has_new = any("__new__" in vars(base) for base in cls.__mro__[:-1])
    if has_new or not hasattr(instance, "__dict__"):
        raise InvalidParameter(here, instance, "a number, an array, or an object of a plain class")
    if classes_of("switchmdp").get(cls.__name__, cls) is not cls:
        raise InvalidParameter(f"the class of {here}", cls, "of a name that none of ours has")
    for name in sorted(set(vars(instance)) - set(kinds) - {"taken"}):
        allowed = f"annotated in {cls.__name__}: it would be lost"
        raise InvalidParameter(f"{here}.{name}", getattr(instance, name), allowed)
    dot = f"{path}." if path else ""
    fields = {
        name: _stored(getattr(instance, name, None), kind, f"{dot}{name}", arrays)
        for name, kind in kinds.items()
    }
    return {"class": cls.__name__, "fields": fields}


def _stored(value: Any, kind: Any, here: str, arrays: Arrays) -> Any:
    """A field's value as the header has it, made what its annotation says as in machine code."""
    if isinstance(value, (np.ndarray, list, tuple)) and (kind is Any or isinstance(kind, ArrayOf)):
        with suppress(TypeError, ValueError):  # what is no array, or not of this type
            array = np.asarray(value, getattr(kind, "dtype", None))
            same = array is value or np.array_equal(array, value, equal_nan=True)
            if same and not array.dtype.hasobject:
                arrays[here] = array
                return {"array": here}
    elif isinstance(value, NUMBERS):
        kind = _kind_of(value) if kind is Any else kind
        with suppress(OverflowError, ValueError):  # infinities and NaN are no integers
            if kind is float:
                return {"float": float(value).hex()}
            number = kind(value) if kind in (bool, int) else None
            if number is not None and number == value and -LARGEST <= number < LARGEST:
                return number
    elif kind is Any or inspect.isclass(kind):
        return _described(value, here, arrays)
    says = "an array" if isinstance(kind, ArrayOf) else getattr(kind, "__name__", str(kind))
    raise InvalidParameter(here, value, f"{says}, as its class says")


def _kind_of(number: Any) -> type:
    if isinstance(number, (bool, np.bool_)):
        return bool
    return int if isinstance(number, (int, np.integer)) else float


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
    known = known_classes(classes)
    newest, previous = Path(path), previous_of(Path(path))
    try:
        return _loaded(newest, known)
    except NotKnown:
        raise
    except (DamagedFile, FileNotFoundError) as error:
        if not previous.exists():
            raise
        try:
            found = _loaded(previous, known)
        except DamagedFile as second:
            raise DamagedFile(f"{error}; and the one before: {second}") from None
        warnings.warn(f"{error}; going on with the one before", stacklevel=2)
        return found


def known_classes(classes: Iterable[type]) -> dict[str, type]:
    """Ours by name, and those that the caller names."""
    known = classes_of("switchmdp")
    for cls in classes:
        if not isinstance(cls, type) or known.setdefault(cls.__name__, cls) is not cls:
            raise InvalidParameter("classes", cls, "classes of different names, and none of ours")
    return known


def _loaded(path: Path, known: Mapping[str, type]) -> Any:
    return rebuilt(path, *load_arrays(path, KIND), known)


def rebuilt(
    path: Path, fields: Mapping[str, Any], arrays: Arrays, known: Mapping[str, type]
) -> Any:
    """The agent that was described so in a file."""
    if fields.get("version") == 1:
        fields = _upgraded(fields)
    if fields.get("version") != FORMAT:
        raise NotKnown(f"{path} has agent format {fields.get('version')!r}, known is {FORMAT}")
    unused = dict(arrays)
    try:
        agent = _built(fields.get("agent"), unused, known)
        if unused:
            raise ValueError(f"arrays that belong to no field: {', '.join(unused)}")
        must_be_consistent(agent)
    except NotKnown as error:
        raise NotKnown(f"{path}: {error}") from None
    except WRONG as error:
        raise DamagedFile(f"{path} does not describe an agent: {error}") from None
    return agent


def _upgraded(fields: Mapping[str, Any]) -> Mapping[str, Any]:
    """Format 1 knew no exploration beyond the plan."""
    agent = fields.get("agent")
    given = agent.get("fields") if isinstance(agent, dict) else None
    if not isinstance(given, dict) or not {"plausible", "episodes"} <= set(given):
        return {**fields, "version": FORMAT}
    plain = {"class": "AsPlanned", "fields": {}}
    agent = {**fields["agent"], "fields": given | {"exploration": plain}}
    return {"version": FORMAT, "agent": agent}


def _built(tree: Any, unused: Arrays, known: Mapping[str, type]) -> Any:
    """The object that a part of the header describes."""
    if not isinstance(tree, dict) or set(tree) != {"class", "fields"}:
        raise ValueError("a part of it has no class and fields")
    if not isinstance(tree["class"], str):
        raise ValueError(f"a class is called {tree['class']!r}")
    if tree["class"] not in known:
        raise NotKnown(f"the class {tree['class']!r} is not known; name it in classes=")
    cls = known[tree["class"]]
    kinds, given = fields_of(cls), tree["fields"]
    if not isinstance(given, dict) or set(given) != set(kinds):
        raise ValueError(f"{cls.__name__} has other fields")
    instance: Any = object.__new__(cls)
    for name, kind in kinds.items():
        setattr(instance, name, _value(f"{cls.__name__}.{name}", given[name], kind, unused, known))
    if isinstance(instance, Episodic):
        for component in instance.parts():
            component.taken = True
    return instance


def _value(place: str, given: Any, kind: Any, unused: Arrays, known: Mapping[str, type]) -> Any:
    if isinstance(given, dict) and set(given) == {"array"}:
        if not isinstance(kind, ArrayOf) and kind is not Any:
            raise ValueError(f"{place} is an array")
        if given["array"] not in unused:
            raise ValueError(f"{place}: there is no array {given['array']!r}")
        array = unused.pop(given["array"])
        wanted = getattr(kind, "dtype", None)
        if wanted is not None and array.dtype != wanted:
            raise ValueError(f"{place} is an array of {array.dtype}, not {wanted}")
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
