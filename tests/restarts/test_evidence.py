"""Restarts by evidence: the Bayes factor against its definition, alarms, and what is kept."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from switchmdp.errors import InvalidParameter
from switchmdp.mdp.pairs import Pairs
from switchmdp.restarts import Evidence
from switchmdp.restarts.bayes_factors import (
    SHARES,
    log_mean,
    log_moves,
    log_rewards,
    multiply,
    settle,
)
from switchmdp.restarts.evidence import AGES, KEPT, SHORTEST

Steps = tuple[Any, Any, Any]


def steps_of(rng: np.random.Generator, n: int, rewards: Any, rows: Any) -> Steps:
    """n visits to random pairs: their numbers, successors, rewards."""
    pairs = rng.integers(0, len(rewards), n).astype(np.uint32)
    draws = rng.random(n)
    nexts = np.array(
        [np.searchsorted(np.cumsum(rows[x]), u) for x, u in zip(pairs, draws, strict=True)]
    )
    gained = (rng.random(n) < np.asarray(rewards)[pairs]).astype(float)
    return pairs, np.minimum(nexts, rows.shape[1] - 1).astype(np.uint32), gained


def world(rng: np.random.Generator, n_pairs: int = 6, n_states: int = 3) -> tuple[Any, Any]:
    return rng.random(n_pairs), rng.dirichlet(np.ones(n_states), n_pairs)


def detector(n_states: int = 3, n_actions: int = 2) -> Evidence:
    rule = Evidence(0.01)
    rule.allocate(Pairs.of(n_states, n_actions))
    return rule


def literal(before: Steps, since: Steps, n_pairs: int, n_states: int) -> float:
    """Λ from its definition, with the standard library's log Γ."""

    def counts(steps: Steps, x: int) -> tuple[float, float, list[float]]:
        mine = steps[0] == x
        successors = [float(((steps[1] == j) & mine).sum()) for j in range(n_states)]
        return float(mine.sum()), float(steps[2][mine].sum()), successors

    def log_r(n: float, r: float) -> float:
        return math.lgamma(1 + r) + math.lgamma(1 + n - r) - math.lgamma(2 + n)

    def log_p(n: float, p: list[float]) -> float:
        return (
            math.lgamma(n_states) + sum(math.lgamma(1 + c) for c in p) - math.lgamma(n_states + n)
        )

    of_kind: list[list[float]] = [[], []]
    for x in range(n_pairs):
        (n, r, p), (m, q, o) = counts(before, x), counts(since, x)
        if n and m:
            both = [a + b for a, b in zip(p, o, strict=True)]
            b_r = log_r(n, r) + log_r(m, q) - log_r(n + m, r + q)
            b_p = log_p(n, p) + log_p(m, o) - log_p(n + m, both)
            of_kind[0].append(b_r)
            of_kind[1].append(b_p)
    return sum(
        math.log(sum(math.prod(1 - q + q * math.exp(b) for b in found) for q in SHARES) / 5)
        for found in of_kind
    )


