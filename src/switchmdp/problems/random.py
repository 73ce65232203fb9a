"""Random problems: the paper's experiment, Garnet, and sparse ones of any size.

The paper (Section 5) only says "random rewards and state-transition probabilities", and changes
"at every ⌈T/l⌉ time steps". Here rows are Dirichlet(1) and means uniform on [0, 1], Bernoulli
rewards; `rows=uniform_rows` normalises uniform numbers instead. Changes every ⌈T/l⌉ steps put the
last one at T or later, so only l - 1 of them take effect within the run. With
`change_points=even_change_points` they cut the run into l + 1 segments, and all take effect.

**Garnet(S, A, b)**: random MDPs with b successors per pair (after Archibald et al. 1995). The
successors are drawn uniformly without replacement, with probabilities uniform on the simplex (the
pieces of [0, 1] cut at b - 1 uniform points); means are uniform on [0, 1]. An MDP that is not
communicating is drawn again, so the law is Garnet's given that the MDP communicates.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.random import SeedSequence
from numpy.typing import NDArray

from switchmdp.errors import InvalidParameter
from switchmdp.mdp import MDP, RewardLaw, SwitchingMDP
from switchmdp.mdp.parse import Entries
from switchmdp.validation import check_integer

MOST_ENTRIES = 2 * 10**7  # probabilities of one problem: building it takes about a gigabyte
MOST_CHANGES = 10**5
MOST_DRAWS = 1000

RowLaw = Callable[[np.random.Generator, int, int], NDArray[np.float64]]
When = Callable[[int, int], list[int]] | list[int]


def dirichlet_rows(rng: np.random.Generator, n_rows: int, width: int) -> NDArray[np.float64]:
    """Transition rows that are uniform on the simplex.

    Parameters
    ----------
    rng
        The random generator.
    n_rows
        The number of rows.
    width
        The number of entries of a row.

    Returns
    -------
    numpy.ndarray
        One distribution per row.

    Examples
    --------
    >>> dirichlet_rows(np.random.default_rng(0), 2, 3).sum(axis=1).round(12).tolist()
    [1.0, 1.0]
    """
    return rng.dirichlet(np.ones(width), size=n_rows)


def uniform_rows(rng: np.random.Generator, n_rows: int, width: int) -> NDArray[np.float64]:
    """Transition rows of normalised uniform numbers, which are nearer to the centre of the simplex.

    Parameters
    ----------
    rng
        The random generator.
    n_rows
        The number of rows.
    width
        The number of entries of a row.

    Returns
    -------
    numpy.ndarray
        One distribution per row.

    Examples
    --------
    >>> uniform_rows(np.random.default_rng(0), 2, 3).sum(axis=1).round(12).tolist()
    [1.0, 1.0]
    """
    rows = rng.random((n_rows, width))
    total: NDArray[np.float64] = rows.sum(axis=1, keepdims=True)
    return rows / total


def paper_change_points(changes: int, horizon: int) -> list[int]:
    """A change every ⌈T/l⌉ steps, as printed in the paper; the last one at T or later.

    Parameters
    ----------
    changes
        The number of changes.
    horizon
        The number of steps of a run.

    Returns
    -------
    list of int
        The change points.

    Raises
    ------
    InvalidParameter
        If a parameter has the wrong type or is out of range.

    Examples
    --------
    >>> paper_change_points(2, 100_000), paper_change_points(3, 100_000)
    ([50000, 100000], [33334, 66668, 100002])
    """
    changes, horizon = check_integer("changes", changes, 0), check_integer("horizon", horizon, 1)
    step = -(-horizon // changes) if changes else 0
    return [i * step for i in range(1, changes + 1)]


def even_change_points(changes: int, horizon: int) -> list[int]:
    """Changes that cut the horizon into l + 1 segments of nearly equal length.

    Parameters
    ----------
    changes
        The number of changes.
    horizon
        The number of steps of a run.

    Returns
    -------
    list of int
        The change points.

    Raises
    ------
    InvalidParameter
        If a parameter has the wrong type or is out of range.

    Examples
    --------
    >>> even_change_points(1, 100_000)
    [50001]
    """
    changes, horizon = check_integer("changes", changes, 0), check_integer("horizon", horizon, 1)
    return [1 + i * horizon // (changes + 1) for i in range(1, changes + 1)]


def bursts(changes: int, horizon: int) -> list[int]:
    """Changes in pairs: evenly spaced bursts, each of which ends after a fiftieth of the horizon.

    With `cycle=2`, a problem leaves its usual configuration for a short time, again and again. If
    the number of changes is odd, the last burst does not end.

    Parameters
    ----------
    changes
        The number of changes.
    horizon
        The number of steps of a run.

    Returns
    -------
    list of int
        The change points.

    Raises
    ------
    InvalidParameter
        If a parameter has the wrong type or is out of range.

    Examples
    --------
    >>> bursts(4, 1000)
    [334, 354, 667, 687]
    """
    changes, horizon = check_integer("changes", changes, 0), check_integer("horizon", horizon, 1)
    starts = even_change_points(-(-changes // 2), horizon)
    length = max(1, min(horizon // 50, horizon // (2 * len(starts) + 1)))
    return [start + shift for start in starts for shift in (0, length)][:changes]


def random_mdp(
    n_states: int = 5, n_actions: int = 3, *, seed: int | SeedSequence = 0,
    rows: RowLaw = dirichlet_rows, law: RewardLaw | None = None,
) -> MDP:  # fmt: skip
    """A dense random MDP: every transition is possible.

    Parameters
    ----------
    n_states
        The number of states.
    n_actions
        The number of actions of each state.
    seed
        The seed of all random draws.
    rows
        The law of the transition rows: `dirichlet_rows`, `uniform_rows`, or a function like them.
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
    >>> random_mdp(5, 3, seed=0)
    MDP(5 states, 3 actions, 75 transitions, Bernoulli())
    """
    n_states, n_actions = check_sizes(n_states, n_actions)
    return MDP(*_drawn(n_states, n_actions, generator(seed), rows), law=law)


def _drawn(
    n_states: int, n_actions: int, rng: np.random.Generator, rows: RowLaw
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Transitions and mean rewards."""
    if not callable(rows):
        raise InvalidParameter("rows", rows, "a function such as dirichlet_rows")
    transitions = rows(rng, n_states * n_actions, n_states)
    return transitions.reshape(n_states, n_actions, n_states), rng.random((n_states, n_actions))


