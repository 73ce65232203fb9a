"""A slow, literal SW-UCRL: Figure 1 line by line, on lists, recounting its whole history.

It shares no code with the package but the two verbs.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest


class LiteralSWUCRL:
    """Figure 1 of Gajane, Ortner and Auer (2018)."""

    def __init__(self, n_states: int, n_actions: int, window: int, delta: float) -> None:
        self.n_states, self.n_actions = n_states, n_actions
        self.W, self.delta = window, delta
        self.t = 1
        self.history: list[tuple[int, int, float, int]] = []  # s_τ, a_τ, r_τ, s_{τ+1}, τ = 1, 2, …
        self.policy: list[int] = []
        self.policies: list[tuple[int, ...]] = []
        self.gain = 0.0

    def act(self, state: int) -> int:
        if not self.policy or not (
            self.v[state][self.policy[state]] < max(1, self.N[state][self.policy[state]])
        ):
            self.initialise_episode()
            self.compute_policy()
        return self.policy[state]

    def observe(self, state: int, action: int, reward: float, next_state: int) -> None:
        self.history.append((state, action, reward, next_state))
        if action == self.policy[state]:
            self.v[state][action] += 1
        self.t += 1

    def initialise_episode(self) -> None:
        S, A = range(self.n_states), range(self.n_actions)
        self.t_k = self.t
        self.v = [[0 for _ in A] for _ in S]
        self.N = [[0 for _ in A] for _ in S]
        self.P = [[[0 for _ in S] for _ in A] for _ in S]
        rewards: list[list[list[float]]] = [[[] for _ in A] for _ in S]
        for tau in range(1, self.t_k):
            if self.t_k - self.W <= tau < self.t_k:
                s, a, r, after = self.history[tau - 1]
                self.N[s][a] += 1
                self.P[s][a][after] += 1
                rewards[s][a].append(r)
        self.R = [[math.fsum(rewards[s][a]) for a in A] for s in S]

    def compute_policy(self) -> None:
        S, A = self.n_states, self.n_actions
        t, delta = self.t_k, self.delta
        r_tilde = [[0.0] * A for _ in range(S)]
        d = [[0.0] * A for _ in range(S)]
        p_hat = [[[0.0] * S for _ in range(A)] for _ in range(S)]
        for s in range(S):
            for a in range(A):
                n = max(1, self.N[s][a])
                radius = math.sqrt(7 * math.log(2 * S * A * t / delta) / (2 * n))
                r_tilde[s][a] = min(1.0, self.R[s][a] / n + radius)
                d[s][a] = math.sqrt(14 * S * math.log(2 * A * t / delta) / n)
                p_hat[s][a] = [count / n for count in self.P[s][a]]
        u = [0.0] * S
        while True:
            by_value = sorted(range(S), key=lambda s: (u[s], s))
            new, policy = [0.0] * S, [0] * S
            for s in range(S):
                values = []
                for a in range(A):
                    p = self.inner_maximum(p_hat[s][a], d[s][a], by_value, self.N[s][a])
                    values.append(r_tilde[s][a] + sum(p[x] * u[x] for x in range(S)))
                new[s] = max(values)
                policy[s] = values.index(new[s])
            change = [new[s] - u[s] for s in range(S)]
            if max(change) - min(change) < 1 / math.sqrt(t):
                break
            u = [value - min(new) for value in new]
        self.policy = policy
        self.policies.append(tuple(policy))
        self.gain = (max(change) + min(change)) / 2

    @staticmethod
    def inner_maximum(
        p_hat: list[float], d: float, by_value: list[int], visits: int
    ) -> list[float]:
        """Jaksch, Ortner and Auer (2010), Figure 2."""
        best = by_value[-1]
        if visits == 0:
            return [1.0 if s == best else 0.0 for s in range(len(p_hat))]
        p = list(p_hat)
        p[best] = min(1.0, p_hat[best] + d / 2)
        excess = p[best] - p_hat[best]
        for s in by_value:
            if s != best:
                taken = min(excess, p[s])
                p[s] -= taken
                excess -= taken
        return p


@pytest.fixture
def literal_sw_ucrl() -> Callable[[int, int, int, float], LiteralSWUCRL]:
    return LiteralSWUCRL
