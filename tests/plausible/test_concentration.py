"""The learned prior of rows: likelihood, estimates, and when it is computed again."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import switchmdp as sm
from switchmdp.agents import PSRL, SWPSRL, EvidencePSRL
from switchmdp.agents.saving import described, known_classes, rebuilt
from switchmdp.errors import DamagedFile
from switchmdp.mdp.pairs import Pairs
from switchmdp.memory import Counts
from switchmdp.plausible.posterior import (
    AT_ONE,
    GRID,
    LEAST_TOTAL,
    learn_concentration,
    log_evidence,
)


def observed(rows: Any, steps: int, seed: int = 0) -> Counts:
    """Counts of so many steps from pairs with these rows, each pair as often as any other."""
    n_pairs, n_states = rows.shape
    rng = np.random.default_rng(seed)
    counts = Counts(Pairs.of(n_states, n_pairs // n_states))
    pairs = rng.integers(0, n_pairs, steps).astype(np.uint32)
    nexts = np.array([rng.choice(n_states, p=rows[x]) for x in pairs], np.uint32)
    counts.add(pairs, nexts, np.zeros(steps), 0, steps)
    return counts


def learned(counts: Counts) -> float:
    return learn_concentration(counts.offset, counts.used, counts.count, counts.n_states)


def evidence(counts: Counts, alpha: float) -> float:
    return log_evidence(counts.offset, counts.used, counts.count, counts.n_states, alpha)


@pytest.mark.parametrize("n_states", [4, 70])  # full rows of counts, and lists of successors
def test_the_evidence_is_the_probability_of_the_steps_one_by_one(n_states: int) -> None:
    """Each successor has probability (α + P_j) / (Sα + N), given those before it."""
    counts, alpha = Counts(Pairs.of(n_states, 1)), 0.3
    log_probability = 0.0
    for pair, successor in ((0, 1), (0, 1), (0, 3), (2, 2), (2, 0), (0, 1)):
        before = [int(t) for t in counts.target[_block(counts, pair)]]
        seen = dict(zip(before, counts.count[_block(counts, pair)].tolist(), strict=True))
        top = alpha + seen.get(successor, 0)
        log_probability += math.log(top / (n_states * alpha + counts.visits[pair]))
        counts.add(np.array([pair], np.uint32), np.array([successor], np.uint32), np.zeros(1), 0, 1)
    assert evidence(counts, alpha) == pytest.approx(log_probability, rel=1e-10)


def _block(counts: Counts, pair: int) -> slice:
    return slice(counts.offset[pair], counts.offset[pair] + counts.used[pair])


@pytest.mark.parametrize("true", [0.1, 1.0, 10.0])
def test_the_true_concentration_is_estimated(true: float) -> None:
    rows = np.random.default_rng(1).dirichlet(np.full(8, true), 24)
    concentration = learned(observed(rows, 5000))
    at = np.flatnonzero(true == GRID)[0]
    assert concentration in GRID[at - 1 : at + 2]


def test_uniform_rows_get_the_largest_concentration_and_deterministic_ones_the_smallest() -> None:
    assert learned(observed(np.full((20, 10), 0.1), 20_000)) == GRID[-1]
    concentration = learned(observed(np.eye(20)[np.arange(40) % 20], 500))
    assert concentration == min(a for a in GRID if 20 * a >= LEAST_TOTAL)


def test_without_data_and_after_a_few_steps_rows_are_uniform() -> None:
    assert learned(Counts(Pairs.of(5, 3))) == 1.0 == GRID[AT_ONE]
    rows = np.random.default_rng(1).dirichlet(np.ones(5), 15)
    assert 0.3 <= learned(observed(rows, 10)) <= 3.0


def test_climbing_finds_the_best_of_the_whole_grid() -> None:
    for seed, true in enumerate([0.03, 0.1, 0.5, 1.0, 4.0, 20.0]):
        rows = np.random.default_rng(seed).dirichlet(np.full(6, true), 12)
        for steps in (20, 300, 3000):
            counts = observed(rows, steps, seed)
            away = np.arange(GRID.size) - AT_ONE
            values = [evidence(counts, float(a)) for a in GRID] - 0.5 * away**2
            values[6 * GRID < LEAST_TOTAL] = -np.inf
            assert learned(counts) == GRID[np.argmax(values)]


def test_an_agent_learns_its_prior_from_the_counts_that_it_has() -> None:
    river, swimmer = sm.problems.riverswim(6), EvidencePSRL(6, 2)
    sm.simulate(swimmer, river, 5000, seed=0)
    assert swimmer.plausible.concentration < 0.5
    flat = sm.MDP(np.full((6, 2, 6), 1 / 6), np.random.default_rng(0).random((6, 2)))
    agent = PSRL(6, 2)
    sm.simulate(agent, flat, 20_000, seed=0)
    assert agent.plausible.concentration > 3.0


def test_the_prior_is_learned_again_when_time_has_grown_by_half_or_after_a_restart() -> None:
    posterior, counts = PSRL(3, 2).plausible, Counts(Pairs.of(3, 2))
    learned_at = []
    for t in (1, 2, 3, 4, 5, 6, 8, 9, 12, 13, 14, 5, 7, 8):
        posterior.learn(counts, t)
        learned_at.append(posterior.learned_at)
    assert learned_at == [1, 2, 3, 3, 5, 5, 8, 8, 12, 12, 12, 5, 5, 8]


@pytest.mark.parametrize("make", [PSRL, lambda *n: SWPSRL(*n, window=500), EvidencePSRL])
def test_a_saved_agent_learns_as_if_never_saved(make: Any, tmp_path: Any) -> None:
    problem = sm.problems.riverswim_flips(6, changes=2, horizon=6000)
    agent = make(6, 2)
    first = sm.simulate(agent, problem, 3000, seed=0)
    agent.save(tmp_path / "agent")
    loaded = sm.agents.load(tmp_path / "agent")
    here, there = (sm.simulate(a, problem, 3000, resume=first).regret for a in (agent, loaded))
    np.testing.assert_array_equal(here, there)
    assert agent.plausible.concentration == loaded.plausible.concentration < 1.0


def test_an_agent_of_an_earlier_version_has_learned_nothing_yet() -> None:
    fields, arrays = described(PSRL(3, 2))
    for added in ("learns", "concentration", "learned_at"):
        del fields["agent"]["fields"]["plausible"]["fields"][added]
    agent = rebuilt("a file", fields, arrays, known_classes(()))
    assert agent.plausible.learns
    assert (agent.plausible.concentration, agent.plausible.learned_at) == (1.0, 0)
    del fields["agent"]["fields"]["plausible"]["fields"]["words"]
    with pytest.raises(DamagedFile, match="Posterior has other fields"):
        rebuilt("a file", fields, arrays, known_classes(()))
