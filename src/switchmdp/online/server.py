"""Between the network and the service: addresses, connections, tokens and rates.

    with Models(SQLite("shop.sqlite")) as models:
        serve(application(models), listen("127.0.0.1", 8000), ready=print)

**HTTP limits.** Uvicorn closes a connection that is idle between two requests, but waits without
limit for a request that has started, and buffers a head of any size. `LimitedProtocol` has one
timeout from the first byte of a request (or from the connection) to its last, and limits the head.

If the service has a token, a connection is *unauthenticated* until one of its requests has sent the
token. The number of unauthenticated connections is limited, in total and per address. One too many
replaces the unauthenticated connection that has been idle longest. So a caller with the token can
connect, no matter how many others are waiting. The number of all connections is limited as well, in
total and per address: one too many replaces the connection that has been idle longest.

**Access.** `AccessControl` authenticates, counts and times every request. Without a token the
service listens on the loopback only. There any web page in a browser on the same machine could
reach it. Such a page is recognised by its Origin header, or, if its own host name resolves to the
loopback, by the Host header.

A token may be restricted to models by patterns, or to reading metrics (`Tokens`). Requests that
another worker forwards have been authenticated there; they carry the secret of the database.
"""

from __future__ import annotations

import asyncio
import errno
import hmac
import ipaddress
import itertools
import math
import re
import signal
import socket
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NoReturn

from switchmdp.display import counted
from switchmdp.errors import InvalidParameter, MissingExtra
from switchmdp.online.decisions import Decisions

try:
    import uvicorn
    from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol
except ImportError as error:
    raise MissingExtra("the service needs uvicorn: pip install 'switchmdp[serve]'") from error

try:
    from starlette.responses import Response
    from starlette.types import ASGIApp, Message, Receive, Scope, Send
except ImportError as error:
    raise MissingExtra("the service needs Starlette: pip install 'switchmdp[serve]'") from error

from switchmdp.online.database import MODEL
from switchmdp.online.metrics import Metrics
from switchmdp.online.models import Models
from switchmdp.online.schemas import PROBLEM, ROUTES
from switchmdp.online.service import (
    ALLOWED,
    FORWARDED,
    HEADERS,
    MAX_BODY,
    ROUTE,
    Application,
    Service,
    error_response,
)

IDLE = 75  # seconds that a connection may wait between two requests
LAST_ANSWERS = 10  # seconds for open requests when the server stops


def listen(host: str, port: int, *, has_token: bool = False) -> socket.socket:
    """A socket bound to an address. Without a token it must be a loopback address."""
    family, _, _, _, address = _resolved(host, port)
    if not has_token and not ipaddress.ip_address(address[0]).is_loopback:
        allowed = (
            "a loopback address such as 127.0.0.1, unless a token is set (on the command line: "
            "--token-file FILE, or the variable SWITCHMDP_TOKEN)"
        )
        raise InvalidParameter("host", host, allowed)
    bound = socket.socket(family, socket.SOCK_STREAM)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(address)
    except OSError as error:
        bound.close()
        reason = error.strerror or str(error)
        if error.errno == errno.EADDRINUSE:
            reason += "; stop the program that uses it, or choose another port"
        raise OSError(error.errno, reason, f"{host}:{port}") from None
    return bound


def _resolved(host: str, port: int) -> Any:
    try:
        return socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
    except (OSError, UnicodeError) as error:
        raise InvalidParameter(
            "host", host, f"an address or host name of this machine ({error})"
        ) from None


def address_of(bound: socket.socket) -> str:
    """The URL of the service."""
    host, port = bound.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def reachable(bound: socket.socket) -> str:
    """The URL at which other workers reach the service: with the host's name, if it listens on all
    addresses."""
    host, port = bound.getsockname()[:2]
    if ipaddress.ip_address(host).is_unspecified:
        return f"http://{socket.gethostname()}:{port}"
    return address_of(bound)


