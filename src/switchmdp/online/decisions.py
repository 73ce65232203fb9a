"""Decisions that survive a crash.

    with Decisions(agent, "folder") as decisions:
        decision = decisions.decide(state)
        ...
        decisions.feedback(decision.id, reward, next_state)

When a call returns, its event is on disk: it was appended to a log (`storage.log`) and synced.
Snapshots (`snapshots`) make recovery fast. After a crash or `kill -9`, the same lines continue with
the recovered agent. Nothing acknowledged is lost, and nothing is counted twice. The agent passed to
`Decisions` must then be the one that the folder was created with.

Calls may come from many threads. Each holds a lock for microseconds. Threads that wait for the disk
share a sync.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import time
from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from switchmdp.agents import Agent
from switchmdp.errors import (
    InvalidAction,
    InvalidParameter,
    InvalidState,
    LogFailed,
    UnknownDecision,
)
from switchmdp.online import folder as folders
from switchmdp.online.folder import as_plain
from switchmdp.online.journal import Journal
from switchmdp.online.learner import Event, Learner, Settings, checked_mask, checked_settings
from switchmdp.online.monitoring import Signal
from switchmdp.validation import check_integer

BATCH = 1000  # rows of history in a record
DEFAULT_SIGNAL, LONGEST_SIGNAL = 10_000, 100_000


@dataclass(frozen=True)
class Decision:
    """A decision. `would` is the agent's own choice if the action was not chosen by it."""

    id: str
    action: int
    state: int
    session: str
    would: int | None

    def __repr__(self) -> str:
        session = repr(self.session)
        session = session if len(session) <= 42 else f"{session[:38]}...'"
        return (
            f"Decision(id={self.id!r}, action={self.action}, state={self.state}, "
            f"session={session}, would={self.would})"
        )


