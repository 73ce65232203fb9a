"""Both clients against the real service."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator

import pytest
from tests.client.javascript import FILE, in_node

from switchmdp.client import (
    AsyncClient,
    Client,
    Conflict,
    Decision,
    Expired,
    Invalid,
    NotFound,
    Problem,
    Unauthorized,
)
from switchmdp.online.models import Models
from switchmdp.online.server import Server, address_of, application, listen
from switchmdp.online.sqlite import SQLite

TOKEN = "a-token-of-some-length"
STATES, ACTIONS = ["new", "basket"], ["sport", "voucher"]


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with Models(SQLite(tmp_path_factory.mktemp("all") / "all.sqlite", sync=False)) as models:
        bound, ready = listen("127.0.0.1", 0, has_token=True), threading.Event()
        server = Server(application(models, token=TOKEN), ready.set)
        thread = threading.Thread(target=server.run, args=([bound],))
        thread.start()
        try:
            assert ready.wait(60)
            yield address_of(bound)
        finally:
            server.stop()
            thread.join()


@pytest.fixture
def client(url: str) -> Iterator[Client]:
    """A client of the service, which has a model with the name `shop`."""
    with Client(url, token=TOKEN) as client:
        client.create_model("shop", agent="random", states=STATES, actions=ACTIONS)
        yield client
        client.delete_model("shop")


def test_the_service_counts_the_feedback_of_a_decision_once(client: Client) -> None:
    decision = client.decide("shop", state="basket", session="ann", available=["voucher"])
    assert (decision.action_name, decision.state_name) == ("voucher", "basket")
    assert (decision.arm, decision.probability) == ("main", 1.0)
    assert client.feedback("shop", decision, 1, "new") is True
    assert client.feedback("shop", decision.id, 1, "new") is False, "it was reported before"
    with pytest.raises(Conflict):
        client.feedback("shop", decision, 0, "new")
    assert client.decide("shop", session="ann").state_name == "new"
    with pytest.raises(NotFound):
        client.feedback("shop", "1-000000000000", 1)
    with pytest.raises(Invalid, match="nowhere"):
        client.decide("shop", state="nowhere")


def test_the_same_key_gives_the_same_decision(client: Client) -> None:
    first, again = (client.decide("shop", state="new", key="order-7") for _ in range(2))
    assert first == again
    assert client.decide("shop", state="new").id != first.id
    batches = [client.decide_batch("shop", [{"state": "new"}] * 3, key="k") for _ in range(2)]
    assert batches[0] == batches[1]
    assert client.add_states("shop", ["leaving"], key="x") == client.add_states(
        "shop", ["leaving"], key="x"
    )
    assert client.model("shop").state_names == (*STATES, "leaving")


def test_a_batch_answers_valid_requests_and_reports_the_others(client: Client) -> None:
    requests: list[dict[str, str | int]] = [
        {"state": "new"},
        {"state": "nowhere"},
        {"state": 1, "session": "bob"},
    ]
    first, second, third = client.decide_batch("shop", requests)
    assert isinstance(first, Decision)
    assert isinstance(second, Invalid)
    assert isinstance(third, Decision)
    told = client.feedback_batch("shop", [(first, 1, "basket"), ("9-unknown", 1, None)])
    assert told[0] is True
    assert isinstance(told[1], NotFound)


def test_models_are_listed_archived_and_deleted(client: Client) -> None:
    for name in ("shop-2", "shop-3", "web"):
        client.create_model(name, agent="random", states=2, actions=2, labels={"team": "a"})
    with pytest.raises(Conflict):
        client.create_model("web", agent="random", states=2, actions=2)
    names = [model.name for model in client.all_models(search="shop")]
    assert names == ["shop", "shop-2", "shop-3"]
    page = client.models(limit=3)
    assert (len(page.models), page.next) == (3, "shop-3")
    assert [model.name for model in client.models(after=page.next).models] == ["web"]
    assert client.archive_model("web").archived is not None
    with pytest.raises(Problem):
        client.decide("web", state=0)
    assert client.unarchive_model("web").archived is None
    for name in ("shop-2", "shop-3", "web"):
        client.delete_model(name)
    with pytest.raises(NotFound, match="web"):
        client.model("web")


def test_explanations_arms_and_the_history_are_typed_answers(client: Client) -> None:
    arms = client.set_arms("shop", [{"name": "control", "share": 0.5, "policy": [0, 0]}])
    assert [(arm.name, arm.share) for arm in arms] == [("main", 0.5), ("control", 0.5)]
    for i in range(40):
        decision = client.decide("shop", state=i % 2, session=f"visitor {i}")
        client.feedback("shop", decision, float(decision.action), (i + 1) % 2)
    assert sum(arm.feedback for arm in client.arms("shop")) == 40
    assert all(arm.low <= (arm.mean_reward or 0) <= arm.high for arm in client.arms("shop"))
    sport, voucher = client.explain("shop", "basket").actions
    assert (sport.name, sport.estimate, voucher.estimate) == ("sport", 0.0, 1.0)
    assert voucher.low < voucher.high
    assert [to.name for to in voucher.successors] == ["new"]
    history = client.history("shop", buckets=5)
    assert sum(bucket.n for bucket in history.rewards) == 40
    assert history.changes == ()
    client.set_mode("shop", "fixed", ["voucher", "voucher"])
    with pytest.raises(Invalid, match="learns in episodes"):
        client.restart("shop")
    assert client.model("shop").mode == "fixed"


def test_tokens_are_required(url: str) -> None:
    with Client(url, token="") as client, pytest.raises(Unauthorized):
        client.models()
    with Client(url, token="") as client:
        assert client.is_ready()


def test_the_async_client_makes_decisions_concurrently(client: Client, url: str) -> None:
    async def decide() -> list[Decision]:
        async with AsyncClient(url, token=TOKEN) as other:
            return await asyncio.gather(*[other.decide("shop", state="new") for _ in range(20)])

    decisions = asyncio.run(decide())
    assert len({decision.id for decision in decisions}) == 20


def test_feedback_for_an_expired_decision_is_an_error(client: Client) -> None:
    client.create_model("quick", agent="random", states=2, actions=2, expiry=0.001)
    decision = client.decide("quick", state=0)
    client.decide("quick", state=0)
    with pytest.raises(Expired):
        client.feedback("quick", decision, 1)
    client.delete_model("quick")


def test_the_javascript_client_works_in_node(client: Client, url: str) -> None:
    script = f"""
        const shop = new sm.Client(url, {{ token: "{TOKEN}" }});
        const decision = await shop.decide("shop", {{ state: "new", session: "ann" }});
        const first = await shop.feedback("shop", decision, {{ reward: 1, nextState: "basket" }});
        const requests = [{{ session: "ann" }}, {{ state: "nowhere" }}];
        const batch = await shop.decideBatch("shop", requests);
        const told = await shop.feedbackBatch("shop", [{{ decision: batch[0], reward: 0 }}]);
        const names = [];
        for await (const model of shop.allModels()) names.push(model.name);
        const {{ actions }} = await shop.explain("shop", "new");
        return [decision.state_name, first, batch[0].state_name, batch[1] instanceof sm.Invalid,
                told, names, actions.length, (await shop.arms("shop")).arms.length];
    """
    assert FILE.exists()
    with in_node(url) as run:
        told = run(script)
    assert told == {"value": ["new", True, "basket", True, [True], ["shop"], 2, 1]}
