"""Agents called from Python: machine code plans and learns as in a simulation."""

from __future__ import annotations

import copy
import os
import signal
import subprocess
import sys
from types import FrameType
from typing import Any

import numpy as np
import pytest
from tests.every_agent import new_agent

import switchmdp as sm
from switchmdp.agents import AGENTS, policy_agent
from switchmdp.agents.policy_agent import PolicyAgent
from switchmdp.compiled import JIT, interpreting
from switchmdp.concurrency import delayed_signals
from switchmdp.randomness import run_seeds
from switchmdp.restarts import Periodic

# The first four differ from other agents in nothing but the restart rule, which "oracle-ucrl2" has
# as well; the last has the components of "borl", with a larger grid.
SAME_CODE = ("oracle-ucrl2b", "oracle-ucrl3", "oracle-kl-ucrl", "oracle-psrl", "borl-full-grid")
FOLLOWERS = [
    name
    for name, agent in AGENTS.items()
    if issubclass(agent, PolicyAgent) and name not in SAME_CODE
]
HORIZON = 1200

needs_machine_code = pytest.mark.skipif(not JIT, reason="machine code is switched off")


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compile at the first call."""
    monkeypatch.setattr(policy_agent, "PATIENT_SECONDS", 0.0)


@pytest.fixture
def without_machine_code(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if no agent had been compiled yet."""
    monkeypatch.setattr(policy_agent, "is_on_disk", lambda function, agent: False)
    monkeypatch.setattr(policy_agent, "is_loaded", lambda function, agent: False)
    monkeypatch.setattr(policy_agent, "_on_disk", {})
    monkeypatch.setattr(policy_agent, "_seconds", {})


def code_of(agent: Any) -> Any:
    known = policy_agent._states.get(id(agent))
    return None if known is None else known.code


def problem_with_two_changes() -> sm.SwitchingMDP:
    return sm.problems.random_switching(4, 2, changes=2, horizon=HORIZON, seed=7)


@needs_machine_code
@pytest.mark.usefixtures("at_once")
@pytest.mark.parametrize("name", FOLLOWERS)
def test_machine_code_called_step_by_step_equals_a_simulation(name: str) -> None:
    problem = problem_with_two_changes()
    simulated, agent = new_agent(name, problem), new_agent(name, problem)
    record = sm.simulate(simulated, problem, HORIZON, seed=5, trajectory=True)
    assert record.trajectory is not None
    if hasattr(agent, "reseed"):
        agent.reseed(run_seeds(5)[2])
    states = [*record.trajectory.states.tolist(), record.final_state]
    actions = []
    for t, reward in enumerate(record.trajectory.rewards.tolist()):
        actions.append(agent.act(states[t]))
        agent.observe(states[t], actions[-1], reward, states[t + 1])
    assert actions == record.trajectory.actions.tolist()
    assert (agent.t, agent.episode) == (simulated.t, simulated.episode)
    assert agent.policy.tolist() == simulated.policy.tolist()
    assert code_of(agent) is not None


def script(agent: Any, problem: sm.SwitchingMDP, seed: int) -> list[Any]:
    """The results of calls in an order that does not occur in simulations."""
    rng = np.random.default_rng(seed)
    answers: list[Any] = []
    for _ in range(400):
        draw, state = rng.random(), int(rng.integers(4))
        action, target, reward = int(rng.integers(2)), int(rng.integers(4)), float(rng.random())
        if draw < 0.45:
            answers.append(agent.act(state))
        elif draw < 0.6:
            action = agent.act(state)
            answers.append(action)
            agent.observe(state, action, reward, target)
        elif draw < 0.8:
            agent.observe(state, action, reward, target)
        elif draw < 0.9:
            choice = agent.decide(state, replan=bool(rng.random() < 0.5))
            agent.spend_visit(state, choice.action)
            answers.append(choice)
            if rng.random() < 0.8:
                answers.append(agent.credit(state, choice.action, reward, target))
        elif draw < 0.95:
            answers.append(int(getattr(agent, "visits", np.zeros(1)).sum()))
        elif draw < 0.97:
            agent.start_over()
        else:
            record = sm.simulate(agent, problem, 9, seed=int(rng.integers(9)), experienced=True)
            answers.append(record.final_state)
        answers.append((agent.t, agent.episode, agent.policy.tolist(), agent.quota.tolist()))
    return answers