class Server(uvicorn.Server):
    """Calls `ready` once it listens, and stores the signal that stopped it."""

    def __init__(self, app: Any, ready: Callable[[], None] = lambda: None) -> None:
        super().__init__(uvicorn.Config(
            app, http=LimitedProtocol, ws="none", lifespan="off", access_log=False, log_config=None,
            log_level="error", proxy_headers=False, server_header=False,
            timeout_keep_alive=IDLE, timeout_graceful_shutdown=LAST_ANSWERS,
        ))  # fmt: skip
        self._ready = ready
        self.signal: int | None = None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start to listen."""
        await super().startup(sockets)
        self._ready()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stop to listen, and close the connections to other workers."""
        await super().shutdown(sockets)
        app = self.config.app
        if isinstance(app, AccessControl):
            await app.close()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Do nothing: Uvicorn's handlers would end the process before the decisions are closed."""
        yield

    def stop(self, number: int | None = None, frame: Any = None) -> None:
        """Answer open requests, then return. If called twice, return at once."""
        self.signal, self.force_exit, self.should_exit = number, self.should_exit, True


def serve(app: Any, bound: socket.socket, ready: Callable[[], None]) -> int | None:
    """Serve until SIGINT or SIGTERM. Returns the signal."""
    server = Server(app, ready)
    before = {n: signal.signal(n, server.stop) for n in (signal.SIGINT, signal.SIGTERM)}
    try:
        server.run([bound])
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    return server.signal


TIMEOUT = 10.0  # seconds for a request; or, without authentication, between two requests
LARGEST_HEAD = 32 * 1024
CHUNK = 4 * 1024  # bytes parsed at once; the size of a head is only known to this accuracy
MOST_CONNECTIONS = 900  # a process commonly has at most 1024 open files
MOST_FROM_ADDRESS = 600
MOST_UNAUTHENTICATED = 600
MOST_UNAUTHENTICATED_FROM_ADDRESS = 256


_moments = itertools.count()  # orders events, because the clock of the loop is too coarse


