"""The interaction loop: one source, run as machine code or interpreted.

From change point to change point the loop hands over to a *stretch*, which adds up rewards and
writes the points of the grid. An agent is called at every step through `act` and `observe`. An
agent that declares `follows_policy` (`agents.policy_agent`) is called only when a quota is used up.
Until then its policy, quotas and log are local variables: "execute the policy while …".

What costs time here: a number that Numba takes for signed and an index (`compiled.index`), a call
that is not inlined (it counts references), and anything on the way from one state to the next,
because the processor cannot start a step before it knows the state.

Regret at step t is Σρ* - Σr. The sum of gains is kept as a sum over finished segments plus the
current one's gain times its length, so that it does not depend on where a run was cut into pieces.

Adding up a billion rewards one by one loses digits: each addition rounds, and with a constant
reward all roundings go the same way. So the sums of the steps since the last *settling* are added,
with their rounding errors, to sums that carry 106 bits (`add_exactly`). The first million steps are
settled together, and from then on every 4096.

The loop returns early when the caller's flag `due` is set; the next call continues from there.

**Batches.** Machine code simulates many runs in one call. Their problems, positions and records are
arrays with a row or a part for each run (`Problems`, `Runs`, `EpisodePool`); `run` takes what
belongs to run i, and writes back where the run stands.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from switchmdp.compiled import fields_of, index, inlined, jit, specialised
from switchmdp.mdp.mdp import BERNOULLI, draw_reward
from switchmdp.mdp.model import Model, draw_successor
from switchmdp.mdp.pairs import find_pair

COMMON: Any = np.int64(BERNOULLI)


class Problems(NamedTuple):
    """The arrays of several problems, one problem after another.

    Array k of problem p is the part bounds[k, p] to bounds[k, p + 1] of field k.
    """

    starts: NDArray[np.int64]
    row: NDArray[np.int64]
    start: NDArray[np.int64]
    stop: NDArray[np.int64]
    mean: NDArray[np.float64]
    successors: NDArray[np.uint32]
    probabilities: NDArray[np.float64]
    cumulative: NDArray[np.float64]
    actions: NDArray[np.int64]
    offsets: NDArray[np.int64]
    pair: NDArray[np.int64]
    new: NDArray[np.int64]
    change_points: NDArray[np.int64]
    gains: NDArray[np.float64]
    bounds: NDArray[np.int64]
    law: NDArray[np.int64]
    parameter: NDArray[np.float64]
    full_rows: NDArray[np.bool_]  # every row lists all states in order


class Runs(NamedTuple):
    """Where each run stands, and what is recorded of it. All runs have the same horizon."""

    problem: NDArray[np.int64]  # the number of its problem
    row: NDArray[np.int64]  # of each pair, which changes as time goes on
    row_bounds: NDArray[np.int64]  # the rows of run i are row[row_bounds[i]:row_bounds[i + 1]]
    numbers: NDArray[np.int64]  # the integers of its `Position`
    sums: NDArray[np.float64]  # the floats of its `Position`
    reward_words: NDArray[np.uint64]
    move_words: NDArray[np.uint64]
    regret: NDArray[np.float64]
    pseudo_regret: NDArray[np.float64]
    states: NDArray[np.int32]  # without columns if steps are not recorded, like the next two
    actions: NDArray[np.int32]
    rewards: NDArray[np.float64]


class World(NamedTuple):
    """The problem of a run as the loop sees it. `model.row` changes as time goes on."""

    model: Model
    full_rows: bool
    actions: NDArray[np.int64]
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
    """The state of a run before step t. The sums are over the steps since the last settling."""

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


class Account(NamedTuple):
    """How regret is computed in a stretch: one configuration, between two settlings."""

    before: float  # the sum of gains over the segments before this one, since the last settling
    gain: float
    segment: int
    every: int
    horizon: int
    settled_regret: float  # the part of regret and pseudo-regret before the last settling
    settled_pseudo: float


class PolicyRows(NamedTuple):
    """The row of each state under the current policy.

    Full rows are looked up at once, others when a state is visited: there may be very many. Then
    they are valid where `known` is the current number.
    """

    known: NDArray[np.int64]
    start: NDArray[np.int64]
    stop: NDArray[np.int64]
    mean: NDArray[np.float64]


class EpisodeLog(NamedTuple):
    """The arrays for what is recorded of each episode, without room if nothing is recorded."""

    start: NDArray[np.int64]
    gain: NDArray[np.float64]
    sweeps: NDArray[np.int64]
    policy: NDArray[np.int32]
    since: NDArray[np.int64]  # the step from which on the agent remembered
    seen: NDArray[np.int64]  # the last episode's number, and how many are recorded


class EpisodePool(NamedTuple):
    """The episode logs of several runs, one run after another."""

    start: NDArray[np.int64]
    gain: NDArray[np.float64]
    sweeps: NDArray[np.int64]
    policy: NDArray[np.int32]
    since: NDArray[np.int64]
    first: NDArray[np.int64]  # where the log of each run begins
    seen: NDArray[np.int64]  # `EpisodeLog.seen` of each run


FIRST_SETTLING = 2**20
SETTLE_EVERY = 2**12


@jit
def next_settling(t: int) -> int:
    """The last of the steps that are settled together, from step t on."""
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
def settled_part(settled: Any) -> Any:
    """(regret, pseudo-regret) of the settled steps."""
    sg, sg_rest, sr, sr_rest, sm, sm_rest = settled
    return (sg - sr) + (sg_rest - sr_rest), (sg - sm) + (sg_rest - sm_rest)


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


@jit
def next_point(t: int, every: int, horizon: int) -> int:
    """The step, from t on, after which the next point of the grid is written."""
    return min(((t - 1) // every + 1) * every, horizon)


@inlined
def write_point(trace: Any, account: Any, t: int, point: int, rewards: float, means: float) -> None:
    """Write the regret before step t."""
    before, gain, segment, _, _, settled_regret, settled_pseudo = account
    earned = before + gain * (t - segment)
    trace.regret[index(point)] = settled_regret + (earned - rewards)
    trace.pseudo_regret[index(point)] = settled_pseudo + (earned - means)


@specialised
def stretch(
    agent: Any, world: Any, log: Any, trace: Any, rows: Any, account: Any, t: int, state: int,
    stop: int, first: int, point: int, rewards: float, means: float, due: Any,
) -> Any:  # fmt: skip
    """Simulate the steps t..stop, calling the agent at every one.

    A last state of -1 - s reports an invalid action in state s.
    """
    model, actions, law, parameter = world.model, world.actions, world.law, world.parameter
    starts, row, start, end, mean = model.starts, model.row, model.start, model.stop, model.mean
    successors, cumulative = model.successors, model.cumulative
    reward_words, move_words = world.reward_words, world.move_words
    every, horizon = account.every, account.horizon
    grid = next_point(t, every, horizon)
    keep = trace.states.size > 0
    while t <= stop and not is_full(log) and not due[0]:
        action = agent.act(state)
        pair = find_pair(starts, actions, state, action)
        if pair < 0:
            return t, -1 - state, point, rewards, means
        if log.start.size > 0:
            note_episode(agent, log, t)
        y = index(row[index(pair)])
        reward = draw_reward(law, parameter, mean[y], reward_words)
        target = draw_successor(start[y], end[y], False, successors, cumulative, move_words)
        agent.observe(state, action, reward, target)
        rewards += reward
        means += mean[y]
        if keep:
            at = index(t - first)
            trace.states[at], trace.actions[at], trace.rewards[at] = state, action, reward
        state = target
        t += 1
        if t > grid:
            write_point(trace, account, t, point, rewards, means)
            point += 1
            grid = min(grid + every, horizon)
    return t, state, point, rewards, means


@inlined
def look_up_row(rows: Any, model: Any, state: Any, pair: Any) -> None:
    """Write the row of a state's pair into the table."""
    y = index(model.row[index(pair)])
    rows.start[state], rows.stop[state] = model.start[y], model.stop[y]
    rows.mean[state] = model.mean[y]


