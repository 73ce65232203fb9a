"""What changes in an environment, and how.

To what the agent does: PermuteActions. To what it earns: RescaleRewards. To the model of a tabular
environment, `env.unwrapped.P`: ReseedMap, PerturbTransitions. Each draws from the generator that it
is given, as often whatever the agent does.
"""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

import gymnasium
import numpy as np
from gymnasium.envs.toy_text.frozen_lake import FrozenLakeEnv, is_valid
from numpy.typing import NDArray

from switchmdp.errors import InvalidAction, InvalidParameter, Mismatch
from switchmdp.validation import check_positive, check_probability

MOST_MAPS = 10_000


@runtime_checkable
class Change(Protocol):
    """What changes, and how."""

    def attach(self, env: gymnasium.Env[Any, Any]) -> None:
        """See to it that the environment can be changed this way."""

    def apply(self, rng: np.random.Generator) -> None:
        """Change it."""

    def action(self, action: Any) -> Any:
        """The action that the environment is given for the agent's."""

    def reward(self, reward: float) -> float:
        """The reward that the agent is given for the environment's."""


class _Change:
    """A change that leaves actions and rewards alone."""

    env: Any = None

    def attach(self, env: gymnasium.Env[Any, Any]) -> None:
        """See to it that the environment can be changed this way."""
        self.env = env

    def action(self, action: Any) -> Any:
        """The action that the environment is given for the agent's."""
        return action

    def reward(self, reward: float) -> float:
        """The reward that the agent is given for the environment's."""
        return reward


class PermuteActions(_Change):
    """Actions come to mean each other, in an order drawn anew at every change.

    An `action_mask` in `info` keeps speaking of the environment's own actions.
    """

    def attach(self, env: gymnasium.Env[Any, Any]) -> None:
        """See to it that the environment can be changed this way."""
        space = env.action_space
        if not isinstance(space, gymnasium.spaces.Discrete) or space.n < 2:
            raise InvalidParameter("env.action_space", space, "a Discrete space of several actions")
        available = getattr(env.unwrapped, "available", None)
        if isinstance(available, np.ndarray) and not available.all():
            raise Mismatch("only where every state has every action can they be permuted")
        self.first = int(space.start)
        self.order = np.arange(int(space.n))

    def apply(self, rng: np.random.Generator) -> None:
        """Change it, and not into what it was."""
        before = self.order
        while np.array_equal(self.order, before):
            self.order = rng.permutation(len(before))

    def action(self, action: Any) -> Any:
        """The action that the environment is given for the agent's."""
        last = self.first + len(self.order) - 1
        if not isinstance(action, (int, np.integer)) or not self.first <= action <= last:
            raise InvalidAction("action", action, f"an integer from {self.first} to {last}")
        return self.first + int(self.order[int(action) - self.first])


class RescaleRewards(_Change):
    """Rewards are multiplied by a factor, drawn anew from [low, high] at every change."""

    def __init__(self, low: float, high: float) -> None:
        self.low, self.high = check_positive("low", low), check_positive("high", high)
        if self.low > self.high:
            raise InvalidParameter("low", low, f"at most high = {high}")
        self.factor = 1.0

    def apply(self, rng: np.random.Generator) -> None:
        """Change it."""
        self.factor = float(rng.uniform(self.low, self.high))

    def reward(self, reward: float) -> float:
        """The reward that the agent is given for the environment's."""
        return reward * self.factor


class _ModelChange(_Change):
    """A change of `env.unwrapped.P`, the model of a tabular environment."""

    def attach(self, env: gymnasium.Env[Any, Any]) -> None:
        """See to it that the environment can be changed this way, and none that shares its P."""
        self.env = env.unwrapped
        table = getattr(self.env, "P", None)
        if not isinstance(table, dict):
            raise Mismatch(f"{env} has no model P to change")
        self.env.P = {s: {a: list(row) for a, row in rows.items()} for s, rows in table.items()}


class PerturbTransitions(_ModelChange):
    """Every row is mixed with random weights on its own successors: (1 - amount) p + amount q."""

    def __init__(self, amount: float) -> None:
        self.amount = check_probability("amount", amount)

    def attach(self, env: gymnasium.Env[Any, Any]) -> None:
        """See to it that the environment can be changed this way."""
        super().attach(env)
        if not any(len(row) > 1 for rows in self.env.P.values() for row in rows.values()):
            raise Mismatch(f"{env} leaves nothing to chance: there is nothing to perturb")

    def apply(self, rng: np.random.Generator) -> None:
        """Change it."""
        for actions in self.env.P.values():
            for action, entries in actions.items():
                weights = rng.dirichlet(np.ones(len(entries)))
                actions[action] = [
                    ((1.0 - self.amount) * entry[0] + self.amount * float(weight), *entry[1:])
                    for entry, weight in zip(entries, weights, strict=True)
                ]


class ReseedMap(_ModelChange):
    """FrozenLake gets another random map of the same size, each tile frozen with probability p.

    Start and goal stay in their corners, and there is always a way. Who stands where a hole comes
    to be has fallen in with the next step.
    """

    def __init__(self, p: float = 0.8) -> None:
        self.p = check_probability("p", p)

    def attach(self, env: gymnasium.Env[Any, Any]) -> None:
        """See to it that the environment can be changed this way."""
        super().attach(env)
        tiles = getattr(self.env, "desc", None)
        if not isinstance(tiles, np.ndarray) or tiles.ndim != 2 or not _is_usual(tiles):
            raise Mismatch(f"{env} is no FrozenLake on a square with start and goal in its corners")
        self.size = len(tiles)
        self.rules = _rules(self.env.P, tiles.ravel())

    def apply(self, rng: np.random.Generator) -> None:
        """Change it."""
        fresh = FrozenLakeEnv(desc=self._map(rng), **self.rules)
        self.env.P, self.env.desc = fresh.P, fresh.desc

    def _map(self, rng: np.random.Generator) -> list[str]:
        for _ in range(MOST_MAPS):
            tiles = np.where(rng.random((self.size, self.size)) < self.p, "F", "H")
            tiles[0, 0], tiles[-1, -1] = "S", "G"
            if is_valid(tiles.tolist(), self.size):
                return ["".join(row) for row in tiles]
        raise Mismatch(f"no way across in {MOST_MAPS} maps of size {self.size} with p = {self.p}")


def _is_usual(tiles: NDArray[Any]) -> bool:
    corners = tiles.shape[0] == tiles.shape[1] and tiles[0, 0] == b"S" and tiles[-1, -1] == b"G"
    return bool(corners and (tiles == b"S").sum() == 1 and (tiles == b"G").sum() == 1)


def _rules(model: dict[Any, Any], tiles: NDArray[Any]) -> dict[str, Any]:
    """How slippery a FrozenLake is and what its tiles pay, which it keeps only in its model."""
    paid = {b"G": 1, b"H": 0, b"F": 0}
    for s in np.flatnonzero((tiles == b"S") | (tiles == b"F")):
        for _, target, reward, _ in (entry for row in model[int(s)].values() for entry in row):
            paid[b"F" if tiles[target] == b"S" else bytes(tiles[target])] = reward
    ahead = model[0][0]  # slipping to one side, ahead, slipping to the other
    rules: dict[str, Any] = {"is_slippery": len(ahead) > 1}
    # Older versions know only the usual ice and pay, and so no such parameters.
    if len(ahead) > 1 and ahead[1][0] != 1.0 / 3.0:
        rules["success_rate"] = ahead[1][0]
    if tuple(paid.values()) != (1, 0, 0):
        rules["reward_schedule"] = tuple(paid.values())
    return rules
