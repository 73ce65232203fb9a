"""The loop: accounting against a recount, pieces against the whole, bad input rejected."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import switchmdp as sm
from switchmdp.errors import (
    InvalidAction,
    InvalidParameter,
    InvalidProblem,
    InvalidState,
    Mismatch,
)

MAKERS: dict[str, Any] = {
    "sw-ucrl": lambda p: sm.agents.SWUCRL(5, 3, window=300, delta=0.1),
    "ucrl2-r": lambda p: sm.agents.UCRL2R(5, 3, changes=2, delta=0.1),
    "oracle": lambda p: sm.agents.OracleUCRL2(5, 3, change_points=p.change_points, delta=0.1),
    "omniscient": sm.agents.Omniscient,
    "random": lambda p: sm.agents.Random(5, 3),
}


@pytest.fixture(scope="module")
def problem() -> sm.SwitchingMDP:
    configurations = [
        sm.problems.random_mdp(5, 3, seed=s, law=sm.Beta(share=0.4)) for s in range(4)
    ]
    return sm.SwitchingMDP(configurations, [300, 301, 1500])


def same(a: sm.Record, b: sm.Record) -> bool:
    pairs: list[tuple[Any, Any]] = [(a.times, b.times), (a.regret, b.regret)]
    pairs.append((a.pseudo_regret, b.pseudo_regret))
    for x, y in ((a.trajectory, b.trajectory), (a.episodes, b.episodes)):
        assert (x is None) == (y is None)
        if x is not None and y is not None:
            pairs += [(getattr(x, n), getattr(y, n)) for n in vars(x)]
    return all(np.array_equal(x, y) for x, y in pairs) and a.position == b.position


@pytest.mark.parametrize("name", MAKERS)
@pytest.mark.parametrize("interpreted", [False, True])
def test_regret_is_the_sum_of_gains_less_the_sum_of_rewards(
    name: str, interpreted: bool, problem: sm.SwitchingMDP
) -> None:
    agent = MAKERS[name](problem)
    record = sm.simulate(
        agent, problem, 2000, seed=3, every=123, trajectory=True, interpreted=interpreted
    )
    assert record.trajectory is not None
    gains = sm.optimal_gains(problem)
    steps = np.arange(1, 2001)
    active = np.searchsorted(problem.change_points, steps, side="right")
    means = np.array(
        [
            problem.configuration(int(i)).rewards[s, a]
            for i, s, a in zip(
                active, record.trajectory.states, record.trajectory.actions, strict=True
            )
        ]
    )
    assert record.times.tolist() == [*range(123, 2000, 123), 2000]
    regret = np.cumsum(gains[active] - record.trajectory.rewards)[record.times - 1]
    pseudo = np.cumsum(gains[active] - means)[record.times - 1]
    assert np.allclose(record.regret, regret, rtol=0, atol=1e-9)
    assert np.allclose(record.pseudo_regret, pseudo, rtol=0, atol=1e-9)
    assert record.total_reward == pytest.approx(record.trajectory.rewards.sum(), abs=1e-9)
    assert record.horizon == 2000


@pytest.mark.parametrize("name", MAKERS)
def test_machine_code_and_interpreted_runs_are_equal(name: str, problem: sm.SwitchingMDP) -> None:
    options: dict[str, Any] = {"seed": 1, "initial_state": 2, "episodes": True, "trajectory": True}
    fast = sm.simulate(MAKERS[name](problem), problem, 1700, **options)
    slow = sm.simulate(MAKERS[name](problem), problem, 1700, interpreted=True, **options)
    assert same(fast, slow)


@pytest.mark.parametrize("name", MAKERS)
@pytest.mark.parametrize("cuts", [[1], [299, 300, 301], [7, 8, 1000, 1499, 1500], [2000]])
def test_pieces_equal_the_whole_bit_for_bit(
    name: str, cuts: list[int], problem: sm.SwitchingMDP
) -> None:
    options: dict[str, Any] = {"episodes": True, "trajectory": True}
    whole = sm.simulate(MAKERS[name](problem), problem, 2000, seed=9, every=50, **options)
    agent, record = MAKERS[name](problem), None
    for stop in [*cuts, 2000]:
        record = sm.simulate(agent, problem, stop, 9, every=50, resume=record, **options)
    assert record is not None
    assert same(whole, record)


def test_a_run_in_timed_pieces_equals_a_whole_run(
    problem: sm.SwitchingMDP, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = 3_000_000
    whole = sm.simulate(MAKERS["sw-ucrl"](problem), problem, steps, seed=2, every=7777)
    monkeypatch.setattr("switchmdp.concurrency.INTERVAL", 0.0005)
    monkeypatch.setattr("switchmdp.simulation.PROGRESS_SECONDS", 0.0)
    seen: list[int] = []
    pieces = sm.simulate(
        MAKERS["sw-ucrl"](problem), problem, steps, seed=2, every=7777,
        progress=lambda done, horizon: seen.append(done),
    )  # fmt: skip
    assert same(whole, pieces)
    assert len(seen) > 2
    assert seen == sorted(seen)
    assert seen[-1] == steps
    assert any(done % 7777 for done in seen[:-1])  # cut between grid points too


def test_agents_get_the_same_draws_at_the_same_step(problem: sm.SwitchingMDP) -> None:
    """Two agents that do the same meet the same; the agent's own draws disturb nothing."""

    class First:
        n_states, n_actions = 5, 3

        def act(self, state: int) -> int:
            return 0

        def observe(self, *step: Any) -> None: ...

    class DrawsAndIgnores(First):
        def reseed(self, seed: np.random.SeedSequence) -> None:
            self.rng = np.random.default_rng(seed)

        def act(self, state: int) -> int:
            self.rng.random()
            return 0

    a = sm.simulate(First(), problem, 500, seed=4, trajectory=True)
    b = sm.simulate(DrawsAndIgnores(), problem, 500, seed=4, trajectory=True)
    other = sm.simulate(First(), problem, 500, seed=5, trajectory=True)
    assert same(a, b)
    assert not same(a, other)


