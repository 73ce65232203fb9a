"""Problems that change at change points, or all the time.

**Change points**: a change operator (*how*) and change points (*when*), for any MDP.

*How* is a change operator: a function of the current configuration and a random generator that
returns the rows that change, as (state, action, transitions, mean); None keeps transitions or mean
unchanged to the bit. *When* is a list of change points, or a function that returns it for a number
of changes and a horizon. They can be combined freely:

    configurations M_0, M_1 = how(M_0), M_2 = how(M_1), …      cycle=None
    configurations M_0 … M_{k-1}, M_0 … M_{k-1}, M_0, …        cycle=k

so `cycle=2` is A-B-A-B: changes return to a known configuration.

Drawn rows are uniform on the simplex over as many successors as the pair had, drawn means uniform
on [0, 1]. `SmallSteps` keeps these laws: rows that are uniform on the simplex and means that are
uniform on [0, 1] remain so after any number of steps.

**Hidden improvement**: a change that an agent with the old optimal policy cannot observe. Let
π* be an optimal policy of the configuration M, with gain ρ*. One pair (s, a) is drawn among those
that no optimal policy uses (their gap ρ* + h(s) - r̄ - Σ p h is positive), and

    mean  ←  (1 - x) r̄ + x,       row  ←  (1 - x) p + x · (stay in s),

with the least x for which the new optimal gain is ρ* + margin (1 - ρ*). All other pairs, also those
of π*, are unchanged to the bit: an agent that follows π* sees the same states and rewards as before
and earns ρ*, while the best gain has increased. Such an x < 1 always exists: the gain of a policy
that takes the pair is monotone in x (a ratio of two linear functions) and 1 at x = 1, where staying
in s earns 1 at every step.

**Drift.** Rows move every `every` steps (default: a thousandth of the horizon), before steps
1 + every, 1 + 2·every, … . `hardness` and `variations` report the total variations

    B_r = Σ max_{s,a} |Δr̄|,      B_p = Σ max_{s,a} ‖Δp‖₁      over all moves.

A *gradual drift* leads from M_0 to M_1, the result of a change operator. After a share x of the
time the problem is (1 - path(x)) M_0 + path(x) M_1. The path is linear, or a sine wave. In a
*random walk* every row performs a random walk on the simplex and every mean one in [0, 1], as in
`SmallSteps`. The walk preserves uniform laws, so at any time the problem looks like a random MDP.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.random import SeedSequence
from numpy.typing import NDArray

from switchmdp.errors import InvalidParameter, InvalidProblem, NotCommunicating
from switchmdp.mdp import MDP, RewardLaw, SwitchingMDP
from switchmdp.mdp.model import Model
from switchmdp.mdp.pool import RowChange
from switchmdp.planning import action_gaps, optimal_gain
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
    must_fit,
    random_mdp,
)
from switchmdp.validation import check_integer, check_positive, is_number

MOST_ROWS = 10**6  # pairs × configurations, each of which is looked at on its own

How = Callable[[MDP, np.random.Generator], Sequence[RowChange]]

# How: change operators.


def everything(mdp: MDP, rng: np.random.Generator) -> list[RowChange]:
    """Draw all transitions and all mean rewards again.

    Parameters
    ----------
    mdp
        The MDP.
    rng
        The random generator that the change is drawn from.

    Returns
    -------
    list
        The rows that change, of all pairs: (state, action, transitions, mean).

    Examples
    --------
    >>> len(everything(MDP([[[0, 1]], [[1, 0]]], [[1], [0]]), np.random.default_rng(0)))
    4
    """
    return new_transitions(mdp, rng) + new_rewards(mdp, rng)


def new_rewards(mdp: MDP, rng: np.random.Generator) -> list[RowChange]:
    """Draw all mean rewards again and keep the transitions.

    Parameters
    ----------
    mdp
        The MDP.
    rng
        The random generator that the change is drawn from.

    Returns
    -------
    list
        The rows that change, of all pairs: (state, action, transitions, mean).

    Examples
    --------
    >>> mdp = MDP([[[0, 1]], [[1, 0]]], [[1], [0]])
    >>> [row for _, _, row, _ in new_rewards(mdp, np.random.default_rng(0))]
    [None, None]
    """
    means = rng.random(mdp.pairs.n_pairs).tolist()
    return [(s, a, None, mean) for (s, a), mean in zip(_pairs(mdp), means, strict=True)]


def new_transitions(mdp: MDP, rng: np.random.Generator) -> list[RowChange]:
    """Draw all transitions again and keep the mean rewards.

    Parameters
    ----------
    mdp
        The MDP.
    rng
        The random generator that the change is drawn from.

    Returns
    -------
    list
        The rows that change, of all pairs: (state, action, transitions, mean).

    Examples
    --------
    >>> mdp = MDP([[[0, 1]], [[1, 0]]], [[1], [0]])
    >>> [mean for _, _, _, mean in new_transitions(mdp, np.random.default_rng(0))]
    [None, None]
    """
    return [(s, a, _drawn_row(mdp, s, a, rng), None) for s, a in _pairs(mdp)]


def one_pair(mdp: MDP, rng: np.random.Generator) -> list[RowChange]:
    """Draw transitions and mean reward of one uniformly chosen pair again.

    Parameters
    ----------
    mdp
        The MDP.
    rng
        The random generator that the change is drawn from.

    Returns
    -------
    list
        The rows that change, of one pair: (state, action, transitions, mean).

    Examples
    --------
    >>> len(one_pair(MDP([[[0, 1]], [[1, 0]]], [[1], [0]]), np.random.default_rng(0)))
    1
    """
    pair = int(rng.integers(mdp.pairs.n_pairs))
    s, a = int(mdp.pairs.states[pair]), int(mdp.pairs.actions[pair])
    return [(s, a, _drawn_row(mdp, s, a, rng), float(rng.random()))]


def permuted_actions(mdp: MDP, rng: np.random.Generator) -> list[RowChange]:
    """Permute the actions, in the same way in all states; at least two actions swap.

    Parameters
    ----------
    mdp
        The MDP.
    rng
        The random generator that the change is drawn from.

    Returns
    -------
    list
        The rows that change, of all pairs: (state, action, transitions, mean).

    Raises
    ------
    InvalidProblem
        If some state lacks an action.

    Examples
    --------
    >>> mdp = MDP([[[1, 0], [0, 1]], [[0, 1], [1, 0]]], [[0.1, 0.2], [0.3, 0.4]])
    >>> [mean for _, _, _, mean in permuted_actions(mdp, np.random.default_rng(0))]
    [0.2, 0.1, 0.4, 0.3]
    """
    _must_have_all_actions(mdp, "permuted")
    n = mdp.n_actions
    if n < 2:
        raise InvalidProblem("a single action cannot be permuted")
    meaning = rng.permutation(n)
    while (meaning == np.arange(n)).all():
        meaning = rng.permutation(n)
    means = mdp.rewards.tolist()
    return [
        (s, a, list(zip(*mdp.successors(s, meaning[a]), strict=True)), means[s][meaning[a]])
        for s, a in _pairs(mdp)
    ]


def mirrored(mdp: MDP, rng: np.random.Generator) -> list[RowChange]:
    """Reverse the order of the states and of the actions.

    Parameters
    ----------
    mdp
        The MDP.
    rng
        Unused: nothing is drawn.

    Returns
    -------
    list
        The rows that change, of all pairs: (state, action, transitions, mean).

    Raises
    ------
    InvalidProblem
        If some state lacks an action.

    Examples
    --------
    >>> mdp = MDP([[[1, 0], [0, 1]], [[0, 1], [1, 0]]], [[0.1, 0.2], [0.3, 0.4]])
    >>> [mean for _, _, _, mean in mirrored(mdp, np.random.default_rng(0))]
    [0.4, 0.3, 0.2, 0.1]
    """
    _must_have_all_actions(mdp, "mirrored")
    last, means = mdp.n_states - 1, mdp.rewards[::-1, ::-1].tolist()
    changes: list[RowChange] = []
    for s, a in _pairs(mdp):
        successors, row = mdp.successors(last - s, mdp.n_actions - 1 - a)
        there = [(last - x, p) for x, p in zip(successors, row, strict=True)]
        changes.append((s, a, there[::-1], means[s][a]))
    return changes


@dataclass(frozen=True)
class SmallSteps:
    """Move every row and every mean reward by one small random step; successors stay the same.

    The successors of a row are paired at random, and each two exchange a normally distributed
    amount with standard deviation `size`, reflected so that neither falls below 0. A mean moves
    likewise in [0, 1].

    Parameters
    ----------
    size
        The standard deviation of a step, from 0 to 1.

    Raises
    ------
    InvalidParameter
        If a parameter has the wrong type or is out of range.

    Examples
    --------
    >>> mdp = MDP([[[0.5, 0.5]], [[0, 1.0]]], [[1], [0]])
    >>> len(SmallSteps(0.01)(mdp, np.random.default_rng(0)))
    2
    """

    size: float = 0.05

    def __post_init__(self) -> None:
        at_most_one("size", self.size)

    def __call__(self, mdp: MDP, rng: np.random.Generator) -> list[RowChange]:
        means = step_within(mdp.rewards, self.size, rng)
        changes: list[RowChange] = []
        for s, a in _pairs(mdp):
            successors, row = mdp.successors(s, a)
            moved = exchange(np.array([row]), self.size, rng)[0]
            changes.append((s, a, dict(zip(successors, moved.tolist(), strict=True)), means[s, a]))
        return changes


def exchange(rows: NDArray[Any], size: float, rng: np.random.Generator) -> NDArray[Any]:
    """One step of a random walk on the simplex for each row.

    If a row is uniform on the simplex, each of two entries is uniform between 0 and their sum, and
    a reflected symmetric step preserves that.

    >>> exchange(np.array([[0.5, 0.5]]), 0.1, np.random.default_rng(0)).sum().item()
    1.0
    """
    order = np.argsort(rng.random(rows.shape), axis=1)
    half, line = rows.shape[1] // 2, np.arange(len(rows))[:, None]
    giver, taker = order[:, :half], order[:, half : 2 * half]
    gives, takes = rows[line, giver], rows[line, taker]
    left = _reflected(gives + size * rng.standard_normal(gives.shape), gives + takes)
    result = rows.copy()
    result[line, giver] = left
    result[line, taker] = np.maximum(takes + (gives - left), 0.0)
    return result


def step_within(means: NDArray[Any], size: float, rng: np.random.Generator) -> NDArray[Any]:
    """One step of a random walk on [0, 1] for each entry, reflected at its ends.

    >>> step_within(np.array([0.0]), 0.0, np.random.default_rng(0)).tolist()
    [0.0]
    """
    moved = means + size * rng.standard_normal(means.shape)
    return _reflected(moved, np.ones(means.shape))


def _reflected(x: NDArray[Any], top: NDArray[Any]) -> NDArray[Any]:
    """x folded into [0, top]."""
    length = np.where(top > 0.0, top, 1.0)
    folded = np.minimum(np.abs(np.mod(x + length, 2.0 * length) - length), top)
    return np.where((x >= 0.0) & (x <= top), x, folded)


def at_most_one(field: str, value: Any) -> float:
    """A parameter that must be a number from 0 to 1."""
    if not is_number(value) or not 0.0 <= value <= 1.0:
        raise InvalidParameter(field, value, "a number from 0 to 1")
    return float(value)


def _pairs(mdp: MDP) -> Iterator[tuple[int, int]]:
    return zip(mdp.pairs.states.tolist(), mdp.pairs.actions.tolist(), strict=True)


def _drawn_row(mdp: MDP, s: int, a: int, rng: np.random.Generator) -> dict[int, float]:
    width = len(mdp.successors(s, a)[0])
    targets = np.sort(rng.choice(mdp.n_states, width, replace=False))
    return dict(zip(targets.tolist(), rng.dirichlet(np.ones(width)).tolist(), strict=True))


def _must_have_all_actions(mdp: MDP, what: str) -> None:
    if not mdp.available.all():
        raise InvalidProblem(f"actions can be {what} only if every state has all of them")


LEAST_GAP = 1e-6
MOST_MARGIN = 0.9
HALVINGS = 30


@dataclass(frozen=True)
class HiddenImprovement:
    """A change operator that improves only one action that the old optimal policy never takes.

    The optimal gain increases by `margin` times its distance to 1.

    Parameters
    ----------
    margin
        The share of the distance to 1 by which the optimal gain increases.

    Raises
    ------
    InvalidParameter
        If a parameter has the wrong type or is out of range.

    Examples
    --------
    >>> from switchmdp.problems import changing, random_mdp
    >>> problem = changing(random_mdp(seed=0), HiddenImprovement(0.5), changes=1, horizon=1000)
    >>> before, after = (optimal_gain(mdp).gain for mdp in problem.configurations())
    >>> round((after - before) / (1 - before), 4)
    0.5
    """

    margin: float = 0.5

    def __post_init__(self) -> None:
        if not is_number(self.margin) or not 0.0 < self.margin <= MOST_MARGIN:
            allowed = f"a number above 0 and at most {MOST_MARGIN}"
            raise InvalidParameter("margin", self.margin, allowed)

    def __call__(self, mdp: MDP, rng: np.random.Generator) -> list[RowChange]:
        plan = optimal_gain(mdp)
        target = plan.gain + self.margin * (1.0 - plan.gain)
        unused = np.argwhere(action_gaps(mdp, plan) > LEAST_GAP)
        if not len(unused) or target - plan.gain < LEAST_GAP:
            raise InvalidProblem(
                f"no hidden improvement of {mdp} exists: its gain is {plan.gain:.6g}, and "
                f"{len(unused)} actions are never optimal"
            )
        s, a = unused[rng.integers(len(unused))].tolist()
        low, high = 0.0, 1.0
        for _ in range(HALVINGS):
            middle = (low + high) / 2.0
            if (
                optimal_gain(patched(mdp, [_improved(mdp, s, a, middle)]), start=plan).lower
                < target
            ):
                low = middle
            else:
                high = middle
        if high == 1.0:
            raise InvalidProblem(f"state {s} of {mdp} is too hard to reach for an improvement")
        return [_improved(mdp, s, a, high)]


def _improved(mdp: MDP, s: int, a: int, x: float) -> RowChange:
    successors, row = mdp.successors(s, a)
    blend = {target: (1.0 - x) * p for target, p in zip(successors, row, strict=True)}
    blend[s] = blend.get(s, 0.0) + x
    return s, a, blend, (1.0 - x) * float(mdp.rewards[s, a]) + x


def patched(mdp: MDP, patch: Sequence[RowChange]) -> MDP:
    """The MDP with these row changes; all other rows are equal to the bit.

    >>> patched(MDP([[[0, 1]], [[1, 0]]], [[1], [0]]), [(1, 0, None, 0.5)]).rewards.tolist()
    [[1.0], [0.5]]
    """
    after = SwitchingMDP.from_patches(mdp, [2], [patch]).configuration(1)
    return MDP.of_model(after.pairs, _compact(after.model), after.law).label_like(mdp)


def _compact(model: Model) -> Model:
    """A model with one row per pair, without replaced rows."""
    start = model.start[model.row]
    width = model.stop[model.row] - start
    stop = np.cumsum(width)
    entries: Any = np.repeat(start - (stop - width), width) + np.arange(stop[-1])
    return Model(
        starts=model.starts, row=np.arange(len(start)), start=stop - width, stop=stop,
        mean=model.mean[model.row], successors=model.successors[entries],
        probabilities=model.probabilities[entries], cumulative=model.cumulative[entries],
    )  # fmt: skip


# When: problems with change points.


def random_changes(
    n_states: int = 5, n_actions: int = 3, *, how: How = everything, changes: int = 2,
    horizon: int = 100_000, cycle: int | None = None, change_points: When = even_change_points,
    seed: int = 0, law: RewardLaw | None = None,
) -> SwitchingMDP:  # fmt: skip
    """A dense random MDP with any change operator: everything, rewards only, one pair, …

    Parameters
    ----------
    n_states
        The number of states.
    n_actions
        The number of actions of each state.
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
    NotCommunicating
        If some states cannot reach each other.

    Examples
    --------
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

    Parameters
    ----------
    base
        The first configuration.
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

    Returns
    -------
    SwitchingMDP
        The problem.

    Raises
    ------
    InvalidParameter
        If a parameter has the wrong type or is out of range.
    NotCommunicating
        If some states cannot reach each other.

    Examples
    --------
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
    """Garnet(S, A, b) problems; by default each change draws another one.

    Parameters
    ----------
    n_states
        The number of states.
    n_actions
        The number of actions of each state.
    successors
        The number of successors of each state-action pair.
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
    NotCommunicating
        If some states cannot reach each other.

    References
    ----------
    Archibald, McKinnon, Thomas (1995): On the generation of Markov decision processes.

    Examples
    --------
    >>> garnet(10, 2, 3, changes=1, horizon=1000, seed=0)
    SwitchingMDP(10 states, 2 actions, 1 change, 40 rows, Bernoulli())
    """
    first, further = SeedSequence(check_integer("seed", seed, 0)).spawn(2)
    return changing(
        garnet_mdp(n_states, n_actions, successors, seed=first, law=law), how, changes=changes,
        horizon=horizon, cycle=cycle, change_points=change_points, seed=further,
    )  # fmt: skip


