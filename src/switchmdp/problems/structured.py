"""Problems with a structure: RiverSwim, a ring, a combination lock, and two-state problems.

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
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from switchmdp.errors import InvalidParameter
from switchmdp.mdp import MDP, RewardLaw, SwitchingMDP
from switchmdp.mdp.parse import Entries
from switchmdp.problems.changes import How, changing, mirrored, permuted_actions, switching
from switchmdp.problems.drift import moves
from switchmdp.problems.random import When, even_change_points, generator, must_fit
from switchmdp.validation import check_integer, check_probability, is_number

MOST_ACTIONS = 10_000


def riverswim(n_states: int = 6, *, law: RewardLaw | None = None) -> MDP:
    """RiverSwim (Strehl and Littman 2008): swimming right against the current pays off at the end.

    Action 0 goes left for sure. Action 1 goes right: .4 stay and .6 forward at the left end,
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
        The seed of all that is drawn.
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
        The seed of all that is drawn.
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
        The seed of all that is drawn.
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
        The seed of all that is drawn.
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
    """Two states; the actions that stay and cross are swapped every quarter of a window.

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
