"""Files are complete or not there, come back exactly, and never bring anything but plain arrays."""

from __future__ import annotations

import hashlib
import io
import json
import os
import struct
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from switchmdp.errors import DamagedFile
from switchmdp.storage import load_arrays, replacing, save_arrays, save_bytes

ARRAYS: dict[str, Any] = {
    "integers": np.arange(6, dtype=np.int64).reshape(2, 3),
    "bytes": np.arange(3, dtype=np.uint8),
    "floats": np.array([0.1, -0.0, np.nan, np.inf, 5e-324]),
    "masks": np.array([True, False]),
    "empty": np.empty((0, 4)),
    "words": np.array(["a", "bcd"]),
    "big-endian": np.arange(3, dtype=">i4"),
}
FIELDS: dict[str, Any] = {"name": "ünï", "number": 0.1, "nothing": None, "list": [1, [2, "x"]]}


def save(path: Path, **arrays: Any) -> None:
    save_arrays(path, "test", FIELDS, arrays or ARRAYS)


def test_fields_and_arrays_come_back_exactly(tmp_path: Path) -> None:
    save(tmp_path / "file")
    fields, arrays = load_arrays(tmp_path / "file", "test")
    assert fields == FIELDS
    assert set(arrays) == set(ARRAYS)
    for name, array in ARRAYS.items():
        assert arrays[name].dtype == array.dtype
        assert arrays[name].shape == array.shape
        assert arrays[name].tobytes() == array.tobytes()


def test_a_single_number_comes_back_as_a_single_number(tmp_path: Path) -> None:
    save(tmp_path / "file", x=np.array(3.0))
    assert load_arrays(tmp_path / "file", "test")[1]["x"].shape == ()


@pytest.mark.parametrize("layout", [np.asfortranarray, lambda a: a.T, lambda a: a[::2, ::-1]])
def test_the_layout_in_memory_does_not_matter(layout: Any, tmp_path: Path) -> None:
    array = layout(np.arange(12.0).reshape(4, 3))
    save(tmp_path / "file", x=array)
    assert np.array_equal(load_arrays(tmp_path / "file", "test")[1]["x"], array)


def test_the_same_content_gives_the_same_bytes_in_any_order(tmp_path: Path) -> None:
    save(tmp_path / "a", x=np.arange(3), y=np.ones(2))
    save(tmp_path / "b", y=np.ones(2), x=np.arange(3))
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_numpy_itself_can_read_the_arrays(tmp_path: Path) -> None:
    save(tmp_path / "file.npz", x=np.arange(3))
    with np.load(tmp_path / "file.npz", allow_pickle=False) as arrays:
        assert arrays["x"].tolist() == [0, 1, 2]


def test_a_new_file_replaces_the_old_one_and_leaves_nothing_else(tmp_path: Path) -> None:
    for x in (1, 2):
        save(tmp_path / "file", x=np.array([x]))
    assert load_arrays(tmp_path / "file", "test")[1]["x"].tolist() == [2]
    assert os.listdir(tmp_path) == ["file"]


def fail(*_: Any, **__: Any) -> None:
    raise OSError("no space")