# Drift.

Path = Callable[[float], float]


def linear(share: float) -> float:
    """The path of a drift with constant speed.

    Parameters
    ----------
    share
        The share of the time that has passed.

    Returns
    -------
    float
        The position on the path.

    Examples
    --------
    >>> linear(0.25)
    0.25
    """
    return share


@dataclass(frozen=True)
class Sinusoidal:
    """A path of a drift that returns to its start `cycles` times: (1 - cos 2π·cycles·x)/2.

    Parameters
    ----------
    cycles
        How often the path returns to its start.

    Raises
    ------
    InvalidParameter
        If a parameter has the wrong type or is out of range.

    Examples
    --------
    >>> Sinusoidal(cycles=2)(0.25)
    1.0
    """

    cycles: float = 1.0

    def __post_init__(self) -> None:
        check_positive("cycles", self.cycles)

    def __call__(self, share: float) -> float:
        return (1.0 - math.cos(2.0 * math.pi * self.cycles * share)) / 2.0


def gradual_drift(
    n_states: int = 5, n_actions: int = 3, *, how: How = everything, path: Path = linear,
    horizon: int = 100_000, every: int | None = None, seed: int = 0, law: RewardLaw | None = None,
) -> SwitchingMDP:  # fmt: skip
    """A random MDP that gradually becomes another one, along a path.

    Parameters
    ----------
    n_states
        The number of states.
    n_actions
        The number of actions of each state.
    how
        How: a change operator, such as `new_rewards` or `SmallSteps(0.1)`.
    path
        A function from [0, 1] to [0, 1], such as `linear` or `Sinusoidal(cycles=2)`.
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
    NotCommunicating
        If some states cannot reach each other.

    Examples
    --------
    >>> from switchmdp.planning import variations
    >>> from switchmdp.problems import new_rewards
    >>> drift = gradual_drift(how=new_rewards, horizon=1000, every=100)
    >>> drift.change_points.tolist(), variations(drift)[1]
    ([101, 201, 301, 401, 501, 601, 701, 801, 901], 0.0)
    """
    first, further = SeedSequence(check_integer("seed", seed, 0)).spawn(2)
    base = random_mdp(n_states, n_actions, seed=first, law=law)
    target = changing(base, how, changes=1, horizon=2, seed=further).configuration(1)
    return drifting(base, target, path, horizon=horizon, every=every)