def test_the_weight_of_a_change_is_the_one_defined() -> None:
    rng = np.random.default_rng(0)
    rewards, rows = world(rng)
    rule = detector()
    steps = steps_of(rng, SHORTEST + 5, rewards, rows)
    rule.watch(*steps, SHORTEST + 5)  # a first snapshot was taken after SHORTEST / KEPT steps
    rule.refresh()
    assert (rule.old_steps[0] % (SHORTEST // KEPT) == 0).all()
    at = int(np.argmax(rule.old_steps[0]))
    cut = int(rule.old_steps[0, at])
    pairs, nexts, gained = steps
    before, since = (
        (pairs[:cut], nexts[:cut], gained[:cut]),
        (pairs[cut:], nexts[cut:], gained[cut:]),
    )
    assert rule.weigh(0, at) == pytest.approx(literal(before, since, 6, 3), abs=1e-9)


@pytest.mark.parametrize("n_pairs", [1, 15, 33, 45, 63, 98, 99])
def test_snapshots_have_the_right_age_for_any_number_of_pairs(
    n_pairs: int,
) -> None:
    rule = detector(1, n_pairs)
    assert rule.base == max(SHORTEST, n_pairs + n_pairs % 2)
    ages: dict[int, set[int]] = {}

    def may_exceed(age: int, at: int, threshold: float) -> bool:
        ages.setdefault(age, set()).add(int(rule.steps - rule.old_steps[age, at]))
        return False

    rule.may_exceed = may_exceed  # type: ignore[method-assign]  # only looked at, never alarmed
    n = 50 * rule.base
    pairs = np.arange(n, dtype=np.uint32) % n_pairs
    rule.watch(pairs, np.zeros(n, np.uint32), np.zeros(n), n)
    assert ages == {age: {rule.base << age} for age in range(6)}


@pytest.mark.parametrize("changed", [1, 6])
def test_incremental_marginal_likelihoods_equal_those_of_the_counts(changed: int) -> None:
    rng = np.random.default_rng(5)
    rule, (rewards, rows) = detector(), world(rng)
    suspects = np.zeros(6, bool)
    for _ in range(2):  # through a change, after which some steps are kept
        rule.watch(*steps_of(rng, 3000, rewards, rows), 3000)
        rule.log_emptied()
        if rule.alarmed():
            rule.suspect(suspects)
            rule.start_over(suspects)
        rewards = np.where(np.arange(6) < changed, 1.0 - rewards, rewards)
    assert suspects[0]
    assert suspects.all() == (changed == 6)
    assert rule.steps == 6000 if changed == 1 else 0 < rule.steps < 3300
    rule.watch(*steps_of(rng, 1000, rewards, rows), 1000)
    rule.refresh()
    taken = [(rule.counts, rule.logs)]
    for age, shots in enumerate(rule.shots.tolist()):
        for at in range(min(shots, KEPT)):
            taken.append((rule.old_counts[age, at], rule.old_logs[age, at]))
    assert len(taken) > 5
    for all_counts, all_logs in taken:
        for counts, logs in zip(all_counts, all_logs, strict=True):
            moves = log_moves(counts[0], counts[2:], np.zeros(rule.width))
            assert logs[0] == pytest.approx(log_rewards(counts[0], counts[1]), abs=1e-9)
            assert logs[1] == pytest.approx(moves, abs=1e-9)


@pytest.mark.parametrize("changed", [0.0, 0.1, 0.5])
def test_no_weight_exceeds_its_bound(changed: float) -> None:
    rng = np.random.default_rng(11)
    skipped = 0
    for _ in range(15):
        rule, (rewards, rows) = detector(), world(rng)
        rule.watch(*steps_of(rng, 300, rewards, rows), 300)
        rule.log_emptied()
        rewards = np.clip(rewards + rng.normal(0.0, changed, 6), 0.0, 1.0)
        rule.watch(*steps_of(rng, 40, rewards, rows), 40)
        rule.refresh()
        for age in range(3):
            for at in range(KEPT):
                weight = rule.weigh(age, at)
                assert rule.may_exceed(age, at, weight)
                skipped += not rule.may_exceed(age, at, max(weight + 1.0, 10.0))
    assert skipped > 50


@pytest.mark.parametrize("pieces", [1, 7, 64, 1000])
def test_the_result_does_not_depend_on_how_the_log_is_split(pieces: int) -> None:
    rng = np.random.default_rng(1)
    a, b = (steps_of(rng, 1500, *world(rng)) for _ in range(2))
    pairs, nexts, rewards = (np.concatenate([x, y]) for x, y in zip(a, b, strict=True))
    whole, parts = detector(), detector()
    whole.watch(pairs, nexts, rewards, 3000)
    for first in range(0, 3000, pieces):
        here = slice(first, first + pieces)
        parts.watch(pairs[here], nexts[here], rewards[here], len(pairs[here]))
        parts.log_emptied()
    assert whole.keeps == parts.keeps >= 0
    for name in ("counts", "accused", "past", "old_counts", "shots"):
        np.testing.assert_array_equal(getattr(whole, name), getattr(parts, name))


def test_a_change_of_everything_is_seen_within_a_few_visits_to_each_pair() -> None:
    delays, kept = [], []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        rule = detector()
        rule.watch(*steps_of(rng, 5000, *world(rng)), 5000)
        assert not rule.alarmed()
        rule.log_emptied()
        after = steps_of(rng, 2000, *world(rng))
        for n in range(1, 2001):
            rule.watch(*after, n)
            if rule.alarmed():
                break
        delays.append(n)
        suspects = np.zeros(6, bool)
        kept.append(rule.suspect(suspects))
        assert suspects.sum() >= 4
    assert np.median(delays) <= 100
    assert max(delays) < 2000
    assert np.median(np.abs(np.array(kept) - np.array(delays))) <= 40


def test_a_change_of_one_pairs_reward_is_seen_too() -> None:
    rng = np.random.default_rng(3)
    rewards, rows = world(rng)
    rewards[4] = 0.1
    rule = detector()
    rule.watch(*steps_of(rng, 5000, rewards, rows), 5000)
    rule.log_emptied()
    rewards[4] = 0.9
    rule.watch(*steps_of(rng, 1500, rewards, rows), 1500)
    assert rule.alarmed()
    suspects = np.ones(6, bool)
    assert 1000 < rule.suspect(suspects) <= 1500 + SHORTEST
    assert suspects[4]
    assert suspects.sum() <= 2  # one in five of the others may be doubted
    rule.start_over(suspects)
    assert not rule.alarmed()
    assert rule.counts[4, 0] < 500 < 700 < rule.counts[~suspects, 0].min()
    assert rule.steps == 6500


@pytest.mark.parametrize("changed", [1, 3])
def test_a_pair_not_met_since_is_suspected_where_many_others_have_changed(changed: int) -> None:
    rng = np.random.default_rng(7)
    rewards, rows = world(rng)
    rewards[:] = 0.1
    rule = detector()
    rule.watch(*steps_of(rng, 5000, rewards, rows), 5000)
    rule.log_emptied()
    rewards[:changed] = 0.9
    pairs, nexts, gained = steps_of(rng, 1500, rewards, rows)
    met = pairs < 3
    rule.watch(pairs[met], nexts[met], gained[met], int(met.sum()))
    suspects = np.zeros(6, bool)
    assert rule.alarmed()
    rule.suspect(suspects)
    assert suspects[:changed].all()
    assert suspects[3:].all() == (changed == 3)


def test_a_pair_that_a_probe_found_changed_is_removed_from_all_snapshots() -> None:
    rng = np.random.default_rng(8)
    rule = detector()
    rule.watch(*steps_of(rng, 3000, *world(rng)), 3000)
    counts, old = rule.counts.copy(), rule.old_counts.copy()
    suspects = np.arange(6) == 2
    rule.start_over(suspects)
    assert not rule.counts[2].any()
    assert not rule.old_counts[:8, :, 2].any()
    np.testing.assert_array_equal(rule.counts[~suspects], counts[~suspects])
    np.testing.assert_array_equal(rule.old_counts[:, :, ~suspects], old[:, :, ~suspects])
    rule.start_over(np.ones(6, bool))
    assert not rule.counts.any()
    assert (rule.steps, rule.shots.sum()) == (0, 0)


@pytest.mark.parametrize("factors", [[0.0], [-5.0, 3.0, 39.0], [60.0, 800.0, -3.0], [39.9] * 16])
def test_products_beyond_the_range_of_doubles_add_up(factors: list[float]) -> None:
    products, sums = np.ones(5), np.zeros(5)
    for log_b in factors:
        multiply(products, sums, log_b)
    settle(products, sums)

    def log_term(q: float, log_b: float) -> float:
        return math.log1p(q * math.expm1(log_b)) if log_b < 700 else math.log(q) + log_b

    expected = np.array([sum(log_term(q, b) for b in factors) for q in SHARES])
    np.testing.assert_allclose(sums, expected, rtol=1e-12, atol=1e-12)
    top = expected.max()
    assert log_mean(sums) == pytest.approx(top + math.log(np.exp(expected - top).mean()))


def test_there_are_hardly_any_alarms_without_a_change() -> None:
    alarms = 0
    for seed in range(60):
        rng = np.random.default_rng((9, seed))
        rule = detector()
        rule.watch(*steps_of(rng, 8000, *world(rng)), 8000)
        alarms += rule.alarmed()
    assert alarms <= 1  # δ is 0.01 for each


def test_states_beyond_64_are_put_into_classes() -> None:
    rule = detector(200, 1)
    nexts = np.arange(64, 164).astype(np.uint32)
    rule.watch(np.zeros(100, np.uint32), nexts, np.zeros(100), 100)
    assert rule.counts.shape == (200, 66)
    np.testing.assert_array_equal(rule.counts[0, 2:], np.bincount(nexts % 64, minlength=64))


@pytest.mark.parametrize("n_states", [4000, 10_000, 300_000])
def test_many_pairs_have_fewer_classes_so_that_snapshots_fit_into_memory(n_states: int) -> None:
    rule = detector(n_states, 4)
    assert rule.old_counts.size <= max(2**25, 4 * AGES * KEPT * 4 * n_states)
    assert rule.width == {4000: 64, 10_000: 30, 300_000: 2}[n_states]


@pytest.mark.parametrize("delta", [0.0, 1.0, -1, "x", None])
def test_a_delta_that_is_no_probability_is_refused(delta: Any) -> None:
    with pytest.raises(InvalidParameter, match="delta"):
        Evidence(delta)
