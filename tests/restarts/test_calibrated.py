"""The calibrated detector: statistics against their definitions, alarms, suspected pairs."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from tests.restarts.streams import Steps, steps_of, world

from switchmdp.errors import InvalidParameter
from switchmdp.mdp.pairs import Pairs
from switchmdp.memory.counts import BOTH, REWARDS, ROWS
from switchmdp.restarts import Calibrated
from switchmdp.restarts.calibrated import ANY_REWARDS, ANY_ROWS
from switchmdp.restarts.e_values import (
    SHARES,
    log_flat_bet,
    log_leave_in,
    log_likelihood_bound,
    log_low_noise_bet,
    log_mean,
    log_split_likelihood,
)
from switchmdp.restarts.snapshots import AGES, ENTRIES, FIRST, KEPT, cells_for


def detector(n_states: int = 3, n_actions: int = 2, **how: Any) -> Calibrated:
    rule = Calibrated(0.01, **how)
    rule.allocate(Pairs.of(n_states, n_actions))
    return rule


def feed(rule: Any, steps: Steps) -> None:
    rule.watch(*steps, len(steps[0]))
    rule.log_emptied()


def cells(steps: Steps, pair: int, n_states: int) -> tuple[Any, Any]:
    """The successors of a pair, and its rewards as successes and failures."""
    mine = steps[0] == pair
    moves = np.bincount(steps[1][mine], minlength=n_states).astype(float)
    return moves, np.array([steps[2][mine].sum(), mine.sum() - steps[2][mine].sum()])


def log_fresh(counts: Any, alpha: float = 1.0) -> float:
    """The Dirichlet–multinomial probability, with the standard library's log Γ."""
    mass = alpha * len(counts)
    total = math.lgamma(mass) - math.lgamma(mass + counts.sum())
    return total + sum(math.lgamma(alpha + c) - math.lgamma(alpha) for c in counts)


def combined(logs: list[float]) -> float:
    products = [math.prod(1 - q + q * math.exp(x) for x in logs) for q in SHARES]
    return math.log(sum(products) / len(SHARES))


def literal(before: Steps, since: Steps, doubt: float) -> tuple[float, float]:
    """Λ by proved e-values, and by the largest e-value of each pair, from their definitions."""
    largest: list[list[float]] = [[], []]
    proved: list[list[float]] = [[], []]
    flat, low_noise, split = [], [], []
    varied = (before[2] != before[2] ** 2).any()
    for pair in range(6):
        old, new = (part[2][part[0] == pair] for part in (before, since))
        if len(old):
            split.append(log_split_likelihood(len(old), old.sum(), len(new), new.sum()))
        for kind, (a, b) in enumerate(
            zip(cells(before, pair, 3)[::-1], cells(since, pair, 3)[::-1], strict=True)
        ):
            if a.sum() == 0 or b.sum() == 0:
                continue
            n_a, n_b = a.sum(), b.sum()
            null = log_leave_in(n_a + n_b, a + b) - log_leave_in(n_a, a)
            dense, sparse = log_fresh(a), log_fresh(a, 1.0 / len(a))
            floor = math.log((math.exp(dense) + math.exp(sparse)) / 2) - doubt
            bound = log_likelihood_bound(a + b, a, n_a, n_b, floor)
            proved[kind].append(log_fresh(b) - bound)
            largest[kind].append(max(log_fresh(b) - null, log_fresh(b) - bound))
            if kind == 1:
                flat.append(log_flat_bet(a + b, a, n_a, n_b, floor, 3, 0))
                if flat[-1] > 0.0:
                    largest[kind][-1] = max(largest[kind][-1], flat[-1])
            elif varied:
                bet = log_low_noise_bet(n_a, a[0], (old**2).sum(), n_b, b[0], (new**2).sum(), doubt)
                low_noise.append(bet)
                largest[kind][-1] = max(largest[kind][-1], bet)
    rewards = combined(proved[0])
    if varied:
        rewards = math.log((math.exp(rewards) + math.exp(combined(low_noise))) / 2)
    rewards = math.log((math.exp(rewards) + math.exp(combined(split))) / 2)
    rows = math.log((math.exp(combined(proved[1])) + math.exp(combined(flat))) / 2)
    return rewards + rows, combined(largest[0]) + combined(largest[1])


