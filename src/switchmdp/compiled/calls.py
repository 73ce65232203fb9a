"""Calls into machine code that pass the fields of an instance one by one.

`call_machine_code` packs an instance into nested tuples, lets Numba find out their type, and holds
signals back: 100 µs and more. Numba recognises plain arguments at once. So the functions here take
every field as an argument of its own and return every field.

- `BatchFunction`: for a batch of tasks (simulations), each with a new copy of one instance, or with
  an instance of its own. The caller delays signals.
- `Caller`: for many calls on one instance (a decision), about 10 µs. It remembers where the fields
  of its instance are, and checks only what may have changed since the last call.

**Signals in a Caller.** A handler that raises between the machine code and the lines that store its
results would leave the instance half updated. Python runs handlers between bytecodes only. So the
call and the stores are a single bytecode: iterators written in C drive both (`Caller.__call__`). To
return an array, Numba runs Python code that looks up the class of arrays; `Returned` arrays do
without.
"""

from __future__ import annotations

import hashlib
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import copy
from itertools import chain, starmap
from operator import getitem, is_, setitem
from typing import Any, get_type_hints

import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]  # it ships no types
from numba import types
from numba.core import cgutils
from numba.core.datamodel import models
from numba.core.imputils import impl_ret_borrowed
from numba.extending import box, intrinsic, overload, register_model
from numba.np import numpy_support

from switchmdp.compiled.compiler import INNER_OPTIONS
from switchmdp.compiled.declarations import RandomWords
from switchmdp.compiled.structs import _LEAVES, _PLAIN, _packed, thaw

_SCALARS = {bool: bool, int: int, float: float}


class Returned(types.Array):  # type: ignore[misc]  # Numba ships no types
    """An array that becomes a Python object without any Python code."""


register_model(Returned)(models.ArrayModel)


@intrinsic  # type: ignore[untyped-decorator]  # Numba ships no types
def as_returned(typingctx: Any, array: Any) -> Any:
    """In machine code: the array, marked to be returned."""
    name = f"Returned({array.name})"
    kind = Returned(array.dtype, array.ndim, array.layout, name=name, aligned=array.aligned)
    return kind(array), lambda context, builder, sig, args: impl_ret_borrowed(
        context, builder, kind, args[0]
    )


@box(Returned)  # type: ignore[untyped-decorator]  # Numba ships no types
def _box_returned(kind: Any, value: Any, c: Any) -> Any:
    """As for other arrays, but the class `ndarray` is a constant instead of a pickle."""
    number, api = ir.IntType(32), c.pyapi
    dtype, array_class = (
        c.env_manager.read_const(c.env_manager.add_const(constant))
        for constant in (numpy_support.as_dtype(kind.dtype), np.ndarray)
    )
    signature = ir.FunctionType(api.pyobj, [api.voidptr, api.pyobj, number, number, api.pyobj])
    adapt = api._get_function(signature, name="NRT_adapt_ndarray_to_python_acqref")
    pointer = c.builder.bitcast(cgutils.alloca_once_value(c.builder, value), api.voidptr)
    ndim, writable = number(kind.ndim), number(1)
    result = c.builder.call(adapt, [pointer, array_class, ndim, writable, dtype])
    c.context.nrt.decref(c.builder, kind, value)
    return result


def own(array: Any, copies: bool) -> Any:
    """In machine code: a copy of an array, or the array itself."""
    return array.copy() if copies else array


@overload(own, strict=False, jit_options=INNER_OPTIONS)  # type: ignore[untyped-decorator]  # Numba ships no types
def _overload_own(array: Any, copies: bool) -> Any:
    return lambda array, copies: array.copy() if copies else array


_here = threading.local()


@contextmanager
def interpreting() -> Iterator[None]:
    """In the block, this thread runs agents interpreted, even if there is machine code.

    Examples
    --------
    >>> with interpreting():
    ...     is_interpreting()
    True
    """
    before = is_interpreting()
    _here.interpreting = True
    try:
        yield
    finally:
        _here.interpreting = before


def is_interpreting() -> bool:
    """Whether this thread is in a block of `interpreting`.

    Returns
    -------
    bool
        Whether it is.

    Examples
    --------
    >>> is_interpreting()
    False
    >>> with interpreting():
    ...     is_interpreting()
    True
    """
    return getattr(_here, "interpreting", False)


