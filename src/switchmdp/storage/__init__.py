"""The only way anything reaches disk: whole or not at all.

Writing goes to a temporary name beside the target, is synced, and is renamed into place
(`replacing`, `save_bytes`). Arrays are kept in npz files, checksummed and free of pickle: a zip of
plain `.npy` arrays and a `header.json` with the kind of file, the format's version, the caller's
fields and a SHA-256 over every array's name, type, shape and bytes. Entries are stored, not
compressed, so that a file can't unpack to more than it weighs. The same content gives the same
bytes. What grows record by record is a log (`storage.log`).
"""

from __future__ import annotations

import hashlib
import io
import json
import math
import os
import uuid
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from switchmdp.errors import DamagedFile

FORMAT = 1
PRIVATE = 0o600  # the permissions of a file for its owner alone
_EPOCH = (1980, 1, 1, 0, 0, 0)
Arrays = dict[str, NDArray[Any]]


@contextmanager
def replacing(path: str | os.PathLike[str], mode: int = 0o666) -> Iterator[BinaryIO]:
    """A file to write in that takes the path's place once the block ends, if nothing was raised.

    `mode` are its permissions, less those that the process's umask takes away.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with replacing(Path(folder, "file")) as file:
    ...         _ = file.write(b"whole")
    ...     Path(folder, "file").read_bytes()
    b'whole'
    """
    target = Path(path)
    temporary = target.with_name(f".{target.name}.{uuid.uuid4().hex[:12]}")
    try:
        with open(temporary, "xb", opener=lambda name, flags: os.open(name, flags, mode)) as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, target)
    finally:
        temporary.unlink(missing_ok=True)
    sync_folder(target.parent)


def save_bytes(path: str | os.PathLike[str], content: bytes, mode: int = 0o666) -> None:
    """Write a file that is either complete or not there.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_bytes(Path(folder, "file"), b"whole")
    ...     Path(folder, "file").read_bytes()
    b'whole'
    """
    with replacing(path, mode) as file:
        file.write(content)


def save_arrays(
    path: str | os.PathLike[str], kind: str, fields: Mapping[str, Any], arrays: Mapping[str, Any],
    mode: int = 0o666,
) -> None:  # fmt: skip
    """Write arrays and JSON fields to a file that is either complete or not there."""
    content = {name: np.asarray(array, order="C") for name, array in arrays.items()}
    if any(array.dtype.hasobject for array in content.values()):
        raise TypeError("arrays of Python objects are never stored")
    header = {
        "kind": kind, "format": FORMAT, "fields": dict(fields), "sha256": _digest(content),
    }  # fmt: skip
    with replacing(path, mode) as file, zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        text = json.dumps(header, sort_keys=True, allow_nan=False)
        archive.writestr(zipfile.ZipInfo("header.json", _EPOCH), text)
        for name, array in sorted(content.items()):
            entry = zipfile.ZipInfo(f"{name}.npy", _EPOCH)
            with archive.open(entry, "w", force_zip64=True) as stream:
                np.lib.format.write_array(stream, array, allow_pickle=False)


def load_arrays(path: str | os.PathLike[str], kind: str) -> tuple[dict[str, Any], Arrays]:
    """Read a file of this kind back: its fields and its arrays, every byte checked."""
    try:
        with zipfile.ZipFile(path) as archive:
            header = json.loads(_read(archive, "header.json"))
            if header["kind"] != kind:
                raise DamagedFile(f"{path} holds {header['kind']!r}, not {kind!r}")
            if header["format"] != FORMAT:
                raise DamagedFile(f"{path} has format {header['format']!r}, known is {FORMAT}")
            names = [name for name in archive.namelist() if name != "header.json"]
            arrays = {name.removesuffix(".npy"): _array(_read(archive, name)) for name in names}
            fields, digest = dict(header["fields"]), header["sha256"]
    except (FileNotFoundError, PermissionError, DamagedFile):
        raise
    except Exception as error:  # whatever a damaged archive makes its readers raise
        raise DamagedFile(f"{path} is not a complete {kind!r} file: {error!r}") from None
    if digest != _digest(arrays):
        raise DamagedFile(f"{path}: the arrays do not match their checksum")
    return fields, arrays


def _read(archive: zipfile.ZipFile, name: str) -> bytes:
    if archive.getinfo(name).compress_type != zipfile.ZIP_STORED:
        raise DamagedFile(f"{archive.filename}: {name} is compressed, which we never do")
    return archive.read(name)


def _array(content: bytes) -> NDArray[Any]:
    """An array from its file, whose header must promise exactly the bytes that follow."""
    stream = io.BytesIO(content)
    version = np.lib.format.read_magic(stream)
    if version != (1, 0):
        raise ValueError(f"unknown array format {version}")
    shape, _, dtype = np.lib.format.read_array_header_1_0(stream)
    if dtype.hasobject or math.prod(shape) * dtype.itemsize != len(content) - stream.tell():
        raise ValueError(f"an array of {dtype} and shape {shape} does not fill its file")
    stream.seek(0)
    return np.lib.format.read_array(stream, allow_pickle=False)


def _digest(arrays: Mapping[str, NDArray[Any]]) -> str:
    digest = hashlib.sha256()
    for name, array in sorted(arrays.items()):
        digest.update(f"{name}|{array.dtype.str}|{array.shape}|".encode())
        digest.update(array.tobytes())
    return digest.hexdigest()


def sync_folder(folder: Path) -> None:
    """See to it that the names in a folder are on disk too."""
    if os.name != "posix":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
