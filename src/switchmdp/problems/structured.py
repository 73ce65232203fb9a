"""Problems with a structure, each described in a paragraph below.

**Combination lock**, as a continuing problem. In each of the states 0 … n-1 one action is correct.
It leads to the next state with probability q = 1 - slip, and else to state 0, like all other
actions. The correct action of the last state opens the lock with probability q, which earns 1, and
leads to state 0. All other rewards are 0.

The optimal policy always takes the correct action. It opens the lock whenever n actions in a row
succeed, every (q⁻ⁿ - 1)/(1 - q) steps on average, so

    ρ* = (1 - q) qⁿ / (1 - qⁿ)   (1/n for q = 1),      D = (q^-(n-1) - 1)/(1 - q).

Random actions open it every Aⁿ steps or less often: the problem needs deliberate exploration. Each
change sets another combination.

**Lower bound** (after Jaksch, Ortner, Auer 2010, Section 6). All actions of s1, which earns 1, fall
back to s0 with probability δ' = 1/D. All actions of s0, which earns nothing, leave it with δ', and
one good action with δ' + ε:

    ρ* = (δ' + ε)/(2δ' + ε),   every other policy's gain 1/2,   diameter 1/δ'.

A change makes another action the good one.

**Perils of drift** (Cheung, Simchi-Levi, Zhu 2020). At first action 0 stays and action 1 crosses to
the other state; each change, every W/4 steps, swaps them. Every diameter is 1. But an agent that
plays action 0 in state 0 and 1 in state 1 for two quarters of a window, and the opposite for the
next two, stays in its state at nearly every step (it crosses only at the first step of the second
and of the fourth quarter):

    quarter  1   action 0 stays    s0: stays with 0
             2   action 0 crosses  s0: crosses with 0, then in s1 stays with 1
             3   action 0 stays    s1: stays with 0
             4   action 0 crosses  s1: crosses with 0, then in s0 stays with 1

So the data of a window suggest that all four pairs stay, each observed about W/4 times, and every
MDP within confidence radii of order √(log W/W) has a diameter of at least c √(W/log W): optimism
within that set is not optimistic. The order of the quarters is our interpretation of the paper; the
rewards (¼ in s0, ¾ in s1) are our choice.

**Far bank.** A river of n states. Action 0 always goes left. Action 1 goes right with probability
0.6, stays with 0.3 and is carried back with 0.1. The left end pays 0.2 for action 0. After a third
of the horizon the right end starts to pay 1 for action 1. Nothing changes at the places that a good
policy visits, so only an agent that goes and looks can find the improvement.

**Grid.** A room of height × width cells. The actions go up, right, down and left, and succeed with
probability 1 - slip; otherwise the agent stays. Leaving the goal by any action pays 1 and leads to
a uniformly random cell. A change moves the goal. All other rewards are 0.

**Deterministic graph.** Every pair always leads to one state. Action 0 walks along a random cycle
through all states; the other actions lead to random states. Mean rewards are uniform on [0, 1]. A
change draws everything again.

**Contextual bandit.** States are contexts, such as the kind of the next visitor. The next context
is independent of everything: all pairs have the same transition row, uniform or Zipf (proportional
to 1, 1/2, 1/3, …). Mean rewards are uniform on [0, 1]; a change draws all of them again. With mean
rewards r̄ and shares w the optimal gain is Σ_s w_s max_a r̄(s, a).

**Rows of any concentration.** Each row is drawn from Dirichlet(α, …, α): nearly deterministic for
α near 0, uniform on the simplex for α = 1, nearly uniform rows for a large α. Mean rewards are
uniform on [0, 1]; a change draws everything again. The row of action 0 is mixed with a step to the
next state on a ring, so that all states connect.

**Ad placement.** The state is the last ad shown, the action the next ad, the reward a click. The
audience consists of groups; group g clicks on ad a with probability c(g, a). With w_g the groups'
shares,

    r̄(s, a) = Σ_g w_g c(g, a),   times (1 - fatigue) if a = s, because the user has just seen it.

The shares perform a random walk on the simplex, so rewards drift, and transitions never change: the
next state is the ad shown. With the click rates in order, r_1 >= r_2 >= …, the best gain is that of
the best cycle, max((1 - fatigue) r_1, (r_1 + r_2)/2): always show the best ad, or alternate between
the best two.

**Inventory with lost sales.** The state is the stock s = 0 … capacity in the morning, the action
the number a = 0 … largest_order of units ordered. They arrive at once, as far as there is room:
y = min(s + a, capacity) are for sale. The demand X is Poisson(λ); unserved demand is lost:

    next stock  y - min(y, X),
    profit      price · min(y, X) - cost · (y - s) - holding · (y - min(y, X)).

A mean reward is the expected profit, mapped linearly to [0, 1] from its least and greatest possible
values, -cost · largest_order - holding · capacity and price · capacity. A change draws λ again,
uniformly from `demand`: rewards and transitions change together.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from switchmdp.errors import InvalidParameter
from switchmdp.mdp import MDP, RewardLaw, SwitchingMDP
from switchmdp.mdp.parse import Entries
from switchmdp.problems.changes import (
    How,
    at_most_one,
    changing,
    exchange,
    mirrored,
    moves,
    permuted_actions,
    stacked,
    switching,
)
from switchmdp.problems.random import (
    When,
    check_changes,
    check_sizes,
    even_change_points,
    generator,
    must_fit,
)
from switchmdp.validation import (
    check_integer,
    check_not_negative,
    check_positive,
    check_probability,
    is_number,
)

MOST_ACTIONS = 10_000


def riverswim(n_states: int = 6, *, law: RewardLaw | None = None) -> MDP:
    """RiverSwim (Strehl and Littman 2008): swimming right against the current pays off at the end.

    Action 0 always goes left. Action 1 goes right: .4 stay and .6 forward at the left end,
    .05 / .6 / .35 back, stay, forward inside, .4 back and .6 stay at the right end. Rewards: .005
    for left at the left end, 1 for right at the right end.

    Parameters
    ----------
    n_states
        The number of states.
    law
        The reward law; Bernoulli by default.

    Returns
    -------
    MDP
        The MDP.

    Raises
    ------
    InvalidParameter
        If a parameter has the wrong type or is out of range.

    References
    ----------
    Strehl, Littman (2008): An analysis of model-based interval estimation for Markov decision
    processes.

    Examples
    --------
    >>> from switchmdp.planning import optimal_gain
    >>> round(optimal_gain(riverswim()).gain, 4)
    0.4286
    """
    n = check_integer("n_states", n_states, 2, 3000)
    transitions, rewards = np.zeros((n, 2, n)), np.zeros((n, 2))
    for s in range(n):
        transitions[s, 0, max(0, s - 1)] = 1.0
        if 0 < s < n - 1:
            transitions[s, 1, s - 1 : s + 2] = 0.05, 0.6, 0.35
    transitions[0, 1, :2] = 0.4, 0.6
    transitions[n - 1, 1, n - 2 :] = 0.4, 0.6
    rewards[0, 0], rewards[n - 1, 1] = 0.005, 1.0
    names = ("left", "right")
    return MDP(transitions, rewards, law=law, action_labels=names)


def riverswim_flips(
    n_states: int = 6, *, how: How = mirrored, changes: int = 2, horizon: int = 100_000,
    cycle: int | None = 2, change_points: When = even_change_points, seed: int = 0,
    law: RewardLaw | None = None,
) -> SwitchingMDP:  # fmt: skip
    """RiverSwim; each change reverses the current or, with `permuted_actions`, swaps the actions.

    With the reversed current the large reward is at the left end. The next change reverses it
    again.

    Parameters
    ----------
    n_states
        The number of states.
    how
        How: a change operator, such as `new_rewards` or `SmallSteps(0.1)`.
    changes
        The number of changes.
    horizon
        The number of steps of a run.
    cycle
        After how many configurations the first one returns; by default it never does.
    change_points
        When: a list of change points, or a function of the number of changes and the horizon.
    seed
        The seed of all random draws.
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
    >>> problem = riverswim_flips(changes=1, horizon=1000)
    >>> problem.at(501).successors(5, 0), problem.at(501).successors(2, 1)
    (([4, 5], [0.6, 0.4]), ([3], [1.0]))
    """
    return changing(
        riverswim(n_states, law=law), how, changes=changes, horizon=horizon, cycle=cycle,
        change_points=change_points, seed=seed,
    )  # fmt: skip


def ring_with_shortcuts(
    n_states: int = 100, *, seed: int = 0, slip: float = 0.1, law: RewardLaw | None = None
) -> MDP:
    """A ring of any size with four actions: on, back, and two shortcuts per state.

    An action succeeds with probability 1 - slip, and stays in its state otherwise. The shortcuts
    lead to random states, so that few steps suffice to reach any state. Mean rewards are uniform on
    [0, 1].

    Parameters
    ----------
    n_states
        The number of states.
    seed
        The seed of all random draws.
    slip
        The probability that an action fails.
    law
        The reward law; Bernoulli by default.

    Returns
    -------
    MDP
        The MDP.

    Raises
    ------
    InvalidParameter
        If a parameter has the wrong type or is out of range.

    Examples
    --------
    >>> ring_with_shortcuts(1000).n_actions
    4
    """
    n = check_integer("n_states", n_states, 2, 10**6)
    slip = check_probability("slip", slip)
    rng = generator(seed)
    here = np.arange(n)
    targets = np.stack([(here + 1) % n, (here - 1) % n, *rng.integers(0, n, (2, n))], axis=1)
    pairs = np.arange(4 * n)
    rows = np.concatenate([pairs, pairs])
    columns = np.concatenate([targets.ravel(), np.repeat(here, 4)])
    values = np.concatenate([np.full(4 * n, 1.0 - slip), np.full(4 * n, slip)])
    names = ("on", "back", "jump", "leap")
    return MDP(Entries(rows, columns, values), rng.random((n, 4)), law=law, action_labels=names)


def combination_lock(
    length: int = 6, n_actions: int = 2, *, slip: float = 0.05, changes: int = 2,
    horizon: int = 100_000, cycle: int | None = None, change_points: When = even_change_points,
    seed: int = 0, law: RewardLaw | None = None,
) -> SwitchingMDP:  # fmt: skip
    """A lock that opens after `length` correct actions in a row; a change sets a new combination.

    Parameters
    ----------
    length
        The number of correct actions that open the lock.
    n_actions
        The number of actions of each state.
    slip
        The probability that a correct action fails.
    changes
        The number of changes.
    horizon
        The number of steps of a run.
    cycle
        After how many configurations the first one returns; by default it never does.
    change_points
        When: a list of change points, or a function of the number of changes and the horizon.
    seed
        The seed of all random draws.
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
    >>> from switchmdp.planning import optimal_gains
    >>> optimal_gains(combination_lock(4, slip=0.0, changes=1, horizon=1000)).round(9).tolist()
    [0.25, 0.25]
    """
    length = check_integer("length", length, 1, 3000)
    n_actions = check_integer("n_actions", n_actions, 2)
    must_fit(length, n_actions, 1)
    if not is_number(slip) or not 0.0 <= slip < 1.0:
        raise InvalidParameter("slip", slip, "a number from 0 to below 1")
    rng = generator(seed)
    combination = rng.integers(0, n_actions, length)

    def another(lock: MDP) -> MDP:
        nonlocal combination
        before = combination
        while (combination == before).all():
            combination = rng.integers(0, n_actions, length)
        return _lock(combination, n_actions, float(slip), law)

    return switching(
        _lock(combination, n_actions, float(slip), law), another, changes=changes,
        horizon=horizon, cycle=cycle, change_points=change_points,
    )  # fmt: skip


def _lock(combination: Any, n_actions: int, slip: float, law: RewardLaw | None) -> MDP:
    n = len(combination)
    transitions, rewards = np.zeros((n, n_actions, n)), np.zeros((n, n_actions))
    transitions[:, :, 0] = 1.0
    here = np.arange(n - 1)
    transitions[here, combination[:-1], 0] = slip
    transitions[here, combination[:-1], here + 1] = 1.0 - slip
    rewards[n - 1, combination[-1]] = 1.0 - slip
    return MDP(transitions, rewards, law=law)


def lower_bound(
    n_actions: int = 10, *, diameter: float = 10.0, advantage: float = 0.05, changes: int = 2,
    horizon: int = 100_000, cycle: int | None = None, change_points: When = even_change_points,
    seed: int = 0, law: RewardLaw | None = None,
) -> SwitchingMDP:  # fmt: skip
    """The two-state lower-bound instance; `advantage` is ε; a change moves the good action.

    Parameters
    ----------
    n_actions
        The number of actions of each state.
    diameter
        The diameter D, above 1.
    advantage
        ε: by how much the good action is more likely to leave state 0.
    changes
        The number of changes.
    horizon
        The number of steps of a run.
    cycle
        After how many configurations the first one returns; by default it never does.
    change_points
        When: a list of change points, or a function of the number of changes and the horizon.
    seed
        The seed of all random draws.
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

    References
    ----------
    Jaksch, Ortner, Auer (2010): Near-optimal regret bounds for reinforcement learning.

    Examples
    --------
    >>> from switchmdp.planning import optimal_gains
    >>> optimal_gains(lower_bound(changes=1, horizon=1000)).round(9).tolist()
    [0.6, 0.6]
    """
    n_actions = check_integer("n_actions", n_actions, 2, MOST_ACTIONS)
    if not is_number(diameter) or not 1.0 < diameter < float("inf"):
        raise InvalidParameter("diameter", diameter, "a number above 1")
    leave = 1.0 / float(diameter)
    if not is_number(advantage) or not 0.0 < advantage <= 1.0 - leave:
        raise InvalidParameter("advantage", advantage, f"above 0, at most 1 - 1/D = {1.0 - leave}")
    rng = generator(seed)
    good = int(rng.integers(n_actions))

    def instance() -> MDP:
        p = np.full((2, n_actions), leave)
        p[0, good] += advantage
        transitions = np.empty((2, n_actions, 2))
        transitions[0] = np.stack([1.0 - p[0], p[0]], axis=1)
        transitions[1] = np.stack([p[1], 1.0 - p[1]], axis=1)
        return MDP(transitions, np.repeat([[0.0], [1.0]], n_actions, axis=1), law=law)

    def following(mdp: MDP) -> MDP:
        nonlocal good
        good = int(good + rng.integers(1, n_actions)) % n_actions
        return instance()

    return switching(
        instance(), following, changes=changes, horizon=horizon, cycle=cycle,
        change_points=change_points,
    )  # fmt: skip


def perils_of_drift(
    window: int = 1000, *, horizon: int = 100_000, law: RewardLaw | None = None
) -> SwitchingMDP:
    """Two states; the staying and the crossing action are swapped every quarter of a window.

    Parameters
    ----------
    window
        W: four times the number of steps between two changes.
    horizon
        The number of steps of a run.
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

    References
    ----------
    Cheung, Simchi-Levi, Zhu (2020): Reinforcement learning for non-stationary Markov decision
    processes: the blessing of (more) optimism.

    Examples
    --------
    >>> problem = perils_of_drift(window=8, horizon=8)
    >>> [mdp.successors(0, 0)[0] for mdp in problem.configurations()]
    [[0], [1], [0], [1]]
    """
    points = moves(horizon, _window(window) // 4)
    stay, cross = np.eye(2), np.eye(2)[::-1]
    base = MDP(np.stack([stay, cross], axis=1), [[0.25, 0.25], [0.75, 0.75]], law=law)
    return changing(
        base, permuted_actions, changes=len(points), horizon=horizon, cycle=2, change_points=points
    )


def perilous_counts(window: int) -> NDArray[np.int64]:
    """The transitions N(s, a, s') in a window of the data described in the module's docstring.

    Parameters
    ----------
    window
        W: a multiple of 4.

    Returns
    -------
    numpy.ndarray
        The (2, 2, 2) array of counts.

    Raises
    ------
    InvalidParameter
        If a parameter has the wrong type or is out of range.

    References
    ----------
    Cheung, Simchi-Levi, Zhu (2020): Reinforcement learning for non-stationary Markov decision
    processes: the blessing of (more) optimism.

    Examples
    --------
    >>> perilous_counts(1000).tolist()
    [[[250, 1], [249, 0]], [[1, 250], [0, 249]]]
    """
    quarter = _window(window) // 4
    counts = np.zeros((2, 2, 2), np.int64)
    for s in range(2):
        counts[s, 0, s], counts[s, 0, 1 - s], counts[s, 1, s] = quarter, 1, quarter - 1
    return counts


def _window(value: Any) -> int:
    window = check_integer("window", value, 4)
    if window % 4:
        raise InvalidParameter("window", value, "a multiple of 4")
    return window


# Travelling: a far bank, a grid, random graphs.

DIRECTIONS = ((-1, 0), (0, 1), (1, 0), (0, -1))


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
    must_fit(n, len(DIRECTIONS), changes + 1)
    rows = np.zeros((n, len(DIRECTIONS), n))
    for s in range(n):
        for action, (down, right) in enumerate(DIRECTIONS):
            i = min(max(s // width + down, 0), height - 1)
            j = min(max(s % width + right, 0), width - 1)
            rows[s, action, i * width + j] += 1.0 - slip
            rows[s, action, s] += slip
    rng = generator(seed)

    def with_goal(goal: int) -> MDP:
        transitions, rewards = rows.copy(), np.zeros((n, len(DIRECTIONS)))
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
    """Return a problem in which every action leads to one state with certainty.

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


# Rows of a known shape: independent contexts, rows of any concentration.

RING = 0.05  # the probability of the step on the ring


def contextual_bandit(
    n_states: int = 20, n_actions: int = 5, *, zipf: bool = False, changes: int = 0,
    horizon: int = 100_000, change_points: When = even_change_points, seed: int = 0,
    law: RewardLaw | None = None,
) -> SwitchingMDP:  # fmt: skip
    """Return a contextual bandit whose mean rewards are drawn again at each change.

    Parameters
    ----------
    n_states, n_actions
        The number of contexts and of actions.
    zipf
        Whether contexts have Zipf's distribution instead of the uniform one.
    changes, horizon, change_points
        How many changes there are, and when: a function of both, or a list of steps.
    seed
        The seed of the mean rewards.
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
    >>> problem = contextual_bandit(3, 2, zipf=True, changes=1, horizon=100)
    >>> [round(p, 4) for p in problem.at(1).successors(0, 1)[1]]
    [0.5455, 0.2727, 0.1818]
    >>> problem.change_points.tolist()
    [51]
    """
    changes, points = check_changes(changes, horizon, change_points)
    n_states, n_actions = check_sizes(n_states, n_actions, changes + 1)
    rng = generator(seed)
    weights = 1.0 / np.arange(1, n_states + 1) if zipf else np.ones(n_states)
    rows = np.broadcast_to(weights / weights.sum(), (n_states, n_actions, n_states))
    return SwitchingMDP(
        [MDP(rows, rng.random((n_states, n_actions)), law=law) for _ in range(changes + 1)], points
    )


def concentrated_rows(
    n_states: int = 20, n_actions: int = 4, *, concentration: float = 1.0, changes: int = 0,
    horizon: int = 100_000, change_points: When = even_change_points, seed: int = 0,
    law: RewardLaw | None = None,
) -> SwitchingMDP:  # fmt: skip
    """Return a problem whose transition rows are drawn from Dirichlet(α, …, α).

    Parameters
    ----------
    n_states, n_actions
        The number of states and of actions.
    concentration
        α: small for sparse rows, large for nearly uniform ones.
    changes, horizon, change_points
        How many changes there are, and when: a function of both, or a list of steps.
    seed
        The seed of rows and mean rewards.
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
    >>> flat = concentrated_rows(4, 2, concentration=1e6).at(1)
    >>> [round(p, 2) for p in flat.successors(2, 1)[1]]
    [0.25, 0.25, 0.25, 0.25]
    """
    alpha = check_positive("concentration", concentration)
    changes, points = check_changes(changes, horizon, change_points)
    n_states, n_actions = check_sizes(n_states, n_actions, changes + 1)
    rng = generator(seed)
    step_on_ring = np.roll(np.eye(n_states), 1, axis=1)

    def draw() -> MDP:
        # Gamma draws of a tiny shape may all be 0: then NumPy's Dirichlet returns NaN.
        weights = rng.standard_gamma(alpha, (n_states, n_actions, n_states)) + 1e-300
        rows = weights / weights.sum(axis=-1, keepdims=True)
        rows[rows < 1e-12] = 0.0
        rows[:, 0] = (1.0 - RING) * rows[:, 0] + RING * step_on_ring
        rows /= rows.sum(axis=-1, keepdims=True)
        return MDP(rows, rng.random((n_states, n_actions)), law=law)

    return SwitchingMDP([draw() for _ in range(changes + 1)], points)


# Applications, designed for this package: ad placement.

MOST_GROUPS = 1000


def ad_placement(
    n_ads: int = 8, groups: int = 3, *, fatigue: float = 0.5, best_rate: float = 0.5,
    step: float = 0.02, horizon: int = 100_000, every: int | None = None, seed: int = 0,
    law: RewardLaw | None = None,
) -> SwitchingMDP:  # fmt: skip
    """Choose the next ad to show; click rates drift with the audience.

    Rates c(g, a) are drawn uniformly between 0 and `best_rate`; `step` is the standard deviation of
    what two groups exchange at a move.

    Parameters
    ----------
    n_ads
        The number of ads.
    groups
        The number of groups of the audience.
    fatigue
        The share of clicks that is lost if an ad is shown twice in a row.
    best_rate
        The largest click rate.
    step
        The standard deviation of what two entries exchange at a move.
    horizon
        The number of steps of a run.
    every
        The number of steps between two moves; by default a thousandth of the horizon.
    seed
        The seed of all random draws.
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
    >>> problem = ad_placement(5, horizon=1000, every=100)
    >>> problem.at(1).successors(0, 3), problem.changes
    (([3], [1.0]), 9)
    """
    n_ads = check_integer("n_ads", n_ads, 2)
    groups = check_integer("groups", groups, 2, MOST_GROUPS)
    step, fatigue = at_most_one("step", step), at_most_one("fatigue", fatigue)
    if not at_most_one("best_rate", best_rate) > 0.0:
        raise InvalidParameter("best_rate", best_rate, "above 0")
    points = moves(horizon, every)
    must_fit(n_ads, n_ads, len(points) + 1)
    rng = generator(seed)
    clicks = best_rate * rng.random((groups, n_ads))
    shares = [rng.dirichlet(np.ones(groups), 1)]
    for _ in points:
        shares.append(exchange(shares[-1], step, rng))
    rates = np.concatenate(shares) @ clicks
    means = rates[:, None, :] * (1.0 - fatigue * np.eye(n_ads))
    transitions = np.broadcast_to(np.eye(n_ads), (n_ads, n_ads, n_ads))
    first = MDP(transitions, means[0], law=law)
    return stacked(first, np.broadcast_to(transitions, (*means.shape, n_ads)), means, points)


# Applications: inventory control with lost sales.


MOST_DEMAND = 500.0  # exp(-λ) is still a normal number


def inventory(
    capacity: int = 8, largest_order: int = 4, *, demand: Any = (1.0, 6.0), price: float = 1.0,
    cost: float = 0.5, holding: float = 0.05, changes: int = 2, horizon: int = 100_000,
    cycle: int | None = None, change_points: When = even_change_points, seed: int = 0,
    law: RewardLaw | None = None,
) -> SwitchingMDP:  # fmt: skip
    """Choose how much to order; sales are lost, and each change draws a new mean demand.

    Parameters
    ----------
    capacity
        The largest number of units in stock.
    largest_order
        The largest number of units that can be ordered at a time.
    demand
        The smallest and the largest mean demand.
    price
        What a sold unit earns.
    cost
        What an ordered unit costs.
    holding
        What a unit in stock costs per step.
    changes
        The number of changes.
    horizon
        The number of steps of a run.
    cycle
        After how many configurations the first one returns; by default it never does.
    change_points
        When: a list of change points, or a function of the number of changes and the horizon.
    seed
        The seed of all random draws.
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
    >>> problem = inventory(capacity=3, largest_order=2, changes=1, horizon=1000)
    >>> problem.n_states, problem.n_actions
    (4, 3)
    """
    least, most = _range(demand)
    rng = generator(seed)

    def season(before: Any = None) -> MDP:
        return inventory_mdp(
            capacity, largest_order, demand=rng.uniform(least, most), price=price, cost=cost,
            holding=holding, law=law,
        )  # fmt: skip

    return switching(
        season(), season, changes=changes, horizon=horizon, cycle=cycle, change_points=change_points
    )


def inventory_mdp(
    capacity: int = 8, largest_order: int = 4, *, demand: float = 3.0, price: float = 1.0,
    cost: float = 0.5, holding: float = 0.05, law: RewardLaw | None = None,
) -> MDP:  # fmt: skip
    """The inventory with a fixed mean demand.

    Parameters
    ----------
    capacity
        The largest number of units in stock.
    largest_order
        The largest number of units that can be ordered at a time.
    demand
        The mean demand.
    price
        What a sold unit earns.
    cost
        What an ordered unit costs.
    holding
        What a unit in stock costs per step.
    law
        The reward law; Bernoulli by default.

    Returns
    -------
    MDP
        The MDP.

    Raises
    ------
    InvalidParameter
        If a parameter has the wrong type or is out of range.

    Examples
    --------
    >>> inventory_mdp(1, 1, demand=math.log(2)).successors(1, 0)
    ([0, 1], [0.5, 0.5])
    """
    capacity = check_integer("capacity", capacity, 1, 3000)
    n_states = capacity + 1
    n_actions = check_integer("largest_order", largest_order, 1, capacity) + 1
    must_fit(n_states, n_actions, 1)
    price = check_positive("price", price)
    cost, holding = check_not_negative("cost", cost), check_not_negative("holding", holding)
    rest, kept = _after_sales(capacity, _demand("demand", demand))
    stock = np.arange(n_states)
    offered = np.minimum(stock[:, None] + np.arange(n_actions), capacity)
    profit = price * (offered - kept[offered]) - cost * (offered - stock[:, None])
    profit = profit - holding * kept[offered]
    lowest, highest = -cost * (n_actions - 1) - holding * capacity, price * capacity
    means = np.clip((profit - lowest) / (highest - lowest), 0.0, 1.0)  # rounding
    return MDP(rest[offered], means, law=law)


def _after_sales(capacity: int, demand: float) -> tuple[NDArray[Any], NDArray[Any]]:
    """For each y the distribution of the remaining stock, and its mean."""
    mass = [math.exp(-demand)]
    for x in range(1, capacity + 1):
        mass.append(mass[-1] * demand / x)
    rest = np.zeros((capacity + 1, capacity + 1))
    for y in range(capacity + 1):
        rest[y, 1 : y + 1] = mass[:y][::-1]  # k = y - x units are left after a demand of x < y
        rest[y, 0] = max(0.0, 1.0 - math.fsum(mass[:y]))
    return rest, rest @ np.arange(capacity + 1)


def _range(demand: Any) -> tuple[float, float]:
    if not isinstance(demand, (list, tuple)) or len(demand) != 2:
        raise InvalidParameter("demand", demand, "two numbers, the smallest and the largest")
    least, most = _demand("demand", demand[0]), _demand("demand", demand[1])
    if least > most:
        raise InvalidParameter("demand", demand, "two numbers, the smaller one first")
    return least, most


def _demand(field: str, value: Any) -> float:
    if not is_number(value) or not 0.0 < value <= MOST_DEMAND:
        raise InvalidParameter(field, value, f"above 0 and at most {MOST_DEMAND:g}")
    return float(value)
