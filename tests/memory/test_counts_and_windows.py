"""Memories against recounts: exact sums over 10⁸ steps, and blocks that grow and move."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from switchmdp.compiled import JIT, freeze, machine, pack, thaw, unpack
from switchmdp.errors import InvalidParameter
from switchmdp.mdp import Pairs
from switchmdp.memory import Counts, Everything, Window, high_part, low_part
from switchmdp.randomness import below, stream, uniform

PAIRS = 6
LOG = 1000


def _feed(state: Any, words: Any, batches: int, zero_one: bool, only: int) -> Any:
    """Random steps in batches of LOG; the last batches visit only the first `only` pairs."""
    memory = thaw(state)
    pairs, nexts = np.zeros(LOG, np.uint32), np.zeros(LOG, np.uint32)
    rewards = np.zeros(LOG)
    for batch in range(batches):
        reach = PAIRS if batch < batches - 150 else only
        for i in range(LOG):
            pairs[i] = below(words, reach)
            nexts[i] = below(words, 3)
            rewards[i] = uniform(words)
            if zero_one:
                rewards[i] = 1.0 if rewards[i] < 0.3 else 0.0
        memory.absorb(pairs, nexts, rewards, LOG)
    return freeze(memory)


def windowed(window: int, batches: int, zero_one: bool, only: int = PAIRS) -> Window:
    memory = Window(window)
    memory.allocate(Pairs.of(3, 2))
    fed = machine(_feed, memory)(pack(memory), stream(1), batches, zero_one, only)
    unpack(memory, fed)
    return memory


def total(counts: Counts, pair: int) -> float:
    return float(counts.high[pair] / 2.0**31 + counts.low[pair] / 2.0**62)


@pytest.mark.skipif(not JIT, reason="10⁸ steps are for machine code")
def test_window_sums_over_a_hundred_million_steps_equal_fsum_of_the_window() -> None:
    memory = windowed(100_000, 100_000, zero_one=False, only=5)
    assert memory.size == 100_000
    for pair in range(PAIRS):
        inside = memory.rewards[memory.pairs == pair]
        assert memory.counts.visits[pair] == len(inside)
        assert total(memory.counts, pair) == pytest.approx(math.fsum(inside), rel=1e-12, abs=1e-12)
    assert memory.counts.visits[5] == 0
    assert memory.counts.high[5] == memory.counts.low[5] == 0
    assert memory.counts.mean(5) == 0.0


@pytest.mark.skipif(not JIT, reason="many steps are for machine code")
def test_sums_of_zero_one_rewards_are_whole_numbers() -> None:
    memory = windowed(12_345, 5_000, zero_one=True)
    for pair in range(PAIRS):
        ones = int((memory.rewards[memory.pairs == pair] == 1.0).sum())
        assert total(memory.counts, pair) == ones
        assert memory.counts.mean(pair) == ones / memory.counts.visits[pair]


@pytest.mark.parametrize("reward", [0.0, 1.0, 0.5, 1 / 3, 1e-3, 0.1, 1 - 2**-53, 2**-40, 1e-300])
def test_a_reward_is_stored_with_an_error_of_at_most_two_to_the_minus_63(reward: float) -> None:
    stored = high_part(reward) / 2.0**31 + low_part(reward) / 2.0**62
    assert abs(stored - reward) <= 2.0**-63


def test_counts_do_not_depend_on_when_the_log_is_absorbed() -> None:
    rng = np.random.default_rng(0)
    pairs = rng.integers(0, PAIRS, 3000).astype(np.uint32)
    nexts = rng.integers(0, 3, 3000).astype(np.uint32)
    rewards = rng.random(3000)
    results = []
    for size in (1, 7, 500, 3000):
        memory = Window(800)
        memory.allocate(Pairs.of(3, 2))
        for i in range(0, 3000, size):
            part = slice(i, min(3000, i + size))
            memory.absorb(pairs[part].copy(), nexts[part].copy(), rewards[part].copy(),
                          part.stop - part.start)  # fmt: skip
        counts = memory.counts
        results.append((counts.visits.tolist(), counts.high.tolist(), counts.low.tolist(),
                        counts.count.tolist()))  # fmt: skip
    assert results[0] == results[1] == results[2] == results[3]


def sparse(memory: Any, n_states: int) -> Any:
    memory.allocate(Pairs.of(n_states, 1))
    assert not memory.counts.full
    return memory


def successors(counts: Counts, pair: int) -> dict[int, int]:
    block = slice(counts.offset[pair], counts.offset[pair] + counts.used[pair])
    slots = zip(counts.target[block].tolist(), counts.count[block].tolist(), strict=True)
    return {target: count for target, count in slots if count}


@pytest.mark.parametrize("window", [1, 5, 64, 1000])
def test_successor_lists_equal_a_recount_while_blocks_grow_and_slots_are_reused(
    window: int,
) -> None:
    rng = np.random.default_rng(window)
    memory = sparse(Window(window), 100)
    history: list[tuple[int, int]] = []
    for _ in range(60):
        n = int(rng.integers(1, 80))
        pairs = rng.integers(0, 4, n).astype(np.uint32)
        nexts = rng.integers(0, 100, n).astype(np.uint32)
        history += zip(pairs.tolist(), nexts.tolist(), strict=True)
        memory.absorb(pairs, nexts, rng.random(n), n)
        for pair in range(4):
            expected: dict[int, int] = {}
            for x, after in history[-window:]:
                if x == pair:
                    expected[after] = expected.get(after, 0) + 1
            assert successors(memory.counts, pair) == expected


def test_blocks_take_memory_only_for_observed_successors() -> None:
    memory = sparse(Everything(), 50_000)
    rng = np.random.default_rng(0)
    for _ in range(40):
        pairs = rng.integers(0, 50_000, 1000).astype(np.uint32)
        memory.absorb(pairs, ((pairs + 1) % 50_000).astype(np.uint32), rng.random(1000), 1000)
    assert memory.counts.count.size < 3 * 50_000


@pytest.mark.parametrize("n_states", [3, 100])
def test_a_cleared_memory_equals_a_new_one(n_states: int) -> None:
    rng = np.random.default_rng(0)
    steps = [(rng.integers(0, n_states, 500).astype(np.uint32),
              rng.integers(0, n_states, 500).astype(np.uint32), rng.random(500))
             for _ in range(2)]  # fmt: skip
    used, fresh = Window(300), Window(300)
    for memory in (used, fresh):
        memory.allocate(Pairs.of(n_states, 1))
    used.absorb(steps[0][0].copy(), steps[0][1].copy(), steps[0][2], 500)
    used.clear()
    assert used.counts.visits.sum() == used.counts.high.sum() == used.counts.count.sum() == 0
    for memory in (used, fresh):
        memory.absorb(steps[1][0].copy(), steps[1][1].copy(), steps[1][2], 500)
    for pair in range(n_states):
        assert successors(used.counts, pair) == successors(fresh.counts, pair)
    assert np.array_equal(used.counts.low, fresh.counts.low)


def test_a_huge_window_takes_no_memory_before_it_fills() -> None:
    memory = Window(10**12)
    memory.allocate(Pairs.of(3, 2))
    assert len(memory.pairs) <= 1024


@pytest.mark.parametrize("window", [0, -1, 1.5, True, "10", None, float("nan")])
def test_a_bad_window_is_rejected(window: Any) -> None:
    with pytest.raises(InvalidParameter, match="window"):
        Window(window)
