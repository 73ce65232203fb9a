"""Helpers: agents, a manual clock, and the complete state of a learner."""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import numpy as np

import switchmdp as sm
from switchmdp.agents import Agent
from switchmdp.agents.policy_agent import PolicyAgent
from switchmdp.errors import ForgottenDecision, SwitchmdpError
from switchmdp.online import Decisions, events_of
from switchmdp.online.database import MODEL, row_of
from switchmdp.online.learner import Learner
from switchmdp.online.snapshots import load, parts_of
from switchmdp.online.sqlite import SQLite, database_in
from switchmdp.online.views import beliefs

S, A = 4, 3
Make = Callable[[], Agent]


def sw_ucrl() -> sm.agents.SWUCRL:
    """A small agent with a small window."""
    return sm.agents.SWUCRL(S, A, window=60, delta=0.1)


class Clock:
    """A clock that shows `now`."""

    def __init__(self, now: float = 1000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


def bits(learner: Learner) -> tuple[str, dict[str, Any]]:
    """The complete state of a learner."""
    fields, arrays = parts_of(learner)
    shown = {name: (a.dtype.str, a.shape, a.tobytes()) for name, a in arrays.items()}
    return json.dumps(fields, sort_keys=True), shown


def bits_of(decisions: Decisions) -> tuple[str, dict[str, Any]]:
    """The complete state of the learner of these decisions."""
    found: tuple[str, dict[str, Any]] = decisions.look(bits)
    return found


def answer(decisions: Decisions, rng: np.random.Generator, decision: str) -> tuple[float, int]:
    """Give random feedback, and return it."""
    said = float(rng.integers(0, 4) / 3), int(rng.integers(decisions.learner.agent.n_states))
    assert decisions.feedback(decision, *said)
    return said


def live(decisions: Decisions, steps: int, seed: int = 0) -> None:
    """Alternate decisions and feedback."""
    rng = np.random.default_rng(seed)
    state = 0
    for _ in range(steps):
        _, state = answer(decisions, rng, decisions.decide(state).id)


def kill(decisions: Decisions) -> None:
    """End without the last snapshot and events, as after `kill -9`."""
    decisions._over = "was killed"
    decisions.close()


def reopened(folder: Path, **given: Any) -> Decisions:
    """Reopen a folder."""
    return Decisions(None, folder, sync=False, **given)


def store_of(decisions: Decisions) -> SQLite:
    """The database that the decisions are stored in."""
    store = decisions._store
    assert isinstance(store, SQLite)
    return store


def sql(place: Path, statement: str, *values: Any) -> list[Any]:
    """Run a statement on the database, as an operator could."""
    with closing(sqlite3.connect(database_in(place))) as connection, connection:
        return connection.execute(statement, values).fetchall()


def snapshots_in(place: Path) -> list[int]:
    """The numbers of the snapshots, the newest first."""
    return [number for (number,) in sql(place, "SELECT number FROM snapshots ORDER BY 1 DESC")]


def snapshot_in(place: Path, number: int) -> Learner:
    """The learner in a snapshot."""
    ((content,),) = sql(place, "SELECT content FROM snapshots WHERE number = ?", number)
    return load(content, "snapshot")


def delete_snapshot(place: Path, number: int) -> None:
    """Delete a snapshot."""
    sql(place, "DELETE FROM snapshots WHERE number = ?", number)


def spoil_snapshot(place: Path, number: int) -> None:
    """Flip one bit of a snapshot: of its checksum, because the bits of zeros may not matter."""
    ((content,),) = sql(place, "SELECT content FROM snapshots WHERE number = ?", number)
    damaged = bytearray(content)
    damaged[-1] ^= 1
    sql(place, "UPDATE snapshots SET content = ? WHERE number = ?", bytes(damaged), number)


def change_event(place: Path, number: int, **fields: Any) -> None:
    """Change fields of a stored event, with the right checksum."""
    event = dict(events_of(place))[number] | fields
    sql(place, "DELETE FROM events WHERE number = ?", number)
    add_event(place, number, event)


def add_event(place: Path, number: int, event: Any) -> None:
    """Add an event behind the service's back."""
    row = row_of(MODEL, number, event)
    sql(place, f"INSERT INTO events VALUES ({', '.join('?' * len(row))})", *row)


def copied(folder: Path, to: Path) -> Path:
    """Copy the folder as it is on disk now."""
    to.mkdir()
    for path in folder.iterdir():
        if not path.name.endswith(("-shm", "-lock")):
            (to / path.name).write_bytes(path.read_bytes())
    return to


class Life:
    """Random events of every kind."""

    def __init__(self, seed: int, clock: Clock, most_states: int) -> None:
        self.rng, self.clock, self.most_states = np.random.default_rng(seed), clock, most_states
        self.open: list[str] = []
        self.events: Counter[str] = Counter()

    def goes_on(self, decisions: Decisions, steps: int) -> None:
        """Apply this many events, most of them decisions and feedback."""
        rare = ("late", "warm", "mode", "state", "action", "restart", "refused", "look")
        for _ in range(steps):
            kind = self.rng.choice(["decide", "answer", *rare], p=[0.45, 0.47, *[0.01] * 8])
            self.events[str(kind)] += 1
            getattr(self, f"_{kind}")(decisions)

    def _somewhere(self, decisions: Decisions) -> int:
        return int(self.rng.integers(decisions.learner.agent.n_states))

    def _decide(self, decisions: Decisions) -> None:
        pairs, given = decisions.learner.agent.pairs, {}
        session, state = f"{self.rng.integers(4)}", self._somewhere(decisions)
        actions = self.rng.permutation(pairs.at(state)).tolist()
        if self.rng.random() < 0.2:
            given["available"] = actions[: int(self.rng.integers(1, len(actions) + 1))]
        if self.rng.random() < 0.1:
            given["taken"] = actions[0]
        known = session in decisions.learner.sessions and not given
        where = None if known and self.rng.random() < 0.5 else state
        self.open.append(decisions.decide(where, session=session, **given).id)
        self.clock.now += float(self.rng.exponential())

    def _answer(self, decisions: Decisions) -> None:
        """Usually for the newest decision; some get none, and some get it too late."""
        if self.open:
            last = len(self.open) - 1
            which = last if self.rng.random() < 0.7 else int(self.rng.integers(last + 1))
            decision, reward = self.open.pop(which), float(self.rng.integers(0, 5) / 4)
            with suppress(ForgottenDecision):
                said = (
                    reward if self.rng.random() < 0.5 else int(reward),
                    self._somewhere(decisions),
                )
                decisions.feedback(decision, *said)
                assert not decisions.feedback(decision, *said)

    def _late(self, decisions: Decisions) -> None:
        self.clock.now += float(self.rng.choice([5.0, 50.0]))

    def _warm(self, decisions: Decisions) -> None:
        pairs = decisions.learner.agent.pairs
        for state in (self._somewhere(decisions), self._somewhere(decisions)):
            decisions.learn_from([(state, pairs.at(state)[0], 0.5, self._somewhere(decisions))] * 3)

    def _mode(self, decisions: Decisions) -> None:
        pairs = decisions.learner.agent.pairs
        policy = [int(self.rng.choice(pairs.at(s))) for s in range(pairs.n_states)]
        decisions.set_mode(str(self.rng.choice(["agent", "agent", "fixed", "shadow"])), policy)

    def _grow(self, decisions: Decisions, which: str) -> None:
        agent = decisions.learner.agent
        if hasattr(agent, "grow") and agent.n_states < self.most_states and agent.n_actions < 6:
            size = agent.n_actions if which == "add_state" else agent.n_states
            chosen = None if self.rng.random() < 0.5 else [int(self.rng.integers(size))]
            getattr(decisions, which)(chosen)

    def _state(self, decisions: Decisions) -> None:
        self._grow(decisions, "add_state")

    def _action(self, decisions: Decisions) -> None:
        self._grow(decisions, "add_action")

    def _restart(self, decisions: Decisions) -> None:
        if isinstance(decisions.learner.agent, PolicyAgent):
            decisions.start_over()

    def _refused(self, decisions: Decisions) -> None:
        for bad in (lambda: decisions.decide(-1), lambda: decisions.add_state([]),
                    lambda: decisions.set_mode("fixed", [0])):  # fmt: skip
            with suppress(SwitchmdpError):
                bad()
                raise AssertionError("not refused")

    def _look(self, decisions: Decisions) -> None:
        beliefs(decisions)
