"""From a database back to the learner: recovery, replay, verification, and import of old folders.

Every event is in the database, so the events applied to the initial agent must give the live
learner, bit for bit. `verify` does this, and compares the result with the stored snapshots. `check`
also looks for damage in the database itself, and reports all of it. Both only read, so they can run
beside a live process.

Earlier versions stored a model in a folder: `decisions.json` with the key of the ids, a log with a
checksum in each line (`log-*.jsonl`), and snapshots (`snapshot-*.npz`). `import_folder` converts
such a folder, and compares the learners of the folder and of the database.
"""

from __future__ import annotations

import csv
import hashlib
import json
import os
import re
import warnings
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import numpy as np

from switchmdp.agents.protocol import check_observe
from switchmdp.agents.saving import NotKnown
from switchmdp.errors import (
    DamagedFile,
    ForeignFolder,
    InvalidParameter,
    Mismatch,
    ModelExists,
    UnknownModel,
)
from switchmdp.online.arms import MAIN
from switchmdp.online.database import (
    BATCH,
    MODEL,
    Database,
    Event,
    ModelRow,
    Row,
    checked_name,
    row_of,
)
from switchmdp.online.learner import Learner, Step
from switchmdp.online.snapshots import (
    load,
    names_in,
    packed,
    parts_of,
    restored,
    same_learner,
)
from switchmdp.online.sqlite import SUFFIXES, SQLite, database_in, locked
from switchmdp.storage import load_arrays

Tell = Callable[[int], None]
Place = str | os.PathLike[str]
COLUMNS = ["state", "action", "reward", "next_state"]  # of a CSV file
URLS = ("postgresql://", "postgres://")
SHOWN_NAMES = 5  # of models, if one is not known
SURROGATE = re.compile("[\ud800-\udfff]")


def load_snapshot(
    store: Database, model: str, number: int, classes: Iterable[type] = ()
) -> Learner | None:
    """The learner in a snapshot; None if there is none with this number."""
    content = store.snapshot(model, number)
    name = f"{store.name}: snapshot {number} of the model {model!r}"
    return None if content is None else load(content, name, classes)


def _known(store: Database, model: str) -> str:
    """The key of a model, or an error that lists models with similar names."""
    key = store.key_of(model)
    if key is not None:
        return key
    names = store.models()
    close = get_close_matches(model, names, SHOWN_NAMES, 0.7)
    shown = ", ".join(map(repr, close or names[:SHOWN_NAMES]))
    more = ", ..." if not close and len(names) > SHOWN_NAMES else ""
    advice = f"choose one of its models, such as {shown}{more}" if names else "it has no models yet"
    raise UnknownModel(f"{store.name} has no model {model!r}; {advice}")


def initial(store: Database, model: str, classes: Iterable[type] = ()) -> Learner:
    """The learner before the first event."""
    _known(store, model)
    learner = load_snapshot(store, model, 0, classes)
    if learner is None:
        raise DamagedFile(f"{store.name}: the model {model!r} has no initial snapshot")
    return learner


def recover(store: Database, model: str, classes: Iterable[type] = ()) -> tuple[Learner, int]:
    """The learner after the last event, and the number of that event."""
    classes, reasons = tuple(classes), []
    for number in store.snapshots(model):
        try:
            learner = load_snapshot(store, model, number, classes)
            assert learner is not None
        except NotKnown:
            raise
        except DamagedFile as error:
            reasons.append(str(error))
            continue
        if number > 0 and not learner.has_totals:  # of format 1: replay all events instead
            continue
        for reason in reasons:
            warnings.warn(f"{reason}; using an older snapshot", stacklevel=3)
        last = store.last(model)
        if last < number:
            raise DamagedFile(
                f"{store.name}: the events of the model {model!r} end with {last}, but {number} "
                "were written"
            )
        differing = sum(differs for _, differs in replay(learner, store.events(model, number)))
        if differing:
            warnings.warn(
                f"{store.name}: {differing} replayed actions differ from the events (written by "
                "another version, or on another processor); the stored actions are used",
                stacklevel=3,
            )
        return learner, last
    raise DamagedFile("; ".join(reasons) or f"{store.name}: the model {model!r} has no snapshot")


