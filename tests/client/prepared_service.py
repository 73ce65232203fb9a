"""A service with prepared answers, for the failures that a real service produces too rarely."""

from __future__ import annotations

import json
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

DROPPED = "the connection is closed without an answer"
Answer = tuple[int, Any] | tuple[int, Any, dict[str, str]] | str


@dataclass(frozen=True)
class Request:
    """A request that the service received."""

    method: str
    path: str
    headers: dict[str, str]
    body: Any


@dataclass
class PreparedService:
    """Gives the prepared answers in order, and records the requests."""

    url: str
    answers: deque[Answer] = field(default_factory=deque)
    requests: list[Request] = field(default_factory=list)
    files: dict[str, tuple[str, bytes]] = field(default_factory=dict)

    def prepare(self, *answers: Answer) -> None:
        """Set the next answers, and forget earlier answers and requests."""
        self.answers = deque(answers)
        self.requests.clear()

    def keys(self) -> list[str | None]:
        """The idempotency keys of the requests."""
        return [request.headers.get("idempotency-key") for request in self.requests]


@contextmanager
def prepared_service() -> Iterator[PreparedService]:
    """Run the service on a free port of the loopback during the block."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def respond(self) -> None:
            if self.path in service.files:
                kind, content = service.files[self.path]
                self.give(200, content, {"Content-Type": kind})
                return
            length = int(self.headers.get("Content-Length", 0))
            body = json.loads(self.rfile.read(length)) if length else None
            headers = {name.lower(): value for name, value in self.headers.items()}
            service.requests.append(Request(self.command, self.path, headers, body))
            answer = service.answers.popleft()
            if isinstance(answer, str):
                self.close_connection = True
                return
            status, content, more = (*answer, {})[:3]
            sent = content if isinstance(content, bytes) else json.dumps(content).encode()
            self.give(status, sent, {"Content-Type": "application/json"} | more)

        def give(self, status: int, content: bytes, headers: dict[str, str]) -> None:
            self.send_response(status)
            for name, value in {**headers, "Content-Length": str(len(content))}.items():
                self.send_header(name, value)
            with suppress(ConnectionError):  # a caller that did not wait
                self.end_headers()
                self.wfile.write(content)

        do_GET = do_POST = do_PUT = do_DELETE = respond  # noqa: N815

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    service = PreparedService(f"http://127.0.0.1:{server.server_port}")
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield service
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
