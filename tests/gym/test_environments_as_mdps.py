"""Tabular environments with a model as MDPs."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.envs.toy_text.cliffwalking import CliffWalkingEnv
from gymnasium.envs.toy_text.frozen_lake import FrozenLakeEnv
from gymnasium.envs.toy_text.taxi import TaxiEnv

import switchmdp as sm
from switchmdp.errors import InvalidEnvironment, InvalidMDP, InvalidParameter, Mismatch
from switchmdp.gym import to_mdp

ENVIRONMENTS: dict[str, tuple[Any, int, int]] = {  # the environment, its states and actions
    "lake": (lambda: FrozenLakeEnv(is_slippery=False), 11, 4),
    "slippery lake": (FrozenLakeEnv, 11, 4),
    "large lake": (lambda: FrozenLakeEnv(map_name="8x8", is_slippery=False), 53, 4),
    "large slippery lake": (lambda: FrozenLakeEnv(map_name="8x8"), 53, 4),
    "cliff": (CliffWalkingEnv, 37, 4),
    "slippery cliff": (lambda: CliffWalkingEnv(is_slippery=True), 37, 4),
    "taxi": (TaxiEnv, 400, 6),
    "taxi in the rain": (lambda: TaxiEnv(is_rainy=True), 400, 6),
}


class Table(gymnasium.Env[Any, Any]):
    """Two states, one of them terminal, with the given model."""

    def __init__(self, P: Any, start: Any = (1.0, 0.0)) -> None:
        self.observation_space = gymnasium.spaces.Discrete(2)
        self.action_space = gymnasium.spaces.Discrete(2)
        self.P = P
        if start is not None:
            self.initial_state_distrib = start


def table(*entries: Any) -> dict[int, Any]:
    """A model with the given transitions for state 0, action 0."""
    usual = [(1.0, 1, 0.0, False)]
    return {0: {0: list(entries) or usual, 1: usual}, 1: {0: [(1.0, 0, 1.0, False)], 1: usual}}


@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_environments_become_communicating_mdps(name: str) -> None:
    make, n_states, n_actions = ENVIRONMENTS[name]
    mdp = to_mdp(make())
    assert (mdp.n_states, mdp.n_actions) == (n_states, n_actions)
    assert sm.is_communicating(mdp)
    assert mdp.law == sm.Deterministic()
    assert mdp.available.all()


@pytest.mark.parametrize("name", ["lake", "slippery lake", "large lake", "cliff", "slippery cliff"])
def test_the_optimal_gain_is_what_the_optimal_policy_earns(name: str) -> None:
    """The policy is played in the environment itself for many episodes."""
    env: Any = ENVIRONMENTS[name][0]()
    mdp = to_mdp(env)
    rewards = [entry[2] for rows in env.P.values() for row in rows.values() for entry in row]
    low, high = min(rewards), max(rewards)
    plan = sm.optimal_gain(mdp)
    assert mdp.state_labels is not None
    policy = dict(zip(map(int, mdp.state_labels), plan.policy.tolist(), strict=True))
    blocks, length = 40, 500
    earned = np.zeros(blocks)
    state, _ = env.reset(seed=1)
    for block in range(blocks):
        for _ in range(length):
            state, reward, terminated, *_ = env.step(policy[int(state)])
            earned[block] += (reward - low) / (high - low) / length
            if terminated:
                state, _ = env.reset()
    scatter = earned.std(ddof=1) / np.sqrt(blocks)
    assert abs(earned.mean() - plan.gain) < 4.5 * scatter + 2.0 / (blocks * length)


def test_a_lake_that_is_not_slippery_pays_once_in_six_steps() -> None:
    assert sm.optimal_gain(to_mdp(FrozenLakeEnv(is_slippery=False))).gain == pytest.approx(1 / 6)
    large = FrozenLakeEnv(map_name="8x8", is_slippery=False)
    assert sm.optimal_gain(to_mdp(large)).gain == pytest.approx(1 / 14)


def test_the_optimal_policy_avoids_the_cliff() -> None:
    """Every step costs 1 and the cliff 100, so the optimal policy never falls."""
    assert sm.optimal_gain(to_mdp(CliffWalkingEnv())).gain == pytest.approx(1.0)


def test_the_gain_of_the_taxi_follows_from_its_shortest_rides() -> None:
    """Follow the optimal policy from every start to its end; episodes renew the process."""
    env: Any = TaxiEnv()
    mdp = to_mdp(env)
    plan = sm.optimal_gain(mdp)
    assert mdp.state_labels is not None
    policy = dict(zip(map(int, mdp.state_labels), plan.policy.tolist(), strict=True))
    weights, lengths, earned = env.initial_state_distrib, 0.0, 0.0
    for start in np.flatnonzero(weights):
        state, ended = int(start), False
        while not ended:
            _, state, reward, ended = env.P[state][policy[state]][0]
            lengths += weights[start]
            earned += weights[start] * (reward + 10) / 30
    assert plan.gain == pytest.approx(earned / lengths, abs=1e-8)


def test_states_are_labelled_by_their_number_in_the_environment() -> None:
    mdp = to_mdp(FrozenLakeEnv(is_slippery=False))
    tiles = np.ravel(FrozenLakeEnv().desc)
    assert mdp.state_labels == tuple(
        str(s) for s in np.flatnonzero((tiles == b"F") | (tiles == b"S"))
    )


def test_termination_leads_to_a_start_state() -> None:
    """With probability 1/2 the episode ends, and starts again in a state that is drawn."""
    P = table((0.5, 1, 1.0, True), (0.5, 1, 0.0, False))
    mdp = to_mdp(Table(P, start=[0.25, 0.75]))
    assert mdp.transitions[0, 0].tolist() == [0.125, 0.875]
    assert mdp.rewards[0, 0] == 0.5
    assert to_mdp(Table(P, start=np.array([1, 3]))).transitions[0, 0].tolist() == [0.125, 0.875]


def test_rewards_are_mapped_from_the_range_given() -> None:
    P = table((1.0, 1, -1.0, False))
    assert to_mdp(Table(P)).rewards.tolist() == [[0.0, 0.5], [1.0, 0.5]]
    assert to_mdp(Table(P), reward_range=(-1, 3)).rewards.tolist() == [[0.0, 0.25], [0.5, 0.25]]
    with pytest.raises(InvalidEnvironment, match="within reward_range"):
        to_mdp(Table(P), reward_range=(0, 1))
    bad: list[Any] = [(1, 0), (0,), 5, (0, float("nan"))]
    for reward_range in bad:
        with pytest.raises(InvalidParameter, match="reward_range must be"):
            to_mdp(Table(P), reward_range=reward_range)


def test_constant_rewards_are_accepted() -> None:
    same = {s: {a: [(1.0, 1 - s, 7, False)] for a in (0, 1)} for s in (0, 1)}
    assert to_mdp(Table(same)).rewards.tolist() == [[0.0, 0.0], [0.0, 0.0]]


def test_actions_that_the_model_lacks_are_not_available() -> None:
    P = table()
    del P[1][1]
    P[0][1] = []
    assert to_mdp(Table(P)).available.tolist() == [[True, False], [True, False]]


def test_a_dead_end_is_not_communicating() -> None:
    P = {0: {0: [(1.0, 1, 0.0, False)]}, 1: {0: [(1.0, 1, 1.0, False)]}}
    assert not sm.is_communicating(to_mdp(Table(P)))


MALFORMED: list[Any] = [
    {}, {0: {}}, {0: None}, {0: [1, 2]}, {0: {0: None}}, {0: {0: [1]}}, {0: {0: [(1.0, 0, 0.0)]}},
    {"0": {0: [(1.0, 0, 0.0, False)]}}, {1: {0: [(1.0, 0, 0.0, False)]}},
    table((1.0, 2, 0.0, False)), table((1.0, -1, 0.0, False)), table((1.0, 1.0, 0.0, False)),
    table((1.0, None, 0.0, False)),
    table((1.0, 1, 0.0, 1)), table((1.0, 1, 0.0, None)), table((-0.5, 1, 0.0, False)),
    table((1.5, 1, 0.0, False)), table(("1", 1, 0.0, False)), table((float("nan"), 1, 0.0, False)),
    table((1.0, 1, float("nan"), False)), table((1.0, 1, float("inf"), False)),
    table((1.0, 1, None, False)), table((1.0, 1, "1", False)), table((1.0, 1, True, False)),
    table((1.0, 1, 10**400, False)), table((1.0, 1, 0.0, False, 1)),
    {**table(), 1: {2: [(1.0, 0, 0.0, False)]}}, {**table(), 1: {10**12: [(1.0, 0, 0.0, False)]}},
]  # fmt: skip


@pytest.mark.parametrize("P", MALFORMED, ids=lambda P: f"{P!r:.70}")
def test_a_malformed_model_is_rejected(P: Any) -> None:
    start = [1.0, *[0.0] * (len(P) - 1)]
    with pytest.raises(InvalidEnvironment):
        to_mdp(Table(P, start))


@pytest.mark.parametrize(
    "P",
    [
        table((0.5, 1, 0.0, False)),
        table((0.9, 0, 0.0, False), (0.9, 1, 0.0, False)),
        {**table(), 1: {}},
    ],
)
def test_rows_that_are_not_distributions_are_rejected(P: Any) -> None:
    with pytest.raises(InvalidMDP, match=r"sum to|no available action"):
        to_mdp(Table(P))


@pytest.mark.parametrize(
    "start", [[1.0], [0.0, 0.0], [-1.0, 2.0], [float("nan"), 1.0], "start", [[1.0, 0.0]], 1.0, {}]
)
def test_a_start_must_be_a_distribution(start: Any) -> None:
    with pytest.raises(InvalidEnvironment, match="initial_state_distrib must be 2 probabilities"):
        to_mdp(Table(table(), start))


def test_an_environment_without_a_model_has_no_mdp() -> None:
    for env in (gymnasium.make("switchmdp/Riverswim-v0"), Table(None), Table([[]])):
        with pytest.raises(Mismatch, match="has no model P"):
            to_mdp(env)
    with pytest.raises(Mismatch, match="has no initial_state_distrib"):
        to_mdp(Table(table(), start=None))


def test_wrapped_environments_are_unwrapped() -> None:
    wrapped = gymnasium.wrappers.TimeLimit(FrozenLakeEnv(is_slippery=False), 10)
    assert to_mdp(wrapped).n_states == 11
