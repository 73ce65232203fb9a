"""The service and its disk: shared syncs, back-pressure, and a full disk."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from tests.online.serving import Client, serving

from switchmdp.errors import LogFailed
from switchmdp.online import Decisions, history, rebuild, service
from switchmdp.online.sqlite import SQLite


class Disk:
    """Commits that wait until the test releases them."""

    def __init__(self, decisions: Decisions, monkeypatch: pytest.MonkeyPatch) -> None:
        self.commits, self.begun, self.free = 0, threading.Event(), threading.Event()
        commit = decisions.writer.commit

        def slow(number: int | None = None) -> None:
            self.commits += 1
            self.begun.set()
            assert self.free.wait(60)
            commit(number)

        monkeypatch.setattr(decisions.writer, "commit", slow)


def _wait(for_what: Any) -> None:
    for _ in range(6000):
        if for_what():
            return
        threading.Event().wait(0.01)
    raise AssertionError("waited in vain")


def test_requests_that_wait_for_the_disk_share_one_sync(
    decisions: Decisions, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = Disk(decisions, monkeypatch)
    with serving(decisions) as client, ThreadPoolExecutor(10) as pool:
        answers = [pool.submit(client.decide, state=0)]
        assert disk.begun.wait(60)
        answers += [pool.submit(client.decide, state=0) for _ in range(9)]
        _wait(lambda: decisions.learner.decided == 10)
        assert not any(answer.done() for answer in answers)  # not before it is on disk
        disk.free.set()
        assert len({answer.result()["id"] for answer in answers}) == 10
    assert disk.commits == 2


def test_requests_are_rejected_when_too_many_wait_for_the_disk(
    decisions: Decisions, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service, "MOST_WAITING", 3)
    disk = Disk(decisions, monkeypatch)
    with serving(decisions) as client, ThreadPoolExecutor(4) as pool:
        answers = [pool.submit(client.decide, state=0)]
        assert disk.begun.wait(60)
        answers += [pool.submit(client.decide, state=0) for _ in range(3)]
        _wait(lambda: decisions.learner.decided == 4)
        away = client.ask("POST", "/decisions", {"state": 0})
        assert (away.status, away.headers["retry-after"]) == (429, "1")
        assert client.ask("GET", "/healthz").status == 200
        disk.free.set()
        assert all(answer.result() for answer in answers)
    assert decisions.learner.decided == 4


def test_a_full_disk_is_reported_and_survived(
    client: Client, decisions: Decisions, monkeypatch: pytest.MonkeyPatch
) -> None:
    decision = client.decide(state=0)["id"]

    def full(*given: Any, **named: Any) -> None:
        raise LogFailed(f"{decisions.database} cannot be written: database or disk is full")

    with monkeypatch.context() as patch:
        patch.setattr(SQLite, "append", full)
        answers = [client.feedback(decision, 1, 1), client.ask("POST", "/decisions", {"state": 0})]
        answers += [client.ask("GET", "/readyz"), client.ask("POST", "/restart")]
        assert [(answer.status, answer.error) for answer in answers] == [(503, "LogFailed")] * 4
        assert {answer.headers["retry-after"] for answer in answers} == {"1"}
        assert str(decisions.database) not in answers[2].body.decode()
        assert client.ask("GET", "/agent").status == 200
        assert "switchmdp_database_failed 1.0" in client.ask("GET", "/metrics").body.decode()
        assert decisions.learner.decided == 1  # no event is accepted that cannot be stored
    assert client.ask("GET", "/readyz").json == {"status": "ok"}
    assert client.feedback(decision, 1, 1).json == {"counted": False}
    assert client.decide(state=1)["state"] == 1
    assert [row[2:] for row in history(decisions.database)] == [(1.0, 1)]
    assert rebuild(decisions.database).decided == 2


def test_the_operator_is_told_once_when_the_database_fails_and_once_when_it_is_back(
    decisions: Decisions, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*given: Any, **named: Any) -> None:
        raise LogFailed("the disk is full")

    told: list[str] = []
    with serving(decisions, tell=told.append) as client:
        assert client.decide(state=0)
        assert told == []
        with monkeypatch.context() as patch:
            patch.setattr(SQLite, "append", full)
            for _ in range(3):
                assert client.ask("POST", "/decisions", {"state": 0}).status == 503
        assert told == ["error: the database is unavailable, calls get 503: the disk is full"]
        assert client.ask("GET", "/readyz").status == 200
        assert told[1:] == ["the database is available again"]
