"""The bootstrap: closed forms, coverage, and comparison with explicit resampling."""

from __future__ import annotations

import math

import numpy as np
import pytest

from switchmdp.reports import resampling
from switchmdp.reports.resampling import (
    Interval,
    band,
    band_and_growth,
    interquartile_mean,
    interval,
    intervals,
    mean,
    ratio_of_means,
)

NAN = float("nan")


def test_the_band_of_one_problem_has_zero_width() -> None:
    curve = [0.1, 0.7, 1 / 3]
    estimate = band([1, 2, 3], [curve])
    assert estimate.times.tolist() == [1, 2, 3]
    assert estimate.low.tolist() == estimate.middle.tolist() == estimate.high.tolist() == curve


def test_an_interval_of_many_normal_rows_is_two_standard_errors_wide() -> None:
    rows = np.random.default_rng(1).normal(5.0, 2.0, size=1000)
    estimate = interval(rows)
    error = rows.std() / math.sqrt(len(rows))
    assert estimate.middle == pytest.approx(rows.mean())
    assert estimate.low == pytest.approx(rows.mean() - 1.96 * error, abs=0.25 * error)
    assert estimate.high == pytest.approx(rows.mean() + 1.96 * error, abs=0.25 * error)


def test_intervals_cover_the_true_mean_about_95_percent_of_the_time() -> None:
    generator = np.random.default_rng(2)
    covered = 0
    for _ in range(400):
        estimate = interval(generator.exponential(1.0, size=200), resamples=500)
        covered += estimate.low <= 1.0 <= estimate.high
    assert 0.90 < covered / 400 < 0.98


def test_a_resample_draws_n_of_n_rows_uniformly() -> None:
    counts = resampling._counts(50, 4000, 7, 0)
    assert (counts.sum(axis=1) == 50).all()
    assert np.abs(counts.mean(axis=0) - 1).max() < 0.1
    assert counts.var() == pytest.approx(1 - 1 / 50, abs=0.02)


def test_an_interval_depends_only_on_the_rows_and_the_seed() -> None:
    rows = np.random.default_rng(3).normal(size=40)
    assert interval(rows) == interval(rows.copy())
    assert interval(rows) != interval(rows, seed=1)


def test_columns_are_resampled_together() -> None:
    rows = np.random.default_rng(4).normal(size=(30, 1))
    estimate = band([1, 2, 3], np.hstack([rows, 2 * rows, rows]))
    assert estimate.low[0] == pytest.approx(estimate.low[2])
    assert estimate.low[1] == pytest.approx(2 * estimate.low[0])
    assert estimate.low[0] == pytest.approx(interval(rows[:, 0]).low)


def close_to(expected: Interval) -> tuple[object, object, object]:
    return tuple(
        pytest.approx(x, rel=1e-12, nan_ok=True)
        for x in (expected.middle, expected.low, expected.high)
    )  # type: ignore[return-value]  # of length 3


def test_each_column_has_the_interval_that_it_has_alone() -> None:
    rows = np.random.default_rng(7).normal(3.0, size=(40, 6))
    rows[5, [1, 3]] = rows[6, 2] = NAN
    rows[:, 4] = NAN
    for column, estimate in zip(rows.T, intervals(rows), strict=True):
        assert (estimate.middle, estimate.low, estimate.high) == close_to(interval(column))
    assert intervals(np.zeros((40, 0))) == []


def test_each_ratio_has_the_interval_that_it_has_alone() -> None:
    rows = np.random.default_rng(8).normal(3.0, size=(40, 2, 5))
    rows[5, 0, 1] = rows[6, 1, 2] = NAN
    for j, estimate in enumerate(intervals(rows, ratio_of_means)):
        expected = close_to(interval(rows[:, :, j], ratio_of_means))
        assert (estimate.middle, estimate.low, estimate.high) == expected


def test_growth_is_the_band_of_the_differences() -> None:
    rows = np.random.default_rng(9).gamma(2.0, size=(30, 8)).cumsum(axis=1)
    rows[3, 4] = NAN
    starts = np.array([0, 0, 0, 2, 2, 5, 5, 5])
    curve, growth = band_and_growth(np.arange(8), rows, starts)
    pairs = ((curve, rows), (growth, rows - rows[:, starts]))
    for actual, explicit in pairs:
        # A row that lacks one point is left out at all points of both curves.
        expected = band(np.arange(8), np.delete(explicit, 3, axis=0))
        for name in ("middle", "low", "high"):
            assert getattr(actual, name) == pytest.approx(getattr(expected, name), abs=1e-12)


