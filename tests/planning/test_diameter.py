"""The diameter against closed forms, exact rational arithmetic and linear programming.

The least expected hitting times of a goal are the largest h with  h(s) <= 1 + Σ p h  for all other
states and actions, h(goal) = 0: a linear program.
"""

from __future__ import annotations

import copy
import pickle
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from scipy.optimize import linprog

from switchmdp.compiled import interpreted
from switchmdp.errors import InvalidParameter, PrecisionNotReached
from switchmdp.mdp import MDP
from switchmdp.planning import diameter, hitting_times, is_communicating
from switchmdp.problems import random_mdp, random_sparse_mdp, ring_with_shortcuts, riverswim

if TYPE_CHECKING:
    from tests.planning.conftest import Exact


def two_states(p: float, q: float) -> MDP:
    return MDP([[[1.0 - p, p]], [[q, 1.0 - q]]], [[0.0], [1.0]])


def ring(n_states: int) -> MDP:
    return MDP(np.roll(np.eye(n_states), 1, axis=1)[:, None, :], np.zeros((n_states, 1)))


def by_values_alone(mdp: MDP, tolerance: float = 1e-9) -> float:
    choice, times, largest = mdp.pairs.starts[:-1].copy(), np.ones(mdp.n_states), 0.0
    for goal in range(mdp.n_states):
        assert hitting_times.times_by_values(mdp.model, goal, choice, times, tolerance)
        largest = max(largest, times.max())
    return largest


def falling_back(n_states: int, small: float, large: float) -> MDP:
    """Right with a small probability, else left; or right with a large one, else to the start."""
    rows = np.zeros((n_states, 2, n_states))
    for s in range(n_states):
        rows[s, 0, max(s - 1, 0)] += 1.0 - small
        rows[s, 0, min(s + 1, n_states - 1)] += small
        rows[s, 1, 0] += 1.0 - large
        rows[s, 1, min(s + 1, n_states - 1)] += large
    return MDP(rows, np.zeros((n_states, 2)))


def by_linear_programming(mdp: MDP) -> float:
    largest = 0.0
    states, actions = mdp.pairs.states, mdp.pairs.actions
    excess = np.eye(mdp.n_states)[states] - mdp.transitions[states, actions]
    for goal in range(mdp.n_states):
        others = states != goal
        bounds = [(0.0, 0.0 if s == goal else None) for s in range(mdp.n_states)]
        solution = linprog(
            -np.ones(mdp.n_states), excess[others], np.ones(others.sum()), bounds=bounds
        )
        assert solution.status == 0, solution.message
        largest = max(largest, float(np.max(np.asarray(solution.x))))
    return largest


@pytest.mark.parametrize(("p", "q"), [(0.5, 0.25), (1.0, 1.0), (1e-3, 0.9), (0.7, 1e-6), (1e-9, 1)])
def test_the_diameter_of_a_two_state_chain_is_the_longer_expected_wait(p: float, q: float) -> None:
    assert diameter(two_states(p, q)) == pytest.approx(max(1 / p, 1 / q), rel=1e-9)


@pytest.mark.parametrize("n_states", [1, 2, 5, 128, 150])
def test_the_diameter_of_a_one_way_ring_of_n_states_is_n_minus_1(n_states: int) -> None:
    assert diameter(ring(n_states)) == pytest.approx(n_states - 1, rel=1e-9)


def test_the_diameter_of_a_single_state_is_zero() -> None:
    assert diameter(MDP([[[1], [1]]], [[0, 1]])) == 0.0


def test_the_quickest_action_counts() -> None:
    mdp = MDP([[[0.9, 0.1], [0.5, 0.5]], [[0.75, 0.25], [0.1, 0.9]]], np.zeros((2, 2)))
    assert diameter(mdp) == pytest.approx(2.0, rel=1e-12)


@pytest.mark.parametrize(
    "targets", [[[0], [0]], [[1], [1]], [[0, 1], [1, 1], [2, 0]], [[1], [0], [2]]]
)
def test_the_diameter_is_infinite_where_states_are_not_connected(targets: Any) -> None:
    chosen = np.asarray(targets)
    mdp = MDP(np.eye(len(chosen))[chosen], np.zeros(chosen.shape))
    assert diameter(mdp) == np.inf
    assert not is_communicating(mdp)


def test_an_mdp_is_communicating_where_each_state_can_reach_each() -> None:
    assert is_communicating(ring(30))
    assert is_communicating(two_states(1e-300, 1e-300))
    assert is_communicating(MDP(np.eye(2)[[[0, 1], [1, 0]]], np.zeros((2, 2))))
    assert is_communicating(MDP([[[1]]], [[0]]))


