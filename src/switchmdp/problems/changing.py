"""Problems with change points: a change operator (*how*) and change points (*when*), for any MDP.

*How* is a function of the current configuration and a random generator that returns the rows that
change, as (state, action, transitions, mean); None keeps transitions or mean unchanged to the bit.
`change_operators` has several. *When* is a list of change points, or a function that returns it for
a number of changes and a horizon. They can be combined freely:

    configurations M_0, M_1 = how(M_0), M_2 = how(M_1), …      cycle=None
    configurations M_0 … M_{k-1}, M_0 … M_{k-1}, M_0, …        cycle=k

so `cycle=2` is A-B-A-B: changes return to a known configuration.

**Garnet(S, A, b)**: random MDPs with b successors per pair (after Archibald et al. 1995). The
successors are drawn uniformly without replacement, with probabilities uniform on the simplex (the
pieces of [0, 1] cut at b - 1 uniform points); means are uniform on [0, 1]. An MDP that is not
communicating is drawn again, so the law is Garnet's given that the MDP communicates.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import islice

import numpy as np
from numpy.random import SeedSequence

from switchmdp.errors import InvalidParameter, NotCommunicating
from switchmdp.mdp import MDP, Bernoulli, RewardLaw, SwitchingMDP
from switchmdp.mdp.pool import RowChange
from switchmdp.problems.change_operators import everything, patched
from switchmdp.problems.random import (
    MOST_CHANGES,
    MOST_ENTRIES,
    distinct_states,
    even_change_points,
    must_fit,
    random_mdp,
)
from switchmdp.validation import check_integer

MOST_ROWS = 10**6  # pairs × configurations, each of which is looked at on its own
MOST_DRAWS = 1000

How = Callable[[MDP, np.random.Generator], Sequence[RowChange]]
When = Callable[[int, int], list[int]] | list[int]


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
    n_states, n_actions = (
        check_integer("n_states", n_states, 1),
        check_integer("n_actions", n_actions, 1),
    )
    must_fit(n_states, n_actions, check_integer("changes", changes, 0, MOST_CHANGES) + 1)
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
    seed = seed if isinstance(seed, SeedSequence) else SeedSequence(check_integer("seed", seed, 0))
    rng = np.random.default_rng(seed)
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
    changes, horizon = (
        check_integer("changes", changes, 0, MOST_CHANGES),
        check_integer("horizon", horizon, 1),
    )
    if changes >= horizon:
        raise InvalidParameter("changes", changes, f"fewer than the {horizon} steps")
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
    different = list(islice(_in_turn(first, following), min(distinct, changes + 1)))
    points = change_points(changes, horizon) if callable(change_points) else change_points
    return SwitchingMDP((different[i % len(different)] for i in range(changes + 1)), points)


def _in_turn(mdp: MDP, following: Callable[[MDP], MDP]) -> Iterator[MDP]:
    while True:
        yield mdp
        mdp = following(mdp)


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


def garnet_mdp(
    n_states: int = 20, n_actions: int = 3, successors: int = 3, *,
    seed: int | SeedSequence = 0, law: RewardLaw | None = None,
) -> MDP:  # fmt: skip
    """One communicating Garnet(S, A, b).

    >>> garnet_mdp(10, 2, 3, seed=0)
    MDP(10 states, 2 actions, 60 transitions, Bernoulli())
    """
    n_states, n_actions = (
        check_integer("n_states", n_states, 1),
        check_integer("n_actions", n_actions, 1),
    )
    width = check_integer("successors", successors, 1, n_states)
    n_pairs = n_states * n_actions
    if n_pairs * width > MOST_ENTRIES:
        allowed = f"smaller: n_states n_actions successors is at most {MOST_ENTRIES:.0e}"
        raise InvalidParameter("n_states", n_states, allowed)
    seed = seed if isinstance(seed, SeedSequence) else SeedSequence(check_integer("seed", seed, 0))
    rng = np.random.default_rng(seed)
    from scipy.sparse import csr_array

    ends = np.arange(0, n_pairs * width + 1, width)
    for _ in range(MOST_DRAWS):
        targets = distinct_states(rng, n_pairs, width, n_states)
        rows = rng.dirichlet(np.ones(width), n_pairs)
        mdp = MDP(
            csr_array((rows.ravel(), targets.ravel(), ends), (n_pairs, n_states)),
            rng.random((n_states, n_actions)), law=Bernoulli() if law is None else law,
        )  # fmt: skip
        if mdp.unconnected is None:
            return mdp
    sizes = f"{n_states} states and {n_actions} actions"
    allowed = f"larger: with {sizes} all {MOST_DRAWS} draws disconnect some state"
    raise InvalidParameter("successors", successors, allowed)
