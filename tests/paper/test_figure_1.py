"""The paper's Figure 1: window, counts, actions and special cases."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import switchmdp as sm
from switchmdp import theory

LAWS = [sm.Bernoulli(), sm.Beta(share=0.3), sm.Deterministic()]


def steps_of(record: sm.Record) -> list[list[Any]]:
    assert record.trajectory is not None
    taken = record.trajectory
    return [taken.states.tolist(), taken.actions.tolist(), taken.rewards.tolist()]


@pytest.mark.parametrize("case", range(50))
def test_machine_code_matches_the_papers_pseudo_code(
    case: int, literal_sw_ucrl: Callable[..., Any]
) -> None:
    rng = np.random.default_rng(case)
    n_states, n_actions = int(rng.integers(1, 6)), int(rng.integers(1, 4))
    window = int([1, 7, 60, 400, 1500, 4999, 5000, 20_000][case % 8])
    delta = float(rng.choice([0.01, 0.1, 0.5]))
    problem = sm.problems.random_switching(
        n_states, n_actions, changes=2, horizon=5000, seed=case, law=LAWS[case % 3]
    )
    literal = literal_sw_ucrl(n_states, n_actions, window, delta)
    agent = sm.agents.SWUCRL(n_states, n_actions, window=window, delta=delta)
    slow = sm.simulate(literal, problem, 5000, seed=case, trajectory=True)
    fast = sm.simulate(agent, problem, 5000, seed=case, trajectory=True)
    assert steps_of(fast) == steps_of(slow)
    assert agent.episode == len(literal.policies)
    assert agent.gain == pytest.approx(literal.gain, abs=1e-12)


def test_the_comparison_with_the_pseudo_code_covers_many_policies(
    literal_sw_ucrl: Callable[..., Any],
) -> None:
    problem = sm.problems.random_switching(4, 3, changes=2, horizon=5000, seed=7)
    literal = literal_sw_ucrl(4, 3, 4000, 0.5)
    sm.simulate(literal, problem, 5000, seed=7)
    assert len(set(literal.policies)) >= 10


class Recounting:
    """Runs an agent interpreted, and recounts its window from the history at every episode."""

    def __init__(self, agent: Any, window: int) -> None:
        self.agent, self.window = agent, window
        self.n_states, self.n_actions = agent.n_states, agent.n_actions
        self.history: list[tuple[int, int, float, int]] = []
        self.checked = 0

    def act(self, state: int) -> int:
        episode = self.agent.episode
        action: int = self.agent.act(state)
        if self.agent.episode != episode:
            self.compare()
            self.checked += 1
        return action

    def observe(self, state: int, action: int, reward: float, next_state: int) -> None:
        self.history.append((state, action, reward, next_state))
        self.agent.observe(state, action, reward, next_state)

    def compare(self) -> None:
        t = len(self.history) + 1
        assert self.agent.t == t == self.agent.episode_start
        seen = self.history[max(0, t - 1 - self.window) :]
        visits = np.zeros((self.n_states, self.n_actions), int)
        sums = np.zeros((self.n_states, self.n_actions))
        moves = np.zeros((self.n_states, self.n_actions, self.n_states), int)
        for s, a, r, after in seen:
            visits[s, a] += 1
            sums[s, a] += r
            moves[s, a, after] += 1
        assert np.array_equal(self.agent.visits, visits)
        estimates = self.agent.reward_estimates
        assert np.allclose(estimates, sums / np.maximum(1, visits), rtol=0, atol=1e-12)
        assert (estimates[visits == 0] == 0.0).all()
        for s in range(self.n_states):
            for a in range(self.n_actions):
                expected = {i: int(n) for i, n in enumerate(moves[s, a]) if n}
                assert self.agent.transition_counts(s, a) == expected


@pytest.mark.parametrize("law", LAWS, ids=str)
@pytest.mark.parametrize("window", [1, 2, 3, 10, 97, 600, 1199, 1200, 5000])
@pytest.mark.parametrize("n_states", [3, 70])
def test_window_counts_equal_a_recount_at_every_episode_start(
    n_states: int, window: int, law: Any
) -> None:
    """70 states are kept as successor lists, 3 as full rows."""
    problem = sm.problems.random_switching(n_states, 2, changes=1, horizon=1200, seed=1, law=law)
    steps = 1200 if n_states == 3 else 150
    watched = Recounting(sm.agents.SWUCRL(n_states, 2, window=window, delta=0.1), window)
    sm.simulate(watched, problem, steps, seed=window)
    assert watched.checked >= 5


@pytest.mark.parametrize("seed", range(20))
def test_with_a_window_as_long_as_the_run_it_equals_ucrl2(seed: int) -> None:
    problem = sm.problems.random_switching(5, 3, changes=2, horizon=5000, seed=seed)
    swucrl = sm.agents.SWUCRL(5, 3, window=5000, delta=0.1)
    ucrl2 = sm.agents.UCRL2(5, 3, delta=0.1)
    windowed = sm.simulate(swucrl, problem, 5000, seed=seed, trajectory=True)
    plain = sm.simulate(ucrl2, problem, 5000, seed=seed, trajectory=True)
    assert steps_of(windowed) == steps_of(plain)
    assert swucrl.gain == ucrl2.gain


@pytest.mark.parametrize("seed", range(20))
def test_with_a_period_as_long_as_the_run_ucrl2_rw_equals_ucrl2(seed: int) -> None:
    problem = sm.problems.random_switching(5, 3, changes=2, horizon=5000, seed=seed)
    periodic = sm.agents.UCRL2RW(5, 3, period=5000, delta=0.1)
    restarted = sm.simulate(periodic, problem, 5000, seed=seed, trajectory=True)
    plain = sm.simulate(sm.agents.UCRL2(5, 3, delta=0.1), problem, 5000, seed=seed, trajectory=True)
    assert steps_of(restarted) == steps_of(plain)


def restarts_of(agent: Any, problem: sm.SwitchingMDP, horizon: int) -> list[int]:
    """The steps at which the agent's time restarts at 1."""

    class Watch:
        n_states, n_actions = agent.n_states, agent.n_actions
        times: list[int] = []  # noqa: RUF012  # one class per call

        def act(self, state: int) -> int:
            action: int = agent.act(state)
            if agent.since not in (1, *self.times):
                self.times.append(agent.since)
            return action

        def observe(self, *step: Any) -> None:
            agent.observe(*step)

    watch = Watch()
    sm.simulate(watch, problem, horizon)
    return watch.times


@pytest.mark.parametrize("changes", [0, 1, 2, 4, 10])
def test_ucrl2_r_restarts_at_the_schedule_of_theorem_6(changes: int) -> None:
    problem = sm.problems.random_switching(2, 2, changes=1, horizon=3000, seed=0)
    agent = sm.agents.UCRL2R(2, 2, changes=changes, delta=0.1)
    expected = theory.restart_times(horizon=3000, segments=changes + 1).tolist()
    assert restarts_of(agent, problem, 3000) == expected
    assert agent.plausible.delta == pytest.approx(0.1 / (changes + 1) ** 2)


def test_ucrl2_rw_and_the_oracle_restart_at_their_steps() -> None:
    problem = sm.problems.random_switching(2, 2, changes=1, horizon=3000, seed=0)
    periodic = sm.agents.UCRL2RW(2, 2, period=700, delta=0.1)
    assert restarts_of(periodic, problem, 3000) == [701, 1401, 2101, 2801]
    oracle = sm.agents.OracleUCRL2(2, 2, change_points=[2, 3, 1500], delta=0.1)
    assert restarts_of(oracle, problem, 3000) == [2, 3, 1500]
