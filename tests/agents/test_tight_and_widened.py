"""UCRL2B, UCRL3, KL-UCRL, SWUCRL2-CW and variation-aware UCRL: schedules, windows, composition."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import switchmdp as sm
from switchmdp.agents import AGENTS, Episodic, load
from switchmdp.agents.episodic import Multiples
from switchmdp.agents.variation_aware import Phases
from switchmdp.errors import InvalidParameter
from switchmdp.memory import Everything, Window
from switchmdp.plausible import Bernstein, KLBall, Varied
from switchmdp.restarts import GLR, NEVER, Calibrated, Cubic


def live(agent: Any, steps: int, seed: int) -> list[int]:
    """The steps at which episodes started."""
    rng = np.random.default_rng(seed)
    state = 0
    starts: list[int] = []
    for _ in range(steps):
        action = agent.act(state)
        if agent.episode_start not in starts[-1:]:
            starts.append(agent.episode_start)
        target = int(agent.n_states * rng.random())
        agent.observe(state, action, float(rng.random()), target)
        state = target
    return starts


# SWUCRL2-CW.


def test_an_episode_ends_at_multiples_of_the_window_and_has_at_least_one_step() -> None:
    starts = live(sm.agents.SWUCRL2CW(3, 2, horizon=500, window=7), 500, 0)
    assert set(range(7, 500, 7)) <= set(starts)
    assert [Multiples(7).end(t, 1) for t in (1, 6, 7, 8, 13, 14)] == [7, 7, 14, 14, 14, 21]


def test_with_a_window_of_one_every_step_is_an_episode() -> None:
    assert live(sm.agents.SWUCRL2CW(3, 2, horizon=50, window=1), 50, 0) == list(range(1, 51))


def test_the_window_and_the_widening_match_the_paper() -> None:
    sizes: dict[str, int] = {"horizon": 10_000, "n_states": 8, "n_actions": 4}
    assert sm.theory.cw_window(**sizes) == 800  # 4 · 2 · 100
    assert sm.theory.cw_window(reward_variation=1, transition_variation=2, **sizes) == 1200
    assert sm.theory.cw_widening(horizon=10_000, window=1200) == math.sqrt(0.12)
    widening = sm.theory.cw_widening(horizon=10_000, window=1200, transition_variation=2)
    assert widening == pytest.approx(0.6)
    assert sm.theory.cw_window(horizon=10, n_states=8, n_actions=4) == 10
    agent = sm.agents.SWUCRL2CW(8, 4, horizon=10_000)
    assert (agent.memory.window, agent.episodes.period) == (800, 800)
    assert agent.plausible.widening == math.sqrt(0.08)
    with pytest.raises(InvalidParameter, match="transition_variation"):
        sm.theory.cw_window(reward_variation=1, **sizes)


# Variation-aware UCRL.


def test_the_length_of_phases_follows_from_the_variation() -> None:
    rule, t, lengths = Phases(0.3), 1, []
    for _ in range(6):
        lengths.append(rule.after(t) - t)
        t = rule.after(t)
    assert lengths == [math.ceil(i * i / 0.09) for i in range(1, 7)]
    assert lengths[:3] == [12, 45, 100]


def test_phases_are_shorter_with_more_variation() -> None:
    assert Phases(0.0).after(1) == NEVER
    assert Phases(1e-12).after(1) == NEVER
    assert [Phases(5.0).after(t) for t in (1, 2, 5, 6, 7)] == [2, 3, 6, 8, 8]


def test_each_phase_restarts_with_its_own_confidence() -> None:
    agent = sm.agents.VariationAwareUCRL(
        3, 2, reward_variation=0.1, transition_variation=0.1, diameter=2, delta=0.1
    )
    starts = live(agent, 200, 0)
    begins = [1, 13, 58, 158]  # V = 0.3
    assert set(begins) <= set(starts)
    assert (agent.since, agent.plausible.phase, agent.restart_at) == (158, 158, 336)
    assert agent.visits.sum() == 201 - 158
    log = math.log(8 * 3 * 2 * (201 - 158 + 1) ** 3 / (0.1 / (2 * 158**2)))
    expected = math.sqrt(8 * log / max(1, agent.visits[0, 0]))
    assert agent.reward_radii[0, 0] == pytest.approx(expected, rel=1e-13)


@pytest.mark.parametrize("bad", [0.5, -1, math.nan, math.inf, "2", None])
def test_a_bad_diameter_is_rejected(bad: Any) -> None:
    with pytest.raises(InvalidParameter, match="diameter"):
        sm.agents.VariationAwareUCRL(3, 2, reward_variation=0, transition_variation=0, diameter=bad)


# The tighter sets.


@pytest.mark.parametrize("make", [sm.agents.UCRL2B, sm.agents.UCRL3, sm.agents.KLUCRL])
def test_a_window_limits_the_counts_and_enters_the_confidence(make: Any) -> None:
    assert isinstance(make(3, 2).memory, Everything)
    assert not make(3, 2).plausible.windowed
    agent = make(3, 2, window=50)
    assert agent.memory.window == 50
    assert agent.plausible.windowed


@pytest.mark.parametrize(
    ("name", "parameters"), [("ucrl2b", {}), ("ucrl3", {"window": 60_000}), ("kl-ucrl", {})]
)
def test_the_optimistic_gain_approaches_the_true_gain_from_above(
    name: str, parameters: dict[str, Any]
) -> None:
    """UCRL3 has a window as in other tests, so that it need not be compiled without one, too."""
    mdp = sm.problems.random_mdp(4, 2, seed=3)
    cls: Any = AGENTS[name]
    agent = cls(4, 2, delta=0.1, **parameters)
    sm.simulate(agent, sm.SwitchingMDP([mdp]), 60_000, seed=0)
    best = sm.optimal_gain(mdp).gain
    assert best <= agent.gain <= best + 0.15


def combined(n_states: int, plausible: Any, memory: Any, restarts: Any) -> Any:
    return Episodic(n_states, 3, memory=memory, plausible=plausible, restarts=restarts)


# Agents of other tests where they have the components: each combination is compiled for seconds.
COMBINATIONS: dict[str, Callable[[int], Any]] = {
    "Bernstein": lambda s: combined(s, Bernstein(0.1), Everything(), Calibrated()),
    "BernsteinLaplace": lambda s: sm.agents.UCRL3(s, 3, delta=0.1, window=200),
    "KLBall": lambda s: combined(s, KLBall(0.1, True), Window(200), Cubic(3)),
    "Widened": lambda s: sm.agents.BORL(s, 3, horizon=900, delta=0.1),
    "Varied": lambda s: combined(s, Varied(0.1), Window(200), GLR(0.1)),
}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.xdist_group(name)) for name in COMBINATIONS]
)
def test_a_plausible_set_combines_with_memories_and_restart_rules_compiled_and_interpreted(
    name: str,
) -> None:
    few = sm.problems.random_switching(4, 3, changes=2, horizon=900, seed=1)
    rng = np.random.default_rng(0)
    rows = rng.dirichlet(np.full(70, 0.05), (70, 3))
    many = sm.SwitchingMDP([sm.MDP(0.9 * rows + 0.1 / 70, rng.random((70, 3)))])
    for problem, horizon in ((few, 900), (many, 400)):
        runs = []
        for interpreted in (False, True):
            agent = COMBINATIONS[name](problem.n_states)
            runs.append(
                sm.simulate(agent, problem, horizon, 5, trajectory=True, interpreted=interpreted)
            )
        assert runs[0].trajectory is not None
        assert runs[1].trajectory is not None
        assert np.array_equal(runs[0].trajectory.actions, runs[1].trajectory.actions)
        assert np.array_equal(runs[0].regret, runs[1].regret)


# On disk.

MAKERS: dict[str, Any] = {
    "ucrl2b": lambda: sm.agents.UCRL2B(3, 2, window=40),
    "ucrl3": lambda: sm.agents.UCRL3(70, 2),
    "kl-ucrl": lambda: sm.agents.KLUCRL(3, 2),
    "swucrl2-cw": lambda: sm.agents.SWUCRL2CW(3, 2, horizon=500, window=30),
    "variation-aware": lambda: sm.agents.VariationAwareUCRL(
        3, 2, reward_variation=0.1, transition_variation=0.1, diameter=2
    ),
}


@pytest.mark.parametrize("name", MAKERS)
def test_a_loaded_agent_continues_as_if_never_saved(name: str, tmp_path: Path) -> None:
    agent = MAKERS[name]()
    live(agent, 150, 0)
    agent.save(tmp_path / "agent")
    loaded = load(tmp_path / "agent")
    assert live(loaded, 100, 1) == live(agent, 100, 1)
    assert loaded.policy.tolist() == agent.policy.tolist()
    assert loaded.gain == agent.gain


DAMAGE: dict[str, list[tuple[str, Any]]] = {
    "ucrl2b": [
        ("plausible.ranking.order", np.array([0, 1, 3])), ("plausible.ranking.sums", np.zeros(3)),
        ("plausible.work.value", np.zeros(4)), ("plausible.work.top", math.inf),
    ],
    "ucrl3": [("plausible.ranking.rank", np.zeros(70, np.int64)), ("plausible.delta", 2.0)],
    "kl-ucrl": [("plausible.work.value", np.zeros(4)), ("plausible.n_actions", 3)],
    "swucrl2-cw": [("episodes.period", 0), ("plausible.widening", -1.0), ("plausible.horizon", 0)],
    "variation-aware": [
        ("restarts.start", 7), ("plausible.phase", 0), ("plausible.reward_variation", math.nan),
    ],
}  # fmt: skip


@pytest.mark.parametrize("name", MAKERS)
def test_an_inconsistent_agent_is_not_written(name: str, tmp_path: Path) -> None:
    for path, value in DAMAGE[name]:
        agent = MAKERS[name]()
        live(agent, 60, 0)
        *parents, field = path.split(".")
        part = agent
        for parent in parents:
            part = getattr(part, parent)
        setattr(part, field, value)
        with pytest.raises(InvalidParameter, match="internally consistent"):
            agent.save(tmp_path / "agent")
