"""Directed probes: gaps, routes and tests against literal versions, and detected changes."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest

import switchmdp as sm
from switchmdp.agents import DirectedProbes, EvidencePSRL
from switchmdp.agents.exploration import (
    NO_PAIR,
    NO_STATE,
    PRECISE,
    STEP,
    UNKNOWN,
    plan_route,
    solve_means,
)
from switchmdp.mdp.pairs import Pairs
from switchmdp.memory import Counts
from switchmdp.planning.hardness import action_gaps

pytestmark = pytest.mark.xdist_group("Posterior")

HORIZON = 20_000


def counted(mdp: sm.MDP, visits: int, seed: int = 0) -> tuple[Counts, sm.MDP]:
    """Counts of so many visits to each pair, and the MDP of the observed frequencies."""
    n, a = mdp.n_states, mdp.n_actions
    counts, rng = Counts(Pairs.of(n, a)), np.random.default_rng(seed)
    for s, action in itertools.product(range(n), range(a)):
        successors, row = mdp.successors(s, action)
        nexts = rng.choice(successors, visits, p=row).astype(np.uint32)
        pairs = np.full(visits, s * a + action, np.uint32)
        counts.add(pairs, nexts, np.full(visits, mdp.rewards[s, action]), 0, visits)
    rows = counts.count.reshape(n, a, n) / visits
    return counts, sm.MDP(rows, mdp.rewards)


def solved(counts: Counts, means: Any) -> tuple[float, Any]:
    pairs = Pairs.of(counts.n_states, means.shape[1])
    bias, gaps = np.zeros(counts.n_states), np.zeros(means.size)
    gain = solve_means(
        pairs.starts, counts.offset, counts.used, counts.target, counts.count, means.ravel().copy(),
        bias, np.zeros(counts.n_states), gaps,
    )  # fmt: skip
    return gain, gaps


@pytest.mark.parametrize("seed", range(4))
def test_gain_and_gaps_are_those_of_the_observed_frequencies(seed: int) -> None:
    counts, observed = counted(sm.problems.random_mdp(5, 3, seed=seed), 40)
    gain, gaps = solved(counts, observed.rewards)
    plan = sm.optimal_gain(observed)
    assert gain == pytest.approx(plan.gain, abs=PRECISE)
    np.testing.assert_allclose(gaps, action_gaps(observed, plan).ravel(), atol=5 * PRECISE)


def test_unvisited_pairs_have_no_gap_and_unvisited_states_change_nothing() -> None:
    counts = Counts(Pairs.of(3, 2))
    pairs = np.array([0, 0, 2, 3], np.uint32)
    counts.add(pairs, np.array([1, 1, 0, 1], np.uint32), np.ones(4), 0, 4)
    _, gaps = solved(counts, np.full((3, 2), 0.5))
    assert (gaps == -1.0).tolist() == [False, True, False, False, True, True]
    assert solved(Counts(Pairs.of(3, 2)), np.full((3, 2), 0.5))[0] == 0.0


def cost_of(rows: Any, gaps: Any, policy: Any, goal: int, last: float) -> Any:
    """The expected sum of gaps until a policy reaches the goal, by linear equations."""
    n = len(rows)
    inside = [s for s in range(n) if s != goal]
    p = np.array([rows[s, policy[s]] for s in inside])
    step = np.array([gaps[s, policy[s]] + STEP for s in inside])
    matrix = np.eye(n - 1) - p[:, inside]
    if abs(np.linalg.det(matrix)) < 1e-9:
        return np.full(n, np.inf)
    cost = np.full(n, last)
    cost[inside] = np.linalg.solve(matrix, step + last * p[:, goal])
    return cost


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("problem", ["dense", "river"])
def test_the_route_is_the_cheapest_of_all_policies(problem: str, seed: int) -> None:
    if problem == "dense":
        mdp = sm.problems.random_mdp(4, 2, seed=seed)
    else:
        mdp = sm.problems.riverswim(4)
    counts, observed = counted(mdp, 50, seed)
    gaps = np.maximum(0.0, action_gaps(observed, sm.optimal_gain(observed)))
    rows = counts.count.reshape(4, 2, 4) / 50
    target, goal = 7, 3
    cost, route = np.zeros(4), np.zeros(4, np.int64)
    plan_route(
        Pairs.of(4, 2).starts, counts.offset, counts.used, counts.target, counts.count,
        gaps.ravel().copy(), target, goal, cost, route,
    )  # fmt: skip
    assert route[goal] == target
    policies = itertools.product(range(2), repeat=4)
    best = np.min([cost_of(rows, gaps, p, goal, gaps[3, 1]) for p in policies], axis=0)
    cost_of_route = cost_of(rows, gaps, route - 2 * np.arange(4), goal, gaps[3, 1])
    np.testing.assert_allclose(cost_of_route, best, rtol=0.02, atol=1e-9)
    np.testing.assert_allclose(cost, best, rtol=0.05, atol=1e-9)


def watched(visits: int, rewards: int, delta: float = 0.01) -> tuple[Pairs, Counts, DirectedProbes]:
    """Two states; action 0 stays and earns, action 1 moves and earns `rewards` in all."""
    pairs = Pairs.of(2, 2)
    counts, probes = Counts(pairs), DirectedProbes(share=10.0, delta=delta)
    for pair in range(4):
        stays = pair % 2 == 0
        nexts = np.full(visits, pair // 2 if stays else 1 - pair // 2, np.uint32)
        earned = np.ones(visits) * 0.5 if stays else (np.arange(visits) < rewards) * 1.0
        counts.add(np.full(visits, pair, np.uint32), nexts, earned, 0, visits)
    probes.allocate(pairs)
    probes.funds = 100.0
    return pairs, counts, probes


def adjusted(pairs: Pairs, counts: Counts, probes: DirectedProbes, t: int) -> tuple[Any, Any]:
    choice, quota = pairs.starts[:-1].copy(), np.array([9, 9])
    probes.adjust(pairs.starts, counts, t, choice, quota)
    return choice, quota


def test_a_test_selects_a_pair_and_the_episode_travels_to_it() -> None:
    pairs, counts, probes = watched(20, 2)
    adjusted(pairs, counts, probes, 1)  # every pair was visited just now
    assert probes.target == NO_PAIR
    choice, quota = adjusted(pairs, counts, probes, 100)
    assert probes.target in (1, 3)
    assert probes.destination() == probes.goal == probes.target // 2
    assert choice[probes.goal] == probes.target
    assert quota[probes.goal] == 1
    assert quota[1 - probes.goal] == 9


def log_factor(before: tuple[int, int], since: tuple[int, int], moves: int, alpha: float) -> float:
    """log b of (visits, rewards); every visit before went to one state, `moves` since to the other.

    The rewards, the row or both have changed.
    """

    def beta(a: float, n: int, r: int) -> float:
        return math.lgamma(a + r) + math.lgamma(1 + n - r) - math.lgamma(a + 1 + n)

    def row(counts: tuple[int, int]) -> float:
        total = math.lgamma(2 * alpha) - math.lgamma(2 * alpha + sum(counts))
        return total + sum(math.lgamma(alpha + c) - math.lgamma(alpha) for c in counts)

    n, r = before[0] + since[0], before[1] + since[1]
    rewards = beta(1, *before) - beta(1, n, r) + beta(2, *since) - beta(2, 0, 0)
    old, new = (before[0], 0), (since[0] - moves, moves)
    both = (before[0] + since[0] - moves, moves)
    rows = row(old) + row(new) - row(both)
    return math.log((math.exp(rewards) + math.exp(rows) + math.exp(rewards + rows)) / 3)


def test_a_changed_pair_raises_the_alarm_when_its_bayes_factor_exceeds_the_threshold() -> None:
    """Four pairs, tested for the first time: b must exceed 4 · 1 · 2 / δ."""
    pairs, counts, probes = watched(20, 2)
    adjusted(pairs, counts, probes, 1)
    adjusted(pairs, counts, probes, 100)
    target, since, factors = probes.target, 0, []
    assert probes.concentration < 1.0  # every row has one successor
    while not probes.alarmed():
        step = np.array([target], np.uint32), np.array([target // 2], np.uint32), np.ones(1)
        counts.add(*step, 0, 1)
        since += 1
        factors.append(log_factor((20, 2), (since, since), since, probes.concentration))
        adjusted(pairs, counts, probes, 100 + since)
    threshold = math.log(4 * 1 * 2 / 0.01)
    assert factors[-1] > threshold
    assert (np.array(factors[:-1]) < threshold).all()
    assert since > 1
    suspects = np.zeros(4, np.bool_)
    assert probes.suspect(suspects, 100 + since) == since
    assert np.flatnonzero(suspects).tolist() == [target]


def test_an_unchanged_pair_is_visited_only_once() -> None:
    pairs, counts, probes = watched(40, 0)
    adjusted(pairs, counts, probes, 1)
    adjusted(pairs, counts, probes, 100)
    target = probes.target
    step = np.array([target], np.uint32), np.array([1 - target // 2], np.uint32), np.zeros(1)
    counts.add(*step, 0, 1)
    adjusted(pairs, counts, probes, 103)
    assert probes.target != target
    assert not probes.alarmed()


def test_a_probe_that_does_not_reach_its_pair_is_abandoned() -> None:
    pairs, counts, probes = watched(40, 0)
    adjusted(pairs, counts, probes, 1)
    adjusted(pairs, counts, probes, 100)
    tests = probes.tests
    probes.funds = -100.0
    adjusted(pairs, counts, probes, probes.give_up)
    assert (probes.target, probes.destination(), probes.tests) == (NO_PAIR, NO_STATE, tests)


def test_an_unknown_pair_of_a_known_state_is_tried_once() -> None:
    pairs, counts = Pairs.of(2, 2), Counts(Pairs.of(2, 2))
    numbers, nexts = np.array([0, 2] * 10, np.uint32), np.array([1, 0] * 10, np.uint32)
    counts.add(numbers, nexts, np.ones(20), 0, 20)
    probes = DirectedProbes(share=10.0)
    probes.allocate(pairs)
    probes.funds = 100.0
    adjusted(pairs, counts, probes, 50)
    assert probes.target in (1, 3)
    assert UNKNOWN <= probes.price <= UNKNOWN + 0.1
    pair = probes.target
    counts.add(np.array([pair], np.uint32), np.zeros(1, np.uint32), np.ones(1), 0, 1)
    adjusted(pairs, counts, probes, 55)
    assert probes.target != pair
    assert not probes.alarmed()


def far_bank(change: int) -> sm.SwitchingMDP:
    """A river whose near bank pays 0.2; from this step on the far bank pays 1."""
    river = sm.problems.riverswim(5)
    rows = np.zeros((5, 2, 5))
    for s, a in itertools.product(range(5), range(2)):
        successors, row = river.successors(s, a)
        rows[s, a, successors] = row
    before, after = np.zeros((5, 2)), np.zeros((5, 2))
    before[0, 0] = after[0, 0] = 0.2
    after[4, 1] = 1.0
    return sm.SwitchingMDP([sm.MDP(rows, before), sm.MDP(rows, after)], [change])


def test_probes_detect_a_change_many_steps_away_from_the_policy() -> None:
    problem, with_probes, without_probes = far_bank(HORIZON // 2), [], []
    for seed in range(4):
        agent, blind = EvidencePSRL(5, 2, share=0.2), EvidencePSRL(5, 2, share=0.0)
        with_probes.append(sm.simulate(agent, problem, 2 * HORIZON, seed=seed).pseudo_regret[-1])
        without_probes.append(sm.simulate(blind, problem, 2 * HORIZON, seed=seed).pseudo_regret[-1])
        assert blind.exploration.tests == 0
    assert max(with_probes) < 1500.0  # of 6,900, the price of never crossing
    assert sum(with_probes) < 0.5 * sum(without_probes)


def test_the_cost_of_probes_grows_with_the_square_root_of_time() -> None:
    mdp, agent = sm.problems.random_mdp(5, 3, seed=1), EvidencePSRL(5, 3, share=0.05)
    sm.simulate(agent, mdp, HORIZON, seed=0)
    probes = agent.exploration
    gain = sm.optimal_gain(mdp).gain
    allowed = 0.05 * (1.0 - gain) * 15**0.75 * math.sqrt(HORIZON)
    assert probes.tests >= 3
    assert -5.0 <= probes.funds <= allowed
    assert probes.tests * 0.02 < allowed + 5.0


@pytest.mark.parametrize("seed", range(3))
def test_probes_are_identical_compiled_interpreted_and_called_from_python(seed: int) -> None:
    problem = far_bank(1500)

    def run(**how: Any) -> Any:
        agent = EvidencePSRL(5, 2, share=1.0)
        record = sm.simulate(agent, problem, 4000, seed=seed, trajectory=True, **how)
        assert record.trajectory is not None
        assert agent.exploration.tests > 3
        return record.trajectory, record.regret[-1]

    whole, regret = run()
    for how in ({"interpreted": True}, {"every": 1}):
        other, same = run(**how)
        np.testing.assert_array_equal(whole.actions, other.actions)
        np.testing.assert_array_equal(whole.states, other.states)
        assert regret == same
    agent = EvidencePSRL(5, 2, share=1.0)
    agent.reseed(sm.randomness.run_seeds(seed)[2])
    for state, action, reward, following in zip(
        whole.states[:-1], whole.actions[:-1], whole.rewards[:-1], whole.states[1:], strict=True
    ):
        assert agent.act(int(state)) == action
        agent.observe(int(state), int(action), float(reward), int(following))


def test_a_saved_agent_completes_its_probe_after_loading(tmp_path: Any) -> None:
    problem = far_bank(1500)
    saved_on_the_way = 0
    for steps in range(3000, 3040, 2):
        agent = EvidencePSRL(5, 2, share=2.0)
        first = sm.simulate(agent, problem, steps, seed=1)
        saved_on_the_way += agent.exploration.destination() != NO_STATE
        agent.save(tmp_path / "agent")
        loaded = sm.agents.load(tmp_path / "agent")
        here, there = (
            sm.simulate(a, problem, steps + 500, resume=first).regret for a in (agent, loaded)
        )
        np.testing.assert_array_equal(here, there)
    assert saved_on_the_way > 0, "no probe was under way: the test is blind"
