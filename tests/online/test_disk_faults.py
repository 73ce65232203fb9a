"""Disk faults, Ctrl-C and many threads: nothing is lost, and nothing counts twice."""

from __future__ import annotations

import os
import resource
import signal
import sqlite3
import threading
from collections import Counter
from collections.abc import Iterable
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from tests.online.workbench import S, bits, bits_of, kill, live, store_of, sw_ucrl

from switchmdp.errors import LogFailed
from switchmdp.online import Decisions, check, rebuild
from switchmdp.online.sqlite import NAME


class FaultyConnection:
    """A connection whose k-th statement fails, before or after it has taken effect."""

    def __init__(self, connection: Any, error: BaseException, k: int, after: bool) -> None:
        self._connection, self.error, self.k, self.after = connection, error, k, after
        self.count, self.failed = 0, ""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)

    def execute(self, statement: str, values: Iterable[Any] = ()) -> Any:
        """Run a statement, or fail."""
        return self._run("execute", statement, values)

    def executemany(self, statement: str, values: Iterable[Any]) -> Any:
        """Run a statement with many rows, or fail."""
        return self._run("executemany", statement, values)

    def _run(self, method: str, statement: str, values: Iterable[Any]) -> Any:
        main = threading.current_thread() is threading.main_thread()
        if statement == "ROLLBACK" or not (main or isinstance(self.error, sqlite3.Error)):
            return getattr(self._connection, method)(statement, values)
        self.count += 1
        fails = self.count == self.k
        if fails:
            self.failed = statement.split()[0]
        if fails and not self.after:
            raise self.error
        result = getattr(self._connection, method)(statement, values)
        if fails:
            raise self.error
        return result


def failed_write(code: str) -> sqlite3.OperationalError:
    """An error as SQLite reports it."""
    error = sqlite3.OperationalError("disk I/O error")
    error.sqlite_errorname = code
    return error


def lives_through(folder: Path, error: BaseException, k: int, after: bool) -> str:
    """Decide and give feedback while one statement fails, and repeat calls until they are
    acknowledged. Returns the statement that failed."""
    known: dict[str, tuple[float, int]] = {}
    decisions = Decisions(sw_ucrl(), folder, snapshot_every=5)
    faulty = FaultyConnection(store_of(decisions)._connection, error, k, after)
    store_of(decisions)._connection = faulty  # type: ignore[assignment]  # it has the same methods

    def insist(call: str, *given: Any) -> Any:
        nonlocal decisions
        for _ in range(3):
            try:
                return getattr(decisions, call)(*given)
            except (LogFailed, KeyboardInterrupt):
                if decisions._over or store_of(decisions)._failure:
                    kill_anyway(decisions)
                    decisions = Decisions(None, folder, snapshot_every=5)
        raise AssertionError("it never succeeded")

    for i in range(6):
        decision = insist("decide", 0)
        given = (i / 6, i % S)
        insist("feedback", decision.id, *given)
        known[decision.id] = given
        assert decisions.learner.counted == i + 1
        if (saver := decisions._saver) is not None:
            saver.join()  # so that the k-th statement is always the same
    kill_anyway(decisions)
    with Decisions(None, folder) as decisions:
        assert bits_of(decisions) == bits(rebuild(folder))
        assert decisions.learner.counted == 6
        before = bits_of(decisions)
        assert not any(decisions.feedback(name, *given) for name, given in known.items())
        assert bits_of(decisions) == before
    return faulty.failed


def kill_anyway(decisions: Decisions) -> None:
    try:
        kill(decisions)
    except LogFailed:
        assert store_of(decisions)._failure


FAULTS: dict[str, tuple[BaseException, bool]] = {
    "full": (failed_write("SQLITE_FULL"), False),
    "write error": (failed_write("SQLITE_IOERR_WRITE"), False),
    "failed sync": (failed_write("SQLITE_IOERR_FSYNC"), False),
    "failed sync, but written": (failed_write("SQLITE_IOERR_FSYNC"), True),
    "interrupt": (KeyboardInterrupt(), False),
    "interrupt after the statement": (KeyboardInterrupt(), True),
}


