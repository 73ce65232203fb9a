"""Save an agent to a file and load it again.

The file is an npz without pickle (`storage`): arrays under the path of their field
(`memory.counts.visits`), and in the header the tree of classes with all other fields. Scratch
fields are not saved. A class is one of the package or one that the caller names; loading imports
and calls nothing else. Every field is checked against its declaration (`compiled.declarations`)
before it is used, because machine code uses the indices in it without a check: a checksum says
that a file is complete, not who wrote it.

A loaded agent continues exactly as if it had never been saved. Saving renames the file that was
there to `PATH.previous`, unless it is damaged. Loading falls back to it if the newer file is
damaged. An agent that could not be loaded again is not written.

Formats: 1 had no exploration component; 1 and 2 also held the scratch fields, which are ignored.
A class that has gained fields names them with the values that they have in earlier files:
`added_fields`, {field: value}.
"""

from __future__ import annotations

import errno
import inspect
import os
import warnings
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from switchmdp.agents.episodic import Episodic
from switchmdp.compiled import (
    ArrayOf,
    classes_of,
    complete,
    fields_of,
    require,
    state_fields,
    validate,
)
from switchmdp.concurrency import exclusive
from switchmdp.errors import DamagedFile, InvalidParameter
from switchmdp.storage import Arrays, load_arrays, save_arrays, save_bytes

KIND = "agent"
FORMAT = 3
OLD_CLASSES = {
    "Oracle": "OracleUCRL2", "ToldUCRL2B": "OracleUCRL2B", "ToldUCRL3": "OracleUCRL3",
    "ToldKLUCRL": "OracleKLUCRL", "TwoTests": "StationarityTests",
}  # fmt: skip  # names in files of earlier versions, and what they are called now
LARGEST = 2**63
WRONG = (ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RecursionError)
NUMBERS = (bool, np.bool_, int, np.integer, float, np.floating)


class NotKnown(DamagedFile):
    """The file is complete, but its format or a class in it is unknown."""


def save_agent(agent: Any, path: str | os.PathLike[str]) -> None:
    """Write an agent to a file, all of it or nothing; the file that was there is kept."""
    with exclusive(agent):
        fields, arrays = described(agent)
        try:
            check_agent_state(agent)
        except WRONG as error:
            raise InvalidParameter("agent", agent, f"internally consistent ({error})") from None
        _keep_previous(Path(path))
        save_arrays(path, KIND, fields, arrays)


def check_agent_state(agent: Any) -> None:
    """Raise a ValueError that names the first field which is not as declared."""
    _must_be_an_agent(agent)
    validate(agent)


def _must_be_an_agent(agent: Any) -> None:
    for verb in ("act", "observe"):
        is_agent = callable(getattr(agent, verb, None))
        require(is_agent, f"{type(agent).__name__} is not an agent: it has no method {verb!r}")


def described(agent: Any) -> tuple[dict[str, Any], Arrays]:
    """The state of an agent: fields for a header, and its arrays themselves, not copies."""
    arrays: Arrays = {}
    tree = _described(agent, "", arrays)
    return {"version": FORMAT, "agent": tree}, arrays


def previous_of(path: Path) -> Path:
    """The path of the previous file."""
    return path.with_name(path.name + ".previous")


def _keep_previous(path: Path) -> None:
    """Rename the file that is there, unless it is damaged: a good one may be kept already."""
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
    spare.unlink(missing_ok=True)  # `replace` does nothing where both are the same file


def _described(instance: Any, path: str, arrays: Arrays) -> dict[str, Any]:
    """The class and plain fields of an instance; its arrays are collected in `arrays`."""
    cls = type(instance)
    kinds, here = fields_of(cls), path or "agent"
    has_new = any("__new__" in vars(base) for base in cls.__mro__[:-1])
    if has_new or not hasattr(instance, "__dict__"):
        raise InvalidParameter(here, instance, "a number, an array, or an object of a plain class")
    if classes_of("switchmdp").get(cls.__name__, cls) is not cls:
        raise InvalidParameter(
            f"the class of {here}", cls, "a class with a name that no class of switchmdp has"
        )
    for name in sorted(set(vars(instance)) - set(kinds) - {"taken"}):
        allowed = f"annotated in {cls.__name__}: it would not be saved"
        raise InvalidParameter(f"{here}.{name}", getattr(instance, name), allowed)
    dot = f"{path}." if path else ""
    fields = {
        name: _stored(getattr(instance, name, None), kind, f"{dot}{name}", arrays)
        for name, kind in state_fields(cls).items()
    }
    return {"class": cls.__name__, "fields": fields}


def _stored(value: Any, kind: Any, here: str, arrays: Arrays) -> Any:
    """A field's value for the header, converted to its annotated type as in machine code."""
    if isinstance(value, (np.ndarray, list, tuple)) and (kind is Any or isinstance(kind, ArrayOf)):
        with suppress(TypeError, ValueError):  # not an array, or not of this type
            array = np.asarray(value, getattr(kind, "dtype", None))
            same = array is value or np.array_equal(array, value, equal_nan=True)
            if same and not array.dtype.hasobject:
                arrays[here] = array
                return {"array": here}
    elif isinstance(value, NUMBERS):
        kind = _kind_of(value) if kind is Any else kind
        with suppress(OverflowError, ValueError):  # infinities and NaN are not integers
            if kind is float:
                return {"float": float(value).hex()}
            number = kind(value) if kind in (bool, int) else None
            if number is not None and number == value and -LARGEST <= number < LARGEST:
                return number
    elif kind is Any or inspect.isclass(kind):
        return _described(value, here, arrays)
    says = "an array" if isinstance(kind, ArrayOf) else getattr(kind, "__name__", str(kind))
    raise InvalidParameter(here, value, f"{says}, as its class declares")