@pytest.mark.parametrize("varied", [False, True])
def test_the_statistics_match_their_definitions(varied: bool) -> None:
    rng = np.random.default_rng(0)
    steps = steps_of(rng, 165, *world(rng))
    if varied:  # rewards other than 0 and 1
        steps = (*steps[:2], 0.3 + 0.1 * steps[2] + 0.05 * rng.random(165))
    rule = detector()
    rule.watch(*steps, 165)
    rule.refresh()
    age, at = 1, int(np.argmin(rule.old_steps[1]))
    cut = int(rule.old_steps[age, at])
    assert cut > 30
    before, since = tuple(x[:cut] for x in steps), tuple(x[cut:] for x in steps)
    proved, largest = literal(before, since, math.log(6 * 6 * 1 * 2 / 0.01))
    assert rule.weigh(age, at) == pytest.approx(proved, abs=1e-8)
    of_any = log_mean(rule.sums[ANY_REWARDS]) + log_mean(rule.sums[ANY_ROWS])
    assert of_any == pytest.approx(largest, abs=1e-8)


@pytest.mark.parametrize("changed", [0.0, 0.1, 0.5])
def test_skipped_looks_would_not_have_raised_an_alarm(changed: float) -> None:
    rng = np.random.default_rng(11)
    skipped = 0
    for _ in range(15):
        rule, (rewards, rows) = detector(), world(rng)
        feed(rule, steps_of(rng, 300, rewards, rows))
        rewards = np.clip(rewards + rng.normal(0.0, changed, 6), 0.0, 1.0)
        feed(rule, steps_of(rng, 40, rewards, rows))
        rule.refresh()
        for age in range(3):
            for at in range(min(KEPT, int(rule.shots[age]))):
                weight = rule.weigh(age, at)
                assert rule.may_exceed(age, at, weight)
                skipped += not rule.may_exceed(age, at, max(weight + 1.0, 10.0))
    assert skipped > 40


@pytest.mark.parametrize("n_states", [3, 70])  # with 70 states, some share a cell
@pytest.mark.parametrize("noise", [0.0, 0.1, 1.0])  # of rewards; 1: they are 0 or 1
@pytest.mark.parametrize("changed", [0.0, 0.3])
def test_the_bound_is_never_below_the_statistic(
    n_states: int, noise: float, changed: float
) -> None:
    rng, trials, n_actions = np.random.default_rng(12), 8, 2
    if n_states == 70:
        trials, n_actions = 2, 1
    n, settled, compared = n_states * n_actions, 0, 0
    for trial in range(trials):
        rule = detector(n_states, n_actions, independent=trial % 2 == 0)
        rows = rng.dirichlet(np.full(n_states, 0.3), n)
        means, drift = rng.random(n), changed * rng.random(n)
        for stretch in range(3):
            pairs = rng.integers(n, size=10 * n).astype(np.uint32)
            nexts = np.array([rng.choice(n_states, p=rows[x]) for x in pairs], np.uint32)
            mean = np.clip(means[pairs] + (stretch == 2) * drift[pairs], 0.0, 1.0)
            rewards = (1 - noise) * mean + noise * (rng.random(10 * n) < mean)
            feed(rule, (pairs, nexts, rewards))
            rule.refresh()
            for age in range(AGES):
                for at in range(min(KEPT, int(rule.shots[age]))):
                    weight, bound = rule.weigh(age, at), rule.bound(age, at)
                    assert bound >= weight - 1e-9
                    assert rule.weigh(age, at) == weight  # the bound leaves nothing behind
                    settled += bound < 20.0
                    compared += 1
            if stretch == 0:  # from here on there are counts from before a start
                rule.start_over(rng.integers(4, size=n).astype(np.uint8))
    assert compared > 8
    if changed == 0.0:
        assert settled > compared // 2


def test_all_thresholds_together_spend_at_most_half_of_delta() -> None:
    rule = detector()
    spent = 0.0
    for starts in range(1, 30):
        rule.starts = starts
        for age in range(AGES):
            for i in range(KEPT, 300):
                rule.shots[age] = i
                spent += math.exp(-rule.threshold(age))
    assert 0.3 * 0.01 / 2 < spent <= 0.01 / 2


def test_after_a_restart_thresholds_are_reset_and_pay_for_the_restart() -> None:
    rule = detector()
    feed(rule, steps_of(np.random.default_rng(0), 2000, *world(np.random.default_rng(1))))
    before = rule.threshold(0)
    rule.start_over(np.zeros(6, np.uint8))
    rule.shots[0] = KEPT
    assert rule.threshold(0) == pytest.approx(math.log(2 / 0.01 * 10.6 * 2 * 6))
    assert rule.threshold(0) < before


