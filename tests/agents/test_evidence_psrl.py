"""EvidencePSRL: its parameters, and the effect of each component."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import switchmdp as sm
from switchmdp.agents import EvidencePSRL, Rooted
from switchmdp.errors import InvalidParameter
from switchmdp.problems.changes import patched

HORIZON = 20_000

pytestmark = pytest.mark.xdist_group("Posterior")


def test_it_needs_no_horizon_changes_diameter_or_window() -> None:
    parameters = set(inspect.signature(EvidencePSRL).parameters)
    assert parameters == {
        "n_states",
        "n_actions",
        "delta",
        "share",
        "independent",
        "seed",
        "available",
    }


def test_after_a_full_change_only_the_steps_since_the_change_are_kept() -> None:
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
    changed_policy = []
    for seed in range(5):
        with_probes, without = EvidencePSRL(2, 2, share=1.0), EvidencePSRL(2, 2, share=0.0)
        for agent in (with_probes, without):
            sm.simulate(agent, hidden(10_000), HORIZON, seed=seed)
        assert without.policy[0] == 0
        changed_policy.append(with_probes.policy[0] == 1)
    assert sum(changed_policy) >= 4


def test_a_probe_makes_the_agent_forget_only_the_changed_pair() -> None:
    agent = EvidencePSRL(2, 2, share=1.0)
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
        agent = EvidencePSRL(2, 2, share=2.0, seed=seed)
        record = sm.simulate(agent, hidden(3000), 9_000, seed=seed, episodes=True, **how)
        assert record.episodes is not None
        return (record.pseudo_regret[-1], agent.since, agent.visits.tolist(),
                record.episodes.restarts.tolist())  # fmt: skip

    whole = run(every=9_000)
    assert whole[-1], "no probe found anything: the test is blind"
    assert whole == run(every=1) == run(every=9_000, interpreted=True)


def test_a_loaded_agent_continues_as_if_never_saved(tmp_path: Path) -> None:
    problem = sm.problems.random_switching(5, 3, changes=2, horizon=4000, seed=2)
    agent = EvidencePSRL(5, 3, share=1.0)
    first = sm.simulate(agent, problem, 2000, seed=0)
    agent.save(tmp_path / "agent")
    loaded = sm.agents.load(tmp_path / "agent")
    here, there = (sm.simulate(a, problem, 2000, resume=first).regret for a in (agent, loaded))
    np.testing.assert_array_equal(here, there)


@pytest.mark.parametrize(
    "wrong",
    [{"delta": 0}, {"share": -0.1}, {"share": "often"}, {"seed": -1}],
)
def test_invalid_parameters_are_rejected(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidParameter):
        EvidencePSRL(5, 3, **wrong)


def test_an_episode_is_no_longer_than_the_root_of_the_steps_since_a_restart() -> None:
    rule = Rooted()
    assert [rule.end(t, 101) - t for t in (101, 102, 103, 109, 151)] == [1, 2, 2, 3, 8]
    agent = EvidencePSRL(5, 3)
    record = sm.simulate(agent, sm.problems.random_mdp(5, 3, seed=1), HORIZON, episodes=True)
    episodes = record.episodes
    assert episodes is not None
    longest = 1 + np.floor(np.sqrt(episodes.start - episodes.since))
    assert (episodes.length <= longest).all()
    assert (episodes.length == longest).mean() > 0.5


def test_rewards_may_depend_on_the_next_state(tmp_path: Path) -> None:
    agent = sm.agents.EvidencePSRL(3, 2, independent=False)
    assert not agent.restarts.independent
    assert sm.agents.EvidencePSRL(3, 2).restarts.independent
    agent.save(tmp_path / "agent")
    assert not sm.agents.load(tmp_path / "agent").restarts.independent
    with pytest.raises(InvalidParameter, match="independent must be True or False"):
        sm.agents.EvidencePSRL(3, 2, independent=1)  # type: ignore[arg-type]