def drifting(
    first: MDP, last: MDP, path: Path = linear, *, horizon: int = 100_000, every: int | None = None
) -> SwitchingMDP:
    """One MDP that becomes another along a path, a function from [0, 1] to [0, 1].

    Parameters
    ----------
    first
        The MDP at the start.
    last
        The MDP at the end.
    path
        A function from [0, 1] to [0, 1], such as `linear` or `Sinusoidal(cycles=2)`.
    horizon
        The number of steps of a run.
    every
        The number of steps between two moves; by default a thousandth of the horizon.

    Returns
    -------
    SwitchingMDP
        The problem.

    Raises
    ------
    InvalidParameter
        If a parameter has the wrong type or is out of range.
    InvalidProblem
        If the two differ in their states, actions or reward laws.
    NotCommunicating
        If some states cannot reach each other.

    Examples
    --------
    >>> from switchmdp.problems import riverswim
    >>> drifting(riverswim(), riverswim(), horizon=1000, every=250).changes
    3
    """
    for field, mdp in (("first", first), ("last", last)):
        if not isinstance(mdp, MDP):
            raise InvalidParameter(field, mdp, "an MDP")
    if not first.pairs.same_as(last.pairs) or first.law != last.law:
        raise InvalidProblem(
            f"{first} cannot drift to {last}: only rewards and transitions may differ"
        )
    if not callable(path) or isinstance(path, type):
        raise InvalidParameter("path", path, "a function such as linear or Sinusoidal(cycles=2)")
    points = _moves(first, horizon, every)
    x = np.array([_position(path, i / max(1, len(points))) for i in range(len(points) + 1)])
    x = x[:, None, None]
    # Written so that what is the same at both ends is the same in between, to the bit.
    means = first.rewards + x * (last.rewards - first.rewards)
    rows = first.transitions + x[..., None] * (last.transitions - first.transitions)
    return stacked(first, rows, means, points)


