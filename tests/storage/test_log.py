"""A log keeps what it has acknowledged, in order and once, whatever tears or fills up."""

from __future__ import annotations

import os
import threading
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from tests.storage.records import goes_on, numbers, written

from switchmdp.errors import DamagedFile, LogFailed
from switchmdp.storage import log as logs
from switchmdp.storage.log import Log, encoded, files_of, parse_line, read


def test_records_come_back_in_order_and_with_their_numbers(tmp_path: Path) -> None:
    assert numbers(tmp_path) == []
    written(tmp_path, 5)
    written(tmp_path, 3, first=6)
    assert numbers(tmp_path) == [1, 2, 3, 4, 5, 6, 7, 8]
    assert numbers(tmp_path, 6) == [7, 8]
    assert numbers(tmp_path, 8) == []


def test_a_record_of_any_text_and_number_comes_back_exactly(tmp_path: Path) -> None:
    record = {"text": "a\nb\x00\ud800ü€", "number": 0.1 + 0.2, "tiny": 5e-324, "none": None}
    log = Log(tmp_path, number=0)
    log.append(record)
    log.close()
    assert list(read(tmp_path)) == [(1, record)]


def test_a_record_that_is_no_json_takes_no_number(tmp_path: Path) -> None:
    log = Log(tmp_path, number=0)
    for bad in ({"x": float("nan")}, {"x": object()}):
        with pytest.raises((ValueError, TypeError)):
            log.append(bad)
    assert log.append({"i": 1}) == 1
    log.close()
    assert numbers(tmp_path) == [1]


def test_a_log_cut_after_any_byte_opens_and_goes_on(tmp_path: Path) -> None:
    whole = b"".join(encoded(i, {"i": i}) for i in range(1, 7))
    for length in range(len(whole) + 1):
        folder = tmp_path / f"{length}"
        folder.mkdir()
        (folder / "log-000000000001.jsonl").write_bytes(whole[:length])
        last = whole[:length].count(b"\n")
        assert numbers(folder) == [*range(1, last + 1)]
        goes_on(folder, last)


