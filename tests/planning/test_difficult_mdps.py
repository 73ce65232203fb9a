"""Gains and diameters of difficult MDPs against arithmetic with a thousand digits.

Chains whose policies take up to 10³⁰⁰ steps, blocks that are hardly linked, periods, transient
states, probabilities down to the smallest double, near-ties between actions, up to 300 states.

The oracle reads the stored doubles as exact numbers, each row divided by its sum, and eliminates
states one by one without subtraction, in decimals of 1000 digits and exponents without limit. Its
own relative error is below 10⁻⁹⁰⁰; comparisons allow for 10⁻⁴⁵⁰. Policy iteration in the same
arithmetic makes sure of the optimum.
"""

from __future__ import annotations

import decimal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from decimal import Decimal

import numpy as np
import pytest
from numpy.typing import NDArray

from switchmdp.errors import PrecisionNotReached
from switchmdp.mdp import MDP
from switchmdp.planning import diameter, hitting_times, optimal_gain, policy_gain

Generator = np.random.Generator
Family = Callable[[Generator, int], MDP]
Rates = dict[int, Decimal]

ZERO, ONE = Decimal(0), Decimal(1)
NEGLIGIBLE = Decimal("1e-450")
TOLERANCE = Decimal("1e-9")
LARGEST = Decimal(sys.float_info.max)


@contextmanager
def many_digits() -> Iterator[None]:
    with decimal.localcontext() as context:
        context.prec = 1000
        context.Emax, context.Emin = decimal.MAX_EMAX, decimal.MIN_EMIN
        yield


class Oracle:
    """An MDP by the rates q(s' | s, a), s' ≠ s; policies are lists of positions among actions."""

    def __init__(self, mdp: MDP) -> None:
        self.states = range(mdp.n_states)
        self.names = [mdp.pairs.at(s) for s in self.states]
        self.rates: list[list[Rates]] = []
        means = mdp.rewards.tolist()
        self.means = [[Decimal(means[s][a]) for a in self.names[s]] for s in self.states]
        for s in self.states:
            here = []
            for a in self.names[s]:
                targets, probabilities = mdp.successors(s, a)
                weights = [Decimal(float(p)) for p in probabilities]
                total = sum(weights, ZERO)
                row = dict(zip(map(int, targets), weights, strict=True))
                here.append({t: w / total for t, w in row.items() if t != s})
            self.rates.append(here)

    def position(self, policy: Sequence[int] | NDArray[np.int64]) -> list[int]:
        """The policy that takes these named actions."""
        return [self.names[s].index(int(a)) for s, a in enumerate(policy)]

    def closed_classes(self, policy: Sequence[int]) -> list[set[int]]:
        """The sets of states that a policy can't leave."""
        rows = [self.rates[s][policy[s]] for s in self.states]
        closed: list[set[int]] = []
        settled: set[int] = set()
        for s in self.states:
            if s in settled:
                continue
            reached = _reached(rows, s)
            if all(s in _reached(rows, t) for t in reached):
                closed.append(reached)
                settled |= reached
            else:
                settled.add(s)
        return closed

    def gains(self, policy: Sequence[int]) -> list[Decimal]:
        """The gain of a policy from each state."""
        roots = [min(members) for members in self.closed_classes(policy)]
        reduced = Reduced(self, policy, roots)
        gains = {s: reduced.reward[s] / reduced.time[s] for s in roots}
        for n in reversed(reduced.order):
            gains[n] = (
                sum((q * gains[t] for t, q in reduced.rows[n].items()), ZERO) / reduced.out[n]
            )
        return [gains[s] for s in self.states]

    def optimal_gain(self, policy: Sequence[int]) -> Decimal:
        """ρ* of a communicating MDP, by policy iteration from here."""
        chosen = list(policy)
        while True:
            classes = self.closed_classes(chosen)
            gains = self.gains(chosen)
            members = max(classes, key=lambda c: gains[min(c)])
            if len(classes) > 1:
                self.lead_to(members, chosen)
            root = min(members)
            reduced = Reduced(self, chosen, [root])
            gain = reduced.reward[root] / reduced.time[root]
            cost = {s: reduced.reward[s] - gain * reduced.time[s] for s in self.states}
            if not self.improve(chosen, reduced.values(cost), self.means):
                return gain

    def hitting_time(self, goal: int) -> Decimal:
        """The largest of the least expected hitting times of a goal."""
        chosen = [0 for _ in self.states]
        self.lead_to({goal}, chosen)
        costs = [[-ONE for _ in here] for here in self.rates]
        while True:
            reduced = Reduced(self, chosen, [goal])
            value = reduced.values({s: -reduced.time[s] for s in self.states})
            if not self.improve(chosen, value, costs, goal):
                return -min(value.values())

    def improve(
        self, chosen: list[int], value: Rates, rewards: list[list[Decimal]], goal: int = -1
    ) -> bool:
        """Switch where an action is clearly better."""
        changed = False
        for s in self.states:
            if s == goal or len(self.rates[s]) == 1:
                continue
            onward = [
                reward + sum((q * (value[t] - value[s]) for t, q in row.items()), ZERO)
                for reward, row in zip(rewards[s], self.rates[s], strict=True)
            ]
            best = max(range(len(onward)), key=lambda i: onward[i])
            if onward[best] > onward[chosen[s]] + NEGLIGIBLE:
                chosen[s] = best
                changed = True
        return changed

    def lead_to(self, members: set[int], chosen: list[int]) -> None:
        """Give all other states an action that can lead towards these."""
        sources: dict[int, list[tuple[int, int]]] = {s: [] for s in self.states}
        for s in self.states:
            for i, row in enumerate(self.rates[s]):
                for t in row:
                    sources[t].append((s, i))
        order, seen = sorted(members), set(members)
        for target in order:
            for s, i in sources[target]:
                if s not in seen:
                    chosen[s] = i
                    seen.add(s)
                    order.append(s)


