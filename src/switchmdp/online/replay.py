"""Does a log give the same learner again?

Whatever happened to a learner is in its log, so that the log applied to the agent as it was given
must lead to what the live process had, bit for bit. `verify` does it, and compares with the newest
snapshot. That may be done beside a live process: nothing is written, and a record that is half
there is not yet there.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from switchmdp.errors import DamagedFile, ForeignFolder
from switchmdp.online import folder as folders
from switchmdp.online import snapshots
from switchmdp.online.learner import Learner
from switchmdp.storage.log import Record

Tell = Callable[[int], None]


@dataclass(frozen=True, eq=False)
class Verified:
    """What came of a log that was applied again."""

    records: int
    snapshot: int  # the record at which it was compared; 0: there is no snapshot yet but the first
    same: bool
    differing: int  # decisions whose action came out otherwise than it was logged
    learner: Learner


def verify(
    folder: str | os.PathLike[str], classes: Iterable[type] = (), tell: Tell = lambda records: None
) -> Verified:
    """Apply the whole log to the agent as it was given; `tell` hears how many records are done.

    >>> import tempfile
    >>> from switchmdp.agents import SWUCRL
    >>> from switchmdp.online import Decisions
    >>> with tempfile.TemporaryDirectory() as place:
    ...     with Decisions(SWUCRL(2, 2, window=100), place) as decisions:
    ...         counted = decisions.feedback(decisions.decide(0).id, 1.0, 1)
    ...     found = verify(place)
    >>> found.records, found.snapshot, found.same, found.differing
    (2, 2, True, 0)
    """
    path, classes = Path(folder), tuple(classes)
    if not (path / folders.NAME).exists():
        raise ForeignFolder(f"{path} is no folder of decisions: there is no {folders.NAME}")
    learner = snapshots.load(snapshots.file_of(path, 0), classes)
    number, kept = _newest(path, classes)
    _, differing = folders.replay(learner, _up_to(number, folders.records(path), tell))
    parts = snapshots.parts_of
    same = kept is None or snapshots.alike(parts(learner), parts(kept))
    last, more = folders.replay(learner, _up_to(None, folders.records(path, number), tell))
    return Verified(max(number, last), number, same, differing + more, learner)


def _newest(path: Path, classes: Iterable[type]) -> tuple[int, Learner | None]:
    """The newest snapshot that can be read, but for the first of all."""
    for number, file in snapshots.snapshots_of(path).items():
        try:
            if number > 0:
                return number, snapshots.load(file, classes)
        except (DamagedFile, FileNotFoundError):  # a live process may remove it meanwhile
            continue
    return 0, None


def _up_to(
    last: int | None, given: Iterable[tuple[int, Record]], tell: Tell
) -> Iterator[tuple[int, Record]]:
    for number, record in given:
        if last is not None and number > last:
            return
        yield number, record
        tell(number)
