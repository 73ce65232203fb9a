"""Our problems as Gymnasium environments."""

from __future__ import annotations

import itertools
import warnings
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

import switchmdp as sm
from switchmdp.errors import InvalidAction, InvalidParameter, InvalidState
from switchmdp.gym import SwitchingEnv, identifier, make_env, play
from switchmdp.mdp.mdp import RewardLaw, variance_of
from switchmdp.problems import PROBLEMS, random_mdp, random_switching

TRUTH = {"configuration", "changed", "optimal_gain"}


def walk(env: gymnasium.Env[Any, Any], actions: list[int], seed: int) -> list[Any]:
    state, info = env.reset(seed=seed)
    return [(state, info), *(env.step(action) for action in actions)]


def three_configurations() -> sm.SwitchingMDP:
    return random_switching(4, 2, changes=3, horizon=40, change_points=[2, 7, 8], seed=1)


@pytest.mark.parametrize("problem", PROBLEMS)
@pytest.mark.parametrize("expose_truth", [False, True])
def test_every_problem_passes_gymnasiums_check(problem: str, expose_truth: bool) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        wrapped = gymnasium.make(identifier(problem), expose_truth=expose_truth)
        check_env(wrapped.unwrapped, skip_render_check=True)
        check_env(wrapped.unwrapped)
        wrapped.reset(seed=0)
        for _ in range(20):  # through the passive checker
            *_, terminated, truncated, _ = wrapped.step(wrapped.action_space.sample())
            assert not terminated
            assert not truncated
        wrapped.close()


@pytest.mark.parametrize("problem", PROBLEMS)
def test_the_same_seed_gives_the_same_trajectory(problem: str) -> None:
    actions = np.random.default_rng(0).integers(0, 2, 200).tolist()
    first = walk(gymnasium.make(identifier(problem), expose_truth=True), actions, seed=3)
    other = gymnasium.make(identifier(problem), expose_truth=True)
    assert walk(other, actions, seed=3) == first
    assert walk(other, actions, seed=3) == first  # a reset undoes the changes too
    assert walk(other, actions, seed=4) != first


def test_a_reset_without_a_seed_continues_the_random_stream() -> None:
    env = SwitchingEnv(random_mdp(10, 2, seed=0))
    first = walk(env, [0] * 30, seed=1)
    state, info = env.reset()
    assert [(state, info), *(env.step(0) for _ in range(30))] != first


def test_parameters_reach_the_problem() -> None:
    env = gymnasium.make("switchmdp/RandomSwitching-v0", n_states=7, n_actions=4, seed=5, changes=0)
    problem = env.unwrapped.problem  # type: ignore[attr-defined]
    assert (env.observation_space.n, env.action_space.n) == (7, 4)  # type: ignore[attr-defined]
    same = random_switching(7, 4, seed=5, changes=0)
    assert np.array_equal(problem.at(1).rewards, same.at(1).rewards)


def test_hidden_information_is_exposed_only_on_request() -> None:
    problem = three_configurations()
    for step in walk(SwitchingEnv(problem), [0] * 10, seed=0):
        assert step[-1] == {}
    for step in walk(SwitchingEnv(problem, expose_truth=True), [0] * 10, seed=0):
        assert set(step[-1]) == TRUTH


def test_the_exposed_truth_describes_the_next_step() -> None:
    problem = three_configurations()
    gains = sm.optimal_gains(problem)
    infos = [step[-1] for step in walk(SwitchingEnv(problem, expose_truth=True), [0] * 12, seed=0)]
    for t, info in enumerate(infos, start=1):
        assert info["configuration"] == problem.active(t)
        assert info["changed"] == (t in (2, 7, 8))
        assert info["optimal_gain"] == gains[problem.active(t)]


def test_exposing_the_truth_does_not_change_the_trajectory() -> None:
    hidden, shown = (
        walk(SwitchingEnv(three_configurations(), expose_truth=truth), [0, 1] * 6, seed=2)
        for truth in (False, True)
    )
    assert [step[:-1] for step in hidden] == [step[:-1] for step in shown]


def test_the_configuration_of_a_step_is_the_one_that_is_active_then() -> None:
    """Rewards identify the configuration: in M_i every reward is i / 4."""
    stay = [[[0.5, 0.5]], [[0.5, 0.5]]]
    law = sm.Deterministic()
    mdps = [sm.MDP(stay, [[i / 4], [i / 4]], law=law) for i in range(5)]
    problem = sm.SwitchingMDP(mdps, change_points=[2, 3, 10, 11])
    steps = walk(SwitchingEnv(problem), [0] * 20, seed=0)[1:]
    assert [4 * step[1] for step in steps] == [problem.active(t) for t in range(1, 21)]


def test_transitions_have_the_probabilities_of_the_problem() -> None:
    mdp, n = random_mdp(4, 2, seed=3), 20_000
    env = SwitchingEnv(mdp)
    state, _ = env.reset(seed=0)
    seen, paid = np.zeros((4, 2, 4)), np.zeros((4, 2))
    for action in np.random.default_rng(1).integers(0, 2, n):
        after, reward, *_ = env.step(action)
        seen[state, action, after] += 1
        paid[state, action] += reward
        state = after
    visits = seen.sum(axis=2)
    assert visits.min() > 500
    off = np.abs(seen / visits[:, :, None] - mdp.transitions)
    assert (off < 4.5 * np.sqrt(0.25 / visits)[:, :, None]).all()
    assert (np.abs(paid / visits - mdp.rewards) < 4.5 * np.sqrt(0.25 / visits)).all()


