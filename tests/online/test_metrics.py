"""The metrics for Prometheus are well formed and correct."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families
from tests.online.serving import Client, serving

from switchmdp.agents import Random
from switchmdp.online import Decisions

Told = dict[tuple[str, frozenset[tuple[str, str]]], float]


@pytest.fixture
def client(tmp_path: Path) -> Iterator[Client]:
    with (
        Decisions(Random(3, 2, seed=0), tmp_path / "data", sync=False) as decisions,
        serving(decisions) as found,
    ):
        yield found


def _told(client: Client) -> Told:
    """All samples, read by the parser of the Prometheus client."""
    answer = client.ask("GET", "/metrics")
    assert answer.headers["content-type"].startswith("text/plain; version=")
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(answer.body.decode())
        for sample in family.samples
    }


def _key(name: str, **labels: str) -> tuple[str, frozenset[tuple[str, str]]]:
    return f"switchmdp_{name}", frozenset(labels.items())


def test_metrics_count_events(client: Client) -> None:
    waiting, *answered = (client.decide(state=0, available=[1])["id"] for _ in range(4))
    for decision in answered:
        client.feedback(decision, 0.5, 0)
    client.feedback(answered[0], 0.5, 0)
    client.feedback(answered[0], 0, 0)
    client.feedback(waiting, 7, 0)
    client.ask("GET", "/nowhere")
    told = _told(client)
    of_action = {"model": "main", "arm": "main", "action": "1"}
    expected = {
        _key("decisions_total", **of_action): 4,
        _key("feedback_total", **of_action): 3,
        _key("reward_total", **of_action): 1.5,
        _key("mean_reward", model="main", arm="main"): 0.5,
        _key("mean_reward_low", model="main", arm="main"): 0.0,
        _key("mean_reward_high", model="main", arm="main"): 1.0,
        _key("pending_decisions", model="main"): 1,
        _key("expired_decisions_total", model="main"): 0,
        _key("detected_changes_total", model="main"): 0,
        _key("plans_total", model="main"): 0,
        _key("feedback_requests_total", outcome="counted", reason=""): 3,
        _key("feedback_requests_total", outcome="duplicate", reason=""): 1,
        _key("feedback_requests_total", outcome="refused", reason="ConflictingFeedback"): 1,
        _key("feedback_requests_total", outcome="refused", reason="InvalidReward"): 1,
        _key("requests_total", route="/decisions", status="201"): 4,
        _key("requests_total", route="/decisions/{id}/feedback", status="409"): 1,
        _key("requests_total", route="other", status="404"): 1,
        _key("request_seconds_count", route="/decisions"): 4,
        _key("request_seconds_bucket", route="/decisions", le="+Inf"): 4,
        _key("models_loaded"): 1,
        _key("database_failed"): 0,
    }
    assert {name: told[name] for name in expected} == expected
    assert told[_key("commit_seconds_count")] >= 4
    assert told[_key("models_bytes")] > 0


def test_the_totals_of_a_model_survive_a_restart(tmp_path: Path) -> None:
    with Decisions(Random(3, 2, seed=0), tmp_path, sync=False) as decisions:
        decisions.feedback(decisions.decide(0, available=[1]).id, 1.0, 2)
    with Decisions(None, tmp_path) as decisions, serving(decisions) as client:
        told = _told(client)
    assert told[_key("reward_total", model="main", arm="main", action="1")] == 1.0


def test_arms_have_their_mean_reward_and_its_confidence_sequence(tmp_path: Path) -> None:
    with (
        Decisions(Random(1, 2), tmp_path / "data", sync=False) as decisions,
        serving(decisions) as client,
    ):
        decisions.set_arms([
            {"name": "control", "share": 0.5, "policy": [1]},
            {"name": "unused", "share": 0.0, "policy": [0]},
        ])  # fmt: skip
        for i in range(1000):
            asked = decisions.decide(0)
            decisions.feedback(asked.id, float(asked.action == 1 and i % 2), 0)
        told = _told(client)
        arms = client.ask("GET", "/arms").json["arms"]
    for arm in arms[:2]:
        assert 0 < arm["low"] < arm["mean_reward"] < arm["high"] < 1
        for name, value in (("", "mean_reward"), ("_low", "low"), ("_high", "high")):
            assert told[_key(f"mean_reward{name}", model="main", arm=arm["name"])] == arm[value]
    assert _key("mean_reward", model="main", arm="unused") not in told
