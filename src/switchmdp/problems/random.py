"""Random problems: the paper's experiment, and sparse ones of any size.

The paper (Section 5) has "random rewards and state-transition probabilities" and changes "at every
⌈T/l⌉ time steps", and no more. Here rows are Dirichlet(1) and means uniform on [0, 1], Bernoulli
rewards; `rows=uniform_rows` normalises uniform numbers instead. Changes every ⌈T/l⌉ steps put the
last one at T or just past it, so l changes are l - 1 felt ones: with
`change_points=even_change_points` they cut the run into l + 1 segments, and all are felt.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.random import SeedSequence
from numpy.typing import NDArray

from switchmdp.errors import InvalidParameter
from switchmdp.mdp import MDP, Bernoulli, RewardLaw, SwitchingMDP
from switchmdp.validation import check_integer

MOST_ENTRIES = 2 * 10**7  # probabilities of one problem: building it takes about a gigabyte
MOST_CHANGES = 10**5

RowLaw = Callable[[np.random.Generator, int, int], NDArray[np.float64]]


def dirichlet_rows(rng: np.random.Generator, n_rows: int, width: int) -> NDArray[np.float64]:
    """Rows uniform on the simplex.

    >>> dirichlet_rows(np.random.default_rng(0), 2, 3).sum(axis=1).round(12).tolist()
    [1.0, 1.0]
    """
    return rng.dirichlet(np.ones(width), size=n_rows)


def uniform_rows(rng: np.random.Generator, n_rows: int, width: int) -> NDArray[np.float64]:
    """Rows of uniform numbers, normalised: nearer to the simplex's centre.

    >>> uniform_rows(np.random.default_rng(0), 2, 3).sum(axis=1).round(12).tolist()
    [1.0, 1.0]
    """
    rows = rng.random((n_rows, width))
    total: NDArray[np.float64] = rows.sum(axis=1, keepdims=True)
    return rows / total


def paper_change_points(changes: int, horizon: int) -> list[int]:
    """A change every ⌈T/l⌉ steps, as printed in the paper; the last one at T or later.

    >>> paper_change_points(2, 100_000), paper_change_points(3, 100_000)
    ([50000, 100000], [33334, 66668, 100002])
    """
    changes, horizon = check_integer("changes", changes, 0), check_integer("horizon", horizon, 1)
    step = -(-horizon // changes) if changes else 0
    return [i * step for i in range(1, changes + 1)]


def even_change_points(changes: int, horizon: int) -> list[int]:
    """Changes that cut the horizon into l + 1 segments of nearly equal length.

    >>> even_change_points(1, 100_000)
    [50001]
    """
    changes, horizon = check_integer("changes", changes, 0), check_integer("horizon", horizon, 1)
    return [1 + i * horizon // (changes + 1) for i in range(1, changes + 1)]


def random_mdp(
    n_states: int = 5, n_actions: int = 3, *, seed: int | SeedSequence = 0,
    rows: RowLaw = dirichlet_rows, law: RewardLaw | None = None,
) -> MDP:  # fmt: skip
    """A dense random MDP: every transition is possible.

    >>> random_mdp(5, 3, seed=0)
    MDP(5 states, 3 actions, 75 transitions, Bernoulli())
    """
    n_states, n_actions = (
        check_integer("n_states", n_states, 1),
        check_integer("n_actions", n_actions, 1),
    )
    must_fit(n_states, n_actions, 1)
    seed = seed if isinstance(seed, SeedSequence) else SeedSequence(check_integer("seed", seed, 0))
    transitions, means = _drawn(n_states, n_actions, seed, rows)
    return MDP(transitions, means, law=Bernoulli() if law is None else law)


def _drawn(
    n_states: int, n_actions: int, seed: SeedSequence, rows: RowLaw
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Transitions and mean rewards."""
    if not callable(rows):
        raise InvalidParameter("rows", rows, "a function such as dirichlet_rows")
    rng = np.random.default_rng(seed)
    transitions = rows(rng, n_states * n_actions, n_states)
    return transitions.reshape(n_states, n_actions, n_states), rng.random((n_states, n_actions))