def _kind_of(number: Any) -> type:
    if isinstance(number, (bool, np.bool_)):
        return bool
    return int if isinstance(number, (int, np.integer)) else float


def load(path: str | os.PathLike[str], classes: Iterable[type] = ()) -> Any:
    """Load an agent that `Agent.save` has written.

    If the file is damaged, its previous version is loaded, with a warning.

    Parameters
    ----------
    path
        The file.
    classes
        Classes of your own that the file may name.

    Returns
    -------
    Agent
        The agent, which continues exactly where it was saved.

    Raises
    ------
    DamagedFile
        If the file is incomplete, altered, or describes no valid agent.
    FileNotFoundError
        If there is no file; the message names the previous version if there is one.
    InvalidParameter
        If two classes have one name, or one has the name of a class of switchmdp.

    Examples
    --------
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
    except FileNotFoundError:
        if not previous.exists():
            raise
        reason = f"there is no such file; its previous version is {previous}"
        raise FileNotFoundError(errno.ENOENT, reason, str(newest)) from None
    except DamagedFile as error:
        if not previous.exists():
            raise
        try:
            agent = _loaded(previous, known)
        except DamagedFile as second:
            raise DamagedFile(f"{error}; and the previous file: {second}") from None
        warnings.warn(f"{error}; loaded the previous file instead", stacklevel=2)
        return agent


def known_classes(classes: Iterable[type]) -> dict[str, type]:
    """The classes of switchmdp by name, and those of the caller."""
    known = classes_of("switchmdp")
    for cls in classes:
        if not isinstance(cls, type) or known.setdefault(cls.__name__, cls) is not cls:
            raise InvalidParameter(
                "classes", cls, "classes with different names, which no class of switchmdp has"
            )
    return known


def _loaded(path: Path, known: Mapping[str, type]) -> Any:
    return rebuilt(path, *load_arrays(path, KIND), known)


def rebuilt(
    path: object, fields: Mapping[str, Any], arrays: Arrays, known: Mapping[str, type]
) -> Any:
    """The agent that these fields and arrays of a file describe, checked."""
    version = fields.get("version")
    if version not in (1, 2, FORMAT):
        raise NotKnown(f"{path} has agent format {version!r}, not one of 1 to {FORMAT}")
    unused = dict(arrays)
    try:
        tree = fields.get("agent")
        agent = _built(_with_exploration(tree) if version == 1 else tree, unused, known)
        if unused:
            raise ValueError(f"arrays that belong to no field: {', '.join(unused)}")
        _must_be_an_agent(agent)
        complete(agent)
    except NotKnown as error:
        raise NotKnown(f"{path}: {error}") from None
    except WRONG as error:
        raise DamagedFile(f"{path} does not describe an agent: {error}") from None
    return agent


def _with_exploration(tree: Any) -> Any:
    """Format 1 had no exploration component."""
    given = tree.get("fields") if isinstance(tree, dict) else None
    if not isinstance(given, dict) or not {"plausible", "episodes"} <= set(given):
        return tree
    return {**tree, "fields": given | {"exploration": {"class": "AsPlanned", "fields": {}}}}


def _built(tree: Any, unused: Arrays, known: Mapping[str, type]) -> Any:
    """The object that a part of the header describes, without its scratch fields."""
    if not isinstance(tree, dict) or set(tree) != {"class", "fields"}:
        raise ValueError("a part of it has no class and fields")
    name, given = tree["class"], tree["fields"]
    if not isinstance(name, str):
        raise ValueError(f"the name of a class is {name!r}")
    cls = known.get(name) or known.get(OLD_CLASSES.get(name, ""))
    if cls is None:
        raise NotKnown(f"the class {name!r} is unknown; name it in classes=")
    state, fields = state_fields(cls), fields_of(cls)
    if isinstance(given, dict):
        given = {**_added(cls), **given}
    if not isinstance(given, dict) or not set(state) <= set(given) <= set(fields):
        raise ValueError(f"{cls.__name__} has other fields")
    instance: Any = object.__new__(cls)
    for field, kind in fields.items():
        place = f"{cls.__name__}.{field}"
        if field in state:
            setattr(instance, field, _value(place, given[field], kind, unused, known))
        elif field in given:  # scratch, in a file of format 1 or 2
            _value(place, given[field], kind, unused, known)
    if isinstance(instance, Episodic):
        for component in instance.parts():
            component.taken = True
    return instance


def _added(cls: type) -> dict[str, Any]:
    """The fields that a class has gained, as a header holds them."""
    added: dict[str, Any] = getattr(cls, "added_fields", {})
    return {
        name: {"float": value.hex()} if type(value) is float else value
        for name, value in added.items()
    }


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
        component = _built(given, unused, known)
        if kind is not Any and not isinstance(component, kind):
            raise ValueError(f"{place} is a {type(component).__name__}")
        return component
    raise ValueError(f"{place} is {given!r}")
