"""The sparse posterior: the distribution of samples, their policies, and memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats
from tests.plausible.test_posterior import counted

import switchmdp as sm
from switchmdp.agents import PSRL, EvidencePSRL
from switchmdp.agents.saving import check_agent_state
from switchmdp.mdp.pairs import Pairs
from switchmdp.memory import Counts
from switchmdp.planning.iteration import MOST_SWEEPS, iterate_spread_values
from switchmdp.plausible import SparsePosterior
from switchmdp.plausible.posterior import SPARSE_PRECISION
from switchmdp.simulation import simulate

solve: Any = iterate_spread_values


def drawn_rows(posterior: SparsePosterior, n_pairs: int | None = None) -> Any:
    """The dense rows of the last draw, of all pairs or of the first ones."""
    n_states = posterior.bias.size
    rows = np.repeat(posterior.elsewhere[:n_pairs, None], n_states, axis=1)
    for pair in range(len(rows)):
        here = slice(posterior.first[pair], posterior.first[pair + 1])
        rows[pair, posterior.successors[here]] += posterior.excess[here]
    return rows


def draws(
    counts: Counts, n: int, alpha: float = 1.0, n_pairs: int | None = None
) -> tuple[Any, Any]:
    posterior = SparsePosterior(7, concentration=alpha)
    posterior.allocate(Pairs.of(counts.n_states, len(counts.visits) // counts.n_states))
    means, rows = [], []
    for _ in range(n):
        posterior.draw(counts)
        means.append(posterior.mean.copy())
        rows.append(drawn_rows(posterior, n_pairs))
    return np.array(means), np.array(rows)


def few_counts(n_states: int) -> Counts:
    """Pair 0: 2 of its successors known; pair 1: never visited; pair 2: 30 times the same."""
    counts = Counts(Pairs.of(n_states, 3))
    pairs = np.array([0] * 4 + [2] * 30, np.uint32)
    nexts = np.array([1, 1, 1, 3] + [2] * 30, np.uint32)
    counts.add(pairs, nexts, np.array([1.0, 0.0, 0.0, 0.5] + [1.0] * 30), 0, 34)
    return counts


@pytest.mark.parametrize("alpha", [0.02, 1.0, 3.0])
@pytest.mark.parametrize("n_states", [6, 70])  # full rows of counts, and lists of successors
def test_observed_successors_and_the_rest_have_the_distribution_of_the_full_draw(
    n_states: int, alpha: float
) -> None:
    means, rows = draws(few_counts(n_states), 2500, alpha, n_pairs=3)
    for p, seen in ((rows[:, 0, 1], 3.0), (rows[:, 0, 3], 1.0), (rows[:, 2, 2], 30.0)):
        n = 4.0 if seen < 5.0 else 30.0
        law = stats.beta(alpha + seen, alpha * (n_states - 1) + n - seen)
        assert stats.kstest(p, law.cdf).pvalue > 1e-3
    elsewhere = 1.0 - rows[:, 0, 1] - rows[:, 0, 3]
    law = stats.beta(alpha * (n_states - 2), 2.0 * alpha + 4.0)
    assert stats.kstest(elsewhere, law.cdf).pvalue > 1e-3
    for pair, a, b in ((0, 2.5, 3.5), (1, 1.0, 1.0), (2, 31.0, 1.0)):
        assert stats.kstest(means[:, pair], stats.beta(a, b).cdf).pvalue > 1e-3


@pytest.mark.parametrize("n_states", [6, 70])
def test_unobserved_successors_share_the_remaining_mass_evenly(n_states: int) -> None:
    _, rows = draws(few_counts(n_states), 20)
    np.testing.assert_allclose(rows.sum(-1), 1.0, rtol=1e-12)
    assert (rows > 0).all()
    np.testing.assert_allclose(rows[:, 1], 1.0 / n_states)
    others = np.delete(rows[:, 0], [1, 3], axis=1)
    assert np.ptp(others, axis=1).max() < 1e-15
    assert np.ptp(others[:, 0]) > 0.0


def test_a_row_with_every_successor_observed_is_a_dirichlet_row() -> None:
    counts = Counts(Pairs.of(2, 1))
    nexts = np.array([0] * 7 + [1] * 3, np.uint32)
    counts.add(np.zeros(10, np.uint32), nexts, np.zeros(10), 0, 10)
    _, rows = draws(counts, 2000)
    assert stats.kstest(rows[:, 0, 0], stats.beta(8, 4).cdf).pvalue > 1e-3
    np.testing.assert_allclose(rows.sum(-1), 1.0, rtol=1e-12)


@pytest.mark.parametrize("t", [100, 10**12])
def test_the_policy_is_nearly_optimal_in_the_drawn_mdp(t: int) -> None:
    n_states, rng = 40, np.random.default_rng(2)
    pairs = Pairs.of(n_states, 3)
    counts = Counts(pairs)
    steps = 5000  # few successors each, so that chains mix slowly
    visited = rng.integers(0, pairs.n_pairs, steps).astype(np.uint32)
    nexts = ((visited // 3 + rng.integers(0, 3, steps)) % n_states).astype(np.uint32)
    counts.add(visited, nexts, (rng.random(steps) < 0.3).astype(float), 0, steps)
    posterior = SparsePosterior(3)
    posterior.allocate(pairs)
    choice = pairs.starts[:-1].copy()
    for _ in range(5):
        posterior.plan(pairs.starts, counts, t, choice)
        rows = drawn_rows(posterior).reshape(n_states, 3, n_states)
        drawn = sm.MDP(rows / rows.sum(-1, keepdims=True), posterior.mean.reshape(n_states, 3))
        best = sm.optimal_gain(drawn).gain
        assert posterior.lower - 1e-9 <= best <= posterior.upper + 1e-9
        assert posterior.upper - posterior.lower <= SPARSE_PRECISION / np.sqrt(t)
        assert 1 <= posterior.sweeps() < MOST_SWEEPS
        gain = sm.policy_gain(drawn, pairs.actions[choice]).min()
        assert gain == pytest.approx(best, abs=SPARSE_PRECISION / np.sqrt(t) + 1e-9)
        pair = 7
        q = posterior.mean[pair] + rows.reshape(-1, n_states)[pair] @ posterior.bias
        assert posterior.worth(counts, t, pair) == pytest.approx(q)


def test_a_plan_that_starts_at_the_last_values_takes_fewer_sweeps() -> None:
    counts, pairs = counted(40, 2, np.random.default_rng(5), 20_000), Pairs.of(40, 2)
    posterior = SparsePosterior(1)
    posterior.allocate(pairs)
    choice = pairs.starts[:-1].copy()
    posterior.plan(pairs.starts, counts, 10**6, choice)
    arrays: Any = (
        posterior.first, posterior.successors, posterior.excess, posterior.elsewhere,
        posterior.mean,
    )  # fmt: skip
    change, policy = np.zeros(40), choice.copy()
    cold, warm = np.zeros(40), posterior.bias.copy()
    sweeps = [solve(pairs.starts, *arrays, bias, change, policy, 1e-4)[2] for bias in (cold, warm)]
    assert sweeps[1] == 1 < sweeps[0]
    np.testing.assert_array_equal(policy, choice)


def test_a_slowly_mixing_chain_ends_at_the_limit_with_a_valid_bracket() -> None:
    """Two states that are left once in a billion steps."""
    stay = 1.0 - 2e-9
    arrays: Any = (
        np.array([0, 1, 2]), np.array([0, 1], np.uint32), np.full(2, stay), np.full(2, 1e-9),
        np.array([0.2, 0.8]),
    )  # fmt: skip
    lower, upper, sweeps = solve(
        np.array([0, 1, 2]), *arrays, np.zeros(2), np.zeros(2), np.zeros(2, np.int64), 1e-6
    )
    assert sweeps == MOST_SWEEPS
    assert lower <= 0.5 <= upper


def test_memory_grows_with_the_observed_successors() -> None:
    agent = PSRL(20_000, 3)
    agent.observe(0, agent.act(0), 1.0, 19_999)
    agent.plan()
    bytes_used = sum(
        value.nbytes for value in vars(agent.plausible).values() if hasattr(value, "nbytes")
    )
    assert bytes_used < 60_000 * 8 * 5
    assert agent.plausible.first[-1] == 1


@pytest.mark.parametrize("make", [EvidencePSRL, PSRL])
def test_machine_code_and_interpreted_code_agree(make: Any) -> None:
    problem = sm.problems.ring_with_shortcuts(70, seed=1)
    records = [
        simulate(make(70, 4), problem, 3000, seed=3, interpreted=way, trajectory=True)
        for way in (False, True)
    ]
    machine, plain = (record.trajectory for record in records)
    assert machine is not None
    assert plain is not None
    np.testing.assert_array_equal(machine.states, plain.states)
    np.testing.assert_array_equal(machine.actions, plain.actions)


def test_a_saved_agent_continues_as_if_never_saved(tmp_path: Any) -> None:
    problem = sm.problems.ring_with_shortcuts(70, seed=1)
    agent, twin = EvidencePSRL(70, 4), EvidencePSRL(70, 4)
    for one in (agent, twin):
        simulate(one, problem, 4000, seed=3)
    agent.save(tmp_path / "agent")
    loaded = sm.agents.load(tmp_path / "agent")
    check_agent_state(loaded)
    after = [simulate(one, problem, 2000, seed=4, experienced=True) for one in (loaded, twin)]
    np.testing.assert_array_equal(after[0].regret, after[1].regret)
    assert loaded.plausible.worth(None, 1, 3) == twin.plausible.worth(None, 1, 3)