@pytest.mark.parametrize(
    "law", [sm.Bernoulli(), sm.Deterministic(), sm.Beta(variance=0.02), sm.Beta(share=0.5)]
)
@pytest.mark.parametrize("mean", [0.1, 0.5, 0.97])
def test_rewards_have_the_mean_and_variance_of_their_law(law: RewardLaw, mean: float) -> None:
    n = 4000
    env = SwitchingEnv(sm.MDP([[[1.0]]], [[mean]], law=law))
    env.reset(seed=1)
    rewards = np.array([env.step(0)[1] for _ in range(n)])
    variance = variance_of(law, mean)
    assert ((rewards >= 0.0) & (rewards <= 1.0)).all()
    assert abs(rewards.mean() - mean) <= 4.5 * np.sqrt(variance / n) + 1e-12
    assert abs(rewards.var() - variance) <= 0.1 * variance + 0.002


@pytest.mark.parametrize("mean", [0.0, 1.0])
@pytest.mark.parametrize("law", [sm.Bernoulli(), sm.Deterministic(), sm.Beta(share=0.5)])
def test_rewards_without_variance_equal_the_mean(law: RewardLaw, mean: float) -> None:
    env = SwitchingEnv(sm.MDP([[[1.0]]], [[mean]], law=law))
    env.reset(seed=0)
    assert {env.step(0)[1] for _ in range(50)} == {mean}


def test_playing_the_environment_matches_simulate() -> None:
    """Rewards of the optimal policies, which change with the problem, agree in the mean."""
    steps, runs = 300, 16
    problem = random_switching(5, 3, changes=1, horizon=steps, change_points=[150], seed=2)
    played, simulated = np.zeros(runs), np.zeros(runs)
    for i in range(runs):
        agent = sm.agents.Omniscient(problem)
        played[i] = play(agent, SwitchingEnv(problem), steps, seed=i).mean_reward
        record = sm.simulate(sm.agents.Omniscient(problem), problem, steps, seed=i)
        simulated[i] = 1.0 - (record.regret[-1] + record_offset(problem, steps)) / steps
    scatter = np.sqrt((played.var(ddof=1) + simulated.var(ddof=1)) / runs)
    assert abs(played.mean() - simulated.mean()) < 4.5 * scatter


def record_offset(problem: sm.SwitchingMDP, steps: int) -> float:
    """Regret is relative to the sum of optimal gains, this total to one reward per step."""
    gains = sm.optimal_gains(problem)
    return steps - float(sum(gains[problem.active(t)] for t in range(1, steps + 1)))


def with_gaps() -> sm.MDP:
    available = [[True, False, True], [False, True, True]]
    rows = [[[0.5, 0.5]] * 3, [[0.5, 0.5]] * 3]
    return sm.MDP(rows, np.full((2, 3), 0.5), available=available)


def test_masks_show_the_available_actions_of_a_state() -> None:
    env = SwitchingEnv(with_gaps())
    state, info = env.reset(seed=0)
    for _ in range(30):
        assert np.array_equal(info["action_mask"], with_gaps().available[state])
        action = env.action_space.sample(info["action_mask"])
        state, _, _, _, info = env.step(action)


def test_an_unavailable_action_is_rejected_without_effect() -> None:
    env = SwitchingEnv(with_gaps())
    env.reset(seed=0)
    before = env.np_random.bit_generator.state
    bad: list[Any] = [1, 3, -1, 1.0, True, None, "0", np.array([0])]
    for action in bad:
        with pytest.raises(InvalidAction):
            env.step(action)
    assert (env.t, env.state) == (1, 0)
    assert env.np_random.bit_generator.state == before
    for action in (np.int32(0), np.int64(2)):
        env.reset(seed=0)
        env.step(action)


def test_the_initial_state_can_be_chosen() -> None:
    assert SwitchingEnv(random_mdp(5, 2), initial_state=3).reset(seed=0)[0] == 3
    env = SwitchingEnv(random_mdp(5, 2))
    assert env.reset(seed=0, options={"initial_state": 4})[0] == 4
    assert env.reset(seed=0)[0] == 0
    with pytest.raises(InvalidState, match="initial_state"):
        env.reset(options={"initial_state": 5})


@pytest.mark.parametrize(
    ("parameters", "field"),
    [
        ({"problem": "nothing"}, "problem"),
        ({"render_mode": "human"}, "render_mode"),
        ({"expose_truth": "yes"}, "expose_truth"),
        ({"initial_state": 5}, "initial_state"),
        ({"initial_state": True}, "initial_state"),
        ({"n_states": 0}, "n_states"),
        ({"seed": -1}, "seed"),
    ],
)
def test_invalid_parameters_are_named(parameters: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidParameter) as caught:
        make_env(**parameters)
    assert caught.value.field == field


def test_only_problems_become_environments() -> None:
    for thing in (None, "random-switching", [random_mdp(2, 2)]):
        with pytest.raises(InvalidParameter, match="problem must be"):
            SwitchingEnv(thing)  # type: ignore[arg-type]


def test_environments_share_no_state() -> None:
    problem = three_configurations()
    one, two = SwitchingEnv(problem, expose_truth=True), SwitchingEnv(problem, expose_truth=True)
    one.reset(seed=0)
    two.reset(seed=0)
    for _, action in itertools.product(range(5), (0, 1)):
        one.step(action)
    assert two.step(0)[-1]["configuration"] == problem.active(2)
    assert walk(one, [0, 1] * 5, seed=9) == walk(two, [0, 1] * 5, seed=9)
