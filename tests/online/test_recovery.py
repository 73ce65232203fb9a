"""The log is the whole truth: whatever happened, applying it again gives the same learner."""

from __future__ import annotations

import errno
import os
import threading
from collections import Counter
from collections.abc import Callable
from itertools import count
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
    sw_ucrl,
)
from tests.storage.bad_disk import BadDisk

import switchmdp as sm
from switchmdp.agents import Agent
from switchmdp.agents.stored import described
from switchmdp.errors import DamagedFile, LogFailed
from switchmdp.online import Decisions, rebuild, snapshots
from switchmdp.online.folder import recover, replay
from switchmdp.online.learner import Learner
from switchmdp.online.settings import Settings
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


def reopened(folder: Path, **given: Any) -> Decisions:
    return Decisions(None, folder, sync=False, **given)


@pytest.mark.parametrize("seed", range(36))
def test_the_log_gives_the_learner_again_bit_for_bit_whatever_happened(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logs, "LARGEST_FILE", 5000)
    clock, rng = Clock(), np.random.default_rng([seed, 1])
    make, most_states = MAKERS[seed % len(MAKERS)]
    life = Life(seed, clock, most_states)
    replan = "background" if seed // len(MAKERS) % 2 else "inline"
    decisions = Decisions(
        make(), tmp_path, sync=False, clock=clock, expiry=40, most_pending=25, most_sessions=3,
        replan=replan, snapshot_every=40, signal_window=20,
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
            given = {"expiry": float(rng.integers(20, 60)), "most_pending": int(rng.integers(5, 30)),
                     "signal_window": int(rng.integers(10, 40))}  # fmt: skip
        decisions = reopened(tmp_path, clock=clock, snapshot_every=40, **given)
        assert bits_of(decisions) == bits(rebuild(tmp_path))
    decisions.close()


def test_the_lives_above_hold_whatever_may_happen(tmp_path: Path) -> None:
    """One long life on its own, lest the ones above miss something by chance."""
    clock, events, kinds = Clock(), Counter[str](), Counter[str]()
    life = Life(0, clock, 8)
    with Decisions(sw_ucrl(), tmp_path, sync=False, clock=clock, replan="background") as decisions:
        life.goes_on(decisions, 1500)
    events = life.events
    assert min(events.values()) > 5
    assert len(events) == 10
    kinds.update(record["event"] for _, record in read(tmp_path))
    wanted = {"decide", "feedback", "history", "mode", "grow", "restart", "plan", "swap"}
    assert wanted <= set(kinds)


# Snapshots.


@pytest.fixture
def lived(tmp_path: Path) -> tuple[Path, Any]:
    """A folder with snapshots, whose process was killed; and what its learner was."""
    folder = tmp_path / "lived"
    decisions = Decisions(sw_ucrl(), folder, sync=False, snapshot_every=50)
    for seed in range(5):
        live(decisions, 33, seed)
        saver = decisions._journal._saver
        assert saver is not None
        saver.join()
    kill(decisions)
    assert len(snapshots.snapshots_of(folder)) == 3
    return folder, bits(decisions.learner)


def spoil(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize("spoilt", [1, 2])
def test_where_a_snapshot_is_damaged_an_older_one_serves(
    spoilt: int, lived: tuple[Path, Any]
) -> None:
    folder, before = lived
    for path in [*snapshots.snapshots_of(folder).values()][:spoilt]:
        spoil(path)
    with pytest.warns(UserWarning, match="going on with an older one") as told:
        decisions = reopened(folder)
    assert len(told) == spoilt
    assert bits_of(decisions) == before
    live(decisions, 20)
    decisions.close()
    assert bits(rebuild(folder)) == bits(decisions.learner)
    with reopened(folder) as decisions:
        live(decisions, 1)


def test_without_snapshots_but_the_first_the_log_serves(lived: tuple[Path, Any]) -> None:
    folder, before = lived
    for number, path in snapshots.snapshots_of(folder).items():
        if number:
            path.unlink()
    with reopened(folder) as decisions:
        assert bits_of(decisions) == before


def test_where_all_snapshots_are_damaged_the_folder_is_refused(lived: tuple[Path, Any]) -> None:
    for path in snapshots.snapshots_of(lived[0]).values():
        spoil(path)
    with pytest.raises(DamagedFile):
        reopened(lived[0])


def test_a_log_that_lacks_what_a_snapshot_holds_is_refused(lived: tuple[Path, Any]) -> None:
    with reopened(lived[0]) as decisions:
        live(decisions, 1)
    path = max(files_of(lived[0]).values())
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(DamagedFile, match="the log ends with record"):
        reopened(lived[0])


def test_only_the_first_and_the_two_newest_snapshots_are_kept(lived: tuple[Path, Any]) -> None:
    assert [*snapshots.snapshots_of(lived[0])][-1] == 0
    with reopened(lived[0]) as decisions:
        live(decisions, 1)
        last = decisions._journal.log.number
    numbers = [*snapshots.snapshots_of(lived[0])]
    assert len(numbers) == 3
    assert numbers[0] == last


def test_a_snapshot_is_of_its_record_though_life_goes_on_while_it_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    go_on, save = threading.Event(), snapshots.save
    with monkeypatch.context() as patch:

        def slow(*given: Any) -> None:
            assert go_on.wait(60)
            save(*given)

        decisions = Decisions(sw_ucrl(), tmp_path, sync=False, snapshot_every=50)
        decisions.set_mode("shadow", [0] * S)
        patch.setattr(snapshots, "save", slow)
        life = Life(0, Clock(), 8)
        life.goes_on(decisions, 300)
        saver = decisions._journal._saver
        go_on.set()
        assert saver is not None
        saver.join()
        kill(decisions)
    number = max(snapshots.snapshots_of(tmp_path))
    assert number == 50
    assert decisions._journal.log.number > 150
    again = snapshots.load(tmp_path / f"snapshot-{0:012d}.npz")
    replay(again, [(n, record) for n, record in read(tmp_path) if n <= number])
    assert bits(snapshots.load(snapshots.snapshots_of(tmp_path)[number])) == bits(again)


def all_of(value: Any) -> Any:
    """Every attribute, however deep."""
    if isinstance(value, np.ndarray):
        return value.dtype.str, value.shape, value.tobytes()
    if isinstance(value, Agent):
        fields, arrays = described(value)
        return fields, all_of(arrays)
    if isinstance(value, dict):
        return [(key, all_of(part)) for key, part in value.items()]
    return all_of(vars(value)) if hasattr(value, "__dict__") else repr(value)


def test_a_snapshot_lacks_nothing_that_a_learner_has(tmp_path: Path) -> None:
    clock = Clock()
    decisions = Decisions(
        sw_ucrl(), tmp_path, sync=False, clock=clock, expiry=30, signal_window=10, signal_delta=0.9
    )
    Life(1, clock, 8).goes_on(decisions, 600)
    decisions.set_mode("shadow", [0] * decisions.learner.agent.n_states)
    live(decisions, 20)
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
    assert as_new == {"planning", "wants_plan"}
    decisions.close()
    again = snapshots.load(max(snapshots.snapshots_of(tmp_path).items())[1])
    assert all_of(again) == all_of(learner)


def test_a_snapshot_that_can_not_be_written_costs_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*given: Any) -> None:
        raise OSError(errno.ENOSPC, "full")

    with monkeypatch.context() as patch, Decisions(
        sw_ucrl(), tmp_path, sync=False, snapshot_every=20
    ) as decisions:  # fmt: skip
        patch.setattr(snapshots, "save", full)
        live(decisions, 50)
        assert decisions._journal._saver is not None
        decisions._journal._saver.join()
        assert "full" in str(decisions._journal.failure)
    assert [*snapshots.snapshots_of(tmp_path)] == [0]
    with reopened(tmp_path) as again:
        assert bits_of(again) == bits(decisions.learner)


def test_what_a_killed_one_left_half_written_is_removed(lived: tuple[Path, Any]) -> None:
    (lived[0] / ".snapshot-000000000999.npz.0123456789ab").write_bytes(b"half")
    with reopened(lived[0]) as decisions:
        assert bits_of(decisions) == lived[1]
        assert not list(lived[0].glob(".*"))


# The log.


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


def test_damage_in_the_middle_of_the_log_is_refused(lived: tuple[Path, Any]) -> None:
    path = max(files_of(lived[0]).values())
    spoil(path)
    with pytest.raises(DamagedFile, match="and others follow it"):
        reopened(lived[0])


def test_a_record_that_makes_no_sense_is_refused(lived: tuple[Path, Any]) -> None:
    folder = lived[0]
    path, number = max(files_of(folder).values()), recover(folder)[1]
    whole = path.read_bytes()
    for record in (
        {}, {"event": "magic"}, {"event": "feedback", "decision": 10**6, "reward": 1, "at": 1.0},
        {"event": "swap", "at": 1.0}, {"event": "decide", "at": 1.0, "state": 99}, [], 5, None,
    ):  # fmt: skip
        path.write_bytes(whole + encoded(number + 1, record))  # type: ignore[arg-type]
        with pytest.raises(DamagedFile, match=f"record {number + 1} of the log can't be applied"):
            reopened(folder)


def test_actions_that_come_out_otherwise_count_as_they_were_logged(tmp_path: Path) -> None:
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
    with pytest.warns(UserWarning, match="1 actions come out otherwise"):
        again = reopened(other)
    assert again.feedback(decision.id, 1.0, 1)
    assert again.learner.agent.visits[0, changed] == 1 + decisions.learner.agent.visits[0, changed]
    again.close()
    with pytest.raises(DamagedFile, match="1 actions come out otherwise"):
        rebuild(other)


# Disks that fail, and Ctrl-C.


def lives_through(folder: Path, disk: BadDisk) -> None:
    """Decisions and answers while one operation fails, each repeated until it is acknowledged."""
    known: dict[str, tuple[float, int]] = {}
    promised = 0
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(logs, "LARGEST_FILE", 500)
        decisions = Decisions(sw_ucrl(), folder, snapshot_every=5)
        disk.put_under(patch)

        def insist(call: Callable[[Decisions], Any]) -> Any:
            nonlocal decisions
            for _ in range(3):
                try:
                    return call(decisions)
                except (LogFailed, KeyboardInterrupt):
                    if decisions._journal._over or decisions._journal.log._failure:
                        kill_anyway(decisions)
                        decisions = Decisions(None, folder, snapshot_every=5)
            raise AssertionError("it never went through")

        for i in range(6):
            decision = insist(lambda d: d.decide(0))
            said = (i / 6, i % S)
            insist(lambda d, name=decision.id, said=said: d.feedback(name, *said))
            known[decision.id] = said
            promised += 1
            assert decisions.learner.counted == promised
        kill_anyway(decisions)
    with Decisions(None, folder) as decisions:
        assert bits_of(decisions) == bits(rebuild(folder))
        assert decisions.learner.counted == promised == 6
        before = bits_of(decisions)
        assert not any(decisions.feedback(name, *said) for name, said in known.items())
        assert bits_of(decisions) == before


def kill_anyway(decisions: Decisions) -> None:
    try:
        kill(decisions)
    except LogFailed:
        assert decisions._journal.log._failure


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EIO, None])
def test_whatever_operation_fails_what_is_repeated_counts_once(
    error: int | None, tmp_path: Path
) -> None:
    refused = Counter[str]()
    for k in count(1):
        disk = BadDisk(error, k)
        lives_through(tmp_path / f"{k}", disk)
        if not disk.refused:
            break
        refused[disk.refused] += 1
    assert {"open", "write", "fsync", "fdatasync"} <= set(refused)
    assert refused["write"] >= 10


