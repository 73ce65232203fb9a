"""Agents are compiled before their runs, in several processes."""

from __future__ import annotations

import json
import subprocess
import threading
from pathlib import Path
from typing import Any

import pytest

import switchmdp as sm
from switchmdp.compiled import is_on_disk
from switchmdp.experiments import check, chunks, create, execute
from switchmdp.experiments.execute import compile_agents, worker_command
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
    """Replaces a worker process; records the requested agents, or fails to start."""

    made: list[_Helper]

    def __init__(self, folder: Path, trust: bool, *, works: bool) -> None:
        self.folder, self.trust, self.works, self.closed = folder, trust, works, False
        self.compiled: list[int] = []
        self.made.append(self)

    def __call__(self, request: str) -> None:
        if not self.works:
            raise OSError
        self.compiled.append(int(request.removeprefix(chunks.COMPILE)))

    def close(self) -> None:
        self.closed = True


def test_agents_on_disk_are_not_compiled_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, plan = _opened(tmp_path)
    for a in (0, 1):
        chunks.compile_agent(plan, a)
    calls: list[tuple[Any, ...]] = []
    monkeypatch.setattr(chunks, "compile_agent", lambda *arguments: calls.append(arguments))
    monkeypatch.setattr(execute, "_ProcessWorker", lambda *arguments: calls.append(arguments))
    compile_agents(store, plan, 2, threading.Event())
    assert calls == []


@pytest.mark.parametrize("works", [True, False])
def test_one_process_per_agent_compiles_and_is_ended(
    works: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, plan = _opened(tmp_path)
    _Helper.made = []
    here: list[int] = []
    monkeypatch.setattr(chunks, "is_on_disk", lambda function, agent: False)
    monkeypatch.setattr(chunks, "compile_agent", lambda plan, a: here.append(a))
    monkeypatch.setattr(
        execute, "_ProcessWorker", lambda folder, trust: _Helper(folder, trust, works=works)
    )
    compile_agents(store, plan, 16, threading.Event())  # two classes: one is compiled elsewhere
    (helper,) = _Helper.made
    assert (helper.folder, helper.trust, helper.closed) == (tmp_path, False, True)
    assert here[-2:] == [0, 1], "all are loaded, or compiled if the other process could not"
    # A helper that can't be started may have taken one agent, which is compiled in the end.
    first = len(here[:-2]) + len(helper.compiled)
    assert first == 3 or (first == 2 and not works)
    compile_agents(store, plan, 1, threading.Event())
    assert len(_Helper.made) == 1


def test_a_request_to_stop_ends_compiling_after_the_current_agent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, plan = _opened(tmp_path)
    stop, here = threading.Event(), []

    def compile_and_stop(plan: Any, a: int) -> None:
        here.append(a)
        stop.set()

    monkeypatch.setattr(chunks, "is_on_disk", lambda function, agent: False)
    monkeypatch.setattr(chunks, "compile_agent", compile_and_stop)
    compile_agents(store, plan, 1, stop)
    assert here == [0]


def test_another_process_compiles_the_requested_agents(tmp_path: Path) -> None:
    store, _ = _opened(tmp_path)
    with subprocess.Popen(
        worker_command(store.path, False), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write("compile 1\n")
        process.stdin.flush()
        reply = json.loads(process.stdout.readline())
        assert (reply["chunk"], reply["error"]) == ("compile 1", "")
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