@inlined
def follow(
    law: int, full_rows: bool, world: Any, trace: Any, rows: Any, number: int, account: Any,
    choice: Any, quota: Any, log_pair: Any, log_next: Any, log_reward: Any, n: int, t: int,
    state: int, last: int, grid: int, point: int, rewards: float, means: float,
) -> Any:  # fmt: skip
    """Follow the policy up to step `last` or the end of a quota, logging from position n on."""
    model, parameter = world.model, world.parameter
    successors, cumulative = model.successors, model.cumulative
    reward_words, move_words = world.reward_words, world.move_words
    known, start, stop, mean = rows.known, rows.start, rows.stop, rows.mean
    every, horizon = account.every, account.horizon
    if full_rows:
        for i in range(choice.size):
            look_up_row(rows, model, index(i), choice[index(i)])
    while t <= last and quota[index(state)] > 0:
        s, pair = index(state), choice[index(state)]
        if not full_rows and known[s] != number:
            look_up_row(rows, model, s, pair)
            known[s] = number
        expected = mean[s]
        reward = draw_reward(law, parameter, expected, reward_words)
        target = draw_successor(start[s], stop[s], full_rows, successors, cumulative, move_words)
        quota[s] -= 1
        log_pair[index(n)] = pair
        log_next[index(n)] = target
        log_reward[index(n)] = reward
        n += 1
        rewards += reward
        means += expected
        state = target
        t += 1
        if t > grid:
            write_point(trace, account, t, point, rewards, means)
            point += 1
            grid = min(grid + every, horizon)
    return t, state, grid, point, rewards, means


