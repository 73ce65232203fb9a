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

**References.** Numba counts references to arrays and structs with calls of two functions, which use
atomic instructions: about 5 ns each, half of the time of some agents. Numba removes pairs of calls
that cancel out. What is left is inlined here and counts without atomic instructions. That is safe,
because only one thread ever counts the same references: a call from Python wraps each array that it
passes in a counter of its own, an array made by machine code reaches Python when the call returns,
and none of our functions starts threads. `references_in_loops` finds what is left in hot loops.
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
from llvmlite import binding  # type: ignore[import-untyped]  # it ships no types
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
        with global_compiler_lock, _no_garbage_collection(), _no_timers():
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


@contextlib.contextmanager
def _no_timers() -> Iterator[None]:
    """Do not let Numba time each function: every call of LLVM would notify all timers under way.

    A function that is compiled inside another has two more timers. They took a twelfth of the time.
    """
    install = event.install_timer
    event.install_timer = lambda kind, callback: contextlib.nullcontext()
    try:
        yield
    finally:
        event.install_timer = install


COUNTING = ("NRT_incref", "NRT_decref")
# As Numba defines them (`numba.core.runtime.nrtdynmod`), but inlined, and not atomic.
WITHOUT_ATOMICS = """
declare void @NRT_MemInfo_call_dtor(ptr)

define void @NRT_incref(ptr %counter) alwaysinline nounwind {
  %none = icmp eq ptr %counter, null
  br i1 %none, label %end, label %count, !prof !0
count:
  %old = load i64, ptr %counter
  %new = add i64 %old, 1
  store i64 %new, ptr %counter
  br label %end
end:
  ret void
}

define void @NRT_decref(ptr %counter) alwaysinline nounwind {
  %none = icmp eq ptr %counter, null
  br i1 %none, label %end, label %count, !prof !0
count:
  %old = load i64, ptr %counter
  %new = add i64 %old, -1
  store i64 %new, ptr %counter
  %last = icmp eq i64 %new, 0
  br i1 %last, label %free, label %end, !prof !0
free:
  call void @NRT_MemInfo_call_dtor(ptr %counter)
  br label %end
end:
  ret void
}

!0 = !{!"branch_weights", i32 1, i32 99}
"""


class _Library(JITCodeLibrary):  # type: ignore[misc]  # Numba ships no types
    """The code of one function and of all that it calls.

    `with_calls` is that of an outer function before the counting of references was inlined.
    """

    with_calls = b""
    _waits = False  # finished, but not linked with what it calls

    def _is_inner(self) -> bool:
        """Whether this code is only ever linked into that of an outer function."""
        if self._shared_module is not None:  # loaded from disk, where only outer functions are
            return False
        if not any(isinstance(function, OuterFunction) for function in _compiling):
            return False
        function = _compiling[-1]
        helper = self.name != function.py_func.__qualname__  # made for the function by Numba
        return helper or _never_called_from_python(function)

    def finalize(self) -> None:
        """Finish this code; that of an inner function only waits to be linked by outer ones."""
        if self._is_inner():
            self._finalize_dynamic_globals()
            self._waits = self._finalized = True
        else:
            self._linking_libraries = self._all_called()
            super().finalize()

    def _all_called(self) -> list[Any]:
        """The code of all functions that this one calls, directly or not."""
        found: dict[Any, None] = {}
        waiting = self._linking_libraries[::-1]
        while waiting:
            library = waiting.pop()
            if library not in found:
                found[library] = None
                if getattr(library, "_waits", False):  # has not linked what it calls
                    waiting += library._linking_libraries[::-1]
        return [library for library in found if _has_functions(library)]

    def _optimize_final_module(self) -> None:
        super()._optimize_final_module()
        if _compiling and isinstance(_compiling[-1], OuterFunction):
            self.with_calls = self._final_module.as_bitcode()
            self._inline_counting()

    def _inline_counting(self) -> None:
        """Replace the calls that count references by instructions."""
        module = self._final_module
        defined = {function.name for function in module.functions if not function.is_declaration}
        if defined.isdisjoint(COUNTING):
            return
        without_atomics = binding.parse_assembly(WITHOUT_ATOMICS)
        without_atomics.triple, without_atomics.data_layout = module.triple, module.data_layout
        module.link_in(without_atomics)  # replaces Numba's definitions, which are weak
        for name in COUNTING:
            module.get_function(name).linkage = "internal"
        passes = binding.newpassmanagers.create_new_module_pass_manager()
        passes.add_always_inliner_pass()
        passes.add_global_dead_code_eliminate_pass()
        passes.add_simplify_cfg_pass()
        passes.add_instruction_combine_pass()
        passes.add_dead_store_elimination_pass()
        passes.add_simplify_cfg_pass()
        passes.run(module, self._codegen._pass_builder())


def _has_functions(library: Any) -> bool:
    """Whether there is anything to link; code loaded from disk is in its shared module."""
    module = library._shared_module or library._final_module
    return any(True for _ in module.functions)


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

    >>> from switchmdp.compiled import JIT
    >>> def total(values):
    ...     result = 0.0
    ...     for value in values:
    ...         result += value
    ...     return result
    >>> function = OuterFunction(total) if JIT else total
    >>> function(np.ones(3))
    3.0
    >>> references_in_loops(function) if JIT else {}
    {}
    """
    counts: dict[str, int] = {}
    for compiled in function.overloads.values():
        code = compiled.library.with_calls
        if not code:
            raise ValueError(f"{function.py_func.__name__} was loaded from disk")
        functions = parse_functions(str(binding.parse_bitcode(code)))
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
