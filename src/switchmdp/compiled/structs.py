"""Classes in machine code: what `@compiled` registers with Numba.

A compiled class is a plain Python class with annotated fields. Its instances are passed to machine
code as a tree of named tuples and returned as tuples:

    object --pack--> named tuples --thaw--> structs ... run ... --freeze--> tuples --unpack-->

(The result is plain tuples, because Python runs bytecode to make a named tuple. A signal handler
may raise there, which makes Numba crash.)

In machine code an instance is a mutable struct (Numba's `structref`) whose type is made of its
fields' types, so one generic class is specialised for every combination of the components it
holds. Its methods are the functions of the Python class.

A type checker cannot see what `register` adds to a class (`__fields__`, `__state__`, `__struct__`)
nor what Numba decorates: hence the ignores below.
"""

from __future__ import annotations

import inspect
import sys
from collections import namedtuple
from collections.abc import Callable
from typing import Any, ClassVar, Protocol, TypeVar, cast, get_args, get_origin, get_type_hints

import numpy as np
from numba import types
from numba.core import cgutils
from numba.experimental import structref
from numba.experimental.jitclass.base import imp_dtor
from numba.extending import intrinsic, lower_builtin, overload, overload_method, type_callable

from switchmdp.compiled.compiler import INNER_OPTIONS, before_compiling

F = TypeVar("F", bound=Callable[..., Any])

_PLAIN = (bool, int, float, np.generic, np.ndarray, list, tuple)
_LEAVES = frozenset((bool, int, float, np.ndarray))
EVERY_STEP = ("act", "observe")  # inlined into the loop: their references then cancel out
_CLASS_OF_TUPLE: dict[Any, Any] = {}
_waiting: list[Any] = []  # classes whose methods Numba has not been told


def register(cls: Any) -> None:
    """Register the fields of a class with Numba, and its methods when something is compiled.

    Machine code that is loaded from disk needs no methods, and they take a fifth of a second.

    Parameters
    ----------
    cls
        The class.
    """
    fields = fields_of(cls)
    name = f"{cls.__name__}State"
    state = namedtuple(name, fields)  # type: ignore[misc]  # the fields are known at run time only
    state.__module__ = cls.__module__
    # The machine code on disk names its argument types by import path.
    setattr(sys.modules[cls.__module__], name, state)
    struct = type(f"{cls.__name__}Struct", (types.StructRef,), {"preprocess_fields": _preprocess})
    cls.__fields__ = fields
    # The fields that may hold components: other than numbers and arrays.
    leaves = (bool, int, float)
    cls.__components__ = [
        n for n, k in fields.items() if k not in leaves and type(k) is not ArrayOf
    ]
    cls.__state__ = state
    cls.__struct__ = struct
    _CLASS_OF_TUPLE[state] = cls
    _waiting.append(cls)


@before_compiling
def _register_methods() -> None:
    while _waiting:
        cls = _waiting.pop(0)
        structref.register(cls.__struct__)
        for method, function in inspect.getmembers(cls, inspect.isfunction):
            if not method.startswith("__"):
                typed = _same_signature(inspect.unwrap(function))
                options = {**INNER_OPTIONS, "forceinline": method in EVERY_STEP}
                overload_method(cls.__struct__, method, strict=False, jit_options=options)(typed)


_fields: dict[type, dict[str, Any]] = {}


def fields_of(cls: type) -> dict[str, Any]:
    """The annotated fields of a class: int, float, bool, `ArrayOf`, a class, or Any.

    Remembered, because evaluating annotations took half of the time to load an agent.

    Parameters
    ----------
    cls
        A compiled class.

    Returns
    -------
    dict[str, Any]
        The types, by field.

    Examples
    --------
    >>> class Averages:
    ...     rate: float
    >>> fields_of(Averages)
    {'rate': <class 'float'>}
    """
    if cls not in _fields:
        _fields[cls] = {
            name: _kind(hint)
            for name, hint in get_type_hints(cls).items()
            if get_origin(hint) is not ClassVar and hint is not ClassVar
        }
    return _fields[cls]


class ArrayOf:
    """The annotation of an array field: NDArray[T] has elements of type T, np.ndarray any.

    Parameters
    ----------
    hint
        The annotation, np.ndarray[shape, np.dtype[T]] or np.ndarray.

    Examples
    --------
    >>> ArrayOf(np.ndarray[Any, np.dtype[np.int64]]).dtype
    dtype('int64')
    """

    def __init__(self, hint: Any) -> None:
        element = get_args(get_args(hint)[1])[0] if len(get_args(hint)) == 2 else None
        self.dtype = np.dtype(element) if isinstance(element, type) else None


def _kind(hint: Any) -> Any:
    alias = getattr(get_origin(hint), "__value__", None)
    if alias is not None:  # from NumPy 2.5 on, NDArray is a type alias that has to be resolved
        hint = alias[get_args(hint)]
    return ArrayOf(hint) if hint is np.ndarray or get_origin(hint) is np.ndarray else hint


def _preprocess(self: Any, fields: Any) -> Any:
    return tuple((name, types.unliteral(kind)) for name, kind in fields)