class Decisions:
    """An agent whose decisions and feedback are stored in a folder.

    Settings that are None keep their value in the folder. In a new folder they have the defaults of
    `Settings`, and the window of the change signal is that of the agent.

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
        clock: Callable[[], float] = time.time, timer: Callable[[], float] = time.monotonic,
    ) -> None:  # fmt: skip
        """`agent` may be None if the folder exists.

        `clock` is the wall clock, which is only shown. `timer` measures how long a decision has
        waited: it must not jump.

        `classes` are the user's classes that the stored agent consists of. They are not needed if
        the agent is passed. With `sync=False`, acknowledged events survive a crash of the process,
        but not of the machine.
        """
        check_integer("snapshot_every", snapshot_every, 1)
        classes = {*classes, *(() if agent is None else folders.classes_in(agent))}
        self.folder, self._on_alert = Path(folder), on_alert
        settings: dict[str, Any] = {
            "expiry": expiry, "most_pending": most_pending, "most_sessions": most_sessions,
            "replan": replan, "signal_window": signal_window, "signal_delta": signal_delta,
        }  # fmt: skip
        given = {name: value for name, value in settings.items() if value is not None}
        self._claim = folders.Claim(self.folder)
        try:
            self._claim.tidy()
            if not folders.exists(self.folder):
                if not isinstance(agent, Agent):
                    raise InvalidParameter("agent", agent, "an Agent: the folder is new")
                window = getattr(getattr(agent, "memory", None), "window", DEFAULT_SIGNAL)
                given = {"signal_window": min(window, LONGEST_SIGNAL)} | given
                folders.create(self.folder, Learner(agent, checked_settings(Settings(**given))))
            elif agent is not None:
                folders.check_same_agent(agent, self.folder, classes)
            self._key = folders.key_of(self.folder)
            learner, number = folders.recover(self.folder, classes)
            wanted = checked_settings(replace(learner.settings, **given))
            folders.upgrade(self.folder)
            self._journal = Journal(
                self._claim, learner, number,
                sync=sync, snapshot_every=snapshot_every, clock=clock, timer=timer,
            )  # fmt: skip
        except BaseException:
            self._claim.release()
            raise
        try:
            if wanted != learner.settings:
                self._happen({"event": "settings", "settings": asdict(wanted)})
            if learner.planning is not None:  # the process that planned has ended: plan again
                self._happen({"event": "swap"})
        except BaseException:
            with suppress(LogFailed):
                self.close()
            raise

    def decide(
        self, state: int | None = None, *, session: str = "",
        available: Collection[int] | None = None, taken: int | None = None,
    ) -> Decision:  # fmt: skip
        """Choose an action for a state, by default for the current state of the session.

        `available`: the actions that can be taken now. If the agent's choice is not among them, the
        best available action is taken. `taken`: an action that was chosen elsewhere; the agent only
        learns from it.
        """
        decision, number = self.enter_decision(
            state, session=session, available=available, taken=taken
        )
        self.commit(number)
        return decision

    def feedback(self, decision: str, reward: float, next_state: int) -> bool:
        """Report the outcome of a decision. False if the same feedback was reported before."""
        counted, number = self.enter_feedback(decision, reward, next_state)
        self.commit(number)
        return counted

    def enter_decision(
        self, state: Any = None, *, session: Any = "", available: Any = None, taken: Any = None
    ) -> tuple[Decision, int]:
        """`decide` without the commit. Acknowledge the decision only after `commit`."""
        event: Event = {"event": "decide", "session": session}
        for name, value in (("state", state), ("available", available), ("taken", taken)):
            if value is not None:
                event[name] = as_plain(value)
        outcome, record = self._journal.enter(event)
        name = self._id(outcome.decision)
        return Decision(name, outcome.action, outcome.state, session, outcome.would), record

    def enter_feedback(self, decision: Any, reward: Any, next_state: Any) -> tuple[bool, int]:
        """`feedback` without the commit."""
        event = {
            "event": "feedback", "decision": self._number(decision),
            "reward": as_plain(reward), "next_state": as_plain(next_state),
        }  # fmt: skip
        (counted, alert), record = self._journal.enter(event)
        if alert is not None and self._on_alert is not None:
            self._on_alert(alert)
        return counted, record

    def _id(self, number: int) -> str:
        """The id of a decision: it cannot be forged, and is never used twice."""
        epoch = self.learner.epoch_of(number)
        named = f"{number} {epoch}" if epoch else f"{number}"
        tag = hashlib.blake2b(named.encode(), digest_size=6, key=self._key).hexdigest()
        return f"{number}-{tag}"

    def _number(self, decision: Any) -> int:
        if isinstance(decision, str) and decision.isascii():
            number = decision.partition("-")[0]
            if number.isdigit() and len(number) <= 18:
                if hmac.compare_digest(self._id(int(number)), decision):
                    return int(number)
                raise UnknownDecision(f"unknown decision id {decision!r}")
        raise UnknownDecision(f"malformed decision id {decision!r}")

    def commit(self, number: int | None = None) -> None:
        """Wait until all records up to this one are on disk."""
        self._journal.commit(number)

    def _happen(self, event: Event) -> Any:
        outcome, number = self._journal.enter(event)
        self._journal.commit(number)
        return outcome

    def learn_from(self, rows: Iterable[tuple[int, int, float, int]]) -> int:
        """Learn from steps (state, action, reward, next state), oldest first: a warm start.

        Steps are processed in batches of 1000. If a row is invalid, its batch is rejected; the
        batches before it have been learned from.
        """
        if not isinstance(rows, Iterable):
            raise InvalidParameter("rows", rows, "rows of (state, action, reward, next state)")
        batch: list[Any] = []
        total = 0
        for row in rows:
            batch.append(as_plain(row))
            if len(batch) == BATCH:
                total += self._happen({"event": "history", "rows": batch})
                batch = []
        return total + (self._happen({"event": "history", "rows": batch}) if batch else 0)

    def set_mode(self, mode: str, policy: Any = None) -> None:
        """Set who chooses: "agent"; "fixed", a policy, while the agent learns and does not plan; or
        "shadow", a policy, while the agent's own choices are recorded."""
        self._happen({"event": "mode", "mode": mode, "policy": as_plain(policy)})

    def add_state(self, available: Collection[int] | None = None) -> int:
        """Add a state with these actions (None: all), and return its number."""

        def grown(agent: Any) -> tuple[Any, int]:
            row = checked_mask("available", as_plain(available), agent.n_actions, InvalidAction)
            return np.vstack([agent.pairs.available, row[None, :]]), agent.n_states

        return self._grow(grown)

    def add_action(self, states: Collection[int] | None = None) -> int:
        """Add an action in these states (None: all), and return its number."""

        def grown(agent: Any) -> tuple[Any, int]:
            column = checked_mask("states", as_plain(states), agent.n_states, InvalidState)
            return np.hstack([agent.pairs.available, column[:, None]]), agent.n_actions

        return self._grow(grown)

    def _grow(self, grown: Callable[[Any], tuple[Any, int]]) -> int:
        def enter(learner: Learner) -> tuple[int, int]:
            mask, new = grown(learner.agent)
            event = {
                "event": "grow", "n_states": mask.shape[0], "n_actions": mask.shape[1],
                "available": mask.tolist(),
            }  # fmt: skip
            return new, self._journal.enter(event)[1]

        new, number = self.look(enter)  # two threads that add states do so one after the other
        self.commit(number)
        return int(new)

    def start_over(self) -> None:
        """Forget everything learned, after a known change."""
        self._happen({"event": "restart"})

    @property
    def learner(self) -> Learner:
        """The learner. Read it, but change it only through the methods of this class."""
        return self._journal.learner

    @property
    def records(self) -> int:
        """The number of records in the log."""
        return self._journal.log.number

    @property
    def snapshot_failure(self) -> str | None:
        """Why the last snapshot could not be written; None if it was."""
        return self._journal.failure

    def look(self, at: Callable[[Learner], Any]) -> Any:
        """Return `at(learner)`, called while no event is being applied."""
        return self._journal.look(at)

    def close(self) -> None:
        """Commit everything, write a snapshot, and release the folder."""
        try:
            self._journal.close()
        finally:
            self._claim.release()

    def __repr__(self) -> str:
        folder = str(self.folder)
        shown = folder if len(folder) <= 60 else f"...{folder[-57:]}"
        return f"Decisions({shown!r}, {self.learner!r})"

    def __enter__(self) -> Decisions:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:  # fmt: skip
        self.close()
