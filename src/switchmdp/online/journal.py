"""Events in order: applied to the learner, appended to the log, and now and then a snapshot.

An event is applied first and logged with its outcome, all in one turn. If the disk then fails, the
caller is told that it is not acknowledged; the event waits in memory for the next commit, so that
learner and log never part.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from switchmdp.agents.machine_code import start_episode
from switchmdp.errors import LogFailed
from switchmdp.online import snapshots
from switchmdp.online.learner import REPEATED, Event, Learner, Outcome
from switchmdp.storage.log import Log


class Journal:
    """A learner and its log, open for writing after record `number`."""

    def __init__(
        self, folder: Path, learner: Learner, number: int, *,
        sync: bool, snapshot_every: int, clock: Callable[[], float],
    ) -> None:  # fmt: skip
        self.folder, self.learner = folder, learner
        self.log = Log(folder, number=number, sync=sync)
        self._clock, self._every = clock, snapshot_every
        self._saved = max(n for n in snapshots.snapshots_of(folder) if n <= number)
        self._turn = threading.RLock()
        self._saver: threading.Thread | None = None
        self._closed = False
        self.failure: str | None = None  # why the last snapshot could not be written

    def enter(self, event: Event) -> tuple[Any, int]:
        """Let an event happen: its outcome, and the record to `commit` before telling anybody."""
        with self._turn:
            if self._closed:
                raise LogFailed(f"{self.folder} is closed")
            event = {**event, "at": round(self._clock(), 3)}
            outcome = self.learner.apply(event)
            if outcome == REPEATED:
                return outcome, self.log.number
            if isinstance(outcome, Outcome):
                event |= outcome._asdict()
            number = self.log.append(event)
            if self.learner.wants_plan:
                self._plan()
            elif number - self._saved >= self._every and self.learner.planning is None:
                self._snapshot(number)
            return outcome, number

    def commit(self, number: int | None = None) -> None:
        """Wait until the records up to this one are on disk."""
        self.log.commit(number)

    def look(self, at: Callable[[Learner], Any]) -> Any:
        """`at(learner)` while nothing happens."""
        with self._turn:
            return at(self.learner)

    def _plan(self) -> None:
        """Plan off the path of decisions; the old policy serves meanwhile."""
        self.enter({"event": "plan"})
        copy = self.learner.planning

        def work() -> None:
            start_episode(copy)
            with self._turn:
                if self.learner.planning is copy and not self._closed:
                    self.enter({"event": "swap"})

        threading.Thread(target=work, name="planner", daemon=True).start()

    def _snapshot(self, number: int) -> None:
        """Copy the learner in this turn, and write it meanwhile."""
        if self._saver is not None and self._saver.is_alive():
            return
        fields, arrays = snapshots.parts_of(self.learner)
        copies = {name: array.copy() for name, array in arrays.items()}
        self._saved = number

        def work() -> None:
            try:
                self.log.commit(number)  # a snapshot is never ahead of the log
                snapshots.save(self.folder, number, fields, copies)
                self.failure = None
            except (OSError, LogFailed) as error:  # the log has it all; the next one may succeed
                self.failure = str(error)

        self._saver = threading.Thread(target=work, name="snapshot")
        self._saver.start()

    def close(self) -> None:
        """Commit everything and write a last snapshot."""
        with self._turn:
            if self._closed:
                return
            if self.learner.planning is not None:
                self.enter({"event": "cancel"})
            self._closed = True
        if self._saver is not None:
            self._saver.join()
        try:
            self.log.commit()
            if self.log.number > self._saved:
                snapshots.save(self.folder, self.log.number, *snapshots.parts_of(self.learner))
        finally:
            self.log.close()
