"""Files that are written completely or not at all, and arrays in checksummed npz files.

A file is written under a temporary name in the same folder, synced, and renamed (`replacing`,
`save_bytes`). Arrays are stored in npz files without pickle: a zip of plain `.npy` arrays and a
`header.json` with the kind of file, the version of the format, the caller's fields and a SHA-256
over the name, type, shape and bytes of every array. The same content gives the same bytes. The same
format can be written to any stream (`write_arrays`), such as a column of a database.

A checksum shows that a file is complete, not who wrote it. Before any entry is read, its size and
number are checked: entries are stored, not compressed, follow each other without gaps or overlaps,
and fill the file together with their directory. So reading costs no more than the size of the file,
and bytes before, between or after the entries are detected.
"""

from __future__ import annotations

import hashlib
import io
import json
import math
import os
import struct
import uuid
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, Literal

import numpy as np
from numpy.typing import NDArray

from switchmdp.errors import DamagedFile, InvalidParameter

FORMAT = 1
MOST_ENTRIES = 10_000
LARGEST_DIRECTORY = 4 << 20  # bytes of the zip's directory at its end, names included
_EPOCH = (1980, 1, 1, 0, 0, 0)
# The records of a zip file that say where its parts are (APPNOTE.TXT 4.3.7, 4.3.14 to 4.3.16).
_LOCAL = struct.Struct("<4s22xHH")  # signature, lengths of the name and of the extra field
_END = struct.Struct("<4sHHHHLLH")  # …, entries, size and offset of the directory, comment
_END_64 = struct.Struct("<4sQ12xQQQQ")  # the same with 64 bits, where 32 are too few
_LOCATOR_64 = struct.Struct("<4s16x")
Arrays = dict[str, NDArray[Any]]


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """A file to write to. It replaces the path when the block ends without an error.

    Parameters
    ----------
    path
        The file to replace.

    Yields
    ------
    BinaryIO
        The temporary file.

    Raises
    ------
    InvalidParameter
        If the path is empty or a root, and so names no file.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with replacing(Path(folder, "file")) as file:
    ...         _ = file.write(b"whole")
    ...     Path(folder, "file").read_bytes()
    b'whole'
    """
    target = Path(path)
    if not target.name:
        raise InvalidParameter("path", path, "the name of a file")
    temporary = target.with_name(f".{target.name}.{uuid.uuid4().hex[:12]}")
    try:
        with _opened_for(target, temporary) as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, target)
    finally:
        temporary.unlink(missing_ok=True)
    sync_folder(target.parent)


def _opened_for(target: Path, temporary: Path) -> BinaryIO:
    """A new file. An error names the target, not the temporary file."""
    try:
        return open(temporary, "xb")
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(target)) from None


def save_bytes(path: str | os.PathLike[str], content: bytes) -> None:
    """Write a file that is either complete or not there.

    Parameters
    ----------
    path
        The file.
    content
        Its content.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_bytes(Path(folder, "file"), b"whole")
    ...     Path(folder, "file").read_bytes()
    b'whole'
    """
    with replacing(path) as file:
        file.write(content)


def save_arrays(
    path: str | os.PathLike[str], kind: str, fields: Mapping[str, Any], arrays: Mapping[str, Any]
) -> None:
    """Write arrays and JSON fields to a file that is either complete or not there.

    Parameters
    ----------
    path
        The file.
    kind
        The kind of file, which `load_arrays` checks.
    fields
        Plain data for the header.
    arrays
        The arrays, by name.
    """
    with replacing(path) as file:
        write_arrays(file, kind, fields, arrays)


def write_arrays(
    file: BinaryIO, kind: str, fields: Mapping[str, Any], arrays: Mapping[str, Any]
) -> None:
    """Write arrays and JSON fields to a binary stream.

    Parameters
    ----------
    file
        The stream.
    kind
        The kind of file, which `read_arrays` checks.
    fields
        Plain data for the header.
    arrays
        The arrays, by name.

    Examples
    --------
    >>> stream = io.BytesIO()
    >>> write_arrays(stream, "example", {"n": 1}, {"a": np.arange(2)})
    >>> read_arrays(stream, "example", "a stream")
    ({'n': 1}, {'a': array([0, 1])})
    """
    content = {name: np.asarray(array, order="C") for name, array in arrays.items()}
    if any(array.dtype.hasobject for array in content.values()):
        raise TypeError("arrays of Python objects are never stored")
    header = {
        "kind": kind, "format": FORMAT, "fields": dict(fields), "sha256": _digest(content),
    }  # fmt: skip
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        text = json.dumps(header, sort_keys=True, allow_nan=False)
        archive.writestr(zipfile.ZipInfo("header.json", _EPOCH), text)
        for name, array in sorted(content.items()):
            entry = zipfile.ZipInfo(f"{name}.npy", _EPOCH)
            with archive.open(entry, "w", force_zip64=True) as stream:
                np.lib.format.write_array(stream, array, allow_pickle=False)


def load_arrays(path: str | os.PathLike[str], kind: str) -> tuple[dict[str, Any], Arrays]:
    """Read the fields and arrays of a file, and check every byte.

    Parameters
    ----------
    path
        The file.
    kind
        The kind of file that is expected.

    Returns
    -------
    tuple[dict[str, Any], Arrays]
        The fields and the arrays.

    Raises
    ------
    DamagedFile
        If the file is incomplete, altered, or of another kind.
    FileNotFoundError
        If there is no file.
    """
    try:
        with open(path, "rb") as file:
            return read_arrays(file, kind, path)
    except (FileNotFoundError, PermissionError):
        raise
    except OSError as error:
        raise DamagedFile(f"{path} cannot be read: {error}") from None