class Layout:
    """Where the fields of a tree of compiled classes are: the same for all instances of a tree.

    Components are numbered, the instance itself is 0. Arrays come first, then numbers.
    """

    def __init__(self, instance: Any) -> None:
        self.components: list[tuple[int, str]] = [(-1, "")]  # (number of its owner, field)
        self.arrays: list[tuple[int, str]] = []
        self.numbers: list[tuple[int, str]] = []
        self.kinds: dict[tuple[int, str], Any] = {}
        self._classes: list[Any] = []
        self._below: dict[tuple[int, str], int] = {}
        self._walk(instance, 0)
        # The fields that hold random words.
        self.words = [(i, name) for i, cls in enumerate(self._classes)
                      for name, hint in get_type_hints(cls, include_extras=True).items()
                      if hint == RandomWords]  # fmt: skip
        self._leaves = [f"f{i}" for i in range(len(self.arrays) + len(self.numbers))]
        self.gather, self.scatter = self._accessors()

    def _walk(self, instance: Any, number: int) -> None:
        cls = type(instance)
        self._classes.append(cls)
        for name, kind in cls.__fields__.items():
            value, at = instance.__dict__[name], (number, name)
            if type(value) in _LEAVES or isinstance(value, _PLAIN):
                self.kinds[at] = kind
                (self.numbers if kind in _SCALARS else self.arrays).append(at)
            else:
                self._below[at] = below = len(self.components)
                self.components.append(at)
                self._walk(value, below)

    def _accessors(self) -> tuple[Callable[..., Any], Callable[..., None]]:
        """gather(instance) -> (arrays, numbers) and scatter(instance, all fields).

        As generated code they take a tenth of the time of a loop over the fields.
        """
        parts = [f"    {line}" for line in self._owners()]
        arrays = "".join(f"c{number}.{name}, " for number, name in self.arrays)
        numbers = "".join(f"c{number}.{name}, " for number, name in self.numbers)
        scope: dict[str, Any] = {}
        gather = ["def gather(c0):", *parts, f"    return ({arrays}), ({numbers})"]
        scatter = ["def scatter(c0, fields):", *parts, f"    {arrays}{numbers}= fields"]
        exec("\n".join([*gather, *scatter]), scope)
        return scope["gather"], scope["scatter"]

    def copy_with(self, instance: Any, fields: tuple[Any, ...]) -> Any:
        """A copy of an instance that has these fields, which are not copied."""
        parts = [object.__new__(type(instance))]
        vars(parts[0]).update(vars(instance))  # `copy` would copy the components too
        for owner, name in self.components[1:]:
            part = copy(parts[owner].__dict__[name])
            parts[owner].__dict__[name] = part
            parts.append(part)
        self.scatter(parts[0], fields)
        return parts[0]

    def source(self, name: str, arguments: list[str], results: list[str]) -> str:
        """A function of all fields and of the arguments.

        It calls `function(instance, *arguments)`, which returns the result, or a tuple if there are
        several, and returns all fields and the results.
        """
        return "\n".join([
            f"def {name}({', '.join([*self._leaves, *arguments])}):",
            f"    c0 = thaw({self._packed(self._leaves)})",
            f"    {', '.join(results)} = function({', '.join(['c0', *arguments])})",
            *(f"    {line}" for line in self._owners()),
            f"    return ({', '.join([*self._fields(), *results])})",
        ])  # fmt: skip

    def batch_source(self, name: str, arguments: list[str]) -> str:
        """A function of all fields, four arguments of its own, and the arguments.

        If `copies`, it calls `function(copy, i, *arguments)` with a new copy of the instance for
        each i from the given one up to `stop`, as long as the function returns True. The random
        words of copy i are words[i]. Otherwise it makes one call with the instance itself.

        It returns all fields of the last instance, and the last i.
        """
        n = len(self.arrays)
        leaves = [f"own(f{i}, copies)" for i in range(n)] + self._leaves[n:]
        # A slice assignment takes Numba a second to compile.
        words = [
            f"            for k in range(words.shape[1]): c{number}.{field}[k] = words[i, k]"
            for number, field in self.words
        ]
        own = ["words", "copies", "i", "stop"]
        return "\n".join([
            f"def {name}({', '.join([*self._leaves, *own, *arguments])}):",
            "    while True:",
            f"        c0 = thaw({self._packed(leaves)})",
            *(f"        {line}" for line in self._owners()),
            *(["        if copies:", *words] if words else []),
            f"        more = function({', '.join(['c0', 'i', *arguments])})",
            "        if not more or not copies or i + 1 == stop:",
            "            break",
            "        i += 1",
            f"    return ({', '.join([*self._fields(), 'i'])})",
        ])  # fmt: skip

    def _packed(self, leaves: list[str], number: int = 0) -> str:
        """The expression for the named tuple of a component, whose leaves are these expressions."""
        at = dict(zip([*self.arrays, *self.numbers], leaves, strict=True))
        items = [self._packed(leaves, self._below[number, field])
                 if (number, field) in self._below else at[number, field]
                 for field in self._classes[number].__fields__]  # fmt: skip
        return f"state{number}({''.join(item + ', ' for item in items)})"

    def _owners(self) -> list[str]:
        """Lines that give each component its name."""
        parts = enumerate(self.components)
        return [f"c{i} = c{owner}.{field}" for i, (owner, field) in parts if i > 0]

    def _fields(self) -> list[str]:
        """The expressions for all fields."""
        arrays = [f"as_returned(c{number}.{field})" for number, field in self.arrays]
        return arrays + [f"c{number}.{field}" for number, field in self.numbers]

    def scope(self, function: Callable[..., Any]) -> dict[str, Any]:
        """The names that the source uses."""
        states = {f"state{i}": cls.__state__ for i, cls in enumerate(self._classes)}
        # Without the name of a module, the file on disk would have to hold all that is named here.
        module = getattr(function, "py_func", function).__module__
        names = {"thaw": thaw, "own": own, "function": function, "as_returned": as_returned}
        return {"__name__": module, **names, **states}


