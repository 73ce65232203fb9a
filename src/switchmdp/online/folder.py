"""The folder of decisions: its lock, its creation, recovery after a crash, and replay of its log.

decisions.json          written last; holds the key of the decisions' ids, and its checksum
snapshot-000….npz       the initial agent, and the two newest snapshots
log-….jsonl             every event
lock                    locked, like the folder itself, by the process that writes here

Only the owner has access: whoever reads the key can forge ids.

Every event is in the log, so the log applied to the initial agent must give the live learner, bit
for bit. `verify` does this, and compares the result with the newest snapshot. It writes nothing, so
it can run beside a live process.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import stat
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from switchmdp.agents.saving import NotKnown, described
from switchmdp.compiled import fields_of
from switchmdp.errors import DamagedFile, ForeignFolder, LogFailed, Mismatch
from switchmdp.online import snapshots
from switchmdp.online.learner import Learner
from switchmdp.storage import PRIVATE, save_bytes, sync_folder
from switchmdp.storage.log import Record, file_of, files_of, read

NAME = "decisions.json"
FORMAT = 2  # format 1 had no checksum, and created its log with the first record
KEY_SIZE = 16
PRIVATE_FOLDER = 0o700

try:
    import fcntl
except ImportError:  # on Windows a second process is not kept out
    fcntl = None  # type: ignore[assignment]  # the module is missing


class Claim:
    """A lock on a folder, held by one process at a time. It ends with the process.

    The folder itself is locked: a lock on a file in it ends when that file is deleted. The file is
    locked too, for file systems that can't lock folders and for earlier versions, which know no
    other lock.
    """

    def __init__(self, folder: Path) -> None:
        if folder.exists():
            exists(folder)  # do not leave a lock in an unrelated folder
        folder.mkdir(mode=PRIVATE_FOLDER, parents=True, exist_ok=True)
        self.folder, self._process = folder, os.getpid()
        self._handles = [os.open(folder / "lock", os.O_RDWR | os.O_CREAT, PRIVATE)]
        try:
            if fcntl is not None:
                fcntl.flock(self._handles[0], fcntl.LOCK_EX | fcntl.LOCK_NB)
                self._handles.append(os.open(folder, os.O_RDONLY))
                _lock_folder(self._handles[1])
        except OSError:
            self.release()
            raise ForeignFolder(f"{folder} is in use by another process") from None
        found = os.stat(folder)
        self._inode = found.st_dev, found.st_ino

    def tidy(self) -> None:
        """Remove incomplete files of a killed process, and restrict access to the owner."""
        for left in (*self.folder.glob(".snapshot-*"), *self.folder.glob(f".{NAME}.*")):
            left.unlink()
        _make_private(self.folder)

    @property
    def is_mine(self) -> bool:
        """Whether this process holds the lock. A fork does not."""
        return os.getpid() == self._process

    def check(self) -> None:
        """Raise an error if this process must no longer write."""
        if not self.is_mine:
            raise LogFailed(f"{self.folder} is open in the parent of this forked process")
        try:
            found = os.stat(self.folder)
        except OSError as error:
            raise LogFailed(f"{self.folder} no longer exists: {error}") from None
        if (found.st_dev, found.st_ino) != self._inode:
            raise LogFailed(f"{self.folder} was replaced by another folder")

    def release(self) -> None:
        """Release the lock."""
        while self._handles:
            os.close(self._handles.pop())


def _lock_folder(handle: int) -> None:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise
    except OSError:  # some network file systems lock files only
        pass


def _make_private(folder: Path) -> None:
    """Remove permissions of others, which earlier versions or a restored backup may have set."""
    if os.name != "posix":
        return
    ours = (NAME, "lock", "snapshot-*.npz", "log-*.jsonl")
    for path in (folder, *(path for pattern in ours for path in folder.glob(pattern))):
        allowed = PRIVATE_FOLDER if path == folder else PRIVATE
        mode = stat.S_IMODE(path.stat().st_mode)
        if mode & ~allowed:
            with suppress(PermissionError):  # another user is the owner
                path.chmod(mode & allowed)


def exists(folder: Path) -> bool:
    """Whether the folder contains decisions. A folder with other files raises an error."""
    if (folder / NAME).exists():
        return True
    begun = ("lock", snapshots.file_of(folder, 0).name)
    for path in folder.iterdir():
        empty_log = path == file_of(folder, 1) and path.stat().st_size == 0
        if path.name not in begun and path.name[0] != "." and not empty_log:
            raise ForeignFolder(f"{folder} contains {path.name!r}, but no {NAME}")
    return False


def create(folder: Path, learner: Learner) -> None:
    """Create the folder. If this is interrupted, the folder still counts as new."""
    snapshots.save(folder, 0, *snapshots.parts_of(learner))
    _describe(folder, secrets.token_hex(KEY_SIZE))


def _describe(folder: Path, key: str) -> None:
    """Write `decisions.json`, after which a log must exist."""
    if not files_of(folder):
        os.close(os.open(file_of(folder, 1), os.O_WRONLY | os.O_CREAT, PRIVATE))
        sync_folder(folder)
    content = {"format": FORMAT, "key": key, "sha256": _checksum(FORMAT, key)}
    save_bytes(folder / NAME, json.dumps(content).encode(), PRIVATE)


def _checksum(version: int, key: str) -> str:
    return hashlib.sha256(f"{version} {key}".encode()).hexdigest()


def upgrade(folder: Path) -> None:
    """Upgrade the description of a folder of an earlier version."""
    version, key = _described(folder)
    if version < FORMAT:
        _describe(folder, key.hex())


def key_of(folder: Path) -> bytes:
    """The key of the decisions' ids."""
    return _described(folder)[1]


