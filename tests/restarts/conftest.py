"""Streams for detectors, run as machine code."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from switchmdp.compiled import machine, pack, thaw
from switchmdp.mdp import Pairs
from switchmdp.randomness import below, stream, uniform

BATCH = 100


def _first(state: Any, nexts: Any, rewards: Any) -> int:
    """The visit to pair 0 at which the detector raises an alarm, one step at a time."""
    detector = thaw(state)
    pair, target, reward = np.zeros(1, np.uint32), np.zeros(1, np.uint32), np.zeros(1)
    for i in range(rewards.size):
        target[0], reward[0] = nexts[i], rewards[i]
        detector.watch(pair, target, reward, 1)
        detector.log_emptied()
        if detector.found:
            return i + 1
    return int(rewards.size)


def _alarm(state: Any, words: Any, cumulative: Any, means: Any, batches: int) -> int:
    """The batch of random visits in which the detector raises an alarm, or -1."""
    detector = thaw(state)
    pairs, nexts = np.zeros(BATCH, np.uint32), np.zeros(BATCH, np.uint32)
    rewards = np.zeros(BATCH)
    for batch in range(batches):
        for i in range(BATCH):
            pair = below(words, means.size)
            u, target = uniform(words), 0
            while u >= cumulative[pair, target]:
                target += 1
            pairs[i], nexts[i] = pair, target
            rewards[i] = 1.0 if uniform(words) < means[pair] else 0.0
        detector.watch(pairs, nexts, rewards, BATCH)
        detector.log_emptied()
        if detector.found:
            return batch
    return -1


@pytest.fixture
def first_visit() -> Callable[..., int]:
    """The visit at which a detector of one pair raises an alarm, or the last visit."""

    def visit(detector: Any, nexts: Any, rewards: Any, n_states: int = 1) -> int:
        detector.allocate(Pairs.of(n_states, 1))
        run = machine(_first, detector)
        return int(run(pack(detector), np.asarray(nexts, np.uint32), np.asarray(rewards, float)))

    return visit


@pytest.fixture
def alarms_on_nothing() -> Callable[..., int]:
    """The number of stationary runs (S=5, A=3, 20 000 steps) with an alarm."""

    def count(make: Callable[[], Any], runs: int) -> int:
        rng, alarms = np.random.default_rng(0), 0
        for seed in range(runs):
            detector = make()
            detector.allocate(Pairs.of(5, 3))
            cumulative = rng.dirichlet(np.ones(5), 15).cumsum(axis=1)
            cumulative[:, -1] = 1.0
            run = machine(_alarm, detector)
            alarms += run(pack(detector), stream(seed), cumulative, rng.random(15), 200) >= 0
        return alarms

    return count
