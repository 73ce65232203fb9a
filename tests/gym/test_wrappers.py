"""Environments that change: schedules, kinds of changes, and their random numbers."""

from __future__ import annotations

import copy
import itertools
from typing import Any, ClassVar

import gymnasium
import numpy as np
import pytest
from gymnasium.envs.toy_text.taxi import TaxiEnv

import switchmdp as sm
from switchmdp.errors import InvalidAction, InvalidParameter, Mismatch
from switchmdp.gym import (
    At,
    AtRate,
    Change,
    Changing,
    Every,
    PermuteActions,
    PerturbTransitions,
    RescaleRewards,
    ReseedMap,
    Schedule,
    SwitchingEnv,
    make_env,
    play,
    to_mdp,
)


def lake(**parameters: Any) -> gymnasium.Env[Any, Any]:
    return gymnasium.make("FrozenLake-v1", **parameters)


def model(env: gymnasium.Env[Any, Any]) -> Any:
    return copy.deepcopy(env.unwrapped.P)  # type: ignore[attr-defined]


def steps_of_changes(env: Changing, steps: int, policy: Any = lambda t: t % 4) -> list[int]:
    """The steps before which something changed, including resets."""
    env.reset(seed=0)
    changed = []
    for t in range(1, steps + 1):
        before = env.changes
        *_, terminated, truncated, info = env.step(policy(t))
        assert info["changes"] == env.changes
        if env.changes != before:
            changed.append(t)
        if terminated or truncated:
            assert env.reset()[1]["changes"] == env.changes
    return changed


def history(env: Changing, steps: int, policy: Any) -> list[Any]:
    """The model after every step."""
    env.reset(seed=0)
    models = []
    for t in range(1, steps + 1):
        *_, terminated, truncated, _ = env.step(policy(t))
        models.append(model(env))
        if terminated or truncated:
            env.reset()
    return models


def test_at_changes_at_its_steps() -> None:
    env = Changing(lake(), when=At([2, 3, 30]), how=PermuteActions())
    assert steps_of_changes(env, 40) == [2, 3, 30]


def test_every_changes_after_each_period() -> None:
    env = Changing(lake(), when=Every(10), how=PermuteActions())
    assert steps_of_changes(env, 40) == [11, 21, 31]


def test_every_with_period_1_is_a_drift() -> None:
    env = Changing(lake(), when=Every(1), how=PerturbTransitions(0.01))
    assert steps_of_changes(env, 20) == list(range(2, 21))


def test_at_rate_changes_with_its_probability() -> None:
    env = Changing(lake(), when=AtRate(0.1), how=RescaleRewards(0.5, 1.0), seed=1)
    assert abs(len(steps_of_changes(env, 3000)) - 300) < 4.5 * np.sqrt(3000 * 0.09)


def test_resets_do_not_reset_the_step_counter() -> None:
    env = Changing(lake(), when=At([5]), how=PermuteActions(), seed=2)
    env.reset(seed=0)
    for _ in range(3):
        env.step(0)
        env.reset(seed=0)
    assert env.t == 4
    env.step(0)
    assert env.changes == 0
    env.reset()
    env.step(0)
    assert env.changes == 1
    order = env.how[0].order  # type: ignore[attr-defined]
    env.reset(seed=0)
    assert env.how[0].order is order  # type: ignore[attr-defined]


def test_actions_are_permuted() -> None:
    """In a lake that is not slippery each action has its own next state from the middle."""
    env = Changing(
        lake(desc=["SFF", "FFF", "FFG"], is_slippery=False), when=Every(50), how=PermuteActions(),
        seed=3,
    )  # fmt: skip
    inner: Any = env.unwrapped
    orders = []
    for block in range(6):
        led = []
        for k in range(50):
            env.reset(seed=0)
            inner.s = 4
            led.append(int(env.step(k % 4)[0]))
        moves = led[:4]
        assert sorted(moves) == [1, 3, 5, 7]
        assert led == [moves[k % 4] for k in range(50)]
        orders.append(moves)
        assert env.changes == block
    assert orders[0] == [3, 7, 5, 1]
    assert all(before != after for before, after in itertools.pairwise(orders))


def test_two_actions_swap_at_every_change() -> None:
    change = PermuteActions()
    change.attach(make_env("riverswim"))
    rng = np.random.default_rng(0)
    for i in range(1, 10):
        change.apply(rng)
        assert change.order.tolist() == ([1, 0] if i % 2 else [0, 1])