def test_episodes_record_start_length_gain_sweeps_and_policy(problem: sm.SwitchingMDP) -> None:
    agent = sm.agents.SWUCRL(5, 3, window=300, delta=0.1)
    record = sm.simulate(agent, problem, 2000, seed=0, episodes=True, trajectory=True)
    episodes = record.episodes
    assert episodes is not None
    assert record.trajectory is not None
    assert len(episodes) == agent.episode
    assert episodes.start[0] == 1
    assert (episodes.start[1:] == episodes.start[:-1] + episodes.length[:-1]).all()
    assert episodes.gain[-1] == agent.gain
    assert episodes.sweeps[-1] == agent.sweeps
    assert episodes.policy[-1].tolist() == agent.policy.tolist()
    which = np.searchsorted(episodes.start, np.arange(1, 2001), side="right") - 1
    assert (episodes.policy[which, record.trajectory.states] == record.trajectory.actions).all()


@pytest.mark.parametrize("interpreted", [False, True])
def test_episodes_record_restarts(problem: sm.SwitchingMDP, interpreted: bool) -> None:
    agent = sm.agents.UCRL2RW(5, 3, period=300)
    record = sm.simulate(agent, problem, 1000, seed=0, episodes=True, interpreted=interpreted)
    assert record.episodes is not None
    assert record.episodes.restarts.tolist() == [301, 601, 901]
    never = sm.simulate(sm.agents.UCRL2(5, 3), problem, 1000, seed=0, episodes=True)
    assert never.episodes is not None
    assert never.episodes.restarts.tolist() == []


def test_the_omniscient_agent_earns_the_optimal_gain() -> None:
    problem = sm.problems.random_switching(4, 2, changes=2, horizon=200_000, seed=1)
    record = sm.simulate(sm.agents.Omniscient(problem), problem, 200_000, seed=1)
    assert abs(record.pseudo_regret[-1]) < 600
    random = sm.simulate(sm.agents.Random(4, 2), problem, 200_000, seed=1)
    assert random.pseudo_regret[-1] > 10_000


def test_a_change_after_the_horizon_has_no_effect() -> None:
    first, second = (sm.problems.random_mdp(5, 3, seed=s) for s in (0, 1))
    with_change = sm.SwitchingMDP([first, second], [1001])
    agents = [sm.agents.UCRL2(5, 3), sm.agents.UCRL2(5, 3)]
    a = sm.simulate(agents[0], with_change, 1000, seed=1, trajectory=True)
    b = sm.simulate(agents[1], first, 1000, seed=1, trajectory=True)
    assert np.array_equal(a.regret, b.regret)


def test_long_rows_are_sampled_by_their_probabilities() -> None:
    """Rows of more than sixteen successors are searched by halving."""
    mdp = sm.problems.random_mdp(40, 1, seed=3, law=sm.Deterministic())
    record = sm.simulate(sm.agents.Random(40, 1), mdp, 400_000, seed=0, trajectory=True)
    assert record.trajectory is not None
    states = record.trajectory.states.astype(int)
    moves = np.bincount(states[:-1] * 40 + states[1:], minlength=1600).reshape(40, 40)
    visits = moves.sum(axis=1, keepdims=True)
    p = mdp.transitions[:, 0, :]
    off = np.abs(moves - visits * p) / np.sqrt(visits * p * (1 - p) + 1)
    assert off.max() < 5.0