def replay(learner: Learner, events: Iterable[tuple[int, Event]]) -> Iterator[tuple[int, bool]]:
    """Apply events. Yields their numbers, and whether the replayed action differs."""
    for number, event in events:
        try:
            outcome = learner.apply(event)
        except Exception as error:
            raise DamagedFile(f"cannot apply event {number}: {error!r}") from None
        differs = event["event"] == "decide" and outcome.action != event["action"]
        if differs:
            entry = learner.pending[outcome.decision]
            learner.pending[outcome.decision] = entry._replace(action=event["action"])
        yield number, differs


def is_url(place: Place) -> bool:
    """Whether a place is a PostgreSQL database, not a file or folder.

    Parameters
    ----------
    place
        The place.

    Returns
    -------
    bool
        Whether it is an address.

    Examples
    --------
    >>> is_url("postgresql://localhost/shop"), is_url("shop.sqlite")
    (True, False)
    """
    return str(place).startswith(URLS)


def open_database(place: Place, *, sync: bool = True, read_only: bool = False) -> Database:
    """Open the database at a place: a file, its folder, or postgresql://…

    Parameters
    ----------
    place
        The place.
    sync
        Wait for the disk at each commit.
    read_only
        Open it only for reading.

    Returns
    -------
    Database
        The database.

    Examples
    --------
    >>> import tempfile
    >>> from switchmdp.agents import SWUCRL
    >>> from switchmdp.online import Decisions
    >>> with tempfile.TemporaryDirectory() as place:
    ...     with Decisions(SWUCRL(2, 2, window=100), place) as decisions:
    ...         decisions.feedback(decisions.decide(0).id, 1.0, 1)
    ...     with closing(open_database(place, read_only=True)) as database:
    ...         database.models()
    True
    ['main']
    """
    if is_url(place):
        from switchmdp.online.postgres import PostgreSQL

        return PostgreSQL(str(place), sync=sync, read_only=read_only)
    return SQLite(database_in(place), sync=sync, read_only=read_only)


def _open(place: Place) -> closing[Database]:
    return closing(open_database(place, read_only=True))


def rebuild(place: Place, classes: Iterable[type] = (), model: str = MODEL) -> Learner:
    """The learner that results from all events, applied to the initial agent.

    It equals the learner of the live process, bit for bit.

    Parameters
    ----------
    place
        The database: a file, its folder, or postgresql://…
    classes
        The user's classes that the agent consists of.
    model
        The name of the model.

    Returns
    -------
    Learner
        The learner.

    Raises
    ------
    DamagedFile
        If replayed actions differ from the stored ones, or an event cannot be applied.

    Examples
    --------
    >>> import tempfile
    >>> from switchmdp.agents import SWUCRL
    >>> from switchmdp.online import Decisions
    >>> with tempfile.TemporaryDirectory() as place:
    ...     with Decisions(SWUCRL(2, 2, window=100), place) as decisions:
    ...         decisions.feedback(decisions.decide(0).id, 1.0, 1)
    ...     rebuild(place).counted
    True
    1
    """
    verified = verify(place, classes, model=model)
    if verified.differing:
        raise DamagedFile(f"{place}: {verified.differing} replayed actions differ from the events")
    return verified.learner


def default_model(place: Place) -> str:
    """The only model of a database; `main` if there are several, or none.

    Parameters
    ----------
    place
        The database: a file, its folder, or postgresql://…

    Returns
    -------
    str
        The name of the model.

    Examples
    --------
    >>> import tempfile
    >>> from switchmdp.agents import SWUCRL
    >>> from switchmdp.online import Decisions
    >>> with tempfile.TemporaryDirectory() as place:
    ...     Decisions(SWUCRL(2, 2, window=100), place, model="offers").close()
    ...     default_model(place)
    'offers'
    """
    with _open(place) as store:
        names = store.models()
    return names[0] if len(names) == 1 else MODEL


def events_of(place: Place, model: str = MODEL) -> Iterator[tuple[int, Event]]:
    """The events of a model, with their numbers.

    Parameters
    ----------
    place
        The database: a file, its folder, or postgresql://…
    model
        The name of the model.

    Yields
    ------
    tuple[int, Event]
        The number and the event.

    Raises
    ------
    UnknownModel
        If there is no such model.

    Examples
    --------
    >>> import tempfile
    >>> from switchmdp.agents import SWUCRL
    >>> from switchmdp.online import Decisions
    >>> with tempfile.TemporaryDirectory() as place:
    ...     with Decisions(SWUCRL(2, 2, window=100), place) as decisions:
    ...         decisions.feedback(decisions.decide(0).id, 1.0, 1)
    ...     [event["event"] for _, event in events_of(place)]
    True
    ['decide', 'feedback']
    """
    with _open(place) as store:
        _known(store, model)
        yield from store.events(model)


