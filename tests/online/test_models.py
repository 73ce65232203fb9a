"""Many models in one service: creation, names, batches, idempotency keys, split tests, eviction."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.online.serving import Answer, Client, serving
from tests.online.workbench import bits

from switchmdp.client import Client as HTTPClient
from switchmdp.errors import InvalidParameter, ModelExists, UnknownDecision, UnknownModel
from switchmdp.online import Decisions, check, rebuild
from switchmdp.online import models as module
from switchmdp.online.models import Models
from switchmdp.online.schemas import document
from switchmdp.online.sqlite import SQLite

SHOP = {"agent": "random", "states": ["home", "basket"], "actions": ["a", "b", "c"]}


@pytest.fixture
def models(tmp_path: Path) -> Iterator[Models]:
    with Models(SQLite(tmp_path / "all.sqlite", sync=False)) as found:
        yield found


@pytest.fixture
def client(models: Models) -> Iterator[Client]:
    models.create("shop", **SHOP)  # type: ignore[arg-type]  # of mixed types
    with serving(models) as found:
        yield found


def _post(client: Client, path: str, content: Any, key: str | None = None) -> Answer:
    headers = {} if key is None else {"Idempotency-Key": key}
    return client.ask("POST", f"/models/shop{path}", content, headers)


def test_a_model_is_created_listed_archived_and_deleted(client: Client) -> None:
    made = client.ask("POST", "/models", {"name": "ads", "labels": {"team": "x"}, **SHOP})
    assert made.status == 201
    assert (made.json["states"], made.json["action_names"]) == (2, ["a", "b", "c"])
    assert client.ask("POST", "/models", {"name": "ads", **SHOP}).error == "ModelExists"
    assert [m["name"] for m in client.ask("GET", "/models").json["models"]] == ["ads", "shop"]
    assert client.ask("POST", "/models/ads/archive").json["archived"] > 0
    assert [m["name"] for m in client.ask("GET", "/models").json["models"]] == ["shop"]
    found = client.ask("GET", "/models?archived=true").json["models"]
    assert [(m["name"], m["labels"]) for m in found] == [("ads", {"team": "x"})]
    refused = client.ask("POST", "/models/ads/decisions", {"state": "home"})
    assert (refused.status, refused.error) == (409, "ModelArchived")
    assert client.ask("POST", "/models/ads/unarchive").status == 200
    assert client.ask("POST", "/models/ads/decisions", {"state": "home"}).status == 201
    assert client.ask("DELETE", "/models/ads").json == {"deleted": "ads"}
    assert client.ask("GET", "/models/ads").error == "UnknownModel"


def test_models_with_the_same_definition_start_equal_but_do_not_share_ids(models: Models) -> None:
    for name in ("a", "b"):
        models.create(name, **SHOP)  # type: ignore[arg-type]  # of mixed types
    assert models.loaded() == {}
    one, other = models.load("a"), models.load("b")
    assert bits(one.learner) == bits(other.learner)
    decision = one.decide("home")
    with pytest.raises(UnknownDecision):
        other.feedback(decision.id, 1.0)


def test_definitions_that_are_only_equal_in_python_are_not_mixed_up(models: Models) -> None:
    given: dict[str, Any] = {"states": 2, "actions": 2}
    models.create("one", "sw-ucrl", {"window": 1}, **given)
    with pytest.raises(InvalidParameter, match="window"):
        models.create("true", "sw-ucrl", {"window": True}, **given)
    assert models.store.models() == ["one"]


def test_the_first_model_of_a_kind_is_compiled_when_it_is_created(
    client: Client, models: Models, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiled: list[str] = []
    monkeypatch.setattr(module, "_compiled", {frozenset()})
    monkeypatch.setattr(module, "compile_agent", lambda decisions: compiled.append(decisions.model))
    given = {"states": 2, "actions": 2}
    assert client.ask("POST", "/models", {"name": "new", "agent": "ucrl2", **given}).status == 201
    assert client.ask("POST", "/models", {"name": "dull", "agent": "random", **given}).status == 201
    assert compiled == ["new"]
    assert set(models.loaded()) == {"new"}


def test_models_are_listed_in_pages_and_found_by_a_part_of_their_name(
    client: Client, models: Models
) -> None:
    for name in ("b_1", "b-2", "c3", "B4"):
        models.create(name, "random", states=1, actions=1)
    found, after = [], ""
    while after is not None:
        answer = client.ask("GET", f"/models?limit=2&after={after}").json
        found += [model["name"] for model in answer["models"]]
        after = answer["next"]
    assert found == sorted(["B4", "b-2", "b_1", "c3", "shop"])
    assert [m["name"] for m in client.ask("GET", "/models?search=B_").json["models"]] == ["b_1"]
    assert client.ask("GET", "/models?search=%25").json["models"] == []


@pytest.mark.parametrize(
    ("content", "field"),
    [
        ({"name": ""}, "name"),
        ({"name": "a/b"}, "name"),
        ({"name": "x" * 101}, "name"),
        ({"name": "\u00fc"}, "name"),
        ({"states": 0}, "states"),
        ({"states": []}, "states"),
        ({"states": ["a", "a"]}, "states"),
        ({"states": [""]}, "states"),
        ({"states": 10**6}, "states * actions"),
        ({"agent": "oracle"}, "agent"),
        ({"agent": "none"}, "agent"),
        ({"parameters": {"window": 5}}, "parameter of random"),
        ({"parameters": {"seed": "x"}}, "seed"),
        ({"parameters": {"seed": [1]}}, "parameters"),
        ({"labels": {"a": 1}}, "labels.a"),
        ({"labels": {f"{i}": "" for i in range(21)}}, "labels"),
        ({"expiry": 0}, "expiry"),
        ({"replan": "never"}, "replan"),
    ],
)
def test_invalid_models_are_rejected(client: Client, content: dict[str, Any], field: str) -> None:
    answer = client.ask("POST", "/models", {"name": "new", **SHOP, **content})
    assert answer.status == 422, answer.body
    assert answer.json["field"].startswith(field)
    assert client.ask("GET", "/models/new").status == 404


def test_states_and_actions_have_names_and_numbers(client: Client) -> None:
    content = {"state": "basket", "available": ["c", 1], "session": "ann"}
    decided = _post(client, "/decisions", content).json
    assert (decided["state"], decided["state_name"]) == (1, "basket")
    assert decided["action_name"] == {1: "b", 2: "c"}[decided["action"]]
    feedback = {"reward": 1, "next_state": "home"}
    assert _post(client, f"/decisions/{decided['id']}/feedback", feedback).json["counted"]
    assert _post(client, "/decisions", {"session": "ann"}).json["state_name"] == "home"
    unknown = _post(client, "/decisions", {"state": "checkout"})
    assert unknown.error == "InvalidState"
    assert "map your context to a few dozen states" in unknown.json["detail"]
    too_large = _post(client, "/decisions", {"state": 2})
    assert too_large.json["detail"].startswith("state must be an integer from 0 to 1 (map your ")
    assert _post(client, "/decisions", {"state": 0, "available": ["z"]}).error == "InvalidAction"


@pytest.mark.parametrize(
    ("path", "content", "detail"),
    [
        ("/models/shop/decisions", {}, "state must be set, or a session whose state is known"),
        ("/models/shop/decisions", {"session": "ann"}, "state must be set: this session has no "
         "state yet"),
        ("/models/shop/decisions", {"sate": 0}, "sate must be omitted, or one of state, session"),
        ("/models/shop/decisions", {"state": "hom"}, "state must be one of the states (did you "
         "mean 'home'?), got 'hom'"),
        ("/models/shop/decisions", {"state": 0, "available": ["z"]}, "available must be one of "
         "'a', 'b', 'c', got 'z'"),
        ("/models/shop/decisions", {"state": 0, "taken": "z"}, "taken must be one of 'a', "),
        ("/models/shop/mode", {"mode": "fixed", "policy": ["a", "z"]}, "policy must be one of "),
        ("/models/shop/states", {"names": ["home"]}, "names must be 1 name that the model does not "
         "have yet"),
        ("/models/shop/states", {"names": ["x"], "available": ["z"]}, "available must be one of "),
        ("/models", {"name": "new", "states": 2, "actions": 2, "agent": "SW-UCRL"}, "agent must be "
         "an agent of `switchmdp agents` (did you mean 'sw-ucrl'?)"),
        ("/models/shop/decisions/1-000000000000/feedback", {"reward": 1}, "unknown decision id "
         "'1-000000000000': it is from another model or database"),
        ("/models", {"name": "new", "actions": 2}, "states must be set"),
        ("/feedback/batch", {"feedback": [{"id": "1-a"}]}, "feedback[0].reward must be set"),
        ("/models", {"name": "new", "agent": "ucrl2", "states": 2, "actions": 2, "parameters":
         {"n_states": 5}}, "parameter of ucrl2 must be one of delta, width, got 'n_states'"),
        ("/models/shop/states", {"names": ["x"], "count": 3}, "names must be 3 names"),
        ("/models", {"name": "new", "states": [1], "actions": 2}, "states must be valid (Input "
         "should be a valid integer or: Input should be a valid string)"),
        ("/models/shop/decisions", {"state": 0.5, "session": 7}, "state must be valid (Input "
         "should be a valid integer or: Input should be a valid string), got 0.5"),
        ("/decisions", {"state": 0}, "there is no model 'main'; the path of another one is "
         "/models/NAME/decisions"),
    ],
)  # fmt: skip
def test_common_mistakes_are_explained(
    client: Client, path: str, content: dict[str, Any], detail: str
) -> None:
    answer = client.ask("POST", path, content)
    assert answer.status in (404, 422)
    assert answer.json["detail"].startswith(detail)


def test_a_value_that_is_missing_is_not_called_none(client: Client) -> None:
    for path, content in (("/decisions", {}), ("/decisions", {"session": "a"}), ("/mode", {})):
        assert "None" not in _post(client, path, content).json["detail"]


def test_a_request_without_a_session_does_not_get_the_state_of_another_one(client: Client) -> None:
    decided = _post(client, "/decisions", {"state": 0}).json["id"]
    _post(client, f"/decisions/{decided}/feedback", {"reward": 1, "next_state": "basket"})
    for content in ({}, {"session": ""}, {"state": None}):
        refused = _post(client, "/decisions", content)
        assert (refused.status, refused.error) == (422, "InvalidState")
    one, two = _post(client, "/decisions/batch", {"decisions": [{}, {"state": 1}]}).json["results"]
    assert (one["problem"]["field"], two["decision"]["state"]) == ("state", 1)


def test_a_key_may_be_as_long_as_documented(client: Client) -> None:
    operation = document()["paths"]["/models/{name}/decisions/batch"]["post"]
    (schema,) = (p["schema"] for p in operation["parameters"] if p["name"] == "Idempotency-Key")
    longest = "k" * schema["maxLength"]
    for path, content in (
        ("/decisions", {"state": 0}), ("/decisions/batch", {"decisions": [{"state": 0}] * 2}),
    ):  # fmt: skip
        first = _post(client, path, content, longest)
        assert "problem" not in first.body.decode()
        assert _post(client, path, content, longest).body == first.body
        refused = _post(client, path, content, f"{longest}k")
        assert (refused.status, refused.json["field"]) == (422, "Idempotency-Key")


def test_a_model_lists_the_restarts_of_its_agent(client: Client) -> None:
    size = {"states": 1, "actions": 1, "agent": "ucrl2-rw", "parameters": {"period": 10}}
    assert client.ask("POST", "/models", {"name": "ads", **size}).json["restarts"] == []
    for _ in range(12):
        decided = client.ask("POST", "/models/ads/decisions", {"state": 0}).json["id"]
        client.ask("POST", f"/models/ads/decisions/{decided}/feedback", {"reward": 1})
    client.ask("POST", "/models/ads/restart")
    noted = client.ask("GET", "/models/ads").json["restarts"]
    assert [(one["step"], one["kept"], one["asked"]) for one in noted] == [
        (10, 0, False), (12, 0, True),
    ]  # fmt: skip
    with HTTPClient(f"http://127.0.0.1:{client.port}") as python:
        found = python.model("ads").restarts
    assert [(one.step, one.asked) for one in found] == [(10, False), (12, True)]


def test_errors_of_feedback_name_the_field(client: Client) -> None:
    decided = _post(client, "/decisions", {"state": 0}).json["id"]
    path = f"/decisions/{decided}/feedback"
    refused = _post(client, path, {"reward": 1, "next_state": "nowhere"}).json
    assert refused["field"] == "next_state"
    assert refused["detail"].startswith("next_state must be one of 'home', 'basket' (map your ")
    assert _post(client, path, {"reward": 1, "next_state": "home"}).json == {"counted": True}
    refused = _post(client, path, {"reward": 0, "next_state": "home"}).json
    assert refused["detail"] == "decision 1 already has different feedback; the first one counts"


def test_the_error_for_an_archived_model_names_the_route_that_restores_it(client: Client) -> None:
    client.ask("POST", "/models/shop/archive")
    refused = _post(client, "/decisions", {"state": 0})
    assert (refused.status, refused.json["detail"]) == (
        409, "the model 'shop' is archived and makes no decisions, until POST "
        "/models/shop/unarchive",
    )  # fmt: skip


def test_states_and_actions_are_added_with_names(client: Client, models: Models) -> None:
    added = _post(client, "/states", {"names": ["checkout", "thanks"], "available": ["a"]}, "k")
    assert added.json == {"state": 2, "states": 4}
    again = _post(client, "/states", {"names": ["checkout", "thanks"], "available": ["a"]}, "k")
    assert again.json == {"state": 2, "states": 4}
    assert _post(client, "/states", {"names": ["home"]}).error == "InvalidParameter"
    assert _post(client, "/actions", {"count": 2}).json == {"action": 3, "actions": 5}
    assert _post(client, "/actions", {"names": ["d"]}).json == {"action": 5, "actions": 6}
    assert _post(client, "/decisions", {"state": "thanks", "available": ["a"]}).status == 201
    assert _post(client, "/decisions", {"state": "home", "available": ["d"]}).json["action"] == 5
    store = models.store
    assert isinstance(store, SQLite)
    with store._lock:
        models.writer.commit()
    assert rebuild(store.path, model="shop").actions.all == ["a", "b", "c", None, None, "d"]


def test_next_state_is_by_default_the_state_of_the_decision(client: Client) -> None:
    decided = _post(client, "/decisions", {"state": 1, "session": "x"}).json["id"]
    said = [_post(client, f"/decisions/{decided}/feedback", {"reward": 0.5}) for _ in range(2)]
    assert [answer.json["counted"] for answer in said] == [True, False]
    assert _post(client, "/decisions", {"session": "x"}).json["state"] == 1


def test_a_request_with_the_same_key_gets_the_same_decision(client: Client, models: Models) -> None:
    first = _post(client, "/decisions", {"state": 0, "session": "a"}, "key").json
    models.evict("shop")  # keys survive a restart
    assert _post(client, "/decisions", {"state": 0, "session": "a"}, "key").json == first
    assert _post(client, "/decisions", {"state": 0, "session": "a"}, "other").json != first
    for other in ({"state": 1, "session": "a"}, {"state": 0, "session": "b"}):
        refused = _post(client, "/decisions", other, "key")
        assert (refused.status, refused.error) == (409, "RepeatedKey")
    for key in ("", "x" * 201):
        assert _post(client, "/decisions", {"state": 0}, key).status == 422


def test_batches_have_one_result_for_each_item(client: Client, models: Models) -> None:
    states: list[Any] = [0, "basket", "nowhere", 5, *[1] * 96]
    wanted = {"decisions": [{"state": state, "session": f"{i}"} for i, state in enumerate(states)]}
    answer = _post(client, "/decisions/batch", wanted, "batch")
    results = answer.json["results"]
    assert answer.status == 200
    assert [i for i, one in enumerate(results) if "problem" in one] == [2, 3]
    assert results[2]["problem"]["type"].endswith("InvalidState")
    assert _post(client, "/decisions/batch", wanted, "batch").json == answer.json
    ids = [one["decision"]["id"] for one in results if "decision" in one]
    assert len(set(ids)) == 98
    feedback = [{"id": one, "reward": 1, "next_state": 0} for one in [*ids, ids[0], "1-forged"]]
    said = _post(client, "/feedback/batch", {"feedback": feedback}).json["results"]
    assert [one.get("counted") for one in said] == [True] * 98 + [False, None]
    assert said[-1]["problem"]["status"] == 404
    learner = models.load("shop").learner
    assert (learner.decided, learner.counted) == (98, 98)


@pytest.mark.parametrize("size", [0, 1001])
def test_a_batch_has_1_to_1000_items(client: Client, size: int) -> None:
    answer = _post(client, "/decisions/batch", {"decisions": [{"state": 0}] * size})
    assert (answer.status, answer.json["field"]) == (422, "decisions")


def test_models_do_not_share_ids(client: Client, models: Models) -> None:
    models.create("ads", "random", states=2, actions=2)
    decided = _post(client, "/decisions", {"state": 0}).json["id"]
    assert client.ask("POST", "/models/ads/decisions", {"state": 0}).status == 201
    path = f"/models/ads/decisions/{decided}/feedback"
    assert client.ask("POST", path, {"reward": 1, "next_state": 0}).error == "UnknownDecision"


def test_ids_of_a_deleted_model_are_unknown_to_its_successor(models: Models) -> None:
    models.create("shop", "random", states=2, actions=2)
    old = models.load("shop").decide(0).id
    models.delete("shop")
    models.create("shop", "random", states=2, actions=2)
    models.load("shop").decide(0)
    with pytest.raises(UnknownDecision):
        models.load("shop").feedback(old, 1.0, 0)


def test_models_that_do_not_fit_in_memory_are_evicted_and_continue(tmp_path: Path) -> None:
    place = tmp_path / "many.sqlite"
    before = {}
    with Models(SQLite(place, sync=False), memory=100_000) as models:
        for i in range(12):
            models.create(f"m{i}", "random", states=3, actions=2)
        waiting: dict[int, str] = {}
        for _ in range(3):
            for i in range(12):
                decisions = models.load(f"m{i}")
                if i in waiting:
                    assert decisions.feedback(waiting[i], 1.0, 0)
                waiting[i] = decisions.decide(1).id
                before[i] = decisions.look(bits)
            assert len(models.loaded()) < 4
            assert models.size <= 100_000
    assert {i: bits(rebuild(place, model=f"m{i}")) for i in before} == before
    assert not any(check(place).values())


def test_the_memory_of_an_evicted_model_is_free_at_once(tmp_path: Path) -> None:
    with Models(SQLite(tmp_path / "shop.sqlite", sync=False)) as models:
        models.create("shop", states=3, actions=2)
        models.load("shop").decide(1)
        agent = weakref.ref(models.load("shop").learner.agent)
        gc.disable()
        try:
            models.evict("shop")
            assert agent() is None
        finally:
            gc.enable()


def test_a_model_that_is_evicted_during_a_request_is_loaded_again(
    client: Client, models: Models
) -> None:
    old = models.load("shop")
    models.evict("shop")
    models.adopt(old)  # as if the request had got it just before
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(models, "get", _once(old, models.get))
        assert _post(client, "/decisions", {"state": 0}).status == 201
    models._loaded.pop("shop", None)


def _once(first: Decisions, then: Any) -> Any:
    answers = iter([first])

    def get(name: str) -> Decisions | None:
        for answer in answers:
            return answer
        found = then(name)
        return None if found is first else found

    return get


def test_unknown_and_repeated_names_are_errors(models: Models) -> None:
    models.create("shop", "random", states=2, actions=2)
    with pytest.raises(ModelExists):
        models.create("shop", "random", states=2, actions=2)
    with pytest.raises(UnknownModel):
        models.load("ads")


ARMS = [
    {"name": "control", "share": 0.25, "policy": ["a", "b"]},
    {"name": "rival", "share": 0.25, "agent": {"name": "random", "parameters": {"seed": 5}}},
]


def test_a_split_test_routes_sessions_and_reports_each_arm(client: Client, models: Models) -> None:
    assert client.ask("PUT", "/models/shop/arms", ARMS).status == 200
    found: dict[str, list[str]] = {}
    for i in range(400):
        decided = _post(client, "/decisions", {"state": i % 2, "session": f"s{i % 200}"}).json
        found.setdefault(decided["session"], []).append(decided["arm"])
        assert decided["probability"] == {"main": 0.5}.get(decided["arm"], 0.25)
        if decided["arm"] == "control":
            assert decided["action_name"] == "ab"[i % 2]
        reward = {"reward": float(decided["arm"] == "rival"), "next_state": 0}
        _post(client, f"/decisions/{decided['id']}/feedback", reward)
    assert all(len(set(arms)) == 1 for arms in found.values())
    counts = {arm: sum(arms[0] == arm for arms in found.values()) for arm in ("control", "rival")}
    assert all(25 <= count <= 75 for count in counts.values())  # of 200, binomial with 1/4
    models.evict("shop")
    arms = client.ask("GET", "/models/shop/arms").json["arms"]
    assert [arm["name"] for arm in arms] == ["main", "control", "rival"]
    assert sum(arm["decisions"] for arm in arms) == sum(arm["feedback"] for arm in arms) == 400
    assert [arm["mean_reward"] for arm in arms] == [0.0, 0.0, 1.0]
    assert all(arm["low"] <= arm["mean_reward"] <= arm["high"] for arm in arms)
    assert arms[2]["low"] > arms[1]["high"]
    store = models.store
    assert bits(rebuild(store.name, model="shop")) == models.load("shop").look(bits)


@pytest.mark.parametrize(
    ("arms", "field"),
    [
        ([{"name": "x", "share": 0.5}], "arms[0]"),
        ([{**ARMS[0], "agent": ARMS[1]["agent"]}], "arms[0]"),
        ([{**ARMS[0], "share": 0.6}, {**ARMS[1], "share": 0.6}], "arms"),
        ([{**ARMS[0], "name": "main"}], "arms[0].name"),
        ([ARMS[0], ARMS[0]], "arms[1].name"),
        ([{**ARMS[0], "policy": ["a"]}], "arms[0].policy"),
        ([{**ARMS[0], "policy": ["a", 7]}], "arms[0].policy[1]"),
        ([{**ARMS[1], "agent": {"name": "oracle"}}], "agent"),
        ([{**ARMS[0], "share": 1.5}], "arms[0].share"),
        ([{**ARMS[0], "name": f"{i}", "share": 0.01} for i in range(21)], "body"),
    ],
)
def test_invalid_arms_are_rejected(client: Client, arms: Any, field: str) -> None:
    answer = client.ask("PUT", "/models/shop/arms", arms)
    assert answer.status == 422, answer.body
    assert answer.json["field"].startswith(field)
    assert len(client.ask("GET", "/models/shop/arms").json["arms"]) == 1


def test_tokens_are_restricted_to_models_and_to_metrics(tmp_path: Path) -> None:
    from switchmdp.online.server import Tokens

    tokens = Tokens(["a" * 16, f"{'b' * 16} shop-*", f"{'c' * 16} @metrics"])
    with Models(SQLite(tmp_path / "all.sqlite", sync=False)) as models:
        for name in ("shop-1", "shop-2", "ads"):
            models.create(name, "random", states=2, actions=2)
        with serving(models, token=tokens) as client:

            def ask(letter: str, path: str, method: str = "GET", content: Any = None) -> Answer:
                token = {"Authorization": f"Bearer {letter * 16}"}
                return client.ask(method, path, content, token)

            names = [m["name"] for m in ask("b", "/models?limit=1").json["models"]]
            names += [m["name"] for m in ask("b", "/models?after=shop-1").json["models"]]
            assert names == ["shop-1", "shop-2"]
            assert ask("b", "/models/shop-1/decisions", "POST", {"state": 0}).status == 201
            assert ask("b", "/models/ads/decisions", "POST", {"state": 0}).error == "Forbidden"
            made = {"name": "ads-2", "agent": "random", "states": 1, "actions": 1}
            assert ask("b", "/models", "POST", made).status == 403
            assert ask("b", "/metrics").status == 403
            assert ask("c", "/metrics").status == 200
            assert ask("c", "/models").status == 403
            assert ask("a", "/metrics").status == ask("a", "/models/ads").status == 200
            assert ask("d", "/metrics").status == 401