def test_permuting_respects_where_actions_start() -> None:
    env = lake()
    env.unwrapped.action_space = gymnasium.spaces.Discrete(4, start=10)
    change = PermuteActions()
    change.attach(env.unwrapped)
    change.apply(np.random.default_rng(0))
    assert sorted(change.action(a) for a in range(10, 14)) == [10, 11, 12, 13]
    bad: list[Any] = [9, 14, 0, -1, 10.0, None, "10"]
    for action in bad:
        with pytest.raises(InvalidAction, match="an integer from 10 to 13"):
            change.action(action)


def test_rewards_are_rescaled_by_one_factor_until_the_next_change() -> None:
    env = Changing(
        SwitchingEnv(sm.MDP([[[1.0]]], [[0.5]], law=sm.Deterministic())),
        when=Every(10), how=RescaleRewards(0.2, 0.9), seed=4,
    )  # fmt: skip
    env.reset(seed=0)
    factors = [env.step(0)[1] / 0.5 for _ in range(50)]
    assert factors[:10] == [1.0] * 10
    for i in range(10, 50, 10):
        assert len(set(factors[i : i + 10])) == 1
        assert 0.2 <= factors[i] <= 0.9
    assert len(set(factors)) == 5


def test_perturbing_changes_the_model_and_keeps_it_valid() -> None:
    env = Changing(lake(), when=Every(1), how=PerturbTransitions(0.1), seed=5)
    before = model(env)
    models = history(env, 300, lambda t: t % 4)
    assert models[0] == before
    assert models[1] != before
    for s, a in itertools.product(range(16), range(4)):
        old, new = before[s][a], models[-1][s][a]
        assert [entry[1:] for entry in old] == [entry[1:] for entry in new]
        assert abs(sum(entry[0] for entry in new) - 1.0) < 1e-12
        assert all(entry[0] >= 0.0 for entry in new)
    drift = max(
        abs(one[0] - two[0])
        for s, a in itertools.product(range(16), range(4))
        for one, two in zip(models[-2][s][a], models[-1][s][a], strict=True)
    )
    assert 0.0 < drift <= 0.1
    to_mdp(env)  # still a model


def test_the_environment_follows_its_changed_model() -> None:
    env = Changing(lake(), when=At([2]), how=PerturbTransitions(0.99), seed=6)
    env.reset(seed=0)
    env.step(0)
    env.step(0)
    inner: Any = env.unwrapped
    seen, n = np.zeros(16), 4000
    for _ in range(n):
        inner.s = 14
        seen[int(env.env.unwrapped.step(1)[0])] += 1
    row = np.zeros(16)
    for p, target, *_ in inner.P[14][1]:
        row[target] += p
    assert np.abs(seen / n - row).max() < 4.5 * np.sqrt(0.25 / n)
    assert abs(row.max() - 1 / 3) > 0.05


def test_a_change_does_not_affect_other_environments() -> None:
    class Shared(gymnasium.Env[Any, Any]):
        """Keeps its model on the class, as many small environments do."""

        observation_space = gymnasium.spaces.Discrete(2)
        action_space = gymnasium.spaces.Discrete(1)
        P: ClassVar[Any] = {s: {0: [(0.5, 0, 0.0, False), (0.5, 1, 1.0, False)]} for s in (0, 1)}

        def step(self, action: Any) -> Any:
            return 0, 0.0, False, False, {}

        def reset(self, *, seed: Any = None, options: Any = None) -> Any:
            return 0, {}

    for make in (lake, Shared):
        other = make()
        before = model(other)
        env = Changing(make(), when=Every(1), how=PerturbTransitions(0.5))
        env.reset(seed=0)
        for _ in range(3):
            env.step(0)
            env.reset()
        assert model(env) != before
        assert model(other) == before
        assert model(make()) == before


def test_one_change_object_can_be_shared_by_environments() -> None:
    how = PermuteActions()
    one, two = (Changing(lake(), when=At([2]), how=how, seed=seed) for seed in (1, 1))
    one.reset(seed=0)
    one.step(0)
    one.step(0)
    assert one.how[0].order.tolist() != [0, 1, 2, 3]  # type: ignore[attr-defined]
    assert two.how[0].order.tolist() == [0, 1, 2, 3]  # type: ignore[attr-defined]
    assert not hasattr(how, "order")


