"""The service as a page's backend sees it: start it, ask it, tell it what came of it."""

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

PATIENCE = 30  # seconds for the service to stop


class Client:
    """One connection that is kept alive."""

    def __init__(self, address: str) -> None:
        place = urlsplit(address)
        assert place.hostname is not None
        self._connection = http.client.HTTPConnection(place.hostname, place.port, timeout=60)

    def decide(self, session: str, state: int) -> tuple[str, int]:
        """The id of a decision, and the offer to show."""
        found = self.post("/decisions", {"session": session, "state": state})
        return found["id"], found["action"]

    def feedback(self, decision: str, reward: float, next_state: int) -> None:
        """Whether it was clicked on, and where the visitor is now."""
        path = f"/decisions/{decision}/feedback"
        self.post(path, {"reward": reward, "next_state": next_state})

    def post(self, path: str, body: dict[str, Any]) -> Any:
        """JSON there and back; an error of the service is one here."""
        headers = {"Content-Type": "application/json"}
        self._connection.request("POST", path, json.dumps(body).encode(), headers)
        answer = self._connection.getresponse()
        found = json.loads(answer.read())
        if answer.status >= 400:
            raise RuntimeError(f"{path}: {answer.status} {found['error']}: {found['message']}")
        return found

    def close(self) -> None:
        """Hang up."""
        self._connection.close()


@contextmanager
def serving(data: Path, options: Sequence[str]) -> Iterator[str]:
    """`switchmdp serve` on a free port of the loopback: its address, until the block is left.

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
            process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        process.stdout.close()