class BatchFunction:
    """`function(instance, i, *arguments)` as machine code for many i, in one call.

    It works for all instances of a tree of classes.

    Parameters
    ----------
    dispatcher
        The machine code.
    layout
        Where the fields of the instances are.
    """

    def __init__(self, dispatcher: Any, layout: Layout) -> None:
        self._dispatcher, self.layout = dispatcher, layout
        self._n_fields = len(layout.arrays) + len(layout.numbers)
        self._array_kinds = [layout.kinds[at] for at in layout.arrays]
        self._dtypes = [getattr(kind, "dtype", None) for kind in self._array_kinds]
        self._types = tuple(layout.kinds[at] for at in layout.numbers)

    def __call__(
        self, instance: Any, words: Any, copies: bool, i: int, stop: int, *arguments: Any
    ) -> tuple[tuple[Any, ...], int]:
        """Run the machine code (`Layout.batch_source`), with signals delayed.

        Returns the fields of the last copy and the last i. Without copies, it updates the instance.
        """
        given = self.fields(instance)
        returned: tuple[Any, ...] = self._dispatcher(*given, words, copies, i, stop, *arguments)
        fields, last = returned[: self._n_fields], returned[self._n_fields]
        if not copies:
            self.layout.scatter(instance, fields)
        return fields, last

    def compile(self, instance: Any, *arguments: Any) -> None:
        """Compile, unless that was done before; changes nothing, so it may be interrupted.

        Parameters
        ----------
        instance
            An instance.
        arguments
            The other arguments.
        """
        if not self._dispatcher.overloads:
            given = (*self.fields(instance), NO_WORDS, False, 0, 1, *arguments)
            self._dispatcher.compile(tuple(map(self._dispatcher.typeof_pyval, given)))

    @property
    def are_words(self) -> list[bool]:
        """Of each field, whether it holds random words."""
        return [at in self.layout.words for at in [*self.layout.arrays, *self.layout.numbers]]

    def fields(self, instance: Any) -> list[Any]:
        """All fields, converted to their annotated types.

        Parameters
        ----------
        instance
            An instance.

        Returns
        -------
        list[Any]
            The fields.
        """
        arrays, numbers = self.layout.gather(instance)
        fields = [
            value if type(value) is np.ndarray and value.flags.carray
            and (dtype is None or value.dtype == dtype) else _packed(value, kind)
            for value, dtype, kind in zip(arrays, self._dtypes, self._array_kinds, strict=True)
        ]  # fmt: skip
        if tuple(map(type, numbers)) != self._types:
            numbers = map(_packed, numbers, self._types)
        fields += numbers
        return fields


