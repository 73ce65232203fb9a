"""Agents are compiled before their runs, in several processes."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

import switchmdp as sm
from switchmdp.compiled import is_on_disk
from switchmdp.experiments import check, create, worker
from switchmdp.experiments.spec import parse
from switchmdp.experiments.store import Store
from switchmdp.simulation import loop


def _opened(folder: Path) -> tuple[Store, Any]:
    agents = {"A": {"agent": "ucrl2"}, "B": {"agent": "random"}, "C": {"agent": "ucrl2"}}
    data = {
        "title": "x", "horizon": 100, "n_problems": 1, "agents": agents,
        "problems": {"p": {"problem": "random-switching"}},
    }  # fmt: skip
    plan = check(parse(data))
    return create(folder, plan, "", None), plan


class _Helper:
    """Replaces another process: compiles what it is told, or ends at once."""

    def __init__(self, command: list[str], works: bool, **rest: Any) -> None:
        self.command, self.works, self.ended = command, works, False
        self.compiled: list[str] = []
        self.stdin = self.stdout = self

    def write(self, agent: str) -> None:
        self.compiled += [agent.strip()] * self.works

    def flush(self) -> None:
        if not self.works:
            raise BrokenPipeError

    def readline(self) -> str:
        return self.compiled[-1]

    def kill(self) -> None:
        self.ended = True

    def communicate(self) -> None:
        assert self.ended


def test_agents_on_disk_are_not_compiled_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, plan = _opened(tmp_path)
    worker.compile_these(plan, [0, 1])
    calls: list[tuple[Any, ...]] = []
    monkeypatch.setattr(worker, "compile_these", lambda *arguments: calls.append(arguments))
    monkeypatch.setattr(subprocess, "Popen", lambda *arguments, **rest: calls.append(arguments))
    worker.compile_agents(store, plan, 2)
    assert calls == []


@pytest.mark.parametrize("works", [True, False])
def test_as_many_processes_as_agents_compile_and_are_ended(
    works: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, plan = _opened(tmp_path)
    started: list[_Helper] = []

    def start(command: list[str], **rest: Any) -> _Helper:
        started.append(_Helper(command, works, **rest))
        return started[-1]

    here: list[int] = []
    monkeypatch.setattr(worker, "is_on_disk", lambda function, agent: False)
    monkeypatch.setattr(worker, "compile_these", lambda plan, agents: here.extend(agents))
    monkeypatch.setattr(subprocess, "Popen", start)
    worker.compile_agents(store, plan, 16)  # two classes: one is compiled here, one there
    (helper,) = started
    assert helper.command[-2:] == [str(tmp_path), ""]
    assert helper.ended
    assert here[-2:] == [0, 1], "all are loaded, or compiled if the other process could not"
    # A helper that has ended may have taken one agent with it, which is compiled in the end.
    first = len(here[:-2]) + len(helper.compiled)
    assert first == 3 or (first == 2 and not works)
    assert {*here, *map(int, helper.compiled)} >= {0, 1}
    worker.compile_agents(store, plan, 1)
    assert len(started) == 1


def test_another_process_compiles_what_it_is_told(tmp_path: Path) -> None:
    store, _ = _opened(tmp_path)
    command = worker.program("compile_main", store.path, False)
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write("1\n")
        process.stdin.flush()
        assert process.stdout.readline() == "1\n"
        process.stdin.close()
        assert process.wait(60) == 0


def test_machine_code_is_on_disk_after_it_was_compiled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = sm.agents.Random(5, 3)
    sm.simulate(agent, sm.problems.random_mdp(), 1)
    assert is_on_disk(loop.run, agent)
    monkeypatch.setenv("SWITCHMDP_CACHE", str(tmp_path))
    assert not is_on_disk(loop.run, agent)