@pytest.mark.parametrize("step", ["os.fsync", "os.replace", "numpy.lib.format.write_array"])
def test_a_failed_write_leaves_the_old_file_and_no_temporary(
    step: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save(tmp_path / "file", x=np.array([1]))
    with monkeypatch.context() as patched:
        patched.setattr(step, fail)
        with pytest.raises(OSError, match="no space"):
            save(tmp_path / "file", x=np.array([2]))
    assert os.listdir(tmp_path) == ["file"]
    assert load_arrays(tmp_path / "file", "test")[1]["x"].tolist() == [1]


@pytest.mark.parametrize("step", ["os.fsync", "os.replace"])
def test_a_first_write_that_fails_leaves_nothing(
    step: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(step, fail)
        with pytest.raises(OSError, match="no space"):
            save(tmp_path / "file")
    assert os.listdir(tmp_path) == []


def test_content_reaches_the_disk_before_the_name_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    order: list[str] = []
    sync, replace = os.fsync, os.replace

    def noted_sync(handle: int) -> None:
        order.append("sync")
        sync(handle)

    def noted_replace(source: Any, target: Any) -> None:
        order.append("rename")
        replace(source, target)

    monkeypatch.setattr(os, "fsync", noted_sync)
    monkeypatch.setattr(os, "replace", noted_replace)
    save(tmp_path / "file")
    assert order[:2] == ["sync", "rename"]


def test_bytes_are_written_as_they_are_and_replace_the_old_ones(tmp_path: Path) -> None:
    for content in (b"first, and longer", b"", b"\x00\r\n\xff"):
        save_bytes(tmp_path / "file", content)
        assert (tmp_path / "file").read_bytes() == content
        assert os.listdir(tmp_path) == ["file"]


@pytest.mark.parametrize("step", ["os.fsync", "os.replace"])
def test_bytes_that_cannot_be_written_leave_the_old_ones(
    step: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save_bytes(tmp_path / "file", b"old")
    with monkeypatch.context() as patched:
        patched.setattr(step, fail)
        with pytest.raises(OSError, match="no space"):
            save_bytes(tmp_path / "file", b"new")
    assert os.listdir(tmp_path) == ["file"]
    assert (tmp_path / "file").read_bytes() == b"old"


def test_the_old_file_is_there_until_the_new_one_is_complete(tmp_path: Path) -> None:
    save_bytes(tmp_path / "file", b"old")
    with replacing(tmp_path / "file") as file:
        file.write(b"new")
        file.flush()
        assert (tmp_path / "file").read_bytes() == b"old"
        (temporary,) = set(os.listdir(tmp_path)) - {"file"}
        assert temporary.startswith(".file.")
    assert (tmp_path / "file").read_bytes() == b"new"
    assert os.listdir(tmp_path) == ["file"]


@pytest.mark.parametrize("interruption", [ValueError, KeyboardInterrupt])
def test_a_writer_that_is_interrupted_leaves_the_old_file(
    interruption: type[BaseException], tmp_path: Path
) -> None:
    save_bytes(tmp_path / "file", b"old")

    def interrupted() -> None:
        with replacing(tmp_path / "file") as file:
            file.write(b"half")
            raise interruption

    with pytest.raises(interruption):
        interrupted()
    assert os.listdir(tmp_path) == ["file"]
    assert (tmp_path / "file").read_bytes() == b"old"


def test_nothing_is_written_where_there_is_no_folder(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        save_bytes(tmp_path / "nowhere" / "file", b"content")
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("objects", [np.array([{}]), [None], np.zeros(1, [("a", object)])])
def test_arrays_of_python_objects_are_never_written(objects: Any, tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="objects"):
        save(tmp_path / "file", x=objects)
    assert os.listdir(tmp_path) == []


def test_fields_that_json_cannot_say_are_rejected_and_leave_nothing(tmp_path: Path) -> None:
    for value in (float("nan"), object()):
        with pytest.raises((TypeError, ValueError)):
            save_arrays(tmp_path / "file", "test", {"x": value}, {})
    assert os.listdir(tmp_path) == []


def header(**changes: Any) -> bytes:
    """The header of a file without arrays."""
    nothing = hashlib.sha256().hexdigest()
    known = {"kind": "test", "format": 1, "fields": {}, "sha256": nothing}
    return json.dumps(known | changes).encode()


def npy(array: Any, *, allow_pickle: bool = False) -> bytes:
    buffer = io.BytesIO()
    np.lib.format.write_array(buffer, array, allow_pickle=allow_pickle)
    return buffer.getvalue()


def zipped(path: Path, entries: dict[str, bytes], method: int = zipfile.ZIP_STORED) -> None:
    with zipfile.ZipFile(path, "w", method) as archive:
        for name, content in entries.items():
            archive.writestr(name, content)


def claimed(shape: tuple[int, ...]) -> bytes:
    """An array's header that promises more than follows."""
    buffer = io.BytesIO()
    description = {"shape": shape, "fortran_order": False, "descr": "<f8"}
    np.lib.format.write_array_header_1_0(buffer, description)
    return buffer.getvalue()


def without(key: str) -> bytes:
    return json.dumps({k: v for k, v in json.loads(header()).items() if k != key}).encode()


FOREIGN: dict[str, dict[str, bytes]] = {
    "no header": {"x.npy": npy(np.zeros(1))},
    "an empty archive": {},
    "an empty header": {"header.json": b""},
    "a header that is no JSON": {"header.json": b"{"},
    "a header that is no text": {"header.json": b"\xff\xfe\x00"},
    "a header that is a list": {"header.json": b"[]"},
    "a header that is null": {"header.json": b"null"},
    "a very deep header": {"header.json": b"[" * 100_000},
    "no kind": {"header.json": without("kind")},
    "no format": {"header.json": without("format")},
    "no fields": {"header.json": without("fields")},
    "no checksum": {"header.json": without("sha256")},
    "another kind": {"header.json": header(kind="other")},
    "a later format": {"header.json": header(format=2)},
    "a wrong checksum": {"header.json": header(), "x.npy": npy(np.zeros(1))},
    "a pickled array": {"header.json": header(), "x.npy": npy(np.array([{}]), allow_pickle=True)},
    "an entry that is no array": {"header.json": header(), "x.npy": b"nothing"},
    "an empty entry": {"header.json": header(), "x.npy": b""},
    "an array cut short": {"header.json": header(), "x.npy": npy(np.zeros(9))[:-1]},
    "an array that promises too much": {"header.json": header(), "x.npy": claimed((10**14,))},
    "an array of negative length": {"header.json": header(), "x.npy": claimed((-1,))},
}


@pytest.mark.parametrize("fault", FOREIGN)
def test_archives_that_are_not_ours_are_rejected(fault: str, tmp_path: Path) -> None:
    zipped(tmp_path / "file", FOREIGN[fault])
    with pytest.raises(DamagedFile):
        load_arrays(tmp_path / "file", "test")


def test_the_archive_that_those_were_made_from_is_accepted(tmp_path: Path) -> None:
    zipped(tmp_path / "file", {"header.json": header()})
    assert load_arrays(tmp_path / "file", "test") == ({}, {})


def test_a_file_of_numpys_own_is_rejected(tmp_path: Path) -> None:
    np.savez(tmp_path / "file.npz", x=np.zeros(3))
    with pytest.raises(DamagedFile):
        load_arrays(tmp_path / "file.npz", "test")


@pytest.mark.parametrize("method", [zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_compressed_content_is_rejected(method: int, tmp_path: Path) -> None:
    save(tmp_path / "file")
    with zipfile.ZipFile(tmp_path / "file") as archive:
        entries = {name: archive.read(name) for name in archive.namelist()}
    zipped(tmp_path / "file", entries)
    load_arrays(tmp_path / "file", "test")
    zipped(tmp_path / "file", entries, method)
    with pytest.raises(DamagedFile, match="compressed"):
        load_arrays(tmp_path / "file", "test")


def test_another_kind_is_rejected_by_name(tmp_path: Path) -> None:
    save(tmp_path / "file")
    with pytest.raises(DamagedFile, match="holds 'test', not 'record'"):
        load_arrays(tmp_path / "file", "record")


def test_a_missing_file_and_a_folder_are_rejected(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        load_arrays(tmp_path / "nowhere", "test")
    with pytest.raises(DamagedFile):
        load_arrays(tmp_path, "test")


def test_an_array_that_was_renamed_or_added_is_noticed(tmp_path: Path) -> None:
    save(tmp_path / "file", x=np.zeros(3))
    with zipfile.ZipFile(tmp_path / "file") as archive:
        entries = {name: archive.read(name) for name in archive.namelist()}
    renamed = {name.replace("x", "y"): content for name, content in entries.items()}
    for forged in (renamed, entries | {"z.npy": npy(np.zeros(1))}):
        zipped(tmp_path / "file", forged)
        with pytest.raises(DamagedFile, match="checksum"):
            load_arrays(tmp_path / "file", "test")


def crowded(names: list[str], content: bytes) -> bytes:
    """A zip whose directory lists one stored entry under all of these names."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        archive.writestr("header.json", header())
        archive.writestr("x.npy", content)
    whole = stream.getvalue()
    start = whole.index(b"PK\x01\x02")
    first = whole[start : whole.index(b"PK\x01\x02", start + 1)]
    one = whole[start + len(first) : whole.rindex(b"PK\x05\x06")]
    lines = [one[:28] + struct.pack("<H", len(n)) + one[30:46] + n.encode() for n in names]
    directory = first + b"".join(lines)
    count = min(len(names) + 1, 2**16 - 1)
    end = struct.pack("<4sHHHHLLH", b"PK\5\6", 0, 0, count, count, len(directory), start, 0)
    return whole[:start] + directory + end


def test_an_entry_listed_twice_or_under_two_names_is_rejected(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(crowded(["x.npy"], npy(np.zeros(1))))
    with pytest.raises(DamagedFile, match="checksum"):  # it can be read, up to the checksum
        load_arrays(tmp_path / "file", "test")
    (tmp_path / "file").write_bytes(crowded(["x.npy", "x.npy"], npy(np.zeros(1))))
    with pytest.raises(DamagedFile, match="listed twice"):
        load_arrays(tmp_path / "file", "test")
    (tmp_path / "file").write_bytes(crowded(["x.npy", "y.npy"], npy(np.zeros(1))))
    with pytest.raises(DamagedFile, match="does not follow"):
        load_arrays(tmp_path / "file", "test")


def test_a_zip_that_lists_one_entry_40000_times_is_rejected_without_reading_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(zipfile.ZipFile, "read", lambda *_: pytest.fail("an entry was read"))
    content = npy(np.zeros(1 << 17))
    names = [f"x{i}.npy" for i in range(40_000)]
    for forged in (crowded(["x.npy"] * 40_000, content), crowded(names, content)):
        (tmp_path / "file").write_bytes(forged)
        with pytest.raises(DamagedFile, match="40001 entries, at most"):
            load_arrays(tmp_path / "file", "test")


def test_a_directory_that_says_that_it_is_short_is_rejected(tmp_path: Path) -> None:
    """The number of entries that a zip states is not the number that its readers find."""
    forged = crowded(["x.npy"] * 40_000, npy(np.zeros(1)))
    end = len(forged) - 22
    stated = forged[: end + 8] + struct.pack("<HH", 2, 2) + forged[end + 12 :]
    (tmp_path / "file").write_bytes(stated)
    with pytest.raises(DamagedFile, match="40001 entries, at most"):
        load_arrays(tmp_path / "file", "test")


def test_bytes_before_between_and_after_the_entries_are_noticed(tmp_path: Path) -> None:
    save(tmp_path / "file")
    content = (tmp_path / "file").read_bytes()
    directory = content.index(b"PK\x01\x02")
    end = content.rindex(b"PK\x05\x06")
    commented = content[:-2] + b"\x04\x00more"
    longer = content[:directory] + b"more" + content[directory:]
    moved = longer[:-6] + struct.pack("<LH", directory + 4, 0)
    changed = {
        "after": content + b"x", "long after": content + bytes(70_000),
        "a second file after": content + content, "before": b"x" + content,
        "before the directory": longer, "before the directory, told": moved,
        "after the directory": content[:end] + b"more" + content[end:], "comment": commented,
    }  # fmt: skip
    for where, forged in changed.items():
        (tmp_path / "file").write_bytes(forged)
        with pytest.raises(DamagedFile):
            pytest.fail(f"{where}: {load_arrays(tmp_path / 'file', 'test')}")


def test_entries_that_are_no_arrays_by_their_name_are_rejected(tmp_path: Path) -> None:
    save(tmp_path / "file", x=np.zeros(3))
    with zipfile.ZipFile(tmp_path / "file") as archive:
        entries = {name: archive.read(name) for name in archive.namelist()}
    zipped(tmp_path / "file", entries | {"x": npy(np.ones(3))})
    with pytest.raises(DamagedFile, match="not the name of an array"):
        load_arrays(tmp_path / "file", "test")


def test_arrays_of_elements_without_size_are_rejected(tmp_path: Path) -> None:
    """A file of a few bytes would come back as an array of any length."""
    save(tmp_path / "file", x=np.zeros(5, "V0"))
    with pytest.raises(DamagedFile, match="does not fill its file"):
        load_arrays(tmp_path / "file", "test")


def test_files_with_a_64_bit_directory_come_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As written where a file is larger than 2 GiB."""
    with monkeypatch.context() as patched:
        patched.setattr(zipfile, "ZIP64_LIMIT", 100)
        save(tmp_path / "file")
    content = (tmp_path / "file").read_bytes()
    assert b"PK\x06\x06" in content
    assert load_arrays(tmp_path / "file", "test")[0] == FIELDS
    for forged in (content + b"x", b"x" + content):
        (tmp_path / "file").write_bytes(forged)
        with pytest.raises(DamagedFile):
            load_arrays(tmp_path / "file", "test")
