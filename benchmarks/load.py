"""The service under load: a server in a process of its own, and many visitors who keep connections.

Each visitor asks for a decision, tells what came of it, and asks again; the disk is synced before
every answer. At the end the server is killed in the middle of it, and all that it had acknowledged
must be in its log, once.
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
from pathlib import Path

import numpy as np
import uvloop

from switchmdp.online import Decisions, events_of
from timing import Row, at_most, median_seconds, show

CONNECTIONS = 24
WARM_UP, SECONDS, UNTIL_KILLED = 3.0, 15.0, 2.0
LEAST_PAIRS, SLOWEST = 1000, 0.020
STATES = ACTIONS = 20
SERVE = (
    "serve", "--agent", "sw-ucrl", "--states", str(STATES), "--actions", str(ACTIONS),
    "--window", "50000", "--rate", "1e6", "--port", "0", "--data",
)  # fmt: skip


@dataclass
class Told:
    """What the server has acknowledged, and how long each answer took."""

    decided: set[str] = field(default_factory=set)
    answered: dict[str, tuple[float, int]] = field(default_factory=dict)
    seconds: list[float] = field(default_factory=list)


class Visitor:
    """One connection, kept."""

    def __init__(self, name: int, told: Told) -> None:
        self.name, self.told, self.random = name, told, random.Random(name)

    async def visit(self, port: int, until: float) -> None:
        """Decide and give feedback until it is time to go, or the server is gone."""
        self.reader, self.writer = await asyncio.open_connection("127.0.0.1", port)
        state, session = self.random.randrange(STATES), str(self.name)
        with suppress(OSError, asyncio.IncompleteReadError):
            while time.perf_counter() < until:
                content = {"state": state, "session": session}
                decision = await self.post("/decisions", content, 201)
                self.told.decided.add(decision["id"])
                state, reward = self.random.randrange(STATES), float(self.random.random() < 0.3)
                path = f"/decisions/{decision['id']}/feedback"
                await self.post(path, {"reward": reward, "next_state": state}, 200)
                self.told.answered[decision["id"]] = (reward, state)
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
        self.told.seconds.append(time.perf_counter() - began)
        if int(head[9:12]) != expected:
            raise RuntimeError(f"{path}: {head[9:12].decode()} {answer.decode()}")
        found: dict[str, str] = json.loads(answer)
        return found


def visited(port: int, seconds: float) -> Told:
    """What visitors were told in this time."""
    told = Told()

    async def all_of_them() -> None:
        until = time.perf_counter() + seconds
        visitors = (Visitor(name, told) for name in range(CONNECTIONS))
        await asyncio.gather(*(visitor.visit(port, until) for visitor in visitors))

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(all_of_them())
    return told


def start(folder: Path) -> tuple[subprocess.Popen[str], int]:
    """A server that listens, and its port."""
    program = [sys.executable, "-c", "from switchmdp.cli import main; main()"]
    process = subprocess.Popen([*program, *SERVE, folder], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    return process, int(process.stdout.readline().rpartition(":")[2])


def lost(folder: Path, told: list[Told]) -> tuple[int, int]:
    """How much of what was acknowledged is missing, and how much is there twice."""
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
    missing = sum(decided[_number(name)] == 0 for some in told for name in some.decided)
    for some in told:
        for name, given in some.answered.items():
            missing += given not in answers.get(_number(name), ())
    twice = sum(n > 1 for n in decided.values()) + sum(len(a) > 1 for a in answers.values())
    twice += abs(learner.decided - len(decided)) + abs(learner.counted - len(answers))
    return missing, twice


def _number(name: str) -> int:
    return int(name.partition("-")[0])


def _sync(folder: Path) -> float:
    """What the disk takes for a few records: every answer waits for one to two of these."""
    with open(folder / "probe", "ab", buffering=0) as probe:

        def write() -> None:
            probe.write(b"x" * 2000)
            os.fdatasync(probe.fileno())

        return median_seconds(write, repeats=200)


def service() -> list[Row]:
    """Pairs of requests a second, the slowest hundredth, and what a kill leaves."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "decisions"
        process, port = start(folder)
        try:
            told = [visited(port, WARM_UP), visited(port, SECONDS)]
            threading.Timer(UNTIL_KILLED / 2, process.kill).start()
            told.append(visited(port, UNTIL_KILLED))
        finally:
            process.kill()
            process.wait()
        missing, twice = lost(folder, told)
        sync = _sync(Path(place))
    pairs = len(told[1].answered) / SECONDS
    p50, p99 = np.quantile(told[1].seconds, [0.5, 0.99]).tolist()
    acknowledged = sum(len(some.decided) + len(some.answered) for some in told)
    return [
        Row(f"decide + feedback, synced, {CONNECTIONS} connections", f"{pairs:.0f} pairs/s",
            f">= {LEAST_PAIRS} pairs/s", pairs >= LEAST_PAIRS),
        Row("  half of the answers within", show(p50)),
        at_most("  all but a hundredth within", p99, SLOWEST),
        Row("  one sync of this disk, with nothing else to do", show(sync)),
        Row(f"killed under load: {acknowledged} acknowledged", f"{missing} lost, {twice} twice",
            "none", missing == twice == 0),
    ]  # fmt: skip


if __name__ == "__main__":
    print(*service(), sep="\n")
