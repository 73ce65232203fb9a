"""kill -9 of one of three workers that share a PostgreSQL database, again and again, under load.

Clients send each request to any worker. If there is no answer, or it is 503, they repeat it: a
decision with the same idempotency key, feedback as it is. Meanwhile workers are killed at random
times and replaced. In the end everything that was acknowledged must be in the database, exactly
once, and the events must give a learner without any damage.
"""

from __future__ import annotations

import http.client
import json
import multiprocessing
import os
import random
import signal
import threading
import time
from collections import Counter
from typing import Any

from switchmdp.online import check, events_of
from switchmdp.online.models import Models
from switchmdp.online.postgres import PostgreSQL
from switchmdp.online.server import Server, address_of, application, listen

LEASE = 1.0
MODELS = ("m0", "m1", "m2", "m3")
WORKERS, CLIENTS = 3, 5
PAUSE = 0.3, 1.2  # seconds between two kills


def work(url: str, pipe: Any) -> None:
    """A worker; it sends its port once it listens."""
    store = PostgreSQL(url, lease=LEASE)
    with Models(store) as models, listen("127.0.0.1", 0) as bound:
        store.join(address_of(bound), models.keep_only)
        port = bound.getsockname()[1]
        Server(application(models, rate=1e6), lambda: pipe.send(port)).run([bound])


class Worker:
    """A process that serves."""

    def __init__(self, context: Any, url: str) -> None:
        mine, its = context.Pipe()
        self.process = context.Process(target=work, args=(url, its), daemon=True)
        self.process.start()
        assert mine.poll(120)
        self.port: int = mine.recv()

    def kill(self) -> None:
        """kill -9."""
        os.kill(self.process.pid, signal.SIGKILL)
        self.process.join()


class Load:
    """Clients that decide and give feedback until they are stopped."""

    def __init__(self, workers: list[Worker]) -> None:
        self.workers, self.ending = workers, threading.Event()
        self.decided: dict[tuple[str, str], str] = {}  # (model, key): id
        self.answered: dict[tuple[str, str], float] = {}  # (model, id): reward
        self.statuses: Counter[int] = Counter()
        self.threads = [threading.Thread(target=self._run, args=(n,)) for n in range(CLIENTS)]
        for thread in self.threads:
            thread.start()

    def stop(self) -> None:
        """Finish open requests."""
        self.ending.set()
        for thread in self.threads:
            thread.join()

    def _run(self, client: int) -> None:
        rng = random.Random(client)
        number = 0
        while not self.ending.is_set():
            number += 1
            model, key = rng.choice(MODELS), f"{client}-{number}"
            path = f"/models/{model}/decisions"
            made = self._insist(rng, path, {"state": 0}, {"Idempotency-Key": key})
            self.decided[model, key] = made["id"]
            reward = rng.random()
            content = {"reward": reward, "next_state": 1}
            self._insist(rng, f"{path}/{made['id']}/feedback", content, {})
            self.answered[model, made["id"]] = reward

    def _insist(
        self, rng: random.Random, path: str, content: Any, headers: dict[str, str]
    ) -> dict[str, Any]:
        """Repeat a request until it is acknowledged."""
        end = time.monotonic() + 120
        while time.monotonic() < end:
            port = rng.choice(self.workers).port
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
            try:
                body = json.dumps(content)
                headers = {**headers, "Content-Type": "application/json"}
                connection.request("POST", path, body, headers)
                answer = connection.getresponse()
                found: dict[str, Any] = json.loads(answer.read())
            except (OSError, http.client.HTTPException, ValueError):
                time.sleep(0.02)
                continue
            finally:
                connection.close()
            self.statuses[answer.status] += 1
            if answer.status in (200, 201):
                return found
            assert answer.status == 503, found
            time.sleep(0.05)
        raise AssertionError(f"{path} was not acknowledged within two minutes")


def kill_workers(url: str, count: int) -> str:
    """Kill `count` workers, and check the database. Returns a summary."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__])
    with Models(PostgreSQL(url)) as models:
        for model in MODELS:
            models.create(model, "random", states=2, actions=2)
    rng, workers = random.Random(0), [Worker(context, url) for _ in range(WORKERS)]
    load = Load(workers)
    try:
        for _ in range(count):
            time.sleep(rng.uniform(*PAUSE))
            which = rng.randrange(WORKERS)
            workers[which].kill()
            workers[which] = Worker(context, url)
    finally:
        load.stop()
        for worker in workers:
            worker.process.terminate()
            worker.process.join(60)
    return _checked(url, load, count)


def _checked(url: str, load: Load, count: int) -> str:
    """Compare the acknowledged calls with the database."""
    for model in MODELS:
        keys: dict[str, list[int]] = {}
        rewards: dict[int, list[float]] = {}
        for _, event in events_of(url, model):
            if event["event"] == "decide":
                keys.setdefault(event["key"], []).append(event["decision"])
            elif event["event"] == "feedback":
                rewards.setdefault(event["decision"], []).append(event["reward"])
        assert all(len(numbers) == 1 for numbers in keys.values())  # nothing twice
        assert all(len(given) == 1 for given in rewards.values())
        for (of, key), name in load.decided.items():
            if of == model:
                assert keys[key] == [int(name.partition("-")[0])]
        for (of, name), reward in load.answered.items():
            if of == model:
                assert rewards[int(name.partition("-")[0])] == [reward]
    damage = {part: found for part, found in check(url).items() if found}
    assert not damage, damage
    return (
        f"{count} kills of one of {WORKERS} workers: {len(load.decided)} decisions and "
        f"{len(load.answered)} answers acknowledged, {load.statuses[503]} requests repeated after "
        "503, none lost, none counted twice, no damage"
    )