def random_switching(
    n_states: int = 5, n_actions: int = 3, *, changes: int = 2, horizon: int = 100_000,
    seed: int = 0, rows: RowLaw = dirichlet_rows, law: RewardLaw | None = None,
    change_points: Callable[[int, int], list[int]] | list[int] = paper_change_points,
) -> SwitchingMDP:  # fmt: skip
    """The paper's experiment: `changes` independent random MDPs after the first.

    >>> random_switching(changes=2, horizon=100_000, seed=0).change_points.tolist()
    [50000, 100000]
    """
    changes, horizon = (
        check_integer("changes", changes, 0, MOST_CHANGES),
        check_integer("horizon", horizon, 1),
    )
    if changes >= horizon:
        raise InvalidParameter("changes", changes, f"fewer than the {horizon} steps")
    n_states, n_actions = (
        check_integer("n_states", n_states, 1),
        check_integer("n_actions", n_actions, 1),
    )
    must_fit(n_states, n_actions, changes + 1)
    seeds = SeedSequence(check_integer("seed", seed, 0)).spawn(changes + 1)
    drawn = [_drawn(n_states, n_actions, s, rows) for s in seeds]
    points = change_points(changes, horizon) if callable(change_points) else change_points
    transitions, means = (np.stack(arrays) for arrays in zip(*drawn, strict=True))
    return SwitchingMDP.from_arrays(transitions, means, points, law=law)


def random_sparse_mdp(
    n_states: int, n_actions: int, successors: int, *, seed: int = 0, law: RewardLaw | None = None
) -> MDP:
    """Each pair has this many random successors, one of them on a ring, so that all connect.

    >>> random_sparse_mdp(1000, 4, 10, seed=0).n_states
    1000
    """
    n_states, n_actions = (
        check_integer("n_states", n_states, 1),
        check_integer("n_actions", n_actions, 1),
    )
    width = check_integer("successors", successors, 1, n_states)
    if n_states * n_actions * width > MOST_ENTRIES:
        allowed = f"smaller: n_states n_actions successors is at most {MOST_ENTRIES:.0e}"
        raise InvalidParameter("n_states", n_states, allowed)
    rng = np.random.default_rng(check_integer("seed", seed, 0))
    n_pairs = n_states * n_actions
    targets = distinct_states(rng, n_pairs, width, n_states)
    onward = (np.repeat(np.arange(n_states), n_actions) + 1) % n_states
    missing = ~(targets == onward[:, None]).any(axis=1)
    targets[missing, 0] = onward[missing]
    from scipy.sparse import csr_array

    entries = (rng.dirichlet(np.ones(width), n_pairs).ravel(), targets.ravel(),
               np.arange(0, n_pairs * width + 1, width))  # fmt: skip
    return MDP(
        csr_array(entries, (n_pairs, n_states)), rng.random((n_states, n_actions)),
        law=Bernoulli() if law is None else law,
    )  # fmt: skip


def must_fit(n_states: int, n_actions: int, configurations: int) -> None:
    """Refuse dense configurations that would take too much memory."""
    entries = n_states * n_states * n_actions * configurations
    if entries > MOST_ENTRIES:
        size = f"n_states² n_actions (changes + 1) = {entries:.3g}"
        allowed = f"at most {MOST_ENTRIES:.0e}, or sparse (random_sparse_mdp)"
        raise InvalidParameter("n_states", n_states, f"smaller: {size} may be {allowed}")


def distinct_states(rng: np.random.Generator, n_rows: int, width: int, n_states: int) -> Any:
    """Rows of `width` different states; repeated states are drawn again."""
    if 2 * width > n_states:
        return np.argsort(rng.random((n_rows, n_states)), axis=1)[:, :width]
    targets = rng.integers(0, n_states, (n_rows, width))
    while True:
        targets.sort(axis=1)
        again = np.zeros(targets.shape, bool)
        again[:, 1:] = targets[:, 1:] == targets[:, :-1]
        if not again.any():
            return targets
        targets[again] = rng.integers(0, n_states, int(again.sum()))
