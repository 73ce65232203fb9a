"""Problems with change points: a change operator (*how*) and change points (*when*), for any MDP.

*How* is a function of the current configuration and a random generator that returns the rows that
change, as (state, action, transitions, mean); None keeps transitions or mean unchanged to the bit.
`change_operators` has several. *When* is a list of change points, or a function that returns it for
a number of changes and a horizon. They can be combined freely:

    configurations M_0, M_1 = how(M_0), M_2 = how(M_1), …      cycle=None
    configurations M_0 … M_{k-1}, M_0 … M_{k-1}, M_0, …        cycle=k

so `cycle=2` is A-B-A-B: changes return to a known configuration.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.random import SeedSequence

from switchmdp.errors import InvalidParameter, NotCommunicating
from switchmdp.mdp import MDP, RewardLaw, SwitchingMDP
from switchmdp.mdp.pool import RowChange
from switchmdp.problems.change_operators import everything, patched
from switchmdp.problems.random import (
    MOST_CHANGES,
    MOST_DRAWS,
    MOST_ENTRIES,
    When,
    check_changes,
    check_sizes,
    even_change_points,
    garnet_mdp,
    generator,
    random_mdp,
)
from switchmdp.validation import check_integer

MOST_ROWS = 10**6  # pairs × configurations, each of which is looked at on its own

How = Callable[[MDP, np.random.Generator], Sequence[RowChange]]


def random_changes(
    n_states: int = 5, n_actions: int = 3, *, how: How = everything, changes: int = 2,
    horizon: int = 100_000, cycle: int | None = None, change_points: When = even_change_points,
    seed: int = 0, law: RewardLaw | None = None,
) -> SwitchingMDP:  # fmt: skip
    """A dense random MDP with any change operator: everything, rewards only, one pair, …

    >>> from switchmdp.problems import new_rewards
    >>> problem = random_changes(how=new_rewards, changes=3, cycle=2, horizon=1000, seed=1)
    >>> problem.change_points.tolist()
    [251, 501, 751]
    >>> bool((problem.at(1).rewards == problem.at(501).rewards).all())
    True
    """
    check_sizes(n_states, n_actions, check_integer("changes", changes, 0, MOST_CHANGES) + 1)
    first, further = SeedSequence(check_integer("seed", seed, 0)).spawn(2)
    return changing(
        random_mdp(n_states, n_actions, seed=first, law=law), how, changes=changes,
        horizon=horizon, cycle=cycle, change_points=change_points, seed=further,
    )  # fmt: skip


def changing(
    base: MDP, how: How, *, changes: int = 2, horizon: int = 100_000, cycle: int | None = None,
    change_points: When = even_change_points, seed: int | SeedSequence = 0,
) -> SwitchingMDP:  # fmt: skip
    """An MDP with a change operator; changes that disconnect a state are drawn again.

    >>> from switchmdp.problems import mirrored, riverswim
    >>> problem = changing(riverswim(), mirrored, changes=1, horizon=1000)
    >>> problem.at(501).rewards[0].tolist(), problem.at(501).rewards[5].tolist()
    ([1.0, 0.0], [0.0, 0.005])
    """
    if not callable(how) or isinstance(how, type):
        allowed = "a change operator, such as new_rewards or SmallSteps(0.1)"
        raise InvalidParameter("how", how, allowed)
    rng = generator(seed)
    return switching(
        base, lambda mdp: _changed(mdp, how, rng), changes=changes, horizon=horizon, cycle=cycle,
        change_points=change_points,
    )  # fmt: skip


def switching(
    first: MDP, following: Callable[[MDP], MDP], *, changes: int, horizon: int,
    cycle: int | None = None, change_points: When = even_change_points,
) -> SwitchingMDP:  # fmt: skip
    """A switching MDP whose configurations follow from one another, or cycle.

    >>> flip = lambda mdp: MDP(mdp.transitions, 1.0 - mdp.rewards)
    >>> problem = switching(MDP([[[1.0]]], [[0.2]]), flip, changes=1, horizon=10)
    >>> [mdp.rewards.item() for mdp in problem.configurations()]
    [0.2, 0.8]
    """
    if not isinstance(first, MDP):
        raise InvalidParameter("base", first, "an MDP")
    changes, points = check_changes(changes, horizon, change_points)
    distinct = changes + 1 if cycle is None else check_integer("cycle", cycle, 2, MOST_CHANGES)
    rows, entries = (n * (changes + 1) for n in (first.pairs.n_pairs, len(first.model.successors)))
    if rows > MOST_ROWS or entries > MOST_ENTRIES:
        size = f"{rows:.3g} rows and {entries:.3g} probabilities"
        allowed = f"smaller: {size}, at most {MOST_ROWS:.0e} and {MOST_ENTRIES:.0e} are allowed"
        raise InvalidParameter("changes", changes, allowed)
    if first.unconnected is not None:
        raise NotCommunicating(
            f"the first configuration has infinite diameter: {first.unconnected}"
        )
    different = [first]
    while len(different) < min(distinct, changes + 1):
        different.append(following(different[-1]))
    return SwitchingMDP((different[i % len(different)] for i in range(changes + 1)), points)


def _changed(mdp: MDP, how: How, rng: np.random.Generator) -> MDP:
    for _ in range(MOST_DRAWS):
        try:
            return patched(mdp, how(mdp, rng))
        except NotCommunicating:
            continue
    name = getattr(how, "__name__", how)
    raise NotCommunicating(f"all {MOST_DRAWS} changes of {mdp} by {name} disconnect some state")


def garnet(
    n_states: int = 20, n_actions: int = 3, successors: int = 3, *, how: How = everything,
    changes: int = 2, horizon: int = 100_000, cycle: int | None = None,
    change_points: When = even_change_points, seed: int = 0, law: RewardLaw | None = None,
) -> SwitchingMDP:  # fmt: skip
    """Garnet(S, A, b); by default each change draws another one.

    >>> garnet(10, 2, 3, changes=1, horizon=1000, seed=0)
    SwitchingMDP(10 states, 2 actions, 1 changes, 40 rows, Bernoulli())
    """
    first, further = SeedSequence(check_integer("seed", seed, 0)).spawn(2)
    return changing(
        garnet_mdp(n_states, n_actions, successors, seed=first, law=law), how, changes=changes,
        horizon=horizon, cycle=cycle, change_points=change_points, seed=further,
    )  # fmt: skip
