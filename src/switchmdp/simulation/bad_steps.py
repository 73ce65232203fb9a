"""ε-bad steps: how often an agent followed a policy that is clearly worse than the best.

Step t is ε-bad if ρ*_t - gain(M_t, π_t from s_t) > ε, where π_t is the policy that the agent
follows in its episode. If every policy has one closed class, its gain is the same from every state,
and the episodes suffice. If some policy has several, the visited states are needed too.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from switchmdp.compiled import entry, jit
from switchmdp.mdp import SwitchingMDP
from switchmdp.mdp.pairs import find_pair
from switchmdp.planning.evaluation import gains_of_policy
from switchmdp.planning.gain import optimal_gains
from switchmdp.simulation.record import Record

LARGEST = 200  # states: evaluating a policy costs about S³
TABLE = 4096  # policies whose gains are kept in a table
SAME = 1e-12


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
    episodes = record.episodes
    if episodes is None or not len(episodes) or episodes.policy[0, 0] < 0:
        return float("nan")
    last = int(np.searchsorted(problem.change_points, record.horizon, side="right"))
    states = np.zeros(0, np.int32) if record.trajectory is None else record.trajectory.states
    model = problem.model._replace(row=problem.model.row.copy())
    count = _count(
        model, problem.pairs.actions, problem.patches,
        problem.change_points[:last].copy(), optimal_gains(problem, last),
        episodes.start, episodes.policy, states, record.horizon, float(epsilon),
    )  # fmt: skip
    return None if count < 0 else float(count)


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
    model: Any, actions: Any, patches: Any, change_points: Any, gains: Any, start: Any,
    policy: Any, states: Any, horizon: int, epsilon: float,
) -> int:  # fmt: skip
    n_states = policy.shape[1]
    row = model.row
    choice, means = np.empty(n_states, np.int64), np.empty(n_states)
    order = np.arange(n_states)
    known = np.full(_policies(model.starts), np.nan)
    bad = change = 0
    k, t = 0, 1
    while t <= horizon:
        while change < change_points.size and change_points[change] <= t:
            for j in range(patches.offsets[change], patches.offsets[change + 1]):
                row[patches.pair[j]] = patches.new[j]
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
            return -1
        t = stop
    return bad
