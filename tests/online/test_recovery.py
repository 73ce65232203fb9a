"""Replaying the events gives the same learner, whatever happened."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.online.workbench import (
    A,
    Clock,
    Life,
    S,
    add_event,
    bits,
    bits_of,
    change_event,
    copied,
    delete_snapshot,
    kill,
    live,
    reopened,
    sql,
    sw_ucrl,
)

import switchmdp as sm
from switchmdp.agents import Agent
from switchmdp.errors import DamagedFile, ForeignFolder
from switchmdp.online import Decisions, events_of, rebuild
from switchmdp.online.database import MODEL
from switchmdp.online.learner import Learner
from switchmdp.online.recovery import recover
from switchmdp.online.sqlite import SQLite, database_in

MAKERS: list[tuple[Callable[[], Agent], int]] = [
    (sw_ucrl, 8),
    (lambda: sm.agents.UCRL2(S, A, delta=0.2), 8),
    (lambda: sm.agents.UCRL2R(S, A, changes=4), 8),
    (lambda: sm.agents.UCRL2RW(S, A, period=60), 8),
    (lambda: sm.agents.SWUCRL(63, 2, window=50), 67),
    (lambda: sm.agents.Random(S, A, seed=3), 8),
]


def recovered(place: Path) -> tuple[Learner, int]:
    """The learner and the last number, from the newest snapshot and the events after it."""
    with closing(SQLite(database_in(place), read_only=True)) as store:
        return recover(store, MODEL)


@pytest.mark.parametrize("seed", range(36))
def test_random_event_sequences_replay_bit_for_bit(seed: int, tmp_path: Path) -> None:
    clock, rng = Clock(), np.random.default_rng([seed, 1])
    make, most_states = MAKERS[seed % len(MAKERS)]
    life = Life(seed, clock, most_states)
    replan = "background" if seed // len(MAKERS) % 2 else "inline"
    decisions = Decisions(
        make(), tmp_path, sync=False, clock=clock, timer=clock, expiry=40, most_pending=25,
        most_sessions=3, replan=replan, snapshot_every=40, signal_window=20,
    )  # fmt: skip
    for _ in range(5):
        life.goes_on(decisions, int(rng.integers(20, 120)))
        if rng.random() < 0.5:
            kill(decisions)
        else:
            decisions.close()
        after = bits(decisions.learner)
        assert after == bits(rebuild(tmp_path))
        assert after == bits(recovered(tmp_path)[0])
        given: dict[str, Any] = {}
        if rng.random() < 0.4:
            given = {
                "expiry": float(rng.integers(20, 60)), "most_pending": int(rng.integers(5, 30)),
                "signal_window": int(rng.integers(10, 40)),
            }  # fmt: skip
        decisions = reopened(tmp_path, clock=clock, timer=clock, snapshot_every=40, **given)
        assert bits_of(decisions) == bits(rebuild(tmp_path))
    decisions.close()


def test_the_random_sequences_contain_every_kind_of_event(tmp_path: Path) -> None:
    clock, events, kinds = Clock(), Counter[str](), Counter[str]()
    life = Life(0, clock, 8)
    with Decisions(
        sw_ucrl(), tmp_path, sync=False, clock=clock, timer=clock, replan="background"
    ) as decisions:
        life.goes_on(decisions, 1500)
    events = life.events
    assert min(events.values()) > 5
    assert len(events) == 10
    kinds.update(record["event"] for _, record in events_of(tmp_path))
    wanted = {"decide", "feedback", "history", "mode", "add_state", "add_action",
              "restart", "plan", "swap"}  # fmt: skip
    assert wanted <= set(kinds)


def test_a_write_ahead_log_torn_anywhere_gives_a_prefix_of_the_events(tmp_path: Path) -> None:
    """As after a power cut: a transaction is there completely or not at all."""
    decisions = Decisions(sw_ucrl(), tmp_path / "live")
    live(decisions, 20)
    copied(tmp_path / "live", tmp_path / "whole")
    kill(decisions)
    events, seen = dict(events_of(tmp_path / "live")), set()
    wal = (tmp_path / "whole" / "switchmdp.sqlite-wal").read_bytes()
    for cut in range(0, len(wal), len(wal) // 60):
        torn = copied(tmp_path / "whole", tmp_path / f"{cut}")
        (torn / "switchmdp.sqlite-wal").write_bytes(wal[: len(wal) - cut])
        try:
            learner, number = recovered(torn)
        except (DamagedFile, ForeignFolder):  # not even the tables or the model were created
            assert cut > len(wal) // 2
            continue
        assert learner.decided + learner.counted == number
        if number:
            assert dict(events_of(torn)) == {n: events[n] for n in range(1, number + 1)}
        seen.add(number)
    assert len(seen) > 10


def test_a_damaged_event_is_detected(lived: tuple[Path, Any]) -> None:
    """Also in the last events, which no snapshot includes."""
    folder, before = lived
    rows = sql(folder, "SELECT number, event, reward, state FROM events ORDER BY 1 DESC LIMIT 4")
    for number, event, reward, state in rows:
        column, value = ("state", state) if event == "decide" else ("reward", reward)
        sql(folder, f"UPDATE events SET {column} = 1 - {column} WHERE number = ?", number)
        with pytest.raises(DamagedFile, match=f"event {number} is damaged"):
            reopened(folder)
        sql(folder, f"UPDATE events SET {column} = ? WHERE number = ?", value, number)
    with reopened(folder) as decisions:
        assert bits_of(decisions) == before


def test_a_missing_event_is_detected(lived: tuple[Path, Any]) -> None:
    last = sql(lived[0], "SELECT max(number) FROM events")[0][0]
    sql(lived[0], "DELETE FROM events WHERE number = ?", last - 3)
    with pytest.raises(DamagedFile, match=f"events {last - 3} to {last - 3} are missing"):
        reopened(lived[0])
    sql(lived[0], "DELETE FROM events")
    with pytest.raises(DamagedFile, match="end with 0, but"):
        reopened(lived[0])


def test_an_inapplicable_event_is_rejected(lived: tuple[Path, Any]) -> None:
    folder = lived[0]
    number = recovered(folder)[1] + 1
    times = {"time": 1.0, "elapsed": 0.0}
    bad: list[Any] = [
        {"event": "magic"}, {"event": "feedback", "decision": 10**6, "reward": 1},
        {"event": "swap"}, {"event": "decide", "state": 99}, {"event": "history"},
    ]  # fmt: skip
    for event in bad:
        add_event(folder, number, event | times)
        with pytest.raises(DamagedFile, match=f"cannot apply event {number}"):
            reopened(folder)
        sql(folder, "DELETE FROM events WHERE number = ?", number)


def test_stored_actions_are_used_if_replayed_ones_differ(tmp_path: Path) -> None:
    """As on another processor, whose logarithm rounds differently."""
    with Decisions(sw_ucrl(), tmp_path / "one", sync=False) as decisions:
        decision = decisions.decide(0)
        live(decisions, 10)
    other = copied(tmp_path / "one", tmp_path / "other")
    delete_snapshot(other, 21)
    changed = (decision.action + 1) % A
    change_event(other, 1, action=changed)
    with pytest.warns(UserWarning, match="1 replayed actions differ from the events"):
        again = reopened(other)
    assert again.feedback(decision.id, 1.0, 1)
    assert again.learner.agent.visits[0, changed] == 1 + decisions.learner.agent.visits[0, changed]
    again.close()
    with pytest.raises(DamagedFile, match="1 replayed actions differ from the events"):
        rebuild(other)
