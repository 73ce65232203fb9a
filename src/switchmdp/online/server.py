"""A process that serves: compiled before it listens, and stopped without losing anything.

with Decisions(agent, folder) as decisions:
    compile_agent(decisions)
    serve(application(decisions), listen("127.0.0.1", 8000), ready=print)
"""

from __future__ import annotations

import copy
import ipaddress
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from switchmdp.agents.policy_agent import follows_policy
from switchmdp.errors import InvalidParameter, MissingExtra
from switchmdp.online.decisions import Decisions

try:
    import uvicorn
except ImportError as error:
    raise MissingExtra("the service needs uvicorn: pip install 'switchmdp[serve]'") from error

from switchmdp.online.protocol import Protocol

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
            app, http=Protocol, ws="none", lifespan="off", access_log=False, log_config=None,
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
