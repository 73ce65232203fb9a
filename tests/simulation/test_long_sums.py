"""Sums over very many steps: the truth is known where the reward is constant."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

import switchmdp as sm
from switchmdp.compiled import interpreted
from switchmdp.simulation import loop

ALONE = sm.MDP([[[1.0]]], [[0.1]], law=sm.Deterministic())


def drift(steps: int) -> float:
    """The pseudo-regret of the only policy there is, relative to the sum of rewards."""
    record = sm.simulate(sm.agents.UCRL2(1, 1), ALONE, steps)
    exact = Fraction(0.1) * steps
    assert abs(Fraction(record.total_reward) - exact) / exact < Fraction(1, 10**11)
    assert record.regret[-1] == record.pseudo_regret[-1]
    return float(abs(record.pseudo_regret[-1])) / (0.1 * steps)


def test_pseudo_regret_does_not_drift_in_ten_million_steps() -> None:
    assert drift(10**7) < 1e-11  # adding one by one: 2e-10


@pytest.mark.soak
def test_pseudo_regret_does_not_drift_in_a_billion_steps() -> None:
    assert drift(10**9) < 1e-11


def test_gains_of_many_segments_do_not_drift() -> None:
    """The gain changes between 0.1 and 0.7 every 50 steps, and the agent earns just that."""
    other = sm.MDP([[[1.0]]], [[0.7]], law=sm.Deterministic())
    points = list(range(51, 3_000_000, 50))
    configurations = [(ALONE, other)[i % 2] for i in range(len(points) + 1)]
    problem = sm.SwitchingMDP(configurations, points)
    record = sm.simulate(sm.agents.UCRL2(1, 1), problem, 3_000_000)
    assert abs(record.pseudo_regret[-1]) / 1_200_000 < 1e-11


def test_settled_sums_carry_twice_the_bits_of_a_float() -> None:
    add = interpreted(loop.add_exactly)
    total, rest = 0.0, 0.0
    exact = Fraction(0)
    for term in np.random.default_rng(0).uniform(0.0, 4096.0, 10_000).tolist():
        total, rest = add(total, rest, term)
        exact += Fraction(term)
    assert abs(Fraction(total) + Fraction(rest) - exact) <= exact / 2**90
    assert total == float(exact)
