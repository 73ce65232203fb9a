"""One source per algorithm, interpreted or machine code. The only package that imports Numba.

- `@jit` on a function: machine code when called from machine code or from Python.
- `@entry` likewise, for the functions that Python calls: kept on disk between processes.
- `@patient` likewise, but interpreted while arguments are small and nothing is on disk.
- `@compiled` on a class: it stays a plain Python class, and machine code can hold its instances.
- `call_machine_code(function, instance, ...)`: that function as machine code, on that instance.
- `batch_function(function, instance, ...)`: the same for many copies, or many instances.
- `caller(function, instance, ...)`: the same for many short calls on one instance.

With `NUMBA_DISABLE_JIT=1` everything runs as plain Python.
"""

from __future__ import annotations

import functools
import hashlib
import inspect
import types as python_types
from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba
import numpy as np

from switchmdp.compiled.cache import DiskCache, digest_for
from switchmdp.compiled.calls import (
    BatchFunction,
    Caller,
    Layout,
    interpreting,
    is_interpreting,
    make_function,
)
from switchmdp.compiled.compiler import InnerFunction, OuterFunction
from switchmdp.compiled.declarations import (
    FINITE,
    Equals,
    Increasing,
    Permutation,
    Probability,
    RandomWords,
    Range,
    Scratch,
    Shape,
    complete,
    declarations,
    make_scratch,
    require,
    state_fields,
    validate,
)
from switchmdp.compiled.structs import (
    ArrayOf,
    class_tree,
    classes_in,
    fields_of,
    freeze,
    index,
    is_compiled,
    pack,
    register,
    specialised,
    thaw,
    unpack,
)
from switchmdp.concurrency import delayed_signals, exclusive

__all__ = [
    "FINITE", "JIT", "ArrayOf", "BatchFunction", "Caller", "Equals", "Increasing", "Permutation",
    "Probability", "RandomWords", "Range", "Scratch", "Shape", "batch_function",
    "call_machine_code", "caller", "class_tree", "classes_in", "classes_of", "compile_for",
    "compiled", "complete", "declarations", "door", "entry", "fields_of", "freeze", "index",
    "inlined", "interpreted", "interpreting", "is_compiled", "is_interpreting", "is_loaded",
    "is_on_disk", "jit", "machine", "make_scratch", "pack", "patient", "require", "specialised",
    "state_fields", "thaw", "unpack", "validate",
]  # fmt: skip

JIT = not numba.config.DISABLE_JIT

LONGEST_NAMES = 150  # of classes in a file's name, which file systems limit to 255 bytes

F = TypeVar("F", bound=Callable[..., Any])
C = TypeVar("C", bound=type)

_machines: dict[Any, Callable[..., Any]] = {}
_layouts: dict[Any, tuple[Layout, Any]] = {}
_batch_functions: dict[Any, BatchFunction] = {}
_classes: list[type] = []


def jit(function: F) -> F:
    """Compile a function that other compiled functions call.

    Parameters
    ----------
    function
        A function that other compiled functions call.

    Returns
    -------
    F
        The compiled function.

    Examples
    --------
    >>> @jit
    ... def twice(x):
    ...     return 2 * x
    >>> twice(21)
    42
    """
    return cast("F", InnerFunction(function, entry) if JIT else function)


def inlined(function: F) -> F:
    """Compile a function like `jit`, and inline it into each caller with its constant arguments.

    Parameters
    ----------
    function
        The function.

    Returns
    -------
    F
        The compiled function.

    Examples
    --------
    >>> @inlined
    ... def double(x):
    ...     return 2 * x
    >>> @entry
    ... def quadruple(x):
    ...     return double(double(x))
    >>> quadruple(3)
    12
    """
    return cast("F", InnerFunction(function, entry, forceinline=True) if JIT else function)


