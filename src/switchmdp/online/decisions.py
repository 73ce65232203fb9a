"""Decisions that survive a crash.

    with Decisions(agent, "folder") as decisions:
        decision = decisions.decide(state)
        ...
        decisions.feedback(decision.id, reward, next_state)

When a call returns, its event is in the database (`database`), synced to disk. Snapshots make
recovery fast. After a crash or `kill -9`, the same lines continue with the recovered agent. Nothing
acknowledged is lost, and nothing is counted twice. The agent passed to `Decisions` must then be the
agent with which the model was created.

An event is applied first, then stored with its outcome, under one lock. If the disk fails, the call
raises an error and the event is not acknowledged. The event stays in memory for the next commit, so
that learner and database agree, and no other event is accepted until that commit has succeeded. If
an event is interrupted in between, by Ctrl-C for example, they disagree. Then no further event is
accepted, and the model must be reopened.

An event has two times. `time` is the wall clock, and is only shown. `elapsed` is the number of
seconds, on a clock that cannot be set, since the previous event in the same process. Expiry uses
`elapsed`.

Calls may come from many threads. Each holds a lock for microseconds. Threads that wait for the disk
share a transaction.
"""

from __future__ import annotations

import hmac
import os
import secrets
import threading
import time
import warnings
from collections.abc import Callable, Collection, Iterable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from switchmdp.agents import AGENTS, Agent
from switchmdp.agents.policy_agent import PolicyAgent
from switchmdp.agents.saving import described
from switchmdp.compiled import fields_of
from switchmdp.errors import (
    DamagedFile,
    InvalidParameter,
    LeaseLost,
    LogFailed,
    Mismatch,
    UnknownDecision,
)
from switchmdp.online.arms import MAIN
from switchmdp.online.database import MODEL, Event, ModelRow, Writer, checked_name, lost
from switchmdp.online.learner import (
    REJECTIONS,
    REPEATED,
    Learner,
    Names,
    Outcome,
    Settings,
    Step,
    checked_key,
    checked_settings,
)
from switchmdp.online.monitoring import Signal, merged
from switchmdp.online.recovery import decision_id, initial, recover
from switchmdp.online.snapshots import alike, packed, parts_of
from switchmdp.online.sqlite import SQLite, database_in, is_new
from switchmdp.storage import Arrays
from switchmdp.validation import check_integer

BATCH = 1000  # rows of history in an event
KEY_SIZE, EPOCH_SIZE = 16, 8  # bytes
MOST_SHOWN = 40  # buckets of rewards in the summary of a model, at most
DEFAULT_SIGNAL, LONGEST_SIGNAL = 10_000, 100_000
SAME_STATE: Any = object()  # the next state is the state of the decision
CLOSED, OVERTAKEN = "is closed", "is served by another worker now"


def compute_plan(agent: PolicyAgent) -> None:
    """Plan in a copy of the agent, in a separate thread."""
    agent.plan()


@dataclass(frozen=True)
class Decision:
    """A decision of the service.

    Parameters
    ----------
    id
        The id, with which the outcome is reported.
    action
        The action to take.
    state
        The state.
    session
        The session.
    would
        The agent's own choice, if something else chose the action; else None.
    arm
        The arm of the split test.
    probability
        The share of sessions that are in this arm.
    """

    id: str
    action: int
    state: int
    session: str
    would: int | None
    arm: str = MAIN
    probability: float = 1.0  # of the arm

    def __repr__(self) -> str:
        session = repr(self.session)
        session = session if len(session) <= 42 else f"{session[:38]}...'"
        return (
            f"Decision(id={self.id!r}, action={self.action}, state={self.state}, "
            f"session={session}, would={self.would})"
        )


