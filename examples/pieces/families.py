"""Problems that EvidencePSRL was not designed on: independent contexts, other rows, a river."""

from __future__ import annotations

from typing import Any

import numpy as np

import switchmdp as sm
from switchmdp.problems import problem_factory


def _random_means(rng: Any, rows: Any) -> sm.MDP:
    return sm.MDP(rows, rng.random(rows.shape[:2]))


@problem_factory
def contextual_bandit(
    n_states: int = 20, n_actions: int = 5, changes: int = 0, zipf: bool = False,
    horizon: int = 100_000, seed: int = 0,
) -> sm.SwitchingMDP:  # fmt: skip
    """The next context does not depend on anything; a change draws all mean rewards anew."""
    rng = np.random.default_rng(seed)
    weights = 1.0 / np.arange(1, n_states + 1) if zipf else np.ones(n_states)
    row = weights / weights.sum()
    rows = np.broadcast_to(row, (n_states, n_actions, n_states)).copy()
    points = [int(horizon * (i + 1) / (changes + 1)) for i in range(changes)]
    return sm.SwitchingMDP([_random_means(rng, rows) for _ in range(changes + 1)], points)


@problem_factory
def dirichlet_rows(
    n_states: int = 20, n_actions: int = 4, concentration: float = 1.0, seed: int = 0
) -> sm.MDP:
    """Nothing changes; rows from Dirichlet(α, …, α): sparse for a small α, flat for a large one."""
    rng = np.random.default_rng(seed)
    rows = rng.dirichlet([concentration] * n_states, (n_states, n_actions)) + 1e-9
    return _random_means(rng, rows / rows.sum(axis=-1, keepdims=True))


@problem_factory
def far_bank(n_states: int = 6, horizon: int = 100_000, seed: int = 0) -> sm.SwitchingMDP:
    """A river whose near bank pays 0.2. After a third of the steps the far bank pays 1."""
    rows, before = np.zeros((n_states, 2, n_states)), np.zeros((n_states, 2))
    before[0, 0] = 0.2
    for s in range(n_states):
        rows[s, 0, max(0, s - 1)] = 1.0
        rows[s, 1, min(n_states - 1, s + 1)] += 0.6
        rows[s, 1, s] += 0.3
        rows[s, 1, max(0, s - 1)] += 0.1
    after = before.copy()
    after[n_states - 1, 1] = 1.0
    return sm.SwitchingMDP([sm.MDP(rows, before), sm.MDP(rows, after)], [horizon // 3])