def _same_signature(function: Callable[..., Any]) -> Callable[..., Any]:
    """A typing function with the parameters of `function`, as Numba requires."""
    names = ", ".join(inspect.signature(function).parameters)
    scope = {"function": function}
    exec(f"def typed({names}):\n    return function", scope)
    scope["typed"].__defaults__ = function.__defaults__
    return scope["typed"]


def _thawed(kind: Any) -> Any:
    """The struct type that a named tuple's type describes; any other type as it is."""
    cls = _CLASS_OF_TUPLE.get(getattr(kind, "instance_class", None))
    if cls is None:
        return kind
    fields = [(n, _thawed(k)) for n, k in zip(kind.fields, kind.types, strict=True)]
    return cls.__struct__(fields)


def _frozen(kind: Any) -> Any:
    """The type of a tuple of a struct's fields; any other type as it is."""
    if not isinstance(kind, types.StructRef):
        return kind
    return types.Tuple([_frozen(k) for k in kind.field_dict.values()])


def _build_struct(context: Any, builder: Any, state: Any, kind: Any, value: Any) -> Any:
    """Allocate a struct, and those below it, from the fields of a named tuple."""
    payload = kind.get_data_type()
    layout = context.data_model_manager[payload].get_value_type()
    size = context.get_constant(types.uintp, context.get_abi_sizeof(layout))
    free = imp_dtor(context, builder.module, kind)
    memory = context.nrt.meminfo_alloc_dtor(builder, size, free)
    pointer = builder.bitcast(context.nrt.meminfo_data(builder, memory), layout.as_pointer())
    builder.store(cgutils.get_null_value(layout), pointer)
    fields = cgutils.create_struct_proxy(payload)(context, builder, ref=pointer)
    for i, (name, field) in enumerate(zip(state.fields, state.types, strict=True)):
        item = builder.extract_value(value, i)
        if kind.field_dict[name] is field:
            context.nrt.incref(builder, field, item)
        else:
            item = _build_struct(context, builder, field, kind.field_dict[name], item)
        setattr(fields, name, item)
    struct = context.make_helper(builder, kind)
    struct.meminfo = memory
    return struct._getvalue()


def _build_tuple(context: Any, builder: Any, kind: Any, state: Any, value: Any) -> Any:
    """The tuple of a struct's fields, and of those below it."""
    struct = cgutils.create_struct_proxy(kind)(context, builder, value=value)
    payload = kind.get_data_type()
    layout = context.data_model_manager[payload].get_value_type()
    data = context.nrt.meminfo_data(builder, struct.meminfo)
    pointer = builder.bitcast(data, layout.as_pointer())
    fields = cgutils.create_struct_proxy(payload)(context, builder, ref=pointer)
    items = []
    for name, field in zip(kind.field_dict, state.types, strict=True):
        item = getattr(fields, name)
        if kind.field_dict[name] is field:
            context.nrt.incref(builder, field, item)
        else:
            item = _build_tuple(context, builder, kind.field_dict[name], field, item)
        items.append(item)
    return context.make_tuple(builder, state, items)


@intrinsic  # type: ignore[untyped-decorator]  # Numba ships no types
def _thaw(typingctx: Any, state: Any) -> Any:
    kind = _thawed(state)
    return kind(state), lambda context, builder, sig, args: _build_struct(
        context, builder, state, kind, args[0]
    )


@intrinsic  # type: ignore[untyped-decorator]  # Numba ships no types
def _freeze(typingctx: Any, struct: Any) -> Any:
    state = _frozen(struct)
    return state(struct), lambda context, builder, sig, args: _build_tuple(
        context, builder, struct, state, args[0]
    )


def thaw(state: Any) -> Any:
    """The struct that a tree of named tuples describes, in machine code.

    Parameters
    ----------
    state
        The named tuples.

    Returns
    -------
    Any
        The struct.
    """
    return state


def freeze(struct: Any) -> Any:
    """The tree of tuples with the fields of a struct, in machine code.

    Parameters
    ----------
    struct
        The struct.

    Returns
    -------
    Any
        The tuples.
    """
    return struct


@overload(thaw, strict=False, jit_options=INNER_OPTIONS)  # type: ignore[untyped-decorator]  # Numba ships no types
def _overload_thaw(state: Any) -> Any:
    return lambda state: _thaw(state)


@overload(freeze, strict=False, jit_options=INNER_OPTIONS)  # type: ignore[untyped-decorator]  # Numba ships no types
def _overload_freeze(struct: Any) -> Any:
    return lambda struct: _freeze(struct)


def index(i: Any) -> Any:
    """A number that is never negative, as an index.

    Numba wraps negative indices around. That check is cheap, but with it LLVM does not see that
    neighbouring elements are neighbours, and loads them one by one.

    Parameters
    ----------
    i
        The number.

    Returns
    -------
    Any
        The same number, unsigned.

    Examples
    --------
    >>> [10, 20, 30][index(1)]
    20
    """
    return i


@type_callable(index)  # type: ignore[untyped-decorator]  # Numba ships no types
def _type_index(context: Any) -> Any:
    return lambda i: types.uintp if isinstance(i, types.Integer) else None