def entry(function: F) -> F:
    """Compile a function that Python calls, and keep its machine code on disk.

    Parameters
    ----------
    function
        A function that Python calls.

    Returns
    -------
    F
        The compiled function.

    Examples
    --------
    >>> @entry
    ... def double(x):
    ...     return 2 * x
    >>> double(3)
    6
    """
    label = f"_{function.__module__.rpartition('.')[2]}.{function.__name__}"
    return cast("F", _cached(function, label, _sources(function)))


def patient(function: F) -> F:
    """Compile a function like `jit`, but run small calls interpreted.

    Small calls from Python run interpreted, up to half a second in total, unless machine code is on
    disk. So a short first use does not wait for the compiler.

    Parameters
    ----------
    function
        A function whose work is bounded by the size of its arguments.

    Returns
    -------
    F
        The compiled function.

    Examples
    --------
    >>> @patient
    ... def double(x):
    ...     return 2 * x
    >>> double(3)
    6
    """
    return cast("F", InnerFunction(function, entry, patient=True) if JIT else function)


def interpreted(function: F) -> F:
    """The plain Python function behind a compiled one.

    Parameters
    ----------
    function
        A compiled function, or a plain one.

    Returns
    -------
    F
        The plain function.

    Examples
    --------
    >>> @entry
    ... def double(x):
    ...     return 2 * x
    >>> interpreted(double)(3)
    6
    """
    return cast("F", getattr(function, "py_func", function))


def compiled(cls: C) -> C:
    """Let machine code hold instances of this class and call its methods.

    Every field is annotated on the class: `int`, `float`, `bool`, `np.ndarray` or another compiled
    class. The methods use only what Numba compiles, use no `super()`, and are called by interpreted
    code unchanged.

    A class may have `__doors__`, {method: check}. Calls from Python then pass through the check,
    which returns clean arguments or raises, and only one thread at a time may call
    (`concurrency.exclusive`). Calls from machine code skip both. A method with its own door
    (`door`) is left as it is.

    Parameters
    ----------
    cls
        The class.

    Returns
    -------
    C
        The class itself.

    Examples
    --------
    >>> import switchmdp as sm
    >>> from switchmdp.agents import Agent
    >>> @compiled
    ... class First(Agent):
    ...     def act(self, state):
    ...         return int(self.actions[self.starts[state]])
    ...
    ...     def observe(self, state, action, reward, next_state):
    ...         pass
    >>> First(5, 3).act(0)
    0
    """
    if JIT:
        register(cls)
    _classes.append(cls)
    if not any("__repr__" in vars(base) for base in cls.__mro__[:-1]):
        cls.__repr__ = one_line  # type: ignore[assignment]  # for instances, not the class
    for name, check in getattr(cls, "__doors__", {}).items():
        if name in vars(cls) and not hasattr(vars(cls)[name], "__wrapped__"):
            setattr(cls, name, _behind_door(vars(cls)[name], check))
    return cls


def door(from_python: Callable[..., Any]) -> Callable[[F], F]:
    """Give a method another implementation for calls from Python.

    Machine code runs the method itself. The other one must have the same effect, check its
    arguments, and keep other threads out.

    Parameters
    ----------
    from_python
        The implementation for calls from Python.

    Returns
    -------
    Callable[[F], F]
        A decorator of the method.

    Examples
    --------
    >>> def from_text(number):
    ...     return 2 * int(number)
    >>> @door(from_text)
    ... def twice(number):
    ...     return 2 * number
    >>> twice("21"), inspect.unwrap(twice)(21)
    (42, 42)
    """

    def put(verb: F) -> F:
        return cast("F", functools.wraps(verb)(from_python))

    return put


def classes_of(package: str) -> dict[str, type]:
    """The compiled classes of a package that have been imported, by name.

    Parameters
    ----------
    package
        The name of the package.

    Returns
    -------
    dict[str, type]
        The classes, by name.

    Examples
    --------
    >>> import switchmdp.memory
    >>> "Window" in classes_of("switchmdp")
    True
    """
    return {c.__name__: c for c in _classes if c.__module__.partition(".")[0] == package}


