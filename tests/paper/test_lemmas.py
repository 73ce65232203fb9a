"""The paper's lemmas hold on every run: episode lengths, Lemma 1, Lemma 2, the confidence sets."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import switchmdp as sm
from switchmdp import theory

SIZES = [(1, 2), (2, 1), (2, 2), (3, 2), (5, 3), (10, 2)]


def run(seed: int, n_states: int, n_actions: int, window: int, horizon: int) -> sm.Record:
    problem = sm.problems.random_switching(
        n_states, n_actions, changes=3, horizon=horizon, seed=seed
    )
    agent = sm.agents.SWUCRL(n_states, n_actions, window=window, delta=0.1)
    return sm.simulate(agent, problem, horizon, seed=seed, episodes=True, trajectory=True)


def pairs_of(record: sm.Record, n_actions: int) -> Any:
    assert record.trajectory is not None
    return record.trajectory.states.astype(int) * n_actions + record.trajectory.actions


@pytest.mark.parametrize(("n_states", "n_actions"), SIZES)
@pytest.mark.parametrize("window", [1, 2, 10, 50, 300, 2000, 30_000])
def test_an_episode_has_at_most_window_plus_states_minus_one_steps(
    window: int, n_states: int, n_actions: int
) -> None:
    for seed in range(5):
        record = run(seed, n_states, n_actions, window, 5000)
        assert record.episodes is not None
        longest = theory.longest_episode(window=window, n_states=n_states)
        assert record.episodes.length.max() <= longest
        assert record.episodes.length.sum() == 5000


def test_an_episode_can_be_longer_than_the_window() -> None:
    """The paper says that none does (slip 3)."""
    lengths = []
    for seed in range(40):
        episodes = run(seed, 10, 2, 10, 5000).episodes
        assert episodes is not None
        lengths.append(int(episodes.length.max()))
    assert max(lengths) > 10


@pytest.mark.parametrize(("n_states", "n_actions"), SIZES)
@pytest.mark.parametrize("window", [30, 100, 1000, 5000])
def test_lemma_1_bounds_the_number_of_episodes(window: int, n_states: int, n_actions: int) -> None:
    for seed in range(5):
        record = run(seed, n_states, n_actions, window, 5000)
        assert record.episodes is not None
        bound = theory.episodes_bound(
            horizon=5000, n_states=n_states, n_actions=n_actions, window=window
        )
        assert len(record.episodes) <= bound


@pytest.mark.parametrize(("n_states", "n_actions"), SIZES)
@pytest.mark.parametrize("window", [30, 100, 1000, 5000])
def test_lemma_2_bounds_the_visits_over_root_counts(
    window: int, n_states: int, n_actions: int
) -> None:
    for seed in range(3):
        record = run(seed, n_states, n_actions, window, 5000)
        assert record.episodes is not None
        pairs, n_pairs = pairs_of(record, n_actions), n_states * n_actions
        total = 0.0
        for start, length in zip(record.episodes.start, record.episodes.length, strict=True):
            before = pairs[max(0, start - 1 - window) : start - 1]
            counts = np.bincount(before, minlength=n_pairs)
            visits = np.bincount(pairs[start - 1 : start - 1 + length], minlength=n_pairs)
            assert (visits <= np.maximum(1, counts)).all()
            total += float((visits / np.sqrt(np.maximum(1, counts))).sum())
        sizes = {"horizon": 5000, "n_states": n_states, "n_actions": n_actions, "window": window}
        assert total <= theory.repaired_visits_bound(**sizes)


def coverage(window: int, scale: float, runs: int) -> float:
    """The share of runs in which all episodes' sets, with scaled radii, contain the true MDP."""
    covered = 0
    for seed in range(runs):
        mdp = sm.problems.random_mdp(3, 2, seed=seed)
        agent = sm.agents.SWUCRL(3, 2, window=window, delta=0.1)
        record = sm.simulate(agent, mdp, 4000, seed=seed, episodes=True, trajectory=True)
        assert record.episodes is not None
        assert record.trajectory is not None
        pairs = pairs_of(record, 2)
        after = np.append(record.trajectory.states[1:], record.final_state).astype(int)
        held = True
        for start in record.episodes.start:
            seen = slice(max(0, start - 1 - window), start - 1)
            visits = np.bincount(pairs[seen], minlength=6)
            sums = np.bincount(pairs[seen], record.trajectory.rewards[seen], minlength=6)
            moves = np.bincount(pairs[seen] * 3 + after[seen], minlength=18).reshape(6, 3)
            n = np.maximum(1, visits)
            r_off = np.abs(sums / n - mdp.rewards.ravel())
            p_off = np.abs(moves / n[:, None] - mdp.transitions.reshape(6, 3)).sum(axis=1)
            for x in np.nonzero(visits)[0]:
                r_radius = agent.plausible.reward_radius(int(visits[x]), int(start))
                p_radius = agent.plausible.transition_radius(int(visits[x]), int(start))
                held &= bool(r_off[x] <= scale * r_radius and p_off[x] <= scale * p_radius)
        covered += held
    return covered / runs


@pytest.mark.parametrize("window", [500, 10_000])
def test_the_confidence_sets_contain_the_true_mdp_with_the_stated_probability(window: int) -> None:
    """Stationary problems, δ = 0.1; the radii are wide, so that all runs are covered."""
    assert coverage(window, 1.0, runs=100) >= 0.9


@pytest.mark.parametrize("window", [500, 10_000])
def test_sets_with_a_fifth_of_the_radii_do_not_contain_the_true_mdp(window: int) -> None:
    assert coverage(window, 0.2, runs=100) < 0.9


def test_the_radii_are_those_of_equations_1_and_2() -> None:
    agent = sm.agents.SWUCRL(5, 3, window=100, delta=0.1)
    for visits, t in [(0, 1), (1, 1), (7, 50), (100, 10**6)]:
        sizes: dict[str, Any] = {
            "n_states": 5,
            "n_actions": 3,
            "delta": 0.1,
            "visits": visits,
            "t": t,
        }
        radii = (
            agent.plausible.reward_radius(visits, t),
            agent.plausible.transition_radius(visits, t),
        )
        assert radii == pytest.approx(
            (theory.reward_radius(**sizes), theory.transition_radius(**sizes)), rel=1e-15
        )