@stretch.when(lambda cls: getattr(cls, "follows_policy", False))
def _stretch_by_policy(
    agent: Any, world: Any, log: Any, trace: Any, rows: Any, account: Any, t: int, state: int,
    stop: int, first: int, point: int, rewards: float, means: float, due: Any,
) -> Any:  # fmt: skip
    """Steps t..stop of an agent that follows a policy, called only when a quota is used up."""
    actions = world.actions
    grid = next_point(t, account.every, account.horizon)
    keep = trace.states.size > 0
    while t <= stop and not is_full(log) and not due[0]:
        agent.prepare(state)
        if log.start.size > 0:
            note_episode(agent, log, t)
        choice, quota = agent.choice, agent.quota
        log_pair, log_next, log_reward = agent.log_pair, agent.log_next, agent.log_reward
        n, begin, origin = agent.logged, t, state
        last = min(stop, t + agent.patience() - 1)
        # Three times the same, so that common cases are compiled without all others in them.
        if world.law == COMMON and world.full_rows:
            t, state, grid, point, rewards, means = follow(
                COMMON, True, world, trace, rows, begin, account, choice, quota, log_pair,
                log_next, log_reward, n, t, state, last, grid, point, rewards, means,
            )  # fmt: skip
        elif world.law == COMMON:
            t, state, grid, point, rewards, means = follow(
                COMMON, False, world, trace, rows, begin, account, choice, quota, log_pair,
                log_next, log_reward, n, t, state, last, grid, point, rewards, means,
            )  # fmt: skip
        else:
            t, state, grid, point, rewards, means = follow(
                world.law, False, world, trace, rows, begin, account, choice, quota, log_pair,
                log_next, log_reward, n, t, state, last, grid, point, rewards, means,
            )  # fmt: skip
        if keep:
            for i in range(t - begin):
                at = begin + i - first
                trace.states[at], trace.actions[at] = origin, actions[log_pair[n + i]]
                trace.rewards[at] = log_reward[n + i]
                origin = log_next[n + i]
        agent.credit_logged(t - begin)
    return t, state, point, rewards, means


