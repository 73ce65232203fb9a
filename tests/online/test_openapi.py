"""The service answers as its OpenAPI document says."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.online.serving import Answer, Client, serving

from switchmdp.agents import SWUCRL
from switchmdp.online import Decisions
from switchmdp.online.routes import document

TOKEN = "correct-horse-battery"
AUTHORIZED = {"Authorization": f"Bearer {TOKEN}"}
DOCUMENT = document()
OPERATIONS = [
    (method.upper(), path, operation)
    for path, operations in DOCUMENT["paths"].items()
    for method, operation in operations.items()
]
GOOD: dict[str, dict[str, Any]] = {
    "decide": {"state": 1, "session": "a", "available": [0, 1], "taken": 0},
    "feedback": {"reward": 0.5, "next_state": 2},
    "mode": {"mode": "shadow", "policy": [0, 1, 0]},
    "add_state": {"available": [0]},
    "add_action": {"states": [0, 1]},
}
TYPES: dict[str, Any] = {
    "object": dict, "string": str, "integer": int, "boolean": bool, "null": type(None),
    "number": (int, float), "array": list,
}  # fmt: skip

every_operation = pytest.mark.parametrize(
    ("method", "path", "operation"), OPERATIONS, ids=[o["operationId"] for _, _, o in OPERATIONS]
)


@pytest.fixture
def client(tmp_path: Path) -> Iterator[Client]:
    agent = SWUCRL(3, 2, window=50)
    with (
        Decisions(agent, tmp_path / "data", sync=False) as decisions,
        serving(decisions, token=TOKEN, max_body=1000) as found,
    ):
        yield found


def _ask(client: Client, method: str, path: str, content: Any, **headers: str) -> Answer:
    """The path with the id of a decision that waits for its feedback."""
    if "{id}" in path:
        made = client.ask("POST", "/decisions", {"state": 0}, AUTHORIZED)
        path = path.replace("{id}", made.json["id"])
    return client.ask(method, path, content, AUTHORIZED | headers)


def _must_fit(value: Any, schema: dict[str, Any]) -> None:
    if "$ref" in schema:
        schema = DOCUMENT["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
    kinds = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
    assert isinstance(value, tuple(TYPES[kind] for kind in kinds)), (value, schema)
    if isinstance(value, dict) and "properties" in schema:
        assert value.keys() == schema["properties"].keys() == set(schema["required"])
        for name, inner in schema["properties"].items():
            _must_fit(value[name], inner)


@every_operation
def test_every_operation_answers_as_documented(
    client: Client, method: str, path: str, operation: dict[str, Any]
) -> None:
    body = operation.get("requestBody", {}).get("content", {}).get("application/json")
    content = GOOD.get(operation["operationId"])
    assert (body is None) == (content is None)
    if body is not None:
        assert content is not None
        assert body["schema"]["properties"].keys() == content.keys()
    answer = _ask(client, method, path, content)
    [good] = [status for status in operation["responses"] if status < "300"]
    assert answer.status == int(good)
    [(media, documented)] = operation["responses"][good]["content"].items()
    assert answer.headers["content-type"].partition(";")[0] == media
    _must_fit(answer.json if media == "application/json" else answer.body.decode(),
              documented["schema"])  # fmt: skip


@every_operation
def test_every_operation_returns_its_documented_errors(
    client: Client, method: str, path: str, operation: dict[str, Any]
) -> None:
    name, answers = operation["operationId"], []
    if operation.get("security") != []:
        answers.append(client.ask(method, path))
    if method == "POST":
        contents: list[Any] = [b"{", b"[]", {"unknown": 1}, b" " * 1001]
        contents += [{**GOOD[name], key: {}} for key in GOOD.get(name, ())]
        answers += [_ask(client, method, path, content) for content in contents]
        answers.append(_ask(client, method, path, {}, **{"Content-Type": "text/plain"}))
    for answer in answers:
        assert answer.status >= 400
        refusal = operation["responses"][str(answer.status)]
        _must_fit(answer.json, refusal["content"]["application/json"]["schema"])


def test_every_field_of_a_body_has_a_description() -> None:
    for _, _, operation in OPERATIONS:
        content = operation.get("requestBody", {}).get("content", {})
        for schema in (found["schema"] for found in content.values()):
            assert schema["additionalProperties"] is False
            assert set(schema["required"]) <= schema["properties"].keys()
            assert all(field["description"] for field in schema["properties"].values())


def test_the_service_returns_the_openapi_document(client: Client) -> None:
    assert client.ask("GET", "/openapi.json", headers=AUTHORIZED).json == DOCUMENT
