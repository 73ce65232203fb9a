"""BORL: the paper's constants, EXP3.P against a calculation by hand and its proof, and blocks."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import switchmdp as sm
from switchmdp.agents import BORL, Episodic, PaperBORL
from switchmdp.agents.episodic import Multiples
from switchmdp.agents.swucrl_cw import Exp3P, block_length, papers_grid, reduced_grid, windows
from switchmdp.errors import InvalidParameter
from switchmdp.memory import Window
from switchmdp.plausible import Widened
from switchmdp.restarts import Never

pytestmark = pytest.mark.xdist_group("Widened")

NOBODY = np.zeros(0, bool)  # the bandit does not ask who is suspected
SHORT = [(20, 0.0), (50, 0.0), (50, 0.4)]


def test_at_the_papers_horizon_21_blocks_are_too_few_for_63_arms() -> None:
    block = block_length(5, 3, 100_000)
    assert block == int(3 * 5 ** (2 / 3) * 3**0.5 * 100_000**0.5) == 4804
    assert math.ceil(100_000 / block) == 21
    assert windows(block) == [1, 2, 8, 24, 69, 199, 577, 1664, 4804]
    arms = papers_grid(block, 100_000)
    assert len(arms) == 63
    assert sorted({eta for _, eta in arms})[0] == pytest.approx(1 / (2 * math.sqrt(100_000)))
    assert 1.05 * math.sqrt(63 * math.log(63) / 21) > 3.7  # what is printed: no probability
    bandit = PaperBORL(5, 3, horizon=100_000).restarts
    assert bandit.gamma == 1.0
    for _ in range(21):
        bandit.earned = bandit.block if bandit.arm == 5 else 0.0
        bandit.start_over(NOBODY)
        assert bandit.chances == pytest.approx(np.full(63, 1 / 63), abs=1e-15)


def test_the_reduced_grid_has_eight_arms_and_can_hardly_learn_either() -> None:
    arms = reduced_grid(4804, 100_000)
    assert [w for w, _ in arms] == [199, 199, 577, 577, 1664, 1664, 4804, 4804]
    assert [eta for _, eta in arms[::2]] == [0.0] * 4
    assert [eta for _, eta in arms[1::2]] == [math.sqrt(w / 100_000) for w, _ in arms[1::2]]
    assert BORL(5, 3, horizon=100_000).restarts.gamma == pytest.approx(
        1.05 * math.sqrt(8 * math.log(8) / 21)
    )


def test_the_weights_after_two_blocks_match_the_calculation_by_hand() -> None:
    """n = 2, B = 4: β = √(ln 2 / 8) = .29435, α = .95 β = .27963, γ = 2.1 β = .61814.

    Arm 0 earns 6 of 10: q = ((β + .6)/.5, β/.5) = (1.78871, .58871); e^{1.2 α} = 1.39873, so
    p_0 = .38186 · 1.39873/2.39873 + .30907 = .53174. Arm 1 earns 2 of 10: q_0 += β/.53174,
    q_1 += (β + .2)/.46826, that is (2.34227, 1.64442), and p_0 = .51857.
    """
    bandit = Exp3P(arms=2, blocks=4, block=10)
    assert (bandit.alpha, bandit.beta, bandit.gamma) == pytest.approx(
        (0.27963, 0.29435, 0.61814), abs=1e-5
    )
    bandit.start_over(NOBODY)
    assert bandit.chances.tolist() == [0.5, 0.5]
    bandit.arm = 0
    rewards = np.array([1.0, 0.5, 1.0, 0.0, 1.0, 0.5, 0.0, 1.0, 0.5, 0.5])
    bandit.watch(None, None, rewards, 4)
    bandit.watch(None, None, rewards, 10)  # the log has grown
    bandit.start_over(NOBODY)
    assert bandit.scores == pytest.approx([1.78871, 0.58871], abs=1e-5)
    assert bandit.chances == pytest.approx([0.53174, 0.46826], abs=1e-5)
    bandit.arm = 1
    bandit.log_emptied()
    bandit.watch(None, None, np.array([1.0, 1.0]), 2)
    bandit.start_over(NOBODY)
    assert bandit.scores == pytest.approx([2.34227, 1.64442], abs=1e-5)
    assert bandit.chances == pytest.approx([0.51857, 0.48143], abs=1e-5)


@pytest.mark.parametrize("beta", [0.01, 0.3, 1.0])
@pytest.mark.parametrize("p", [1e-3, 0.1, 0.5, 1.0])
@pytest.mark.parametrize("g", [0.0, 0.3, 1.0])
def test_the_update_satisfies_the_inequality_of_the_proof(g: float, p: float, beta: float) -> None:
    """The estimate's mean is g + β/p, and E exp(β g - β · estimate) <= 1."""
    mean = moment = 0.0
    for drawn, probability in ((0, p), (1, 1 - p)):
        bandit = Exp3P(arms=2, blocks=4, block=1)
        bandit.beta, bandit.arm = beta, drawn
        bandit.chances = np.array([p, max(1 - p, 1e-9)])
        bandit.update(g)
        mean += probability * bandit.scores[0]
        moment += probability * math.exp(beta * (g - bandit.scores[0]))
    assert mean == pytest.approx(g + beta / p)
    assert moment <= 1.0 + 1e-12


@pytest.mark.parametrize("arms", [2, 3, 8, 63, 1000])
def test_the_rates_satisfy_the_conditions_of_the_proof(arms: int) -> None:
    """From B = 5.15² n ln n on: α times an estimate is at most 1."""
    blocks = math.ceil(5.15**2 * arms * math.log(arms))
    for b in (blocks, 10 * blocks, 1000 * blocks):
        bandit = Exp3P(arms=arms, blocks=b, block=1)
        assert bandit.gamma <= 0.5
        assert (1 + bandit.beta) * arms * bandit.alpha <= bandit.gamma
        assert bandit.alpha * (1 + bandit.beta) / (bandit.gamma / arms) <= 1.0


