"""Snapshots of a learner, so that opening a model need not replay all of its events.

A snapshot has the checksummed format of `storage`. A checksum shows that it is not damaged, but not
that this program wrote it. So all values are checked for type and range (`_validate`) when a
snapshot is loaded.
"""

from __future__ import annotations

import io
import json
import re
import zlib
from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

import numpy as np

from switchmdp.agents import Agent
from switchmdp.agents.saving import WRONG, described, known_classes, rebuilt
from switchmdp.errors import DamagedFile
from switchmdp.online.arms import DECISIONS, MAIN, MOST_ARMS, Arm
from switchmdp.online.learner import (
    MODES,
    MOST_ALERTS,
    MOST_KEYS,
    MOST_RESTARTS,
    Learner,
    Names,
    Outcome,
    Pending,
    Restart,
    Settings,
    checked_action,
    checked_key,
    checked_names,
    checked_policy,
    checked_session,
    checked_settings,
)
from switchmdp.online.monitoring import MOST_BUCKETS, ChangeSignal, Signal
from switchmdp.storage import Arrays, read_arrays, write_arrays

KIND = "decisions"
PLAIN = (
    "at", "now", "decided", "counted", "expired", "agreed", "shadowed", "mode", "policy",
    "wants_plan", "alarmed", "salt", "changes", "knows_restarts",
)  # fmt: skip
# Fields that snapshots of earlier versions do not have.
WITHOUT_RESTARTS: dict[str, Any] = {"restarts": [], "knows_restarts": False}
ADDED: dict[str, Any] = WITHOUT_RESTARTS | {
    "salt": "",
    "keys": [],
    "states": [],
    "actions": [],
    "arms": None,
    "changes": 0,
}
ARM_FIELDS = (
    "name", "share", "policy", "definition", "count", "mean", "spread", "since", "decided",
)  # fmt: skip
LARGEST = 2**53
LEVEL = 1  # EvidencePSRL, 20 states, 10 actions: 2.7 MB become 19 kB; level 6 takes twice as long
ZIP = b"PK"  # the first bytes of a snapshot of format 1
MOST_BYTES = 2**32


def parts_of(learner: Learner) -> tuple[dict[str, Any], Arrays]:
    """The complete state of a learner; the fields are a copy, the arrays are not."""
    agent, own = described(learner.agent)
    arrays = {f"agent.{name}": array for name, array in own.items()}
    signal, signal_arrays = learner.signal.state()
    fields = {
        "settings": asdict(learner.settings), "agent": agent, "signal": signal,
        "pending": [[n, *entry] for n, entry in learner.pending.items()],
        "answered": [[n, *given] for n, given in learner.answered.items()],
        "sessions": [[key, *seen] for key, seen in learner.sessions.items()],
        "epochs": [list(epoch) for epoch in learner.epochs],
        "alerts": [asdict(alert) for alert in learner.alerts],
        "restarts": [list(restart) for restart in learner.restarts],
        "rewards": [learner.rewards.size, [list(b) for b in learner.rewards.buckets]],
        "keys": [[key, *kept] for key, kept in learner.keys.items()],
        "states": list(learner.states.all), "actions": list(learner.actions.all),
        "arms": [_arm_fields(i, arm, arrays) for i, arm in enumerate(learner.arms.values())],
        **{name: getattr(learner, name) for name in PLAIN},
    }  # fmt: skip
    arrays |= {f"signal.{name}": array for name, array in signal_arrays.items()}
    return fields, arrays | {"last_step": learner.last_step, "last_at": learner.last_at}


def _arm_fields(index: int, arm: Arm, arrays: Arrays) -> dict[str, Any]:
    """The fields of an arm; its arrays are added to `arrays`."""
    agent = None
    if arm.agent is not None:
        agent, own = described(arm.agent)
        arrays |= {f"arm{index}.agent.{name}": array for name, array in own.items()}
    arrays[f"arm{index}.totals"] = arm.totals
    return {name: getattr(arm, name) for name in ARM_FIELDS} | {"agent": agent}


def packed(fields: dict[str, Any], arrays: Arrays) -> bytes:
    """The content of a snapshot, compressed: a new agent consists of zeros, mostly."""
    stream = io.BytesIO()
    write_arrays(stream, KIND, fields, arrays)
    return zlib.compress(stream.getbuffer(), LEVEL)