@pytest.mark.parametrize("which", FAULTS)
def test_after_any_fault_repeated_feedback_counts_once(which: str, tmp_path: Path) -> None:
    failed = Counter[str]()
    for k in count(1):
        statement = lives_through(tmp_path / f"{k}", FAULTS[which][0], k, FAULTS[which][1])
        if not statement:
            break
        failed[statement] += 1
    assert {"BEGIN", "INSERT", "COMMIT"} <= set(failed)
    assert failed["COMMIT"] >= 10


def test_after_a_failed_sync_the_database_must_be_reopened(tmp_path: Path) -> None:
    """It is unknown what is on disk."""
    decisions = Decisions(sw_ucrl(), tmp_path)
    decision = decisions.decide(0)
    error = failed_write("SQLITE_IOERR_FSYNC")
    faulty = FaultyConnection(store_of(decisions)._connection, error, 3, after=False)
    store_of(decisions)._connection = faulty  # type: ignore[assignment]  # it has the same methods
    for _ in range(3):
        with pytest.raises(LogFailed):
            decisions.feedback(decision.id, 1.0, 1)
    with pytest.raises(LogFailed, match="must be reopened"):
        decisions.close()
    with Decisions(None, tmp_path) as decisions:
        assert decisions.feedback(decision.id, 1.0, 1)


def limited(size: int | None) -> None:
    """Limit the size of files: as on a full disk, writing beyond it fails."""
    most = resource.RLIM_INFINITY if size is None else size
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, resource.RLIM_INFINITY))


@pytest.fixture
def _no_signal() -> Any:
    """A write beyond the limit fails instead of ending the process."""
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    yield
    limited(None)
    signal.signal(signal.SIGXFSZ, before)


@pytest.mark.usefixtures("_no_signal")
def test_no_event_is_accepted_while_the_disk_is_full(tmp_path: Path) -> None:
    with Decisions(sw_ucrl(), tmp_path) as decisions:
        live(decisions, 10)
        decision = decisions.decide(0)
        limited(os.path.getsize(tmp_path / f"{NAME}-wal") + 100)
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
        limited(None)
        assert not decisions.feedback(decision.id, 1.0, 1)  # counted before, and now on disk
        assert decisions.learner.counted == 11
    assert bits(rebuild(tmp_path)) == bits(decisions.learner)
    assert not any(check(tmp_path).values())


@pytest.mark.usefixtures("_no_signal")
def test_a_disk_that_fills_up_at_any_size_loses_nothing(tmp_path: Path) -> None:
    """Also while a snapshot is written, and while the write-ahead log is copied."""
    for room in range(0, 60_000, 6_000):
        folder = tmp_path / f"{room}"
        decisions = Decisions(sw_ucrl(), folder, snapshot_every=20)
        store_of(decisions)._connection.execute("PRAGMA wal_autocheckpoint = 10")
        acknowledged = 0
        limited(os.path.getsize(folder / f"{NAME}-wal") + room)
        try:
            for _ in range(40):
                decision = decisions.decide(0)
                acknowledged += decisions.feedback(decision.id, 1.0, 1)
        except LogFailed:
            limited(None)
        limited(None)
        assert decisions._saver is None or not decisions._saver.join()  # type: ignore[func-returns-value]
        pending = len(decisions.learner.pending)
        live(decisions, 5)
        decisions.close()
        assert decisions.learner.counted in (acknowledged + 5, acknowledged + 6)
        assert pending <= 1
        assert bits(rebuild(folder)) == bits(decisions.learner)
        assert not any(check(folder).values())


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
    assert bits_of(decisions) != before  # a part of it was applied
    with pytest.raises(LogFailed, match="must be reopened"):
        decisions.feedback(decision.id, 1.0, 1)
    decisions.close()
    with Decisions(None, tmp_path) as decisions:
        assert bits_of(decisions) == before
        assert decisions.feedback(decision.id, 1.0, 1)
    assert bits(rebuild(tmp_path)) == bits(decisions.learner)


def test_sixteen_threads_get_answers_only_for_synced_events(tmp_path: Path) -> None:
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
