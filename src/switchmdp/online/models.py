"""The models of a database: created, listed, and loaded on demand.

A model that is used is in memory. If the models in memory need more than `memory` bytes, those that
were not used for the longest time are evicted: their events are committed, a snapshot is written,
and the next request loads them again from it.

Before a model is loaded, its lease is claimed. If another worker has it, `Elsewhere` names that
worker (PostgreSQL only; a SQLite database has one process). If another worker has taken the lease
over because this one seemed dead, the next commit fails (`Overtaken`), and the model is dropped.
"""

from __future__ import annotations

import copy
import json
import sys
import threading
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import lru_cache, partial
from typing import Any, NamedTuple

import numpy as np

from switchmdp.agents.policy_agent import follows_policy
from switchmdp.errors import InvalidParameter, LogFailed, ModelExists
from switchmdp.online.arms import create_agent
from switchmdp.online.database import Database, Lease, ModelRow, Writer, checked_name
from switchmdp.online.decisions import (
    Decisions,
    classes_in,
    first_snapshot,
    new_key,
    summary_of,
)
from switchmdp.online.learner import Learner, checked_names
from switchmdp.online.monitoring import Signal

MEMORY = 2**30
AGENT = "evidence-psrl"  # of a new model, by default
MOST_PAIRS = 1_000_000  # states times actions of a model that is created over HTTP
MOST_LABELS, LONGEST_LABEL = 20, 200
SMALLEST, PER_ENTRY = 30_000, 400  # bytes of any model, and of one entry (a pending decision)
MEASURED = 2000  # events after which the size of a model is measured again


class Elsewhere(Exception):
    """Another worker serves the model."""

    def __init__(self, lease: Lease) -> None:
        super().__init__(lease)
        self.lease = lease


class _Loaded:
    """A model in memory."""

    def __init__(self, decisions: Decisions, archived: bool) -> None:
        self.decisions, self.archived = decisions, archived
        self.described = -1  # the events in the summary that was stored last
        self.measure()

    def measure(self) -> None:
        self.size, self.measure_at = size_of(self.decisions), self.decisions.records + MEASURED


