"""The inner maximum over a Kullback-Leibler ball, max { Σ q u : KL(p, q) <= ε }.

That a value is the maximum is shown by two numbers. A row q in the ball is worth no more than it.
And for any ν >= max u no row is worth more than φ(ν) = ν - exp(Σ p log(ν - u) - ε), because by
Jensen's inequality  log(ν - Σ q u) >= Σ p log(q (ν - u) / p) >= Σ p log(ν - u) - ε.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq

from switchmdp.planning.inner_maximum import shortfall

Vector = NDArray[np.float64]


def maximum(p: Vector, u: Vector, epsilon: float) -> float:
    seen = p > 0.0
    m = float(u[seen].max())
    gaps = m - u[seen]
    return m - shortfall(p[seen], gaps, len(gaps), float(u.max()) - m, epsilon)


def divergence(p: Vector, q: Vector) -> float:
    seen = p > 0.0
    return float(np.sum(p[seen] * np.log(p[seen] / q[seen])))


def best_row(p: Vector, u: Vector, epsilon: float) -> Vector:
    """q ∝ p/(x + m - u), x found by bisection, or with mass on the best state if never seen."""
    seen, top = p > 0.0, float(u.max())
    m = float(u[seen].max())

    def row(x: float) -> Vector:
        q = np.where(seen, p / np.where(seen, x + (m - u), 1.0), 0.0)
        return np.asarray(q / q.sum())

    if m < top and divergence(p, row(top - m)) <= epsilon:
        rest = math.exp(divergence(p, row(top - m)) - epsilon)
        q = row(top - m) * rest
        q[int(np.argmax(u))] = 1.0 - rest
        return q
    low, high = -60.0, 30.0  # the logarithm of x
    for _ in range(200):
        middle = (low + high) / 2.0
        if divergence(p, row(math.exp(middle))) > epsilon:
            low = middle
        else:
            high = middle
    return row(math.exp(high))


def bound(p: Vector, u: Vector, epsilon: float) -> float:
    """The least φ(ν) over a grid of ν."""
    seen, top = p > 0.0, float(u.max())
    span = max(1e-9, float(top - u.min()))
    nus = top + span * np.concatenate([[0.0], np.logspace(-13, 6, 4000)])
    with np.errstate(divide="ignore"):
        logs = (p[seen] * np.log(nus[:, None] - u[seen])).sum(axis=1)
    return float((nus - np.exp(logs - epsilon)).min())


def draw(rng: np.random.Generator) -> tuple[Vector, Vector, float]:
    n_states = int(rng.integers(2, 8))
    visits = int(rng.integers(1, 60))
    p = rng.multinomial(visits, rng.dirichlet(np.ones(n_states))) / visits
    u = rng.random(n_states) * 5.0
    if rng.random() < 0.3:
        u = rng.integers(0, 3, n_states).astype(np.float64)
    return p, u, float(10.0 ** rng.uniform(-5, 1))


def test_the_maximum_is_attained_in_the_ball_and_equals_an_upper_bound() -> None:
    rng = np.random.default_rng(0)
    for _ in range(400):
        p, u, epsilon = draw(rng)
        actual, row = maximum(p, u, epsilon), best_row(p, u, epsilon)
        assert divergence(p, row) <= epsilon + 1e-9
        assert abs(row.sum() - 1.0) <= 1e-12
        assert row @ u <= actual + 1e-8, (p, u, epsilon)
        assert row @ u >= actual - 1e-8, (p, u, epsilon)
        assert actual <= bound(p, u, epsilon) + 1e-8, (p, u, epsilon)


def test_with_two_states_the_better_one_gets_mass_up_to_the_edge_of_the_ball() -> None:
    for p in (0.1, 0.5, 0.93):
        for epsilon in (1e-6, 0.01, 0.3, 2.0):

            def excess(q: float, p: float = p, epsilon: float = epsilon) -> float:
                return divergence(np.array([1 - p, p]), np.array([1 - q, q])) - epsilon

            expected = brentq(excess, p, 1.0 - 1e-15, xtol=1e-15)
            actual = maximum(np.array([1 - p, p]), np.array([0.0, 1.0]), epsilon)
            assert abs(actual - expected) <= 1e-8


def test_an_unvisited_best_state_gets_the_mass_that_the_ball_allows() -> None:
    """One state seen: q gives it e^{-ε}, and the rest goes to the best."""
    for epsilon in (1e-4, 0.2, 3.0):
        actual = maximum(np.array([0.0, 1.0, 0.0]), np.array([0.0, 1.0, 5.0]), epsilon)
        assert abs(actual - (5.0 - 4.0 * math.exp(-epsilon))) <= 1e-12


def test_equal_values_have_no_optimistic_gain() -> None:
    assert maximum(np.array([0.3, 0.7]), np.array([2.0, 2.0]), 0.5) == 2.0


def test_a_huge_ball_gives_the_best_value_and_a_tiny_one_the_estimate() -> None:
    p, u = np.array([0.2, 0.5, 0.3]), np.array([0.0, 1.0, 3.0])
    assert abs(maximum(p, u, 500.0) - 3.0) <= 1e-9
    assert abs(maximum(p, u, 1e-16) - p @ u) <= 1e-6
