"""Before the service: who may come in, and how often. Every request is timed here, too.

Without a token the service listens on the loopback only, where any page in a browser on the same
machine can reach it. Such a page gives itself away by its origin, or, if it has made a name of its
own point here, by the host that it asks for.
"""

from __future__ import annotations

import hmac
import json
import math
import re
import time
from collections import OrderedDict
from collections.abc import Callable

from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from switchmdp.errors import InvalidParameter
from switchmdp.online.metrics import Metrics
from switchmdp.online.routes import REFUSALS, ROUTES

SHORTEST_TOKEN = 16
MOST_CLIENTS = 10_000
LONGEST_MESSAGE = 500
HEADERS = [
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cache-control", b"no-store"),
]
LOCAL = re.compile(rb"(localhost|127(\.\d{1,3}){3}|\[::1\])(:\d+)?", re.IGNORECASE)
ROUTE = "switchmdp.route"  # where the application notes it, for the metrics
LET_IN = "switchmdp.let_in"  # what the server wants called for a request that has the token
FREE = frozenset(route.path for route in ROUTES if route.free)


def checked_token(token: str) -> str:
    """A token that can stand in a header and can't be guessed, or a typed error without it."""
    if len(token) < SHORTEST_TOKEN or not (token.isascii() and token.isprintable()) or " " in token:
        allowed = f"at least {SHORTEST_TOKEN} ASCII characters without spaces"
        raise InvalidParameter("token", f"{len(token)} characters", allowed)
    return token


def refusal(
    status: int, message: str, name: str | None = None, headers: dict[str, str] | None = None
) -> Response:
    """An answer that says what is wrong."""
    content = {"error": name or REFUSALS[status][0], "message": message[:LONGEST_MESSAGE]}
    return Response(json.dumps(content), status, headers, "application/json")


class Rate:
    """A bucket for each client: `rate` requests a second, and as many at once.

    >>> limit = Rate(2, clock=lambda: 0.0)
    >>> limit.wait("a"), limit.wait("a"), limit.wait("a"), limit.wait("b")
    (0.0, 0.0, 0.5, 0.0)
    """

    def __init__(self, rate: float, clock: Callable[[], float] = time.monotonic) -> None:
        self.rate, self._clock = rate, clock
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def wait(self, client: str) -> float:
        """How long a client has to wait; 0 if it may come in."""
        now, most = self._clock(), max(1.0, self.rate)
        left, at = self._buckets.pop(client, (most, now))
        left = min(most, left + (now - at) * self.rate)
        enough = left >= 1.0
        self._buckets[client] = (left - enough, now)
        if len(self._buckets) > MOST_CLIENTS:
            self._buckets.popitem(last=False)
        return 0.0 if enough else (1.0 - left) / self.rate


class Guard:
    """An ASGI application around another one."""

    def __init__(self, app: ASGIApp, metrics: Metrics, *, token: str | None, rate: float) -> None:
        self._app, self._metrics, self._rate = app, metrics, Rate(rate)
        self._token = None if token is None else checked_token(token).encode()
        self.needs_token = token is not None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, or let the application answer."""
        began, status = time.perf_counter(), 0

        async def sending(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message["headers"], *HEADERS]
            await send(message)

        refused = self._refusal(scope)
        try:
            await (refused or self._app)(scope, receive, sending)
        finally:
            if status:  # else nobody was there any more
                self._metrics.count(scope.get(ROUTE, "other"), status, time.perf_counter() - began)

    def _refusal(self, scope: Scope) -> Response | None:
        client = scope["client"]
        wait = self._rate.wait(client[0] if client else "")
        if wait > 0:
            again = {"Retry-After": str(math.ceil(wait))}
            return refusal(429, f"at most {self._rate.rate:g} requests a second", headers=again)
        headers = dict(scope["headers"])
        if self._token is None:
            if not _from_here(headers):
                return refusal(403, "only this machine and the service's own page may ask")
            return None
        if self._known(headers.get(b"authorization", b"")):
            scope.get(LET_IN, lambda: None)()
        elif scope["path"] not in FREE:
            how = {"WWW-Authenticate": "Bearer"}
            return refusal(401, "needs the header `Authorization: Bearer TOKEN`", headers=how)
        return None

    def _known(self, authorization: bytes) -> bool:
        assert self._token is not None
        scheme, _, token = authorization.partition(b" ")
        return scheme.lower() == b"bearer" and hmac.compare_digest(token.strip(), self._token)


def _from_here(headers: dict[bytes, bytes]) -> bool:
    host, origin = headers.get(b"host"), headers.get(b"origin")
    if host is not None and not LOCAL.fullmatch(host):
        return False
    return origin is None or origin == b"http://" + (host or b"")
