"""Any change operator works with any change points, and configurations may recur."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import switchmdp as sm
from switchmdp import problems
from switchmdp.errors import InvalidMDP, InvalidParameter, InvalidProblem, NotCommunicating
from switchmdp.problems.changes import patched

WAYS = [how() if isinstance(how, type) else how for how in problems.CHOICES["how"].values()]


def same(a: sm.MDP, b: sm.MDP) -> bool:
    """To the bit."""
    return bool(
        np.array_equal(a.transitions, b.transitions) and np.array_equal(a.rewards, b.rewards)
    )


@pytest.mark.parametrize("how", WAYS)
@pytest.mark.parametrize("points", [problems.even_change_points, problems.paper_change_points])
def test_every_operator_works_with_all_change_points_and_cycles(how: Any, points: Any) -> None:
    problem = problems.random_changes(
        4, 2, how=how, changes=5, cycle=3, horizon=600, change_points=points, seed=2
    )
    assert problem.change_points.tolist() == points(5, 600)
    configurations = list(problem.configurations())
    for i in range(3):
        assert same(configurations[i], configurations[i + 3])
        assert not same(configurations[i], configurations[i + 1])


def test_without_a_cycle_each_change_starts_from_the_last_configuration() -> None:
    problem = problems.random_changes(how=problems.one_pair, changes=6, horizon=100, seed=0)
    configurations = list(problem.configurations())
    for before, after in pairwise(configurations):
        assert (before.rewards != after.rewards).sum() == 1
    assert (configurations[0].rewards != configurations[-1].rewards).sum() > 1


def test_recurring_configurations_are_stored_once() -> None:
    often, once = (
        problems.random_changes(changes=n, cycle=2, horizon=1000, seed=1) for n in (100, 1)
    )
    assert len(often.model.mean) == len(once.model.mean) == 30
    assert often.changes == 100


def test_the_first_configurations_are_the_same_however_many_follow() -> None:
    few, many = (problems.random_changes(changes=n, horizon=100, seed=4) for n in (2, 7))
    for a, b in zip(few.configurations(), many.configurations(0, 2), strict=True):
        assert same(a, b)


def test_change_points_may_be_listed() -> None:
    problem = problems.random_changes(changes=2, horizon=100, change_points=[7, 90])
    assert problem.change_points.tolist() == [7, 90]


def test_a_custom_operator_only_returns_rows() -> None:
    def halve(mdp: sm.MDP, rng: np.random.Generator) -> list[Any]:
        return [(0, 0, None, mdp.rewards[0, 0] / 2)]

    base = problems.riverswim()
    problem = problems.changing(base, halve, changes=3, horizon=100)
    assert [m.rewards[0, 0] for m in problem.configurations()] == [0.005, 0.0025, 0.00125, 0.000625]
    assert problem.action_labels == ("left", "right")


def test_rows_that_do_not_change_are_equal_to_the_bit() -> None:
    """Rows of thirds need not sum to 1 exactly; they must not be normalised a second time."""
    rng = np.random.default_rng(0)
    base = sm.MDP(rng.dirichlet(np.ones(7), (7, 3)), rng.random((7, 3)))
    after = patched(base, [(2, 1, None, 0.25)])
    assert np.array_equal(after.transitions, base.transitions)
    assert (after.rewards != base.rewards).sum() == 1
    assert after.model.row.tolist() == list(range(21))
    assert len(after.model.mean) == 21  # what was replaced is gone


def test_states_may_lack_actions() -> None:
    mask = np.array([[True, True], [True, False], [False, True]])
    rng = np.random.default_rng(1)
    base = sm.MDP(rng.dirichlet(np.ones(3), (3, 2)), rng.random((3, 2)), available=mask)
    for how in (problems.everything, problems.SmallSteps(), problems.HiddenImprovement()):
        problem = problems.changing(base, how, changes=1, horizon=10)
        assert np.array_equal(problem.available, mask)
        sm.check_problem(problem)
    for how in (problems.mirrored, problems.permuted_actions):
        with pytest.raises(InvalidProblem, match="every state has all of them"):
            problems.changing(base, how, changes=1, horizon=10)


def test_a_change_that_cuts_off_a_state_is_drawn_again() -> None:
    """One successor for each of two actions: most draws leave some state out."""
    base = problems.garnet_mdp(5, 2, 1, seed=3)
    problem = problems.changing(base, problems.new_transitions, changes=20, horizon=100, seed=0)
    assert all(mdp.unconnected is None for mdp in problem.configurations())


def test_an_operator_that_always_disconnects_raises_an_error() -> None:
    def cut(mdp: sm.MDP, rng: np.random.Generator) -> list[Any]:
        return [(0, 0, [1.0, 0.0], None)]

    base = sm.MDP([[[0, 1]], [[1, 0]]], [[1], [0]])
    with pytest.raises(NotCommunicating, match="by cut disconnect some state"):
        problems.changing(base, cut, changes=1, horizon=10)


@pytest.mark.parametrize(
    ("field", "wrong"),
    [
        ("how", {"how": "rewards"}),
        ("how", {"how": problems.SmallSteps}),
        ("changes", {"changes": -1}),
        ("changes", {"changes": 1000, "horizon": 1000}),
        ("changes", {"changes": 99_999, "horizon": 10**6}),
        ("cycle", {"cycle": 1}),
        ("cycle", {"cycle": 2.0}),
        ("seed", {"seed": -1}),
        ("n_states", {"n_states": 0}),
        ("n_states", {"n_states": 10_000}),
        ("horizon", {"horizon": 0}),
    ],
)
def test_invalid_parameters_are_named(field: str, wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidParameter) as caught:
        problems.random_changes(**wrong)
    assert caught.value.field == field


def test_the_base_must_be_a_connected_mdp_and_rows_must_be_valid() -> None:
    with pytest.raises(InvalidParameter, match="base must be an MDP"):
        problems.changing(None, problems.everything)  # type: ignore[arg-type]
    apart = sm.MDP([[[1, 0]], [[0, 1]]], [[1], [0]])
    with pytest.raises(NotCommunicating, match="first configuration"):
        problems.changing(apart, problems.new_rewards)
    with pytest.raises(InvalidMDP, match="mean reward 2"):
        problems.changing(problems.riverswim(), lambda mdp, rng: [(0, 0, None, 2.0)])
    with pytest.raises(InvalidParameter, match="a list of 2 steps"):
        problems.random_changes(changes=2, horizon=100, change_points=[5])
