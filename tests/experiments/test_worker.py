"""Agents are compiled before their runs, half of them by a second process."""

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


class _Recorded:
    """Replaces the second process."""

    def __init__(self, command: list[str], **rest: Any) -> None:
        self.command, self.ended = command, False

    def wait(self) -> None:
        assert not self.ended

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


def test_a_second_process_compiles_half_of_the_agents_and_is_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, plan = _opened(tmp_path)
    started: list[_Recorded] = []

    def start(command: list[str], **rest: Any) -> _Recorded:
        started.append(_Recorded(command, **rest))
        return started[0]

    here: list[list[int]] = []
    monkeypatch.setattr(worker, "is_on_disk", lambda function, agent: False)
    monkeypatch.setattr(worker, "compile_these", lambda plan, agents: here.append(agents))
    monkeypatch.setattr(subprocess, "Popen", start)
    worker.compile_agents(store, plan, 2)
    assert here == [[0], [1]]
    assert started[0].command[-3:] == [str(tmp_path), "", "1"]
    assert started[0].ended
    worker.compile_agents(store, plan, 1)
    assert len(started) == 1


def test_machine_code_is_on_disk_after_it_was_compiled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = sm.agents.Random(5, 3)
    sm.simulate(agent, sm.problems.random_mdp(), 1)
    assert is_on_disk(loop.run, agent)
    monkeypatch.setenv("SWITCHMDP_CACHE", str(tmp_path))
    assert not is_on_disk(loop.run, agent)
