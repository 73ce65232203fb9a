"""Apart: rewards and successors are forgotten separately, and recounted from stored steps."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from switchmdp.mdp.pairs import Pairs
from switchmdp.memory import Apart, Since
from switchmdp.memory.counts import BOTH, REWARDS, ROWS
from switchmdp.plausible import Posterior, SparsePosterior

SIZES = [(3, 2), (80, 2)]  # full rows, and slots


def steps(n: int, pairs: Pairs) -> tuple[Any, Any, Any]:
    rng = np.random.default_rng(0)
    numbers = rng.integers(6, size=n).astype(np.uint32)
    return numbers, rng.integers(pairs.n_states, size=n).astype(np.uint32), rng.random(n)


def absorb(memory: Any, lived: tuple[Any, Any, Any], first: int, last: int) -> None:
    pairs, nexts, rewards = (column[first:last].copy() for column in lived)
    memory.absorb(pairs, nexts, rewards, last - first)


def successors(memory: Any, pair: int) -> dict[int, int]:
    counts = memory.counts
    block = range(counts.offset[pair], counts.offset[pair] + counts.used[pair])
    return {int(counts.target[k]): int(counts.count[k]) for k in block if counts.count[k] > 0}


@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("seed", range(5))
def test_rewards_and_rows_are_forgotten_like_in_two_separate_memories(
    sizes: tuple[int, int], seed: int
) -> None:
    """Compared with two memories that forget whole pairs: one for rewards, one for rows."""
    pairs = Pairs.of(*sizes)
    rng, lived = np.random.default_rng(seed), steps(600, pairs)
    memory, of_rewards, of_rows = Apart(room=500), Since(room=500), Since(room=500)
    for each in (memory, of_rewards, of_rows):
        each.allocate(pairs)
    done = 0
    for _ in range(4):
        for each in (memory, of_rewards, of_rows):
            absorb(each, lived, done, done + 150)
        done += 150
        codes = np.zeros(pairs.n_pairs, np.uint8)
        codes[:6] = rng.integers(0, 4, 6)
        steps_kept = int(rng.integers(0, 200))
        memory.keep(steps_kept, codes)
        of_rewards.keep(steps_kept, (codes == BOTH) | (codes == REWARDS))
        of_rows.keep(steps_kept, (codes == BOTH) | (codes == ROWS))
        np.testing.assert_array_equal(memory.counts.rewarded, of_rewards.counts.visits)
        np.testing.assert_array_equal(memory.counts.visits, of_rows.counts.visits)
        for pair in range(6):
            mean = of_rewards.counts.mean(pair)
            assert memory.counts.mean(pair) == pytest.approx(mean, abs=1e-12)
            assert memory.counts.reward_visits(pair) == of_rewards.counts.visits[pair]
            assert successors(memory, pair) == successors(of_rows, pair)
        memory.counts.check_invariants()


@pytest.mark.parametrize("sizes", SIZES)
def test_marked_with_true_a_pair_is_forgotten_whole(sizes: tuple[int, int]) -> None:
    pairs = Pairs.of(*sizes)
    memory = Apart()
    memory.allocate(pairs)
    absorb(memory, steps(100, pairs), 0, 100)
    assert memory.keep(10, np.ones(pairs.n_pairs, bool)) == 10
    assert memory.counts.visits.sum() == memory.counts.rewarded.sum() == 10


def test_growth_moves_both_kinds() -> None:
    pairs, larger = Pairs.of(3, 2), Pairs.of(4, 3)
    memory = Apart()
    memory.allocate(pairs)
    absorb(memory, steps(100, pairs), 0, 100)
    memory.keep(20, np.array([0, REWARDS, 0, ROWS, 0, 0], np.uint8))
    rewarded, visits = memory.counts.rewarded.copy(), memory.counts.visits.copy()
    first = memory.first_reward.copy()
    place = np.array([0, 1, 3, 4, 6, 7])
    memory.grow(larger, place)
    np.testing.assert_array_equal(memory.counts.rewarded[place], rewarded)
    np.testing.assert_array_equal(memory.counts.visits[place], visits)
    np.testing.assert_array_equal(memory.first_reward[place], first)
    absorb(memory, steps(50, pairs), 0, 50)
    assert memory.counts.rewarded.sum() == rewarded.sum() + 50


@pytest.mark.parametrize("make", [Posterior, SparsePosterior])
def test_a_posterior_draws_rewards_from_their_own_visits(make: Any) -> None:
    """Rewards of 1 at 300 visits, and no successor: means near 1, and rows from the prior."""
    pairs = Pairs.of(3, 2)
    memory, posterior = Apart(), make(seed=1)
    memory.allocate(pairs)
    posterior.allocate(pairs)
    n = 300
    memory.absorb(np.zeros(n, np.uint32), np.zeros(n, np.uint32), np.ones(n), n)
    memory.keep(0, np.array([ROWS, 0, 0, 0, 0, 0], np.uint8))
    means, firsts = [], []
    for _ in range(200):
        posterior.draw(memory.counts)
        means.append(float(posterior.mean[0]))
        firsts.append(posterior.probabilities[0] if make is Posterior else posterior.elsewhere[0])
    assert min(means) > 0.95
    assert np.mean(firsts) == pytest.approx(1 / 3, abs=0.07)
    memory.keep(0, np.array([REWARDS, 0, 0, 0, 0, 0], np.uint8))
    draws = []
    for _ in range(200):
        posterior.draw(memory.counts)
        draws.append(float(posterior.mean[0]))
    assert np.mean(draws) == pytest.approx(0.5, abs=0.1)


@pytest.mark.parametrize(
    ("law", "ratio", "tolerance"),
    [
        (lambda rng, mean: float(rng.random() < mean), 1.0, 0.0),
        (lambda rng, mean: rng.random(), 1 / 3, 0.05),  # variance 1/12, of 0 and 1 it is 1/4
        (lambda rng, mean: mean, 0.0, 0.03),
    ],
)
def test_the_noise_of_rewards_is_learned_from_all_pairs(
    law: Any, ratio: float, tolerance: float
) -> None:
    """Relative to that of rewards of 0 and 1, for which it is exactly 1."""
    rng, pairs = np.random.default_rng(1), Pairs.of(3, 2)
    means, memory = rng.uniform(0.2, 0.8, 6), Apart()
    memory.allocate(pairs)
    assert memory.counts.reward_noise() == 1.0
    for _ in range(300):
        numbers = rng.integers(6, size=10).astype(np.uint32)
        rewards = np.array([law(rng, means[pair]) for pair in numbers])
        memory.counts.learn_noise(numbers, rewards, 10)
        memory.absorb(numbers, np.zeros(10, np.uint32), rewards, 10)
    assert memory.counts.reward_noise() == pytest.approx(ratio, abs=tolerance)


def test_rewards_that_vary_less_make_a_narrower_posterior() -> None:
    spreads = []
    for between in (0.0, 200.0):
        memory, posterior = Apart(), Posterior(seed=0)
        memory.allocate(Pairs.of(2, 1))
        posterior.allocate(Pairs.of(2, 1))
        absorb(memory, (np.zeros(50, np.uint32), np.zeros(50, np.uint32), np.full(50, 0.5)), 0, 50)
        memory.counts.between, memory.counts.largest = between, 222.0
        drawn = []
        for _ in range(400):
            posterior.draw(memory.counts)
            drawn.append(posterior.mean[0])
        spreads.append(np.std(drawn))
    assert spreads[1] == pytest.approx(spreads[0] * np.sqrt(1 - 200 / 223), rel=0.15)