@jit
def run(
    agent: Any, i: int, problems: Any, runs: Any, pool: Any, first: int, horizon: int, every: int,
    due: Any,
) -> bool:  # fmt: skip
    """Run i, from its position to the horizon, or until its log is full or the flag `due` is set.

    Its record began at step `first`. Returns whether the next run may follow: this one has reached
    the horizon, and `due` is not set.
    """
    p, bounds = runs.problem[i], problems.bounds
    row = runs.row[runs.row_bounds[i] : runs.row_bounds[i + 1]]
    model = Model(
        problems.starts[bounds[0, p] : bounds[0, p + 1]],
        row,
        problems.start[bounds[2, p] : bounds[2, p + 1]],
        problems.stop[bounds[3, p] : bounds[3, p + 1]],
        problems.mean[bounds[4, p] : bounds[4, p + 1]],
        problems.successors[bounds[5, p] : bounds[5, p + 1]],
        problems.probabilities[bounds[6, p] : bounds[6, p + 1]],
        problems.cumulative[bounds[7, p] : bounds[7, p + 1]],
    )
    actions = problems.actions[bounds[8, p] : bounds[8, p + 1]]
    offsets = problems.offsets[bounds[9, p] : bounds[9, p + 1]]
    pair = problems.pair[bounds[10, p] : bounds[10, p + 1]]
    new = problems.new[bounds[11, p] : bounds[11, p + 1]]
    change_points = problems.change_points[bounds[12, p] : bounds[12, p + 1]]
    gains = problems.gains[bounds[13, p] : bounds[13, p + 1]]
    world = World(
        model, problems.full_rows[p], actions, problems.law[p], problems.parameter[p],
        runs.reward_words[i], runs.move_words[i],
    )  # fmt: skip
    trace = Trace(
        runs.regret[i], runs.pseudo_regret[i], runs.states[i], runs.actions[i], runs.rewards[i]
    )
    n_states = model.starts.size - 1
    begin = 0
    if i > 0:
        begin = pool.first[i - 1] + pool.seen[i - 1, 1]
    pool.first[i] = begin
    if 0 < pool.start.size <= begin:
        return False
    log = EpisodeLog(
        pool.start[begin:], pool.gain[begin:], pool.sweeps[begin:], pool.policy[begin:, :n_states],
        pool.since[begin:], pool.seen[i],
    )  # fmt: skip
    numbers, sums = runs.numbers[i], runs.sums[i]
    t, state, change, segment = int(numbers[0]), int(numbers[1]), int(numbers[2]), int(numbers[3])
    before, rewards, means = float(sums[0]), float(sums[1]), float(sums[2])
    settled = (
        float(sums[3]), float(sums[4]), float(sums[5]), float(sums[6]), float(sums[7]),
        float(sums[8]),
    )  # fmt: skip
    point = (t - 1) // every - (first - 1) // every
    rows = PolicyRows(
        np.zeros(n_states, np.int64), np.zeros(n_states, np.int64), np.zeros(n_states, np.int64),
        np.zeros(n_states),
    )  # fmt: skip
    while t <= horizon and not due[0]:
        while change < change_points.size and change_points[change] <= t:
            before += gains[change] * (t - segment)
            segment = t
            for k in range(offsets[change], offsets[change + 1]):
                row[pair[k]] = new[k]
            change += 1
        settling = next_settling(t)
        stop = min(horizon, settling)
        if change < change_points.size:
            stop = min(stop, change_points[change] - 1)
        settled_regret, settled_pseudo = settled_part(settled)
        account = Account(
            before, gains[change], segment, every, horizon, settled_regret, settled_pseudo
        )
        t, state, point, rewards, means = stretch(
            agent, world, log, trace, rows, account, t, state, stop, first, point, rewards, means,
            due,
        )  # fmt: skip
        if t <= stop:
            break
        if t > settling:
            earned = before + gains[change] * (t - segment)
            sg, sg_rest, sr, sr_rest, sm, sm_rest = settled
            sg, sg_rest = add_exactly(sg, sg_rest, earned)
            sr, sr_rest = add_exactly(sr, sr_rest, rewards)
            sm, sm_rest = add_exactly(sm, sm_rest, means)
            settled = (sg, sg_rest, sr, sr_rest, sm, sm_rest)
            before, rewards, means, segment = 0.0, 0.0, 0.0, t
    numbers[0], numbers[1], numbers[2], numbers[3] = t, state, change, segment
    sums[0], sums[1], sums[2] = before, rewards, means
    sums[3], sums[4], sums[5], sums[6], sums[7], sums[8] = settled
    return bool(t > horizon and not due[0])
