"""The cache folder: its place, its owner, what it may remove, and its digests."""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path
from typing import Any

import pytest

from switchmdp.compiled import cache
from switchmdp.compiled.cache import (
    PACKAGE,
    PLAIN,
    NotOurs,
    cache_folder,
    digest_for,
    digest_of_sources,
)


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SWITCHMDP_CACHE", str(tmp_path / "root"))
    (tmp_path / "root").mkdir()
    return tmp_path / "root"


def make_folder() -> Path:
    return cache._make_private_folder()


def test_the_environment_determines_the_cache_folder(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert cache_folder().parent == root
    monkeypatch.delenv("SWITCHMDP_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_folder().parent == tmp_path / "switchmdp"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_folder().parent == tmp_path / ".cache" / "switchmdp"


def test_a_folder_that_others_may_read_is_made_private(root: Path) -> None:
    cache_folder().mkdir()
    cache_folder().chmod(0o755)
    assert stat.S_IMODE(make_folder().stat().st_mode) == 0o700


def test_new_folders_are_private_whatever_the_umask(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SWITCHMDP_CACHE", str(tmp_path / "deep" / "root"))
    before = os.umask(0)
    try:
        folder = make_folder()
    finally:
        os.umask(before)
    assert {stat.S_IMODE(p.stat().st_mode) for p in (folder, folder.parent)} == {0o700}


@pytest.mark.parametrize("mode", [0o777, 0o770, 0o720, 0o702, 0o1777])
def test_a_folder_that_others_may_write_to_is_rejected_and_unchanged(root: Path, mode: int) -> None:
    """Its files may be from others, and would be loaded if the folder were only made private."""
    cache_folder().mkdir()
    for folder in (cache_folder(), root):
        folder.chmod(mode)
        with pytest.raises(NotOurs, match="chmod go-w"):
            make_folder()
        assert stat.S_IMODE(folder.stat().st_mode) == mode
        folder.chmod(0o700)
    assert make_folder() == cache_folder()


def test_a_folder_of_another_user_is_rejected(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_folder()
    monkeypatch.setattr(os, "getuid", lambda: 12345)
    with pytest.raises(NotOurs, match="belongs to another user"):
        make_folder()
    with pytest.raises(NotOurs, match="belongs to another user"):
        cache._read(cache_folder() / "file")


def test_files_that_others_may_have_written_are_not_read(root: Path) -> None:
    file = make_folder() / "file"
    file.write_bytes(b"code")
    file.chmod(0o600)
    assert cache._read(file) == b"code"
    for exposed in (file, file.parent, root):
        private = stat.S_IMODE(exposed.stat().st_mode)
        for mode in (private | 0o020, private | 0o002):
            exposed.chmod(mode)
            with pytest.raises(NotOurs, match=f"others may write to {exposed}"):
                cache._read(file)
        exposed.chmod(private | 0o055)
        assert cache._read(file) == b"code"


@pytest.mark.skipif(os.getuid() != 0, reason="only root gives away")
def test_files_and_folders_of_another_user_are_not_read(root: Path) -> None:
    file = make_folder() / "file"
    file.write_bytes(b"code")
    for path in (file, file.parent, root):
        os.chown(path, 12345, 12345)
        with pytest.raises(NotOurs, match=f"{path} belongs to another user"):
            cache._read(file)
        os.chown(path, 0, 0)
    assert cache._read(file) == b"code"


def test_links_in_the_cache_are_not_followed(root: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").write_bytes(b"planted")
    (make_folder() / "file").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match="symbolic links"):
        cache._read(cache_folder() / "file")
    cache_folder().rename(tmp_path / "moved")
    cache_folder().symlink_to(tmp_path / "moved")
    for call in (make_folder, lambda: cache._read(cache_folder() / "file")):
        with pytest.raises(OSError, match=r"Not a directory|symbolic links"):
            call()


def test_old_versions_are_removed_when_a_new_one_comes(root: Path) -> None:
    for age in range(2 * cache.KEPT_VERSIONS):
        (root / f"{age:016x}").mkdir()
        os.utime(root / f"{age:016x}", (10_000 - age, 10_000 - age))
    kept = {make_folder().name, *(f"{age:016x}" for age in range(cache.KEPT_VERSIONS - 1))}
    assert set(os.listdir(root)) == kept


def test_the_folder_is_marked_as_used_once_per_process(root: Path) -> None:
    folder = make_folder()
    os.utime(folder, (10_000, 10_000))
    cache._mark_as_used(folder)
    assert folder.stat().st_mtime > 10_000
    os.utime(folder, (10_000, 10_000))
    cache._mark_as_used(folder)
    assert folder.stat().st_mtime == 10_000


def test_a_cache_that_cannot_be_marked_as_used_still_works(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*arguments: Any) -> None:
        raise PermissionError(30, "Read-only file system")

    folder = make_folder()
    before = folder.stat().st_mtime_ns
    monkeypatch.setattr(os, "utime", refuse)
    cache._mark_as_used(folder)
    assert folder.stat().st_mtime_ns == before
    os.rmdir(folder)
    cache._mark_as_used.cache_clear()
    cache._mark_as_used(folder)  # nor does one that another process has removed matter


def test_folders_of_others_are_never_removed(root: Path) -> None:
    names = {f"my_important_da{k}" for k in range(8)}
    for name in names:
        (root / name).mkdir()
    folder = make_folder()
    assert set(os.listdir(root)) == names | {folder.name}


def test_a_folder_that_another_process_just_made_is_used(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mkdir: Any = Path.mkdir

    def second(path: Path, *arguments: Any, **options: Any) -> None:
        if path == cache_folder():
            mkdir(path, *arguments, **options)
        mkdir(path, *arguments, **options)

    monkeypatch.setattr(Path, "mkdir", second)
    assert make_folder() == cache_folder()


def test_a_digest_depends_on_every_file_of_a_folder(tmp_path: Path) -> None:
    digests = []
    for name, content in [("a.py", "x = 1"), ("b.py", ""), ("b.py", "y"), ("sub/c.py", "")]:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(content)
        digest_of_sources.cache_clear()
        digests.append(digest_of_sources(tmp_path))
    assert len(set(digests)) == 4


def test_a_digest_depends_on_the_names_of_files(tmp_path: Path) -> None:
    for folder, name in [("one", "a.py"), ("two", "b.py")]:
        (tmp_path / folder).mkdir()
        (tmp_path / folder / name).write_text("x = 1")
    assert digest_of_sources(tmp_path / "one") != digest_of_sources(tmp_path / "two")


def test_code_of_scripts_and_of_modules_without_a_file_has_no_digest(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(cache, "_users_files", lambda: {Path(__file__)})
    assert digest_for(["switchmdp.memory", "__main__"]) is None
    assert digest_for(["sys"]) is None
    assert digest_for(["switchmdp.memory"]) == digest_for(["switchmdp.mdp", "switchmdp"])
    assert digest_for([__name__]) is not None


def test_the_layers_outside_the_digest_have_nothing_to_compile() -> None:
    for name in PLAIN:
        place = PACKAGE / name
        for path in place.rglob("*.py") if place.is_dir() else [place]:
            assert not re.search(r"@(jit|entry|inlined|compiled|specialised)", path.read_text()), (
                path
            )
