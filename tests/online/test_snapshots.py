"""Snapshots make recovery faster, and nothing else depends on them."""

from __future__ import annotations

import copy
import json
import math
import shutil
import threading
import zlib
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from tests.online.workbench import (
    Clock,
    Life,
    S,
    bits,
    bits_of,
    delete_snapshot,
    kill,
    live,
    reopened,
    snapshot_in,
    snapshots_in,
    spoil_snapshot,
    sql,
    sw_ucrl,
)

from switchmdp import storage
from switchmdp.agents import Agent
from switchmdp.agents.saving import described
from switchmdp.errors import DamagedFile, LogFailed, SwitchmdpError
from switchmdp.online import Decisions, events_of, rebuild, snapshots
from switchmdp.online.learner import Learner, Settings
from switchmdp.online.metrics import Metrics
from switchmdp.online.models import Models
from switchmdp.online.recovery import replay
from switchmdp.online.sqlite import SQLite
from switchmdp.online.views import beliefs


@pytest.mark.parametrize("spoilt", [1, 2])
def test_an_older_snapshot_replaces_a_damaged_one(spoilt: int, lived: tuple[Path, Any]) -> None:
    folder, before = lived
    for number in snapshots_in(folder)[:spoilt]:
        spoil_snapshot(folder, number)
    with pytest.warns(UserWarning, match="using an older snapshot") as told:
        decisions = reopened(folder)
    assert len(told) == spoilt
    assert bits_of(decisions) == before
    live(decisions, 20)
    decisions.close()
    assert bits(rebuild(folder)) == bits(decisions.learner)
    with reopened(folder) as decisions:
        live(decisions, 1)


def test_the_initial_snapshot_and_the_log_are_sufficient(lived: tuple[Path, Any]) -> None:
    folder, before = lived
    for number in snapshots_in(folder):
        if number:
            delete_snapshot(folder, number)
    with reopened(folder) as decisions:
        assert bits_of(decisions) == before


def test_a_model_without_a_valid_snapshot_is_rejected(lived: tuple[Path, Any]) -> None:
    for number in snapshots_in(lived[0]):
        spoil_snapshot(lived[0], number)
    with pytest.raises(DamagedFile):
        reopened(lived[0])


def test_events_that_end_before_a_snapshot_are_rejected(lived: tuple[Path, Any]) -> None:
    with reopened(lived[0]) as decisions:
        live(decisions, 1)
        last = decisions.records
    sql(lived[0], "DELETE FROM events WHERE number = ?", last)
    with pytest.raises(DamagedFile, match=f"end with {last - 1}, but {last} were written"):
        reopened(lived[0])


def test_only_the_initial_and_the_two_newest_snapshots_are_kept(lived: tuple[Path, Any]) -> None:
    assert snapshots_in(lived[0])[-1] == 0
    with reopened(lived[0]) as decisions:
        live(decisions, 1)
        last = decisions.records
    numbers = snapshots_in(lived[0])
    assert len(numbers) == 3
    assert numbers[0] == last


