"""Wide-range numbers against fractions, and the most likely tree against all trees."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from typing import Any

import numpy as np

from switchmdp.compiled import interpreted
from switchmdp.mdp import MDP
from switchmdp.planning import wide, wide_iteration

UNIT = Fraction(1, 2**53)


def exactly(x: Any) -> Fraction:
    scale = Fraction(2**512)
    return Fraction(x[0]) * (scale ** int(x[1]))


def numbers(rng: np.random.Generator) -> Any:
    """A number of any size, or one close to another of the same block."""
    m = float(rng.choice([-1.0, 1.0]) * 2.0 ** rng.uniform(-256, 256))
    return wide.wide(m, int(rng.integers(-4, 5)))


def test_one_operation_rounds_once() -> None:
    rng = np.random.default_rng(0)
    for _ in range(3000):
        x, y = numbers(rng), numbers(rng)
        a, b = exactly(x), exactly(y)
        for actual, right in (
            (wide.product(x, y), a * b),
            (wide.quotient(x, y), a / b),
            (wide.total(x, y), a + b),
        ):
            assert abs(exactly(actual) - right) <= UNIT * abs(right)
            assert 2.0**-256 <= abs(actual[0]) < 2.0**256
        assert wide.exceeds(x, y) == (a > b)


def test_the_rounding_error_of_a_sum_is_exact() -> None:
    rng = np.random.default_rng(1)
    for _ in range(3000):
        x, y = numbers(rng), numbers(rng)
        actual, lost = wide.total_and_error(x, y)
        assert exactly(actual) + exactly(lost) == exactly(x) + exactly(y)


def test_every_double_is_exact_and_larger_numbers_are_clipped() -> None:
    for x in (0.0, 1.0, -0.1, 5e-324, 1e-310, 2.0**-1022, 1.7976931348623157e308, -1e300):
        assert wide.narrow(wide.wide(x)) == x
        assert exactly(wide.wide(x)) == Fraction(x)
    assert wide.narrow((1.0, 40)) == wide.LARGEST
    assert wide.narrow((-1.0, 40)) == -wide.LARGEST
    assert wide.narrow((1.0, -40)) == 0.0


def likelihood(rows: Any, root: int, onward: Any) -> float:
    """log2 of the product of the transitions chosen, -inf where they do not lead to the root."""
    for s in range(len(rows)):
        for _ in range(len(rows)):
            s = s if s == root else onward[s]
        if s != root:
            return -math.inf
    return sum(math.log2(rows[s][t]) for s, t in enumerate(onward) if s != root)


def test_the_most_likely_tree_is_the_best_of_all_trees() -> None:
    for seed in range(300):
        rng = np.random.default_rng(seed)
        n_states = int(rng.integers(2, 6))
        rows: list[dict[int, float]] = []
        for s in range(n_states):
            weights = 2.0 ** -rng.integers(0, 30, n_states).astype(float)
            weights[(s + 1) % n_states] += 2.0**-31
            targets = [t for t in range(n_states) if t == (s + 1) % n_states or rng.random() < 0.7]
            total = weights[targets].sum()
            rows.append({t: float(weights[t] / total) for t in targets})
        mdp = MDP([[row] for row in rows], np.zeros((n_states, 1)))
        root = int(rng.integers(n_states))
        tree = interpreted(wide_iteration.likeliest_tree)(mdp.model, mdp.pairs.starts[:-1], root)
        choices = [[-1] if s == root else [t for t in rows[s] if t != s] for s in range(n_states)]
        best = max(likelihood(rows, root, onward) for onward in itertools.product(*choices))
        assert abs(likelihood(rows, root, tree.tolist()) - best) <= 1e-9, seed
        order = interpreted(wide.order_by_depth)(tree, root).tolist()
        assert all(order.index(tree[s]) < order.index(s) for s in range(n_states) if s != root)