class Models:
    """The models of a database.

    >>> import tempfile
    >>> from switchmdp.online.sqlite import SQLite
    >>> with tempfile.TemporaryDirectory() as place:
    ...     models = Models(SQLite(f"{place}/shop.sqlite"))
    ...     row = models.create("offers", "random", states=["home", "basket"], actions=3)
    ...     with models:
    ...         models.load("offers").decide("basket").state
    1
    """

    def __init__(
        self, store: Database, *, memory: int = MEMORY, classes: Iterable[type] = (),
        on_alert: Callable[[Decisions, Signal], None] = lambda decisions, signal: None,
        committed: Callable[[float], None] = lambda seconds: None, **options: Any,
    ) -> None:  # fmt: skip
        """`options` are those of `Decisions` for every model that is loaded."""
        self.store, self.memory = store, memory
        self.writer = Writer(store, self.drop, committed)
        self.lease_changes = 0
        self._classes, self._on_alert, self._options = tuple(classes), on_alert, options
        self._loaded: OrderedDict[str, _Loaded] = OrderedDict()  # the least recently used first
        self._lock = threading.RLock()
        self._turns: dict[str, tuple[threading.Lock, int]] = {}  # locks in use, and their users

    @contextmanager
    def _turn(self, name: str) -> Iterator[None]:
        """One thread at a time loads or evicts a model."""
        with self._lock:
            lock, users = self._turns.get(name, (threading.Lock(), 0))
            self._turns[name] = lock, users + 1
        try:
            with lock:
                yield
        finally:
            with self._lock:
                lock, users = self._turns.pop(name)
                if users > 1:
                    self._turns[name] = lock, users - 1

    def create(
        self, name: str, agent: str = AGENT, parameters: dict[str, Any] | None = None, *,
        states: int | list[str], actions: int | list[str], labels: dict[str, str] | None = None,
        compiled: bool = False, **settings: Any,
    ) -> ModelRow:  # fmt: skip
        """Add a model. `states` and `actions` are numbers, or lists of names.

        `compiled`: if the model is the first of its kind, load it, which compiles its agent.
        """
        parameters, labels = parameters or {}, _checked_labels(labels or {})
        sizes = [_size("states", states), _size("actions", actions)]
        if sizes[0] * sizes[1] > MOST_PAIRS:
            product = sizes[0] * sizes[1]
            raise InvalidParameter("states * actions", product, f"at most {MOST_PAIRS}")
        new = _new_model(json.dumps([agent, parameters, states, actions, settings]))
        summary = new.summary
        row = ModelRow(checked_name(name), new_key(), agent, parameters, labels, summary=summary)
        with self._turn(name):
            if self.store.key_of(name) is not None:
                raise ModelExists(f"there is already a model {name!r}")
            self.store.create(row, new.snapshot)
        if compiled and new.kind not in _compiled:
            with suppress(Elsewhere):
                self.load(name)
        return self.store.model(name)

    def adopt(self, decisions: Decisions) -> None:
        """Serve decisions that were opened with the writer of these models."""
        with self._lock:
            self._loaded[decisions.model] = _Loaded(decisions, archived=False)

    @classmethod
    def around(cls, decisions: Decisions) -> Models:
        """A registry for decisions that were opened alone. The caller closes them."""
        models = cls(decisions.writer.store)
        models.writer = decisions.writer
        models.adopt(decisions)
        return models

    def get(self, name: str) -> Decisions | None:
        """The decisions of a model in memory; None if it must be loaded."""
        with self._lock:
            loaded = self._loaded.get(name)
            if loaded is None:
                return None
            self._loaded.move_to_end(name)
        if loaded.decisions.records >= loaded.measure_at:
            loaded.measure()
        return loaded.decisions

    def load(self, name: str) -> Decisions:
        """The decisions of a model. Raises `UnknownModel` or `Elsewhere`."""
        with self._turn(name):
            found = self.get(name)
            if found is not None:
                return found
            row = self.store.model(name)
            lease = self.store.claim(name)
            if lease is not None:
                raise Elsewhere(lease)
            self.lease_changes += 1
            made: Decisions = Decisions(
                None, self.writer, model=name, classes=self._classes,
                on_alert=partial(self._alert, name), **self._options,
            )  # fmt: skip
            compile_agent(made)
            with self._lock:
                self._loaded[name] = _Loaded(made, row.archived is not None)
        self._make_room()
        return made

    def _alert(self, name: str, signal: Signal) -> None:
        """Report an alert of a model in memory."""
        # With its decisions instead of its name, an evicted model would be part of a cycle, and
        # would stay in memory until the garbage collector finds it.
        loaded = self._loaded.get(name)
        if loaded is not None:
            self._on_alert(loaded.decisions, signal)

    def is_elsewhere(self, name: str) -> bool:
        """Whether another worker serves a model; otherwise this one takes its lease."""
        return self.store.key_of(name) is not None and self.store.claim(name) is not None

    def is_archived(self, name: str) -> bool:
        """Whether a model in memory is archived."""
        loaded = self._loaded.get(name)
        return loaded is not None and loaded.archived

    def archive(self, name: str, archived: bool) -> ModelRow:
        """Archive a model, so that it makes no decisions, or undo it."""
        self.load(name)
        self.store.archive(name, archived)
        with self._lock:
            if name in self._loaded:
                self._loaded[name].archived = archived
        return self.store.model(name)

    def delete(self, name: str) -> None:
        """Delete a model with everything that belongs to it."""
        self.load(name)
        with self._turn(name):
            with self._lock:
                loaded = self._loaded.pop(name, None)
            if loaded is not None:
                loaded.decisions.close()
            self.store.delete(name)

    def find(self, **given: Any) -> list[ModelRow]:
        """Models in the order of their names, as `Database.find_models`; summaries are current."""
        return [self.current(row) for row in self.store.find_models(**given)]

    def current(self, row: ModelRow) -> ModelRow:
        """The row of a model with its current summary, if it is in memory."""
        loaded = self._loaded.get(row.name)
        return row if loaded is None else replace(row, summary=loaded.decisions.look(summary_of))

    def loaded(self) -> dict[str, Decisions]:
        """The models in memory."""
        with self._lock:
            return {name: loaded.decisions for name, loaded in self._loaded.items()}

    def changed_summaries(self) -> dict[str, dict[str, Any]]:
        """The summaries of models in memory that have changed since the last call."""
        with self._lock:
            loaded = [
                (name, one) for name, one in self._loaded.items()
                if one.described != one.decisions.records
            ]  # fmt: skip
        changed = {}
        for name, one in loaded:
            one.described = one.decisions.records
            with suppress(LogFailed):  # it was evicted in the meantime
                changed[name] = one.decisions.look(summary_of)
        return changed

    @property
    def size(self) -> int:
        """The bytes that the models in memory need, approximately."""
        with self._lock:
            return sum(loaded.size for loaded in self._loaded.values())

    def drop(self, name: str) -> None:
        """Forget a model that another worker has taken over."""
        with self._lock:
            loaded = self._loaded.pop(name, None)
        if loaded is not None:
            self.lease_changes += 1
            loaded.decisions.overtaken()

    def keep_only(self, names: Collection[str]) -> None:
        """Forget all other models: their leases have expired, and other workers serve them now."""
        self.writer.abandon([name for name in self.loaded() if name not in names])

    def _make_room(self) -> None:
        """Evict models until the others fit in the memory."""
        while True:
            with self._lock:
                if len(self._loaded) < 2 or self.size <= self.memory:
                    return
                oldest = next(iter(self._loaded))
            self.evict(oldest)

    def evict(self, name: str) -> None:
        """Write a snapshot of a model, and remove it from memory."""
        with self._turn(name):
            loaded = self._loaded.get(name)
            if loaded is None:
                return
            loaded.decisions.close()  # an error means that no snapshot was written: the model stays
            with self._lock:
                self._loaded.pop(name, None)
            self.store.release([name])
            self.lease_changes += 1

    def close(self) -> None:
        """Write snapshots of all models, and close the database."""
        try:
            for name in self.loaded():
                try:
                    self.evict(name)
                except LogFailed:  # nothing acknowledged is lost
                    continue
        finally:
            self.store.close()

    def __enter__(self) -> Models:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


