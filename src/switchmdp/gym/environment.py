"""Problems as Gymnasium environments, tabular environments as MDPs, and agents on any environment.

**Problems as environments.** They are discrete, continuing and seeded: an environment never
terminates and never truncates; `reset` returns to step 1 and to the first configuration. With
`expose_truth=True`, `info` contains what the agent must not know about the next step: which
configuration is active (`configuration`), whether it starts with that step (`changed`), and its
`optimal_gain`. If a state lacks some actions, `info["action_mask"]` lists those it has; others are
refused. The ids are derived from `PROBLEMS`: "random-switching" is `switchmdp/RandomSwitching-v0`.

**Environments as MDPs.** A tabular environment has a model `env.unwrapped.P`: `P[s][a]` lists
(probability, next state, reward, terminated). As an MDP it continues: where an episode terminates,
the next state is a start state, drawn from `env.unwrapped.initial_state_distrib` as `reset` draws
it. Time limits are not part of the model. States that cannot be reached from a start state are left
out.

**Agents on environments** with discrete observations and actions. The agent's states and actions
count from 0, whatever `start` the spaces have. Rewards are mapped from `reward_range` to [0, 1].
When an episode of the environment

- terminates, the agent observes the state that `reset` returns as the next state;
- is truncated, the agent observes the step as it is, and continues from the state that `reset`
  returns. It learns nothing from that jump.

Every value that the environment returns is checked before the agent sees it. An invalid value
raises `InvalidEnvironment` in that step, and the agent stays unchanged.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Container
from dataclasses import dataclass
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from switchmdp.concurrency import whole_steps
from switchmdp.display import counted
from switchmdp.errors import (
    InvalidAction,
    InvalidEnvironment,
    InvalidParameter,
    InvalidState,
    Mismatch,
    PlayInterrupted,
)
from switchmdp.mdp import MDP, Deterministic, SwitchingMDP, as_switching
from switchmdp.mdp.mdp import BERNOULLI, RewardLaw, variance_of
from switchmdp.planning.gain import optimal_gains
from switchmdp.problems import PROBLEMS
from switchmdp.randomness import run_seeds
from switchmdp.validation import check_index, check_integer, is_number

# Problems as environments.


class SwitchingEnv(gymnasium.Env[np.int64, np.int64]):
    """A switching MDP as an environment.

    Parameters
    ----------
    problem
        An MDP or a switching MDP.
    expose_truth
        Whether `info` tells which configuration is active, and its optimal gain.
    initial_state
        The state of step 1.
    render_mode
        Must be None: rendering is not supported.

    Raises
    ------
    InvalidParameter
        If a parameter has the wrong type or is out of range.

    Examples
    --------
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
        """Return to step 1; `options={"initial_state": s}` chooses the first state.

        Parameters
        ----------
        seed
            Seeds the draws of rewards and states.
        options
            `{"initial_state": s}` chooses the first state.

        Returns
        -------
        tuple
            The state and `info`.

        Raises
        ------
        InvalidState
            If the first state does not exist.
        """
        start = (options or {}).get("initial_state", self.initial_state)
        start = check_index(start, self.problem.n_states, "initial_state", InvalidState)
        super().reset(seed=seed)
        self._begin(start)
        return np.int64(self.state), self._info(changed=False)

    def step(self, action: Any) -> tuple[np.int64, float, bool, bool, dict[str, Any]]:
        """One step; the action must be available in the current state.

        Parameters
        ----------
        action
            The action.

        Returns
        -------
        tuple
            The next state, the reward, False, False, and `info`.

        Raises
        ------
        InvalidAction
            If the action is not available in the current state.
        """
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

    Parameters
    ----------
    problem
        The name of a problem in `PROBLEMS`.
    expose_truth
        Whether `info` tells which configuration is active, and its optimal gain.
    initial_state
        The state of step 1.
    render_mode
        Must be None: rendering is not supported.
    **parameters
        The parameters of the problem.

    Returns
    -------
    SwitchingEnv
        The environment.

    Raises
    ------
    InvalidParameter
        If a parameter has the wrong type or is out of range.

    Examples
    --------
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

    Parameters
    ----------
    problem
        The name of a problem in `PROBLEMS`.

    Returns
    -------
    str
        The id.

    Examples
    --------
    >>> identifier("random-switching")
    'switchmdp/RandomSwitching-v0'
    """
    return f"switchmdp/{''.join(part.capitalize() for part in problem.split('-'))}-v0"


def register(registered: Container[str]) -> None:
    """Register every problem that is not yet registered with Gymnasium.

    Parameters
    ----------
    registered
        The ids that Gymnasium knows already.

    Examples
    --------
    >>> register(gymnasium.registry)
    >>> "switchmdp/RandomSwitching-v0" in gymnasium.registry
    True
    """
    for problem in PROBLEMS:
        if identifier(problem) not in registered:
            gymnasium.register(
                identifier(problem),
                entry_point="switchmdp.gym:make_env",
                kwargs={"problem": problem},
            )


# Environments as MDPs.


Entry = tuple[int, int, float, int, float, bool]
_SHAPE = "{state: {action: [(probability, next state, reward, terminated), …]}}, counted from 0"


def to_mdp(env: gymnasium.Env[Any, Any], *, reward_range: tuple[float, float] | None = None) -> MDP:
    """The MDP of a tabular environment (FrozenLake, Taxi, CliffWalking), rewards mapped to [0, 1].

    `reward_range` defaults to the smallest and largest reward in the model. The reward of a
    state-action pair is its mean. State labels are the environment's state numbers.

    Parameters
    ----------
    env
        The Gymnasium environment.
    reward_range
        The rewards that are mapped to 0 and 1; by default the least and the greatest of the model.

    Returns
    -------
    MDP
        The MDP.

    Raises
    ------
    Mismatch
        If the environment has no model.
    InvalidEnvironment
        If the model is invalid.

    Examples
    --------
    >>> lake = to_mdp(gymnasium.make("FrozenLake-v1", is_slippery=False))
    >>> lake.n_states, lake.n_actions
    (11, 4)
    """
    inner: Any = as_env(env).unwrapped
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


# Agents on environments.


@dataclass(frozen=True, repr=False)
class Played:
    """The rewards as the environment returned them, and where its episodes ended.

    Parameters
    ----------
    rewards
        The reward of each step.
    resets
        The steps after which the environment was reset.
    """

    rewards: NDArray[np.float64]
    resets: NDArray[np.int64]  # the steps after which the environment was reset

    def __repr__(self) -> str:
        mean = f"mean reward {self.mean_reward:.6g}" if len(self.rewards) else "no rewards"
        steps, resets = counted(len(self.rewards), "step"), counted(len(self.resets), "reset")
        return f"Played({steps}, {mean}, {resets})"

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

    Parameters
    ----------
    agent
        An object with `act` and `observe`.
    env
        The Gymnasium environment.
    steps
        The number of steps.
    seed
        Seeds the environment and the agent; by default both keep their random state.
    reward_range
        The smallest and the largest reward of the environment.
    clip
        Whether rewards outside the range are clipped.
    progress
        Called with the number of steps taken and the total number of steps.

    Returns
    -------
    Played
        The rewards and resets.

    Raises
    ------
    InvalidParameter
        If a parameter has the wrong type or is out of range.
    InvalidEnvironment
        If the environment returns an invalid value.
    Mismatch
        If agent and environment do not fit together.
    PlayInterrupted
        Ctrl-C. `error.played` has the rewards and resets so far.

    Examples
    --------
    >>> import switchmdp as sm
    >>> from switchmdp.gym import make_env
    >>> played = play(sm.agents.UCRL2(6, 2), make_env("riverswim"), 100, seed=0)
    >>> len(played.rewards), len(played.resets)
    (100, 0)
    """
    steps = check_integer("steps", steps, 1)
    seed = None if seed is None else check_integer("seed", seed, 0)
    scale = Scale(reward_range, clip)
    env = as_env(env)
    observations, actions = discrete(env, "observation_space"), discrete(env, "action_space")
    _must_fit(agent, env, observations, actions)
    n_actions, first_action = int(actions.n), int(actions.start)
    rewards, resets = np.zeros(steps), []
    if seed is not None and hasattr(agent, "reseed"):
        agent.reseed(run_seeds(seed)[2])
    state = _reset(env, observations, seed)
    done = 0
    try:
        with whole_steps(steps) as counter:
            for i in counter:
                action = check_index(
                    agent.act(state), n_actions, "the agent's action", InvalidAction
                )
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
                done = i + 1
                if progress is not None and (done % 1000 == 0 or done == steps):
                    progress(done, steps)
    except KeyboardInterrupt:
        raise PlayInterrupted(Played(rewards[:done], np.array(resets, np.int64)), steps) from None
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


def as_env(env: Any) -> gymnasium.Env[Any, Any]:
    """The argument, if it is an environment: an id, or a problem, is not."""
    if isinstance(env, (MDP, SwitchingMDP)):
        raise InvalidParameter("env", env, "an environment, here SwitchingEnv(problem)")
    if isinstance(env, type) or not all(hasattr(env, verb) for verb in ("reset", "step")):
        raise InvalidParameter("env", env, "a Gymnasium environment, such as gymnasium.make(...)")
    return env  # type: ignore[no-any-return]  # or something that looks like one


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
    if isinstance(agent, type) or not all(hasattr(agent, verb) for verb in ("act", "observe")):
        raise InvalidParameter("agent", agent, "an object with the methods act and observe")
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