@needs_machine_code
@pytest.mark.usefixtures("at_once")
@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("name", ["sw-ucrl", "glr-ucrl", "master-ucrl", "evidence-psrl", "borl"])
def test_calls_in_any_order_equal_interpreted_code(name: str, seed: int) -> None:
    problem = problem_with_two_changes()
    parameters = {"glr-ucrl": {"explore": 0.3}}.get(name, {})
    agent = new_agent(name, problem, **parameters)
    twin = copy.deepcopy(agent)
    answers = script(agent, problem, seed)
    with interpreting(), np.errstate(over="ignore"):
        expected = script(twin, problem, seed)
    assert answers == expected
    assert code_of(agent) is not None
    assert code_of(twin) is None


@needs_machine_code
@pytest.mark.usefixtures("without_machine_code")
def test_a_short_run_does_not_wait_for_the_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    agent = sm.agents.SWUCRL(3, 2, window=50)
    for step in range(60):
        agent.observe(step % 3, agent.act(step % 3), 0.5, (step + 1) % 3)
    assert code_of(agent) is None
    monkeypatch.setattr(policy_agent, "PATIENT_SECONDS", 0.0)
    for step in range(60):
        agent.observe(step % 3, agent.act(step % 3), 0.5, (step + 1) % 3)
    assert code_of(agent) is not None


@needs_machine_code
def test_the_service_plans_in_machine_code_at_once() -> None:
    agent = sm.agents.SWUCRL(3, 2, window=50)
    agent.plan()
    assert agent.episode == 1
    assert code_of(agent) is not None


@pytest.mark.usefixtures("at_once")
def test_replacing_a_component_is_noticed() -> None:
    agent = sm.agents.UCRL2RW(3, 2, period=1000)
    agent.act(0)
    agent.restarts, agent.restart_at = Periodic(5), 6
    for _ in range(20):
        agent.observe(0, agent.act(0), 0.5, 0)
    assert agent.since == 16


@needs_machine_code
@pytest.mark.usefixtures("at_once")
def test_numbers_and_arrays_set_by_the_user_are_converted() -> None:
    twin = sm.agents.SWUCRL(3, 2, window=50)
    agent: Any = copy.deepcopy(twin)
    agent.act(0)
    agent.clock, agent.quota = np.int32(1), [0, 0, 0]
    twin.act(0)
    twin.quota[:] = 0
    assert agent.act(1) == twin.act(1)
    assert type(agent.clock) is int
    assert agent.quota.tolist() == twin.quota.tolist()
    agent.clock = 1.5
    agent.quota[:] = 0
    with pytest.raises(TypeError, match="holds integers"):
        agent.act(0)


@pytest.mark.usefixtures("at_once")
def test_an_agent_with_its_own_methods_is_interpreted() -> None:
    class Mine(sm.agents.SWUCRL):
        prepared = 0

        def prepare(self, state: int) -> None:
            Mine.prepared += 1
            PolicyAgent.prepare(self, state)

    agent = Mine(3, 2, window=50)
    for _ in range(5):
        agent.observe(0, agent.act(0), 0.5, 0)
    assert Mine.prepared == 5
    assert code_of(agent) is None


@needs_machine_code
@pytest.mark.usefixtures("at_once")
@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="there are no timers")
def test_a_signal_never_interrupts_storing_the_result_of_machine_code() -> None:
    class Ring(Exception):
        pass

    def ring(number: int, frame: FrameType | None) -> None:
        raise Ring

    agent = sm.agents.SWUCRL(3, 2, window=10**6)
    agent.act(0)
    rung, trial = 0, 0
    before = signal.signal(signal.SIGALRM, ring)
    try:
        while rung < 1000:
            trial += 1
            with delayed_signals():
                for _ in range(20):
                    agent.log_step(0, 0.5, 1)
            try:
                signal.setitimer(signal.ITIMER_REAL, 2e-6 * (1 + trial % 50))
                for _ in range(5):
                    policy_agent.run_tasks(agent, policy_agent.ABSORB)
                signal.setitimer(signal.ITIMER_REAL, 0)
            except Ring:
                rung += 1
            counted = int(agent.memory.counts.visits.sum())
            assert counted + agent.logged == agent.clock - 1
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@needs_machine_code
@pytest.mark.usefixtures("at_once")
def test_a_deleted_agent_leaves_no_references() -> None:
    agent = sm.agents.SWUCRL(3, 2, window=50)
    agent.act(0)
    key = id(agent)
    assert key in policy_agent._states
    del agent
    assert key not in policy_agent._states


def test_without_machine_code_random_numbers_cause_no_warnings() -> None:
    script = (
        "import switchmdp as sm\n"
        "for agent in (sm.agents.Random(3, 2), sm.agents.PSRL(3, 2)):\n"
        "    for _ in range(20):\n"
        "        agent.observe(0, agent.act(0), 0.5, 0)\n"
    )
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", script], env=os.environ | {"NUMBA_DISABLE_JIT": "1"},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
