"""`optimal_gain` on near-degenerate MDPs, against exact rational arithmetic.

Linear programming is itself wrong here. The oracle takes the stored numbers as exact rationals and
improves the returned policy in rational arithmetic until nothing is left to improve: the exact ρ*
must lie in the certified bracket.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray

from switchmdp.errors import PrecisionNotReached
from switchmdp.mdp import MDP
from switchmdp.planning import optimal_gain
from switchmdp.problems import riverswim

if TYPE_CHECKING:
    from tests.planning.conftest import Exact

TOLERANCE = Fraction(1, 10**9)
UNIT = Fraction(1, 2**52)
PER_FAMILY = 120

Generator = np.random.Generator
Family = Callable[[Generator], MDP]


def linked_blocks(rng: Generator, rarest: float = 7.0) -> MDP:
    """Two or three blocks that mix inside, linked with probability 1e-3 … 1e-7."""
    blocks = int(rng.integers(2, 4))
    size = int(rng.integers(1, 4 if blocks == 2 else 3))
    n_states, n_actions = blocks * size, int(rng.integers(1, 4))
    transitions = np.zeros((n_states, n_actions, n_states))
    for s in range(n_states):
        here = s // size
        there = (here + 1) % blocks
        for a in range(n_actions):
            link = 10.0 ** -rng.uniform(rarest - 4.0, rarest)
            inside = rng.dirichlet(np.ones(size)) * (1.0 - link)
            transitions[s, a, here * size : here * size + size] = inside
            transitions[s, a, there * size + rng.integers(size)] += link
    return MDP(transitions, rng.random((n_states, n_actions)))


def uphill_chain(rng: Generator) -> MDP:
    """A drift downwards puts the top, where it pays to stay, some 10⁶ steps away."""
    n_states = int(rng.integers(3, 8))
    up = 10.0 ** (-6.0 / (n_states - 1))
    transitions = np.zeros((n_states, 2, n_states))
    for s in range(n_states):
        for a, p in enumerate((up, up * rng.uniform(0.1, 1.0))):
            transitions[s, a, min(s + 1, n_states - 1)] += p
            transitions[s, a, max(s - 1, 0)] += 1.0 - p
    transitions[-1, 1, -2:] = 1e-6, 1.0 - 1e-6
    rewards = rng.random((n_states, 2)) * 0.5
    rewards[-1] = 1.0
    return MDP(transitions, rewards)


def one_way_cycle(rng: Generator) -> MDP:
    """A periodic cycle; both actions go on."""
    n_states = int(rng.integers(2, 8))
    transitions = np.zeros((n_states, 2, n_states))
    for s in range(n_states):
        transitions[s, :, (s + 1) % n_states] = 1.0
    return MDP(transitions, rng.random((n_states, 2)))


def two_way_ring(rng: Generator) -> MDP:
    """A deterministic ring, walked on or back."""
    n_states = int(rng.integers(2, 9))
    transitions = np.zeros((n_states, 2, n_states))
    for s in range(n_states):
        transitions[s, 0, (s + 1) % n_states] = 1.0
        transitions[s, 1, (s - 1) % n_states] = 1.0
    return MDP(transitions, rng.random((n_states, 2)))


def twin_actions(rng: Generator) -> MDP:
    """Actions that differ by about 1e-12 in their rewards, and sometimes in their rows."""
    n_states = int(rng.integers(2, 6))
    rows = np.repeat(rng.dirichlet(np.ones(n_states), (n_states, 1)), 3, axis=1)
    if rng.random() < 0.5:
        rows *= 1.0 + 1e-12 * rng.standard_normal(rows.shape)
        rows /= rows.sum(axis=2, keepdims=True)
    rewards = np.repeat(rng.uniform(0.1, 0.9, (n_states, 1)), 3, axis=1)
    return MDP(rows, rewards + 1e-12 * rng.integers(-3, 4, (n_states, 3)))


def tiny_probabilities(rng: Generator) -> MDP:
    """Rows with one large entry; the others as small as 1e-15."""
    n_states = int(rng.integers(2, 6))
    rows = rng.dirichlet(np.ones(n_states), (n_states, 2))
    rows *= 10.0 ** -rng.choice([0.0, 6.0, 9.0, 12.0, 15.0], rows.shape)
    for s in range(n_states):
        for a in range(2):
            rows[s, a, rng.integers(n_states)] += 1.0
    return MDP(rows / rows.sum(axis=2, keepdims=True), rng.random((n_states, 2)))


def single_state(rng: Generator) -> MDP:
    """S = 1."""
    n_actions = int(rng.integers(1, 5))
    return MDP(np.ones((1, n_actions, 1)), rng.random((1, n_actions)))


def single_action(rng: Generator) -> MDP:
    """A = 1: a chain that is nearly deterministic, all else 1e-9."""
    n_states = int(rng.integers(2, 7))
    rows = rng.dirichlet(np.full(n_states, 0.05), (n_states, 1))
    rows += 1e-9 * rng.random(rows.shape)
    return MDP(rows / rows.sum(axis=2, keepdims=True), rng.random((n_states, 1)))


def rare_start(rng: Generator) -> MDP:
    """A chain that drifts away from state 0, which is then visited once in 10⁵ … 10¹⁵ steps."""
    n_states = int(rng.integers(4, 9))
    back = 10.0 ** -rng.uniform(1.5, 2.2)
    transitions = np.zeros((n_states, 2, n_states))
    for s in range(n_states):
        transitions[s, 0, max(s - 1, 0)] = 1.0
        transitions[s, 1, max(s - 1, 0)] += back
        transitions[s, 1, min(s + 1, n_states - 1)] += 1.0 - back
    rewards = rng.random((n_states, 2)) * 0.1
    rewards[-1, 1] = 1.0
    return MDP(transitions, rewards)


FAMILIES: list[Family] = [
    linked_blocks, uphill_chain, one_way_cycle, two_way_ring, twin_actions, tiny_probabilities,
    single_state, single_action, rare_start,
]  # fmt: skip


class Answer(NamedTuple):
    """The result: a plan's bracket and policy, or an error's bracket."""

    lower: float
    upper: float
    policy: NDArray[np.int64] | None


def ask(mdp: MDP) -> Answer:
    try:
        plan = optimal_gain(mdp)
    except PrecisionNotReached as error:
        return Answer(error.lower, error.upper, None)
    return Answer(plan.lower, plan.upper, plan.policy)


@pytest.mark.parametrize("family", FAMILIES)
def test_the_bracket_contains_the_exact_gain(family: Family, exact: type[Exact]) -> None:
    raised = 0
    for seed in range(PER_FAMILY):
        mdp = family(np.random.default_rng([FAMILIES.index(family), seed]))
        answer, oracle = ask(mdp), exact(mdp)
        chosen = None if answer.policy is None else oracle.position(answer.policy)
        gain, span = oracle.optimal_gain(chosen)
        assert answer.lower <= gain <= answer.upper, seed
        if chosen is None:
            raised += 1
            # The promise: only where double precision can't reach the tolerance.
            assert span * UNIT > TOLERANCE / 5, (seed, float(span))
        else:
            assert Fraction(answer.upper) - Fraction(answer.lower) <= TOLERANCE, seed
            assert min(oracle.policy_gains(chosen)) >= gain - TOLERANCE, seed
    assert raised <= PER_FAMILY // 3


def test_the_families_of_mdps_are_as_extreme_as_their_names_say(exact: type[Exact]) -> None:
    def oracles(family: Family) -> list[Exact]:
        seeds = ([FAMILIES.index(family), seed] for seed in range(PER_FAMILY))
        return [exact(family(np.random.default_rng(seed))) for seed in seeds]

    assert max(x.optimal_gain()[1] for x in oracles(linked_blocks)) > 10**5
    assert max(x.optimal_gain()[1] for x in oracles(uphill_chain)) > 10**5
    assert min(x.diameter() for x in oracles(uphill_chain)) > 10**5
    assert max(x.diameter() for x in oracles(tiny_probabilities)) > 10**10
    assert max(x.optimal_gain()[1] for x in oracles(rare_start)) < 10


@pytest.mark.parametrize("rarest", [13.0, 50.0, 200.0])
def test_a_span_beyond_double_precision_can_be_certified(rarest: float, exact: type[Exact]) -> None:
    for seed in range(40):
        mdp = linked_blocks(np.random.default_rng(seed), rarest)
        plan = optimal_gain(mdp)
        gain, _ = exact(mdp).optimal_gain()
        assert plan.lower <= gain <= plan.upper, seed
        assert plan.upper - plan.lower <= 1e-9, seed


@pytest.mark.parametrize("n_states", [2, 6, 12, 18, 25, 40, 64, 100])
def test_a_small_span_can_be_certified_however_rarely_a_state_is_visited(
    n_states: int, exact: type[Exact]
) -> None:
    mdp = riverswim(n_states)
    plan = optimal_gain(mdp)
    oracle = exact(mdp)
    gain, span = oracle.optimal_gain(oracle.position(plan.policy))
    assert span < 2 * n_states
    assert plan.lower <= gain <= plan.upper


@pytest.mark.parametrize("leave", [1e-18, 1e-200, 1e-310, 5e-324])
def test_the_bracket_is_valid_down_to_the_smallest_probabilities(leave: float) -> None:
    mdp = MDP([[[1.0 - leave, leave]], [[leave, 1.0 - leave]]], [[0.0], [1.0]])
    plan = optimal_gain(mdp)
    assert plan.lower <= 0.5 <= plan.upper
    assert plan.upper - plan.lower <= 1e-9
    assert np.isfinite(plan.bias).all()


@pytest.mark.parametrize("tolerance", [1e-16, 1e-30])
def test_an_unreachable_tolerance_raises_an_error_with_a_valid_bracket(
    tolerance: float, exact: type[Exact]
) -> None:
    for seed in range(20):
        mdp = twin_actions(np.random.default_rng(seed))
        with pytest.raises(PrecisionNotReached, match="double precision") as caught:
            optimal_gain(mdp, tolerance=tolerance)
        gain, _ = exact(mdp).optimal_gain()
        assert caught.value.lower <= gain <= caught.value.upper
        assert 0 < caught.value.upper - caught.value.lower < 1e-13
