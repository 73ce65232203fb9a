"""Is an agent, one that came from a file say, consistent in itself?

A checksum says that a file is complete, not who wrote it. Machine code follows indices without
looking, so every index is checked to lie inside what it points into, and what is counted twice (the
window's steps and the counts) must agree. Nothing here is larger than what it looks at: a small
file can't make it allocate much.

What an object holds is looked at first, then the object itself. Classes of the user's may have a
method `check_state` that raises ValueError; what they hold of ours is checked as in our agents. A
component may also have `check_sizes(n_states, n_pairs)`, for the arrays that it keeps.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from switchmdp.agents.episodic import PARTS, Episodic
from switchmdp.agents.master import MASTER
from switchmdp.agents.multiscale import Orders
from switchmdp.agents.protocol import Agent
from switchmdp.agents.references import Omniscient, Random
from switchmdp.agents.sound_sets import SETS
from switchmdp.agents.sound_sets import require as _require
from switchmdp.compiled import fields_of
from switchmdp.mdp.model import FULL_ROWS_UP_TO
from switchmdp.mdp.pairs import MAX_PAIRS
from switchmdp.memory import HIGH, Counts, Window
from switchmdp.restarts import NEVER, Cubic, Evidence, Never, Periodic, Told
from switchmdp.restarts.splits import Splits

MOST_STEPS = 2**53  # a century at almost three million a second
MOST_VISITS = 2**32 - 1  # to a pair: what the sums of rewards hold


def must_be_consistent(agent: Any) -> None:
    """Raise a ValueError that names what is wrong first."""
    for verb in ("act", "observe"):
        _require(callable(getattr(agent, verb, None)), f"{type(agent).__name__}, no agent,")
    _check(agent, None)


def _check(instance: Any, sizes: tuple[int, int] | None) -> None:
    """An object and what it holds, in an agent with this many states and pairs."""
    if isinstance(instance, Agent):
        _pairs(instance)
        sizes = instance.n_states, instance.actions.size
    if isinstance(instance, Orders) and sizes:
        sizes = sizes[0], instance.orders * instance.n_pairs
    for name in fields_of(type(instance)):
        value = getattr(instance, name)
        if not isinstance(value, (bool, int, float, np.generic, np.ndarray)):
            _check(value, sizes)
    for cls, check in CHECKS.items():
        if isinstance(instance, cls):
            _require(sizes, f"{cls.__name__} in a class that does not derive from Agent")
            check(instance, *(sizes or (0, 0)))
    if hasattr(instance, "check_sizes"):
        instance.check_sizes(*(sizes or (0, 0)))
    if hasattr(instance, "check_state"):
        instance.check_state()


def _all_in(values: Any, low: float, high: float) -> bool:
    """Whether low <= value <= high everywhere, which no NaN is."""
    return bool(((values >= low) & (values <= high)).all())


def _pairs(agent: Any) -> None:
    starts, actions = agent.starts, agent.actions
    _require(agent.n_states >= 1 and agent.n_actions >= 1, "the number of states or actions")
    _require(agent.n_states * agent.n_actions <= MAX_PAIRS, "the number of pairs")
    _require(starts.shape == (agent.n_states + 1,) and starts[0] == 0, "starts")
    # Compared, not subtracted: a difference may overflow.
    _require((starts[1:] > starts[:-1]).all() and actions.shape == (starts[-1],), "starts")
    _require(_all_in(actions, 0, agent.n_actions - 1), "actions")
    inner = np.ones(actions.size, bool)
    inner[starts[:-1]] = False
    _require((actions[1:] > actions[:-1])[inner[1:]].all(), "actions")


def _episodic(agent: Any, n_states: int, n_pairs: int) -> None:
    for name, verbs in PARTS.items():
        _require(all(hasattr(getattr(agent, name), verb) for verb in verbs), name)
    _policy_and_log(agent, n_states, n_pairs)
    _require(1 <= agent.since <= agent.clock, "the clock")
    _require(1 <= agent.restart_at <= NEVER and 1 <= agent.end_at <= NEVER, "a time")
    rule = agent.restarts
    if isinstance(rule, (Evidence, Splits)):
        _require(rule.seen <= agent.logged, "the steps that the restart rule has seen")
        _require(rule.clock + agent.logged - rule.seen == agent.clock, "the restart rule's clock")
    if type(rule) in (Never, Periodic, Cubic, Told):
        _require(agent.since < agent.restart_at == _due(rule, agent.since), "restart_at")


def _policy_and_log(agent: Any, n_states: int, n_pairs: int) -> None:
    """What an agent has that follows a policy and logs its steps."""
    choice, room = agent.choice, agent.log_pair.size
    _require(choice.shape == agent.quota.shape == (n_states,), "choice or quota")
    _require(((agent.starts[:-1] <= choice) & (choice < agent.starts[1:])).all(), "choice")
    _require((agent.quota >= 0).all(), "quota")
    logs = (agent.log_pair, agent.log_next, agent.log_reward)
    _require(room >= 1 and all(log.shape == (room,) for log in logs), "the log")
    _require(0 <= agent.logged <= room, "logged")
    _require((agent.log_pair[: agent.logged] < n_pairs).all(), "log_pair")
    _require((agent.log_next[: agent.logged] < n_states).all(), "log_next")
    _require(_all_in(agent.log_reward[: agent.logged], 0.0, 1.0), "log_reward")
    _require(1 <= agent.started <= agent.clock <= MOST_STEPS, "the clock")
    _require(0 <= agent.episode_count <= MOST_STEPS, "episode_count")


def _master(agent: Any, n_states: int, n_pairs: int) -> None:
    _policy_and_log(agent, n_states, n_pairs)
    orders, choices = agent.memory.orders, agent.paused.choices
    _require(agent.instances.ends.shape == agent.tests.earned_before.shape == (orders,), "orders")
    _require(agent.memory.n_pairs == n_pairs and 0 <= agent.active < orders, "orders")
    _require(np.array_equal(agent.instances.rho, agent.rates(orders)), "Instances.rho")
    _require(choices.shape == (orders, n_states), "Paused.choices")
    _require(((agent.starts[:-1] <= choices) & (choices < agent.starts[1:])).all(), "choices")
    _require(0 <= agent.seen <= agent.logged and agent.instances.begin <= agent.clock, "seen")
    _require(1 <= agent.look_at <= NEVER and agent.restart_count >= 0, "a time")


def _due(rule: Any, since: int) -> int:
    """What one of our rules said when all was forgotten last."""
    if isinstance(rule, Told):
        return int(rule.times[rule.i]) if rule.i < rule.times.size else NEVER
    return int(rule.time() if isinstance(rule, Cubic) else rule.after(since))


def _counts(counts: Any, n_states: int, n_pairs: int) -> None:
    visits, offset, used, filled = counts.visits, counts.offset, counts.used, counts.filled
    target, count = counts.target, counts.count
    _require(counts.n_states == n_states, "Counts.n_states")
    _require(counts.full == (n_states <= FULL_ROWS_UP_TO), "Counts.full")
    per_pair = (visits, counts.high, counts.low, offset, used)
    _require(all(array.shape == (n_pairs,) for array in per_pair), "Counts: a size")
    _require(count.ndim == 1 and target.shape == count.shape, "Counts.target")
    _require(0 <= filled <= count.size, "Counts.filled")
    _require(_all_in(visits, 0, MOST_VISITS), "Counts.visits")
    for sums in (counts.high, counts.low):
        _require(_all_in(sums, 0, visits * int(HIGH)), "Counts: a sum of rewards")
    _require(_all_in(used, 0, n_states), "Counts.used")
    block = used
    if counts.full:
        _require((used == n_states).all() and filled == count.size == used.sum(), "Counts.filled")
        _require((target.reshape(-1, n_states) == np.arange(n_states)).all(), "Counts.target")
    else:
        block = _block_sizes(used)
    _blocks_lie_apart(offset[used > 0], block[used > 0], filled)
    _require((target[:filled] < n_states).all(), "Counts.target")
    _require((count >= 0).all() and not count[filled:].any(), "Counts.count")

    pair = np.repeat(np.arange(n_pairs), block)
    slot = np.arange(pair.size) - np.repeat(np.cumsum(block) - block, block)
    at = offset[pair] + slot
    seen, in_use = count[at], slot < used[pair]
    _require((seen <= np.where(in_use, visits[pair], 0)).all(), "Counts.count")
    _require(np.array_equal(_sums(pair, seen, n_pairs), visits), "Counts.count")
    met = np.sort((pair * n_states + target[at])[seen > 0])
    _require((met[1:] > met[:-1]).all(), "Counts.target")


def _block_sizes(used: NDArray[np.int64]) -> NDArray[np.int64]:
    """`memory.block_size` of each: the next power of two, and 0 for 0."""
    powers = 2 ** np.arange(33)
    return np.where(used > 0, powers[np.searchsorted(powers, used)], 0)


def _blocks_lie_apart(offset: NDArray[np.int64], size: NDArray[np.int64], room: int) -> None:
    _require((offset >= 0).all() and (offset <= room - size).all(), "Counts.offset")
    order = np.argsort(offset)
    offset, size = offset[order], size[order]
    _require((offset[:-1] + size[:-1] <= offset[1:]).all(), "Counts.offset")


def _sums(where: Any, values: Any, n: int) -> NDArray[np.int64]:
    """Exact sums of integers by index; `np.bincount` would add doubles."""
    sums = np.zeros(n, np.int64)
    np.add.at(sums, where, values)
    return sums


def split(rewards: NDArray[np.float64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """`memory.high_part` and `memory.low_part` of each, to the bit.

    >>> split(np.array([0.5, 1.0, 2.0**-62]))
    (array([1073741824, 2147483648,          0]), array([0, 0, 1]))
    """
    scaled = rewards * HIGH
    high = scaled.astype(np.int64)
    return high, ((scaled - high) * HIGH + 0.5).astype(np.int64)


def _window(memory: Any, n_states: int, n_pairs: int) -> None:
    counts, room = memory.counts, memory.pairs.size
    _require(1 <= room <= memory.window <= 2**62, "Window.window")
    ring = (memory.pairs, memory.slots, memory.rewards)
    _require(all(array.shape == (room,) for array in ring), "the window's ring")
    _require(0 <= memory.head < room and 0 <= memory.size <= room, "Window.head or size")
    # It starts at 0 until it is full; only then may it be grown as it is.
    _require(memory.head == 0 or memory.size == memory.window, "Window.head")
    where = (memory.head + np.arange(memory.size)) % room
    pairs, slots = memory.pairs[where].astype(np.int64), memory.slots[where].astype(np.int64)
    rewards = memory.rewards[where]
    _require((pairs < n_pairs).all() and (slots < counts.used[pairs]).all(), "the window's steps")
    _require(_all_in(rewards, 0.0, 1.0), "the window's rewards")
    _require(np.array_equal(np.bincount(pairs, minlength=n_pairs), counts.visits), "the visits")
    at = counts.offset[pairs] + slots
    # Each slot has as many as it should; with the visits' total right, no other has any.
    seen = np.bincount(at, minlength=counts.count.size)
    _require(np.array_equal(seen[at], counts.count[at]), "the window's counts")
    high, low = (_sums(pairs, part, n_pairs) for part in split(rewards))
    _require(np.array_equal(high, counts.high) and np.array_equal(low, counts.low), "the sums")


def _periodic(rule: Any, n_states: int, n_pairs: int) -> None:
    _require(1 <= rule.period <= 2**62, "Periodic.period")


def _cubic(rule: Any, n_states: int, n_pairs: int) -> None:
    _require(1 <= rule.segments <= 10**5 and rule.i >= 1, "Cubic")
    _require(rule.i * max(rule.i, rule.segments**2) <= 2**62, "Cubic.i")


def _told(rule: Any, n_states: int, n_pairs: int) -> None:
    times = rule.times
    _require(times.ndim == 1 and _all_in(times, 2, NEVER - 1), "Told.times")
    _require((times[1:] > times[:-1]).all() and 0 <= rule.i <= times.size, "Told.times or i")


def _omniscient(agent: Any, n_states: int, n_pairs: int) -> None:
    points, policies = agent.change_points, agent.policies
    _require(points.ndim == 1 and _all_in(points, 2, NEVER - 1), "change_points")
    _require((points[1:] > points[:-1]).all(), "change_points")
    _require(policies.shape == (points.size + 1, n_states), "policies")
    _require(_all_in(policies, 0, agent.n_actions - 1), "policies")
    first = np.arange(n_states) * agent.n_actions
    there = np.repeat(first, np.diff(agent.starts)) + agent.actions
    _require(np.isin(first + policies, there).all(), "policies")
    _require(0 <= agent.at <= points.size and 1 <= agent.clock <= MOST_STEPS, "the clock")


def _random(agent: Any, n_states: int, n_pairs: int) -> None:
    _require(agent.words.shape == (4,) and agent.words.any(), "words")
    _require(1 <= agent.clock <= MOST_STEPS, "the clock")


CHECKS: dict[type, Callable[[Any, int, int], None]] = {
    Counts: _counts, Window: _window, **SETS, Periodic: _periodic, Cubic: _cubic, Told: _told,
    Episodic: _episodic, MASTER: _master, Omniscient: _omniscient, Random: _random,
}  # fmt: skip
