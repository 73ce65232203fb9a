"""The variance of rewards against NumPy, in windows, after growth; bounds in other memories."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from switchmdp.mdp import Pairs
from switchmdp.memory import Discounted, Everything, EverythingWithVariance, WindowWithVariance

N = 5000


def steps(n_pairs: int, n_states: int) -> tuple[Any, Any, Any]:
    rng = np.random.default_rng(0)
    rewards = np.where(rng.random(N) < 0.3, np.round(rng.random(N)), rng.beta(5, 2, N))
    pairs, nexts = rng.integers(0, n_pairs, N), rng.integers(0, n_states, N)
    return pairs.astype(np.uint32), nexts.astype(np.uint32), rewards


def fed(memory: Any, n_states: int, pieces: int = 7) -> Any:
    memory.allocate(Pairs.of(n_states, 2))
    pairs, nexts, rewards = steps(2 * n_states, n_states)
    for part in np.array_split(np.arange(N), pieces):
        memory.absorb(pairs[part].copy(), nexts[part].copy(), rewards[part].copy(), part.size)
    return memory


@pytest.mark.parametrize("n_states", [3, 70])
@pytest.mark.parametrize("window", [None, 900])
def test_the_variance_equals_that_of_numpy(n_states: int, window: int | None) -> None:
    memory = EverythingWithVariance() if window is None else WindowWithVariance(window)
    fed(memory, n_states)
    pairs, _, rewards = steps(2 * n_states, n_states)
    in_window = slice(None) if window is None else slice(N - window, N)
    for pair in range(2 * n_states):
        of_pair = rewards[in_window][pairs[in_window] == pair]
        expected = float(np.var(of_pair)) if of_pair.size else 0.0
        assert memory.counts.variance(pair) == pytest.approx(expected, abs=1e-9)


def test_the_sum_is_exact_however_the_log_is_split() -> None:
    once = fed(WindowWithVariance(900), 3, 1).counts.spread
    assert once.tolist() == fed(WindowWithVariance(900), 3, 50).counts.spread.tolist()
    emptied = fed(WindowWithVariance(900), 3)
    emptied.keep(0, np.ones(6, np.uint8))
    assert emptied.counts.spread.tolist() == [0] * 6


@pytest.mark.parametrize("make", [EverythingWithVariance, lambda: WindowWithVariance(900)])
def test_growing_and_forgetting_keep_the_variance_with_its_pair(make: Any) -> None:
    memory = fed(make(), 3)
    before = [memory.counts.variance(pair) for pair in range(6)]
    place = np.array([0, 1, 3, 4, 6, 7])
    memory.grow(Pairs.of(4, 3), place)
    assert [memory.counts.variance(pair) for pair in place] == before
    assert memory.counts.variance(2) == 0.0
    memory.counts.forget(3)
    assert memory.counts.variance(3) == 0.0
    assert memory.counts.spread[3] == 0


@pytest.mark.parametrize("make", [Everything, lambda: Discounted(0.999)])
def test_other_memories_return_an_upper_bound(make: Any) -> None:
    exact, bound = fed(EverythingWithVariance(), 3).counts, fed(make(), 3).counts
    for pair in range(6):
        mean = bound.mean(pair)
        assert bound.variance(pair) == mean * (1 - mean)
        assert bound.variance(pair) > exact.variance(pair)
