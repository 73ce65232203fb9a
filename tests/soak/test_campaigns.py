"""Long campaigns (`make soak`): the same truths as the tests', over many more cases."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import switchmdp as sm
from switchmdp import theory
from switchmdp.compiled import freeze, machine, pack, thaw, unpack
from switchmdp.mdp import Pairs
from switchmdp.memory import Window
from switchmdp.randomness import below, stream, uniform

pytestmark = pytest.mark.soak


@pytest.mark.parametrize("seed", range(300))
def test_machine_code_and_interpreted_runs_are_equal_on_random_problems(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n_states, n_actions = int(rng.integers(1, 90)), int(rng.integers(1, 5))
    law = [sm.Bernoulli(), sm.Beta(share=float(rng.uniform(0.01, 0.99)))][seed % 2]
    problem = sm.problems.random_switching(
        n_states, n_actions, changes=int(rng.integers(0, 6)), horizon=3000, seed=seed, law=law
    )
    window, delta = int(10 ** rng.uniform(0, 4)), float(rng.uniform(0.01, 0.9))
    runs = [
        sm.simulate(
            sm.agents.SWUCRL(n_states, n_actions, window=window, delta=delta), problem,
            3000 if n_states < 20 else 300, seed=seed, trajectory=True, interpreted=interpreted,
        )
        for interpreted in (False, True)
    ]  # fmt: skip
    assert runs[0].trajectory is not None
    assert runs[1].trajectory is not None
    assert np.array_equal(runs[0].trajectory.actions, runs[1].trajectory.actions)
    assert np.array_equal(runs[0].regret, runs[1].regret)


def _feed(state: Any, words: Any, batches: int) -> Any:
    memory = thaw(state)
    pairs, nexts = np.zeros(1000, np.uint32), np.zeros(1000, np.uint32)
    rewards = np.zeros(1000)
    for _ in range(batches):
        for i in range(1000):
            pairs[i] = below(words, 6)
            nexts[i] = below(words, 3)
            rewards[i] = uniform(words)
        memory.absorb(pairs, nexts, rewards, 1000)
    return freeze(memory)


def test_window_sums_over_three_billion_steps_equal_fsum_of_the_window() -> None:
    memory = Window(1_000_000)
    memory.allocate(Pairs.of(3, 2))
    unpack(memory, machine(_feed, memory)(pack(memory), stream(2), 3_000_000))
    for pair in range(6):
        inside = memory.rewards[memory.pairs == pair]
        total = memory.counts.high[pair] / 2.0**31 + memory.counts.low[pair] / 2.0**62
        assert total == pytest.approx(math.fsum(inside), rel=1e-12)
        assert memory.counts.visits[pair] == len(inside)


@pytest.mark.parametrize("seed", range(2000))
def test_the_lemmas_hold_on_every_run(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n_states, n_actions = int(rng.integers(1, 8)), int(rng.integers(1, 5))
    window = n_states * n_actions + int(10 ** rng.uniform(0, 4))
    problem = sm.problems.random_switching(
        n_states, n_actions, changes=int(rng.integers(0, 9)), horizon=20_000, seed=seed
    )
    agent = sm.agents.SWUCRL(n_states, n_actions, window=window, delta=0.1)
    episodes = sm.simulate(agent, problem, 20_000, seed=seed, episodes=True).episodes
    assert episodes is not None
    assert episodes.length.max() <= theory.longest_episode(window=window, n_states=n_states)
    sizes = {"n_states": n_states, "n_actions": n_actions, "window": window}
    assert len(episodes) <= theory.episodes_bound(horizon=20_000, **sizes)


@pytest.mark.parametrize("seed", range(20))
def test_a_million_steps_in_random_pieces_equal_the_whole(seed: int) -> None:
    rng = np.random.default_rng(seed)
    problem = sm.problems.random_switching(5, 3, changes=6, horizon=1_000_000, seed=seed)
    makers = [
        lambda: sm.agents.SWUCRL(5, 3, window=5000, delta=0.1),
        lambda: sm.agents.UCRL2R(5, 3, changes=6, delta=0.1),
        lambda: sm.agents.Random(5, 3),
    ]
    make: Any = makers[seed % 3]
    whole = sm.simulate(make(), problem, 1_000_000, seed=seed, every=1009)
    agent, record = make(), None
    for stop in [*sorted(rng.integers(1, 10**6, 12).tolist()), 1_000_000]:
        record = sm.simulate(agent, problem, stop, seed, every=1009, resume=record)
    assert record is not None
    assert np.array_equal(whole.regret, record.regret)
    assert whole.position == record.position
