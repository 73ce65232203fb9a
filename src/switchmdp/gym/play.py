"""Run any agent on any environment with discrete observations and actions.

The agent's states and actions count from 0, whatever `start` the spaces have. Rewards are mapped
from `reward_range` to [0, 1]. When an episode of the environment

- terminates, the agent observes the state that `reset` returns as the next state;
- is truncated, the agent observes the step as it is, and continues from the state that `reset`
  returns. It learns nothing from that jump.

Every value that the environment returns is checked before the agent sees it. An invalid value
raises `InvalidEnvironment` in that step, and the agent stays unchanged.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from switchmdp.concurrency import whole_steps
from switchmdp.errors import InvalidAction, InvalidEnvironment, InvalidParameter, Mismatch
from switchmdp.randomness import run_seeds
from switchmdp.validation import check_index, check_integer, is_number


@dataclass(frozen=True, repr=False)
class Played:
    """The rewards as the environment returned them, and where its episodes ended."""

    rewards: NDArray[np.float64]
    resets: NDArray[np.int64]  # the steps after which the environment was reset

    def __repr__(self) -> str:
        mean = f"mean reward {self.mean_reward:.6g}" if len(self.rewards) else "no rewards"
        return f"Played({len(self.rewards)} steps, {mean}, {len(self.resets)} resets)"

    @property
    def mean_reward(self) -> float:
        """The average reward per step."""
        return float(self.rewards.mean())


def play(
    agent: Any, env: gymnasium.Env[Any, Any], steps: int, *, seed: int | None = None,
    reward_range: tuple[float, float] = (0.0, 1.0), clip: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> Played:  # fmt: skip
    """Let an agent act in an environment for a number of steps, and learn.

    A reward outside `reward_range` is an error; with `clip=True` it is clipped (the agent then
    learns the problem with the clipped rewards). `seed` seeds the first `reset` and the agent's own
    draws, as in `simulate`; without a seed the agent keeps its random state. `progress(done,
    steps)` is called every 1000 steps and at the end. Ctrl-C stops between two steps. Masks in
    `info` are ignored: if states lack actions, create the agent with `available=`.

    >>> import switchmdp as sm
    >>> from switchmdp.gym import make_env
    >>> played = play(sm.agents.UCRL2(6, 2), make_env("riverswim"), 100, seed=0)
    >>> len(played.rewards), len(played.resets)
    (100, 0)
    """
    steps = check_integer("steps", steps, 1)
    seed = None if seed is None else check_integer("seed", seed, 0)
    scale = Scale(reward_range, clip)
    observations, actions = discrete(env, "observation_space"), discrete(env, "action_space")
    _must_fit(agent, env, observations, actions)
    n_actions, first_action = int(actions.n), int(actions.start)
    rewards, resets = np.zeros(steps), []
    if seed is not None and hasattr(agent, "reseed"):
        agent.reseed(run_seeds(seed)[2])
    state = _reset(env, observations, seed)
    with whole_steps(steps) as counter:
        for i in counter:
            action = check_index(agent.act(state), n_actions, "the agent's action", InvalidAction)
            result = _call("step", env.step, first_action + action)
            observation, raw, terminated, truncated = _unpacked(result)
            next_state = _state(observation, observations)
            reward = scale(raw)
            fresh = _reset(env, observations, None) if terminated or truncated else next_state
            agent.observe(state, action, reward, fresh if terminated else next_state)
            rewards[i] = raw
            state = fresh
            if terminated or truncated:
                resets.append(i + 1)
            if progress is not None and ((i + 1) % 1000 == 0 or i + 1 == steps):
                progress(i + 1, steps)
    return Played(rewards, np.array(resets, np.int64))


class Scale:
    """Maps the environment's rewards to [0, 1].

    >>> Scale((-10, 10))(5)
    0.75
    """

    def __init__(self, reward_range: Any, clip: bool = False) -> None:
        try:
            low, high = reward_range
        except (TypeError, ValueError):
            low, high = None, None
        if not (finite(low) and finite(high) and low < high and finite(float(high) - low)):
            raise InvalidParameter("reward_range", reward_range, "(low, high) with low < high")
        if not isinstance(clip, (bool, np.bool_)):
            raise InvalidParameter("clip", clip, "True or False")
        self.low, self.high, self.clip = float(low), float(high), bool(clip)

    def __call__(self, raw: Any) -> float:
        if not finite(raw):
            raise InvalidEnvironment("the reward", raw, "a finite number")
        if not self.low <= raw <= self.high and not self.clip:
            allowed = f"within reward_range = ({self.low}, {self.high}) (or pass clip=True)"
            raise InvalidEnvironment("the reward", raw, allowed)
        inside = min(max(float(raw), self.low), self.high)
        return min(max((inside - self.low) / (self.high - self.low), 0.0), 1.0)


def finite(value: Any) -> bool:
    """Whether a value is a plain number that a float can hold."""
    try:
        return is_number(value) and math.isfinite(value)
    except OverflowError:
        return False


def discrete(env: Any, name: str) -> gymnasium.spaces.Discrete:
    """One of an environment's spaces, which must be Discrete."""
    space = getattr(env, name, None)
    if not isinstance(space, gymnasium.spaces.Discrete):
        raise InvalidParameter(f"env.{name}", space, "a Discrete space")
    return space


