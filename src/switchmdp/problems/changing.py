"""Problems that change now and then: *how* × *when*, over any MDP.

*How* is a function of the present configuration and a random generator that returns the rows that
become different, as (state, action, transitions, mean); None leaves transitions or mean alone, to
the bit. `ways` and `hidden` hold several. *When* is a function of the number of changes and the
horizon that returns the change points, or a list of them. Any how goes with any when:

    configurations M_0, M_1 = how(M_0), M_2 = how(M_1), …      cycle=None
    configurations M_0 … M_{k-1}, M_0 … M_{k-1}, M_0, …        cycle=k

so that `cycle=2` is A-B-A-B: a change back to what was known.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Any

import numpy as np
from numpy.random import SeedSequence

from switchmdp.errors import InvalidParameter, NotCommunicating
from switchmdp.mdp import MDP, RewardLaw, SwitchingMDP
from switchmdp.mdp.model import Model
from switchmdp.mdp.pool import RowChange
from switchmdp.problems.random import (
    MOST_CHANGES,
    MOST_ENTRIES,
    even_change_points,
    must_fit,
    random_mdp,
)
from switchmdp.problems.ways import everything
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
    """A dense random MDP that changes in some way: all of it, rewards only, one pair, hidden, …

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
    """An MDP that changes in this way. What would cut off a state is drawn again.

    >>> from switchmdp.problems import mirrored, riverswim
    >>> problem = changing(riverswim(), mirrored, changes=1, horizon=1000)
    >>> problem.at(501).rewards[0].tolist(), problem.at(501).rewards[5].tolist()
    ([1.0, 0.0], [0.0, 0.005])
    """
    if not callable(how) or isinstance(how, type):
        allowed = "a way to change, such as new_rewards or SmallSteps(0.1)"
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
    """Configurations that follow from one another, or come round, at these times.

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
        allowed = f"smaller: {size} may be {MOST_ROWS:.0e} and {MOST_ENTRIES:.0e}"
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
    raise NotCommunicating(f"{MOST_DRAWS} changes of {mdp} by {name} all cut off some state")


def patched(mdp: MDP, patch: Sequence[RowChange]) -> MDP:
    """The MDP with these rows different, and the others the same to the bit.

    >>> patched(MDP([[[0, 1]], [[1, 0]]], [[1], [0]]), [(1, 0, None, 0.5)]).rewards.tolist()
    [[1.0], [0.5]]
    """
    found = SwitchingMDP.from_patches(mdp, [2], [patch]).configuration(1)
    result = MDP.of_model(found.pairs, _compact(found.model), found.law)
    result.state_labels, result.action_labels = mdp.state_labels, mdp.action_labels
    return result


def _compact(model: Model) -> Model:
    """One row for each pair: what was replaced does not pile up."""
    start = model.start[model.row]
    width = model.stop[model.row] - start
    stop = np.cumsum(width)
    entries: Any = np.repeat(start - (stop - width), width) + np.arange(stop[-1])
    return Model(
        starts=model.starts, row=np.arange(len(start)), start=stop - width, stop=stop,
        mean=model.mean[model.row], successors=model.successors[entries],
        probabilities=model.probabilities[entries], cumulative=model.cumulative[entries],
    )  # fmt: skip
