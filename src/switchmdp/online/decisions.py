"""Decisions that survive a crash.

    with Decisions(agent, "folder") as decisions:
        decision = decisions.decide(state)
        ...
        decisions.feedback(decision.id, reward, next_state)

What a call has returned is on disk: an event is appended to a log (`storage.log`) and synced before
it is acknowledged, and snapshots (`snapshots`) shorten the way back. After a crash, or `kill -9`,
the same lines go on where it was, with nothing lost that was acknowledged and nothing counted
twice; the agent given then only has to be the one that the folder was made with.

Calls may come from many threads. Each takes its turn for microseconds; the slow part, the disk, is
shared by all who wait for it.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from switchmdp.agents.stored import described
from switchmdp.errors import Mismatch, UnknownDecision
from switchmdp.online import folder as folders
from switchmdp.online import snapshots
from switchmdp.online.folder import as_plain
from switchmdp.online.journal import Journal
from switchmdp.online.learner import Event, Learner, Settings, checked
from switchmdp.online.signal import Signal

BATCH = 1000  # rows of history in a record
DEFAULT_SIGNAL, LONGEST_SIGNAL = 10_000, 100_000


@dataclass(frozen=True)
class Decision:
    """What to do now. `would` is the agent's own choice where something else has chosen."""

    id: str
    action: int
    state: int
    session: str
    would: int | None


