"""Hardness against an example worked out by hand, and the variations against dense arrays."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from switchmdp.errors import InvalidParameter, NotCommunicating, PrecisionNotReached
from switchmdp.mdp import MDP, SwitchingMDP
from switchmdp.planning import action_gaps, diameter, hardness, optimal_gain, variations
from switchmdp.problems import random_mdp, random_sparse_mdp, random_switching

# State 0: action 0 earns 1/2 and moves on with 1/2, action 1 earns 1/5 and moves on. State 1: its
# one action earns 1 and returns with 1/2. Under action 0: gain (1/2 + 1)/2 = 3/4, and
# h(1) - h(0) = 2 (3/4 - 1/2) = 1/2. Action 1 is worth 1/5 + 1/2, which is 1/20 less than 3/4.
# To state 1 takes 1 step (action 1), to state 0 it takes 2.
BY_HAND = MDP(
    [[[0.5, 0.5], [0.0, 1.0]], [[0.5, 0.5], [0.0, 0.0]]],
    [[0.5, 0.2], [1.0, 0.0]],
    available=[[True, True], [True, False]],
)


def test_the_numbers_of_an_example_match_the_calculation_by_hand() -> None:
    result = hardness(BY_HAND)
    assert result.diameters == pytest.approx([2.0], rel=1e-6)
    assert result.diameter == result.diameters[0]
    assert result.gains == pytest.approx([0.75], abs=1e-9)
    assert result.spans == pytest.approx([0.5], abs=1e-9)
    assert result.gaps == pytest.approx([0.05], abs=1e-9)
    assert (result.reward_variation, result.transition_variation) == (0.0, 0.0)


def test_gaps_are_zero_for_the_optimal_action_and_nan_for_unavailable_ones() -> None:
    gaps = action_gaps(BY_HAND)
    assert gaps == pytest.approx(np.array([[0.0, 0.05], [0.0, np.nan]]), abs=1e-9, nan_ok=True)


def test_gaps_are_not_negative_and_each_state_has_a_gap_of_zero() -> None:
    for seed in range(200):
        rng = np.random.default_rng(seed)
        n_states, n_actions = int(rng.integers(1, 9)), int(rng.integers(1, 4))
        targets = rng.integers(0, n_states, (n_states, n_actions))
        targets[:, 0] = (np.arange(n_states) + 1) % n_states
        mdp = MDP(np.eye(n_states)[targets], rng.random((n_states, n_actions)))
        for problem in (mdp, random_mdp(n_states, n_actions, seed=seed)):
            smallest = action_gaps(problem).min(axis=1)
            assert np.abs(smallest).max() <= 1e-8, seed


def test_a_problem_without_choices_has_an_infinite_gap() -> None:
    assert hardness(MDP([[[0, 1]], [[1, 0]]], [[1], [0]])).gaps.tolist() == [np.inf]


def test_each_configuration_has_its_own_numbers() -> None:
    problem = random_switching(changes=3, seed=1)
    result = hardness(problem, tolerance=1e-9)
    for i, mdp in enumerate(problem.configurations()):
        plan = optimal_gain(mdp)
        gaps = action_gaps(mdp, plan)
        assert result.diameters[i] == pytest.approx(diameter(mdp), rel=1e-9)
        assert result.gains[i] == pytest.approx(plan.gain, abs=2e-9)
        assert result.spans[i] == pytest.approx(plan.span, abs=1e-8)
        assert result.gaps[i] == pytest.approx(gaps[gaps > 1e-6].min(), abs=1e-8)
    assert result.diameter == result.diameters.max()
    assert (result.reward_variation, result.transition_variation) == variations(problem)


def dense_variations(problem: SwitchingMDP) -> tuple[float, float]:
    reward = transition = 0.0
    for before, after in itertools.pairwise(problem.configurations()):
        reward += np.nanmax(np.abs(after.rewards - before.rewards))
        transition += np.abs(after.transitions - before.transitions).sum(axis=2).max()
    return reward, transition


@pytest.mark.parametrize("width", [1, 2, 4, 7])
def test_variations_are_those_of_dense_arrays_where_supports_differ(width: int) -> None:
    for seed in range(10):
        mdps = [random_sparse_mdp(7, 3, width, seed=10 * seed + i) for i in range(6)]
        problem = SwitchingMDP(mdps, range(2, 7))
        assert variations(problem) == pytest.approx(dense_variations(problem), abs=1e-12)


def test_variations_are_those_of_dense_arrays_where_few_rows_change() -> None:
    rng = np.random.default_rng(0)
    patches: list[list[Any]] = []
    for i in range(60):
        row = rng.multinomial(3, np.full(6, 1 / 6)) / 3 if i % 3 else None
        mean = float(rng.random()) if i % 2 else None
        patches.append([(int(s), int(rng.integers(2)), row, mean) for s in rng.permutation(6)[:2]])
    patches[7] = []
    base = random_mdp(6, 2, seed=1)
    problem = SwitchingMDP.from_patches(base, range(2, 62), connected(base, patches))
    assert variations(problem) == pytest.approx(dense_variations(problem), abs=1e-12)


def connected(base: MDP, patches: list[list[Any]]) -> list[list[Any]]:
    """The patches, less those after which some state can't be reached."""
    patches_kept: list[list[Any]] = []
    for patch in patches:
        try:
            SwitchingMDP.from_patches(base, range(2, len(patches_kept) + 3), [*patches_kept, patch])
            patches_kept.append(patch)
        except NotCommunicating:
            patches_kept.append([])
    return patches_kept


