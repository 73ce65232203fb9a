"""The folder of decisions: whose it is, how it is made, and the way back after a crash.

decisions.json          made last; holds the key of the decisions' ids
snapshot-000….npz       the agent as it was given, and the two newest snapshots
log-….jsonl             every event
lock                    held by the process that writes here
"""

from __future__ import annotations

import json
import os
import secrets
import warnings
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from switchmdp.agents.stored import NotKnown, described
from switchmdp.compiled import fields_of
from switchmdp.errors import DamagedFile, ForeignFolder, Mismatch
from switchmdp.online import snapshots
from switchmdp.online.learner import Learner
from switchmdp.storage import save_bytes
from switchmdp.storage.log import Record, read

NAME = "decisions.json"
FORMAT = 1
KEY_SIZE = 16

try:
    import fcntl
except ImportError:  # not there on Windows, where nobody keeps a second process out
    fcntl = None  # type: ignore[assignment]  # a module that is not there


def claim(folder: Path) -> int:
    """Be the only one who writes here: a handle for `release`; the lock ends with the process."""
    if folder.exists():
        exists(folder)  # leave no lock in somebody else's
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    handle = os.open(folder / "lock", os.O_RDWR | os.O_CREAT, 0o600)
    if fcntl is not None:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(handle)
            raise ForeignFolder(f"{folder} is in use by another process") from None
    for left in (*folder.glob(".snapshot-*"), *folder.glob(f".{NAME}.*")):
        left.unlink()  # half written by one that was killed
    return handle


def release(handle: int) -> None:
    """Let others write here."""
    os.close(handle)


def exists(folder: Path) -> bool:
    """Whether the folder holds decisions; one with other things in it is refused."""
    if (folder / NAME).exists():
        return True
    for path in folder.iterdir():
        ours = path.name in ("lock", snapshots.file_of(folder, 0).name) or path.name[0] == "."
        if not ours:
            raise ForeignFolder(f"{folder} holds {path.name!r}, and no {NAME}")
    return False


def create(folder: Path, learner: Learner) -> None:
    """Make the folder; cut off anywhere, it is as if it had never been begun."""
    snapshots.save(folder, 0, *snapshots.parts_of(learner))
    content = {"format": FORMAT, "key": secrets.token_hex(KEY_SIZE)}
    save_bytes(folder / NAME, json.dumps(content).encode())


def key_of(folder: Path) -> bytes:
    """The key of the decisions' ids."""
    path = folder / NAME
    try:
        content = json.loads(path.read_bytes())
        if content["format"] != FORMAT:
            raise DamagedFile(f"{path} has format {content['format']!r}, known is {FORMAT}")
        key = bytes.fromhex(content["key"])
        if len(key) != KEY_SIZE:
            raise DamagedFile(f"{path} holds a key of {len(key)} bytes, not {KEY_SIZE}")
        return key
    except (KeyError, TypeError, ValueError) as error:
        if isinstance(error, DamagedFile):
            raise
        raise DamagedFile(f"{path} is damaged: {error!r}") from None


def classes_in(agent: Any) -> set[type]:
    """The classes that an agent is made of: they are known to whoever gives it."""
    found = {type(agent)}
    for name in fields_of(type(agent)):
        part = getattr(agent, name, None)
        if hasattr(part, "__dict__"):
            found |= classes_in(part)
    return found


def must_be_made_for(agent: Any, folder: Path, classes: Iterable[type]) -> None:
    """The agent that is given again must be the one that the folder was made with."""
    first = snapshots.load(snapshots.file_of(folder, 0), classes).agent
    if not snapshots.alike(described(agent), described(first)):
        raise Mismatch(
            f"{folder} was made for another agent ({type(first).__name__}, {first.n_states} states,"
            f" {first.n_actions} actions); give that one with its parameters, or None, or another "
            "folder"
        )


def recover(folder: Path, classes: Iterable[type] = ()) -> tuple[Learner, int]:
    """The learner as it was after the log's last sound record, and that record's number."""
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
            warnings.warn(f"{reason}; going on with an older one", stacklevel=3)
        last, differing = replay(learner, read(folder, number))
        if differing:
            warnings.warn(
                f"{folder}: {differing} actions come out otherwise than they were logged (another "
                "version, or another processor); those that were logged count", stacklevel=3,
            )  # fmt: skip
        return learner, max(last, number)
    raise DamagedFile("; ".join(reasons) or f"{folder} holds no snapshot")


def replay(learner: Learner, records: Iterable[tuple[int, Record]]) -> tuple[int, int]:
    """Apply records; the last one's number, and in how many decisions the action came out new."""
    last = differing = 0
    for number, record in records:
        try:
            outcome = learner.apply(record)
        except Exception as error:
            raise DamagedFile(f"record {number} of the log can't be applied: {error!r}") from None
        if record["event"] == "decide" and outcome.action != record["action"]:
            differing += 1
            entry = learner.pending[outcome.decision]
            learner.pending[outcome.decision] = entry._replace(action=record["action"])
        last = number
    return last, differing


def rebuild(folder: str | os.PathLike[str], classes: Iterable[type] = ()) -> Learner:
    """Replay the whole log from the agent that was given, without looking at later snapshots.

    The outcome is the learner of the live process, bit for bit.
    """
    path = Path(folder)
    learner = snapshots.load(snapshots.file_of(path, 0), classes)
    _, differing = replay(learner, read(path))
    if differing:
        raise DamagedFile(f"{path}: {differing} actions come out otherwise than they were logged")
    return learner


def history(folder: str | os.PathLike[str]) -> Iterator[tuple[int, int, float, int]]:
    """The steps (state, action, reward, next state) that were learned from, in order.

    The log alone tells; the agent is not needed.
    """
    decided: dict[int, tuple[int, int]] = {}
    for _, record in read(Path(folder)):
        if record["event"] == "decide":
            decided[record["decision"]] = (record["state"], record["action"])
        elif record["event"] == "feedback":
            state, action = decided.pop(record["decision"])
            yield state, action, float(record["reward"]), record["next_state"]
        elif record["event"] == "history":
            for state, action, reward, next_state in record["rows"]:
                yield state, action, float(reward), next_state


def as_plain(value: Any) -> Any:
    """A value for a record: NumPy's numbers as Python's, collections as lists.

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
