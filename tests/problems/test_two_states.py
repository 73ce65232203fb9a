"""Two states: gains and diameter of the lower bound, and optimism under drift."""

from __future__ import annotations

from math import log, sqrt
from typing import Any

import numpy as np
import pytest

import switchmdp as sm
from switchmdp import problems
from switchmdp.errors import InvalidParameter
from switchmdp.planning import optimistic_row


@pytest.mark.parametrize("diameter", [1.5, 10.0, 200.0])
@pytest.mark.parametrize("share", [0.01, 0.5, 1.0])
def test_the_lower_bounds_gains_and_diameter_are_those_of_the_closed_form(
    diameter: float, share: float
) -> None:
    leave = 1.0 / diameter
    advantage = share * (1.0 - leave)
    problem = problems.lower_bound(
        4, diameter=diameter, advantage=advantage, changes=3, horizon=400, seed=1
    )
    result = sm.hardness(problem)
    assert result.diameters == pytest.approx(diameter, rel=1e-6)
    assert result.gains == pytest.approx((leave + advantage) / (2 * leave + advantage), abs=1e-9)
    good = sm.planning.optimal_policies(problem)[:, 0]
    assert (good[1:] != good[:-1]).all()
    for mdp, best in zip(problem.configurations(), good, strict=True):
        for a in range(4):
            if a != best:
                assert sm.policy_gain(mdp, [a, 0]) == pytest.approx(0.5, abs=1e-9)


@pytest.mark.parametrize(
    ("field", "wrong"),
    [("diameter", {"diameter": 1.0}), ("diameter", {"diameter": float("inf")}),
     ("advantage", {"advantage": 0.0}), ("advantage", {"advantage": 0.95}),
     ("advantage", {"advantage": "a"}), ("n_actions", {"n_actions": 1})],
)  # fmt: skip
def test_invalid_parameters_are_named(field: str, wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidParameter) as caught:
        problems.lower_bound(**wrong)
    assert caught.value.field == field


def test_perils_of_drift_swaps_the_actions_every_quarter_of_a_window() -> None:
    problem = problems.perils_of_drift(window=400, horizon=1000)
    assert problem.change_points.tolist() == [101, 201, 301, 401, 501, 601, 701, 801, 901]
    for i, mdp in enumerate(problem.configurations()):
        for s in range(2):
            assert mdp.successors(s, i % 2) == ([s], [1.0])
            assert mdp.successors(s, 1 - i % 2) == ([1 - s], [1.0])
    result = sm.hardness(problem)
    assert result.diameters.tolist() == [1.0] * 10
    assert result.gains == pytest.approx(0.75, abs=1e-9)
    assert result.transition_variation == 2.0 * problem.changes


@pytest.mark.parametrize("window", [8, 40, 1000])
def test_the_counts_are_those_of_two_alternating_policies(window: int) -> None:
    """Simulated through two windows; the counts of the second one are compared."""
    problem = problems.perils_of_drift(window, horizon=2 * window)
    counts, state = np.zeros((2, 2, 2), np.int64), 0
    for t in range(1, 2 * window + 1):
        if t == window + 1:
            counts[:] = 0
        second = (t - 1) // (window // 2) % 2
        action = 1 - state if second else state
        (after,), _ = problem.at(t).successors(state, action)
        counts[state, action, after] += 1
        state = after
    assert counts.tolist() == problems.perilous_counts(window).tolist()


def optimistic_diameter(window: int) -> float:
    """The least diameter in the set of Cheung et al. with η = 0, where T = W² and δ = 0.1."""
    counts = problems.perilous_counts(window)
    times = []
    for s in range(2):
        crossing = []
        for a in range(2):
            n = counts[s, a].sum()
            radius = 2.0 * sqrt(2.0 * 2 * log(2 * 2 * window**2 / 0.1) / n)
            values = [float(x != s) for x in range(2)]
            crossing.append(optimistic_row(counts[s, a] / n, radius, values)[1 - s])
        times.append(1.0 / max(crossing))
    return float(max(times))


def test_all_plausible_mdps_of_a_window_have_a_large_diameter() -> None:
    """Optimism says D of order √(W/log W), where every true diameter is 1."""
    windows = [10**k for k in (4, 5, 6, 7, 8)]
    diameters = np.array([optimistic_diameter(w) for w in windows])
    scale = np.array([sqrt(w / log(w)) for w in windows])
    assert diameters[[0, 2, 4]].round(1).tolist() == [5.3, 44.7, 392.7]
    assert (np.diff(diameters) > 0).all()
    assert (diameters / scale).min() > 0.1
    assert (diameters / scale).max() / (diameters / scale).min() < 1.3


@pytest.mark.parametrize("window", [0, 3, 10, 4.0, None])
def test_an_invalid_window_is_rejected(window: Any) -> None:
    with pytest.raises(InvalidParameter, match="window"):
        problems.perils_of_drift(window)