@pytest.mark.parametrize("slippery", [True, False])
@pytest.mark.parametrize("name", ["4x4", "8x8"])
def test_a_new_map_is_a_lake_of_the_same_kind(name: str, slippery: bool) -> None:
    env = Changing(lake(map_name=name, is_slippery=slippery), when=Every(5), how=ReseedMap())
    inner: Any = env.unwrapped
    maps = []
    for _ in range(8):
        history(env, 5, lambda t: t % 4)
        tiles = inner.desc
        same: Any = lake(desc=[b"".join(row).decode() for row in tiles], is_slippery=slippery)
        assert same.unwrapped.P == inner.P
        assert (tiles[0, 0], tiles[-1, -1]) == (b"S", b"G")
        maps.append(tiles.tobytes())
    assert len(set(maps)) == 8
    assert sm.optimal_gain(to_mdp(env)).gain > 0.0  # there is a way


def test_a_new_map_keeps_rewards_and_slipperiness() -> None:
    rules: dict[str, Any] = {"success_rate": 0.75, "reward_schedule": (10, -5, -1)}
    env = Changing(lake(**rules), when=At([2]), how=ReseedMap(p=0.6), seed=1)
    inner: Any = env.unwrapped
    old = inner.desc
    history(env, 2, lambda t: 0)
    assert (inner.desc != old).any()
    tiles = [b"".join(row).decode() for row in inner.desc]
    same: Any = lake(desc=tiles, **rules)
    assert same.unwrapped.P == inner.P


def test_an_agent_on_a_new_hole_is_terminated() -> None:
    env = Changing(lake(is_slippery=False), when=At([2]), how=ReseedMap(p=0.5), seed=0)
    inner: Any = env.unwrapped
    env.reset(seed=0)
    env.step(0)
    inner.s = int(np.argmax(_after_one_change(0).ravel() == b"H"))
    here = inner.s
    observation, reward, terminated, *_ = env.step(0)
    assert (int(observation), reward, terminated) == (here, 0.0, True)


def _after_one_change(seed: int) -> Any:
    env = Changing(lake(is_slippery=False), when=At([2]), how=ReseedMap(p=0.5), seed=seed)
    history(env, 2, lambda t: 0)
    return env.unwrapped.desc  # type: ignore[attr-defined]


def test_an_error_is_raised_if_no_map_has_a_path() -> None:
    env = Changing(lake(map_name="8x8"), when=At([2]), how=ReseedMap(p=0.01))
    env.reset(seed=0)
    env.step(0)
    with pytest.raises(Mismatch, match="10000 random maps of size"):
        env.step(0)


@pytest.mark.parametrize(
    "how",
    [
        [PerturbTransitions(0.3)],
        [ReseedMap()],
        [ReseedMap(), PerturbTransitions(0.3)],
        [PermuteActions(), RescaleRewards(0.5, 1.0), ReseedMap(), PerturbTransitions(0.2)],
    ],
)
@pytest.mark.parametrize("when", [Every(7), AtRate(0.2), At([3, 20])])
def test_the_changes_depend_only_on_the_seed(when: Any, how: list[Any]) -> None:
    def run(seed: int, policy: Any) -> tuple[list[Any], Any]:
        env = Changing(lake(), when=when, how=how, seed=seed)
        return history(env, 60, policy), env.rng.bit_generator.state

    models, words = run(1, lambda t: t % 4)
    again, words_again = run(1, lambda t: (t * t) % 3)
    assert again == models
    assert words_again == words
    assert run(2, lambda t: t % 4)[0] != models


def test_changes_are_applied_in_order() -> None:
    """First a new map, then a perturbation, so that rows are no longer thirds."""
    env = Changing(lake(), when=At([2]), how=[ReseedMap(), PerturbTransitions(0.5)])
    P = history(env, 2, lambda t: 0)[-1]
    assert {entry[0] for entry in P[0][0]}.isdisjoint({1 / 3})


def test_wrappers_can_be_nested() -> None:
    inner = Changing(lake(), when=Every(3), how=PermuteActions(), seed=1)
    outer = Changing(inner, when=Every(5), how=PerturbTransitions(0.2), seed=2)
    assert steps_of_changes(outer, 20) == [6, 11, 16]
    assert inner.changes == 6


class Fixed:
    """A user's schedule and change."""

    def due(self, t: int, rng: np.random.Generator) -> bool:
        return t == 2

    def attach(self, env: gymnasium.Env[Any, Any]) -> None:
        self.paid = 0.0

    def apply(self, rng: np.random.Generator) -> None:
        self.paid = 7.0

    def action(self, action: Any) -> Any:
        return action

    def reward(self, reward: float) -> float:
        return self.paid


