"""Every agent in AGENTS keeps the contract, and violations are reported."""

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
from switchmdp.errors import ContractViolation, InvalidParameter
from switchmdp.validation import check_action, check_reward, check_state

SHARED = sm.problems.random_switching(4, 3, changes=2, horizon=1500, seed=2, law=sm.Beta(share=0.5))


def unequal_action_sets(n_states: int, n_actions: int) -> sm.SwitchingMDP:
    """A problem in which every third state lacks the first action."""
    mask = np.ones((n_states, n_actions), bool)
    mask[::3, 0] = False
    rng = np.random.default_rng(0)
    sizes = (n_states, n_actions)
    configurations = [
        sm.MDP(rng.dirichlet(np.ones(n_states), sizes), rng.random(sizes), available=mask)
        for _ in range(2)
    ]
    return sm.SwitchingMDP(configurations, [200])


UNEQUAL = unequal_action_sets(4, 3)


@pytest.mark.parametrize("name", AGENTS)
def test_every_agent_keeps_the_contract(name: str) -> None:
    make: Callable[[], Any] = lambda: new_agent(name, SHARED)  # noqa: E731
    sm.check_agent(make, problem=SHARED, steps=1500, memory_steps=10_000, strict=True)


@pytest.mark.parametrize("name", AGENTS)
def test_every_agent_keeps_the_contract_with_unequal_action_sets(name: str) -> None:
    make: Callable[[], Any] = lambda: new_agent(name, UNEQUAL)  # noqa: E731
    report = sm.check_agent(make, problem=UNEQUAL, steps=300, memory_steps=10_000, strict=True)
    assert "bad input is refused" in report.passed


def test_an_agent_with_many_states_and_unequal_action_sets_keeps_the_contract() -> None:
    problem = unequal_action_sets(70, 2)
    make: Callable[[], Any] = lambda: new_agent("sw-ucrl", problem, window=200)  # noqa: E731
    sm.check_agent(make, problem=problem, steps=400, memory_steps=8000, strict=True)


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
    sm.check_agent(make, problem=problem, steps=400, memory_steps=1500, strict=True)
    record = sm.simulate(make(), problem, 400, seed=1)
    print(name, record.regret[-1].hex())
"""


@pytest.mark.long
def test_every_agent_keeps_the_contract_without_machine_code_and_has_the_same_regret() -> None:
    """Equal to the last bit, in a process with NUMBA_DISABLE_JIT=1."""
    environment = {**os.environ, "NUMBA_DISABLE_JIT": "1"}
    parameters = {**PARAMETERS, "sw-ucrl": {"window": 100}, "ucrl2-rw": {"period": 90}}
    parameters |= {"oracle-ucrl2": {"change_points": [50]}, "oracle-psrl": {"change_points": [50]}}
    command = [sys.executable, "-c", WITHOUT_JIT, json.dumps(parameters)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    regret = dict(line.split() for line in done.stdout.splitlines())
    problem = sm.problems.random_switching(3, 2, changes=2, horizon=400, seed=2)
    for name in AGENTS:
        cls: Any = AGENTS[name]
        agent = cls(problem) if name == "omniscient" else cls(3, 2, **parameters[name])
        assert sm.simulate(agent, problem, 400, seed=1).regret[-1].hex() == regret[name]


class LeastTried:
    """A newcomer's agent: it takes the action that it has tried least often in the state."""

    def __init__(self, n_states: int, n_actions: int) -> None:
        self.tried = np.zeros((n_states, n_actions))

    def act(self, state: int) -> int:
        return int(np.argmin(self.tried[state]))

    def observe(self, state: int, action: int, reward: float, next_state: int) -> None:
        self.tried[state, action] += 1


class Validating(LeastTried):
    """The same, with validated input. The agents below differ from it in one respect."""

    def __init__(self, n_states: int = 3, n_actions: int = 2) -> None:
        super().__init__(n_states, n_actions)
        self.n_states, self.n_actions = n_states, n_actions

    def act(self, state: int) -> int:
        return super().act(check_state(state, self.n_states))

    def observe(self, state: int, action: int, reward: float, next_state: int) -> None:
        check_state(next_state, self.n_states, "next_state")
        check_reward(reward)
        state, action = check_state(state, self.n_states), check_action(action, self.n_actions)
        self.learn(state, action, reward)

    def learn(self, state: int, action: int, reward: float) -> None:
        self.tried[state, action] += 1.0


class Hoards(Validating):
    def __init__(self) -> None:
        super().__init__()
        self.history: list[tuple[int, int, float]] = []

    def learn(self, state: int, action: int, reward: float) -> None:
        super().learn(state, action, reward)
        self.history.append((state, action, reward))