def read_arrays(file: BinaryIO, kind: str, name: object) -> tuple[dict[str, Any], Arrays]:
    """Read the fields and arrays from a stream, and check every byte.

    Parameters
    ----------
    file
        The stream.
    kind
        The kind of file that is expected.
    name
        The name of the stream in error messages.

    Returns
    -------
    tuple[dict[str, Any], Arrays]
        The fields and the arrays.

    Raises
    ------
    DamagedFile
        If the content is incomplete, altered, or of another kind.
    """
    try:
        start = _start_of_directory(file)
        with zipfile.ZipFile(file) as archive:
            _must_fill_the_file(file, archive.infolist(), start)
            header = json.loads(archive.read("header.json"))
            if header["kind"] != kind:
                raise DamagedFile(f"{name} holds {header['kind']!r}, not {kind!r}")
            if header["format"] != FORMAT:
                raise DamagedFile(f"{name} has format {header['format']!r}, not {FORMAT}")
            entries = [entry for entry in archive.namelist() if entry != "header.json"]
            arrays = {_array_name(entry): _array(archive.read(entry)) for entry in entries}
            fields, digest = dict(header["fields"]), header["sha256"]
    except DamagedFile:
        raise
    except Exception as error:  # whatever a damaged archive makes its readers raise
        # A system error, such as "Invalid argument" for a seek in a truncated file, is no help.
        detail = "" if isinstance(error, OSError) else f": {error}"
        raise DamagedFile(f"{name} is not a complete {kind!r} file{detail}") from None
    if digest != _digest(arrays):
        raise DamagedFile(f"{name}: the arrays do not match their checksum")
    return fields, arrays


def _start_of_directory(file: BinaryIO) -> int:
    """The position of the zip's directory, which must be at the end of the file."""
    size = file.seek(0, os.SEEK_END)
    end = size - _END.size
    record: tuple[Any, ...] = _END.unpack(_at(file, end, _END))
    if record[0] != b"PK\5\6" or record[-1]:
        raise ValueError("it does not end with the directory of an archive")
    entries, length, start = map(int, record[4:7])
    wide = end - _LOCATOR_64.size - _END_64.size
    if wide >= 0 and _at(file, end - _LOCATOR_64.size, _LOCATOR_64).startswith(b"PK\6\7"):
        end = wide
        record = _END_64.unpack(_at(file, end, _END_64))
        if record[0] != b"PK\6\6":
            raise ValueError("its 64-bit directory is in the wrong place")
        entries, length, start = map(int, record[3:6])
    if entries > MOST_ENTRIES or length > LARGEST_DIRECTORY:
        raise ValueError(f"{entries} entries, at most {MOST_ENTRIES} are read")
    if start + length != end:
        raise ValueError("bytes that belong to no entry")
    return start


def _must_fill_the_file(file: BinaryIO, entries: list[zipfile.ZipInfo], directory: int) -> None:
    """Reject entries that are compressed, listed twice, overlap or leave gaps."""
    if len(entries) > MOST_ENTRIES:
        raise ValueError(f"{len(entries)} entries, at most {MOST_ENTRIES} are read")
    if len({entry.filename for entry in entries}) < len(entries):
        raise ValueError("an entry is listed twice")
    place = 0
    for entry in sorted(entries, key=lambda entry: entry.header_offset):
        if entry.compress_type != zipfile.ZIP_STORED or entry.file_size != entry.compress_size:
            raise ValueError(f"{entry.filename} is compressed")
        if entry.header_offset != place:
            raise ValueError(f"{entry.filename} does not follow the entry before it")
        _, name, extra = _LOCAL.unpack(_at(file, place, _LOCAL))
        place += _LOCAL.size + name + extra + entry.compress_size
    if place != directory:
        raise ValueError("bytes that belong to no entry")


def _at(file: BinaryIO, place: int, record: struct.Struct) -> bytes:
    file.seek(place)
    return file.read(record.size)


def _array_name(entry: str) -> str:
    if not entry.endswith(".npy"):
        raise ValueError(f"{entry} is not the name of an array")
    return entry.removesuffix(".npy")


def _array(content: bytes) -> NDArray[Any]:
    """An array from its file, whose header must describe exactly the bytes that follow."""
    stream = io.BytesIO(content)
    version = np.lib.format.read_magic(stream)
    if version != (1, 0):
        raise ValueError(f"unknown array format {version}")
    shape, by_columns, dtype = np.lib.format.read_array_header_1_0(stream)
    begin, size = stream.tell(), math.prod(shape) * dtype.itemsize
    if dtype.hasobject or not dtype.itemsize or size != len(content) - begin:
        raise ValueError(f"an array of {dtype} and shape {shape} does not fill its file")
    order: Literal["F", "C"] = "F" if by_columns else "C"
    return np.ndarray(shape, dtype, content, begin, order=order).copy(order)


def _digest(arrays: Mapping[str, NDArray[Any]]) -> str:
    digest = hashlib.sha256()
    for name, array in sorted(arrays.items()):
        digest.update(f"{name}|{array.dtype.str}|{array.shape}|".encode())
        digest.update(array.tobytes())
    return digest.hexdigest()


def sync_folder(folder: Path) -> None:
    """Sync the names in a folder to disk.

    Parameters
    ----------
    folder
        The folder.
    """
    if os.name != "posix":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
