"""How Numba compiles our functions: each is optimised once, inside the function that Python calls.

Numba optimises every function on its own, emits machine code for it, and then does both again for
each function that calls it. A loop over an agent consists of more than a hundred functions. Here
only the *outermost* function (the one that Python calls, `OuterFunction`) is optimised and emitted,
with all that it calls inlined or linked in. That halves the time to compile and leaves the
machine code as fast. CPU time without and with it, for the loop with SW-UCRL: 24 s and 13.6 s; then
with UCRL2: 9 s and 4.5 s; then with EvidencePSRL: 26 s and 10.7 s.

A *patient* function runs interpreted while its arguments are small and there is no machine code on
disk: computing the gain of five states takes milliseconds, and compiling that takes seconds. The
result is the same to the bit.

The hook is the class of Numba's code libraries, and a stack of the functions that are being
compiled. Numba's compiler lock covers both. Functions that others compile with Numba are compiled
as usual, even if our functions call them, because Python may call them too.

**References.** Numba counts references to arrays and structs with atomic instructions, about 5 ns
each. Where a function is inlined, the operations of caller and callee usually cancel out. Where one
does not, they run at every call. `references_in_loops` finds those in hot loops.
"""

from __future__ import annotations

import contextlib
import gc
import re
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numba.core import event
from numba.core.codegen import JITCodeLibrary, JITCPUCodegen
from numba.core.compiler_lock import global_compiler_lock
from numba.core.registry import CPUDispatcher, cpu_target

from switchmdp.compiled.cache import DiskCache

# No wrapper for calls through a pointer, which nobody uses.
OPTIONS = {"nopython": True, "nogil": True, "boundscheck": None, "no_cfunc_wrapper": True}
INNER_OPTIONS = {**OPTIONS, "no_cpython_wrapper": True}

PATIENCE = 0.5  # seconds that a patient function may run interpreted, in total
SMALL = 5000  # elements of arrays that are small

_here = threading.local()
_compiling: list[Any] = []  # the functions that are being compiled, the outermost first
_preparations: list[Callable[[], None]] = []


def before_compiling(prepare: Callable[[], None]) -> Callable[[], None]:
    """Register a function that is called before each compilation (not when code is only loaded)."""
    _preparations.append(prepare)
    return prepare


class _Watcher(event.Listener):  # type: ignore[misc]  # Numba ships no types
    def on_start(self, started: Any) -> None:
        for prepare in _preparations:
            prepare()
        _compiling.append(started.data["dispatcher"])

    def on_end(self, ended: Any) -> None:
        _compiling.pop()


class OuterFunction(CPUDispatcher):  # type: ignore[misc]  # Numba ships no types
    """A function that Python calls: the only kind that is optimised and emitted."""

    def __init__(self, function: Callable[..., Any], **options: Any) -> None:
        CPUDispatcher.__init__(self, function, targetoptions={**OPTIONS, **options})

    def compile(self, signature: Any) -> Any:
        """Load or compile the code for these types."""
        with global_compiler_lock, _no_garbage_collection():
            try:
                return CPUDispatcher.compile(self, signature)
            finally:
                if isinstance(self._cache, DiskCache):
                    self._cache.unlock()


class InnerFunction(CPUDispatcher):  # type: ignore[misc]  # Numba ships no types
    """A function that machine code calls. `outer` makes another one when Python calls it."""

    def __init__(
        self,
        function: Callable[..., Any],
        outer: Callable[..., Any],
        patient: bool = False,
        **options: Any,
    ) -> None:
        CPUDispatcher.__init__(self, function, targetoptions={**INNER_OPTIONS, **options})
        self._make_outer = outer
        self._outer: Any = None
        self._patient = patient
        self._seconds_left = 0.0

    def __call__(self, *arguments: Any) -> Any:
        if getattr(_here, "interpreting", False):
            return self.py_func(*arguments)
        if self._outer is None:
            self._outer = self._make_outer(self.py_func)
            waits = self._patient and not self._outer._cache.is_on_disk()
            self._seconds_left = PATIENCE if waits else 0.0
        if self._seconds_left > 0.0 and _size(arguments) <= SMALL:
            return self._call_interpreted(arguments)
        return self._outer(*arguments)

    def _call_interpreted(self, arguments: tuple[Any, ...]) -> Any:
        began = time.perf_counter()
        _here.interpreting = True
        try:
            with np.errstate(all="ignore"):  # machine code does not warn
                return _returned(self.py_func(*arguments))
        finally:
            _here.interpreting = False
            self._seconds_left -= time.perf_counter() - began


def _returned(value: Any) -> Any:
    """What machine code would return: the numbers are Python's."""
    if isinstance(value, tuple):
        return tuple(map(_returned, value))
    return value.item() if isinstance(value, np.generic) else value