class LimitedProtocol(HttpToolsProtocol):
    """One connection."""

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self._timeout: asyncio.TimerHandle | None = None
        self._arriving, self._in_head, self._upgraded = False, False, False
        self._head, self._begun = 0, 0  # bytes of this head, requests so far
        self._fault: str | None = None  # the reason for rejecting the request, if known
        self._idle_since = next(_moments)
        self.authenticated = not getattr(self.app, "needs_token", False)

    @property
    def address(self) -> str:
        """The address of the client."""
        return self.client[0] if self.client else ""

    @property
    def busy(self) -> bool:
        """Whether a request is being received or answered."""
        answering = self.cycle is not None and not self.cycle.response_complete
        return self._arriving or answering

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # uvicorn narrows it too
        """A client has connected."""
        super().connection_made(transport)
        self._start_timeout()
        self._make_room()

    def _make_room(self) -> None:
        """Close a connection if a limit is exceeded."""
        for unauthenticated, here, most in (
            (True, True, MOST_UNAUTHENTICATED_FROM_ADDRESS),
            (True, False, MOST_UNAUTHENTICATED),
            (False, True, MOST_FROM_ADDRESS),
            (False, False, MOST_CONNECTIONS),
        ):
            if len(self.connections) <= most:
                continue
            group = [
                other
                for other in self.connections
                if isinstance(other, LimitedProtocol)
                and not other.transport.is_closing()
                and (not other.authenticated or not unauthenticated)
                and (other.address == self.address or not here)
            ]
            if len(group) > most:
                last = min(group, key=lambda one: (one.authenticated, one.busy, one._idle_since))
                (self if last.busy and last.authenticated else last).transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """The client has disconnected."""
        self._stop_timeout()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Data of one or more requests."""
        for first in range(0, len(data), CHUNK):
            if self._upgraded or self.transport.is_closing():
                return
            self._take_in(data[first : first + CHUNK])
        if self._arriving and self._timeout is None:
            self._start_timeout()

    def _take_in(self, piece: bytes) -> None:
        begun = self._begun
        super().data_received(piece)
        if self._in_head and self._begun == begun:  # otherwise it contains other requests
            self._head += len(piece)
            if self._head > LARGEST_HEAD:
                self.send_400_response(f"the head must have at most {LARGEST_HEAD} bytes")

    def on_message_begin(self) -> None:
        """A request starts."""
        super().on_message_begin()
        self._arriving = self._in_head = True
        self._head = 0
        self._begun += 1
        scope: dict[str, Any] = self.scope  # type: ignore[assignment]  # with a key of our own
        scope[TOKEN_ACCEPTED] = self._accept_token

    def _accept_token(self) -> None:
        """A request has sent the token."""
        self.authenticated = True

    def on_headers_complete(self) -> None:
        """The head of a request is complete."""
        self._in_head = False
        hosts = sum(name == b"host" for name, _ in self.headers)
        if hosts > 1 or (hosts == 0 and self.parser.get_http_version() == "1.1"):
            self._reject(f"a request must have exactly one Host header, got {hosts}")
        super().on_headers_complete()
        if self.scope["method"] != "HEAD":
            self.cycle.transport = _HeadWithBody(self.transport)
        if self.parser.should_upgrade():  # the following data is not HTTP
            self.cycle.keep_alive = False
            self._upgraded = True

    def _reject(self, fault: str) -> NoReturn:
        """Stop the parser, which then calls `send_400_response`."""
        self._fault = fault
        raise ValueError(fault)

    def on_message_complete(self) -> None:
        """A request is complete."""
        super().on_message_complete()
        self._arriving = False
        self._stop_timeout()

    def on_response_complete(self) -> None:
        """A response is complete."""
        self._idle_since = next(_moments)
        super().on_response_complete()
        idle = not self.busy and not self.transport.is_closing()
        if not self.authenticated and idle and self._timeout is None:
            self._start_timeout()  # shorter than Uvicorn's timeout for idle connections

    def _start_timeout(self) -> None:
        self._timeout = self.loop.call_later(TIMEOUT, self.transport.close)

    def _stop_timeout(self) -> None:
        if self._timeout is not None:
            self._timeout.cancel()
            self._timeout = None

    def send_400_response(self, msg: str) -> None:
        """Answer invalid HTTP with a JSON error, and close the connection."""
        body = error_response(400, self._fault or msg).body
        head = f"content-type: {PROBLEM}\r\ncontent-length: {len(body)}\r\n"
        self.transport.write(
            STATUS_LINE[400] + head.encode() + b"connection: close\r\n\r\n" + bytes(body)
        )
        self.transport.close()


class _HeadWithBody(asyncio.Transport):
    """The transport of one response, which sends the head together with the body.

    Uvicorn sends them one after the other. One system call less saves about 20 µs per request.
    """

    __slots__ = ("_head", "_transport")

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self._head: bytes | None = None

    def write(self, data: Any) -> None:
        """Send data; the head is kept until there is a body, which may be empty."""
        if self._head is None and not data.startswith(STATUS_LINE[100]):
            self._head = data
        else:
            self._transport.write((self._head or b"") + data)
            self._head = self._head and b""

    def is_closing(self) -> bool:
        """Whether the connection is closed, or about to be."""
        return self._transport.is_closing()

    def close(self) -> None:
        """Send what was kept, and close the connection."""
        if self._head:
            self._transport.write(self._head)
        self._transport.close()


# Access.

RATE = 5000.0
SHORTEST_TOKEN = 16
MOST_CLIENTS = 10_000
ADDED_HEADERS = [
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cache-control", b"no-store"),
]
LOCAL = re.compile(rb"(localhost|127(\.\d{1,3}){3}|\[::1\])(:\d+)?", re.IGNORECASE)
TOKEN_ACCEPTED = "switchmdp.token_accepted"  # in the scope: a callback of the server
PUBLIC = frozenset(route.path for route in ROUTES if route.public)
METRICS = "/metrics"
METRICS_ONLY = "@metrics"  # instead of patterns, in a file of tokens


def application(
    models: Models | Decisions, *, token: str | Tokens | None = None, rate: float = RATE,
    max_body: int = MAX_BODY, single: str = MODEL, tell: Callable[[str], None] = lambda text: None,
) -> AccessControl:  # fmt: skip
    """The ASGI application. The caller closes the models.

    `token`: required of every client; without one, only this machine has access. `rate`: requests
    per second and client. `max_body`: bytes; batches may be larger. `single`: the model of the
    routes without /models/{name}. `tell`: receives messages for the operator.
    """
    if isinstance(models, Decisions):
        single = models.model
        models = Models.around(models)
    metrics = Metrics(models)
    service = Service(models, metrics, tell)
    app = Application(service, single=single, max_body=max_body)
    tokens = Tokens([token]) if isinstance(token, str) else token
    return AccessControl(app, service, metrics, tokens=tokens, rate=rate)


def checked_token(token: str) -> str:
    """Check that a token fits in a header and is hard to guess. The error does not show it."""
    if len(token) < SHORTEST_TOKEN or not (token.isascii() and token.isprintable()) or " " in token:
        allowed = f"at least {SHORTEST_TOKEN} ASCII characters without spaces"
        raise InvalidParameter("token", counted(len(token), "character"), allowed)
    return token


@dataclass(frozen=True)
class Access:
    """What a token allows: models whose names match a pattern (None: all), or only metrics."""

    models: tuple[str, ...] | None = None
    metrics_only: bool = False


class Tokens:
    """Tokens and what they allow, from lines `TOKEN [PATTERN ...]`.

    A token without patterns allows everything. Patterns are names of models with `*` for any text.
    `@metrics` instead of patterns allows only GET /metrics.

    >>> tokens = Tokens(["0123456789abcdef", "fedcba9876543210 shop-* ads"])
    >>> tokens.access("fedcba9876543210").models, tokens.access("another")
    (('shop-*', 'ads'), None)
    """

    def __init__(self, lines: Iterable[str]) -> None:
        self._all: dict[bytes, Access] = {}
        for line in lines:
            token, *patterns = line.split() or [""]
            only = patterns == [METRICS_ONLY]
            access = Access(None if only or not patterns else tuple(patterns), only)
            self._all[checked_token(token).encode()] = access

    def access(self, token: str | bytes) -> Access | None:
        """What a token allows; None if it is unknown. The time does not depend on the token."""
        given = token.encode() if isinstance(token, str) else token
        found = None
        for known, access in self._all.items():
            if hmac.compare_digest(known, given):
                found = access
        return found


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

    def __init__(
        self, app: ASGIApp, service: Service, metrics: Metrics, *, tokens: Tokens | None,
        rate: float,
    ) -> None:  # fmt: skip
        self._app, self._service = app, service
        self._metrics, self._rate = metrics, RateLimit(rate)
        self._tokens, self._secret = tokens, service.models.store.secret.encode()
        self.needs_token = tokens is not None

    async def close(self) -> None:
        """Close the connections to other workers."""
        await self._service.close()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Reject the request, or pass it to the application."""
        began, status = time.perf_counter(), 0

        async def sending(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message["headers"], *ADDED_HEADERS]
            await send(message)

        rejection = self._rejection(scope)
        try:
            await (rejection or self._app)(scope, receive, sending)
        finally:
            if status:  # otherwise the client has disconnected
                self._metrics.count(scope.get(ROUTE, "other"), status, time.perf_counter() - began)

    def _rejection(self, scope: Scope) -> Response | None:
        headers = scope[HEADERS] = dict(scope["headers"])
        if FORWARDED.encode() in headers:
            if self._secret and hmac.compare_digest(headers[FORWARDED.encode()], self._secret):
                return None
            return error_response(403, "this header is for workers of the service only")
        client = scope["client"]
        wait = self._rate.wait(client[0] if client else "")
        if wait > 0:
            again = {"Retry-After": str(math.ceil(wait))}
            message = f"at most {self._rate.rate:g} requests per second are allowed"
            return error_response(429, message, again)
        if self._tokens is None:
            if not _is_local(headers):
                return error_response(403, "without a token, only this machine may send requests")
            return None
        access = self._access(headers.get(b"authorization", b""))
        if access is not None:
            scope.get(TOKEN_ACCEPTED, lambda: None)()
            scope[ALLOWED] = access.models
            restricted = access.metrics_only or access.models is not None
            if access.metrics_only and scope["path"] not in PUBLIC | {METRICS}:
                return error_response(403, "this token only allows GET /metrics")
            if restricted and not access.metrics_only and scope["path"] == METRICS:
                return error_response(403, "this token is restricted to certain models")
        elif scope["path"] not in PUBLIC:
            message = "missing or wrong header `Authorization: Bearer TOKEN`"
            return error_response(401, message, {"WWW-Authenticate": "Bearer"})
        return None

    def _access(self, authorization: bytes) -> Access | None:
        assert self._tokens is not None
        scheme, _, token = authorization.partition(b" ")
        return self._tokens.access(token.strip()) if scheme.lower() == b"bearer" else None


def _is_local(headers: dict[bytes, bytes]) -> bool:
    host, origin = headers.get(b"host"), headers.get(b"origin")
    if host is not None and not LOCAL.fullmatch(host):
        return False
    return origin is None or origin == b"http://" + (host or b"")
