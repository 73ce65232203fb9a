"""Evaluate how well other agents would have predicted the logged steps.

The agent processes the logged steps one after the other. Before each step it predicts the reward
and the next state of the state-action pair that was taken. With N remembered visits to the pair, R
the sum of their rewards and n the visits that led to s',

    reward       r̂ = R / N; if N = 0, the mean of all rewards so far
    next state   p̂(s') = (n + 1/S) / (N + 1): one additional visit, spread evenly

The scores are the means of (r - r̂)² and of -log p̂(s'). Each prediction uses only the past, for a
given pair. So memories (windows, for example) can be compared, no matter who chose the actions.

An agent that is not `Episodic` does not expose its memory. For such an agent only the agreement of
its actions with the logged ones is measured, and all prediction scores are NaN.

The scores do not show the reward or regret of another agent: the log contains only the outcomes of
the actions that were taken, and other actions would have led to other states. Agreement with the
log is not an advantage in itself.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from switchmdp.agents import AGENTS, UCRL2, Agent, Episodic
from switchmdp.agents.policy_agent import follows_policy
from switchmdp.agents.protocol import check_observe
from switchmdp.errors import InvalidParameter
from switchmdp.mdp.pairs import Pairs, find_pair
from switchmdp.memory import Counts
from switchmdp.online.arms import check_parameters, parameters_of
from switchmdp.online.learner import Step, choose, credit
from switchmdp.plausible import L1Ball
from switchmdp.restarts import Never

DELTA = 0.05  # if the log's agent has none
NEVER_FORGETS, LAST_VISIT = "never forgets", "the last visit"  # labels of the baselines
BINS = 10  # of predicted rewards, for their calibration
BLOCK = 100  # visits to a pair whose mean reward is compared with the interval
BATCHES = 30  # of steps, for the standard error of a difference


@dataclass(frozen=True, eq=False)
class Evaluation:
    """The prediction scores of an agent's memory, and the agent's final estimates.

    For an agent that does not expose its memory, errors and estimates are NaN and visits are 0.

    Parameters
    ----------
    steps
        The number of steps.
    reward_error
        The mean of (r - r̂)².
    move_loss
        The mean of -log p̂(s'), in nats.
    calibration
        |mean of r - r̂| among predictions in the same tenth, weighted by their number.
    covered
        The share of blocks of visits whose mean reward lies in the interval before them.
    unseen
        The share of steps whose pair had no remembered visit.
    agreement
        The share of steps in which the policy chose the logged action.
    episodes
        The number of episodes.
    policy
        The policy after the last step; -1 if there is none.
    visits
        The visits remembered after the last step, an (S, A) array.
    reward_estimates
        The estimated mean rewards, an (S, A) array.
    squared_errors
        (r - r̂)² of each step.
    log_losses
        -log p̂(s') of each step.
    """

    steps: int
    reward_error: float  # mean of (r - r̂)²
    move_loss: float  # mean of -log p̂(s'), in nats
    calibration: float  # |mean of r - r̂| among predictions in the same tenth, weighted by number
    covered: float  # share of blocks of visits whose mean reward lies in the interval before them
    unseen: float  # share of steps whose pair had no remembered visit
    agreement: float  # share of steps in which the policy chose the logged action
    episodes: int
    policy: NDArray[np.int64]  # the policy after the last step; -1 if it has none
    visits: NDArray[Any]  # (S, A), remembered after the last step
    reward_estimates: NDArray[np.float64]  # (S, A)
    squared_errors: NDArray[np.float64]  # by step
    log_losses: NDArray[np.float64]  # by step


class LastVisit:
    """A memory of the last visit to each pair: a baseline that others should beat."""

    def allocate(self, pairs: Pairs) -> None:
        """Allocate memory for these pairs."""
        self.counts = Counts(pairs)
        self.pairs = np.arange(pairs.n_pairs)
        self.slots, self.rewards = np.zeros(pairs.n_pairs, np.uint32), np.zeros(pairs.n_pairs)

    def absorb(self, pairs: Any, nexts: Any, rewards: Any, n: int) -> None:
        """Replace the last visit of each pair."""
        for i in range(n):
            x = int(pairs[i])
            if self.counts.visits[x]:
                self.counts.remove(self.pairs, self.slots, self.rewards, x, x + 1)
            self.counts.add(pairs, nexts, rewards, i, i + 1)
            self.slots[x], self.rewards[x] = nexts[i], rewards[i]

    def keep(self, steps: int, suspects: Any) -> int:
        """Forget these pairs: the times of their last visits are not known."""
        self.counts.forget_pairs(suspects)
        return 0


def evaluate(
    history: Iterable[Step], agent: Any, *,
    plan: bool = True, tell: Callable[[int], None] = lambda steps: None,
) -> Evaluation:  # fmt: skip
    """Evaluate a copy of an agent on logged steps.

    Parameters
    ----------
    history
        The steps (state, action, reward, next state).
    agent
        The agent.
    plan
        Let the agent choose an action at every step. Episodes end as usual; a step whose action is
        not that of the policy uses up no quota. With False there is no policy and no agreement.
    tell
        A function that is called with the number of steps done so far.

    Returns
    -------
    Evaluation
        The scores and the final estimates.

    Raises
    ------
    InvalidParameter
        If there is no step, or `agent` is not an agent.

    Examples
    --------
    >>> from switchmdp.agents import SWUCRL
    >>> steps = [(0, 0, 1.0, 1), (1, 0, 0.0, 0)] * 50
    >>> result = evaluate(steps, SWUCRL(2, 2, window=10))
    >>> result.steps, result.reward_error, round(result.move_loss, 3), result.unseen
    (100, 0.02, 0.106, 0.02)
    """
    if not isinstance(agent, Agent):
        raise InvalidParameter("agent", agent, "an Agent")
    agent = copy.deepcopy(agent)
    rows = [check_observe(agent, *step) for step in history]
    if not rows:
        raise InvalidParameter("history", rows, "at least one step")
    remembers = isinstance(agent, Episodic)
    known = np.zeros((len(rows), 4))  # pair, visits, visits that led to the next state, time
    means = np.zeros(len(rows))
    agreed = 0
    for i, (state, action, reward, next_state) in enumerate(rows):
        pair = int(find_pair(agent.starts, agent.actions, state, action))
        if plan:
            agreed += choose(agent, state, None, replan=True).action == action
            if follows_policy(agent):
                agent.spend_visit(state, action)
        elif follows_policy(agent):
            agent.restart_if_due()
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
    """The time t in the radii, from 1."""
    return agent.clock - agent.since + 1


def _led(counts: Any, pair: int, state: int) -> float:
    """The number of remembered visits to the pair that led to this state.

    A fading memory counts fractions of visits.
    """
    first, used = counts.offset[pair], counts.used[pair]
    if counts.full:
        return float(counts.count[first + state])
    here = counts.target[first : first + used] == state
    return float(counts.count[first : first + used][here].sum())


def _no_scores(agent: Agent, rewards: NDArray[np.float64]) -> dict[str, Any]:
    """The fields of `_scores` for an agent that does not expose its memory."""
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
    """The fields of an evaluation that depend on the memory and its predictions."""
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
    """The mean of one - other over all steps, and its standard error.

    Steps depend on each other, so the error is computed from the means of thirty batches of steps.

    >>> difference(np.array([1.0, 3.0]), np.array([1.0, 1.0]))
    (1.0, 1.0)
    """
    gaps = one - other
    means = [float(part.mean()) for part in np.array_split(gaps, min(BATCHES, len(gaps)))]
    spread = float(np.std(means, ddof=1)) if len(means) > 1 else math.nan
    return float(gaps.mean()), spread / math.sqrt(len(means))


def significance(rows: Mapping[str, Evaluation], losses: str) -> dict[str, str]:
    """Mark the best evaluation "*", those within two standard errors of it "~", others " ".

    `losses` is "squared_errors" or "log_losses".
    """
    marks = dict.fromkeys(rows, " ")
    rows = {label: row for label, row in rows.items() if not math.isnan(row.reward_error)}
    best = min(rows, key=lambda label: getattr(rows[label], losses).mean())
    for label, row in rows.items():
        gap, error = difference(getattr(row, losses), getattr(rows[best], losses))
        marks[label] = "*" if label == best else "~" if not gap > 2 * error else " "
    return marks


def default_windows(steps: int) -> list[int]:
    """Windows to try on a log: all of its steps, half of them, a quarter, ...

    >>> default_windows(1000)
    [15, 31, 62, 125, 250, 500, 1000]
    """
    return sorted({max(1, steps >> halvings) for halvings in range(7)})


VARIED = ("window", "period")  # required parameters for which several values are tried


def varied_parameter(
    name: str, options: Mapping[str, Collection[Any]], fixed: Mapping[str, Any]
) -> str:
    """The parameter of the agent that takes several values; empty if there is none.

    It is the option with values, or else a window or period that the agent requires. `fixed` are
    parameters with one value.

    >>> varied_parameter("sw-ucrl", {}, {"delta": 0.1}), varied_parameter("ucrl2", {}, {})
    ('window', '')
    """
    takes = parameters_of(name)
    given = {key: values for key, values in options.items() if values}
    for key, values in given.items():
        if key not in takes:
            raise InvalidParameter(f"--{key}", values, f"omitted: {name} has no such parameter")
        if key in fixed:
            raise InvalidParameter(f"--set {key}", fixed[key], f"omitted if --{key} is set")
        if key != next(iter(given)):
            raise InvalidParameter(f"--{key}", values, f"omitted if --{next(iter(given))} is set")
    required = [key for key in VARIED if key in takes and takes[key].default is takes[key].empty]
    varied = next(iter([*given, *(key for key in required if key not in fixed)]), "")
    check_parameters(name, [*fixed, *([varied] if varied else [])])
    return varied


def candidates(
    name: str, live: Any, parameters: Mapping[str, Any], vary: str = "", values: Iterable[Any] = ()
) -> dict[str, Any]:
    """Agents to evaluate on the log of the agent `live`, by label, and two baselines.

    `vary` is a parameter that takes each of the `values`. All agents have the size of `live`.
    Their `delta` is that of `live` unless it is among the parameters.
    """
    size, available = (live.n_states, live.n_actions), live.pairs.available
    delta = parameters.get("delta", getattr(getattr(live, "plausible", None), "delta", DELTA))
    fixed = {**parameters, "available": available}
    if "delta" in parameters_of(name):
        fixed["delta"] = float(delta)
    kind: Any = AGENTS[name]
    if vary:
        agents = {f"{name}, {vary} {v}": kind(*size, **{vary: v}, **fixed) for v in values}
    else:
        agents = {name: kind(*size, **fixed)}
    return agents | {
        NEVER_FORGETS: UCRL2(*size, delta=delta, available=available),
        LAST_VISIT: Episodic(
            *size, memory=LastVisit(), plausible=L1Ball(delta), restarts=Never(),
            available=available,
        ),
    }  # fmt: skip
