"""The switching MDP: configurations M_0 … M_l and change points c_1 < … < c_l.

    M_i is active for c_i <= t < c_{i+1},  t = 1, 2, …   (c_0 = 1, c_{l+1} = ∞)

Changes are patches. All rows of all configurations live in one pool; a change point is a list of
(pair, old row, new row). So 100,000 changes of a few rows each take megabytes, recurring rows are
stored once, and changes can be applied forwards and backwards.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from switchmdp.compiled import patient
from switchmdp.errors import (
    DamagedFile,
    InvalidMDP,
    InvalidParameter,
    InvalidProblem,
    NotCommunicating,
)
from switchmdp.mdp.graph import is_connected
from switchmdp.mdp.laws import Bernoulli, RewardLaw, law_from_code
from switchmdp.mdp.mdp import MDP, check_labels, check_law
from switchmdp.mdp.model import Model
from switchmdp.mdp.pairs import OverPairs, Pairs
from switchmdp.mdp.parse import numbers
from switchmdp.mdp.pool import Patches, Pool, RowChange, build_from_stack, check_stored
from switchmdp.storage import load_arrays, save_arrays
from switchmdp.validation import check_increasing_steps, check_integer

CHECKED_AT_ONCE = 20_000_000
_STORED = "switching-mdp"


class SwitchingMDP(OverPairs):
    """Configurations and the change points at which they become active.

    >>> first = MDP([[[0, 1]], [[1, 0]]], [[1], [0]])
    >>> second = MDP([[[0, 1]], [[1, 0]]], [[0], [0]])
    >>> problem = SwitchingMDP([first, second], change_points=[50_000])
    >>> problem.at(49_999).rewards.tolist(), problem.at(50_000).rewards.tolist()
    ([[1.0], [0.0]], [[0.0], [0.0]])
    """

    def __init__(
        self, configurations: Iterable[MDP], change_points: Sequence[int] | NDArray[Any] = ()
    ) -> None:
        if isinstance(configurations, MDP) or not isinstance(configurations, Iterable):
            raise InvalidProblem(f"configurations must be a list of MDPs, got {configurations!r}")
        iterator = iter(configurations)
        base = next(iterator, None)
        if base is None:
            raise InvalidProblem("at least one configuration is needed")
        _must_be_mdp(base, 0)
        points = _checked_points(change_points)
        pool = Pool(base.pairs, base.model)
        count = 1
        for count, mdp in enumerate(iterator, start=2):
            _must_be_mdp(mdp, count - 1)
            if not mdp.pairs.same_as(base.pairs):
                raise InvalidProblem(
                    f"configuration {count - 1} ({mdp}) differs from configuration 0 ({base}) in "
                    "its states or actions; only rewards and transitions may change"
                )
            if mdp.law != base.law:
                raise InvalidProblem(
                    f"configuration {count - 1} has rewards of law {mdp.law}, configuration 0 "
                    f"of law {base.law}"
                )
            pool.change_to(mdp.model)
        if count != len(points) + 1:
            raise InvalidProblem(
                f"{count} configurations need {count - 1} change points, got {len(points)}"
            )
        self._set(base.pairs, base.law, *pool.finish(), points)
        self.label_like(base)

    @classmethod
    def from_arrays(
        cls, transitions: Any, rewards: Any, change_points: Sequence[int] | NDArray[Any] = (), *,
        law: RewardLaw | None = None,
    ) -> SwitchingMDP:  # fmt: skip
        """k configurations as (k, S, A, S) transitions and (k, S, A) mean rewards.

        >>> stay, go = [[[1, 0]], [[0, 1]]], [[[0, 1]], [[1, 0]]]
        >>> SwitchingMDP.from_arrays([go, go], [[[1], [0]], [[0], [1]]], [10]).changes
        1
        """
        rows, means = numbers(transitions, "transitions"), numbers(rewards, "rewards")
        if means.ndim != 3 or 0 in means.shape or rows.shape != (*means.shape, means.shape[1]):
            raise InvalidProblem(
                f"transitions must be (k, S, A, S) and rewards (k, S, A), got {rows.shape} and "
                f"{means.shape}"
            )
        points = _checked_points(change_points)
        built = build_from_stack(rows, means) if len(points) == len(means) - 1 else None
        if built is None:
            pieces = zip(rows, means, strict=True)
            return cls([MDP(row, mean, law=law) for row, mean in pieces], points)
        pairs, model, patches = built
        law = Bernoulli() if law is None else law
        MDP.of_model(pairs, model, law)  # raises an error if `law` is not a reward law
        return cls._of(pairs, law, model, patches, points)

    @classmethod
    def from_patches(
        cls, base: MDP, change_points: Sequence[int] | NDArray[Any],
        patches: Iterable[Sequence[RowChange]],
    ) -> SwitchingMDP:  # fmt: skip
        """A base configuration and, for each change point, the rows that change.

        A row change is (state, action, transitions, mean): transitions as a vector, a mapping or a
        list of (next state, probability); None keeps the transitions, or the mean.

        >>> base = MDP([[[0, 1]], [[1, 0]]], [[1], [0]])
        >>> problem = SwitchingMDP.from_patches(base, [10, 20], [[(0, 0, None, 0.5)], []])
        >>> float(problem.at(10).rewards[0, 0]), problem.changes
        (0.5, 2)
        """
        _must_be_mdp(base, 0)
        points = _checked_points(change_points)
        pool = Pool(base.pairs, base.model)
        if not isinstance(patches, Iterable):
            raise InvalidProblem(f"patches must be a list of lists, got {patches!r}")
        given = 0
        for patch in patches:
            pool.apply(patch)
            given += 1
        if given != len(points):
            raise InvalidProblem(f"{len(points)} change points need as many patches, got {given}")
        return cls._of(base.pairs, base.law, *pool.finish(), points).label_like(base)

    @classmethod
    def _of(cls, *parts: Any) -> SwitchingMDP:
        self = cls.__new__(cls)
        self._set(*parts)
        return self

    def _set(
        self, pairs: Pairs, law: RewardLaw, model: Model, patches: Patches,
        points: NDArray[np.int64],
    ) -> None:  # fmt: skip
        self.pairs = pairs
        self.law = law
        self.model = model
        self.patches = patches
        self.change_points = points
        self.change_points.flags.writeable = False
        self._connected_up_to = -1
        try:
            check_law(law, model.mean, Pairs.of(len(model.mean), 1))
        except InvalidMDP:
            for i in range(len(points) + 1):
                check_law(law, model.mean[self.configuration(i).model.row], pairs)
        if (len(points) + 1) * len(model.row) <= CHECKED_AT_ONCE:
            self.check_connected()

    def __repr__(self) -> str:
        return (
            f"SwitchingMDP({self.n_states} states, {self.n_actions} actions, "
            f"{self.changes} changes, {len(self.model.mean)} rows, {self.law})"
        )

    @cached_property
    def full_rows(self) -> bool:
        """Whether every row lists all states in order."""
        return self.model.has_full_rows()

    @property
    def changes(self) -> int:
        """The number l of change points."""
        return len(self.change_points)

    def active(self, t: int) -> int:
        """The index i of the configuration M_i that is active at step t."""
        t = check_integer("t", t, 1)
        return int(np.searchsorted(self.change_points, t, side="right"))

    def at(self, t: int) -> MDP:
        """The configuration that is active at step t."""
        return self.configuration(self.active(t))

    def configuration(self, i: int) -> MDP:
        """Configuration M_i."""
        return self._mdp(self.model_at(check_integer("configuration", i, 0, self.changes)).row)

    def model_at(self, i: int) -> Model:
        """The model of configuration M_i, with rows that the caller may change."""
        row = self.model.row.copy()
        if i > 0:
            last = self.patches.offsets[i]
            row[self.patches.pair[:last]] = self.patches.new[:last]
        return self.model._replace(row=row)

    def _mdp(self, row: NDArray[np.int64]) -> MDP:
        return MDP.of_model(self.pairs, self.model._replace(row=row), self.law).label_like(self)

    def configurations(self, first: int = 0, last: int | None = None) -> Iterator[MDP]:
        """Iterate over M_first … M_last (default: all)."""
        mdp = self.configuration(first)
        last = self.changes if last is None else check_integer("last", last, first, self.changes)
        yield mdp
        for i in range(first, last):
            row = mdp.model.row.copy()
            part = slice(self.patches.offsets[i], self.patches.offsets[i + 1])
            row[self.patches.pair[part]] = self.patches.new[part]
            mdp = self._mdp(row)
            yield mdp

    def check_connected(self, up_to: int | None = None) -> None:
        """Raise `NotCommunicating` if one of configurations 0..up_to has infinite diameter.

        Called when the problem is made; for very many configurations, when their gains or diameters
        are first needed. Configurations are checked only once.
        """
        last = self.changes if up_to is None else check_integer("up_to", up_to, 0, self.changes)
        if last <= self._connected_up_to:
            return
        fault = _first_disconnected(
            self.model._replace(row=self.model.row.copy()), self.patches, last
        )
        if fault >= 0:
            words = self.configuration(fault).unconnected
            raise NotCommunicating(f"configuration {fault} has infinite diameter: {words}")
        self._connected_up_to = last

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the problem to a file, atomically."""
        arrays = {**self.model._asdict(), **self.patches._asdict()}
        arrays |= {"actions": self.pairs.actions, "change_points": self.change_points}
        del arrays["cumulative"], arrays["rewires"]  # made anew when loaded
        fields = {
            "n_actions": self.n_actions,
            "law": [self.law.code, self.law.parameter],
            "state_labels": self.state_labels,
            "action_labels": self.action_labels,
        }
        save_arrays(path, _STORED, fields, arrays)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> SwitchingMDP:
        """Read a problem from a file, with all checks of a new one."""
        fields, arrays = load_arrays(path, _STORED)
        try:
            check_stored(fields, arrays)
            n_states = len(arrays["starts"]) - 1
            pairs = Pairs(n_states, fields["n_actions"], arrays["starts"], arrays["actions"])
            model = Model.of(**{name: arrays[name] for name in Model._fields[:-1]})
            patches = Patches.of(model, *(arrays[name] for name in Patches._fields[:-1]))
            points = _checked_points(arrays["change_points"])
            self = cls._of(pairs, law_from_code(*fields["law"]), model, patches, points)
            states, actions = fields["state_labels"], fields["action_labels"]
            self.state_labels = check_labels("state_labels", states, pairs.n_states)
            self.action_labels = check_labels("action_labels", actions, pairs.n_actions)
        except (KeyError, TypeError, ValueError, IndexError) as error:
            raise DamagedFile(f"{path} does not describe a switching MDP: {error}") from None
        return self