def _unpacked(content: bytes, name: object) -> bytes:
    """The content before it was compressed. Snapshots of format 1 were not."""
    if content.startswith(ZIP):
        return content
    reader = zlib.decompressobj()
    try:
        whole = reader.decompress(content, MOST_BYTES)
    except zlib.error as error:
        raise DamagedFile(f"{name} is damaged: {error}") from None
    if not reader.eof:
        raise DamagedFile(f"{name} is not complete, or has more than {MOST_BYTES} bytes")
    return whole


def alike(one: tuple[dict[str, Any], Arrays], other: tuple[dict[str, Any], Arrays]) -> bool:
    """Whether the states of two learners, or of two agents, are equal bit for bit."""
    (fields, arrays), (others, more) = one, other

    def bits(array: Any) -> tuple[Any, ...]:
        return array.dtype, array.shape, array.tobytes()

    same = fields == others and arrays.keys() == more.keys()
    return same and all(bits(arrays[name]) == bits(more[name]) for name in arrays)


def same_learner(one: Learner, other: Learner) -> bool:
    """Whether two learners are equal bit for bit, as far as both were stored."""

    # Snapshots of earlier versions have no times of alerts.
    timed = all(alert.time is not None for alert in [*one.alerts, *other.alerts])

    def compared(learner: Learner) -> tuple[dict[str, Any], Arrays]:
        fields, arrays = parts_of(learner)
        if not timed:
            fields["alerts"] = [{**alert, "time": None} for alert in fields["alerts"]]
        if not (one.knows_restarts and other.knows_restarts):
            fields |= WITHOUT_RESTARTS
        if one.has_totals and other.has_totals:
            return fields, arrays
        return {**fields, **ADDED}, {k: a for k, a in arrays.items() if k[:4] != "arm0"}

    return alike(compared(one), compared(other))


def names_in(content: bytes, name: object) -> tuple[tuple[Names, Names], tuple[int, int]]:
    """The names of the states and actions in a snapshot, and the numbers of states and actions.

    The agent is not restored, so its class may be unknown.
    """
    fields, arrays = read_arrays(io.BytesIO(_unpacked(content, name)), KIND, name)
    fields = {**ADDED, **fields}
    try:
        n_states, n_actions = arrays["last_step"].shape
        names = Names("state", fields["states"]), Names("action", fields["actions"])
    except WRONG as error:
        raise DamagedFile(f"{name} is not a valid snapshot: {error!r}") from None
    return names, (n_states, n_actions)


def load(content: bytes, name: object, classes: Iterable[type] = ()) -> Learner:
    """The learner of a snapshot; `name` describes it in error messages."""
    fields, arrays = read_arrays(io.BytesIO(_unpacked(content, name)), KIND, name)
    return restored(fields, arrays, name, classes)


def restored(
    fields: dict[str, Any], arrays: Arrays, name: object, classes: Iterable[type] = ()
) -> Learner:
    """The learner of these parts, after all of them were checked."""
    fields, known = {**ADDED, **fields}, known_classes(classes)
    try:
        agent = rebuilt(name, fields["agent"], _below(arrays, "agent."), known)
        if not isinstance(agent, Agent):
            raise ValueError(f"{type(agent).__name__} is not an agent")
        learner = Learner(agent, checked_settings(Settings(**fields["settings"])))
        for field in PLAIN:
            setattr(learner, field, fields[field])
        learner.pending = OrderedDict((n, Pending(*entry)) for n, *entry in fields["pending"])
        learner.answered = OrderedDict((n, (r, s)) for n, r, s in fields["answered"])
        learner.sessions = OrderedDict((key, (s, n)) for key, s, n in fields["sessions"])
        learner.epochs = [(first, epoch) for first, epoch in fields["epochs"]]
        learner.alerts = [Signal(**alert) for alert in fields["alerts"]]
        learner.restarts = [Restart(*restart) for restart in fields["restarts"]]
        learner.rewards.size, learner.rewards.buckets = fields["rewards"]
        learner.keys = OrderedDict((key, (check, _outcome(o))) for key, check, o in fields["keys"])
        _must(isinstance(fields["states"], list) and isinstance(fields["actions"], list), "names")
        learner.states = Names("state", fields["states"])
        learner.actions = Names("action", fields["actions"])
        learner.has_totals = fields["arms"] is not None
        if learner.has_totals:
            made = [_arm(name, i, one, arrays, known) for i, one in enumerate(fields["arms"])]
            learner.arms = {arm.name: arm for arm in made}
        ring = {"ring": arrays["signal.ring"], "rewards": arrays["signal.rewards"]}
        learner.signal = ChangeSignal.from_state(fields["signal"], ring)
        learner.last_step, learner.last_at = arrays["last_step"], arrays["last_at"]
        _validate(learner, fields)
    except WRONG as error:
        if isinstance(error, DamagedFile):
            raise
        raise DamagedFile(f"{name} is not a valid snapshot: {error!r}") from None
    return learner


