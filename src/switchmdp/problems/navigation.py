"""Problems in which an agent has to travel: a far bank, a grid with a moving goal, random graphs.

**Far bank.** A river of n states. Action 0 goes left for sure. Action 1 goes right with probability
0.6, stays with 0.3 and is carried back with 0.1. The left end pays 0.2 for action 0. After a third
of the horizon the right end starts to pay 1 for action 1. Nothing changes at the places that a good
policy visits, so only an agent that goes and looks can find the improvement.

**Grid.** A room of height × width cells. The actions go up, right, down and left, and succeed with
probability 1 - slip; otherwise the agent stays. Leaving the goal by any action pays 1 and leads to
a uniformly random cell. A change moves the goal. All other rewards are 0.

**Deterministic graph.** Every pair leads to one state for sure. Action 0 walks along a random cycle
through all states; the other actions lead to random states. Mean rewards are uniform on [0, 1]. A
change draws everything again.
"""

from __future__ import annotations

import numpy as np

from switchmdp.mdp import MDP, RewardLaw, SwitchingMDP
from switchmdp.problems.random import (
    When,
    check_changes,
    check_sizes,
    even_change_points,
    generator,
    must_fit,
)
from switchmdp.validation import check_integer, check_probability

MOVES = ((-1, 0), (0, 1), (1, 0), (0, -1))


def far_bank(
    n_states: int = 6, *, horizon: int = 100_000, law: RewardLaw | None = None
) -> SwitchingMDP:
    """Return a river whose far bank starts to pay after a third of the horizon.

    Parameters
    ----------
    n_states
        The number of states.
    horizon
        The number of steps; the change comes after a third of them.
    law
        The reward law; Bernoulli by default.

    Returns
    -------
    SwitchingMDP
        The problem.

    Raises
    ------
    InvalidParameter
        If a parameter has the wrong type or is out of range.

    Examples
    --------
    >>> problem = far_bank(4, horizon=300)
    >>> problem.change_points.tolist(), float(problem.at(101).rewards[3, 1])
    ([101], 1.0)
    """
    n = check_integer("n_states", n_states, 2, 3000)
    horizon = check_integer("horizon", horizon, 3)
    rows, before = np.zeros((n, 2, n)), np.zeros((n, 2))
    before[0, 0] = 0.2
    for s in range(n):
        rows[s, 0, max(0, s - 1)] = 1.0
        rows[s, 1, min(n - 1, s + 1)] += 0.6
        rows[s, 1, s] += 0.3
        rows[s, 1, max(0, s - 1)] += 0.1
    after = before.copy()
    after[n - 1, 1] = 1.0
    return SwitchingMDP([MDP(rows, r, law=law) for r in (before, after)], [1 + horizon // 3])


def grid(
    height: int = 5, width: int = 5, *, slip: float = 0.1, changes: int = 4,
    horizon: int = 100_000, change_points: When = even_change_points, seed: int = 0,
    law: RewardLaw | None = None,
) -> SwitchingMDP:  # fmt: skip
    """Return a grid whose goal moves at each change.

    Parameters
    ----------
    height, width
        The size of the grid; cell (i, j) is state i · width + j.
    slip
        The probability that an action fails.
    changes, horizon, change_points
        How many changes there are, and when: a function of both, or a list of steps.
    seed
        The seed of the goals.
    law
        The reward law; Bernoulli by default.

    Returns
    -------
    SwitchingMDP
        The problem.

    Raises
    ------
    InvalidParameter
        If a parameter has the wrong type or is out of range.

    Examples
    --------
    >>> problem = grid(2, 2, changes=1, horizon=100)
    >>> problem.n_states, problem.n_actions, float(problem.at(1).rewards.sum())
    (4, 4, 4.0)
    """
    height = check_integer("height", height, 1, 1000)
    width = check_integer("width", width, 2, 1000)
    slip = check_probability("slip", slip)
    changes, points = check_changes(changes, horizon, change_points)
    n = height * width
    must_fit(n, len(MOVES), changes + 1)
    rows = np.zeros((n, len(MOVES), n))
    for s in range(n):
        for action, (down, right) in enumerate(MOVES):
            i = min(max(s // width + down, 0), height - 1)
            j = min(max(s % width + right, 0), width - 1)
            rows[s, action, i * width + j] += 1.0 - slip
            rows[s, action, s] += slip
    rng = generator(seed)

    def with_goal(goal: int) -> MDP:
        transitions, rewards = rows.copy(), np.zeros((n, len(MOVES)))
        transitions[goal], rewards[goal] = 1.0 / n, 1.0
        return MDP(transitions, rewards, law=law)

    goals = [int(rng.integers(n))]
    for _ in range(changes):
        goals.append(int((goals[-1] + rng.integers(1, n)) % n))  # any other cell
    return SwitchingMDP([with_goal(goal) for goal in goals], points)


def deterministic_graph(
    n_states: int = 20, n_actions: int = 4, *, changes: int = 4, horizon: int = 100_000,
    change_points: When = even_change_points, seed: int = 0, law: RewardLaw | None = None,
) -> SwitchingMDP:  # fmt: skip
    """Return a problem in which every action leads to one state for sure.

    Parameters
    ----------
    n_states, n_actions
        The number of states and of actions.
    changes, horizon, change_points
        How many changes there are, and when: a function of both, or a list of steps.
    seed
        The seed of successors and mean rewards.
    law
        The reward law; Bernoulli by default.

    Returns
    -------
    SwitchingMDP
        The problem.

    Raises
    ------
    InvalidParameter
        If a parameter has the wrong type or is out of range.

    Examples
    --------
    >>> deterministic_graph(5, 2, changes=0, horizon=100).at(1).successors(0, 1)[1]
    [1.0]
    """
    changes, points = check_changes(changes, horizon, change_points)
    n_states, n_actions = check_sizes(n_states, n_actions, changes + 1)
    rng = generator(seed)

    def draw() -> MDP:
        cycle = rng.permutation(n_states)
        targets = rng.integers(0, n_states, (n_states, n_actions))
        targets[cycle, 0] = np.roll(cycle, -1)
        return MDP(np.eye(n_states)[targets], rng.random((n_states, n_actions)), law=law)

    return SwitchingMDP([draw() for _ in range(changes + 1)], points)