class TestRefusals:
    def test_bad_arguments_are_named(self, problem: sm.SwitchingMDP) -> None:
        agent = sm.agents.UCRL2(5, 3)
        for horizon in (0, -1, 1.5, True, "9", None):
            with pytest.raises(InvalidParameter, match="horizon"):
                sm.simulate(agent, problem, horizon)  # type: ignore[arg-type]
        with pytest.raises(InvalidParameter, match="seed"):
            sm.simulate(agent, problem, 10, seed=-1)
        with pytest.raises(InvalidState, match="initial_state"):
            sm.simulate(agent, problem, 10, initial_state=5)
        with pytest.raises(InvalidParameter, match="every"):
            sm.simulate(agent, problem, 10, every=0)
        with pytest.raises(InvalidParameter, match="problem"):
            sm.simulate(agent, "riverswim", 10)  # type: ignore[arg-type]
        with pytest.raises(InvalidParameter, match="act"):
            sm.simulate(object(), problem, 10)
        assert agent.t == 1

    def test_an_agent_of_another_size_is_rejected(self, problem: sm.SwitchingMDP) -> None:
        with pytest.raises(Mismatch, match="n_states = 4"):
            sm.simulate(sm.agents.UCRL2(4, 3), problem, 10)
        mask = np.ones((5, 3), bool)
        mask[2, 1] = False
        with pytest.raises(Mismatch, match="action 1 in state 2"):
            sm.simulate(sm.agents.UCRL2(5, 3, available=mask), problem, 10)

    @pytest.mark.parametrize("action", [-1, 3, 0.0, "0", None, True])
    def test_a_plain_agents_bad_action_is_rejected(
        self, action: Any, problem: sm.SwitchingMDP
    ) -> None:
        class Bad:
            def act(self, state: int) -> Any:
                return action

            def observe(self, *step: Any) -> None:
                raise AssertionError("never reached")

        with pytest.raises(InvalidAction):
            sm.simulate(Bad(), problem, 10)

    def test_resuming_with_another_problem_or_agent_is_rejected(
        self, problem: sm.SwitchingMDP
    ) -> None:
        agent = sm.agents.UCRL2(5, 3)
        record = sm.simulate(agent, problem, 100, every=10)
        other = sm.problems.random_switching(5, 3, changes=1, horizon=500, seed=8)
        with pytest.raises(Mismatch, match="another problem"):
            sm.simulate(agent, other, 200, resume=record)
        with pytest.raises(InvalidParameter, match="at least the 100 steps"):
            sm.simulate(agent, problem, 99, resume=record)
        with pytest.raises(Mismatch, match="every=10"):
            sm.simulate(agent, problem, 200, every=20, resume=record)
        with pytest.raises(Mismatch, match="trajectory"):
            sm.simulate(agent, problem, 200, trajectory=True, resume=record)
        with pytest.raises(Mismatch, match="the agent that made the record"):
            sm.simulate(sm.agents.UCRL2(5, 3), problem, 200, resume=record)
        assert agent.t == 101

    def test_an_agent_that_has_run_before_is_rejected_unless_experienced(
        self, problem: sm.SwitchingMDP
    ) -> None:
        agent = sm.agents.Omniscient(problem)
        sm.simulate(agent, problem, 100)
        with pytest.raises(Mismatch, match="already run 100 steps"):
            sm.simulate(agent, problem, 100)
        assert agent.t == 101
        assert sm.simulate(agent, problem, 100, experienced=True).horizon == 100

    def test_a_resumed_run_keeps_its_agent_its_seed_and_its_state(
        self, problem: sm.SwitchingMDP
    ) -> None:
        agent, other = sm.agents.UCRL2(5, 3), sm.agents.SWUCRL(5, 3, window=50)
        record = sm.simulate(agent, problem, 100, seed=4)
        sm.simulate(other, problem, 100, seed=4)
        with pytest.raises(Mismatch, match="made by UCRL2, not SWUCRL"):
            sm.simulate(other, problem, 200, resume=record)
        with pytest.raises(Mismatch, match="keeps its seed"):
            sm.simulate(agent, problem, 200, seed=5, resume=record)
        with pytest.raises(Mismatch, match="keeps its seed"):
            sm.simulate(agent, problem, 200, initial_state=1, resume=record)
        with pytest.raises(InvalidParameter, match="resume"):
            sm.simulate(agent, problem, 200, resume="record")  # type: ignore[arg-type]
        assert sm.simulate(agent, problem, 200, seed=4, resume=record).horizon == 200

    def test_an_invalid_agent_or_progress_is_rejected_before_the_run(
        self, problem: sm.SwitchingMDP
    ) -> None:
        with pytest.raises(InvalidParameter, match="agent"):
            sm.simulate(sm.agents.UCRL2, problem, 10)
        agent = sm.agents.UCRL2(5, 3)
        with pytest.raises(InvalidParameter, match="progress"):
            sm.simulate(agent, problem, 10, progress=True)  # type: ignore[arg-type]
        assert agent.t == 1


def test_a_number_that_is_too_large_is_told_the_limit() -> None:
    problem = sm.problems.random_mdp(2, 2, seed=0)
    for name in ("seed", "horizon"):
        arguments: dict[str, Any] = {"horizon": 10, name: 2**64}
        with pytest.raises(InvalidParameter, match=rf"{name} must be .* from [01] to 2\*\*62, got"):
            sm.simulate(sm.agents.Random(2, 2), problem, **arguments)
    with pytest.raises(InvalidParameter, match=r"window must be .* to 2"):
        sm.agents.SWUCRL(2, 2, window=2**64)
    with pytest.raises(InvalidProblem, match=r"below 2\*\*62"):
        sm.SwitchingMDP([problem] * 2, [2**64])
