"""Agents that Python calls step by step: what a step costs, and Gymnasium's small environments.

**Calls.** `act` and `observe` of every registered agent, over a whole run at S=20, A=4. The states
and rewards are those of a simulation with the same seed, so that nothing but the agent is timed.

**Environments.** `play` on Taxi, CliffWalking, FrozenLake, and a FrozenLake whose actions are
permuted every 25 000 steps. Rewards are means per step over the second half of the run. Textbook
Q-learning (γ = 0.99, step size 0.1, ε = 0.1) and SW-UCRL are included for comparison.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator
from typing import Any

import gymnasium
import numpy as np

import switchmdp as sm
from agents import made
from switchmdp.agents import AGENTS
from switchmdp.agents.policy_agent import follows_policy
from switchmdp.gym import Changing, Every, PermuteActions, play
from switchmdp.randomness import run_seeds
from timing import Row, at_most, show

STEPS = 100_000
PATIENCE = 150.0  # seconds for one environment


def calls() -> Iterator[Row]:
    """Every agent at S=20, and EvidencePSRL at S=50."""
    for name in AGENTS:
        yield at_most(f"act + observe, {name}, S=20 A=4", seconds_per_step(name, 20), 15e-6)
    name = "evidence-psrl"
    yield at_most(f"act + observe, {name}, S=50 A=4", seconds_per_step(name, 50), 40e-6)


def seconds_per_step(name: str, n_states: int) -> float:
    """The processor time of the better of two runs, once machine code is compiled or loaded."""
    problem = sm.problems.random_switching(n_states, 4, changes=2, horizon=STEPS, seed=0)
    record = sm.simulate(made(name, problem), problem, STEPS, seed=0, trajectory=True)
    assert record.trajectory is not None
    states = [*record.trajectory.states.tolist(), record.final_state]
    rewards = record.trajectory.rewards.tolist()
    best = np.inf
    for _ in range(2):
        agent = made(name, problem)
        if follows_policy(agent):
            agent.update_memory()
        if hasattr(agent, "reseed"):
            agent.reseed(run_seeds(0)[2])
        began = time.process_time()
        for t in range(STEPS):
            state = states[t]
            agent.observe(state, agent.act(state), rewards[t], states[t + 1])
        best = min(best, (time.process_time() - began) / STEPS)
    return float(best)


class TextbookQLearning:
    """Q-learning with a discount, a constant step size and ε-greedy actions."""

    def __init__(self, n_states: int, n_actions: int, seed: int = 0) -> None:
        self.n_states, self.n_actions = n_states, n_actions
        self.q = np.zeros((n_states, n_actions))
        self.rng = np.random.default_rng(seed)

    def act(self, state: int) -> int:
        """The best action so far, or one in ten times any."""
        if self.rng.random() < 0.1:
            return int(self.rng.integers(self.n_actions))
        best = np.flatnonzero(self.q[state] == self.q[state].max())
        return int(self.rng.choice(best))

    def observe(self, state: int, action: int, reward: float, next_state: int) -> None:
        """Learn from a step."""
        target = reward + 0.99 * self.q[next_state].max()
        self.q[state, action] += 0.1 * (target - self.q[state, action])


def environments() -> Iterator[Row]:
    """The time of EvidencePSRL, and what each agent earns."""
    for label, name, reward_range, limit in (
        ("Taxi", "Taxi", (-10.0, 20.0), 60.0),
        ("CliffWalking", "CliffWalking", (-100.0, 0.0), 10.0),
        ("FrozenLake", "FrozenLake", (0.0, 1.0), None),
        ("changing FrozenLake", "FrozenLake", (0.0, 1.0), None),
    ):
        for rival in ("evidence-psrl", "sw-ucrl", "textbook Q-learning"):
            env = _env(name, changing=label != name)
            played, seconds, reward = _play(rival, env, reward_range)
            text = f"{show(seconds)}, reward {reward:.4f}"
            if played < STEPS:
                text = f"{played} steps in {text}"
            row = Row(f"play {label}, 10^5 steps, {rival}", text)
            if rival == "evidence-psrl" and limit is not None:
                met = played == STEPS and seconds <= limit
                row = Row(row.what, row.measured, f"<= {show(limit)}", met)
            yield row


def _env(name: str, *, changing: bool) -> Any:
    """The newest version of an environment that is installed."""
    known = [spec for spec in gymnasium.registry.values() if spec.name == name]
    newest = max(known, key=lambda spec: spec.version or 0)
    env = gymnasium.make(newest.id)
    if changing:
        env = Changing(env, when=Every(STEPS // 4), how=PermuteActions(), seed=1)
    return env


def _play(rival: str, env: Any, reward_range: tuple[float, float]) -> tuple[int, float, float]:
    """Steps, seconds, and the mean reward in the second half."""
    sizes = int(env.observation_space.n), int(env.action_space.n)
    agent: Any = TextbookQLearning(*sizes)
    if rival == "evidence-psrl":
        agent = sm.agents.EvidencePSRL(*sizes)
    elif rival == "sw-ucrl":
        agent = sm.agents.SWUCRL(*sizes, window=STEPS // 2)
    if follows_policy(agent):
        agent.update_memory()  # machine code is compiled or loaded
    rewards: list[Any] = []
    began = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        # In pieces, so that an agent that is too slow can be stopped: each starts with a reset.
        while len(rewards) < 20 and time.perf_counter() - began < PATIENCE:
            piece = play(agent, env, STEPS // 20, seed=len(rewards), reward_range=reward_range)
            rewards.append(piece.rewards)
    earned = np.concatenate(rewards)
    half = float(earned[len(earned) // 2 :].mean())
    return len(earned), time.perf_counter() - began, half
