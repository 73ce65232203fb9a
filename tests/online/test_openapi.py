"""The service answers as its OpenAPI document says."""

from __future__ import annotations

import html
from collections.abc import Iterator
from typing import Any

import pytest
from tests.online.serving import Answer, Client, serving

from switchmdp.online.models import Models
from switchmdp.online.schemas import PROBLEM, Problem, Route, all_routes, document, problems_of
from switchmdp.online.sqlite import SQLite

TOKEN = "correct-horse-battery"
AUTHORIZED = {"Authorization": f"Bearer {TOKEN}"}
SIZES = {"agent": "random", "states": 3, "actions": 2}
GOOD: dict[str, Any] = {
    "create_model": {"name": "created", **SIZES, "labels": {"team": "shop"}},
    "archive": {},
    "unarchive": {},
    "decide": {"state": 1, "session": "a", "available": [0, 1], "taken": 0},
    "decide_batch": {"decisions": [{"state": 0}, {"state": 9}]},
    "feedback": {"reward": 0.5, "next_state": 2},
    "feedback_batch": {"feedback": [{"id": "1-0", "reward": 1}]},
    "mode": {"mode": "shadow", "policy": [0, 1, 0]},
    "add_states": {"names": ["new"], "available": [0]},
    "add_actions": {"count": 2, "states": [0, 1]},
    "restart": {},
    "set_arms": [{"name": "control", "share": 0.5, "policy": [0, 1, 0]}],
}
QUERIES = {"explain": "?state=1", "history": "?buckets=10", "list_models": "?limit=5"}
ROUTES = all_routes()
every_route = pytest.mark.parametrize("route", ROUTES, ids=[f"{r.method} {r.path}" for r in ROUTES])


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    place = tmp_path_factory.mktemp("served") / "all.sqlite"
    with (
        Models(SQLite(place, sync=False)) as models,
        serving(models, token=TOKEN, max_body=1000) as found,
    ):
        yield found


def _ask(client: Client, route: Route, content: Any, query: str = "", **headers: str) -> Answer:
    """Send the request to a new model, with the id of a pending decision."""
    for name in ("main", "created"):
        client.ask("DELETE", f"/models/{name}", headers=AUTHORIZED)
    made = client.ask("POST", "/models", {"name": "main", **SIZES}, AUTHORIZED)
    assert made.status == 201
    decided = client.ask("POST", "/models/main/decisions", {"state": 0}, AUTHORIZED)
    path = route.path.replace("{name}", "main").replace("{id}", decided.json["id"])
    return client.ask(route.method, path + query, content, AUTHORIZED | headers)


@every_route
def test_every_route_answers_as_documented(client: Client, route: Route) -> None:
    content = GOOD.get(route.name)
    assert (route.body is None) == (content is None)
    answer = _ask(client, route, content, QUERIES.get(route.name, ""))
    if route.name == "restart":  # this agent does not learn
        assert answer.status == 422
        return
    assert answer.status == route.status, answer.body
    if isinstance(route.answer, str):
        assert answer.headers["content-type"].partition(";")[0] == route.answer
        return
    found = answer.json
    required = {name for name, field in route.answer.model_fields.items() if field.is_required()}
    assert required <= found.keys()
    if route.answer.model_config.get("extra") != "allow":
        assert found.keys() <= route.answer.model_fields.keys()
    route.answer.model_validate(found, strict=True)


@every_route
def test_every_route_returns_its_documented_errors(client: Client, route: Route) -> None:
    answers = []
    if not route.public:
        path = route.path.replace("{name}", "main").replace("{id}", "1-0")
        answers.append(client.ask(route.method, path))
    if route.body is not None:
        contents: list[Any] = [b"{", b"1", {"unknown": 1}, b" " * 32_001]
        if isinstance(GOOD[route.name], dict):
            contents += [{**GOOD[route.name], key: [[]]} for key in GOOD[route.name]]
        answers += [_ask(client, route, content) for content in contents]
        answers.append(_ask(client, route, {}, **{"Content-Type": "text/plain"}))
    if route.query is not None:
        answers.append(_ask(client, route, None, "?unknown=1"))
    for answer in answers:
        assert answer.status >= 400, answer.body
        assert answer.status in problems_of(route)
        assert answer.headers["content-type"] == PROBLEM
        Problem.model_validate(answer.json, strict=True)


def test_every_field_of_a_request_is_typed_and_no_other_is_accepted() -> None:
    schemas = document()["components"]["schemas"]
    for route in ROUTES:
        if route.body is not None and schemas[route.body.__name__]["type"] == "object":
            assert schemas[route.body.__name__]["additionalProperties"] is False


def test_the_service_returns_the_openapi_document(client: Client) -> None:
    assert client.ask("GET", "/openapi.json", headers=AUTHORIZED).json == document()
    page = client.ask("GET", "/docs").body.decode()
    assert all(html.escape(route.summary) in page for route in ROUTES)
