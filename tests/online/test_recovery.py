"""Replaying the log gives the same learner, whatever happened."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.online.workbench import (
    A,
    Clock,
    Life,
    S,
    bits,
    bits_of,
    copied,
    kill,
    live,
    reopened,
    spoil,
    sw_ucrl,
)

import switchmdp as sm
from switchmdp.agents import Agent
from switchmdp.errors import DamagedFile
from switchmdp.online import Decisions, rebuild
from switchmdp.online.folder import recover
from switchmdp.storage import log as logs
from switchmdp.storage.log import encoded, files_of, read

MAKERS: list[tuple[Callable[[], Agent], int]] = [
    (sw_ucrl, 8),
    (lambda: sm.agents.UCRL2(S, A, delta=0.2), 8),
    (lambda: sm.agents.UCRL2R(S, A, changes=4), 8),
    (lambda: sm.agents.UCRL2RW(S, A, period=60), 8),
    (lambda: sm.agents.SWUCRL(63, 2, window=50), 67),
    (lambda: sm.agents.Random(S, A, seed=3), 8),
]


@pytest.mark.parametrize("seed", range(36))
def test_random_event_sequences_replay_bit_for_bit(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logs, "LARGEST_FILE", 5000)
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
        assert after == bits(recover(tmp_path)[0])
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
    """One long life on its own, lest the ones above miss something by chance."""
    clock, events, kinds = Clock(), Counter[str](), Counter[str]()
    life = Life(0, clock, 8)
    with Decisions(
        sw_ucrl(), tmp_path, sync=False, clock=clock, timer=clock, replan="background"
    ) as decisions:
        life.goes_on(decisions, 1500)
    events = life.events
    assert min(events.values()) > 5
    assert len(events) == 10
    kinds.update(record["event"] for _, record in read(tmp_path))
    wanted = {"decide", "feedback", "history", "mode", "grow", "restart", "plan", "swap"}
    assert wanted <= set(kinds)


def test_a_log_torn_at_any_byte_of_its_last_records_is_opened(lived: tuple[Path, Any]) -> None:
    folder, _ = lived
    path = max(files_of(folder).values())
    whole = path.read_bytes()
    lines = whole.splitlines(keepends=True)
    for cut in range(sum(map(len, lines[-2:])) + 1):
        path.write_bytes(whole[: len(whole) - cut])
        learner, number = recover(folder)
        assert number == sum(1 for _ in read(folder))
        assert learner.decided + learner.counted == number


def test_damage_in_the_middle_of_the_log_is_detected(lived: tuple[Path, Any]) -> None:
    path = max(files_of(lived[0]).values())
    spoil(path)
    with pytest.raises(DamagedFile, match=r"record \d+, which begins at byte \d+, is damaged"):
        reopened(lived[0])


def test_an_inapplicable_record_is_rejected(lived: tuple[Path, Any]) -> None:
    folder = lived[0]
    path, number = max(files_of(folder).values()), recover(folder)[1]
    whole = path.read_bytes()
    bad: list[Any] = [
        {}, {"event": "magic"}, {"event": "feedback", "decision": 10**6, "reward": 1, "at": 1.0},
        {"event": "swap", "at": 1.0}, {"event": "decide", "at": 1.0, "state": 99}, [], 5, None,
    ]  # fmt: skip
    for record in bad:
        path.write_bytes(whole + encoded(number + 1, record))
        with pytest.raises(DamagedFile, match=f"cannot apply record {number + 1} of the log"):
            reopened(folder)


def test_logged_actions_win_over_differing_replayed_ones(tmp_path: Path) -> None:
    """As on another processor, whose logarithm rounds the other way."""
    with Decisions(sw_ucrl(), tmp_path / "one", sync=False) as decisions:
        decision = decisions.decide(0)
        live(decisions, 10)
    other = copied(tmp_path / "one", tmp_path / "other")
    (other / "snapshot-000000000021.npz").unlink()
    path = files_of(other)[1]
    first, *rest = path.read_bytes().splitlines(keepends=True)
    (_, record), changed = next(read(other)), (decision.action + 1) % A
    assert encoded(1, record) == first
    path.write_bytes(b"".join([encoded(1, record | {"action": changed}), *rest]))
    with pytest.warns(UserWarning, match="1 replayed actions differ from the log"):
        again = reopened(other)
    assert again.feedback(decision.id, 1.0, 1)
    assert again.learner.agent.visits[0, changed] == 1 + decisions.learner.agent.visits[0, changed]
    again.close()
    with pytest.raises(DamagedFile, match="1 replayed actions differ from the log"):
        rebuild(other)
