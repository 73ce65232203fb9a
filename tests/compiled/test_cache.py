"""Machine code on disk: reused, never stale, and harmless when the disk fails."""

from __future__ import annotations

import hashlib
import os
import pickle
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from switchmdp.compiled import JIT

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
COMPILING = "compiling Counter for this machine"


class User:
    """A user's folder of modules, a cache of its own, and processes that use both."""

    def __init__(self, root: Path) -> None:
        self.code, self.elsewhere, self.cache = (root / x for x in ("code", "elsewhere", "cache"))
        self.code.mkdir()
        self.elsewhere.mkdir()
        (self.code / "counting.py").write_text(COUNTER)
        (self.code / "beside.py").write_text(BESIDE)

    def python(self, script: str = COUNT) -> tuple[str, str]:
        """The output and the error output of a new process."""
        path = [str(self.code), str(self.elsewhere), os.environ.get("PYTHONPATH", "")]
        environment = os.environ | {
            "SWITCHMDP_CACHE": str(self.cache),
            "PYTHONPATH": os.pathsep.join(filter(None, path)),
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

    def editing(self) -> str:
        """A statement that edits the counter while a process runs."""
        path = str(self.code / "counting.py")
        edited = "p.write_text(p.read_text().replace('1.0 *', '3.0 *'))"
        return f"from pathlib import Path; p = Path({path!r}); {edited}"

    def stored(self) -> list[Path]:
        """The files that hold the counter's machine code."""
        return sorted(self.cache.glob("*/Counter.run.*"))


@pytest.fixture
def user(tmp_path: Path) -> User:
    return User(tmp_path)


@needs_machine_code
def test_a_second_process_finds_the_code_of_the_first_in_a_private_folder(user: User) -> None:
    result, stderr = user.python()
    assert result == "20.0"
    assert COMPILING in stderr
    (file,) = user.stored()
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    assert user.python() == ("20.0", "")
    assert user.stored() == [file]


@needs_machine_code
def test_loading_code_marks_its_version_as_used(user: User) -> None:
    user.python()
    (version,) = user.cache.iterdir()
    os.utime(version, (10_000, 10_000))
    assert user.python() == ("20.0", "")
    assert version.stat().st_mtime > 10_000


@needs_machine_code
def test_a_closed_pipe_does_not_stop_compilation(user: User) -> None:
    """As in `switchmdp run ... 2>&1 | head`, where nothing reads the message about compiling."""
    closed = "import os; r, w = os.pipe(); os.close(r); os.dup2(w, 2); "
    assert user.python(closed + COUNT) == ("20.0", "")
    assert user.stored()


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
def test_code_edited_after_its_import_is_not_stored_for_the_next_process(user: User) -> None:
    script = f"import counting; {user.editing()}; print(counting.count(10))"
    assert user.python(script)[0] == "20.0"
    assert user.python()[0] == "60.0"


@needs_machine_code
def test_a_reloaded_module_runs_its_new_code(user: User) -> None:
    script = f"import counting, importlib; counting.count(1); {user.editing()}"
    script += "; importlib.reload(counting); print(counting.count(10))"
    assert user.python(script)[0] == "60.0"


MADE = """
from switchmdp.compiled import compiled, freeze, machine, pack, thaw, unpack
def make(k):
    @compiled
    class Made:
        total: float
        def __init__(self):
            self.total = 0.0
        def add(self):
            self.total += k
    return Made()
def run(state):
    made = thaw(state)
    made.add()
    return freeze(made)
def total(k):
    made = make(k)
    unpack(made, machine(run, made)(pack(made)))
    return made.total
"""


@needs_machine_code
def test_classes_made_by_one_function_keep_their_own_code(user: User) -> None:
    (user.code / "making.py").write_text(MADE)
    assert user.python("from making import total; print(total(1.0), total(2.0))")[0] == "1.0 2.0"


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
        result, stderr = user.python()
        assert result == "20.0", kind
        assert COMPILING in stderr, kind
        assert ("Warning" in stderr) == ("right checksum" in kind), stderr
        assert file.read_bytes()[:32] == hashlib.sha256(file.read_bytes()[32:]).digest(), kind
    assert user.python() == ("20.0", "")
    assert user.stored() == [file]


@needs_machine_code
def test_an_unwritable_folder_costs_one_warning(user: User) -> None:
    user.cache.write_text("a file where the folder should be")
    result, stderr = user.python(f"{COUNT}; import switchmdp; switchmdp.MDP([[[1.0]]], [[0.5]])")
    assert result == "20.0"
    assert stderr.count("Warning") == 1
    assert "can't be kept" in stderr


class Planted:
    """A pickle that creates a file when it is loaded."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def __reduce__(self) -> Any:
        return Path.touch, (self.file,)


def let_others_write(path: Path) -> None:
    path.chmod(0o777)


def make_a_link(path: Path) -> None:
    path.rename(path.with_name("moved"))
    path.symlink_to(path.with_name("moved"))


EXPOSURES: dict[str, tuple[int, Callable[[Path], None]]] = {
    "anybody may write to the folder": (1, let_others_write),
    "anybody may write to the cache": (2, let_others_write),
    "the file is a link": (0, make_a_link),
}


@needs_machine_code
@pytest.mark.parametrize("exposure", EXPOSURES)
def test_files_that_others_may_have_written_are_not_loaded(
    exposure: str, user: User, tmp_path: Path
) -> None:
    level, expose = EXPOSURES[exposure]
    user.python()
    (file,) = user.stored()
    file.write_bytes(signed(pickle.dumps(Planted(tmp_path / "loaded"))))
    expose((file, file.parent, user.cache)[level])
    result, stderr = user.python()
    assert result == "20.0"
    assert COMPILING in stderr
    assert stderr.count("Warning") == 1
    assert not (tmp_path / "loaded").exists()


@needs_machine_code
def test_a_planted_file_in_a_private_cache_would_be_loaded(user: User, tmp_path: Path) -> None:
    """Otherwise the test above could not fail."""
    user.python()
    user.stored()[0].write_bytes(signed(pickle.dumps(Planted(tmp_path / "loaded"))))
    user.python()
    assert (tmp_path / "loaded").exists()


@needs_machine_code
def test_a_class_in_a_script_works_without_stored_code(user: User) -> None:
    (user.code / "script.py").write_text(COUNTER + "\nprint(count(10))\n")
    done = subprocess.run(
        [sys.executable, str(user.code / "script.py")],
        env=os.environ | {"SWITCHMDP_CACHE": str(user.cache)},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout.strip() == "20.0"
    assert COMPILING in done.stderr
    assert user.stored() == []


def test_without_machine_code_the_same_source_runs_interpreted() -> None:
    script = "from switchmdp.compiled import JIT, jit; f = lambda: 0; print(JIT, jit(f) is f)"
    done = subprocess.run(
        [sys.executable, "-c", script],
        env=os.environ | {"NUMBA_DISABLE_JIT": "1"}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout.split() == ["False", "True"]
