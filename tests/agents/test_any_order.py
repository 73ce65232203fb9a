"""Agents under any sequence of calls: act, observe, grow, save, load, simulate, resume, ...

A second agent, the *twin*, does the same without being saved, loaded or read, and simulates
interpreted where the first runs as machine code. Both must stay the same.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import assume
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from tests.strategies import agent_makers, switching_mdps

import switchmdp as sm
from switchmdp.agents import load
from switchmdp.errors import InvalidParameter, PrecisionNotReached

HORIZON = 120
COMMON = (1e-3,)  # with rarer moves, too many problems have gains that can't be certified


class AgentInAnyOrder(RuleBasedStateMachine):
    """One agent and its twin."""

    agent: Any
    twin: Any
    problem: sm.SwitchingMDP
    record: sm.Record | None
    twins_record: sm.Record | None

    @initialize(maker=agent_makers(), problem=switching_mdps(HORIZON, tiny=COMMON))
    def begin(self, maker: Any, problem: sm.SwitchingMDP) -> None:
        try:
            sm.optimal_gains(problem)
        except PrecisionNotReached:
            assume(False)
        self.problem = problem
        self.agent, self.twin = maker(problem), maker(problem)
        self.record = self.twins_record = None
        self.folder = Path(tempfile.mkdtemp())

    def live(self, agent: Any, steps: int, seed: int) -> list[int]:
        """Run steps through `act` and `observe`; rewards and next states depend on the seed."""
        rng = np.random.default_rng(seed)
        state, actions = int(rng.integers(agent.n_states)), []
        with np.errstate(over="ignore"):
            for _ in range(steps):
                actions.append(int(agent.act(state)))
                target = int(rng.integers(agent.n_states))
                agent.observe(state, actions[-1], float(rng.random()), target)
                state = target
        return actions

    @rule(steps=st.integers(1, 40), seed=st.integers(0, 99))
    def act_and_observe(self, steps: int, seed: int) -> None:
        assert self.live(self.agent, steps, seed) == self.live(self.twin, steps, seed)
        self.record = self.twins_record = None

    @rule(seed=st.integers(0, 99), steps=st.integers(1, HORIZON), every=st.integers(1, 50))
    def simulate(self, seed: int, steps: int, every: int) -> None:
        options: dict[str, Any] = {
            "seed": seed, "every": every, "episodes": True, "trajectory": True,
            "experienced": True, "initial_state": seed % self.problem.n_states,
        }  # fmt: skip
        self.record = sm.simulate(self.agent, self.problem, steps, **options)
        self.twins_record = sm.simulate(self.twin, self.problem, steps, interpreted=True, **options)
        same_records(self.record, self.twins_record)

    @precondition(lambda self: self.record is not None)
    @rule(steps=st.integers(0, HORIZON))
    def resume(self, steps: int) -> None:
        assert self.record is not None
        assert self.twins_record is not None
        horizon = self.record.horizon + steps
        options: dict[str, Any] = {"episodes": True, "trajectory": True}
        self.record = sm.simulate(self.agent, self.problem, horizon, resume=self.record, **options)
        self.twins_record = sm.simulate(
            self.twin, self.problem, horizon, resume=self.twins_record, interpreted=True, **options
        )
        same_records(self.record, self.twins_record)

    @rule()
    def save_and_load(self) -> None:
        self.agent.save(self.folder / "agent")
        self.agent = load(self.folder / "agent")

    @rule(seed=st.integers(0, 99))
    def reseed(self, seed: int) -> None:
        if hasattr(self.agent, "reseed"):
            for agent in (self.agent, self.twin):
                agent.reseed(np.random.SeedSequence(seed))

    @rule()
    def start_over(self) -> None:
        if hasattr(self.agent, "start_over"):
            for agent in (self.agent, self.twin):
                agent.start_over()

    @precondition(lambda self: self.agent.n_states <= 7)
    @rule(states=st.integers(0, 2), actions=st.integers(0, 1), seed=st.integers(0, 99))
    def grow(self, states: int, actions: int, seed: int) -> None:
        """A new, larger problem follows; other agents raise an error and do not change."""
        if not hasattr(self.agent, "grow"):
            return
        larger = (self.agent.n_states + states, self.agent.n_actions + actions)
        errors = []
        for agent in (self.agent, self.twin):
            try:
                agent.grow(*larger)
            except InvalidParameter as error:
                errors.append(str(error))
        assert len(errors) in (0, 2)
        if not errors:
            rng = np.random.default_rng(seed)
            configurations = [
                sm.MDP(
                    rng.dirichlet(np.ones(larger[0]), larger), rng.random(larger),
                    available=self.agent.pairs.available,
                )
                for _ in range(2)
            ]  # fmt: skip
            self.problem = sm.SwitchingMDP(configurations, [HORIZON // 2])
            self.record = self.twins_record = None

    @rule()
    def read(self) -> None:
        """Reading the properties of an agent does not change its behaviour."""
        for name in ("t", "policy", "gain", "visits", "reward_estimates", "episode"):
            getattr(self.agent, name, None)

    @invariant()
    def both_are_at_the_same_step_with_the_same_policy(self) -> None:
        if hasattr(self, "agent"):
            assert getattr(self.agent, "t", 0) == getattr(self.twin, "t", 0)
            if hasattr(self.agent, "policy"):
                assert self.agent.policy.tolist() == self.twin.policy.tolist()


def same_records(a: sm.Record, b: sm.Record) -> None:
    for field in ("times", "regret", "pseudo_regret"):
        assert getattr(a, field).tobytes() == getattr(b, field).tobytes(), field
    assert a.position == b.position
    assert a.trajectory is not None
    assert b.trajectory is not None
    assert a.trajectory.actions.tolist() == b.trajectory.actions.tolist()


TestAgentInAnyOrder = pytest.mark.long(AgentInAnyOrder.TestCase)
