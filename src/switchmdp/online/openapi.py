"""The OpenAPI document of the service, made from its table of routes."""

from __future__ import annotations

from typing import Any

from switchmdp.online.routes import REFUSALS, ROUTES, Route
from switchmdp.version import __version__

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
    if route.free:
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
        "description": REFUSALS[status][1],
        "content": {"application/json": {"schema": schema}},
    }
    if status == 429:
        found["headers"] = {"Retry-After": {"schema": {"type": "integer", "minimum": 1}}}
    return found
