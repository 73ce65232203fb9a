"""Problems have the properties that their names promise."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import switchmdp as sm
from switchmdp import problems
from switchmdp.errors import InvalidExperiment, InvalidParameter, InvalidProblem
from switchmdp.experiments import check, loads

CONFIGURATION = """
title = "One of each"
horizon = 200
n_problems = 1

[problems.it]
problem = "{problem}"
parameters = {{ {parameters} }}

[agents.chance]
agent = "random"
"""


def test_rows_are_uniform_on_the_simplex() -> None:
    """Dirichlet(1) in three states: a coordinate has mean 1/3, variance 1/18."""
    rows = problems.dirichlet_rows(np.random.default_rng(0), 200_000, 3)
    assert np.allclose(rows.sum(axis=1), 1.0)
    assert rows[:, 0].mean() == pytest.approx(1 / 3, abs=0.002)
    assert rows[:, 0].var() == pytest.approx(1 / 18, abs=0.001)


def test_uniform_normalised_rows_are_nearer_to_the_centre() -> None:
    rows = problems.uniform_rows(np.random.default_rng(0), 200_000, 3)
    assert np.allclose(rows.sum(axis=1), 1.0)
    assert rows[:, 0].var() < 0.7 / 18


@pytest.mark.parametrize(("changes", "horizon"), [(1, 10), (2, 100_000), (3, 100_000), (4, 99_999)])
def test_the_papers_change_points_are_multiples_of_ceil_t_over_l(
    changes: int, horizon: int
) -> None:
    points = problems.paper_change_points(changes, horizon)
    step = -(-horizon // changes)
    assert np.diff([0, *points]).tolist() == [step] * changes
    assert points[-1] >= horizon


@pytest.mark.parametrize(("changes", "horizon"), [(1, 10), (2, 100_000), (7, 1000)])
def test_even_change_points_divide_the_run_into_equal_segments(changes: int, horizon: int) -> None:
    points = problems.even_change_points(changes, horizon)
    lengths = np.diff([1, *points, horizon + 1])
    assert len(points) == changes
    assert lengths.max() - lengths.min() <= 1


def test_random_switching_is_the_papers_setting_by_default() -> None:
    problem = problems.random_switching(seed=3)
    assert (problem.n_states, problem.n_actions) == (5, 3)
    assert problem.change_points.tolist() == [50_000, 100_000]
    gains = sm.optimal_gains(problem)
    assert len(set(gains.tolist())) == 3


def test_different_seeds_give_different_problems() -> None:
    a, b, c = (problems.random_switching(horizon=100, seed=s) for s in (1, 1, 2))
    assert a.model.mean.tolist() == b.model.mean.tolist()
    assert a.model.probabilities.tolist() == b.model.probabilities.tolist()
    assert not np.array_equal(a.model.mean, c.model.mean)


def test_more_changes_keep_the_first_configurations() -> None:
    few, many = (problems.random_switching(changes=n, horizon=100, seed=1) for n in (1, 5))
    assert np.array_equal(few.configuration(1).rewards, many.configuration(1).rewards)


@pytest.mark.parametrize("n_states", [2, 3, 10, 300])
def test_a_sparse_mdp_is_connected_and_has_the_requested_number_of_successors(
    n_states: int,
) -> None:
    width = min(4, n_states)
    mdp = problems.random_sparse_mdp(n_states, 3, width, seed=5)
    assert sm.is_communicating(mdp)
    assert (mdp.model.stop - mdp.model.start == width).all()


def test_riverswim_has_the_published_numbers() -> None:
    mdp = problems.riverswim(6)
    assert mdp.successors(3, 0) == ([2], [1.0])
    assert mdp.successors(0, 1) == ([0, 1], [0.4, 0.6])
    assert mdp.successors(2, 1) == ([1, 2, 3], [0.05, 0.6, 0.35])
    assert mdp.successors(5, 1) == ([4, 5], [0.4, 0.6])
    assert mdp.rewards[0, 0] == 0.005
    assert mdp.rewards[5, 1] == 1.0
    assert mdp.rewards.sum() == 1.005
    assert sm.optimal_gain(mdp).policy.tolist() == [1] * 6


def test_riverswims_gain_is_that_of_its_birth_death_chain() -> None:
    """Swimming right always: stationary weights by detailed balance."""
    weights = np.cumprod([1.0, 0.6 / 0.05, 0.35 / 0.05, 0.35 / 0.05, 0.35 / 0.05, 0.35 / 0.4])
    expected = weights[5] / weights.sum()
    assert sm.optimal_gain(problems.riverswim(6)).gain == pytest.approx(expected, abs=1e-9)


def test_the_actions_of_the_ring_with_shortcuts_have_their_successors() -> None:
    mdp = problems.ring_with_shortcuts(50, slip=0.2)
    assert mdp.successors(49, 0) == ([0, 49], [0.8, 0.2])
    assert mdp.successors(0, 1) == ([0, 49], [0.2, 0.8])
    assert sm.is_communicating(mdp)
    assert sm.diameter(mdp) < 15


def test_the_current_of_riverswim_reverses_and_returns() -> None:
    problem = problems.riverswim_flips(changes=3, horizon=400)
    river, turned, again, last = problem.configurations()
    for s in range(6):
        here, there = river.successors(s, 0), turned.successors(5 - s, 1)
        assert there == ([5 - x for x in here[0]], here[1])
    assert turned.successors(5, 0) == ([4, 5], [0.6, 0.4])
    assert turned.successors(0, 0) == ([0, 1], [0.6, 0.4])
    for s in range(1, 5):
        assert turned.successors(s, 0)[0] == [s - 1, s, s + 1]
        assert turned.successors(s, 0)[1] == pytest.approx([0.35, 0.6, 0.05], abs=1e-15)
    assert turned.rewards[5, 1] == 0.005
    assert turned.rewards[0, 0] == 1.0
    assert sm.planning.optimal_policies(problem).tolist() == [[1] * 6, [0] * 6] * 2
    assert np.array_equal(river.transitions, again.transitions)
    assert np.array_equal(turned.transitions, last.transitions)


def test_permuted_actions_keep_the_best_state_of_riverswim() -> None:
    problem = problems.riverswim_flips(how=problems.permuted_actions, changes=2, horizon=400)
    river, turned, again = problem.configurations()
    for s in range(6):
        assert turned.successors(s, 0) == river.successors(s, 1)
        assert turned.successors(s, 1) == river.successors(s, 0)
    assert turned.rewards[5, 0] == 1.0
    assert np.array_equal(river.transitions, again.transitions)


SMALL: dict[str, dict[str, Any]] = {
    "random-sparse": {"n_states": 30, "n_actions": 2, "successors": 3},
    "ring-with-shortcuts": {"n_states": 30},
    "perils-of-drift": {"window": 40},
}


def problem_of(name: str, **further: Any) -> sm.SwitchingMDP:
    factory, arguments = problems.PROBLEMS[name], {**SMALL.get(name, {}), **further}
    if "horizon" in inspect.signature(factory).parameters:
        arguments["horizon"] = 100
    result = factory(**arguments)
    return result if isinstance(result, sm.SwitchingMDP) else sm.SwitchingMDP([result])


@pytest.mark.parametrize("name", problems.PROBLEMS)
def test_every_registered_problem_passes_the_contract(name: str) -> None:
    sm.check_problem(problem_of(name))


@pytest.mark.parametrize("name", problems.PROBLEMS)
def test_every_problem_has_a_hardness(name: str) -> None:
    problem = problem_of(name)
    result = sm.hardness(problem)
    assert len(result.gains) == problem.changes + 1
    assert np.isfinite(result.diameter)
    assert result.reward_variation + result.transition_variation > 0 or problem.changes == 0


@pytest.mark.parametrize("name", problems.PROBLEMS)
def test_the_same_seed_gives_the_same_bytes_and_another_seed_different_ones(
    name: str, tmp_path: Path
) -> None:
    drawn = "seed" in inspect.signature(problems.PROBLEMS[name]).parameters
    content = []
    for i, seed in enumerate([3, 3, 4]):
        problem_of(name, **({"seed": seed} if drawn else {})).save(tmp_path / f"{i}.npz")
        content.append((tmp_path / f"{i}.npz").read_bytes())
    assert content[0] == content[1]
    if drawn and name != "riverswim-flips":  # there is one way to mirror a river
        assert content[0] != content[2]


@pytest.mark.parametrize("name", problems.PROBLEMS)
@pytest.mark.parametrize("law", ["deterministic", "{ choice = 'beta', share = 0.2 }"])
def test_every_problem_can_be_named_in_a_configuration(name: str, law: str) -> None:
    law = law if law.startswith("{") else repr(law)
    parameters = [f"{k} = {v}" for k, v in SMALL.get(name, {}).items()] + [f"law = {law}"]
    plan = check(loads(CONFIGURATION.format(problem=name, parameters=", ".join(parameters))))
    assert [variant.source for variant in plan.settings] == [name]


@pytest.mark.parametrize("how", problems.CHOICES["how"])
@pytest.mark.parametrize("name", ["random-changes", "garnet", "riverswim-flips", "gradual-drift"])
def test_every_change_operator_can_be_named_in_a_configuration(name: str, how: str) -> None:
    plan = check(loads(CONFIGURATION.format(problem=name, parameters=f"how = '{how}'")))
    assert [variant.source for variant in plan.settings] == [name]


def test_operators_and_paths_take_parameters_in_a_configuration() -> None:
    hidden = "how = { choice = 'hidden-improvement', margin = 0.25 }, changes = 1, cycle = 2"
    check(loads(CONFIGURATION.format(problem="random-changes", parameters=hidden)))
    waves = "path = { choice = 'sinusoidal', cycles = 3 }, every = 10"
    check(loads(CONFIGURATION.format(problem="gradual-drift", parameters=waves)))
    wrong = "how = { choice = 'hidden-improvement', margin = 2 }"
    with pytest.raises(InvalidExperiment, match=r"above 0 and at most 0\.9"):
        check(loads(CONFIGURATION.format(problem="random-changes", parameters=wrong)))
    with pytest.raises(InvalidExperiment, match="one of 'linear', 'sinusoidal'"):
        check(loads(CONFIGURATION.format(problem="gradual-drift", parameters="path = 'bent'")))


def test_invalid_parameters_are_named() -> None:
    with pytest.raises(InvalidParameter, match="n_states"):
        problems.random_mdp(0, 3)
    with pytest.raises(InvalidParameter, match="changes"):
        problems.random_switching(changes=100, horizon=100)
    with pytest.raises(InvalidParameter, match="successors"):
        problems.random_sparse_mdp(5, 2, 6)
    with pytest.raises(InvalidParameter, match="slip"):
        problems.ring_with_shortcuts(5, slip=1.5)
    with pytest.raises(InvalidProblem, match="change points must be >= 2"):
        problems.random_switching(changes=1, horizon=3, change_points=lambda n, t: [1])


def test_change_points_must_be_as_many_as_changes() -> None:
    with pytest.raises(InvalidParameter, match=r"2 steps, because changes is 2, got .50."):
        sm.problems.random_switching(change_points=[50], horizon=100)
    with pytest.raises(
        InvalidParameter, match=r"a function such as problems\.bursts, got 'bursts'"
    ):
        sm.problems.random_switching(change_points="bursts", horizon=100)  # type: ignore[arg-type]
    one = sm.problems.random_switching(changes=1, change_points=[50], horizon=100)
    assert one.change_points.tolist() == [50]


def test_a_registered_name_leads_to_its_function() -> None:
    with pytest.raises(AttributeError, match="did you mean 'random_sparse_mdp'"):
        _ = sm.problems.random_sparse  # type: ignore[attr-defined]
    with pytest.raises(AttributeError, match=r"no attribute 'rivrswim'$"):
        _ = sm.problems.rivrswim  # type: ignore[attr-defined]
