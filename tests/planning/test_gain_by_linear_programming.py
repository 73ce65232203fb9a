"""`optimal_gain` on more than a thousand ordinary MDPs, against linear programming (HiGHS).

ρ* is the least g for which some h satisfies  g + h(s) >= r(s, a) + Σ p h  for all s and a. The
programs of many MDPs are put side by side into one, whose objective is the sum of their g.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.optimize import linprog
from scipy.sparse import block_diag, csr_array

from switchmdp.mdp import MDP
from switchmdp.planning import diameter, optimal_gain, policy_gain
from switchmdp.problems import (
    dirichlet_rows,
    random_mdp,
    random_sparse_mdp,
    ring_with_shortcuts,
    riverswim,
    uniform_rows,
)

EXACT = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}
AT_ONCE = 50


def gains_by_linear_programming(mdps: Sequence[MDP]) -> NDArray[np.float64]:
    blocks: list[Any] = []
    right, cost = [], []
    bounds: list[tuple[float | None, float | None]] = []
    for mdp in mdps:
        states, actions = mdp.pairs.states, mdp.pairs.actions
        moved = mdp.transitions[states, actions] - np.eye(mdp.n_states)[states]
        blocks.append(csr_array(np.hstack([np.full((len(states), 1), -1.0), moved])))
        right.append(-mdp.rewards[states, actions])
        cost.append(np.eye(1, 1 + mdp.n_states)[0])
        bounds += [(None, None), (0.0, 0.0)] + [(None, None)] * (mdp.n_states - 1)
    solve: Any = linprog  # its types know neither sparse matrices nor HiGHS's options
    solution = solve(
        np.concatenate(cost), block_diag(blocks, format="csr"), np.concatenate(right),
        bounds=bounds, method="highs", options=EXACT,
    )  # fmt: skip
    assert solution.status == 0, solution.message
    first = np.cumsum([0] + [1 + mdp.n_states for mdp in mdps[:-1]])
    gains: NDArray[np.float64] = np.asarray(solution.x)[first]
    return gains


def dense(seed: int) -> MDP:
    rng = np.random.default_rng(seed)
    rows = dirichlet_rows if seed % 2 else uniform_rows
    return random_mdp(int(rng.integers(1, 13)), int(rng.integers(1, 5)), seed=seed, rows=rows)


def sparse(seed: int) -> MDP:
    rng = np.random.default_rng(seed)
    n_states = int(rng.integers(3, 21))
    return random_sparse_mdp(n_states, int(rng.integers(1, 5)), int(rng.integers(1, 4)), seed=seed)


def unequal_action_sets(seed: int) -> MDP:
    rng = np.random.default_rng(seed)
    n_states, n_actions = int(rng.integers(2, 9)), int(rng.integers(2, 6))
    available = rng.random((n_states, n_actions)) < 0.5
    available[np.arange(n_states), rng.integers(0, n_actions, n_states)] = True
    transitions = rng.dirichlet(np.full(n_states, 0.5), (n_states, n_actions))
    return MDP(transitions, rng.random((n_states, n_actions)), available=available)


def deterministic(seed: int) -> MDP:
    rng = np.random.default_rng(seed)
    n_states, n_actions = int(rng.integers(2, 16)), int(rng.integers(1, 4))
    transitions = np.zeros((n_states, n_actions, n_states))
    for s in range(n_states):
        transitions[s, 0, (s + 1) % n_states] = 1.0
        for a in range(1, n_actions):
            transitions[s, a, rng.integers(n_states)] = 1.0
    return MDP(transitions, rng.random((n_states, n_actions)))


def check(mdps: Sequence[MDP]) -> None:
    for k in range(0, len(mdps), AT_ONCE):
        part = mdps[k : k + AT_ONCE]
        for mdp, expected in zip(part, gains_by_linear_programming(part), strict=True):
            plan = optimal_gain(mdp)
            assert abs(plan.gain - expected) <= 1e-8
            assert plan.lower <= plan.gain <= plan.upper <= plan.lower + 1e-9
            assert np.abs(policy_gain(mdp, plan.policy) - expected).max() <= 1e-8
            assert np.abs(optimality_residual(mdp, plan.gain, plan.bias)).max() <= 1e-8 * (
                1.0 + plan.span
            )
            assert plan.bias.min() == 0.0
            assert plan.span == plan.bias.max()


def optimality_residual(mdp: MDP, gain: float, bias: NDArray[np.float64]) -> NDArray[np.float64]:
    """max_a (r + Σ p h) - h - g."""
    values = mdp.rewards + mdp.transitions @ bias
    return np.asarray(np.nanmax(values, axis=1) - bias - gain)


@pytest.mark.parametrize(
    ("family", "count"),
    [(dense, 450), (sparse, 350), (unequal_action_sets, 250), (deterministic, 150)],
)
def test_the_gain_is_that_of_linear_programming(family: Callable[[int], MDP], count: int) -> None:
    mdps = [mdp for mdp in map(family, range(count)) if diameter(mdp) <= 1e3]
    assert len(mdps) >= 0.85 * count
    check(mdps)


@pytest.mark.parametrize("n_states", [2, 3, 6, 10, 15])
def test_the_gain_of_riverswim_is_that_of_linear_programming(n_states: int) -> None:
    check([riverswim(n_states)])


@pytest.mark.parametrize("n_states", [70, 150])
def test_the_gain_of_many_states_is_that_of_linear_programming(n_states: int) -> None:
    check([ring_with_shortcuts(n_states, seed=1), random_sparse_mdp(n_states, 3, 4, seed=2)])
