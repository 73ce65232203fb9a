"""R-BOCPD against a literal version of the paper's recursion; prior, false alarms, delays."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from switchmdp.compiled import JIT
from switchmdp.errors import InvalidParameter
from switchmdp.mdp import Pairs
from switchmdp.restarts import BOCPD
from switchmdp.restarts.glr import kept_at
from switchmdp.special_functions import log_rewards

needs_speed = pytest.mark.skipif(not JIT, reason="many visits are for machine code")


def log_weights(xs: Any, n_symbols: int, weight: float) -> Any:
    """After each x: log ϑ_s of all hypotheses s = 1 … n, unpruned, by the paper's recursion.

    Those of s < n lose by their own prediction of x_n; that of s = n is entered with what s = 1
    had before x_n. The prior of s = 1 is 1, of all others w/n.
    """
    counts, losses = np.zeros((0, n_symbols)), np.zeros(0)
    for x in xs:
        entered = losses[0] if len(losses) else 0.0
        counts = np.vstack([counts, np.zeros(n_symbols)])
        losses = np.append(losses, entered)
        losses -= np.log((counts[:, x] + 1.0) / (counts.sum(axis=1) + n_symbols))
        counts[:, x] += 1.0
        prior = np.full(len(losses), weight / len(losses))
        prior[0] = 1.0
        yield np.log(prior) - losses


def unpruned(xs: Any, n_symbols: int, weight: float) -> int:
    """The visit at which some hypothesis beats "no change", or the last."""
    for n, logs in enumerate(log_weights(xs, n_symbols, weight), 1):
        if n > 1 and logs[1:].max() > logs[0]:
            return n
    return len(xs)


def test_laplaces_predictions_multiply_to_the_closed_form() -> None:
    xs = [0, 1, 1, 0, 1, 1, 1]
    loss = -sum(math.log((xs[:i].count(x) + 1) / (i + 2)) for i, x in enumerate(xs))
    assert log_rewards(7.0, 5.0) == pytest.approx(-loss, rel=1e-10)


@pytest.mark.parametrize("n_symbols", [2, 5])
def test_the_weights_match_the_papers_recursion(n_symbols: int) -> None:
    """At visit 48 it holds the hypotheses 4, 8, …, 44 visits old: all weigh what the paper says."""
    rng = np.random.default_rng(n_symbols)
    xs = rng.integers(0, n_symbols, 48)
    *_, logs = log_weights(xs, n_symbols, 1e-3)
    detector = BOCPD(weight=1e-3, rewards=False)
    detector.allocate(Pairs.of(n_symbols, 1))
    now, past = detector.now, detector.past
    for i, x in enumerate(xs):
        detector.watch(np.zeros(1, np.uint32), xs[i : i + 1].astype(np.uint32), np.zeros(1), 1)
        detector.log_emptied()
        assert detector.visits[0] == i + 1
        assert not detector.found, x
    columns = detector.columns
    past[detector.width + 2 :: columns] = -np.inf  # weigh them all again
    for age in range(1, 12):  # times 4 visits
        there = kept_at(0, 12 - age, columns)
        above = logs[48 - 4 * age] - logs[0] + detector.threshold(48)
        assert detector.differ(now, past, 0, 0, 48, 2, age, age, above - 1e-9)
        past[there + detector.width + 2] = -np.inf
        assert not detector.differ(now, past, 0, 0, 48, 2, age, age, above + 1e-9)


@needs_speed
@pytest.mark.parametrize("n_symbols", [2, 4])
def test_pruning_delays_detection_only_a_little(
    n_symbols: int, first_visit: Callable[..., int]
) -> None:
    """Means of 60 runs on rewards, w = 0.05/30: what pruning loses is 2-4 visits or a fifth.

    p before → after   change at   unpruned   pruned
    0.1 → 0.9          300           8.5       10.5
    0.5 → 0.9          300          38.3       42.5
    0.2 → 0.4          1000        167.0      192.5
    0.02 → 0.1         1000        324.4      380.8
    """
    rng, exact, pruned = np.random.default_rng(n_symbols), [], []
    for _ in range(12):
        rows = np.full((2, n_symbols), 0.4 / (n_symbols - 1))
        rows[0, 0] = rows[1, 1] = 0.6
        xs = np.concatenate([rng.choice(n_symbols, 250, p=row) for row in rows])
        detector = BOCPD(weight=1e-3, rewards=False)
        pruned.append(first_visit(detector, xs, np.zeros(500), n_symbols) - 250)
        exact.append(unpruned(xs, n_symbols, 1e-3) - 250)
    assert all(b >= a for a, b in zip(exact, pruned, strict=True))
    assert np.mean(pruned) <= 1.25 * np.mean(exact) + 4.0


@needs_speed
def test_rewards_are_watched_unless_switched_off(first_visit: Callable[..., int]) -> None:
    rewards = np.repeat([0.0, 1.0], 200)
    assert 204 <= first_visit(BOCPD(), np.zeros(400), rewards) <= 216
    assert first_visit(BOCPD(rewards=False), np.zeros(400), rewards) == 400


@needs_speed
def test_false_alarms_under_the_prior_are_as_rare_as_delta(
    alarms_on_nothing: Callable[..., int],
) -> None:
    """Of 400 runs of 100 000 steps at δ = 0.1, 11 alarmed; δ (1 + log n) promises less than all."""
    assert alarms_on_nothing(lambda: BOCPD(0.1), 150) <= 15


@needs_speed
def test_the_prior_of_the_papers_experiments_almost_always_raises_false_alarms(
    alarms_on_nothing: Callable[..., int],
) -> None:
    assert alarms_on_nothing(lambda: BOCPD(weight=1.0), 20) >= 18


def test_the_default_prior_shares_delta_among_the_streams() -> None:
    for rewards, streams in ((True, 30), (False, 15)):
        detector = BOCPD(0.1, rewards=rewards)
        detector.allocate(Pairs.of(5, 3))
        assert detector.threshold(50) == pytest.approx(math.log(50 * streams / 0.1), rel=1e-12)


@pytest.mark.parametrize(
    ("field", "parameters"),
    [("delta", {"delta": 0}), ("weight", {"weight": -1.0}), ("rewards", {"rewards": 1})],
)
def test_bad_parameters_are_rejected_by_name(field: str, parameters: dict[str, Any]) -> None:
    with pytest.raises(InvalidParameter, match=field):
        BOCPD(**parameters)
