"""Verdicts on claims: when each outcome is reached."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from switchmdp.experiments.results import Results, as_setting
from switchmdp.experiments.spec import Claim
from switchmdp.reports.tables import FEWEST, Verdict, by_sentence, judge, judge_all

NAN = float("nan")
NOISE = np.linspace(-1.0, 1.0, 20)


def a_claim(measure: Any, **rest: Any) -> Claim:
    defaults = {
        "quote": "so it is",
        "reading": "as read",
        "setting": "s",
        "agent": "a",
        "than": "b",
    }
    return Claim(measure=measure, **{**defaults, **rest})


def compared(measure: str, a: Any, b: Any, **rest: Any) -> Verdict:
    rows = {name: np.reshape(values, (-1, 1)) for name, values in (("a", a), ("b", b))}
    results = Results("", 0.1, {"s": as_setting([10], rows)})
    return judge(results, a_claim(measure, **rest))


def bumped(after: Any, *, points: tuple[int, ...] = (11,), span: int = 10) -> Verdict:
    """Regret grows by 1 before the first change and then by `after`, for each problem."""
    rows = np.cumsum(np.column_stack([np.ones(len(after)), after]), axis=1)
    times = [10 * (i + 1) for i in range(rows.shape[1])]
    results = Results("", 0.1, {"s": as_setting(times, {"a": rows}, points)})
    return judge(results, a_claim("bumps", than=None, span=span))


@pytest.mark.parametrize(
    ("shift", "outcome"),
    [(-1.0, "reproduced"), (1.0, "not reproduced"), (0.1, "undecided"), (-0.1, "undecided")],
)
def test_better_is_decided_by_the_sign_of_the_difference(shift: float, outcome: str) -> None:
    verdict = compared("better", 10 + shift + NOISE, np.full(20, 10.0))
    assert verdict.outcome == outcome
    (change,) = verdict.intervals
    assert change.middle == pytest.approx(shift)
    assert f"{10 * shift:.1f} %" in verdict.text
    assert "on 20 problems" in verdict.text


def test_two_equal_agents_leave_better_undecided() -> None:
    assert compared("better", 10 + NOISE, 10 + NOISE).outcome == "undecided"


@pytest.mark.parametrize(
    ("factor", "outcome", "word"),
    [
        (1.1, "reproduced", ""),
        (1.25, "reproduced", ""),
        (1.4, "not reproduced", "above 1.25"),
        (0.9, "not reproduced", "not worse"),
        (1.0, "not reproduced", "not worse"),
    ],
)
def test_slightly_worse_is_a_ratio_above_one_and_within_the_margin(
    factor: float, outcome: str, word: str
) -> None:
    base = 100.0 * 2.0 ** np.arange(8)
    verdict = compared("slightly-worse", factor * base, base)
    assert verdict.outcome == outcome
    assert word in verdict.text
    assert verdict.intervals[0].middle == pytest.approx(factor)


@pytest.mark.parametrize("factor", [0.999, 1.001, 1.249, 1.251])
def test_a_ratio_whose_interval_contains_a_threshold_is_undecided(factor: float) -> None:
    verdict = compared("slightly-worse", 10 * factor + NOISE, np.full(20, 10.0))
    assert verdict.outcome == "undecided"


def test_a_claim_may_set_its_own_margin() -> None:
    base = np.full(8, 64.0)
    assert compared("slightly-worse", 1.5 * base, base, margin=0.5).outcome == "reproduced"
    assert compared("slightly-worse", 1.5 * base, base, margin=0.25).outcome == "not reproduced"


@pytest.mark.parametrize(
    ("factor", "outcome", "word"),
    [
        (0.96, "reproduced", ""),
        (1.04, "reproduced", ""),
        (1.2, "not reproduced", "above 1.10"),
        (0.8, "not reproduced", "below 0.90"),
    ],
)
def test_close_is_a_ratio_within_the_margin_on_both_sides(
    factor: float, outcome: str, word: str
) -> None:
    base = 100.0 * 2.0 ** np.arange(8)
    verdict = compared("close", factor * base, base, margin=0.1)
    assert verdict.outcome == outcome
    assert word in verdict.text


@pytest.mark.parametrize("factor", [0.899, 0.901, 1.099, 1.101])
def test_a_ratio_whose_interval_contains_a_margin_of_close_is_undecided(factor: float) -> None:
    verdict = compared("close", 10 * factor + NOISE, np.full(20, 10.0), margin=0.1)
    assert verdict.outcome == "undecided"


def test_a_ratio_to_an_agent_without_regret_is_undecided() -> None:
    verdict = compared("slightly-worse", 10 + NOISE, NOISE)
    assert verdict.outcome == "undecided"
    assert "not clearly positive" in verdict.text


def test_bumps_are_reproduced_only_if_every_change_shows_one() -> None:
    high, low = 5 + NOISE, -5 + NOISE
    assert bumped(np.column_stack([high])).outcome == "reproduced"
    assert bumped(np.column_stack([low])).outcome == "not reproduced"
    assert bumped(np.column_stack([1 + NOISE])).outcome == "undecided"
    twice = (11, 21)
    assert bumped(np.column_stack([high, 2 * high]), points=twice).outcome == "reproduced"
    verdict = bumped(np.column_stack([high, high - 2]), points=twice)
    assert verdict.outcome == "not reproduced"
    assert "change 2" in verdict.text
    assert len(verdict.intervals) == 2
    assert bumped(np.column_stack([high, high + NOISE]), points=twice).outcome == "undecided"


def test_regret_that_grows_at_the_same_rate_is_not_a_bump() -> None:
    assert bumped(np.ones((8, 1))).outcome == "not reproduced"


def test_bumps_are_not_measured_if_the_span_does_not_fit() -> None:
    verdict = bumped(np.ones((8, 1)), span=11)
    assert verdict.outcome == "not measured"
    assert "11 steps" in verdict.text


@pytest.mark.parametrize("n", [1, FEWEST - 1, FEWEST])
def test_fewer_than_six_problems_leave_a_claim_undecided(n: int) -> None:
    decided = n >= FEWEST
    for verdict in (
        compared("better", [1.0] * n, [2.0] * n),
        compared("slightly-worse", [2.2] * n, [2.0] * n),
        bumped(np.full((n, 1), 9.0)),
    ):
        assert verdict.outcome == ("reproduced" if decided else "undecided")
        assert ("too few" in verdict.text) is not decided


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"setting": "x"}, "no setting 'x'"),
        ({"agent": "x"}, "no agent 'x'"),
        ({"than": "x"}, "no agent 'x'"),
        ({"than": None}, "agent to compare with"),
        ({"agent": "failed"}, "completed by 'failed' and 'b'"),
    ],
)
def test_a_claim_about_missing_results_is_not_measured(wrong: dict[str, Any], words: str) -> None:
    rows = {"a": [[1.0]] * 8, "b": [[2.0]] * 8, "failed": [[NAN]] * 8}
    results = Results("", 0.1, {"s": as_setting([10], rows)})
    verdict = judge(results, a_claim("better", **wrong))
    assert verdict.outcome == "not measured"
    assert words in verdict.text
    assert verdict.intervals == ()


def test_claims_use_only_problems_that_both_agents_completed() -> None:
    verdict = compared("better", [1.0] * 6 + [900.0, NAN], [2.0] * 6 + [NAN, 0.0])
    assert verdict.outcome == "reproduced"
    assert verdict.intervals[0].middle == -1.0
    assert "-50.0 %, on 6 problems" in verdict.text


def test_verdicts_are_in_the_order_of_the_claims() -> None:
    claims = (a_claim("better", agent="x"), a_claim("better"))
    setting = as_setting([10], {"a": [[1.0]] * 8, "b": [[2.0]] * 8})
    verdicts = judge_all(Results("", 0.1, {"s": setting}, claims))
    assert [verdict.claim for verdict in verdicts] == list(claims)
    assert [verdict.outcome for verdict in verdicts] == ["not measured", "reproduced"]


@pytest.mark.parametrize(
    ("outcomes", "overall"),
    [
        (["reproduced", "reproduced"], "reproduced"),
        (["reproduced", "not reproduced"], "reproduced in part"),
        (["undecided", "reproduced"], "reproduced in part"),
        (["not reproduced", "undecided"], "not reproduced"),
        (["undecided", "not measured"], "undecided"),
        (["not measured"], "not measured"),
    ],
)
def test_a_sentence_is_reproduced_if_all_its_claims_are(outcomes: list[Any], overall: str) -> None:
    verdicts = [Verdict(a_claim("better"), "", (), outcome) for outcome in outcomes]
    other = Verdict(a_claim("better", quote="and so is that"), "", (), "undecided")
    first, second = by_sentence([verdicts[0], other, *verdicts[1:]])
    assert first.outcome == overall
    assert first.verdicts == tuple(verdicts)
    assert second.outcome == "undecided"
