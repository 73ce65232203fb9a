"""A client of the service: start it, request decisions, report feedback."""

from __future__ import annotations

import http.client
import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

STOP_TIMEOUT = 30  # seconds for the service to stop


class Client:
    """One persistent connection."""

    def __init__(self, address: str) -> None:
        place = urlsplit(address)
        assert place.hostname is not None
        self._connection = http.client.HTTPConnection(place.hostname, place.port, timeout=60)

    def decide(self, session: str, state: int) -> tuple[str, int]:
        """The id of a decision, and the offer to show."""
        found = self.post("/decisions", {"session": session, "state": state})
        return found["id"], found["action"]

    def feedback(self, decision: str, reward: float, next_state: int) -> None:
        """Report whether the visitor clicked, and the next state."""
        path = f"/decisions/{decision}/feedback"
        self.post(path, {"reward": reward, "next_state": next_state})

    def post(self, path: str, body: dict[str, Any]) -> Any:
        """Send and receive JSON. Raises an error if the service returns one."""
        headers = {"Content-Type": "application/json"}
        self._connection.request("POST", path, json.dumps(body).encode(), headers)
        answer = self._connection.getresponse()
        found = json.loads(answer.read())
        if answer.status >= 400:
            raise RuntimeError(f"{path}: {answer.status} {found['error']}: {found['message']}")
        return found

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


@contextmanager
def serving(data: Path, options: Sequence[str]) -> Iterator[str]:
    """Run `switchmdp serve` on a free port of the loopback during the block. Yields its address.

    Without `--no-sync` every answer would wait for the disk, and here there is one caller at a
    time: nobody to share that wait with. A simulation can be run again.
    """
    program = "from switchmdp.cli import main; main()"
    command = [sys.executable, "-c", program, "serve", "--data", str(data), "--port", "0"]
    log = data.with_name(f"{data.name}.log")
    with open(log, "w", encoding="utf-8") as errors:
        process = subprocess.Popen(
            [*command, "--no-sync", *options], stdout=subprocess.PIPE, stderr=errors, text=True
        )
    assert process.stdout is not None
    try:
        words = process.stdout.readline().split()
        if words[:2] != ["listening", "on"]:
            raise RuntimeError(f"the service did not start: {log.read_text(encoding='utf-8')}")
        yield words[2]
    finally:
        process.terminate()
        try:
            process.wait(STOP_TIMEOUT)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        process.stdout.close()