_compiled: set[frozenset[type]] = {frozenset()}


def _kind_of(agent: Any) -> frozenset[type]:
    """The classes that are compiled together; none if the agent does not plan."""
    return frozenset(classes_in(agent)) if follows_policy(agent) else frozenset()


def _copy_of(agent: Any, learner: Learner) -> Any:
    return copy.deepcopy(agent)


def compile_agent(decisions: Decisions) -> None:
    """Compile the agents of a model, so that no decision has to wait for it: copies plan once."""

    def agents(learner: Learner) -> list[Any]:
        return [learner.agent, *(arm.agent for arm in learner.arms.values() if arm.agent)]

    for agent in decisions.look(agents):
        kind = _kind_of(agent)
        if kind not in _compiled:
            decisions.look(partial(_copy_of, agent)).plan()
            _compiled.add(kind)


class _NewModel(NamedTuple):
    """What the database stores of a new model."""

    snapshot: bytes
    summary: dict[str, Any]
    kind: frozenset[type]  # of its agent


@lru_cache(maxsize=16)
def _new_model(definition: str) -> _NewModel:
    """A new model. For many models with the same definition, it is made only once."""
    agent, parameters, states, actions, settings = json.loads(definition)
    names = [given if isinstance(given, list) else None for given in (states, actions)]
    made = new_agent(agent, _size("states", states), _size("actions", actions), parameters)
    return _NewModel(*first_snapshot(made, settings, *names), _kind_of(made))


def new_agent(name: str, n_states: int, n_actions: int, parameters: dict[str, Any]) -> Any:
    """An agent for a model; any error of its constructor names its parameters."""
    try:
        return create_agent(name, n_states, n_actions, parameters)
    except (TypeError, OverflowError, MemoryError) as error:
        allowed = f"parameters that {name} accepts ({error})"
        raise InvalidParameter("parameters", parameters, allowed) from None


def _size(field: str, given: Any) -> int:
    """The number of states or actions."""
    if not isinstance(given, list):
        return int(given)
    if not given or len(set(checked_names(field, given))) < len(given):
        raise InvalidParameter(field, given, "a list of at least one name, without duplicates")
    return len(given)


def _checked_labels(labels: dict[str, str]) -> dict[str, str]:
    texts = [*labels, *labels.values()]
    if len(labels) > MOST_LABELS or any(len(text) > LONGEST_LABEL for text in texts):
        allowed = f"at most {MOST_LABELS} labels of at most {LONGEST_LABEL} characters"
        raise InvalidParameter("labels", labels, allowed)
    return labels


def size_of(decisions: Decisions) -> int:
    """The bytes that a model needs in memory, approximately."""
    learner: Learner = decisions.learner
    entries = len(learner.pending) + len(learner.answered) + len(learner.sessions)
    entries += len(learner.keys) + len(learner.epochs)
    arrays = _array_bytes(learner.agent, set()) + _array_bytes(learner.signal, set())
    arrays += sum(_array_bytes(arm.agent, set()) for arm in learner.arms.values())
    return SMALLEST + PER_ENTRY * entries + arrays + learner.last_at.nbytes * 2


def _array_bytes(part: Any, seen: set[int]) -> int:
    """The bytes of all arrays in an object and its components."""
    if id(part) in seen:
        return 0
    seen.add(id(part))
    if isinstance(part, np.ndarray):
        return part.nbytes
    if not hasattr(part, "__dict__"):
        return sys.getsizeof(part)
    return sum(_array_bytes(inner, seen) for inner in vars(part).values())
