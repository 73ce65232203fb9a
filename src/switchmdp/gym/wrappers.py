"""Make any environment change while it is played: a schedule says when, a change says how.

    env = Changing(gymnasium.make("FrozenLake-v1"), when=Every(10_000), how=ReseedMap())

Schedules: `At`, `Every`, `AtRate`. They are asked before every step; steps count from 1, also
across resets. Changes: `PermuteActions` changes the actions, `RescaleRewards` the rewards,
`ReseedMap` and `PerturbTransitions` the model of a tabular environment, `env.unwrapped.P`. Any
objects with the methods of `Schedule` and `Change` can take their place.

All randomness comes from the wrapper's own `seed`, so the same seed gives the same sequence of
changes, whatever the agent does.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

import gymnasium
import numpy as np
from gymnasium.envs.toy_text.frozen_lake import FrozenLakeEnv, is_valid
from numpy.typing import NDArray

from switchmdp.display import counted
from switchmdp.errors import InvalidAction, InvalidParameter, Mismatch
from switchmdp.gym.environment import as_env
from switchmdp.validation import (
    check_increasing_steps,
    check_integer,
    check_positive,
    check_probability,
)

MOST_MAPS = 10_000


class Changing(gymnasium.Wrapper[Any, Any, Any, Any]):
    """An environment whose rules change while it is played.

    `info["changes"]` counts the changes so far. The objects passed as `how` are copied, because a
    change belongs to one environment.

    Parameters
    ----------
    env
        The Gymnasium environment.
    when
        When to change: a schedule.
    how
        How to change: one change, or a list of them.
    seed
        The seed of the schedule and of the changes.

    Raises
    ------
    InvalidParameter
        If a parameter has the wrong type or is out of range.

    Examples
    --------
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
        super().__init__(as_env(env))
        if not isinstance(when, Schedule):
            raise InvalidParameter("when", when, "a schedule, such as Every(1000)")
        changes = list(how) if isinstance(how, Sequence) else [how]
        if not changes or not all(isinstance(change, Change) for change in changes):
            raise InvalidParameter(
                "how", how, "a change, such as PermuteActions(), or a list of changes"
            )
        self.rng = np.random.default_rng(check_integer("seed", seed, 0))
        self.when = when
        self.how: list[Change] = [copy.copy(change) for change in changes]
        for change in self.how:
            change.attach(env)
        self.t, self.changes = 1, 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        """Start an episode. The step counter continues, and changes are kept.

        Parameters
        ----------
        seed
            Passed to the environment.
        options
            Passed to the environment.

        Returns
        -------
        tuple
            The observation, and `info` with the number of changes.
        """
        observation, info = self.env.reset(seed=seed, options=options)
        return observation, {**info, "changes": self.changes}

    def step(self, action: Any) -> Any:
        """Apply a change if one is due, then take a step.

        Parameters
        ----------
        action
            The action.

        Returns
        -------
        tuple
            What the environment returns; `info` has the number of changes.
        """
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


# When: schedules --------------------------------------------------------------------------------


@runtime_checkable
class Schedule(Protocol):
    """What a schedule must offer."""

    def due(self, t: int, rng: np.random.Generator) -> bool:
        """Whether to change before step t.

        Parameters
        ----------
        t
            The step, from 1.
        rng
            The generator of the wrapper.

        Returns
        -------
        bool
            True if a change is due.
        """


class _Shown:
    """Shows the constructor's arguments, which are kept under the same names."""

    def __repr__(self) -> str:
        names = inspect.signature(type(self)).parameters
        values = ", ".join(str(getattr(self, name)) for name in names)
        return f"{type(self).__name__}({values})"


