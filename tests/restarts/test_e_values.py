"""E-values: exact means over all short sequences, and bounds against brute force."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from switchmdp.compiled import interpreted
from switchmdp.restarts.e_values import (
    BETS,
    PRICES,
    SIDES,
    log_dirichlet,
    log_flat_bet,
    log_leave_in,
    log_leave_in_rewards,
    log_likelihood_bound,
    log_low_noise_bet,
    log_mixture,
    log_split_likelihood,
    mean_interval,
)
from switchmdp.special_functions import log_rewards

ROUNDING = 1e-9
LAWS = [
    (0.5, 0.5), (0.9, 0.1), (0.01, 0.99), (1.0, 0.0),
    (1 / 3, 1 / 3, 1 / 3), (0.7, 0.2, 0.1), (0.98, 0.01, 0.01), (0.0, 0.5, 0.5),
]  # fmt: skip


def simplex(n_states: int, parts: int) -> Iterator[Any]:
    """All laws whose probabilities are multiples of 1/parts."""
    for cuts in itertools.combinations(range(parts + n_states - 1), n_states - 1):
        edges = (-1, *cuts, parts + n_states - 1)
        yield np.array([b - a - 1 for a, b in itertools.pairwise(edges)]) / parts


def counted(outcomes: Any, n_cells: int) -> Any:
    return np.bincount(np.asarray(outcomes, int), minlength=n_cells).astype(float)


def log_likelihood(law: Any, counts: Any) -> float:
    seen = counts > 0
    with np.errstate(divide="ignore"):
        return float((counts[seen] * np.log(np.asarray(law)[seen])).sum())


def test_interpreted_and_machine_code_agree_to_the_bit() -> None:
    old, now = np.array([30.0, 2.0, 0.0]), np.array([31.0, 2.0, 4.0])
    for function, arguments in (
        (log_mixture, (old, np.zeros(3), 32.0, 3, 0)),
        (log_likelihood_bound, (now, old, 32.0, 5.0, -30.0)),
        (log_flat_bet, (now, old, 32.0, 5.0, -18.0, 3, 0)),
        (log_low_noise_bet, (90.0, 30.0, 14.0, 9.0, 5.0, 3.0, 4.0)),
        (log_split_likelihood, (90.0, 30.0, 9.0, 5.0)),
    ):
        assert function(*arguments) == interpreted(function)(*arguments)


@pytest.mark.parametrize("rest", [0, 4])
@pytest.mark.parametrize("n", [1, 4, 6])
def test_the_mixture_is_a_probability_of_sequences(n: int, rest: int) -> None:
    """Also if the last of three cells represents four of six states."""
    n_states = 6 if rest else 3
    total = sum(
        math.exp(log_mixture(counted(outcomes, 3), np.zeros(3), float(n), n_states, rest))
        for outcomes in itertools.product(range(3), repeat=n)
    )
    assert total == pytest.approx(1.0, abs=ROUNDING)


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize(("n_a", "n_b"), [(1, 1), (5, 1), (4, 3), (2, 5)])
def test_a_conditional_e_value_has_mean_at_most_1_under_every_law(
    law: tuple[float, ...], n_a: int, n_b: int
) -> None:
    size, mean = len(law), 0.0
    for outcomes in itertools.product(range(size), repeat=n_a + n_b):
        old, now = counted(outcomes[:n_a], size), counted(outcomes, size)
        log_e = log_dirichlet(now, old, float(n_b), 1.0, size, 0)
        log_e += log_leave_in(float(n_a), old) - log_leave_in(float(n_a + n_b), now)
        mean += math.exp(log_likelihood(law, now) + log_e)
    assert mean <= 1.0 + ROUNDING


def test_a_bayes_factor_has_a_mean_above_1_under_a_uniform_law() -> None:
    """Conditional e-values do not have this defect."""
    n_a, n_b, size, mean = 4, 3, 3, 0.0
    none = np.zeros(size)
    for outcomes in itertools.product(range(size), repeat=n_a + n_b):
        old, now = counted(outcomes[:n_a], size), counted(outcomes, size)
        log_b = log_dirichlet(now, old, float(n_b), 1.0, size, 0)
        log_b += log_dirichlet(old, none, float(n_a), 1.0, size, 0)
        log_b -= log_dirichlet(now, none, float(n_a + n_b), 1.0, size, 0)
        mean += size ** -float(n_a + n_b) * math.exp(log_b)
    assert mean > 1.1


def floor_of(old: Any, doubt: float, n_states: int = 0, rest: int = 0) -> float:
    size = len(old)
    return log_mixture(old, np.zeros(size), float(old.sum()), n_states or size, rest) - doubt


@pytest.mark.parametrize("old", [(5, 0, 1), (40, 10, 0), (300, 200, 100), (1, 1, 1), (0, 0, 900)])
@pytest.mark.parametrize("new", [(0, 3, 0), (1, 1, 1), (30, 0, 50), (0, 0, 2)])
@pytest.mark.parametrize("doubt", [0.5, 6.0])
def test_no_law_of_the_confidence_set_has_a_likelihood_above_its_bound(
    old: tuple[int, ...], new: tuple[int, ...], doubt: float
) -> None:
    a, b = np.array(old, float), np.array(new, float)
    floor = floor_of(a, doubt)
    bound = log_likelihood_bound(a + b, a, a.sum(), b.sum(), floor)
    inside = [law for law in simplex(3, 60) if log_likelihood(law, a) >= floor]
    inside += [np.clip(a / a.sum(), 1e-9, 1.0)]
    largest = max(log_likelihood(law, b) for law in inside)
    assert bound >= largest - ROUNDING
    assert bound <= 0.0


@pytest.mark.parametrize("old", [(90, 5, 5), (500, 40, 0), (400, 40, 40), (60, 0, 0)])
@pytest.mark.parametrize("doubt", [0.5, 6.0])
@pytest.mark.parametrize(("n_states", "rest"), [(3, 0), (9, 7)])
def test_a_flat_bet_has_mean_at_most_1_under_every_law_of_the_confidence_set(
    old: tuple[int, ...], doubt: float, n_states: int, rest: int
) -> None:
    a = np.array(old, float)
    floor = floor_of(a, doubt, n_states, rest)
    pays = [
        math.exp(log_flat_bet(a + cell, a, a.sum(), 1.0, floor, n_states, rest))
        for cell in np.eye(3)
    ]
    means = [float(law @ pays) for law in simplex(3, 200) if log_likelihood(law, a) >= floor]
    assert max(means) <= 1.0 + ROUNDING
    assert max(means) > 0.9, "the bet could be larger"
    assert max(pays) > 1.5, "the bet could not win"


def test_there_is_no_bet_if_the_uniform_law_is_plausible() -> None:
    a = np.array([10.0, 12.0, 9.0])
    assert log_flat_bet(a + 5.0, a, 31.0, 15.0, floor_of(a, 5.0), 3, 0) == 0.0


Chooser = Callable[[list[list[int]]], int]


def greedy(seen: list[list[int]]) -> int:
    """Return to the pair whose last outcome was 0, if any, so that choices depend on the data."""
    return 1 if seen[0] and seen[0][-1] != 0 else 0


def balanced(seen: list[list[int]]) -> int:
    return int(len(seen[0]) > len(seen[1]))


def stubborn(seen: list[list[int]]) -> int:
    """Stay with pair 0 until its outcomes look balanced."""
    return int(bool(seen[0]) and sum(seen[0]) * 2 == len(seen[0]))


def paths(laws: Any, choose: Chooser, n: int) -> Iterator[tuple[float, list[tuple[int, int]]]]:
    """All sequences of n (pair, outcome) with their probabilities."""
    if n == 0:
        yield 1.0, []
        return
    for probability, steps in paths(laws, choose, n - 1):
        seen: list[list[int]] = [[], []]
        for pair, outcome in steps:
            seen[pair].append(outcome)
        pair = choose(seen)
        for outcome, chance in enumerate(laws[pair]):
            if chance > 0.0:
                yield probability * chance, [*steps, (pair, outcome)]


@pytest.mark.parametrize("choose", [greedy, balanced, stubborn])
@pytest.mark.parametrize("laws", [((0.5, 0.5), (0.5, 0.5)), ((0.9, 0.1), (0.3, 0.7)),
                                  ((0.02, 0.98), (0.6, 0.4))])  # fmt: skip
@pytest.mark.parametrize("kind", ["likelihood", "flat bet"])
@pytest.mark.parametrize("share", [0.875, 0.125])
def test_the_product_over_pairs_has_mean_at_most_1_however_pairs_are_chosen(
    choose: Chooser, laws: Any, kind: str, share: float
) -> None:
    """The lemma of the theorem, exactly: the mean over all paths on which the laws are in C."""
    n_a, n_b, doubt = 7, 4, 0.2
    mean, covered = 0.0, 0.0
    for probability, steps in paths(laws, choose, n_a + n_b):
        product, inside = 1.0, True
        for pair in range(2):
            old = counted([o for x, o in steps[:n_a] if x == pair], 2)
            now = counted([o for x, o in steps if x == pair], 2)
            before, since = old.sum(), now.sum() - old.sum()
            if before == 0.0 or since == 0.0:
                continue
            floor = floor_of(old, doubt)
            inside = inside and log_likelihood(laws[pair], old) >= floor
            if kind == "likelihood":
                log_e = log_dirichlet(now, old, since, 1.0, 2, 0)
                log_e -= log_likelihood_bound(now, old, before, since, floor)
            else:
                log_e = log_flat_bet(now, old, before, since, floor, 2, 0)
            product *= 1.0 - share + share * math.exp(log_e)
        covered += probability * inside
        mean += probability * inside * product
    assert covered > 0.3, "the test is blind"
    assert mean <= 1.0 + ROUNDING


@pytest.mark.parametrize("choose", [greedy, balanced, stubborn])
@pytest.mark.parametrize("means", [(0.5, 0.5), (0.1, 0.7), (0.98, 0.4)])
@pytest.mark.parametrize("share", [0.875, 0.125])
def test_split_likelihoods_of_all_pairs_have_a_product_with_mean_at_most_1(
    choose: Chooser, means: tuple[float, float], share: float
) -> None:
    """Also those of pairs without new data, which no confidence set needs."""
    n_a, n_b, mean = 6, 4, 0.0
    for probability, steps in paths([(1.0 - p, p) for p in means], choose, n_a + n_b):
        product = 1.0
        for pair in range(2):
            old, new = ([float(o) for x, o in part if x == pair]
                        for part in (steps[:n_a], steps[n_a:]))  # fmt: skip
            if old:
                log_e = log_split_likelihood(len(old), sum(old), len(new), sum(new))
                product *= 1.0 - share + share * math.exp(log_e)
        mean += probability * product
    assert 0.01 < mean <= 1.0 + ROUNDING


def test_a_split_likelihood_matches_its_definition() -> None:
    """Compared with the largest likelihood on a fine grid of means."""
    n_a, total_a, n_b, total_b = 30.0, 6.0, 10.0, 9.0
    largest = max(p**15 * (1 - p) ** 25 for p in np.linspace(0.0, 1.0, 100_001))
    expected = log_rewards(n_a, total_a) + log_rewards(n_b, total_b) - math.log(largest)
    assert log_split_likelihood(n_a, total_a, n_b, total_b) == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize(("bet", "price"), list(zip(BETS, PRICES, strict=True)))
def test_the_inequality_behind_low_noise_bets_holds(bet: float, price: float) -> None:
    x = np.linspace(-1.0, 20.0, 200_001)
    assert (bet * x - price * x * x <= np.log1p(bet * x) + ROUNDING).all()


def log_products(rewards: Any, mean: float) -> list[float]:
    """The logarithms of the 2k products that test a mean."""
    return [
        bet * (side * (rewards - mean)).sum() - price * ((rewards - mean) ** 2).sum()
        for side in (1.0, -1.0)
        for bet, price in zip(BETS[1:], PRICES[1:], strict=True)
    ]


@pytest.mark.parametrize("spread", [0.0, 0.02, 0.3])
@pytest.mark.parametrize("n", [20, 100, 2000])
def test_the_interval_contains_all_means_that_no_bet_rejects(spread: float, n: int) -> None:
    rng, doubt = np.random.default_rng(n), 5.0
    rewards = np.clip(0.4 + spread * rng.standard_normal(n), 0.0, 1.0)
    low, high = mean_interval(n, rewards.sum(), (rewards**2).sum(), doubt)
    for mean in np.linspace(0.0, 1.0, 501):
        refuted = max(log_products(rewards, mean)) > doubt + math.log(SIDES)
        if abs(mean - low) > 1e-6 < abs(mean - high):
            assert refuted == (not low <= mean <= high)
    if n == 2000:
        assert high - low < 0.05 + spread / 5, "low noise does not help"


@pytest.mark.parametrize("old", [(400, 0.5, 0.0), (400, 0.3, 0.1), (60, 0.8, 0.02), (9, 0.5, 0.0)])
def test_low_noise_bets_have_mean_at_most_1_for_every_law_with_a_mean_in_the_interval(
    old: tuple[int, float, float],
) -> None:
    n, mean, deviation = old
    total, squares, doubt = n * mean, n * (mean * mean + deviation**2), 3.0
    low, high = mean_interval(n, total, squares, doubt)
    values = np.array([0.0, 0.3, 0.55, 1.0])
    pays = {
        draws: math.exp(log_low_noise_bet(n, total, squares, 2.0, sum(draws),
                                          sum(x * x for x in draws), doubt))
        for draws in itertools.product(values.tolist(), repeat=2)
    }  # fmt: skip
    means = [
        sum(law[i] * law[j] * pays[x, y]
            for (i, x), (j, y) in itertools.product(enumerate(values.tolist()), repeat=2))
        for law in simplex(4, 20) if low <= law @ values <= high
    ]  # fmt: skip
    assert max(means) <= 1.0 + 1e-7
    forty = log_low_noise_bet(n, total, squares, 40.0, 38.0, 37.0, doubt)
    assert (forty > 2.0) == (n == 400), "the bet could not win"


def test_low_noise_bets_detect_small_changes_of_low_noise_rewards() -> None:
    """400 rewards of about 0.5, then 60 of about 0.6; treated as binary they show no change."""
    old, new = np.full(400, 0.5), np.full(60, 0.6)
    log_bet = log_low_noise_bet(400.0, old.sum(), (old**2).sum(), 60.0, new.sum(),
                                (new**2).sum(), 8.0)  # fmt: skip
    a, c = np.array([200.0, 200.0]), np.array([236.0, 224.0])
    log_e = log_dirichlet(c, a, 60.0, 1.0, 2, 0)
    log_e -= log_likelihood_bound(c, a, 400.0, 60.0, floor_of(a, 8.0))
    assert log_e < 0.0 < 1.0 < log_bet


@pytest.mark.parametrize("values", [(0.0, 0.5, 1.0), (0.4, 0.5, 0.6), (0.0, 0.9, 1.0)])
@pytest.mark.parametrize("law", [(0.2, 0.3, 0.5), (0.0, 1.0, 0.0), (0.1, 0.8, 0.1)])
def test_rewards_between_0_and_1_keep_means_at_most_1(
    values: tuple[float, ...], law: tuple[float, ...]
) -> None:
    n_a, n_b, doubt, none = 5, 3, 0.2, np.zeros(2)
    true = float(np.dot(values, law))
    mean, mixture = 0.0, 0.0
    for draws in itertools.product(range(3), repeat=n_a + n_b):
        probability = math.prod(law[k] for k in draws)
        if probability == 0.0:
            continue
        rewards = [values[k] for k in draws]
        old, now = (np.array([sum(r), len(r) - sum(r)]) for r in (rewards[:n_a], rewards))
        log_m = log_mixture(old, none, float(n_a), 2, 0)
        mixture += probability * math.exp(log_m - log_likelihood((true, 1.0 - true), old))
        if log_likelihood((true, 1.0 - true), old) >= log_m - doubt:
            log_e = log_dirichlet(now, old, float(n_b), 1.0, 2, 0)
            log_e -= log_likelihood_bound(now, old, float(n_a), float(n_b), log_m - doubt)
            mean += probability * math.exp(log_e)
    assert mixture <= 1.0 + ROUNDING
    assert mean <= 1.0 + ROUNDING


def test_rewards_of_0_and_1_are_a_row_with_two_cells() -> None:
    whole = log_leave_in(7.0, np.array([3.0, 4.0]))
    assert log_leave_in_rewards(7.0, 3.0) == pytest.approx(whole, abs=ROUNDING)
