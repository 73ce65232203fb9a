"""GLR: its statistic and threshold, against the test at every split, false alarms and delays."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from switchmdp.compiled import JIT
from switchmdp.errors import InvalidParameter
from switchmdp.mdp import Pairs
from switchmdp.restarts import GLR
from switchmdp.restarts.glr import likelihood_ratio

needs_speed = pytest.mark.skipif(not JIT, reason="many visits are for machine code")


def kl(p: float, q: float) -> float:
    parts = [(p, q), (1.0 - p, 1.0 - q)]
    return sum(x * math.log(x / y) for x, y in parts if x > 0.0)


def at_every_split(rewards: Any, threshold: Callable[[int], float]) -> int:
    """The visit at which the test that looks at all splits alarms, or the last; O(n²)."""
    sums = np.concatenate([[0.0], np.cumsum(rewards)])

    def log_likelihood(successes: Any, n: Any) -> Any:
        failures = n - successes
        with np.errstate(divide="ignore", invalid="ignore"):
            parts = [np.where(x > 0, x * np.log(x / n), 0.0) for x in (successes, failures)]
        return parts[0] + parts[1]

    for n in range(2, len(sums)):
        s = np.arange(1, n)
        before, since = log_likelihood(sums[s], s), log_likelihood(sums[n] - sums[s], n - s)
        if (before + since - log_likelihood(sums[n], n)).max() >= threshold(n):
            return n
    return len(rewards)


def test_the_statistic_is_the_sum_of_two_divergences_from_the_common_mean() -> None:
    # 3 of 10 before, 8 of 10 since, 11 of 20 in all.
    expected = 10 * kl(0.3, 0.55) + 10 * kl(0.8, 0.55)
    assert likelihood_ratio(3.0, 10.0, 8.0, 10.0) == pytest.approx(expected, rel=1e-12)
    assert likelihood_ratio(4.0, 8.0, 3.0, 6.0) == pytest.approx(0.0, abs=1e-12)


def test_the_threshold_shares_delta_among_rewards_and_successors_of_all_pairs() -> None:
    detector = GLR(0.1)
    detector.allocate(Pairs.of(5, 3))
    share = 0.1 / (15 * 6)
    assert detector.threshold(400) == pytest.approx(math.log(3 * 400**1.5 / share), rel=1e-12)


@needs_speed
def test_the_grid_of_splits_delays_detection_only_a_little(
    first_visit: Callable[..., int],
) -> None:
    """Means of 60 runs in the last column: what the grid loses is 1-4 visits or a fifth.

    p before → after   change at   every split   the grid
    0.1 → 0.9          300           8.0          10.4
    0.5 → 0.9          300          34.7          39.3
    0.2 → 0.4          1000        160.9         181.3
    0.02 → 0.1         1000        278.3         334.8
    """
    rng = np.random.default_rng(1)
    for before, after, change, runs in (
        (0.1, 0.9, 300, 12),
        (0.5, 0.9, 300, 12),
        (0.2, 0.4, 600, 6),
    ):
        exact, on_grid = [], []
        for _ in range(runs):
            p = np.where(np.arange(change + 900) < change, before, after)
            rewards = (rng.random(p.size) < p).astype(float)
            detector = GLR(0.05)
            on_grid.append(first_visit(detector, np.zeros(p.size), rewards) - change)
            exact.append(at_every_split(rewards, detector.threshold) - change)
        assert all(b >= a for a, b in zip(exact, on_grid, strict=True))
        assert np.mean(on_grid) <= 1.25 * np.mean(exact) + 4.0


def test_a_new_successor_is_a_change_and_a_constant_stream_is_none(
    first_visit: Callable[..., int],
) -> None:
    nexts = np.zeros(400)
    assert first_visit(GLR(0.05), nexts, np.full(400, 0.5), 3) == 400
    nexts[200:] = 2
    assert 204 <= first_visit(GLR(0.05), nexts, np.full(400, 0.5), 3) <= 212


@needs_speed
def test_false_alarms_are_rarer_than_delta(alarms_on_nothing: Callable[..., int]) -> None:
    """Of 400 runs of 100 000 steps at δ = 0.1, one alarmed: the threshold is cautious."""
    assert alarms_on_nothing(lambda: GLR(0.1), 150) <= 15


@pytest.mark.parametrize("delta", [0.0, 1.0, "0.1", None, float("nan")])
def test_a_bad_delta_is_rejected(delta: Any) -> None:
    with pytest.raises(InvalidParameter, match="delta"):
        GLR(delta)
