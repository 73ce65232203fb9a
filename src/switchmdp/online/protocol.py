"""HTTP with bounded patience: a request must come within seconds, and its head in a few kilobytes.

Uvicorn closes a connection that idles between two requests, but waits for ever for one that has
begun, and keeps whatever it is sent as a head. Here one clock runs from the first byte of a request
(or from the connection) until its last.
"""

from __future__ import annotations

import asyncio
import json
from typing import Any

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

PATIENCE = 10.0
LARGEST_HEAD = 32 * 1024
MOST_CONNECTIONS = 900  # a process may commonly have 1024 files


class Protocol(HttpToolsProtocol):
    """One connection."""

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self._clock: asyncio.TimerHandle | None = None
        self._arriving, self._in_head, self._head = False, False, 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # uvicorn narrows it too
        """Somebody is there."""
        super().connection_made(transport)
        if len(self.connections) > MOST_CONNECTIONS:
            transport.close()
        self._start_clock()

    def connection_lost(self, exc: Exception | None) -> None:
        """Nobody is there any more."""
        self._stop_clock()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Part of a request, or several."""
        super().data_received(data)
        if self._in_head:
            self._head += len(data)
            if self._head > LARGEST_HEAD:
                self.send_400_response(f"the head of a request may have {LARGEST_HEAD} bytes")
        if self._arriving and self._clock is None:
            self._start_clock()

    def on_message_begin(self) -> None:
        """The first byte of a request."""
        super().on_message_begin()
        self._arriving = self._in_head = True
        self._head = 0

    def on_headers_complete(self) -> None:
        """The end of its head."""
        self._in_head = False
        super().on_headers_complete()
        if self.parser.should_upgrade():  # what follows is no HTTP, and nothing that is known here
            self.cycle.keep_alive = False

    def on_message_complete(self) -> None:
        """Its last byte."""
        super().on_message_complete()
        self._arriving = False
        self._stop_clock()

    def _start_clock(self) -> None:
        self._clock = self.loop.call_later(PATIENCE, self.transport.close)

    def _stop_clock(self) -> None:
        if self._clock is not None:
            self._clock.cancel()
            self._clock = None

    def send_400_response(self, msg: str) -> None:
        """What is not HTTP is answered like every other mistake, and ends the connection."""
        body = json.dumps({"error": "BadRequest", "message": msg}).encode()
        head = f"content-type: application/json\r\ncontent-length: {len(body)}\r\n"
        self.transport.write(STATUS_LINE[400] + head.encode() + b"connection: close\r\n\r\n" + body)
        self.transport.close()