@pytest.mark.parametrize("pieces", [1, 7, 64, 1000])
def test_the_result_does_not_depend_on_how_the_log_is_split(pieces: int) -> None:
    rng = np.random.default_rng(1)
    a, b = (steps_of(rng, 1500, *world(rng)) for _ in range(2))
    pairs, nexts, rewards = (np.concatenate([x, y]) for x, y in zip(a, b, strict=True))
    whole, parts = detector(), detector()
    whole.watch(pairs, nexts, rewards, 3000)
    for first in range(0, 3000, pieces):
        here = slice(first, first + pieces)
        feed(parts, (pairs[here], nexts[here], rewards[here]))
    assert whole.keeps == parts.keeps >= 0
    for name in ("counts", "accused", "old_counts", "shots"):
        np.testing.assert_array_equal(getattr(whole, name), getattr(parts, name))


def test_a_full_change_is_detected_within_a_few_visits_per_pair() -> None:
    delays, kept = [], []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        rule = detector()
        feed(rule, steps_of(rng, 5000, *world(rng)))
        assert not rule.alarmed()
        after = world(rng)
        delay = 0
        while not rule.alarmed():
            feed(rule, steps_of(rng, 16, *after))
            delay += 16
        delays.append(delay)
        kept.append(rule.suspect(np.zeros(6, np.uint8)))
    assert np.median(delays) <= 100
    assert np.median(np.abs(np.array(delays) - kept)) <= 32  # when it changed


def flat_worlds() -> list[tuple[str, Any, Any]]:
    rng = np.random.default_rng(5)
    n_pairs, n_states = 20, 20
    zipf = 1.0 / np.arange(1, n_states + 1)
    return [
        ("uniform", rng.random(n_pairs), np.full((n_pairs, n_states), 1 / n_states)),
        ("Zipf", rng.random(n_pairs), np.tile(zipf / zipf.sum(), (n_pairs, 1))),
        ("Dirichlet(30)", rng.random(n_pairs), rng.dirichlet(np.full(n_states, 30.0), n_pairs)),
        ("Dirichlet(0.05)", rng.random(n_pairs), rng.dirichlet(np.full(n_states, 0.05), n_pairs)),
        ("deterministic", np.ones(n_pairs), np.eye(n_states)),
    ]


@pytest.mark.parametrize(("name", "rewards", "rows"), flat_worlds())
def test_there_is_no_false_alarm_for_any_kind_of_rows(name: str, rewards: Any, rows: Any) -> None:
    for seed in range(2):
        rng = np.random.default_rng(seed)
        rule = detector(20, 1)
        feed(rule, steps_of(rng, 8000, rewards, rows))
        assert not rule.alarmed(), name
        feed(rule, steps_of(rng, 2000, 1.0 - rewards, rows[::-1]))
        assert rule.alarmed(), "the test is blind"


def test_low_noise_rewards_raise_no_false_alarm() -> None:
    rng = np.random.default_rng(3)
    rule, (_, rows) = detector(), world(rng)
    for _ in range(10):
        pairs, nexts, _ = steps_of(rng, 1000, np.zeros(6), rows)
        feed(rule, (pairs, nexts, 0.5 + 0.01 * rng.standard_normal(1000)))
    assert not rule.alarmed()


def test_a_small_change_of_low_noise_rewards_is_detected() -> None:
    """A change by 0.15 where rewards vary by 0.01; binary rewards would need more steps."""
    rng, (_, rows) = np.random.default_rng(3), world(np.random.default_rng(3))
    alarms = []
    for noise in (0.01, 1.0):
        rule = detector()
        for mean, n in ((0.4, 6000), (0.55, 400)):
            pairs, nexts, _ = steps_of(rng, n, np.zeros(6), rows)
            low = mean + noise * (rng.random(n) - 0.5)
            feed(rule, (pairs, nexts, low if noise < 1.0 else (rng.random(n) < mean) * 1.0))
        alarms.append(rule.alarmed())
    assert alarms == [True, False]


@pytest.mark.parametrize("kind", [REWARDS, ROWS])
def test_rewards_and_rows_are_suspected_separately(kind: int) -> None:
    right, wrong = 0, 0
    for seed in range(10):
        rng = np.random.default_rng(seed)
        rule, (rewards, rows), (others, other_rows) = detector(), world(rng), world(rng)
        feed(rule, steps_of(rng, 5000, rewards, rows))
        after = (others, rows) if kind == REWARDS else (rewards, other_rows)
        while not rule.alarmed():
            feed(rule, steps_of(rng, 16, *after))
        suspects = np.zeros(6, np.uint8)
        rule.suspect(suspects)
        right += ((suspects == BOTH) | (suspects == kind)).sum()
        wrong += ((suspects != 0) & (suspects != kind)).sum()
    assert right >= 40  # of 60
    assert wrong <= 6