class At:
    """Change before these steps.

    Parameters
    ----------
    steps
        The steps, from 2 on, increasing.

    Raises
    ------
    InvalidParameter
        If a parameter has the wrong type or is out of range.

    Examples
    --------
    >>> At([100, 200])
    At(2 steps)
    """

    def __init__(self, steps: Sequence[int]) -> None:
        try:
            self.steps = frozenset(check_increasing_steps(steps).tolist())
        except ValueError as error:
            raise InvalidParameter("steps", steps, f"increasing steps >= 2: {error}") from None

    def __repr__(self) -> str:
        return f"At({counted(len(self.steps), 'step')})"

    def due(self, t: int, rng: np.random.Generator) -> bool:
        """Whether to change before step t.

        Parameters
        ----------
        t
            The step, from 1.
        rng
            The generator of the wrapper.

        Returns
        -------
        bool
            True if a change is due.
        """
        return t in self.steps


class Every(_Shown):
    """Change before steps period + 1, 2 period + 1, …; a period of 1 is a drift.

    Parameters
    ----------
    period
        The number of steps between two changes.

    Raises
    ------
    InvalidParameter
        If a parameter has the wrong type or is out of range.

    Examples
    --------
    >>> Every(1000).due(1001, np.random.default_rng(0))
    True
    """

    def __init__(self, period: int) -> None:
        self.period = check_integer("period", period, 1)

    def due(self, t: int, rng: np.random.Generator) -> bool:
        """Whether to change before step t.

        Parameters
        ----------
        t
            The step, from 1.
        rng
            The generator of the wrapper.

        Returns
        -------
        bool
            True if a change is due.
        """
        return t > 1 and (t - 1) % self.period == 0


class AtRate(_Shown):
    """Change before every step with this probability.

    Parameters
    ----------
    rate
        The probability of a change before a step.

    Raises
    ------
    InvalidParameter
        If a parameter has the wrong type or is out of range.

    Examples
    --------
    >>> AtRate(0.5).due(2, np.random.default_rng(0)) in (True, False)
    True
    """

    def __init__(self, rate: float) -> None:
        self.rate = check_probability("rate", rate)

    def due(self, t: int, rng: np.random.Generator) -> bool:
        """Whether to change before step t.

        Parameters
        ----------
        t
            The step, from 1.
        rng
            The generator of the wrapper.

        Returns
        -------
        bool
            True if a change is due.
        """
        return bool(rng.random() < self.rate)


# How: changes -----------------------------------------------------------------------------------


@runtime_checkable
class Change(Protocol):
    """What a change must offer."""

    def attach(self, env: gymnasium.Env[Any, Any]) -> None:
        """Prepare to change this environment; raise an error if that is not possible.

        Parameters
        ----------
        env
            The environment to change.
        """

    def apply(self, rng: np.random.Generator) -> None:
        """Apply the change once.

        Parameters
        ----------
        rng
            The generator of the wrapper.
        """

    def action(self, action: Any) -> Any:
        """Translate the agent's action to the environment's.

        Parameters
        ----------
        action
            The agent's action.

        Returns
        -------
        object
            The environment's action.
        """

    def reward(self, reward: float) -> float:
        """Translate the environment's reward to the agent's.

        Parameters
        ----------
        reward
            The environment's reward.

        Returns
        -------
        float
            The agent's reward.
        """


class _Change(_Shown):
    """Base: a change that keeps actions and rewards."""

    env: Any = None

    def attach(self, env: gymnasium.Env[Any, Any]) -> None:
        """Prepare to change this environment; raise an error if that is not possible.

        Parameters
        ----------
        env
            The environment to change.
        """
        self.env = env

    def action(self, action: Any) -> Any:
        """Translate the agent's action to the environment's.

        Parameters
        ----------
        action
            The agent's action.

        Returns
        -------
        object
            The environment's action.
        """
        return action

    def reward(self, reward: float) -> float:
        """Translate the environment's reward to the agent's.

        Parameters
        ----------
        reward
            The environment's reward.

        Returns
        -------
        float
            The agent's reward.
        """
        return reward


