"""What is sent, read strictly: one JSON object with the keys and types of its route.

JSON as Python reads it is too kind. A key that comes twice, NaN and Infinity, and other encodings
than UTF-8 are refused here, like everything else that is not JSON. `null` is as good as nothing.
"""

from __future__ import annotations

import json
from typing import Any, NoReturn

from starlette.exceptions import HTTPException
from starlette.requests import Request

from switchmdp.errors import InvalidParameter
from switchmdp.online.routes import Route, Schema

KINDS: dict[str, Any] = {"integer": int, "number": (int, float), "string": str, "array": list}


async def read(request: Request, route: Route, most: int) -> dict[str, Any]:
    """The values that were sent; those that were left out are not in it."""
    body = await _bytes(request, most)
    if not body and not route.required:
        return {}
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise HTTPException(415, "the body must be declared as content-type: application/json")
    return checked(parsed(body), route)


async def _bytes(request: Request, most: int) -> bytes:
    """The body; one that is too large is not read to its end."""
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
    # What is left of the body would be taken for the next request.
    raise HTTPException(413, f"a body may have {most} bytes", {"Connection": "close"})


def parsed(body: bytes) -> dict[str, Any]:
    """The JSON object in a body.

    >>> parsed(b'{"state": 3}')
    {'state': 3}
    """
    try:
        found = _DECODER.decode(body.decode())
    except (ValueError, RecursionError) as error:  # RecursionError: nested too deeply
        raise HTTPException(400, f"the body is not JSON: {error}") from None
    if not isinstance(found, dict):
        raise HTTPException(400, f"the body must be a JSON object, got {type(found).__name__}")
    return found


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a key comes twice")
    return found


def _no_number(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON")


_DECODER = json.JSONDecoder(object_pairs_hook=_once, parse_constant=_no_number)


def checked(given: dict[str, Any], route: Route) -> dict[str, Any]:
    """Only what the route knows, of the right types, and all that it needs."""
    unknown = given.keys() - route.fields.keys()
    if unknown:
        known = ", ".join(route.fields) or "none"
        raise HTTPException(400, f"unknown key {min(unknown)!r}; known: {known}")
    given = {name: value for name, value in given.items() if value is not None}
    for name in route.required:
        if name not in given:
            raise InvalidParameter(name, None, "given")
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