class Decisions:
    """An agent behind a log.

    Settings that are not given stay as they are in the folder; in a new one they are as in
    `Settings`, and the change signal compares windows as long as the agent's own.

    >>> import tempfile
    >>> from switchmdp.agents import SWUCRL
    >>> with tempfile.TemporaryDirectory() as place:
    ...     with Decisions(SWUCRL(2, 2, window=100), place) as decisions:
    ...         decision = decisions.decide(0)
    ...     with Decisions(SWUCRL(2, 2, window=100), place) as decisions:
    ...         decisions.feedback(decision.id, 1.0, 1), decisions.feedback(decision.id, 1.0, 1)
    (True, False)
    """

    def __init__(
        self, agent: Any, folder: str | os.PathLike[str], *,
        expiry: float | None = None, most_pending: int | None = None,
        most_sessions: int | None = None, replan: str | None = None,
        signal_window: int | None = None, signal_delta: float | None = None,
        snapshot_every: int = 20_000, sync: bool = True,
        on_alert: Callable[[Signal], None] | None = None, classes: Iterable[type] = (),
        clock: Callable[[], float] = time.time,
    ) -> None:  # fmt: skip
        """`agent` may be None where the folder is there."""
        self.folder, self._on_alert = Path(folder), on_alert
        settings = {
            "expiry": expiry, "most_pending": most_pending, "most_sessions": most_sessions,
            "replan": replan, "signal_window": signal_window, "signal_delta": signal_delta,
        }  # fmt: skip
        given: dict[str, Any] = {k: v for k, v in settings.items() if v is not None}
        self._lock = folders.claim(self.folder)
        try:
            if not folders.exists(self.folder):
                window = getattr(getattr(agent, "memory", None), "window", DEFAULT_SIGNAL)
                given = {"signal_window": min(window, LONGEST_SIGNAL)} | given
                folders.create(self.folder, Learner(agent, checked(Settings(**given))))
            elif agent is not None:
                _must_be_the_same(agent, self.folder, classes)
            self._key = folders.key_of(self.folder)
            learner, number = folders.recover(self.folder, classes)
            self._journal = Journal(
                self.folder, learner, number, sync=sync, snapshot_every=snapshot_every, clock=clock
            )
            wanted = checked(replace(learner.settings, **given))
            if wanted != learner.settings:
                self._happen({"event": "settings", "settings": asdict(wanted)})
            if learner.planning is not None:  # the process that planned is gone, the plan is not
                self._happen({"event": "swap"})
        except BaseException:
            folders.release(self._lock)
            raise

    def decide(
        self, state: int | None = None, *, session: str = "",
        available: Iterable[int] | None = None, taken: int | None = None,
    ) -> Decision:  # fmt: skip
        """An action for a state, or for where the session was last seen.

        `available`: the actions that can be taken right now. If the agent's choice is not among
        them, the one that looks best of them is taken. `taken`: the action was chosen elsewhere,
        and is only learned from.
        """
        decision, number = self.enter_decision(
            state, session=session, available=available, taken=taken
        )
        self.commit(number)
        return decision

    def feedback(self, decision: str, reward: float, next_state: int) -> bool:
        """What came of a decision; False if exactly this was said before, and counts no more."""
        counted, number = self.enter_feedback(decision, reward, next_state)
        self.commit(number)
        return counted

    def enter_decision(
        self, state: Any = None, *, session: Any = "", available: Any = None, taken: Any = None
    ) -> tuple[Decision, int]:
        """`decide` for those who `commit` many at once: acknowledge it only after that."""
        event: Event = {"event": "decide", "session": session}
        for name, value in (("state", state), ("available", available), ("taken", taken)):
            if value is not None:
                event[name] = as_plain(value)
        found, record = self._journal.enter(event)
        name = f"{found.decision}-{self._tag(found.decision)}"
        return Decision(name, found.action, found.state, session, found.would), record

    def enter_feedback(self, decision: Any, reward: Any, next_state: Any) -> tuple[bool, int]:
        """`feedback` for those who `commit` many at once."""
        event = {
            "event": "feedback", "decision": self._number(decision),
            "reward": as_plain(reward), "next_state": as_plain(next_state),
        }  # fmt: skip
        (counted, alert), record = self._journal.enter(event)
        if alert is not None and self._on_alert is not None:
            self._on_alert(alert)
        return counted, record

    def _tag(self, number: int) -> str:
        return hmac.new(self._key, b"%d" % number, hashlib.sha256).hexdigest()[:12]

    def _number(self, decision: Any) -> int:
        """The number in an id, which nobody can make up."""
        number, _, tag = decision.partition("-") if isinstance(decision, str) else ("", "", "")
        if not (number.isascii() and number.isdigit() and len(number) <= 18):
            raise UnknownDecision(f"{decision!r} is not the id of a decision")
        if not hmac.compare_digest(self._tag(int(number)), tag):
            raise UnknownDecision(f"{decision!r} is not the id of a decision made here")
        return int(number)

    def commit(self, number: int | None = None) -> None:
        """Wait until what was entered up to this record is on disk."""
        self._journal.commit(number)

    def _happen(self, event: Event) -> Any:
        outcome, number = self._journal.enter(event)
        self._journal.commit(number)
        return outcome

    def learn_from(self, rows: Iterable[tuple[int, int, float, int]]) -> int:
        """A warm start: steps (state, action, reward, next state) from elsewhere, oldest first."""
        batch: list[Any] = []
        total = 0
        for row in rows:
            batch.append([as_plain(value) for value in row])
            if len(batch) == BATCH:
                total += self._happen({"event": "history", "rows": batch})
                batch = []
        return total + (self._happen({"event": "history", "rows": batch}) if batch else 0)

    def set_mode(self, mode: str, policy: Any = None) -> None:
        """Who chooses: "agent", "fixed" (a policy; the agent learns, and does not plan), or
        "shadow" (a policy, and beside each of its actions the agent's own is recorded)."""
        self._happen({"event": "mode", "mode": mode, "policy": as_plain(policy)})

    def add_state(self, available: Iterable[int] | None = None) -> int:
        """One more state, with these actions or all; its number."""
        agent = self.learner.agent
        row = np.ones((1, agent.n_actions), bool)
        if available is not None:
            row[:] = np.isin(np.arange(agent.n_actions), list(available))
        self._grow(1, 0, np.vstack([agent.pairs.available, row]))
        return int(agent.n_states) - 1

    def add_action(self, states: Iterable[int] | None = None) -> int:
        """One more action, in these states or in all; its number."""
        agent = self.learner.agent
        column = np.ones((agent.n_states, 1), bool)
        if states is not None:
            column[:, 0] = np.isin(np.arange(agent.n_states), list(states))
        self._grow(0, 1, np.hstack([agent.pairs.available, column]))
        return int(agent.n_actions) - 1

    def _grow(self, states: int, actions: int, mask: Any) -> None:
        agent = self.learner.agent
        self._happen({
            "event": "grow", "n_states": agent.n_states + states,
            "n_actions": agent.n_actions + actions, "available": mask.tolist(),
        })  # fmt: skip

    def start_over(self) -> None:
        """Forget all that was learned, after a change that one knows of."""
        self._happen({"event": "restart"})

    @property
    def learner(self) -> Learner:
        """What is behind, to look at; only the methods here may change it."""
        return self._journal.learner

    def look(self, at: Callable[[Learner], Any]) -> Any:
        """`at(learner)` while nothing happens."""
        return self._journal.look(at)

    def close(self) -> None:
        """Commit everything, write a snapshot, and let go of the folder."""
        try:
            self._journal.close()
        finally:
            if self._lock >= 0:
                folders.release(self._lock)
            self._lock = -1

    def __enter__(self) -> Decisions:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:  # fmt: skip
        self.close()


def _must_be_the_same(agent: Any, folder: Path, classes: Iterable[type]) -> None:
    """The agent that is given again must be the one that the folder was made with."""
    first = snapshots.load(folder / f"snapshot-{0:012d}.npz", classes).agent
    (here, arrays), (there, others) = described(agent), described(first)
    same = here == there and all(np.array_equal(arrays[n], others[n]) for n in others)
    if not same:
        raise Mismatch(
            f"{folder} was made for another agent ({type(first).__name__}, {first.n_states} states,"
            f" {first.n_actions} actions); give that one with its parameters, or None, or another "
            "folder"
        )