NO_WORDS = np.zeros((0, 4), np.uint64)


class Caller:
    """`function(instance, *arguments)` as machine code on one instance, which it changes.

    `results` has what the function returned.

    Parameters
    ----------
    dispatcher
        The machine code.
    layout
        Where the fields of the instance are.
    results
        The names of the results.
    instance
        The instance.
    """

    def __init__(self, dispatcher: Any, layout: Layout, results: list[str], instance: Any) -> None:
        self._dispatcher, self._layout = dispatcher, layout
        self.results: dict[str, Any] = dict.fromkeys(results)
        self._find(instance)

    def fits(self) -> bool:
        """Whether the instance still holds the components with which it began."""
        return all(map(is_, map(getitem, self._owners, self._slots), self._components))

    def __call__(self, *arguments: Any) -> None:
        """Run the machine code, and update the instance. It must fit."""
        if not all(map(is_, map(getitem, self._array_owners, self._array_names), self._arrays)):
            self._check_arrays()
        numbers = tuple(map(getitem, self._number_owners, self._number_names))
        if tuple(map(type, numbers)) != self._types:
            numbers = self._coerced(numbers)
        given = ((*self._arrays, *numbers, *arguments),)
        returned = chain.from_iterable(starmap(self._dispatcher, given))
        deque(map(setitem, self._targets, self._names, returned), maxlen=0)

    def compile(self, *arguments: Any) -> None:
        """Compile, unless that was done before; changes nothing, so it may be interrupted.

        Parameters
        ----------
        arguments
            The arguments.
        """
        if not self._dispatcher.overloads:
            numbers = self._coerced(tuple(map(getitem, self._number_owners, self._number_names)))
            given = (*self._arrays, *numbers, *arguments)
            self._dispatcher.compile(tuple(map(self._dispatcher.typeof_pyval, given)))

    def _find(self, instance: Any) -> None:
        layout, parts = self._layout, [instance]
        for owner, name in layout.components[1:]:
            parts.append(parts[owner].__dict__[name])
        held = [part.__dict__ for part in parts]
        below = layout.components[1:]
        self._components = parts[1:]
        self._owners, self._slots = [held[i] for i, _ in below], [name for _, name in below]
        self._array_owners = [held[i] for i, _ in layout.arrays]
        self._array_names = [name for _, name in layout.arrays]
        self._number_owners = [held[i] for i, _ in layout.numbers]
        self._number_names = [name for _, name in layout.numbers]
        self._types = tuple(layout.kinds[at] for at in layout.numbers)
        self._targets = [*self._array_owners, *self._number_owners]
        self._targets += [self.results] * len(self.results)
        self._names = [*self._array_names, *self._number_names, *self.results]
        self._arrays: list[Any] = [None] * len(layout.arrays)
        self._check_arrays()

    def _check_arrays(self) -> None:
        """Arrays that are new must have the type of their annotation, and be C-contiguous."""
        for i, at in enumerate(self._layout.arrays):
            value = self._array_owners[i][self._array_names[i]]
            if value is not self._arrays[i]:
                kind = getattr(self._layout.kinds[at], "dtype", None)
                usual = type(value) is np.ndarray and value.flags.carray
                if not usual or (kind is not None and value.dtype != kind):
                    value = _packed(value, self._layout.kinds[at])
                    self._array_owners[i][self._array_names[i]] = value
                self._arrays[i] = value

    def _coerced(self, numbers: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple(_packed(n, kind) for n, kind in zip(numbers, self._types, strict=True))


def make_function(
    function: Callable[..., Any], layout: Layout, source: str
) -> tuple[Callable[..., Any], str]:
    """The function that a source of the layout defines, and a digest of the source."""
    scope = layout.scope(function)
    exec(source, scope)
    name = getattr(function, "py_func", function).__name__
    return scope[name], hashlib.sha256(source.encode()).hexdigest()
