"""The service: decisions over HTTP, as JSON (a Starlette application).

A handler enters its event, which takes microseconds, and then waits for the disk together with all
other requests (`GroupCommit`): every answer is durable. Errors are typed, and answered as
`{"error": "InvalidState", "message": "state must be an integer from 0 to 4, got 7"}`.

**Access.** `AccessControl` authenticates, counts and times every request. Without a token the
service listens on the loopback only. There any web page in a browser on the same machine could
reach it. Such a page is recognised by its Origin header, or, if it has pointed a host name of its
own at the loopback, by the Host header.
"""

from __future__ import annotations

import asyncio
import hmac
import json
import math
import re
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

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
    from starlette.types import ASGIApp, Message, Receive, Scope, Send
except ImportError as error:
    raise MissingExtra("the service needs Starlette: pip install 'switchmdp[serve]'") from error

from switchmdp.online.decisions import Decisions
from switchmdp.online.routes import HTTP_ERRORS, ROUTES, Route, document, read_body
from switchmdp.online.views import Metrics, beliefs, content_security_policy, page

MAX_BODY = 64 * 1024
RATE = 5000.0
SHORTEST_TOKEN = 16
MOST_CLIENTS = 10_000
LONGEST_MESSAGE = 500
HEADERS = [
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cache-control", b"no-store"),
]
LOCAL = re.compile(rb"(localhost|127(\.\d{1,3}){3}|\[::1\])(:\d+)?", re.IGNORECASE)
ROUTE = "switchmdp.route"  # the application stores the route here, for the metrics
TOKEN_ACCEPTED = "switchmdp.token_accepted"  # a callback of the server
PUBLIC = frozenset(route.path for route in ROUTES if route.public)
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
        result = await answer(**request.path_params, **given)
        if isinstance(result, Response):
            return result
        return Response(json.dumps(result, allow_nan=False), route.status, None, route.media)

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
    headers = {"Retry-After": "1"} if status == 503 else None
    return error_response(status, str(error), type(error).__name__, headers)


async def _http_error(request: Request, error: Any) -> Response:
    status = error.status_code
    message = HTTP_ERRORS[status][1] if status in (404, 405) else error.detail
    return error_response(status, message, headers=error.headers)


async def _disconnected(request: Request, error: Any) -> Response:
    return error_response(400, "the client disconnected before the end of the body")


async def _internal_error(request: Request, error: Any) -> Response:
    return error_response(500, "internal error; see the log of the service")


def checked_token(token: str) -> str:
    """Check that a token fits in a header and is hard to guess. The error does not show it."""
    if len(token) < SHORTEST_TOKEN or not (token.isascii() and token.isprintable()) or " " in token:
        allowed = f"at least {SHORTEST_TOKEN} ASCII characters without spaces"
        raise InvalidParameter("token", f"{len(token)} characters", allowed)
    return token


def error_response(
    status: int, message: str, name: str | None = None, headers: dict[str, str] | None = None
) -> Response:
    """A response that describes an error."""
    content = {"error": name or HTTP_ERRORS[status][0], "message": message[:LONGEST_MESSAGE]}
    return Response(json.dumps(content), status, headers, "application/json")


class RateLimit:
    """A token bucket per client: `rate` requests per second, and as many at once.

    >>> limit = RateLimit(2, clock=lambda: 0.0)
    >>> limit.wait("a"), limit.wait("a"), limit.wait("a"), limit.wait("b")
    (0.0, 0.0, 0.5, 0.0)
    """

    def __init__(self, rate: float, clock: Callable[[], float] = time.monotonic) -> None:
        self.rate, self._clock = rate, clock
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def wait(self, client: str) -> float:
        """The seconds that a client has to wait; 0 if its request is accepted."""
        now, most = self._clock(), max(1.0, self.rate)
        left, at = self._buckets.pop(client, (most, now))
        left = min(most, left + (now - at) * self.rate)
        enough = left >= 1.0
        self._buckets[client] = (left - enough, now)
        if len(self._buckets) > MOST_CLIENTS:
            self._buckets.popitem(last=False)
        return 0.0 if enough else (1.0 - left) / self.rate


class AccessControl:
    """An ASGI application that wraps another one."""

    def __init__(self, app: ASGIApp, metrics: Metrics, *, token: str | None, rate: float) -> None:
        self._app, self._metrics, self._rate = app, metrics, RateLimit(rate)
        self._token = None if token is None else checked_token(token).encode()
        self.needs_token = token is not None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Reject the request, or pass it to the application."""
        began, status = time.perf_counter(), 0

        async def sending(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message["headers"], *HEADERS]
            await send(message)

        rejection = self._rejection(scope)
        try:
            await (rejection or self._app)(scope, receive, sending)
        finally:
            if status:  # otherwise the client has disconnected
                self._metrics.count(scope.get(ROUTE, "other"), status, time.perf_counter() - began)

    def _rejection(self, scope: Scope) -> Response | None:
        client = scope["client"]
        wait = self._rate.wait(client[0] if client else "")
        if wait > 0:
            again = {"Retry-After": str(math.ceil(wait))}
            message = f"at most {self._rate.rate:g} requests per second are allowed"
            return error_response(429, message, headers=again)
        headers = dict(scope["headers"])
        if self._token is None:
            if not _is_local(headers):
                return error_response(403, "without a token, only this machine may send requests")
            return None
        if self._has_token(headers.get(b"authorization", b"")):
            scope.get(TOKEN_ACCEPTED, lambda: None)()
        elif scope["path"] not in PUBLIC:
            message = "missing or wrong header `Authorization: Bearer TOKEN`"
            return error_response(401, message, headers={"WWW-Authenticate": "Bearer"})
        return None

    def _has_token(self, authorization: bytes) -> bool:
        assert self._token is not None
        scheme, _, token = authorization.partition(b" ")
        return scheme.lower() == b"bearer" and hmac.compare_digest(token.strip(), self._token)


def _is_local(headers: dict[bytes, bytes]) -> bool:
    host, origin = headers.get(b"host"), headers.get(b"origin")
    if host is not None and not LOCAL.fullmatch(host):
        return False
    return origin is None or origin == b"http://" + (host or b"")
