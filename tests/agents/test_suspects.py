"""EvidencePSRL forgets the right pairs: during growth, after manual restarts, and from files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from switchmdp.agents import GLRUCRL, EvidencePSRL, load
from switchmdp.agents.saving import check_agent_state


def teach(agent: EvidencePSRL, rng: np.random.Generator, n: int, rewards: Any, upto: int) -> None:
    """n steps anywhere among the first pairs; every pair leads anywhere."""
    for _ in range(n):
        agent.restart_if_due()
        pair = int(rng.integers(upto))
        state, action = int(agent.pairs.states[pair]), int(agent.pairs.actions[pair])
        gained = float(rng.random() < rewards[pair])
        agent.observe(state, action, gained, int(rng.integers(agent.n_states)))


def test_an_alarm_before_growth_still_names_the_right_pair() -> None:
    agent, rng = EvidencePSRL(2, 2), np.random.default_rng(0)
    teach(agent, rng, 400, np.full(4, 0.5), 4)
    before = agent.visits
    agent.exploration.found, agent.exploration.opened = agent.pairs.pair(1, 0), agent.t
    agent.grow(2, 3)
    assert not agent.exploration.alarmed()
    expected = np.column_stack([before, [0, 0]])
    expected[1, 0] = 0
    np.testing.assert_array_equal(agent.visits, expected)


def test_after_growth_unsuspected_pairs_keep_their_counts() -> None:
    agent, rng, rewards = EvidencePSRL(5, 3), np.random.default_rng(1), np.full(15, 0.1)
    teach(agent, rng, 4000, rewards, 15)
    before = agent.visits.copy()
    agent.grow(5, 3)
    teach(agent, rng, 1500, rewards, 10)
    rewards[2] = 0.9
    teach(agent, rng, 1500, rewards, 10)
    agent.restart_if_due()
    assert agent.since > 5000
    rewarded = agent.memory.counts.rewarded.reshape(5, 3)
    assert rewarded[0, 2] < 300
    np.testing.assert_array_equal(rewarded[4], before[4])  # not met since it has grown
    assert agent.visits.sum() == 7000  # no row has changed


def test_a_manual_restart_forgets_everything_even_with_a_pending_alarm() -> None:
    agent, rng, rewards = EvidencePSRL(2, 3), np.random.default_rng(2), np.full(6, 0.1)
    teach(agent, rng, 4000, rewards, 6)
    rewards[2] = 0.9
    while not agent.restarts.alarmed():
        agent.observe(0, 2, float(rng.random() < 0.9), int(rng.integers(2)))
        agent.restarts.watch(agent.log_pair, agent.log_next, agent.log_reward, agent.logged)
    agent.start_over()
    assert agent.visits.sum() == 0
    assert not agent.restarts.counts.any()
    assert not agent.restarts.alarmed()
    assert agent.since == agent.t
    check_agent_state(agent)


HOSTILE = [
    ("restarts", "counts", -1e9), ("restarts", "counts", 1e300), ("restarts", "counts", np.nan),
    ("restarts", "old_counts", 1e12), ("restarts", "old_counts", -5.0), ("restarts", "owned", 4),
    ("restarts", "logs", np.inf), ("restarts", "old_logs", np.nan), ("restarts", "old_steps", -1),
    ("restarts", "steps", 2**62), ("restarts", "keeps", 2**40),
    ("restarts", "seen", 2**40), ("restarts", "news", 0.0), ("restarts", "shots", -1),
    ("restarts", "news", 5e-324), ("restarts", "accused", np.ones(3, np.uint8)),
    ("restarts", "owners", 9), ("restarts", "starts", 0),
    ("restarts", "accused", 4), ("restarts", "origin", 1e9), ("memory", "first_reward", 2**40),
    ("exploration", "before", -1e300), ("exploration", "before", np.nan),
    ("exploration", "delta", -1.0), ("exploration", "share", -1.0), ("exploration", "found", 99),
    ("exploration", "opened", -1), ("memory", "size", 2**45), ("memory", "at", 2**20),
    ("memory", "first", -1), ("memory", "first", 2**40), ("memory", "total", 2**60),
]  # fmt: skip


@pytest.mark.parametrize(("part", "field", "value"), HOSTILE)
def test_a_state_with_bad_indices_is_rejected(part: str, field: str, value: Any) -> None:
    agent = EvidencePSRL(3, 2, share=1.0)
    teach(agent, np.random.default_rng(3), 700, np.linspace(0.1, 0.9, 6), 6)
    agent.act(0)
    check_agent_state(agent)
    owner = getattr(agent, part)
    old = getattr(owner, field)
    if isinstance(old, np.ndarray) and not isinstance(value, np.ndarray):
        new = old.copy()
        new.flat[0] = value
        setattr(owner, field, new)
    else:
        setattr(owner, field, value)
    with pytest.raises(ValueError, match=rf"\b{field}\b"):
        check_agent_state(agent)


SCRATCH = [
    ("restarts", "products", np.zeros((8, 5))), ("restarts", "none", np.full(3, -1e300)),
    ("exploration", "now", np.full(5, -1e300)), ("restarts", "factors", np.zeros((3, 2))),
]  # fmt: skip


@pytest.mark.parametrize(("part", "field", "value"), SCRATCH)
def test_bad_scratch_is_not_saved_and_is_allocated_again(
    part: str, field: str, value: Any, tmp_path: Path
) -> None:
    agent = EvidencePSRL(3, 2, share=1.0)
    fresh = getattr(getattr(agent, part), field).copy()
    setattr(getattr(agent, part), field, value)
    agent.save(tmp_path / "agent")
    loaded = getattr(getattr(load(tmp_path / "agent"), part), field)
    assert np.array_equal(loaded, fresh)
    assert loaded.dtype == fresh.dtype


def test_a_snapshot_that_exceeds_the_counts_is_rejected() -> None:
    agent = EvidencePSRL(3, 2)
    teach(agent, np.random.default_rng(3), 700, np.linspace(0.1, 0.9, 6), 6)
    rule = agent.restarts
    age = int(np.flatnonzero(rule.shots)[0])
    rule.old_counts[age, 0, 0] = 2.0 * rule.counts[0] + 1.0
    with pytest.raises(ValueError, match="old_counts"):
        check_agent_state(agent)


@pytest.mark.parametrize("make", [EvidencePSRL, GLRUCRL])
def test_the_clock_of_a_restart_rule_must_match_the_agent(make: Any) -> None:
    agent = make(3, 2)
    teach(agent, np.random.default_rng(3), 700, np.linspace(0.1, 0.9, 6), 6)
    for field, value in (("seen", agent.logged + 1), ("clock", agent.restarts.clock + 1)):
        old = getattr(agent.restarts, field)
        setattr(agent.restarts, field, value)
        with pytest.raises(ValueError, match="restart rule"):
            check_agent_state(agent)
        setattr(agent.restarts, field, old)
    check_agent_state(agent)
