"""Random visits to pairs, for the tests of detectors."""

from __future__ import annotations

from typing import Any

import numpy as np

Steps = tuple[Any, Any, Any]


def steps_of(rng: np.random.Generator, n: int, rewards: Any, rows: Any) -> Steps:
    """n visits to random pairs: their numbers, successors, rewards."""
    pairs = rng.integers(0, len(rewards), n).astype(np.uint32)
    ends = np.cumsum(rows, axis=1)
    nexts = (rng.random((n, 1)) > ends[pairs]).sum(axis=1)
    gained = (rng.random(n) < np.asarray(rewards)[pairs]).astype(float)
    return pairs, np.minimum(nexts, rows.shape[1] - 1).astype(np.uint32), gained


def world(rng: np.random.Generator, n_pairs: int = 6, n_states: int = 3) -> tuple[Any, Any]:
    """The mean rewards and the transition rows of random pairs."""
    return rng.random(n_pairs), rng.dirichlet(np.ones(n_states), n_pairs)