def _reached(rows: Sequence[Rates], s: int) -> set[int]:
    order, seen = [s], {s}
    for x in order:
        for t in rows[x]:
            if t not in seen:
                seen.add(t)
                order.append(t)
    return seen


class Reduced:
    """A policy's chain with all states but the roots eliminated, those with few links first."""

    def __init__(self, oracle: Oracle, policy: Sequence[int], roots: Sequence[int]) -> None:
        states = oracle.states
        self.rows = [dict(oracle.rates[s][policy[s]]) for s in states]
        self.reward = {s: oracle.means[s][policy[s]] for s in states}
        self.time = dict.fromkeys(states, ONE)
        self.out: Rates = {}
        self.order: list[int] = []
        self.roots = roots
        sources: list[set[int]] = [set() for _ in states]
        for s in states:
            for t in self.rows[s]:
                sources[t].add(s)
        left = set(states) - set(roots)
        while left:
            n = min(left, key=lambda s: len(sources[s]) * len(self.rows[s]))
            left.remove(n)
            self.order.append(n)
            self.out[n] = sum(self.rows[n].values(), ZERO)
            for t in self.rows[n]:
                sources[t].discard(n)
            for i in sources[n]:
                weight = self.rows[i].pop(n) / self.out[n]
                for t, q in self.rows[n].items():
                    if t != i:
                        self.rows[i][t] = self.rows[i].get(t, ZERO) + weight * q
                        sources[t].add(i)
                self.reward[i] += weight * self.reward[n]
                self.time[i] += weight * self.time[n]

    def values(self, cost: Rates) -> Rates:
        """h with h = 0 at the root and Σ q (h - h') = cost elsewhere."""
        value = dict.fromkeys(self.roots, ZERO)
        for n in reversed(self.order):
            onward = sum((q * value[t] for t, q in self.rows[n].items()), ZERO)
            value[n] = (cost[n] + onward) / self.out[n]
        return value


def steps(n_states: int, moves: Sequence[Sequence[dict[int, float]]], rng: Generator) -> MDP:
    """An MDP by successor lists, with random rewards."""
    return MDP(moves, rng.random((n_states, max(map(len, moves)))))


def spread(*moves: tuple[int, float]) -> dict[int, float]:
    """A row; what is left of 1 goes to the first target."""
    row: dict[int, float] = {}
    for target, p in moves[1:]:
        row[target] = row.get(target, 0.0) + p
    row[moves[0][0]] = row.get(moves[0][0], 0.0) + 1.0 - sum(p for _, p in moves[1:])
    return row


