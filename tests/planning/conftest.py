"""An exact oracle: an MDP in rational arithmetic, and policy iteration on it.

The stored doubles are taken as the exact rationals that they are, each row divided by its exact
sum. Linear systems are solved by Gaussian elimination on fractions, so nothing is ever rounded.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction

import pytest

from switchmdp.mdp import MDP

Row = dict[int, Fraction]
Action = tuple[Fraction, Row]

ZERO, ONE = Fraction(0), Fraction(1)


class Exact:
    """One MDP; policies are lists of positions among a state's available actions."""

    def __init__(self, mdp: MDP) -> None:
        self.states = range(mdp.n_states)
        self.actions: list[list[Action]] = []
        self.names = [mdp.pairs.at(s) for s in self.states]
        means = mdp.rewards.tolist()
        for s in self.states:
            here = []
            for a in self.names[s]:
                targets, probabilities = mdp.successors(s, a)
                weights = [Fraction(p) for p in probabilities]
                total = sum(weights, ZERO)
                row = {t: w / total for t, w in zip(targets, weights, strict=True)}
                here.append((Fraction(means[s][a]), row))
            self.actions.append(here)

    def position(self, policy: Iterable[int]) -> list[int]:
        """The policy that takes these named actions."""
        return [self.names[s].index(int(a)) for s, a in enumerate(policy)]

    def chain(self, policy: Sequence[int]) -> list[Action]:
        return [self.actions[s][policy[s]] for s in self.states]

    def policy_gains(self, policy: Sequence[int]) -> list[Fraction]:
        """The gain from each state: from closed classes, and the probabilities to end in each."""
        chain = self.chain(policy)
        gains: dict[int, Fraction] = {}
        for members in closed_classes(chain):
            gain, _ = gain_and_bias(chain, sorted(members))
            gains |= dict.fromkeys(members, gain)
        open_states = [s for s in self.states if s not in gains]
        matrix = [[-chain[s][1].get(t, ZERO) for t in open_states] for s in open_states]
        for i, row in enumerate(matrix):
            row[i] += ONE
        flow = [
            sum((p * gains[t] for t, p in chain[s][1].items() if t in gains), ZERO)
            for s in open_states
        ]
        gains |= dict(zip(open_states, solve(matrix, flow), strict=True))
        return [gains[s] for s in self.states]

    def optimal_gain(self, policy: Sequence[int] | None = None) -> tuple[Fraction, Fraction]:
        """(ρ*, span of an optimal bias) of a communicating MDP, by policy iteration from here."""
        chosen = [0 for _ in self.states] if policy is None else list(policy)
        while True:
            classes = closed_classes(self.chain(chosen))
            if len(classes) > 1:
                gains = self.policy_gains(chosen)
                self._lead_to(max(classes, key=lambda c: gains[min(c)]), chosen)
                classes = closed_classes(self.chain(chosen))
            inside = min(classes[0])
            order = [inside, *(s for s in self.states if s != inside)]
            gain, bias = gain_and_bias(self.chain(chosen), order)
            if not self._improve(chosen, bias):
                return gain, max(bias.values()) - min(bias.values())

    def diameter(self) -> Fraction:
        """The largest least expected hitting time, by policy iteration for each goal."""
        largest = ZERO
        for goal in self.states:
            chosen = [0 for _ in self.states]
            self._lead_to({goal}, chosen)
            others = [s for s in self.states if s != goal]
            while True:
                chain = self.chain(chosen)
                matrix = [[-chain[s][1].get(t, ZERO) for t in others] for s in others]
                for i, row in enumerate(matrix):
                    row[i] += ONE
                times = dict(zip(others, solve(matrix, [ONE] * len(others)), strict=True))
                times[goal] = ZERO
                if not self._improve(chosen, times, goal):
                    break
            largest = max(largest, *times.values())
        return largest

    def _improve(self, chosen: list[int], value: dict[int, Fraction], goal: int = -1) -> bool:
        """Switch where an action is strictly better: a larger value, or a shorter hitting time."""
        changed = False
        for s in self.states:
            onward = [
                (reward if goal < 0 else ONE) + sum((p * value[t] for t, p in row.items()), ZERO)
                for reward, row in self.actions[s]
            ]
            best = max(onward) if goal < 0 else min(onward)
            if s != goal and best != onward[chosen[s]]:
                chosen[s] = onward.index(best)
                changed = True
        return changed

    def _lead_to(self, members: set[int], chosen: list[int]) -> None:
        """Give all other states an action that can lead towards these."""
        seen = sorted(members)
        for target in seen:
            for s in self.states:
                for i, (_, row) in enumerate(self.actions[s]):
                    if s not in seen and target in row:
                        chosen[s] = i
                        seen.append(s)


def closed_classes(chain: Sequence[Action]) -> list[set[int]]:
    """The minimal sets of states that a chain cannot leave."""
    reach = []
    for s in range(len(chain)):
        seen = [s]
        for x in seen:
            seen.extend(t for t in chain[x][1] if t not in seen)
        reach.append(set(seen))
    closed: list[set[int]] = []
    for s, reached in enumerate(reach):
        if all(s in reach[t] for t in reached) and reached not in closed:
            closed.append(reached)
    return closed


def gain_and_bias(
    chain: Sequence[Action], order: Sequence[int]
) -> tuple[Fraction, dict[int, Fraction]]:
    """g and h with g + h = r + P h and h(order[0]) = 0, on states with one closed class."""
    matrix = [[-chain[s][1].get(t, ZERO) for t in order] for s in order]
    for i, row in enumerate(matrix):
        row[i] += ONE
        row[0] = ONE  # the unknown h(order[0]) makes room for g
    solution = solve(matrix, [chain[s][0] for s in order])
    return solution[0], dict(zip(order, [ZERO, *solution[1:]], strict=True))


def solve(matrix: Sequence[Sequence[Fraction]], right: Sequence[Fraction]) -> list[Fraction]:
    """Gaussian elimination; the matrix is regular."""
    n = len(right)
    rows = [[*row, x] for row, x in zip(matrix, right, strict=True)]
    for c in range(n):
        pivot = next(i for i in range(c, n) if rows[i][c])
        rows[c], rows[pivot] = rows[pivot], rows[c]
        for i in range(c + 1, n):
            if rows[i][c]:
                factor = rows[i][c] / rows[c][c]
                rows[i] = [
                    x - factor * y if y else x for x, y in zip(rows[i], rows[c], strict=True)
                ]
    solution = [ZERO] * n
    for i in range(n - 1, -1, -1):
        known = sum((rows[i][j] * solution[j] for j in range(i + 1, n)), ZERO)
        solution[i] = (rows[i][n] - known) / rows[i][i]
    return solution


@pytest.fixture
def exact() -> type[Exact]:
    """The exact oracle."""
    return Exact