def random_switching(
    n_states: int = 5, n_actions: int = 3, *, changes: int = 2, horizon: int = 100_000,
    seed: int = 0, rows: RowLaw = dirichlet_rows, law: RewardLaw | None = None,
    change_points: When = paper_change_points,
) -> SwitchingMDP:  # fmt: skip
    """The experiment of the SW-UCRL paper: `changes` independent random MDPs after the first.

    Parameters
    ----------
    n_states
        The number of states.
    n_actions
        The number of actions of each state.
    changes
        The number of changes.
    horizon
        The number of steps of a run.
    seed
        The seed of all random draws.
    rows
        The law of the transition rows: `dirichlet_rows`, `uniform_rows`, or a function like them.
    law
        The reward law; Bernoulli by default.
    change_points
        When: a list of change points, or a function of the number of changes and the horizon. By
        default as in the paper: every ⌈horizon / changes⌉ steps, so that the last change comes at
        the last step or later, and has no effect. With `even_change_points` every change counts.

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
    Gajane, Ortner, Auer (2018): A sliding-window algorithm for Markov decision processes with
    arbitrarily changing rewards and transitions.

    Examples
    --------
    >>> random_switching(changes=2, horizon=100_000, seed=0).change_points.tolist()
    [50000, 100000]
    """
    changes, points = check_changes(changes, horizon, change_points)
    n_states, n_actions = check_sizes(n_states, n_actions, changes + 1)
    seeds = SeedSequence(check_integer("seed", seed, 0)).spawn(changes + 1)
    drawn = [_drawn(n_states, n_actions, generator(s), rows) for s in seeds]
    transitions, means = (np.stack(arrays) for arrays in zip(*drawn, strict=True))
    return SwitchingMDP.from_arrays(transitions, means, points, law=law)


def random_sparse_mdp(
    n_states: int = 100, n_actions: int = 4, successors: int = 5, *,
    seed: int = 0, law: RewardLaw | None = None,
) -> MDP:  # fmt: skip
    """An MDP whose pairs have a few random successors each.

    One of them is the next state on a ring, so every state can be reached.

    Parameters
    ----------
    n_states
        The number of states.
    n_actions
        The number of actions of each state.
    successors
        The number of successors of each state-action pair.
    seed
        The seed of all random draws.
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
    >>> random_sparse_mdp(1000, 4, 10, seed=0).n_states
    1000
    """
    n_states, n_actions, width = _check_sparse(n_states, n_actions, successors)
    rng = generator(seed)
    targets = _distinct_states(rng, n_states * n_actions, width, n_states)
    onward = (np.repeat(np.arange(n_states), n_actions) + 1) % n_states
    missing = ~(targets == onward[:, None]).any(axis=1)
    targets[missing, 0] = onward[missing]
    return _sparse_mdp(rng, targets, n_actions, law)