class AcceptsAnyFeedback(Validating):
    def observe(self, state: Any, action: Any, reward: Any, next_state: Any) -> None:
        pass


class ChangesBeforeItRefuses(Validating):
    def observe(self, state: Any, action: Any, reward: Any, next_state: Any) -> None:
        self.tried += 1.0
        super().observe(state, action, reward, next_state)


class RaisesKeyError(Validating):
    def act(self, state: Any) -> int:
        return {0: 0, 1: 1, 2: 0}[state]


class CannotBePickled(Validating):
    def __init__(self) -> None:
        super().__init__()
        self.secret = lambda: 0


class CannotBePickledAfterSomeSteps(Validating):
    def learn(self, state: int, action: int, reward: float) -> None:
        super().learn(state, action, reward)
        self.secret = lambda: 0


class DependsOnOtherRuns(Validating):
    calls = 0

    def act(self, state: Any) -> int:
        DependsOnOtherRuns.calls += 1
        return (super().act(state) + DependsOnOtherRuns.calls // 100) % 2


class IgnoresItsSeed(Validating):
    def reseed(self, seed: Any) -> None:
        pass


class LosesStateWhenPickled(Validating):
    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "tried": self.tried + np.array([50.0, 0.0])}


class ChoosesMissingActions(Validating):
    def act(self, state: Any) -> int:
        return 2


class RaisesInObserve(Validating):
    def observe(self, state: Any, action: Any, reward: Any, next_state: Any) -> None:
        raise RuntimeError("not implemented yet")


class HasAWrongSize(Validating):
    def __init__(self) -> None:
        super().__init__()
        self.n_states: Any = "three"


class BrokenTwice(DependsOnOtherRuns):
    def reseed(self, seed: Any) -> None:
        pass


SHORT: dict[str, Any] = {"steps": 300, "memory_steps": 3000}


def test_a_plain_agent_passes_and_gets_advice_on_validation() -> None:
    report = sm.check_agent(LeastTried, **SHORT)
    assert not report.errors
    accepted, raised = report.advice  # one line for each kind of finding
    assert accepted.startswith("bad input is accepted: act(-1), ")
    assert "observe(0, 0, nan, 0)" in accepted
    assert raised.startswith("bad input raises IndexError")
    assert "act(1000000000)" in raised
    assert "switchmdp.validation" in accepted
    assert "switchmdp.validation" not in raised  # said once
    assert repr(report).startswith("AgentReport(LeastTried: 7 checks passed, 0 errors, ")
    assert "advice: bad input is accepted" in str(report)


def test_long_findings_are_printed_in_several_lines_that_break_no_call() -> None:
    report = sm.check_agent(LeastTried, **SHORT)
    lines = str(report).splitlines()
    assert max(map(len, lines)) <= 88
    assert len(lines) > 1 + len(report.advice)
    assert all(line.count("(") == line.count(")") for line in lines)
    assert " ".join(str(report).split()).count("; switchmdp.validation has checks") == 1


def test_a_plain_agent_that_validates_its_input_passes_the_strict_check() -> None:
    report = sm.check_agent(Validating, strict=True, **SHORT)
    assert not report.errors
    assert not report.advice
    assert "bad input is refused" in report.passed


@pytest.mark.parametrize(
    "make",
    [
        LeastTried,
        lambda: LeastTried(3, 2),
        lambda n_states, n_actions: LeastTried(n_states, n_actions),
        lambda S, A: LeastTried(S, A),
        lambda problem: LeastTried(problem.n_states, problem.n_actions),
        lambda p: LeastTried(p.n_states, p.n_actions),
        lambda n_actions, available: LeastTried(len(available), n_actions),
        LeastTried(3, 2),
    ],
)
def test_a_class_a_function_or_an_agent_can_be_checked(make: Any) -> None:
    assert not sm.check_agent(make, **SHORT).errors


def test_sizes_come_from_the_problem_or_from_the_agent() -> None:
    assert not sm.check_agent(Validating, problem=SHARED, **SHORT).errors
    assert not sm.check_agent(Validating, problem=SHARED.at(1), **SHORT).errors
    assert not sm.check_agent(lambda: Validating(5, 4), **SHORT).errors
    with pytest.raises(ContractViolation, match="the agent has n_states = 3, the problem has 4"):
        sm.check_agent(lambda: Validating(3, 2), problem=SHARED, **SHORT)


def test_an_agent_of_a_local_class_is_advised_to_be_picklable() -> None:
    class Local(LeastTried):
        pass

    report = sm.check_agent(Local, **SHORT)
    assert any("cannot be pickled" in advice for advice in report.advice)


