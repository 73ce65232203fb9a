"""The service: decisions over HTTP, as JSON (a Starlette application).

A handler enters its event, which takes microseconds, and then waits for the disk together with all
other requests (`GroupCommit`): every answer is durable. Errors are typed, and answered as
`{"error": "InvalidState", "message": "state must be an integer from 0 to 4, got 7"}`.

A body must be one JSON object with the keys and types of its route. Python's JSON parser is too
lenient: duplicate keys, NaN and Infinity, and encodings other than UTF-8 are rejected here. `null`
counts as a missing value.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, NoReturn

from switchmdp.errors import (
    ConflictingFeedback,
    ForgottenDecision,
    InvalidParameter,
    LogFailed,
    MissingExtra,
    SwitchmdpError,
    UnknownDecision,
)

try:
    from starlette.applications import Starlette
    from starlette.exceptions import HTTPException
    from starlette.requests import ClientDisconnect, Request
    from starlette.responses import HTMLResponse, PlainTextResponse, Response
    from starlette.routing import Route as StarletteRoute
except ImportError as error:
    raise MissingExtra("the service needs Starlette: pip install 'switchmdp[serve]'") from error

from switchmdp.online.access import ROUTE, AccessControl, error_response
from switchmdp.online.beliefs import beliefs
from switchmdp.online.decisions import Decisions
from switchmdp.online.metrics import Metrics
from switchmdp.online.page import content_security_policy, page
from switchmdp.online.routes import HTTP_ERRORS, ROUTES, Route, Schema, document

MAX_BODY = 64 * 1024
RATE = 5000.0
STATUS: dict[type[SwitchmdpError], int] = {
    UnknownDecision: 404,
    ConflictingFeedback: 409,
    ForgottenDecision: 410,
    LogFailed: 503,
    SwitchmdpError: 422,
}


def application(
    decisions: Decisions, *, token: str | None = None, rate: float = RATE, max_body: int = MAX_BODY
) -> AccessControl:
    """The ASGI application. The caller closes the decisions.

    `token`: required of every client; without one, only this machine has access. `rate`: requests
    per second and client. `max_body`: bytes.
    """
    metrics = Metrics()
    service = Service(decisions, metrics)
    app = Starlette(
        routes=[
            StarletteRoute(route.path, _endpoint(service, route, max_body), methods=[route.method])
            for route in ROUTES
        ],
        exception_handlers={
            SwitchmdpError: _typed_error, HTTPException: _http_error,
            ClientDisconnect: _disconnected, 500: _internal_error,
        },
    )  # fmt: skip
    app.router.redirect_slashes = False
    return AccessControl(app, metrics, token=token, rate=rate)


def _endpoint(
    service: Service, route: Route, max_body: int
) -> Callable[[Request], Awaitable[Response]]:
    answer = getattr(service, route.name)

    async def endpoint(request: Request) -> Response:
        request.scope[ROUTE] = route.path
        given = await read_body(request, route, max_body) if route.method == "POST" else {}
        found = await answer(**request.path_params, **given)
        if isinstance(found, Response):
            return found
        return Response(json.dumps(found, allow_nan=False), route.status, None, route.media)

    return endpoint


class Service:
    """One method per route; the keys of the body are its arguments."""

    def __init__(self, decisions: Decisions, metrics: Metrics) -> None:
        self.decisions, self._metrics = decisions, metrics
        self._commits = GroupCommit(decisions.commit)

    async def decide(self, **given: Any) -> dict[str, Any]:
        """`Decisions.decide`."""
        await self._check_disk()
        decision, _ = self.decisions.enter_decision(**given)
        await self._commits.done()
        return vars(decision)

    async def feedback(
        self, id: str, reward: float, next_state: int,  # noqa: A002  # the request's own word
    ) -> dict[str, Any]:  # fmt: skip
        """`Decisions.feedback`."""
        await self._check_disk()
        try:
            counted, _ = self.decisions.enter_feedback(id, reward, next_state)
        except SwitchmdpError as error:
            self._metrics.feedback("refused", type(error).__name__)
            raise
        await self._commits.done()
        self._metrics.feedback("counted" if counted else "duplicate")
        return {"counted": counted}

    async def _check_disk(self) -> None:
        """Reject the request if the disk is too slow or has failed."""
        if self._commits.crowded:
            raise HTTPException(429, "too many requests wait for the disk", {"Retry-After": "1"})
        await self._commits.recovered()

    async def mode(self, mode: str, policy: list[int] | None = None) -> dict[str, Any]:
        """`Decisions.set_mode`."""
        await self._change(self.decisions.set_mode, mode, policy)
        return {"mode": mode}

    async def add_state(self, available: list[int] | None = None) -> dict[str, Any]:
        """`Decisions.add_state`."""
        return {"state": await self._change(self.decisions.add_state, available)}

    async def add_action(self, states: list[int] | None = None) -> dict[str, Any]:
        """`Decisions.add_action`."""
        return {"action": await self._change(self.decisions.add_action, states)}

    async def restart(self) -> dict[str, Any]:
        """`Decisions.start_over`."""
        await self._change(self.decisions.start_over)
        return {"restarted": True}

    async def _change(self, happen: Callable[..., Any], *given: Any) -> Any:
        """Run a rare and slow change in a thread."""
        await self._check_disk()
        return await asyncio.to_thread(happen, *given)

    async def agent(self) -> dict[str, Any]:
        """The policy and the estimates."""
        return await asyncio.to_thread(beliefs, self.decisions)

    async def metrics(self) -> Response:
        """Metrics for Prometheus."""
        failed = self._commits.failure is not None
        text = await asyncio.to_thread(self._metrics.text, self.decisions, failed)
        return PlainTextResponse(text, media_type="text/plain; version=0.0.4")

    async def health(self) -> dict[str, Any]:
        """Whether decisions can be made. Retries the disk if it has failed."""
        try:
            await self._commits.recovered()
        except LogFailed:  # its message names the file, and this route needs no token
            raise LogFailed("the database cannot be written") from None
        return {"status": "ok"}

    async def openapi(self) -> dict[str, Any]:
        """The OpenAPI document."""
        return document()

    async def page(self) -> Response:
        """The live page."""
        return HTMLResponse(page(), headers={"Content-Security-Policy": content_security_policy()})


MOST_WAITING = 1000


class GroupCommit:
    """Combines the waits of many requests into few calls of `commit`.

    While one call runs in a thread, other requests wait for the next one together. If a call fails,
    every request in its group gets the error.
    """

    def __init__(self, commit: Callable[[], None]) -> None:
        self._commit = commit
        self._gathering: list[asyncio.Future[None]] = []
        self._busy = False
        self._thread = ThreadPoolExecutor(1, "commit")
        self.failure: BaseException | None = None

    @property
    def crowded(self) -> bool:
        """Whether too many requests wait for the disk to accept another."""
        return len(self._gathering) >= MOST_WAITING

    async def recovered(self) -> None:
        """After a failure, return once the waiting events are on disk, or raise the error again."""
        if self.failure is not None:
            await self.done()

    async def done(self) -> None:
        """Wait until all events entered so far are on disk."""
        loop = asyncio.get_running_loop()
        mine = loop.create_future()
        self._gathering.append(mine)
        if not self._busy:
            self._busy = True
            loop.call_soon(self._start)  # later, so that other requests can join the group
        await mine

    def _start(self) -> None:
        group, self._gathering = self._gathering, []
        sync = asyncio.get_running_loop().run_in_executor(self._thread, self._commit)
        sync.add_done_callback(partial(self._finish, group))

    def _finish(self, group: list[asyncio.Future[None]], sync: asyncio.Future[None]) -> None:
        self.failure = sync.exception()
        for waiter in group:
            if waiter.done():  # the request was cancelled
                continue
            if self.failure is None:
                waiter.set_result(None)
            else:
                waiter.set_exception(self.failure)
        if self._gathering:
            self._start()
        else:
            self._busy = False


async def _typed_error(request: Request, error: Any) -> Response:
    status = next(STATUS[kind] for kind in type(error).__mro__ if kind in STATUS)
    return error_response(status, str(error), type(error).__name__)


async def _http_error(request: Request, error: Any) -> Response:
    status = error.status_code
    message = HTTP_ERRORS[status][1] if status in (404, 405) else error.detail
    return error_response(status, message, headers=error.headers)


async def _disconnected(request: Request, error: Any) -> Response:
    return error_response(400, "the client disconnected before the end of the body")


async def _internal_error(request: Request, error: Any) -> Response:
    return error_response(500, "internal error; see the log of the service")


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