def test_the_better_arm_is_chosen_after_enough_blocks() -> None:
    bandit, rng = Exp3P(arms=3, blocks=4000, block=1, seed=1), np.random.default_rng(0)
    chosen = []
    for _ in range(4000):
        bandit.earned = float(rng.random() < (0.2, 0.8, 0.5)[bandit.arm])
        bandit.start_over(NOBODY)
        chosen.append(bandit.arm)
    assert bandit.chances[1] > 0.9
    assert np.mean(np.array(chosen[2000:]) == 1) > 0.85


def test_arms_are_drawn_with_their_probabilities() -> None:
    bandit = Exp3P(arms=3, blocks=10, block=1)
    bandit.scores = np.array([0.0, 5.0, 2.0])
    drawn = np.zeros(3)
    for _ in range(30_000):
        bandit.draw()
        drawn[bandit.arm] += 1
    assert drawn / 30_000 == pytest.approx(bandit.chances, abs=0.01)


def test_each_block_equals_a_new_swucrl2_cw_with_the_drawn_arm() -> None:
    problem = sm.problems.random_mdp(3, 2, seed=5)
    agent = BORL(3, 2, horizon=900, delta=0.1, arms=SHORT, seed=4)
    rng, state, block = np.random.default_rng(1), 0, agent.restarts.block
    arms, base = [], None
    for t in range(1, 5 * block):
        action = agent.act(state)
        if t % block == 1:
            arm = agent.restarts.arm
            arms.append(arm)
            window, widening = SHORT[arm]
            base = Episodic(
                3, 2, memory=Window(window), restarts=Never(), episodes=Multiples(window),
                plausible=Widened(0.1, horizon=900, widening=widening),
            )  # fmt: skip
        assert base is not None
        assert base.act(state) == action
        assert base.gain == agent.gain
        target = int(rng.choice(3, p=problem.transitions[state, action]))
        step = (state, action, float(rng.random() < problem.rewards[state, action]), target)
        agent.observe(*step)
        base.observe(*step)
        state = target
    assert len(set(arms)) == 3


def test_an_episode_ends_at_multiples_of_the_window_within_a_block() -> None:
    agent = BORL(2, 1, horizon=1000, arms=[(7, 0.0)])
    starts = set()
    for t in range(1, 100):
        agent.act(0)
        starts.add(agent.episode_start)
        assert agent.t - agent.episode_start < 7
        agent.observe(0, 0, 1.0, 0)
        assert agent.t == t + 1
    assert {7, 14, 21, 91, 98} <= starts
    rule = Multiples(10)
    assert [rule.end(t, 101) for t in (101, 109, 110, 111, 120)] == [110, 110, 120, 120, 130]


def test_the_bandit_receives_the_rewards_of_its_blocks() -> None:
    agent, rng, state = BORL(3, 2, horizon=3000, arms=SHORT, seed=9), np.random.default_rng(0), 0
    bandit = agent.restarts
    assert bandit.block == int(3 * 3 ** (2 / 3) * math.sqrt(6000)) == 483
    expected = Exp3P(arms=3, blocks=7, block=483, seed=9)
    expected.start_over(NOBODY)
    for t in range(1, 3000):
        action = agent.act(state)
        assert bandit.arm == expected.arm
        reward, target = float(rng.random()), int(rng.integers(3))
        agent.observe(state, action, reward, target)
        expected.earned += reward
        state = target
        if t % 483 == 0:
            expected.start_over(NOBODY)
    assert expected.scores.tolist() == bandit.scores.tolist()
    assert agent.visits.sum() == min(agent.memory.window, (agent.t - 1) % 483)


@pytest.mark.parametrize(
    "make",
    [
        lambda: BORL(3, 2, horizon=1000),
        lambda: BORL(70, 1, horizon=300, arms=SHORT),
        lambda: PaperBORL(2, 2, horizon=1000, delta=0.2),
    ],
    ids=["reduced", "lists", "full"],
)  # fmt: skip
def test_it_passes_the_agent_contract(make: Any) -> None:
    sm.check_agent(make, steps=1200, memory_steps=3000, strict=True)


def test_states_and_actions_can_be_added_during_a_run() -> None:
    agent = BORL(2, 2, horizon=500, arms=SHORT)
    for t in range(60):
        agent.observe(t % 2, agent.act(t % 2), 0.5, (t + 1) % 2)
    agent.grow(3, 3)
    for t in range(200):
        agent.observe(t % 3, agent.act(t % 3), 0.5, (t + 1) % 3)
    assert agent.t == 261
    assert agent.visits.shape == (3, 3)


def test_bad_arms_and_horizons_are_rejected() -> None:
    bad: list[Any] = [[], [(0, 0.1)], [(5, -0.1)], [(5, math.nan)], [5], 5, [(5, 0.1, 2)], "ab"]
    for arms in bad:
        with pytest.raises(InvalidParameter, match="arms"):
            BORL(3, 2, horizon=100, arms=arms)
    for horizon in (0, 2, 1.5, None, True):
        for cls in (BORL, PaperBORL):
            with pytest.raises(InvalidParameter, match="horizon"):
                cls(3, 2, horizon=horizon)  # type: ignore[arg-type]
    for n_states in (1, 2, 3):
        assert len(PaperBORL(n_states, 1, horizon=3).windows) == 4