class PermuteActions(_Change):
    """Permute the actions; every change draws a new order.

    An `action_mask` in `info` still refers to the environment's own actions.
    """

    def attach(self, env: gymnasium.Env[Any, Any]) -> None:
        """Prepare to change this environment; raise an error if that is not possible.

        Parameters
        ----------
        env
            The environment to change.

        Raises
        ------
        InvalidParameter
            If the environment does not have at least two discrete actions.
        Mismatch
            If some state does not have all actions.
        """
        space = env.action_space
        if not isinstance(space, gymnasium.spaces.Discrete) or space.n < 2:
            raise InvalidParameter(
                "env.action_space", space, "a Discrete space with at least two actions"
            )
        available = getattr(env.unwrapped, "available", None)
        if isinstance(available, np.ndarray) and not available.all():
            raise Mismatch("actions can be permuted only if every state has all of them")
        self.first = int(space.start)
        self.order = np.arange(int(space.n))

    def apply(self, rng: np.random.Generator) -> None:
        """Apply the change once; the new order always differs from the last one.

        Parameters
        ----------
        rng
            The generator of the wrapper.
        """
        before = self.order
        while np.array_equal(self.order, before):
            self.order = rng.permutation(len(before))

    def action(self, action: Any) -> Any:
        """Translate the agent's action to the environment's.

        Parameters
        ----------
        action
            The agent's action.

        Returns
        -------
        object
            The environment's action.

        Raises
        ------
        InvalidAction
            If there is no such action.
        """
        last = self.first + len(self.order) - 1
        if not isinstance(action, (int, np.integer)) or not self.first <= action <= last:
            raise InvalidAction("action", action, f"an integer from {self.first} to {last}")
        return self.first + int(self.order[int(action) - self.first])


class RescaleRewards(_Change):
    """Multiply rewards by a factor; every change draws a new one from [low, high].

    Parameters
    ----------
    low
        The least factor, above 0.
    high
        The largest factor.

    Raises
    ------
    InvalidParameter
        If a parameter has the wrong type or is out of range.

    Examples
    --------
    >>> rescale = RescaleRewards(0.5, 2.0)
    >>> rescale.apply(np.random.default_rng(0))
    >>> 0.5 <= rescale.reward(1.0) <= 2.0
    True
    """

    def __init__(self, low: float, high: float) -> None:
        self.low, self.high = check_positive("low", low), check_positive("high", high)
        if self.low > self.high:
            raise InvalidParameter("low", low, f"at most high = {high}")
        self.factor = 1.0

    def apply(self, rng: np.random.Generator) -> None:
        """Apply the change once.

        Parameters
        ----------
        rng
            The generator of the wrapper.
        """
        self.factor = float(rng.uniform(self.low, self.high))

    def reward(self, reward: float) -> float:
        """Translate the environment's reward to the agent's.

        Parameters
        ----------
        reward
            The environment's reward.

        Returns
        -------
        float
            The agent's reward.
        """
        return reward * self.factor


class _ModelChange(_Change):
    """A change of `env.unwrapped.P`, the model of a tabular environment."""

    def attach(self, env: gymnasium.Env[Any, Any]) -> None:
        """Give the environment its own copy of `P`, which other environments may share.

        Parameters
        ----------
        env
            The environment to change.
        """
        self.env = env.unwrapped
        table = getattr(self.env, "P", None)
        if not isinstance(table, dict):
            raise Mismatch(f"{env} has no model P to change")
        self.env.P = {s: {a: list(row) for a, row in rows.items()} for s, rows in table.items()}


class PerturbTransitions(_ModelChange):
    """Mix every row p with random weights q on its successors: (1 - amount) p + amount q.

    Parameters
    ----------
    amount
        The share of the random weights, between 0 and 1.

    Raises
    ------
    InvalidParameter
        If a parameter has the wrong type or is out of range.

    Examples
    --------
    >>> lake = gymnasium.make("FrozenLake-v1")
    >>> env = Changing(lake, when=Every(1000), how=PerturbTransitions(0.1))
    >>> env.reset(seed=0)[1]["changes"]
    0
    """

    def __init__(self, amount: float) -> None:
        self.amount = check_probability("amount", amount)

    def attach(self, env: gymnasium.Env[Any, Any]) -> None:
        """Prepare to change this environment; raise an error if that is not possible.

        Parameters
        ----------
        env
            The environment to change.

        Raises
        ------
        Mismatch
            If the environment cannot be changed like this.
        """
        super().attach(env)
        if not any(len(row) > 1 for rows in self.env.P.values() for row in rows.values()):
            raise Mismatch(f"{env} is deterministic: there are no probabilities to perturb")

    def apply(self, rng: np.random.Generator) -> None:
        """Apply the change once.

        Parameters
        ----------
        rng
            The generator of the wrapper.
        """
        for actions in self.env.P.values():
            for action, entries in actions.items():
                weights = rng.dirichlet(np.ones(len(entries)))
                actions[action] = [
                    ((1.0 - self.amount) * entry[0] + self.amount * float(weight), *entry[1:])
                    for entry, weight in zip(entries, weights, strict=True)
                ]