def falling_back(rng: Generator, n_states: int) -> MDP:
    """Right with a small probability, else left; or right with a large one, else to the start."""
    small, large = 10.0 ** -rng.uniform(1, 12), 1.0 - 10.0 ** -rng.uniform(0.7, 3)
    last = n_states - 1
    return steps(n_states, [
        [spread((max(s - 1, 0), 0.0), (min(s + 1, last), small)),
         spread((0, 0.0), (min(s + 1, last), large))]
        for s in range(n_states)
    ], rng)  # fmt: skip


def uphill(rng: Generator, n_states: int) -> MDP:
    """The top is up to 10²⁵⁰ steps away under every policy."""
    hardest = min(40.0, 250.0 / n_states)
    last = n_states - 1
    up = 10.0 ** -rng.uniform(0.01, hardest, (n_states, 2))
    return steps(n_states, [
        [spread((max(s - 1, 0), 0.0), (min(s + 1, last), p)) for p in up[s]]
        for s in range(n_states)
    ], rng)  # fmt: skip


def ladder(rng: Generator, n_states: int) -> MDP:
    """The first action climbs with a tiny probability, the second surely; the top pays."""
    last, p = n_states - 1, 10.0 ** -rng.uniform(1, 300)
    moves = [
        [spread((max(s - 1, 0), 0.0), (min(s + 1, last), p)), {min(s + 1, last): 1.0}]
        for s in range(n_states)
    ]
    return MDP(moves, [[0.0, 0.0]] * last + [[1.0, 1.0]])


