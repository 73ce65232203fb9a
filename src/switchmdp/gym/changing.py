"""Make any environment change: *when* and *how* are separate objects.

    env = Changing(gymnasium.make("FrozenLake-v1"), when=Every(10_000), how=ReseedMap())

A schedule says whether something changes before a step (counted from 1, through resets), a change
does it. All randomness comes from the wrapper's own `seed`, so that one seed means one history of
changes, whatever the agent does. Objects with the verbs of `Schedule` and `Change` do as well as
the ones here.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

import gymnasium
import numpy as np

from switchmdp.errors import InvalidParameter
from switchmdp.gym.changes import Change
from switchmdp.validation import check_increasing_steps, check_integer, check_probability


@runtime_checkable
class Schedule(Protocol):
    """When something changes."""

    def due(self, t: int, rng: np.random.Generator) -> bool:
        """Whether to change before step t."""


class At:
    """At these steps."""

    def __init__(self, steps: Sequence[int]) -> None:
        try:
            self.steps = frozenset(check_increasing_steps(steps).tolist())
        except ValueError as error:
            raise InvalidParameter(
                "steps", steps, f"steps from 2 on that increase: {error}"
            ) from None

    def due(self, t: int, rng: np.random.Generator) -> bool:
        """Whether to change before step t."""
        return t in self.steps


class Every:
    """Every so many steps: at period + 1, 2 period + 1, …; with 1, a drift."""

    def __init__(self, period: int) -> None:
        self.period = check_integer("period", period, 1)

    def due(self, t: int, rng: np.random.Generator) -> bool:
        """Whether to change before step t."""
        return t > 1 and (t - 1) % self.period == 0


class AtRate:
    """Before any step with this probability."""

    def __init__(self, rate: float) -> None:
        self.rate = check_probability("rate", rate)

    def due(self, t: int, rng: np.random.Generator) -> bool:
        """Whether to change before step t."""
        return bool(rng.random() < self.rate)


class Changing(gymnasium.Wrapper[Any, Any, Any, Any]):
    """An environment whose rules change while it is played.

    `info["changes"]` says how often they have. A change belongs to its environment: what is given
    as `how` is copied.

    >>> from switchmdp.gym import PermuteActions
    >>> lake = gymnasium.make("FrozenLake-v1")
    >>> env = Changing(lake, when=At([3]), how=PermuteActions(), seed=1)
    >>> state, info = env.reset(seed=0)
    >>> [env.step(0)[4]["changes"] for _ in range(4)]
    [0, 0, 1, 1]
    """

    def __init__(
        self, env: gymnasium.Env[Any, Any], *, when: Schedule, how: Change | Sequence[Change],
        seed: int = 0,
    ) -> None:  # fmt: skip
        super().__init__(env)
        if not isinstance(when, Schedule):
            raise InvalidParameter("when", when, "a schedule, such as Every(1000)")
        given = list(how) if isinstance(how, Sequence) else [how]
        if not given or not all(isinstance(change, Change) for change in given):
            raise InvalidParameter("how", how, "a change, such as PermuteActions(), or several")
        self.rng = np.random.default_rng(check_integer("seed", seed, 0))
        self.when = when
        self.how: list[Change] = [copy.copy(change) for change in given]
        for change in self.how:
            change.attach(env)
        self.t, self.changes = 1, 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        """Another episode; time goes on, and what has changed stays so."""
        observation, info = self.env.reset(seed=seed, options=options)
        return observation, {**info, "changes": self.changes}

    def step(self, action: Any) -> Any:
        """One step, after whatever changes are due."""
        if self.when.due(self.t, self.rng):
            for change in self.how:
                change.apply(self.rng)
            self.changes += 1
        for change in self.how:
            action = change.action(action)
        observation, reward, terminated, truncated, info = self.env.step(action)
        for change in self.how:
            reward = change.reward(float(reward))
        self.t += 1
        return observation, reward, terminated, truncated, {**info, "changes": self.changes}
