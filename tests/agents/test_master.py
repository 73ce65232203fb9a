"""MASTER: its schedule, rates and tests, which instance acts and learns, and when it restarts."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import switchmdp as sm
from switchmdp.agents import MASTER, master
from switchmdp.agents.master import Instances, StationarityTests
from switchmdp.agents.saving import check_agent_state
from switchmdp.errors import InvalidParameter
from switchmdp.randomness import stream, uniform

pytestmark = pytest.mark.xdist_group("SpanBall")

RATES = np.array([8.0, 4.0, 2.0, 1.0])  # in a block of 8: chances 1/8, 1/4, 1/2 and 1


def live(**more: Any) -> MASTER:
    """An agent whose tests and base algorithm react within a few thousand steps."""
    parameters: dict[str, Any] = {
        "horizon": 4000,
        "diameter": 1.0,
        "scale": 1e-3,
        "confidence": 0.5,
    } | more
    return MASTER(3, 2, **parameters)


def the_tests(horizon: int, scale: float = 1.0, diameter: float = 1.0) -> StationarityTests:
    return StationarityTests(
        5, 3, horizon=horizon, diameter=diameter, delta=0.1, scale=scale, orders=4
    )  # fmt: skip


def acting(instances: Instances, steps: int) -> list[int]:
    """The order that acts in each of the next steps."""
    orders = []
    for clock in range(instances.begin, instances.begin + steps):
        while instances.next_start <= clock:
            instances.start()
        orders.append(instances.living(clock))
    return orders


def test_the_schedule_of_eight_steps_matches_the_calculation_by_hand(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Order 3 runs in steps 1-8, 1 in 1-2, 0 in 2, 0 in 4, 2 in 5-8, 0 in 6, 1 in 7-8."""
    draws = iter([
        0.99, 0.7, 0.2, 0.5,  # τ = 0, orders 3, 2, 1, 0: 3 and 1 start
        0.1,  # τ = 1, order 0: it starts
        0.3, 0.2,  # τ = 2, orders 1, 0: none
        0.12,  # τ = 3, order 0: it starts
        0.4, 0.9, 0.9,  # τ = 4, orders 2, 1, 0: 2 starts
        0.05,  # τ = 5: it starts
        0.24, 0.5,  # τ = 6, orders 1, 0: 1 starts
        0.3,  # τ = 7: none
    ])  # fmt: skip
    monkeypatch.setattr(master, "uniform", lambda words: next(draws))
    instances = Instances(RATES)
    instances.n = 2  # the block before had four steps
    instances.open_block(101)
    assert instances.n == 3
    assert acting(instances, 8) == [1, 0, 3, 0, 2, 0, 1, 1]
    assert next(draws, None) is None
    assert instances.next_start == 109


def test_each_order_starts_as_often_as_the_rates_say() -> None:
    instances, counts = Instances(RATES, seed=1), np.zeros(4)
    for _ in range(2000):
        instances.n = 2
        instances.open_block(1)
        while instances.next_start < 9:
            counts += instances.starting
            instances.start()
    slots = np.array([8, 4, 2, 1]) * 2000
    assert counts / slots == pytest.approx([1 / 8, 1 / 4, 1 / 2, 1], abs=0.02)


def test_blocks_double_up_to_the_length_of_the_last_order() -> None:
    agent = MASTER(2, 1, horizon=10, diameter=1.0)
    begins = []
    for t in range(1, 40):
        agent.act(0)
        if agent.instances.begin == t:
            begins.append(t)
        agent.observe(0, 0, 1.0, 0)
    assert agent.restart_count == 0
    assert begins == [1, 2, 4, 8, 16, 24, 32]


def test_drawing_the_schedule_step_by_step_equals_drawing_it_at_once() -> None:
    agent, state, rng = (
        MASTER(3, 2, horizon=4000, diameter=1.0, seed=7),
        0,
        np.random.default_rng(0),
    )
    words, rho = stream(7), agent.instances.rho
    expected: list[int] = []
    for n in range(11):
        acts = np.full(2**n, n)
        for tau in range(2**n):
            for m in range(n, -1, -1):
                if tau % 2**m == 0 and uniform(words) < rho[n] / rho[m]:
                    span = acts[tau : tau + 2**m]
                    np.minimum(span, m, out=span)
        expected += acts.tolist()
    for order in expected:
        action = agent.act(state)
        assert agent.active == order
        target = int(rng.integers(3))
        agent.observe(state, action, 1.0, target)
        state = target
    assert len(set(expected)) > 5


