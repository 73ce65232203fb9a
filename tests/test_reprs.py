"""Every public object prints one informative line."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import switchmdp as sm
from switchmdp.experiments.results import Results, as_setting
from switchmdp.mdp import Pairs
from switchmdp.simulation import Episodes

PROBLEM = sm.problems.random_switching(50, 3, changes=2, horizon=1000, seed=0, law=sm.Beta(1e-9))
MDP = sm.MDP(PROBLEM.at(1).transitions, PROBLEM.at(1).rewards, available=np.ones((50, 3), bool))


def record() -> sm.Record:
    options: dict[str, Any] = {"every": 1, "episodes": True, "trajectory": True}
    return sm.simulate(sm.agents.Random(50, 3), PROBLEM, 1000, seed=1, **options)


def early() -> sm.Record:
    """A run that ends before the first change."""
    return sm.simulate(sm.agents.Random(50, 3), PROBLEM, 3, trajectory=True)


def test_a_record_says_what_was_not_recorded_and_that_nothing_has_changed() -> None:
    assert repr(early()).endswith(
        "3 points, trajectory, no change point reached, no episodes recorded)"
    )
    whole = sm.simulate(sm.agents.Random(50, 3), PROBLEM, 1000)
    assert repr(whole).endswith("1000 points, no episodes or trajectory recorded)")
    assert "recorded)" not in repr(record())
    assert "none; the first is at step 500" in early()._repr_html_()
    assert "not recorded" in early()._repr_html_()
    assert "not recorded" not in record()._repr_html_()


def optimistic_plan() -> Any:
    radii: dict[str, Any] = {"reward_radius": 0.1, "transition_radius": 0.1}
    return sm.extended_value_iteration(MDP, precision=0.01, **radii)


def episodes(n: int) -> Episodes:
    numbers = np.arange(n)
    return Episodes(numbers, numbers, numbers / 1, numbers, np.zeros((n, 50), np.int32), numbers)


def played() -> Any:
    env = sm.gym.make_env("riverswim")
    return sm.gym.play(sm.agents.Random(6, 2), env, 10, seed=0)


def results() -> Any:
    setting = as_setting([10], {"Random": [[1.0], [2.0]]})
    return Results("one", 0.05, {"a": setting})


def agent_report() -> Any:
    return sm.check_agent(lambda: sm.agents.Random(3, 2), steps=50, memory_steps=100)


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (record, "Record(Random, horizon=1000, seed=1, regret="),
        (lambda: record().trajectory, "Trajectory(1000 steps, total reward "),
        (lambda: episodes(3000), "Episodes(3000 episodes, lengths 0 to 2999, 3000 restarts"),
        (lambda: episodes(0), "Episodes(none)"),
        (lambda: MDP, "MDP(50 states, 3 actions, 7500 transitions, Bernoulli())"),
        (lambda: PROBLEM, "SwitchingMDP(50 states, 3 actions, 2 changes, 450 rows, Beta("),
        (lambda: PROBLEM.pairs, "Pairs(50 states, 3 actions, 150 of 150 available)"),
        (lambda: Pairs.of(1, 2, [[True, False]]), "Pairs(1 state, 2 actions, 1 of 2 available)"),
        (lambda: PROBLEM.model, "Model(50 states, 150 pairs, 450 rows, 22500 transitions)"),
        (lambda: PROBLEM.patches, "Patches(2 changes, 300 replaced rows)"),
        (lambda: sm.optimal_gain(MDP), "Plan(gain=0."),
        (optimistic_plan, "OptimisticPlan(gain="),
        (lambda: sm.hardness(PROBLEM), "Hardness(3 configurations, diameter="),
        (lambda: sm.diameter(MDP), ""),
        (lambda: sm.Beta(variance=0.01), "Beta(variance=0.01)"),
        (lambda: sm.problems.SmallSteps(0.1), "SmallSteps(size=0.1)"),
        (lambda: sm.problems.HiddenImprovement(0.5), "HiddenImprovement(margin=0.5)"),
        (lambda: sm.problems.Sinusoidal(), "Sinusoidal("),
        (lambda: sm.gym.At(list(range(2, 5000))), "At(4998 steps)"),
        (lambda: sm.gym.Every(10), "Every(10)"),
        (lambda: sm.gym.AtRate(0.1), "AtRate(0.1)"),
        (lambda: sm.gym.PermuteActions(), "PermuteActions()"),
        (lambda: sm.gym.RescaleRewards(0.5, 1), "RescaleRewards(0.5, 1.0)"),
        (lambda: sm.gym.PerturbTransitions(0.1), "PerturbTransitions(0.1)"),
        (lambda: sm.gym.ReseedMap(), "ReseedMap(0.8)"),
        (results, "Results('one', 1 setting, 1 agent, 0 failures)"),
        (lambda: results().settings["a"], "Setting('curves', 2 problems, 1 agent, 1 recorded "),
        (played, "Played(10 steps, mean reward "),
        (agent_report, "AgentReport(Random: "),
    ],
)
def test_a_public_object_has_an_informative_repr_of_one_line(make: Any, expected: str) -> None:
    shown = repr(make())
    assert shown.startswith(expected)
    assert "\n" not in shown
    assert " at 0x" not in shown
    assert len(shown) < 200


def test_an_error_shows_an_array_in_one_line() -> None:
    with pytest.raises(sm.errors.InvalidParameter) as caught:
        sm.optimal_gain(np.zeros((3, 2, 3)))  # type: ignore[arg-type]
    assert "\n" not in str(caught.value)
    with pytest.raises(sm.errors.InvalidProblem, match=r"must be an MDP, got array\(\[") as problem:
        sm.SwitchingMDP([np.zeros((3, 2, 3))], [])  # type: ignore[list-item]
    assert "\n" not in str(problem.value)


def test_an_error_does_not_print_large_values_in_full() -> None:
    with pytest.raises(sm.errors.InvalidParameter) as caught:
        sm.check_agent(list(range(10_000)))
    assert len(str(caught.value)) < 400
