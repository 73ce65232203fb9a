"""The interaction loop: one source, run as machine code or interpreted.

From change point to change point, and from grid point to grid point, the loop hands over to a
*stretch*: steps without any accounting but two sums. An agent is called at every step through `act`
and `observe`. An agent that declares `follows_policy` (`agents.policy_agent`) is called only when a
quota is used up. Until then its policy, quotas and log are local variables: "execute the policy
while …".

Regret at step t is Σρ* - Σr. The sum of gains is kept as a sum over finished segments plus the
current one's gain times its length, so that it does not depend on where a run was cut into pieces.

Adding up a billion rewards one by one loses digits: each addition rounds, and with a constant
reward all roundings go the same way. So the sums of the steps since the last *settling* are added,
with their rounding errors, to sums that carry 106 bits (`add_exactly`). The first million steps are
settled together, and from then on every 4096.

The loop returns early when the caller's flag `due` is set; the next call continues from there.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from switchmdp.compiled import fields_of, freeze, inlined, jit, specialised, thaw
from switchmdp.mdp.laws import BERNOULLI, draw_reward
from switchmdp.mdp.model import Model, draw_successor
from switchmdp.mdp.pairs import find_pair
from switchmdp.mdp.pool import Patches

COMMON: Any = np.int64(BERNOULLI)


class World(NamedTuple):
    """The problem as the loop sees it. `model.row` changes as time goes on."""

    model: Model
    actions: NDArray[np.int64]
    patches: Patches
    change_points: NDArray[np.int64]
    gains: NDArray[np.float64]
    law: int
    parameter: float
    reward_words: NDArray[np.uint64]
    move_words: NDArray[np.uint64]


class Settled(NamedTuple):
    """Sums over all steps before the last settling, each with the part that a float can't hold."""

    gains: float = 0.0
    gains_rest: float = 0.0
    rewards: float = 0.0
    rewards_rest: float = 0.0
    means: float = 0.0
    means_rest: float = 0.0


class Position(NamedTuple):
    """Where a run stands before step t. The sums are over the steps since the last settling."""

    t: int
    state: int
    change: int  # change points passed
    segment: int  # the step from which on the current configuration's gains are not in `gains`
    gains: float
    rewards: float
    means: float
    settled: Settled


class Trace(NamedTuple):
    """The grid's record and, where their arrays have room, every step."""

    regret: NDArray[np.float64]
    pseudo_regret: NDArray[np.float64]
    states: NDArray[np.int32]
    actions: NDArray[np.int32]
    rewards: NDArray[np.float64]


class EpisodeLog(NamedTuple):
    """What is recorded of each episode; arrays without room where it is not wanted."""

    start: NDArray[np.int64]
    gain: NDArray[np.float64]
    sweeps: NDArray[np.int64]
    policy: NDArray[np.int32]
    since: NDArray[np.int64]  # the step from which on the agent remembered
    seen: NDArray[np.int64]  # the last episode's number, and how many are recorded


FIRST_SETTLING = 2**20
SETTLE_EVERY = 2**12


