"""Episode rules beyond doubling: the vanishing multiplicative rule."""

from __future__ import annotations

import math

import numpy as np
import pytest

import switchmdp as sm
from switchmdp.agents import Episodic, Vanishing
from switchmdp.memory import Everything
from switchmdp.plausible import L1Ball
from switchmdp.restarts import NEVER, Periodic


def vanishing(period: int = 10**9) -> Episodic:
    """By default no run reaches the restart; with `Never` it would be compiled a second time."""
    return Episodic(
        3, 2, memory=Everything(), plausible=L1Ball(0.1), restarts=Periodic(period),
        episodes=Vanishing(),
    )  # fmt: skip


@pytest.mark.parametrize(("t", "since"), [(1, 1), (2, 1), (1000, 1), (1999, 1000)])
def test_the_allowed_growth_of_visits_decreases_with_the_time_since_a_restart(
    t: int, since: int
) -> None:
    rule, n = Vanishing(), t - since + 1
    assert rule.end(t, since) == NEVER
    growth = math.sqrt(math.log(n) / n)
    for visits in (0, 1, 7, 500):
        assert rule.quota(visits) == max(1, math.ceil(growth * visits))


def test_no_pair_has_more_visits_in_an_episode_than_the_rule_allows() -> None:
    agent, rng, state = vanishing(), np.random.default_rng(0), 0
    start, before, growth = 0, np.zeros((3, 2), np.int64), 0.0
    for t in range(1, 5000):
        action = agent.act(state)
        if agent.episode_start != start:
            start, before = agent.episode_start, agent.visits.copy()
            growth = math.sqrt(math.log(t) / t)
        target = int(rng.integers(3))
        agent.observe(state, action, float(rng.random()), target)
        allowed = np.maximum(1, np.ceil(growth * before))
        assert (agent.visits - before <= allowed).all()
        state = target


def test_the_number_of_episodes_is_within_the_lemmas_bound() -> None:
    """At most 1 + log(N) / log(1 + f(n)) end because of one pair, each after its first visit."""
    agent, n = vanishing(), 20_000
    sm.simulate(agent, sm.SwitchingMDP([sm.problems.random_mdp(3, 2, seed=1)]), n, seed=0)
    growth = math.sqrt(math.log(n) / n)
    per_pair = 2.0 + np.log(np.maximum(1, agent.visits)) / math.log1p(growth)
    assert 100 < agent.episode_count <= per_pair.sum()


def test_the_rule_restarts_with_the_agent_and_equals_its_interpreted_version() -> None:
    problem = sm.problems.random_switching(3, 2, changes=1, horizon=600, seed=1)
    runs = [
        sm.simulate(vanishing(250), problem, 600, 5, interpreted=interpreted).regret
        for interpreted in (False, True)
    ]
    assert runs[0].tolist() == runs[1].tolist()
