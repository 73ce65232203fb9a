"""ε-bad steps: how often an agent followed a policy that is clearly worse than the best.

Step t is ε-bad if ρ*_t - gain(M_t, π_t from s_t) > ε, where π_t is the policy that the agent
follows in its episode. If every policy has one closed class, its gain is the same from every state,
and the episodes suffice. If some policy has several, the visited states are needed too.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from switchmdp.compiled import entry, jit
from switchmdp.mdp import SwitchingMDP
from switchmdp.mdp.model import Model
from switchmdp.mdp.pairs import find_pair
from switchmdp.planning.iteration import gains_of_policy
from switchmdp.simulation.batch import pool_problems
from switchmdp.simulation.loop import EpisodePool
from switchmdp.simulation.record import Record, Records

LARGEST = 200  # states: evaluating a policy costs about S³
TABLE = 4096  # policies whose gains are kept in a table
SAME = 1e-12
STATES_NEEDED = -1.0


def count_bad_steps(record: Record, problem: SwitchingMDP, epsilon: float) -> float | None:
    """The number of ε-bad steps of a run recorded with its episodes.

    NaN if the record has no episodes, which contain the policies; None if the visited states are
    needed and were not recorded (`trajectory=True`).

    >>> import switchmdp as sm
    >>> problem = sm.problems.random_switching(5, 3, changes=1, horizon=1000, seed=0)
    >>> agent = sm.agents.UCRL2(5, 3)
    >>> record = sm.simulate(agent, problem, 1000, seed=0, episodes=True)
    >>> 0 <= count_bad_steps(record, problem, 0.05) <= 1000
    True
    """
    episodes, states = record.episodes, np.zeros((1, 0), np.int32)
    if episodes is None:
        return float("nan")
    if record.trajectory is not None:
        states = record.trajectory.states.reshape(1, -1)
    pool = EpisodePool(
        episodes.start, episodes.gain, episodes.sweeps, episodes.policy, episodes.since,
        np.zeros(1, np.int64), np.array([[0, len(episodes)]]),
    )  # fmt: skip
    (count,) = _count(*pool_problems([problem], record.horizon), pool, states, record.horizon,
                      float(epsilon)).tolist()  # fmt: skip
    return None if count == STATES_NEEDED else float(count)


def count_bad_steps_of_all(records: Records, epsilon: float) -> NDArray[np.float64]:
    """The number of ε-bad steps of each run of a batch, recorded with episodes.

    NaN if a run has no episodes, `STATES_NEEDED` where `count_bad_steps` returns None.
    """
    batch = records.batch
    counts: NDArray[np.float64] = _count(
        batch.pooled, batch.runs.problem, batch.pool, batch.runs.states, batch.horizon,
        float(epsilon),
    )  # fmt: skip
    return counts


@jit
def _policies(starts: Any) -> int:
    """The number of policies, or 0 if there are too many for a table."""
    size = 1
    for s in range(starts.size - 1):
        size *= starts[s + 1] - starts[s]
        if size > TABLE:
            return 0
    return size


@entry
def _count(
    problems: Any, numbers: Any, pool: Any, states: Any, horizon: int, epsilon: float
) -> Any:
    """The number of ε-bad steps of each run; `numbers` are those of the problems."""
    counts = np.empty(numbers.size)
    for i in range(numbers.size):
        p, bounds = numbers[i], problems.bounds
        model = Model(
            problems.starts[bounds[0, p] : bounds[0, p + 1]],
            problems.row[bounds[1, p] : bounds[1, p + 1]].copy(),
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
        first = pool.first[i]
        last = first + pool.seen[i, 1]
        counts[i] = _count_in_run(
            model, actions, offsets, pair, new, change_points, gains, pool.start[first:last],
            pool.policy[first:last], states[i], horizon, epsilon,
        )  # fmt: skip
    return counts


@jit
def _count_in_run(
    model: Any, actions: Any, offsets: Any, patched: Any, new: Any, change_points: Any, gains: Any,
    start: Any, policy: Any, states: Any, horizon: int, epsilon: float,
) -> float:  # fmt: skip
    n_states, row = model.starts.size - 1, model.row
    if start.size == 0 or policy[0, 0] < 0:
        return np.nan
    choice, means = np.empty(n_states, np.int64), np.empty(n_states)
    order = np.arange(n_states)
    known = np.full(_policies(model.starts), np.nan)
    bad = change = 0
    k, t = 0, 1
    while t <= horizon:
        while change < change_points.size and change_points[change] <= t:
            for j in range(offsets[change], offsets[change + 1]):
                row[patched[j]] = new[j]
            change += 1
            for j in range(known.size):
                known[j] = np.nan
        while k + 1 < start.size and start[k + 1] <= t:
            k += 1
        stop = horizon + 1
        if change < change_points.size:
            stop = min(stop, change_points[change])
        if k + 1 < start.size:
            stop = min(stop, start[k + 1])
        code, size = 0, 1  # the index of the policy among all policies
        for s in range(n_states):
            first, action = model.starts[s], policy[k, s]
            pair = first + action
            if pair >= model.starts[s + 1] or actions[pair] != action:  # some actions are missing
                pair = find_pair(model.starts, actions, s, action)
            choice[s] = pair
            code += size * (pair - first)
            size *= model.starts[s + 1] - first
        limit = gains[change] - epsilon
        if known.size > 0 and known[code] == known[code]:
            if known[code] < limit:
                bad += stop - t
            t = stop
            continue
        for s in range(n_states):
            means[s] = model.mean[row[choice[s]]]
        policy_gains = gains_of_policy(model, choice, order, means)
        low, high = policy_gains.min(), policy_gains.max()
        if high - low <= SAME:
            if low < limit:
                bad += stop - t
            if known.size > 0:
                known[code] = low
        elif states.size > 0:
            for u in range(t, stop):
                if policy_gains[states[u - 1]] < limit:
                    bad += 1
        else:
            return STATES_NEEDED
        t = stop
    return float(bad)
