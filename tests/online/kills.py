"""kill -9 of a process that decides, again and again, with the same database.

A *keeper* has everything imported and forks children by turns: one that lives until it is killed,
and one that checks the database. The first has three threads with sessions of their own, frequent
snapshots and checkpoints, and in half of its lives slow plans in the background. Before each call
it writes down what it is about to do, and after each one what was acknowledged: this must be in the
database afterwards. It is killed at a random time, or at a random SQL statement: before it, or in
the middle of a transaction.
"""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from tests.online.workbench import S, bits, bits_of, sw_ucrl

from switchmdp import online
from switchmdp.errors import ForeignFolder, UnknownModel
from switchmdp.online import Decisions, events_of, rebuild, sqlite
from switchmdp.online import decisions as module
from switchmdp.online.sqlite import SQLite

KILLS_PER_FOLDER = 10
MOST_STATEMENTS = 500
MOST_SECONDS = 0.3
SETTINGS: dict[str, Any] = {"expiry": 1e9, "snapshot_every": 15}
ROOT = Path(__file__).parents[2]


def kill_deciders(scratch: Path, count: int) -> str:
    """Kill `count` processes, and check their databases. Returns a summary."""
    stages, totals, killed = Counter[str](), Counter[str](), 0
    command = [sys.executable, "-m", "tests.online.kills", str(scratch)]
    with subprocess.Popen(
        command, cwd=ROOT, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as keeper:
        assert keeper.stdin is not None
        assert keeper.stdout is not None
        lives = 0
        while killed < count:
            rng = np.random.default_rng(lives)
            folder = f"{killed // KILLS_PER_FOLDER:03d}"
            print("live", folder, lives, file=keeper.stdin, flush=True)
            child = int(keeper.stdout.readline())
            if lives % 2:
                time.sleep(rng.uniform(0.0, MOST_SECONDS))
                os.kill(child, signal.SIGKILL)  # the keeper has not waited for it: it is there
            print("wait", file=keeper.stdin, flush=True)
            ended = keeper.stdout.readline().strip()
            assert ended in ("0", f"{-signal.SIGKILL}"), (scratch / folder / "failure").read_text()
            killed += ended != "0"
            lives += 1
            print("check", folder, lives, file=keeper.stdin, flush=True)
            keeper.stdout.readline()
            print("wait", file=keeper.stdin, flush=True)
            ended = keeper.stdout.readline().strip()
            assert ended == "0", (scratch / folder / "failure").read_text()
        keeper.stdin.close()
    for notes in scratch.glob("*/notes"):
        lines = notes.read_text().splitlines()
        totals.update(line.split()[0] for line in lines)
        stages.update(line.removeprefix("killed ") for line in lines if line.startswith("killed "))
    shown = ", ".join(f"{stages[stage]} {stage}" for stage in sorted(stages))
    return (
        f"{killed} deciding processes killed ({shown}): {totals['decided']} decisions and "
        f"{totals['answered']} answers acknowledged, none lost, none counted twice, and "
        f"{totals['compared']} times the events gave the same learner bit for bit"
    )


# The keeper and its children.


def keep(scratch: Path) -> None:
    """Fork child processes on request."""
    sw_ucrl().plan()  # load the machine code once for all children
    child = 0
    for line in sys.stdin:
        what, *rest = line.split()
        if what == "wait":
            print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
            continue
        child = os.fork()
        if child == 0:
            (scratch / rest[0]).mkdir(exist_ok=True)
            _run({"live": live, "check": check}[what], scratch / rest[0], int(rest[1]))
            os._exit(0)
        print(child, flush=True)


def _run(task: Callable[..., None], place: Path, seed: int, *more: Any) -> None:
    """Write errors to a file, and exit."""
    try:
        task(place, seed, *more)
    except BaseException:
        (place / "failure").write_text(f"{task.__name__}, {seed}: {traceback.format_exc()}")
        os._exit(1)


class Notes:
    """A file that records which calls are about to be made, and which were acknowledged."""

    def __init__(self, place: Path) -> None:
        self.path, self._write = place / "notes", os.write
        self._file = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def add(self, *words: object) -> None:
        """One line."""
        self._write(self._file, (" ".join(map(str, words)) + "\n").encode())

    def read(self) -> dict[str, list[list[str]]]:
        """The lines by their first word."""
        found: dict[str, list[list[str]]] = {}
        for line in self.path.read_text().splitlines():
            first, *rest = line.split()
            found.setdefault(first, []).append(rest)
        return found


def _killed_at(at: int, notes: Notes) -> None:
    """Count SQL statements from now on, and kill the process at one of them."""
    turn, prepare = itertools.count(1), SQLite._prepare

    def count(statement: str) -> None:
        if next(turn) == at:
            notes.add("killed at", statement.split()[0])
            os.kill(os.getpid(), signal.SIGKILL)

    def prepared(store: SQLite, *given: Any) -> None:
        store._connection.set_trace_callback(count)
        prepare(store, *given)

    setattr(SQLite, "_prepare", prepared)  # noqa: B010


def _slowly(agent: Any) -> None:
    time.sleep(0.01)
    agent.plan()
    time.sleep(0.01)


def live(place: Path, seed: int) -> None:
    """Decide, give feedback and cause other events, until killed."""
    rng = np.random.default_rng([seed, 7])
    notes = Notes(place)
    setattr(sqlite, "PAGES", 20)  # noqa: B010
    setattr(module, "compute_plan", _slowly)  # noqa: B010
    if seed % 2 == 0:
        last = 40 if rng.random() < 0.2 else MOST_STATEMENTS
        _killed_at(int(rng.integers(1, last)), notes)
    replan = ("inline", "background")[seed // 2 % 2]
    decisions = Decisions(sw_ucrl(), place / "decisions", replan=replan, **SETTINGS)
    told = notes.read()
    said = {name for name, *_ in told.get("trying", [])}
    left = [name for name, _ in told.get("decided", []) if name not in said]
    threads = [
        threading.Thread(target=_run, args=(_thread, place, seed, decisions, notes, left[i::3], i))
        for i in range(3)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    decisions.close()


def _thread(
    place: Path, seed: int, decisions: Decisions, notes: Notes, mine: list[str], who: int
) -> None:
    rng = np.random.default_rng([seed, who])
    for _ in range(300):
        kind = rng.random()
        if kind < 0.5 or not mine:
            decision = decisions.decide(int(rng.integers(S)), session=f"{who}")
            notes.add("decided", decision.id, decision.action)
            mine.append(decision.id)
        elif kind < 0.97:
            name = mine.pop(int(rng.integers(len(mine))))
            _answer(decisions, notes, name, float(rng.integers(0, 4) / 3), int(rng.integers(S)))
        elif kind < 0.98:
            decisions.start_over()
        elif kind < 0.99:
            notes.add("warming")
            decisions.learn_from([(0, 0, 0.5, 0)] * 2)
            notes.add("warmed")
        elif decisions.learner.agent.n_states < S + 3:
            decisions.add_state()


def _answer(decisions: Decisions, notes: Notes, name: str, reward: float, to: int) -> None:
    notes.add("trying", name, reward, to)
    assert decisions.feedback(name, reward, to)
    notes.add("answered", name, reward, to)


def check(place: Path, seed: int) -> None:
    """Check the database, and continue with it."""
    rng, notes = np.random.default_rng([seed, 8]), Notes(place)
    told, folder = notes.read(), place / "decisions"
    with suppress(ForeignFolder, UnknownModel):  # killed before the model was created
        events = [event["event"] for _, event in events_of(folder)]
        plans = [event for event in events if event in ("plan", "swap", "cancel")]
        if plans[-1:] == ["plan"]:
            notes.add("killed during a plan")
    decisions = Decisions(sw_ucrl(), folder, **SETTINGS)
    assert not any(online.check(folder).values())
    _compare(decisions, folder, notes)

    records = [event for _, event in events_of(folder)]
    made = {r["decision"]: r["action"] for r in records if r["event"] == "decide"}
    answers = [r for r in records if r["event"] == "feedback"]
    rows = sum(len(r["rows"]) for r in records if r["event"] == "history")
    assert len({r["decision"] for r in answers}) == len(answers)
    assert decisions.learner.counted == len(answers) + rows
    assert len(told.get("warmed", [])) <= rows / 2 <= len(told.get("warming", []))

    trying = {name: (float(r), int(s)) for name, r, s in told.get("trying", [])}
    numbers = {decisions._number(name) for name in trying}
    assert {r["decision"] for r in answers} <= numbers  # nothing that was not reported
    answered = {name: (float(r), int(s)) for name, r, s in told.get("answered", [])}
    for name, said in answered.items():
        assert not decisions.feedback(name, *said), "acknowledged feedback was lost"
    unclear = [name for name in trying if name not in answered]
    for name, action in told.get("decided", []):
        assert made[decisions._number(name)] == int(action)
    for name in unclear:  # not acknowledged: repeat it
        decisions.feedback(name, *trying[name])
        notes.add("answered", name, *trying[name])
        assert not decisions.feedback(name, *trying[name])
    for name, _ in told.get("decided", []):
        if name not in trying and rng.random() < 0.3:
            _answer(decisions, notes, name, 1.0, 0)
            assert not decisions.feedback(name, 1.0, 0)
    if rng.random() < 0.5:
        decisions.close()
        _compare(decisions, folder, notes)


def _compare(decisions: Decisions, folder: Path, notes: Notes) -> None:
    """The learner in memory equals the replay of all events."""
    if decisions.learner.planning is None:
        assert bits_of(decisions) == bits(rebuild(folder))
        notes.add("compared")


if __name__ == "__main__":
    keep(Path(sys.argv[1]))
