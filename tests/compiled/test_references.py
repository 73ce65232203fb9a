"""Hot loops do not count references, and no code counts them with atomic instructions."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numba
import numpy as np
import pytest
from numba.core.runtime import _nrt_python, rtsys

import switchmdp as sm
from switchmdp.compiled import JIT, thaw
from switchmdp.compiled.compiler import (
    COUNTING,
    OuterFunction,
    is_in_loop,
    parse_functions,
    references_in_loops,
)
from switchmdp.compiled.structs import pack
from switchmdp.mdp.model import Model
from switchmdp.mdp.pairs import Pairs
from switchmdp.memory import Counts
from switchmdp.plausible.posterior import draw_full_rows
from switchmdp.randomness import stream
from switchmdp.simulation.batch import machine_code_for
from switchmdp.simulation.loop import COMMON, Account, PolicyRows, Trace, World, follow

pytestmark = pytest.mark.skipif(not JIT, reason="without machine code nothing counts references")

MODULE = """
define i32 @"outer"(i32 %x) {
entry:
  call void @NRT_incref(ptr %a)
  br label %loop
loop:
  call void @"inner"(ptr %a)
  br i1 %more, label %loop, label %done
done:
  call void @NRT_decref(ptr %a)
  ret i32 0
}
define void @inner(ptr %a) {
  call void @NRT_incref(ptr %a)
  ret void
}
"""


def test_blocks_jumps_and_calls_are_read() -> None:
    outer = parse_functions(MODULE)["outer"]
    assert [outer[label].counting for label in ("entry", "loop", "done")] == [1, 0, 1]
    assert outer["loop"].calls == ["inner"]
    assert [label for label in outer if is_in_loop(label, outer)] == ["loop"]


def worst(arrays: Any) -> Any:
    total = 0.0
    kept = arrays[0]
    for i in range(100):
        kept = arrays[i % 2]
        total += kept[0]
    return total + kept[0]


def test_a_loop_that_counts_references_is_noticed() -> None:
    function = OuterFunction(worst)
    assert function((np.ones(2), np.ones(2))) == 101.0
    assert sum(references_in_loops(function).values()) > 0


def test_numba_alone_counts_with_atomic_instructions() -> None:
    function = numba.njit(worst)
    assert function((np.ones(2), np.ones(2))) == 101.0
    (overload,) = function.overloads.values()
    assert "atomicrmw" in overload.library.get_llvm_str()


def test_references_are_counted_without_atomic_instructions_and_calls() -> None:
    function = OuterFunction(worst)
    assert function((np.ones(2), np.ones(2))) == 101.0
    (overload,) = function.overloads.values()
    text = overload.library.get_llvm_str()
    assert "atomicrmw" not in text
    assert not any(f"@{name}" in text for name in COUNTING)
    assert "NRT_MemInfo_call_dtor" in text


def test_arrays_are_freed_when_nothing_refers_to_them() -> None:
    def swap(n: int) -> Any:
        kept, spare = np.zeros(1000), np.ones(1000)
        for _ in range(n):
            kept, spare = spare, np.full(1000, kept[0] + 1.0)
        return kept

    function = OuterFunction(swap)
    _nrt_python.memsys_enable_stats()
    try:
        before = rtsys.get_allocation_stats()
        result = function(1000)
        after = rtsys.get_allocation_stats()
        assert after.mi_alloc - before.mi_alloc >= 1000
        assert (after.mi_alloc - before.mi_alloc) - (after.mi_free - before.mi_free) == 1
        assert result.tolist() == [500.0] * 1000
        del result
        last = rtsys.get_allocation_stats()
        assert last.mi_alloc - before.mi_alloc == last.mi_free - before.mi_free
    finally:
        _nrt_python.memsys_disable_stats()


def test_threads_that_share_their_arguments_do_not_lose_references() -> None:
    def read(values: Any, n: int) -> float:
        total, kept = 0.0, (values, values)
        for i in range(n):
            other = kept[i % 2]
            kept = (other, values)
            total += other[i % 10]
        return total

    function, values = OuterFunction(read), np.ones(10)
    assert function(values, 10) == 10.0
    before = sys.getrefcount(values)
    with ThreadPoolExecutor(8) as threads:
        totals = list(threads.map(lambda _: function(values, 20_000), range(200)))
    assert totals == [20_000.0] * 200
    assert sys.getrefcount(values) == before


def test_the_code_of_a_simulation_has_no_atomic_instructions() -> None:
    problem = sm.problems.random_switching(5, 3, changes=2, horizon=100, seed=0)
    agent = sm.agents.QLearning(5, 3)
    code: Any = machine_code_for(agent)
    function = OuterFunction(code._dispatcher.py_func)
    sm.simulate(agent, problem, 100)
    (signature,) = code._dispatcher.overloads
    function.compile(signature)
    (overload,) = function.overloads.values()
    assert "atomicrmw" not in overload.library.get_llvm_str()


def test_counting_steps_counts_no_references() -> None:
    counts = Counts(Pairs.of(5, 3))

    def drive(state: Any, log: Any, ring: Any, n: int) -> int:
        counts = thaw(state)
        counts.exchange(log[0], log[1], log[2], 0, ring[0], ring[1], ring[2], 0, n)
        counts.remove(log[0], log[1], log[2], 0, n)
        return int(counts.visits[0])

    log, ring = ((np.zeros(50, np.uint32), np.zeros(50, np.uint32), np.ones(50)) for _ in range(2))
    counts.add(*ring, 0, 50)
    function = OuterFunction(drive)
    assert function(pack(counts), log, ring, 50) == 0
    assert references_in_loops(function) == {}


def test_drawing_a_posterior_counts_no_references() -> None:
    n, n_states = 15, 5
    visits, count = np.full(n, 5), np.ones(n * n_states, np.int64)
    used, offset = np.full(n, n_states), np.arange(n) * n_states
    target = np.tile(np.arange(n_states, dtype=np.uint32), n)
    function = OuterFunction(draw_full_rows.py_func)  # type: ignore[attr-defined]  # a dispatcher
    rows, mean = np.zeros(n * n_states), np.full(n, 2.0)
    function(
        stream(0), visits, offset, used, target, count, n_states, np.full(n, 5.0), 1.0, 1.0, mean,
        rows,
    )  # fmt: skip
    assert np.allclose(rows.reshape(n, n_states).sum(axis=1), 1.0)
    assert references_in_loops(function) == {}


def test_the_loop_that_follows_a_policy_counts_none() -> None:
    problem = sm.problems.random_switching(5, 3, changes=2, horizon=1000, seed=0)
    model: Model = problem.configuration(0).model

    def drive(world: Any, trace: Any, rows: Any, account: Any, arrays: Any) -> Any:
        choice, quota, pairs, nexts, rewards = arrays
        return follow(
            COMMON, True, world, trace, rows, 1, account, choice, quota, pairs, nexts, rewards,
            0, 1, 0, 200, 10, 0, 0.0, 0.0,
        )  # fmt: skip

    world = World(model, True, problem.pairs.actions, 0, 0.0, stream(0), stream(1))
    empty = np.zeros(0, np.int32)
    trace = Trace(np.zeros(100), np.zeros(100), empty, empty, np.zeros(0))
    start, stop, known = np.zeros(5, np.int64), np.zeros(5, np.int64), np.zeros(5, np.int64)
    rows = PolicyRows(known, start, stop, np.zeros(5))
    log = (np.zeros(1000, np.uint32), np.zeros(1000, np.uint32), np.zeros(1000))
    arrays = (problem.pairs.starts[:-1].copy(), np.full(5, 10**6), *log)
    function = OuterFunction(drive)
    account = Account(0.0, 1.0, 1, 10, 1000, 0.0, 0.0)
    assert function(world, trace, rows, account, arrays)[0] == 201
    assert references_in_loops(function) == {}
