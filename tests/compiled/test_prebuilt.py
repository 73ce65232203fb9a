"""Prebuilt machine code of a wheel is used if it fits; otherwise code is compiled as usual."""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys
from importlib.metadata import distribution
from pathlib import Path

import pytest
from tools import build_hook, prebuild

import switchmdp as sm
from switchmdp.agents import AGENTS
from switchmdp.compiled import JIT, cache, is_on_disk
from switchmdp.simulation import loop

ROOT = Path(__file__).resolve().parents[2]
needs_machine_code = pytest.mark.skipif(not JIT, reason="without machine code none is built")

RUN = """
import hashlib
from numba.core import event
with event.install_recorder("numba:compile") as compiled:
    import switchmdp as sm
    problem = sm.problems.random_switching(4, 3, changes=2, horizon=3000, seed=5)
    record = sm.simulate(sm.agents.Random(4, 3, seed=1), problem, 3000, seed=2)
names = [e.data["dispatcher"].__name__ for _, e in compiled.buffer if e.is_start]
print(hashlib.sha256(record.regret.tobytes() + record.pseudo_regret.tobytes()).hexdigest(), *names)
"""
OTHER_NUMBA = """
import numba
from numba.core import event
numba.__version__ = "0.0"
with event.install_recorder("numba:compile") as compiled:
    import switchmdp as sm
    sm.clairvoyant_reward(sm.MDP([[[0, 1]], [[1, 0]]], [[1], [0]]), 10)
print(len(compiled.buffer) > 0)
"""


class Described:
    """An installed package whose file WHEEL has this content."""

    def __init__(self, content: str | None) -> None:
        self.content = content

    def read_text(self, name: str) -> str | None:
        assert name == "WHEEL"
        return self.content


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with an installed wheel that contains the machine code of one agent."""
    scratch = tmp_path_factory.mktemp("wheel")
    prebuilt, wheels, target = scratch / "prebuilt", scratch / "wheels", scratch / "installed"
    python = [sys.executable, "-P"]
    quiet = ["-q", "--disable-pip-version-check", "--no-deps", "--no-index"]
    environment = os.environ | {
        "PYTHONPATH": str(ROOT / "src"), "SWITCHMDP_PREBUILT": str(prebuilt)
    }  # fmt: skip
    for command in (
        [*python, str(ROOT / "tools" / "prebuild.py"), str(prebuilt), "--only", "random"],
        [
            *python,
            "-m",
            "pip",
            "wheel",
            *quiet,
            "--no-build-isolation",
            "-w",
            str(wheels),
            str(ROOT),
        ],
    ):
        subprocess.run(command, env=environment, check=True, capture_output=True)
    (wheel,) = wheels.iterdir()
    assert "none-any" not in wheel.name
    install = [*python, "-m", "pip", "install", *quiet, "--target", str(target), str(wheel)]
    subprocess.run(install, check=True, capture_output=True)
    return target


def python(script: str, installed: Path, cache_root: Path) -> tuple[str, str]:
    """The output and the error output of a process with an empty cache."""
    environment = os.environ | {
        "PYTHONPATH": str(installed), "SWITCHMDP_CACHE": str(cache_root), "SWITCHMDP_NATIVE": "",
    }  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-P", "-W", "always", "-c", script],
        env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout.strip(), done.stderr


@needs_machine_code
def test_an_installed_wheel_compiles_nothing_and_gives_the_same_results(
    installed: Path, tmp_path: Path
) -> None:
    problem = sm.problems.random_switching(4, 3, changes=2, horizon=3000, seed=5)
    record = sm.simulate(sm.agents.Random(4, 3, seed=1), problem, 3000, seed=2)
    expected = hashlib.sha256(record.regret.tobytes() + record.pseudo_regret.tobytes())
    assert python(RUN, installed, tmp_path / "cache") == (expected.hexdigest(), "")
    assert not (tmp_path / "cache").exists()


@needs_machine_code
def test_the_wheel_has_the_tag_of_numbas_wheel(installed: Path) -> None:
    (described,) = installed.glob("switchmdp-*.dist-info/WHEEL")
    numba = distribution("numba").read_text("WHEEL") or ""
    tags = [re.findall("^Tag: (.*)$", text, re.M) for text in (described.read_text(), numba)]
    assert set(tags[0]) == set(tags[1])
    assert not any("-linux_" in tag for tag in tags[0])


def test_the_tags_of_a_wheel_are_joined(monkeypatch: pytest.MonkeyPatch) -> None:
    described = "Root-Is-Purelib: false\nTag: cp311-cp311-a\nTag: cp311-cp311-b\n"
    monkeypatch.setattr(build_hook, "distribution", lambda name: Described(described))
    assert build_hook.tag_of_wheel("numba") == "cp311-cp311-a.b"


@pytest.mark.parametrize("described", [None, "", "Root-Is-Purelib: false\n"])
def test_without_a_wheel_the_tag_is_unknown(
    described: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(build_hook, "distribution", lambda name: Described(described))
    assert build_hook.tag_of_wheel("numba") is None


@needs_machine_code
def test_another_version_of_numba_compiles_without_warnings(
    installed: Path, tmp_path: Path
) -> None:
    assert python(OTHER_NUMBA, installed, tmp_path / "cache") == ("True", "")


@needs_machine_code
def test_damaged_prebuilt_code_is_neither_used_nor_removed(installed: Path, tmp_path: Path) -> None:
    (file,) = installed.glob("switchmdp/prebuilt/*/_model._cumulate.*")
    good = file.read_bytes()
    file.write_bytes(good[:-9] + bytes([good[-9] ^ 1]) + good[-8:])
    damaged = file.read_bytes()
    result, stderr = python(RUN, installed, tmp_path / "cache")
    assert result.split()[1:] == ["_cumulate"]
    assert stderr == ""
    assert file.read_bytes() == damaged
    file.write_bytes(good)


def test_code_fits_one_set_of_versions_and_sources(monkeypatch: pytest.MonkeyPatch) -> None:
    names = {cache.prebuilt_folder().name}
    for k in range(4):
        other = (*cache.versions()[:k], "0.0", *cache.versions()[k + 1 :])
        monkeypatch.setattr(cache, "versions", lambda other=other: other)
        names.add(cache.prebuilt_folder().name)
        monkeypatch.undo()
    monkeypatch.setattr(cache, "digest_of_sources", lambda folder: "another")
    names.add(cache.prebuilt_folder().name)
    assert len(names) == 6


def test_prebuilt_code_counts_as_code_on_disk_unless_native_code_is_wanted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SWITCHMDP_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(cache, "PREBUILT", tmp_path / "prebuilt")
    agent = sm.agents.Random(5, 3)
    assert not is_on_disk(loop.run, agent)
    cache.prebuilt_folder().mkdir(parents=True)
    (cache.prebuilt_folder() / "Random.run.0123").touch()
    assert is_on_disk(loop.run, agent) == JIT
    monkeypatch.setenv("SWITCHMDP_NATIVE", "1")
    assert not is_on_disk(loop.run, agent)


@pytest.mark.parametrize("name", AGENTS)
def test_every_registered_agent_can_be_prebuilt(name: str) -> None:
    problem = sm.problems.random_switching(3, 2, changes=2, horizon=100)
    for choices in prebuild._choices(name):
        agent = prebuild._new_agent(name, problem, choices)
        assert type(agent) is AGENTS[name]
