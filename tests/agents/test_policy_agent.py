"""The protocol of policy-following agents: its declaration, and decisions from Python."""

from __future__ import annotations

import copy

import pytest

import switchmdp as sm
from switchmdp.agents import AGENTS
from switchmdp.agents.policy_agent import PolicyAgent, follows_policy


class OwnAct(sm.agents.SWUCRL):
    """Overrides a method that the loop bypasses."""

    def act(self, state: int) -> int:
        return 0


class Declared(OwnAct):
    """Declares the protocol although it overrides `act`."""

    follows_policy = True

    def act(self, state: int) -> int:
        return PolicyAgent.act(self, state)


def test_every_registered_agent_that_plans_uses_the_protocol() -> None:
    planning = [agent for agent in AGENTS.values() if issubclass(agent, PolicyAgent)]
    assert len(planning) > 20
    assert all(agent.follows_policy for agent in planning)


def test_overriding_act_or_observe_disables_the_protocol_unless_declared() -> None:
    assert follows_policy(sm.agents.SWUCRL(2, 2, window=5))
    assert not follows_policy(OwnAct(2, 2, window=5))
    assert follows_policy(Declared(2, 2, window=5))


@pytest.mark.parametrize("explore", [0.5, 1.0])
def test_probes_never_make_a_quota_negative(explore: float) -> None:
    agent = sm.agents.GLRUCRL(2, 2, explore=explore)
    agent.start_episode()
    for step in range(40):
        choice = agent.decide(step % 2, replan=False)
        agent.spend_visit(step % 2, choice.action)
        agent.credit(step % 2, choice.action, 0.5, (step + 1) % 2)
        agent.restart_if_due()
        assert (agent.quota >= 0).all()
        assert agent.held_quota >= 0
    assert agent.decide(0, replan=False).plan_due


def test_an_adopted_plan_replaces_a_probe() -> None:
    agent = sm.agents.GLRUCRL(2, 2, explore=1.0)
    agent.start_episode()
    agent.decide(0, replan=False)
    planned = copy.deepcopy(agent)
    planned.start_episode()
    policy = planned.policy.tolist()
    agent.adopt(planned)
    assert agent.policy.tolist() == policy
    assert agent.episode == 2
    agent.restart_if_due()  # puts nothing of the old policy back
    assert agent.policy.tolist() == policy