def history(place: Place, model: str = MODEL) -> Iterator[Step]:
    """The steps (state, action, reward, next state) that were learned from, in order.

    Only the events are read; the agent is not needed.

    Parameters
    ----------
    place
        The database: a file, its folder, or postgresql://…
    model
        The name of the model.

    Yields
    ------
    Step
        A step.

    Raises
    ------
    UnknownModel
        If there is no such model.

    Examples
    --------
    >>> import tempfile
    >>> from switchmdp.agents import SWUCRL
    >>> from switchmdp.online import Decisions
    >>> with tempfile.TemporaryDirectory() as place:
    ...     with Decisions(SWUCRL(2, 2, window=100), place) as decisions:
    ...         decisions.feedback(decisions.decide(0).id, 1.0, 1)
    ...     list(history(place))
    True
    [(0, 0, 1.0, 1)]
    """
    decided: dict[int, tuple[int, int]] = {}
    for _, event in events_of(place, model):
        if event["event"] == "decide":
            decided[event["decision"]] = (event["state"], event["action"])
        elif event["event"] == "feedback":
            state, action = decided.pop(event["decision"])
            yield state, action, event["reward"], event["next_state"]
        elif event["event"] == "history":
            for state, action, reward, next_state in event["rows"]:
                yield state, action, float(reward), next_state


def decision_id(key: bytes, number: int, epoch: str) -> str:
    """The id of a decision: its number and a signature."""
    named = f"{number} {epoch}" if epoch else f"{number}"
    tag = hashlib.blake2b(named.encode(), digest_size=6, key=key).hexdigest()
    return f"{number}-{tag}"


# The columns of exported decisions, and their types (see `reports.export`).
DECISION_COLUMNS = {
    "time": "number", "session": "text", "decision": "text", "state": "count", "action": "count",
    "arm": "name", "probability": "number", "reward": "number", "next_state": "count",
    "state_name": "name", "action_name": "name", "next_state_name": "name",
}  # fmt: skip


def decision_blocks(
    place: Place, model: str = MODEL, size: int = BATCH
) -> Iterator[tuple[list[Any], ...]]:
    """All decisions of a model with their outcomes, in blocks of columns (`DECISION_COLUMNS`).

    Decisions are in the order of their feedback; those without feedback are at the end, with the
    reward NaN and the next state -1. `time` is that of the decision. The last three columns have
    the names of the state, the action and the next state; None if they have no names. Half of
    a surrogate pair in a session or a name, which UTF-8 cannot store, is replaced by U+FFFD.

    Parameters
    ----------
    place
        The database: a file, its folder, or postgresql://…
    model
        The name of the model.
    size
        The number of decisions in a block.

    Yields
    ------
    Iterator[tuple[list[Any], ...]]
        The columns of a block.

    Raises
    ------
    UnknownModel
        If there is no such model.

    Examples
    --------
    >>> import tempfile
    >>> from switchmdp.agents import SWUCRL
    >>> from switchmdp.online import Decisions
    >>> with tempfile.TemporaryDirectory() as place:
    ...     with Decisions(SWUCRL(2, 2, window=100), place) as decisions:
    ...         decisions.feedback(decisions.decide(0).id, 1.0, 1)
    ...     (block,) = decision_blocks(place)
    ...     dict(zip(DECISION_COLUMNS, block))["reward"]
    True
    [1.0]
    """
    with _open(place) as store:
        key, epoch = bytes.fromhex(_known(store, model)), ""
        names = _NamesSoFar(store, model)
        rows: list[tuple[Any, ...]] = []
        waiting: dict[int, tuple[Any, ...]] = {}
        for _, event in store.events(model):
            names.note(event)
            if event["event"] == "decide":
                epoch, number = event.get("epoch", epoch), event["decision"]
                waiting[number] = (
                    event["time"], storable(event.get("session", "")),
                    decision_id(key, number, epoch), event["state"], event["action"],
                    event.get("arm", MAIN), event.get("probability", 1.0),
                )  # fmt: skip
            elif event["event"] == "feedback":
                decided = waiting.pop(event["decision"])
                rows.append(names.named((*decided, event["reward"], event["next_state"])))
            if len(rows) >= size:
                yield tuple(map(list, zip(*rows, strict=True)))
                rows.clear()
        rows += [names.named((*decided, float("nan"), -1)) for decided in waiting.values()]
        if rows:
            yield tuple(map(list, zip(*rows, strict=True)))


