"""Group commit for an event loop: whoever waits for the disk waits together.

While one sync runs in a thread, others gather for the next. Where the disk fails, everybody in that
group is told; what they entered waits in memory for the next commit (`journal`), and until one has
succeeded nothing new may be entered, lest memory fill up.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial

MOST_WAITING = 1000


class Commits:
    """Turns many waits into few calls of `commit`."""

    def __init__(self, commit: Callable[[], None]) -> None:
        self._commit = commit
        self._gathering: list[asyncio.Future[None]] = []
        self._busy = False
        self._thread = ThreadPoolExecutor(1, "commit")
        self.failure: BaseException | None = None

    @property
    def crowded(self) -> bool:
        """Whether so many wait for the disk that nobody else should."""
        return len(self._gathering) >= MOST_WAITING

    async def recovered(self) -> None:
        """After a failure: return once the disk takes what waits, or fail again."""
        if self.failure is not None:
            await self.done()

    async def done(self) -> None:
        """Wait until all that was entered up to now is on disk."""
        loop = asyncio.get_running_loop()
        mine = loop.create_future()
        self._gathering.append(mine)
        if not self._busy:
            self._busy = True
            loop.call_soon(self._start)  # not at once: others may be about to come along
        await mine

    def _start(self) -> None:
        group, self._gathering = self._gathering, []
        sync = asyncio.get_running_loop().run_in_executor(self._thread, self._commit)
        sync.add_done_callback(partial(self._finish, group))

    def _finish(self, group: list[asyncio.Future[None]], sync: asyncio.Future[None]) -> None:
        self.failure = sync.exception()
        for waiter in group:
            if waiter.done():  # it was cancelled
                continue
            if self.failure is None:
                waiter.set_result(None)
            else:
                waiter.set_exception(self.failure)
        if self._gathering:
            self._start()
        else:
            self._busy = False
