"""IMED-RL against a slow literal version, its divergence against its definition, and bandits."""

from __future__ import annotations

import math
from typing import Any, cast

import numpy as np
import pytest
from scipy.optimize import minimize, minimize_scalar

import switchmdp as sm
from switchmdp.agents import IMEDRL, policy_agent
from switchmdp.agents.imed_rl import IDLE, MOST_SWEEPS, PRECISION, TIE, least_divergence
from switchmdp.compiled import JIT, interpreting


class Literal:
    """The pseudo-code with dense arrays; a step that is not quoted there follows `imed_rl`."""

    def __init__(self, n_states: int, n_actions: int) -> None:
        self.visits = np.zeros((n_states, n_actions))
        self.rewards = np.full((n_states, n_actions), 0.5)
        self.moves = np.full((n_states, n_actions, n_states), 1.0 / n_states)
        self.bias = np.zeros(n_states)

    def values(self) -> Any:
        n = self.visits + 1
        return self.rewards / n + (self.moves / n[..., None]) @ self.bias

    def act(self, state: int) -> int:
        n = self.visits[state]
        if (n == 0).any():
            return int(np.argmin(n))
        values = self.values()[state]
        level, top = values.max(), 1.0 + self.bias.max()
        divergence = [
            0.0 if value >= level - TIE else self.divergence(state, action, level, top)
            for action, value in enumerate(values)
        ]
        return int(np.argmin(n * divergence + np.log(n)))

    def divergence(self, state: int, action: int, level: float, top: float) -> float:
        n = self.visits[state, action] + 1
        mean, row = self.rewards[state, action] / n, self.moves[state, action] / n
        masses = np.concatenate([(1 - mean) * row, mean * row])
        values = np.concatenate([self.bias, self.bias + 1.0])
        call, most = cast("Any", minimize_scalar), (1.0 - 1e-12) / (top - level)
        solution = call(
            lambda x: -(masses * np.log1p(-(values - level) * x)).sum(),
            bounds=(0.0, most), method="bounded", options={"xatol": 1e-10},
        )  # fmt: skip
        return float(-solution.fun)

    def observe(self, state: int, action: int, reward: float, next_state: int) -> None:
        self.visits[state, action] += 1
        self.rewards[state, action] += reward
        self.moves[state, action, next_state] += 1
        most = np.maximum(1, self.visits.max(axis=1, keepdims=True))
        skeleton = self.visits >= np.log(most) ** 2
        for _ in range(MOST_SWEEPS):
            best = np.where(skeleton, self.values(), -np.inf).max(axis=1)
            change = best - self.bias
            bias = IDLE * self.bias + (1 - IDLE) * best
            self.bias = bias - bias.min()
            if np.ptp(change) < PRECISION:
                break


def test_it_chooses_the_same_actions_as_the_literal_version() -> None:
    mdp = sm.problems.random_mdp(3, 3, seed=2)
    rows, means = np.asarray(mdp.transitions), np.asarray(mdp.rewards)
    agent, literal, rng, state = IMEDRL(3, 3), Literal(3, 3), np.random.default_rng(0), 0
    for _ in range(250):
        action = agent.act(state)
        assert action == literal.act(state)
        target = int(rng.choice(3, p=rows[state, action]))
        reward = float(rng.random() < means[state, action])
        agent.observe(state, action, reward, target)
        literal.observe(state, action, reward, target)
        state = target
    assert agent.bias == pytest.approx(literal.bias, abs=1e-10)


def test_the_divergence_is_the_least_over_all_laws_with_a_high_enough_mean() -> None:
    rng = np.random.default_rng(1)
    for _ in range(5):
        row, bias, mean = rng.dirichlet(np.ones(3)), rng.random(3) * 2, rng.uniform(0.1, 0.9)
        masses = np.concatenate([(1 - mean) * row, mean * row])
        values = np.concatenate([bias, bias + 1.0])
        level, top = masses @ values + 0.3 * (values.max() - masses @ values), values.max()
        call = cast("Any", minimize)
        solution = call(
            lambda q, p=masses: (p * np.log(p / q)).sum(), masses, method="SLSQP",
            bounds=[(1e-9, 1.0)] * 6, options={"ftol": 1e-14, "maxiter": 500},
            constraints=[
                {"type": "eq", "fun": lambda q: q.sum() - 1.0},
                {"type": "ineq", "fun": lambda q, v=values, g=level: q @ v - g},
            ],
        )  # fmt: skip
        assert solution.success
        divergence = least_divergence(row, bias, mean, level, top)
        assert divergence == pytest.approx(solution.fun, rel=1e-5)


