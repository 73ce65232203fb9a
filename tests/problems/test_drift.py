"""Drifting problems: frequency of changes, paths, and reported variations."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import switchmdp as sm
from switchmdp import problems
from switchmdp.errors import InvalidParameter, InvalidProblem
from switchmdp.problems import Sinusoidal, linear


def brute_force(problem: sm.SwitchingMDP) -> tuple[float, float]:
    """Σ max |Δr̄| and Σ max ‖Δp‖₁, over all pairs of all configurations."""
    configurations = list(problem.configurations())
    reward = transition = 0.0
    for a, b in pairwise(configurations):
        reward += np.abs(a.rewards - b.rewards).max()
        transition += np.abs(a.transitions - b.transitions).sum(axis=2).max()
    return reward, transition


DRIFTS: list[Any] = [
    problems.gradual_drift,
    lambda **given: problems.gradual_drift(path=Sinusoidal(2.0), **given),
    problems.random_walk,
    problems.ad_placement,
]


@pytest.mark.parametrize("drift", DRIFTS)
def test_the_variations_are_sums_over_all_changes(drift: Any) -> None:
    problem = drift(horizon=3000, every=100, seed=5)
    result = sm.hardness(problem)
    reported = result.reward_variation, result.transition_variation
    assert reported == pytest.approx(brute_force(problem), rel=1e-12)
    assert reported[0] > 0


@pytest.mark.parametrize("drift", DRIFTS)
@pytest.mark.parametrize(("horizon", "every", "expected"), [
    (100, 30, [31, 61, 91]), (91, 30, [31, 61, 91]), (90, 30, [31, 61]), (10, 10, []),
])  # fmt: skip
def test_rows_change_as_often_as_requested(
    drift: Any, horizon: int, every: int, expected: list[int]
) -> None:
    problem = drift(horizon=horizon, every=every)
    assert problem.change_points.tolist() == expected


@pytest.mark.parametrize("drift", DRIFTS)
def test_rows_change_a_thousand_times_by_default(drift: Any) -> None:
    points = drift(horizon=20_000).change_points
    assert (points[0], len(points), set(np.diff(points).tolist())) == (21, 999, {20})


def test_a_linear_path_interpolates_between_its_ends() -> None:
    """The variations equal the distance between the ends for every value of `every`."""
    far = [problems.gradual_drift(horizon=1200, every=n, seed=1) for n in (600, 100, 1)]
    reported = [sm.planning.variations(p) for p in far]
    assert reported[1] == pytest.approx(reported[0], rel=1e-9)
    assert reported[2] == pytest.approx(reported[0], rel=1e-9)
    mdps = list(far[1].configurations())
    middle = (mdps[0].rewards + mdps[-1].rewards) / 2
    share = (len(mdps) - 1) // 2 / (len(mdps) - 1)
    at_share = mdps[0].rewards + share * (mdps[-1].rewards - mdps[0].rewards)
    assert mdps[(len(mdps) - 1) // 2].rewards == pytest.approx(at_share, abs=1e-12)
    assert np.abs(middle - at_share).max() < 0.1


def test_a_sinusoidal_path_returns_once_per_cycle() -> None:
    problem = problems.gradual_drift(path=Sinusoidal(cycles=3), horizon=1201, every=100, seed=2)
    mdps = list(problem.configurations())
    assert len(mdps) == 13
    for i in (4, 8, 12):
        assert mdps[i].rewards == pytest.approx(mdps[0].rewards, abs=1e-12)
        assert mdps[i].transitions == pytest.approx(mdps[0].transitions, abs=1e-12)
    once = problems.gradual_drift(horizon=1201, every=100, seed=2)
    assert mdps[2].rewards == pytest.approx(once.configuration(12).rewards, abs=1e-12)
    there_and_back = 6 * sm.planning.variations(once)[0]
    assert sm.planning.variations(problem)[0] == pytest.approx(there_and_back, rel=1e-9)


def test_a_drift_ends_at_the_result_of_its_operator() -> None:
    rewards = problems.gradual_drift(how=problems.new_rewards, horizon=100, every=7)
    first = rewards.configuration(0)
    assert all(np.array_equal(m.transitions, first.transitions) for m in rewards.configurations())
    rows = problems.gradual_drift(how=problems.new_transitions, horizon=100, every=7)
    assert sm.planning.variations(rows)[0] == 0.0
    hidden = problems.gradual_drift(how=problems.HiddenImprovement(0.5), horizon=100, every=7)
    missing = 1.0 - sm.optimal_gains(hidden)
    assert missing[-1] / missing[0] == pytest.approx(0.5, abs=1e-3)


def test_any_two_mdps_can_be_joined_by_a_drift() -> None:
    river = problems.riverswim()
    turned = problems.riverswim_flips(changes=1, horizon=10).configuration(1)
    problem = problems.drifting(river, turned, horizon=1000, every=100)
    assert problem.action_labels == ("left", "right")
    assert problem.configuration(9).rewards[0, 0] == pytest.approx(1.0)
    sm.check_problem(problem)
    mask = np.array([[True, True], [False, True]])
    ends = [sm.MDP(np.full((2, 2, 2), 0.5), [[x, x], [0, x]], available=mask) for x in (0.2, 0.8)]
    masked = problems.drifting(ends[0], ends[1], horizon=100, every=50)
    assert np.array_equal(masked.available, mask)
    assert masked.configuration(1).rewards[1, 1] == pytest.approx(0.8)


def test_rewards_and_transitions_can_drift_alone() -> None:
    rewards = problems.random_walk(step=0.0, horizon=500, every=10)
    rows = problems.random_walk(reward_step=0.0, horizon=500, every=10)
    assert sm.planning.variations(rewards)[1] == 0.0
    assert sm.planning.variations(rows)[0] == 0.0
    assert sm.planning.variations(rewards)[0] > 0 < sm.planning.variations(rows)[1]


def test_a_walk_stays_on_the_simplex_and_within_the_unit_interval() -> None:
    problem = problems.random_walk(7, 2, step=0.5, reward_step=0.5, horizon=500, every=1, seed=3)
    assert problem.changes == 499
    sm.check_problem(problem)
    late = np.array([m.rewards for m in problem.configurations(400)])
    assert late.min() >= 0.0
    assert late.max() <= 1.0
    assert late.std() > 0.2


@pytest.mark.parametrize("drift", DRIFTS)
@pytest.mark.parametrize(
    ("field", "wrong"),
    [("every", {"every": 0}), ("every", {"every": 1.5}), ("horizon", {"horizon": 0}),
     ("every", {"every": 1, "horizon": 10**6}), ("seed", {"seed": 0.5})],
)  # fmt: skip
def test_invalid_parameters_are_named(drift: Any, field: str, wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidParameter) as caught:
        drift(**{"horizon": 100, **wrong})
    assert caught.value.field == field


def test_paths_and_steps_are_checked() -> None:
    for path in ("linear", Sinusoidal, None):
        with pytest.raises(InvalidParameter, match="path"):
            problems.gradual_drift(path=path)  # type: ignore[arg-type]
    with pytest.raises(InvalidParameter, match=r"path\(1.0\) must be a number from 0 to 1"):
        problems.gradual_drift(path=lambda x: 2 * x if x == 1.0 else x, horizon=10, every=2)
    with pytest.raises(InvalidParameter, match="cycles"):
        Sinusoidal(cycles=0)
    with pytest.raises(InvalidParameter, match="reward_step"):
        problems.random_walk(reward_step=2.0)
    with pytest.raises(InvalidParameter, match="n_states"):
        problems.random_walk(300, 2)
    with pytest.raises(InvalidProblem, match="cannot drift to"):
        problems.drifting(problems.riverswim(6), problems.riverswim(7))
    with pytest.raises(InvalidParameter, match="last"):
        problems.drifting(problems.riverswim(6), None)  # type: ignore[arg-type]
    assert linear(0.3) == 0.3