def test_arguments_that_cannot_be_checked_are_rejected() -> None:
    with pytest.raises(InvalidParameter, match="also requires window: pass a function"):
        sm.check_agent(sm.agents.SWUCRL)
    with pytest.raises(InvalidParameter, match="make must be a class, a function"):
        sm.check_agent(3)
    wrong: Any = "riverswim"
    with pytest.raises(InvalidParameter, match="problem must be an MDP or a SwitchingMDP"):
        sm.check_agent(LeastTried, problem=wrong)

    class Needs(LeastTried):
        def __init__(self, width: float) -> None:
            super().__init__(3, 2)

    with pytest.raises(InvalidParameter, match="also requires width: pass a function"):
        sm.check_agent(Needs)  # a class does not get the problem in place of a number


@pytest.mark.parametrize(
    ("agent", "complaint"),
    [
        (Hoards, "memory is not bounded"),
        (AcceptsAnyFeedback, r"bad input is accepted: .*observe\(0, 0, nan, 0\)"),
        (ChangesBeforeItRefuses, "is refused, but the agent has changed"),
        (RaisesKeyError, r"bad input raises KeyError.* instead of InvalidState.*act\(-1\)"),
        (CannotBePickled, "cannot be pickled"),
        (CannotBePickledAfterSomeSteps, "cannot be pickled"),
    ],
)
def test_advice_is_an_error_only_in_strict_mode(agent: Any, complaint: str) -> None:
    with pytest.raises(ContractViolation, match=complaint):
        sm.check_agent(agent, strict=True, **SHORT)
    report = sm.check_agent(agent, **SHORT)
    assert not report.errors
    assert report.advice


@pytest.mark.parametrize(
    ("agent", "complaint"),
    [
        (DependsOnOtherRuns, "two runs with the same seed differ"),
        (IgnoresItsSeed, "reseed has no effect"),
        (LosesStateWhenPickled, "pickled in the middle"),
        (ChoosesMissingActions, "InvalidAction: the action that the agent chose in state"),
        (RaisesInObserve, "RuntimeError: not implemented yet"),
        (HasAWrongSize, "n_states must be a positive integer, got 'three'"),
        (object, "no method 'act'"),
        (object, "no method 'observe'"),
        (lambda agent=Validating(): agent, "returns the same agent again"),  # noqa: B008
    ],
)
def test_a_violation_is_named(agent: Any, complaint: str) -> None:
    with pytest.raises(ContractViolation, match=complaint):
        sm.check_agent(agent, **SHORT)


def test_all_violations_are_reported_at_once() -> None:
    with pytest.raises(ContractViolation) as caught:
        sm.check_agent(BrokenTwice, **SHORT)
    errors = " ".join(caught.value.report.errors)
    assert "two runs with the same seed differ" in errors
    assert "reseed has no effect" in errors
    assert all(error in str(caught.value) for error in caught.value.report.errors)


class IsFor5States(LeastTried):
    def __init__(self) -> None:
        super().__init__(5, 2)

    def act(self, state: int) -> int:
        assert self.tried.shape == (3, 2)
        return 0


class SeededOnce(LeastTried):
    def __init__(self, n_states: int, n_actions: int, seed: int = 0) -> None:
        super().__init__(n_states, n_actions)
        self.random = np.random.default_rng(seed)


def test_an_agent_of_another_size_learns_the_size_of_the_checks() -> None:
    with pytest.raises(ContractViolation, match="a problem with 3 states and 2 actions; pass `pro"):
        sm.check_agent(IsFor5States)


class Deaf:
    """Has no method `observe`."""

    def act(self, state: int) -> int:
        return 0


def test_a_class_without_a_method_is_called_by_its_name() -> None:
    with pytest.raises(ContractViolation, match=r"^Deaf violates the contract:\n.*'observe'"):
        sm.check_agent(Deaf)


def test_a_seed_without_reseed_gets_advice() -> None:
    advice = "the class takes a seed, but has no reseed"
    assert any(advice in text for text in sm.check_agent(SeededOnce).advice)
    assert not any(advice in text for text in sm.check_agent(LeastTried).advice)


def test_problems_keep_their_contract() -> None:
    sm.check_problem(SHARED)
    sm.check_problem(sm.SwitchingMDP([sm.problems.riverswim()]))
    broken = sm.problems.random_switching(4, 3, changes=2, horizon=1500, seed=2)
    broken.patches.old[0] += 1
    with pytest.raises(ContractViolation, match="patch 0"):
        sm.check_problem(broken)
