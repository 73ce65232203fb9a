"""The service in a thread of this process, and a client for it."""

from __future__ import annotations

import http.client
import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from switchmdp.online import Decisions
from switchmdp.online.models import Models
from switchmdp.online.server import Server, application, listen

PATIENCE = 300  # seconds; on a busy machine an agent may have to be compiled meanwhile


@dataclass(frozen=True)
class Answer:
    """A response."""

    status: int
    headers: http.client.HTTPMessage
    body: bytes

    @property
    def json(self) -> Any:
        kind = "problem+json" if self.status >= 400 else "json"
        assert self.headers["content-type"] == f"application/{kind}"
        return json.loads(self.body)

    @property
    def error(self) -> str:
        """The name of the error."""
        problem = self.json
        assert problem["status"] == self.status
        assert problem["title"]
        assert problem["detail"]
        return str(problem["type"].removeprefix("urn:switchmdp:problem:"))


@dataclass(frozen=True)
class Client:
    """A client of the service at a port."""

    port: int

    def ask(
        self, method: str, path: str, content: Any = None, headers: dict[str, str] | None = None
    ) -> Answer:
        """Send a request on a new connection; bytes are sent unchanged."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        try:
            body = content
            if content is not None and not isinstance(content, bytes):
                body = json.dumps(content).encode()
            given = {} if body is None else {"Content-Type": "application/json"}
            connection.request(method, path, body, given | (headers or {}))
            answer = connection.getresponse()
            return Answer(answer.status, answer.headers, answer.read())
        finally:
            connection.close()

    def decide(self, **content: Any) -> Any:
        """Request a decision."""
        answer = self.ask("POST", "/decisions", content)
        assert answer.status == 201, answer
        return answer.json

    def feedback(self, decision: str, reward: Any, next_state: Any) -> Answer:
        """Report the outcome of a decision."""
        content = {"reward": reward, "next_state": next_state}
        return self.ask("POST", f"/decisions/{decision}/feedback", content)

    def raw(self, sent: bytes) -> bytes:
        """Read all data until the server closes the connection."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE) as connection:
            received = b""
            try:
                connection.sendall(sent)
                while part := connection.recv(65536):
                    received += part
            except ConnectionError:  # the server has closed it while we were still sending
                pass
            return received


@contextmanager
def serving(decisions: Decisions | Models, **options: Any) -> Iterator[Client]:
    """Run the service with these decisions during the block."""
    bound, ready = listen("127.0.0.1", 0), threading.Event()
    port = bound.getsockname()[1]
    server = Server(application(decisions, **options), ready.set)
    thread = threading.Thread(target=server.run, args=([bound],))
    thread.start()
    try:
        assert ready.wait(PATIENCE)
        yield Client(port)
    finally:
        server.stop()
        thread.join()