class Decisions:
    """An agent whose decisions and feedback are stored in a database.

    Settings that are None keep their stored value. A new model has the defaults of `Settings`, and
    the window of the change signal is that of the agent.

    Parameters
    ----------
    agent
        The agent of a new model, or the one that the model was created with. It may be None if the
        model exists.
    place
        The file of the database (`.sqlite` or `.db`), or its folder. Several models share an open
        database: pass its `Writer`, which the caller closes.
    model
        The name of the model: letters, digits, '.', '_' and '-'.
    expiry
        The seconds that a decision waits for feedback.
    most_pending
        The largest number of decisions that wait for feedback.
    most_sessions
        The largest number of sessions.
    replan
        `"inline"`, or `"background"`: then decisions do not wait while the agent plans.
    signal_window
        The number of steps that the change signal compares with as many before them.
    signal_delta
        The probability that one comparison of the change signal fires without a change.
    snapshot_every
        The number of events between two snapshots.
    sync
        Wait for the disk. Otherwise acknowledged events survive a crash of the process, but not of
        the machine.
    on_alert
        A function that is called when the change signal fires.
    classes
        The user's classes that the stored agent consists of. They are not needed if the agent is
        passed.
    clock
        The wall clock, which is only shown.
    timer
        The clock that measures how long a decision has waited. It must not jump.

    Raises
    ------
    InvalidParameter
        A setting has the wrong type or is out of range, or a new model has no agent.
    Mismatch
        The model was created with another agent.
    DamagedFile
        The database is damaged.

    Examples
    --------
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
        self, agent: Any, place: str | os.PathLike[str] | Writer, *, model: str = MODEL,
        expiry: float | None = None, most_pending: int | None = None,
        most_sessions: int | None = None, replan: str | None = None,
        signal_window: int | None = None, signal_delta: float | None = None,
        snapshot_every: int = 20_000, sync: bool = True,
        on_alert: Callable[[Signal], None] | None = None, classes: Iterable[type] = (),
        clock: Callable[[], float] = time.time, timer: Callable[[], float] = time.monotonic,
    ) -> None:  # fmt: skip
        settings: dict[str, Any] = {
            "expiry": expiry, "most_pending": most_pending, "most_sessions": most_sessions,
            "replan": replan, "signal_window": signal_window, "signal_delta": signal_delta,
        }  # fmt: skip
        given = {name: value for name, value in settings.items() if value is not None}
        self._every = check_integer("snapshot_every", snapshot_every, 1)
        self.model, self._on_alert = model, on_alert
        self._clock, self._timer = clock, timer
        self._epoch = secrets.token_hex(EPOCH_SIZE)
        self._opened, self._elapsed = timer(), 0.0
        self._turn, self._ticket = threading.RLock(), 0
        self._saver: threading.Thread | None = None
        self._over: str | None = None  # why no further event is accepted
        self.snapshot_failure: str | None = None  # why the last snapshot could not be written
        checked_settings(Settings(**given))
        self._shared = isinstance(place, Writer)
        if isinstance(place, Writer):
            self._writer = place
        else:
            if is_new(place):
                check_new(agent)
            self._writer = Writer(SQLite(database_in(place), sync=sync), self.overtaken)
        self._store = self._writer.store
        self._turn_of_writer = self._writer.turn_of(model)
        try:
            wanted = self._load(agent, given, {*classes, *classes_in(agent)})
            if wanted != self.learner.settings:
                self._happen({"event": "settings", "settings": asdict(wanted)})
            if self.learner.planning is not None:  # the process that planned has ended: plan again
                self._happen({"event": "swap"})
        except BaseException:
            if not self._shared:
                self._store.close()
            raise

    def _load(self, agent: Any, given: dict[str, Any], classes: set[type]) -> Settings:
        """Create or recover the model. Returns its wanted settings."""
        store, model = self._store, self.model
        if store.key_of(model) is None:
            if store.snapshots(model):
                raise DamagedFile(f"{store.name}: the row of the model {model!r} is missing")
            check_new(agent)
            checked_name(model, "model")
            content, summary = first_snapshot(agent, given)
            store.create(ModelRow(model, new_key(), name_of(agent), summary=summary), content)
        elif agent is not None:
            first = initial(store, model, classes).agent
            if not alike(described(agent), described(first)):
                raise Mismatch(
                    f"{store.name} was created with another agent ({type(first).__name__}, "
                    f"{first.n_states} states, {first.n_actions} actions); give the same agent, "
                    "sizes and parameters, or none of them, or use another database"
                )
        self._key = bytes.fromhex(store.key_of(model) or "")
        self.learner, self.records = recover(store, model, classes)
        self._saved, self.snapshot_time = next(iter(store.snapshots(model).items()))
        return checked_settings(replace(self.learner.settings, **given))

    def decide(
        self, state: int | str | None = None, *, session: str = "",
        available: Collection[int | str] | None = None, taken: int | str | None = None,
        key: str | None = None,
    ) -> Decision:  # fmt: skip
        """Choose an action.

        Parameters
        ----------
        state
            The state, a number or a name; by default the current state of the session.
        session
            The session. All decisions without one belong to the same session, so then pass the
            state, unless there is a single sequence of decisions.
        available
            The actions that can be taken now; by default all. If the agent's choice is not among
            them, the best available action is taken.
        taken
            An action that was chosen elsewhere; the agent only learns from it.
        key
            An idempotency key: a call with the same key and the same arguments returns the same
            decision.

        Returns
        -------
        Decision
            The decision.

        Raises
        ------
        InvalidState
            If the state is unknown, or there is neither a state nor a session with one.
        InvalidAction
            If an action is unknown or not available.
        RepeatedKey
            If the key was used before with other arguments.
        LogFailed
            If the decision could not be stored.
        """
        decision, ticket = self.enter_decision(
            state, session=session, available=available, taken=taken, key=key
        )
        self.commit(ticket)
        return decision

    def feedback(self, decision: str, reward: float, next_state: int | str = SAME_STATE) -> bool:
        """Report the outcome of a decision.

        Parameters
        ----------
        decision
            The id of the decision.
        reward
            The reward, in [0, 1].
        next_state
            The next state, a number or a name; by default the state of the decision.

        Returns
        -------
        bool
            Whether it counts; False if the same feedback was reported before.

        Raises
        ------
        UnknownDecision
            If there is no such decision.
        ForgottenDecision
            If the decision has expired.
        ConflictingFeedback
            If other feedback was reported before.
        LogFailed
            If the feedback could not be stored.
        """
        counted, ticket = self.enter_feedback(decision, reward, next_state)
        self.commit(ticket)
        return counted

    def enter_decision(
        self, state: Any = None, *, session: Any = "", available: Any = None, taken: Any = None,
        key: str | None = None,
    ) -> tuple[Decision, int]:  # fmt: skip
        """`decide` without the commit. Acknowledge the decision only after `commit`.

        Parameters
        ----------
        state, session, available, taken, key
            As in `decide`.

        Returns
        -------
        tuple[Decision, int]
            The decision, and the ticket for `commit`.
        """
        event: Event = {"event": "decide", "session": session}
        actions = self.learner.actions
        if state is not None:
            event["state"] = as_plain(self.learner.states.number(state))
        if available is not None:
            event["available"] = as_plain(available)
            if actions.numbers and isinstance(event["available"], list):
                event["available"] = [
                    actions.number(action, "available") for action in event["available"]
                ]
        if taken is not None:
            event["taken"] = as_plain(actions.number(taken, "taken"))
        if key is not None:
            event["key"] = checked_key(key)
        outcome, ticket = self._enter(event)
        name = self._id(outcome.decision)
        return Decision(
            name, outcome.action, outcome.state, session, outcome.would,
            outcome.arm or MAIN, 1.0 if outcome.probability is None else outcome.probability,
        ), ticket  # fmt: skip

    def enter_feedback(
        self, decision: Any, reward: Any, next_state: Any = SAME_STATE
    ) -> tuple[bool, int]:
        """`feedback` without the commit. Acknowledge the feedback only after `commit`.

        Parameters
        ----------
        decision, reward, next_state
            As in `feedback`.

        Returns
        -------
        tuple[bool, int]
            Whether the feedback counts, and the ticket for `commit`.
        """
        number = self._number(decision)
        if next_state is SAME_STATE:
            next_state = self.learner.state_of(number)
        event = {
            "event": "feedback", "decision": number, "reward": as_plain(reward),
            "next_state": as_plain(self.learner.states.number(next_state, "next_state")),
        }  # fmt: skip
        (counted, alert), ticket = self._enter(event)
        if alert is not None and self._on_alert is not None:
            self._on_alert(alert)
        return counted, ticket

    def _id(self, number: int) -> str:
        """The id of a decision: it cannot be forged, and is never used twice."""
        return decision_id(self._key, number, self.learner.epoch_of(number))

    def _number(self, decision: Any) -> int:
        if isinstance(decision, str) and decision.isascii():
            number = decision.partition("-")[0]
            if number.isdigit() and len(number) <= 18:
                if hmac.compare_digest(self._id(int(number)), decision):
                    return int(number)
                raise UnknownDecision(
                    f"unknown decision id {decision!r}: it is from another model or database"
                )
        raise UnknownDecision(f"malformed decision id {decision!r}")

    def learn_from(self, rows: Iterable[Step]) -> int:
        """Learn from steps of the past, oldest first: a warm start.

        Steps are processed in batches of 1000. If a row is invalid, its batch is rejected; the
        batches before it have been learned from.

        Parameters
        ----------
        rows
            The steps (state, action, reward, next state).

        Returns
        -------
        int
            The number of steps.

        Raises
        ------
        InvalidParameter
            If a row is not a step.
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
        """Set who chooses the actions.

        Parameters
        ----------
        mode
            `"agent"`; `"fixed"`, a policy, while the agent learns and does not plan; or `"shadow"`,
            a policy, while the agent's own choices are recorded.
        policy
            The action for each state, for `"fixed"` and `"shadow"`.
        """
        self._happen({"event": "mode", "mode": mode, "policy": self._policy(policy)})

    def set_arms(self, arms: Any) -> None:
        """Set the arms of a split test: [{"name", "share", "policy" or "agent"}, ...].

        When a test starts, the mean reward of the arm `main` starts again, too.

        Parameters
        ----------
        arms
            For each arm a mapping with its `name`, its `share`, and a `policy` or an `agent`. An
            empty list ends the test.
        """
        arms = [
            {**arm, "policy": self._policy(arm["policy"])} if "policy" in arm else arm
            for arm in arms
        ]
        salt = secrets.token_hex(EPOCH_SIZE)
        self._happen({"event": "arms", "arms": arms, "salt": salt, "starts": bool(arms)})

    def _policy(self, policy: Any) -> Any:
        """A policy with numbers instead of names."""
        policy = as_plain(policy)
        if not isinstance(policy, list):
            return policy
        return [self.learner.actions.number(action, "policy") for action in policy]

    def add_state(
        self, available: Collection[int] | None = None, *, count: int = 1,
        names: list[str] | None = None, key: str | None = None,
    ) -> int:  # fmt: skip
        """Add states.

        Parameters
        ----------
        available
            The actions of the new states; by default all.
        count
            The number of new states; with `names` it may be omitted.
        names
            Their names.
        key
            An idempotency key, as in `decide`.

        Returns
        -------
        int
            The number of the first new state.
        """
        return self._add("add_state", {"available": as_plain(available)}, count, names, key)

    def add_action(
        self, states: Collection[int] | None = None, *, count: int = 1,
        names: list[str] | None = None, key: str | None = None,
    ) -> int:  # fmt: skip
        """Add actions.

        Parameters
        ----------
        states
            The states in which the new actions are available; by default all.
        count
            The number of new actions; with `names` it may be omitted.
        names
            Their names.
        key
            An idempotency key, as in `decide`.

        Returns
        -------
        int
            The number of the first new action.
        """
        return self._add("add_action", {"states": as_plain(states)}, count, names, key)

    def _add(
        self, kind: str, event: Event, count: int, names: list[str] | None, key: str | None
    ) -> int:
        if isinstance(names, list) and count == 1:
            count = len(names)
        event |= {"event": kind, "names": names, "count": None if count == 1 else count}
        if key is not None:
            event["key"] = checked_key(key)
        new: int = self._happen({name: value for name, value in event.items() if value is not None})
        return new

    def start_over(self) -> None:
        """Forget everything learned, after a known change."""
        self._happen({"event": "restart"})

    @property
    def writer(self) -> Writer:
        """The writer of the events."""
        return self._writer

    @property
    def database(self) -> Path:
        """The file of the database."""
        return Path(self._store.name)

    @property
    def folder(self) -> Path:
        """The folder of the database. Deprecated: use `database`, the file."""
        warnings.warn("Decisions.folder is now .database.parent", DeprecationWarning, stacklevel=2)
        return self.database.parent

    def look(self, at: Callable[[Learner], Any]) -> Any:
        """Read from the learner while no event is being applied.

        Parameters
        ----------
        at
            A function of the learner.

        Returns
        -------
        Any
            What the function returns.
        """
        with self._turn:
            return at(self.learner)

    def commit(self, ticket: int | None = None) -> None:
        """Wait until events are on disk.

        Parameters
        ----------
        ticket
            The last event to wait for; by default all events.

        Raises
        ------
        LogFailed
            If they could not be written.
        """
        self._writer.commit(ticket)
        self.check_owned()

    def check_owned(self) -> None:
        """Raise `LeaseLost` if another worker has written to the model's history."""
        if self._over == OVERTAKEN:
            raise lost(self.model)

    def overtaken(self, model: str = "") -> None:
        """Accept no further event, because another worker continues the history of the model.

        Parameters
        ----------
        model
            The model; it is not used.
        """
        self._over = OVERTAKEN

    def _happen(self, event: Event) -> Any:
        outcome, ticket = self._enter(event)
        self.commit(ticket)
        return outcome

    def _enter(self, event: Event) -> tuple[Any, int]:
        """Apply an event. Returns its outcome, and the ticket to `commit` before the answer."""
        with self._turn:
            if self._over is not None:
                self.check_owned()
                raise LogFailed(f"{self._store.name} {self._over}")
            self._store.check()
            if self._writer.stuck:
                self._writer.commit()
            known = self.learner.outcome_of(event) if "key" in event else None
            if known is not None:
                return known, self._ticket
            outcome, ticket = self._apply(event)
            if self.learner.wants_plan:
                self._plan()
            elif self.records - self._saved >= self._every and self.learner.planning is None:
                self._snapshot()
            return outcome, ticket

    def _apply(self, event: Event) -> tuple[Any, int]:
        elapsed = max(self._elapsed, round(self._timer() - self._opened, 3))
        event = {
            **event, "time": round(float(self._clock()), 3),
            "elapsed": round(elapsed - self._elapsed, 3),
        }  # fmt: skip
        if event["event"] == "decide" and self.learner.epoch_of() != self._epoch:
            event["epoch"] = self._epoch
        try:
            outcome = self.learner.apply(event)
            if outcome == REPEATED:
                return outcome, self._ticket
            if isinstance(outcome, Outcome):
                event |= outcome._asdict()
            self._ticket = self._writer.append(
                self.model, self.records + 1, event, self._turn_of_writer
            )
            self.records += 1
            self._elapsed = elapsed  # only stored time has passed for the learner
            return outcome, self._ticket
        except REJECTIONS:
            raise
        except LeaseLost:
            self._over = OVERTAKEN
            raise
        except BaseException:
            self._over = "was interrupted during an event, and must be reopened"
            raise

    def _plan(self) -> None:
        """Plan in the background, while the old policy is used."""
        self._apply({"event": "plan"})
        copy = self.learner.planning

        def work() -> None:
            event = "cancel"
            try:
                compute_plan(copy)
                event = "swap"
            finally:
                with self._turn:
                    if self.learner.planning is copy and self._over is None:
                        self._apply({"event": event})

        threading.Thread(target=work, name="planner", daemon=True).start()

    def _snapshot(self) -> None:
        """Copy the learner now, and write the copy in a thread."""
        if self._saver is not None and self._saver.is_alive():
            return
        fields, arrays = parts_of(self.learner)
        copies = {name: array.copy() for name, array in arrays.items()}
        given = self.records, self._ticket, fields, copies, summary_of(self.learner)
        self._saver = threading.Thread(target=self._save, args=given, name="snapshot")
        self._saved = self.records
        self._saver.start()

    def _save(
        self, number: int, ticket: int, fields: dict[str, Any], arrays: Arrays,
        summary: dict[str, Any],
    ) -> None:  # fmt: skip
        try:
            self._writer.commit(ticket)  # a snapshot must not be ahead of the events
            if self._over != OVERTAKEN:
                self._store.save_snapshot(self.model, number, packed(fields, arrays), summary)
            self.snapshot_failure, self.snapshot_time = None, time.time()
        except (LogFailed, DamagedFile) as error:  # no event is lost; the next snapshot may succeed
            self.snapshot_failure = str(error)

    def close(self) -> None:
        """Commit everything, write a snapshot, and close the database unless it is shared.

        If the events of a shared database cannot be committed, the decisions stay open.
        """
        with self._turn:
            if self._over == CLOSED:
                return
            before, sound = self._over, self._over is None and self._store.is_mine
            if sound and self.learner.planning is not None:
                self._apply({"event": "cancel"})
            self._over = self._over or CLOSED
        if self._saver is not None:
            self._saver.join()
        try:
            if self._store.is_mine and self._over != OVERTAKEN:
                self._writer.commit()
            if sound and self.records > self._saved:
                parts, summary = parts_of(self.learner), summary_of(self.learner)
                self._save(self.records, self._ticket, *parts, summary)
        except LogFailed:
            if self._shared:
                self._over = before
            raise
        finally:
            if not self._shared:
                self._store.close()

    @property
    def is_over(self) -> bool:
        """Whether no further event is accepted: the model must be loaded again."""
        return self._over is not None

    def __repr__(self) -> str:
        place = self._store.name
        shown = place if len(place) <= 60 else f"...{place[-57:]}"
        return f"Decisions({shown!r}, {self.learner!r})"

    def __enter__(self) -> Decisions:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:  # fmt: skip
        self.close()


