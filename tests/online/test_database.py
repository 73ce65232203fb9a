"""The database: one owner, one process, damage is detected, and old folders are converted."""

from __future__ import annotations

import json
import os
import re
import shutil
import sqlite3
import subprocess
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast
from zlib import crc32

import pytest
from tests.online.workbench import (
    Clock,
    bits,
    bits_of,
    change_event,
    copied,
    kill,
    live,
    reopened,
    snapshots_in,
    spoil_snapshot,
    sql,
    store_of,
    sw_ucrl,
)

from switchmdp.errors import (
    DamagedFile,
    ForeignFolder,
    ForgottenDecision,
    InvalidParameter,
    LogFailed,
    Mismatch,
    ModelExists,
    UnknownDecision,
    UnknownModel,
)
from switchmdp.online import (
    Decisions,
    check,
    events_of,
    history,
    import_folder,
    rebuild,
    verify,
)
from switchmdp.online.database import ModelRow, Writer, row_of
from switchmdp.online.sqlite import NAME, SQLite

GOLDEN = Path(__file__).parent / "golden"


def modes(folder: Path) -> dict[str, int]:
    paths = (folder, *folder.iterdir())
    return {path.name: path.stat().st_mode & 0o777 for path in paths}


# Access.


def test_only_the_owner_has_access_to_a_new_database(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        with Decisions(sw_ucrl(), tmp_path / "own") as decisions:
            live(decisions, 5)
            found = modes(tmp_path / "own")
    finally:
        os.umask(before)
    assert found.pop("own") == 0o700
    assert set(found) == {NAME, f"{NAME}-wal", f"{NAME}-shm", f"{NAME}-lock"}
    assert set(found.values()) == {0o600}


def test_opening_removes_permissions_of_others(lived: tuple[Path, Any]) -> None:
    folder, _ = lived
    for path in folder.iterdir():
        path.chmod(0o644)
    verify(folder)  # which only reads
    assert modes(folder)[NAME] == 0o644
    reopened(folder).close()
    assert modes(folder)[NAME] == 0o600


def test_a_database_can_be_given_as_a_file(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("years of work")
    with Decisions(sw_ucrl(), tmp_path / "shop.sqlite") as decisions:
        live(decisions, 5)
        after = bits_of(decisions)
    assert bits(rebuild(tmp_path / "shop.sqlite")) == after
    assert set(modes(tmp_path)) >= {"shop.sqlite", "shop.sqlite-lock"}


def test_the_folder_of_the_decisions_is_deprecated(tmp_path: Path) -> None:
    with Decisions(sw_ucrl(), tmp_path) as decisions:
        with pytest.warns(DeprecationWarning, match=r"\.database\.parent"):
            assert decisions.folder == tmp_path
        assert decisions.database == tmp_path / NAME


def test_one_database_holds_several_models(tmp_path: Path) -> None:
    """Each model opens the database in turn. (Models that are open together share one `Writer`.)"""
    states: dict[str, Any] = {}
    for model in ("ads", "news", "ads"):
        with Decisions(sw_ucrl(), tmp_path, model=model) as decisions:
            live(decisions, 20 + len(states))
            states[model] = bits_of(decisions)
    assert {model: bits(rebuild(tmp_path, model=model)) for model in states} == states
    assert check(tmp_path) == {"the database": [], "model ads": [], "model news": []}
    with pytest.raises(UnknownModel, match="has no model 'main'"):
        verify(tmp_path)
    keys = sql(tmp_path, "SELECT key FROM models")
    assert len(set(keys)) == 2


def test_other_databases_and_files_are_not_touched(tmp_path: Path) -> None:
    sql(tmp_path / "other.db", "CREATE TABLE thesis (page TEXT)")
    with pytest.raises(ForeignFolder, match="is not a database of switchmdp"):
        Decisions(sw_ucrl(), tmp_path / "other.db")
    assert sql(tmp_path / "other.db", "SELECT name FROM sqlite_master") == [("thesis",)]
    (tmp_path / "letter.db").write_bytes(b"dear " * 1000)
    with pytest.raises(DamagedFile, match="not a database"):
        Decisions(sw_ucrl(), tmp_path / "letter.db")
    assert (tmp_path / "letter.db").read_bytes() == b"dear " * 1000


def test_a_new_model_has_a_name_that_the_service_accepts(tmp_path: Path) -> None:
    for name in ("two words", "../shop", "", 5):
        with pytest.raises(InvalidParameter, match="model must be 1 to 100 letters, digits"):
            Decisions(sw_ucrl(), tmp_path / "all.sqlite", model=cast(str, name))


def test_a_database_of_a_later_version_is_rejected(lived: tuple[Path, Any]) -> None:
    sql(lived[0], "UPDATE settings SET value = '9'")
    with pytest.raises(DamagedFile, match="by a newer version of switchmdp"):
        reopened(lived[0])
    sql(lived[0], "UPDATE settings SET value = 'none'")
    with pytest.raises(DamagedFile, match="has the format 'none', not 2"):
        reopened(lived[0])


OTHER = """
import sys
from switchmdp.online import Decisions
try:
    Decisions(None, sys.argv[1]).close()
except Exception as error:
    print(type(error).__name__, error)
"""


def another_process(folder: Path) -> str:
    command = [sys.executable, "-c", OTHER, str(folder)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def test_a_second_opener_is_refused_with_a_clear_message(tmp_path: Path) -> None:
    with Decisions(sw_ucrl(), tmp_path) as decisions:
        live(decisions, 3)
        place = tmp_path / NAME
        reason = "is in use by another process, or was opened before in this one"
        message = f"ForeignFolder {place} {reason}\n"
        assert another_process(tmp_path) == message
        with pytest.raises(ForeignFolder, match="in use"):
            Decisions(None, tmp_path)
        live(decisions, 3)
        after = bits_of(decisions)
    assert another_process(tmp_path) == ""
    assert bits(rebuild(tmp_path)) == after


def test_two_writers_never_share_a_history(tmp_path: Path) -> None:
    """Even if the lock does not work, because its file was deleted."""
    first = Decisions(sw_ucrl(), tmp_path)
    decision = first.decide(0)
    (tmp_path / f"{NAME}-lock").unlink()
    with Decisions(None, tmp_path) as second:
        assert second.feedback(decision.id, 1.0, 1)
        with pytest.raises(LogFailed, match="UNIQUE constraint failed"):
            first.feedback(decision.id, 0.0, 2)
        for call in (lambda: first.decide(0), lambda: first.feedback(decision.id, 0.0, 2)):
            with pytest.raises(LogFailed, match="must be reopened"):
                call()
        live(second, 3)
        after = bits_of(second)
    with pytest.raises(LogFailed):
        first.close()
    assert bits(rebuild(tmp_path)) == after


FORKED = """
import os, sys
from switchmdp.agents import SWUCRL
from switchmdp.errors import LogFailed
from switchmdp.online import Decisions

decisions = Decisions(SWUCRL(4, 3, window=60), sys.argv[1], snapshot_every=4)
first = decisions.decide(0)
child = os.fork()
if child == 0:
    refused = 0
    for call in (
        lambda: decisions.decide(0), lambda: decisions.feedback(first.id, 1.0, 1),
        decisions.start_over, lambda: decisions.learn_from([(0, 0, 1.0, 0)] * 5),
    ):
        try:
            call()
        except LogFailed as error:
            refused += "forked process" in str(error)
    decisions.close()
    os._exit(refused)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), decisions.records)
for i in range(20):
    decisions.feedback(decisions.decide(i % 4).id, 1.0, 0)
decisions.close()
"""


def test_a_fork_cannot_write(tmp_path: Path) -> None:
    command = [sys.executable, "-c", FORKED, str(tmp_path)]
    environment = {**os.environ, "NUMBA_DISABLE_JIT": "1"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr, done.returncode) == ("4 1\n", "", 0)
    assert verify(tmp_path).same
    with reopened(tmp_path) as decisions:
        assert decisions.learner.decided == 21
        assert decisions.learner.counted == 20


def test_a_moved_or_replaced_database_is_not_written_to(tmp_path: Path) -> None:
    decisions = Decisions(sw_ucrl(), tmp_path / "here")
    live(decisions, 3)
    (tmp_path / "here").rename(tmp_path / "there")
    with pytest.raises(LogFailed, match="was moved, replaced or deleted"):
        decisions.decide(0)
    copied(tmp_path / "there", tmp_path / "here")
    with pytest.raises(LogFailed, match="was moved, replaced or deleted"):
        decisions.decide(0)
    shutil.rmtree(tmp_path / "here")
    (tmp_path / "there").rename(tmp_path / "here")
    live(decisions, 3)
    decisions.close()
    assert bits(rebuild(tmp_path / "here")) == bits(decisions.learner)


def test_a_deleted_write_ahead_log_is_noticed(tmp_path: Path) -> None:
    decisions = Decisions(sw_ucrl(), tmp_path)
    (tmp_path / f"{NAME}-wal").unlink()
    with pytest.raises(LogFailed, match="was moved, replaced or deleted"):
        decisions.decide(0)
    with pytest.raises(LogFailed):  # the decision was not stored
        decisions.close()


# What is damaged or missing.


def test_a_sound_database_has_no_damage(lived: tuple[Path, Any]) -> None:
    assert check(lived[0]) == {"the database": [], "model main": []}
    with reopened(lived[0]) as decisions:
        live(decisions, 3)
        assert check(lived[0]) == {"the database": [], "model main": []}  # also while it is in use


def _flip_page(place: Path) -> None:
    path = place / NAME
    content = bytearray(path.read_bytes())
    content[4096 * 3 : 4096 * 4] = bytes(4096)
    path.write_bytes(content)


DAMAGE: dict[str, tuple[Callable[[Path], Any], str, str]] = {
    "events": (
        lambda place: sql(place, "UPDATE events SET action = 1 - action WHERE number IN (5, 7)"),
        "model main", r"event (5|7) is damaged",
    ),
    "gap": (
        lambda place: sql(place, "DELETE FROM events WHERE number BETWEEN 20 AND 22"),
        "model main", "the events 20 to 22 are missing",
    ),
    "snapshot": (
        lambda place: spoil_snapshot(place, snapshots_in(place)[0]),
        "model main", "snapshot .* is damaged",
    ),
    "altered reward": (
        lambda place: change_event(place, 2, reward=0.125),
        "model main", r"snapshot \d+ of the model 'main' differs from the replay",
    ),
    "altered action": (
        lambda place: change_event(place, 1, action=2 - dict(events_of(place))[1]["action"]),
        "model main", "replayed actions differ from the events",
    ),
    "early end": (
        lambda place: sql(place, "DELETE FROM events WHERE number > 10"),
        "model main", r"snapshot \d+ of the model 'main' is later than the last event",
    ),
    "reference": (
        lambda place: sql(place, "INSERT INTO snapshots VALUES ('nobody', 1, 1.0, x'00')"),
        "the database", "a row of snapshots refers to a row of models that does not exist",
    ),
    "model": (
        lambda place: sql(place, "UPDATE models SET key = '00'"),
        "the database", "the row of the model 'main' is damaged",
    ),
    "page": (_flip_page, "the database", "."),
}  # fmt: skip


@pytest.mark.parametrize("which", DAMAGE)
def test_check_reports_what_is_damaged(which: str, lived: tuple[Path, Any]) -> None:
    damage, where, message = DAMAGE[which]
    reopened(lived[0]).close()
    damage(lived[0])
    report = check(lived[0])
    assert re.search(message, "\n".join(report[where]))
    if which == "events":
        assert len(report[where]) == 3  # both events, and that there was no replay


# Writing.


def rows(first: int, last: int) -> list[tuple[Any, ...]]:
    event = {"event": "restart", "time": 1.0, "elapsed": 0.0}
    return [row_of("main", number, event) for number in range(first, last + 1)]


def test_rows_of_an_interrupted_transaction_are_not_written_twice(tmp_path: Path) -> None:
    """Ctrl-C after the commit: the writer does not know whether it was completed."""
    store = SQLite(tmp_path / NAME)
    store.create(ModelRow("main", "00" * 16), b"")
    writer, append = Writer(store), store.append

    def interrupted(*given: Any, **named: Any) -> None:
        append(*given, **named)
        raise KeyboardInterrupt

    event = {"event": "restart", "time": 1.0, "elapsed": 0.0}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(store, "append", interrupted)
        ticket = writer.append("main", 1, event)
        with pytest.raises(KeyboardInterrupt):
            writer.commit(ticket)
    writer.append("main", 2, event)
    writer.commit()
    assert [number for number, _ in store.events("main")] == [1, 2]
    store.close()


def test_a_transaction_is_written_completely_or_not_at_all(tmp_path: Path) -> None:
    store = SQLite(tmp_path / NAME)
    store.create(ModelRow("main", "00" * 16), b"")
    store.append(rows(1, 3))
    with pytest.raises(LogFailed, match="constraint"):
        store.append([*rows(4, 5), *rows(2, 2)])
    assert store.last("main") == 3
    store.close()


def test_a_commit_waits_for_a_busy_database(tmp_path: Path) -> None:
    """An operator's own transaction only delays the service."""
    with Decisions(sw_ucrl(), tmp_path) as decisions:
        decision = decisions.decide(0)
        other = sqlite3.connect(tmp_path / NAME, isolation_level=None)
        store_of(decisions)._connection.execute("PRAGMA busy_timeout = 50")
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(LogFailed, match="database is locked"):
            decisions.feedback(decision.id, 1.0, 1)
        other.execute("ROLLBACK")
        other.close()
        assert not decisions.feedback(decision.id, 1.0, 1)  # counted, and now acknowledged
        assert decisions.learner.counted == 1
    assert bits(rebuild(tmp_path)) == bits(decisions.learner)


@pytest.mark.parametrize(
    "session", ["", "ann", "Zoë", "\0", "a\nb", "\ud800", "😀", "'; DROP TABLE"]
)
def test_sessions_of_any_characters_are_stored(session: str, tmp_path: Path) -> None:
    with Decisions(sw_ucrl(), tmp_path) as decisions:
        decisions.decide(1, session=session)
        after = bits_of(decisions)
    assert bits(rebuild(tmp_path)) == after
    assert next(events_of(tmp_path))[1]["session"] == session


def test_events_can_be_queried_by_operators(tmp_path: Path) -> None:
    with Decisions(sw_ucrl(), tmp_path) as decisions:
        for reward in (1, 0.5, 0):
            decision = decisions.decide(2, session="ann")
            decisions.feedback(decision.id, reward, 3)
    query = """SELECT d.state, sum(f.reward), count(*) FROM events d JOIN events f
               ON f.model = d.model AND f.decision = d.decision AND f.event = 'feedback'
               WHERE d.model = 'main' AND d.event = 'decide' AND d.session = 'ann'"""
    assert sql(tmp_path, query) == [(2, 1.5, 3)]


# Backups, and numbers that come again.


def vacuumed(folder: Path, to: Path) -> Path:
    """A backup by SQLite itself."""
    to.mkdir()
    sql(folder, "VACUUM INTO ?", str(to / NAME))
    return to


@pytest.mark.parametrize("back_up", [copied, vacuumed])
def test_ids_issued_after_a_backup_are_unknown_once_it_is_restored(
    back_up: Callable[[Path, Path], Path], tmp_path: Path
) -> None:
    clock = Clock()
    with Decisions(sw_ucrl(), tmp_path / "own", clock=clock, timer=clock) as decisions:
        kept = decisions.decide(0)
        backup = back_up(tmp_path / "own", tmp_path / "backup")
        lost = [decisions.decide(i % 4) for i in range(5)]
    with Decisions(None, backup, clock=clock, timer=clock) as decisions:
        for _ in range(2):  # also after the number was assigned again
            for decision in lost:
                with pytest.raises(UnknownDecision):
                    decisions.feedback(decision.id, 1.0, 0)
            made = [decisions.decide(i % 4) for i in range(5)]
        assert {d.id for d in made}.isdisjoint(d.id for d in lost)
        assert decisions.learner.decided > len(lost) + 1  # all numbers were assigned again
        assert decisions.learner.counted == 0
        assert decisions.feedback(kept.id, 1.0, 0)
        assert all(decisions.feedback(d.id, 1.0, 0) for d in made)
        after = bits_of(decisions)
    assert bits(rebuild(backup)) == after


def test_ids_of_lost_events_are_not_reused(tmp_path: Path) -> None:
    decisions = Decisions(sw_ucrl(), tmp_path)
    kept, lost = decisions.decide(0), decisions.decide(1)
    kill(decisions)
    sql(tmp_path, "DELETE FROM events WHERE number = 2")
    with reopened(tmp_path) as decisions:
        again = decisions.decide(2)
        assert again.id.partition("-")[0] == lost.id.partition("-")[0]
        with pytest.raises(UnknownDecision):
            decisions.feedback(lost.id, 1.0, 0)
        assert decisions.feedback(again.id, 1.0, 0)
        assert decisions.feedback(kept.id, 1.0, 0)


def test_ids_stay_valid_after_reopening(tmp_path: Path) -> None:
    made = []
    for _ in range(4):
        with Decisions(sw_ucrl(), tmp_path, snapshot_every=2) as decisions:
            made += [decisions.decide(0), decisions.decide(1)]
    epochs = [event["epoch"] for _, event in events_of(tmp_path) if "epoch" in event]
    assert len(set(epochs)) == 4
    with reopened(tmp_path) as decisions:
        assert decisions.learner.epochs == [(2 * i + 1, epoch) for i, epoch in enumerate(epochs)]
        assert all(decisions.feedback(d.id, 1.0, 0) for d in made)
        assert not any(decisions.feedback(d.id, 1.0, 0) for d in made)


# Folders of earlier versions.

OLD_IDS = ["4-f1a4a5000e97", "8-61ae6c8ffa12", "12-5184a673815a", "16-11cd85918633",
           "20-6c47b5dfb670", "24-6fe56e3a82ac"]  # fmt: skip
OLD_IDS_2 = [
    "5-67109ff26929", "10-5795014835c8", "17-3e2957e8c9e3", "22-8e6ffb8ac422", "27-4680b526bdba",
    "35-ec5edbc14c73", "40-e748a8acbe99", "45-347b3d651e50", "50-a5ae67e3f7f1",
]  # fmt: skip


@pytest.fixture
def old(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """A folder of an earlier version."""
    with tarfile.open(GOLDEN / f"format-{getattr(request, 'param', 1)}.tar.gz") as archive:
        archive.extractall(tmp_path / "old", filter="data")
    return tmp_path / "old"


def test_a_folder_of_format_1_gives_the_same_learner(old: Path, tmp_path: Path) -> None:
    found = import_folder(old, tmp_path / "new.sqlite")
    assert (found.records, found.same, found.differing) == (43, True, 0)
    assert found.learner.now == found.learner.at == 1700000038.75
    assert found.learner.expired == 0
    assert len(list(history(tmp_path / "new.sqlite"))) == 18
    assert verify(tmp_path / "new.sqlite").snapshot == 43


@pytest.mark.parametrize("old", [2], indirect=True)
def test_a_folder_of_format_2_gives_the_same_learner(old: Path, tmp_path: Path) -> None:
    """It has growth, a shadow run, a warm start, two epochs and plans in the background."""
    found = import_folder(old, tmp_path / "new.sqlite")
    assert (found.records, found.same, found.differing) == (114, True, 0)
    learner = found.learner
    assert (learner.decided, learner.counted, len(learner.pending)) == (53, 44, 11)
    assert (learner.now, len(learner.epochs)) == (56.5, 2)
    assert check(tmp_path / "new.sqlite") == {"the database": [], "model main": []}
    with Decisions(None, tmp_path / "new.sqlite") as decisions:
        assert all(decisions.feedback(name, 1.0, 0) for name in OLD_IDS_2)
        after = bits_of(decisions)
    assert bits(rebuild(tmp_path / "new.sqlite")) == after


def test_ids_of_a_format_1_folder_stay_valid(old: Path) -> None:
    clock = Clock(5.0)  # a timer that starts with the process
    import_folder(old, old)
    with Decisions(None, old, timer=clock) as decisions:
        assert decisions.feedback(OLD_IDS[0], 1.0, 0)
        new = decisions.decide(0)
        clock.now += 99.5
        assert decisions.feedback(OLD_IDS[-1], 1.0, 0)  # it was made at the last record
        clock.now += 1
        for name in (new.id, *OLD_IDS[1:-1]):
            with pytest.raises(ForgottenDecision):
                decisions.feedback(name, 1.0, 0)
        decisions.decide(0)
        assert decisions.learner.expired == 5
        assert len(decisions.learner.pending) == 1
        after = bits_of(decisions)
    assert bits(rebuild(old)) == after
    with Decisions(None, old) as decisions:
        assert not decisions.feedback(OLD_IDS[0], 1.0, 0)


def test_an_old_folder_is_refused_with_the_command_that_converts_it(old: Path) -> None:
    command = f"convert it with: switchmdp import {old} --database {old / NAME}"
    for call in (lambda: Decisions(None, old), lambda: verify(old), lambda: check(old)):
        with pytest.raises(ForeignFolder, match=re.escape(command)):
            call()
    assert not (old / NAME).exists()


def test_a_database_of_format_1_is_read_and_converted(tmp_path: Path) -> None:
    with tarfile.open(GOLDEN / "database-1.tar.gz") as archive:
        archive.extractall(tmp_path, filter="data")
    place = tmp_path / "old.sqlite"
    expected = json.loads((tmp_path / "expected.json").read_text())
    verified = verify(place)  # only reads, so the database keeps its format
    assert (verified.records, verified.same, verified.differing) == (expected["records"], True, 0)
    assert check(place) == {"the database": [], "model main": []}
    assert sql(place, "SELECT value FROM settings WHERE name = 'format'") == [("1",)]
    with Decisions(None, place) as decisions:
        assert bits_of(decisions) == bits(verified.learner)
        assert decisions.learner.arms["main"].totals[:, 0].sum() == 61
        assert decisions.feedback(expected["waiting"], 1.0, 0)
        live(decisions, 5)
        after = bits_of(decisions)
    assert sql(place, "SELECT value FROM settings WHERE name = 'format'") == [("2",)]
    assert bits(rebuild(place)) == after
    assert check(place) == {"the database": [], "model main": []}


def test_an_old_folder_becomes_one_of_several_models(old: Path, tmp_path: Path) -> None:
    place = tmp_path / "all.sqlite"
    with Decisions(sw_ucrl(), place) as decisions:
        live(decisions, 5)
    with pytest.raises(ModelExists, match="already has a model 'main'"):
        import_folder(old, place)
    import_folder(old, place, model="old")
    assert check(place) == {"the database": [], "model main": [], "model old": []}


def test_a_damaged_old_folder_is_not_imported(old: Path, tmp_path: Path) -> None:
    (log,) = old.glob("log-*.jsonl")
    whole, place = log.read_bytes(), tmp_path / "new.sqlite"
    lines = whole.splitlines(keepends=True)

    def refused(error: type[Exception], message: str) -> None:
        with pytest.raises(error, match=message):
            import_folder(old, place)
        assert not place.exists() or sql(place, "SELECT * FROM models") == []

    for at in range(1, len(lines[-1]) + 1, 7):
        damaged = bytearray(whole)
        damaged[-at] ^= 1 << at % 8
        log.write_bytes(damaged)
        refused(DamagedFile, "record 43 is damaged or missing")
    log.write_bytes(b"".join(lines[:20] + lines[21:]))
    refused(DamagedFile, "record 21 is damaged or missing")
    log.write_bytes(b"".join(lines[:20]))
    refused(DamagedFile, "the log ends with record 20, but 30 were written")
    at = next(i for i, line in enumerate(lines) if b'"feedback"' in line)
    text = re.sub(rb'"reward":[^,}]*', b'"reward":0.875', lines[at][9:-1])
    changed = b"%08x %s\n" % (crc32(text), text)
    log.write_bytes(b"".join([*lines[:at], changed, *lines[at + 1 :]]))
    refused(Mismatch, "the learner replayed from the log differs from snapshot 30")
    log.write_bytes(whole)
    description = old / "decisions.json"
    good = description.read_bytes()
    for content in (b"", b"{}", b"[]", b"null", b'{"format": 2, "key": "00"}', b"\xff\xfe",
                    b'{"format": 1, "key": "xyz"}', b'{"format": 1, "key": 5}'):  # fmt: skip
        description.write_bytes(content)
        refused(DamagedFile, "decisions.json is damaged")
    description.write_bytes(good)
    log.write_bytes(whole + lines[-1][:10])  # an incomplete line was never acknowledged
    assert import_folder(old, place).records == 43


def test_only_old_folders_can_be_imported(tmp_path: Path) -> None:
    with pytest.raises(ForeignFolder, match=r"it has no decisions\.json"):
        import_folder(tmp_path, tmp_path / "new.sqlite")


def test_an_old_folder_in_use_is_not_imported(old: Path, tmp_path: Path) -> None:
    import fcntl

    handle = os.open(old / "lock", os.O_RDWR | os.O_CREAT)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        with pytest.raises(ForeignFolder, match="in use"):
            import_folder(old, tmp_path / "new.sqlite")
    finally:
        os.close(handle)
    import_folder(old, tmp_path / "new.sqlite")
