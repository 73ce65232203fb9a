"""Planning on MDPs from Hypothesis, against exact rational arithmetic."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.planning.conftest import Exact
from tests.strategies import mdps, switching_mdps

import switchmdp as sm
from switchmdp.errors import PrecisionNotReached


def bracket(function: Any, mdp: sm.MDP) -> Any:
    """The result of a function, or its error if precision was not reached; both have a bracket."""
    try:
        return function(mdp)
    except PrecisionNotReached as error:
        return error


def contains(bracket: Any, value: Fraction) -> bool:
    """Whether a value lies between `lower` and `upper`."""
    return bool(
        bracket.lower <= value <= bracket.upper
    )  # Python compares floats and fractions exactly


@given(mdps())
def test_the_optimal_gain_lies_in_its_bracket_and_its_policy_attains_it(mdp: sm.MDP) -> None:
    oracle, plan = Exact(mdp), bracket(sm.optimal_gain, mdp)
    gain, _ = oracle.optimal_gain()
    assert contains(plan, gain)
    if not isinstance(plan, PrecisionNotReached):
        assert plan.lower <= plan.gain <= plan.upper
        attained = max(oracle.policy_gains(oracle.position(plan.policy)))
        assert gain - attained <= Fraction(plan.upper) - Fraction(plan.lower)


@given(mdps(), st.data())
def test_gains_of_policies_are_exact_to_nine_digits(mdp: sm.MDP, data: st.DataObject) -> None:
    policy = np.array([data.draw(st.sampled_from(mdp.pairs.at(s))) for s in range(mdp.n_states)])
    oracle = Exact(mdp)
    exact = oracle.policy_gains(oracle.position(policy))
    gains = sm.policy_gain(mdp, policy)
    for gain, truth in zip(gains.tolist(), exact, strict=True):
        assert gain == pytest.approx(float(truth), rel=1e-9, abs=1e-300)


@given(mdps())
def test_the_diameter_lies_in_its_bracket(mdp: sm.MDP) -> None:
    actual = bracket(sm.diameter, mdp)
    assert contains(actual, Exact(mdp).diameter() if mdp.n_states > 1 else Fraction(0))
    if not isinstance(actual, PrecisionNotReached):
        assert actual.lower <= actual <= actual.upper
        assert actual.upper - actual.lower <= 1e-9 * actual.upper


@given(problem=switching_mdps())
def test_problems_survive_being_stored(
    problem: sm.SwitchingMDP, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("stored") / "problem.npz"
    problem.save(path)
    loaded = sm.SwitchingMDP.load(path)
    assert loaded.change_points.tolist() == problem.change_points.tolist()
    assert loaded.law == problem.law
    for expected, actual in zip(problem.configurations(), loaded.configurations(), strict=True):
        assert expected.transitions.tobytes() == actual.transitions.tobytes()
        assert expected.rewards.tobytes() == actual.rewards.tobytes()