@pytest.mark.parametrize("content", ["the next line", "zeros", "noise"])
def test_a_torn_tail_of_any_length_is_cut(content: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    tails = {
        "the next line": encoded(5, {"i": 5})[:-1],
        "zeros": bytes(30),
        "noise": bytes(rng.choice([b for b in range(256) if b != 10], 30).astype(np.uint8)),
    }
    tail = tails[content]
    for length in range(1, len(tail) + 1):
        folder = tmp_path / f"{length}"
        folder.mkdir()
        written(folder, 4)
        with open(folder / "log-000000000001.jsonl", "ab") as file:
            file.write(tail[:length])
        assert numbers(folder) == [1, 2, 3, 4]
        goes_on(folder, 4)


def test_a_torn_tail_in_a_file_just_begun_is_cut(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logs, "LARGEST_FILE", 1)
    written(tmp_path, 3)
    for tail in (b"", b"0123", encoded(4, {"i": 4})[:-1]):
        (tmp_path / "log-000000000004.jsonl").write_bytes(tail)
        assert numbers(tmp_path) == [1, 2, 3]
    goes_on(tmp_path, 3)
    assert len(files_of(tmp_path)) == 4


@pytest.mark.parametrize("begun", [b"", b"1234 torn"], ids=["empty", "torn"])
def test_a_file_just_begun_hides_nothing_from_those_who_know_the_last_record(
    begun: bytes, tmp_path: Path
) -> None:
    """A snapshot may hold exactly the records before a file that was begun when the end came."""
    written(tmp_path, 3)
    (tmp_path / f"log-{4:012d}.jsonl").write_bytes(begun)
    assert numbers(tmp_path, 3) == []
    assert numbers(tmp_path, 2) == [3]
    goes_on(tmp_path, 3)


def test_any_flipped_bit_is_refused_wherever_it_is(tmp_path: Path) -> None:
    """In the last line too: it was acknowledged."""
    lines = written(tmp_path, 5)
    path = tmp_path / "log-000000000001.jsonl"
    whole = path.read_bytes()
    for at in range(len(whole)):
        record = whole[:at].count(b"\n") + 1
        begins = sum(map(len, lines[: record - 1]))
        for bit in range(8):
            damaged = bytearray(whole)
            damaged[at] ^= 1 << bit
            path.write_bytes(damaged)
            what = f"record {record}, which begins at byte {begins}, is damaged"
            with pytest.raises(DamagedFile, match=what):
                list(read(tmp_path))


def test_a_whole_line_of_noise_at_the_end_is_refused(tmp_path: Path) -> None:
    written(tmp_path, 4)
    with open(tmp_path / "log-000000000001.jsonl", "ab") as file:
        file.write(b"noise\n")
    with pytest.raises(DamagedFile, match=r"log-000000000001.jsonl: record 5, .* is damaged"):
        list(read(tmp_path))


def test_a_torn_line_before_another_file_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file is complete before the next one is begun."""
    monkeypatch.setattr(logs, "LARGEST_FILE", 1)
    written(tmp_path, 2)
    (tmp_path / "log-000000000003.jsonl").touch()
    second = tmp_path / "log-000000000002.jsonl"
    second.write_bytes(second.read_bytes()[:-3])
    with pytest.raises(DamagedFile, match="record 2, which begins at byte 0, is damaged"):
        list(read(tmp_path))


def test_a_record_out_of_place_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "log-000000000001.jsonl"
    for order in ([1, 3], [2], [1, 1], [1, 2, 4, 3]):
        path.write_bytes(b"".join(encoded(i, {"i": i}) for i in order))
        with pytest.raises(DamagedFile, match=r"is missing: found record \d"):
            list(read(tmp_path))


def test_a_foreign_line_between_sound_ones_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "log-000000000001.jsonl"
    path.write_bytes(encoded(1, {"i": 1}) + b"hello\n" + encoded(2, {"i": 2}))
    with pytest.raises(DamagedFile, match=r"record 2, .* is damaged"):
        list(read(tmp_path))


def test_a_sound_line_that_is_no_json_is_refused(tmp_path: Path) -> None:
    line = encoded(1, {})
    text = b"1 {"
    assert line[9:-1] == b"1 {}"
    crc = f"{zlib.crc32(text):08x}".encode()
    (tmp_path / "log-000000000001.jsonl").write_bytes(crc + b" " + text + b"\n")
    with pytest.raises(DamagedFile, match="is not JSON"):
        list(read(tmp_path))


@pytest.fixture
def rotated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Sixty records in several files."""
    monkeypatch.setattr(logs, "LARGEST_FILE", 200)
    written(tmp_path, 30)
    written(tmp_path, 30, first=31)
    assert len(files_of(tmp_path)) > 5
    return tmp_path


def test_a_log_of_many_files_is_read_from_anywhere(rotated: Path) -> None:
    for after in range(61):
        assert numbers(rotated, after) == [*range(after + 1, 61)]
    for begins, path in files_of(rotated).items():
        found = parse_line(path.read_bytes().splitlines(keepends=True)[0])
        assert found is not None
        assert found[0] == begins
        assert path.stat().st_size < 200 + len(encoded(60, {"i": 60}))


def test_a_missing_file_is_noticed_if_its_records_are_needed(rotated: Path) -> None:
    begins = list(files_of(rotated))
    for i in range(len(begins) - 1):
        path, until = files_of(rotated)[begins[i]], begins[i + 1]
        content = path.read_bytes()
        path.unlink()
        for after in range(until - 1):
            with pytest.raises(DamagedFile):
                list(read(rotated, after))
        assert numbers(rotated, until - 1) == [*range(until, 61)]
        path.write_bytes(content)


def test_a_log_that_ends_before_what_is_known_to_be_written_is_refused(rotated: Path) -> None:
    with pytest.raises(DamagedFile, match="ends with record 60, but 61 were written"):
        list(read(rotated, 61))
    with pytest.raises(DamagedFile, match="ends before record 61"):
        Log(rotated, number=61)
    for path in files_of(rotated).values():
        path.unlink()
    with pytest.raises(DamagedFile, match="ends with record 0, but 5 were written"):
        list(read(rotated, 5))


def test_a_log_is_not_opened_before_its_end(rotated: Path) -> None:
    with pytest.raises(DamagedFile, match="records follow number 30"):
        Log(rotated, number=30)
    assert numbers(rotated) == [*range(1, 61)]


def test_a_file_that_another_process_has_changed_is_not_written_to(tmp_path: Path) -> None:
    def appended(path: Path) -> None:
        path.write_bytes(path.read_bytes() + encoded(2, {"i": 2}))

    def truncated(path: Path) -> None:
        path.write_bytes(b"")

    changes: list[Callable[[Path], None]] = [appended, truncated, Path.unlink]
    for i, change in enumerate(changes):
        folder = tmp_path / f"{i}"
        folder.mkdir()
        log = Log(folder, number=0)
        log.commit(log.append({"i": 1}))
        path = folder / "log-000000000001.jsonl"
        change(path)
        after = path.read_bytes() if path.exists() else None
        for _ in range(2):
            with pytest.raises(LogFailed, match="changed or deleted by another process"):
                log.commit(log.append({"i": 2}))
        with pytest.raises(LogFailed):
            log.close()
        assert (path.read_bytes() if path.exists() else None) == after


def test_nothing_is_written_where_this_process_may_not(tmp_path: Path) -> None:
    def never() -> None:
        raise LogFailed("not you")

    log = Log(tmp_path, number=0, may_write=never)
    with pytest.raises(LogFailed, match="not you"):
        log.commit(log.append({"i": 1}))
    assert numbers(tmp_path) == []


def test_the_files_of_a_log_are_for_their_owner_alone(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        written(tmp_path, 1)
    finally:
        os.umask(before)
    assert (tmp_path / "log-000000000001.jsonl").stat().st_mode & 0o777 == 0o600


def test_what_sixteen_threads_were_promised_is_on_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logs, "LARGEST_FILE", 4000)
    log, missing = Log(tmp_path, number=0), []

    def work(who: int) -> None:
        for i in range(40):
            number = log.append({"who": who, "i": i})
            log.commit(number)
            line = encoded(number, {"who": who, "i": i})
            if not any(line in path.read_bytes() for path in files_of(tmp_path).values()):
                missing.append((who, i))

    threads = [threading.Thread(target=work, args=(who,)) for who in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    log.close()
    assert not missing
    records = [record for _, record in read(tmp_path)]
    assert len(records) == 16 * 40
    for who in range(16):
        assert [r["i"] for r in records if r["who"] == who] == [*range(40)]


def test_those_who_wait_for_the_disk_are_served_by_one_sync(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, syncs, go_on = Log(tmp_path, number=0), [], threading.Event()
    first_sync = threading.Event()

    def slow(file: int) -> None:
        syncs.append(file)
        first_sync.set()
        assert go_on.wait(60)

    monkeypatch.setattr(os, "fdatasync", slow)
    first = threading.Thread(target=lambda: log.commit(log.append({"i": 1})))
    first.start()
    assert first_sync.wait(60)
    others = [threading.Thread(target=log.commit, args=(log.append({}),)) for _ in range(15)]
    for thread in others:
        thread.start()
    go_on.set()
    for thread in (first, *others):
        thread.join()
    assert len(syncs) == 2


def test_without_sync_only_settling_and_a_new_file_sync(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    syncs: list[int] = []
    monkeypatch.setattr(os, "fdatasync", syncs.append)
    log = Log(tmp_path, number=0, sync=False)
    for i in range(1, 4):
        log.commit(log.append({"i": i}))
    assert not syncs
    log.sync_up_to(3)
    assert len(syncs) == 1
    monkeypatch.setattr(logs, "LARGEST_FILE", 1)
    log.commit(log.append({"i": 4}))
    assert len(syncs) == 2
    assert numbers(tmp_path) == [1, 2, 3, 4]
    log.close()
