"""The gain of a policy against exact rational arithmetic and the limit of averages.

    P* = lim (1/N) (I + P + … + P^(N-1)),     gain = P* r

The average over 2N steps is (I + P^N)/2 times the one over N, so 2⁴⁰ steps take 40 products.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from numpy.typing import NDArray

from switchmdp.errors import InvalidAction, PrecisionNotReached
from switchmdp.mdp import MDP
from switchmdp.planning import gain, policy_gain
from switchmdp.problems import random_mdp, riverswim

if TYPE_CHECKING:
    from tests.planning.conftest import Exact

Vector = NDArray[np.float64]


def average_reward(rows: Vector, rewards: Vector, doublings: int = 40) -> Vector:
    power, average = rows.copy(), np.eye(len(rows))
    for _ in range(doublings):
        average = (average + power @ average) / 2.0
        power = power @ power
        power /= power.sum(axis=1, keepdims=True)
    return np.asarray(average @ rewards)


def patchwork(rng: np.random.Generator, n_states: int = 0) -> tuple[MDP, NDArray[np.int64]]:
    """A chain of several closed classes, periodic ones too, with transient states before them."""
    n_states = n_states or int(rng.integers(1, 10))
    rows = np.zeros((n_states, 2, n_states))
    for s in range(n_states):
        for a in range(2):
            width = min(n_states, int(rng.choice([1, 1, 1, 2, 3])))
            targets = rng.choice(n_states, width, replace=False)
            rows[s, a, targets] = rng.dirichlet(np.ones(width))
    return MDP(rows, rng.random((n_states, 2))), rng.integers(0, 2, n_states)


def test_gains_of_policies_are_the_limits_of_averages() -> None:
    spread = 0
    for seed in range(300):
        mdp, policy = patchwork(np.random.default_rng(seed))
        states = np.arange(mdp.n_states)
        rows = mdp.transitions[states, policy]
        expected = average_reward(rows, mdp.rewards[states, policy])
        gains = policy_gain(mdp, policy)
        assert np.abs(gains - expected).max() <= 1e-9, seed
        spread += bool(np.ptp(gains) > 1e-6)
    assert spread >= 50  # many of them have several closed classes


def test_gains_of_policies_are_exact_to_the_last_digits(exact: type[Exact]) -> None:
    for seed in range(150):
        mdp, policy = patchwork(np.random.default_rng(seed))
        oracle = exact(mdp)
        expected = oracle.policy_gains(oracle.position(policy))
        for actual, right in zip(policy_gain(mdp, policy), expected, strict=True):
            assert abs(Fraction(float(actual)) - right) <= right * Fraction(1, 10**13), seed


@pytest.mark.parametrize("link", [1e-3, 1e-9, 1e-15, 1e-100])
def test_nearly_decomposable_chains_lose_no_digits(link: float, exact: type[Exact]) -> None:
    rows = [
        [{0: 0.5, 1: 0.5 - link, 2: link}],
        [{0: 0.25, 1: 0.75}],
        [{2: 0.5, 3: 0.5 - 1.5 * link, 0: 1.5 * link}],
        [{2: 0.125, 3: 0.875}],
    ]
    mdp = MDP(rows, [[0.0], [0.125], [1.0], [0.25]])
    expected = exact(mdp).policy_gains([0, 0, 0, 0])[0]
    for actual in policy_gain(mdp, [0, 0, 0, 0]):
        assert abs(Fraction(float(actual)) / expected - 1) <= Fraction(1, 10**13)


def rare_exits(leave: float) -> MDP:
    """State 0 waits long, then falls into state 1 (reward 0) or state 2 (reward 1) for good."""
    rows = [[{0: 1.0 - 3 * leave, 1: leave, 2: 2 * leave}], [{1: 1.0}], [{2: 1.0}]]
    return MDP(rows, [[0.5], [0.0], [1.0]])


@pytest.mark.parametrize("leave", [0.25, 1e-6, 1e-9, 1e-12, 1e-17])
@pytest.mark.parametrize("dense", [2000, 1])
def test_rare_exits_reach_closed_classes_in_proportion_to_their_probabilities(
    leave: float, dense: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gain, "DENSE", dense)
    gains = policy_gain(rare_exits(leave), [0, 0, 0])
    assert gains[1:].tolist() == [0.0, 1.0]
    assert gains[0] == pytest.approx(2 / 3, rel=1e-9)


@pytest.mark.parametrize("link", [1e-100, 1e-160, 1e-200, 1e-300, 5e-324])
@pytest.mark.parametrize("back", [0, 1])
def test_transient_states_that_hardly_move_earn_what_their_class_earns(
    link: float, back: int
) -> None:
    rows = [[{0: 1.0, 1: link}], [{back: 1.0, 2: link}], [{2: 1.0}]]
    assert policy_gain(MDP(rows, [[0.0], [0.0], [1.0]]), [0, 0, 0]).tolist() == [1.0, 1.0, 1.0]


@pytest.mark.parametrize("exponent", [1, 40, 90, 300])
def test_gains_hold_where_times_and_probabilities_leave_the_range_of_doubles(
    exponent: int, exact: type[Exact]
) -> None:
    for seed in range(60):
        rng = np.random.default_rng(seed)
        n_states = int(rng.integers(2, 8))
        rows = []
        for _ in range(n_states):
            row = {int(rng.integers(n_states)): 1.0}
            for _ in range(2):
                row.setdefault(int(rng.integers(n_states)), 10.0 ** -rng.uniform(1, exponent))
            rows.append([{t: p / sum(row.values()) for t, p in row.items()}])
        mdp = MDP(rows, rng.random((n_states, 1)))
        expected = exact(mdp).policy_gains([0] * n_states)
        for actual, right in zip(policy_gain(mdp, [0] * n_states), expected, strict=True):
            assert abs(Fraction(float(actual)) - right) <= right * Fraction(1, 10**12), seed


@pytest.mark.parametrize("link", [1e-12, 1e-17, 1e-200])
def test_sparse_matrices_refuse_gains_that_lost_digits_by_cancellation(
    link: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gain, "DENSE", 0)
    rows = [[{0: 1.0, 1: link}], [{0: 1.0, 2: link}], [{2: 1.0}]]
    with pytest.raises(PrecisionNotReached, match="uncertain"):
        policy_gain(MDP(rows, [[0.0], [0.0], [1.0]]), [0, 0, 0])


def test_sparse_matrices_give_the_same_gains(monkeypatch: pytest.MonkeyPatch) -> None:
    for seed in range(200):
        mdp, policy = patchwork(np.random.default_rng(seed), 1 + seed % 40)
        monkeypatch.setattr(gain, "DENSE", 2000)
        dense = policy_gain(mdp, policy)
        monkeypatch.setattr(gain, "DENSE", 0)
        sparse = policy_gain(mdp, policy)
        assert np.abs(dense - sparse).max() <= 1e-12, seed


@pytest.mark.parametrize("n_states", [6, 20, 40])
def test_sparse_matrices_give_the_same_gain_of_riverswim(
    n_states: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    mdp = riverswim(n_states)
    dense = policy_gain(mdp, [1] * n_states)
    monkeypatch.setattr(gain, "DENSE", 0)
    assert np.abs(policy_gain(mdp, [1] * n_states) - dense).max() <= 1e-9


def test_a_policy_with_one_closed_class_has_one_gain() -> None:
    for seed in range(20):
        mdp = random_mdp(6, 3, seed=seed)
        gains = policy_gain(mdp, np.random.default_rng(seed).integers(0, 3, 6))
        assert np.ptp(gains) <= 1e-15


def test_actions_are_taken_by_their_names() -> None:
    mdp = MDP(np.ones((1, 3, 1)), [[0.25, 0.5, 0.75]], available=[[True, False, True]])
    assert policy_gain(mdp, [2]).tolist() == [0.75]
    with pytest.raises(InvalidAction, match="state 0"):
        policy_gain(mdp, [1])


@pytest.mark.parametrize(
    "policy", [[0], [0, 0, 0], [0, 2], [0, -1], [0.0, 1.0], [[0], [0, 1]], None, "01"]
)
def test_an_invalid_policy_is_rejected(policy: Any) -> None:
    with pytest.raises(InvalidAction):
        policy_gain(random_mdp(2, 2), policy)
