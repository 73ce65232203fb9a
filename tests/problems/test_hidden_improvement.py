"""Hidden improvement: invisible under the old policy, with a much higher optimal gain."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import switchmdp as sm
from switchmdp import problems
from switchmdp.errors import InvalidParameter, InvalidProblem
from switchmdp.problems import HiddenImprovement


def bases() -> list[sm.MDP]:
    random = [problems.random_mdp(5, 3, seed=seed) for seed in range(10)]
    return [*random, problems.riverswim(), problems.garnet_mdp(15, 2, 2, seed=1)]


@pytest.mark.parametrize("base", bases())
@pytest.mark.parametrize("margin", [0.1, 0.5, 0.9])
def test_the_old_policy_keeps_its_gain_and_the_optimal_gain_increases(
    base: sm.MDP, margin: float
) -> None:
    problem = problems.changing(base, HiddenImprovement(margin), changes=1, horizon=100, seed=7)
    old, new = problem.configurations()
    plan = sm.optimal_gain(old)
    here = np.arange(old.n_states)
    assert np.array_equal(old.transitions[here, plan.policy], new.transitions[here, plan.policy])
    assert np.array_equal(old.rewards[here, plan.policy], new.rewards[here, plan.policy])
    assert sm.policy_gain(new, plan.policy).tolist() == sm.policy_gain(old, plan.policy).tolist()

    target = plan.gain + margin * (1.0 - plan.gain)
    best = sm.optimal_gain(new)
    assert best.lower >= target - 1e-9
    assert best.gain == pytest.approx(target, abs=1e-5)

    different = (old.transitions != new.transitions).any(axis=2) | (old.rewards != new.rewards)
    (s, a), *others = np.argwhere(different).tolist()
    assert not others
    assert a != plan.policy[s]
    assert best.policy[s] == a
    assert new.rewards[s, a] > old.rewards[s, a]


def test_an_agent_with_the_old_policy_observes_no_change() -> None:
    """With the same random numbers, no step of the old policy depends on the change."""
    changed = problems.random_changes(how=HiddenImprovement(), changes=1, horizon=4000, seed=3)
    policy = sm.optimal_gain(changed.configuration(0)).policy

    class Settled:
        n_states, n_actions = 5, 3

        def act(self, state: int) -> int:
            return int(policy[state])

        def observe(self, state: int, action: int, reward: float, next_state: int) -> None:
            pass

    stays = sm.SwitchingMDP([changed.configuration(0)])
    records = [
        sm.simulate(Settled(), p, horizon=4000, seed=0, trajectory=True) for p in (changed, stays)
    ]
    a, b = (run.trajectory for run in records)
    assert a is not None
    assert b is not None
    for part in ("states", "actions", "rewards"):
        assert np.array_equal(getattr(a, part), getattr(b, part))
    assert records[0].regret[-1] > records[1].regret[-1] + 100


def test_improvements_may_follow_one_another() -> None:
    problem = problems.random_changes(how=HiddenImprovement(0.5), changes=3, horizon=100, seed=0)
    missing = 1.0 - sm.optimal_gains(problem)
    assert missing[1:] / missing[:-1] == pytest.approx(0.5, abs=1e-4)


def test_an_error_is_raised_if_no_hidden_improvement_exists() -> None:
    for base in (problems.random_mdp(3, 1), sm.MDP([[[1.0], [1.0]]], [[1.0, 0.5]])):
        with pytest.raises(InvalidProblem, match="no hidden improvement"):
            problems.changing(base, HiddenImprovement(), changes=1, horizon=10)


@pytest.mark.parametrize("margin", [0.0, 0.95, -1, "0.5", None, True])
def test_the_margin_is_checked(margin: Any) -> None:
    with pytest.raises(InvalidParameter, match="margin"):
        HiddenImprovement(margin)
