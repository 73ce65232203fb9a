"""Count the reference counting in machine code: atomic operations that a hot loop must not have.

Numba counts references to arrays and structs with atomic instructions, about 5 ns each. Where a
function is inlined, the operations of caller and callee usually cancel out. Where one does not,
they run at every call.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

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
