"""Events in order: applied to the learner, appended to the log, with a snapshot now and then.

An event is applied first, then logged with its outcome, under one lock. If the disk fails, the call
raises an error and the event is not acknowledged. The event stays in memory for the next commit, so
that learner and log agree, and no other event is accepted until that commit has succeeded. If an
event is interrupted in between, by Ctrl-C for example, learner and log disagree. Then no further
event is accepted, and the folder must be reopened.

An event has two times. `at` is the wall clock, and is only shown. `after` is the number of seconds,
on a clock that cannot be set, since the previous event in the same process. Expiry uses `after`.

`GroupCommit` lets the requests of an event loop share syncs. While one sync runs in a thread, other
requests wait for the next one together. If a sync fails, every request in its group gets the error.
"""

from __future__ import annotations

import asyncio
import secrets
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

from switchmdp.agents.policy_agent import PolicyAgent
from switchmdp.errors import LogFailed
from switchmdp.online import snapshots
from switchmdp.online.folder import Claim
from switchmdp.online.learner import REJECTIONS, REPEATED, Event, Learner, Outcome
from switchmdp.storage import Arrays
from switchmdp.storage.log import Log

EPOCH_SIZE = 8  # bytes


def compute_plan(agent: PolicyAgent) -> None:
    """Plan in a copy of the agent, in a thread of its own."""
    agent.plan()


class Journal:
    """A learner and its log, which has `number` records and is open for writing."""

    def __init__(
        self, claim: Claim, learner: Learner, number: int, *, sync: bool, snapshot_every: int,
        clock: Callable[[], float], timer: Callable[[], float],
    ) -> None:  # fmt: skip
        folder = claim.folder
        self.folder, self.learner, self._claim = folder, learner, claim
        self.log = Log(folder, number=number, sync=sync, may_write=claim.check)
        self._clock, self._timer, self._every = clock, timer, snapshot_every
        self._epoch = secrets.token_hex(EPOCH_SIZE)
        self._opened, self._elapsed = timer(), 0.0
        self._saved = max(n for n in snapshots.snapshots_of(folder) if n <= number)
        self._turn = threading.RLock()
        self._saver: threading.Thread | None = None
        self._over: str | None = None  # why no further event is accepted
        self.failure: str | None = None  # why the last snapshot could not be written

    def enter(self, event: Event) -> tuple[Any, int]:
        """Apply an event. Returns its outcome, and the record to `commit` before the answer."""
        with self._turn:
            if self._over is not None:
                raise LogFailed(f"{self.folder} {self._over}")
            self._claim.check()
            if self.log.stuck:
                self.log.commit()
            outcome, number = self._happen(event)
            if self.learner.wants_plan:
                self._plan()
            elif number - self._saved >= self._every and self.learner.planning is None:
                self._snapshot(number)
            return outcome, number

    def _happen(self, event: Event) -> tuple[Any, int]:
        elapsed = max(self._elapsed, round(self._timer() - self._opened, 3))
        after = round(elapsed - self._elapsed, 3)
        event = {**event, "at": round(self._clock(), 3), "after": after}
        if event["event"] == "decide" and self.learner.epoch_of() != self._epoch:
            event["epoch"] = self._epoch
        try:
            outcome = self.learner.apply(event)
            if outcome == REPEATED:
                return outcome, self.log.number
            if isinstance(outcome, Outcome):
                event |= outcome._asdict()
            number = self.log.append(event)
            self._elapsed = elapsed  # only logged time has passed for the learner
            return outcome, number
        except REJECTIONS:
            raise
        except BaseException:
            self._over = "was interrupted during an event, and must be reopened"
            raise

    def commit(self, number: int | None = None) -> None:
        """Wait until all records up to this one are on disk."""
        self.log.commit(number)

    def look(self, at: Callable[[Learner], Any]) -> Any:
        """Return `at(learner)`, called while no event is being applied."""
        with self._turn:
            return at(self.learner)

    def _plan(self) -> None:
        """Plan in the background, while the old policy is used."""
        self._happen({"event": "plan"})
        copy = self.learner.planning

        def work() -> None:
            event = "cancel"
            try:
                compute_plan(copy)
                event = "swap"
            finally:
                with self._turn:
                    if self.learner.planning is copy and self._over is None:
                        self._happen({"event": event})

        threading.Thread(target=work, name="planner", daemon=True).start()

    def _snapshot(self, number: int) -> None:
        """Copy the learner now, and write the copy in a thread."""
        if self._saver is not None and self._saver.is_alive():
            return
        fields, arrays = snapshots.parts_of(self.learner)
        copies = {name: array.copy() for name, array in arrays.items()}
        self._saver = threading.Thread(
            target=self._save, args=(number, fields, copies), name="snapshot"
        )
        self._saved = number
        self._saver.start()

    def _save(self, number: int, fields: dict[str, Any], arrays: Arrays) -> None:
        try:
            self.log.sync_up_to(number)  # a snapshot must not be ahead of the log
            snapshots.save(self.folder, number, fields, arrays)
            self.failure = None
        except (OSError, LogFailed) as error:  # the log is complete; the next snapshot may succeed
            self.failure = str(error)

    def close(self) -> None:
        """Commit everything and write a last snapshot."""
        with self._turn:
            sound = self._over is None and self._claim.is_mine
            if sound and self.learner.planning is not None:
                self._happen({"event": "cancel"})
            self._over = self._over or "is closed"
        if self._saver is not None:
            self._saver.join()
        try:
            self.log.commit()
            if sound and self.log.number > self._saved:
                self._save(self.log.number, *snapshots.parts_of(self.learner))
        finally:
            self.log.close()


MOST_WAITING = 1000


class GroupCommit:
    """Combines many waits into few calls of `commit`."""

    def __init__(self, commit: Callable[[], None]) -> None:
        self._commit = commit
        self._gathering: list[asyncio.Future[None]] = []
        self._busy = False
        self._thread = ThreadPoolExecutor(1, "commit")
        self.failure: BaseException | None = None

    @property
    def crowded(self) -> bool:
        """Whether too many requests wait for the disk to accept another."""
        return len(self._gathering) >= MOST_WAITING

    async def recovered(self) -> None:
        """After a failure, return once the waiting events are on disk, or raise the error again."""
        if self.failure is not None:
            await self.done()

    async def done(self) -> None:
        """Wait until all events entered so far are on disk."""
        loop = asyncio.get_running_loop()
        mine = loop.create_future()
        self._gathering.append(mine)
        if not self._busy:
            self._busy = True
            loop.call_soon(self._start)  # later, so that other requests can join the group
        await mine

    def _start(self) -> None:
        group, self._gathering = self._gathering, []
        sync = asyncio.get_running_loop().run_in_executor(self._thread, self._commit)
        sync.add_done_callback(partial(self._finish, group))

    def _finish(self, group: list[asyncio.Future[None]], sync: asyncio.Future[None]) -> None:
        self.failure = sync.exception()
        for waiter in group:
            if waiter.done():  # the request was cancelled
                continue
            if self.failure is None:
                waiter.set_result(None)
            else:
                waiter.set_exception(self.failure)
        if self._gathering:
            self._start()
        else:
            self._busy = False
