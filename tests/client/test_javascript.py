"""The JavaScript client, in Node and in Chromium.

Each script is the body of an async function with the arguments `sm` (the module) and `client`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from tests.client.javascript import CALL, FILE, Run, in_node
from tests.client.prepared_service import DROPPED, PreparedService

DECISION = {"id": "1-ab", "action": 1, "action_name": "voucher", "state": 0, "session": "ann"}
UNAVAILABLE = (503, {"title": "Unavailable", "detail": "the database cannot be written"})


def in_chromium(service: PreparedService, browser: Any) -> Run:
    """Run scripts in Chromium, on a page of the service."""
    service.files = {
        "/page": ("text/html", b'<!doctype html><link rel="icon" href="data:,">'),
        "/switchmdp.js": ("text/javascript", FILE.read_bytes()),
    }
    browser.get(f"{service.url}/page")

    def run(script: str) -> Any:
        program = (
            f"{CALL} const [script, done] = arguments;"
            "import('/switchmdp.js').then((sm) => run(sm, location.origin, script)).then(done)"
        )
        return browser.execute_async_script(program, script)

    return run


@pytest.fixture(scope="module", params=["node", "chromium"])
def run(request: pytest.FixtureRequest, service: PreparedService) -> Iterator[Run]:
    if request.param == "node":
        with in_node(service.url) as run:
            yield run
    else:
        yield in_chromium(service, request.getfixturevalue("browser"))


def test_the_client_sends_a_decision_and_its_feedback(run: Run, service: PreparedService) -> None:
    service.prepare((201, DECISION), (200, {"counted": True}))
    told = run("""
        const request = { state: "new", session: "ann", available: ["sport", 1] };
        const decision = await client.decide("a shop", request);
        const outcome = { reward: 1, nextState: "basket" };
        return [decision, await client.feedback("a shop", decision, outcome)];
    """)
    assert told == {"value": [DECISION, True]}
    asked, reported = service.requests
    assert (asked.method, asked.path) == ("POST", "/models/a%20shop/decisions")
    assert asked.body == {"state": "new", "session": "ann", "available": ["sport", 1]}
    assert asked.headers["content-type"] == "application/json"
    assert reported.path == "/models/a%20shop/decisions/1-ab/feedback"
    assert reported.body == {"reward": 1, "next_state": "basket"}


def test_every_other_call_reaches_its_route(run: Run, service: PreparedService) -> None:
    service.prepare(*[(200, {})] * 13)
    assert run("""
        await client.createModel("shop", { states: ["new"], actions: 2 });
        await client.model("../x?a#b");
        await client.addStates("shop", ["leaving"]);
        await client.addActions("shop", 2);
        await client.setMode("shop", "fixed", [0, 1]);
        await client.restart("shop");
        await client.archiveModel("shop");
        await client.unarchiveModel("shop");
        await client.explain("shop", "a b");
        await client.setArms("shop", [{ name: "old", share: 0.1 }]);
        await client.arms("shop");
        await client.history("shop");
        return client.isReady();
    """) == {"value": True}
    assert [(r.method, r.path, r.body) for r in service.requests] == [
        ("POST", "/models", {
            "name": "shop", "states": ["new"], "actions": 2,
        }),
        ("GET", "/models/..%2Fx%3Fa%23b", None),
        ("POST", "/models/shop/states", {"names": ["leaving"]}),
        ("POST", "/models/shop/actions", {"count": 2}),
        ("POST", "/models/shop/mode", {"mode": "fixed", "policy": [0, 1]}),
        ("POST", "/models/shop/restart", None),
        ("POST", "/models/shop/archive", None),
        ("POST", "/models/shop/unarchive", None),
        ("GET", "/models/shop/explain?state=a+b", None),
        ("PUT", "/models/shop/arms", [{"name": "old", "share": 0.1}]),
        ("GET", "/models/shop/arms", None),
        ("GET", "/models/shop/history", None),
        ("GET", "/readyz", None),
    ]  # fmt: skip
    service.prepare((204, b""))
    assert run('return client.deleteModel("shop")') == {"value": None}
    assert service.requests[0].method == "DELETE"


def test_models_are_listed_page_by_page(run: Run, service: PreparedService) -> None:
    service.prepare(
        (200, {"models": [{"name": "shop"}], "next": "shop"}), (200, {"models": [{"name": "web"}]})
    )
    told = run("""
        const names = [];
        const models = client.allModels({ search: "s", archived: false });
        for await (const model of models) names.push(model.name);
        return names;
    """)
    assert told == {"value": ["shop", "web"]}
    assert [request.path for request in service.requests] == [
        "/models?search=s&archived=false",
        "/models?after=shop&search=s&archived=false",
    ]


def test_a_batch_returns_a_result_or_a_problem_for_each_item(
    run: Run, service: PreparedService
) -> None:
    refused = {"status": 422, "title": "InvalidState", "detail": "state must be in 0..1, got 7"}
    service.prepare((200, {"results": [{"decision": DECISION}, {"problem": refused}]}))
    told = run("""
        const [first, second] = await client.decideBatch("shop", [{ state: 0 }, { state: 7 }]);
        return [first.id, second instanceof sm.Invalid, second.message];
    """)
    assert told["value"] == ["1-ab", True, "422 InvalidState: state must be in 0..1, got 7"]
    service.prepare((200, {"results": [{"counted": False}, {"problem": refused}]}))
    told = run("""
        const [first, second] = await client.feedbackBatch("shop", [
          { decision: { id: "1-ab" }, reward: 1, nextState: 1 }, { decision: "2-cd", reward: 0 }]);
        return [first, second instanceof sm.Problem];
    """)
    assert told["value"] == [False, True]
    assert service.requests[0].body["feedback"] == [
        {"id": "1-ab", "reward": 1, "next_state": 1},
        {"id": "2-cd", "reward": 0},
    ]
    service.prepare((200, {"results": []}))
    assert run('return client.decideBatch("shop", [{}])')["error"]["name"] == "UnexpectedAnswer"


@pytest.mark.parametrize("failure", [UNAVAILABLE, (429, {}), (502, b"<html>"), DROPPED])
def test_a_decision_is_retried_with_the_same_key(
    run: Run, service: PreparedService, failure: Any
) -> None:
    # Browsers repeat a request once by themselves if a connection that was open before is closed.
    service.prepare(failure, failure, (201, DECISION), (201, DECISION))
    told = run("""
        const first = await client.decide("shop", { state: 0 });
        return [first.id, (await client.decide("shop", { state: 0 })).id];
    """)
    assert told["value"] == ["1-ab", "1-ab"]
    *tries, other = service.keys()
    assert len(tries) == 3
    assert len(set(tries)) == 1
    assert other not in {None, *tries}


def test_a_call_fails_after_all_retries(run: Run, service: PreparedService) -> None:
    service.prepare(*[UNAVAILABLE] * 4)
    told = run('return client.feedback("shop", "1-ab", { reward: 1 })')["error"]
    assert (told["name"], told["status"], told["typed"]) == ("Unavailable", 503, True)
    assert told["message"] == "503 Unavailable: the database cannot be written"
    assert len(service.requests) == 4
    service.prepare((*UNAVAILABLE, {"Retry-After": "30"}))
    told = run('return client.decide("shop", { state: 0 })')["error"]
    assert told["retryAfter"] == 30
    assert len(service.requests) == 1, "too long to wait"
    told = run('return new sm.Client("http://127.0.0.1:1", { retries: 1 }).isReady()')["error"]
    assert told["name"] == "ConnectionFailed"
    assert told["message"].startswith("GET http://127.0.0.1:1/readyz failed after 2 tries: ")
    assert told["message"].endswith("; is the service running at this address?")


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ('new sm.Client("localhost:8000")', "url must be an address such as http://localhost:8000"),
        ("new sm.Client(undefined)", "url must be an address such as "),
        (r'new sm.Client(url, { token: "a\nb" })', "token must be ASCII characters without spaces"),
        ('await client.decide("shop", { state: 0, key: "größe" })', "key must be a text of 1 to"),
        ('await client.decide("shop", { state: 0, key: "" })', "key must be a text of 1 to 200"),
        ('await client.model("..")', "name must be the name of a model, got .."),
        ("await client.model(undefined)", "name must be the name of a model, got undefined"),
        (
            'await client.feedback("shop", "1-ab", { reward: NaN })',
            "reward must be a finite number",
        ),
        ('await client.feedback("shop", "1-ab", {})', "reward must be a finite number from 0 to 1"),
        (
            'await client.feedback("shop", undefined, { reward: 1 })',
            "decision must be a decision or",
        ),
        (
            'await client.feedbackBatch("shop", [{ decision: new sm.Problem(422), reward: 1 }])',
            "decision must be a decision or its id, got Problem: 422",
        ),
        (
            'await client.feedback("shop", "1-a", { reward: 1, next_state: "new" })',
            "every member must be one of reward and nextState, got next_state",
        ),
        (
            'await client.decide("shop", { state: 1, sesion: "v" })',
            "every member must be one of state, session, available and key, got sesion",
        ),
        (
            'await client.decideBatch("shop", [{ state: 1 }, { State: 1 }])',
            "every member must be one of state, session and available, got State",
        ),
    ],
)
def test_arguments_that_cannot_be_sent_are_refused_at_once(
    run: Run, service: PreparedService, script: str, message: str
) -> None:
    service.prepare()
    told = run(script)["error"]
    assert (told["name"], told["message"][: len(message)]) == ("TypeError", message)
    assert service.requests == []


def test_a_path_on_the_origin_of_a_page_is_an_address(run: Run) -> None:
    assert "error" not in run(
        'new sm.Client("/api"); new sm.Client(""); new sm.Client(`${url}/x/`)'
    )


def test_a_model_is_not_created_twice(run: Run, service: PreparedService) -> None:
    create = 'return client.createModel("shop", { states: 2, actions: 2 })'
    service.prepare((502, {}))
    assert run(create)["error"]["name"] == "Unavailable"
    assert len(service.requests) == 1
    service.prepare(UNAVAILABLE, (201, {"name": "shop"}))
    assert run(create)["value"] == {"name": "shop"}


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, "BadRequest"), (401, "Unauthorized"), (403, "Forbidden"), (404, "NotFound"),
        (409, "Conflict"), (410, "Expired"), (422, "Invalid"), (500, "ServiceFailed"),
    ],
)  # fmt: skip
def test_every_refusal_has_its_type_and_is_not_retried(
    run: Run, service: PreparedService, status: int, kind: str
) -> None:
    details = {"type": "/problems/x", "title": "X", "detail": "no", "status": status, "field": "f"}
    service.prepare((status, details))
    told = run('return client.explain("shop", "new")')["error"]
    assert (told["name"], told["status"], told["type"]) == (kind, status, "/problems/x")
    assert told["extensions"] == {"field": "f"}
    assert len(service.requests) == 1


def test_an_answer_that_is_not_json_is_an_error(run: Run, service: PreparedService) -> None:
    service.prepare((200, b"<html>"))
    assert run('return client.model("shop")')["error"]["name"] == "UnexpectedAnswer"
    service.prepare((404, b"nothing here"))
    assert "nothing here" in run('return client.model("shop")')["error"]["message"]


def test_the_token_is_sent(run: Run, service: PreparedService) -> None:
    service.prepare((200, {}))
    run('return new sm.Client(url, { token: "secret" }).isReady()')
    assert service.requests[0].headers["authorization"] == "Bearer secret"


def test_a_request_that_takes_too_long_is_aborted(run: Run, service: PreparedService) -> None:
    service.prepare((200, {}))
    told = run("return new sm.Client(url, { timeout: 0, retries: 0 }).isReady()")["error"]
    assert told["name"] == "ConnectionFailed"
