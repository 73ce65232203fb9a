"""Disk faults, Ctrl-C and many threads: nothing is lost, and nothing counts twice."""

from __future__ import annotations

import errno
import os
import threading
from collections import Counter
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from tests.online.workbench import S, bits, bits_of, kill, live, sw_ucrl
from tests.storage.bad_disk import BadDisk

from switchmdp.errors import LogFailed
from switchmdp.online import Decisions, rebuild
from switchmdp.storage import log as logs


def lives_through(folder: Path, disk: BadDisk) -> None:
    """Decisions and answers while one operation fails, each repeated until it is acknowledged."""
    known: dict[str, tuple[float, int]] = {}
    promised = 0
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(logs, "LARGEST_FILE", 300)
        decisions = Decisions(sw_ucrl(), folder, snapshot_every=5)
        disk.put_under(patch)

        def insist(call: str, *given: Any) -> Any:
            nonlocal decisions
            for _ in range(3):
                try:
                    return getattr(decisions, call)(*given)
                except (LogFailed, KeyboardInterrupt):
                    if decisions._journal._over or decisions._journal.log._failure:
                        kill_anyway(decisions)
                        decisions = Decisions(None, folder, snapshot_every=5)
            raise AssertionError("it never went through")

        for i in range(6):
            decision = insist("decide", 0)
            said = (i / 6, i % S)
            insist("feedback", decision.id, *said)
            known[decision.id] = said
            promised += 1
            assert decisions.learner.counted == promised
            if (saver := decisions._journal._saver) is not None:
                saver.join()  # so that the k-th operation is the same one every time
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
def test_after_any_disk_fault_repeated_feedback_counts_once(
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


def test_no_event_is_accepted_while_the_disk_is_full(
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


def test_an_interrupted_event_has_no_effect(
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
    with pytest.raises(LogFailed, match="must be reopened"):
        decisions.feedback(decision.id, 1.0, 1)
    decisions.close()
    with Decisions(None, tmp_path) as decisions:
        assert bits_of(decisions) == before
        assert decisions.feedback(decision.id, 1.0, 1)
    assert bits(rebuild(tmp_path)) == bits(decisions.learner)


def test_sixteen_threads_get_answers_only_for_synced_events(
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


def test_threads_that_add_states_concurrently_get_distinct_numbers(tmp_path: Path) -> None:
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
