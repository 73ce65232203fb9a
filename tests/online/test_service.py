"""The service: requests, answers, errors, and the resulting log."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest
from tests.online.serving import Client, serving

from switchmdp.agents import Random
from switchmdp.online import Decisions, history, rebuild
from switchmdp.online.schemas import DecisionAnswer


def test_a_decision_with_feedback_is_counted_once(client: Client, decisions: Decisions) -> None:
    decision = client.decide(state=1)
    assert decision.keys() == DecisionAnswer.model_fields.keys()
    assert (decision["state"], decision["session"], decision["would"]) == (1, "", None)
    said = [client.feedback(decision["id"], 0.5, 2) for _ in range(2)]
    assert [(answer.status, answer.json) for answer in said] == [
        (200, {"counted": True}),
        (200, {"counted": False}),
    ]
    assert list(history(decisions.database)) == [(1, decision["action"], 0.5, 2)]


def test_each_session_continues_from_its_own_state(client: Client) -> None:
    first, second = client.decide(state=0, session="a"), client.decide(state=1, session="b")
    client.feedback(first["id"], 1, 2)
    client.feedback(second["id"], 0, 0)
    assert [client.decide(session=name)["state"] for name in "ab"] == [2, 0]


def test_actions_can_be_restricted_or_taken_elsewhere(client: Client) -> None:
    assert client.decide(state=0, available=[1])["action"] == 1
    own = client.decide(state=0, taken=1)
    assert own["action"] == 1
    assert own["would"] in (0, 1)


def test_json_ends_with_a_newline_for_terminals(client: Client) -> None:
    for path in ("/healthz", "/models", "/nowhere"):
        answer = client.ask("GET", path)
        assert answer.body.endswith(b"}\n")
        assert int(answer.headers["content-length"]) == len(answer.body)


def test_null_counts_as_a_missing_value(client: Client) -> None:
    decision = client.decide(state=2, session=None, available=None, taken=None)
    assert (decision["state"], decision["session"]) == (2, "")


REFUSED: list[tuple[Any, int, str]] = [
    (b"", 422, "InvalidState"),  # no state, and the session has none
    (b"{", 400, "BadRequest"),
    (b'"state"', 422, "InvalidParameter"),
    (b"[1]", 422, "InvalidParameter"),
    (b'{"state": 1} {}', 400, "BadRequest"),
    (b'{"state": NaN}', 400, "BadRequest"),
    (b'{"state": -Infinity}', 400, "BadRequest"),
    (b'{"state": 1, "state": 1}', 400, "BadRequest"),
    (b'{"state": ' + b"9" * 5000 + b"}", 400, "BadRequest"),
    (b'{"state": ' + b"[" * 30000, 400, "BadRequest"),
    (b'{"state": 1, "session": "\xff"}', 400, "BadRequest"),
    ('{"state": 1}'.encode("utf-16"), 400, "BadRequest"),
    (b'\xef\xbb\xbf{"state": 1}', 400, "BadRequest"),
    ({"state": 1, "stat": 1}, 422, "InvalidParameter"),
    ({"state": 3}, 422, "InvalidState"),
    ({"state": -1}, 422, "InvalidParameter"),
    ({"state": 10**400}, 422, "InvalidState"),
    ({"state": 1.0}, 422, "InvalidParameter"),
    ({"state": True}, 422, "InvalidParameter"),
    ({"state": "1"}, 422, "InvalidState"),  # this model has no names
    ({"state": 1, "session": 1}, 422, "InvalidParameter"),
    ({"state": 1, "session": "x" * 201}, 422, "InvalidParameter"),
    ({"state": 1, "available": []}, 422, "InvalidParameter"),
    ({"state": 1, "available": 0}, 422, "InvalidParameter"),
    ({"state": 1, "available": [[0]]}, 422, "InvalidParameter"),
    ({"state": 1, "available": [2]}, 422, "InvalidAction"),
    ({"state": 1, "taken": 2}, 422, "InvalidAction"),
]


@pytest.mark.parametrize(("content", "status", "name"), REFUSED)
def test_invalid_decision_requests_are_rejected_and_change_nothing(
    client: Client, decisions: Decisions, content: Any, status: int, name: str
) -> None:
    answer = client.ask("POST", "/decisions", content)
    assert (answer.status, answer.error) == (status, name)
    assert 0 < len(answer.json["detail"]) <= 500
    assert decisions.learner.decided == 0


@pytest.mark.parametrize(
    ("content", "status", "name"),
    [
        ({"reward": 2, "next_state": 0}, 422, "InvalidReward"),
        ({"reward": True, "next_state": 0}, 422, "InvalidParameter"),
        (b'{"reward": 1e999, "next_state": 0}', 422, "InvalidReward"),
        ({"reward": 1, "next_state": 3}, 422, "InvalidState"),
        ({"next_state": 1}, 422, "InvalidParameter"),
        ({"next_state": 1, "reward": None}, 422, "InvalidParameter"),
        (b"", 422, "InvalidParameter"),
        (b"{}", 415, "UnsupportedMediaType"),
    ],
)
def test_invalid_feedback_can_be_corrected(
    client: Client, content: Any, status: int, name: str
) -> None:
    decision = client.decide(state=0)["id"]
    headers = {"Content-Type": "text/plain"} if content == b"{}" else {}
    answer = client.ask("POST", f"/decisions/{decision}/feedback", content, headers)
    assert (answer.status, answer.error) == (status, name)
    assert client.feedback(decision, 1, 1).json == {"counted": True}


def test_conflicting_and_expired_feedback_is_rejected(tmp_path: Path) -> None:
    hours = itertools.count(step=3600.0)
    agent = Random(3, 2, seed=0)
    with (
        Decisions(agent, tmp_path / "data", expiry=5000, timer=lambda: next(hours)) as decisions,
        serving(decisions) as client,
    ):
        late, soon = client.decide(state=0)["id"], client.decide(state=0)["id"]
        assert client.feedback(soon, 1, 1).status == 200
        answers = [client.feedback(soon, 0, 1), client.feedback(late, 1, 1)]
        answers += [client.feedback(name, 1, 1) for name in (soon + "0", "1", "%00", "x" * 5000)]
    found = [(answer.status, answer.error) for answer in answers]
    assert found[:2] == [(409, "ConflictingFeedback"), (410, "ForgottenDecision")]
    assert set(found[2:]) == {(404, "UnknownDecision")}


def test_the_content_type_must_be_json(client: Client) -> None:
    """A page of another site can send anything without asking, but not with this header."""
    for kind in ("text/plain", "application/x-www-form-urlencoded", "", "application/jsonp"):
        answer = client.ask("POST", "/decisions", {"state": 1}, {"Content-Type": kind})
        assert (answer.status, answer.error) == (415, "UnsupportedMediaType")
    kind = "Application/JSON; charset=utf-8"
    assert client.ask("POST", "/decisions", {"state": 1}, {"Content-Type": kind}).status == 201


def test_modes_sizes_and_restarts_are_set_and_logged(client: Client, decisions: Decisions) -> None:
    policy = {"mode": "fixed", "policy": [1, 1, 0]}
    assert client.ask("POST", "/mode", policy).json == {"mode": "fixed"}
    assert client.decide(state=0)["action"] == 1
    assert client.ask("POST", "/mode", {"mode": "agent"}).status == 200
    assert client.ask("POST", "/states", {"available": [1]}).json == {"state": 3, "states": 4}
    assert client.decide(state=3)["action"] == 1
    answer = client.ask("POST", "/actions")
    assert (answer.status, answer.json) == (201, {"action": 2, "actions": 3})
    assert client.ask("POST", "/restart").json == {"restarted": True}
    again = rebuild(decisions.database).agent
    assert (again.n_states, again.n_actions, again.since) == (4, 3, decisions.learner.agent.since)


@pytest.mark.parametrize(
    ("path", "content"),
    [
        ("/mode", {}),
        ("/mode", {"mode": "other"}),
        ("/mode", {"mode": "fixed"}),
        ("/mode", {"mode": "fixed", "policy": [0, 0]}),
        ("/mode", {"mode": "shadow", "policy": [0, 0, 2]}),
        ("/states", {"available": []}),
        ("/states", {"available": [2]}),
        ("/states", {"available": [10**30]}),
        ("/actions", {"states": [3]}),
    ],
)
def test_invalid_changes_are_rejected(
    client: Client, decisions: Decisions, path: str, content: Any
) -> None:
    assert client.ask("POST", path, content).status == 422
    learner = decisions.learner
    assert (learner.mode, learner.agent.n_states, learner.agent.n_actions) == ("agent", 3, 2)


def test_unknown_paths_and_methods_are_reported(client: Client) -> None:
    for path in ("/nowhere", "/decisions/", "/decisions/1/feedback/", "//", "/%2e%2e/etc/passwd"):
        answer = client.ask("GET", path)
        assert (answer.status, answer.error) == (404, "NotFound")
        assert answer.json["detail"].endswith("; /docs lists all")
    for method, path, allowed in (
        ("GET", "/decisions", "POST"), ("OPTIONS", "/mode", "POST"), ("TRACE", "/restart", "POST"),
        ("POST", "/models/main", "DELETE, GET, HEAD"), ("POST", "/arms", "GET, HEAD, PUT"),
    ):  # fmt: skip
        answer = client.ask(method, path)
        assert (answer.status, answer.error) == (405, "MethodNotAllowed")
        assert answer.headers["allow"] == allowed
        assert answer.json["detail"] == f"{path} only supports {allowed}"
    assert client.ask("HEAD", "/healthz").body == b""


def test_internal_errors_reveal_no_details(
    client: Client, decisions: Decisions, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(**given: Any) -> None:
        raise RuntimeError("secret")

    monkeypatch.setattr(decisions, "enter_decision", broken)
    answer = client.ask("POST", "/decisions", {"state": 0})
    assert (answer.status, answer.error) == (500, "InternalError")
    assert b"secret" not in answer.body


def test_the_page_has_a_strict_content_security_policy(client: Client) -> None:
    answer = client.ask("GET", "/")
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert answer.headers["content-security-policy"].startswith("default-src 'none'; ")
    for found in (answer, client.ask("GET", "/agent"), client.ask("GET", "/nowhere")):
        assert found.headers["x-content-type-options"] == "nosniff"
        assert found.headers["referrer-policy"] == "no-referrer"
        assert found.headers["cache-control"] == "no-store"
        assert "access-control-allow-origin" not in found.headers
        assert "server" not in found.headers


def test_the_agent_route_works_for_different_agents(tmp_path: Path) -> None:
    with (
        Decisions(Random(3, 2, seed=0), tmp_path / "data") as decisions,
        serving(decisions) as client,
    ):
        assert client.ask("GET", "/agent").json["agent"]["class"] == "Random"
        assert client.ask("GET", "/metrics").status == 200
        assert client.ask("POST", "/restart").status == 422