def _described(folder: Path) -> tuple[int, bytes]:
    """The folder's format and key."""
    path = folder / NAME
    try:
        content = json.loads(path.read_bytes())
        version = content["format"]
        if version not in (1, FORMAT):
            raise DamagedFile(
                f"{path} has format {version!r}; supported formats are 1 and {FORMAT}"
            )
        if version == FORMAT and content["sha256"] != _checksum(version, content["key"]):
            raise DamagedFile(f"{path} does not match its checksum; restore it from a backup")
        key = bytes.fromhex(content["key"])
        if len(key) != KEY_SIZE:
            raise DamagedFile(f"{path} contains a key of {len(key)} bytes instead of {KEY_SIZE}")
        return version, key
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        if isinstance(error, DamagedFile):
            raise
        raise DamagedFile(f"{path} is damaged: {error!r}") from None


def records(folder: Path, after: int = 0) -> Iterator[tuple[int, Record]]:
    """The records after number `after`. A missing log is an error, not an empty log."""
    if (folder / NAME).exists() and not files_of(folder) and _described(folder)[0] == FORMAT:
        raise DamagedFile(f"{folder}: the log is missing; restore it from a backup")
    yield from read(folder, after)


def classes_in(agent: Any) -> set[type]:
    """The classes that an agent consists of."""
    classes = {type(agent)}
    for name in fields_of(type(agent)):
        part = getattr(agent, name, None)
        if hasattr(part, "__dict__"):
            classes |= classes_in(part)
    return classes


def check_same_agent(agent: Any, folder: Path, classes: Iterable[type]) -> None:
    """Raise an error unless the folder was created with this agent."""
    first = snapshots.load(snapshots.file_of(folder, 0), classes).agent
    if not snapshots.alike(described(agent), described(first)):
        raise Mismatch(
            f"{folder} was created with another agent ({type(first).__name__}, {first.n_states} "
            f"states, {first.n_actions} actions); pass that agent with its parameters, or None, or "
            "use another folder"
        )


def recover(folder: Path, classes: Iterable[type] = ()) -> tuple[Learner, int]:
    """The learner after the last record of the log, and the number of that record."""
    classes, reasons = tuple(classes), []
    for number, path in snapshots.snapshots_of(folder).items():
        try:
            learner = snapshots.load(path, classes)
        except NotKnown:
            raise
        except DamagedFile as error:
            reasons.append(str(error))
            continue
        for reason in reasons:
            warnings.warn(f"{reason}; using an older snapshot", stacklevel=3)
        last, differing = replay(learner, records(folder, number))
        if differing:
            warnings.warn(
                f"{folder}: {differing} replayed actions differ from the log (written by another "
                "version, or on another processor); the logged actions are used", stacklevel=3,
            )  # fmt: skip
        return learner, max(last, number)
    raise DamagedFile("; ".join(reasons) or f"{folder} contains no snapshot")


