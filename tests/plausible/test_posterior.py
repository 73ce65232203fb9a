"""Posterior sampling: the distribution of sampled MDPs, and their optimal policies."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats

import switchmdp as sm
from switchmdp.errors import InvalidParameter
from switchmdp.mdp.pairs import Pairs
from switchmdp.memory import Counts
from switchmdp.plausible import Posterior, SparsePosterior, posterior_for
from switchmdp.plausible.posterior import FULL_UP_TO, LEAST


def counted(n_states: int, n_actions: int, rng: np.random.Generator, steps: int) -> Counts:
    counts = Counts(Pairs.of(n_states, n_actions))
    pairs = rng.integers(0, n_states * n_actions, steps).astype(np.uint32)
    nexts = rng.integers(0, n_states, steps).astype(np.uint32)
    counts.add(pairs, nexts, (rng.random(steps) < 0.3).astype(float), 0, steps)
    return counts


def draws(counts: Counts, n: int, alpha: float = 1.0, sharpness: float = 1.0) -> tuple[Any, Any]:
    posterior = Posterior(7, concentration=alpha, sharpness=sharpness)
    n_states = counts.n_states
    posterior.allocate(Pairs.of(n_states, len(counts.visits) // n_states))
    means, rows = [], []
    for _ in range(n):
        posterior.draw(counts)
        means.append(posterior.mean.copy())
        rows.append(posterior.probabilities.reshape(-1, n_states).copy())
    return np.array(means), np.array(rows)


@pytest.mark.parametrize(("concentration", "sharpness"), [(0.1, 1), (1, 1), (10, 1), (1, 3)])
def test_draws_have_the_mean_and_variance_of_beta_and_dirichlet(
    concentration: float, sharpness: float
) -> None:
    """Sharpness multiplies the number of visits."""
    counts = counted(3, 2, np.random.default_rng(0), 40)
    means, rows = draws(counts, 4000, concentration, sharpness)
    for x in range(6):
        n = sharpness * counts.visits[x]
        a, b = 1 + counts.mean(x) * n, 1 + n - counts.mean(x) * n
        assert means[:, x].mean() == pytest.approx(a / (a + b), abs=0.015)
        assert means[:, x].var() == pytest.approx(a * b / (a + b) ** 2 / (a + b + 1), rel=0.15)
        alpha = concentration + sharpness * counts.count[x * 3 : x * 3 + 3]
        np.testing.assert_allclose(rows[:, x].mean(0), alpha / alpha.sum(), atol=0.015)
        p = alpha / alpha.sum()
        np.testing.assert_allclose(
            rows[:, x].var(0), p * (1 - p) / (alpha.sum() + 1), rtol=0.2, atol=1e-4
        )


def test_rows_are_distributions() -> None:
    _, rows = draws(counted(4, 2, np.random.default_rng(1), 10), 20)
    np.testing.assert_allclose(rows.sum(-1), 1.0, rtol=1e-12)
    assert (rows > 0).all()


@pytest.mark.parametrize("alpha", [0.01, 0.3])
def test_the_entries_of_a_sparse_row_have_a_beta_law(alpha: float) -> None:
    """Entry k of Dirichlet(α + P) has the law Beta(α + P_k, Sα + N - α - P_k)."""
    counts = Counts(Pairs.of(4, 1))
    counts.add(np.zeros(3, np.uint32), np.array([2, 2, 1], np.uint32), np.zeros(3), 0, 3)
    _, rows = draws(counts, 4000, alpha)
    for k, seen in ((1, 1), (2, 2)):
        law = stats.beta(alpha + seen, 3 * alpha + 3 - seen)
        assert stats.kstest(rows[:, 0, k], law.cdf).pvalue > 1e-3
    # A pair that was never visited: entries near 0 and 1 are rounded, the others have their law.
    law, low, high = stats.beta(alpha, 3 * alpha), 1e-6, 0.999
    share, fresh = law.cdf(high) - law.cdf(low), rows[:, 1, 0]
    between = fresh[(fresh > low) & (fresh < high)]
    assert abs(between.size / 4000 - share) <= 5.0 * np.sqrt(share / 4000)
    assert stats.kstest(between, lambda x: (law.cdf(x) - law.cdf(low)) / share).pvalue > 1e-3


def test_rows_are_distributions_even_if_all_their_gamma_numbers_underflow() -> None:
    _, rows = draws(Counts(Pairs.of(3, 1)), 3000, 1e-5)
    np.testing.assert_allclose(rows.sum(-1), 1.0, rtol=1e-8)
    assert (rows >= LEAST).all()
    assert (rows.max(-1) > 0.999).mean() > 0.99
    np.testing.assert_allclose((rows[:, 0] > 0.5).mean(0), 1 / 3, atol=0.05)


@pytest.mark.parametrize("alpha", [0.01, 1.0])
def test_the_policy_is_optimal_in_the_drawn_mdp(alpha: float) -> None:
    counts = counted(5, 3, np.random.default_rng(2), 60)
    pairs = Pairs.of(5, 3)
    posterior = Posterior(3, concentration=alpha)
    posterior.allocate(pairs)
    choice = pairs.starts[:-1].copy()
    for _ in range(20):
        posterior.plan(pairs.starts, counts, 1, choice)
        rows = posterior.probabilities.reshape(5, 3, 5)
        rows = rows / rows.sum(-1, keepdims=True)  # small entries were raised
        drawn = sm.MDP(rows, posterior.mean.reshape(5, 3))
        best = sm.optimal_gain(drawn)
        assert posterior.gain() == pytest.approx(best.gain, abs=1e-7)
        assert sm.policy_gain(drawn, pairs.actions[choice]).min() == pytest.approx(
            best.gain, abs=1e-7
        )


def test_counts_in_lists_give_the_same_distribution() -> None:
    """Above 64 states counts are lists of successors; the full draw is still over all states."""
    counts = Counts(Pairs.of(70, 1))
    nexts = np.array([69, 69, 3], np.uint32)
    counts.add(np.zeros(3, np.uint32), nexts, np.ones(3), 0, 3)
    _, rows = draws(counts, 500)
    assert rows[:, 0, 69].mean() == pytest.approx(3 / 73, rel=0.15)
    assert rows[:, 0, 3].mean() == pytest.approx(2 / 73, rel=0.15)


@pytest.mark.parametrize("wrong", [0.0, -1.0, 1e9, "flat", float("nan")])
def test_an_invalid_concentration_is_rejected(wrong: Any) -> None:
    with pytest.raises(InvalidParameter, match="concentration"):
        Posterior(concentration=wrong)


@pytest.mark.parametrize("wrong", [0.0, 0.5, 1e9, "sharp", float("nan")])
def test_an_invalid_sharpness_is_rejected(wrong: Any) -> None:
    with pytest.raises(InvalidParameter, match="sharpness"):
        Posterior(sharpness=wrong)


def test_too_large_a_problem_is_rejected() -> None:
    with pytest.raises(InvalidParameter, match=r"n_states.*SparsePosterior"):
        Posterior().allocate(Pairs.of(4000, 1))


@pytest.mark.parametrize("n_states", [FULL_UP_TO, FULL_UP_TO + 1, np.int64(100), "many", None])
def test_many_states_get_the_sparse_posterior(n_states: Any) -> None:
    many = isinstance(n_states, (int, np.integer)) and n_states > FULL_UP_TO
    assert isinstance(posterior_for(n_states, 0), SparsePosterior if many else Posterior)