@patient
def _first_disconnected(model: Any, patches: Any, last: int) -> int:
    for i in range(last + 1):
        if i > 0:
            for k in range(patches.offsets[i - 1], patches.offsets[i]):
                model.row[patches.pair[k]] = patches.new[k]
        # A change that alters only numbers leaves the graph as it was.
        if (i == 0 or patches.rewires[i - 1]) and not is_connected(model):
            return i
    return -1


def _must_be_mdp(value: Any, index: int) -> None:
    if not isinstance(value, MDP):
        raise InvalidProblem(f"configuration {index} must be an MDP, got {value!r}")


def _checked_points(change_points: Any) -> NDArray[np.int64]:
    try:
        return check_increasing_steps(change_points)
    except ValueError as error:
        raise InvalidProblem(f"change points {error}") from None


def as_switching(problem: SwitchingMDP | MDP) -> SwitchingMDP:
    """A problem as a `SwitchingMDP`; an `MDP` becomes one without changes.

    >>> as_switching(MDP([[[0, 1]], [[1, 0]]], [[1], [0]])).changes
    0
    """
    if isinstance(problem, MDP):
        return SwitchingMDP([problem])
    if not isinstance(problem, SwitchingMDP):
        raise InvalidParameter("problem", problem, "an MDP or a SwitchingMDP")
    return problem