def _must_fit(agent: Any, env: Any, observations: Any, actions: Any) -> None:
    """Raise Mismatch if the agent's states or actions differ from the environment's."""
    for size, space in (("n_states", observations), ("n_actions", actions)):
        has = getattr(agent, size, None)
        if has is not None and has != space.n:
            raise Mismatch(f"the agent has {size} = {has}, the environment has {space.n}")
    offered = getattr(getattr(env, "unwrapped", None), "available", None)
    pairs = getattr(agent, "pairs", None)
    if pairs is not None and isinstance(offered, np.ndarray):
        missing = np.argwhere(pairs.available & ~offered)
        if len(missing):
            s, a = missing[0].tolist()
            raise Mismatch(
                f"the agent has action {a} in state {s}, but the environment does not; create the "
                "agent with available=env.unwrapped.available"
            )


def _call(verb: str, function: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
    try:
        return function(*arguments, **named)
    except InvalidAction:  # from a SwitchingEnv: the agent chose it
        raise
    except Exception as error:  # an environment may raise anything
        what = f"{type(error).__name__}: {error}"
        raise InvalidEnvironment(f"env.{verb}", what, "a call that returns") from error


def _reset(env: Any, space: gymnasium.spaces.Discrete, seed: int | None) -> int:
    result = _call("reset", env.reset, seed=seed)
    if not isinstance(result, tuple) or len(result) != 2 or not isinstance(result[1], dict):
        raise InvalidEnvironment("the result of reset", result, "(observation, info)")
    return _state(result[0], space)


def _unpacked(result: Any) -> tuple[Any, Any, bool, bool]:
    if not isinstance(result, tuple) or len(result) != 5 or not isinstance(result[4], dict):
        shape = "(observation, reward, terminated, truncated, info)"
        raise InvalidEnvironment("the result of step", result, shape)
    observation, reward, terminated, truncated, _ = result
    for name, flag in (("terminated", terminated), ("truncated", truncated)):
        if not isinstance(flag, (bool, np.bool_)):
            raise InvalidEnvironment(name, flag, "True or False")
    return observation, reward, bool(terminated), bool(truncated)


def _state(observation: Any, space: gymnasium.spaces.Discrete) -> int:
    """An observation, which must be an integer, as a state counted from 0."""
    if isinstance(observation, np.ndarray) and observation.shape == ():
        observation = observation[()]
    if isinstance(observation, bool) or not isinstance(observation, (int, np.integer)):
        raise InvalidEnvironment("the observation", observation, "an integer")
    state = int(observation) - int(space.start)
    if not 0 <= state < space.n:
        first, last = int(space.start), int(space.start + space.n - 1)
        raise InvalidEnvironment("the observation", observation, f"from {first} to {last}")
    return state