def one_line(instance: Any) -> str:
    """The class and its parameters, of an agent also time and components; under 200 characters."""
    cls = type(instance)
    fields = {name: getattr(instance, name, None) for name in fields_of(cls)}
    numbers = {n: v for n, v in fields.items() if isinstance(v, (bool, int, float))}
    is_agent = hasattr(cls, "act")
    parameters = {*inspect.signature(cls).parameters, *(("n_states", "n_actions") * is_agent)}
    shown = [f"{name}={value:.6g}" if type(value) is float else f"{name}={value}"
             for name, value in numbers.items() if name in parameters]  # fmt: skip
    if is_agent:
        shown += [f"t={numbers.get('clock', '?')}"]
        shown += [repr(part) for part in fields.values() if type(part) in _classes]
    text = f"{cls.__name__}({', '.join(shown)})"
    return text if len(text) < 200 else f"{text[:195]}...)"


def _behind_door(verb: Callable[..., Any], check: Callable[..., Any]) -> Callable[..., Any]:
    """The verb for callers from Python: `check` returns clean arguments or raises."""

    @functools.wraps(verb)
    def checked(self: Any, *given: Any, **named: Any) -> Any:
        with exclusive(self):
            return verb(self, *check(self, *given, **named))

    @functools.wraps(verb)
    def quiet(self: Any, *given: Any, **named: Any) -> Any:
        with np.errstate(all="ignore"):  # machine code does not warn
            return checked(self, *given, **named)

    return checked if JIT else quiet


def machine(function: F, instance: Any) -> F:
    """`function` compiled for the combination of classes that `instance` is made of.

    Each combination of classes has its own dispatcher.

    Parameters
    ----------
    function
        A function compiled by `jit`.
    instance
        An instance of a compiled class.

    Returns
    -------
    F
        The function, compiled for these classes.
    """
    key = (function, class_tree(instance))
    if key not in _machines:
        plain = interpreted(function)
        copy = python_types.FunctionType(
            plain.__code__, plain.__globals__, plain.__name__, plain.__defaults__
        )
        _machines[key] = _cached(copy, _label(plain, instance), _sources(plain, instance))
    return cast("F", _machines[key])


def _sources(plain: Callable[..., Any], instance: Any = None) -> str | None:
    """The digest of what a function, or its code for an instance, depends on.

    None if it cannot be cached: classes and functions defined inside a function may differ although
    they have the same name.
    """
    parts: list[Any] = [plain] if instance is None else [plain, *classes_in(instance)]
    local = any("<locals>" in part.__qualname__ for part in parts)
    return None if local else digest_for([part.__module__ for part in parts])


def call_machine_code(function: Callable[..., Any], instance: Any, *arguments: Any) -> Any:
    """Run `function(state, *arguments)` as machine code on an instance, which it changes.

    The function thaws the state, and returns (the frozen state, a result). Signals wait until the
    instance has been updated, so Ctrl-C cannot leave it half changed.

    Parameters
    ----------
    function
        A function compiled by `jit`.
    instance
        An instance of a compiled class.
    arguments
        The other arguments.

    Returns
    -------
    Any
        The result.
    """
    dispatcher = compile_for(function, instance, *arguments)
    with delayed_signals():
        state, result = dispatcher(pack(instance), *arguments)
        unpack(instance, state)
    return result


