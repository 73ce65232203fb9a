"""kill -9 of a process that decides, again and again, with the same folder.

A *keeper* has everything imported and forks: by turns a child that lives until it is killed, and
one that looks at what is left. The first has three threads with sessions of their own, small files
of the log, many snapshots, and in half of its lives slow plans in the background. Before each call
it writes down what it is about to do, and after each one what was acknowledged: that is what must
be there afterwards. It is killed at a random moment, or right at a random operation of the disk, of
which a write is then half done.
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
from pathlib import Path
from typing import Any

import numpy as np
from tests.online.workbench import S, bits, bits_of, sw_ucrl

from switchmdp.online import Decisions, journal, rebuild
from switchmdp.storage import log as logs
from switchmdp.storage.log import files_of, read

KILLS_PER_FOLDER = 10
MOST_OPERATIONS = 500
MOST_SECONDS = 0.3
OPERATIONS = ("write", "fdatasync", "fsync", "replace", "open", "ftruncate", "unlink")
SETTINGS: dict[str, Any] = {"expiry": 1e9, "snapshot_every": 15}
ROOT = Path(__file__).parents[2]


def kill_deciders(scratch: Path, count: int) -> str:
    """`count` processes killed and their folders looked at; what came of it."""
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
            stages.update(_stage(scratch / folder / "decisions"))
            print("check", folder, lives, file=keeper.stdin, flush=True)
            keeper.stdout.readline()
            print("wait", file=keeper.stdin, flush=True)
            ended = keeper.stdout.readline().strip()
            assert ended == "0", (scratch / folder / "failure").read_text()
        keeper.stdin.close()
    for notes in scratch.glob("*/notes"):
        totals.update(line.split()[0] for line in notes.read_text().splitlines())
    shown = ", ".join(f"{stages[stage]} {stage}" for stage in sorted(stages))
    return (
        f"{killed} deciding processes killed ({shown}): {totals['decided']} decisions and "
        f"{totals['answered']} answers acknowledged, none lost, none counted twice, and "
        f"{totals['compared']} times the log gave the same learner bit for bit"
    )


def _stage(folder: Path) -> list[str]:
    """In the middle of what it was killed, as far as one can see."""
    if not (folder / "decisions.json").exists():
        return ["before the folder was made"]
    found = []
    if list(folder.glob(".snapshot-*")):
        found.append("amid a snapshot")
    files = list(files_of(folder).values())
    if files:
        content = files[-1].read_bytes()
        found += ["with a line half written"] * bool(content and not content.endswith(b"\n"))
        found += ["as a file of the log was begun"] * (len(files) > 1 and content.count(b"\n") < 2)
    told = [record["event"] for _, record in read(folder)]
    plans = [event for event in told if event in ("plan", "swap", "cancel")]
    found += ["amid a plan"] * (plans[-1:] == ["plan"])
    return found or ["elsewhere"]


# The keeper and its children.


def keep(scratch: Path) -> None:
    """Fork what is asked for."""
    sw_ucrl().plan()  # the machine code is loaded once for all
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
    """Leave word of what goes wrong, and end."""
    try:
        task(place, seed, *more)
    except BaseException:
        (place / "failure").write_text(f"{task.__name__}, {seed}: {traceback.format_exc()}")
        os._exit(1)


class Notes:
    """What is about to be done and what was acknowledged, where no kill can reach it."""

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


def _killed_at(at: int) -> None:
    """From here on operations of the disk are counted, and the process dies at one of them."""
    turn = itertools.count(1)

    def counted(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*given: Any) -> Any:
            if next(turn) == at:
                if name == "write":
                    function(given[0], given[1][: len(given[1]) // 2])
                os.kill(os.getpid(), signal.SIGKILL)
            return function(*given)

        return call

    for name in OPERATIONS:
        setattr(os, name, counted(name, getattr(os, name)))


def _slowly(agent: Any) -> None:
    time.sleep(0.01)
    agent.plan()
    time.sleep(0.01)


def live(place: Path, seed: int) -> None:
    """Decide, answer and whatever else, until killed."""
    rng = np.random.default_rng([seed, 7])
    notes = Notes(place)
    logs.LARGEST_FILE = 4000
    setattr(journal, "compute_plan", _slowly)  # noqa: B010
    if seed % 2 == 0:
        _killed_at(int(rng.integers(1, 12 if rng.random() < 0.2 else MOST_OPERATIONS)))
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
    """Look at what is left, and go on with it."""
    rng, notes = np.random.default_rng([seed, 8]), Notes(place)
    told, folder = notes.read(), place / "decisions"
    litter = list(folder.glob(".*"))
    decisions = Decisions(sw_ucrl(), folder, **SETTINGS)
    assert not any(path.exists() for path in litter)
    _compare(decisions, folder, notes)

    records = [record for _, record in read(folder)]
    made = {r["decision"]: r["action"] for r in records if r["event"] == "decide"}
    answers = [r for r in records if r["event"] == "feedback"]
    rows = sum(len(r["rows"]) for r in records if r["event"] == "history")
    assert len({r["decision"] for r in answers}) == len(answers)
    assert decisions.learner.counted == len(answers) + rows
    assert len(told.get("warmed", [])) <= rows / 2 <= len(told.get("warming", []))

    trying = {name: (float(r), int(s)) for name, r, s in told.get("trying", [])}
    numbers = {decisions._number(name) for name in trying}
    assert {r["decision"] for r in answers} <= numbers  # nothing that nobody said
    answered = {name: (float(r), int(s)) for name, r, s in told.get("answered", [])}
    for name, said in answered.items():
        assert not decisions.feedback(name, *said), "what was acknowledged was lost"
    unclear = [name for name in trying if name not in answered]
    for name, action in told.get("decided", []):
        assert made[decisions._number(name)] == int(action)
    for name in unclear:  # said, and never acknowledged: it is repeated until it is
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
    """The learner in memory is the one that the whole log gives."""
    if decisions.learner.planning is None:
        assert bits_of(decisions) == bits(rebuild(folder))
        notes.add("compared")


if __name__ == "__main__":
    keep(Path(sys.argv[1]))
