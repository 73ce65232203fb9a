"""The service under load: a server in a process of its own, and many clients with open connections.

Each client asks for a decision, reports its outcome, and repeats; the disk is synced before every
answer. At the end the server is killed under load. Everything that it had acknowledged must be in
its database, once. For comparison, as many threads insert the same rows into a plain table: each
row in a transaction of its own, and with the group commit of the service.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

import numpy as np
import uvloop

from switchmdp.online import Decisions, events_of
from switchmdp.online.database import SQLite, Writer
from timing import Row, at_most, median_seconds, show

CONNECTIONS = 24
WARM_UP, SECONDS, UNTIL_KILLED = 3.0, 15.0, 2.0
LEAST_PAIRS, SLOWEST = 2000, 0.015
INSERT_SECONDS = 4.0
STATES = ACTIONS = 20
SERVE = (
    "serve", "--agent", "sw-ucrl", "--states", str(STATES), "--actions", str(ACTIONS),
    "--window", "50000", "--rate", "1e6", "--port", "0", "--data",
)  # fmt: skip


@dataclass
class Acknowledged:
    """What the server has acknowledged, and how long each answer took."""

    decided: set[str] = field(default_factory=set)
    answered: dict[str, tuple[float, int]] = field(default_factory=dict)
    seconds: list[float] = field(default_factory=list)


class Client:
    """One open connection."""

    def __init__(self, name: int, acknowledged: Acknowledged) -> None:
        self.name, self.acknowledged, self.random = name, acknowledged, random.Random(name)

    async def visit(self, port: int, until: float) -> None:
        """Decide and give feedback until the time is over, or the server has ended."""
        self.reader, self.writer = await asyncio.open_connection("127.0.0.1", port)
        state, session = self.random.randrange(STATES), str(self.name)
        with suppress(OSError, asyncio.IncompleteReadError):
            while time.perf_counter() < until:
                content = {"state": state, "session": session}
                decision = await self.post("/decisions", content, 201)
                self.acknowledged.decided.add(decision["id"])
                state, reward = self.random.randrange(STATES), float(self.random.random() < 0.3)
                path = f"/decisions/{decision['id']}/feedback"
                await self.post(path, {"reward": reward, "next_state": state}, 200)
                self.acknowledged.answered[decision["id"]] = (reward, state)
        self.writer.close()

    async def post(self, path: str, content: dict[str, object], expected: int) -> dict[str, str]:
        """The answer to a request."""
        body = json.dumps(content)
        began = time.perf_counter()
        self.writer.write(
            f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(body)}\r\n\r\n{body}".encode()
        )
        head = await self.reader.readuntil(b"\r\n\r\n")
        length = head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0]
        answer = await self.reader.readexactly(int(length))
        self.acknowledged.seconds.append(time.perf_counter() - began)
        if int(head[9:12]) != expected:
            raise RuntimeError(f"{path}: {head[9:12].decode()} {answer.decode()}")
        found: dict[str, str] = json.loads(answer)
        return found


def visited(port: int, seconds: float) -> Acknowledged:
    """What clients got acknowledged in this time."""
    acknowledged = Acknowledged()

    async def all_clients() -> None:
        until = time.perf_counter() + seconds
        clients = (Client(name, acknowledged) for name in range(CONNECTIONS))
        await asyncio.gather(*(client.visit(port, until) for client in clients))

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(all_clients())
    return acknowledged


def start(folder: Path) -> tuple[subprocess.Popen[str], int]:
    """A server that listens, and its port."""
    program = [sys.executable, "-c", "from switchmdp.cli import main; main()"]
    process = subprocess.Popen([*program, *SERVE, folder], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    return process, int(process.stdout.readline().rpartition(":")[2])


def lost(folder: Path, acknowledged: list[Acknowledged]) -> tuple[int, int]:
    """How many acknowledged calls are missing, and how many are stored twice."""
    with Decisions(None, folder) as decisions:
        learner = decisions.learner
    decided: Counter[int] = Counter()
    answers: dict[int, list[tuple[float, int]]] = {}
    for _, record in events_of(folder):
        if record["event"] == "decide":
            decided[record["decision"]] += 1
        elif record["event"] == "feedback":
            given = record["reward"], record["next_state"]
            answers.setdefault(record["decision"], []).append(given)
    missing = sum(decided[_number(name)] == 0 for some in acknowledged for name in some.decided)
    for some in acknowledged:
        for name, given in some.answered.items():
            missing += given not in answers.get(_number(name), ())
    twice = sum(n > 1 for n in decided.values()) + sum(len(a) > 1 for a in answers.values())
    twice += abs(learner.decided - len(decided)) + abs(learner.counted - len(answers))
    return missing, twice


def _number(name: str) -> int:
    return int(name.partition("-")[0])


def inserts(folder: Path, *, grouped: bool) -> float:
    """Pairs of rows per second that as many threads insert into a database, without HTTP."""
    store = SQLite(folder / f"inserts-{grouped}.sqlite")
    store.create("main", "00" * 16, b"")
    writer, turn, numbers, pairs = Writer(store), threading.Lock(), count(1), count()
    end = time.perf_counter() + INSERT_SECONDS

    def insert(session: str) -> None:
        while time.perf_counter() < end:
            for event in ("decide", "feedback"):
                row = {
                    "event": event, "time": time.time(), "elapsed": 0.001, "session": session,
                    "decision": 1, "state": 1, "action": 1, "reward": 0.5, "next_state": 1,
                }  # fmt: skip
                with turn:
                    ticket = writer.append("main", next(numbers), row)
                    if not grouped:
                        writer.commit(ticket)
                writer.commit(ticket)
            next(pairs)

    threads = [threading.Thread(target=insert, args=(f"{i}",)) for i in range(CONNECTIONS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    store.close()
    return next(pairs) / INSERT_SECONDS


def _sync(folder: Path) -> float:
    """The time to sync a few rows. Every answer waits for one or two of these."""
    with open(folder / "probe", "ab", buffering=0) as probe:

        def write() -> None:
            probe.write(b"x" * 2000)
            os.fdatasync(probe.fileno())

        return median_seconds(write, repeats=200)


def service() -> list[Row]:
    """Pairs of requests per second, the slowest hundredth, and what a kill leaves."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "decisions"
        process, port = start(folder)
        try:
            acknowledged = [visited(port, WARM_UP), visited(port, SECONDS)]
            threading.Timer(UNTIL_KILLED / 2, process.kill).start()
            acknowledged.append(visited(port, UNTIL_KILLED))
        finally:
            process.kill()
            process.wait()
        missing, twice = lost(folder, acknowledged)
        sync = _sync(Path(place))
        alone, grouped = (inserts(Path(place), grouped=way) for way in (False, True))
    pairs = len(acknowledged[1].answered) / SECONDS
    p50, p99 = np.quantile(acknowledged[1].seconds, [0.5, 0.99]).tolist()
    calls = sum(len(some.decided) + len(some.answered) for some in acknowledged)
    return [
        Row(f"decide + feedback, synced, {CONNECTIONS} connections", f"{pairs:.0f} pairs/s",
            f">= {LEAST_PAIRS} pairs/s", pairs >= LEAST_PAIRS),
        Row("  half of the answers within", show(p50)),
        at_most("  all but a hundredth within", p99, SLOWEST),
        Row("  one sync of this disk", show(sync)),
        Row(f"  plain inserts of these rows, {CONNECTIONS} threads", f"{alone:.0f} pairs/s"),
        Row("  ... with the group commit of the service", f"{grouped:.0f} pairs/s"),
        Row(f"killed under load: {calls} acknowledged", f"{missing} lost, {twice} twice",
            "none", missing == twice == 0),
    ]  # fmt: skip


if __name__ == "__main__":
    print(*service(), sep="\n")