def random_walk(
    n_states: int = 5, n_actions: int = 3, *, step: float = 0.02, reward_step: float = 0.02,
    horizon: int = 100_000, every: int | None = None, seed: int = 0, law: RewardLaw | None = None,
) -> SwitchingMDP:  # fmt: skip
    """A random MDP whose rows and mean rewards perform random walks.

    `step` is the standard deviation of what two successors of a row exchange at a move,
    `reward_step` that of a mean's move.

    Parameters
    ----------
    n_states
        The number of states.
    n_actions
        The number of actions of each state.
    step
        The standard deviation of what two entries exchange at a move.
    reward_step
        The standard deviation of the move of a mean reward.
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
    >>> random_walk(step=0.0, horizon=10_000, every=1000, seed=1).changes
    9
    """
    step, reward_step = at_most_one("step", step), at_most_one("reward_step", reward_step)
    first, further = SeedSequence(check_integer("seed", seed, 0)).spawn(2)
    base = random_mdp(n_states, n_actions, seed=first, law=law)
    points = _moves(base, horizon, every)
    rng = np.random.default_rng(further)
    rows = np.empty((len(points) + 1, n_states * n_actions, n_states))
    means = np.empty((len(points) + 1, n_states, n_actions))
    rows[0], means[0] = base.transitions.reshape(-1, n_states), base.rewards
    for i in range(len(points)):
        rows[i + 1] = exchange(rows[i], step, rng)
        means[i + 1] = step_within(means[i], reward_step, rng)
    return stacked(base, rows.reshape(*means.shape, n_states), means, points)