def test_events_during_the_writing_do_not_change_a_snapshot(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    go_on, save = threading.Event(), SQLite.save_snapshot
    with monkeypatch.context() as patch:

        def slow(*given: Any) -> None:
            assert go_on.wait(60)
            save(*given)

        decisions = Decisions(sw_ucrl(), tmp_path, sync=False, snapshot_every=50)
        decisions.set_mode("shadow", [0] * S)
        patch.setattr(SQLite, "save_snapshot", slow)
        life = Life(0, Clock(), 8)
        life.goes_on(decisions, 300)
        saver = decisions._saver
        go_on.set()
        assert saver is not None
        saver.join()
        kill(decisions)
    assert snapshots_in(tmp_path) == [50, 0]
    assert decisions.records > 150
    again = snapshot_in(tmp_path, 0)
    for number, _ in replay(again, events_of(tmp_path)):
        if number == 50:
            break
    assert bits(snapshot_in(tmp_path, 50)) == bits(again)


def all_of(value: Any) -> Any:
    """Every attribute, including nested ones."""
    if isinstance(value, np.ndarray):
        return value.dtype.str, value.shape, value.tobytes()
    if isinstance(value, Agent):
        fields, arrays = described(value)
        return fields, all_of(arrays)
    if isinstance(value, dict):
        return [(key, all_of(part)) for key, part in value.items()]
    return all_of(vars(value)) if hasattr(value, "__dict__") else repr(value)


def test_a_snapshot_contains_every_field_of_a_learner(tmp_path: Path) -> None:
    clock = Clock()
    decisions = Decisions(
        sw_ucrl(),
        tmp_path,
        sync=False,
        clock=clock,
        timer=clock,
        expiry=30,
        signal_window=10,
        signal_delta=0.9,
    )
    Life(1, clock, 8).goes_on(decisions, 600)
    decisions.set_mode("shadow", [0] * decisions.learner.agent.n_states)
    live(decisions, 20)
    enrich(decisions)
    while not decisions.learner.alarmed:
        reward = len(decisions.learner.alerts) + decisions.learner.counted // 10
        decisions.feedback(decisions.decide(0).id, reward % 2, 0)
    decisions.decide(0)
    learner = decisions.learner
    as_new = {
        name
        for name, value in vars(Learner(sw_ucrl(), Settings())).items()
        if not isinstance(value, np.ndarray) and getattr(learner, name) == value
    }
    assert as_new == {"planning", "wants_plan", "has_totals", "knows_restarts"}
    decisions.close()
    again = snapshot_in(tmp_path, max(snapshots_in(tmp_path)))
    assert all_of(again) == all_of(learner)


def enrich(decisions: Decisions) -> None:
    """Add names, an idempotency key and arms with decisions."""
    decisions.add_state(names=["lobby"])
    decisions.add_action(names=["wave"])
    policy = [
        decisions.learner.agent.pairs.at(s)[0] for s in range(decisions.learner.agent.n_states)
    ]
    rival = {"name": "random", "parameters": {"seed": 3}}
    decisions.set_arms([
        {"name": "control", "share": 0.3, "policy": policy},
        {"name": "rival", "share": 0.3, "agent": rival},
    ])  # fmt: skip
    for i in range(2):
        decision = decisions.decide(0, session=f"s{i}", key=f"k{i}")
        if i % 2:
            decisions.feedback(decision.id, 1.0, "lobby")


HOSTILE: list[Any] = [
    None, True, -1, 0, 1, 10**30, 0.5, -0.5, 1e300, math.nan, math.inf, "", "x", "0" * 16, [], [0],
    {}, {"array": "x"}, [[1, 2, 3, 4]], [["x", 10**9, -1]], "\ud800",
]  # fmt: skip


def leaves(tree: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The paths of all values, including nested ones."""
    yield path
    if isinstance(tree, (dict, list)):
        keys = tree if isinstance(tree, dict) else range(len(tree))
        for key in keys:
            yield from leaves(tree[key], (*path, key))


def changed(tree: Any, path: tuple[Any, ...], value: Any) -> Any:
    """A copy with another value at this path."""
    if not path:
        return value
    new = copy.deepcopy(tree)
    inner = new
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    return new


@pytest.fixture
def rich(tmp_path: Path) -> tuple[dict[str, Any], Any]:
    """The parts of a learner in which nothing is empty."""
    clock = Clock()
    with Decisions(
        sw_ucrl(), tmp_path / "rich", sync=False, clock=clock, timer=clock, expiry=1e6,
        signal_window=10, signal_delta=0.9,
    ) as decisions:  # fmt: skip
        while not decisions.learner.alerts:
            reward = decisions.learner.counted // 10 % 2
            decisions.feedback(decisions.decide(0).id, reward, 0)
        decisions.decide(1, session="a")
        decisions.set_mode("shadow", [0] * S)
        decisions.decide(2, session="b")
        enrich(decisions)
        return copy.deepcopy(snapshots.parts_of(decisions.learner))


def continues(folder: Path, content: bytes) -> bool:
    """Whether the snapshot is accepted. If it is, all events must work on the learner."""
    try:
        learner = snapshots.load(content, "snapshot")
    except DamagedFile:
        return False
    with Decisions(sw_ucrl(), folder, sync=False) as decisions:
        decisions.learner = learner
        live(decisions, 12)
        json.dumps(beliefs(decisions), allow_nan=False)
        Metrics(Models.around(decisions)).text(False)
        decisions.set_mode("agent")
        decisions.add_state()
        for decision in [*learner.pending, *learner.answered]:
            with suppress(SwitchmdpError):
                decisions.feedback(decisions._id(decision), 1.0, 0)
        decisions.start_over()
        live(decisions, 12)
    snapshot_in(folder, max(snapshots_in(folder)))
    shutil.rmtree(folder)
    return True


def hostile_snapshots(folder: Path, parts: tuple[dict[str, Any], Any], share: int) -> Counter[bool]:
    """Load every `share`-th of the snapshots with one hostile value and a valid checksum. Returns
    how many were rejected and accepted."""
    fields, arrays = parts
    found, rng = Counter[bool](), np.random.default_rng(0)
    begin = int(rng.integers(share))
    cases = [(p, value) for p in leaves(fields) if "agent" not in p[:3] for value in HOSTILE]
    for i, (place, value) in enumerate(cases[begin::share]):
        bad = changed(fields, place, value)
        if not isinstance(bad, dict):
            continue
        found[continues(folder / f"fields-{i}", packed_with_nan(bad, arrays))] += 1
    for name, array in arrays.items():
        if "agent." in name:
            continue
        worst = array.copy()
        worst.flat[:1] = np.iinfo(array.dtype).max if array.dtype.kind in "iu" else math.nan
        for i, bad in enumerate(
            (worst, array[:-1], array.astype(np.float32), array.reshape(-1)[:0], array[None])
        ):
            content = packed_with_nan(fields, arrays | {name: bad})
            found[continues(folder / f"array-{i}", content)] += 1
    return found


def packed_with_nan(fields: Any, arrays: Any) -> bytes:
    """The content of a snapshot whose JSON may contain NaN."""
    with patch.object(storage, "json", SimpleNamespace(dumps=lambda tree, **_: json.dumps(tree))):
        return snapshots.packed(fields, arrays)


@pytest.mark.parametrize("share", [30, pytest.param(1, marks=pytest.mark.soak)])
def test_a_snapshot_with_hostile_content_is_rejected_or_harmless(
    share: int, rich: tuple[dict[str, Any], Any], tmp_path: Path
) -> None:
    found = hostile_snapshots(tmp_path, rich, share)
    assert found[False] > 1000 / share
    assert found[True] < found[False] / 4


def test_a_snapshot_is_compressed_and_its_size_is_limited(
    rich: tuple[dict[str, Any], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    content = snapshots.packed(*rich)
    whole = zlib.decompress(content)
    assert len(content) < len(whole)
    assert bits(snapshots.load(whole, "format 1")) == bits(snapshots.load(content, "format 2"))
    for damaged in (content[:-1], content[:-100], b"", b"x", content[1:]):
        with pytest.raises(DamagedFile):
            snapshots.load(damaged, "snapshot")
    monkeypatch.setattr(snapshots, "MOST_BYTES", len(whole) - 1)
    with pytest.raises(DamagedFile, match=f"more than {len(whole) - 1} bytes"):
        snapshots.load(content, "snapshot")


def test_a_snapshot_without_an_agent_is_rejected(
    rich: tuple[dict[str, Any], Any], tmp_path: Path
) -> None:
    fields, arrays = rich
    memory = fields["agent"]["agent"]["fields"]["memory"]
    bad = changed(fields, ("agent", "agent"), memory)
    inner = {name.replace("agent.memory.", "agent."): array for name, array in arrays.items()}
    with pytest.raises(DamagedFile):
        snapshots.load(snapshots.packed(bad, inner), "snapshot")


def test_a_failed_snapshot_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*given: Any) -> None:
        raise LogFailed("full")

    with monkeypatch.context() as patch, Decisions(
        sw_ucrl(), tmp_path, sync=False, snapshot_every=20
    ) as decisions:  # fmt: skip
        patch.setattr(SQLite, "save_snapshot", full)
        live(decisions, 50)
        assert decisions._saver is not None
        decisions._saver.join()
        assert "full" in str(decisions.snapshot_failure)
    assert snapshots_in(tmp_path) == [0]
    with reopened(tmp_path) as again:
        assert bits_of(again) == bits(decisions.learner)
