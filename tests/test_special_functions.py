"""log Γ and ratios of Γ against the standard library's."""

from __future__ import annotations

import math

import pytest

from switchmdp.compiled import interpreted
from switchmdp.special_functions import TABLE, log_gamma, log_rising


@pytest.mark.parametrize(
    "x", [1e-3, 0.2, 0.5, 1.0, 2.0, 3.0, 17.0, 4095.0, 4096.0, 1e6, 1.5, 2.25, 9.999, 1234.5]
)
def test_log_gamma_is_that_of_the_standard_library(x: float) -> None:
    assert log_gamma(x) == pytest.approx(math.lgamma(x), rel=1e-11, abs=1e-10)


def test_table_and_series_meet() -> None:
    below, above = (float(log_gamma(float(x))) for x in (TABLE - 1, TABLE))
    assert above - below == pytest.approx(math.log(TABLE - 1), rel=1e-9)


def test_interpreted_and_machine_code_agree_to_the_bit() -> None:
    for x in (1.0, 1.125, 8.75, 4000.0, 5000.0, 1e5 + 0.1):
        assert log_gamma(x) == interpreted(log_gamma)(x)


@pytest.mark.parametrize(
    "x", [1e-3, 0.2, 0.5, 1.0, 2.0, 3.0, 17.0, 4095.0, 4096.0, 1e6, 1.5, 2.25, 9.999, 1234.5]
)
@pytest.mark.parametrize("n", [0.0, 0.25, 1.0, 7.0, 5000.0])
def test_a_ratio_of_gamma_functions_is_that_of_the_standard_library(x: float, n: float) -> None:
    expected = math.lgamma(x + n) - math.lgamma(x)
    assert log_rising(x, n) == pytest.approx(expected, rel=1e-9, abs=1e-8)
