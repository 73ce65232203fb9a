"""Is an agent that came from a file consistent in itself?

A checksum says that a file is complete, not who wrote it. Machine code follows indices without
looking, so every index is checked to lie inside what it points into, and what is counted twice (the
window's steps and the counts) must agree. Classes of the user's may have a method `check_state`
that raises ValueError; of what they hold, our own components are checked as in our agents.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from switchmdp.agents.episodic import Episodic
from switchmdp.agents.protocol import Agent
from switchmdp.agents.references import Omniscient, Random
from switchmdp.compiled import interpreted
from switchmdp.mdp.model import FULL_ROWS_UP_TO
from switchmdp.mdp.pairs import MAX_PAIRS
from switchmdp.memory import Everything, Window, block_size, high_part, low_part
from switchmdp.plausible import L1Ball
from switchmdp.restarts import Cubic, Periodic, Told


def must_be_consistent(agent: Any) -> None:
    """Raise a ValueError that names what is wrong first."""
    if isinstance(agent, Agent):
        _pairs(agent)
    for cls, check in CHECKS.items():
        if isinstance(agent, cls):
            check(agent)
    if hasattr(agent, "check_state"):
        agent.check_state()


def _require(condition: Any, what: str) -> None:
    if not condition:
        raise ValueError(f"{what} is not consistent")


def _pairs(agent: Any) -> None:
    starts, actions = agent.starts, agent.actions
    _require(agent.n_states >= 1 and agent.n_actions >= 1, "the number of states or actions")
    _require(agent.n_states * agent.n_actions <= MAX_PAIRS, "the number of pairs")
    _require(starts.shape == (agent.n_states + 1,) and starts[0] == 0, "starts")
    _require((np.diff(starts) >= 1).all() and starts[-1] == actions.size, "starts")
    _require(actions.ndim == 1 and ((actions >= 0) & (actions < agent.n_actions)).all(), "actions")
    inner = np.ones(actions.size, bool)
    inner[starts[:-1]] = False
    _require((np.diff(actions)[inner[1:]] > 0).all(), "actions")


def _episodic(agent: Any) -> None:
    n_states, n_pairs = agent.n_states, agent.actions.size
    choice, room = agent.choice, agent.log_pair.size
    _require(choice.shape == agent.quota.shape == (n_states,), "choice or quota")
    _require(((agent.starts[:-1] <= choice) & (choice < agent.starts[1:])).all(), "choice")
    _require((agent.quota >= 0).all(), "quota")
    logs = (agent.log_pair, agent.log_next, agent.log_reward)
    _require(room >= 1 and all(log.shape == (room,) for log in logs), "the log")
    _require(0 <= agent.logged <= room, "logged")
    _require((agent.log_pair[: agent.logged] < n_pairs).all(), "log_pair")
    _require((agent.log_next[: agent.logged] < n_states).all(), "log_next")
    _rewards(agent.log_reward[: agent.logged], "log_reward")
    _require(1 <= agent.since <= agent.clock and 1 <= agent.started <= agent.clock, "the clock")
    _require(agent.episode_count >= 0 and agent.restart_at >= 1 and agent.end_at >= 1, "a time")
    for component in (agent.memory, agent.plausible, agent.restarts, agent.episodes):
        for cls, check in COMPONENTS.items():
            if isinstance(component, cls):
                check(component, n_states, n_pairs)


def _rewards(values: Any, what: str) -> None:
    _require(((values >= 0.0) & (values <= 1.0)).all(), what)


def _counts(counts: Any, n_states: int, n_pairs: int) -> None:
    _require(counts.n_states == n_states, "Counts.n_states")
    _require(counts.full == (n_states <= FULL_ROWS_UP_TO), "Counts.full")
    per_pair = (counts.visits, counts.high, counts.low, counts.offset, counts.used)
    _require(all(array.shape == (n_pairs,) for array in per_pair), "Counts: a size")
    _require(counts.target.shape == counts.count.shape and counts.count.ndim == 1, "Counts.target")
    _require(0 <= counts.filled <= counts.count.size, "Counts.filled")
    _require((counts.visits >= 0).all() and (counts.used >= 0).all(), "Counts.visits or used")
    size = interpreted(block_size)
    blocks = np.array([size(int(n)) for n in counts.used], np.int64)
    if counts.full:
        blocks = counts.used
        _require((counts.used == n_states).all(), "Counts.used")
        row = np.arange(n_pairs * n_states) % n_states
        _require(np.array_equal(counts.target, row), "Counts.target")
    _require((counts.used <= n_states).all(), "Counts.used")
    ends = counts.offset + blocks
    inside = (counts.offset >= 0) & (ends <= counts.filled)
    _require((inside | (counts.used == 0)).all(), "Counts.offset")
    order = np.argsort(counts.offset[counts.used > 0], kind="stable")
    starts, stops = counts.offset[counts.used > 0][order], ends[counts.used > 0][order]
    _require((stops[:-1] <= starts[1:]).all(), "Counts.offset")
    _require((counts.target[: counts.filled] < n_states).all(), "Counts.target")
    _require((counts.count >= 0).all(), "Counts.count")
    for x in np.nonzero(counts.used)[0]:
        block = slice(counts.offset[x], counts.offset[x] + counts.used[x])
        _require(counts.count[block].sum() == counts.visits[x], "Counts.count")
        met = counts.target[block][counts.count[block] > 0]
        _require(len(np.unique(met)) == len(met), "Counts.target")
    _require((counts.visits[counts.used == 0] == 0).all(), "Counts.visits")
    limit = counts.visits * 2**31
    for sums in (counts.high, counts.low):
        _require(((sums >= 0) & (sums <= limit)).all(), "Counts: a sum of rewards")


def _everything(memory: Any, n_states: int, n_pairs: int) -> None:
    _counts(memory.counts, n_states, n_pairs)


def _window(memory: Any, n_states: int, n_pairs: int) -> None:
    counts = memory.counts
    _counts(counts, n_states, n_pairs)
    room = memory.pairs.size
    _require(memory.window >= 1 and 1 <= room <= memory.window, "Window.window")
    _require(memory.slots.shape == memory.rewards.shape == (room,), "the window's ring")
    _require(0 <= memory.head < room and 0 <= memory.size <= room, "Window.head or size")
    where = (memory.head + np.arange(memory.size)) % room
    pairs, slots = memory.pairs[where].astype(np.int64), memory.slots[where].astype(np.int64)
    _require((pairs < n_pairs).all() and (slots < counts.used[pairs]).all(), "the window's steps")
    _rewards(memory.rewards[where], "the window's rewards")
    count = np.bincount(counts.offset[pairs] + slots, minlength=counts.count.size)
    for x in np.nonzero(counts.used)[0]:  # elsewhere lies what moved blocks left behind
        block = slice(counts.offset[x], counts.offset[x] + counts.used[x])
        _require(np.array_equal(count[block], counts.count[block]), "the window's counts")
    high, low = np.zeros(n_pairs, np.int64), np.zeros(n_pairs, np.int64)
    split = interpreted(high_part), interpreted(low_part)
    for pair, reward in zip(pairs.tolist(), memory.rewards[where].tolist(), strict=True):
        high[pair] += split[0](reward)
        low[pair] += split[1](reward)
    _require(np.array_equal(high, counts.high) and np.array_equal(low, counts.low), "the sums")


def _l1_ball(ball: Any, n_states: int, n_pairs: int) -> None:
    _require(0.0 < ball.delta < 1.0 and ball.n_states == n_states, "L1Ball")
    _require(ball.n_actions >= 1 and ball.reward.shape == ball.radius.shape == (n_pairs,), "L1Ball")
    optimism = ball.optimism
    per_state = (optimism.value, optimism.next_value, optimism.values, optimism.masses)
    _require(all(array.shape == (n_states,) for array in per_state), "Optimism: a size")
    _require(np.array_equal(np.sort(optimism.order), np.arange(n_states)), "Optimism.order")
    _require(optimism.estimates.ndim == 1 and optimism.sweeps >= 0, "Optimism")


def _periodic(rule: Any, n_states: int, n_pairs: int) -> None:
    _require(rule.period >= 1, "Periodic.period")


def _cubic(rule: Any, n_states: int, n_pairs: int) -> None:
    _require(1 <= rule.segments <= 10**5 and 1 <= rule.i <= 2**31, "Cubic")


def _told(rule: Any, n_states: int, n_pairs: int) -> None:
    times = rule.times
    _require(times.ndim == 1 and (np.diff(times) > 0).all() and (times >= 2).all(), "Told.times")
    _require(0 <= rule.i <= times.size, "Told.i")


def _omniscient(agent: Any) -> None:
    points, policies = agent.change_points, agent.policies
    _require(points.ndim == 1 and (np.diff(points) > 0).all(), "change_points")
    _require(policies.shape == (points.size + 1, agent.n_states), "policies")
    table = np.zeros((agent.n_states, agent.n_actions), bool)
    table[np.repeat(np.arange(agent.n_states), np.diff(agent.starts)), agent.actions] = True
    inside = (policies >= 0) & (policies < agent.n_actions)
    _require(inside.all() and table[np.arange(agent.n_states), policies].all(), "policies")
    _require(0 <= agent.at <= points.size and agent.clock >= 1, "the clock")


def _random(agent: Any) -> None:
    _require(agent.words.shape == (4,) and agent.words.any() and agent.clock >= 1, "words")


CHECKS: dict[type, Callable[[Any], None]] = {
    Episodic: _episodic, Omniscient: _omniscient, Random: _random,
}  # fmt: skip
COMPONENTS: dict[type, Callable[[Any, int, int], None]] = {
    Everything: _everything, Window: _window, L1Ball: _l1_ball, Periodic: _periodic, Cubic: _cubic,
    Told: _told,
}  # fmt: skip
