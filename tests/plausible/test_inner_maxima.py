"""Inner maxima of plausible sets, computed from counts in full rows and in lists."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import pytest
from scipy.optimize import linprog

from switchmdp.mdp.pairs import Pairs
from switchmdp.memory import Everything, Window
from switchmdp.plausible import Bernstein, BernsteinLaplace, KLBall, L1Ball


def taught(plausible: Any, n_states: int, steps: int, seed: int, memory: Any) -> Any:
    """A set with counts of random steps with few successors, and random values."""
    rng = np.random.default_rng(seed)
    pairs = Pairs.of(n_states, 2)
    memory.allocate(pairs)
    plausible.allocate(pairs)
    followed = rng.integers(0, pairs.n_pairs, steps)
    nexts = (followed * 7 + rng.integers(0, 3, steps) ** 2) % n_states
    rewards = rng.random(steps)
    memory.absorb(followed.astype(np.uint32), nexts.astype(np.uint32), rewards, steps)
    plausible.plan(pairs.starts, memory.counts, steps + 1, np.zeros(n_states, np.int64))
    plausible.work.value[:] = rng.random(n_states) * 3.0
    plausible.work.value[rng.integers(n_states)] = 0.0
    plausible.work.top = plausible.work.value.max()
    plausible.arrange()
    return memory.counts


def rows_of(counts: Any, pair: int) -> dict[int, int]:
    block = range(counts.offset[pair], counts.offset[pair] + counts.used[pair])
    return {int(counts.target[k]): k for k in block if counts.count[k] > 0}


def by_linear_programming(plausible: Any, counts: Any, pair: int, states: Any = None) -> float:
    """The best row of a pair's intervals; if `states` are given, with mass only on them."""
    value = plausible.work.value
    seen, call = rows_of(counts, pair), cast("Any", linprog)
    highs, lows = np.full(value.size, plausible.beyond[pair]), np.zeros(value.size)
    for state, k in seen.items():
        lows[state], highs[state] = plausible.low[k], plausible.high[k]
    if states is not None:
        highs[np.setdiff1d(np.arange(value.size), states)] = 0.0
    tight = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}
    solution = call(
        -value, A_ub=np.ones((1, value.size)), b_ub=[1.0],
        bounds=list(zip(lows, highs, strict=True)), options=tight,
    )  # fmt: skip
    assert solution.status == 0
    return float(value @ solution.x)


@pytest.mark.parametrize("n_states", [6, 90])
@pytest.mark.parametrize("memory", [Everything, lambda: Window(1000)])
def test_bernsteins_inner_maxima_are_those_of_linear_programming(
    n_states: int, memory: Any
) -> None:
    plausible = Bernstein(0.1)
    counts = taught(plausible, n_states, 4000, 1, memory())
    for pair in np.nonzero(counts.visits)[0][:40]:
        actual = plausible.highest(counts, int(pair), -np.inf)
        expected = by_linear_programming(plausible, counts, pair)
        assert abs(actual - expected) <= 1e-12 * max(1.0, plausible.work.top)


@pytest.mark.parametrize("n_states", [6, 90])
def test_ucrl3_loses_at_most_kappa_on_its_support(n_states: int) -> None:
    plausible = BernsteinLaplace(0.1)
    counts = taught(plausible, n_states, 30 * n_states, 2, Everything())
    value, limited = plausible.work.value, 0
    for pair in np.nonzero(counts.visits)[0][:60]:
        actual = plausible.highest(counts, int(pair), -np.inf)
        seen = rows_of(counts, pair)
        unseen = sorted(set(range(n_states)) - set(seen), key=lambda s: -value[s])
        m = int(plausible.extra[pair])
        support = list(seen) + unseen[:m]
        expected = by_linear_programming(plausible, counts, pair, support)
        assert abs(actual - expected) <= 1e-12 * max(1.0, plausible.work.top)
        everywhere = by_linear_programming(plausible, counts, pair)
        kappa = 10 * len(seen) * plausible.work.top / counts.visits.max() ** (2 / 3)
        assert everywhere - min(kappa, actual) - 1e-12 <= actual <= everywhere + 1e-12
        limited += m < len(unseen)
    assert limited > 0 or n_states == 6


@pytest.mark.parametrize("n_states", [6, 90])
def test_a_kl_ball_stops_early_only_below_the_given_bound(n_states: int) -> None:
    plausible = KLBall(0.1)
    counts = taught(plausible, n_states, 300 * n_states, 3, Everything())
    plausible.budget[:] = 0.01
    given_up = 0
    for pair in np.nonzero(counts.visits)[0]:
        actual = plausible.highest(counts, int(pair), -np.inf)
        assert actual <= plausible.work.top
        for threshold in (actual - 0.1, actual, actual + 0.2 * plausible.work.top):
            with_bound = plausible.highest(counts, int(pair), threshold)
            assert with_bound == actual or with_bound < threshold
            given_up += with_bound != actual
    assert given_up > 0


@pytest.mark.parametrize("make", [Bernstein, BernsteinLaplace, KLBall])
def test_the_value_of_a_pair_is_the_one_that_the_plan_compared(make: Any) -> None:
    """The greedy pair of each state has the largest value, which is u + gain."""
    plausible, pairs = make(0.1), Pairs.of(6, 2)
    counts = taught(plausible, 6, 3000, 4, Everything())
    choice = np.zeros(6, np.int64)
    plausible.plan(pairs.starts, counts, 3001, choice)
    worth = np.array([plausible.worth(counts, 3001, pair) for pair in range(12)]).reshape(6, 2)
    assert choice.tolist() == (np.arange(6) * 2 + worth.argmax(axis=1)).tolist()
    assert 0.0 < plausible.gain() <= 1.0
    assert plausible.sweeps() > 1


@pytest.mark.parametrize("n_states", [64, 65])  # full rows, and lists of successors
@pytest.mark.parametrize("kind", [L1Ball, Bernstein, BernsteinLaplace, KLBall])
def test_a_plan_depends_only_on_the_steps_in_the_window(kind: Any, n_states: int) -> None:
    """Slots of forgotten successors stay in the lists, and others take their places."""
    rng = np.random.default_rng(3)
    pairs, window, steps = Pairs.of(n_states, 1), 800, 4000
    followed = rng.integers(0, pairs.n_pairs, steps)
    nexts = (followed + rng.integers(0, 12, steps)) % n_states
    rewards = 0.5 * rng.random(steps)
    gains, values = [], []
    for first in (0, steps - window):
        memory, plausible = Window(window), kind(0.1, width=0.03)
        memory.allocate(pairs)
        plausible.allocate(pairs)
        for i in range(first, steps, 50):  # in pieces, as agents do
            part = slice(i, i + 50)
            seen = followed[part].astype(np.uint32), nexts[part].astype(np.uint32), rewards[part]
            memory.absorb(*seen, 50)
        plausible.plan(pairs.starts, memory.counts, 10**6, np.zeros(n_states, np.int64))
        gains.append(plausible.gain())
        values.append((plausible.optimism if kind is L1Ball else plausible.work).value)
    assert gains[0] == pytest.approx(gains[1], abs=1e-9)
    assert values[0] == pytest.approx(values[1], abs=1e-9)
    assert gains[0] < 0.9  # the optimistic rows matter
