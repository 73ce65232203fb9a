"""Machine code on disk: found again, never stale, and never in the way when the disk fails."""

from __future__ import annotations

import hashlib
import os
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from switchmdp.compiled import JIT, cache
from switchmdp.compiled.cache import cache_folder, digest_for, digest_of_sources

needs_machine_code = pytest.mark.skipif(not JIT, reason="needs machine code")

COUNTER = """
from __future__ import annotations
from switchmdp.compiled import compiled, freeze, machine, pack, thaw, unpack
from beside import step

@compiled
class Counter:
    total: float
    def __init__(self):
        self.total = 0.0
    def add(self):
        self.total += 1.0 * step()

def run(state, n):
    counter = thaw(state)
    for _ in range(n):
        counter.add()
    return freeze(counter)

def count(n):
    counter = Counter()
    unpack(counter, machine(run, counter)(pack(counter), n))
    return counter.total
"""
BESIDE = """
from switchmdp.compiled import jit
@jit
def step():
    return 2.0
"""
COUNT = "import counting; print(counting.count(10))"
COMPILING = "compiling Counter.run"


class User:
    """A user's folder of modules, a cache of its own, and processes that use both."""

    def __init__(self, root: Path) -> None:
        self.code, self.elsewhere, self.cache = (root / x for x in ("code", "elsewhere", "cache"))
        self.code.mkdir()
        self.elsewhere.mkdir()
        (self.code / "counting.py").write_text(COUNTER)
        (self.code / "beside.py").write_text(BESIDE)

    def python(self, script: str = COUNT) -> tuple[str, str]:
        """What a new process prints, and what it says on the side."""
        environment = os.environ | {
            "SWITCHMDP_CACHE": str(self.cache),
            "PYTHONPATH": f"{self.code}{os.pathsep}{self.elsewhere}",
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        done = subprocess.run(
            [sys.executable, "-W", "always", "-c", script],
            env=environment, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stdout.strip(), done.stderr

    def edit(self, name: str, old: str, new: str) -> None:
        path = self.code / name if (self.code / name).exists() else self.elsewhere / name
        assert old in path.read_text()
        path.write_text(path.read_text().replace(old, new))

    def stored(self) -> list[Path]:
        """The files that hold the counter's machine code."""
        return sorted(self.cache.glob("*/Counter.run.*"))


@pytest.fixture
def user(tmp_path: Path) -> User:
    return User(tmp_path)


@needs_machine_code
def test_a_second_process_finds_the_code_of_the_first_in_a_private_folder(user: User) -> None:
    result, said = user.python()
    assert result == "20.0"
    assert COMPILING in said
    (file,) = user.stored()
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    assert user.python() == ("20.0", "")
    assert user.stored() == [file]


@needs_machine_code
def test_after_an_edit_the_new_code_runs(user: User) -> None:
    assert user.python()[0] == "20.0"
    user.edit("counting.py", "1.0 *", "3.0 *")
    assert user.python()[0] == "60.0"
    user.edit("beside.py", "2.0", "5.0")
    assert user.python()[0] == "150.0"


@needs_machine_code
def test_after_an_edit_of_a_module_in_another_folder_the_new_code_runs(user: User) -> None:
    (user.code / "beside.py").rename(user.elsewhere / "beside.py")
    assert user.python()[0] == "20.0"
    user.edit("beside.py", "2.0", "5.0")
    assert user.python()[0] == "50.0"


@needs_machine_code
def test_an_edit_after_the_import_does_not_leave_old_code_for_the_next_process(user: User) -> None:
    path = user.code / "counting.py"
    edit = f"from pathlib import Path; p = Path({str(path)!r})"
    edit += "; p.write_text(p.read_text().replace('1.0 *', '3.0 *'))"
    assert user.python(f"import counting; {edit}; print(counting.count(10))")[0] == "20.0"
    assert user.python()[0] == "60.0"


@needs_machine_code
def test_a_reloaded_module_runs_its_new_code(user: User) -> None:
    path = user.code / "counting.py"
    edit = f"from pathlib import Path; p = Path({str(path)!r})"
    edit += "; p.write_text(p.read_text().replace('1.0 *', '3.0 *'))"
    script = f"import counting, importlib; counting.count(1); {edit}"
    assert (
        user.python(f"{script}; importlib.reload(counting); print(counting.count(10))")[0] == "60.0"
    )


def signed(content: bytes) -> bytes:
    return hashlib.sha256(content).digest() + content


DAMAGE: dict[str, Callable[[bytes], bytes]] = {
    "emptied": lambda content: b"",
    "cut in half": lambda content: content[: len(content) // 2],
    "altered": lambda content: content[:-9] + bytes([content[-9] ^ 1]) + content[-8:],
    "replaced, with a right checksum": lambda content: signed(b"no pickle"),
}


@needs_machine_code
def test_damaged_files_are_compiled_again_and_healed(user: User) -> None:
    user.python()
    (file,) = user.stored()
    good = file.read_bytes()
    for kind, damage in DAMAGE.items():
        file.write_bytes(damage(good))
        result, said = user.python()
        assert result == "20.0", kind
        assert COMPILING in said, kind
        assert file.read_bytes()[:32] == hashlib.sha256(file.read_bytes()[32:]).digest(), kind
    assert user.python() == ("20.0", "")
    assert user.stored() == [file]


@needs_machine_code
def test_a_folder_that_cannot_be_written_costs_one_warning_and_nothing_else(user: User) -> None:
    user.cache.write_text("a file where the folder should be")
    result, said = user.python(f"{COUNT}; import switchmdp; switchmdp.MDP([[[1.0]]], [[0.5]])")
    assert result == "20.0"
    assert said.count("Warning") == 1
    assert "can't be kept" in said


@needs_machine_code
@pytest.mark.skipif(not hasattr(os, "getuid") or os.getuid() != 0, reason="only root gives away")
def test_code_in_a_folder_of_another_user_is_not_loaded(user: User) -> None:
    user.python()
    os.chown(user.stored()[0].parent, 12345, 12345)
    result, said = user.python()
    assert result == "20.0"
    assert COMPILING in said


@needs_machine_code
def test_a_class_in_a_script_works_and_is_not_kept(user: User) -> None:
    (user.code / "script.py").write_text(COUNTER + "\nprint(count(10))\n")
    done = subprocess.run(
        [sys.executable, str(user.code / "script.py")],
        env=os.environ | {"SWITCHMDP_CACHE": str(user.cache)},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout.strip() == "20.0"
    assert COMPILING in done.stderr
    assert user.stored() == []


def test_without_machine_code_the_same_source_runs_as_it_is() -> None:
    script = "from switchmdp.compiled import JIT, jit; f = lambda: 0; print(JIT, jit(f) is f)"
    done = subprocess.run(
        [sys.executable, "-c", script],
        env=os.environ | {"NUMBA_DISABLE_JIT": "1"}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout.split() == ["False", "True"]


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SWITCHMDP_CACHE", str(tmp_path / "root"))
    (tmp_path / "root").mkdir()
    return tmp_path / "root"


def make_folder() -> Path:
    return cache._make_private_folder()


def test_the_folder_is_where_the_environment_says(
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
    cache_folder().mkdir(mode=0o755)
    cache_folder().chmod(0o777)
    assert stat.S_IMODE(make_folder().stat().st_mode) == 0o700


def test_old_versions_are_removed_when_a_new_one_comes(root: Path) -> None:
    for age in range(8):
        (root / f"{age:016x}").mkdir()
        os.utime(root / f"{age:016x}", (10_000 - age, 10_000 - age))
    kept = {make_folder().name, *(f"{age:016x}" for age in range(cache.KEPT_VERSIONS - 1))}
    assert set(os.listdir(root)) == kept


def test_folders_that_are_not_ours_are_never_removed(root: Path) -> None:
    names = {f"my_important_da{k}" for k in range(8)}
    for name in names:
        (root / name).mkdir()
    assert set(os.listdir(root)) - {make_folder().name} == names


def test_a_folder_that_another_process_just_made_is_used(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_folder()
    exists: Any = Path.exists
    monkeypatch.setattr(Path, "exists", lambda p, **kw: p.parent != root and exists(p, **kw))
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


def test_code_of_scripts_and_of_modules_without_a_file_has_no_digest() -> None:
    assert digest_for(["switchmdp.memory", "__main__"]) is None
    assert digest_for(["sys"]) is None
    assert digest_for(["switchmdp.memory"]) == digest_for(["switchmdp.mdp", "switchmdp"])
    assert digest_for([__name__]) is not None
