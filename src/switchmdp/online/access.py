"""Access to the service: authentication and rate limits. Every request is also timed here.

Without a token the service listens on the loopback only. There any web page in a browser on the
same machine could reach it. Such a page is recognised by its Origin header, or, if it has pointed a
host name of its own at the loopback, by the Host header.
"""

from __future__ import annotations

import hmac
import json
import math
import re
import time
from collections import OrderedDict
from collections.abc import Callable

from switchmdp.errors import InvalidParameter, MissingExtra

try:
    from starlette.responses import Response
    from starlette.types import ASGIApp, Message, Receive, Scope, Send
except ImportError as error:
    raise MissingExtra("the service needs Starlette: pip install 'switchmdp[serve]'") from error

from switchmdp.online.metrics import Metrics
from switchmdp.online.routes import HTTP_ERRORS, ROUTES

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
