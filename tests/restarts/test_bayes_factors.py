"""log Γ against the standard library's."""

from __future__ import annotations

import math

import pytest

from switchmdp.compiled import interpreted
from switchmdp.restarts.bayes_factors import TABLE, log_gamma


@pytest.mark.parametrize("x", [1.0, 2.0, 3.0, 17.0, 4095.0, 4096.0, 1e6, 1.5, 2.25, 9.999, 1234.5])
def test_log_gamma_is_that_of_the_standard_library(x: float) -> None:
    assert log_gamma(x) == pytest.approx(math.lgamma(x), rel=1e-11, abs=1e-10)


def test_table_and_series_meet() -> None:
    below, above = (float(log_gamma(float(x))) for x in (TABLE - 1, TABLE))
    assert above - below == pytest.approx(math.log(TABLE - 1), rel=1e-9)


def test_interpreted_and_machine_code_agree_to_the_bit() -> None:
    for x in (1.0, 1.125, 8.75, 4000.0, 5000.0, 1e5 + 0.1):
        assert log_gamma(x) == interpreted(log_gamma)(x)