def test_an_instance_learns_only_from_its_own_steps_and_continues_after_a_pause() -> None:
    agent, rng, state = live(), np.random.default_rng(0), 0
    agent.instances.rho = np.geomspace(1, 0.02, 12)
    own = np.zeros((12, 6), int)
    quotas: dict[int, list[int]] = {}
    resumed = 0
    for _ in range(3000):
        before = agent.active
        left = agent.quota.tolist()
        action = agent.act(state)
        m = agent.active
        if m != before:
            quotas[before] = left
        own[agent.instances.ends == agent.clock + 2 ** np.arange(12)] = 0  # those that start now
        if m != before and m in quotas and agent.quota.tolist() == quotas[m]:
            resumed += 1
        target = int(rng.integers(3))
        agent.observe(state, action, float(rng.random() < 0.5), target)
        own[m, 2 * state + action] += 1
        state = target
        if agent.clock % 97 == 0:
            agent.absorb()
            rows = agent.memory.counts.visits.reshape(12, 6)
            for k in range(12):
                if agent.instances.ends[k] >= agent.clock:
                    assert rows[k].tolist() == own[k].tolist()
                    assert agent.paused.steps[k] == own[k].sum()
    assert resumed > 50


def test_the_rates_match_the_calculation_by_hand() -> None:
    tests = the_tests(2**16)
    assert tests.rho(10) == 1.0  # min(5 √.3 + 1.5, 1)
    assert tests.rho(300) == pytest.approx(0.55)  # 5 √.01 + 15/300
    assert tests.rho(100_000) == pytest.approx(0.0273861 + 0.00015, abs=1e-7)
    # 18 · (16 + 1) · log(655360) · .55 = 306 · 13.3929 · .55
    assert tests.rho_hat(300) == pytest.approx(2254.03, abs=0.01)
    assert the_tests(2**16, scale=0.01).rho_hat(300) == pytest.approx(22.5403, abs=1e-4)
    assert the_tests(2**16, diameter=3.0).rho(300) == pytest.approx(1.65)


def test_with_the_papers_constants_test_2_cannot_fail_before_1e11_steps() -> None:
    """The mean of g̃ - R is at most 1, and ρ̂(t) falls with t: 3 ρ̂(T) <= 1 is needed."""
    first = {}
    for diameter in (1.0, 2.0):
        for exponent in np.arange(1.0, 15.0, 0.01):
            tests = the_tests(int(10**exponent), diameter=diameter)
            if 3 * tests.rho_hat(int(10**exponent)) <= 1:
                first[diameter] = exponent
                break
    assert 11.4 < first[1.0] < 11.5
    assert 12.0 < first[2.0] < 12.2
    assert 9 * the_tests(10**12).rho_hat(10**12) > 1.5  # and Test 1 still less


def test_test_1_fails_if_a_span_earns_more_than_its_optimistic_bound() -> None:
    tests = the_tests(2**16)
    tests.factor = 0.01
    tests.take_in(np.array([0.0, 0.0]), 0, 2, 0.5)
    tests.start(2)
    tests.take_in(np.array([1.0, 0.0, 1.0, 1.0]), 0, 4, 0.9)
    assert tests.lowest == 0.5
    # Order 2: the mean of its four steps is .75, and U + 9 ρ̂(4) = .5 + .09.
    assert tests.test_1_fails(2)
    tests.factor = 0.03
    assert not tests.test_1_fails(2)  # .5 + .27


def test_test_2_fails_if_rewards_fall_below_the_predicted_gain() -> None:
    tests = the_tests(2**16)
    tests.factor = 0.1
    tests.take_in(np.array([1.0, 0.5]), 0, 2, 0.95)
    assert tests.gap == pytest.approx(0.4)
    assert tests.most_gap(2) == pytest.approx(0.6)  # 3 · 2 · .1
    assert not tests.test_2_fails(2)
    tests.take_in(np.array([9.0, 9.0, 0.4]), 2, 3, 0.95)
    assert tests.test_2_fails(3)  # .95 >= .9