@pytest.mark.parametrize("kind", [BOTH, REWARDS, ROWS])
def test_it_restarts_for_suspected_pairs_and_keeps_the_others(kind: int) -> None:
    rng = np.random.default_rng(2)
    rule = detector()
    feed(rule, steps_of(rng, 1000, *world(rng)))
    before, suspects = rule.counts.copy(), np.zeros(6, np.uint8)
    suspects[4] = kind
    rule.start_over(suspects)
    expected = before.copy()
    if kind in (BOTH, REWARDS):
        expected[4, 1:FIRST] = 0.0
    if kind in (BOTH, ROWS):
        expected[4, 0], expected[4, FIRST:] = 0.0, 0.0
    np.testing.assert_array_equal(rule.counts, expected)
    assert (rule.shots == 0).all()
    assert rule.starts == 2
    feed(rule, steps_of(rng, 5000, *world(rng)))
    rule.check_invariants()


def test_incremental_logs_equal_those_of_the_counts() -> None:
    rng = np.random.default_rng(5)
    rule = detector()
    feed(rule, steps_of(rng, 3000, *world(rng)))
    rule.start_over(np.array([0, BOTH, REWARDS, ROWS, 0, 0], np.uint8))
    feed(rule, steps_of(rng, 3000, *world(rng)))
    rule.refresh()
    for counts, logs in zip(rule.counts, rule.logs, strict=True):
        rewards = np.array([counts[2], counts[1] - counts[2]])
        assert logs[0] == pytest.approx(log_leave_in(counts[1], rewards), abs=1e-8)
        assert logs[1] == pytest.approx(log_leave_in(counts[0], counts[FIRST:]), abs=1e-8)


def test_a_shift_by_64_states_is_detected() -> None:
    """There are 64 cells, but successors are not taken modulo 64."""
    rng = np.random.default_rng(0)
    rule = detector(192, 1)
    for shift, n in ((0, 12_000), (64, 1200)):
        pairs = rng.integers(0, 192, n)
        nexts = (pairs + rng.integers(1, 4, n) + shift) % 192
        steps = pairs.astype(np.uint32), nexts.astype(np.uint32), np.zeros(n)
        feed(rule, steps)
        assert rule.alarmed() == (shift == 64)
    suspects = np.zeros(192, np.uint8)
    rule.suspect(suspects)
    assert (suspects == ROWS).mean() > 0.8
    assert np.isin(suspects, (0, ROWS)).all()


def test_successors_beyond_the_cells_share_the_last_one() -> None:
    rule = detector(100, 1)
    n = 300
    nexts = np.r_[np.arange(100), np.arange(100), np.full(100, 99)].astype(np.uint32)
    feed(rule, (np.zeros(n, np.uint32), nexts, np.zeros(n)))
    assert rule.width == 64
    assert rule.counts[0, FIRST : FIRST + 63].tolist() == [2.0] * 63
    assert rule.counts[0, FIRST + 63] == n - 2 * 63
    assert rule.rest() == 37
    rule.check_invariants()


@pytest.mark.parametrize("sizes", [(5, 3), (64, 4), (1000, 4), (10_000, 10), (50_000, 4)])
def test_snapshots_have_a_bounded_number_of_entries(sizes: tuple[int, int]) -> None:
    pairs = Pairs.of(*sizes)
    assert AGES * KEPT * pairs.n_pairs * (FIRST + cells_for(pairs)) <= ENTRIES


def test_dependent_rewards_and_successors_need_more_evidence() -> None:
    rng = np.random.default_rng(4)
    before, since = steps_of(rng, 2000, *world(rng)), steps_of(rng, 64, *world(rng))
    rules = detector(), detector(independent=False)
    for rule in rules:
        feed(rule, before)
        feed(rule, since)
        rule.refresh()
    assert rules[1].weigh(1, 0) < rules[0].weigh(1, 0)


@pytest.mark.parametrize("wrong", [{"delta": 0}, {"delta": 2}, {"independent": "yes"}])
def test_invalid_parameters_are_rejected(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidParameter):
        Calibrated(**wrong)