def test_custom_schedules_and_changes_work() -> None:
    assert isinstance(Fixed(), Schedule)
    assert isinstance(Fixed(), Change)
    env = Changing(lake(), when=Fixed(), how=Fixed())
    env.reset(seed=0)
    assert [env.step(0)[1] for _ in range(3)] == [0.0, 7.0, 7.0]


@pytest.mark.parametrize(
    ("make", "field"),
    [
        (lambda: At([1]), "steps"),
        (lambda: At([5, 5]), "steps"),
        (lambda: At([2.5]), "steps"),  # type: ignore[list-item]
        (lambda: At("2"), "steps"),  # type: ignore[arg-type]
        (lambda: Every(0), "period"),
        (lambda: Every(1.5), "period"),  # type: ignore[arg-type]
        (lambda: AtRate(0.0), "rate"),
        (lambda: AtRate(2), "rate"),
        (lambda: AtRate(float("nan")), "rate"),
        (lambda: RescaleRewards(0.0, 1.0), "low"),
        (lambda: RescaleRewards(1.0, float("inf")), "high"),
        (lambda: RescaleRewards(2.0, 1.0), "low"),
        (lambda: PerturbTransitions(1.5), "amount"),
        (lambda: PerturbTransitions(None), "amount"),  # type: ignore[arg-type]
        (lambda: ReseedMap(p=0), "p"),
        (lambda: Changing(lake(), when=Every(2), how=PermuteActions(), seed=-1), "seed"),
        (lambda: Changing("FrozenLake-v1", when=Every(2), how=PermuteActions()), "env"),  # type: ignore[arg-type]
        (lambda: Changing(lake(), when=5, how=PermuteActions()), "when"),  # type: ignore[arg-type]
        (lambda: Changing(lake(), when=Every(2), how=[]), "how"),
        (lambda: Changing(lake(), when=Every(2), how="map"), "how"),  # type: ignore[arg-type]
        (lambda: Changing(lake(), when=Every(2), how=Every(2)), "how"),  # type: ignore[arg-type]
    ],
)
def test_invalid_parameters_are_named(make: Any, field: str) -> None:
    with pytest.raises(InvalidParameter) as caught:
        make()
    assert caught.value.field == field


def test_environments_that_a_change_does_not_support_are_rejected() -> None:
    model_free = make_env("riverswim")
    for how in (PerturbTransitions(0.1), ReseedMap()):
        with pytest.raises(Mismatch, match="no model P"):
            Changing(model_free, when=Every(2), how=how)
    for env in (TaxiEnv(), lake(desc=["SFG"]), lake(desc=["FS", "GF"])):
        with pytest.raises(Mismatch, match="is not a square FrozenLake"):
            Changing(env, when=Every(2), how=ReseedMap())
    with pytest.raises(Mismatch, match="no probabilities to perturb"):
        Changing(lake(is_slippery=False), when=Every(2), how=PerturbTransitions(0.1))
    with pytest.raises(InvalidParameter, match="at least two actions"):
        Changing(SwitchingEnv(sm.MDP([[[1.0]]], [[0.5]])), when=Every(2), how=PermuteActions())
    available = [[True, False], [True, True]]
    gaps = sm.MDP(np.full((2, 2, 2), 0.5), np.full((2, 2), 0.5), available=available)
    with pytest.raises(Mismatch, match="every state has all of them"):
        Changing(SwitchingEnv(gaps), when=Every(2), how=PermuteActions())


def test_a_drifting_taxi_is_played_by_any_agent() -> None:
    env = Changing(TaxiEnv(is_rainy=True), when=Every(20), how=PerturbTransitions(0.05))
    played = play(sm.agents.Random(500, 6), env, 300, seed=0, reward_range=(-10, 20))
    assert set(played.rewards) <= {-10.0, -1.0, 20.0}
    assert env.changes == 14


def test_permuting_actions_makes_the_old_policy_worse() -> None:
    """The old path no longer leads to the goal until the original order of actions recurs."""
    plan = sm.optimal_gain(to_mdp(lake(is_slippery=False)))
    labels = to_mdp(lake(is_slippery=False)).state_labels
    assert labels is not None
    policy = {int(s): int(a) for s, a in zip(labels, plan.policy, strict=True)}
    env = Changing(lake(is_slippery=False), when=At([601]), how=PermuteActions(), seed=0)
    state, _ = env.reset(seed=0)
    rewards = []
    for _ in range(1200):
        state, reward, terminated, truncated, _ = env.step(policy[int(state)])
        rewards.append(reward)
        if terminated or truncated:
            state, _ = env.reset()
    assert sum(rewards[:600]) == 100.0
    assert sum(rewards[600:]) == 0.0
