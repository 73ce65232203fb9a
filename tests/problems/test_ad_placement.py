"""Ad placement: the next state is the displayed ad, and click rates follow the audience."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import switchmdp as sm
from switchmdp import problems
from switchmdp.errors import InvalidParameter


def test_the_next_state_is_always_the_ad_shown() -> None:
    problem = problems.ad_placement(4, horizon=100, every=10, seed=1)
    expected = np.broadcast_to(np.eye(4), (4, 4, 4))
    assert all(np.array_equal(m.transitions, expected) for m in problem.configurations())
    assert sm.hardness(problem).diameter == 1.0


@pytest.mark.parametrize("fatigue", [0.0, 0.1, 0.9, 1.0])
def test_the_best_gain_is_that_of_the_best_ad_or_of_alternating_the_best_two(
    fatigue: float,
) -> None:
    problem = problems.ad_placement(6, fatigue=fatigue, horizon=100, every=10, seed=3)
    for mdp, gain in zip(problem.configurations(), sm.optimal_gains(problem), strict=True):
        fresh = np.sort(np.where(np.eye(6) > 0, -1.0, mdp.rewards).max(axis=0))[::-1]
        expected = max((1.0 - fatigue) * fresh[0], (fresh[0] + fresh[1]) / 2.0)
        assert gain == pytest.approx(expected, abs=1e-9)


def test_fatigue_reduces_the_clicks_on_the_last_ad() -> None:
    mdp = problems.ad_placement(5, fatigue=0.3, horizon=10, every=10).configuration(0)
    for a in range(5):
        others = [mdp.rewards[s, a] for s in range(5) if s != a]
        assert len(set(others)) == 1
        assert mdp.rewards[a, a] == pytest.approx(0.7 * others[0])


def test_click_rates_are_mixtures_of_the_groups() -> None:
    """Rates over time have as many independent directions as there are groups."""
    problem = problems.ad_placement(9, 3, horizon=2000, every=20, seed=2)
    rates = np.array(
        [m.rewards[(np.arange(9) + 1) % 9, range(9)] for m in problem.configurations()]
    )
    sizes = np.linalg.svd(rates, compute_uv=False)
    assert sizes[2] > 1e-3
    assert sizes[3] < 1e-9
    assert 0.0 <= rates.min() <= rates.max() <= 0.5


@pytest.mark.parametrize(
    ("field", "wrong"),
    [("n_ads", {"n_ads": 1}), ("groups", {"groups": 1}), ("fatigue", {"fatigue": 1.5}),
     ("best_rate", {"best_rate": 0.0}), ("step", {"step": -1.0}), ("n_states", {"n_ads": 100})],
)  # fmt: skip
def test_invalid_parameters_are_named(field: str, wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidParameter) as caught:
        problems.ad_placement(**wrong)
    assert caught.value.field == field
