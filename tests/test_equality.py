"""Results are equal if their content is, and can be searched for and hashed."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest

import switchmdp as sm
from switchmdp.equality import same


def results(seed: int = 0) -> list[Any]:
    problem = sm.problems.random_switching(4, 3, changes=1, horizon=40, seed=0)
    agent = sm.agents.UCRL2(4, 3)
    record = sm.simulate(agent, problem, 40, seed, episodes=True, trajectory=True, interpreted=True)
    estimate = problem.at(1 + 39 * (seed > 0))
    return [
        record, record.trajectory, record.episodes, sm.optimal_gain(estimate),
        sm.hardness(estimate),
    ]  # fmt: skip


@pytest.mark.parametrize("kind", range(5))
def test_results_with_the_same_content_are_equal(kind: int) -> None:
    one, other = results()[kind], results(1)[kind]
    twin = copy.deepcopy(one)
    assert one == twin == results()[kind]
    assert hash(one) == hash(twin)
    assert one != other
    assert one != "a result"
    assert twin in [other, one]
    assert len({one, twin, other}) == 2


def test_arrays_are_equal_if_their_shapes_and_entries_are() -> None:
    assert same(np.array([np.nan, 1.0]), np.array([np.nan, 1.0]))
    assert same(float("nan"), float("nan"))
    assert same({"a": [np.ones(2)]}, {"a": [np.ones(2)]})
    assert not same(np.ones(2), np.ones((1, 2)))
    assert not same(np.array([np.nan, 1.0]), np.array([np.nan, 2.0]))
    assert not same((np.ones(2),), [np.ones(2)])
    assert not same({"a": 1}, {"b": 1})
    assert not same(np.ones(2), None)
