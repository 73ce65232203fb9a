"""How an agent is asked for an action and taught what came of it, when the two lie far apart.

In a simulation the answer follows the action at once. Here many decisions may be open at a time, so
that the paper's step is cut in two:

- at the *decision* the episode's quota is used up, so that an episode is as long as it should be
  however late the answers come;
- at the *feedback* time goes on and the counts grow, so that nothing is counted that is not known.

With every answer before the next decision this is the algorithm of the paper, action by action.

Agents in episodes plan as machine code (`agents.machine_code`). Any other agent is simply asked to
`act` and told to `observe`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from switchmdp.agents import Episodic
from switchmdp.agents.machine_code import absorb, start_episode
from switchmdp.errors import ContractViolation
from switchmdp.mdp.pairs import find_pair


def in_episodes(agent: Any) -> bool:
    """Whether the two halves of a step are known: not if the agent's verbs are its own."""
    cls = type(agent)
    return (
        isinstance(agent, Episodic)
        and cls.act is Episodic.act
        and cls.observe is Episodic.observe
        and cls.prepare is Episodic.prepare
    )


def forget_if_due(agent: Any) -> bool:
    """Let an agent start over whose rule says so, however its steps come in."""
    return in_episodes(agent) and bool(agent.forget_if_due())


def choose(agent: Any, state: int, available: Sequence[int] | None, plan: bool) -> tuple[int, bool]:
    """The action, and whether an episode is due: it is started first, if `plan`."""
    if not in_episodes(agent):
        action = agent.act(state)
        if action not in agent.pairs.at(state):
            raise ContractViolation(f"in state {state} the agent has chosen {action!r}")
        if available is not None and action not in available:
            action = min(available)
        return int(action), False
    due = bool(agent.quota[state] == 0 or agent.clock >= agent.end_at)
    if due and (plan or agent.episode_count == 0):
        start_episode(agent)
        due = False
    action = int(agent.actions[agent.choice[state]])
    if available is not None and action not in available:
        return _best(agent, state, available), due
    return action, due


def decided(agent: Any, state: int, action: int) -> None:
    """An action is taken: if it is the policy's own, the episode has one visit less to go."""
    if not in_episodes(agent) or action != agent.actions[agent.choice[state]]:
        return
    if agent.quota[state] > 0:
        agent.quota[state] -= 1


def _best(agent: Episodic, state: int, available: Sequence[int]) -> int:
    """The action that looks best among those available; of equals the lowest."""
    if not hasattr(agent.plausible, "worth"):
        return min(available)
    counts, t = agent.memory.counts, agent.clock - agent.since + 1

    def worth(action: int) -> float:
        pair = int(find_pair(agent.starts, agent.actions, state, action))
        return float(agent.plausible.worth(counts, t, pair))

    return max(sorted(available), key=worth)


def learn(agent: Any, state: int, action: int, reward: float, next_state: int) -> None:
    """What came of a decision."""
    if not in_episodes(agent):
        agent.observe(state, action, reward, next_state)
        return
    if agent.logged == agent.log_pair.size:
        absorb(agent)
    agent.learn(int(find_pair(agent.starts, agent.actions, state, action)), reward, next_state)


def adopt(agent: Episodic, planned: Episodic) -> None:
    """Follow the plan that a copy of the agent has made meanwhile."""
    agent.choice, agent.quota = planned.choice, planned.quota
    agent.plausible, agent.episodes = planned.plausible, planned.episodes
    agent.exploration = planned.exploration
    agent.started, agent.end_at = agent.clock, planned.end_at
    agent.episode_count += 1