class _NamesSoFar:
    """The names of a model's states and actions, while its events are read in order.

    The agent is not needed, so decisions of the user's own agents can be exported as well.
    """

    def __init__(self, store: Database, model: str) -> None:
        content = store.snapshot(model, 0)
        if content is None:
            raise DamagedFile(f"{store.name}: the model {model!r} has no initial snapshot")
        (self.states, self.actions), sizes = names_in(content, f"{store.name}: snapshot 0")
        self._sizes = dict(zip(("add_state", "add_action"), sizes, strict=True))

    def note(self, event: Event) -> None:
        """Take note of new states or actions."""
        kind = event["event"]
        if kind in self._sizes:
            known = self.states if kind == "add_state" else self.actions
            known.add(event.get("names") or (), self._sizes[kind])
            self._sizes[kind] += event.get("count", 1)

    def named(self, row: tuple[Any, ...]) -> tuple[Any, ...]:
        """The row of a decision with the columns of names."""
        state, action, next_state = row[3], row[4], row[-1]
        given = (
            self.states.of(state), self.actions.of(action),
            None if next_state < 0 else self.states.of(next_state),
        )  # fmt: skip
        return (*row, *(None if name is None else storable(name) for name in given))


def storable(text: str) -> str:
    """The text as UTF-8 can store it: half of a surrogate pair becomes U+FFFD."""
    return SURROGATE.sub("\ufffd", text)


def read_steps(source: Place, agent: Any) -> Iterator[Step]:
    """Steps for a warm start of an agent, from a CSV file or from a database or its folder.

    The first line of a CSV file is `state,action,reward,next_state`.

    Parameters
    ----------
    source
        The file, folder or address.
    agent
        The agent that will learn from the steps.

    Yields
    ------
    Step
        A step.

    Raises
    ------
    InvalidParameter
        If the agent cannot learn from a step.
    DamagedFile
        If a line is not a step.

    Examples
    --------
    >>> import tempfile
    >>> from switchmdp.agents import SWUCRL
    >>> with tempfile.TemporaryDirectory() as place:
    ...     file = Path(place, "steps.csv")
    ...     _ = file.write_text("state,action,reward,next_state\\n0,1,0.5,1\\n")
    ...     list(read_steps(file, SWUCRL(2, 2, window=100)))
    [(0, 1, 0.5, 1)]
    """
    path = Path(source)
    is_database = is_url(source) or path.is_dir() or path.suffix in SUFFIXES
    for number, step in enumerate(history(source) if is_database else _csv_steps(path), 1):
        try:
            yield check_observe(agent, *step)
        except InvalidParameter as error:
            field = f"{path}, step {number}: {error.field}"
            raise type(error)(field, error.value, error.allowed) from None


def _csv_steps(path: Path) -> Iterator[Step]:
    with open(path, newline="", encoding="utf-8-sig") as file:
        lines = csv.reader(file)
        try:
            if next(lines, None) != COLUMNS:
                raise DamagedFile(f"the first line of {path} must be {','.join(COLUMNS)}")
            for line in lines:
                yield _step(line, f"{path}, line {lines.line_num}")
        except (UnicodeDecodeError, csv.Error) as error:
            raise DamagedFile(f"{path} is not a CSV file in UTF-8: {error}") from None


def _step(cells: list[str], place: str) -> Step:
    try:
        state, action, reward, next_state = cells
        return int(state), int(action), float(reward), int(next_state)
    except ValueError:
        raise DamagedFile(f"{place}: not a step: {cells}") from None


@dataclass(frozen=True, eq=False)
class Verified:
    """The result of replaying the events of a model.

    Parameters
    ----------
    records
        The number of events.
    snapshot
        The number of the newest snapshot that was compared; 0 if there is none after the first.
    same
        Whether the replayed learner equals the snapshots.
    differing
        The number of decisions whose replayed action differs from the stored one.
    learner
        The replayed learner.
    damage
        The snapshots that differ or cannot be read.
    """

    records: int
    snapshot: int  # the newest snapshot that was compared; 0 if there is no later snapshot
    same: bool
    differing: int  # decisions whose replayed action differs from the stored one
    learner: Learner
    damage: tuple[str, ...]  # snapshots that differ or cannot be read


