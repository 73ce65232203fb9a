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

from switchmdp.online.access import TOKEN_ACCEPTED

IDLE = 75  # seconds that a connection may wait between two requests
LAST_ANSWERS = 10  # seconds for what is under way when it is stopped


def compile_agent(decisions: Decisions) -> None:
    """Have the agent's machine code ready: a copy of it plans once."""
    agent = decisions.look(lambda learner: copy.deepcopy(learner.agent))
    if follows_policy(agent):
        agent.plan()


def listen(host: str, port: int, token: str | None = None) -> socket.socket:
    """A socket bound to an address, if it may be: beyond the loopback only with a token."""
    family, _, _, _, address = _resolved(host, port)
    if token is None and not ipaddress.ip_address(address[0]).is_loopback:
        allowed = "an address of the loopback, unless there is a token that callers must give"
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
            "host", host, f"an address or a name of this machine ({error})"
        ) from None


def address_of(bound: socket.socket) -> str:
    """Where a browser finds it."""
    host, port = bound.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


class Server(uvicorn.Server):
    """Says when it is ready, and remembers the signal that has stopped it."""

    def __init__(self, app: Any, ready: Callable[[], None] = lambda: None) -> None:
        super().__init__(uvicorn.Config(
            app, http=LimitedProtocol, ws="none", lifespan="off", access_log=False, log_config=None,
            log_level="error", proxy_headers=False, server_header=False,
            timeout_keep_alive=IDLE, timeout_graceful_shutdown=LAST_ANSWERS,
        ))  # fmt: skip
        self._ready = ready
        self.signal: int | None = None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen."""
        await super().startup(sockets)
        self._ready()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Uvicorn's own would end the process before the decisions are closed."""
        yield

    def stop(self, number: int | None = None, frame: Any = None) -> None:
        """Answer what is under way, then return; asked twice, at once."""
        self.signal, self.force_exit, self.should_exit = number, self.should_exit, True


def serve(app: Any, bound: socket.socket, ready: Callable[[], None]) -> int | None:
    """Serve until SIGINT or SIGTERM, and tell which one it was."""
    server = Server(app, ready)
    before = {n: signal.signal(n, server.stop) for n in (signal.SIGINT, signal.SIGTERM)}
    try:
        server.run([bound])
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    return server.signal


PATIENCE = 10.0  # seconds for a request, and for a stranger between two
LARGEST_HEAD = 32 * 1024
PIECE = 4 * 1024  # bytes that are read at once; so exactly is the length of a head known
MOST_CONNECTIONS = 900  # a process may commonly have 1024 files
MOST_FROM_ADDRESS = 600
MOST_STRANGERS = 600
MOST_STRANGERS_FROM_ADDRESS = 256


_moments = itertools.count()  # an order of events; a loop's clock may show two at one time


class LimitedProtocol(HttpToolsProtocol):
    """One connection."""

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self._clock: asyncio.TimerHandle | None = None
        self._arriving, self._in_head, self._upgraded = False, False, False
        self._head, self._begun = 0, 0  # bytes of this head, and requests so far
        self._fault: str | None = None  # what is wrong with the request, if it is known
        self._idle_since = next(_moments)
        self.stranger = bool(getattr(self.app, "needs_token", False))

    @property
    def address(self) -> str:
        """Where the caller is."""
        return self.client[0] if self.client else ""

    @property
    def busy(self) -> bool:
        """Whether a request is arriving, or waits for its answer."""
        answering = self.cycle is not None and not self.cycle.response_complete
        return self._arriving or answering

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # uvicorn narrows it too
        """Somebody is there."""
        super().connection_made(transport)
        self._start_clock()
        self._make_room()

    def _make_room(self) -> None:
        """Close whatever is one too many."""
        for strangers, here, most in (
            (True, True, MOST_STRANGERS_FROM_ADDRESS),
            (True, False, MOST_STRANGERS),
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
                and (other.stranger or not strangers)
                and (other.address == self.address or not here)
            ]
            if len(group) > most:
                last = min(group, key=lambda one: (not one.stranger, one.busy, one._idle_since))
                (self if last.busy and not last.stranger else last).transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """Nobody is there any more."""
        self._stop_clock()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Part of a request, or several."""
        for first in range(0, len(data), PIECE):
            if self._upgraded or self.transport.is_closing():
                return
            self._take_in(data[first : first + PIECE])
        if self._arriving and self._clock is None:
            self._start_clock()

    def _take_in(self, piece: bytes) -> None:
        begun = self._begun
        super().data_received(piece)
        if self._in_head and self._begun == begun:  # else the piece belongs to others too
            self._head += len(piece)
            if self._head > LARGEST_HEAD:
                self.send_400_response(f"the head of a request may have {LARGEST_HEAD} bytes")

    def on_message_begin(self) -> None:
        """The first byte of a request."""
        super().on_message_begin()
        self._arriving = self._in_head = True
        self._head = 0
        self._begun += 1
        scope: dict[str, Any] = self.scope  # type: ignore[assignment]  # with a key of our own
        scope[TOKEN_ACCEPTED] = self._let_in

    def _let_in(self) -> None:
        """A request had the token: the caller is no stranger any more."""
        self.stranger = False

    def on_headers_complete(self) -> None:
        """The end of its head."""
        self._in_head = False
        hosts = sum(name == b"host" for name, _ in self.headers)
        if hosts > 1 or (hosts == 0 and self.parser.get_http_version() == "1.1"):
            self._refuse(f"a request must have one Host header, got {hosts}")
        super().on_headers_complete()
        if self.parser.should_upgrade():  # what follows is no HTTP, and nothing that is known here
            self.cycle.keep_alive = False
            self._upgraded = True

    def _refuse(self, fault: str) -> NoReturn:
        """End the request from within the parser, which answers with `send_400_response`."""
        self._fault = fault
        raise ValueError(fault)

    def on_message_complete(self) -> None:
        """Its last byte."""
        super().on_message_complete()
        self._arriving = False
        self._stop_clock()

    def on_response_complete(self) -> None:
        """It is answered."""
        self._idle_since = next(_moments)
        super().on_response_complete()
        idle = not self.busy and not self.transport.is_closing()
        if self.stranger and idle and self._clock is None:
            self._start_clock()  # which ends sooner than Uvicorn's own for idle connections

    def _start_clock(self) -> None:
        self._clock = self.loop.call_later(PATIENCE, self.transport.close)

    def _stop_clock(self) -> None:
        if self._clock is not None:
            self._clock.cancel()
            self._clock = None

    def send_400_response(self, msg: str) -> None:
        """What is not HTTP is answered like every other mistake, and ends the connection."""
        body = json.dumps({"error": "BadRequest", "message": self._fault or msg}).encode()
        head = f"content-type: application/json\r\ncontent-length: {len(body)}\r\n"
        self.transport.write(STATUS_LINE[400] + head.encode() + b"connection: close\r\n\r\n" + body)
        self.transport.close()