def test_nothing_happens_while_the_disk_is_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*given: Any) -> int:
        raise OSError(errno.ENOSPC, "full")

    with Decisions(sw_ucrl(), tmp_path) as decisions:
        decision = decisions.decide(0)
        with monkeypatch.context() as patch:
            patch.setattr(os, "write", full)
            with pytest.raises(LogFailed):
                decisions.feedback(decision.id, 1.0, 1)
            before = bits_of(decisions)
            for _ in range(20):
                for call in (
                    lambda: decisions.decide(0), lambda: decisions.feedback(decision.id, 1.0, 1),
                    decisions.start_over,
                ):  # fmt: skip
                    with pytest.raises(LogFailed):
                        call()
            assert bits_of(decisions) == before
        assert not decisions.feedback(decision.id, 1.0, 1)  # it counts already, and is on disk now
        assert decisions.learner.counted == 1
    assert bits(rebuild(tmp_path)) == bits(decisions.learner)


def test_an_event_that_is_cut_off_in_the_middle_never_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    decisions = Decisions(sw_ucrl(), tmp_path)
    live(decisions, 30)
    decision = decisions.decide(0)
    before = bits_of(decisions)

    def interrupted(*given: Any, **named: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(decisions.learner.rewards, "add", interrupted)
        with pytest.raises(KeyboardInterrupt):
            decisions.feedback(decision.id, 1.0, 1)
    assert bits_of(decisions) != before  # it had begun
    with pytest.raises(LogFailed, match="must be opened anew"):
        decisions.feedback(decision.id, 1.0, 1)
    decisions.close()
    with Decisions(None, tmp_path) as decisions:
        assert bits_of(decisions) == before
        assert decisions.feedback(decision.id, 1.0, 1)
    assert bits(rebuild(tmp_path)) == bits(decisions.learner)


def test_sixteen_threads_are_promised_what_is_on_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logs, "LARGEST_FILE", 5000)
    decisions = Decisions(sw_ucrl(), tmp_path, snapshot_every=100, replan="background")
    wrong: list[Any] = []

    def work(who: int) -> None:
        try:
            for i in range(25):
                decision = decisions.decide(i % S, session=f"{who}")
                assert decisions.feedback(decision.id, i / 25, who % S)
                assert not decisions.feedback(decision.id, i / 25, who % S)
                assert decisions.decide(session=f"{who}").state == who % S
        except BaseException as error:
            wrong.append(error)

    threads = [threading.Thread(target=work, args=(who,)) for who in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    kill(decisions)
    assert decisions.learner.counted == 16 * 25
    assert len(decisions.learner.pending) == 16 * 25
    assert bits(rebuild(tmp_path)) == bits(decisions.learner)


def test_threads_that_add_at_once_get_numbers_of_their_own(tmp_path: Path) -> None:
    with Decisions(sw_ucrl(), tmp_path, sync=False) as decisions:
        found: list[int] = []
        threads = [
            threading.Thread(target=lambda: found.append(decisions.add_state())) for _ in range(12)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(found) == [*range(S, S + 12)]
