"""Chains: RiverSwim, whose current may reverse, a ring with shortcuts, and a combination lock.

**Combination lock**, as a continuing problem.

In each of the states 0 … n-1 one action is correct. It leads to the next state with probability
q = 1 - slip, and else to state 0, like all other actions. The correct action of the last state
opens the lock with probability q, which earns 1, and leads to state 0. All other rewards are 0.

The optimal policy always takes the correct action. It opens the lock whenever n actions in a row
succeed, every (q⁻ⁿ - 1)/(1 - q) steps on average, so

    ρ* = (1 - q) qⁿ / (1 - qⁿ)   (1/n for q = 1),      D = (q^-(n-1) - 1)/(1 - q).

Random actions open it every Aⁿ steps or less often: the problem needs deliberate exploration. Each
change sets another combination.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from switchmdp.errors import InvalidParameter
from switchmdp.mdp import MDP, Bernoulli, RewardLaw, SwitchingMDP
from switchmdp.problems.change_operators import mirrored
from switchmdp.problems.changing import How, When, changing, switching
from switchmdp.problems.random import even_change_points, must_fit
from switchmdp.validation import check_integer, check_probability, is_number


def riverswim(n_states: int = 6, *, law: RewardLaw | None = None) -> MDP:
    """RiverSwim (Strehl and Littman 2008): swimming right against the current pays off at the end.

    Action 0 goes left for sure. Action 1 goes right: .4 stay and .6 forward at the left end,
    .05 / .6 / .35 back, stay, forward inside, .4 back and .6 stay at the right end. Rewards: .005
    for left at the left end, 1 for right at the right end.

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
    return MDP(transitions, rewards, law=Bernoulli() if law is None else law, action_labels=names)


def riverswim_flips(
    n_states: int = 6, *, how: How = mirrored, changes: int = 2, horizon: int = 100_000,
    cycle: int | None = 2, change_points: When = even_change_points, seed: int = 0,
    law: RewardLaw | None = None,
) -> SwitchingMDP:  # fmt: skip
    """RiverSwim; each change reverses the current or, with `permuted_actions`, swaps the actions.

    With the reversed current the large reward is at the left end. The next change reverses it
    again.

    >>> problem = riverswim_flips(changes=1, horizon=1000)
    >>> problem.at(501).successors(5, 0), problem.at(501).successors(2, 1)
    (([4, 5], [0.6, 0.4]), ([3], [1.0]))
    """
    return changing(
        riverswim(n_states, law=law), how, changes=changes, horizon=horizon, cycle=cycle,
        change_points=change_points, seed=seed,
    )  # fmt: skip


def ring_with_shortcuts(
    n_states: int, *, seed: int = 0, slip: float = 0.1, law: RewardLaw | None = None
) -> MDP:
    """A ring of any size with four actions: on, back, and two shortcuts per state.

    An action succeeds with probability 1 - slip, and stays in its state otherwise. The shortcuts
    lead to random states, so that few steps suffice to reach any state. Mean rewards are uniform on
    [0, 1].

    >>> ring_with_shortcuts(1000).n_actions
    4
    """
    from scipy.sparse import csr_array

    n = check_integer("n_states", n_states, 2, 10**6)
    slip = check_probability("slip", slip)
    rng = np.random.default_rng(check_integer("seed", seed, 0))
    here = np.arange(n)
    targets = np.stack([(here + 1) % n, (here - 1) % n, *rng.integers(0, n, (2, n))], axis=1)
    pairs = np.arange(4 * n)
    rows = np.concatenate([pairs, pairs])
    columns = np.concatenate([targets.ravel(), np.repeat(here, 4)])
    values = np.concatenate([np.full(4 * n, 1.0 - slip), np.full(4 * n, slip)])
    transitions = csr_array((values, (rows, columns)), (4 * n, n))
    names = ("on", "back", "jump", "leap")
    law = Bernoulli() if law is None else law
    return MDP(transitions, rng.random((n, 4)), law=law, action_labels=names)


def combination_lock(
    length: int = 6, n_actions: int = 2, *, slip: float = 0.05, changes: int = 2,
    horizon: int = 100_000, cycle: int | None = None, change_points: When = even_change_points,
    seed: int = 0, law: RewardLaw | None = None,
) -> SwitchingMDP:  # fmt: skip
    """A lock that opens after `length` correct actions in a row; a change sets a new combination.

    >>> from switchmdp.planning import optimal_gains
    >>> optimal_gains(combination_lock(4, slip=0.0, changes=1, horizon=1000)).round(9).tolist()
    [0.25, 0.25]
    """
    length, n_actions = (
        check_integer("length", length, 1, 3000),
        check_integer("n_actions", n_actions, 2),
    )
    must_fit(length, n_actions, 1)
    if not is_number(slip) or not 0.0 <= slip < 1.0:
        raise InvalidParameter("slip", slip, "a number from 0 to below 1")
    rng = np.random.default_rng(check_integer("seed", seed, 0))
    law = Bernoulli() if law is None else law
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


def _lock(combination: Any, n_actions: int, slip: float, law: RewardLaw) -> MDP:
    n = len(combination)
    transitions, rewards = np.zeros((n, n_actions, n)), np.zeros((n, n_actions))
    transitions[:, :, 0] = 1.0
    here = np.arange(n - 1)
    transitions[here, combination[:-1], 0] = slip
    transitions[here, combination[:-1], here + 1] = 1.0 - slip
    rewards[n - 1, combination[-1]] = 1.0 - slip
    return MDP(transitions, rewards, law=law)
