"""Since: all steps since the last change of each pair, and dropping all but the last steps."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from switchmdp.mdp.pairs import Pairs
from switchmdp.memory import Counts, Discounted, Everything, Since, Window

PAIRS = Pairs.of(3, 2)
ALL = np.ones(6, bool)


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
def test_only_the_last_steps_are_kept_up_to_the_room(asked: int, pieces: int) -> None:
    lived, memory = steps(170), Since(room=50)
    memory.allocate(PAIRS)
    for first in range(0, 170, pieces):
        absorb(memory, lived, first, first + pieces)
    same(memory.counts, counted(lived, 0))
    steps_kept = memory.keep(asked, ALL)
    assert steps_kept == min(asked, 50)
    same(memory.counts, counted(lived, 170 - steps_kept))


def test_counting_continues_after_steps_were_dropped() -> None:
    lived, memory = steps(100), Since(room=50)
    memory.allocate(PAIRS)
    absorb(memory, lived, 0, 60)
    assert memory.keep(20, ALL) == 20
    absorb(memory, lived, 60, 100)
    same(memory.counts, counted(lived, 40))
    assert memory.keep(55, ALL) == 50
    same(memory.counts, counted(lived, 50))


@pytest.mark.parametrize("asked", [0, 1, 30, 40, 10**6])
def test_a_window_keeps_the_last_of_its_steps(asked: int) -> None:
    lived, memory = steps(170), Window(40)
    memory.allocate(PAIRS)
    absorb(memory, lived, 0, 170)
    steps_kept = memory.keep(asked, ALL)
    assert steps_kept == min(asked, 40)
    same(memory.counts, counted(lived, 170 - steps_kept))


def lasting(lived: tuple[Any, ...], firsts: list[int]) -> Counts:
    """Of each pair the steps from its first on, counted one by one."""
    pairs, nexts, rewards = lived
    mine = np.arange(len(pairs)) >= np.array(firsts)[pairs]
    counts = Counts(PAIRS)
    counts.add(pairs[mine], nexts[mine], rewards[mine], 0, int(mine.sum()))
    return counts


def test_unsuspected_pairs_keep_their_counts_and_forgotten_steps_stay_forgotten() -> None:
    lived, memory = steps(300), Since(room=300)
    memory.allocate(PAIRS)
    absorb(memory, lived, 0, 200)
    memory.keep(10, np.arange(6) == 4)
    same(memory.counts, lasting(tuple(x[:200] for x in lived), [0, 0, 0, 0, 190, 0]))
    absorb(memory, lived, 200, 300)
    memory.keep(150, (np.arange(6) == 4) | (np.arange(6) == 1))
    same(memory.counts, lasting(lived, [0, 150, 0, 0, 190, 0]))


def test_after_a_slowly_detected_change_unvisited_pairs_keep_their_last_visits() -> None:
    """Literally: the j-th last visit, a steps ago, is kept if j <= 4 and j a <= m v / 4."""
    rng = np.random.default_rng(1)
    pairs = rng.integers(6, size=2000).astype(np.uint32)
    pairs[1000:] %= 2  # the last 1000 steps meet two pairs: v = 500
    lived = (pairs, rng.integers(3, size=2000).astype(np.uint32), rng.random(2000))
    for m in (1000, 300, 130, 100, 20):
        memory = Since(room=2000)
        memory.allocate(PAIRS)
        absorb(memory, lived, 0, 2000)
        memory.keep(m, ALL)
        firsts = []
        for pair in range(6):
            visits = np.flatnonzero(pairs == pair)[::-1]
            kept_steps = [
                t for j, t in enumerate(visits, start=1)
                if t >= 2000 - m or (j <= 4 and j * (2000 - t) <= m * (m / 2) / 4)
            ]  # fmt: skip
            firsts.append(min(kept_steps, default=2000))
        same(memory.counts, lasting(lived, firsts))
        assert memory.counts.visits[2:].sum() == {1000: 16, 300: 16, 130: 8, 100: 4, 20: 0}[m]


@pytest.mark.parametrize("make", [Everything, lambda: Discounted(0.999)])
def test_memories_without_single_steps_forget_only_the_suspected_pairs(make: Any) -> None:
    lived, memory = steps(200), make()
    memory.allocate(PAIRS)
    absorb(memory, lived, 0, 200)
    visits, count = memory.counts.visits.copy(), memory.counts.count.copy()
    suspects = np.arange(6) % 3 == 1
    assert memory.keep(50, suspects) == 0
    np.testing.assert_array_equal(memory.counts.visits, np.where(suspects, 0, visits))
    rows = np.repeat(suspects, 3)
    np.testing.assert_array_equal(memory.counts.count, np.where(rows, 0, count))
    assert memory.counts.mean(1) == 0.0
    assert memory.counts.mean(0) > 0.0