@jit
def next_settling(t: int) -> int:
    """The last step, from t on, of those that are settled together."""
    return max(FIRST_SETTLING, -(-t // SETTLE_EVERY) * SETTLE_EVERY)


@jit
def add_exactly(total: float, rest: float, term: float) -> Any:
    """(total, rest) of total + rest + term (Knuth's two-sum, twice)."""
    added = total + term
    part = added - total
    rest += (total - (added - part)) + (term - part)
    result = added + rest
    return result, rest - (result - added)


@jit
def regret_of(settled: Any, gains: float, rewards: float, means: float) -> Any:
    """(regret, pseudo-regret) from the settled sums and those of the steps since."""
    sg, sg_rest, sr, sr_rest, sm, sm_rest = settled
    regret = (sg - sr) + (sg_rest - sr_rest) + (gains - rewards)
    return regret, (sg - sm) + (sg_rest - sm_rest) + (gains - means)


@jit
def is_full(log: Any) -> bool:
    """Whether the next episode would find no room: the caller then makes some."""
    return bool(0 < log.start.size <= log.seen[1])


@specialised
def note_episode(agent: Any, log: Any, t: int) -> None:
    """Record the agent's episode if it is a new one; agents without episodes have none."""
    episode = getattr(agent, "episode", None)
    if episode is not None and episode != log.seen[0]:
        k = log.seen[1]
        log.start[k], log.gain[k] = t, getattr(agent, "gain", np.nan)
        log.sweeps[k] = getattr(agent, "sweeps", 0)
        log.policy[k] = getattr(agent, "policy", -1)
        log.since[k] = getattr(agent, "since", 1)
        log.seen[0], log.seen[1] = episode, k + 1


@specialised
def remembers_since(agent: Any) -> int:
    """The step from which on the agent remembers; 1 if it never starts over."""
    return 1


@remembers_since.when(lambda cls: "since" in fields_of(cls))
def _remembers_since(agent: Any) -> int:
    return agent.since  # type: ignore[no-any-return]  # an int, as annotated there


@note_episode.when(lambda cls: hasattr(cls, "start_episode"))
def _note_episode(agent: Any, log: Any, t: int) -> None:
    if agent.episode_count != log.seen[0]:
        k = log.seen[1]
        log.start[k], log.gain[k], log.sweeps[k] = (
            t,
            agent.plausible.gain(),
            agent.plausible.sweeps(),
        )
        for s in range(agent.choice.size):
            log.policy[k, s] = agent.actions[agent.choice[s]]
        log.since[k] = remembers_since(agent)
        log.seen[0], log.seen[1] = agent.episode_count, k + 1


@note_episode.when(lambda cls: True)
def _note_nothing(agent: Any, log: Any, t: int) -> None:
    pass


@specialised
def stretch(
    agent: Any, world: Any, log: Any, trace: Any, t: int, state: int, stop: int, first: int,
    rewards: float, means: float, due: Any,
) -> Any:  # fmt: skip
    """Steps t..stop, asking the agent at every one. A last state of -1 - s: a bad action in s."""
    model, actions = world.model, world.actions
    keep = trace.states.size > 0
    while t <= stop and not is_full(log) and not due[0]:
        action = agent.act(state)
        pair = find_pair(model.starts, actions, state, action)
        if pair < 0:
            return t, -1 - state, rewards, means
        if log.start.size > 0:
            note_episode(agent, log, t)
        y = model.row[pair]
        reward = draw_reward(world.law, world.parameter, model.mean[y], world.reward_words)
        target = draw_successor(
            model.start[y], model.stop[y], model.successors, model.cumulative, world.move_words
        )
        agent.observe(state, action, reward, target)
        rewards += reward
        means += model.mean[y]
        if keep:
            trace.states[t - first], trace.actions[t - first] = state, action
            trace.rewards[t - first] = reward
        state = target
        t += 1
    return t, state, rewards, means


@inlined
def follow(
    law: int, world: Any, choice: Any, quota: Any, log_pair: Any, log_next: Any, log_reward: Any,
    n: int, t: int, state: int, last: int, rewards: float, means: float,
) -> Any:  # fmt: skip
    """Follow the policy up to step `last` or the end of a quota, logging from position n on."""
    model, parameter = world.model, world.parameter
    row, start, stop, mean = model.row, model.start, model.stop, model.mean
    successors, cumulative = model.successors, model.cumulative
    reward_words, move_words = world.reward_words, world.move_words
    while t <= last and quota[state] > 0:
        pair = choice[state]
        y = row[pair]
        reward = draw_reward(law, parameter, mean[y], reward_words)
        target = draw_successor(start[y], stop[y], successors, cumulative, move_words)
        quota[state] -= 1
        log_pair[n] = pair
        log_next[n] = target
        log_reward[n] = reward
        n += 1
        rewards += reward
        means += mean[y]
        state = target
        t += 1
    return t, state, rewards, means


@stretch.when(lambda cls: getattr(cls, "follows_policy", False))
def _stretch_by_policy(
    agent: Any, world: Any, log: Any, trace: Any, t: int, state: int, stop: int, first: int,
    rewards: float, means: float, due: Any,
) -> Any:  # fmt: skip
    """Steps t..stop of an agent that follows a policy, called only when a quota is used up."""
    actions = world.actions
    keep = trace.states.size > 0
    while t <= stop and not is_full(log) and not due[0]:
        agent.prepare(state)
        if log.start.size > 0:
            note_episode(agent, log, t)
        choice, quota = agent.choice, agent.quota
        log_pair, log_next, log_reward = agent.log_pair, agent.log_next, agent.log_reward
        n, begin, origin = agent.logged, t, state
        last = min(stop, t + agent.patience() - 1)
        # Twice the same, so that the common law's loop is compiled without the other laws in it.
        if world.law == COMMON:
            t, state, rewards, means = follow(
                COMMON, world, choice, quota, log_pair, log_next, log_reward,
                n, t, state, last, rewards, means,
            )  # fmt: skip
        else:
            t, state, rewards, means = follow(
                world.law, world, choice, quota, log_pair, log_next, log_reward,
                n, t, state, last, rewards, means,
            )  # fmt: skip
        if keep:
            for i in range(t - begin):
                at = begin + i - first
                trace.states[at], trace.actions[at] = origin, actions[log_pair[n + i]]
                trace.rewards[at] = log_reward[n + i]
                origin = log_next[n + i]
        agent.credit_logged(t - begin)
    return t, state, rewards, means


def run(agent_state: Any, log: Any, world: Any, trace: Any, at: Any, horizon: int,
        every: int, due: Any) -> Any:  # fmt: skip
    """From a position to the horizon, or until the log is full or the flag `due` is set.

    Returns the agent and the position then.
    """
    agent = thaw(agent_state)
    patches, change_points, gains = world.patches, world.change_points, world.gains
    row = world.model.row
    t, state, change, segment, before, rewards, means, sums = at
    settled = (sums[0], sums[1], sums[2], sums[3], sums[4], sums[5])  # a plain tuple of floats
    first, point = t, 0
    while t <= horizon and not due[0]:
        while change < change_points.size and change_points[change] <= t:
            before += gains[change] * (t - segment)
            segment = t
            for k in range(patches.offsets[change], patches.offsets[change + 1]):
                row[patches.pair[k]] = patches.new[k]
            change += 1
        grid = min(((t - 1) // every + 1) * every, horizon)
        settling = next_settling(t)
        stop = min(grid, settling)
        if change < change_points.size:
            stop = min(stop, change_points[change] - 1)
        t, state, rewards, means = stretch(
            agent, world, log, trace, t, state, stop, first, rewards, means, due
        )
        if t <= stop:
            break
        earned = before + gains[change] * (t - segment)
        if t > grid:
            trace.regret[point], trace.pseudo_regret[point] = regret_of(
                settled, earned, rewards, means
            )
            point += 1
        if t > settling:
            sg, sg_rest, sr, sr_rest, sm, sm_rest = settled
            sg, sg_rest = add_exactly(sg, sg_rest, earned)
            sr, sr_rest = add_exactly(sr, sr_rest, rewards)
            sm, sm_rest = add_exactly(sm, sm_rest, means)
            settled = (sg, sg_rest, sr, sr_rest, sm, sm_rest)
            before, rewards, means, segment = 0.0, 0.0, 0.0, t
    position = (t, state, change, segment, before, rewards, means, settled)
    return freeze(agent), position
