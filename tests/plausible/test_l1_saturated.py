"""If optimistic rewards reach 1 in every state, the plan is the same without the sweep."""

from __future__ import annotations

import numpy as np
import pytest

from switchmdp.mdp.pairs import Pairs
from switchmdp.memory import Everything
from switchmdp.plausible import L1Ball

N_STATES = 70  # more than are stored as full rows


def filled_memory(rng: np.random.Generator, steps: int) -> Everything:
    pairs = Pairs.of(N_STATES, 3)
    memory = Everything()
    memory.allocate(pairs)
    visited = rng.integers(0, pairs.n_pairs, steps).astype(np.uint32)
    nexts = rng.integers(0, 5, steps).astype(np.uint32)
    memory.absorb(visited, nexts, rng.integers(0, 2, steps).astype(float), steps)
    return memory


@pytest.mark.parametrize("steps", [0, 100, 12_000, 40_000, 60_000, 150_000])
def test_a_plan_without_the_sweep_is_the_plan_with_it(steps: int) -> None:
    rng = np.random.default_rng(steps)
    counts = filled_memory(rng, steps).counts
    pairs = Pairs.of(N_STATES, 3)
    plans = []
    for quick in (True, False):
        ball = L1Ball(0.1)
        ball.allocate(pairs)
        ball.optimism.value[:] = 7.0
        choice = np.full(N_STATES, 1, np.int64)
        if quick:
            saturated = ball.all_states_may_earn_one(
                pairs.starts, counts, 0, steps + 1, choice.copy()
            )
            ball.plan(pairs.starts, counts, steps + 1, choice)
        else:
            ball.bound(counts, 0, steps + 1)
            ball.solve(pairs.starts, counts, 0, steps + 1, choice)
        work = ball.optimism
        plans.append((choice.tolist(), work.value.tolist(), ball.gain(), ball.sweeps()))
    assert plans[0] == plans[1]
    assert saturated == (plans[1][2] == 1.0 and plans[1][3] == 1)
    assert saturated or steps > 12_000
    assert not saturated or steps < 150_000