def test_a_pair_that_is_patched_twice_at_once_counts_by_its_final_row() -> None:
    base = MDP([[[0, 1]], [[1, 0]]], [[0.5], [0.5]])
    twice: list[Any] = [(0, 0, [1, 0], 1.0), (0, 0, [0.25, 0.75], 0.75)]
    assert variations(SwitchingMDP.from_patches(base, [5], [twice])) == (0.25, 0.5)


def test_the_summary_shows_each_number() -> None:
    shown = str(hardness(BY_HAND))
    for line in ("diameter              2", "optimal gain          0.75",
                 "smallest action gap   0.05", "reward variation      0"):  # fmt: skip
        assert line in shown.splitlines()


def two_sides(link: float) -> MDP:
    """States 0 and 1 mix; state 1 is left for state 2, and that for state 0, with `link`."""
    leave, back = {0: 0.5, 1: 0.5 - link, 2: link}, {0: link, 2: 1.0 - link}
    rows = [[{0: 0.5, 1: 0.5}, {0: 1.0}], [leave, leave], [back, back]]
    return MDP(rows, [[1.0, 0.0], [1.0, 1.0], [0.0, 0.0]])


@pytest.mark.parametrize("link", [0.25, 1e-3, 1e-6])
def test_gaps_are_right_where_the_bias_is_large(link: float) -> None:
    # State 2 has a share of 1 / (3 + 2 link) of the steps. A wait in state 0 earns nothing.
    expected = [0.0, 1.0 - 1.0 / (3.0 + 2.0 * link)]
    assert action_gaps(two_sides(link))[0].tolist() == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("n_states", [1, 3])
def test_a_plan_for_another_number_of_states_has_no_gaps_here(n_states: int) -> None:
    with pytest.raises(InvalidParameter, match="plan must be a Plan for 2 states"):
        action_gaps(BY_HAND, optimal_gain(random_mdp(n_states, 2)))


def test_an_mdp_has_no_variations() -> None:
    assert variations(BY_HAND) == (0.0, 0.0)


@pytest.mark.parametrize("link", [1e-14, 1e-20, 1e-200])
def test_a_gap_that_rounding_hides_is_rejected(link: float) -> None:
    with pytest.raises(PrecisionNotReached, match="gap of action 0 in state 0"):
        action_gaps(two_sides(link))


def test_a_disconnected_mdp_is_rejected() -> None:
    with pytest.raises(NotCommunicating, match="state 1"):
        hardness(MDP([[[1, 0]], [[0, 1]]], [[0], [0]]))


def test_an_argument_that_is_not_a_problem_is_rejected() -> None:
    nonsense: Any = "riverswim"
    with pytest.raises(InvalidParameter, match="an MDP or a SwitchingMDP"):
        hardness(nonsense)
