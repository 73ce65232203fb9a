"""Problems as Gymnasium environments: discrete, continuing, seeded.

An environment never terminates and never truncates; `reset` returns to step 1 and to the first
configuration. With `expose_truth=True`, `info` contains what the agent must not know about the next
step: which configuration is active (`configuration`), whether it starts with that step (`changed`),
and its `optimal_gain`. If a state lacks some actions, `info["action_mask"]` lists those it has;
others are refused.

The ids are derived from `PROBLEMS`: "random-switching" is `switchmdp/RandomSwitching-v0`.
"""

from __future__ import annotations

from collections.abc import Container
from typing import Any

import gymnasium
import numpy as np

from switchmdp.errors import InvalidAction, InvalidParameter, InvalidState
from switchmdp.mdp import MDP, SwitchingMDP, as_switching
from switchmdp.mdp.laws import BERNOULLI, RewardLaw, variance_of
from switchmdp.planning.gain import optimal_gains
from switchmdp.problems import PROBLEMS
from switchmdp.validation import check_index

# For problems whose size has no default.
DEFAULTS: dict[str, dict[str, Any]] = {
    "random-sparse": {"n_states": 100, "n_actions": 4, "successors": 5},
    "ring-with-shortcuts": {"n_states": 100},
}


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
    made = PROBLEMS[problem](**{**DEFAULTS.get(problem, {}), **parameters})
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