def _below(arrays: Arrays, prefix: str) -> Arrays:
    """The arrays whose names start with the prefix, without it."""
    return {key[len(prefix) :]: a for key, a in arrays.items() if key.startswith(prefix)}


def _outcome(stored: Any) -> Any:
    return Outcome(*stored) if isinstance(stored, list) else stored


def _arm(name: object, index: int, fields: dict[str, Any], arrays: Arrays, known: Any) -> Arm:
    """The arm of these fields."""
    arm = Arm(fields["name"], fields["share"], 1)
    arm.totals = arrays[f"arm{index}.totals"]
    # Snapshots of earlier versions compare all decisions.
    added = {"since": 0, "decided": int(arm.totals[:, DECISIONS].sum())}
    for field in ARM_FIELDS:
        setattr(arm, field, (added | fields)[field])
    if fields["agent"] is not None:
        inner = _below(arrays, f"arm{index}.agent.")
        arm.agent = rebuilt(name, fields["agent"], inner, known)
    return arm


def _validate_arms(learner: Learner) -> None:
    """Check the arms, the names and the keys."""
    agent, arms = learner.agent, list(learner.arms.values())
    _must(0 < len(arms) <= MOST_ARMS + 1 and arms[0].name == MAIN, "arms")
    for arm in arms:
        _must(isinstance(arm.name, str) and learner.arms[arm.name] is arm, "arms")
        for value in (arm.share, arm.mean):
            _number("arms", value, 1.0)
        _number("arms", arm.spread, float(_whole("arms", arm.count, 0, LARGEST)))
        _whole("arms", arm.since, 0, learner.decided + 1)
        _whole("arms", arm.decided, 0, LARGEST)
        good = arm.totals.dtype == np.float64 and arm.totals.shape == (agent.n_actions, 3)
        _must(good and bool(((arm.totals >= 0) & (arm.totals < LARGEST)).all()), "arms")
        if arm.policy is not None:
            arm.policy = checked_policy(agent, arm.policy)
        if arm.agent is not None:
            _must(isinstance(arm.agent, Agent), "arms")
            _must(arm.agent.pairs.available.shape == agent.pairs.available.shape, "arms")
            _must(bool((arm.agent.pairs.available == agent.pairs.available).all()), "arms")
        _must(isinstance(arm.definition, dict) == (arm.agent is not None), "arms")
        json.dumps(arm.definition, allow_nan=False)  # a number that is not finite raises an error
        _must((arm.policy is None) + (arm.agent is None) == 1 + (arm.name == MAIN), "arms")
    _must(abs(sum(arm.share for arm in arms) - 1.0) < 1e-9, "arms")
    _must(isinstance(learner.salt, str), "salt")
    _whole("changes", learner.changes, 0, LARGEST)
    for names, size in ((learner.states, agent.n_states), (learner.actions, agent.n_actions)):
        _must(len(names.all) <= size, names.what)
        checked_names(names.what, [name for name in names.all if name is not None])
        _must(len(names.numbers) == sum(name is not None for name in names.all), names.what)
    _must(len(learner.keys) <= MOST_KEYS, "keys")
    for key, (checksum, outcome) in learner.keys.items():
        checked_key(key)
        _whole("keys", checksum, 0, 2**32)
        if isinstance(outcome, Outcome):
            _whole("keys", outcome.decision, 1, learner.decided + 1)
            _whole("keys", outcome.state, 0, agent.n_states)
            _whole("keys", outcome.action, 0, agent.n_actions)
            if outcome.would is not None:
                _whole("keys", outcome.would, 0, agent.n_actions)
            _must(outcome.arm is None or isinstance(outcome.arm, str), "keys")
            if outcome.probability is not None:
                _number("keys", outcome.probability, 1.0)
        else:
            _whole("keys", outcome, 0, LARGEST)


