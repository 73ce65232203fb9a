"""A process that serves: it compiles before it listens, and stops without losing anything.

    with Decisions(agent, folder) as decisions:
        compile_agent(decisions)
        serve(application(decisions), listen("127.0.0.1", 8000), ready=print)

**HTTP limits.** Uvicorn closes a connection that is idle between two requests, but waits without
limit for a request that has started, and buffers a head of any size. `LimitedProtocol` has one
timeout from the first byte of a request (or from the connection) to its last, and limits the head.

If the service has a token, a connection is *unauthenticated* until one of its requests has sent the
token. The number of unauthenticated connections is limited, in total and per address. One too many
replaces the unauthenticated connection that has been idle longest, so a caller with the token gets
in however many others wait. The number of all connections is limited as well, in total and per
address: one too many replaces the connection that has been idle longest.
"""

from __future__ import annotations

import asyncio
import copy
import ipaddress
import itertools
import json
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

from switchmdp.agents.policy_agent import follows_policy
from switchmdp.errors import InvalidParameter, MissingExtra
from switchmdp.online.decisions import Decisions

try:
    import uvicorn
    from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol
except ImportError as error:
    raise MissingExtra("the service needs uvicorn: pip install 'switchmdp[serve]'") from error

from switchmdp.online.service import TOKEN_ACCEPTED

IDLE = 75  # seconds that a connection may wait between two requests
LAST_ANSWERS = 10  # seconds for open requests when the server stops


def compile_agent(decisions: Decisions) -> None:
    """Compile the agent: a copy of it plans once."""
    agent = decisions.look(lambda learner: copy.deepcopy(learner.agent))
    if follows_policy(agent):
        agent.plan()


def listen(host: str, port: int, token: str | None = None) -> socket.socket:
    """A socket bound to an address. Without a token it must be a loopback address."""
    family, _, _, _, address = _resolved(host, port)
    if token is None and not ipaddress.ip_address(address[0]).is_loopback:
        allowed = "a loopback address, unless a token is set"
        raise InvalidParameter("host", host, allowed)
    bound = socket.socket(family, socket.SOCK_STREAM)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(address)
    except OSError as error:
        bound.close()
        raise OSError(error.errno, error.strerror, f"{host}:{port}") from None
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


TIMEOUT = 10.0  # seconds for a request, and between two without authentication
LARGEST_HEAD = 32 * 1024
CHUNK = 4 * 1024  # bytes parsed at once: the accuracy of the length of a head
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
        self._fault: str | None = None  # why the request is rejected, if known
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
        if self.parser.should_upgrade():  # what follows is not HTTP
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
        body = json.dumps({"error": "BadRequest", "message": self._fault or msg}).encode()
        head = f"content-type: application/json\r\ncontent-length: {len(body)}\r\n"
        self.transport.write(STATUS_LINE[400] + head.encode() + b"connection: close\r\n\r\n" + body)
        self.transport.close()