def verify(
    place: Place, classes: Iterable[type] = (), tell: Tell = lambda records: None,
    model: str = MODEL,
) -> Verified:  # fmt: skip
    """Replay all events from the initial agent, and compare the learner with every snapshot.

    Parameters
    ----------
    place
        The database: a file, its folder, or postgresql://…
    classes
        The user's classes that the agent consists of.
    tell
        A function that is called with the number of events so far.
    model
        The name of the model.

    Returns
    -------
    Verified
        The result of the comparison.

    Raises
    ------
    UnknownModel
        If there is no such model.
    DamagedFile
        If an event cannot be applied.

    Examples
    --------
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
    with _open(place) as store:
        return _verified(store, model, tuple(classes), tell)


def _verified(store: Database, model: str, classes: tuple[type, ...], tell: Tell) -> Verified:
    learner = initial(store, model, classes)
    numbers = set(store.snapshots(model))
    last = compared = differing = 0
    same, damage = True, []
    for last, differs in replay(learner, store.events(model)):
        differing += differs
        if last in numbers:
            try:
                kept = load_snapshot(store, model, last, classes)
            except DamagedFile as error:
                damage.append(str(error))
                kept = None
            if kept is not None:  # a live process may have deleted it
                compared = last
                if not same_learner(learner, kept):
                    same = False
                    damage.append(f"snapshot {last} of the model {model!r} differs from the replay")
        tell(last)
    for number in sorted(numbers):
        if number > last:
            damage.append(f"snapshot {number} of the model {model!r} is later than the last event")
    return Verified(last, compared, same, differing, learner, tuple(damage))


Damage = dict[str, list[str]]  # what is damaged, by model, and in the database itself


def check(place: Place, classes: Iterable[type] = (), tell: Tell = lambda records: None) -> Damage:
    """Check a database: its file, its tables, every event and every snapshot of every model.

    Parameters
    ----------
    place
        The database: a file, its folder, or postgresql://…
    classes
        The user's classes that the agents consist of.
    tell
        A function that is called with the number of events so far.

    Returns
    -------
    Damage
        The damage of the database and of each model.

    Examples
    --------
    >>> import tempfile
    >>> from switchmdp.agents import SWUCRL
    >>> from switchmdp.online import Decisions
    >>> with tempfile.TemporaryDirectory() as place:
    ...     with Decisions(SWUCRL(2, 2, window=100), place) as decisions:
    ...         decision = decisions.decide(0)
    ...     check(place)
    {'the database': [], 'model main': []}
    """
    with _open(place) as store:
        of_file: list[str] = []
        report = {"the database": of_file}
        try:
            of_file += store.damage()
            names = store.models()
            for model in names:
                store.key_of(model)  # an altered row raises an error
        except DamagedFile as error:
            of_file.append(str(error))
            return report
        for model in names:
            report[f"model {model}"] = _damage_of(store, model, tuple(classes), tell)
    return report


def _damage_of(store: Database, model: str, classes: tuple[type, ...], tell: Tell) -> list[str]:
    try:
        damaged = [problem for _, problem in store.scan(model) if problem]
        if damaged:
            return [*damaged, "so the events were not replayed"]
        verified = _verified(store, model, classes, tell)
    except DamagedFile as error:
        return [str(error)]
    if not verified.differing:
        return list(verified.damage)
    return [*verified.damage, f"{verified.differing} replayed actions differ from the events"]


# Folders of earlier versions.


def import_folder(
    folder: Place, database: Place, *, model: str = MODEL, classes: Iterable[type] = (),
    tell: Tell = lambda records: None,
) -> Verified:  # fmt: skip
    """Convert a folder of an earlier version to a model of a database.

    The learner is replayed twice, from the folder and from the database. Both must be equal, and
    equal to the newest snapshot in the folder. Otherwise the database stays as it was.

    Parameters
    ----------
    folder
        The folder.
    database
        The file of the database, which may exist.
    model
        The name of the model.
    classes
        The user's classes that the agent consists of.
    tell
        A function that is called with the number of events so far.

    Returns
    -------
    Verified
        The result of the comparison.

    Raises
    ------
    InvalidParameter
        If a model cannot have this name.
    ModelExists
        If the database already has a model of this name.
    DamagedFile
        If the folder is damaged.
    Mismatch
        If the replayed learners differ.
    """
    old, classes = Path(folder), tuple(classes)
    checked_name(model, "model")
    key = _old_key(old)
    learner = _old_snapshot(old, 0, classes)
    newest = max(int(path.stem[9:]) for path in old.glob("snapshot-*.npz"))
    with (
        locked(old / "lock", old), closing(open_database(database)) as store,
        store.transaction(),
    ):  # fmt: skip
        if store.key_of(model) is not None:
            raise ModelExists(f"{store.name} already has a model {model!r}")
        store.create(ModelRow(model, key), packed(*parts_of(learner)))
        rows: list[Row] = []

        def converted() -> Iterator[tuple[int, Event]]:
            for number, record in _old_records(old):
                event = _converted(learner, record)
                rows.append(row_of(model, number, event))
                yield number, event

        last = 0
        for last, _ in replay(learner, converted()):
            if last == newest:
                kept = _old_snapshot(old, newest, classes)
                if not same_learner(learner, kept):
                    raise Mismatch(
                        f"{old}: the learner replayed from the log differs from snapshot {newest}"
                    )
            if len(rows) >= BATCH:
                store.append(rows)
                rows.clear()
            tell(last)
        store.append(rows)
        if last < newest:
            raise DamagedFile(f"{old}: the log ends with record {last}, but {newest} were written")
        verified = _verified(store, model, classes, tell)
        if not same_learner(verified.learner, learner):
            raise Mismatch(f"the learners replayed from {store.name} and {old} differ")
        if learner.planning is None:
            store.save_snapshot(model, last, packed(*parts_of(learner)))
    return verified


def _old_key(folder: Path) -> str:
    path = folder / "decisions.json"
    if not path.exists():
        raise ForeignFolder(f"{folder} is not a folder of decisions: it has no {path.name}")
    try:
        content = json.loads(path.read_bytes())
        version, key = content["format"], bytes.fromhex(content["key"]).hex()
        expected = hashlib.sha256(f"{version} {key}".encode()).hexdigest()
        if version not in (1, 2) or (version == 2 and content["sha256"] != expected):
            raise ValueError("it does not match its checksum")
    except (LookupError, TypeError, ValueError, RecursionError) as error:
        raise DamagedFile(f"{path} is damaged: {error!r}") from None
    if version == 2 and not list(folder.glob("log-*.jsonl")):
        raise DamagedFile(f"{folder}: the log is missing")
    return key


def _old_snapshot(folder: Path, number: int, classes: tuple[type, ...]) -> Learner:
    path = folder / f"snapshot-{number:012d}.npz"
    fields, arrays = load_arrays(path, "decisions")
    # The first version had only the wall clock, and no epochs.
    return restored({"now": fields.get("at"), "epochs": [], **fields}, arrays, path, classes)


def _old_records(folder: Path) -> Iterator[tuple[int, Event]]:
    """The records of a log. An incomplete last line was never acknowledged, and is ignored."""

    def is_whole(line: bytes) -> bool:
        return line[:9] == b"%08x " % zlib.crc32(line[9:])

    files = sorted(folder.glob("log-*.jsonl"))
    last = 0
    for path in files:
        with open(path, "rb") as file:
            for line in file:
                content, end = line[:-1], line[-1:]
                if end != b"\n" and path == files[-1] and not is_whole(content):
                    return
                number, _, text = content[9:].partition(b" ")
                if end != b"\n" or not is_whole(content) or number != b"%d" % (last + 1):
                    raise DamagedFile(f"{path}: record {last + 1} is damaged or missing")
                last += 1
                yield last, json.loads(text)


def _converted(learner: Learner, record: dict[str, Any]) -> Event:
    """The event of an old record that is about to be applied."""
    event = {k: v for k, v in record.items() if k not in ("at", "after")}
    time, agent = float(record["at"]), learner.agent
    if "after" in record:
        elapsed = float(record["after"])
    elif event["event"] in ("decide", "feedback", "history", "settings"):
        # The first version used the wall clock, and ignored it when it was set back.
        time, elapsed = max(learner.at, time), max(0.0, time - learner.now)
    else:
        time, elapsed = learner.at, 0.0
    event |= {"time": time, "elapsed": elapsed}
    if event["event"] == "grow":  # had the whole table of available actions
        size, table = (event.pop("n_states"), event.pop("n_actions")), event.pop("available")
        if size == (agent.n_states + 1, agent.n_actions):
            event |= {"event": "add_state", "available": np.flatnonzero(table[-1]).tolist()}
        elif size == (agent.n_states, agent.n_actions + 1):
            states = np.flatnonzero(np.array(table)[:, -1]).tolist()
            event |= {"event": "add_action", "states": states}
        else:
            raise DamagedFile(f"growth to {size[0]} states and {size[1]} actions at once")
    return event
