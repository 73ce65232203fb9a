"""Segments, bumps, adaptation and detection: known curves, and a literal implementation."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from switchmdp.errors import InvalidParameter
from switchmdp.experiments.results import Setting, as_setting
from switchmdp.reports.measures import (
    MOST_SEGMENTS,
    Adaptation,
    adaptation_by_segment,
    adaptation_times,
    bump_rows,
    bumps,
    detection,
    regret_curves,
    segment_boundaries,
    segment_regret,
)
from switchmdp.reports.resampling import Interval

NAN = float("nan")


def changing(rows: list[list[float]], times: list[int], points: list[list[int]]) -> Setting:
    """One agent on problems with different change points."""
    setting = as_setting(times, {"a": rows})
    return replace(setting, change_points=tuple(np.array(row, dtype=np.int64) for row in points))


def test_change_points_past_the_horizon_start_no_segment() -> None:
    setting = changing([[1, 2]], [50, 100], [[2, 100, 101, 500]])
    assert segment_boundaries(setting).tolist() == [[0, 1, 99, 100]]


def test_the_boundaries_of_many_problems_are_those_of_each_problem() -> None:
    rng = np.random.default_rng(5)
    sizes = [0, 1, 3, MOST_SEGMENTS - 1, MOST_SEGMENTS, MOST_SEGMENTS + 9]
    points = [sorted(rng.choice(np.arange(2, 310), size=k, replace=False).tolist()) for k in sizes]
    setting = changing([[1, 2]] * len(points), [150, 300], points)
    boundaries = segment_boundaries(setting)
    for row, own in zip(boundaries, points, strict=True):
        ends = [point - 1 for point in own if point <= 300] + [300]
        expected = [0, *ends[:MOST_SEGMENTS]]
        assert row[: len(expected)].tolist() == expected
        assert np.isnan(row[len(expected) :]).all()
    assert boundaries.shape[1] == 1 + MOST_SEGMENTS
    assert segment_boundaries(replace(setting, change_points=())).shape == (0, 2)


def test_regrets_of_all_segments_add_up_to_the_total() -> None:
    rows = np.random.default_rng(2).normal(size=(5, 10)).cumsum(axis=1)
    points = [[2], [31, 57], [], [10, 11, 12], [100]]
    setting = changing(rows.tolist(), list(range(10, 101, 10)), points)
    for i in range(5):
        one = replace(
            changing([rows[i].tolist()], list(range(10, 101, 10)), [points[i]]), name="one"
        )
        earned = [mean.middle for mean in segment_regret(one, "a")]
        assert len(earned) == len(points[i]) + 1
        assert sum(earned) == pytest.approx(rows[i, -1])
    assert len(segment_regret(setting, "a")) == 4


def test_regret_between_recorded_steps_is_interpolated() -> None:
    # Steps 1 to 5 are the first half of a cell of 10 steps with regret 8.
    setting = changing([[8, 10]], [10, 20], [[6]])
    assert [mean.middle for mean in segment_regret(setting, "a")] == [4.0, 6.0]


def test_a_segment_is_measured_on_the_problems_that_have_it() -> None:
    setting = changing([[1, 3], [10, 30], [NAN, NAN]], [10, 20], [[11], [], [11]])
    assert [mean.middle for mean in segment_regret(setting, "a")] == [15.5, 2.0]


def test_only_the_first_64_segments_are_measured() -> None:
    setting = changing([[float(t) for t in range(1, 201)]], list(range(1, 201)), [[*range(2, 201)]])
    assert segment_boundaries(setting).shape == (1, 1 + MOST_SEGMENTS)
    assert [mean.middle for mean in segment_regret(setting, "a")] == [1] * MOST_SEGMENTS
    assert list(bumps(setting, "a", 1)) == [*range(1, MOST_SEGMENTS)]


def test_a_bump_is_regret_after_a_change_minus_regret_before_it() -> None:
    setting = changing([[1, 2, 7, 9]], [10, 20, 30, 40], [[21]])
    assert bumps(setting, "a", 10) == {1: Interval(4, 4, 4)}
    assert bumps(setting, "a", 20) == {1: Interval(5, 5, 5)}
    assert bumps(setting, "a", 21) == {}


def test_no_bump_is_measured_near_another_change_or_an_end_of_the_run() -> None:
    times = list(range(1, 101))
    line = [float(t) for t in times]
    setting = changing([line, line], times, [[11, 31, 41, 91], [51]])
    rows = bump_rows(setting, "a", 10)
    assert np.isnan(rows).tolist() == [[False, False, False, False], [False, True, True, True]]
    rows = bump_rows(setting, "a", 11)
    assert np.isnan(rows).tolist() == [[True] * 4, [False, True, True, True]]
    assert list(bumps(setting, "a", 11)) == [1]
    with pytest.raises(InvalidParameter, match="span"):
        bumps(setting, "a", 0)


def literal_adaptation(setting: Setting, i: int, epsilon: float) -> list[float]:
    """Implement the definition literally."""
    row = regret_curves(setting, "a", pseudo=True)[i]
    points = [(0, 0.0), *zip(setting.times.tolist(), row.tolist(), strict=True)]
    delays = []
    boundaries = segment_boundaries(setting)[i]
    for before, last in pairwise(boundaries[~np.isnan(boundaries)].astype(int).tolist()):
        windows = []
        for t, regret in points:
            end = next(((u, r) for u, r in points if u >= t + 1000), None)
            if t >= before and end is not None and end[0] <= last:
                windows.append((t, (end[1] - regret) / (end[0] - t) <= epsilon))
        good_from = [t for k, (t, _) in enumerate(windows) if all(ok for _, ok in windows[k:])]
        if not windows or np.isnan(row).any():
            delays.append(NAN)
        else:
            delays.append(float(good_from[0] - before) if good_from else math.inf)
    return delays


@pytest.mark.parametrize("every", [100, 250, 300, 1500])
def test_adaptation_times_match_a_literal_implementation(every: int) -> None:
    generator = np.random.default_rng(every)
    times = [*range(every, 12_000, every), 12_000]
    rates = generator.choice([0.0, 0.05, 0.3], p=[0.6, 0.3, 0.1], size=(40, len(times)))
    rows = np.cumsum(rates * np.diff([0, *times]), axis=1)
    rows[7] = NAN
    points = [sorted({*generator.integers(2, 14_000, size=i % 5).tolist()}) for i in range(40)]
    setting = changing(rows.tolist(), times, points)
    delays = adaptation_times(setting, "a", 0.1)
    for i in range(40):
        expected = literal_adaptation(setting, i, 0.1)
        np.testing.assert_array_equal(delays[i, : len(expected)], expected)
        assert np.isnan(delays[i, len(expected) :]).all()
    kinds = {
        "never": np.isinf(delays),
        "immediately": delays == 0,
        "later": (delays > 0) & (delays < 1e9),
    }
    assert all(kind.any() for kind in kinds.values())


def test_an_agent_that_loses_again_later_has_not_adapted() -> None:
    def setting(*cells: float) -> Setting:
        times = [1000 * (i + 1) for i in range(len(cells))]
        return changing([np.cumsum(cells).tolist()], times, [[]])

    assert adaptation_times(setting(500, 0, 0), "a", 0.1).tolist() == [[1000]]
    assert adaptation_times(setting(500, 0, 500, 0), "a", 0.1).tolist() == [[3000]]
    assert adaptation_times(setting(0, 0, 500), "a", 0.1).tolist() == [[math.inf]]
    assert adaptation_times(setting(-50, 0), "a", 0.1).tolist() == [[0]]


def test_adaptation_is_summarised_by_the_median_and_the_share_that_never_adapts() -> None:
    rows: list[list[float]] = [[0, 0], [500, 500], [500, 500], [0, 500], [NAN, NAN]]
    setting = changing(rows, [1000, 2000], [[]] * 5)
    assert adaptation_by_segment(setting, "a", 0.1) == (Adaptation(1000.0, 0.25),)
    short = changing([[0, 0]], [1000, 2000], [[1500]])
    (first, second) = adaptation_by_segment(short, "a", 0.1)
    assert first.median == 0
    assert math.isnan(second.median)
    assert math.isnan(second.never)


def restarted(changes: Sequence[int], *runs: Sequence[int] | None) -> Setting:
    """An agent `a` that restarted at these steps of 1000, one run per problem."""
    setting = as_setting([500, 1000], {"a": [[0, 0]] * len(runs)}, changes)
    steps = tuple(None if run is None else np.array(run, np.int64) for run in runs)
    return replace(setting, agents={"a": replace(setting.agents["a"], restarts=steps)})


def test_the_first_restart_after_a_change_detects_it_and_others_are_false_alarms() -> None:
    score = detection(restarted([101, 501], [50, 111, 300, 503]), "a")
    assert score is not None
    assert score.detected.middle == 1.0
    assert score.delay == 10.0  # of 2 and 10, the later one
    assert score.false_alarms.middle == 200.0  # 2 in 1000 steps


def test_a_restart_at_the_step_of_a_change_is_a_false_alarm() -> None:
    score = detection(restarted([101], [101]), "a")
    assert score is not None
    assert (score.detected.middle, score.false_alarms.middle) == (0.0, 100.0)


def test_a_restart_after_the_next_change_does_not_detect_the_first_one() -> None:
    score = detection(restarted([101, 501], [502]), "a")
    assert score is not None
    assert score.detected.middle == 0.5
    assert score.delay == np.inf
    assert score.false_alarms.middle == 0.0


def test_the_median_delay_is_over_all_changes_of_all_problems() -> None:
    score = detection(restarted([101], [105], [110], [200]), "a")
    assert score is not None
    assert score.delay == 9.0


def test_changes_at_the_last_step_or_later_are_not_counted() -> None:
    score = detection(restarted([1000, 2000], []), "a")
    assert score is not None
    assert np.isnan(score.detected.middle)
    assert np.isnan(score.delay)


def test_runs_without_recorded_restarts_are_left_out() -> None:
    score = detection(restarted([101], None, [105]), "a")
    assert score is not None
    assert score.detected.middle == 1.0
    assert detection(restarted([101], None, None), "a") is None
    assert detection(as_setting([10], {"a": [[0]]}), "a") is None