@pytest.mark.parametrize("seed", range(3))
def test_it_restarts_exactly_at_the_steps_at_which_a_test_fails(seed: int) -> None:
    """Both tests are computed after every step from the actions and rewards alone."""
    agent = live(seed=seed, scale=2e-4, confidence=0.05)
    rng, state = np.random.default_rng(seed), 0
    factor = 2e-4 * 18 * (math.log2(4000) + 1) * math.log(4000 / 0.05)
    gains: list[float] = []
    rewards: list[float] = []
    born: dict[int, int] = {}
    restarts = 0

    def rho_hat(t: int) -> float:
        return factor * min(3 * math.sqrt(2 / t) + 6 / t, 1.0)

    fails = False
    for t in range(1, 4000):
        action = agent.act(state)
        restarts += fails
        assert agent.restart_count == restarts
        if agent.instances.begin == t:
            gains, rewards, born = [], [], {}
        for m, end in enumerate(agent.instances.ends.tolist()):
            if end == t + 2**m:
                born[m] = len(rewards)
        gains.append(agent.gain)
        reward = float(rng.random() < (0.9 if t < 1300 else 0.1))
        rewards.append(reward)
        target = int(rng.integers(3))
        agent.observe(state, action, reward, target)
        state = target
        n = len(rewards)
        first = [
            np.mean(rewards[born[m] :]) >= min(gains) + 9 * rho_hat(2**m)
            for m, end in enumerate(agent.instances.ends.tolist()) if end == t + 1
        ]  # fmt: skip
        second = sum(g - r for g, r in zip(gains, rewards, strict=True)) / n >= 3 * rho_hat(n)
        fails = bool(any(first) or second)
    assert restarts >= 1


def test_a_failed_test_1_restarts_at_the_end_of_the_span() -> None:
    agent = live(scale=2e-4)
    for _ in range(70):
        agent.observe(0, agent.act(0), 1.0, 0)
    agent.tests.lowest = -10.0
    for _ in range(64):
        agent.act(0)
        ends = bool((agent.instances.ends == agent.clock + 1).any())
        agent.observe(0, 0, 1.0, 0)
        if ends:
            break
        agent.act(0)
        assert agent.restart_count == 0
    agent.act(0)
    assert agent.restart_count == 1
    assert agent.instances.begin == agent.clock


def test_a_signal_of_the_base_algorithm_causes_a_restart() -> None:
    agent = live()
    for _ in range(100):
        agent.observe(0, agent.act(0), 1.0, 0)
    limit = 4 * 3 * math.sqrt(2 * 50 * math.log(3 * 2 * 4000 / 0.05))
    assert agent.most_drift(50) == pytest.approx(limit)
    agent.act(0)
    assert agent.restart_count == 0
    agent.paused.drifts[:] = 1e4
    agent.look_at = 1
    agent.act(0)
    assert agent.restart_count == 1
    assert (agent.instances.n, agent.instances.begin) == (0, agent.t)


def test_each_step_adds_the_widening_of_its_episode_to_the_drift() -> None:
    agent, rng, state = live(diameter=0.01), np.random.default_rng(0), 0
    agent.instances.rho = np.geomspace(1, 0.02, 12)
    sums = np.zeros(12)
    for _ in range(1000):
        action = agent.act(state)
        m = agent.active
        if agent.paused.steps[m] == 0:
            sums[m] = 0.0
        sums[m] += agent.plausible.widening
        target = int(rng.integers(3))
        agent.observe(state, action, float(target == 0), target)
        state = target
    agent.absorb()
    there = agent.instances.ends >= agent.clock
    assert agent.paused.drifts[there] == pytest.approx(sums[there])