def test_with_one_state_it_is_the_bandit_algorithm_imed() -> None:
    """H(a) = N kl(µ̂_a, µ̂*) + log N, with means that include the virtual visit."""
    agent, rng, means = IMEDRL(1, 4), np.random.default_rng(3), (0.2, 0.5, 0.6, 0.4)
    visits, sums = np.zeros(4), np.full(4, 0.5)

    def kl(p: float, q: float) -> float:
        return p * math.log(p / q) + (1 - p) * math.log((1 - p) / (1 - q))

    for _ in range(500):
        if (visits == 0).any():
            expected = int(np.argmin(visits))
        else:
            estimates = sums / (visits + 1)
            best = estimates.max()
            indices = [n * kl(p, best) + math.log(n)
                       for n, p in zip(visits, estimates, strict=True)]  # fmt: skip
            expected = int(np.argmin(indices))
        action = agent.act(0)
        assert action == expected
        reward = float(rng.random() < means[action])
        agent.observe(0, action, reward, 0)
        visits[action] += 1
        sums[action] += reward


def test_act_does_not_change_the_agent() -> None:
    agent = IMEDRL(4, 3)
    sm.simulate(agent, sm.SwitchingMDP([sm.problems.random_mdp(4, 3, seed=1)]), 300, seed=0)
    bias = agent.bias.copy()
    assert [agent.act(2) for _ in range(5)] == [agent.act(2)] * 5
    assert agent.bias.tolist() == bias.tolist()


def called_in_any_order(seed: int) -> list[Any]:
    """The results of calls from Python, in an order that does not occur in simulations."""
    rng, agent = np.random.default_rng(seed), IMEDRL(4, 3)
    problem = sm.problems.random_mdp(4, 3, seed=seed)
    results: list[Any] = []
    for _ in range(200):
        state, action, target = int(rng.integers(4)), int(rng.integers(3)), int(rng.integers(4))
        agent.observe(state, action, float(rng.random()), target)
        results += [agent.act(target), agent.act(state), agent.act(target)]
        if rng.random() < 0.05:
            record = sm.simulate(agent, problem, 5, seed=int(rng.integers(9)), experienced=True)
            results.append(agent.act(record.final_state))
    agent.grow(5, 4)
    results += [agent.act(s) for s in range(5)]
    agent.observe(4, 3, 1.0, 4)
    return [*results, agent.act(4), agent.t, *agent.bias.tolist()]


@pytest.mark.skipif(not JIT, reason="machine code is switched off")
def test_machine_code_called_from_python_equals_interpreted_calls(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(policy_agent, "PATIENT_SECONDS", 0.0)
    by_machine = called_in_any_order(3)
    with interpreting():
        assert called_in_any_order(3) == by_machine
    agent = IMEDRL(4, 3)
    agent.observe(0, 0, 1.0, 2)
    known = policy_agent.call_state_of(agent)
    assert known.code is not None
    assert known.ahead == (2, 2, agent.act(2))
    agent.grow(4, 4)
    assert policy_agent.call_state_of(agent).ahead == (-1, -1, -1)


def test_it_has_less_regret_than_ucrl2_without_changes() -> None:
    problem = sm.SwitchingMDP([sm.problems.random_mdp(4, 3, seed=7)])
    regrets = [
        sm.simulate(make(4, 3), problem, 20_000, seed=0).pseudo_regret[-1]
        for make in (IMEDRL, sm.agents.UCRL2)
    ]
    assert regrets[0] < regrets[1] / 5


def test_it_passes_the_agent_contract() -> None:
    mask = np.ones((4, 3), bool)
    mask[::2, 1] = False
    sm.check_agent(lambda: IMEDRL(4, 3, available=mask), steps=600, strict=True)
