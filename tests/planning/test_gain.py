"""`optimal_gain` and related functions on MDPs whose gain is known in closed form.

A deterministic MDP's optimal gain is its largest cycle mean, so rings of any size have exact
answers; they are also what value iteration gives up on, so that every way to a solution is taken.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.sparse import csc_array, csr_array

from switchmdp.errors import InvalidParameter, NotCommunicating, PrecisionNotReached
from switchmdp.mdp import MDP, SwitchingMDP
from switchmdp.planning import Plan, gain, large, optimal_gain, policy_gain
from switchmdp.planning.iteration import LIMIT
from switchmdp.problems import random_sparse_mdp, riverswim

Spy = Callable[[str], list[Any]]


def deterministic(targets: Any, rewards: Any) -> MDP:
    """Action a of state s leads to targets[s][a]."""
    targets = np.asarray(targets)
    n_states, n_actions = targets.shape
    entries = (np.ones(targets.size), targets.ravel(), np.arange(targets.size + 1))
    return MDP(csr_array(entries, (n_states * n_actions, n_states)), rewards)


def cycle(rewards: NDArray[np.float64]) -> MDP:
    """A one-way cycle; all actions go on."""
    n_states, n_actions = rewards.shape
    onward = (np.arange(n_states) + 1) % n_states
    return deterministic(np.repeat(onward[:, None], n_actions, axis=1), rewards)


def mean_of_best(rewards: NDArray[np.float64]) -> Fraction:
    """The exact gain of that cycle."""
    best = rewards.max(axis=1).tolist()
    return sum(map(Fraction, best), Fraction(0)) / len(best)


def two_rings(rewards: NDArray[np.float64]) -> MDP:
    """Two one-way cycles of half the states; action 1 in the first state of each crosses for 0."""
    n_states = len(rewards)
    half = n_states // 2
    here = np.arange(n_states)
    onward = np.where(here % half == half - 1, here - half + 1, here + 1)
    targets = np.stack([onward, onward], axis=1)
    targets[0, 1], targets[half, 1] = half, 0
    paid = rewards.copy()
    paid[0, 1] = paid[half, 1] = 0.0
    return deterministic(targets, paid)


def assert_certified(plan: Plan, expected: Fraction | float) -> None:
    assert plan.lower <= expected <= plan.upper
    assert plan.upper - plan.lower <= 1e-9
    assert plan.lower <= plan.gain <= plan.upper


@pytest.fixture
def spy(monkeypatch: pytest.MonkeyPatch) -> Spy:
    """Records the calls of one of the methods."""

    def watch(name: str) -> list[Any]:
        calls: list[Any] = []
        original = getattr(gain, name)

        def watched(*arguments: Any) -> Any:
            calls.append(original(*arguments))
            return calls[-1]

        monkeypatch.setattr(gain, name, watched)
        return calls

    return watch


def test_the_two_cycle_has_gain_one_half() -> None:
    plan = optimal_gain(MDP([[[0, 1]], [[1, 0]]], [[1], [0]]))
    assert_certified(plan, 0.5)
    assert plan.gain == 0.5
    assert plan.bias.tolist() == [0.5, 0.0]
    assert plan.span == 0.5
    assert plan.policy.tolist() == [0, 0]


def test_a_single_state_earns_its_best_reward() -> None:
    plan = optimal_gain(MDP([[[1], [1], [1]]], [[0.25, 0.75, 0.5]]))
    assert_certified(plan, 0.75)
    assert plan.policy.tolist() == [1]
    assert plan.span == 0.0


def test_policies_are_named_by_action_where_action_sets_differ() -> None:
    available = [[False, True, False], [False, True, True]]
    transitions = np.zeros((2, 3, 2))
    transitions[0, 1, 1] = transitions[1, 1, 0] = transitions[1, 2, 0] = 1.0
    plan = optimal_gain(MDP(transitions, [[9, 0.5, 9], [9, 0, 1]], available=available))
    assert_certified(plan, 0.75)
    assert plan.policy.tolist() == [1, 2]


@pytest.mark.parametrize("n_states", [1, 2, 7, 64])
def test_small_cycles_are_solved_by_policy_iteration(n_states: int, spy: Spy) -> None:
    by_policies, by_values = spy("iterate_policies"), spy("iterate_values")
    rewards = np.random.default_rng(n_states).random((n_states, 3))
    assert_certified(optimal_gain(cycle(rewards)), mean_of_best(rewards))
    assert len(by_policies) == 1
    assert not by_values


@pytest.mark.parametrize(
    ("n_states", "first", "last_resort"),
    [
        (300, "iterate_values", "iterate_policies"),
        (2500, "iterate_large_values", "iterate_by_components"),
    ],
)
@pytest.mark.parametrize("shape", [cycle, two_rings])
def test_large_rings_are_solved_by_policy_iteration(
    shape: Callable[[NDArray[np.float64]], MDP], n_states: int, first: str, last_resort: str,
    spy: Spy,
) -> None:  # fmt: skip
    calls, last_resorts = spy(first), spy(last_resort)
    rewards = np.random.default_rng(n_states).random((n_states, 2))
    expected = mean_of_best(rewards)
    if shape is two_rings:
        rewards[:, 1] = rewards[:, 0] / 2
        half = n_states // 2
        expected = max(mean_of_best(rewards[:half]), mean_of_best(rewards[half:]))
    plan = optimal_gain(shape(rewards))
    assert_certified(plan, expected)
    assert len(calls) == len(last_resorts) == 1
    assert abs(policy_gain(shape(rewards), plan.policy) - float(expected)).max() <= 1e-9


@pytest.mark.parametrize(
    ("n_states", "way"), [(65, "iterate_values"), (2500, "iterate_large_values")]
)
def test_large_mdps_that_mix_are_solved_by_value_iteration(
    n_states: int, way: str, spy: Spy
) -> None:
    calls = spy(way)
    resorts = [spy("iterate_policies"), spy("iterate_by_components"), spy("iterate_large_policies")]
    mdp = random_sparse_mdp(n_states, 3, 5, seed=n_states)
    plan = optimal_gain(mdp)
    assert len(calls) == 1
    assert resorts == [[], [], []]
    own = policy_gain(mdp, plan.policy)
    assert plan.lower - 1e-12 <= own.min() <= own.max() <= plan.upper + 1e-12
    model = mdp.model
    rows = csr_array(
        (model.probabilities, model.successors, np.append(model.start, model.stop[-1]))
    )
    onward = (model.mean + rows @ plan.bias).reshape(n_states, 3).max(axis=1) - plan.bias
    assert plan.lower - 1e-12 <= onward.min() <= onward.max() <= plan.upper + 1e-12
    assert plan.upper - plan.lower <= 1e-9


def test_value_iteration_solves_periodic_mdps(spy: Spy) -> None:
    rng = np.random.default_rng(3)
    value_iterations, policy_iterations = spy("iterate_values"), spy("iterate_policies")
    rows = np.zeros((80, 2, 80))
    rows[:40, :, 40:] = rng.dirichlet(np.ones(40), (40, 2))
    rows[40:, :, :40] = rng.dirichlet(np.ones(40), (40, 2))
    rewards = np.zeros((80, 2))
    rewards[:40] = 1.0
    assert_certified(optimal_gain(MDP(rows, rewards)), 0.5)
    assert len(value_iterations) == 1
    assert not policy_iterations


@pytest.mark.parametrize("n_states", [65, 300, 500, 1000, 2100])
def test_riverswim_of_any_size_has_gain_three_sevenths(n_states: int) -> None:
    plan = optimal_gain(riverswim(n_states))  # the left end is visited once in 7ⁿ steps
    assert abs(plan.gain - 3 / 7) <= 1e-9
    assert plan.lower - 1e-12 <= 3 / 7 <= plan.upper + 1e-12
    assert plan.upper - plan.lower <= 1e-9
    assert plan.policy.tolist() == [1] * n_states


def ladder(n_states: int, climb: float) -> MDP:
    """The first action climbs with a tiny probability, the second surely; the top pays 1."""
    last = n_states - 1
    moves = [
        [{max(s - 1, 0): 1.0 - climb, min(s + 1, last): climb}, {min(s + 1, last): 1.0}]
        for s in range(n_states)
    ]
    return MDP(moves, [[0.0, 0.0]] * last + [[1.0, 1.0]])


@pytest.mark.parametrize("climb", [1e-6, 1e-9, 1e-12, 1e-300])
@pytest.mark.parametrize("n_states", [40, 64, 90])
def test_a_first_policy_that_never_arrives_does_not_spoil_the_plan(
    n_states: int, climb: float
) -> None:
    plan = optimal_gain(ladder(n_states, climb))
    assert_certified(plan, 1.0)
    assert plan.span == pytest.approx(n_states - 1)
    assert plan.policy[:-1].tolist() == [1] * (n_states - 1)


def test_each_configuration_of_a_problem_has_its_gain_where_doubles_overflow() -> None:
    easy, hard = ladder(40, 0.5), ladder(40, 1e-12)
    problem = SwitchingMDP([easy, hard, hard, easy], [5, 10, 15])
    assert gain.optimal_gains(problem).tolist() == pytest.approx([1.0] * 4)
    assert (gain.optimal_policies(problem)[:, :-1] == 1).all()
    alone = optimal_gain(easy)
    brackets = gain.optimal_gain_brackets(problem)
    assert brackets[3].tolist() == brackets[0].tolist() == [alone.lower, alone.upper]


def test_factors_that_rounding_makes_singular_raise_the_typed_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert large._factorised(csc_array([[1.0, 1.0], [1.0, 1.0]])) is None
    monkeypatch.setattr(gain, "DENSE", 0)
    monkeypatch.setattr(gain, "iterate_by_components", lambda *_: (0.0, 1.0, LIMIT))
    monkeypatch.setattr(large, "_factorised", lambda matrix: None)
    rewards = np.random.default_rng(0).random((100, 1))
    with pytest.raises(PrecisionNotReached) as caught:
        optimal_gain(cycle(rewards))
    assert caught.value.lower <= mean_of_best(rewards) <= caught.value.upper


@pytest.mark.parametrize("n_states", [40, 300, 2500])
def test_an_unreachable_tolerance_raises_an_error_with_every_method(n_states: int) -> None:
    rewards = np.random.default_rng(n_states).random((n_states, 1))
    with pytest.raises(PrecisionNotReached, match="double precision") as caught:
        optimal_gain(cycle(rewards), tolerance=1e-17)
    assert caught.value.lower <= mean_of_best(rewards) <= caught.value.upper
    assert caught.value.upper - caught.value.lower <= 1e-9


@pytest.mark.parametrize(
    ("targets", "words"),
    [
        ([[0], [0]], "from state 0 to state 1"),
        ([[1], [1]], "from state 1 to state 0"),
        ([[1], [0], [0], [0]], "from state 0 to states 2, 3"),
    ],
)
def test_states_that_no_policy_connects_are_named(targets: Any, words: str) -> None:
    mdp = deterministic(targets, np.zeros((len(targets), 1)))
    with pytest.raises(NotCommunicating, match=words):
        optimal_gain(mdp)


@pytest.mark.parametrize("tolerance", [0.0, -1e-9, np.nan, np.inf, True, "1e-9", None])
def test_a_tolerance_that_is_no_positive_number_is_rejected(tolerance: Any) -> None:
    with pytest.raises(InvalidParameter, match="tolerance must be a positive number"):
        optimal_gain(cycle(np.ones((2, 1))), tolerance=tolerance)


def test_an_argument_that_is_not_an_mdp_is_rejected() -> None:
    nonsense: Any = [[0, 1]]
    with pytest.raises(InvalidParameter, match="mdp must be an MDP"):
        optimal_gain(nonsense)


def test_a_large_tolerance_is_respected() -> None:
    rewards = np.random.default_rng(0).random((100, 2))
    plan = optimal_gain(cycle(rewards), tolerance=0.1)
    assert plan.lower <= mean_of_best(rewards) <= plan.upper
    assert plan.upper - plan.lower <= 0.1