def garnet_mdp(
    n_states: int = 20, n_actions: int = 3, successors: int = 3, *,
    seed: int | SeedSequence = 0, law: RewardLaw | None = None,
) -> MDP:  # fmt: skip
    """A random communicating Garnet(S, A, b) MDP.

    Parameters
    ----------
    n_states
        The number of states.
    n_actions
        The number of actions of each state.
    successors
        The number of successors of each state-action pair.
    seed
        The seed of all random draws.
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
    Archibald, McKinnon, Thomas (1995): On the generation of Markov decision processes.

    Examples
    --------
    >>> garnet_mdp(10, 2, 3, seed=0)
    MDP(10 states, 2 actions, 60 transitions, Bernoulli())
    """
    n_states, n_actions, width = _check_sparse(n_states, n_actions, successors)
    rng = generator(seed)
    for _ in range(MOST_DRAWS):
        targets = _distinct_states(rng, n_states * n_actions, width, n_states)
        mdp = _sparse_mdp(rng, targets, n_actions, law)
        if mdp.unconnected is None:
            return mdp
    sizes = f"{n_states} states and {n_actions} actions"
    allowed = f"larger: with {sizes} all {MOST_DRAWS} draws disconnect some state"
    raise InvalidParameter("successors", successors, allowed)


def _check_sparse(n_states: int, n_actions: int, successors: int) -> tuple[int, int, int]:
    """The sizes of a sparse problem, which must fit into memory."""
    n_states = check_integer("n_states", n_states, 1)
    n_actions = check_integer("n_actions", n_actions, 1)
    width = check_integer("successors", successors, 1, n_states)
    if n_states * n_actions * width > MOST_ENTRIES:
        allowed = f"smaller: n_states n_actions successors is at most {MOST_ENTRIES:.0e}"
        raise InvalidParameter("n_states", n_states, allowed)
    return n_states, n_actions, width


def _sparse_mdp(
    rng: np.random.Generator, targets: NDArray[np.int64], n_actions: int, law: RewardLaw | None
) -> MDP:
    """An MDP whose pairs have these successors; rows and mean rewards are drawn."""
    n_pairs, width = targets.shape
    probabilities = rng.dirichlet(np.ones(width), n_pairs)
    entries = Entries(np.repeat(np.arange(n_pairs), width), targets.ravel(), probabilities.ravel())
    return MDP(entries, rng.random((n_pairs // n_actions, n_actions)), law=law)


def generator(seed: int | SeedSequence) -> np.random.Generator:
    """The random generator of a seed.

    >>> generator(0).random() == generator(SeedSequence(0)).random()
    True
    """
    if not isinstance(seed, SeedSequence):
        seed = SeedSequence(check_integer("seed", seed, 0))
    return np.random.default_rng(seed)


def check_changes(changes: int, horizon: int, change_points: When) -> tuple[int, list[int]]:
    """The number of changes, which must fit into the horizon, and the change points."""
    changes = check_integer("changes", changes, 0, MOST_CHANGES)
    horizon = check_integer("horizon", horizon, 1)
    if changes >= horizon:
        raise InvalidParameter("changes", changes, f"fewer than the {horizon} steps")
    if callable(change_points):
        return changes, change_points(changes, horizon)
    if isinstance(change_points, str):
        allowed = "a list of steps, or a function such as problems.bursts"
        raise InvalidParameter("change_points", change_points, allowed)
    if np.ndim(change_points) == 1 and len(change_points) != changes:
        allowed = f"a list of {changes} steps, because changes is {changes}"
        raise InvalidParameter("change_points", change_points, allowed)
    return changes, change_points


def check_sizes(n_states: int, n_actions: int, configurations: int = 1) -> tuple[int, int]:
    """The sizes of a dense problem, which must fit into memory."""
    n_states = check_integer("n_states", n_states, 1)
    n_actions = check_integer("n_actions", n_actions, 1)
    must_fit(n_states, n_actions, configurations)
    return n_states, n_actions


def must_fit(n_states: int, n_actions: int, configurations: int) -> None:
    """Raise an error if dense configurations would take too much memory."""
    entries = n_states * n_states * n_actions * configurations
    if entries > MOST_ENTRIES:
        size = f"n_states² n_actions (changes + 1) = {entries:.3g}"
        allowed = f"at most {MOST_ENTRIES:.0e}, or sparse (random_sparse_mdp)"
        raise InvalidParameter("n_states", n_states, f"smaller: {size} may be {allowed}")


def _distinct_states(rng: np.random.Generator, n_rows: int, width: int, n_states: int) -> Any:
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