class ReseedMap(_ModelChange):
    """Give FrozenLake a new random map of the same size; tiles are frozen with probability p.

    Start and goal stay in their corners, and a path always connects them. An agent on a tile that
    becomes a hole falls in with its next step.

    Parameters
    ----------
    p
        The probability that a tile is frozen.

    Raises
    ------
    InvalidParameter
        If a parameter has the wrong type or is out of range.

    Examples
    --------
    >>> lake = gymnasium.make("FrozenLake-v1")
    >>> env = Changing(lake, when=Every(1000), how=ReseedMap(0.8))
    >>> env.reset(seed=0)[1]["changes"]
    0
    """

    def __init__(self, p: float = 0.8) -> None:
        self.p = check_probability("p", p)

    def attach(self, env: gymnasium.Env[Any, Any]) -> None:
        """Prepare to change this environment; raise an error if that is not possible.

        Parameters
        ----------
        env
            The environment to change.

        Raises
        ------
        Mismatch
            If the environment cannot be changed like this.
        """
        super().attach(env)
        tiles = getattr(self.env, "desc", None)
        if not isinstance(tiles, np.ndarray) or tiles.ndim != 2 or not _has_usual_layout(tiles):
            raise Mismatch(f"{env} is not a square FrozenLake with start and goal in its corners")
        self.size = len(tiles)
        self.rules = _rules(self.env.P, tiles.ravel())

    def apply(self, rng: np.random.Generator) -> None:
        """Apply the change once.

        Parameters
        ----------
        rng
            The generator of the wrapper.
        """
        fresh = FrozenLakeEnv(desc=self._map(rng), **self.rules)
        self.env.P, self.env.desc = fresh.P, fresh.desc

    def _map(self, rng: np.random.Generator) -> list[str]:
        for _ in range(MOST_MAPS):
            tiles = np.where(rng.random((self.size, self.size)) < self.p, "F", "H")
            tiles[0, 0], tiles[-1, -1] = "S", "G"
            if is_valid(tiles.tolist(), self.size):
                return ["".join(row) for row in tiles]
        raise Mismatch(
            f"{MOST_MAPS} random maps of size {self.size} with p = {self.p} have no path"
        )


def _has_usual_layout(tiles: NDArray[Any]) -> bool:
    corners = tiles.shape[0] == tiles.shape[1] and tiles[0, 0] == b"S" and tiles[-1, -1] == b"G"
    return bool(corners and (tiles == b"S").sum() == 1 and (tiles == b"G").sum() == 1)


def _rules(model: dict[Any, Any], tiles: NDArray[Any]) -> dict[str, Any]:
    """Read how slippery a FrozenLake is, and its rewards, from its model."""
    paid = {b"G": 1, b"H": 0, b"F": 0}
    for s in np.flatnonzero((tiles == b"S") | (tiles == b"F")):
        for _, target, reward, _ in (entry for row in model[int(s)].values() for entry in row):
            paid[b"F" if tiles[target] == b"S" else bytes(tiles[target])] = reward
    ahead = model[0][0]  # slipping to one side, ahead, slipping to the other
    rules: dict[str, Any] = {"is_slippery": len(ahead) > 1}
    # Older versions of Gymnasium do not have these parameters, only their default values.
    if len(ahead) > 1 and ahead[1][0] != 1.0 / 3.0:
        rules["success_rate"] = ahead[1][0]
    if tuple(paid.values()) != (1, 0, 0):
        rules["reward_schedule"] = tuple(paid.values())
    return rules