def hardly_linked(rng: Generator, n_states: int) -> MDP:
    """Blocks that mix inside, linked in a ring with probabilities down to 1e-200."""
    size = int(rng.integers(1, 5))
    n_states = size * max(2, min(n_states, 40) // size)
    rarest = float(rng.choice([6.0, 12.0, 30.0, 200.0]))
    moves = []
    for s in range(n_states):
        here, there = s // size * size, (s // size + 1) * size % n_states
        block = []
        for _ in range(2):
            weights = rng.dirichlet(np.ones(size))
            row = {here + i: float(w) for i, w in enumerate(weights)}
            if s == here or rng.random() < 0.5:
                link = 10.0 ** -rng.uniform(1, rarest)
                row = {t: w * (1.0 - link) for t, w in row.items()}
                row[there + int(rng.integers(size))] = link
            block.append(row)
        moves.append(block)
    return steps(n_states, moves, rng)


def nearly_tied(rng: Generator, n_states: int) -> MDP:
    """Blocks that every action leaves with almost the same tiny probability."""
    size = int(rng.integers(1, 4))
    link = 10.0 ** -rng.uniform(4, 150)
    moves = []
    for s in range(2 * size):
        here, there = s // size * size, (s // size + 1) * size % (2 * size)
        block = []
        for _ in range(3):
            leave = link * (1.0 + 10.0 ** -rng.uniform(5, 15) * rng.random())
            weights = rng.dirichlet(np.ones(size)) * (1.0 - leave)
            row = {here + i: float(w) for i, w in enumerate(weights)}
            row[there + int(rng.integers(size))] = leave
            block.append(row)
        moves.append(block)
    return steps(2 * size, moves, rng)


def ring(rng: Generator, n_states: int) -> MDP:
    """A periodic ring, with chords of any probability from the second action."""
    moves = []
    for s in range(n_states):
        onward, chord = (s + 1) % n_states, int(rng.integers(n_states))
        p = 0.5 if rng.random() < 0.5 else 10.0 ** -rng.uniform(0, 323)
        moves.append([{onward: 1.0}, spread((onward, 0.0), (chord, p))])
    return steps(n_states, moves, rng)


def tiny_probabilities(rng: Generator, n_states: int) -> MDP:
    """Every state is reached from every other, with any probability down to subnormal ones."""
    n_states = min(n_states, 12)
    rarest = float(rng.choice([20.0, 100.0, 290.0, 323.0]))
    moves = []
    for s in range(n_states):
        block = []
        for a in range(2):
            others = [t for t in range(n_states) if t != s and (a == 0 or rng.random() < 0.5)]
            tiny = [(t, float(10.0 ** -rng.uniform(1, rarest))) for t in others]
            block.append(spread((int(rng.integers(n_states)), 0.0), *tiny))
        moves.append(block)
    return steps(n_states, moves, rng)


def transient_tail(rng: Generator, n_states: int) -> MDP:
    """A tail that one action leaves by tiny steps; its end goes back in, or stays for good."""
    last = n_states - 1
    rarest = min(100.0, 280.0 / n_states)
    moves = []
    for s in range(n_states):
        p = 10.0 ** -rng.uniform(0.1, rarest)
        stay = int(rng.choice([s, max(s - 1, 0), 0]))
        second = {s: 1.0} if rng.random() < 0.5 else {min(s + 1, last): 1.0}
        moves.append([spread((stay, 0.0), (min(s + 1, last), p)), second])
    moves[-1] = [{0: 1.0}, {last: 1.0}]
    return steps(n_states, moves, rng)


FAMILIES: list[Family] = [
    falling_back, uphill, ladder, hardly_linked, nearly_tied, ring, tiny_probabilities,
    transient_tail,
]  # fmt: skip


def size(rng: Generator) -> int:
    """Mostly few states; one in a hundred MDPs has some hundreds."""
    if rng.random() < 0.01:
        return int(rng.integers(100, 301))
    return int(rng.integers(2, 9 if rng.random() < 0.95 else 41))


def check_gain(mdp: MDP, oracle: Oracle) -> bool:
    """Whether the optimal gain was certified; the bracket must hold in either case."""
    try:
        plan = optimal_gain(mdp)
        lower, upper, policy = plan.lower, plan.upper, oracle.position(plan.policy)
        assert np.isfinite(plan.bias).all()
        assert upper - lower <= TOLERANCE
    except PrecisionNotReached as error:
        lower, upper, policy = error.lower, error.upper, [0 for _ in oracle.states]
        plan = None
    gain = oracle.optimal_gain(policy)
    assert Decimal(lower) - NEGLIGIBLE <= gain <= Decimal(upper) + NEGLIGIBLE, (lower, upper)
    if plan is not None:
        assert max(oracle.gains(policy)) >= gain - TOLERANCE
    return plan is not None


def check_policy_gain(mdp: MDP, oracle: Oracle, rng: Generator) -> None:
    """The gains of a random policy have a relative error of at most 1e-9."""
    policy = [int(rng.choice(names)) for names in oracle.names]
    gains = policy_gain(mdp, policy)
    for value, right in zip(gains.tolist(), oracle.gains(oracle.position(policy)), strict=True):
        assert abs(Decimal(value) - right) <= TOLERANCE * right + Decimal("1e-300"), (value, right)


def check_diameter(mdp: MDP, oracle: Oracle, rng: Generator) -> bool:
    """Whether the diameter was certified, or is beyond doubles; the bracket must hold.

    Of many states only some are tried as goals, and all where these are all nearer.
    """
    try:
        actual = diameter(mdp)
        lower, upper, certified = actual.lower, actual.upper, True
        assert lower <= actual <= upper <= lower * (1 + 1.0000001e-9)
    except PrecisionNotReached as error:
        lower, upper, certified = error.lower, error.upper, False
    goals = list(oracle.states)
    if len(goals) > 12:
        estimates = hitting_times.solve_each_goal(mdp.model, len(goals) <= 128, 1e-9)[:, 0]
        goals = [0, goals[-1], int(np.nanargmax(estimates)), int(rng.integers(len(goals)))]
    right = max(map(oracle.hitting_time, goals))
    if right < lower:
        right = max(map(oracle.hitting_time, oracle.states))
    assert right <= Decimal(upper) * (1 + NEGLIGIBLE), (lower, upper, right)
    assert right >= Decimal(lower) * (1 - NEGLIGIBLE), (lower, upper, right)
    return certified or right > LARGEST


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("count", [25, pytest.param(1250, marks=pytest.mark.soak)])
def test_gains_and_diameters_of_difficult_mdps_are_certified(family: Family, count: int) -> None:
    uncertified: list[tuple[int, str]] = []
    for seed in range(count):
        rng = np.random.default_rng([FAMILIES.index(family), seed])
        mdp = family(rng, size(rng))
        with many_digits():
            oracle = Oracle(mdp)
            check_policy_gain(mdp, oracle, rng)
            if not check_gain(mdp, oracle):
                uncertified.append((seed, "gain"))
            if not check_diameter(mdp, oracle, rng):
                uncertified.append((seed, "diameter"))
    assert len(uncertified) <= count // 100, uncertified
