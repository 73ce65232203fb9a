"""Any agent on any environment with discrete observations and actions.

States and actions count from 0 for the agent, whatever `start` the spaces have. Rewards are mapped
from `reward_range` to [0, 1]. Where an episode of the environment

- terminates, the next state is the one that `reset` gives: that is what the action led to;
- is truncated, the step is learned as it was, and the agent then finds itself in the reset state:
  nothing is learned across the jump.

Whatever the environment gives back is checked before the agent sees it: an environment that
misbehaves raises `InvalidEnvironment` in that very step, and the agent is as it was before it.
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


@dataclass(frozen=True)
class Played:
    """What came of it: every reward as the environment gave it, and where episodes ended."""

    rewards: NDArray[np.float64]
    resets: NDArray[np.int64]  # the steps after which the environment was reset

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

    `reward_range` is what rewards may be; one outside it is an error, or set to the nearer end with
    `clip=True` (the agent then learns another problem: its means are those of the clipped rewards).
    `seed` is given to the first `reset`, and the agent's own draws follow from it as in `simulate`;
    without a seed the agent keeps the random state it has. `progress(done, steps)` is called every
    1000 steps and at the end. Ctrl-C stops between two steps. Masks in `info` are not read: where
    states lack actions, make the agent with `available=`.

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
            found = _call("step", env.step, first_action + action)
            observation, raw, terminated, truncated = _unpacked(found)
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
    """From the environment's rewards to [0, 1].

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
            allowed = f"within reward_range = ({self.low}, {self.high}), or clip=True"
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
    """Where both say how many states and actions they have, and which, they must agree."""
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
            words = f"the agent has action {a} in state {s}, which the environment does not offer"
            raise Mismatch(f"{words}; make the agent with available=env.unwrapped.available")


def _call(verb: str, function: Callable[..., Any], *given: Any, **named: Any) -> Any:
    try:
        return function(*given, **named)
    except InvalidAction:  # one of our environments: the agent is to blame
        raise
    except Exception as error:  # an environment may raise anything
        what = f"{type(error).__name__}: {error}"
        raise InvalidEnvironment(f"env.{verb}", what, "a call that returns") from error


def _reset(env: Any, space: gymnasium.spaces.Discrete, seed: int | None) -> int:
    found = _call("reset", env.reset, seed=seed)
    if not isinstance(found, tuple) or len(found) != 2 or not isinstance(found[1], dict):
        raise InvalidEnvironment("what reset returned", found, "(observation, info)")
    return _state(found[0], space)


def _unpacked(found: Any) -> tuple[Any, Any, bool, bool]:
    if not isinstance(found, tuple) or len(found) != 5 or not isinstance(found[4], dict):
        shape = "(observation, reward, terminated, truncated, info)"
        raise InvalidEnvironment("what step returned", found, shape)
    observation, reward, terminated, truncated, _ = found
    for name, flag in (("terminated", terminated), ("truncated", truncated)):
        if not isinstance(flag, (bool, np.bool_)):
            raise InvalidEnvironment(name, flag, "True or False")
    return observation, reward, bool(terminated), bool(truncated)


def _state(observation: Any, space: gymnasium.spaces.Discrete) -> int:
    """An observation as a state from 0; exactly an integer, not something that looks like one."""
    if isinstance(observation, np.ndarray) and observation.shape == ():
        observation = observation[()]
    if isinstance(observation, bool) or not isinstance(observation, (int, np.integer)):
        raise InvalidEnvironment("the observation", observation, "an integer")
    state = int(observation) - int(space.start)
    if not 0 <= state < space.n:
        first, last = int(space.start), int(space.start + space.n - 1)
        raise InvalidEnvironment("the observation", observation, f"from {first} to {last}")
    return state
