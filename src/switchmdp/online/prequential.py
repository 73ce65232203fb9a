"""What another agent would have known: its statistics on the steps that were logged.

The agent remembers the logged steps one after the other, and is asked before each what it expects
of the pair that was taken: the reward and the next state. With N visits to the pair remembered, R
the sum of their rewards and n of them leading to s',

    reward       r̂ = R / N; not remembered: the mean of all rewards so far
    next state   p̂(s') = (n + 1/S) / (N + 1): one visit more than there were, spread evenly

and what counts is the mean of (r - r̂)² and of -log p̂(s'). Each prediction is made from the past
for a pair that is given, so that memories (windows, say) can be compared by it, whoever chose.

An agent that is not `Episodic` does not say what it remembers: of it only the agreement of its
actions with the logged ones is measured, and all predictions are NaN.

What can't be concluded is the reward or the regret that the other agent would have earned: the log
holds what came of the actions that were taken, and others would have led to other states. Nor is it
a merit to agree with the log.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from switchmdp.agents import Agent, Episodic
from switchmdp.agents.policy_agent import follows_policy
from switchmdp.agents.protocol import check_observe
from switchmdp.errors import InvalidParameter
from switchmdp.mdp.pairs import Pairs, find_pair
from switchmdp.memory import Counts
from switchmdp.online.learner import choose, credit

Step = tuple[int, int, float, int]
BINS = 10  # of predicted rewards, for their calibration
BLOCK = 100  # visits to a pair whose mean reward should lie in the interval
BATCHES = 30  # of steps, for the standard error of a difference


@dataclass(frozen=True, eq=False)
class Evaluation:
    """How well an agent's memory would have predicted, and what the agent would believe now.

    Of an agent that does not tell what it remembers, errors and estimates are NaN and visits 0.
    """

    steps: int
    reward_error: float  # mean of (r - r̂)²
    move_loss: float  # mean of -log p̂(s'), in nats
    calibration: float  # |mean of r - r̂| among predictions in the same tenth, weighted by number
    covered: float  # share of blocks of visits with a mean reward in the interval held before them
    unseen: float  # share of steps whose pair was not remembered
    agreement: float  # share of steps whose action was the policy's
    episodes: int
    policy: NDArray[np.int64]  # the one that it would follow now; -1 where it has none
    visits: NDArray[Any]  # (S, A), remembered now
    reward_estimates: NDArray[np.float64]  # (S, A)
    squared_errors: NDArray[np.float64]  # by step
    log_losses: NDArray[np.float64]  # by step


class LastVisit:
    """A memory of the last visit to each pair, and no more: what others should be better than."""

    def allocate(self, pairs: Pairs) -> None:
        """Make room for these pairs."""
        self.counts = Counts(pairs)
        self.pairs = np.arange(pairs.n_pairs)
        self.slots, self.rewards = np.zeros(pairs.n_pairs, np.uint32), np.zeros(pairs.n_pairs)

    def absorb(self, pairs: Any, nexts: Any, rewards: Any, n: int) -> None:
        """Let each step take the place of the one before."""
        for i in range(n):
            x = int(pairs[i])
            if self.counts.visits[x]:
                self.counts.remove(self.pairs, self.slots, self.rewards, x, x + 1)
            self.counts.add(pairs, nexts, rewards, i, i + 1)
            self.slots[x], self.rewards[x] = nexts[i], rewards[i]

    def keep(self, steps: int, suspects: Any) -> int:
        """Forget these pairs: when their last visits were is not known."""
        self.counts.forget_pairs(suspects)
        return 0


def evaluate(
    history: Iterable[Step], agent: Any, *,
    plan: bool = True, tell: Callable[[int], None] = lambda steps: None,
) -> Evaluation:  # fmt: skip
    """What the agent would have expected, step by step; the agent that is given stays as it is.

    Its policy goes along as if it were asked at every step: episodes end as ever, and a visit that
    is not the policy's uses up no quota. Without `plan` there is none, and no agreement.

    >>> from switchmdp.agents import SWUCRL
    >>> steps = [(0, 0, 1.0, 1), (1, 0, 0.0, 0)] * 50
    >>> found = evaluate(steps, SWUCRL(2, 2, window=10))
    >>> found.steps, found.reward_error, round(found.move_loss, 3), found.unseen
    (100, 0.02, 0.106, 0.02)
    """
    if not isinstance(agent, Agent):
        raise InvalidParameter("agent", agent, "an Agent")
    agent = copy.deepcopy(agent)
    rows = [check_observe(agent, *step) for step in history]
    if not rows:
        raise InvalidParameter("history", rows, "one step at least")
    remembers = isinstance(agent, Episodic)
    known = np.zeros((len(rows), 4))  # pair, visits, those that led there, time
    means = np.zeros(len(rows))
    agreed = 0
    for i, (state, action, reward, next_state) in enumerate(rows):
        pair = int(find_pair(agent.starts, agent.actions, state, action))
        if plan:
            agreed += choose(agent, state, None, replan=True).action == action
            if follows_policy(agent):
                agent.spend_visit(state, action)
        if remembers:
            counts = agent.memory.counts
            known[i] = pair, counts.visits[pair], _led(counts, pair, next_state), _time(agent)
            means[i] = counts.mean(pair)
        credit(agent, state, action, reward, next_state)
        if remembers:
            agent.absorb()
        tell(i + 1)
    if plan and remembers:
        agent.plan()
    rewards = np.array([row[2] for row in rows])
    return Evaluation(
        steps=len(rows), agreement=agreed / len(rows) if plan else math.nan,
        episodes=getattr(agent, "episode_count", 0),
        policy=getattr(agent, "policy", np.full(agent.n_states, -1)),
        **(_scores(agent, rewards, means, *known.T) if remembers else _no_scores(agent, rewards)),
    )  # fmt: skip


def _time(agent: Episodic) -> int:
    """The time in the radii, from 1."""
    return agent.clock - agent.since + 1


def _led(counts: Any, pair: int, state: int) -> float:
    """How many of the pair's visits are remembered to have led to this state.

    A memory that fades counts fractions of visits.
    """
    first, used = counts.offset[pair], counts.used[pair]
    if counts.full:
        return float(counts.count[first + state])
    here = counts.target[first : first + used] == state
    return float(counts.count[first : first + used][here].sum())


def _no_scores(agent: Agent, rewards: NDArray[np.float64]) -> dict[str, Any]:
    """The fields of `_scores` where nothing is known of the memory."""
    size, nothing = (agent.n_states, agent.n_actions), np.full(len(rewards), math.nan)
    numbers = ("reward_error", "move_loss", "calibration", "covered", "unseen")
    return dict.fromkeys(numbers, math.nan) | {
        "squared_errors": nothing, "log_losses": nothing, "visits": np.zeros(size, np.int64),
        "reward_estimates": np.full(size, math.nan),
    }  # fmt: skip


def _scores(
    agent: Episodic, rewards: NDArray[np.float64], means: NDArray[np.float64],
    pairs: Any, visits: Any, led: Any, times: Any,
) -> dict[str, Any]:  # fmt: skip
    """The fields of an evaluation that come of the memory and its predictions."""
    n = len(rewards)
    so_far = np.concatenate([[0.0], np.cumsum(rewards)[:-1]]) / np.maximum(1, np.arange(n))
    expected = np.where(visits > 0, means, so_far)
    errors, losses = rewards - expected, -np.log((led + 1 / agent.n_states) / (visits + 1))
    bins = np.minimum((BINS * expected).astype(np.int64), BINS - 1)
    inside = []
    for pair in np.unique(pairs) if hasattr(agent.plausible, "reward_radius") else ():
        mine = np.flatnonzero(pairs == pair)
        blocks = mine[: len(mine) // BLOCK * BLOCK].reshape(-1, BLOCK)
        for at, reward in zip(blocks[:, 0], rewards[blocks].mean(axis=1), strict=True):
            radius = agent.plausible.reward_radius(int(visits[at]), int(times[at]))
            inside.append(visits[at] == 0 or abs(reward - means[at]) <= radius)
    return {
        "reward_error": float((errors**2).mean()),
        "move_loss": float(losses.mean()),
        "calibration": float(np.abs(np.bincount(bins, errors)).sum() / n),
        "covered": float(np.mean(inside)) if inside else math.nan,
        "unseen": float((visits == 0).mean()),
        "squared_errors": errors**2,
        "log_losses": losses,
        "visits": agent.visits,
        "reward_estimates": agent.reward_estimates,
    }


def difference(one: NDArray[np.float64], other: NDArray[np.float64]) -> tuple[float, float]:
    """The mean of one - other, step by step, and its standard error.

    Steps depend on each other, so the error is taken from the means of thirty stretches of steps.

    >>> difference(np.array([1.0, 3.0]), np.array([1.0, 1.0]))
    (1.0, 1.0)
    """
    gaps = one - other
    means = [float(part.mean()) for part in np.array_split(gaps, min(BATCHES, len(gaps)))]
    spread = float(np.std(means, ddof=1)) if len(means) > 1 else math.nan
    return float(gaps.mean()), spread / math.sqrt(len(means))
