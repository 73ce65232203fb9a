"""Recall: recurring configurations are recognised, and wrong recalls are withdrawn."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import switchmdp as sm
from switchmdp.agents import EvidencePSRL, Recall
from switchmdp.agents.recall import NONE, PLACES, SHORTEST
from switchmdp.mdp.pairs import Pairs
from switchmdp.memory import Apart
from switchmdp.memory.counts import REWARDS

pytestmark = pytest.mark.xdist_group("Posterior")

PAIRS = Pairs.of(3, 2)
ALL = np.ones(6, np.uint8)


def world(seed: int) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    return rng.random(6), rng.dirichlet(np.ones(3), 6)


def live(memory: Any, rng: np.random.Generator, n: int, of: tuple[Any, Any]) -> None:
    """n steps at random pairs."""
    rewards, rows = of
    pairs = rng.integers(0, 6, n)
    nexts = np.minimum((rng.random((n, 1)) > np.cumsum(rows, axis=1)[pairs]).sum(axis=1), 2)
    gained = (rng.random(n) < rewards[pairs]).astype(float)
    memory.absorb(pairs.astype(np.uint32), nexts.astype(np.uint32), gained, n)


def memories() -> tuple[Recall, Apart]:
    both = Recall(), Apart()
    for memory in both:
        memory.allocate(PAIRS)
    return both


def test_a_configuration_that_comes_back_gets_its_counts_back() -> None:
    rng, (memory, _) = np.random.default_rng(0), memories()
    first, second = world(1), world(2)
    live(memory, rng, 1000, first)
    live(memory, rng, 50, second)
    memory.keep(50, ALL)
    assert (memory.stored_count, memory.active) == (1, NONE)
    assert memory.counts.visits.sum() == 50
    live(memory, rng, 900, second)
    assert memory.active == NONE
    live(memory, rng, 60, first)
    memory.keep(60, ALL)
    assert memory.stored_count == 2
    assert memory.active == 0
    assert memory.counts.visits.sum() == memory.counts.rewarded.sum() == 1000 + 60
    for pair in range(6):
        assert memory.counts.mean(pair) == pytest.approx(first[0][pair], abs=0.15)
    memory.counts.check_invariants()
    memory.check_invariants()
    live(memory, rng, 1000, first)
    memory.keep(0, ALL)
    assert memory.stored_count == 2, "it was stored in its old place"
    assert memory.past_visits[0].sum() == 2060


def test_a_wrong_recall_is_withdrawn_and_keeps_the_data_since_the_alarm() -> None:
    """The first steps look like the first configuration; those that follow do not."""
    rng, (memory, plain) = np.random.default_rng(3), memories()
    first, second = world(1), world(2)
    for each in (memory, plain):
        live(each, np.random.default_rng(3), 1000, first)
        each.keep(0, ALL)
        live(each, np.random.default_rng(4), 60, first)
    assert memory.active == 0
    for n in (60, 120, 240, 480):
        seed = int(rng.integers(100))
        for each in (memory, plain):
            live(each, np.random.default_rng(seed), n, second)
    assert memory.active == NONE
    for name in ("visits", "rewarded", "high", "low", "count"):
        np.testing.assert_array_equal(getattr(memory.counts, name), getattr(plain.counts, name))


def test_only_forgotten_counts_are_recalled() -> None:
    rng, (memory, _) = np.random.default_rng(0), memories()
    rewards, rows = world(1)
    others = 1.0 - rewards
    live(memory, rng, 1000, (rewards, rows))
    memory.keep(0, np.full(6, REWARDS, np.uint8))
    live(memory, rng, 1000, (others, rows))
    live(memory, rng, 400, (rewards, rows))
    memory.keep(400, np.full(6, REWARDS, np.uint8))
    assert memory.active == 0
    assert memory.counts.visits.sum() == 2400
    assert memory.counts.rewarded.sum() == 1400


def test_configurations_that_match_are_merged_and_the_library_is_bounded() -> None:
    rng, (memory, _) = np.random.default_rng(0), memories()
    for _ in range(2):  # too far apart in time to be recognised early: merged when it ends
        memory.waits = False
        live(memory, rng, 1000, world(1))
        memory.active = NONE
        memory.keep(0, ALL)
    assert memory.stored_count == 1
    assert memory.past_visits[0].sum() == 2000
    for seed in range(2, 20):
        live(memory, rng, 1000, world(seed))
        memory.keep(0, ALL)
    assert memory.stored_count == PLACES
    memory.check_invariants()


def test_one_pair_that_clearly_differs_prevents_merging_and_recall() -> None:
    """All other pairs agree, and their evidence is larger than that of this pair."""
    rng, (memory, _) = np.random.default_rng(0), memories()
    rewards, rows = world(1)
    other = rewards.copy()
    rewards[0], other[0] = 0.0, 1.0
    live(memory, rng, 2000, (rewards, rows))
    memory.keep(0, ALL)
    assert (memory.stored_count, memory.active) == (1, NONE)
    live(memory, rng, 80, (other, rows))
    assert memory.active == NONE
    memory.past_rewarded[0, 0] = memory.past_high[0, 0] = memory.past_low[0, 0] = 0
    memory.recognise()
    assert memory.active == 0, "without the pair, the others would be recalled"
    memory, _ = memories()
    live(memory, rng, 1000, (rewards, rows))
    memory.keep(0, ALL)
    memory.waits = False
    live(memory, rng, 1000, (other, rows))
    memory.keep(0, ALL)
    assert memory.stored_count == 2


def test_short_configurations_are_not_stored() -> None:
    rng, (memory, _) = np.random.default_rng(0), memories()
    live(memory, rng, SHORTEST * 6 - 1, world(1))
    memory.keep(0, ALL)
    assert memory.stored_count == 0


def test_with_many_states_there_is_no_library() -> None:
    memory = Recall()
    memory.allocate(Pairs.of(200, 2))
    n = 20_000
    memory.absorb(np.zeros(n, np.uint32), np.zeros(n, np.uint32), np.zeros(n), n)
    assert memory.keep(10, np.ones(400, np.uint8)) == 10
    assert memory.places == 0


def test_growth_empties_the_library_and_keeps_the_counts() -> None:
    rng, (memory, _) = np.random.default_rng(0), memories()
    live(memory, rng, 1000, world(1))
    memory.keep(0, ALL)
    live(memory, rng, 100, world(2))
    memory.grow(Pairs.of(4, 2), np.arange(6))
    assert memory.stored_count == 0
    assert memory.counts.visits.sum() == 100
    memory.check_invariants()


def recurring(horizon: int) -> Any:
    return sm.problems.random_changes(5, 3, changes=4, cycle=2, horizon=horizon, seed=3)


def test_an_agent_that_recalls_has_less_regret_where_configurations_recur() -> None:
    horizon = 40_000
    problem = recurring(horizon)
    with_library, without_library = 0.0, 0.0
    for seed in range(3):
        agent, other = EvidencePSRL(5, 3), EvidencePSRL(5, 3)
        other.memory.places = 0
        with_library += sm.simulate(agent, problem, horizon, seed).pseudo_regret[-1]
        without_library += sm.simulate(other, problem, horizon, seed).pseudo_regret[-1]
        assert agent.memory.stored_count > other.memory.stored_count == 0
    assert with_library < 0.75 * without_library


def test_recall_is_identical_interpreted_in_pieces_and_after_loading(tmp_path: Path) -> None:
    horizon = 12_000
    problem = recurring(horizon)
    whole, pieces = EvidencePSRL(5, 3), EvidencePSRL(5, 3)
    expected = sm.simulate(whole, problem, horizon, seed=0, every=horizon)
    assert whole.memory.stored_count > 0
    first = sm.simulate(pieces, problem, 7_000, seed=0, every=horizon)
    pieces.save(tmp_path / "agent")
    loaded = sm.agents.load(tmp_path / "agent")
    rest = sm.simulate(loaded, problem, horizon, resume=first, interpreted=True)
    assert rest.pseudo_regret[-1] == expected.pseudo_regret[-1]