def name_of(agent: Any) -> str | None:
    """The name of the agent in the registry; None if it is not registered.

    >>> from switchmdp.agents import UCRL2
    >>> name_of(UCRL2(2, 2))
    'ucrl2'
    """
    return next((name for name, kind in AGENTS.items() if kind is type(agent)), None)


def new_key() -> str:
    """A key that signs the ids of a new model."""
    return secrets.token_hex(KEY_SIZE)


def first_snapshot(
    agent: Any, settings: dict[str, Any], states: list[str] | None = None,
    actions: list[str] | None = None,
) -> tuple[bytes, dict[str, Any]]:  # fmt: skip
    """The snapshot and the summary of a new model, with names for its states and actions."""
    window = getattr(getattr(agent, "memory", None), "window", DEFAULT_SIGNAL)
    settings = {"signal_window": min(window, LONGEST_SIGNAL)} | settings
    learner = Learner(agent, checked_settings(Settings(**settings)))
    learner.states, learner.actions = Names("state", states or ()), Names("action", actions or ())
    return packed(*parts_of(learner)), summary_of(learner)


def summary_of(learner: Learner) -> dict[str, Any]:
    """A short description of a learner, stored in the row of its model."""
    buckets = learner.rewards.buckets
    feedback = sum(bucket[2] for bucket in buckets)
    return {
        "states": int(learner.agent.n_states), "actions": int(learner.agent.n_actions),
        "decisions": learner.decided, "feedback": feedback, "pending": len(learner.pending),
        "mean_reward": sum(bucket[3] for bucket in buckets) / feedback if feedback else None,
        "last_event": learner.at or None, "changes": learner.changes,
        "rewards": merged(buckets, MOST_SHOWN),
    }  # fmt: skip


def check_new(agent: Any) -> None:
    """Check the agent of a new model."""
    if isinstance(agent, type):
        allowed = f"an agent, such as {agent.__name__}(n_states, n_actions), not a class"
        raise InvalidParameter("agent", agent, allowed)
    if not isinstance(agent, Agent):
        raise InvalidParameter("agent", agent, "an Agent, because the model is new")


def classes_in(agent: Any) -> set[type]:
    """The classes that an agent consists of."""
    classes = set() if agent is None else {type(agent)}
    for name in fields_of(type(agent)):
        part = getattr(agent, name, None)
        if hasattr(part, "__dict__"):
            classes |= classes_in(part)
    return classes


def as_plain(value: Any) -> Any:
    """A value for an event, with Python numbers instead of NumPy's, and collections as lists.

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
