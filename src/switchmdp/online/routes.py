"""The routes of the service: one table for dispatch, validation and the OpenAPI document.

The JSON Schema of each body is given here. The service checks types before it does anything. The
decisions check ranges, of a state for example.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from switchmdp.online.learner import LONGEST_SESSION, MODES
from switchmdp.version import __version__

Schema = dict[str, Any]

# The name of an error that no typed error of ours stands behind, and when it is given.
HTTP_ERRORS = {
    400: ("BadRequest", "The body is no JSON object, or has a key that is not known."),
    401: ("Unauthorized", "The bearer token is missing or wrong."),
    403: ("Forbidden", "The request comes from another site's page."),
    404: ("NotFound", "There is no such path, or no such decision."),
    405: ("MethodNotAllowed", "The path does not take this method."),
    409: ("ConflictingFeedback", "The decision was already answered, otherwise."),
    410: ("ForgottenDecision", "The decision has expired, or was answered long ago."),
    413: ("TooLarge", "The body is larger than this server takes."),
    415: ("UnsupportedMediaType", "The body is not declared as application/json."),
    422: ("InvalidParameter", "A value is missing, of the wrong type, or out of range."),
    429: ("TooManyRequests", "Too many requests; `Retry-After` says when to come again."),
    500: ("InternalError", "A fault of the service."),
    503: ("LogFailed", "The log can't be written; what was asked is not acknowledged."),
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
    """What is answered where, and what may be sent there."""

    method: str
    path: str
    name: str  # of the method of `Service`
    summary: str
    answer: Schema
    status: int = 200
    fields: Mapping[str, Schema] = field(default_factory=dict)
    required: tuple[str, ...] = ()
    refusals: tuple[int, ...] = ()  # beside those that any route of this method may give
    media: str = "application/json"
    public: bool = False  # needs no token


ROUTES = (
    Route(
        "POST", "/decisions", "decide", "What to do now.", status=201,
        fields={
            "state": _integer("Where it is; without one, where the session was last seen."),
            "session": _text("Whose state it is.", maxLength=LONGEST_SESSION),
            "available": _integers("The actions that can be taken right now; without it, all."),
            "taken": _integer("An action chosen elsewhere, which is only to be learned from."),
        },
        answer=_object(
            id=_text("For the feedback."),
            action=_integer("What to do."),
            state=_integer("In which state."),
            session=_text("Whose."),
            would={
                "type": ["integer", "null"],
                "description": "The agent's own choice, where something else has chosen.",
            },
        ),
        refusals=(503,),
    ),
    Route(
        "POST", "/decisions/{id}/feedback", "feedback", "What came of a decision.",
        fields={
            "reward": {"type": "number", "minimum": 0, "maximum": 1, "description": "In [0, 1]."},
            "next_state": _integer("Where it is now."),
        },
        required=("reward", "next_state"),
        answer=_object(counted={
            "type": "boolean", "description": "False: exactly this was said before.",
        }),
        refusals=(404, 409, 410, 503),
    ),
    Route(
        "POST", "/mode", "mode", "Who chooses from now on.",
        fields={
            "mode": _text("The agent, a fixed policy, or that with the agent in its shadow.",
                          enum=list(MODES)),
            "policy": _integers("For fixed and shadow: an action for each state."),
        },
        required=("mode",), answer=_object(mode=_text("As asked.")), refusals=(503,),
    ),
    Route(
        "POST", "/states", "add_state", "One more state.", status=201,
        fields={"available": _integers("Its actions; without it, all.")},
        answer=_object(state=_integer("Its number.")), refusals=(503,),
    ),
    Route(
        "POST", "/actions", "add_action", "One more action.", status=201,
        fields={"states": _integers("Where it can be taken; without it, everywhere.")},
        answer=_object(action=_integer("Its number.")), refusals=(503,),
    ),
    Route(
        "POST", "/restart", "restart", "Forget what was learned, after a change one knows of.",
        answer=_object(restarted={"type": "boolean"}), refusals=(503,),
    ),
    Route("GET", "/agent", "agent", "What the agent believes.", {"type": "object"}),
    Route(
        "GET", "/metrics", "metrics", "Numbers for Prometheus.", {"type": "string"},
        media="text/plain",
    ),
    Route(
        "GET", "/healthz", "health", "Whether it serves.", _object(status=_text("ok")),
        refusals=(503,), public=True,
    ),
    Route("GET", "/openapi.json", "openapi", "This document.", {"type": "object"}),
    Route(
        "GET", "/", "page", "The live page, which asks for the token itself.", {"type": "string"},
        media="text/html", public=True,
    ),
)  # fmt: skip


ALWAYS = (401, 403, 429)
OF_BODIES = (400, 413, 415, 422)
ERROR = {
    "type": "object",
    "properties": {
        "error": {"type": "string", "description": "The kind, such as InvalidState."},
        "message": {"type": "string", "description": "What was found, and what is allowed."},
    },
    "required": ["error", "message"],
}


def document() -> dict[str, Any]:
    """All routes, with what they take, answer and refuse.

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
            "summary": "Decisions of an agent that learns in a world that changes.",
        },
        "security": [{}, {"token": []}],
        "paths": paths,
        "components": {
            "schemas": {"Error": ERROR},
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


def refusals(route: Route) -> tuple[int, ...]:
    """Every status but the good one that a route may answer with."""
    of_bodies = OF_BODIES if route.method == "POST" else ()
    return tuple(sorted({*ALWAYS, *of_bodies, *route.refusals}))


def _operation(route: Route) -> dict[str, Any]:
    good = {"description": "As asked.", "content": {route.media: {"schema": route.answer}}}
    found: dict[str, Any] = {
        "operationId": route.name,
        "summary": route.summary,
        "responses": {str(route.status): good} | {str(s): _refusal(s) for s in refusals(route)},
    }
    if route.public:
        found["security"] = []
    if "{id}" in route.path:
        found["parameters"] = [
            {"name": "id", "in": "path", "required": True, "schema": {"type": "string"}}
        ]
    if route.fields:
        schema = {
            "type": "object",
            "properties": dict(route.fields),
            "required": list(route.required),
            "additionalProperties": False,
        }
        found["requestBody"] = {
            "required": bool(route.required),
            "content": {"application/json": {"schema": schema}},
        }
    return found


def _refusal(status: int) -> dict[str, Any]:
    schema = {"$ref": "#/components/schemas/Error"}
    found: dict[str, Any] = {
        "description": HTTP_ERRORS[status][1],
        "content": {"application/json": {"schema": schema}},
    }
    if status == 429:
        found["headers"] = {"Retry-After": {"schema": {"type": "integer", "minimum": 1}}}
    return found
