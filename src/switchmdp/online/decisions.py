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
        clock: Callable[[], float] = time.time, timer: Callable[[], float] = time.monotonic,
    ) -> None:  # fmt: skip
        """`agent` may be None where the folder is there.

        `clock` says when something happened, which is only shown. `timer` measures how long a
        decision has waited: it must not jump.

        `classes` are those of its own that are to be read back; of an agent that is given they are
        known. With `sync=False` what was acknowledged survives the process, but not the machine.
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
                    raise InvalidParameter("agent", agent, "an Agent: this folder has none yet")
                window = getattr(getattr(agent, "memory", None), "window", DEFAULT_SIGNAL)
                given = {"signal_window": min(window, LONGEST_SIGNAL)} | given
                folders.create(self.folder, Learner(agent, checked_settings(Settings(**given))))
            elif agent is not None:
                folders.must_be_made_for(agent, self.folder, classes)
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
            if learner.planning is not None:  # the process that planned is gone, the plan is not
                self._happen({"event": "swap"})
        except BaseException:
            with suppress(LogFailed):
                self.close()
            raise

    def decide(
        self, state: int | None = None, *, session: str = "",
        available: Collection[int] | None = None, taken: int | None = None,
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
        name = self._id(found.decision)
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

    def _id(self, number: int) -> str:
        """A name for a decision that nobody can make up, and that is never given out twice."""
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
                raise UnknownDecision(f"{decision!r} is not the id of a decision known here")
        raise UnknownDecision(f"{decision!r} is not the id of a decision")

    def commit(self, number: int | None = None) -> None:
        """Wait until what was entered up to this record is on disk."""
        self._journal.commit(number)

    def _happen(self, event: Event) -> Any:
        outcome, number = self._journal.enter(event)
        self._journal.commit(number)
        return outcome

    def learn_from(self, rows: Iterable[tuple[int, int, float, int]]) -> int:
        """A warm start: steps (state, action, reward, next state) from elsewhere, oldest first.

        They are taken in by the thousand. Where a row is refused, its thousand is, and those before
        it have been learned from.
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
        """Who chooses: "agent", "fixed" (a policy; the agent learns, and does not plan), or
        "shadow" (a policy, and beside each of its actions the agent's own is recorded)."""
        self._happen({"event": "mode", "mode": mode, "policy": as_plain(policy)})

    def add_state(self, available: Collection[int] | None = None) -> int:
        """One more state, with these actions or all; its number."""

        def grown(agent: Any) -> tuple[Any, int]:
            row = checked_mask("available", as_plain(available), agent.n_actions, InvalidAction)
            return np.vstack([agent.pairs.available, row[None, :]]), agent.n_states

        return self._grow(grown)

    def add_action(self, states: Collection[int] | None = None) -> int:
        """One more action, in these states or in all; its number."""

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

        new, number = self.look(enter)  # so that two who grow do so one after the other
        self.commit(number)
        return int(new)

    def start_over(self) -> None:
        """Forget all that was learned, after a change that one knows of."""
        self._happen({"event": "restart"})

    @property
    def learner(self) -> Learner:
        """What is behind, to look at; only the methods here may change it."""
        return self._journal.learner

    @property
    def records(self) -> int:
        """How many records the log has."""
        return self._journal.log.number

    @property
    def snapshot_failure(self) -> str | None:
        """Why the last snapshot could not be written, if so."""
        return self._journal.failure

    def look(self, at: Callable[[Learner], Any]) -> Any:
        """`at(learner)` while nothing happens."""
        return self._journal.look(at)

    def close(self) -> None:
        """Commit everything, write a snapshot, and let go of the folder."""
        try:
            self._journal.close()
        finally:
            self._claim.release()

    def __enter__(self) -> Decisions:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:  # fmt: skip
        self.close()