def replay(learner: Learner, given: Iterable[tuple[int, Record]]) -> tuple[int, int]:
    """Apply records. Returns the last number, and how many replayed actions differ from the log."""
    last = differing = 0
    for number, record in given:
        try:
            outcome = learner.apply(record)
        except Exception as error:
            raise DamagedFile(f"cannot apply record {number} of the log: {error!r}") from None
        if record["event"] == "decide" and outcome.action != record["action"]:
            differing += 1
            entry = learner.pending[outcome.decision]
            learner.pending[outcome.decision] = entry._replace(action=record["action"])
        last = number
    return last, differing


def rebuild(folder: str | os.PathLike[str], classes: Iterable[type] = ()) -> Learner:
    """Replay the whole log from the initial agent, without later snapshots.

    The result is the learner of the live process, bit for bit.
    """
    path = Path(folder)
    learner = snapshots.load(snapshots.file_of(path, 0), classes)
    _, differing = replay(learner, records(path))
    if differing:
        raise DamagedFile(f"{path}: {differing} replayed actions differ from the log")
    return learner


def history(folder: str | os.PathLike[str]) -> Iterator[tuple[int, int, float, int]]:
    """The steps (state, action, reward, next state) that were learned from, in order.

    Only the log is read; the agent is not needed.
    """
    decided: dict[int, tuple[int, int]] = {}
    for _, record in records(Path(folder)):
        if record["event"] == "decide":
            decided[record["decision"]] = (record["state"], record["action"])
        elif record["event"] == "feedback":
            state, action = decided.pop(record["decision"])
            yield state, action, float(record["reward"]), record["next_state"]
        elif record["event"] == "history":
            for state, action, reward, next_state in record["rows"]:
                yield state, action, float(reward), next_state


def as_plain(value: Any) -> Any:
    """A value for a record, with Python numbers instead of NumPy's, and collections as lists.

    >>> as_plain((np.int64(1), {2}, np.arange(2)))
    [1, [2], [0, 1]]
    """
    if type(value) in (int, float):
        return value
    if isinstance(value, (list, tuple, set, frozenset, range)):
        return [as_plain(part) for part in value]
    if isinstance(value, np.floating):
        return float(value)
    return value.tolist() if isinstance(value, (np.generic, np.ndarray)) else value


Tell = Callable[[int], None]


@dataclass(frozen=True, eq=False)
class Verified:
    """The result of replaying a log."""

    records: int
    snapshot: int  # the record at which it was compared; 0 if there is no later snapshot
    same: bool
    differing: int  # decisions whose replayed action differs from the log
    learner: Learner


def verify(
    folder: str | os.PathLike[str], classes: Iterable[type] = (), tell: Tell = lambda records: None
) -> Verified:
    """Replay the whole log from the initial agent. `tell` is called with the records done so far.

    >>> import tempfile
    >>> from switchmdp.agents import SWUCRL
    >>> from switchmdp.online import Decisions
    >>> with tempfile.TemporaryDirectory() as place:
    ...     with Decisions(SWUCRL(2, 2, window=100), place) as decisions:
    ...         counted = decisions.feedback(decisions.decide(0).id, 1.0, 1)
    ...     result = verify(place)
    >>> result.records, result.snapshot, result.same, result.differing
    (2, 2, True, 0)
    """
    path, classes = Path(folder), tuple(classes)
    if not (path / NAME).exists():
        raise ForeignFolder(f"{path} is not a folder of decisions: it has no {NAME}")
    learner = snapshots.load(snapshots.file_of(path, 0), classes)
    number, kept = _newest(path, classes)
    _, differing = replay(learner, _up_to(number, records(path), tell))
    parts = snapshots.parts_of
    same = kept is None or snapshots.alike(parts(learner), parts(kept))
    last, more = replay(learner, _up_to(None, records(path, number), tell))
    return Verified(max(number, last), number, same, differing + more, learner)


def _newest(path: Path, classes: Iterable[type]) -> tuple[int, Learner | None]:
    """The newest readable snapshot after the initial one."""
    for number, file in snapshots.snapshots_of(path).items():
        try:
            if number > 0:
                return number, snapshots.load(file, classes)
        except (DamagedFile, FileNotFoundError):  # a live process may have removed it
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