def test_rows_with_a_nan_are_left_out() -> None:
    complete = [[1.0, 2.0], [3.0, 5.0]]
    estimate = band([1, 2], [complete[0], [NAN, 9.0], complete[1], [9.0, NAN]])
    expected = band([1, 2], complete)
    assert estimate.middle.tolist() == expected.middle.tolist() == [2.0, 3.5]
    assert estimate.high.tolist() == expected.high.tolist()


@pytest.mark.parametrize("rows", [[], [NAN], [NAN, NAN]])
def test_without_rows_everything_is_nan(rows: list[float]) -> None:
    estimate = interval(rows)
    assert all(map(math.isnan, (estimate.middle, estimate.low, estimate.high)))
    curve = band([1, 2], np.array([[row, row] for row in rows]).reshape(-1, 2))
    assert curve.middle.shape == (2,)
    assert np.isnan([curve.middle, curve.low, curve.high]).all()


def test_the_interval_of_equal_rows_contains_their_value() -> None:
    for value in (0.1, 1 / 3, -7.7, 1e9 / 7):
        estimate = interval([value] * 37)
        assert estimate.low <= estimate.middle <= estimate.high
        assert estimate.high - estimate.low <= 1e-12 * abs(value)


def test_many_rows_are_resampled_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = np.random.default_rng(5).normal(size=100)
    largest = 0
    seen = set()

    def watched(counts: resampling.Floats, data: resampling.Floats) -> resampling.Floats:
        nonlocal largest
        largest = max(largest, counts.size)
        seen.add(counts.tobytes())
        return mean(counts, data)

    monkeypatch.setattr(resampling, "BLOCK", 1050)
    estimate = interval(rows, watched, resamples=1999)
    assert largest == 1000
    assert len(seen) == 200 + 1  # all blocks differ; one more call computes the estimate
    error = rows.std() / 10
    assert estimate.high - estimate.low == pytest.approx(2 * 1.96 * error, rel=0.1)


def test_a_resampled_interquartile_mean_matches_the_drawn_rows() -> None:
    generator = np.random.default_rng(6)
    for n in range(1, 12):
        rows = generator.integers(-5, 5, size=n).astype(float)
        drawn = generator.integers(n, size=(20, n))
        counts = np.array([np.bincount(row, minlength=n) for row in drawn], dtype=float)
        expected = []
        for row in drawn:
            # Repeat each row four times, so that a quarter of the rows is a whole number.
            fine = np.sort(np.repeat(rows[row], 4))
            expected.append(fine[n : 3 * n].mean())
        assert interquartile_mean(counts, rows) == pytest.approx(np.array(expected))


def test_interquartile_means_do_not_depend_on_the_size_of_the_pieces(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rows = np.random.default_rng(10).normal(size=50)
    counts = resampling._counts(50, 101, 7, 0)
    whole = interquartile_mean(counts, rows)
    for size in (1, 50, 333):
        monkeypatch.setattr(resampling, "IN_CACHE", size)
        assert interquartile_mean(counts, rows) == pytest.approx(whole, rel=1e-12)


def test_a_ratio_of_means_is_not_a_mean_of_ratios() -> None:
    rows = np.array([[1.0, 1.0], [9.0, 3.0]])
    assert ratio_of_means(np.ones((1, 2)), rows).tolist() == [2.5]


def test_the_ratio_of_rows_to_themselves_is_exactly_one() -> None:
    rows = np.random.default_rng(7).exponential(size=333)
    assert interval(np.column_stack([rows, rows]), ratio_of_means) == resampling.Interval(1, 1, 1)


def test_a_ratio_to_a_mean_that_may_not_be_positive_has_no_interval() -> None:
    estimate = interval([[1.0, 3.0], [1.0, -1.0]], ratio_of_means)
    assert estimate.middle == 1.0
    assert math.isnan(estimate.low)
    assert math.isnan(estimate.high)