def moves(horizon: Any, every: Any) -> list[int]:
    """The steps before which a drifting problem moves.

    >>> moves(10, 3), len(moves(100_000, None))
    ([4, 7, 10], 999)
    """
    horizon = check_integer("horizon", horizon, 1)
    every = max(1, horizon // 1000) if every is None else check_integer("every", every, 1)
    count = (horizon - 1) // every
    if count > MOST_CHANGES:
        raise InvalidParameter("every", every, f"larger: {count} moves, at most {MOST_CHANGES}")
    return list(range(1 + every, horizon + 1, every))


def _moves(mdp: MDP, horizon: Any, every: Any) -> list[int]:
    points = moves(horizon, every)
    must_fit(mdp.n_states, mdp.n_actions, len(points) + 1)
    return points


def _position(path: Path, share: float) -> float:
    x = path(share)
    if not is_number(x) or not 0.0 <= x <= 1.0:
        raise InvalidParameter(f"path({share})", x, "a number from 0 to 1")
    return float(x)


def stacked(
    base: MDP, transitions: NDArray[Any], means: NDArray[Any], points: list[int]
) -> SwitchingMDP:
    """A configuration for each (S, A, S) and (S, A) of the stacks; labels and law of the base."""
    if base.available.all():
        problem = SwitchingMDP.from_arrays(transitions, means, points, law=base.law)
        return problem.label_like(base)
    names = {"state_labels": base.state_labels, "action_labels": base.action_labels}
    made = (
        MDP(p, r, available=base.available, law=base.law, **names)
        for p, r in zip(transitions, means, strict=True)
    )
    return SwitchingMDP(made, points)
