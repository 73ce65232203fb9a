"""Random malformed requests, mixed with valid ones.

Each is some bytes on a connection of its own, followed by a request that says good-bye. Whatever is
answered must be HTTP, and no status may be 500 or above; in the end the log must tell exactly what
was acknowledged, and a replay of it must be the live learner.
"""

from __future__ import annotations

import json
import random
import re
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from unittest.mock import patch

from tests.online.serving import serving

from switchmdp.agents import SWUCRL
from switchmdp.online import Decisions, rebuild, server

GOODBYE = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
ANSWER = re.compile(rb"HTTP/1\.1 (\d{3}) [^\r\n]*\r\n(?:[\w-]+: [^\r\n]*\r\n)*\r\n", re.IGNORECASE)
METHODS = [
    "GET",
    "POST",
    "PUT",
    "DELETE",
    "HEAD",
    "OPTIONS",
    "PATCH",
    "TRACE",
    "CONNECT",
    "get",
    "",
]
PATHS = [
    "/", "/decisions", "/decisions/{id}/feedback", "/agent", "/metrics", "/healthz",
    "/openapi.json", "/mode", "/restart", "/nowhere", "*", "", "/%", "/%00", "//decisions",
    "/decisions?state=1", "/../decisions", "/\u00fc", "http://x/decisions", "/" + "a" * 5000,
]  # fmt: skip
HEADERS = [
    "Expect: 100-continue", "Upgrade: websocket\r\nConnection: Upgrade", "Connection: close",
    "Content-Length: 5", "Content-Length: x", "Transfer-Encoding: chunked", "Host: elsewhere",
    "Transfer-Encoding: gzip, chunked", "Content-Encoding: gzip", "Origin: http://elsewhere",
    "Content-Type: text/plain", "Content-Type: \u00fc", "Authorization: Bearer x", "X" * 9000,
    "X: " + "x" * 40_000, ": empty", "Cookie: " + "a=b; " * 300, "Accept: */*\r\n folded",
]  # fmt: skip
NUMBERS = ["0", "1", "2", "3", "-1", "1.0", "0.5", "1e400", "1e-400", "NaN", "-Infinity", "01"]
NUMBERS += ["9" * 30, "9" * 5000, "true", "null", '"1"', "[]", "[0]", "[1, 0]", "{}", "[" * 9000]
TEXTS = ['""', '"a"', '"\\ud800"', '"\\u0000"', '"' + "x" * 300 + '"', '"\u2028"', "1", "null"]


def fuzzed(folder: Path, n: int) -> str:
    """Send n requests, eight at a time, and check every answer. Returns a summary."""
    decisions = Decisions(SWUCRL(3, 2, window=50), folder, sync=False)
    with (
        patch.object(server, "TIMEOUT", 0.2),  # many of these requests have no end
        decisions, serving(decisions, rate=1e6) as client,
        ThreadPoolExecutor(8) as pool,
    ):  # fmt: skip
        waiting = [client.decide(state=0)["id"] for _ in range(20)]
        received = list(pool.map(lambda seed: client.raw(_request(seed, waiting)), range(n)))
        assert client.ask("GET", "/healthz").status == 200
    statuses = Counter(status for some in received for status in _statuses(some))
    assert max(statuses) < 500, statuses
    decided = 20 + sum(some.count(b'"would": ') for some in received)
    counted = sum(some.count(b'{"counted": true}') for some in received)
    learner, again = decisions.learner, rebuild(folder)
    # One whose connection broke may have been entered without being acknowledged.
    assert decided <= learner.decided == again.decided
    assert counted <= learner.counted == again.counted
    assert learner.agent.memory.counts.visits.tolist() == again.agent.memory.counts.visits.tolist()
    shown = ", ".join(f"{k} {v}" for k, v in sorted(statuses.items()))
    return f"{n} requests: {shown}; {decided} decisions, {counted} counted"


def _statuses(received: bytes) -> list[int]:
    """The status of every answer. Any other data is an error."""
    assert not received or ANSWER.match(received), received[:200]
    return [int(found[1]) for found in ANSWER.finditer(received)]


def _request(seed: int, waiting: list[str]) -> bytes:
    pick = random.Random(seed)
    kind = pick.random()
    if kind < 0.3:
        sent = _post("/decisions", _content(pick, "decide"))
    elif kind < 0.5:
        path = f"/decisions/{pick.choice(waiting)}/feedback"
        sent = _post(path, _content(pick, "feedback"))
    elif kind < 0.6:
        sent = _post(pick.choice(["/mode", "/restart", "/decisions"]), _content(pick, "mode"))
    elif kind < 0.8:
        sent = _strange(pick, pick.choice(waiting))
    elif kind < 0.95:
        sent = _mutated(pick, _post("/decisions", '{"state": 1, "session": "a"}'))
    else:
        sent = pick.randbytes(pick.randrange(1, 400))
    return sent + (GOODBYE if pick.random() < 0.9 else sent + GOODBYE)


def _content(pick: random.Random, of: str) -> str:
    """A body with mostly valid keys and arbitrary values."""
    keys = {
        "decide": ["state", "session", "available", "taken"],
        "feedback": ["reward", "next_state"],
        "mode": ["mode", "policy"],
    }[of]
    if pick.random() < 0.2:
        keys = [*keys, pick.choice(["state", "reward", "extra", ""])]
    values = {key: pick.choice(TEXTS if key == "session" else NUMBERS) for key in keys}
    if pick.random() < 0.4:  # one that makes sense
        sane = {"state": 1, "session": "b", "reward": 0.5, "next_state": 2, "mode": "agent"}
        values |= {key: json.dumps(value) for key, value in sane.items() if key in keys}
        values = {key: value for key, value in values.items() if key in sane}
    inner = ", ".join(f'"{key}": {value}' for key, value in values.items())
    return pick.choice(["{%s}"] * 20 + ["[{%s}]", "{%s", "%s", "\ufeff{%s}", "{%s}{}"]) % inner


def _post(path: str, content: str, extra: str = "") -> bytes:
    body = content.encode()
    return (
        f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n{extra}"
        f"Content-Length: {len(body)}\r\n\r\n"
    ).encode() + body


def _strange(pick: random.Random, waiting: str) -> bytes:
    path = pick.choice(PATHS).replace("{id}", waiting)
    version = pick.choice(["HTTP/1.1"] * 8 + ["HTTP/1.0", "HTTP/2.0", "HTTP/0.9", "", "ICY"])
    headers = "".join(f"{header}\r\n" for header in pick.sample(HEADERS, pick.randrange(4)))
    body: Any = pick.choice(["", "", '{"state": 1}', "5\r\nhello\r\n0\r\n\r\n", "zz\r\n", "\x00"])
    host = "Host: localhost\r\n" if pick.random() < 0.8 else ""
    return f"{pick.choice(METHODS)} {path} {version}\r\n{host}{headers}\r\n{body}".encode()


def _mutated(pick: random.Random, sent: bytes) -> bytes:
    """The data with a few bytes changed, removed, inserted or doubled."""
    found = bytearray(sent)
    for _ in range(pick.randrange(1, 5)):
        at = pick.randrange(len(found))
        match pick.randrange(4):
            case 0:
                found[at] = pick.randrange(256)
            case 1:
                del found[at : at + pick.randrange(1, 9)]
            case 2:
                found[at:at] = pick.randbytes(pick.randrange(1, 9))
            case _:
                found[at:at] = found[at : at + pick.randrange(1, 40)]
    return bytes(found)
