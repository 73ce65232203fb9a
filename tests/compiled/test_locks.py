"""Of the processes that need the same code, one compiles it and the others wait."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from switchmdp.compiled import JIT, cache

pytestmark = pytest.mark.skipif(not (JIT and cache.HANDLES), reason="nothing to lock")

MODULE = """
import time
from switchmdp.compiled import entry
from numba.core import event

@entry
def twice(x):
    return 2 * x

if __name__ != "__main__":
    with event.install_recorder("numba:compile") as compiled:
        result = twice(21)
    print(result, len(compiled.buffer) > 0)
"""


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SWITCHMDP_CACHE", str(tmp_path / "cache"))
    return tmp_path


def start(root: Path) -> subprocess.Popen[str]:
    (root / "mine.py").write_text(MODULE)
    os.utime(root / "mine.py", (1e9, 1e9))  # a module edited just now would not be kept
    path = os.pathsep.join([str(root), os.environ.get("PYTHONPATH", "")])
    environment = os.environ | {"PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-c", "import mine"]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)


def test_a_second_process_waits_for_the_code_of_the_first(root: Path) -> None:
    with cache._lock("_mine.twice"):
        both = [start(root), start(root)]
        time.sleep(3.0)  # both have found nothing by now, and wait
        assert not list(cache.cache_folder().glob("_mine.*"))
    printed = sorted(process.communicate()[0].strip() for process in both)
    assert printed == ["42 False", "42 True"]
    assert [p.name.rpartition(".")[0] for p in cache.cache_folder().iterdir()] == ["_mine.twice"]


def test_a_process_stops_waiting_after_a_while(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "LONGEST_WAIT", 0.05)
    with cache._lock("some.code"):
        began = time.monotonic()
        with cache._lock("some.code"), cache._lock("other.code"):
            assert time.monotonic() - began < 10.0
        assert (cache.cache_folder() / "lock.some.code").exists()
    assert not (cache.cache_folder() / "lock.some.code").exists()


def test_without_a_private_folder_there_is_no_lock(root: Path) -> None:
    (root / "cache").mkdir()
    (root / "cache").chmod(0o777)
    with cache._lock("some.code"), cache._lock("some.code"):
        assert list((root / "cache").iterdir()) == []
