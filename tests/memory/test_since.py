"""Since: every step since the last change, of which the last can be kept on their own."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from switchmdp.mdp.pairs import Pairs
from switchmdp.memory import Counts, Since, Window

PAIRS = Pairs.of(3, 2)


def steps(n: int) -> tuple[Any, Any, Any]:
    rng = np.random.default_rng(0)
    pairs, nexts = (rng.integers(k, size=n).astype(np.uint32) for k in (6, 3))
    return pairs, nexts, rng.random(n)


def counted(lived: tuple[Any, Any, Any], first: int) -> Counts:
    """The steps from `first` on, counted one by one."""
    counts = Counts(PAIRS)
    pairs, nexts, rewards = (column[first:] for column in lived)
    counts.add(pairs, nexts, rewards, 0, len(pairs))
    return counts


def absorb(memory: Since | Window, lived: tuple[Any, Any, Any], first: int, last: int) -> None:
    pairs, nexts, rewards = (column[first:last] for column in lived)
    memory.absorb(pairs, nexts, rewards, len(pairs))


def same(a: Counts, b: Counts) -> None:
    np.testing.assert_array_equal(a.visits, b.visits)
    np.testing.assert_array_equal(a.count, b.count)
    for pair in range(6):
        assert a.mean(pair) == pytest.approx(b.mean(pair), abs=1e-12)


@pytest.mark.parametrize("asked", [0, 1, 30, 49, 50, 51, 10**6])
@pytest.mark.parametrize("pieces", [1, 7, 170])
def test_what_is_kept_are_the_last_steps_as_many_as_there_is_room_for(
    asked: int, pieces: int
) -> None:
    lived, memory = steps(170), Since(room=50)
    memory.allocate(PAIRS)
    for first in range(0, 170, pieces):
        absorb(memory, lived, first, first + pieces)
    same(memory.counts, counted(lived, 0))
    kept = memory.keep(asked)
    assert kept == min(asked, 50)
    same(memory.counts, counted(lived, 170 - kept))


def test_after_keeping_it_goes_on_from_there() -> None:
    lived, memory = steps(100), Since(room=50)
    memory.allocate(PAIRS)
    absorb(memory, lived, 0, 60)
    assert memory.keep(20) == 20
    absorb(memory, lived, 60, 100)
    same(memory.counts, counted(lived, 40))
    assert memory.keep(55) == 50
    same(memory.counts, counted(lived, 50))


@pytest.mark.parametrize("asked", [0, 1, 30, 40, 10**6])
def test_a_window_keeps_the_last_steps_of_those_that_are_in_it(asked: int) -> None:
    lived, memory = steps(170), Window(40)
    memory.allocate(PAIRS)
    absorb(memory, lived, 0, 170)
    kept = memory.keep(asked)
    assert kept <= min(asked, 40)
    same(memory.counts, counted(lived, 170 - kept))