def _validate(learner: Learner, fields: dict[str, Any]) -> None:
    """Raise an error if a value does not have the type or range that the learner relies on."""
    agent, decided = learner.agent, learner.decided
    n_states, n_actions = agent.n_states, agent.n_actions
    for name in ("at", "now"):
        _time(name, getattr(learner, name))
    for name in ("decided", "counted", "expired", "agreed", "shadowed"):
        _whole(name, getattr(learner, name), 0, LARGEST)
    _whole("agreed", learner.agreed, 0, learner.shadowed + 1)
    for name in ("wants_plan", "alarmed", "knows_restarts"):
        _must(isinstance(getattr(learner, name), bool), name)
    _must(isinstance(learner.mode, str) and learner.mode in MODES, "mode")
    _must((learner.policy is None) == (learner.mode == "agent"), "policy")
    if learner.policy is not None:
        learner.policy = checked_policy(agent, learner.policy)

    _must_increase("pending", [*learner.pending], len(fields["pending"]), decided)
    for entry in learner.pending.values():
        _time("pending", entry.at)
        checked_session(entry.session)
        state = _whole("pending", entry.state, 0, n_states)
        for action in (entry.action, 0 if entry.would is None else entry.would):
            _whole("pending", action, 0, n_actions)
        checked_action(agent, state, entry.action, "action")
        _must(isinstance(entry.arm, str), "pending")
    _must(len(learner.answered) == len(fields["answered"]), "answered")
    for decision, (reward, next_state) in learner.answered.items():
        _whole("answered", decision, 1, decided + 1)
        _number("answered", reward, 1.0)
        _whole("answered", next_state, 0, n_states)
    _must(len(learner.sessions) == len(fields["sessions"]), "sessions")
    for session, (state, decision) in learner.sessions.items():
        checked_session(session)
        _whole("sessions", state, 0, n_states)
        _whole("sessions", decision, 1, decided + 1)
    _must_increase("epochs", [first for first, _ in learner.epochs], len(learner.epochs), decided)
    for _, epoch in learner.epochs:
        _must(isinstance(epoch, str) and re.fullmatch("[0-9a-f]{16}", epoch) is not None, "epochs")

    _must(len(learner.alerts) <= MOST_ALERTS, "alerts")
    latest = learner.signal.latest
    for alert in [*learner.alerts, *([] if latest is None else [latest])]:
        _validate_signal(alert, n_states, n_actions)
    _must(len(learner.restarts) <= MOST_RESTARTS, "restarts")
    for restart in learner.restarts:
        _whole("restarts", restart.step, 0, LARGEST)
        _time("restarts", restart.time)
        _whole("restarts", restart.kept, 0, LARGEST)
        _must(isinstance(restart.asked, bool), "restarts")
    _whole("rewards", learner.rewards.size, 1, LARGEST)
    _must(isinstance(learner.rewards.buckets, list), "rewards")
    _must(len(learner.rewards.buckets) <= MOST_BUCKETS, "rewards")
    for bucket in learner.rewards.buckets:
        _must(isinstance(bucket, list), "rewards")
        first, last, n, total = bucket
        _must(_time("rewards", first) <= _time("rewards", last), "rewards")
        _number("rewards", total, float(_whole("rewards", n, 1, learner.rewards.size + 1)))
    learner.signal.validate(n_states, n_actions)
    _validate_arms(learner)
    for name, dtype in (("last_step", np.int64), ("last_at", np.float64)):
        array = getattr(learner, name)
        _must(array.dtype == dtype and array.shape == (n_states, n_actions), name)
        _must(bool((np.abs(array.astype(np.float64)) < LARGEST).all()), name)


def _must(holds: bool, name: str) -> None:
    if not holds:
        raise ValueError(f"{name} is invalid")


def _whole(name: str, value: Any, first: int, end: int) -> int:
    """Check an integer from `first` to `end` - 1."""
    _must(type(value) is int and first <= value < end, name)
    return int(value)


def _number(name: str, value: Any, most: float = float(LARGEST)) -> float:
    """Check a number from 0 to `most`, not NaN."""
    _must(type(value) in (int, float) and 0 <= value <= most, name)
    return float(value)


def _time(name: str, value: Any) -> float:
    """Check a time in seconds."""
    _must(type(value) in (int, float) and abs(value) <= LARGEST, name)
    return float(value)


def _must_increase(name: str, numbers: list[Any], n: int, decided: int) -> None:
    """Check n increasing decision numbers."""
    _must(len(numbers) == n, name)
    for before, number in zip([0, *numbers], numbers, strict=False):
        _whole(name, number, before + 1, decided + 1)


def _validate_signal(signal: Signal, n_states: int, n_actions: int) -> None:
    _number("signal", signal.strength)
    _whole("signal", signal.step, 0, LARGEST)
    _whole("signal", signal.state, 0, n_states)
    _whole("signal", signal.action, 0, n_actions)
    if signal.next_state is not None:
        _whole("signal", signal.next_state, 0, n_states)
    _number("signal", signal.before, 1.0)
    _number("signal", signal.now, 1.0)
    if signal.time is not None:
        _time("signal", signal.time)
