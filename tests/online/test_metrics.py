"""The metrics for Prometheus are well formed and correct."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.online.serving import Client, serving

from switchmdp.agents import SWUCRL
from switchmdp.online import Decisions

SAMPLE = re.compile(r'(\w+)(\{\w+="[^"\n]*"(?:,\w+="[^"\n]*")*\})? (NaN|[+-]Inf|-?[0-9.e+-]+)')
ENDS = ("_bucket", "_sum", "_count")


@pytest.fixture
def client(tmp_path: Path) -> Iterator[Client]:
    agent = SWUCRL(3, 2, window=4)
    with (
        Decisions(agent, tmp_path / "data", sync=False) as decisions,
        serving(decisions) as found,
    ):
        yield found


def _told(client: Client) -> dict[str, float]:
    """All samples; each must belong to a metric that was described just before it."""
    answer = client.ask("GET", "/metrics")
    assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    found: dict[str, float] = {}
    name = kind = ""
    for line in answer.body.decode().splitlines():
        if line.startswith("# HELP "):
            name = line.split()[2]
            assert line.partition(name)[2].strip()
        elif line.startswith("# TYPE "):
            _, _, described, kind = line.split()
            assert described == name
            assert kind in ("counter", "gauge", "histogram")
            assert (kind == "counter") == name.endswith("_total")
        else:
            sample = SAMPLE.fullmatch(line)
            assert sample is not None, line
            ends = ENDS if kind == "histogram" else ("",)
            assert sample[1] in [name + end for end in ends]
            key = sample[1] + (sample[2] or "")
            assert key not in found
            found[key] = float(sample[3])
    return found


def test_metrics_count_events(client: Client) -> None:
    waiting, *answered = (client.decide(state=0)["id"] for _ in range(4))
    for decision in answered:
        client.feedback(decision, 1, 0)
    client.feedback(answered[0], 1, 0)
    client.feedback(answered[0], 0, 0)
    client.feedback(waiting, 7, 0)
    client.ask("GET", "/nowhere")
    told = _told(client)
    feedback = "switchmdp_feedback_total"
    expected = {
        "switchmdp_decisions_total": 4,
        "switchmdp_decisions_pending": 1,
        "switchmdp_decisions_expired_total": 0,
        "switchmdp_feedback_learned_total": 3,
        f'{feedback}{{outcome="counted",reason=""}}': 3,
        f'{feedback}{{outcome="duplicate",reason=""}}': 1,
        f'{feedback}{{outcome="refused",reason="ConflictingFeedback"}}': 1,
        f'{feedback}{{outcome="refused",reason="InvalidReward"}}': 1,
        'switchmdp_requests_total{route="/decisions",status="201"}': 4,
        'switchmdp_requests_total{route="/decisions/{id}/feedback",status="409"}': 1,
        'switchmdp_requests_total{route="other",status="404"}': 1,
        'switchmdp_request_seconds_count{route="/decisions"}': 4,
        'switchmdp_request_seconds_bucket{route="/decisions",le="+Inf"}': 4,
        "switchmdp_window_steps": 4,
        "switchmdp_window_fill": 0.75,
        "switchmdp_log_records_total": 7,
        "switchmdp_log_failed": 0,
        "switchmdp_snapshot_failed": 0,
    }
    assert {name: told[name] for name in expected} == expected
    assert told["switchmdp_episodes_total"] >= 1
    assert told["switchmdp_snapshot_age_seconds"] >= 0


def test_histogram_buckets_are_cumulative(client: Client) -> None:
    client.decide(state=0)
    told = _told(client)
    buckets = [
        n for name, n in told.items()
        if name.startswith('switchmdp_request_seconds_bucket{route="/decisions",')
    ]  # fmt: skip
    assert buckets == sorted(buckets)
    assert told['switchmdp_request_seconds_sum{route="/decisions"}'] > 0
