"""Problems as Gymnasium environments, and tabular environments as MDPs.

A problem as an environment is discrete, continuing and seeded.

An environment never terminates and never truncates; `reset` returns to step 1 and to the first
configuration. With `expose_truth=True`, `info` contains what the agent must not know about the next
step: which configuration is active (`configuration`), whether it starts with that step (`changed`),
and its `optimal_gain`. If a state lacks some actions, `info["action_mask"]` lists those it has;
others are refused.

The ids are derived from `PROBLEMS`: "random-switching" is `switchmdp/RandomSwitching-v0`.

A tabular environment has a model `env.unwrapped.P`: `P[s][a]` lists (probability, next state,
reward, terminated). As an MDP it continues: where an episode terminates, the next state is a start
state, drawn from `env.unwrapped.initial_state_distrib` as `reset` draws it; `play` treats
termination the same way. Time limits are not part of the model. States that cannot be reached from
a start state are left out.
"""

from __future__ import annotations

from collections.abc import Container
from typing import Any

import gymnasium
import numpy as np

from switchmdp.errors import (
    InvalidAction,
    InvalidEnvironment,
    InvalidParameter,
    InvalidState,
    Mismatch,
)
from switchmdp.gym.play import Scale, discrete, finite
from switchmdp.mdp import MDP, Deterministic, SwitchingMDP, as_switching
from switchmdp.mdp.laws import BERNOULLI, RewardLaw, variance_of
from switchmdp.planning.gain import optimal_gains
from switchmdp.problems import PROBLEMS
from switchmdp.validation import check_index, is_number

# Problems as environments ------------------------------------------------------------------------


class SwitchingEnv(gymnasium.Env[np.int64, np.int64]):
    """A switching MDP as an environment.

    >>> from switchmdp.problems import random_switching
    >>> env = SwitchingEnv(random_switching(5, 3, changes=1, horizon=100), expose_truth=True)
    >>> state, info = env.reset(seed=0)
    >>> info["configuration"], env.step(0)[2:4]
    (0, (False, False))
    """

    def __init__(
        self, problem: SwitchingMDP | MDP, *, expose_truth: bool = False, initial_state: int = 0,
        render_mode: str | None = None,
    ) -> None:  # fmt: skip
        problem = as_switching(problem)
        if not isinstance(expose_truth, (bool, np.bool_)):
            raise InvalidParameter("expose_truth", expose_truth, "True or False")
        if render_mode is not None:
            raise InvalidParameter("render_mode", render_mode, "None: rendering is not supported")
        self.problem = problem
        self.available = problem.available
        self.initial_state = check_index(
            initial_state, problem.n_states, "initial_state", InvalidState
        )
        self.observation_space = gymnasium.spaces.Discrete(problem.n_states)
        self.action_space = gymnasium.spaces.Discrete(problem.n_actions)
        self._gains = optimal_gains(problem) if expose_truth else None
        self._begin(self.initial_state)

    def _begin(self, state: int) -> None:
        self.t = 1
        self.state = state
        self._configuration = 0
        self._row = self.problem.model.row.copy()

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.int64, dict[str, Any]]:
        """Return to step 1; `options={"initial_state": s}` chooses the first state."""
        start = (options or {}).get("initial_state", self.initial_state)
        start = check_index(start, self.problem.n_states, "initial_state", InvalidState)
        super().reset(seed=seed)
        self._begin(start)
        return np.int64(self.state), self._info(changed=False)

    def step(self, action: Any) -> tuple[np.int64, float, bool, bool, dict[str, Any]]:
        """One step; the action must be available in the current state."""
        problem, model = self.problem, self.problem.model
        action = check_index(action, problem.n_actions, "action", InvalidAction)
        y = self._row[problem.pairs.pair(self.state, action)]
        reward = _reward(problem.law, float(model.mean[y]), self.np_random)
        part = slice(model.start[y], model.stop[y])
        drawn = np.searchsorted(model.cumulative[part], self.np_random.random(), side="right")
        self.state = int(model.successors[part][drawn])
        self.t += 1
        return np.int64(self.state), reward, False, False, self._info(self._apply_change())

    def _apply_change(self) -> bool:
        """Apply the change of step t; return whether there is one."""
        i, points, patches = self._configuration, self.problem.change_points, self.problem.patches
        if i == len(points) or points[i] != self.t:
            return False
        part = slice(patches.offsets[i], patches.offsets[i + 1])
        self._row[patches.pair[part]] = patches.new[part]
        self._configuration += 1
        return True

    def _info(self, changed: bool) -> dict[str, Any]:
        info: dict[str, Any] = {}
        if not self.available.all():
            info["action_mask"] = self.available[self.state].astype(np.int8)
        if self._gains is not None:
            info["configuration"], info["changed"] = self._configuration, changed
            info["optimal_gain"] = float(self._gains[self._configuration])
        return info


def _reward(law: RewardLaw, mean: float, rng: np.random.Generator) -> float:
    """One reward of the law with this mean."""
    if law.code == BERNOULLI:
        return float(rng.random() < mean)
    variance = variance_of(law, mean)
    if variance == 0.0:
        return mean
    concentration = mean * (1.0 - mean) / variance - 1.0
    return float(rng.beta(concentration * mean, concentration * (1.0 - mean)))


def make_env(
    problem: str = "random-switching", *, expose_truth: bool = False, initial_state: int = 0,
    render_mode: str | None = None, **parameters: Any,
) -> SwitchingEnv:  # fmt: skip
    """A problem of `PROBLEMS` by name, with its parameters, as an environment.

    >>> make_env("riverswim", n_states=8).observation_space
    Discrete(8)
    """
    if problem not in PROBLEMS:
        raise InvalidParameter("problem", problem, f"one of {', '.join(map(repr, PROBLEMS))}")
    made = PROBLEMS[problem](**parameters)
    return SwitchingEnv(made, expose_truth=expose_truth, initial_state=initial_state,
                        render_mode=render_mode)  # fmt: skip


def identifier(problem: str) -> str:
    """The Gymnasium id of a problem.

    >>> identifier("random-switching")
    'switchmdp/RandomSwitching-v0'
    """
    return f"switchmdp/{''.join(part.capitalize() for part in problem.split('-'))}-v0"


def register(registered: Container[str]) -> None:
    """Register every problem that is not yet registered with Gymnasium."""
    for problem in PROBLEMS:
        if identifier(problem) not in registered:
            gymnasium.register(
                identifier(problem),
                entry_point="switchmdp.gym:make_env",
                kwargs={"problem": problem},
            )


# Environments as MDPs ----------------------------------------------------------------------------

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
