"""Convert tabular environments, which have a model `env.unwrapped.P`, to continuing MDPs.

`P[s][a]` lists (probability, next state, reward, terminated). Where an episode terminates, the next
state is a start state, drawn from `env.unwrapped.initial_state_distrib` as `reset` draws it; `play`
treats termination the same way. Time limits are not part of the model. States that cannot be
reached from a start state are left out.
"""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np

from switchmdp.errors import InvalidEnvironment, Mismatch
from switchmdp.gym.play import Scale, discrete, finite
from switchmdp.mdp import MDP, Deterministic
from switchmdp.validation import is_number

Entry = tuple[int, int, float, int, float, bool]
_SHAPE = "{state: {action: [(probability, next state, reward, terminated), …]}}, counted from 0"


def to_mdp(env: gymnasium.Env[Any, Any], *, reward_range: tuple[float, float] | None = None) -> MDP:
    """The MDP of a tabular environment (FrozenLake, Taxi, CliffWalking), rewards mapped to [0, 1].

    `reward_range` defaults to the smallest and largest reward in the model. The reward of a
    state-action pair is its mean. State labels are the environment's state numbers.

    >>> lake = to_mdp(gymnasium.make("FrozenLake-v1", is_slippery=False))
    >>> lake.n_states, lake.n_actions
    (11, 4)
    """
    inner: Any = env.unwrapped
    table = getattr(inner, "P", None)
    if not isinstance(table, dict):
        raise Mismatch(f"{env} has no model P")
    n_actions = int(discrete(inner, "action_space").n)
    entries = _entries(table, n_actions)
    start = _start(inner, len(table))
    scale = _scale(entries, reward_range)
    rows: list[list[dict[int, float]]] = [[{} for _ in range(n_actions)] for _ in table]
    means = np.zeros((len(table), n_actions))
    for s, a, p, target, reward, ended in entries:
        for next_state, share in start.items() if ended else ((target, 1.0),):
            rows[s][a][next_state] = rows[s][a].get(next_state, 0.0) + p * share
        means[s, a] += p * scale(reward)
    kept = _reachable(rows, start)
    number = {s: i for i, s in enumerate(kept)}
    return MDP(
        [[{number[t]: p for t, p in row.items() if p > 0.0} for row in rows[s]] for s in kept],
        np.clip(means[kept], 0.0, 1.0), available=[[bool(row) for row in rows[s]] for s in kept],
        law=Deterministic(), state_labels=[str(s) for s in kept],
    )  # fmt: skip


def _entries(table: dict[Any, Any], n_actions: int) -> list[Entry]:
    """The model as one list, with every number checked."""
    entries, n_states = [], len(table)
    try:
        for s, actions in table.items():
            for a, rows in actions.items():
                for p, target, reward, ended in rows:
                    inside = (
                        _below(n_states, s) and _below(n_actions, a) and _below(n_states, target)
                    )
                    probable = is_number(p) and 0.0 <= p <= 1.0 + 1e-6
                    if not (inside and probable and isinstance(ended, (bool, np.bool_))):
                        entry = (p, target, reward, ended)
                        raise InvalidEnvironment(f"env.unwrapped.P[{s!r}][{a!r}]", entry, _SHAPE)
                    entries.append((int(s), int(a), float(p), int(target), reward, bool(ended)))
    except (TypeError, ValueError, AttributeError) as error:
        if isinstance(error, InvalidEnvironment):
            raise
        raise InvalidEnvironment("env.unwrapped.P", f"a table where {error}", _SHAPE) from None
    if not entries:
        raise InvalidEnvironment("env.unwrapped.P", table, _SHAPE)
    return entries


def _below(top: int, value: Any) -> bool:
    return isinstance(value, (int, np.integer)) and 0 <= int(value) < top


def _scale(entries: list[Entry], reward_range: Any) -> Scale:
    """The given range, or that of the finite rewards; others are refused when they are scaled."""
    if reward_range is None:
        rewards = [entry[4] for entry in entries if finite(entry[4])]
        low, high = min(rewards, default=0.0), max(rewards, default=1.0)
        reward_range = (low, high if low < high else low + 1.0)
    return Scale(reward_range)


def _start(env: Any, n_states: int) -> dict[int, float]:
    """The distribution of the first state."""
    given = getattr(env, "initial_state_distrib", None)
    if given is None:
        raise Mismatch(f"{env} has no initial_state_distrib, the distribution of the first state")
    try:
        weights = np.asarray(given, np.float64)
    except (TypeError, ValueError):
        weights = np.zeros(0)
    if weights.shape != (n_states,) or not (weights >= 0.0).all() or not 0 < weights.sum() < np.inf:
        allowed = f"{n_states} probabilities"
        raise InvalidEnvironment("env.unwrapped.initial_state_distrib", given, allowed)
    return {int(s): float(weights[s] / weights.sum()) for s in np.flatnonzero(weights)}


def _reachable(rows: list[list[dict[int, float]]], start: dict[int, float]) -> list[int]:
    reached, waiting = set(start), list(start)
    while waiting:
        row_of_each_action = rows[waiting.pop()]
        new = {t for row in row_of_each_action for t, p in row.items() if p > 0.0} - reached
        reached |= new
        waiting += new
    return sorted(reached)
