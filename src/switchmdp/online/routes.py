"""The routes of the service: one table for dispatch, validation and the OpenAPI document.

The JSON Schema of each body is given here. The service checks types before it does anything. The
decisions check ranges, of a state for example.

A body must be one JSON object with the keys and types of its route. Python's JSON parser is too
lenient: duplicate keys, NaN and Infinity, and encodings other than UTF-8 are rejected here. `null`
counts as a missing value.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NoReturn

from switchmdp.errors import InvalidParameter, MissingExtra

try:
    from starlette.exceptions import HTTPException
    from starlette.requests import Request
except ImportError as error:
    raise MissingExtra("the service needs Starlette: pip install 'switchmdp[serve]'") from error

from switchmdp.online.learner import LONGEST_SESSION, MODES
from switchmdp.version import __version__

Schema = dict[str, Any]

# Status codes: the name of the error if it has no typed error of ours, and its meaning.
HTTP_ERRORS = {
    400: ("BadRequest", "The body is not a JSON object, or has an unknown key."),
    401: ("Unauthorized", "The bearer token is missing or wrong."),
    403: ("Forbidden", "The request comes from a page of another site."),
    404: ("NotFound", "The path or the decision does not exist."),
    405: ("MethodNotAllowed", "The path does not support this method."),
    409: ("ConflictingFeedback", "The decision already has different feedback."),
    410: ("ForgottenDecision", "The decision has expired, or got its feedback long ago."),
    413: ("TooLarge", "The body is too large."),
    415: ("UnsupportedMediaType", "The body is not declared as application/json."),
    422: ("InvalidParameter", "A value is missing, of the wrong type, or out of range."),
    429: ("TooManyRequests", "Too many requests; retry after the seconds in `Retry-After`."),
    500: ("InternalError", "An internal error of the service."),
    503: ("LogFailed", "The database cannot be written; the request is not acknowledged. Retry."),
}


def _integer(text: str) -> Schema:
    return {"type": "integer", "minimum": 0, "description": text}


def _integers(text: str) -> Schema:
    return {"type": "array", "items": {"type": "integer", "minimum": 0}, "description": text}


def _text(text: str, **more: Any) -> Schema:
    return {"type": "string", "description": text, **more}


def _object(**properties: Schema) -> Schema:
    return {"type": "object", "properties": properties, "required": list(properties)}


@dataclass(frozen=True)
class Route:
    """A route: its path, its request and its response."""

    method: str
    path: str
    name: str  # of the method of `Service`
    summary: str
    answer: Schema
    status: int = 200
    fields: Mapping[str, Schema] = field(default_factory=dict)
    required: tuple[str, ...] = ()
    refusals: tuple[int, ...] = ()  # in addition to those of all routes with this method
    media: str = "application/json"
    public: bool = False  # needs no token


ROUTES = (
    Route(
        "POST", "/decisions", "decide", "Choose an action.", status=201,
        fields={
            "state": _integer("The state; by default the current state of the session."),
            "session": _text("The session whose state it is.", maxLength=LONGEST_SESSION),
            "available": _integers("The actions that can be taken now; by default all."),
            "taken": _integer("An action that was chosen elsewhere, to learn from."),
        },
        answer=_object(
            id=_text("The id, for the feedback."),
            action=_integer("The action to take."),
            state=_integer("The state."),
            session=_text("The session."),
            would={
                "type": ["integer", "null"],
                "description": "The agent's own choice, if it did not choose the action.",
            },
        ),
        refusals=(503,),
    ),
    Route(
        "POST", "/decisions/{id}/feedback", "feedback", "Report the outcome of a decision.",
        fields={
            "reward": {"type": "number", "minimum": 0, "maximum": 1, "description": "In [0, 1]."},
            "next_state": _integer("The next state."),
        },
        required=("reward", "next_state"),
        answer=_object(counted={
            "type": "boolean", "description": "False if the same feedback was given before.",
        }),
        refusals=(404, 409, 410, 503),
    ),
    Route(
        "POST", "/mode", "mode", "Set who chooses.",
        fields={
            "mode": _text("The agent, a fixed policy, or a fixed policy with the agent in shadow.",
                          enum=list(MODES)),
            "policy": _integers("For fixed and shadow: an action for each state."),
        },
        required=("mode",), answer=_object(mode=_text("The new mode.")), refusals=(503,),
    ),
    Route(
        "POST", "/states", "add_state", "Add a state.", status=201,
        fields={"available": _integers("Its actions; by default all.")},
        answer=_object(state=_integer("Its number.")), refusals=(503,),
    ),
    Route(
        "POST", "/actions", "add_action", "Add an action.", status=201,
        fields={"states": _integers("The states in which it exists; by default all.")},
        answer=_object(action=_integer("Its number.")), refusals=(503,),
    ),
    Route(
        "POST", "/restart", "restart", "Forget everything learned, after a known change.",
        answer=_object(restarted={"type": "boolean"}), refusals=(503,),
    ),
    Route("GET", "/agent", "agent", "The agent's policy and estimates.", {"type": "object"}),
    Route(
        "GET", "/metrics", "metrics", "Metrics for Prometheus.", {"type": "string"},
        media="text/plain",
    ),
    Route(
        "GET", "/healthz", "health", "Whether the service works.", _object(status=_text("ok")),
        refusals=(503,), public=True,
    ),
    Route("GET", "/openapi.json", "openapi", "This document.", {"type": "object"}),
    Route(
        "GET", "/", "page", "The live page, which asks the user for the token.", {"type": "string"},
        media="text/html", public=True,
    ),
)  # fmt: skip


ALWAYS = (401, 403, 429)
OF_BODIES = (400, 413, 415, 422)
ERROR = {
    "type": "object",
    "properties": {
        "error": {"type": "string", "description": "The type of the error, such as InvalidState."},
        "message": {"type": "string", "description": "The value, and what is allowed."},
    },
    "required": ["error", "message"],
}


def document() -> dict[str, Any]:
    """The OpenAPI document.

    >>> sorted(document()["paths"]["/mode"])
    ['post']
    """
    paths: dict[str, dict[str, Any]] = {}
    for route in ROUTES:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "switchmdp",
            "version": __version__,
            "summary": "Decisions of an agent that learns in a changing environment.",
        },
        "security": [{}, {"token": []}],
        "paths": paths,
        "components": {
            "schemas": {"Error": ERROR},
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


def refusals(route: Route) -> tuple[int, ...]:
    """The error statuses of a route."""
    of_bodies = OF_BODIES if route.method == "POST" else ()
    return tuple(sorted({*ALWAYS, *of_bodies, *route.refusals}))


def _operation(route: Route) -> dict[str, Any]:
    good = {"description": "Success.", "content": {route.media: {"schema": route.answer}}}
    operation: dict[str, Any] = {
        "operationId": route.name,
        "summary": route.summary,
        "responses": {str(route.status): good} | {str(s): _refusal(s) for s in refusals(route)},
    }
    if route.public:
        operation["security"] = []
    if "{id}" in route.path:
        operation["parameters"] = [
            {"name": "id", "in": "path", "required": True, "schema": {"type": "string"}}
        ]
    if route.fields:
        schema = {
            "type": "object",
            "properties": dict(route.fields),
            "required": list(route.required),
            "additionalProperties": False,
        }
        operation["requestBody"] = {
            "required": bool(route.required),
            "content": {"application/json": {"schema": schema}},
        }
    return operation


def _refusal(status: int) -> dict[str, Any]:
    schema = {"$ref": "#/components/schemas/Error"}
    response: dict[str, Any] = {
        "description": HTTP_ERRORS[status][1],
        "content": {"application/json": {"schema": schema}},
    }
    if status in (429, 503):
        response["headers"] = {"Retry-After": {"schema": {"type": "integer", "minimum": 1}}}
    return response


KINDS: dict[str, Any] = {"integer": int, "number": (int, float), "string": str, "array": list}


async def read_body(request: Request, route: Route, most: int) -> dict[str, Any]:
    """The values in the body; missing ones are left out."""
    body = await _bytes(request, most)
    if not body and not route.required:
        return {}
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise HTTPException(415, "the content type of the body must be application/json")
    return checked(parsed(body), route)


async def _bytes(request: Request, most: int) -> bytes:
    """The body. A body that is too large is not read to its end."""
    chunks, size = [], int(request.headers.get("content-length", "0"))
    if size <= most:
        size = 0
        async for chunk in request.stream():
            chunks.append(chunk)
            size += len(chunk)
            if size > most:
                break
        else:
            return b"".join(chunks)
    # Close, because the rest of the body would be read as the next request.
    raise HTTPException(413, f"the body must have at most {most} bytes", {"Connection": "close"})


def parsed(body: bytes) -> dict[str, Any]:
    """The JSON object in a body.

    >>> parsed(b'{"state": 3}')
    {'state': 3}
    """
    try:
        content = _DECODER.decode(body.decode())
    except (ValueError, RecursionError) as error:  # RecursionError: nested too deeply
        raise HTTPException(400, f"the body is not valid JSON: {error}") from None
    if not isinstance(content, dict):
        raise HTTPException(400, f"the body must be a JSON object, got {type(content).__name__}")
    return content


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    content = dict(pairs)
    if len(content) < len(pairs):
        raise ValueError("duplicate key")
    return content


def _reject_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


_DECODER = json.JSONDecoder(object_pairs_hook=_without_duplicates, parse_constant=_reject_constant)


def checked(given: dict[str, Any], route: Route) -> dict[str, Any]:
    """Check the keys and types, and that no required key is missing."""
    unknown = given.keys() - route.fields.keys()
    if unknown:
        known = ", ".join(route.fields) or "none"
        raise HTTPException(400, f"unknown key {min(unknown)!r}; known keys: {known}")
    given = {name: value for name, value in given.items() if value is not None}
    for name in route.required:
        if name not in given:
            raise InvalidParameter(name, None, f"of type {_described(route.fields[name])}")
    for name, value in given.items():
        schema = route.fields[name]
        if not _fits(value, schema):
            raise InvalidParameter(name, value, f"of type {_described(schema)}")
    return given


def _fits(value: Any, schema: Schema) -> bool:
    if isinstance(value, bool) or not isinstance(value, KINDS[schema["type"]]):
        return False
    return not isinstance(value, list) or all(_fits(item, schema["items"]) for item in value)


def _described(schema: Schema) -> str:
    if schema["type"] == "array":
        return f"array of {schema['items']['type']}"
    return str(schema["type"])