def _size(argument: Any) -> int:
    """The number of elements of all arrays in nested tuples."""
    if isinstance(argument, tuple):
        return sum(map(_size, argument))
    return argument.size if isinstance(argument, np.ndarray) else 0


@contextlib.contextmanager
def _no_garbage_collection() -> Iterator[None]:
    """Switch off garbage collection: compiling makes millions of objects that stay alive."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


class _Library(JITCodeLibrary):  # type: ignore[misc]  # Numba ships no types
    """The code of one function and of all that it calls."""

    def _is_inner(self) -> bool:
        """Whether this code is only ever linked into that of an outer function."""
        if self._shared_module is not None:  # loaded from disk, where only outer functions are
            return False
        if not any(isinstance(function, OuterFunction) for function in _compiling):
            return False
        function = _compiling[-1]
        helper = self.name != function.py_func.__qualname__  # made for the function by Numba
        return helper or _never_called_from_python(function)

    def _optimize_final_module(self) -> None:
        if not self._is_inner():
            super()._optimize_final_module()

    def _finalize_final_module(self) -> None:
        if self._is_inner():  # it is linked into its callers, and never runs by itself
            self._finalize_dynamic_globals()
            self._finalized = True
        else:
            super()._finalize_final_module()


def _never_called_from_python(function: Any) -> bool:
    """True for our inner functions, our methods, and the functions inside Numba."""
    has_no_wrapper = function.targetoptions.get("no_cpython_wrapper", False)
    return bool(has_no_wrapper) or function.py_func.__module__.partition(".")[0] == "numba"


class _Codegen(JITCPUCodegen):  # type: ignore[misc]  # Numba ships no types
    _library_class = _Library

    def set_env(self, env_name: str, env: Any) -> None:
        if self._engine.is_symbol_defined(env_name):  # which an inner function's is not
            super().set_env(env_name, env)


cpu_target.target_context.codegen().__class__ = _Codegen
event.register("numba:compile", _Watcher())


_DEFINED = re.compile(r'^define .*?@"?(?P<name>[^"(]+)"?\(')
COUNTING = ("NRT_incref", "NRT_decref")
_CALL = re.compile(r'\b(?:call|invoke)\b.*?@"?([^"(]+)"?\(')
_LABEL = re.compile(r'^"?(?P<name>[\w.$-]+)"?:')
_JUMP = re.compile(r'label %"?([\w.$-]+)"?')


@dataclass
class Block:
    """A stretch of machine code without jumps."""

    counting: int = 0  # its reference operations
    calls: list[str] = field(default_factory=list)
    jumps: list[str] = field(default_factory=list)


Blocks = dict[str, Block]


def references_in_loops(function: Any) -> dict[str, int]:
    """The reference operations inside loops, for each function of the machine code that has any.

    A call inside a loop counts with all operations of the called function. `function` has been
    compiled in this process: code that was loaded from disk can't be inspected.

    >>> from switchmdp.compiled import JIT, entry
    >>> @entry
    ... def total(values):
    ...     result = 0.0
    ...     for value in values:
    ...         result += value
    ...     return result
    >>> import numpy as np
    >>> total(np.ones(3))
    3.0
    >>> references_in_loops(total) if JIT else {}
    {}
    """
    counts: dict[str, int] = {}
    for compiled in function.overloads.values():
        functions = parse_functions(compiled.library.get_llvm_str())
        for name, blocks in functions.items():
            inside = [block for label, block in blocks.items() if is_in_loop(label, blocks)]
            n = sum(_operations(block, functions, {name}) for block in inside)
            if n:
                counts[name] = counts.get(name, 0) + n
    return counts


def _operations(block: Block, functions: dict[str, Blocks], callers: set[str]) -> int:
    """The reference operations of a block and of all that it calls."""
    n = block.counting
    for name in block.calls:
        if name in functions and name not in callers:
            inner = functions[name].values()
            n += sum(_operations(each, functions, callers | {name}) for each in inner)
    return n


def parse_functions(text: str) -> dict[str, Blocks]:
    """The blocks of each function in the text of an LLVM module."""
    functions: dict[str, Blocks] = {}
    blocks: Blocks = {}
    block = Block()
    for line in text.splitlines():
        defined, begins, call = _DEFINED.match(line), _LABEL.match(line), _CALL.search(line)
        if defined:
            block, blocks = Block(), {}
            functions[defined["name"]] = blocks
            blocks[""] = block
        elif begins:
            block = blocks.setdefault(begins["name"], Block())
        elif call:
            block.counting += call[1] in COUNTING
            block.calls.append(call[1])
        block.jumps += _JUMP.findall(line)
    return functions


def is_in_loop(label: str, blocks: Blocks) -> bool:
    """Whether a block can be reached from itself."""
    waiting, seen = list(blocks[label].jumps), set()
    while waiting:
        at = waiting.pop()
        if at == label:
            return True
        if at not in seen and at in blocks:
            seen.add(at)
            waiting += blocks[at].jumps
    return False
