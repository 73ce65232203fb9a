"""EvidencePSRL: the contract, what it is told, and that its pieces do their work."""

from __future__ import annotations

import inspect
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import switchmdp as sm
from switchmdp.agents import EvidencePSRL, Probes, Rooted
from switchmdp.errors import InvalidParameter
from switchmdp.mdp.pairs import Pairs
from switchmdp.memory import Counts
from switchmdp.problems.change_operators import patched

HORIZON = 20_000


def test_it_keeps_the_contract() -> None:
    sm.check_agent(lambda: EvidencePSRL(5, 3, share=1.0), memory_steps=10_000, strict=True)


def test_it_needs_no_horizon_changes_diameter_or_window() -> None:
    told = set(inspect.signature(EvidencePSRL).parameters)
    assert told == {"n_states", "n_actions", "delta", "share", "gap", "seed", "available"}


def test_after_a_change_of_everything_it_starts_over_and_keeps_what_came_since() -> None:
    problem = sm.problems.random_switching(
        5, 3, changes=1, horizon=HORIZON, seed=4, change_points=[HORIZON // 2]
    )
    agent = EvidencePSRL(5, 3)
    sm.simulate(agent, problem, HORIZON, seed=0)
    assert HORIZON // 2 - 100 <= agent.since <= HORIZON // 2 + 300
    kept = agent.t - agent.since
    assert kept <= agent.visits.sum() <= kept + 20
    assert kept <= agent.memory.counts.rewarded.sum() <= kept + 20


def test_without_a_change_nothing_is_forgotten() -> None:
    agent = EvidencePSRL(5, 3)
    sm.simulate(agent, sm.problems.random_mdp(5, 3, seed=1), HORIZON, seed=0)
    assert agent.since == 1
    assert agent.visits.sum() == HORIZON


def test_it_has_far_less_regret_than_sw_ucrl() -> None:
    problems = [
        sm.problems.random_switching(5, 3, changes=2, horizon=HORIZON, seed=i) for i in range(5)
    ]
    ours, theirs = (
        sum(sm.simulate(make(), p, HORIZON, seed=0).pseudo_regret[-1] for p in problems)
        for make in (lambda: EvidencePSRL(5, 3), lambda: sm.agents.SWUCRL(5, 3, window=5000))
    )
    assert ours < theirs / 5


def hidden(change: int) -> sm.SwitchingMDP:
    """Action 1 of state 0 becomes the best at this step; a settled policy never takes it."""
    stay = np.array([[[0.1, 0.9], [0.9, 0.1]], [[0.9, 0.1], [0.9, 0.1]]])
    before, after = np.array([[0.6, 0.1], [0.6, 0.2]]), np.array([[0.6, 1.0], [0.6, 0.2]])
    return sm.SwitchingMDP([sm.MDP(stay, before), sm.MDP(stay, after)], [change])


def test_probes_find_a_change_that_the_policy_does_not_visit() -> None:
    found = []
    for seed in range(5):
        with_probes, without = EvidencePSRL(2, 2, gap=100), EvidencePSRL(2, 2, gap=10**9)
        for agent in (with_probes, without):
            sm.simulate(agent, hidden(10_000), HORIZON, seed=seed)
        assert without.policy[0] == 0
        found.append(with_probes.policy[0] == 1)
    assert sum(found) >= 4


def test_a_probe_makes_the_agent_forget_only_the_changed_pair() -> None:
    agent = EvidencePSRL(2, 2, gap=100)
    sm.simulate(agent, hidden(10_000), HORIZON, seed=0)
    assert agent.since > 10_000
    others = agent.visits.sum() - agent.visits[0, 1]
    assert others > 9_000
    assert agent.visits[0, 1] <= agent.t - agent.since
    assert agent.reward_estimates[0, 1] == 1.0  # no reward from before the change is left


def test_if_one_pair_changes_the_others_keep_their_counts() -> None:
    first = sm.problems.random_mdp(5, 3, seed=3)
    policy = sm.optimal_gain(first).policy
    second = patched(first, [(0, int(policy[0]), None, 0.0)])
    agent = EvidencePSRL(5, 3)
    sm.simulate(agent, sm.SwitchingMDP([first, second], [HORIZON // 2]), HORIZON, seed=0)
    assert HORIZON // 2 - 100 <= agent.since <= HORIZON // 2 + 2000
    assert agent.visits[1:].sum() > 0.7 * HORIZON
    assert agent.visits[0, policy[0]] < 0.1 * HORIZON


@pytest.mark.parametrize("seed", range(4))
def test_a_probe_raises_its_alarm_at_the_same_step_however_the_run_is_split(seed: int) -> None:
    def run(**how: Any) -> tuple[Any, ...]:
        agent = EvidencePSRL(2, 2, gap=20, seed=seed)
        record = sm.simulate(agent, hidden(3000), 9_000, seed=seed, episodes=True, **how)
        assert record.episodes is not None
        return (record.pseudo_regret[-1], agent.since, agent.visits.tolist(),
                record.episodes.restarts.tolist())  # fmt: skip

    whole = run(every=9_000)
    assert whole[-1], "no probe found anything: the test is blind"
    assert whole == run(every=1) == run(every=9_000, interpreted=True)


def test_an_unchanged_pair_is_closed_after_a_few_probes() -> None:
    pairs = Pairs.of(2, 2)
    counts, rng = Counts(pairs), np.random.default_rng(0)
    steps = 400
    numbers = np.repeat(np.arange(4), 100).astype(np.uint32)
    nexts = (rng.random(steps) < 0.9).astype(np.uint32)
    counts.add(numbers, nexts, (rng.random(steps) < 0.1).astype(float), 0, steps)
    probes = Probes(gap=5)
    probes.allocate(pairs)
    probes.last[:] = counts.visits
    choice, quota = np.array([0, 2]), np.array([100, 100])
    probes.adjust(pairs.starts, counts, 10, choice, quota)
    assert probes.open.all()
    assert quota.tolist() == [1, 1]
    for _ in range(12):
        visited = np.flatnonzero(probes.open).astype(np.uint32)
        n = len(visited)
        moves = (rng.random(n) < 0.9).astype(np.uint32)
        counts.add(visited, moves, (rng.random(n) < 0.1).astype(float), 0, n)
        probes.adjust(pairs.starts, counts, 11, choice, quota)
    assert not probes.open.any()
    assert not probes.alarmed()


def test_a_changed_pair_raises_the_alarm_once_its_bayes_factor_is_large_enough() -> None:
    """Four pairs, looked at for the first time: b must exceed 4 · 1 · 2 / δ."""

    def log_b(since: int) -> float:
        """After 100 visits without a reward to state 0, `since` with one, to state 1."""

        def of(zeros: int, ones: int) -> float:
            return math.lgamma(1 + zeros) + math.lgamma(1 + ones) - math.lgamma(2 + zeros + ones)

        return 2 * (of(100, 0) + of(0, since) - of(100, since))

    pairs = Pairs.of(2, 2)
    counts = Counts(pairs)
    numbers = np.repeat(np.arange(4), 100).astype(np.uint32)
    counts.add(numbers, np.zeros(400, np.uint32), np.zeros(400), 0, 400)
    probes = Probes(gap=5, delta=0.01)
    probes.allocate(pairs)
    probes.last[:] = counts.visits
    choice, quota = np.array([0, 2]), np.array([100, 100])
    probes.adjust(pairs.starts, counts, 10, choice, quota)
    since = 0
    while not probes.alarmed():
        counts.add(np.zeros(1, np.uint32), np.ones(1, np.uint32), np.ones(1), 0, 1)
        probes.adjust(pairs.starts, counts, 11, choice, quota)
        since += 1
    assert log_b(since - 1) < math.log(4 * 1 * 2 / 0.01) < log_b(since)


def watched(visits: int, rewards: int) -> tuple[Pairs, Counts, Probes]:
    """Four pairs that went to state 0 so often and had so many rewards: a round opens them all."""
    pairs = Pairs.of(2, 2)
    counts, probes = Counts(pairs), Probes(gap=5, delta=0.01)
    n = 4 * visits
    numbers = np.repeat(np.arange(4), visits).astype(np.uint32)
    counts.add(numbers, np.zeros(n, np.uint32), (np.arange(n) % visits < rewards) * 1.0, 0, n)
    probes.allocate(pairs)
    probes.last[:] = counts.visits
    probes.adjust(pairs.starts, counts, 10, np.array([0, 2]), np.array([9, 9]))
    assert probes.open.all()
    return pairs, counts, probes


def test_a_reward_sum_that_is_rounded_down_is_not_taken_for_forgetting() -> None:
    """(1/49)·49 is below 1, as (1/48)·48 is not; the successor is new, and the pair stays open."""
    pairs, counts, probes = watched(48, 1)
    counts.add(np.zeros(1, np.uint32), np.ones(1, np.uint32), np.zeros(1), 0, 1)
    assert counts.mean(0) * 49 < 1.0
    probes.adjust(pairs.starts, counts, 11, np.array([0, 2]), np.array([9, 9]))
    assert probes.open.all()


@pytest.mark.parametrize("pair", [0, 3])
def test_an_alarm_comes_before_the_next_round_for_any_pair(pair: int) -> None:
    pairs, counts, probes = watched(100, 0)
    n, quota = 12, np.array([9, 9])
    counts.add(np.full(n, pair, np.uint32), np.ones(n, np.uint32), np.ones(n), 0, n)
    probes.adjust(pairs.starts, counts, 1000, np.array([0, 2]), quota)
    assert (probes.found, probes.opened, quota.tolist()) == (pair, 10, [9, 9])


def test_a_loaded_agent_continues_as_if_never_saved(tmp_path: Path) -> None:
    problem = sm.problems.random_switching(5, 3, changes=2, horizon=4000, seed=2)
    one = EvidencePSRL(5, 3, share=1.0)
    first = sm.simulate(one, problem, 2000, seed=0)
    one.save(tmp_path / "agent")
    two = sm.agents.load(tmp_path / "agent")
    here, there = (sm.simulate(a, problem, 2000, resume=first).regret for a in (one, two))
    np.testing.assert_array_equal(here, there)


@pytest.mark.parametrize(
    "wrong",
    [{"delta": 0}, {"gap": 0}, {"gap": 0.5}, {"gap": "often"}, {"share": -0.1}, {"seed": -1}],
)
def test_parameters_that_make_no_sense_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidParameter):
        EvidencePSRL(5, 3, **wrong)


def test_an_episode_is_no_longer_than_the_root_of_twice_the_steps_since_a_restart() -> None:
    rule = Rooted()
    assert [rule.end(t, 101) - t for t in (101, 102, 103, 109, 151)] == [1, 2, 3, 5, 11]
    agent = EvidencePSRL(5, 3)
    record = sm.simulate(agent, sm.problems.random_mdp(5, 3, seed=1), HORIZON, episodes=True)
    episodes = record.episodes
    assert episodes is not None
    longest = 1 + np.floor(np.sqrt(2 * (episodes.start - episodes.since)))
    assert (episodes.length <= longest).all()
    assert (episodes.length == longest).mean() > 0.5
