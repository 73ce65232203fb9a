"""Truncated, flipped, foreign and hostile files are rejected."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.agents.saving_helpers import aged, same

import switchmdp as sm
from switchmdp import storage
from switchmdp.agents import load
from switchmdp.errors import DamagedFile


@pytest.fixture(scope="module")
def content(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("file") / "agent"
    agent = aged(300)
    assert agent.memory.head
    agent.save(path)
    return path.read_bytes()


def test_truncated_files_are_rejected(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "agent"
    for length in [*range(0, len(content), 50), len(content) - 1]:
        path.write_bytes(content[:length])
        with pytest.raises(DamagedFile):
            load(path)


def test_flipped_bits_are_rejected_or_change_nothing(content: bytes, tmp_path: Path) -> None:
    """Some bits of a zip file have no effect: dates, or the system that wrote it."""
    path = tmp_path / "agent"
    path.write_bytes(content)
    agent = load(path)
    rng = np.random.default_rng(0)
    rejected = 0
    for at, bit in zip(rng.integers(0, len(content), 500), rng.integers(0, 8, 500), strict=True):
        flipped = bytearray(content)
        flipped[at] ^= 1 << int(bit)
        path.write_bytes(bytes(flipped))
        try:
            assert same(load(path), agent)
        except DamagedFile:
            rejected += 1
    assert rejected > 450


def raw(path: Path, header: str, compress: int = zipfile.ZIP_STORED, **entries: bytes) -> None:
    with zipfile.ZipFile(path, "w", compress) as archive:
        archive.writestr("header.json", header)
        for name, entry in entries.items():
            archive.writestr(f"{name}.npy", entry)


def npy(descr: str, shape: str, data: bytes = b"") -> bytes:
    header = f"{{'descr': {descr!r}, 'fortran_order': False, 'shape': {shape}, }}".ljust(117) + "\n"
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header.encode() + data


HEADER = '{"kind": "agent", "format": 1, "fields": {"version": 1, "agent": %s}, "sha256": ""}'
DEEP = '{"class": "Episodic", "fields": {"memory": ' * 3000 + "1" + "}}" * 3000


@pytest.mark.parametrize("header", [
    "", "[]", "null", "{}", "1" * 10_000, "[" * 100_000, "{" * 10, HEADER % ("[" * 100_000),
    HEADER % DEEP, HEADER % "null", HEADER % "[]", HEADER % '"x"', HEADER % "{}", "\0",
])  # fmt: skip
def test_invalid_headers_are_rejected(header: str, tmp_path: Path) -> None:
    raw(tmp_path / "agent", header)
    with pytest.raises(DamagedFile):
        load(tmp_path / "agent")


@pytest.mark.parametrize("entry", [
    npy("|O", "(1,)", b"cos\nsystem\n(S'true'\ntR."), npy("<i8", f"({2**40},)", b"x" * 8),
    npy("<i8", f"({2**70},)"), npy("<i8", "(-1, -1)", b"x" * 8), npy("<i8", "(0,)", b"x"),
    b"", b"\x93NUMPY", b"junk" * 100, npy("<i8", "(__import__('os').getpid(),)"),
])  # fmt: skip
def test_object_arrays_and_arrays_with_missing_data_are_rejected(
    entry: bytes, tmp_path: Path
) -> None:
    raw(tmp_path / "agent", HEADER % "{}", starts=entry)
    with pytest.raises(DamagedFile, match="not a complete 'agent' file"):
        load(tmp_path / "agent")


def test_compressed_entries_are_rejected_without_reading_them(tmp_path: Path) -> None:
    bomb = npy("|u1", f"({10**8},)", bytes(10**8))
    raw(tmp_path / "agent", HEADER % "{}", zipfile.ZIP_DEFLATED, starts=bomb)
    assert (tmp_path / "agent").stat().st_size < 10**6
    with pytest.raises(DamagedFile, match="compressed"):
        load(tmp_path / "agent")


def test_foreign_kinds_versions_folders_and_missing_files_are_rejected(tmp_path: Path) -> None:
    sm.problems.random_switching(3, 2, changes=1, horizon=100).save(tmp_path / "problem")
    with pytest.raises(DamagedFile, match="holds"):
        load(tmp_path / "problem")
    np.savez(tmp_path / "foreign.npz", x=np.zeros(3))
    aged(5).save(tmp_path / "agent")
    fields, arrays = storage.load_arrays(tmp_path / "agent", "agent")
    versions: list[Any] = [0, 4, None, "1", [1], {}]
    for version in versions:
        storage.save_arrays(tmp_path / "v", "agent", fields | {"version": version}, arrays)
        with pytest.raises(DamagedFile, match="has agent format"):
            load(tmp_path / "v")
    (tmp_path / "text").write_text("hello")
    (tmp_path / "folder").mkdir()
    for name in ("foreign.npz", "text", "folder"):
        with pytest.raises(DamagedFile):
            load(tmp_path / name)
    for name in ("missing", "missing/agent"):
        with pytest.raises(FileNotFoundError):
            load(tmp_path / name)
        with pytest.raises(OSError, match=r"folder|agent"):
            aged(5).save(tmp_path / "folder" if name == "missing" else tmp_path / name)