@pytest.mark.parametrize("n_states", [2, 3, 6, 9, 12])
def test_the_diameter_of_riverswim_is_exact(n_states: int, exact: type[Exact]) -> None:
    mdp = riverswim(n_states)
    assert abs(Fraction(diameter(mdp)) / exact(mdp).diameter() - 1) <= Fraction(1, 10**12)


def test_the_diameter_of_random_mdps_is_exact(exact: type[Exact]) -> None:
    for seed in range(120):
        rng = np.random.default_rng(seed)
        n_states, n_actions = int(rng.integers(2, 6)), int(rng.integers(1, 4))
        rows = rng.dirichlet(np.full(n_states, 10.0 ** -rng.uniform(0, 1)), (n_states, n_actions))
        rows[rows < 1e-3] = 0.0
        mdp = MDP(rows / rows.sum(axis=2, keepdims=True), np.zeros((n_states, n_actions)))
        if is_communicating(mdp):
            expected = exact(mdp).diameter()
            assert abs(Fraction(diameter(mdp)) / expected - 1) <= Fraction(1, 10**9), seed
        else:
            assert diameter(mdp) == np.inf, seed


def test_the_diameter_of_a_hundred_mdps_is_that_of_linear_programming() -> None:
    for seed in range(100):
        rng = np.random.default_rng(seed)
        n_states, n_actions = int(rng.integers(2, 11)), int(rng.integers(1, 4))
        width = int(rng.integers(1, n_states))
        sparse = random_sparse_mdp(n_states, n_actions, width, seed=seed)
        mdp = sparse if seed % 2 else random_mdp(n_states, n_actions, seed=seed)
        assert diameter(mdp) == pytest.approx(by_linear_programming(mdp), rel=1e-7), seed


def far_blocks(rng: np.random.Generator, link: float, size: int = 3) -> MDP:
    """Two blocks that mix inside; every action leaves with nearly the same tiny probability."""
    n_states = 2 * size
    rows = np.zeros((n_states, 2, n_states))
    for s in range(n_states):
        here = s // size * size
        for a in range(2):
            leave = link * (1.0 + 1e-7 * rng.random())
            rows[s, a, here : here + size] = rng.dirichlet(np.ones(size)) * (1.0 - leave)
            rows[s, a, (here + size) % n_states + rng.integers(size)] += leave
    return MDP(rows, np.zeros((n_states, 2)))


@pytest.mark.parametrize("link", [1e-4, 1e-5, 1e-6])
def test_a_diameter_of_a_million_has_a_relative_error_below_1e_9(
    link: float, exact: type[Exact]
) -> None:
    for seed in range(20):
        mdp = far_blocks(np.random.default_rng(seed), link)
        expected = exact(mdp).diameter()
        assert expected > 0.9 / link
        assert abs(Fraction(diameter(mdp)) / expected - 1) <= Fraction(1, 10**9), seed


@pytest.mark.parametrize("better", [1e-8, 5e-8, 1e-6])
def test_a_slightly_quicker_action_counts_over_a_million_steps(better: float) -> None:
    slow, quick = 1e-6, 1e-6 * (1.0 + better)
    rows = [[[1.0 - slow, slow], [1.0 - quick, quick]], [[1.0, 0.0], [1.0, 0.0]]]
    assert diameter(MDP(rows, np.zeros((2, 2)))) == pytest.approx(1.0 / quick, rel=1e-9)


@pytest.mark.parametrize("leave", [1e-8, 1e-10, 1e-12, 1e-50, 1e-200])
def test_a_diameter_is_certified_however_rarely_blocks_are_left(
    leave: float, exact: type[Exact], monkeypatch: pytest.MonkeyPatch
) -> None:
    for few in (128, 0):
        monkeypatch.setattr(hitting_times, "FEW", few)
        for seed in range(10):
            mdp = far_blocks(np.random.default_rng(seed), leave)
            actual, expected = diameter(mdp), exact(mdp).diameter()
            assert actual.lower <= expected <= actual.upper, (few, seed)


@pytest.mark.parametrize(
    ("n_states", "small", "large"),
    [(n, 0.001, 0.98) for n in (*range(100, 112), 128, 150, 299)] + [(40, 1e-8, 0.95)],
)
def test_a_policy_of_many_steps_on_the_way_does_not_spoil_the_diameter(
    n_states: int, small: float, large: float
) -> None:
    actual = diameter(falling_back(n_states, small, large))
    expected = (large ** (1 - n_states) - 1.0) / (1.0 - large)
    assert actual == pytest.approx(expected, rel=1e-9)
    assert actual.lower <= actual <= actual.upper <= actual.lower * (1.0 + 1e-9)


