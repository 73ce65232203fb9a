"""The contract: kept by every agent in AGENTS, both with and without machine code; able to fail."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tests.every_agent import PARAMETERS, new_agent

import switchmdp as sm
from switchmdp.agents import AGENTS
from switchmdp.errors import ContractViolation

SHARED = sm.problems.random_switching(4, 3, changes=2, horizon=1500, seed=2, law=sm.Beta(share=0.5))


def maker(name: str) -> Callable[[], Any]:
    return lambda: new_agent(name, SHARED)


@pytest.mark.parametrize("name", AGENTS)
def test_every_agent_keeps_the_contract(name: str) -> None:
    sm.check_agent(maker(name), problem=SHARED, steps=1500, memory_steps=10_000)


def test_every_agent_with_unequal_action_sets_and_many_states_keeps_it() -> None:
    mask = np.ones((70, 2), bool)
    mask[::3, 0] = False
    make: Callable[[], Any] = lambda: sm.agents.SWUCRL(70, 2, window=200, available=mask)  # noqa: E731
    sm.check_agent(make, steps=400, memory_steps=8000)


WITHOUT_JIT = """
import json, sys
import switchmdp as sm
from switchmdp.agents import AGENTS
from switchmdp.compiled import JIT
assert not JIT
problem = sm.problems.random_switching(3, 2, changes=2, horizon=400, seed=2)
parameters = json.loads(sys.argv[1])
for name, cls in AGENTS.items():
    arguments = [problem] if name == "omniscient" else [3, 2]
    make = lambda: cls(*arguments, **parameters.get(name, {}))
    sm.check_agent(make, problem=problem, steps=400, memory_steps=1500)
    record = sm.simulate(make(), problem, 400, seed=1)
    print(name, record.regret[-1].hex())
"""


def test_every_agent_keeps_the_contract_without_machine_code_and_runs_the_same() -> None:
    """The same regret to the last bit, in a process with NUMBA_DISABLE_JIT=1."""
    environment = {**os.environ, "NUMBA_DISABLE_JIT": "1"}
    parameters = {**PARAMETERS, "sw-ucrl": {"window": 100}, "ucrl2-rw": {"period": 90}}
    parameters |= {"oracle": {"change_points": [50]}, "oracle-psrl": {"change_points": [50]}}
    command = [sys.executable, "-c", WITHOUT_JIT, json.dumps(parameters)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = dict(line.split() for line in done.stdout.splitlines())
    problem = sm.problems.random_switching(3, 2, changes=2, horizon=400, seed=2)
    for name in AGENTS:
        cls: Any = AGENTS[name]
        agent = cls(problem) if name == "omniscient" else cls(3, 2, **parameters[name])
        assert sm.simulate(agent, problem, 400, seed=1).regret[-1].hex() == found[name]


class Plain:
    """A plain agent that keeps the contract; the bad ones below differ from it in one thing."""

    n_states, n_actions = 3, 2

    def __init__(self) -> None:
        self.seen = np.zeros((3, 2))

    def act(self, state: int) -> int:
        sm.agents.protocol.check_act(self.pair_keeper(), state)
        return int(self.seen.sum() // 11 % 2)

    def observe(self, state: int, action: int, reward: float, next_state: int) -> None:
        checked = sm.agents.protocol.check_observe(
            self.pair_keeper(), state, action, reward, next_state
        )
        self.learn(*checked)

    def learn(self, state: int, action: int, reward: float, next_state: int) -> None:
        self.seen[state, action] += 1.0

    @staticmethod
    def pair_keeper() -> Any:
        return sm.agents.Random(3, 2)


class Hoards(Plain):
    def __init__(self) -> None:
        super().__init__()
        self.history: list[tuple[int, int, float, int]] = []

    def learn(self, state: int, action: int, reward: float, next_state: int) -> None:
        super().learn(state, action, reward, next_state)
        self.history.append((state, action, reward, next_state))


class TakesAnything(Plain):
    def observe(self, state: Any, action: Any, reward: Any, next_state: Any) -> None:
        pass


class ChangesBeforeItRefuses(Plain):
    def observe(self, state: Any, action: Any, reward: Any, next_state: Any) -> None:
        self.seen += 1.0
        super().observe(state, action, reward, next_state)


class RefusesInItsOwnWay(Plain):
    def act(self, state: Any) -> int:
        return {0: 0, 1: 1, 2: 0}[state]


class IsMoody(Plain):
    mood = 0

    def act(self, state: Any) -> int:
        IsMoody.mood += 1
        return (super().act(state) + IsMoody.mood // 100) % 2


class CanNotBePickled(Plain):
    def __init__(self) -> None:
        super().__init__()
        self.secret = lambda: 0


class IgnoresItsSeed(Plain):
    def reseed(self, seed: Any) -> None:
        pass


class ForgetsInPickles(Plain):
    def __getstate__(self) -> dict[str, Any]:
        return {"seen": self.seen + 1.0}


def test_a_plain_agent_can_keep_the_contract() -> None:
    sm.check_agent(Plain, steps=300, memory_steps=3000)


@pytest.mark.parametrize(
    ("agent", "complaint"),
    [
        (Hoards, "not bounded"),
        (TakesAnything, "is not refused"),
        (ChangesBeforeItRefuses, "has changed"),
        (RefusesInItsOwnWay, "is refused with KeyError"),
        (IsMoody, "two runs with the same seed"),
        (CanNotBePickled, "pickle"),
        (IgnoresItsSeed, "reseeded differently"),
        (ForgetsInPickles, "pickled in the middle"),
        (object, "no verb 'act'"),
    ],
)
def test_a_broken_promise_is_named(agent: Any, complaint: str) -> None:
    with pytest.raises(ContractViolation, match=complaint):
        sm.check_agent(agent, steps=300, memory_steps=3000)


def test_problems_keep_their_contract() -> None:
    sm.check_problem(SHARED)
    sm.check_problem(sm.SwitchingMDP([sm.problems.riverswim()]))
    broken = sm.problems.random_switching(4, 3, changes=2, horizon=1500, seed=2)
    broken.patches.old[0] += 1
    with pytest.raises(ContractViolation, match="patch 0"):
        sm.check_problem(broken)
