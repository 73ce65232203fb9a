"""PostgreSQL: the same guarantees as SQLite, with several workers."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import psycopg
import pytest
from tests.online.postgres_server import new_database, postgres_server
from tests.online.serving import Client
from tests.online.workbench import bits

from switchmdp.cli import main
from switchmdp.errors import (
    ForeignFolder,
    LeaseLost,
    LogFailed,
    ModelExists,
    UnknownDecision,
)
from switchmdp.online import check, history, open_database, rebuild, verify
from switchmdp.online.models import Elsewhere, Models
from switchmdp.online.postgres import PostgreSQL
from switchmdp.online.server import Server, address_of, application, listen
from switchmdp.online.sqlite import SQLite

LEASE = 0.8
Worker = tuple[Models, Client]


@pytest.fixture(scope="module")
def server() -> Iterator[Any]:
    with postgres_server() as found:
        yield found


@pytest.fixture
def url(server: Any) -> str:
    return new_database(server)


@pytest.fixture
def start(url: str) -> Iterator[Callable[[], Worker]]:
    """Starts workers that share a database, in threads of this process."""
    with ExitStack() as stack:

        def start() -> Worker:
            store = PostgreSQL(url, sync=False, lease=LEASE)
            models = stack.enter_context(Models(store))
            bound, ready = stack.enter_context(listen("127.0.0.1", 0)), threading.Event()
            store.join(address_of(bound), models.keep_only)
            web = Server(application(models, rate=1e6), ready.set)
            thread = threading.Thread(target=web.run, args=([bound],))
            thread.start()
            stack.callback(thread.join)
            stack.callback(web.stop)
            assert ready.wait(60)
            return models, Client(bound.getsockname()[1])

        yield start


def _dies(models: Models) -> None:
    """End like a killed worker: without giving its leases back."""
    store = models.store
    assert isinstance(store, PostgreSQL)
    store._ending.set()
    assert store._heartbeats is not None
    store._heartbeats.join()


def _wait(for_what: Callable[[], Any]) -> None:
    end = time.monotonic() + 60
    while not for_what():
        assert time.monotonic() < end
        time.sleep(0.05)


def _decided(client: Client, state: int = 0, **more: Any) -> Any:
    answer = client.ask("POST", "/models/shop/decisions", {"state": state, **more})
    return answer.json["id"] if answer.status == 201 else None


def _called(*arguments: str) -> Any:
    with pytest.raises(SystemExit) as ended:
        main(list(arguments))
    return ended.value.code


def test_events_rebuild_the_learner_and_everything_can_be_checked(
    url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with Models(PostgreSQL(url)) as models:
        models.create("shop", "random", states=["a", "b"], actions=2)
        decisions = models.load("shop")
        for state in (0, "b", 1):
            assert decisions.feedback(decisions.decide(state, session="\0é").id, 0.5, "a")
        waiting = decisions.decide(0)
        models.evict("shop")
        assert models.load("shop").feedback(waiting.id, 1.0, 1)
        live = models.load("shop").look(bits)
    assert bits(rebuild(url, model="shop")) == live
    assert check(url) == {"the database": [], "model shop": []}
    assert verify(url, model="shop").same
    assert [step[2] for step in history(url, "shop")] == [0.5, 0.5, 0.5, 1.0]
    out = tmp_path / "out.csv"
    assert _called("export", "--database", url, "--model", "shop", "--out", str(out)) == 0
    lines = out.read_text("utf-8").splitlines()
    columns = "time,session,decision,state,action,arm,probability,reward,next_state,"
    assert lines[0] == columns + "state_name,action_name,next_state_name"
    assert lines[2].endswith(",0.5,0,b,,a")
    assert len(lines) == 5
    assert _called("check", "--database", url) == 0
    assert "model shop: ok" in capsys.readouterr().out
    with psycopg.connect(url) as connection:
        connection.execute("UPDATE events SET reward = 0.25 WHERE number = 2")
    assert "event 2 is damaged" in check(url)["model shop"][0]


def test_a_database_of_another_program_is_refused(url: str) -> None:
    with psycopg.connect(url) as connection:
        connection.execute("CREATE TABLE models (name TEXT)")
    with pytest.raises(ForeignFolder, match="is not a database of switchmdp"):
        PostgreSQL(url)
    with pytest.raises(LogFailed, match="cannot be opened"):
        PostgreSQL("postgresql://localhost:1/none")


def test_passwords_are_not_shown() -> None:
    with pytest.raises(LogFailed) as failed:
        PostgreSQL("postgresql://me:secret-word@localhost:1/none")
    assert "secret-word" not in str(failed.value)


def test_any_worker_accepts_any_request(start: Callable[[], Worker]) -> None:
    (models, one), (other, two) = start(), start()
    made = {"name": "shop", "agent": "random", "states": ["a", "b"], "actions": 2}
    assert two.ask("POST", "/models", made).status == 201
    assert two.ask("GET", "/models/shop").status == 200  # who is asked first serves the model
    decided = one.ask("POST", "/models/shop/decisions", {"state": "b"}, {"Idempotency-Key": "k"})
    assert decided.status == 201
    again = two.ask("POST", "/models/shop/decisions", {"state": "b"}, {"Idempotency-Key": "k"})
    assert again.json == decided.json
    path = f"/models/shop/decisions/{decided.json['id']}/feedback"
    assert one.ask("POST", path, {"reward": 1, "next_state": "a"}).json == {"counted": True}
    assert two.ask("POST", path, {"reward": 1, "next_state": "a"}).json == {"counted": False}
    for bad, status in (({"state": 7}, 422), ({"states": 0}, 422)):
        assert one.ask("POST", "/models/shop/decisions", bad).status == status
    batch = {"decisions": [{"state": 0}] * 50}
    assert len(one.ask("POST", "/models/shop/decisions/batch", batch).json["results"]) == 50
    assert one.ask("GET", "/models/shop/explain?state=b").json["name"] == "b"
    assert one.ask("GET", "/models/shop/explain").status == 422
    assert list(models.loaded()) == []
    assert list(other.loaded()) == ["shop"]
    forged = {"X-Switchmdp-Forwarded": "0" * 32}
    assert one.ask("GET", "/models/shop", headers=forged).status == 403
    assert one.ask("DELETE", "/models/shop").json == {"deleted": "shop"}
    assert two.ask("GET", "/models/shop").status == 404


def test_the_models_of_a_dead_worker_are_taken_over(start: Callable[[], Worker], url: str) -> None:
    (models, one), (other, two) = start(), start()
    models.create("shop", "random", states=2, actions=2)
    first = _decided(one)
    _dies(models)
    _wait(lambda: _decided(two) and other.loaded())
    assert list(other.loaded()) == ["shop"]
    path = f"/models/shop/decisions/{first}/feedback"
    assert two.ask("POST", path, {"reward": 1, "next_state": 0}).json == {"counted": True}
    # The worker was only slow: it still believes that the model is its own.
    slow = models.get("shop")
    assert slow is not None
    with pytest.raises(LeaseLost):
        slow.decide(0)
    with pytest.raises(LeaseLost):
        slow.decide(0)
    assert models.get("shop") is None
    assert _decided(one)  # forwarded
    assert check(url)["model shop"] == []


def test_a_model_that_was_taken_over_does_not_disturb_others(url: str) -> None:
    with Models(PostgreSQL(url, lease=LEASE)) as models, Models(PostgreSQL(url)) as other:
        for name in ("a", "b"):
            models.create(name, "random", states=2, actions=2)
        mine = models.load("a"), models.load("b")
        other.load("a").decide(0)
        lost = mine[0].enter_decision(0)[0]
        kept, ticket = mine[1].enter_decision(0)
        mine[1].commit(ticket)
        with pytest.raises(LeaseLost):
            mine[0].commit()
        with pytest.raises(UnknownDecision):
            other.load("a").feedback(lost.id, 1.0, 0)
        assert mine[1].feedback(kept.id, 1.0, 0)
    assert not any(check(url).values())


def test_a_lease_belongs_to_one_worker_until_it_is_given_back(url: str) -> None:
    with Models(PostgreSQL(url)) as one, Models(PostgreSQL(url)) as two:
        for number, models in enumerate((one, two)):
            models.store.join(f"http://127.0.0.1:{number}", models.keep_only)
        one.create("shop", "random", states=2, actions=2)
        one.load("shop")
        with pytest.raises(Elsewhere) as error:
            two.load("shop")
        assert error.value.lease.address == "http://127.0.0.1:0"
        one.evict("shop")
        two.load("shop")
        with psycopg.connect(url) as connection:
            rows = connection.execute("SELECT model, address FROM leases").fetchall()
        assert rows == [("shop", "http://127.0.0.1:1")]
        with pytest.raises(Elsewhere):
            one.load("shop")


def test_two_workers_cannot_create_the_same_model(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Models(PostgreSQL(url)) as one, Models(PostgreSQL(url)) as two:
        one.create("shop", "random", states=2, actions=2)
        monkeypatch.setattr(two.store, "key_of", lambda name: None)  # as if at the same moment
        with pytest.raises(ModelExists, match="there is already a model 'shop'"):
            two.create("shop", "random", states=3, actions=2)
        monkeypatch.undo()
        assert one.load("shop").learner.agent.n_states == 2


def test_a_connection_that_the_server_has_ended_is_made_again(url: str) -> None:
    with Models(PostgreSQL(url)) as models:
        models.create("shop", "random", states=2, actions=2)
        assert len(models.find()) == 1
        with psycopg.connect(url, autocommit=True) as connection:
            ended = connection.execute(
                "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity "
                "WHERE application_name = 'switchmdp' AND datname = current_database()"
            ).fetchall()
        assert ended == [(True,), (True,)]  # it reads with one and writes with the other
        assert [row.name for row in models.find()] == ["shop"]
        assert models.load("shop").decide(0).state == 0


def test_every_worker_lists_the_decisions_of_the_others(url: str) -> None:
    with Models(PostgreSQL(url, lease=LEASE)) as one, Models(PostgreSQL(url)) as two:
        one.store.join("http://127.0.0.1:0", one.keep_only, one.changed_summaries)
        one.create("shop", "random", states=2, actions=2)
        for _ in range(3):
            one.load("shop").decide(0)
        _wait(lambda: [row.summary["decisions"] for row in two.find() if row.summary] == [3])
        assert one.changed_summaries() == {}


@pytest.mark.parametrize("seconds", [2 * LEASE, pytest.param(30.0, marks=pytest.mark.soak)])
def test_an_unavailable_database_is_reported_and_survived(
    start: Callable[[], Worker], server: Any, url: str, seconds: float
) -> None:
    models, client = start()
    models.create("shop", "random", states=2, actions=2)
    waiting = _decided(client)
    server.stop()
    try:
        path = f"/models/shop/decisions/{waiting}/feedback"
        content = {"reward": 1, "next_state": 1}
        asked = [client.ask("POST", path, content), client.ask("GET", "/readyz")]
        asked.append(client.ask("POST", "/models/shop/decisions", {"state": 0}))
        asked.append(client.ask("GET", "/models/unknown"))
        assert [(answer.status, answer.error) for answer in asked] == [(503, "LogFailed")] * 4
        assert {answer.headers["retry-after"] for answer in asked} == {"1"}
        assert client.ask("GET", "/healthz").status == 200
        time.sleep(seconds)  # the leases expire meanwhile
    finally:
        server.start()
    _wait(lambda: client.ask("GET", "/readyz").status == 200)
    assert client.ask("POST", path, content).status == 200
    assert _decided(client)
    models.writer.commit()
    learner = rebuild(url, model="shop")
    assert (learner.decided, learner.counted) == (2, 1)


def test_a_forked_process_cannot_write(url: str) -> None:
    store = PostgreSQL(url)
    store._process -= 1
    with pytest.raises(LogFailed, match="forked process"):
        Models(store).create("shop", "random", states=2, actions=2)
    store._process += 1
    store.close()


def test_open_database_recognises_urls(url: str, tmp_path: Path) -> None:
    for place, kind in ((url, PostgreSQL), (tmp_path / "a.sqlite", SQLite)):
        store = open_database(place)
        assert isinstance(store, kind)
        store.close()