@lower_builtin(index, types.Integer)  # type: ignore[untyped-decorator]  # Numba ships no types
def _lower_index(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    signed = context.cast(builder, args[0], sig.args[0], types.intp)
    return context.cast(builder, signed, types.intp, types.uintp)


def _class_of_struct(kind: Any) -> Any:
    return next(c for c in _CLASS_OF_TUPLE.values() if type(kind) is c.__struct__)


def class_tree(instance: Any) -> Any:
    """The class of an instance, and those of its fields.

    The class itself must be registered: an unregistered subclass may override anything.

    Parameters
    ----------
    instance
        The instance.

    Returns
    -------
    Any
        The tree of classes; None if machine code cannot hold the instance.

    Examples
    --------
    >>> class_tree("text") is None  # not a compiled class
    True
    """
    cls = type(instance)
    if "__state__" not in cls.__dict__:
        return None
    held, tree = instance.__dict__, [cls]
    for name in cls.__components__:
        value = held.get(name)
        if type(value) in _LEAVES or isinstance(value, _PLAIN):
            continue
        below = class_tree(value)
        if below is None:
            return None
        tree.append(below)
    return tuple(tree)


def is_compiled(instance: Any) -> bool:
    """Whether machine code can hold the instance, and all that it holds.

    Parameters
    ----------
    instance
        Any object.

    Returns
    -------
    bool
        Whether it can.

    Examples
    --------
    >>> is_compiled("text")
    False
    """
    return class_tree(instance) is not None


def pack(instance: Any) -> Any:
    """The tree of named tuples of an instance, every field converted to its annotated type.

    Otherwise a float in an integer field would be truncated silently, and a read-only or transposed
    array would need another compilation.

    Parameters
    ----------
    instance
        An instance of a compiled class.

    Returns
    -------
    Any
        The named tuples.
    """
    cls, held, items = type(instance), instance.__dict__, []
    for name, kind in cls.__fields__.items():
        value = held[name]
        sort = type(value)
        if sort is np.ndarray:  # `np.require` takes longer than a look at what is usual
            dtype = getattr(kind, "dtype", None)
            usual = value.flags.carray and (dtype is None or value.dtype == dtype)
            items.append(value if usual else _packed(value, kind))
        elif sort is kind and sort in _LEAVES:
            items.append(value)
        else:
            items.append(_packed(value, kind))
    return tuple.__new__(cls.__state__, items)


def _packed(value: Any, kind: Any) -> Any:
    if isinstance(value, (np.ndarray, list, tuple)):
        return np.require(value, getattr(kind, "dtype", None), ["C", "W", "A"])
    if isinstance(value, _PLAIN):
        if kind is int and value % 1 != 0:  # type: ignore[operator]  # all are numbers
            raise TypeError(f"{value!r} in a field that holds integers")
        return kind(value)
    return pack(value)


def unpack(instance: Any, state: Any) -> None:
    """Write a tree of tuples back into the instance whose fields they are.

    Parameters
    ----------
    instance
        The instance.
    state
        The tuples.
    """
    held = instance.__dict__
    for name, value in zip(type(instance).__fields__, state, strict=True):
        if isinstance(value, tuple):
            unpack(held[name], value)
        else:
            held[name] = value


def classes_in(instance: Any) -> list[type]:
    """The instance's class and those of the components it holds, and all their bases.

    Parameters
    ----------
    instance
        An instance of a compiled class.

    Returns
    -------
    list[type]
        The classes.
    """
    classes = [cls for cls in type(instance).__mro__ if cls is not object]
    for name in type(instance).__fields__:
        value = getattr(instance, name)
        if is_compiled(value):
            classes += classes_in(value)
    return classes


class Specialised(Protocol):
    """A function with `.when`."""

    def __call__(self, *arguments: Any) -> Any: ...

    def when(self, condition: Callable[[type], bool]) -> Callable[[F], F]: ...


def specialised(default: Any) -> Specialised:
    """A function with other implementations for some compiled classes of its first argument.

    Interpreted code always runs the default. Machine code takes the first implementation added by
    `.when(condition)` whose condition holds for the class, and else the default.

    Parameters
    ----------
    default
        The implementation for interpreted code, and for all other classes.

    Returns
    -------
    Specialised
        The function.
    """
    choices: list[tuple[Callable[[type], bool], Callable[..., Any]]] = []

    def when(condition: Callable[[type], bool]) -> Callable[[F], F]:
        def add(function: F) -> F:
            choices.append((condition, function))
            return function

        return add

    parameters = ", ".join(inspect.signature(default).parameters)
    first = next(iter(inspect.signature(default).parameters))

    def choose(kind: Any) -> Callable[..., Any]:
        cls = _class_of_struct(kind)
        return next((function for condition, function in choices if condition(cls)), default)

    scope = {"choose": choose}
    exec(f"def typed({parameters}):\n    return choose({first})", scope)
    overload(default, strict=False, jit_options=INNER_OPTIONS)(scope["typed"])
    default.when = when
    return cast("Specialised", default)
