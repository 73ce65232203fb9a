"""Widened balls: the papers' radii, their plans, and doubling of η until the span fits."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import switchmdp as sm
from switchmdp.errors import InvalidParameter
from switchmdp.mdp.pairs import Pairs
from switchmdp.memory import Counts
from switchmdp.planning.optimism import extended_value_iteration
from switchmdp.plausible import SpanBall, Widened

LOG = math.log(5 * 3 * 100_000 / 0.1)


def counted(mdp: sm.MDP, visits: int, rows: int = 0) -> Counts:
    """Counts with this number of visits to every pair, after `rows` other rows."""
    pairs, rng = mdp.pairs, np.random.default_rng(0)
    many = Pairs(pairs.n_states, 1, pairs.starts, np.zeros(rows + pairs.n_pairs, np.int64))
    counts = Counts(many)
    for x, (s, a) in enumerate(zip(pairs.states, pairs.actions, strict=True)):
        nexts = rng.choice(pairs.n_states, visits, p=mdp.transitions[s, a]).astype(np.uint32)
        rewards = (rng.random(visits) < mdp.rewards[s, a]).astype(float)
        counts.add(np.full(visits, rows + x), nexts, rewards, 0, visits)
    return counts


def estimated(mdp: sm.MDP, counts: Counts, rows: int = 0) -> sm.MDP:
    shape = (mdp.n_states, mdp.n_actions)
    table = counts.count.reshape(-1, mdp.n_states)[rows:]
    means = [counts.mean(rows + x) for x in range(mdp.pairs.n_pairs)]
    return sm.MDP(
        (table / table.sum(axis=1, keepdims=True)).reshape(*shape, -1),
        np.reshape(means, shape),
    )


def test_the_radii_match_cheung_simchi_levi_and_zhu() -> None:
    ball = Widened(0.1, horizon=100_000, widening=0.25)
    ball.allocate(Pairs.of(5, 3))
    assert ball.reward_radius(50, 7) == pytest.approx(2 * math.sqrt(2 * LOG / 50))
    assert ball.transition_radius(50, 7) == pytest.approx(2 * math.sqrt(2 * 5 * LOG / 50) + 0.25)
    assert ball.reward_radius(0, 7) == ball.reward_radius(1, 7)
    assert ball.reward_radius(1000, 7) == pytest.approx(0.363577, abs=1e-6)


def test_the_base_of_master_has_the_radii_of_wei_and_luo() -> None:
    ball = SpanBall(0.1, horizon=100_000, span=2)
    ball.allocate(Pairs.of(5, 3))
    conf = 8 * math.sqrt(LOG / 4000)
    assert ball.reward_radius(4000, 1) == pytest.approx(conf)
    assert ball.transition_radius(4000, 1) == pytest.approx(math.sqrt(5) * conf + 1e-5)


@pytest.mark.parametrize("rows", [0, 17])
@pytest.mark.parametrize("widening", [0.0, 0.3])
def test_a_plan_is_that_of_extended_value_iteration_with_these_radii(
    widening: float, rows: int
) -> None:
    mdp = sm.problems.random_mdp(5, 3, seed=4)
    counts = counted(mdp, 900, rows)
    ball = Widened(0.1, scale=1.0, horizon=100_000, widening=widening)
    ball.allocate(mdp.pairs)
    choice = np.zeros(5, np.int64)
    ball.plan_rows(mdp.pairs.starts, counts, rows, 10_000, choice)
    expected = extended_value_iteration(
        estimated(mdp, counts, rows), precision=0.01, reward_radius=math.sqrt(LOG / 900),
        transition_radius=math.sqrt(5 * LOG / 900) + widening,
    )  # fmt: skip
    assert np.array_equal(mdp.pairs.actions[choice], expected.policy)
    assert ball.gain() == pytest.approx(expected.gain, abs=1e-12)
    assert ball.sweeps() == expected.sweeps


def test_an_unvisited_pair_is_fully_optimistic_for_any_scale() -> None:
    ball = Widened(0.5, scale=1e-6, horizon=10)
    pairs = Pairs.of(3, 2)
    ball.allocate(pairs)
    counts = Counts(pairs)
    counts.add(np.array([0]), np.array([1], np.uint32), np.array([0.5]), 0, 1)
    ball.plan(pairs.starts, counts, 1, np.zeros(3, np.int64))
    assert (ball.radius[1:] >= 2.0).all()
    assert (ball.reward[1:] == 1.0).all()
    assert ball.radius[0] < 0.01
    assert 0.5 < ball.reward[0] < 0.51


def chain(n: int) -> sm.MDP:
    """Reward only at one end, reached by steps that mostly fail; the bias has a large span."""
    p = np.zeros((n, 1, n))
    for s in range(n - 1):
        p[s, 0, s + 1], p[s, 0, s] = 0.2, 0.8
    p[n - 1, 0, 0] = p[n - 1, 0, n - 1] = 0.5
    r = np.zeros((n, 1))
    r[n - 1] = 1.0
    return sm.MDP(p, r)


@pytest.mark.parametrize("span", [1.1, 1.3, 1.6, 50.0])
def test_widening_doubles_from_one_in_t_until_the_span_of_the_bias_fits(span: float) -> None:
    mdp, horizon = chain(4), 1000
    counts = counted(mdp, 5000)
    ball = SpanBall(0.1, scale=0.01, horizon=horizon, span=span)
    ball.allocate(mdp.pairs)
    ball.plan_rows(mdp.pairs.starts, counts, 0, 10_000, np.zeros(4, np.int64))

    def plan_with(eta: float) -> Any:
        conf = 0.1 * math.sqrt(math.log(4 * horizon / 0.1) / 5000)
        return extended_value_iteration(
            estimated(mdp, counts), reward_radius=conf, transition_radius=2 * conf + eta,
            precision=0.01,
        )  # fmt: skip

    eta = 1 / horizon
    while eta < 4 and plan_with(eta).values.max() > span:
        eta *= 2
    assert ball.widening == eta
    assert ball.gain() == pytest.approx(plan_with(eta).gain, abs=1e-12)
    # A wider span is never asked for than is there, and the cases differ.
    assert (span == 50.0) == (eta == 1 / horizon)


def test_widening_ends_with_balls_that_contain_all_rows() -> None:
    mdp = chain(3)
    ball = SpanBall(0.1, scale=1e-12, horizon=100, span=1e-9)
    ball.allocate(mdp.pairs)
    ball.plan_rows(mdp.pairs.starts, counted(mdp, 100), 0, 100, np.zeros(3, np.int64))
    assert 2.0 <= ball.widening < 4.0


def test_invalid_widenings_are_rejected() -> None:
    for bad in (-0.1, math.inf, math.nan, True, "1", None):
        with pytest.raises(InvalidParameter, match="widening"):
            Widened(0.1, horizon=10, widening=bad)  # type: ignore[arg-type]
    with pytest.raises(InvalidParameter, match="horizon"):
        Widened(0.1, horizon=0)
    with pytest.raises(InvalidParameter, match="span"):
        SpanBall(0.1, horizon=10, span=0)
