"""Ways to change an MDP: functions of the MDP and a random generator that return row changes.

Used with `changing`, which says when. Drawn rows are uniform on the simplex over as many successors
as the pair had, drawn means uniform on [0, 1]. `SmallSteps` keeps these laws: rows that are uniform
on the simplex and means that are uniform on [0, 1] stay so however often they take a step.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from switchmdp.errors import InvalidParameter, InvalidProblem
from switchmdp.mdp import MDP
from switchmdp.mdp.pool import RowChange
from switchmdp.validation import is_number


def everything(mdp: MDP, rng: np.random.Generator) -> list[RowChange]:
    """All transitions and all mean rewards are drawn anew.

    >>> len(everything(MDP([[[0, 1]], [[1, 0]]], [[1], [0]]), np.random.default_rng(0)))
    4
    """
    return new_transitions(mdp, rng) + new_rewards(mdp, rng)


def new_rewards(mdp: MDP, rng: np.random.Generator) -> list[RowChange]:
    """All mean rewards are drawn anew; transitions stay.

    >>> mdp = MDP([[[0, 1]], [[1, 0]]], [[1], [0]])
    >>> [row for _, _, row, _ in new_rewards(mdp, np.random.default_rng(0))]
    [None, None]
    """
    means = rng.random(mdp.pairs.n_pairs).tolist()
    return [(s, a, None, mean) for (s, a), mean in zip(_pairs(mdp), means, strict=True)]


def new_transitions(mdp: MDP, rng: np.random.Generator) -> list[RowChange]:
    """All transitions are drawn anew; mean rewards stay.

    >>> mdp = MDP([[[0, 1]], [[1, 0]]], [[1], [0]])
    >>> [mean for _, _, _, mean in new_transitions(mdp, np.random.default_rng(0))]
    [None, None]
    """
    return [(s, a, _drawn_row(mdp, s, a, rng), None) for s, a in _pairs(mdp)]


def one_pair(mdp: MDP, rng: np.random.Generator) -> list[RowChange]:
    """One action of one state, any of them alike, gets new transitions and a new mean reward.

    >>> len(one_pair(MDP([[[0, 1]], [[1, 0]]], [[1], [0]]), np.random.default_rng(0)))
    1
    """
    pair = int(rng.integers(mdp.pairs.n_pairs))
    s, a = int(mdp.pairs.states[pair]), int(mdp.pairs.actions[pair])
    return [(s, a, _drawn_row(mdp, s, a, rng), float(rng.random()))]


def permuted_actions(mdp: MDP, rng: np.random.Generator) -> list[RowChange]:
    """Actions come to mean each other, in all states alike; some action always means another.

    >>> mdp = MDP([[[1, 0], [0, 1]], [[0, 1], [1, 0]]], [[0.1, 0.2], [0.3, 0.4]])
    >>> [mean for _, _, _, mean in permuted_actions(mdp, np.random.default_rng(0))]
    [0.2, 0.1, 0.4, 0.3]
    """
    _must_have_all_actions(mdp, "permuted")
    n = mdp.n_actions
    if n < 2:
        raise InvalidProblem("actions can't be permuted: there is only one")
    meaning = rng.permutation(n)
    while (meaning == np.arange(n)).all():
        meaning = rng.permutation(n)
    means = mdp.rewards.tolist()
    return [
        (s, a, list(zip(*mdp.successors(s, meaning[a]), strict=True)), means[s][meaning[a]])
        for s, a in _pairs(mdp)
    ]


def mirrored(mdp: MDP, rng: np.random.Generator) -> list[RowChange]:
    """States in reverse order, and actions too: the river flows the other way, and left stays left.

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
    """Every row and every mean reward takes one small random step, over the successors it has.

    In a row, successors are paired off at random, and each two exchange a normal amount of standard
    deviation `size`, reflected so that neither falls below 0; a mean moves likewise within [0, 1].

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

    Given the sum of two entries, each is uniform between 0 and it where the row is uniform on the
    simplex, and a reflected symmetric step keeps that so.

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
        raise InvalidProblem(f"actions can be {what} only where every state has all of them")