@pytest.mark.parametrize("link", [1e-100, 1e-160, 1e-200, 1e-300])
def test_tiny_couplings_make_a_large_diameter_not_an_infinite_one(link: float) -> None:
    rows = [[{0: 1.0, 1: link}], [{1: 1.0, 2: link}], [{0: 1.0}]]
    actual = diameter(MDP(rows, np.zeros((3, 1))))
    assert actual == pytest.approx(2.0 / link, rel=1e-9)
    assert actual.lower <= 2 / Fraction(link) + 2 <= actual.upper * (1.0 + 1e-15)


@pytest.mark.parametrize("link", [1e-200, 1e-310, 5e-324])
def test_a_diameter_beyond_doubles_raises_an_error_with_a_valid_bracket(link: float) -> None:
    rows = [[{0: 1.0, 1: link}], [{0: 1.0, 2: link}], [{0: 1.0}]]
    with pytest.raises(PrecisionNotReached, match="larger than every double") as caught:
        diameter(MDP(rows, np.zeros((3, 1))))
    assert caught.value.lower == np.finfo(np.float64).max
    assert caught.value.upper == np.inf


def test_a_diameter_is_a_number_with_a_bracket() -> None:
    actual = diameter(two_states(0.1, 0.3))
    assert isinstance(actual, float)
    assert repr(actual) == repr(float(actual))
    assert type(actual + 1) is float
    for copied in (copy.copy(actual), copy.deepcopy(actual), pickle.loads(pickle.dumps(actual))):
        assert (copied, copied.lower, copied.upper) == (actual, actual.lower, actual.upper)
    for mdp, value in ((ring(1), 0.0), (MDP(np.eye(2)[:, None], [[0], [0]]), np.inf)):
        known = diameter(mdp)
        assert known == known.lower == known.upper == value


def test_overflowing_hitting_times_are_distinguished_from_unreachable_goals() -> None:
    mdp = falling_back(120, 0.001, 0.98)
    times = np.empty(120)
    slow = mdp.pairs.starts[:-1].copy()
    assert not interpreted(hitting_times.hitting_times_of_policy)(mdp.model, slow, 119, times)


@pytest.mark.parametrize(
    "mdp",
    [
        random_sparse_mdp(150, 3, 4, seed=0),
        random_sparse_mdp(200, 3, 4, seed=1),
        ring_with_shortcuts(180, seed=2),
        random_mdp(130, 2, seed=3),
        ring(150),
    ],
    ids=repr,
)
def test_value_iteration_and_policy_iteration_find_the_same_diameter(
    mdp: MDP, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert mdp.n_states > hitting_times.FEW
    by_front_door = diameter(mdp)
    assert by_values_alone(mdp) == by_front_door
    monkeypatch.setattr(hitting_times, "FEW", 1000)
    assert diameter(mdp) == pytest.approx(by_front_door, rel=1e-9)


def test_policy_iteration_takes_over_where_value_iteration_stalls(
    monkeypatch: pytest.MonkeyPatch, exact: type[Exact]
) -> None:
    monkeypatch.setattr(hitting_times, "FEW", 0)
    for seed in range(20):
        mdp = far_blocks(np.random.default_rng(seed), 1e-4)
        expected = exact(mdp).diameter()
        assert abs(Fraction(diameter(mdp)) / expected - 1) <= Fraction(1, 10**9), seed


def test_an_error_is_raised_if_no_method_reaches_the_tolerance(
    monkeypatch: pytest.MonkeyPatch, exact: type[Exact]
) -> None:
    monkeypatch.setattr(hitting_times, "FEW", 0)
    monkeypatch.setattr(hitting_times, "DENSE", 0)
    mdp = far_blocks(np.random.default_rng(0), 1e-4)
    with pytest.raises(PrecisionNotReached, match="6 states") as caught:
        diameter(mdp, tolerance=1e-16)
    assert caught.value.lower <= exact(mdp).diameter() <= caught.value.upper


@pytest.mark.parametrize("tolerance", [0.0, 1.0, -1e-3, np.nan, True, "1e-9", None])
def test_a_tolerance_outside_zero_to_one_is_rejected(tolerance: Any) -> None:
    with pytest.raises(InvalidParameter, match="tolerance"):
        diameter(ring(2), tolerance=tolerance)


def test_an_argument_that_is_not_an_mdp_is_rejected() -> None:
    nonsense: Any = np.eye(2)
    with pytest.raises(InvalidParameter, match="an MDP"):
        diameter(nonsense)