def caller(
    function: Callable[..., Any], instance: Any, arguments: list[str], results: list[str]
) -> Caller:
    """`function(instance, *arguments)` as machine code on this instance, for many short calls.

    An instance whose components were exchanged needs a new caller (`Caller.fits`).

    Parameters
    ----------
    function
        A function compiled by `jit`, which returns the result, or a tuple if there are several.
    instance
        An instance of a compiled class.
    arguments
        The names of the other arguments.
    results
        The names of the results.

    Returns
    -------
    Caller
        The machine code, bound to the instance.
    """
    key = (function, class_tree(instance))
    if key not in _layouts:
        layout, name = Layout(instance), interpreted(function).__name__
        source = layout.source(name, arguments, results)
        _layouts[key] = layout, _generated(function, instance, layout, source)
    layout, dispatcher = _layouts[key]
    return Caller(dispatcher, layout, results, instance)


def batch_function(
    function: Callable[..., Any], instance: Any, arguments: list[str]
) -> BatchFunction | None:
    """`function(instance, i, *arguments)` as machine code, for instances made of the same classes.

    Parameters
    ----------
    function
        A function compiled by `jit`, which returns whether to go on with the next i.
    instance
        An instance of a compiled class.
    arguments
        The names of the other arguments.

    Returns
    -------
    BatchFunction | None
        The machine code; None if machine code cannot hold the instance.
    """
    tree = class_tree(instance)
    if tree is None:
        return None
    if (function, tree) not in _batch_functions:
        layout, name = Layout(instance), interpreted(function).__name__
        source = layout.batch_source(name, arguments)
        dispatcher = _generated(function, instance, layout, source)
        _batch_functions[function, tree] = BatchFunction(dispatcher, layout)
    return _batch_functions[function, tree]


def _generated(function: Callable[..., Any], instance: Any, layout: Layout, source: str) -> Any:
    """The function that a source defines, as machine code that is kept on disk."""
    plain = interpreted(function)
    flat, digest = make_function(function, layout, source)
    sources = _sources(plain, instance)
    if sources is not None:
        sources = hashlib.sha256(f"{sources}{digest}".encode()).hexdigest()
    return _cached(flat, _label(plain, instance), sources)


def is_loaded(function: Callable[..., Any], instance: Any) -> bool:
    """Whether this process has the machine code that a `caller` needs.

    Parameters
    ----------
    function
        The function of the caller.
    instance
        An instance of a compiled class.

    Returns
    -------
    bool
        Whether it is loaded.
    """
    key = (function, class_tree(instance))
    return key in _layouts and bool(_layouts[key][1].overloads)


def compile_for(function: Callable[..., Any], instance: Any, *arguments: Any) -> Any:
    """Compile what `call_machine_code` needs, unless that was done before.

    Compiling takes seconds. It may be interrupted, because it changes nothing.

    Parameters
    ----------
    function
        The function.
    instance
        An instance of a compiled class.
    arguments
        The other arguments.

    Returns
    -------
    Any
        The packed instance.
    """
    dispatcher: Any = machine(function, instance)
    if not dispatcher.overloads:
        dispatcher.compile(tuple(map(dispatcher.typeof_pyval, (pack(instance), *arguments))))
    return dispatcher


def is_on_disk(function: Callable[..., Any], instance: Any) -> bool:
    """Whether there is machine code for this combination in the cache or in the package.

    Parameters
    ----------
    function
        The function.
    instance
        An instance of a compiled class.

    Returns
    -------
    bool
        Whether there is.
    """
    if not JIT:
        return False
    return DiskCache(function, _label(interpreted(function), instance), None).is_on_disk()


def _label(plain: Callable[..., Any], instance: Any) -> str:
    classes = (type(instance), *classes_in(instance))
    shown = [c.__name__ for c in classes if "__state__" in vars(c)]
    names = "-".join(dict.fromkeys(shown))
    if len(names) > LONGEST_NAMES:
        names = f"{names[:LONGEST_NAMES]}-{hashlib.sha256(names.encode()).hexdigest()[:8]}"
    return f"{names}.{plain.__name__}"


def _cached(function: Any, label: str, sources: str | None) -> Any:
    if not JIT:
        return function
    dispatcher = OuterFunction(function)
    dispatcher._cache = DiskCache(function, label, sources)
    return dispatcher
