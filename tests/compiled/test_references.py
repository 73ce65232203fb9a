"""Hot loops do not count references."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import switchmdp as sm
from switchmdp.compiled import JIT
from switchmdp.compiled.compiler import (
    OuterFunction,
    is_in_loop,
    parse_functions,
    references_in_loops,
)
from switchmdp.mdp.model import Model
from switchmdp.randomness import stream
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


def test_a_loop_that_counts_references_is_noticed() -> None:
    def worst(arrays: Any) -> Any:
        total = 0.0
        kept = arrays[0]
        for i in range(100):
            kept = arrays[i % 2]
            total += kept[0]
        return total + kept[0]

    function = OuterFunction(worst)
    assert function((np.ones(2), np.ones(2))) == 101.0
    assert sum(references_in_loops(function).values()) > 0


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