def test_with_the_papers_constants_it_takes_the_lowest_action_for_a_thousand_visits() -> None:
    """The rewards' radius 8 √(log(SAT/δ)/N) is below 1 only after 64 log(SAT/δ) visits."""
    agent = MASTER(5, 3, horizon=100_000, diameter=1.0, delta=0.1)
    assert 64 * agent.plausible.log == pytest.approx(1057.5, abs=0.1)
    assert agent.plausible.reward_radius(1057, 1) > 1.0 > agent.plausible.reward_radius(1058, 1)
    problem = sm.problems.random_switching(5, 3, changes=1, horizon=5000, seed=0)
    record = sm.simulate(agent, problem, 5000, trajectory=True)
    assert record.trajectory is not None
    assert (record.trajectory.actions == 0).all()


def test_it_learns_with_smaller_scale_and_confidence_terms() -> None:
    mdp = sm.problems.random_mdp(3, 2, seed=3)
    regret = {}
    for confidence in (8.0, 0.2):
        agent = MASTER(3, 2, horizon=20_000, diameter=2.0, confidence=confidence)
        regret[confidence] = sm.simulate(agent, mdp, 20_000, seed=0).pseudo_regret[-1]
    random = sm.simulate(sm.agents.Random(3, 2), mdp, 20_000, seed=0).pseudo_regret[-1]
    assert regret[0.2] < 0.65 * min(random, regret[8.0])


@pytest.mark.parametrize(
    "make",
    [
        lambda: MASTER(3, 2, horizon=3000, diameter=2.0),
        lambda: live(scale=3e-3, available=np.array([[True, True], [False, True], [True, False]])),
        lambda: live(scale=6e-4),
        lambda: live(diameter=0.05, scale=0.1, confidence=0.1),
    ],
    ids=["printed", "uneven", "restarting", "widening"],
)  # fmt: skip
def test_it_passes_the_agent_contract(make: Any) -> None:
    sm.check_agent(make, steps=2500, memory_steps=5000, strict=True)


def test_successor_lists_are_counted_separately_for_each_order() -> None:
    problem = sm.SwitchingMDP([sm.problems.random_mdp(70, 1, seed=s) for s in (0, 1)], [900])
    runs = []
    for interpreted in (False, True):
        agent = MASTER(70, 1, horizon=2000, diameter=1.0, confidence=0.02, scale=5e-3)
        agent.instances.rho = np.geomspace(1, 0.02, 11)
        runs.append(sm.simulate(agent, problem, 2000, seed=1, episodes=True,
                                interpreted=interpreted))  # fmt: skip
        assert agent.memory.counts.visits.sum() > 300
        agent.instances.rho = agent.rates(11)
        check_agent_state(agent)
    assert np.array_equal(runs[0].regret, runs[1].regret)
    assert runs[0].episodes is not None
    assert runs[1].episodes is not None
    assert np.array_equal(runs[0].episodes.start, runs[1].episodes.start)
    assert np.array_equal(runs[0].episodes.gain, runs[1].episodes.gain)
    assert runs[0].episodes.gain.min() < 0.9


def test_states_and_actions_can_be_added_during_a_run() -> None:
    agent, rng, state = live(), np.random.default_rng(0), 0
    for n_states in (3, 5):
        if n_states == 5:
            agent.grow(5, 3)
            check_agent_state(agent)
        for _ in range(500):
            action, target = agent.act(state), int(rng.integers(n_states))
            agent.observe(state, action, 0.5, target)
            state = target
    assert agent.t == 1001
    fresh = MASTER(5, 3, horizon=4000, diameter=1.0, scale=1e-3, confidence=0.5)
    assert agent.instances.rho.tolist() == fresh.instances.rho.tolist()
    check_agent_state(agent)


def test_bad_parameters_are_rejected() -> None:
    good: dict[str, Any] = {"horizon": 100, "diameter": 1.0}
    for name in ("diameter", "scale", "confidence"):
        for bad in (0, -1.0, math.inf, math.nan, "1", None, True):
            with pytest.raises(InvalidParameter, match=name):
                MASTER(3, 2, **(good | {name: bad}))
    for name, bad in (("horizon", 0), ("horizon", 1.5), ("delta", 1.0), ("seed", -1)):
        with pytest.raises(InvalidParameter, match=name):
            MASTER(3, 2, **(good | {name: bad}))
