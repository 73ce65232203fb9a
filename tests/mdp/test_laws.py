"""Reward laws: means and variances of many draws, and invalid arguments."""

from __future__ import annotations

import math
import pickle
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from switchmdp.compiled import jit
from switchmdp.errors import InvalidParameter
from switchmdp.mdp import Bernoulli, Beta, Deterministic, RewardLaw
from switchmdp.mdp.mdp import SMALLEST, draw_reward, law_from_code, variance_of
from switchmdp.randomness import stream

DRAWS = 200_000
LAWS = [Bernoulli(), Deterministic(), Beta(variance=0.01), Beta(share=0.3), Beta(share=0.95)]
CASES = [(law, mean) for law in LAWS for mean in (0.1, 0.5, 0.85)]
EXTREMES = [(law, mean) for law in LAWS if law.code != Beta(0.01).code for mean in (0.0, 1.0)]


@jit
def _fill(code: int, parameter: float, mean: float, words: Any, out: Any) -> None:
    for i in range(out.size):
        out[i] = draw_reward(code, parameter, mean, words)


def draws(law: RewardLaw, mean: float, seed: int = 0) -> NDArray[np.float64]:
    out = np.empty(DRAWS)
    _fill(law.code, law.parameter, mean, stream(seed), out)
    return out


@pytest.mark.parametrize(("law", "mean"), CASES, ids=repr)
def test_draws_lie_in_the_unit_interval_and_have_the_mean_and_variance(
    law: RewardLaw, mean: float
) -> None:
    sample = draws(law, mean)
    assert sample.min() >= 0.0
    assert sample.max() <= 1.0
    variance = variance_of(law, mean)
    assert abs(sample.mean() - mean) <= 5.0 * math.sqrt(variance / DRAWS) + 1e-12
    fourth = float(np.mean((sample - mean) ** 4))
    error = math.sqrt(max(0.0, fourth - variance**2) / DRAWS)
    assert abs(np.mean((sample - mean) ** 2) - variance) <= 5.0 * error + 1e-12


@pytest.mark.parametrize(("law", "mean"), EXTREMES, ids=repr)
def test_a_mean_of_0_or_1_is_always_drawn_itself(law: RewardLaw, mean: float) -> None:
    assert (draws(law, mean) == mean).all()
    assert variance_of(law, mean) == 0.0


@pytest.mark.parametrize("law", [Beta(variance=SMALLEST), Beta(share=SMALLEST)], ids=repr)
def test_rewards_of_the_smallest_variance_are_drawn_and_equal_the_mean(law: RewardLaw) -> None:
    assert np.allclose(draws(law, 0.5), 0.5, rtol=0.0, atol=1e-15)


def test_bernoulli_draws_are_0_and_1() -> None:
    assert set(draws(Bernoulli(), 0.3)) == {0.0, 1.0}


def test_deterministic_draws_are_the_mean() -> None:
    assert set(draws(Deterministic(), 0.3)) == {0.3}


@pytest.mark.parametrize(("law", "mean"), [(Beta(0.01), 0.2), (Beta(share=0.5), 0.7)], ids=repr)
def test_beta_draws_follow_the_beta_distribution(law: RewardLaw, mean: float) -> None:
    concentration = mean * (1.0 - mean) / variance_of(law, mean) - 1.0
    expected = stats.beta(concentration * mean, concentration * (1.0 - mean))
    assert stats.kstest(draws(law, mean, seed=3), expected.cdf).pvalue > 1e-3


def test_a_variance_just_below_the_largest_is_nearly_two_valued() -> None:
    sample = draws(Beta(share=1.0 - 2.0**-53), 0.3)
    assert set(sample) == {0.0, 1.0}
    assert abs(sample.mean() - 0.3) <= 5.0 * math.sqrt(0.21 / DRAWS)


def test_a_tiny_mean_is_drawn_without_nan() -> None:
    sample = draws(Beta(share=0.5), 1e-300)
    assert sample.max() < 1e-6
    assert np.isfinite(sample).all()


def test_interpreted_draws_are_those_of_machine_code() -> None:
    plain = getattr(draw_reward, "py_func", draw_reward)
    for law, mean in CASES:
        words = stream(5)
        with np.errstate(over="ignore"):
            one_by_one = [plain(law.code, law.parameter, mean, words) for _ in range(50)]
        assert one_by_one == draws(law, mean, seed=5)[:50].tolist()


def test_the_variance_of_a_law_is_the_one_asked_for() -> None:
    assert variance_of(Bernoulli(), 0.2) == pytest.approx(0.16)
    assert variance_of(Deterministic(), 0.2) == 0.0
    assert variance_of(Beta(variance=0.01), 0.2) == 0.01
    assert variance_of(Beta(share=0.25), 0.2) == pytest.approx(0.04)


def test_no_variance_exceeds_the_largest() -> None:
    for law, mean in CASES:
        assert variance_of(law, mean) <= law.largest_variance(mean)


@pytest.mark.parametrize(
    "value",
    [0, 0.25, 0.3, -0.1, 1e-301, 5e-324, math.nan, math.inf, True, "0.1", 1j, [0.1],
     np.array([0.1])],
)  # fmt: skip
def test_a_variance_outside_its_range_is_rejected_by_value(value: Any) -> None:
    with pytest.raises(InvalidParameter, match="variance must be") as caught:
        Beta(variance=value)
    assert repr(value) in str(caught.value)


@pytest.mark.parametrize("value", [0, 1, 1.0, -0.1, 5e-324, math.nan, True, "0.1", 1j, [0.1]])
def test_a_share_outside_its_range_is_rejected_by_value(value: Any) -> None:
    with pytest.raises(InvalidParameter, match="share must be") as caught:
        Beta(share=value)
    assert repr(value) in str(caught.value)


def test_beta_needs_either_a_variance_or_a_share() -> None:
    with pytest.raises(InvalidParameter, match="exactly one of"):
        Beta()
    with pytest.raises(InvalidParameter, match="exactly one of"):
        Beta(0.1, share=0.5)


@pytest.mark.parametrize("law", LAWS, ids=repr)
def test_a_law_survives_encoding_and_pickling(law: RewardLaw) -> None:
    assert law_from_code(law.code, law.parameter) == law
    assert pickle.loads(pickle.dumps(law)) == law
    assert eval(repr(law)) == law


def test_an_unknown_code_is_rejected() -> None:
    with pytest.raises(InvalidParameter, match="law code"):
        law_from_code(7, 0.0)


def test_laws_with_different_parameters_differ() -> None:
    assert Beta(share=0.1) != Beta(share=0.2)
    assert Beta(variance=0.1) != Beta(share=0.1)
    assert len({Bernoulli(), Deterministic(), Bernoulli()}) == 2
